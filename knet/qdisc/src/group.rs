// SPDX-License-Identifier: GPL-2.0
//! Root qdiscs that have a qdisc for each transmit queue of their device.
//!
//! The kernel gives each packet to its queue's qdisc, under that one's lock; the root is where they
//! are configured and counted together. As mq, whose functions in the kernel this uses.
//!
//! C header: [`include/net/sch_priv.h`](srctree/include/net/sch_priv.h).

use crate::{
    attr::Nest,
    bindings,
    device::Device,
    dump::Stats,
    qdisc::{eopnotsupp, errno, nest, share_ingress, with_lock, Kind, Locked, Qdisc, Registration},
    Extack, Message,
};
use core::{
    cell::UnsafeCell,
    marker::PhantomData,
    mem::{self, MaybeUninit},
    ptr::{self, NonNull},
};
use kernel::{
    error::{to_result, Result},
    prelude::*,
};

/// A qdisc for the root of a device with several transmit queues, each of which has a qdisc of the
/// kind that it says. Registered with a [`GroupKind`].
///
/// All of this runs under RTNL, and may sleep but for what is done with a queue's qdisc. The
/// queues' qdiscs stay as long as it does: they cannot be replaced.
pub trait Group: Sized + Send + 'static {
    /// The kind, as in `tc qdisc add … KIND`: 1 to 15 bytes.
    const KIND: &'static str;

    /// What each queue has.
    type Queue: Qdisc;

    /// The kind of that, which is registered.
    fn queue_kind() -> &'static Kind<Self::Queue>;

    /// Makes it from the options of `tc qdisc add`. Its queues have no qdiscs yet.
    ///
    /// It is moved where it stays, so it had better be small.
    fn new(on: &Queues<'_, Self>, options: Option<Nest<'_>>, extack: &mut Extack) -> Result<Self>;

    /// A queue has a qdisc, made without options, which no packet has come to.
    fn join(&mut self, number: u32, queue: &mut Self::Queue, on: &mut Locked<'_, Self::Queue>);

    /// Changes it and its queues: `tc qdisc change` or `replace`.
    fn change(
        &mut self,
        on: &mut Queues<'_, Self>,
        options: Option<Nest<'_>>,
        extack: &mut Extack,
    ) -> Result;

    /// Writes the options, so that they recreate it.
    fn dump(&mut self, message: &mut Message) -> Result;

    /// Writes its own statistics.
    fn dump_stats(&mut self, on: &mut Queues<'_, Self>, stats: &mut Stats) -> Result;

    /// Writes those of one queue, which is a class, beside those that the kernel writes.
    fn dump_queue_stats(
        queue: &mut Self::Queue,
        on: &mut Locked<'_, Self::Queue>,
        stats: &mut Stats,
    ) -> Result;
}

/// A group's queues, under RTNL.
pub struct Queues<'a, G: Group> {
    sch: NonNull<bindings::Qdisc>,
    _held: PhantomData<&'a ()>,
    _group: PhantomData<fn() -> G>,
}

impl<G: Group> Queues<'_, G> {
    /// # Safety
    ///
    /// `sch` must be a qdisc of the kind that `G` implements, valid for the lifetime of the result,
    /// and RTNL held.
    unsafe fn from_raw(sch: *mut bindings::Qdisc) -> Self {
        Queues {
            // SAFETY: the kernel passes no null pointers.
            sch: unsafe { NonNull::new_unchecked(sch) },
            _held: PhantomData,
            _group: PhantomData,
        }
    }

    /// The device.
    pub fn device(&self) -> Device<'_> {
        // SAFETY: a qdisc's device outlives it, and the kernel takes the device's own lock where it
        // has one before it calls a qdisc.
        unsafe {
            let dev = bindings::knet_qdisc_dev(self.sch.as_ptr());
            Device::from_raw(NonNull::new_unchecked(dev))
        }
    }

    /// The group's handle: major number in the upper half, 0 in the lower.
    pub fn handle(&self) -> u32 {
        // SAFETY: valid by `from_raw`.
        unsafe { (*self.sch.as_ptr()).handle }
    }

    /// How many queues the device has; that is for ever.
    pub fn count(&self) -> u32 {
        // SAFETY: valid by `from_raw`.
        unsafe { bindings::knet_group_queues(self.sch.as_ptr()) }
    }

    /// Works on the queues' qdiscs one after the other, each with its lock, until `work` says that
    /// something is wrong.
    ///
    /// # Errors
    ///
    /// What `work` says.
    pub fn each(
        &mut self,
        mut work: impl FnMut(u32, &mut G::Queue, &mut Locked<'_, G::Queue>) -> Result,
    ) -> Result {
        for number in 0..self.count() {
            // SAFETY: as for `one`.
            unsafe {
                let queue = bindings::knet_group_queue(self.sch.as_ptr(), number);
                one::<G, _>(queue, |queue, on| work(number, queue, on)).unwrap_or(Ok(()))?;
            }
        }
        Ok(())
    }
}

/// Works on the qdisc of a queue, if it is one of the group's kind.
///
/// # Safety
///
/// `queue` must be null or a valid qdisc, RTNL held, and no lock of it.
unsafe fn one<G: Group, R>(
    queue: *mut bindings::Qdisc,
    work: impl FnOnce(&mut G::Queue, &mut Locked<'_, G::Queue>) -> R,
) -> Option<R> {
    // SAFETY: promised by the caller. The operations say of which kind it is, and so what its
    // private area is.
    unsafe {
        if queue.is_null() || (*queue).ops != G::queue_kind().ops() {
            return None;
        }
        with_lock::<G::Queue, R>(queue, work)
    }
}

/// A group's private area. mq's functions look for their own at its beginning.
#[repr(C)]
struct Private<G> {
    mq: bindings::mq_sched,
    live: bool,
    /// What all queues are told together, or null.
    ingress: *mut bindings::knet_ingress,
    inner: MaybeUninit<G>,
}

/// Where a group of the kind that `G` implements has its private area.
fn private<G: Group>(sch: *mut bindings::Qdisc) -> *mut Private<G> {
    // C: qdisc_priv. The kernel allocated `priv_size` bytes for us there.
    sch.wrapping_byte_add(bindings::KNET_QDISC_PRIVATE as usize)
        .cast()
}

/// # Safety
///
/// As for [`private`]; the group must be live, and RTNL held for `'a`.
unsafe fn this<'a, G: Group>(sch: *mut bindings::Qdisc) -> &'a mut G {
    // SAFETY: promised by the caller. Only who holds RTNL gets here, and not twice: what it calls
    // is over before the kernel calls again.
    unsafe { (*private::<G>(sch)).inner.assume_init_mut() }
}

/// # Safety
///
/// Called once by the kernel for a new qdisc with a zeroed private area, under RTNL.
unsafe extern "C" fn init<G: Group>(
    sch: *mut bindings::Qdisc,
    options: *mut bindings::nlattr,
    extack: *mut bindings::netlink_ext_ack,
) -> i32 {
    // SAFETY: RTNL is held and nobody else knows the qdisc. Zeros are right for its private area.
    // `destroy` is called also if this fails.
    unsafe {
        let mut said = Extack::from_raw(extack);
        let result = made::<G>(sch, nest(options), &mut said, extack);
        errno(result)
    }
}

/// # Safety
///
/// As for [`init`].
unsafe fn made<G: Group>(
    sch: *mut bindings::Qdisc,
    options: Option<Nest<'_>>,
    extack: &mut Extack,
    raw: *mut bindings::netlink_ext_ack,
) -> Result {
    // SAFETY: promised by the caller. The queues' qdiscs are new, and so of their kind; nobody
    // reaches them.
    unsafe {
        let area = private::<G>(sch);
        if !bindings::knet_module_is_live() {
            return Err(extack.refuse(
                EBUSY,
                format_args!("{}: the module is being loaded", G::KIND),
            ));
        }
        if !bindings::knet_group_fits(sch) {
            return Err(extack.refuse(
                eopnotsupp(),
                format_args!(
                    "{}: only at the root of a device with several transmit queues",
                    G::KIND
                ),
            ));
        }
        let kind = G::queue_kind();
        if !bindings::knet_kind_is_known(kind.raw()) {
            return Err(EBUSY);
        }
        let on = Queues::<G>::from_raw(sch);
        (&raw mut (*area).inner)
            .cast::<G>()
            .write(G::new(&on, options, extack)?);
        (*area).live = true;
        to_result(bindings::knet_group_init(sch, kind.ops(), raw))?;
        if G::Queue::IS_TOLD {
            (*area).ingress = bindings::knet_ingress_new(bindings::knet_qdisc_dev(sch));
            if (*area).ingress.is_null() {
                return Err(ENOMEM);
            }
        }
        for number in 0..on.count() {
            let queue = bindings::knet_group_made(sch, number);
            if !(*area).ingress.is_null() && !queue.is_null() {
                share_ingress::<G::Queue>(queue, (*area).ingress);
            }
            one::<G, _>(queue, |queue, on| this::<G>(sch).join(number, queue, on));
        }
        Ok(())
    }
}

/// # Safety
///
/// The kernel's last call for the qdisc, under RTNL; also after a failed `init`.
unsafe extern "C" fn destroy<G: Group>(sch: *mut bindings::Qdisc) {
    // SAFETY: as the kernel calls. What was attached is the queues', and gone or going by itself.
    unsafe {
        let area = private::<G>(sch);
        bindings::mq_destroy_common(sch);
        let ingress = mem::replace(&mut (*area).ingress, ptr::null_mut());
        if !ingress.is_null() {
            bindings::knet_ingress_end(ingress);
        }
        if mem::replace(&mut (*area).live, false) {
            (*area).inner.assume_init_drop();
        }
    }
}

/// # Safety
///
/// Called by the kernel for a live qdisc under RTNL.
unsafe extern "C" fn change<G: Group>(
    sch: *mut bindings::Qdisc,
    options: *mut bindings::nlattr,
    extack: *mut bindings::netlink_ext_ack,
) -> i32 {
    // SAFETY: called for a live qdisc under RTNL.
    unsafe {
        let mut on = Queues::<G>::from_raw(sch);
        let mut extack = Extack::from_raw(extack);
        errno(this::<G>(sch).change(&mut on, nest(options), &mut extack))
    }
}

/// # Safety
///
/// Called by the kernel for a live qdisc under RTNL; `skb` is a message under construction.
unsafe extern "C" fn dump<G: Group>(sch: *mut bindings::Qdisc, skb: *mut bindings::sk_buff) -> i32 {
    // SAFETY: RTNL is held.
    unsafe {
        bindings::mq_dump_common(sch, skb);
        let mut message = Message::from_raw(skb);
        let this = this::<G>(sch);
        errno(message.nest(bindings::TCA_OPTIONS as u16, |message| this.dump(message)))
    }
}

/// # Safety
///
/// Called by the kernel for a live qdisc under RTNL; `dump` is under construction.
unsafe extern "C" fn dump_stats<G: Group>(
    sch: *mut bindings::Qdisc,
    dump: *mut bindings::gnet_dump,
) -> i32 {
    // SAFETY: RTNL is held.
    unsafe {
        let mut on = Queues::<G>::from_raw(sch);
        errno(this::<G>(sch).dump_stats(&mut on, &mut Stats::from_raw(dump)))
    }
}

/// # Safety
///
/// Called by the kernel for a live qdisc and one of its classes under RTNL; `dump` is under
/// construction.
unsafe extern "C" fn dump_class_stats<G: Group>(
    sch: *mut bindings::Qdisc,
    class: usize,
    dump: *mut bindings::gnet_dump,
) -> i32 {
    // SAFETY: RTNL is held; the class is a queue's number and one.
    unsafe {
        let err = bindings::mq_dump_class_stats(sch, class, dump);
        if err != 0 {
            return err;
        }
        let number = (class as u32).wrapping_sub(1);
        let queue = bindings::knet_group_queue(sch, number);
        let mut stats = Stats::from_raw(dump);
        errno(
            one::<G, _>(queue, |queue, on| {
                G::dump_queue_stats(queue, on, &mut stats)
            })
            .unwrap_or(Ok(())),
        )
    }
}

/// # Safety
///
/// `extack` must be valid or null.
unsafe extern "C" fn graft<G: Group>(
    _sch: *mut bindings::Qdisc,
    _class: usize,
    _new: *mut bindings::Qdisc,
    _old: *mut *mut bindings::Qdisc,
    extack: *mut bindings::netlink_ext_ack,
) -> i32 {
    // SAFETY: the kernel passes a valid extack or null.
    refuse_class::<G>(&mut unsafe { Extack::from_raw(extack) })
}

/// # Safety
///
/// `extack` must be valid or null.
unsafe extern "C" fn change_class<G: Group>(
    _sch: *mut bindings::Qdisc,
    _classid: u32,
    _parent: u32,
    _attributes: *mut *mut bindings::nlattr,
    _class: *mut usize,
    extack: *mut bindings::netlink_ext_ack,
) -> i32 {
    // SAFETY: the kernel passes a valid extack or null.
    refuse_class::<G>(&mut unsafe { Extack::from_raw(extack) })
}

/// # Safety
///
/// `extack` must be valid or null.
unsafe extern "C" fn delete_class<G: Group>(
    _sch: *mut bindings::Qdisc,
    _class: usize,
    extack: *mut bindings::netlink_ext_ack,
) -> i32 {
    // SAFETY: the kernel passes a valid extack or null.
    refuse_class::<G>(&mut unsafe { Extack::from_raw(extack) })
}

/// The answer to whoever wants to add, change, replace or delete a queue's qdisc or class.
fn refuse_class<G: Group>(extack: &mut Extack) -> i32 {
    extack
        .refuse(
            eopnotsupp(),
            format_args!("{}: each queue has its port, which stays", G::KIND),
        )
        .to_errno()
}

/// The kind of group that `G` implements: a `static` of the module, as a [`Kind`].
pub struct GroupKind<G: Group> {
    kind: UnsafeCell<bindings::knet_kind>,
    _kind: PhantomData<fn() -> G>,
}

// SAFETY: there is nothing but `register` to do with it, which is for C to serialise.
unsafe impl<G: Group> Sync for GroupKind<G> {}

impl<G: Group> GroupKind<G> {
    const CLASSES: bindings::Qdisc_class_ops = bindings::Qdisc_class_ops {
        select_queue: Some(bindings::mq_select_queue),
        graft: Some(graft::<G>),
        leaf: Some(bindings::mq_leaf),
        find: Some(bindings::mq_find),
        change: Some(change_class::<G>),
        delete: Some(delete_class::<G>),
        walk: Some(bindings::mq_walk),
        dump: Some(bindings::mq_dump_class),
        dump_stats: Some(dump_class_stats::<G>),
        // SAFETY: a table of numbers and optional functions may be all zeros.
        ..unsafe { mem::zeroed() }
    };

    /// The kind; unknown to the kernel as yet.
    pub const fn new() -> Self {
        const {
            assert!(
                !G::KIND.is_empty() && G::KIND.len() < bindings::IFNAMSIZ as usize,
                "the name of a kind has 1 to 15 bytes"
            );
            assert!(
                align_of::<Private<G>>() <= 64 && size_of::<Private<G>>() <= 1 << 16,
                "a group is aligned to 64 bytes at most, and has 64 KiB"
            );
        }
        let mut id = [0; bindings::IFNAMSIZ as usize];
        let mut at = 0;
        while at < G::KIND.len() {
            id[at] = G::KIND.as_bytes()[at];
            assert!(id[at] != 0, "the name of a kind has no NUL");
            at += 1;
        }
        GroupKind {
            kind: UnsafeCell::new(bindings::knet_kind {
                ops: bindings::Qdisc_ops {
                    cl_ops: const { &Self::CLASSES },
                    id,
                    priv_size: size_of::<Private<G>>() as i32,
                    init: Some(init::<G>),
                    destroy: Some(destroy::<G>),
                    attach: Some(bindings::mq_attach),
                    change: Some(change::<G>),
                    change_real_num_tx: Some(bindings::knet_group_change_real_num_tx),
                    dump: Some(dump::<G>),
                    dump_stats: Some(dump_stats::<G>),
                    // SAFETY: as for the classes.
                    ..unsafe { mem::zeroed() }
                },
                // SAFETY: nor does the rest have to be anything else.
                ..unsafe { mem::zeroed() }
            }),
            _kind: PhantomData,
        }
    }

    /// As [`Kind::register`].
    ///
    /// # Errors
    ///
    /// `EEXIST` if this is registered, or another kind of its name; `ENOMEM`.
    pub fn register(&'static self) -> Result<Registration> {
        // SAFETY: it lives as long as the module, and is changed by C alone from here on.
        to_result(unsafe { bindings::knet_kind_register(self.kind.get()) })?;
        // SAFETY: just registered, and a `static`.
        Ok(unsafe { Registration::of(self.kind.get()) })
    }
}

impl<G: Group> Default for GroupKind<G> {
    fn default() -> Self {
        Self::new()
    }
}

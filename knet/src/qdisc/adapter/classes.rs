// SPDX-License-Identifier: GPL-2.0
//! Classes. The kernel's `unsigned long cl` is the class's minor number, which is never 0.

use super::{errno, private, with_lock};
use crate::{
    bindings,
    child::Child,
    dump::Stats,
    extack::Extack,
    message::Message,
    qdisc::{eopnotsupp, Qdisc},
};
use core::{ptr, ptr::NonNull};
use kernel::error::{code::*, Result};

/// # Safety
///
/// Called by the kernel between `init` and `destroy`, with any lock or none.
pub(super) unsafe extern "C" fn find<T: Qdisc>(sch: *mut bindings::Qdisc, classid: u32) -> usize {
    let minor = (classid & bindings::TC_H_MIN_MASK) as u16;
    // SAFETY: the shared part lives as long as the qdisc can be found.
    let shared = unsafe { &(*private::<T>(sch)).shared };
    if minor != 0 && T::find_class(shared, minor) {
        minor.into()
    } else {
        0
    }
}

/// # Safety
///
/// Called by the kernel between `init` and the end of `destroy`'s filters, under RTNL.
pub(super) unsafe extern "C" fn bind<T: Qdisc>(
    sch: *mut bindings::Qdisc,
    _parent: usize,
    classid: u32,
) -> usize {
    // SAFETY: as for `find`.
    unsafe {
        let class = find::<T>(sch, classid);
        if class != 0 {
            T::class_bound(&(*private::<T>(sch)).shared, class as u16, true);
        }
        class
    }
}

/// # Safety
///
/// As for [`bind`].
pub(super) unsafe extern "C" fn unbind<T: Qdisc>(sch: *mut bindings::Qdisc, class: usize) {
    if class != 0 {
        // SAFETY: as for `find`; `destroy` drops the shared part after the filters.
        unsafe { T::class_bound(&(*private::<T>(sch)).shared, class as u16, false) }
    }
}

/// # Safety
///
/// Called by the kernel for a live qdisc under RTNL with a valid walker.
pub(super) unsafe extern "C" fn walk<T: Qdisc>(
    sch: *mut bindings::Qdisc,
    walker: *mut bindings::qdisc_walker,
) {
    // SAFETY: RTNL is held; the kernel passes a valid walker.
    unsafe {
        if (*walker).stop != 0 {
            return;
        }
        let mut minor = 0;
        while let Some(next) = T::next_class(&(*private::<T>(sch)).shared, minor) {
            if !bindings::knet_walk_class(sch, next.into(), walker) {
                break;
            }
            minor = next;
        }
    }
}

/// # Safety
///
/// Called by the kernel between `init` and `destroy`.
pub(super) unsafe extern "C" fn tcf_block<T: Qdisc>(
    sch: *mut bindings::Qdisc,
    class: usize,
    extack: *mut bindings::netlink_ext_ack,
) -> *mut bindings::tcf_block {
    // Filters belong to the qdisc as a whole, as in prio.
    if class != 0 {
        // SAFETY: the kernel passes a valid extack or null.
        let mut extack = unsafe { Extack::from_raw(extack) };
        extack.refuse(
            EINVAL,
            format_args!(
                "{}: class :{class:x} takes no filters, only the qdisc itself does",
                T::KIND
            ),
        );
        return ptr::null_mut();
    }
    // SAFETY: set in `init`.
    unsafe { (*private::<T>(sch)).filters.block }
}

/// # Safety
///
/// Called by the kernel for a live qdisc and one of its classes under RTNL; `old` is valid.
pub(super) unsafe extern "C" fn graft<T: Qdisc>(
    sch: *mut bindings::Qdisc,
    class: usize,
    new: *mut bindings::Qdisc,
    old: *mut *mut bindings::Qdisc,
    extack: *mut bindings::netlink_ext_ack,
) -> i32 {
    // SAFETY: RTNL is held. On success the kernel gives us its reference to `new` and takes ours to `old`; as in
    // `qdisc_replace`, what the old child still holds is dropped and taken off all counters.
    unsafe {
        let mut extack = Extack::from_raw(extack);
        let grafted = with_lock(sch, |this: &mut T, _, _| -> Result {
            let place = this.child(class as u16, &mut extack)?;
            let new = NonNull::new(new).map(|new| Child::from_raw(new));
            let previous = core::mem::replace(place, new).map_or(ptr::null_mut(), Child::into_raw);
            if !previous.is_null() {
                bindings::knet_qdisc_purge(previous);
            }
            *old = previous;
            this.grafted();
            Ok(())
        });
        errno(grafted.unwrap_or(Err(EINVAL)))
    }
}

/// # Safety
///
/// Called by the kernel for a live qdisc and one of its classes under RTNL.
pub(super) unsafe extern "C" fn leaf<T: Qdisc>(
    sch: *mut bindings::Qdisc,
    class: usize,
) -> *mut bindings::Qdisc {
    // SAFETY: RTNL is held, so the child cannot go while the kernel looks at it.
    unsafe {
        let mut nobody = Extack::from_raw(ptr::null_mut());
        with_lock(sch, |this: &mut T, _, _| {
            match this.child(class as u16, &mut nobody) {
                Ok(Some(child)) => child.as_ptr(),
                _ => ptr::null_mut(),
            }
        })
        .unwrap_or(ptr::null_mut())
    }
}

/// The answer to whoever wants to add, change or delete a class.
fn refuse_class<T: Qdisc>(extack: &mut Extack) -> i32 {
    extack
        .refuse(
            eopnotsupp(),
            format_args!("{}: {}", T::KIND, T::CLASSES_ARE_FIXED),
        )
        .to_errno()
}

/// # Safety
///
/// `extack` must be valid or null.
pub(super) unsafe extern "C" fn change_class<T: Qdisc>(
    _sch: *mut bindings::Qdisc,
    _classid: u32,
    _parent: u32,
    _attributes: *mut *mut bindings::nlattr,
    _class: *mut usize,
    extack: *mut bindings::netlink_ext_ack,
) -> i32 {
    // SAFETY: the kernel passes a valid extack or null.
    refuse_class::<T>(&mut unsafe { Extack::from_raw(extack) })
}

/// # Safety
///
/// `extack` must be valid or null.
pub(super) unsafe extern "C" fn delete_class<T: Qdisc>(
    _sch: *mut bindings::Qdisc,
    _class: usize,
    extack: *mut bindings::netlink_ext_ack,
) -> i32 {
    // SAFETY: the kernel passes a valid extack or null.
    refuse_class::<T>(&mut unsafe { Extack::from_raw(extack) })
}

/// # Safety
///
/// Called by the kernel for a live qdisc and one of its classes under RTNL, with a message under construction.
pub(super) unsafe extern "C" fn dump_class<T: Qdisc>(
    sch: *mut bindings::Qdisc,
    class: usize,
    skb: *mut bindings::sk_buff,
    tcm: *mut bindings::tcmsg,
) -> i32 {
    // SAFETY: RTNL is held; `tcm` is the header of the message being built.
    unsafe {
        (*tcm).tcm_handle |= class as u32;
        let mut message = Message::from_raw(skb);
        let mut nobody = Extack::from_raw(ptr::null_mut());
        let dumped = with_lock(sch, |this: &mut T, _, _| {
            if let Ok(Some(child)) = this.child(class as u16, &mut nobody) {
                (*tcm).tcm_info = child.handle();
            }
            message.nest(bindings::TCA_OPTIONS as u16, |message| {
                this.dump_class(class as u16, message)
            })
        });
        errno(dumped.unwrap_or(Ok(())))
    }
}

/// # Safety
///
/// Called by the kernel for a live qdisc and one of its classes under RTNL; `dump` is under construction.
pub(super) unsafe extern "C" fn dump_class_stats<T: Qdisc>(
    sch: *mut bindings::Qdisc,
    class: usize,
    dump: *mut bindings::gnet_dump,
) -> i32 {
    // SAFETY: RTNL is held.
    unsafe {
        let mut stats = Stats::from_raw(dump);
        let dumped = with_lock(sch, |this: &mut T, _, _| {
            this.dump_class_stats(class as u16, &mut stats)
        });
        errno(dumped.unwrap_or(Ok(())))
    }
}

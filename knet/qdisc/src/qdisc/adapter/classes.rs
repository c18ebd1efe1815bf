// SPDX-License-Identifier: GPL-2.0
//! Classes. The kernel's `unsigned long cl` is the class's minor number, which is never 0.

use super::{child, child_place, errno, private, with_lock};
use crate::{
    bindings,
    dump::Stats,
    qdisc::{eopnotsupp, Locked, Qdisc},
    Extack, Message,
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
            // Or this would have no end.
            if next <= minor || !bindings::knet_walk_class(sch, next.into(), walker) {
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
    // SAFETY: RTNL is held. On success the kernel gives us its reference to `new` and takes ours to
    // `old`; as in `qdisc_replace`, what the old child still holds is dropped and taken off all
    // counters. `child_place` gives a place that there is.
    unsafe {
        let mut extack = Extack::from_raw(extack);
        let place = match child_place::<T>(class as u16, &mut extack) {
            Ok(place) => place,
            Err(error) => return error.to_errno(),
        };
        if !new.is_null() {
            let shared = &(*private::<T>(sch)).shared;
            if let Err(error) = T::may_graft(shared, class as u16, &mut extack) {
                return error.to_errno();
            }
        }
        let grafted = with_lock(sch, |this: &mut T, on: &mut Locked<'_, T>| -> Result {
            let children = &raw mut (*private::<T>(sch)).children;
            let child = children.cast::<*mut bindings::Qdisc>().add(place);
            let previous = child.replace(new);
            if !previous.is_null() {
                bindings::knet_qdisc_purge(previous);
            }
            *old = previous;
            this.grafted(place, on.context().child(place));
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
    unsafe { child_of::<T>(sch, class).map_or(ptr::null_mut(), NonNull::as_ptr) }
}

/// The class's child.
///
/// # Safety
///
/// The qdisc must be valid, and RTNL held.
unsafe fn child_of<T: Qdisc>(
    sch: *mut bindings::Qdisc,
    class: usize,
) -> Option<NonNull<bindings::Qdisc>> {
    // SAFETY: nobody is told what is wrong with the class.
    let mut nobody = unsafe { Extack::from_raw::<bindings::netlink_ext_ack>(ptr::null_mut()) };
    let place = child_place::<T>(class as u16, &mut nobody).ok()?;
    // SAFETY: promised by the caller.
    unsafe { child::<T>(sch, place) }
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
/// Called by the kernel for a live qdisc and one of its classes under RTNL, with a message under
/// construction.
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
        if let Some(child) = child_of::<T>(sch, class) {
            (*tcm).tcm_info = (*child.as_ptr()).handle;
        }
        let dumped = with_lock(sch, |this: &mut T, _| {
            message.nest(bindings::TCA_OPTIONS as u16, |message| {
                this.dump_class(class as u16, message)
            })
        });
        errno(dumped.unwrap_or(Ok(())))
    }
}

/// # Safety
///
/// Called by the kernel for a live qdisc and one of its classes under RTNL; `dump` is under
/// construction.
pub(super) unsafe extern "C" fn dump_class_stats<T: Qdisc>(
    sch: *mut bindings::Qdisc,
    class: usize,
    dump: *mut bindings::gnet_dump,
) -> i32 {
    // SAFETY: RTNL is held.
    unsafe {
        let mut stats = Stats::from_raw(dump);
        let dumped = with_lock(sch, |this: &mut T, on| {
            this.dump_class_stats(class as u16, on, &mut stats)
        });
        errno(dumped.unwrap_or(Ok(())))
    }
}

// SPDX-License-Identifier: GPL-2.0
//! A qdisc's life: made, changed, shown, emptied, destroyed.

use super::{context, errno, packets::reset_peeked, private, settle, this, with_lock};
use crate::{
    attr::Nest,
    bindings,
    dump::Stats,
    qdisc::{Configuring, Qdisc, Resetting, Rtnl},
    Extack, Message,
};
use core::{ptr, slice};
use kernel::prelude::*;

/// The options, if there are any.
///
/// # Safety
///
/// `attr` must be null or point to an attribute that lies wholly inside a message which outlives
/// the result.
pub(crate) unsafe fn nest<'a>(attr: *const bindings::nlattr) -> Option<Nest<'a>> {
    if attr.is_null() {
        return None;
    }
    let header = size_of::<bindings::nlattr>();
    // SAFETY: promised by the caller; `nla_len` covers the header and the payload behind it.
    Some(Nest::new(unsafe {
        let len = usize::from((*attr).nla_len).saturating_sub(header);
        slice::from_raw_parts(attr.cast::<u8>().add(header), len)
    }))
}

/// # Safety
///
/// Called once by the kernel for a new qdisc with a zeroed private area, under RTNL.
pub(super) unsafe extern "C" fn init<T: Qdisc>(
    sch: *mut bindings::Qdisc,
    options: *mut bindings::nlattr,
    extack: *mut bindings::netlink_ext_ack,
) -> i32 {
    // SAFETY: RTNL is held and nobody else knows the qdisc. Its private area is zeroed, which is
    // right for everything but what is set here.
    unsafe {
        let area = private::<T>(sch);
        (*area).dev = bindings::knet_qdisc_dev(sch);
        bindings::qdisc_watchdog_init(&raw mut (*area).watchdog, sch);
        bindings::knet_settling_init(&raw mut (*area).settling, sch, Some(settle::<T>));
        (&raw mut (*area).shared).write(T::Shared::default());
        let filters = &raw mut (*area).filters;
        let err = bindings::tcf_block_get(
            &raw mut (*filters).block,
            &raw mut (*filters).list,
            sch,
            extack,
        );
        if err != 0 {
            return err;
        }
        let mut extack = Extack::from_raw(extack);
        if !bindings::knet_module_is_live() {
            // Its init may yet fail, and then it goes, whoever refers to it.
            return extack
                .refuse(
                    EBUSY,
                    format_args!("{}: the module is being loaded", T::KIND),
                )
                .to_errno();
        }
        let mut on = Configuring {
            context: context::<T>(sch),
        };
        let made = T::new(&mut on, nest(options), &mut extack)
            .and_then(|new| new.__init((&raw mut (*area).inner).cast::<T>()));
        if let Err(error) = made {
            return error.to_errno();
        }
        (*area).live = true;
        if T::WATCH_LINK {
            bindings::knet_link_watch_add(&raw mut (*area).link, sch, Some(link_changed::<T>));
            (*area).watching = true;
        }
        if T::IS_TOLD {
            (*area).ingress = bindings::knet_ingress_new((*area).dev);
            if (*area).ingress.is_null() {
                return ENOMEM.to_errno();
            }
        }
        0
    }
}

/// # Safety
///
/// Called under RTNL, and the device's own lock where it has one, for a live qdisc, by the link
/// watch that `init` set up.
pub(super) unsafe extern "C" fn link_changed<T: Qdisc>(sch: *mut bindings::Qdisc) {
    // SAFETY: called under RTNL while the qdisc is live.
    unsafe {
        T::link_changed(&mut Configuring {
            context: context::<T>(sch),
        })
    }
}

/// # Safety
///
/// Called by the kernel under RTNL, with the root lock held or for a qdisc that nobody else can
/// reach.
pub(super) unsafe extern "C" fn reset<T: Qdisc>(sch: *mut bindings::Qdisc) {
    // SAFETY: the kernel holds the lock, or nobody can reach the qdisc. A qdisc that never came to
    // life has an initialised watchdog all the same.
    unsafe {
        let area = private::<T>(sch);
        bindings::qdisc_watchdog_cancel(&raw mut (*area).watchdog);
        // The kernel clears the counters itself, and who resets a part of a tree tells the parents.
        (*area).owed = (0, 0);
        if (*area).live {
            reset_peeked::<T>(sch);
            this::<T>(sch).reset(&mut Resetting {
                context: context(sch),
                rtnl: Rtnl::held(),
            });
        }
        for child in (*area).children {
            if !child.is_null() {
                bindings::qdisc_reset(child);
            }
        }
    }
}

/// # Safety
///
/// The kernel's last call for the qdisc, under RTNL; also after a failed `init`.
pub(super) unsafe extern "C" fn destroy<T: Qdisc>(sch: *mut bindings::Qdisc) {
    // SAFETY: the last call for this qdisc; also after an `init` that failed at any point after the
    // watchdog. RTNL is held. Filters go first: they tell the shared part which classes they let go
    // of.
    unsafe {
        let area = private::<T>(sch);
        if (*area).watching {
            bindings::knet_link_watch_del(&raw mut (*area).link);
        }
        let ingress = core::mem::replace(&mut (*area).ingress, ptr::null_mut());
        if !ingress.is_null() {
            bindings::knet_ingress_end(ingress);
        }
        bindings::tcf_block_put((*area).filters.block);
        bindings::qdisc_watchdog_cancel(&raw mut (*area).watchdog);
        bindings::knet_settling_stop(&raw mut (*area).settling);
        if (*area).live {
            (*area).live = false;
            (*area).inner.assume_init_drop();
        }
        if let Some(tap) = (*area).tap.take() {
            tap.stop();
        }
        for child in &mut (*area).children {
            // The reference that `graft` gave us.
            bindings::qdisc_put(core::mem::replace(child, ptr::null_mut()));
        }
        ptr::drop_in_place(&raw mut (*area).shared);
    }
}

/// # Safety
///
/// Called by the kernel for a live qdisc under RTNL, without the root lock.
pub(super) unsafe extern "C" fn change<T: Qdisc>(
    sch: *mut bindings::Qdisc,
    options: *mut bindings::nlattr,
    extack: *mut bindings::netlink_ext_ack,
) -> i32 {
    // SAFETY: called for a live qdisc under RTNL.
    unsafe {
        let mut on = Configuring {
            context: context::<T>(sch),
        };
        errno(T::change(
            &mut on,
            nest(options),
            &mut Extack::from_raw(extack),
        ))
    }
}

/// # Safety
///
/// Called by the kernel for a live qdisc under RTNL; `skb` is a message under construction.
pub(super) unsafe extern "C" fn dump<T: Qdisc>(
    sch: *mut bindings::Qdisc,
    skb: *mut bindings::sk_buff,
) -> i32 {
    // SAFETY: RTNL is held.
    unsafe {
        let mut message = Message::from_raw(skb);
        let dumped = with_lock(sch, |this: &mut T, _| {
            message.nest(bindings::TCA_OPTIONS as u16, |message| this.dump(message))
        });
        errno(dumped.unwrap_or(Ok(())))
    }
}

/// # Safety
///
/// Called by the kernel for a live qdisc under RTNL; `dump` is under construction.
pub(super) unsafe extern "C" fn dump_stats<T: Qdisc>(
    sch: *mut bindings::Qdisc,
    dump: *mut bindings::gnet_dump,
) -> i32 {
    // SAFETY: RTNL is held.
    unsafe {
        let mut stats = Stats::from_raw(dump);
        let dumped = with_lock(sch, |this: &mut T, on| this.dump_stats(on, &mut stats));
        errno(dumped.unwrap_or(Ok(())))
    }
}

// SPDX-License-Identifier: GPL-2.0
//! The qdisc kind `turnstile_mq`: a port for each transmit queue of a device, with one link, one
//! token group and one share of signals for all.
//!
//! What the ports share is [`Common`], behind one short lock; [`port`](crate::port) says where a
//! port that is one of several parts from one that is alone. Here they are made and configured
//! together.

use crate::{
    options::{self, refuse_as, Configured},
    packet::OnChange,
    port::{now, Plan, TurnstilePort, CHILD},
    report::{self, Sums},
};
use kernel::{alloc::KVVec, prelude::*};
use knet::{
    attr::{Nest, Policy},
    Extack, Group, Kind, Lock, Locked, Message, Queues, Stats,
};
use turnstile_core::{
    options::limits,
    port::config::{Config, Resolved},
    port::uapi,
    port::{Common, Member},
};

/// What ports of several queues share.
pub(crate) type Shared = Lock<Common<KVVec<Member>>>;

/// What a port knows of the group that it is of.
pub(crate) struct Membership {
    pub(crate) shared: Shared,
    /// The number of its queue.
    pub(crate) queue: u32,
    /// The group's handle, by which `skb->priority` names classes.
    pub(crate) handle: u32,
}

/// A group of ports.
pub(crate) struct TurnstileGroup {
    plan: KBox<Plan>,
    shared: Shared,
    handle: u32,
}

/// What a request may carry: the options of a port.
static POLICY: Policy = Policy {
    who: uapi::KIND_MQ,
    ..<Config as Configured>::POLICY
};

fn refuse(extack: &mut Extack, what: impl core::fmt::Display) -> Error {
    refuse_as(&POLICY, extack, what)
}

/// Changes the plan as the request says, and works out what it comes to.
#[inline(never)]
fn apply(
    plan: &mut Plan,
    options: Option<Nest<'_>>,
    speed: Option<u64>,
    extack: &mut Extack,
) -> Result {
    if let Some(options) = options {
        let before = plan.config.groups();
        let given = options::apply_as(&POLICY, &mut plan.config, options, extack)?;
        plan.config
            .settle(before, given)
            .map_err(|refusal| refuse(extack, refusal))?;
    }
    plan.config
        .validate_for_queues()
        .map_err(|refusal| refuse(extack, refusal))?;
    resolve(plan, speed, extack)
}

#[inline(never)]
fn resolve(plan: &mut Plan, speed: Option<u64>, extack: &mut Extack) -> Result {
    plan.resolved = plan
        .config
        .validate(speed)
        .map_err(|refusal| refuse(extack, refusal))?;
    Ok(())
}

/// What so many ports share.
#[inline(never)]
fn share(queues: u32, config: &Config, resolved: &Resolved) -> Result<Shared> {
    let mut members = KVVec::with_capacity(queues as usize, GFP_KERNEL)?;
    for _ in 0..queues {
        members
            .push_within_capacity(Member::ABSENT)
            .map_err(|_| ENOMEM)?;
    }
    let shared = Lock::new(|| Common::new(members))?;
    shared.with(|common| common.begin(config, resolved, now()));
    Ok(shared)
}

impl Group for TurnstileGroup {
    const KIND: &'static str = uapi::KIND_MQ;

    type Queue = TurnstilePort;

    fn queue_kind() -> &'static Kind<TurnstilePort> {
        &crate::PORT
    }

    fn new(on: &Queues<'_, Self>, options: Option<Nest<'_>>, extack: &mut Extack) -> Result<Self> {
        let mut plan = Plan::new()?;
        let limit = u64::from(on.device().queue_bytes());
        plan.config.data_limit = limit.clamp(limits::QUEUE.min, limits::QUEUE.max) as u32;
        apply(&mut plan, options, on.device().speed(), extack)?;
        let shared = share(on.count(), &plan.config, &plan.resolved)?;
        Ok(Self {
            plan,
            shared,
            handle: on.handle(),
        })
    }

    fn join(&mut self, queue: u32, port: &mut TurnstilePort, on: &mut Locked<'_, TurnstilePort>) {
        let membership = Membership {
            shared: self.shared.clone(),
            queue,
            handle: self.handle,
        };
        port.join(membership, &self.plan, on);
    }

    fn change(
        &mut self,
        on: &mut Queues<'_, Self>,
        options: Option<Nest<'_>>,
        extack: &mut Extack,
    ) -> Result {
        if options.is_none() {
            return Ok(());
        }
        let mut speed = on.device().speed();
        let mut plan = Plan::new()?;
        plan.config = self.plan.config;
        on.each(|_, port, _| {
            speed = speed.or(port.speed());
            Ok(())
        })?;
        apply(&mut plan, options, speed, extack)?;
        on.each(|_, _, on| {
            let classes = on.context().shared().bound_but_gone(&plan.config);
            match classes {
                Some(minor) => Err(refuse(
                    extack,
                    format_args!("class :{minor:x} would go, but filters name it"),
                )),
                None => Ok(()),
            }
        })?;
        // Nothing is refused from here on. What is shared first: its rates count for each packet
        // from now on, and none waits by the old ones once its port has been changed.
        self.shared
            .with(|common| common.set(&plan.config, &plan.resolved, now()));
        self.plan = plan;
        let plan = &self.plan;
        on.each(|_, port, on| {
            port.follow(plan, on);
            Ok(())
        })
    }

    fn dump(&mut self, message: &mut Message) -> Result {
        options::dump(&self.plan.config, message)
    }

    fn dump_stats(&mut self, on: &mut Queues<'_, Self>, stats: &mut Stats) -> Result {
        let mut sums = Sums::default();
        on.each(|_, port, _| {
            sums.add(port);
            Ok(())
        })?;
        sums.write(stats)
    }

    fn dump_queue_stats(
        port: &mut TurnstilePort,
        on: &mut Locked<'_, TurnstilePort>,
        stats: &mut Stats,
    ) -> Result {
        report::queue(port, on.context().child(CHILD), stats)
    }
}

impl TurnstilePort {
    /// From now on the port is one of several. No packet has come.
    fn join(&mut self, membership: Membership, plan: &Plan, on: &mut Locked<'_, Self>) {
        self.membership = Some(membership);
        self.port.join();
        self.follow(plan, on);
    }

    /// The group has another configuration.
    fn follow(&mut self, plan: &Plan, on: &mut Locked<'_, Self>) {
        let Plan { config, resolved } = plan;
        let sch = on.context();
        self.port.change(config, resolved, now(), &mut OnChange(on));
        sch.shared().set(config);
        // Nobody asks for what is not there any more.
        if let (true, Some(membership)) = (self.port.is_empty(), &self.membership) {
            let Membership { shared, queue, .. } = membership;
            shared.with(|common| common.withdraw(*queue));
        }
        // What waited for the old rate's time may be due by the new one.
        sch.wake_at(now().0);
    }
}

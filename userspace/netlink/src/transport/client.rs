// SPDX-License-Identifier: GPL-2.0
//! Asking the kernel, over generic netlink.
//!
//! Calls wait for the kernel's answer, which it gives at once. The network namespace is that of the
//! thread that connects.

mod error;
mod family;
mod wire;

#[cfg(test)]
mod tests;

use neli::consts::socket::NlFamily;
use neli::socket::synchronous::NlSocketHandle;
use neli::utils::Groups;
use turnstile_core::transport::uapi::{command, stat, FAMILY, GROUP_EVENTS};

pub use error::Error;

use super::record::{number, Event, Link, Message, Peer};
use super::Settings;
use crate::attr::Malformed;
use family::Family;
use wire::{to_bytes, Body, Kernel, Wire};

pub(super) use wire::{from_bytes, Attributes};

/// A connection to the transport of a network namespace.
///
/// ```no_run
/// use turnstile_netlink::transport::{Client, Settings};
///
/// let mut transport = Client::connect()?;
/// transport.set(&Settings::parse(&["policy", "top", "unscheduled", "1"])?)?;
/// println!("{}", transport.settings()?);
/// for message in transport.messages()? {
///     println!("{message:?}");
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Client {
    wire: Wire,
    family: Family,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("family", &self.family)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Opens the connection.
    ///
    /// # Errors
    /// [`Error::NotLoaded`], [`Error::Socket`].
    pub fn connect() -> Result<Self, Error> {
        let family = Family::find(FAMILY, GROUP_EVENTS)?;
        let wire = Wire::open()?;
        Ok(Self { wire, family })
    }

    /// The configuration.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Malformed`].
    pub fn settings(&mut self) -> Result<Settings, Error> {
        settings(&mut self.wire, self.family)
    }

    /// Changes what is given of the configuration; all of it, or nothing.
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub fn set(&mut self, settings: &Settings) -> Result<(), Error> {
        set(&mut self.wire, self.family, settings)
    }

    /// The messages under way. They go on meanwhile: a message that begins or ends during the call
    /// may or may not be among them.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Malformed`].
    pub fn messages(&mut self) -> Result<Vec<Message>, Error> {
        let id = self.family;
        list(&mut self.wire, id, command::MESSAGE_GET, Message::decode)
    }

    /// The peers of messages under way.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Malformed`].
    pub fn peers(&mut self) -> Result<Vec<Peer>, Error> {
        let id = self.family;
        list(&mut self.wire, id, command::PEER_GET, Peer::decode)
    }

    /// The links that messages come in by. The first is the one that devices without a speed
    /// share. None: nobody has used the transport in this namespace yet.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Malformed`].
    pub fn links(&mut self) -> Result<Vec<Link>, Error> {
        let id = self.family;
        list(&mut self.wire, id, command::LINK_GET, Link::decode)
    }

    /// The counters: attribute numbers and values.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Malformed`].
    pub fn counters(&mut self) -> Result<Vec<(u16, u64)>, Error> {
        counters(&mut self.wire, self.family)
    }

    /// From now on, events can be read. Those of all messages under way: at high rates, some are
    /// lost ([`Error::Overrun`]).
    ///
    /// # Errors
    /// [`Error::Socket`], [`Error::Protocol`] if the kernel knows no such group.
    pub fn events(&self) -> Result<Events, Error> {
        let group = self
            .family
            .events
            .ok_or_else(|| Error::Protocol("the transport has no events".to_owned()))?;
        let socket = NlSocketHandle::connect(NlFamily::Generic, None, Groups::empty())
            .map_err(Error::Socket)?;
        // A larger buffer is only better; the kernel limits it.
        let _ = socket.set_recv_buffer_size(4 << 20);
        socket
            .add_mcast_membership(Groups::new_groups(&[group]))
            .map_err(Error::Socket)?;
        Ok(Events {
            socket,
            family: self.family.id,
        })
    }
}

fn settings(kernel: &mut impl Kernel, family: Family) -> Result<Settings, Error> {
    let none = Attributes::new();
    let answers = kernel.ask(family.id, command::TRANSPORT_GET, none, false)?;
    let bytes = answers.first().map(to_bytes).transpose()?;
    Ok(Settings::decode(&bytes.unwrap_or_default())?)
}

fn set(kernel: &mut impl Kernel, family: Family, settings: &Settings) -> Result<(), Error> {
    let attributes = from_bytes(&settings.encode())?;
    kernel
        .ask(family.id, command::TRANSPORT_SET, attributes, false)
        .map(drop)
}

fn list<T>(
    kernel: &mut impl Kernel,
    family: Family,
    command: u8,
    decode: impl Fn(&Attributes) -> Result<T, Malformed>,
) -> Result<Vec<T>, Error> {
    let answers = kernel.ask(family.id, command, Attributes::new(), true)?;
    let records: Result<Vec<T>, Malformed> = answers.iter().map(decode).collect();
    Ok(records?)
}

fn counters(kernel: &mut impl Kernel, family: Family) -> Result<Vec<(u16, u64)>, Error> {
    let none = Attributes::new();
    let answers = kernel.ask(family.id, command::STATS_GET, none, false)?;
    let mut counters = Vec::new();
    for attribute in answers.iter().take(1).flat_map(|answer| answer.iter()) {
        let which = *attribute.nla_type().nla_type();
        if which != stat::PAD {
            counters.push((which, number(attribute, "counter")?));
        }
    }
    Ok(counters)
}

/// Events as they happen; see [`Client::events`].
pub struct Events {
    socket: NlSocketHandle,
    family: u16,
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

impl Events {
    /// Waits for the next ones.
    ///
    /// # Errors
    /// [`Error::Overrun`], after which one can go on; [`Error::Malformed`].
    pub fn wait(&mut self) -> Result<Vec<Event>, Error> {
        let (messages, _) = self.socket.recv::<u16, Body>()?;
        let mut events = Vec::new();
        for message in messages {
            let message = message?;
            if *message.nl_type() != self.family {
                continue;
            }
            if let Some(body) = message.get_payload() {
                events.extend(event(*body.cmd(), body.attrs())?);
            }
        }
        Ok(events)
    }
}

/// What a message of the family is about, if it is an event.
fn event(command: u8, attributes: &Attributes) -> Result<Option<Event>, Error> {
    if command != command::EVENT {
        return Ok(None);
    }
    Ok(Some(Event::decode(attributes)?))
}

// SPDX-License-Identifier: GPL-2.0
//! The client: pacers are added, changed, listed and deleted over rtnetlink.

use crate::client::Ports;
use crate::error::{Error, Subject};
use crate::message::Counters;
use crate::pacer::{Options, Stats};
use crate::place::{Id, Place};

/// A pacer as the kernel reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pacer {
    /// The device's name.
    pub dev: String,
    /// The pacer's own id.
    pub handle: Id,
    /// The class that it hangs below, or [`Id::ROOT`].
    pub parent: Id,
    /// All options in force.
    pub options: Options,
    /// What the kernel counts for every qdisc.
    pub counters: Counters,
    /// What the pacer counts.
    pub stats: Stats,
}

/// A connection to the kernel, for the pacers of the network namespace in which it was made.
#[derive(Debug)]
pub struct Pacers(Ports);

impl Pacers {
    /// As [`Ports::connect`].
    ///
    /// # Errors
    /// [`Error::Socket`].
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O enabled.
    pub fn connect() -> Result<Self, Error> {
        Ports::connect_for(Subject::Pacer).map(Self)
    }

    /// Adds a pacer.
    ///
    /// # Errors
    /// As [`Ports::add`].
    pub async fn add(&self, place: &Place, options: &Options) -> Result<(), Error> {
        self.0.add_with(place, &options.encode()).await
    }

    /// Adds a pacer in the place of what is there; what is a pacer already is changed.
    ///
    /// # Errors
    /// As [`Ports::replace`].
    pub async fn replace(&self, place: &Place, options: &Options) -> Result<(), Error> {
        self.0.replace_with(place, &options.encode()).await
    }

    /// Sets these options of a pacer; the others, what is queued, and which flows are associated,
    /// stay as they are.
    ///
    /// # Errors
    /// As [`Ports::change`].
    pub async fn change(&self, place: &Place, options: &Options) -> Result<(), Error> {
        self.0.change_with(place, &options.encode()).await
    }

    /// Deletes a pacer. Qdiscs of other kinds are refused.
    ///
    /// # Errors
    /// As [`Ports::del`].
    pub async fn del(&self, place: &Place) -> Result<(), Error> {
        self.0.del(place).await
    }

    /// Lists the pacers, of one device or of all, in the kernel's order.
    ///
    /// # Errors
    /// As [`Ports::show`].
    pub async fn show(&self, dev: Option<&str>) -> Result<Vec<Pacer>, Error> {
        let mut pacers = Vec::new();
        for found in self.0.qdiscs(dev).await? {
            pacers.push(Pacer {
                options: Options::decode(&found.options)?,
                stats: Stats::decode(&found.own)?,
                dev: found.dev,
                handle: found.handle,
                parent: found.parent,
                counters: found.counters,
            });
        }
        Ok(pacers)
    }
}

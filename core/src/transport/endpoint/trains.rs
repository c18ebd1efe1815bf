// SPDX-License-Identifier: GPL-2.0
//! Packets that come together: what follows from them is looked at once.

use super::pacing::TOKENS;
use super::*;

/// What there is to know of data that came, beside the message.
#[derive(Clone, Copy)]
pub(super) struct Came {
    /// So many bytes of the message had come in a row before.
    pub(super) contiguous: u32,
    /// The two bits of its IP header.
    pub(super) ecn: u8,
    /// Its sender is to be told of a mark.
    pub(super) notify: bool,
}

/// Of packets that come together: of which message what came was put off, and which data was the
/// first of it.
pub(super) struct Train(Option<(InId, Came)>);

impl<M: Memory, O, I> Endpoint<M, O, I> {
    /// From now on, until [`Endpoint::end_train`], packets come that came together: tokens, timers
    /// and acknowledgements of their messages wait for the end. At the same time, and under the
    /// same lock.
    #[inline]
    pub fn begin_train(&mut self) {
        self.train = Some(Train(None));
    }

    /// All of them have come, the last ones by `device`; `now` and `clock` as theirs.
    pub fn end_train<H: Host<O, I>>(&mut self, now: Nanos, clock: u32, device: u32, host: &mut H) {
        let link = self.links.of(device);
        let at = At { now, clock, link };
        let Some(train) = self.train.take() else {
            return;
        };
        self.came_of(at, train, host);
        self.pace(at, TOKENS, host);
    }

    /// Data came, and more may come with it.
    pub(super) fn put_off<H: Host<O, I>>(&mut self, at: At, index: u32, came: Came, host: &mut H) {
        let id = self.in_id(index);
        let Some(Train(before)) = self.train.take() else {
            return;
        };
        let came = match before {
            Some((other, first)) if other == id => first,
            Some(_) => {
                self.came_of(at, Train(before), host);
                came
            }
            None => came,
        };
        self.train = Some(Train(Some((id, came))));
    }

    /// What follows from what was put off.
    fn came_of<H: Host<O, I>>(&mut self, at: At, train: Train, host: &mut H) {
        if let Some((id, came)) = train.0 {
            if let Some(index) = self.in_at(id) {
                self.go_on(at, index, &came, host);
            }
        }
    }
}

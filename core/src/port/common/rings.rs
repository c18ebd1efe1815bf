// SPDX-License-Identifier: GPL-2.0
//! Who stands where: lists of members, linked by their numbers, and a bit for each list that has
//! one. Everything takes the same few steps, however many members there are.

use core::ops::DerefMut;

use crate::units::Nanos;

/// No member.
const NOBODY: u32 = u32::MAX;
/// How many rings there are for tokens.
pub(super) const TOKEN_RINGS: usize = 8;
const RINGS: usize = TOKEN_RINGS + 3;
/// No ring.
const NONE: u8 = u8::MAX;

const SIGNALS: u8 = 0;
const TOKENS: u8 = 1;
const DATA: u8 = TOKENS + TOKEN_RINGS as u8;
const UNSCHEDULED: u8 = DATA + 1;

/// The bits of the rings of tokens.
const TOKEN_BITS: u32 = ((1 << TOKEN_RINGS) - 1) << TOKENS;

/// What a ring is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Signal = 0,
    /// One of eight rings, by priority.
    Token = 1,
    Data = 2,
    Unscheduled = 3,
}

impl Kind {
    pub(super) const ALL: [Self; 4] = [Self::Signal, Self::Token, Self::Data, Self::Unscheduled];

    /// The ring, of tokens that of this priority.
    fn ring(self, priority: u8) -> u8 {
        match self {
            Self::Signal => SIGNALS,
            Self::Token => TOKENS.wrapping_add(priority & (TOKEN_RINGS as u8).wrapping_sub(1)),
            Self::Data => DATA,
            Self::Unscheduled => UNSCHEDULED,
        }
    }
}

/// A member's place in a ring.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// [`NONE`]: in no ring of the kind.
    ring: u8,
    before: u32,
    behind: u32,
}

impl Place {
    const NOWHERE: Self = Self {
        ring: NONE,
        before: NOBODY,
        behind: NOBODY,
    };
}

/// The port of one queue, as the others see it.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// When it will ask for a packet, by what it was told.
    due: Nanos,
    /// Bytes of data that it may send until it is the next one's turn.
    credit: i64,
    /// A bit for each [`Kind`] of which it has lost its turn, because it did not come.
    missed: u8,
    /// By [`Kind`].
    places: [Place; 4],
}

impl Member {
    /// One that stands nowhere.
    pub const ABSENT: Self = Self {
        due: Nanos::MAX,
        credit: 0,
        missed: 0,
        places: [Place::NOWHERE; 4],
    };
}

#[derive(Clone, Copy, Debug)]
struct Ring {
    head: u32,
    tail: u32,
}

/// The rings. Numbers that are no members stand nowhere, and cannot.
#[derive(Debug)]
pub(super) struct Rings<M> {
    members: M,
    rings: [Ring; RINGS],
    /// A bit for each ring that has a member.
    busy: u32,
}

impl<M: DerefMut<Target = [Member]>> Rings<M> {
    #[inline(always)]
    pub(super) fn new(members: M) -> Self {
        const EMPTY: Ring = Ring {
            head: NOBODY,
            tail: NOBODY,
        };
        Self {
            members,
            rings: [EMPTY; RINGS],
            busy: 0,
        }
    }

    fn place(&mut self, who: u32, kind: Kind) -> Option<&mut Place> {
        self.members
            .get_mut(who as usize)?
            .places
            .get_mut(kind as usize)
    }

    /// Is nobody anywhere?
    pub(super) fn are_empty(&self) -> bool {
        self.busy == 0
    }

    /// Is anybody in a ring of this kind?
    pub(super) fn have(&self, kind: Kind) -> bool {
        let bits = match kind {
            Kind::Token => TOKEN_BITS,
            kind => 1_u32.wrapping_shl(kind.ring(0).into()),
        };
        self.busy & bits != 0
    }

    /// Is anybody in a ring that is not of tokens?
    pub(super) fn have_but_tokens(&self) -> bool {
        self.busy & !TOKEN_BITS != 0
    }

    /// Does the member stand anywhere?
    pub(super) fn knows(&self, who: u32) -> bool {
        let member = self.members.get(who as usize);
        member.is_some_and(|member| member.places.iter().any(|place| place.ring != NONE))
    }

    /// Who is first, of tokens in the ring of the highest priority that has anybody.
    pub(super) fn head(&self, kind: Kind) -> Option<u32> {
        let ring = match kind {
            Kind::Token => match self.busy & TOKEN_BITS {
                0 => return None,
                bits => bits.trailing_zeros() as usize,
            },
            kind => usize::from(kind.ring(0)),
        };
        let head = self.rings.get(ring)?.head;
        (head != NOBODY).then_some(head)
    }

    /// The member stands in the ring of this kind, of tokens in that of the priority: last, if it
    /// is new there. Is it?
    pub(super) fn stand(&mut self, who: u32, kind: Kind, priority: u8) -> bool {
        let ring = kind.ring(priority);
        match self.place(who, kind) {
            Some(place) if place.ring != ring => {}
            _ => return false,
        }
        self.take_out(who, kind);
        self.put_last(who, kind, ring);
        true
    }

    fn put_last(&mut self, who: u32, kind: Kind, ring: u8) {
        let Some(list) = self.rings.get_mut(usize::from(ring)) else {
            return;
        };
        let before = list.tail;
        list.tail = who;
        if before == NOBODY {
            list.head = who;
        }
        self.busy |= 1_u32.wrapping_shl(ring.into());
        if let Some(last) = self.place(before, kind) {
            last.behind = who;
        }
        if let Some(place) = self.place(who, kind) {
            *place = Place {
                ring,
                before,
                behind: NOBODY,
            };
        }
    }

    /// The member leaves the ring of this kind that it is in, if it is in one.
    pub(super) fn take_out(&mut self, who: u32, kind: Kind) {
        let Some(place) = self.place(who, kind) else {
            return;
        };
        let Place {
            ring,
            before,
            behind,
        } = core::mem::replace(place, Place::NOWHERE);
        let Some(list) = self.rings.get_mut(usize::from(ring)) else {
            return;
        };
        if before == NOBODY {
            list.head = behind;
        }
        if behind == NOBODY {
            list.tail = before;
        }
        if list.head == NOBODY {
            self.busy &= !1_u32.wrapping_shl(ring.into());
        }
        if let Some(before) = self.place(before, kind) {
            before.behind = behind;
        }
        if let Some(behind) = self.place(behind, kind) {
            behind.before = before;
        }
    }

    /// The member goes to the end of its ring of this kind, if there is anybody else in that. Is
    /// there?
    pub(super) fn turn(&mut self, who: u32, kind: Kind) -> bool {
        let Some(&mut Place { ring, behind, .. }) = self.place(who, kind) else {
            return false;
        };
        if ring == NONE || behind == NOBODY {
            return false;
        }
        self.take_out(who, kind);
        self.put_last(who, kind, ring);
        true
    }

    /// The member did not come when it was its turn.
    pub(super) fn miss(&mut self, who: u32, kind: Kind) {
        self.take_out(who, kind);
        if let Some(member) = self.members.get_mut(who as usize) {
            member.missed |= 1_u8.wrapping_shl(kind as u32);
        }
    }

    /// Whether it missed one. That is made up for now.
    pub(super) fn make_up(&mut self, who: u32, kind: Kind) -> bool {
        let bit = 1_u8.wrapping_shl(kind as u32);
        match self.members.get_mut(who as usize) {
            Some(member) if member.missed & bit != 0 => {
                member.missed &= !bit;
                true
            }
            _ => false,
        }
    }

    /// Whether it missed any.
    pub(super) fn has_missed(&self, who: u32) -> bool {
        let member = self.members.get(who as usize);
        member.is_some_and(|member| member.missed != 0)
    }

    /// The member owes nothing, and nothing is owed to it.
    pub(super) fn forgive(&mut self, who: u32) {
        if let Some(member) = self.members.get_mut(who as usize) {
            member.missed = 0;
        }
    }

    /// When the member will ask for a packet.
    pub(super) fn due(&self, who: u32) -> Nanos {
        let member = self.members.get(who as usize);
        member.map_or(Nanos::MAX, |member| member.due)
    }

    pub(super) fn set_due(&mut self, who: u32, due: Nanos) {
        if let Some(member) = self.members.get_mut(who as usize) {
            member.due = due;
        }
    }

    /// How many bytes of data the member may still send until it is the next one's turn.
    pub(super) fn credit(&self, who: u32) -> i64 {
        let member = self.members.get(who as usize);
        member.map_or(0, |member| member.credit)
    }

    pub(super) fn set_credit(&mut self, who: u32, credit: i64) {
        if let Some(member) = self.members.get_mut(who as usize) {
            member.credit = credit;
        }
    }
}

#[cfg(test)]
mod tests;

// SPDX-License-Identifier: GPL-2.0
//! Parsing of untrusted packets.

use super::*;
use crate::transport::seal::SEAL_LEN;

/// The first field found wrong with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Malformed {
    /// The datagram is not as long as its type says.
    Size,
    /// Another version.
    Version,
    /// No known type.
    Type,
    /// A reserved field is not 0.
    Reserved,
    /// A flag that this type does not have, or flags that exclude each other.
    Flags,
    /// Out of range, or on a type that has none.
    Priority,
    /// A port is 0.
    Port,
    /// The message's length: 0, over [`MAX_LENGTH`], or given although it is not known.
    Length,
    /// More unscheduled bytes than the message has, or some of a message of unknown length.
    Unscheduled,
    /// The full length of DATA is out of range.
    Mss,
    /// Unscheduled data that names a token.
    Token,
    /// The payload ends beyond [`MAX_LENGTH`].
    Offset,
    /// The number of spans is out of range.
    Count,
    /// A span is empty, out of order, or ends beyond [`MAX_LENGTH`].
    Span,
    /// More received than the longest message.
    Received,
    /// A window beyond the longest message.
    Window,
    /// No known reason for a reset.
    Code,
    /// How long the sender tries is out of range.
    Patience,
    /// A CHALLENGE without a number.
    Echo,
}

impl Malformed {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 19] = [
        Self::Size,
        Self::Version,
        Self::Type,
        Self::Reserved,
        Self::Flags,
        Self::Priority,
        Self::Port,
        Self::Length,
        Self::Unscheduled,
        Self::Mss,
        Self::Token,
        Self::Offset,
        Self::Count,
        Self::Span,
        Self::Received,
        Self::Window,
        Self::Code,
        Self::Patience,
        Self::Echo,
    ];

    /// The field's name, for counters.
    pub const fn cause(self) -> &'static str {
        match self {
            Self::Size => "size",
            Self::Version => "version",
            Self::Type => "type",
            Self::Reserved => "reserved",
            Self::Flags => "flags",
            Self::Priority => "priority",
            Self::Port => "port",
            Self::Length => "length",
            Self::Unscheduled => "unscheduled",
            Self::Mss => "mss",
            Self::Token => "token",
            Self::Offset => "offset",
            Self::Count => "count",
            Self::Span => "span",
            Self::Received => "received",
            Self::Window => "window",
            Self::Code => "code",
            Self::Patience => "patience",
            Self::Echo => "echo",
        }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.cause())
    }
}

/// Parses the packet in a UDP payload of `total_len` bytes that begins with `bytes`.
///
/// `bytes` may be truncated, but not before [`MAX_HEADER`]; bytes beyond `total_len` are ignored.
#[inline]
pub fn parse(bytes: &[u8], total_len: usize) -> Result<Packet, Malformed> {
    let bytes = bytes.get(..total_len).unwrap_or(bytes);
    let Some(header) = header::parse(bytes) else {
        return Err(not_ours(bytes));
    };
    let body = Reader(bytes.get(header::LEN..).unwrap_or(&[]));
    match header.kind {
        Type::Sync => sync(header, body, total_len).map(Packet::Sync),
        Type::Token => token(header, body, total_len).map(Packet::Token),
        Type::Data if header.flags & header::FLAG_FIRST != 0 => {
            first(header, body, total_len).map(Packet::First)
        }
        Type::Data => data(header, body, total_len).map(Packet::Data),
        Type::Resend => resend(header, body, total_len).map(Packet::Resend),
        Type::Fin => fin(header, body, total_len).map(Packet::Fin),
        Type::Ack if header.flags & header::FLAG_LIST != 0 => {
            if header.flags & header::FLAG_DELIVERED != 0 {
                return delivered(header, body, total_len).map(Packet::Delivered);
            }
            list(header, body, total_len).map(Packet::Confirm)
        }
        Type::Ack => ack(header, body, total_len).map(Packet::Ack),
        Type::Reset => reset(header, body, total_len).map(Packet::Reset),
        Type::Challenge => challenge(header, body, total_len).map(Packet::Challenge),
    }
}

/// Whether a UDP payload of `total_len` bytes that begins with `bytes` claims to be sealed. Such
/// ones are malformed to [`parse`].
#[cold]
pub fn is_sealed(bytes: &[u8], total_len: usize) -> bool {
    let sealed = |header: Header| header.flags & header.kind.sealed() != 0;
    total_len > SEAL_LEN && header::parse(bytes).is_some_and(sealed)
}

/// As [`parse`], for one that [is sealed](is_sealed). Nothing of it may be believed before the seal
/// has proved right.
#[inline(never)]
pub fn parse_sealed(bytes: &[u8], total_len: usize) -> Result<Packet, Malformed> {
    let mut copy = [0; MAX_HEADER];
    let packet = total_len.saturating_sub(SEAL_LEN);
    let len = bytes.len().min(copy.len()).min(packet);
    for (to, from) in copy.iter_mut().zip(bytes.iter().take(len)) {
        *to = *from;
    }
    let kind = header::parse(&copy).ok_or(Malformed::Type)?.kind;
    if let Some(flags) = copy.get_mut(header::FLAGS) {
        *flags &= !kind.sealed();
    }
    match parse(copy.get(..len).unwrap_or(&copy), packet) {
        // What the keys of one message seal says nothing of another one, and a sealed SYNC needs
        // an answer in any case.
        Ok(Packet::First(_) | Packet::Confirm(_) | Packet::Delivered(_)) => Err(Malformed::Flags),
        other => other,
    }
}

/// The reason why [`header::parse`] failed.
#[cold]
fn not_ours(bytes: &[u8]) -> Malformed {
    match bytes.first_chunk::<{ header::LEN }>() {
        None => Malformed::Size,
        Some(&[first, ..]) if first >> 4 != header::VERSION => Malformed::Version,
        Some(&[.., reserved]) if reserved != 0 => Malformed::Reserved,
        Some(_) => Malformed::Type,
    }
}

fn sync(header: Header, mut body: Reader<'_>, total_len: usize) -> Result<Sync, Malformed> {
    size(total_len == SYNC_LEN)?;
    flags(header, SYNC_FLAGS)?;
    let cookie = body.cookie()?;
    sync_of(header, cookie, &mut body)
}

/// The flags of a SYNC.
const SYNC_FLAGS: u8 = header::FLAG_UNKNOWN_SIZE
    | header::FLAG_PRIORITY
    | header::FLAG_PROBE
    | header::FLAG_ACKED
    | header::FLAG_REN
    | header::FLAG_PACED;

/// What follows a SYNC's cookie. Its flags are known ones.
#[inline]
fn sync_of(header: Header, cookie: Cookie, body: &mut Reader<'_>) -> Result<Sync, Malformed> {
    const PACERS: u8 = header::FLAG_REN | header::FLAG_PACED;
    ensure(header.flags & PACERS != PACERS, Malformed::Flags)?;
    let has = |bit| header.flags & bit != 0;
    let priority = if has(header::FLAG_PRIORITY) {
        priority(header, MAX_PRIORITY)?;
        Some(header.priority)
    } else {
        priority(header, 0)?;
        None
    };
    let (source, destination) = (body.u16()?, body.u16()?);
    ensure(source != 0 && destination != 0, Malformed::Port)?;
    let length = match (body.u32()?, has(header::FLAG_UNKNOWN_SIZE)) {
        (0, true) => None,
        (length @ 1..=MAX_LENGTH, false) => Some(length),
        _ => return Err(Malformed::Length),
    };
    let (deadline, coflow, unscheduled) = (body.u32()?, body.u32()?, body.u32()?);
    ensure(unscheduled <= length.unwrap_or(0), Malformed::Unscheduled)?;
    let mss = body.u16()?;
    ensure((MIN_MSS..=MAX_MSS).contains(&mss), Malformed::Mss)?;
    let patience = body.u16()?;
    ensure((1..=MAX_PATIENCE).contains(&patience), Malformed::Patience)?;
    Ok(Sync {
        cookie,
        source,
        destination,
        length,
        deadline,
        coflow,
        unscheduled,
        mss,
        patience,
        echo: body.u64()?,
        priority,
        probe: has(header::FLAG_PROBE),
        acked: has(header::FLAG_ACKED),
        ren: has(header::FLAG_REN),
        paced: has(header::FLAG_PACED),
    })
}

#[inline]
fn token(header: Header, mut body: Reader<'_>, total_len: usize) -> Result<Token, Malformed> {
    size(total_len == TOKEN_LEN)?;
    flags(header, header::FLAG_GRANT | header::MARK_MASK)?;
    let mark = (header.flags & header::MARK_MASK) >> header::MARK_SHIFT;
    let grant = match (header.flags & header::FLAG_GRANT != 0, mark) {
        (false, 0) => None,
        (true, 0) => Some(Mark::Under),
        (true, 1) => Some(Mark::Full),
        (true, 2) => Some(Mark::Over),
        _ => return Err(Malformed::Flags),
    };
    priority(header, MAX_PRIORITY)?;
    ensure(grant.is_none() || header.beyond == 0, Malformed::Flags)?;
    Ok(Token {
        cookie: body.cookie()?,
        sequence: body.u16()?,
        timestamp: body.u32()?,
        priority: header.priority,
        grant,
        worth: header.worth(),
    })
}

#[inline]
fn data(header: Header, mut body: Reader<'_>, total_len: usize) -> Result<Data, Malformed> {
    flags(
        header,
        header::FLAG_UNSCHEDULED | header::FLAG_UNASKED | header::FLAG_SHORT | header::FLAG_REN,
    )?;
    let cookie = body.cookie()?;
    let (token, timestamp, offset) = (body.u16()?, body.u32()?, body.u32()?);
    // A UDP payload has at most 65527 bytes; nothing of that is lost here.
    let len = u16::try_from(total_len.saturating_sub(DATA_LEN)).unwrap_or(0);
    size(len != 0)?;
    if header.is_unscheduled() || header.is_unasked() {
        ensure(token == 0 && timestamp == 0, Malformed::Token)?;
    }
    let len = u32::from(len);
    ensure(
        offset.checked_add(len).is_some_and(|end| end <= MAX_LENGTH),
        Malformed::Offset,
    )?;
    Ok(Data {
        cookie,
        token,
        timestamp,
        offset,
        len,
        flags: header.flags,
        more: header.priority,
    })
}

/// A SYNC and its data.
fn first(header: Header, mut body: Reader<'_>, total_len: usize) -> Result<First, Malformed> {
    const MUST: u8 = header::FLAG_FIRST | header::FLAG_UNASKED;
    const MAY: u8 = header::FLAG_SHORT | header::FLAG_DELIVERED;
    flags(header, MUST | MAY)?;
    ensure(header.flags & MUST == MUST, Malformed::Flags)?;
    // Nothing is written behind it.
    priority(header, 1)?;
    ensure(header.priority == 1, Malformed::Priority)?;
    let cookie = body.cookie()?;
    ensure(body.u16()? == 0 && body.u32()? == 0, Malformed::Token)?;
    ensure(body.u32()? == 0, Malformed::Offset)?;
    let [priority, flags] = body.take()?;
    let inner = Header {
        kind: Type::Sync,
        priority,
        flags,
        beyond: 0,
    };
    // It begins a message whose length is known, and that neither grants clock nor a pacer.
    let may = header::FLAG_PRIORITY | header::FLAG_PROBE;
    ensure(inner.flags & !may == 0, Malformed::Flags)?;
    let mut sync = sync_of(inner, cookie, &mut body)?;
    let prompt = core::mem::take(&mut sync.probe);
    let mut delivered = Delivered::NONE;
    if header.flags & header::FLAG_DELIVERED != 0 {
        delivered.allowance = body.u16()?;
        let [count, reserved] = body.take()?;
        ensure(reserved == 0, Malformed::Reserved)?;
        ensure(
            count != 0 && usize::from(count) <= MAX_DELIVERED,
            Malformed::Count,
        )?;
        for _ in 0..count {
            ensure(delivered.push(body.cookie()?), Malformed::Count)?;
        }
    }
    let head = FIRST_LEN.saturating_add(delivered.riding_len());
    let len = u16::try_from(total_len.saturating_sub(head)).unwrap_or(0);
    size(len != 0)?;
    let len = u32::from(len);
    ensure(sync.length == Some(len), Malformed::Length)?;
    ensure(sync.unscheduled == len, Malformed::Unscheduled)?;
    Ok(First {
        sync,
        data: Data {
            cookie,
            token: 0,
            timestamp: 0,
            offset: 0,
            len,
            flags: header.flags & !(header::FLAG_FIRST | header::FLAG_DELIVERED),
            more: header.priority,
        },
        prompt,
        delivered,
    })
}

/// Messages that are complete.
fn delivered(
    header: Header,
    mut body: Reader<'_>,
    total_len: usize,
) -> Result<Delivered, Malformed> {
    const ALL: u8 = header::FLAG_FINAL | header::FLAG_LIST | header::FLAG_DELIVERED;
    ensure(header.flags == ALL, Malformed::Flags)?;
    priority(header, 0)?;
    let rest = total_len.wrapping_sub(header::LEN + 2);
    let cookies = rest / COOKIE_LEN;
    size(rest % COOKIE_LEN == 0 && cookies != 0 && cookies <= MAX_DELIVERED)?;
    let mut list = Delivered::NONE;
    for _ in 0..cookies {
        ensure(list.push(body.cookie()?), Malformed::Size)?;
    }
    list.allowance = body.u16()?;
    Ok(list)
}

/// Cookies of several messages.
fn list(header: Header, mut body: Reader<'_>, total_len: usize) -> Result<Cookies, Malformed> {
    const ALL: u8 = header::FLAG_FINAL | header::FLAG_LIST;
    ensure(header.flags == ALL, Malformed::Flags)?;
    priority(header, 0)?;
    let rest = total_len.wrapping_sub(header::LEN);
    let cookies = rest / COOKIE_LEN;
    size(rest % COOKIE_LEN == 0 && cookies != 0 && cookies <= MAX_COOKIES)?;
    let mut list = Cookies::new(body.cookie()?);
    for _ in 1..cookies {
        ensure(list.push(body.cookie()?), Malformed::Size)?;
    }
    Ok(list)
}

fn resend(header: Header, mut body: Reader<'_>, total_len: usize) -> Result<Resend, Malformed> {
    bare(header)?;
    let cookie = body.cookie()?;
    let count = usize::from(body.u16()?);
    ensure(body.u16()? == 0, Malformed::Reserved)?;
    ensure(count != 0 && count <= MAX_SPANS, Malformed::Count)?;
    size(total_len == RESEND_LEN.wrapping_add(count.wrapping_mul(SPAN_LEN)))?;
    let mut spans = Spans::EMPTY;
    for _ in 0..count {
        let (start, end) = (body.u32()?, body.u32()?);
        ensure(spans.push(start, end), Malformed::Span)?;
    }
    Ok(Resend { cookie, spans })
}

fn fin(header: Header, mut body: Reader<'_>, total_len: usize) -> Result<Fin, Malformed> {
    size(total_len == FIN_LEN)?;
    bare(header)?;
    let (cookie, length) = (body.cookie()?, body.u32()?);
    ensure(length != 0 && length <= MAX_LENGTH, Malformed::Length)?;
    Ok(Fin { cookie, length })
}

fn ack(header: Header, mut body: Reader<'_>, total_len: usize) -> Result<Ack, Malformed> {
    size(total_len == ACK_LEN)?;
    flags(
        header,
        header::FLAG_FINAL | header::FLAG_NOTIFY | header::ECN_MASK,
    )?;
    let notify = header.flags & header::FLAG_NOTIFY != 0;
    let mark = match (header.flags & header::ECN_MASK, notify) {
        (0, false) => rate::Mark::None,
        (1, _) => rate::Mark::Undetermined,
        (3, _) => rate::Mark::Congested,
        _ => return Err(Malformed::Flags),
    };
    priority(header, 0)?;
    let cookie = body.cookie()?;
    let (received, window) = (body.u32()?, body.u32()?);
    ensure(received <= MAX_LENGTH, Malformed::Received)?;
    ensure(window <= MAX_LENGTH, Malformed::Window)?;
    Ok(Ack {
        cookie,
        received,
        window,
        allowance: body.u16()?,
        last: header.flags & header::FLAG_FINAL != 0,
        mark,
        notify,
    })
}

fn reset(header: Header, mut body: Reader<'_>, total_len: usize) -> Result<Reset, Malformed> {
    size(total_len == RESET_LEN)?;
    bare(header)?;
    let cookie = body.cookie()?;
    let code = ResetCode::from_wire(body.u16()?).ok_or(Malformed::Code)?;
    ensure(body.u16()? == 0, Malformed::Reserved)?;
    Ok(Reset { cookie, code })
}

fn challenge(
    header: Header,
    mut body: Reader<'_>,
    total_len: usize,
) -> Result<Challenge, Malformed> {
    size(total_len == CHALLENGE_LEN)?;
    flags(header, header::FLAG_TICKET)?;
    priority(header, 0)?;
    let (cookie, echo) = (body.cookie()?, body.u64()?);
    ensure(echo != 0, Malformed::Echo)?;
    Ok(Challenge {
        cookie,
        echo,
        ticket: header.flags & header::FLAG_TICKET != 0,
    })
}

#[inline]
fn ensure(right: bool, otherwise: Malformed) -> Result<(), Malformed> {
    if right {
        Ok(())
    } else {
        Err(otherwise)
    }
}

#[inline]
fn size(right: bool) -> Result<(), Malformed> {
    ensure(right, Malformed::Size)
}

#[inline]
fn flags(header: Header, known: u8) -> Result<(), Malformed> {
    ensure(header.flags & !known == 0, Malformed::Flags)
}

#[inline]
fn priority(header: Header, max: u8) -> Result<(), Malformed> {
    ensure(header.priority <= max, Malformed::Priority)
}

/// Neither flags nor a priority.
#[inline]
fn bare(header: Header) -> Result<(), Malformed> {
    flags(header, 0)?;
    priority(header, 0)
}

/// The bytes that are left to read.
#[derive(Clone, Copy)]
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    #[inline]
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(Malformed::Size)?;
        self.0 = rest;
        Ok(*head)
    }

    #[inline]
    fn cookie(&mut self) -> Result<Cookie, Malformed> {
        self.take().map(u64::from_be_bytes).map(Cookie)
    }

    #[inline]
    fn u64(&mut self) -> Result<u64, Malformed> {
        self.take().map(u64::from_be_bytes)
    }

    #[inline]
    fn u16(&mut self) -> Result<u16, Malformed> {
        self.take().map(u16::from_be_bytes)
    }

    #[inline]
    fn u32(&mut self) -> Result<u32, Malformed> {
        self.take().map(u32::from_be_bytes)
    }
}

// SPDX-License-Identifier: GPL-2.0
//! A generic netlink family.
//!
//! C headers: [`include/net/genetlink.h`](srctree/include/net/genetlink.h), `c/genl.h`.

use crate::{
    attr::{self, Nest, Policy},
    bindings,
    net::{Net, Outbox},
    registration::Registration,
    transport::Transport,
    Extack, Reply as Message,
};
use core::{
    marker::{PhantomData, PhantomPinned},
    ops::{Deref, DerefMut},
    ptr::NonNull,
    slice,
};
use kernel::{error::to_result, ffi::c_int, prelude::*};
use pin_init::pin_init_from_closure;

/// A generic netlink family, for the namespaces of a transport.
///
/// Requests are checked strictly: reserved fields must be zero, and attributes that a command does
/// not know are refused.
pub trait Family: Transport {
    /// The family's name, at most 15 bytes.
    const NAME: &'static CStr;
    /// The same name, for what a person reads.
    const WHO: &'static str;
    /// The family's version.
    const VERSION: u8;
    /// The name of its multicast group, at most 15 bytes.
    const GROUP: &'static CStr;
    /// Its commands, in the order of their numbers; at most 16.
    const COMMANDS: &'static [Command<Self>];

    /// Somebody said [`Outbox::tell`]: now is the time to [`News::multicast`]. May sleep.
    fn news(net: &mut News<'_, Self>);

    /// A device of the namespace came up, went down or changed: [`Control::fastest`] may be
    /// another. May sleep.
    fn link_changed(net: &mut Control<'_, Self>);
}

/// A command of a family.
pub struct Command<T: Transport> {
    /// Its number.
    pub number: u8,
    /// What it does.
    pub run: Run<T>,
}

/// What a command does. All may sleep.
pub enum Run<T: Transport> {
    /// Answers with a message. It takes no attributes, and whoever wants may ask.
    Read(fn(&mut Control<'_, T>, &mut Message) -> Result),
    /// Changes something. Needs `CAP_NET_ADMIN` in the user namespace that the network namespace
    /// belongs to.
    Change(fn(&mut Control<'_, T>, Nest<'_>, &mut Extack) -> Result),
    /// Answers with as many messages as it likes. It takes no attributes, and whoever wants may
    /// ask. Called again, with the same [`Dump::position`], as long as there was no room for all of
    /// them.
    Dump(fn(&mut Control<'_, T>, &mut Dump<'_>) -> Result),
}

/// A dump: a part of it that fits into one buffer.
pub struct Dump<'a> {
    raw: &'a bindings::knt_dump,
    full: bool,
}

impl Dump<'_> {
    /// Where to begin: zeros at first, then what it was at the end of the part before.
    pub fn position(&mut self) -> &mut [u64; 4] {
        // SAFETY: it belongs to the dump, and nobody else uses it while the dump's callback runs.
        unsafe { &mut (*self.raw.position).word }
    }

    /// Says in which state what is dumped is: a number that differs after each change. A reader
    /// learns that the dump is no picture of one moment by a flag (`NLM_F_DUMP_INTR`) of the
    /// messages that follow.
    pub fn state(&mut self, number: u32) {
        // SAFETY: valid during the callback.
        unsafe { bindings::knt_genl_dump_state(self.raw, number) }
    }

    /// Adds a message. `false`: there is no room, and nothing was added; go on with this one next
    /// time.
    ///
    /// # Errors
    /// `EMSGSIZE` for a message that fits no buffer.
    pub fn entry(&mut self, fill: impl FnOnce(&mut Message) -> Result) -> Result<bool> {
        // SAFETY: valid during the callback, as in all of what follows.
        let entry = unsafe { bindings::knt_genl_entry_begin(self.raw) };
        let filled = if entry.is_null() {
            Err(EMSGSIZE)
        } else {
            // SAFETY: the message is being built.
            let filled = fill(&mut unsafe { Message::from_raw(self.raw.skb) });
            // SAFETY: begun above.
            unsafe {
                match filled {
                    Ok(()) => bindings::knt_genl_entry_end(self.raw, entry),
                    Err(_) => bindings::knt_genl_entry_cancel(self.raw, entry),
                }
            }
            filled
        };
        match filled {
            Ok(()) => Ok(true),
            // SAFETY: as above.
            Err(_) if unsafe { bindings::knt_genl_dump_is_empty(self.raw) } => Err(EMSGSIZE),
            Err(_) => {
                self.full = true;
                Ok(false)
            }
        }
    }
}

/// A namespace of which the state is being made.
pub struct Opening<'a>(NonNull<bindings::knt_net>, PhantomData<&'a ()>);

impl Opening<'_> {
    /// # Safety
    ///
    /// The namespace must live as long as the value, in process context and without locks that are
    /// taken within RTNL.
    pub(crate) unsafe fn from_raw(net: *mut bindings::knt_net) -> Self {
        // SAFETY: what lives is not at address 0.
        Self(unsafe { NonNull::new_unchecked(net) }, PhantomData)
    }

    /// Whether the namespace belongs to the initial user namespace. In others anybody may be root,
    /// and its memory should count to somebody's cgroup.
    pub fn is_initial(&self) -> bool {
        // SAFETY: the namespace lives.
        unsafe { bindings::knt_net_is_initial(self.0.as_ptr()) }
    }

    /// The speed, in bytes/s, of the fastest device that is up and says how fast it is. Also asks
    /// all the others, for [`Locked::device`](crate::Locked::device). Sleeps, and takes RTNL.
    pub fn fastest(&mut self) -> Option<u64> {
        // SAFETY: the namespace lives, and this is a context for it by `from_raw`.
        match unsafe { bindings::knt_net_fastest(self.0.as_ptr()) } {
            0 => None,
            speed => Some(speed),
        }
    }
}

/// A namespace in a request, or in what the kernel does later: no socket is locked, so that the
/// devices can be asked, and the state be made.
pub struct Control<'a, T: Transport>(Net<'a, T>);

impl<'a, T: Transport> Deref for Control<'a, T> {
    type Target = Net<'a, T>;

    fn deref(&self) -> &Net<'a, T> {
        &self.0
    }
}

impl<T: Transport> DerefMut for Control<'_, T> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl<T: Transport> Control<'_, T> {
    /// # Safety
    ///
    /// As for [`Net::from_raw`], in process context and without a lock that is taken within RTNL.
    unsafe fn from_raw(net: *mut bindings::knt_net) -> Self {
        // SAFETY: promised by the caller.
        Self(unsafe { Net::from_raw(net) })
    }

    /// Makes the state and opens the UDP port, if that was not done yet. Sleeps.
    ///
    /// # Errors
    /// `ENOMEM`; `EADDRINUSE` when another program has the port.
    pub fn open(&mut self) -> Result {
        // SAFETY: the namespace lives, and its lock is not held: nobody borrows `self`.
        to_result(unsafe { bindings::knt_net_open(self.as_raw()) })
    }

    /// As [`Opening::is_initial`].
    pub fn is_initial(&self) -> bool {
        // SAFETY: as in `open`.
        unsafe { Opening::from_raw(self.as_raw()) }.is_initial()
    }

    /// The speed, in bytes/s, of the fastest device that is up and says how fast it is. Also asks
    /// all the others, for [`Locked::device`](crate::Locked::device). Sleeps.
    pub fn fastest(&mut self) -> Option<u64> {
        // SAFETY: the namespace lives; the context is right by `from_raw`, and its lock is not
        // held, as in `open`.
        unsafe { Opening::from_raw(self.as_raw()) }.fastest()
    }
}

/// A namespace that tells its listeners of something.
pub struct News<'a, T: Family>(Net<'a, T>);

impl<'a, T: Family> Deref for News<'a, T> {
    type Target = Net<'a, T>;

    fn deref(&self) -> &Net<'a, T> {
        &self.0
    }
}

impl<T: Family> DerefMut for News<'_, T> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl Outbox {
    /// Whether anybody listens to the group.
    pub fn is_heard(&self) -> bool {
        // SAFETY: the namespace lives by the type's invariant.
        unsafe { bindings::knt_genl_heard(self.net) }
    }

    /// Has [`Family::news`] called soon, after the lock is released.
    pub fn tell(&self) {
        // SAFETY: the namespace lives by the type's invariant, and waits for the call before it
        // ends.
        unsafe { bindings::knt_news(self.net) }
    }
}

impl<T: Family> News<'_, T> {
    /// Sends a message to all that listen to the group.
    ///
    /// No other message is being made meanwhile, with which `fill` could mix this one up: none
    /// comes with a [`News`], which this has exclusively.
    ///
    /// # Errors
    /// `ENOMEM`, `ENOBUFS` (a listener's buffer is full; it is told so), or what `fill` returns.
    pub fn multicast(&mut self, command: u8, fill: impl FnOnce(&mut Message) -> Result) -> Result {
        // SAFETY: no preconditions.
        let skb = unsafe { bindings::knt_genl_event_new(command) };
        if skb.is_null() {
            return Err(ENOMEM);
        }
        // SAFETY: ours, and being built.
        if let Err(error) = fill(&mut unsafe { Message::from_raw(skb) }) {
            // SAFETY: ours to free.
            unsafe { bindings::knt_genl_drop(skb) };
            return Err(error);
        }
        // SAFETY: the namespace lives; C takes the message.
        to_result(unsafe { bindings::knt_genl_event_send(self.as_raw(), skb) })
    }
}

/// The family is registered while this lives, and its transport with it: requests reach into the
/// namespaces' state. All that [`Registration`] says holds for it.
#[pin_data]
pub struct FamilyRegistration<T: Family> {
    // In the order in which they are dropped.
    #[pin]
    family: Registered<T>,
    #[pin]
    transport: Registration<T>,
}

impl<T: Family> FamilyRegistration<T> {
    /// Makes the transport and the family known.
    ///
    /// # Errors
    /// Those of [`Registration::new`] and of `genl_register_family`: `EEXIST` if there is one of
    /// that name.
    pub fn new(module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            transport <- Registration::new(),
            family <- Registered::new(module),
        })
    }
}

/// The family, after its transport.
#[pin_data(PinnedDrop)]
struct Registered<T: Family> {
    #[pin]
    _pinned: PhantomPinned,
    _family: PhantomData<fn() -> T>,
}

const MAX_COMMANDS: usize = bindings::KNT_COMMANDS as usize;

impl<T: Family> Registered<T> {
    fn new(module: &'static ThisModule) -> impl PinInit<Self, Error> {
        let init = move |slot: *mut Self| -> Result {
            register::<T>(module)?;
            let value = Self {
                _pinned: PhantomPinned,
                _family: PhantomData,
            };
            // SAFETY: `slot` is valid for a write, as `PinInit` promises.
            unsafe { slot.write(value) };
            Ok(())
        };
        // SAFETY: the value is initialised if the closure says `Ok`, and does not need to be
        // cleaned up otherwise.
        unsafe { pin_init_from_closure(init) }
    }
}

/// The transport `T` must be registered.
fn register<T: Family>(module: &'static ThisModule) -> Result {
    let mut commands = [bindings::knt_command::default(); MAX_COMMANDS];
    for (raw, command) in commands.iter_mut().zip(T::COMMANDS) {
        *raw = bindings::knt_command {
            number: command.number,
            admin: matches!(command.run, Run::Change(_)),
            dump: matches!(command.run, Run::Dump(_)),
        };
    }
    let family = bindings::knt_family {
        name: T::NAME.as_char_ptr(),
        group: T::GROUP.as_char_ptr(),
        owner: module.as_ptr().cast(),
        ops: &Table::<T>::OPS,
        commands: commands.as_ptr(),
        n_commands: T::COMMANDS.len() as u32,
        version: T::VERSION.into(),
    };
    // SAFETY: C copies the names and the commands (and refuses more than there is room for); the
    // table is static. There is one family at a time, because there is one registered transport.
    to_result(unsafe { bindings::knt_genl_register(&family) })
}

#[pinned_drop]
impl<T: Family> PinnedDrop for Registered<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: registered by `new`. C does it only if nothing uses the module.
        unsafe { bindings::knt_genl_unregister() }
    }
}

struct Table<T>(PhantomData<T>);

impl<T: Family> Table<T> {
    const OPS: bindings::knt_genl_ops = bindings::knt_genl_ops {
        request: Some(request::<T>),
        dump_start: Some(dump_start::<T>),
        dump: Some(dump::<T>),
        news: Some(news::<T>),
        link_changed: Some(link_changed::<T>),
    };
}

fn command<T: Family>(number: u8) -> Option<&'static Run<T>> {
    let found = T::COMMANDS.iter().find(|command| command.number == number);
    found.map(|command| &command.run)
}

fn answer(result: Result<c_int>) -> c_int {
    result.unwrap_or_else(Error::to_errno)
}

/// A request's attributes and where to complain.
///
/// # Safety
///
/// The request must live for `'a`.
unsafe fn parts<'a>(request: &'a bindings::knt_request) -> (Nest<'a>, Extack) {
    let attrs = match NonNull::new(request.attrs.cast_mut()) {
        // SAFETY: C says how many bytes there are.
        Some(attrs) => unsafe { slice::from_raw_parts(attrs.as_ptr(), request.attrs_len as usize) },
        None => &[],
    };
    // SAFETY: the caller's, for the time of the request.
    (Nest::new(attrs), unsafe {
        Extack::from_raw(request.extack)
    })
}

/// Refuses all attributes.
fn bare<T: Family>(attrs: Nest<'_>, extack: &mut Extack) -> Result {
    let none = Policy {
        who: T::WHO,
        rules: &[],
        outside: |_, _, _| Ok(()),
    };
    attr::parse(attrs, &none, extack, |_, _, _| Ok(()))
}

/// # Safety
///
/// - C guarantees: `request` and its attributes are valid until the return, and the namespace
///   lives. Process context, may sleep; other requests may run at the same time.
/// - Rust gives 0 or a negative errno, and keeps nothing of `request`.
unsafe extern "C" fn request<T: Family>(raw: *const bindings::knt_request) -> c_int {
    // SAFETY: the caller's, for the time of the call.
    let raw = unsafe { &*raw };
    // SAFETY: as above.
    let (attrs, mut extack) = unsafe { parts(raw) };
    // SAFETY: the request's socket holds the namespace; a request has no lock but those of generic
    // netlink.
    let mut net = unsafe { Control::<T>::from_raw(raw.tn) };
    let done = match command::<T>(raw.command) {
        Some(Run::Read(read)) => bare::<T>(attrs, &mut extack).and_then(|()| {
            // SAFETY: the request lives.
            let skb = unsafe { bindings::knt_genl_reply_new(raw.info) };
            if skb.is_null() {
                return Err(ENOMEM);
            }
            // SAFETY: ours, and being built.
            match read(&mut net, &mut unsafe { Message::from_raw(skb) }) {
                // SAFETY: C takes the message.
                Ok(()) => to_result(unsafe { bindings::knt_genl_reply_send(skb, raw.info) }),
                Err(error) => {
                    // SAFETY: ours to free.
                    unsafe { bindings::knt_genl_drop(skb) };
                    Err(error)
                }
            }
        }),
        Some(Run::Change(change)) => change(&mut net, attrs, &mut extack),
        // C knows the commands, too.
        Some(Run::Dump(_)) | None => Err(EINVAL),
    };
    answer(done.map(|()| 0))
}

/// # Safety
///
/// - C guarantees: as for `request`; no message of the dump was made yet.
/// - Rust gives 0, and C goes on with `dump`; or a negative errno, and it does not.
unsafe extern "C" fn dump_start<T: Family>(raw: *const bindings::knt_request) -> c_int {
    // SAFETY: the caller's, for the time of the call.
    let (attrs, mut extack) = unsafe { parts(&*raw) };
    answer(bare::<T>(attrs, &mut extack).map(|()| 0))
}

/// # Safety
///
/// - C guarantees: `dump` is the one that `dump_start` allowed, its message has room, and the
///   namespace lives. Process context, may sleep.
/// - Rust gives 0 when all is written, 1 when there is more, or a negative errno, and keeps
///   nothing of `dump` but its position.
unsafe extern "C" fn dump<T: Family>(raw: *mut bindings::knt_dump) -> c_int {
    // SAFETY: the caller's, for the time of the call.
    let raw = unsafe { &*raw };
    // SAFETY: the dump's socket holds the namespace, and a dump has no lock but that socket's for
    // dumps.
    let mut net = unsafe { Control::<T>::from_raw(raw.tn) };
    let Some(Run::Dump(run)) = command::<T>(raw.command) else {
        return EINVAL.to_errno();
    };
    let mut part = Dump { raw, full: false };
    answer(run(&mut net, &mut part).map(|()| c_int::from(part.full)))
}

/// # Safety
///
/// - C guarantees: `tn` is an open namespace, and stays so during the call. A work item, may sleep;
///   after `knt_news()`, perhaps once for several.
/// - Rust tells all that was noted until then.
unsafe extern "C" fn news<T: Family>(tn: *mut bindings::knt_net) {
    // SAFETY: the namespace waits for this call before it ends.
    T::news(&mut News(unsafe { Net::from_raw(tn) }));
}

/// # Safety
///
/// - C guarantees: `tn` is a namespace, and stays so during the call. A work item, may sleep; a
///   device came up, went down or changed.
/// - Rust does not rely on being called once for each change.
unsafe extern "C" fn link_changed<T: Family>(tn: *mut bindings::knt_net) {
    // SAFETY: as for `news`; a work item has no locks.
    T::link_changed(&mut unsafe { Control::from_raw(tn) });
}

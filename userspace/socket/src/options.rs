// SPDX-License-Identifier: GPL-2.0
//! Socket options and state, for sync and tokio sockets alike.

/// The methods that sync and tokio sockets have in common; both have a `raw()`.
macro_rules! socket_options {
    () => {
        /// The address that the socket is bound to.
        ///
        /// # Errors
        /// What the kernel says.
        pub fn local_addr(&self) -> std::io::Result<std::net::SocketAddr> {
            let address = self.raw().socket.local_addr()?;
            address
                .as_socket()
                .ok_or_else(|| std::io::ErrorKind::AddrNotAvailable.into())
        }

        /// The peer that the socket is connected to.
        ///
        /// # Errors
        /// ENOTCONN.
        pub fn peer_addr(&self) -> std::io::Result<std::net::SocketAddr> {
            let address = self.raw().socket.peer_addr()?;
            address
                .as_socket()
                .ok_or_else(|| std::io::ErrorKind::NotConnected.into())
        }

        /// Whether there is a completion for each delivered message, and not only for failures. Off
        /// by default.
        ///
        /// # Errors
        /// What the kernel says.
        pub fn set_completions(&self, on: bool) -> std::io::Result<()> {
            self.raw().set(Opt::Completions, on.into())
        }

        /// See [`Self::set_completions`].
        ///
        /// # Errors
        /// What the kernel says.
        pub fn completions(&self) -> std::io::Result<bool> {
            Ok(self.raw().get(Opt::Completions)? != 0)
        }

        /// Whether reads return an [`Info`](crate::Info). On by default.
        ///
        /// # Errors
        /// What the kernel says.
        pub fn set_receive_info(&self, on: bool) -> std::io::Result<()> {
            self.raw().set_info(on.into())
        }

        /// See [`Self::set_receive_info`].
        ///
        /// # Errors
        /// What the kernel says.
        pub fn receive_info(&self) -> std::io::Result<bool> {
            Ok(self.raw().get(Opt::ReceiveInfo)? != 0)
        }

        /// Whether reads may return pieces of several messages in turn: when there is nothing more
        /// of one that still arrives, the next read is of another. Each has its number and offset
        /// ([`Info`](crate::Info)). Off by default: each message is read to its end, and one that
        /// stands still while others wait is given up, with ETIMEDOUT. Calls that return whole
        /// messages, and readers, are refused while it is on
        /// ([`Error::Interleaved`](crate::Error::Interleaved)).
        ///
        /// # Errors
        /// What the kernel says.
        pub fn set_interleaved(&self, on: bool) -> std::io::Result<()> {
            self.raw().set_info(if on { 2 } else { 1 })
        }

        /// Reads are of the message of this number only ([`Info`](crate::Info)), until it has
        /// ended. `None`: of any.
        ///
        /// # Errors
        /// ENOENT: there is no such message, or not any more.
        pub fn read_only(&self, number: Option<u64>) -> std::io::Result<()> {
            let number = number.unwrap_or(u64::MAX);
            self.raw()
                .set_number(turnstile_core::transport::uapi::sockopt::READ, number)
        }

        /// Throws a received message away, or one that still arrives: then its sender gets
        /// ECONNRESET.
        ///
        /// # Errors
        /// ENOENT: there is no such message, or not any more.
        pub fn discard(&self, number: u64) -> std::io::Result<()> {
            self.raw()
                .set_number(turnstile_core::transport::uapi::sockopt::DISCARD, number)
        }

        /// How the socket's messages are sealed, both ways, from now on. Messages under way keep
        /// the key that they have.
        ///
        /// # Errors
        /// ENOKEY: there is no such key; EACCES: it is in none of the caller's keyrings; EINVAL: it
        /// is of another type than `logon`; EMSGSIZE: it does not have 32 bytes; EKEYREVOKED,
        /// EKEYEXPIRED; EEXIST: another key of the namespace's sockets has the same name in
        /// packets.
        pub fn set_security(&self, security: crate::Security) -> std::io::Result<()> {
            let value = match security {
                crate::Security::Namespace => 0,
                crate::Security::Off => -1,
                crate::Security::Psk(key) => crate::message::serial(key)?,
            };
            self.raw().set(Opt::Key, value)
        }

        /// See [`Self::set_security`].
        ///
        /// # Errors
        /// What the kernel says.
        pub fn security(&self) -> std::io::Result<crate::Security> {
            let value = self.raw().get(Opt::Key)?;
            Ok(match u32::try_from(value) {
                Ok(0) => crate::Security::Namespace,
                Ok(key) => crate::Security::Psk(key),
                Err(_) => crate::Security::Off,
            })
        }

        /// Another key that messages to a socket with a key of its own may come with, for as long
        /// as its peers still have that one. `None`: no other.
        ///
        /// # Errors
        /// As [`Self::set_security`]; EINVAL: the socket has no key of its own.
        pub fn set_accept_key(&self, key: Option<u32>) -> std::io::Result<()> {
            let value = key.map_or(Ok(0), crate::message::serial)?;
            self.raw().set(Opt::AcceptKey, value)
        }

        /// Priority of messages that are sent without one, 0 (highest) to 7. `None`, the default,
        /// leaves it to the receiver's policy.
        ///
        /// # Errors
        /// EINVAL for others.
        pub fn set_default_priority(&self, priority: Option<u8>) -> std::io::Result<()> {
            let value = priority.map_or(-1, i32::from);
            self.raw().set(Opt::DefaultPriority, value)
        }

        /// See [`Self::set_default_priority`].
        ///
        /// # Errors
        /// What the kernel says.
        pub fn default_priority(&self) -> std::io::Result<Option<u8>> {
            Ok(u8::try_from(self.raw().get(Opt::DefaultPriority)?).ok())
        }

        /// Bytes of the send buffer (`SO_SNDBUF`). The kernel doubles what is set, and limits it
        /// (`net.core.wmem_max`).
        ///
        /// # Errors
        /// What the kernel says.
        pub fn set_send_buffer_size(&self, bytes: usize) -> std::io::Result<()> {
            self.raw().socket.set_send_buffer_size(bytes)
        }

        /// See [`Self::set_send_buffer_size`].
        ///
        /// # Errors
        /// What the kernel says.
        pub fn send_buffer_size(&self) -> std::io::Result<usize> {
            self.raw().socket.send_buffer_size()
        }

        /// Bytes of the receive buffer (`SO_RCVBUF`). The kernel doubles what is set, and limits it
        /// (`net.core.rmem_max`).
        ///
        /// # Errors
        /// What the kernel says.
        pub fn set_recv_buffer_size(&self, bytes: usize) -> std::io::Result<()> {
            self.raw().socket.set_recv_buffer_size(bytes)
        }

        /// See [`Self::set_recv_buffer_size`].
        ///
        /// # Errors
        /// What the kernel says.
        pub fn recv_buffer_size(&self) -> std::io::Result<usize> {
            self.raw().socket.recv_buffer_size()
        }

        /// What closing does with undelivered messages (`SO_LINGER`). `None`, the default: they are
        /// delivered in the background. Zero: they are aborted, and the receivers are told.
        /// Otherwise closing waits for them, for at most this time, in whole seconds.
        ///
        /// # Errors
        /// What the kernel says.
        pub fn set_linger(&self, linger: Option<std::time::Duration>) -> std::io::Result<()> {
            self.raw().socket.set_linger(linger)
        }

        /// See [`Self::set_linger`].
        ///
        /// # Errors
        /// What the kernel says.
        pub fn linger(&self) -> std::io::Result<Option<std::time::Duration>> {
            self.raw().socket.linger()
        }

        /// Whether an IPv6 socket refuses IPv4 (`IPV6_V6ONLY`).
        ///
        /// # Errors
        /// What the kernel says.
        pub fn set_only_v6(&self, only: bool) -> std::io::Result<()> {
            self.raw().socket.set_only_v6(only)
        }

        /// Takes the socket's pending error (`SO_ERROR`).
        ///
        /// # Errors
        /// What the kernel says.
        pub fn take_error(&self) -> std::io::Result<Option<std::io::Error>> {
            self.raw().socket.take_error()
        }

        /// Shuts down one direction or both. Messages that were sent are delivered; received bytes
        /// can still be read.
        ///
        /// # Errors
        /// What the kernel says.
        pub fn shutdown(&self, how: std::net::Shutdown) -> std::io::Result<()> {
            self.raw().socket.shutdown(how)
        }

        /// Bytes that can be read (`SIOCINQ`).
        ///
        /// # Errors
        /// What the kernel says.
        pub fn incoming_queued(&self) -> std::io::Result<usize> {
            self.raw().queued(false)
        }

        /// Bytes that were sent and not acknowledged (`SIOCOUTQ`).
        ///
        /// # Errors
        /// What the kernel says.
        pub fn outgoing_queued(&self) -> std::io::Result<usize> {
            self.raw().queued(true)
        }
    };
}

pub(crate) use socket_options;

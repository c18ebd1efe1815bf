// SPDX-License-Identifier: GPL-2.0
//! Where memory has to count to somebody, packets make no table grow.

use std::cell::Cell;

use turnstile_core::transport::config::Config;
use turnstile_core::transport::endpoint::Endpoint;
use turnstile_core::transport::host::Memory;
use turnstile_core::transport::stats::Counter;
use turnstile_core::transport::wire::{Cookie, Packet, Sync};
use turnstile_core::units::Nanos;

use crate::user::{peer, In, Io, Out};

std::thread_local! {
    /// Whether there is somebody whom memory counts to.
    static SOMEBODY: Cell<bool> = const { Cell::new(true) };
    /// Chunks that counted to nobody.
    static NOBODYS: Cell<u32> = const { Cell::new(0) };
}

enum Counting {}

impl Memory for Counting {
    type Chunk<T> = Vec<T>;
    fn chunk<T>(len: usize, fill: impl FnMut(usize) -> T) -> Option<Vec<T>> {
        if !SOMEBODY.get() {
            NOBODYS.set(NOBODYS.get() + 1);
        }
        Some((0..len).map(fill).collect())
    }
}

/// Packets that nobody's system call is there for.
fn flood(endpoint: &mut Endpoint<Counting, Out, In>, io: &mut Io, cookies: std::ops::Range<u64>) {
    SOMEBODY.set(false);
    for cookie in cookies {
        let sync = Packet::Sync(Sync {
            cookie: Cookie(0x1234_5678_0000_0000 + cookie),
            source: 1,
            destination: 2,
            length: Some(20_000),
            deadline: 0,
            coflow: cookie as u32,
            unscheduled: 0,
            mss: 1450,
            priority: None,
            probe: false,
            acked: false,
            ren: false,
            patience: 100,
            echo: 0,
            paced: false,
        });
        let from = peer(cookie as u8);
        endpoint.packet(Nanos(2000), 0, &from, 0, 0, &sync, (), io);
    }
    SOMEBODY.set(true);
}

#[test]
fn packets_make_no_table_grow_where_memory_has_to_count_to_somebody() {
    let config = Config {
        max_half_open: 65_536,
        // Strangers have half of these.
        max_incoming: 4000,
        ..Config::DEFAULT
    };
    let resolved = config.validate(None).unwrap();
    let mut io = Io::new(1, 30_000);
    let mut endpoint = Endpoint::<Counting, Out, In>::new(Nanos(1000), &resolved, [1; 3]).unwrap();
    endpoint.grow_ahead();
    // Nobody has a socket yet.
    flood(&mut endpoint, &mut io, 0..10);
    assert_eq!(endpoint.counts().1, 0);
    endpoint.prepare();
    flood(&mut endpoint, &mut io, 0..10_000);
    let first = endpoint.counts().1;
    assert!((128..=256).contains(&first), "{first} messages");
    // What is left is for those that prove their address.
    assert!(endpoint.stats().get(Counter::HalfOpenChallenged) >= 9000);
    // Each call of a socket makes room for more, up to the limit.
    for _ in 0..8 {
        let before = endpoint.counts().1;
        endpoint.prepare();
        flood(&mut endpoint, &mut io, 0..10_000);
        assert!(endpoint.counts().1 >= (before + 128).min(2000));
    }
    assert_eq!(endpoint.counts().1, 2000);
    assert_eq!(NOBODYS.get(), 0, "chunks counted to nobody");
    // Elsewhere they grow when they have to.
    let mut other = Endpoint::<Counting, Out, In>::new(Nanos(1000), &resolved, [1; 3]).unwrap();
    flood(&mut other, &mut io, 0..10_000);
    assert_eq!(other.counts().1, 2000);
    assert_ne!(NOBODYS.get(), 0);
}

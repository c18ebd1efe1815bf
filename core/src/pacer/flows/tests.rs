// SPDX-License-Identifier: GPL-2.0
use super::*;
use proptest::prelude::*;
use std::vec::Vec;

impl Slots for Vec<Slot> {
    fn slots(&self) -> &[Slot] {
        self
    }
    fn slots_mut(&mut self) -> &mut [Slot] {
        self
    }
}

const IDLE: u64 = 1_000;

fn config(associate: u32) -> Config {
    Config {
        associate,
        idle: Nanos(IDLE),
        ..Config::DEFAULT
    }
}

fn table(flows: usize, associate: u32) -> Flows<Vec<Slot>> {
    Flows::new(&config(associate), std::vec![Slot::EMPTY; flows], 1)
}

fn flow(number: u8) -> FlowKey {
    FlowKey {
        ports: [0, number, 0, 0],
        ..FlowKey::default()
    }
}

const ALWAYS: u32 = 1_000_000_000;

#[test]
fn an_echo_associates_its_flow_and_no_other() {
    let mut flows = table(4, ALWAYS);
    let now = Nanos(10);
    assert!(!flows.lookup(now, &flow(1), now));
    flows.echo(now, &flow(1));
    assert!(flows.lookup(now, &flow(1), now));
    assert!(!flows.lookup(now, &flow(2), now));
    flows.echo(now, &flow(1));
    let stats = flows.stats();
    assert_eq!((stats.echoes, stats.associated, stats.flows), (2, 1, 1));
}

#[test]
fn never_and_with_a_probability() {
    let mut never = table(4, 0);
    let mut now = Nanos(0);
    for _ in 0..1_000 {
        never.echo(now, &flow(1));
    }
    assert_eq!(never.stats().associated, 0);
    let mut eighth = table(1, 125_000_000);
    let mut drawn = 0;
    for _ in 0..80_000 {
        now += Nanos(2 * IDLE);
        eighth.lookup(now, &flow(2), now);
        eighth.echo(now, &flow(1));
        drawn += u32::from(eighth.lookup(now, &flow(1), now));
    }
    // 10000 on average, with a standard deviation of 94.
    assert!(drawn.abs_diff(10_000) < 500, "{drawn}");
}

#[test]
fn idle_flows_are_forgotten() {
    let mut flows = table(4, ALWAYS);
    flows.echo(Nanos(0), &flow(1));
    // Each packet keeps it for another T_i.
    for now in [999, 1_998, 2_997] {
        assert!(flows.lookup(Nanos(now), &flow(1), Nanos(now)));
    }
    assert!(!flows.lookup(Nanos(3_997), &flow(1), Nanos(3_997)));
    assert_eq!((flows.stats().aged, flows.stats().flows), (1, 0));
}

#[test]
fn a_flow_with_packets_in_the_bucket_is_not_forgotten() {
    let mut flows = table(4, ALWAYS);
    flows.echo(Nanos(0), &flow(1));
    assert!(flows.lookup(Nanos(100), &flow(1), Nanos(100)));
    // That packet is still there after ten T_i: the next one must not overtake it.
    assert!(flows.lookup(Nanos(10_100), &flow(1), Nanos(100)));
    // The first has left, the second waits.
    assert!(flows.lookup(Nanos(20_200), &flow(1), Nanos(10_100)));
    // Nothing waits.
    assert!(!flows.lookup(Nanos(30_300), &flow(1), Nanos(30_300)));
}

#[test]
fn a_full_table_takes_no_more() {
    let mut flows = table(3, ALWAYS);
    for number in 0..5 {
        flows.echo(Nanos(number.into()), &flow(number));
    }
    let stats = flows.stats();
    assert_eq!((stats.flows, stats.associated, stats.table_full), (3, 3, 2));
    // The oldest goes: there is room for one.
    assert!(!flows.lookup(Nanos(1_000), &flow(0), Nanos(1_000)));
    flows.echo(Nanos(1_000), &flow(9));
    assert!(flows.lookup(Nanos(1_000), &flow(9), Nanos(1_000)));
    assert_eq!(flows.stats().max_flows, 3);
}

#[test]
fn a_table_without_slots_is_always_full() {
    let mut flows = table(0, ALWAYS);
    flows.echo(Nanos(0), &flow(1));
    assert!(!flows.lookup(Nanos(0), &flow(1), Nanos(0)));
    assert_eq!(flows.stats().table_full, 1);
}

#[test]
fn another_size_keeps_the_newest() {
    let mut flows = table(8, ALWAYS);
    for number in 0..8 {
        flows.echo(Nanos(number.into()), &flow(number));
    }
    flows.resize(std::vec![Slot::EMPTY; 3]);
    let now = Nanos(100);
    let found: Vec<u8> = (0..8)
        .filter(|n| flows.lookup(now, &flow(*n), now))
        .collect();
    assert_eq!(found, [5, 6, 7]);
    assert_eq!((flows.stats().flows, flows.stats().max_flows), (3, 8));
    flows.resize(std::vec![Slot::EMPTY; 100]);
    assert!((5..8).all(|n| flows.lookup(now, &flow(n), now)));
    flows.echo(now, &flow(20));
    assert_eq!(flows.stats().flows, 4);
}

/// The table as a list: oldest first.
#[derive(Default)]
struct Model {
    entries: Vec<(FlowKey, u64)>,
    waiting_since: u64,
    full: u64,
    aged: u64,
}

impl Model {
    fn age(&mut self, now: u64) {
        while let Some(&(_, touched)) = self.entries.first() {
            if now.saturating_sub(touched) < IDLE || touched >= self.waiting_since {
                break;
            }
            self.entries.remove(0);
            self.aged += 1;
        }
    }

    fn touch(&mut self, now: u64, flow: &FlowKey) -> bool {
        let Some(at) = self.entries.iter().position(|(key, _)| key == flow) else {
            return false;
        };
        let entry = self.entries.remove(at);
        self.entries.push((*flow, entry.1.max(now)));
        true
    }
}

#[derive(Clone, Debug)]
enum Op {
    Echo(u8),
    Packet(u8),
    Sleep(u64),
    /// So much of what waits has left.
    Leave(u64),
    Resize(usize),
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn as_a_list(capacity in 1_usize..12, ops in prop::collection::vec(prop_oneof![
        4 => (0_u8..20).prop_map(Op::Echo),
        6 => (0_u8..20).prop_map(Op::Packet),
        3 => (0_u64..400).prop_map(Op::Sleep),
        2 => (0_u64..3_000).prop_map(Op::Leave),
        1 => (1_usize..12).prop_map(Op::Resize),
    ], 1..600)) {
        let (mut flows, mut model) = (table(capacity, ALWAYS), Model::default());
        let mut capacity = capacity;
        let (mut now, mut since) = (10_000_u64, 10_000_u64);
        for op in ops {
            match op {
                Op::Echo(number) => {
                    flows.echo(Nanos(now), &flow(number));
                    model.age(now);
                    if !model.touch(now, &flow(number)) {
                        if model.entries.len() == capacity {
                            model.full += 1;
                        } else {
                            model.entries.push((flow(number), now));
                        }
                    }
                }
                Op::Packet(number) => {
                    model.waiting_since = since;
                    model.age(now);
                    let paced = model.touch(now, &flow(number));
                    prop_assert_eq!(flows.lookup(Nanos(now), &flow(number), Nanos(since)), paced);
                }
                Op::Sleep(time) => now += time,
                Op::Leave(time) => since = (since + time).min(now),
                Op::Resize(size) => {
                    capacity = size;
                    flows.resize(std::vec![Slot::EMPTY; size]);
                    let gone = model.entries.len().saturating_sub(size);
                    model.entries.drain(..gone);
                }
            }
            let stats = flows.stats();
            prop_assert_eq!(
                (stats.flows, stats.table_full, stats.aged),
                (model.entries.len() as u64, model.full, model.aged)
            );
        }
    }
}

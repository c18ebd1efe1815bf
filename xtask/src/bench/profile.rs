// SPDX-License-Identifier: GPL-2.0
//! `cargo xtask bench --profile ROW`: in which functions the instructions of a row are.
//!
//! QEMU's plugin (`beds/count/count.c`) says how often each block of code was executed while the
//! row was measured, and the guest where the kernel's functions are. Both have the same addresses,
//! since the guest boots without address randomisation.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::time::Duration;

use anyhow::{anyhow, bail, Context, Result};
use serde_json::{json, Value};
use turnstile_test_protocol::bench::{Messages, Profiled};
use turnstile_test_protocol::run::{Mode, RunConfig};

use super::groups;
use super::LIMITS;
use crate::env::{Env, SRC};
use crate::follow;
use crate::guest::{Guest, Machine};
use crate::qemu::{Accelerator, COUNTS, PLUGIN};
use crate::report::Report;
use crate::session::{Built, Session};
use crate::tables::grid;

/// What the guest sends.
const FIGURES: &str = "profile.json";
/// Functions that the table shows.
const SHOWN: usize = 40;
/// The part of all instructions that ports of several queues may execute with the lock that they
/// share: with a ninth, four processors have three times one's throughput.
const MOST_SHARED: f64 = 0.12;
/// By what part the plugin's sum and the guest's clock may differ.
const APART: f64 = 0.02;
/// All of a program: its functions have no names here.
const PROGRAM: &str = "(programs)";
const NAMELESS: &str = "(nameless)";

/// Compiles the plugin.
const COMPILE: &str = r#"
exec gcc -O2 -Wall -Wextra -Wno-unused-parameter -Werror -shared -fPIC -fvisibility=hidden \
    -o "/out/$1" "$2/beds/count/count.c"
"#;

/// One function and what was executed of it.
#[derive(Clone, Debug, PartialEq)]
struct Function {
    /// With the compiler's suffixes and parameters taken off.
    name: String,
    /// Whose it is; empty for the kernel itself.
    module: String,
    instructions: u64,
    /// Of those the rounds of string instructions.
    rounds: u64,
    /// How often its first instruction was executed: a call, mostly.
    entries: u64,
}

/// Boots the guest for one row, prints the profile, and leaves it in `out/bench/ROW.txt` and
/// `.json`.
///
/// # Errors
/// The plugin cannot be compiled, or what it wrote cannot be read.
pub(super) fn run(
    env: &Env,
    session: &Session,
    built: &Built,
    row: &str,
    report: &Report,
) -> Result<()> {
    let config = RunConfig {
        filter: row.into(),
        ..RunConfig::of(Mode::Profile)
    };
    let read = session.boot(env, built, &config, |guest| {
        compile(env, guest)?;
        let profiled = Guest {
            machine: Machine::Qemu(Accelerator::Profiled),
            ..*guest
        };
        follow::run(env, &profiled, "profile", LIMITS, guest.run, report)?;
        let sent = guest.run.join(FIGURES);
        if !sent.exists() {
            return Ok(None);
        }
        let figures: Profiled = serde_json::from_slice(&fs::read(&sent)?)
            .map_err(|error| anyhow!("the guest's figures cannot be read: {error}"))?;
        let counts = fs::read_to_string(guest.run.join(COUNTS))
            .context("the plugin wrote nothing: QEMU may lack plugins")?;
        let names = demangled(env, guest, &figures.symbols)?;
        Ok(Some((figures, functions(&counts, &names)?)))
    })?;
    let Some((figures, functions)) = read else {
        return Ok(());
    };
    let text = render(&figures.row, &functions);
    let folder = env.src.join("out/bench");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let name = row.replace('/', "-");
    let json = format!("{:#}\n", to_json(&figures, &functions));
    for (ext, data) in [("txt", &text), ("json", &json)] {
        let path = folder.join(format!("{name}.{ext}"));
        fs::write(&path, data).with_context(|| format!("cannot write {}", path.display()))?;
    }
    env.ui.result(&text);
    env.ui
        .result(format!("all functions: {}/{name}.json", folder.display()));
    let case = "bench: the plugin counts what the guest's clock does";
    let (counted, clock) = (total(&functions) as f64, figures.row.instructions as f64);
    if (counted - clock).abs() <= clock * APART {
        report.passed(case, Duration::ZERO, 1);
    } else {
        let why = format!("{counted:.0} instructions, {clock:.0} by the clock");
        report.failed(case, Duration::ZERO, 1, &why);
    }
    if row.ends_with("-queues") {
        judge_shared(&functions, report);
    }
    Ok(())
}

/// Ports of several queues are to wait for each other as little as that.
fn judge_shared(functions: &[Function], report: &Report) {
    let case = "bench: the lock that queues share is held for a small part";
    let groups = by_group(functions);
    let shared = groups.iter().find(|(name, _)| *name == groups::SHARED);
    let part = shared.map_or(0, |group| group.1) as f64 / total(functions).max(1) as f64;
    if part > 0.0 && part <= MOST_SHARED {
        report.passed(case, Duration::ZERO, 1);
    } else {
        let why = format!("{:.1} % of all instructions", part * 100.0);
        report.failed(case, Duration::ZERO, 1, &why);
    }
}

fn compile(env: &Env, guest: &Guest<'_>) -> Result<()> {
    let mut step = env.ui.step("bench-plugin", "the plugin that counts")?;
    step.run(
        &mut env
            .enter(guest.chroot, guest.run)
            .script(COMPILE, [PLUGIN, SRC]),
    )?;
    step.done();
    Ok(())
}

/// The guest's symbols with names that people can read: Rust's by the chroot's demangler.
fn demangled(env: &Env, guest: &Guest<'_>, symbols: &str) -> Result<String> {
    fs::write(guest.run.join("symbols"), symbols)?;
    let mut step = env.ui.step("bench-symbols", "names of functions")?;
    let names = step.output(
        &mut env
            .enter(guest.chroot, guest.run)
            .script("exec llvm-cxxfilt < /out/symbols", [""; 0]),
    )?;
    step.done();
    Ok(names)
}

/// Name and module of each function, by its address.
fn table(symbols: &str) -> Result<BTreeMap<u64, (String, String)>> {
    let mut table = BTreeMap::new();
    for line in symbols.lines() {
        let (address, name) = line.split_once(' ').context("a line without a name")?;
        let address = u64::from_str_radix(address, 16).context("not an address")?;
        let (name, module) = match name.strip_suffix(']').and_then(|it| it.rsplit_once(" [")) {
            Some((name, module)) => (name, module),
            None => (name, ""),
        };
        // Labels, and the room before functions.
        if name.starts_with('.') || name.starts_with("__pfx_") {
            continue;
        }
        table
            .entry(address)
            .or_insert_with(|| (plain(name), module.to_owned()));
    }
    if table.is_empty() {
        bail!("the guest told no functions");
    }
    Ok(table)
}

/// A name without what only compilers need: suffixes, Rust's type parameters and traits.
fn plain(name: &str) -> String {
    let name = name.split(" (").next().unwrap_or(name);
    if !name.contains("::") {
        return name.split('.').next().unwrap_or(name).to_owned();
    }
    let mut text = String::new();
    // In how many brackets, and from which on nothing is wanted.
    let (mut depth, mut hidden) = (0_usize, None);
    let mut rest = name;
    while let Some(next) = rest.chars().next() {
        if hidden.is_none() && rest.starts_with(" as ") {
            hidden = Some(depth);
        }
        match next {
            '<' => {
                // A type whose function it is, or parameters.
                let is_type = text.is_empty();
                depth += 1;
                if hidden.is_none() && !is_type {
                    hidden = Some(depth);
                    text.truncate(text.trim_end_matches("::").len());
                }
            }
            '>' => {
                if hidden == Some(depth) {
                    hidden = None;
                }
                depth = depth.saturating_sub(1);
            }
            _ if hidden.is_none() => text.push(next),
            _ => {}
        }
        rest = &rest[next.len_utf8()..];
    }
    text
}

/// What was executed, function by function, the dearest first.
fn functions(counts: &str, symbols: &str) -> Result<Vec<Function>> {
    let table = table(symbols)?;
    let mut found: HashMap<(String, String), Function> = HashMap::new();
    for line in counts.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let (address, times, each, rep) = match words[..] {
            [address, times, each] => (address, times, each, false),
            [address, times, each, "rep"] => (address, times, each, true),
            _ => bail!("the plugin says: {line}"),
        };
        let address = u64::from_str_radix(address, 16).context("not an address")?;
        let times: u64 = times.parse().context("not a number")?;
        let instructions = times * each.parse::<u64>().context("not a number")?;
        let kernel = address >> 63 == 1;
        let symbol = table.range(..=address).next_back().filter(|_| kernel);
        let (name, module, entries) = match symbol {
            Some((at, (name, module))) => {
                let entries = if *at == address { times } else { 0 };
                (name.as_str(), module.as_str(), entries)
            }
            None if kernel => (NAMELESS, "", 0),
            None => (PROGRAM, "", 0),
        };
        let function = found
            .entry((name.to_owned(), module.to_owned()))
            .or_insert_with(|| Function {
                name: name.into(),
                module: module.into(),
                instructions: 0,
                rounds: 0,
                entries: 0,
            });
        function.instructions += instructions;
        function.rounds += if rep { instructions } else { 0 };
        function.entries += entries;
    }
    let mut all: Vec<Function> = found.into_values().collect();
    all.sort_by(|a, b| {
        let names = || a.name.cmp(&b.name).then_with(|| a.module.cmp(&b.module));
        b.instructions.cmp(&a.instructions).then_with(names)
    });
    Ok(all)
}

fn total(functions: &[Function]) -> u64 {
    functions.iter().map(|function| function.instructions).sum()
}

/// Instructions by group, the dearest first.
fn by_group(functions: &[Function]) -> Vec<(&'static str, u64)> {
    let mut groups: BTreeMap<&'static str, u64> = BTreeMap::new();
    for function in functions {
        let group = groups::of(&function.name, &function.module);
        *groups.entry(group).or_default() += function.instructions;
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(name, instructions)| (u64::MAX - instructions, *name));
    groups
}

/// The row's instructions, by group and by function.
fn render(row: &Messages, functions: &[Function]) -> String {
    let all = total(functions);
    let rounds: u64 = functions.iter().map(|function| function.rounds).sum();
    let mut text = format!(
        "{}: {all} instructions for {} messages, {} packets, {} bytes; {} by the guest's clock. {} \
         of them are rounds of string instructions.\n\n",
        row.name(),
        row.messages,
        row.packets,
        row.bytes,
        row.instructions,
        rounds
    );
    let cells = |what: &str, instructions: u64, times: Option<u64>| {
        let each = |of: u64| instructions as f64 / of as f64;
        let part = 100.0 * instructions as f64 / all.max(1) as f64;
        let times = times.map(|times| format!("{:.2}", times as f64 / row.messages as f64));
        vec![
            what.to_owned(),
            format!("{:.1}", each(row.messages)),
            format!("{:.1}", each(row.packets)),
            format!("{:.3}", each(row.bytes)),
            format!("{part:.1} %"),
            times.unwrap_or_default(),
        ]
    };
    let head = |what: &str, times: &str| {
        [what, "per message", "per packet", "per byte", "part", times]
            .map(str::to_owned)
            .to_vec()
    };
    let left = [true, false, false, false, false, false];
    let mut rows = vec![head("group", "")];
    let groups = by_group(functions);
    rows.extend(groups.iter().map(|(name, sum)| cells(name, *sum, None)));
    rows.push(cells("all", all, None));
    text.push_str(&grid(&rows, &left));
    text.push('\n');
    let mut rows = vec![head("function", "calls per message")];
    for function in functions.iter().take(SHOWN) {
        let label = function.label();
        rows.push(cells(&label, function.instructions, Some(function.entries)));
    }
    let rest = total(functions.get(SHOWN..).unwrap_or_default());
    let others = functions.len().saturating_sub(SHOWN);
    if others > 0 {
        rows.push(cells(&format!("({others} others)"), rest, None));
    }
    text.push_str(&grid(&rows, &left));
    text
}

impl Function {
    /// Its name, with its module's if that does not say it.
    fn label(&self) -> String {
        if self.module.is_empty() || self.name.contains("::") {
            self.name.clone()
        } else {
            format!("{} [{}]", self.name, self.module)
        }
    }
}

/// All of it, for programs.
fn to_json(figures: &Profiled, functions: &[Function]) -> Value {
    let groups = by_group(functions);
    let groups = groups
        .iter()
        .map(|(name, instructions)| json!({"name": name, "instructions": instructions}));
    let all = functions.iter().map(|function| {
        json!({
            "name": function.name,
            "module": function.module,
            "group": groups::of(&function.name, &function.module),
            "instructions": function.instructions,
            "rounds": function.rounds,
            "entries": function.entries,
        })
    });
    json!({
        "unit": "instructions",
        "kernel": figures.kernel,
        "row": figures.row,
        "instructions": total(functions),
        "groups": groups.collect::<Value>(),
        "functions": all.collect::<Value>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use turnstile_test_protocol::bench::Unit;

    const SYMBOLS: &str = "ffffffff81000000 _stext\nffffffff81000010 __pfx_memcpy\n\
        ffffffff81000020 memcpy\nffffffff81000020 __memcpy\nffffffff81000100 schedule.part.0\n\
        ffffffffc0000000 .Ltmp9 [turnstile]\n\
        ffffffffc0000000 <turnstile_core::transport::endpoint::Endpoint<a::B, C>>::handle::<d> \
        [turnstile]\nffffffffc0000100 knt_send [turnstile]\n";

    const COUNTS: &str = "ffffffff81000020 10 5\nffffffff81000025 90 1 rep\n\
        ffffffff81000105 4 25\nffffffffc0000000 2 100\nffffffffc0000180 1 10\n401000 7 10\n";

    fn example() -> Vec<Function> {
        functions(COUNTS, SYMBOLS).unwrap()
    }

    #[test]
    fn blocks_are_those_of_the_function_before_them() {
        let all = example();
        let get = |name: &str| all.iter().find(|it| it.name == name).unwrap();
        assert_eq!(
            all[0].name,
            "turnstile_core::transport::endpoint::Endpoint::handle"
        );
        assert_eq!((all[0].instructions, all[0].entries), (200, 2));
        let copied = get("memcpy");
        assert_eq!(
            (copied.instructions, copied.rounds, copied.entries),
            (140, 90, 10)
        );
        // It was entered before counting began.
        assert_eq!(
            (get("schedule").instructions, get("schedule").entries),
            (100, 0)
        );
        assert_eq!(get("knt_send").module, "turnstile");
        assert_eq!(get(PROGRAM).instructions, 70);
        assert_eq!(total(&all), 520);
        let sums: u64 = by_group(&all).iter().map(|(_, sum)| sum).sum();
        assert_eq!(sums, 520);
        assert!(functions("lost 1\n", SYMBOLS).is_err());
        assert!(functions(COUNTS, "").is_err());
    }

    #[test]
    fn names_are_short() {
        for (long, short) in [
            ("__schedule.isra.0", "__schedule"),
            ("<a::b::C>::d", "a::b::C::d"),
            ("<a::C<x::Y, Z<W>> as t::T<u>>::d::<e::F<g>>", "a::C::d"),
            ("a::b::<c::D>::e", "a::b::e"),
            ("a::b::{closure#0}", "a::b::{closure#0}"),
            ("a::b (.llvm.77)", "a::b"),
        ] {
            assert_eq!(plain(long), short);
        }
    }

    #[test]
    fn a_profile_has_groups_functions_and_all_of_them_for_programs() {
        let row = Messages {
            transport: "turnstile".into(),
            load: "100B".into(),
            title: "100 B".into(),
            unit: Unit::Message,
            instructions: 521,
            messages: 2,
            bytes: 200,
            packets: 10,
        };
        let text = render(&row, &example());
        let line = |name: &str| {
            let line = text
                .lines()
                .find(|line| line.trim_start().starts_with(name));
            line.unwrap_or_else(|| panic!("{text}")).to_owned()
        };
        let words = |name: &str| -> Vec<String> {
            line(name).split_whitespace().map(str::to_owned).collect()
        };
        let cells = ["memcpy", "70.0", "14.0", "0.700", "26.9", "%", "5.00"];
        assert_eq!(words("memcpy"), cells);
        assert_eq!(words("all")[1..4], ["260.0", "52.0", "2.600"]);
        assert!(line("knt_send").contains("[turnstile]"));
        let figures = Profiled {
            kernel: "7.2".into(),
            row,
            symbols: String::new(),
        };
        let json = to_json(&figures, &example());
        assert_eq!(json["instructions"], 520);
        assert_eq!(json["functions"].as_array().map(Vec::len), Some(5));
        assert_eq!(json["functions"][0]["group"], "Turnstile: core");
    }
}

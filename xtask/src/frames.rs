// SPDX-License-Identifier: GPL-2.0
//! How much stack each function of an object takes, read from its disassembly.
//!
//! Compilers can say it too, but each in its own way, and only while they compile: this is what was
//! linked, whoever made it. Every way through a function is followed, and what it has pushed and
//! reserved at the deepest point counts, without the return address.

use std::collections::HashMap;

use anyhow::{bail, Result};

/// What a function takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Its name.
    pub(crate) function: String,
    pub(crate) size: Size,
}

/// How much that is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// Bytes, at most.
    Bytes(u64),
    /// It depends on what is passed, or cannot be told; this instruction is why.
    Unbounded(String),
}

/// The frames of all functions in what `llvm-objdump -d -r --no-show-raw-insn` says (AT&T syntax).
///
/// # Errors
/// The text holds no function.
pub(crate) fn frames(disassembly: &str) -> Result<Vec<Frame>> {
    let functions = parse(disassembly);
    if functions.is_empty() {
        bail!("the disassembly has no function");
    }
    let mut sizes: HashMap<&str, u64> = HashMap::new();
    let mut frames = Vec::new();
    // The cold part of a function begins with that function's frame, and comes in another section,
    // perhaps before.
    let (cold, warm): (Vec<_>, Vec<_>) = functions.iter().partition(|f| hot_part(f.name).is_some());
    for function in warm.into_iter().chain(cold) {
        let begins = hot_part(function.name).and_then(|hot| sizes.get(hot).copied());
        let size = match deepest(function, begins) {
            Ok(bytes) => {
                let most = sizes.entry(function.name).or_default();
                *most = bytes.max(*most);
                Size::Bytes(bytes)
            }
            Err(instruction) => Size::Unbounded(instruction),
        };
        frames.push(Frame {
            function: function.name.to_owned(),
            size,
        });
    }
    Ok(frames)
}

/// Of a cold part's name: the function's.
fn hot_part(name: &str) -> Option<&str> {
    let (hot, rest) = name.split_once(".cold")?;
    (rest.is_empty() || rest.starts_with('.')).then_some(hot)
}

struct Function<'a> {
    name: &'a str,
    code: Vec<Instruction<'a>>,
}

struct Instruction<'a> {
    address: u64,
    name: &'a str,
    operands: Vec<&'a str>,
    /// The linker fills in where it goes to.
    relocated: bool,
    line: &'a str,
}

fn parse(text: &str) -> Vec<Function<'_>> {
    let mut functions: Vec<Function<'_>> = Vec::new();
    for line in text.lines() {
        if let Some(name) = header(line) {
            functions.push(Function {
                name,
                code: Vec::new(),
            });
            continue;
        }
        let Some(function) = functions.last_mut() else {
            continue;
        };
        let Some((address, rest)) = line.split_once(':') else {
            continue;
        };
        let Ok(address) = u64::from_str_radix(address.trim(), 16) else {
            continue;
        };
        if rest.trim_start().starts_with("R_") {
            if let Some(last) = function.code.last_mut() {
                last.relocated = true;
            }
            continue;
        }
        let code = rest.split('#').next().unwrap_or_default();
        let code = code.split(" <").next().unwrap_or_default().trim();
        let (mut name, mut operands) = split_word(code);
        while matches!(name, "lock" | "rep" | "repz" | "repe" | "notrack" | "bnd") {
            (name, operands) = split_word(operands);
        }
        if !name.is_empty() {
            function.code.push(Instruction {
                address,
                name,
                operands: split_operands(operands),
                relocated: false,
                line: code,
            });
        }
    }
    functions.retain(|function| !function.code.is_empty());
    functions
}

/// `0000000000000010 <name>:`
fn header(line: &str) -> Option<&str> {
    let (address, name) = line.split_once(" <")?;
    let is_address = !address.is_empty() && address.chars().all(|c| c.is_ascii_hexdigit());
    name.strip_suffix(">:").filter(|_| is_address)
}

fn split_word(text: &str) -> (&str, &str) {
    let text = text.trim();
    text.split_once(char::is_whitespace)
        .map_or((text, ""), |(word, rest)| (word, rest.trim()))
}

/// At commas outside of brackets.
fn split_operands(text: &str) -> Vec<&str> {
    let mut inside = 0_u32;
    let parts = text.split(|c| {
        match c {
            '(' => inside += 1,
            ')' => inside = inside.saturating_sub(1),
            _ => {}
        }
        c == ',' && inside == 0
    });
    parts
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect()
}

/// `$16`, `$-0x10`.
fn immediate(operand: &str) -> Option<i64> {
    number(operand.strip_prefix('$')?)
}

/// The distance in `-16(%rbp)`.
fn distance(operand: &str, register: &str) -> Option<i64> {
    let number_part = operand.strip_suffix(&format!("({register})"))?;
    if number_part.is_empty() {
        return Some(0);
    }
    number(number_part)
}

fn number(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let value = match digits.strip_prefix("0x") {
        // `$0xffffffffffffff00` is negative, too.
        Some(hex) => signed(u64::from_str_radix(hex, 16).ok()?),
        None => digits.parse().ok()?,
    };
    Some(if negative {
        value.wrapping_neg()
    } else {
        value
    })
}

fn signed(bits: u64) -> i64 {
    i64::from_ne_bytes(bits.to_ne_bytes())
}

fn unsigned(bits: i64) -> u64 {
    u64::from_ne_bytes(bits.to_ne_bytes())
}

/// Where the stack pointer is: bytes below what it was at the function's first instruction; and
/// where the frame pointer is, if it is known to point into the stack.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stack {
    depth: i64,
    frame: Option<i64>,
}

/// More than any stack has: what grows so far grows in a loop.
const ENDLESS: i64 = 1 << 20;

/// The deepest that a function gets; `Err`: the instruction that cannot be followed. `begins`: what
/// it starts with, as a part of another.
fn deepest(function: &Function<'_>, begins: Option<u64>) -> Result<u64, String> {
    let code = &function.code;
    let base = begins.map_or(0, |bytes| i64::try_from(bytes).unwrap_or(ENDLESS));
    let at: HashMap<u64, usize> = code.iter().zip(0..).map(|(i, n)| (i.address, n)).collect();
    let mut seen: Vec<Option<Stack>> = vec![None; code.len()];
    let mut most = base;
    let mut next = vec![(
        0,
        Stack {
            depth: base,
            // Parts of functions that have one may go back by it.
            frame: begins.map(|_| base),
        },
    )];
    loop {
        while let Some((index, stack)) = next.pop() {
            let (Some(instruction), Some(known)) = (code.get(index), seen.get_mut(index)) else {
                continue;
            };
            if known.is_some_and(|known| known.depth >= stack.depth) {
                continue;
            }
            *known = Some(stack);
            let stack = step(instruction, stack, base).ok_or(instruction.line)?;
            if stack.depth > ENDLESS {
                return Err(instruction.line.to_owned());
            }
            most = most.max(stack.depth);
            let target = (instruction.name.starts_with('j') && !instruction.relocated)
                .then(|| instruction.operands.first())
                .flatten()
                .and_then(|target| number(target))
                .and_then(|target| at.get(&unsigned(target)));
            next.extend(target.map(|target| (*target, stack)));
            if !ends(instruction.name) {
                next.push((index + 1, stack));
            }
        }
        // What only a table of jumps or a patched jump leads to begins, at worst, as deep as it
        // gets anywhere.
        let Some(index) = seen.iter().position(Option::is_none) else {
            break;
        };
        let frame = seen.iter().flatten().find_map(|stack| stack.frame);
        next.push((index, Stack { depth: most, frame }));
    }
    Ok(unsigned(most.max(0)))
}

/// Whether what follows is not reached from here.
fn ends(name: &str) -> bool {
    matches!(
        name,
        "jmp" | "jmpq" | "ret" | "retq" | "ud2" | "int3" | "hlt" | "iretq" | "sysretq"
    )
}

/// The stack after an instruction; `None`: it does what is not understood here.
fn step(instruction: &Instruction<'_>, stack: Stack, base: i64) -> Option<Stack> {
    const STACK: &str = "%rsp";
    const FRAME: &str = "%rbp";
    let Stack { depth, frame } = stack;
    let at = |depth: i64| Some(Stack { depth, frame });
    let name = instruction.name;
    if name.starts_with("push") {
        return at(depth.checked_add(8)?);
    }
    if name.starts_with("pop") {
        let frame = frame.filter(|_| !instruction.operands.contains(&FRAME));
        return Some(Stack {
            depth: depth.checked_sub(8)?,
            frame,
        });
    }
    if matches!(name, "leave" | "leaveq") {
        return Some(Stack {
            depth: frame?.checked_sub(8)?.max(base),
            frame: None,
        });
    }
    if name.starts_with("cmp") || name.starts_with("test") || name.starts_with("call") {
        return Some(stack);
    }
    let to = instruction.operands.last().copied();
    let from = instruction.operands.first().copied().unwrap_or_default();
    if to == Some(FRAME) {
        let is_copy = matches!(name, "mov" | "movq") && from == STACK;
        return Some(Stack {
            depth,
            frame: is_copy.then_some(depth),
        });
    }
    // Narrower names of the register are none that a compiler uses.
    if to != Some(STACK) {
        return Some(stack);
    }
    match name {
        "sub" | "subq" => at(depth.checked_add(immediate(from)?)?),
        "add" | "addq" => at(depth.checked_sub(immediate(from)?)?),
        // Down to a multiple of a power of two.
        "and" | "andq" => at(depth.checked_add(immediate(from)?.checked_neg()?)?),
        "mov" | "movq" if from == FRAME => at(frame?),
        "lea" | "leaq" => match (distance(from, STACK), distance(from, FRAME)) {
            (Some(distance), _) => at(depth.checked_sub(distance)?),
            (None, Some(distance)) => at(frame?.checked_sub(distance)?),
            (None, None) => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests;

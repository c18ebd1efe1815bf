// SPDX-License-Identifier: GPL-2.0
use super::*;

fn text(name: &str, code: &[&str]) -> String {
    let mut text = format!("\n0000000000000010 <{name}>:\n");
    for (line, address) in code.iter().zip((0x10..).step_by(4)) {
        text += &format!("{address:8x}:      \t{line}\n");
    }
    text
}

fn size(code: &[&str]) -> Size {
    let frames = frames(&text("f", code)).unwrap();
    assert_eq!(frames.len(), 1);
    frames[0].size.clone()
}

#[test]
fn pushes_and_what_is_subtracted_count() {
    let code = [
        "pushq\t%rbp",
        "pushq\t%rbx",
        "subq\t$984, %rsp               # imm = 0x3D8",
        "callq\t0x20 <g>",
        "addq\t$984, %rsp",
        "popq\t%rbx",
        "popq\t%rbp",
        "retq",
    ];
    assert_eq!(size(&code), Size::Bytes(1000));
    assert_eq!(
        size(&["subq\t$0x3d8, %rsp", "addq\t$0x3d8, %rsp", "retq"]),
        Size::Bytes(984)
    );
}

#[test]
fn all_ways_of_reserving_are_known() {
    assert_eq!(size(&["leaq\t-2056(%rsp), %rsp", "ud2"]), Size::Bytes(2056));
    assert_eq!(size(&["addq\t$-128, %rsp", "retq"]), Size::Bytes(128));
    let hex = ["addq\t$0xffffffffffffff80, %rsp", "retq"];
    assert_eq!(size(&hex), Size::Bytes(128));
    let frame_pointer = [
        "pushq\t%rbp",
        "movq\t%rsp, %rbp",
        "andq\t$-64, %rsp",
        "subq\t$256, %rsp",
        "leaq\t-1600(%rbp), %rsp",
        "leave",
        "retq",
    ];
    assert_eq!(size(&frame_pointer), Size::Bytes(1608));
    assert_eq!(size(&["subl\t$8, %esp", "retq"]), Size::Bytes(0));
}

#[test]
fn reservations_one_after_the_other_are_added_and_ways_apart_are_not() {
    let after = ["subq\t$600, %rsp", "subq\t$600, %rsp", "ud2"];
    assert_eq!(size(&after), Size::Bytes(1200));
    // 0x10: je 0x20; 0x14..: one way; 0x20..: the other one.
    let apart = [
        "je\t0x20 <f+0x10>",
        "subq\t$600, %rsp",
        "addq\t$600, %rsp",
        "retq",
        "subq\t$700, %rsp",
        "addq\t$700, %rsp",
        "retq",
    ];
    assert_eq!(size(&apart), Size::Bytes(700));
    // A call's arguments are taken off again.
    let calls = [
        "pushq\t$1",
        "callq\t0x20 <g>",
        "addq\t$8, %rsp",
        "pushq\t$1",
        "callq\t0x20 <g>",
        "popq\t%rax",
        "retq",
    ];
    assert_eq!(size(&calls), Size::Bytes(8));
}

#[test]
fn what_has_no_bound_is_said() {
    let unbounded = |line: &str| Size::Unbounded(line.into());
    let array = ["subq\t%rax, %rsp", "retq"];
    assert_eq!(size(&array), unbounded("subq\t%rax, %rsp"));
    let moved = ["movq\t%r10, %rsp", "retq"];
    assert_eq!(size(&moved), unbounded("movq\t%r10, %rsp"));
    // A probe of the stack: a page for each turn.
    let probe = [
        "leaq\t-40960(%rsp), %r11",
        "subq\t$4096, %rsp",
        "movq\t$0, (%rsp)",
        "cmpq\t%r11, %rsp",
        "jne\t0x14 <f+0x4>",
        "retq",
    ];
    assert_eq!(size(&probe), unbounded("subq\t$4096, %rsp"));
}

#[test]
fn a_jump_that_the_linker_fills_in_leads_elsewhere() {
    let mut text = text("f", &["subq\t$64, %rsp", "jmp\t0x10 <f>"]);
    text += "\t\t0000000000000015:  R_X86_64_PLT32\tg-0x4\n";
    assert_eq!(frames(&text).unwrap()[0].size, Size::Bytes(64));
}

#[test]
fn what_no_jump_leads_to_counts_from_the_deepest() {
    let table = [
        "subq\t$500, %rsp",
        "jmpq\t*%rax",
        "subq\t$600, %rsp",
        "retq",
    ];
    assert_eq!(size(&table), Size::Bytes(1100));
}

#[test]
fn the_cold_part_of_a_function_has_its_frame() {
    let cold = text("f.cold", &["subq\t$100, %rsp", "ud2"]);
    let hot = text("f", &["subq\t$1000, %rsp", "retq"]);
    let sizes: Vec<_> = frames(&(cold + &hot))
        .unwrap()
        .into_iter()
        .map(|frame| (frame.function, frame.size))
        .collect();
    assert_eq!(
        sizes,
        [
            ("f".into(), Size::Bytes(1000)),
            ("f.cold".into(), Size::Bytes(1100)),
        ]
    );
    assert!(frames("file format elf64-x86-64\n").is_err());
}

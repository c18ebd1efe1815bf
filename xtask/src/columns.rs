// SPDX-License-Identifier: GPL-2.0
//! How wide the checkout's text is: code, comments and Markdown alike have lines of at most
//! [`MOST`] characters.

use std::fs;
use std::path::Path;

use anyhow::{bail, Context, Result};

/// Characters, not bytes.
const MOST: usize = 100;
/// What lies in the checkout and is not written by hand.
const FOLDERS: &[&str] = &["target", "out", "proptest-regressions"];
/// Nor are these: lists, pictures, a licence, patches in the form that patch(1) reads; what is made
/// in a language that cannot break lines.
const FILES: &[&str] = &["Cargo.lock", "LICENSE", "turnstile.txt"];
const SUFFIXES: &[&str] = &["svg", "patch", "pcap", "png"];
/// Of a message: what may be wider.
const EXCEPT: &str = "wider may be rows of a table in Markdown, what stands between ``` in \
                      Markdown (output as it was recorded), and a single word that cannot be \
                      broken, such as a URL; break strings with \\";

/// Looks at every text of the checkout.
///
/// # Errors
/// The lines that are too wide.
pub(crate) fn check(checkout: &Path) -> Result<()> {
    let mut wide = Vec::new();
    look(checkout, checkout, &mut wide)?;
    if wide.is_empty() {
        return Ok(());
    }
    wide.sort_unstable();
    let (count, files) = (wide.len(), wide.join("\n    "));
    bail!("{count} lines have more than {MOST} characters ({EXCEPT}):\n    {files}")
}

fn look(checkout: &Path, folder: &Path, wide: &mut Vec<String>) -> Result<()> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let suffix = path.extension().unwrap_or_default().to_string_lossy();
        let is_hidden = name.starts_with('.') && name != ".ci";
        let is_made = FOLDERS.contains(&&*name) || FILES.contains(&&*name);
        if path.is_symlink() || is_hidden || is_made {
            continue;
        }
        if path.is_dir() {
            look(checkout, &path, wide)?;
        } else if !SUFFIXES.contains(&&*suffix) {
            // What is no text has no lines.
            let Ok(text) = fs::read_to_string(&path) else {
                continue;
            };
            let shown = path.strip_prefix(checkout).unwrap_or(&path).display();
            for (number, characters) in wide_lines(&text, suffix == "md") {
                wide.push(format!("{shown}:{number}: {characters}"));
            }
        }
    }
    Ok(())
}

/// Numbers of the lines that are too wide, and how many characters they have.
fn wide_lines(text: &str, markdown: bool) -> Vec<(usize, usize)> {
    let mut recorded = false;
    let mut wide = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if markdown && line.trim_start().starts_with("```") {
            recorded = !recorded;
        }
        let characters = line.chars().count();
        if characters > MOST && !recorded && !is_row(line, markdown) && !is_one_word(line) {
            wide.push((number, characters));
        }
    }
    wide
}

/// What stands before the text of a comment.
const COMMENTS: &[&str] = &["///", "//!", "//", "#", "*", "--"];

/// A line without the marks of a comment or a list.
fn said(line: &str) -> &str {
    let line = line.trim();
    let marks = COMMENTS.iter().find_map(|mark| line.strip_prefix(mark));
    let line = marks.unwrap_or(line).trim_start();
    line.strip_prefix("- ").unwrap_or(line)
}

/// A row of a table in Markdown, which comments may hold too.
fn is_row(line: &str, markdown: bool) -> bool {
    let is_comment = said(line) != line.trim();
    (markdown || is_comment) && said(line).starts_with('|')
}

fn is_one_word(line: &str) -> bool {
    !said(line).contains(char::is_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What CI would find after an hour, the unit tests find.
    #[test]
    fn this_checkout_has_no_wide_lines() {
        let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        check(checkout).unwrap();
    }

    #[test]
    fn characters_are_counted_not_bytes() {
        let line = "é ".repeat(50);
        assert_eq!(line.len(), 150);
        assert_eq!(wide_lines(&line, false), []);
        let line = "a b".repeat(34);
        assert_eq!(wide_lines(&format!("\n{line}\n"), false), [(2, 102)]);
        assert_eq!(wide_lines(&format!("\n{line}\n"), true), [(2, 102)]);
    }

    #[test]
    fn rows_recordings_and_words_may_be_wider() {
        let long = "word ".repeat(30);
        let row = format!("| {long}|");
        assert_eq!(wide_lines(&row, true), []);
        assert_eq!(wide_lines(&format!("/// {row}"), false), []);
        assert_eq!(wide_lines(&row, false).len(), 1);
        assert_eq!(
            wide_lines(&format!("```\n{long}\n```\n{long}"), true),
            [(4, 150)]
        );
        assert_eq!(wide_lines(&format!("```\n{long}\n```"), false).len(), 1);
        let word = "x".repeat(120);
        for line in [
            word.clone(),
            format!("# https://{word}"),
            format!("    - {word}"),
        ] {
            assert_eq!(wide_lines(&line, true), [], "{line}");
        }
    }

    #[test]
    fn a_message_names_the_lines_and_says_what_is_excepted() {
        let checkout = std::env::temp_dir().join(format!("turnstile-wide-{}", std::process::id()));
        fs::create_dir_all(checkout.join("target")).unwrap();
        fs::write(checkout.join("fine.rs"), "short\n").unwrap();
        fs::write(checkout.join("target/made.rs"), "w ".repeat(99)).unwrap();
        fs::write(checkout.join("bytes"), [0xff, 0xfe]).unwrap();
        let narrow = check(&checkout);
        fs::write(
            checkout.join("wide.rs"),
            format!("a\n{}\n", "w ".repeat(60)),
        )
        .unwrap();
        let why = check(&checkout).unwrap_err().to_string();
        fs::remove_dir_all(&checkout).unwrap();
        narrow.unwrap();
        assert!(
            why.contains("wide.rs:2: 120") && why.contains("URL"),
            "{why}"
        );
        assert!(!why.contains("made.rs"), "{why}");
    }
}

// SPDX-License-Identifier: GPL-2.0
//! What is said of options: help texts, synopses, what man pages and documentation are made of, and
//! what a shell can complete.

use turnstile_core::options::{Form, Table, Unit, Value};

use super::{member, print, Entry, Options};

impl<T: Table> Options<T> {
    /// What a terminal shows for `help`: a few lines per option, at most 100 columns wide.
    pub fn help() -> String {
        let mut text = String::new();
        for entry in Self::entries() {
            let allowed = match entry.allowed() {
                allowed if allowed.is_empty() => allowed,
                allowed => format!("{allowed}; "),
            };
            text += &format!("  {}\n", wrap(&entry.synopsis(), 94).join("\n      "));
            let about = format!(
                "{} ({allowed}default: {})",
                entry.about(),
                Self::default_of(&entry)
            );
            for line in wrap(&about, 88) {
                text += &format!("        {line}\n");
            }
        }
        text + "Rates, times and sizes have tc's units: 10gbit, 100mbps (bytes), 20us, 64kb; \
                see tc(8).\n"
    }

    /// The options as they are typed, in the order in which they are shown.
    pub fn entries() -> Vec<Entry> {
        Entry::all(T::OPTIONS)
    }

    /// A line for each option, as a man page's SYNOPSIS has them: `[ link RATE|auto ]`.
    pub fn synopsis() -> Vec<String> {
        Self::entries().iter().map(Entry::synopsis).collect()
    }

    /// The words that start an option.
    pub fn names() -> Vec<String> {
        starts(&Self::entries())
    }

    /// What holds if the option is not given, as it is typed or in words.
    pub fn default_of(entry: &Entry) -> String {
        let row = entry.rows[0];
        if let Some(usual) = row.usual {
            return usual.to_owned();
        }
        let numbers = [Some(row.number), row.rate].into_iter().flatten();
        let value = numbers.filter_map(|number| T::DEFAULT.get(number)).next();
        match (row.form, value) {
            (Form::Flag(_), Some(Value::U32(0))) => format!("no-{}", entry.name),
            (Form::Flag(_), Some(Value::U32(1))) => entry.name.to_owned(),
            (Form::Flag(_), Some(value)) => {
                format!("{} {}", entry.name, print::typed(row.form, &value))
            }
            (form, Some(value)) => print::typed(form, &value),
            (_, None) => String::new(),
        }
    }
}

/// The words that start one of these options.
pub(super) fn starts(entries: &[Entry]) -> Vec<String> {
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry.name.to_owned());
        if entry.is_flag() {
            names.push(format!("no-{}", entry.name));
        }
    }
    names
}

impl Entry {
    /// As in a synopsis: `[ link RATE|auto ]`.
    pub fn synopsis(&self) -> String {
        let name = self.name;
        match self.rows[0].form {
            Form::Flag(others) => {
                let others = others.iter().map(|(other, _)| format!("{name} {other} | "));
                format!("[ {name} | {}no-{name} ]", others.collect::<String>())
            }
            _ => format!("[ {name} {} ]", self.value()),
        }
    }

    /// What follows the word: `RATE|auto`, `{ period TIME | off }`; empty: nothing need follow, and
    /// `no-` before the word gives the opposite.
    pub fn value(&self) -> String {
        let Some(members) = self.members() else {
            return value(self.rows[0].form);
        };
        let mut parts = String::new();
        for (name, row) in members {
            parts += &format!("{name} {} ", value(self.form_within(row)));
        }
        let off = self
            .off()
            .map_or(String::new(), |(off, _)| format!("| {off} "));
        format!("{{ {parts}{off}}}")
    }

    /// What it is, when to change it, what that costs.
    pub fn about(&self) -> String {
        let mut about = String::new();
        for row in &self.rows {
            let words: Vec<_> = row.doc.split_whitespace().collect();
            let doc = words.join(" ");
            match about.is_empty() {
                true => about = doc,
                false => about += &format!(" {}: {doc}", member(row)),
            }
        }
        about
    }

    /// The allowed values in short: `1kbit..800gbit or auto`. Empty where the synopsis says it all.
    pub fn allowed(&self) -> String {
        let Some(members) = self.members() else {
            return allowed(self.rows[0].form);
        };
        let each: Vec<_> = members
            .map(|(name, row)| format!("{name} {}", allowed(self.form_within(row))))
            .collect();
        each.join("; ")
    }

    /// The words that may follow, for a shell to complete: values that are words, or those of the
    /// group.
    pub fn words(&self) -> Vec<&'static str> {
        match self.members() {
            Some(members) => {
                let off = self.off().map(|(off, _)| off);
                members.map(|(name, _)| name).chain(off).collect()
            }
            None => values(self.rows[0].form),
        }
    }

    /// Whether words of its own, each with a value, follow.
    pub fn is_group(&self) -> bool {
        self.members().is_some()
    }

    /// Where rule and default come from; may be empty.
    pub fn source(&self) -> &'static str {
        self.rows[0].source
    }
}

/// What stands for a value.
pub(super) fn value(form: Form) -> String {
    let mut text = match form {
        Form::Flag(_) => return String::new(),
        Form::Choice(_) => form.to_string(),
        Form::Map => "MAP|default|none".to_owned(),
        Form::Part(..) => "PERCENT|RATE".to_owned(),
        Form::Number(range, _) => match range.unit {
            Unit::Count("packets") => "PACKETS",
            Unit::Count(_) => "N",
            Unit::Rate => "RATE",
            Unit::Share => "PERCENT",
            Unit::Time => "TIME",
            Unit::Size | Unit::Bytes => "BYTES",
            Unit::Code => "DSCP",
            Unit::Priorities => "LIST",
            Unit::Ratio => "RATIO",
        }
        .to_owned(),
    };
    for (word, _) in form.words() {
        text += &format!("|{word}");
    }
    text
}

fn allowed(form: Form) -> String {
    match form {
        Form::Flag(_) | Form::Choice(_) | Form::Map => String::new(),
        Form::Number(range, _) if range.unit == Unit::Code => {
            format!("{form}, CS0..CS7, AF11..AF43, EF or LE")
        }
        Form::Number(..) => form.to_string(),
        Form::Part(..) => format!("{form} of the link, as a percentage or as a rate"),
    }
}

/// As within a group, whose word for off, the first one, stands before its members.
pub(super) fn without_off(form: Form) -> Form {
    match form {
        Form::Number(range, [_, words @ ..]) => Form::Number(range, words),
        Form::Part(range, [_, words @ ..]) => Form::Part(range, words),
        form => form,
    }
}

/// The words that a value may be.
fn values(form: Form) -> Vec<&'static str> {
    let words = form.words().iter().map(|(word, _)| *word);
    let others: Vec<&'static str> = match form {
        Form::Choice(words) => words.to_vec(),
        Form::Map => vec!["default", "none"],
        Form::Number(range, _) if range.unit == Unit::Code => {
            let names = turnstile_core::options::dscp::NAMES;
            names.iter().map(|(name, _)| *name).collect()
        }
        _ => Vec::new(),
    };
    words.chain(others).collect()
}

/// `text` in lines of at most `width` characters, broken between words.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Rows of a table in Markdown: option, values, default, what it is.
pub fn markdown<T: Table>() -> String {
    let mut rows = String::new();
    for entry in Options::<T>::entries() {
        let allowed = match entry.allowed() {
            allowed if allowed.is_empty() => entry.value().replace('|', ", "),
            allowed => allowed,
        };
        let source = match entry.source() {
            "" => String::new(),
            source => format!(" ({source})"),
        };
        let (name, about) = (entry.name, entry.about());
        let default = Options::<T>::default_of(&entry);
        rows += &format!("| `{name}` | {allowed} | {default} | {about}{source} |\n");
    }
    rows
}

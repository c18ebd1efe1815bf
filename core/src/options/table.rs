// SPDX-License-Identifier: GPL-2.0
//! Tables of options.

use super::{Form, Kind, Problem, Range, Refusal, Value};

/// A row: an option, or a part of one that has several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opt {
    /// The attribute's number.
    pub number: u16,
    /// Of a [`Form::Part`]: the number of the attribute for a rate, which is a `u64`.
    pub rate: Option<u16>,
    /// What the attribute is.
    pub kind: Kind,
    /// As the user types it. Of two words, the first is common to a group of options, which are
    /// given behind it.
    pub name: &'static str,
    /// What it is, when to change it, what that costs: sentences, in plain text.
    pub doc: &'static str,
    /// What it may be.
    pub form: Form,
    /// Where rule and default come from; may be empty.
    pub source: &'static str,
    /// The default in words, where it is not a constant.
    pub usual: Option<&'static str>,
}

impl Opt {
    /// What a row begins as: [`options!`] adds the rest.
    pub(crate) const fn of(form: Form) -> Self {
        Self {
            number: 0,
            rate: None,
            kind: Kind::U32,
            name: "",
            doc: "",
            form,
            source: "",
            usual: None,
        }
    }

    /// A number.
    pub(crate) const fn number(range: Range) -> Self {
        Self::of(Form::Number(range, &[]))
    }

    /// A number, or one of these words.
    pub(crate) const fn number_or(range: Range, words: &'static [(&'static str, u64)]) -> Self {
        Self::of(Form::Number(range, words))
    }

    /// A share of the link in this range, or a rate that comes to one.
    pub(crate) const fn part(range: Range) -> Self {
        Self::of(Form::Part(range, &[]))
    }

    /// The same, or one of these words.
    pub(crate) const fn part_or(range: Range, words: &'static [(&'static str, u64)]) -> Self {
        Self::of(Form::Part(range, words))
    }

    /// One of these words.
    pub(crate) const fn choice(words: &'static [&'static str]) -> Self {
        Self::of(Form::Choice(words))
    }

    /// Where rule and default come from.
    pub(crate) const fn from(mut self, source: &'static str) -> Self {
        self.source = source;
        self
    }

    /// The default in words.
    pub(crate) const fn usually(mut self, usual: &'static str) -> Self {
        self.usual = Some(usual);
        self
    }

    /// What the attribute `number` is, if it is one of this row.
    pub fn kind_of(&self, number: u16) -> Option<Kind> {
        match number {
            number if number == self.number => Some(self.kind),
            number if Some(number) == self.rate => Some(Kind::U64),
            _ => None,
        }
    }

    /// Refuses a value of the row's attribute `number` that is not allowed. Of a rate, that depends
    /// on the link, and is not said here.
    pub fn check(&self, number: u16, value: u64) -> Result<(), Refusal> {
        if number != self.number || self.form.contains(value) {
            return Ok(());
        }
        Err(self.refuse(Problem::Not(value, self.form)))
    }

    /// Refuses the option.
    pub const fn refuse(&self, what: Problem) -> Refusal {
        let option = self.name;
        Refusal { option, what }
    }
}

/// Which attributes a request had. Tables have numbers below 128.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Given([u64; 2]);

impl Given {
    /// Whether it had this one.
    pub fn has(self, number: u16) -> bool {
        let [low, high] = self.0;
        bit(number, 0) & low != 0 || bit(number, 64) & high != 0
    }

    /// It has.
    pub fn add(&mut self, number: u16) {
        let [low, high] = &mut self.0;
        *low |= bit(number, 0);
        *high |= bit(number, 64);
    }
}

/// The bit of a number among the 64 that begin with `first`; 0 if it is none of them.
fn bit(number: u16, first: u16) -> u64 {
    let place = number.checked_sub(first).map(u32::from);
    place
        .and_then(|place| 1_u64.checked_shl(place))
        .unwrap_or(0)
}

/// A configuration that a table of options was made for.
pub trait Table: Copy + 'static {
    /// All options, in the order in which they are shown.
    const OPTIONS: &'static [Opt];
    /// What only the kernel says, beside the options.
    const REPORTED: &'static [Opt];
    /// The number of what pads 64-bit attributes.
    const PAD: u16;
    /// What is not given.
    const DEFAULT: Self;

    /// The field's own answer, see [`Table::get`].
    fn read(&self, number: u16) -> Option<Value>;

    /// The field's own answer, see [`Table::set`].
    fn write(&mut self, number: u16, value: Value) -> bool;

    /// The row of an attribute.
    fn option(number: u16) -> Option<&'static Opt> {
        let mut rows = Self::OPTIONS.iter();
        rows.find(|row| row.kind_of(number).is_some())
    }

    /// The row of this name.
    fn named(name: &str) -> Option<&'static Opt> {
        Self::OPTIONS.iter().find(|row| row.name == name)
    }

    /// The attribute `number`; `None` if that is none of the table's, or does not say how it is: of
    /// a share that is given as a rate, only the rate's attribute is there.
    fn get(&self, number: u16) -> Option<Value> {
        let kind = Self::option(number)?.kind_of(number);
        self.read(number).filter(|value| Some(value.kind()) == kind)
    }

    /// Sets the attribute `number`. `false` if that is none of the table's, of another kind, or
    /// means nothing. Whether it is allowed, [`Table::check`] says.
    fn set(&mut self, number: u16, value: Value) -> bool {
        match Self::option(number).and_then(|row| row.kind_of(number)) {
            Some(kind) if kind == value.kind() => self.write(number, value),
            _ => false,
        }
    }

    /// Sets an attribute of a request, of which `given` came before.
    ///
    /// # Errors
    ///
    /// It is not in its range, means nothing, or is a share beside a rate.
    fn take(&mut self, given: &mut Given, number: u16, value: Value) -> Result<(), Refusal> {
        let Some(row) = Self::option(number) else {
            return Ok(());
        };
        if let Some(rate) = row.rate {
            if given.has(row.number) || given.has(rate) {
                return Err(row.refuse(Problem::Said("both a share and a rate")));
            }
        }
        given.add(number);
        if let Some(value) = value.number() {
            row.check(number, value)?;
        }
        match self.set(number, value) {
            true => Ok(()),
            false => Err(row.refuse(Problem::Said("means nothing"))),
        }
    }

    /// Calls `each` with all attributes that say how it is, in the table's order.
    fn each<E>(&self, mut each: impl FnMut(u16, Value) -> Result<(), E>) -> Result<(), E> {
        for row in Self::OPTIONS {
            for number in [Some(row.number), row.rate].into_iter().flatten() {
                if let Some(value) = self.get(number) {
                    each(number, value)?;
                }
            }
        }
        Ok(())
    }

    /// Refuses the first value that is not in its range.
    fn check(&self) -> Result<(), Refusal> {
        for row in Self::OPTIONS {
            if let Some(value) = self.get(row.number).and_then(|value| value.number()) {
                row.check(row.number, value)?;
            }
        }
        Ok(())
    }
}

/// Makes a configuration's struct and its [`Table`] of one list of rows:
///
/// ```text
/// /// What it is, when to change it, what that costs.
/// field: Type = default, NUMBER "name" what it may be;
/// ```
///
/// `NUMBER` is one of the module `number`'s, which the caller has imported; of a share that may be
/// given as a rate, there are two. A field with more attributes has the others in `also`.
macro_rules! options {
    (
        $(#[$meta:meta])*
        pub struct $config:ident;
        $(
            $(#[doc = $doc:literal])+
            $field:ident: $type:ty = $default:expr,
                $number:ident $(| $rate:ident)? $name:literal $row:expr;
        )+
        $(also {$(
            $(#[doc = $also_doc:literal])+
            $also_field:ident: $also_type:ty, $also_number:ident $also_name:literal $also_row:expr;
        )+})?
        $(reported {$(
            $(#[doc = $reported_doc:literal])+
            $reported_type:ty, $reported_number:ident $reported_name:literal $reported_row:expr;
        )+})?
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $config {
            $($(#[doc = $doc])+ pub $field: $type,)+
        }

        impl $config {
            /// What is not given.
            pub const DEFAULT: Self = Self { $($field: $default,)+ };
        }

        impl $crate::options::Table for $config {
            const OPTIONS: &'static [$crate::options::Opt] = &[
                $($crate::options::Opt {
                    number: number::$number,
                    rate: $crate::options::options!(@ $(number::$rate)?),
                    kind: <$type as $crate::options::Field>::KIND,
                    name: $name,
                    doc: concat!($($doc),+),
                    ..$row
                },)+
                $($($crate::options::Opt {
                    number: number::$also_number,
                    kind: <$also_type as $crate::options::Field>::KIND,
                    name: $also_name,
                    doc: concat!($($also_doc),+),
                    ..$also_row
                },)+)?
            ];
            const REPORTED: &'static [$crate::options::Opt] = &[
                $($($crate::options::Opt {
                    number: number::$reported_number,
                    kind: <$reported_type as $crate::options::Field>::KIND,
                    name: $reported_name,
                    doc: concat!($($reported_doc),+),
                    ..$reported_row
                },)+)?
            ];
            const PAD: u16 = number::PAD;
            const DEFAULT: Self = Self::DEFAULT;

            fn read(&self, number: u16) -> Option<$crate::options::Value> {
                use $crate::options::Field;
                match number {
                    $(number::$number $(| number::$rate)? => Field::get(&self.$field, number),)+
                    $($(number::$also_number => Field::get(&self.$also_field, number),)+)?
                    _ => None,
                }
            }

            fn write(&mut self, number: u16, value: $crate::options::Value) -> bool {
                use $crate::options::Field;
                match number {
                    $(number::$number $(| number::$rate)? => {
                        Field::set(&mut self.$field, number, value)
                    })+
                    $($(number::$also_number => {
                        Field::set(&mut self.$also_field, number, value)
                    })+)?
                    _ => false,
                }
            }
        }
    };
    (@) => { None };
    (@ $rate:expr) => { Some($rate) };
}
pub(crate) use options;

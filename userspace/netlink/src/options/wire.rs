// SPDX-License-Identifier: GPL-2.0
//! [`Options`] as attributes, and back.

use turnstile_core::options::{Kind, Opt, Table, Value};

use super::{dscp, Options};
use crate::attr::{attributes, put, put_u32, put_u64, Attribute, Malformed};

impl<T: Table> Options<T> {
    /// The attributes, without the header of the nest around them.
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Vec::new();
        for (number, value) in &self.values {
            match value {
                Value::U32(value) => put_u32(&mut to, *number, *value),
                Value::U64(value) => put_u64(&mut to, *number, *value),
                Value::Map(map) => put(&mut to, *number, map),
            }
        }
        to
    }

    /// Reads what [`Options::encode`] or the kernel wrote. Attributes that are not known are left
    /// out.
    ///
    /// # Errors
    /// Attributes that are cut short or mean nothing.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut options = Self::default();
        let mut meaning = T::DEFAULT;
        for attribute in attributes(bytes) {
            let attribute = attribute?;
            let number = attribute.number;
            if let Some(row) = T::option(number) {
                let value = read(row, &attribute)?;
                if !meaning.set(number, value) {
                    return Err(attribute.malformed(row.name));
                }
                options.set(number, value);
            } else if let Some(row) = T::REPORTED.iter().find(|row| row.number == number) {
                options.set(number, read(row, &attribute)?);
            }
        }
        Ok(options)
    }
}

fn read(row: &Opt, attribute: &Attribute<'_>) -> Result<Value, Malformed> {
    let malformed = || attribute.malformed(row.name);
    Ok(match row.kind_of(attribute.number).unwrap_or(row.kind) {
        Kind::U32 => Value::U32(attribute.u32(row.name)?),
        Kind::U64 => Value::U64(attribute.u64(row.name)?),
        Kind::Map => {
            let map: [u8; 64] = attribute.payload.try_into().map_err(|_| malformed())?;
            if !dscp::is_map(&map) {
                return Err(malformed());
            }
            Value::Map(map)
        }
    })
}

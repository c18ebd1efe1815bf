// SPDX-License-Identifier: GPL-2.0
//! Tables as text: columns as wide as they need to be, no borders.

use comfy_table::{presets, CellAlignment, Table};

/// How a table is laid out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    /// Spaces before each line.
    pub(crate) indent: u16,
    /// Spaces between columns.
    pub(crate) gap: u16,
    /// Columns that begin on the left, with names; all others are numbers and end on the right.
    pub(crate) names: usize,
}

/// The rows, of which the first has the heads; a newline ends each.
pub(crate) fn text<R>(rows: impl IntoIterator<Item = R>, layout: Layout) -> String
where
    R: IntoIterator<Item = String>,
{
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    for row in rows {
        table.add_row(row);
    }
    for (at, column) in table.column_iter_mut().enumerate() {
        let before = if at == 0 { layout.indent } else { layout.gap };
        column.set_padding((before, 0));
        if at >= layout.names {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_left_numbers_right() {
        let rows = [["name", "n", "m"], ["é", "1000", "2"], ["longest", "1", ""]];
        let rows = rows.map(|row| row.map(str::to_owned));
        let layout = Layout {
            indent: 2,
            gap: 1,
            names: 1,
        };
        assert_eq!(
            text(rows, layout),
            "  name       n m\n  \u{e9}       1000 2\n  longest    1\n"
        );
    }
}

// SPDX-License-Identifier: GPL-2.0
//! Text tables, indented by two.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};

/// Columns: the first to the left, the others to the right.
pub(crate) fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let left: Vec<bool> = (0..columns).map(|column| column == 0).collect();
    grid(rows, &left)
}

/// Columns, each of which is to the left or to the right.
pub(crate) fn grid(rows: &[Vec<String>], left: &[bool]) -> String {
    let mut table = Table::new();
    table.load_preset(NOTHING);
    for row in rows {
        table.add_row(row);
    }
    for (column, left) in table.column_iter_mut().zip(left) {
        column.set_padding((2, 0));
        column.set_cell_alignment(match left {
            true => CellAlignment::Left,
            false => CellAlignment::Right,
        });
    }
    table.trim_fmt() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let rows = [row(["a", "first", "2"]), row(["longer", "b", ""])];
        assert_eq!(aligned(&rows), "  a       first  2\n  longer      b\n");
        let words = grid(&rows, &[false, true, true]);
        assert_eq!(words, "       a  first  2\n  longer  b\n");
    }
}

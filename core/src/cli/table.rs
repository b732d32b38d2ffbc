//! Columns of text, aligned.

use std::io::{self, Write};

/// How many rows are aligned together, so that a long listing streams.
const ROWS_TOGETHER: usize = 256;

/// Prints rows under a heading, each column as wide as its widest cell among the rows near it.
pub(crate) struct Table<W: Write, const COLUMNS: usize> {
    to: W,
    rows: Vec<[String; COLUMNS]>,
}

impl<W: Write, const COLUMNS: usize> Table<W, COLUMNS> {
    /// A table with this heading.
    pub(crate) fn new(to: W, heading: [&str; COLUMNS]) -> Self {
        Self {
            to,
            rows: vec![heading.map(str::to_owned)],
        }
    }

    /// Adds a row. Control characters are shown escaped: what others wrote must not steer a terminal.
    pub(crate) fn row(&mut self, cells: [String; COLUMNS]) -> io::Result<()> {
        self.rows.push(cells.map(|cell| {
            if cell.contains(char::is_control) {
                cell.escape_debug().to_string()
            } else {
                cell
            }
        }));
        if self.rows.len() > ROWS_TOGETHER {
            self.print()
        } else {
            Ok(())
        }
    }

    /// Prints what is left.
    pub(crate) fn end(mut self) -> io::Result<()> {
        self.print()?;
        self.to.flush()
    }

    fn print(&mut self) -> io::Result<()> {
        let width = |column: usize| {
            self.rows
                .iter()
                .map(|row| row[column].chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: [usize; COLUMNS] = std::array::from_fn(width);
        let mut text = String::new();
        for row in self.rows.drain(..) {
            let padded: Vec<String> = row
                .iter()
                .zip(widths)
                .map(|(cell, width)| format!("{cell:width$}"))
                .collect();
            text.push_str(padded.join("  ").trim_end());
            text.push('\n');
        }
        self.to.write_all(text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_lines_end_without_spaces() {
        let mut text = Vec::new();
        let mut table = Table::new(&mut text, ["KEY", "STATE"]);
        table
            .row(["订单-1".to_owned(), "running".to_owned()])
            .expect("written");
        table.row(["a".to_owned(), String::new()]).expect("written");
        table
            .row(["b".to_owned(), "\u{1b}[2J".to_owned()])
            .expect("written");
        table.end().expect("written");
        let expect = "KEY   STATE\n订单-1  running\na\nb     \\u{1b}[2J\n";
        assert_eq!(String::from_utf8(text).expect("text"), expect);
    }
}

//! Answers as tables, for people.

use std::io::{self, Write};

use serde_json::Value;

/// Writes rows under their headings, in columns as wide as necessary.
pub(super) fn write(out: &mut impl Write, heads: &[&str], rows: &[Vec<String>]) -> io::Result<()> {
    let heads: Vec<String> = heads.iter().map(|head| head.to_uppercase()).collect();
    let width = |column: usize| {
        let cells = std::iter::once(&heads).chain(rows).filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    for row in std::iter::once(&heads).chain(rows) {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            // no spaces behind the last column
            let width = if column + 1 == row.len() { 0 } else { *width };
            coloured(cell, &format!("{cell:<width$}"))
        });
        writeln!(out, "{}", cells.collect::<Vec<_>>().join("  "))?;
    }
    Ok(())
}

/// A cell in the colour of what its word says, on a terminal that shows colours.
fn coloured(word: &str, cell: &str) -> String {
    let plain = console::style(cell);
    let style = match word {
        "succeeded" | "delivered" | "healthy" | "working" => plain.green(),
        "failed" | "exhausted" | "disabled" | "incorrect" | "no_worker" | "redis_down" | "waiting"
        | "critical" => plain.red(),
        "retrying" | "failing" | "paused" | "partial" | "nothing" | "warning" => plain.yellow(),
        _ => plain,
    };
    style.to_string()
}

/// The value at a dotted path of a record, as a cell.
pub(super) fn cell(record: &Value, path: &str) -> String {
    let found = path.split('.').try_fold(record, |value, name| value.get(name));
    match found {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => shown(text),
        Some(other) => other.to_string(),
    }
}

/// Text without control characters, since it may come from someone else.
pub(super) fn shown(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// The rows of an array of records, by the paths of their columns.
pub(super) fn rows(records: &Value, paths: &[&str]) -> Vec<Vec<String>> {
    let records = records.as_array().map_or(&[][..], Vec::as_slice);
    records.iter().map(|record| paths.iter().map(|path| cell(record, path)).collect()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_a_missing_value_is_a_dash() {
        let answer = json!({"results": [
            {"id": 1, "progress": {"done": 10}, "error": null},
            {"id": 1000, "progress": {"done": 2}, "error": "\u{1b}[2Jgone"},
        ]});
        let mut text = Vec::new();
        let rows = rows(&answer["results"], &["id", "progress.done", "error", "none"]);
        write(&mut text, &["id", "done", "error", "none"], &rows).unwrap();
        let expected = "\
ID    DONE  ERROR     NONE
1     10    -         -
1000  2     \u{fffd}[2Jgone  -
";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }
}

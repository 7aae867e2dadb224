//! Answers as tables, for people.

use std::io::{self, Write};

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::Value;

use crate::read::now;

/// The widest that a column stays where its table does not fit: an id, which people copy.
const KEPT: usize = 36;

/// Writes rows under their headings, in columns as wide as necessary; on a terminal, in lines that fit.
pub(super) fn write(out: &mut impl Write, heads: &[&str], rows: &[Vec<String>]) -> io::Result<()> {
    let terminal = console::Term::stdout();
    let room = terminal.is_term().then(|| terminal.size_checked()).flatten();
    write_within(out, heads, rows, room.map(|(_, columns)| columns.into()))
}

fn write_within(
    out: &mut impl Write,
    heads: &[&str],
    rows: &[Vec<String>],
    room: Option<usize>,
) -> io::Result<()> {
    let heads: Vec<String> = heads.iter().map(|head| head.to_uppercase()).collect();
    let width = |column: usize| {
        let cells = std::iter::once(&heads).chain(rows).filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let mut widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let needed = |widths: &[usize]| widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
    while let Some(excess) = room.and_then(|room| needed(&widths).checked_sub(room + 1)) {
        // the widest is cut first; what then still does not fit is wrapped by the terminal
        let Some(widest) = widths.iter_mut().filter(|width| **width > KEPT).max() else { break };
        *widest = KEPT.max(widest.saturating_sub(excess + 1));
    }
    for row in std::iter::once(&heads).chain(rows) {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            let cut = (cell.chars().count() > *width)
                .then(|| cell.chars().take(width.saturating_sub(1)).chain(['…']).collect::<String>());
            // no spaces behind the last column
            let width = if column + 1 == row.len() { 0 } else { *width };
            coloured(cell, &format!("{:<width$}", cut.as_ref().unwrap_or(cell)))
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

/// The value at a dotted path of a record, as a cell. Times are those of members that are named as times are.
pub(super) fn cell(record: &Value, path: &str) -> String {
    let at = |path: &str| path.split('.').try_fold(record, |value, name| value.get(name));
    let found = path.split('|').find_map(|path| at(path).filter(|found| !found.is_null()));
    let name = path.rsplit('.').next().unwrap_or(path);
    let is_time = ["at", "since", "until"].contains(&name)
        || ["At", "Since", "Until"].iter().any(|end| name.ends_with(end));
    match found {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) if is_time => {
            text.parse::<DateTime<Utc>>().map_or_else(|_| shown(text), |at| moment(at, now()))
        }
        Some(Value::String(text)) => shown(text),
        Some(Value::Array(texts)) if texts.iter().all(Value::is_string) => {
            shown(&texts.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "))
        }
        Some(other) => shown(&other.to_string()),
    }
}

/// A time, and how long ago that was, or in how long it will be.
pub(super) fn moment(at: DateTime<Utc>, now: DateTime<Utc>) -> String {
    let past = now - at;
    let distance = match past.num_seconds() {
        -1..=1 => "now".to_owned(),
        ..-1 => format!("in {}", span(-past)),
        _ => format!("{} ago", span(past)),
    };
    format!("{} ({distance})", at.format("%F %T UTC"))
}

/// A span of time, in the unit that suits it.
pub(super) fn span(time: TimeDelta) -> String {
    let (ms, seconds) = (time.num_milliseconds(), time.num_seconds());
    match seconds {
        ..1 => format!("{ms} ms"),
        1..60 => format!("{seconds} s"),
        60..5_400 => format!("{} min", (seconds + 30) / 60),
        5_400..172_800 => format!("{} h", (seconds + 1_800) / 3_600),
        _ => format!("{} d", (seconds + 43_200) / 86_400),
    }
}

/// Text without what controls a terminal, since it may come from someone else. All that is written of others goes through it, or is
/// [JSON](crate::output::json).
pub(super) fn shown(text: &str) -> String {
    text.chars().map(|c| if is_shown(c) { c } else { '\u{fffd}' }).collect()
}

/// Whether a character is shown, and does not control how others are: C0 and C1 do, and the marks, embeddings, overrides and isolates
/// that set the direction of text.
pub(super) fn is_shown(c: char) -> bool {
    let is_bidi =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !c.is_control() && !is_bidi
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
    fn a_time_is_shown_with_its_distance() {
        let now: DateTime<Utc> = "2027-01-31T12:00:00Z".parse().unwrap();
        for (at, shown) in [
            ("2027-01-31T12:00:00.9Z", "2027-01-31 12:00:00 UTC (now)"),
            ("2027-01-31T11:59:15+00:00", "2027-01-31 11:59:15 UTC (45 s ago)"),
            ("2027-01-31T12:48:00+01:00", "2027-01-31 11:48:00 UTC (12 min ago)"),
            ("2027-01-31T15:00:00Z", "2027-01-31 15:00:00 UTC (in 3 h)"),
            ("2026-12-31T12:00:00Z", "2026-12-31 12:00:00 UTC (31 d ago)"),
        ] {
            assert_eq!(moment(at.parse().unwrap(), now), shown);
        }
        assert_eq!(span(TimeDelta::milliseconds(812)), "812 ms");
        // only what is named as a time, and is one
        let record = json!({"name": "2027-01-31T12:00:00Z", "createdAt": "soon", "finishedAt": null,
                            "waitsFor": {"since": "2027-01-31T12:00:00Z"}});
        assert_eq!(cell(&record, "name"), "2027-01-31T12:00:00Z");
        assert_eq!(
            (cell(&record, "createdAt"), cell(&record, "finishedAt")),
            ("soon".to_owned(), "-".to_owned())
        );
        assert!(cell(&record, "waitsFor.since").starts_with("2027-01-31 12:00:00 UTC ("));
    }

    #[test]
    fn on_a_terminal_the_widest_cells_are_cut_and_ids_are_not() {
        let id = "0192a1b2-7000-7000-8000-000000000008";
        let rows = [vec![id.to_owned(), "x".repeat(90), "y".repeat(50)], vec!["-".to_owned(); 3]];
        let line = |room| {
            let mut text = Vec::new();
            write_within(&mut text, &["id", "error", "more"], &rows, room).unwrap();
            String::from_utf8(text).unwrap().lines().nth(1).unwrap().to_owned()
        };
        assert_eq!(line(None), format!("{id}  {}  {}", "x".repeat(90), "y".repeat(50)));
        assert_eq!(line(Some(200)), line(None));
        assert_eq!(line(Some(150)), format!("{id}  {}…  {}", "x".repeat(59), "y".repeat(50)));
        let least = format!("{id}  {}…  {}…", "x".repeat(35), "y".repeat(35));
        assert_eq!((line(Some(112)), line(Some(40))), (least.clone(), least));
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_a_missing_value_is_a_dash() {
        let answer = json!({"results": [
            {"id": 1, "progress": {"done": 10}, "error": null},
            {"id": 1000, "progress": {"done": 2}, "error": "\u{1b}[2Jgone"},
            {"id": 1001, "progress": {"done": 3}, "error": {"name": [null, "\u{9b}2J\u{202e}\u{2067}"]}},
        ]});
        let mut text = Vec::new();
        let rows = rows(&answer["results"], &["id", "progress.done", "error", "none"]);
        write_within(&mut text, &["id", "done", "error", "none"], &rows, None).unwrap();
        let expected = "\
ID    DONE  ERROR                    NONE
1     10    -                        -
1000  2     \u{fffd}[2Jgone                 -
1001  3     {\"name\":[null,\"\u{fffd}2J\u{fffd}\u{fffd}\"]}  -
";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }
}

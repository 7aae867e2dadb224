//! Compares two stored tables.

use std::fmt;
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::{Row, number};

/// A stored table.
#[derive(Debug, Serialize, Deserialize)]
pub struct Kept {
    /// The measured commit.
    pub commit: String,
    /// Whether it is a quick run, which can only be compared with another quick run.
    pub quick: bool,
    /// The figures.
    pub rows: Vec<Row>,
}

impl Kept {
    /// Reads a table.
    ///
    /// # Errors
    /// When the file cannot be read, or is not a stored table.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let name = || path.display().to_string();
        let text = std::fs::read(path).with_context(name)?;
        serde_json::from_slice(&text).with_context(name)
    }

    /// Writes the table.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        std::fs::write(path, serde_json::to_vec_pretty(self)?).with_context(|| path.display().to_string())
    }

    fn row(&self, what: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.what == what)
    }
}

/// Two tables, the earlier one first.
#[derive(Debug)]
pub struct Comparison<'k>(pub &'k Kept, pub &'k Kept);

impl fmt::Display for Comparison<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(a, b) = self;
        let name =
            |kept: &Kept| if kept.quick { format!("{} (quick)", kept.commit) } else { kept.commit.clone() };
        writeln!(f, "{:<69} {:>22} {:>22}  figures", "what", name(a), name(b))?;
        let shown = |row: Option<&Row>| {
            row.map_or_else(
                || "–".to_owned(),
                |row| match row.ratio {
                    Some(ratio) => format!("{} ({} ×)", number(row.figure), number(ratio)),
                    None => number(row.figure),
                },
            )
        };
        let only_here = a.rows.iter().filter(|row| b.row(&row.what).is_none());
        for row in b.rows.iter().chain(only_here) {
            let (before, after) = (a.row(&row.what), b.row(&row.what));
            let change = before
                .zip(after)
                .map(|(before, after)| format!("{:+.0} %", 100.0 * (after.figure / before.figure - 1.0)))
                .unwrap_or_default();
            let what = format!("{} [{}]", row.what, row.unit);
            writeln!(f, "{what:<69} {:>22} {:>22}  {change}", shown(before), shown(after))?;
        }
        write!(f, "In brackets: by the floor of the same run, which is what two machines have in common.")
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Floor, Reach};
    use super::*;

    fn kept(commit: &str, rows: Vec<Row>) -> Kept {
        Kept { commit: commit.to_owned(), quick: false, rows }
    }

    #[test]
    fn two_stored_tables_are_compared_row_by_row() {
        let row = |figure| Row::relative("drain", figure, "1/s", Floor::of(4.0, ""), Reach::Anywhere);
        let gone = Row::absolute("gone", 1.0, "ms", Reach::Anywhere);
        let came = Row::absolute("came", 7.0, "ms", Reach::Anywhere);
        let (a, b) = (kept("aaa", vec![row(2.0), gone]), kept("bbb", vec![row(3.0), came]));

        let text = Comparison(&a, &b).to_string();

        let line = |what: &str| text.lines().find(|line| line.starts_with(what)).unwrap();
        assert!(line("drain").ends_with("2.00 (0.50 ×)          3.00 (0.75 ×)  +50 %"), "{text}");
        assert!(line("gone").contains("1.00                      –"), "{text}");
        assert!(line("came").contains("–                   7.00"), "{text}");
    }

    #[test]
    fn a_stored_table_reads_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        let row = Row::relative("sync", 6.0, "ms", Floor::of(2.0, "SQL"), Reach::RatioAtMost(3.0));
        kept("aaa", vec![row]).write(&path).unwrap();

        let back = Kept::read(&path).unwrap();

        assert_eq!((back.commit.as_str(), back.quick), ("aaa", false));
        assert_eq!(
            (back.rows[0].reach, back.rows[0].floor_is.as_deref()),
            (Reach::RatioAtMost(3.0), Some("SQL"))
        );
    }
}

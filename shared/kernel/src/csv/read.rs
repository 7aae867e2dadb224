//! Reads CSV while it arrives, as strictly as RFC 4180 is written: a quote that is out of place, or never closed, shifts all
//! cells behind it, so it refuses the text.
//!
//! Lines end with CR, LF or both, and are counted as an editor counts them; a blank one is no record. A text that is read as a
//! whole, or in pieces of any size, has the same records, which are those of every other reader that is as strict.

use super::write::{MARK, is_marked};

/// The bytes that may be between two cells.
pub const DELIMITERS: [u8; 4] = *b",;\t|";

/// Cells that a record may have.
pub const MOST_CELLS: usize = 1_000;

/// Why a text is no CSV. Bytes are counted in their line, from 1, in UTF-8.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// A quote in a cell that does not begin with one.
    #[error(
        "line {line}, byte {byte}: a quote stands in a cell that does not begin with one; put the cell in quotes, and write each quote in it twice"
    )]
    Quote {
        /// Its line.
        line: u64,
        /// Its byte.
        byte: u64,
    },
    /// Something behind the quote that closes a cell.
    #[error(
        "line {line}, byte {byte}: the delimiter or the end of the line must follow the closing quote; write a quote within quotes twice"
    )]
    AfterQuote {
        /// Its line.
        line: u64,
        /// Its byte.
        byte: u64,
    },
    /// A quote that is never closed.
    #[error("line {line}, byte {byte}: the quote that begins here is never closed")]
    Open {
        /// Its line.
        line: u64,
        /// Its byte.
        byte: u64,
    },
    /// A quote that is not closed in a record of the greatest length.
    #[error("line {line}, byte {byte}: the quote that begins here is not closed within {most} bytes")]
    OpenFor {
        /// Its line.
        line: u64,
        /// Its byte.
        byte: u64,
        /// How many bytes a record may have.
        most: usize,
    },
    /// A record that is too long.
    #[error("line {line} is longer than {most} bytes")]
    TooLong {
        /// The line that it begins in.
        line: u64,
        /// How many bytes a record may have.
        most: usize,
    },
    /// A record of too many cells.
    #[error("line {line} has more than {MOST_CELLS} cells")]
    TooMany {
        /// The line that it begins in.
        line: u64,
    },
}

/// The cells of a line, or of several where one of them contains ends of lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    line: u64,
    text: String,
    /// Where each cell ends.
    ends: Vec<usize>,
}

impl Record {
    /// The line that it begins in, from 1.
    #[must_use]
    pub fn line(&self) -> u64 {
        self.line
    }

    /// How many cells it has.
    #[must_use]
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// A cell, as it was sent; one that it does not have is empty.
    #[must_use]
    pub fn cell(&self, place: usize) -> &str {
        let start = place.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied());
        let span = start.zip(self.ends.get(place).copied());
        span.and_then(|(start, end)| self.text.get(start..end)).unwrap_or_default()
    }

    /// All of them.
    pub fn cells(&self) -> impl Iterator<Item = &str> {
        (0..self.count()).map(|place| self.cell(place))
    }

    /// Bytes in memory.
    #[must_use]
    pub fn held(&self) -> usize {
        size_of::<Self>() + self.text.len() + self.ends.len() * size_of::<usize>()
    }

    /// Makes each cell what it [says](said).
    pub fn say(&mut self) {
        if self.cells().any(|cell| said(cell).len() < cell.len()) {
            *self = Self { line: self.line, ..self.cells().map(said).collect() };
        }
    }

    fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
    }
}

/// A record of these cells, of no line.
impl<C: AsRef<str>> FromIterator<C> for Record {
    fn from_iter<I: IntoIterator<Item = C>>(cells: I) -> Self {
        let mut record = Self::default();
        for cell in cells {
            record.text.push_str(cell.as_ref());
            record.ends.push(record.text.len());
        }
        record
    }
}

/// Where the next byte is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Within {
    /// At the beginning of a cell.
    #[default]
    Start,
    /// In a cell without quotes.
    Plain,
    /// Within quotes.
    Quoted,
    /// Behind a quote within quotes: it closes the cell, or is the first of two.
    Closing,
}

/// Counts lines.
#[derive(Clone, Copy, Debug)]
struct Lines {
    line: u64,
    /// Bytes before this line.
    began: u64,
    /// The byte before was a CR: a LF belongs to it.
    is_return: bool,
}

impl Lines {
    /// Passes over a byte, the one after so many.
    fn pass(&mut self, byte: u8, before: u64) {
        match byte {
            b'\n' if self.is_return => self.began = before + 1,
            b'\n' | b'\r' => (self.line, self.began) = (self.line + 1, before + 1),
            _ => {}
        }
        self.is_return = byte == b'\r';
    }
}

/// The records of a text that arrives in pieces.
#[derive(Debug)]
pub struct Records {
    delimiter: Option<u8>,
    most: usize,
    /// What has arrived, and how many bytes of it were read.
    arrived: String,
    read: usize,
    /// Bytes before what has arrived.
    before: u64,
    has_ended: bool,
    within: Within,
    lines: Lines,
    /// The quote that was opened last: its line and byte.
    quote: (u64, u64),
    record: Record,
}

impl Records {
    /// Of a text with that delimiter; without one, the delimiter is found by the first line. A record has at most so many bytes.
    #[must_use]
    pub fn new(delimiter: Option<u8>, most: usize) -> Self {
        Self {
            delimiter,
            most,
            arrived: String::new(),
            read: 0,
            before: 0,
            has_ended: false,
            within: Within::Start,
            lines: Lines { line: 1, began: 0, is_return: false },
            quote: (0, 0),
            record: Record::default(),
        }
    }

    /// What has arrived and was not read, to which more is added.
    pub fn arriving(&mut self) -> &mut String {
        if self.read == self.arrived.len() {
            self.before += self.read as u64;
            self.arrived.clear();
            self.read = 0;
        }
        &mut self.arrived
    }

    /// Says that nothing more arrives.
    pub fn end(&mut self) {
        self.has_ended = true;
    }

    /// The delimiter, once it is known: after the first record.
    #[must_use]
    pub fn delimiter(&self) -> u8 {
        self.delimiter.unwrap_or(DELIMITERS[0])
    }

    /// Bytes in memory.
    #[must_use]
    pub fn held(&self) -> usize {
        self.arrived.len() + self.record.held()
    }

    /// The line and the byte in it behind all that has arrived, both from 1.
    #[must_use]
    pub fn end_of_arrived(&self) -> (u64, u64) {
        let (mut lines, mut at) = (self.lines, self.at());
        for byte in self.rest().bytes() {
            lines.pass(byte, at);
            at += 1;
        }
        (lines.line, at - lines.began + 1)
    }

    /// Reads the next record into `next`; false if it has not arrived, or there is none.
    pub fn next(&mut self, next: &mut Record) -> Result<bool, Malformed> {
        let delimiter = match self.delimiter {
            Some(delimiter) => delimiter,
            None => match self.find_delimiter()? {
                Some(found) => *self.delimiter.insert(found),
                None => return Ok(false),
            },
        };
        while let Some(byte) = self.rest().bytes().next() {
            let is_plain = |b: u8| !matches!(b, b'"' | b'\r' | b'\n') && b != delimiter;
            match (self.within, byte) {
                (Within::Start, b'\r' | b'\n') if self.is_blank() => self.skip(byte),
                (Within::Start, b'"') => {
                    self.quote = (self.lines.line, self.byte());
                    self.begin();
                    self.within = Within::Quoted;
                    self.skip(byte);
                }
                (Within::Plain, b'"') => {
                    return Err(Malformed::Quote { line: self.lines.line, byte: self.byte() });
                }
                (Within::Start | Within::Plain, _) if is_plain(byte) => {
                    self.begin();
                    self.within = Within::Plain;
                    self.take(|b| !is_plain(b))?;
                }
                (Within::Quoted, b'"') => {
                    self.within = Within::Closing;
                    self.skip(byte);
                }
                (Within::Quoted, _) => self.take(|b| b == b'"')?,
                (Within::Closing, b'"') => {
                    self.within = Within::Quoted;
                    self.room_for(1)?;
                    self.record.text.push('"');
                    self.skip(byte);
                }
                (Within::Closing, _) if is_plain(byte) => {
                    return Err(Malformed::AfterQuote { line: self.lines.line, byte: self.byte() });
                }
                (_, b'\r' | b'\n') => {
                    self.end_cell()?;
                    self.skip(byte);
                    self.hand_over(next);
                    return Ok(true);
                }
                // the delimiter
                _ => {
                    self.begin();
                    self.end_cell()?;
                    self.skip(byte);
                }
            }
        }
        if !self.has_ended {
            return Ok(false);
        }
        if self.within == Within::Quoted {
            let (line, byte) = self.quote;
            return Err(Malformed::Open { line, byte });
        }
        if self.is_blank() {
            return Ok(false);
        }
        self.end_cell()?;
        self.hand_over(next);
        Ok(true)
    }

    fn rest(&self) -> &str {
        self.arrived.get(self.read..).unwrap_or_default()
    }

    /// Bytes before the next one.
    fn at(&self) -> u64 {
        self.before + self.read as u64
    }

    /// The next byte in its line, from 1.
    fn byte(&self) -> u64 {
        self.at() - self.lines.began + 1
    }

    /// Whether nothing of a record was read.
    fn is_blank(&self) -> bool {
        self.within == Within::Start && self.record.ends.is_empty()
    }

    /// Begins a record, if none was begun.
    fn begin(&mut self) {
        if self.is_blank() {
            self.record.line = self.lines.line;
        }
    }

    fn skip(&mut self, byte: u8) {
        self.lines.pass(byte, self.at());
        self.read += 1;
    }

    /// Takes what is before a byte into the cell.
    fn take(&mut self, is_end: impl Fn(u8) -> bool) -> Result<(), Malformed> {
        let (at, rest) = (self.at(), self.arrived.get(self.read..).unwrap_or_default());
        let end = rest.bytes().position(is_end).unwrap_or(rest.len());
        let taken = rest.get(..end).unwrap_or_default();
        self.room_for(taken.len())?;
        self.record.text.push_str(taken);
        if self.within == Within::Quoted {
            for (byte, before) in taken.bytes().zip(at..) {
                self.lines.pass(byte, before);
            }
        } else {
            self.lines.is_return = false;
        }
        self.read += end;
        Ok(())
    }

    /// Refuses so many more bytes of a record that would be too long.
    fn room_for(&self, bytes: usize) -> Result<(), Malformed> {
        let is_room = self.record.text.len() + bytes + self.record.ends.len() <= self.most;
        is_room.then_some(()).ok_or_else(|| self.too_long())
    }

    fn too_long(&self) -> Malformed {
        let (most, (line, byte)) = (self.most, self.quote);
        if self.within == Within::Quoted {
            Malformed::OpenFor { line, byte, most }
        } else {
            Malformed::TooLong { line: self.record.line.max(1), most }
        }
    }

    fn end_cell(&mut self) -> Result<(), Malformed> {
        if self.record.ends.len() == MOST_CELLS {
            return Err(Malformed::TooMany { line: self.record.line });
        }
        self.record.ends.push(self.record.text.len());
        self.within = Within::Start;
        Ok(())
    }

    fn hand_over(&mut self, next: &mut Record) {
        next.clear();
        std::mem::swap(next, &mut self.record);
    }

    /// The delimiter that the first line has most of, outside quotes; none if that line has not arrived.
    fn find_delimiter(&self) -> Result<Option<u8>, Malformed> {
        let (mut counts, mut is_quoted, mut is_begun) = ([0_usize; DELIMITERS.len()], false, false);
        let mut is_whole = self.has_ended;
        for byte in self.rest().bytes() {
            match byte {
                b'"' => is_quoted = !is_quoted,
                b'\r' | b'\n' if !is_quoted && is_begun => {
                    is_whole = true;
                    break;
                }
                _ if is_quoted => {}
                _ => {
                    let found = DELIMITERS.iter().zip(&mut counts).find(|(delimiter, _)| **delimiter == byte);
                    if let Some((_, count)) = found {
                        *count += 1;
                    }
                }
            }
            is_begun |= !matches!(byte, b'\r' | b'\n');
        }
        if !is_whole && self.rest().len() > self.most {
            return Err(self.too_long());
        }
        // the first of those that are as many
        let most = DELIMITERS.iter().zip(counts).rev().max_by_key(|(_, count)| *count);
        Ok(most.filter(|_| is_whole).map(|(delimiter, _)| *delimiter))
    }
}

/// What a cell says: a text that a program could take for a formula was written with a mark before it.
#[must_use]
pub fn said(cell: &str) -> &str {
    cell.strip_prefix(MARK).filter(|text| is_marked(text)).unwrap_or(cell)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    const MOST: usize = 1_000;

    /// The records of a text, each with its line, in pieces of that size.
    fn read(text: &str, delimiter: Option<u8>, size: usize) -> Result<Vec<(u64, Vec<String>)>, Malformed> {
        let mut records = Records::new(delimiter, MOST);
        let (mut read, mut record) = (Vec::new(), Record::default());
        let pieces: Vec<char> = text.chars().collect();
        let mut pieces = pieces.chunks(size);
        loop {
            while records.next(&mut record)? {
                read.push((record.line(), record.cells().map(str::to_owned).collect()));
            }
            match pieces.next() {
                Some(piece) => records.arriving().extend(piece),
                None if records.has_ended => return Ok(read),
                None => records.end(),
            }
        }
    }

    fn cells(text: &str) -> Result<Vec<Vec<String>>, Malformed> {
        Ok(read(text, None, 7)?.into_iter().map(|(_, cells)| cells).collect())
    }

    #[test]
    fn cells_may_contain_everything_in_quotes() {
        for (text, expected) in [
            ("a,b\r\n1,2\r\n", vec![vec!["a", "b"], vec!["1", "2"]]),
            ("a;b\n\"x;\"\"y\"\"\r\nz\";\n", vec![vec!["a", "b"], vec!["x;\"y\"\r\nz", ""]]),
            ("a\tb\n,;\t|", vec![vec!["a", "b"], vec![",;", "|"]]),
            ("a|b|c\n||", vec![vec!["a", "b", "c"], vec!["", "", ""]]),
            ("\"a,b;c\";d\n", vec![vec!["a,b;c", "d"]]),
            ("a\r\r1\r", vec![vec!["a"], vec!["1"]]),
            ("\r\n\na\n\"\"\n\n", vec![vec!["a"], vec![""]]),
            ("a\n b \n", vec![vec!["a"], vec![" b "]]),
            ("", vec![]),
        ] {
            assert_eq!(cells(text).unwrap(), expected, "{text:?}");
        }
    }

    #[test]
    fn a_quote_that_is_out_of_place_is_named_by_its_line_and_byte() {
        for (text, detail) in [
            ("a,b\n1,2\"\n", "line 2, byte 4: a quote stands in a cell"),
            ("a,b\n\"č\n\" x,2\n", "line 3, byte 2: the delimiter or the end of the line must follow"),
            ("a,b\r\n1,\"2\r\n\n", "line 2, byte 3: the quote that begins here is never closed"),
            ("a,\"b\n", "line 1, byte 3: the quote that begins here is never closed"),
        ] {
            for size in [1, 2, 100] {
                let refused = read(text, None, size).unwrap_err().to_string();
                assert!(refused.starts_with(detail), "{text:?}: {refused}");
            }
        }
    }

    #[test]
    fn what_is_too_long_is_refused_before_it_ends() {
        let long = "x".repeat(MOST + 1);
        let refused = |text: &str| read(text, None, 64).unwrap_err();
        assert_eq!(refused(&format!("a\nb\n{long}")), Malformed::TooLong { line: 3, most: MOST });
        assert_eq!(refused(&long), Malformed::TooLong { line: 1, most: MOST });
        assert_eq!(refused(&format!("a\n\"{long}")), Malformed::OpenFor { line: 2, byte: 1, most: MOST });
        let quotes = "\"\"".repeat(MOST + 1);
        assert_eq!(refused(&format!("a\n\"{quotes}")), Malformed::OpenFor { line: 2, byte: 1, most: MOST });
        let most = vec!["1"; MOST_CELLS / 4].join(",,,,");
        assert_eq!(refused(&format!("a,b\n{most}")), Malformed::TooLong { line: 2, most: MOST });
        let mut records = Records::new(Some(b','), usize::MAX);
        records.arriving().push_str(&",".repeat(MOST_CELLS + 1));
        assert_eq!(records.next(&mut Record::default()), Err(Malformed::TooMany { line: 1 }));
    }

    #[test]
    fn an_apostrophe_before_what_is_like_a_formula_is_taken_away() {
        for (cell, text) in [
            ("'=1+1", "=1+1"),
            ("''=1+1", "'=1+1"),
            ("'-5", "'-5"),
            ("'-5-", "-5-"),
            ("'\tx", "\tx"),
            ("'tis", "'tis"),
            ("=1", "=1"),
            ("'", "'"),
        ] {
            assert_eq!(said(cell), text);
        }
    }

    /// Texts that are CSV more often than not.
    fn text() -> impl Strategy<Value = String> {
        prop_oneof![
            "([aé ]{0,3}|\"([a,;\r\n]|\"\"){0,4}\")([,;](([aé ]{0,3})|\"([a,\r\n]|\"\"){0,4}\")){0,3}(\r\n|\n|\r)?".prop_map(String::from),
            "[a\",;\r\né]{0,24}",
        ]
    }

    fn texts() -> impl Strategy<Value = String> {
        prop::collection::vec(text(), 0..5).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn records_do_not_depend_on_the_pieces(text in texts(), size in 1_usize..9) {
            prop_assert_eq!(read(&text, None, size), read(&text, None, 1_000));
        }

        #[test]
        fn cells_that_were_written_are_read(
            rows in prop::collection::vec(prop::collection::vec("[a\",;|\t\r\n é']{0,6}", 2..4), 1..6),
            delimiter in prop::sample::select(&DELIMITERS[..]),
        ) {
            let quoted = |cell: &String| format!("\"{}\"", cell.replace('"', "\"\""));
            let line = |row: &Vec<String>| row.iter().map(quoted).collect::<Vec<_>>().join(&char::from(delimiter).to_string());
            let text = rows.iter().map(line).collect::<Vec<_>>().join("\r\n");
            let read: Vec<_> = read(&text, Some(delimiter), 5).unwrap().into_iter().map(|(_, cells)| cells).collect();
            prop_assert_eq!(read, rows);
        }

        #[test]
        fn the_end_of_what_has_arrived_is_the_line_and_byte_of_an_editor(text in "[a,\"é\r\n]{0,30}") {
            let mut records = Records::new(Some(b','), MOST);
            for piece in text.chars() {
                records.arriving().push(piece);
                let _ = records.next(&mut Record::default());
            }
            let lines: Vec<&str> = text.split("\r\n").flat_map(|part| part.split(['\r', '\n'])).collect();
            let whole = !text.ends_with('\r');
            let expected = (lines.len() as u64, lines.last().unwrap().len() as u64 + 1);
            prop_assert!(!whole || records.end_of_arrived() == expected, "{:?}", records.end_of_arrived());
        }
    }

    /// Reads files as `csv` of Python does, which stands by for what it reads otherwise: `strict` refuses what is behind a closing
    /// quote, but takes a quote in a cell without quotes.
    const PYTHON: &str = "
import csv, json, sys
for path in sys.argv[1:]:
    try:
        with open(path, newline='', encoding='utf-8') as file:
            print(json.dumps([row for row in csv.reader(file, delimiter=path[-1], strict=True) if row]))
    except csv.Error as error:
        print(json.dumps(str(error)))
";

    #[test]
    fn files_are_read_as_python_reads_them() {
        use proptest::strategy::ValueTree as _;
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        let folder = tempfile::tempdir().unwrap();
        let (mut paths, mut all) = (Vec::new(), Vec::new());
        for number in 0..300 {
            let text = texts().new_tree(&mut runner).unwrap().current();
            let path = folder.path().join(format!("{number}{}", if number % 2 == 0 { ',' } else { ';' }));
            fs::write(&path, &text).unwrap();
            paths.push(path);
            all.push((text, if number % 2 == 0 { b',' } else { b';' }));
        }
        let output = Command::new("python3").arg("-c").arg(PYTHON).args(&paths).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let said = String::from_utf8(output.stdout).unwrap();
        let mut equal = 0;
        assert_eq!(said.lines().count(), all.len());
        for ((text, delimiter), said) in all.iter().zip(said.lines()) {
            let said: serde_json::Value = serde_json::from_str(said).unwrap();
            match read(text, Some(*delimiter), 3) {
                Ok(records) => {
                    let records: Vec<_> = records.into_iter().map(|(_, cells)| cells).collect();
                    assert_eq!(serde_json::json!(records), said, "{text:?}");
                    equal += 1;
                }
                Err(Malformed::Quote { .. }) => {}
                Err(_) => assert!(said.is_string(), "{text:?}: {said}"),
            }
        }
        assert!(equal > 60, "{equal}");
    }
}

//! Splits a feed into its rows while it arrives. A feed is NDJSON (with or without the header line of the
//! push form), a JSON array of rows, or the JSON object of the push form with the rows in a member.
//!
//! It only finds where a row ends: rows are validated with their chunk. Memory holds one row; a row that is
//! too long is skipped and reported.

use std::borrow::Cow;
use std::collections::VecDeque;

use bytes::Bytes;
use longshore_domain::job::payload::LONGEST_ROW;
use longshore_kernel::encoding::Foreign;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// Bytes of a row that is too long that are kept for its report.
const SHOWN: usize = 1024;

/// A result of splitting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Split {
    /// A row.
    Row(Bytes),
    /// The beginning of a row that is longer than [`LONGEST_ROW`].
    TooLong(Bytes),
}

/// The feed has none of the forms.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at byte {at}: {what}")]
pub(super) struct Malformed {
    at: u64,
    what: Cow<'static, str>,
}

/// Bytes that say what a feed is.
const HEAD: usize = 4;

/// The form of the feed, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Only white space has come.
    Unknown,
    /// An object has begun: the first line, or the whole document.
    Object,
    /// One row per line.
    Lines,
    /// Between the elements of an array; what may follow.
    Between(Awaited),
    /// Within an element of the array.
    Element,
    /// After the array.
    Ended,
}

/// What may follow in an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaited {
    ElementOrEnd,
    Element,
    CommaOrEnd,
}

/// Whether the last byte is within a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quotes {
    Outside,
    Inside,
    /// After a backslash.
    Escaped,
}

/// Splits a feed into rows.
#[derive(Debug)]
pub(super) struct Splitter {
    /// The member that holds the rows in the object of the push form.
    member: &'static str,
    form: Form,
    found: VecDeque<Split>,
    /// The row so far …
    row: Vec<u8>,
    /// … and whether it is too long to be kept.
    over: bool,
    depth: u32,
    quotes: Quotes,
    /// In the first object: where the last string at its top level began and ended in `row`.
    string_at: usize,
    name: Option<(usize, usize)>,
    /// A name and a colon were read: the value is about to begin.
    colon: bool,
    is_first_line: bool,
    at: u64,
    /// Its first bytes, until there are [`HEAD`].
    head: Option<Vec<u8>>,
}

impl Splitter {
    pub(super) fn new(member: &'static str) -> Self {
        Self {
            member,
            form: Form::Unknown,
            found: VecDeque::new(),
            row: Vec::new(),
            over: false,
            depth: 0,
            quotes: Quotes::Outside,
            string_at: 0,
            name: None,
            colon: false,
            is_first_line: true,
            at: 0,
            head: Some(Vec::new()),
        }
    }

    /// The next row that was found.
    pub(super) fn take(&mut self) -> Option<Split> {
        self.found.pop_front()
    }

    /// Whether all rows were taken.
    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Processes more bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        let Some(head) = &mut self.head else { return self.split(bytes) };
        let (first, rest) = bytes.split_at(bytes.len().min(HEAD - head.len()));
        head.extend_from_slice(first);
        if head.len() < HEAD {
            return Ok(());
        }
        self.begin_with_head()?;
        self.split(rest)
    }

    fn begin_with_head(&mut self) -> Result<(), Malformed> {
        let Some(head) = self.head.take() else { return Ok(()) };
        match Foreign::begins(&head) {
            Some(foreign) => {
                let what = format!("it looks like {}; serve it in UTF-8, plain or as gzip", foreign.name());
                Err(Malformed { at: 0, what: what.into() })
            }
            None => self.split(&head),
        }
    }

    fn split(&mut self, mut bytes: &[u8]) -> Result<(), Malformed> {
        while let Some((&byte, rest)) = bytes.split_first() {
            match self.form {
                // most bytes of most feeds, so a whole line at once
                Form::Lines => {
                    let end = bytes.iter().position(|b| *b == b'\n');
                    let line = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default();
                    self.keep(line);
                    self.at += line.len() as u64;
                    bytes = bytes.get(line.len()..).unwrap_or_default();
                    if end.is_some() {
                        self.at += 1;
                        bytes = bytes.get(1..).unwrap_or_default();
                        self.end_line();
                    }
                    continue;
                }
                Form::Unknown => self.begin(byte)?,
                Form::Object => self.object(byte),
                Form::Between(awaited) => self.between(byte, awaited)?,
                Form::Element => self.element(byte)?,
                Form::Ended => {}
            }
            self.at += 1;
            bytes = rest;
        }
        Ok(())
    }

    /// Ends the feed.
    pub(super) fn finish(&mut self) -> Result<(), Malformed> {
        self.begin_with_head()?;
        match self.form {
            Form::Lines | Form::Object => {
                self.end_line();
                Ok(())
            }
            Form::Unknown | Form::Ended => Ok(()),
            Form::Between(_) | Form::Element => Err(self.malformed("it ends before its array is complete")),
        }
    }

    fn malformed(&self, what: &'static str) -> Malformed {
        Malformed { at: self.at, what: what.into() }
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = LONGEST_ROW.saturating_sub(self.row.len());
        if self.over || bytes.len() > room {
            self.over = true;
            self.row.truncate(SHOWN);
            let room = SHOWN.saturating_sub(self.row.len()).min(bytes.len());
            self.row.extend_from_slice(bytes.get(..room).unwrap_or_default());
        } else {
            self.row.extend_from_slice(bytes);
        }
    }

    fn emit(&mut self) {
        let row = Bytes::from(std::mem::take(&mut self.row));
        let found = if std::mem::take(&mut self.over) { Split::TooLong(row) } else { Split::Row(row) };
        self.found.push_back(found);
    }

    fn end_line(&mut self) {
        let is_first = std::mem::take(&mut self.is_first_line);
        let line = self.row.trim_ascii();
        if !self.over && (line.is_empty() || (is_first && is_header(line))) {
            self.row.clear();
        } else {
            self.emit();
        }
    }

    fn begin(&mut self, byte: u8) -> Result<(), Malformed> {
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => {}
            // a byte order mark
            0xef if self.at == 0 => {}
            0xbb if self.at == 1 => {}
            0xbf if self.at == 2 => {}
            b'[' => self.form = Form::Between(Awaited::ElementOrEnd),
            b'{' => {
                self.form = Form::Object;
                self.object(byte);
            }
            b'<' => return Err(self.malformed("it is a page of HTML or XML, not JSON")),
            _ => {
                self.form = Form::Lines;
                self.keep(&[byte]);
            }
        }
        Ok(())
    }

    /// Within the first object. If it ends, the feed has one row per line; if the member with the rows
    /// begins, it is one document.
    fn object(&mut self, byte: u8) {
        let at = self.row.len();
        self.keep(&[byte]);
        if self.over {
            // no header is that long: it is a row
            self.form = Form::Lines;
            return;
        }
        if self.quotes != Quotes::Outside {
            self.in_string(byte);
            if self.quotes == Quotes::Outside && self.depth == 1 {
                self.name = Some((self.string_at, at));
            }
            return;
        }
        match byte {
            b'"' => {
                self.quotes = Quotes::Inside;
                self.string_at = at + 1;
                self.colon = false;
            }
            b'[' if self.depth == 1 && self.colon && self.names_rows() => {
                self.row.clear();
                self.is_first_line = false;
                self.depth = 0;
                self.form = Form::Between(Awaited::ElementOrEnd);
            }
            b'{' | b'[' => {
                self.depth += 1;
                self.colon = false;
            }
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                if self.depth == 0 {
                    self.form = Form::Lines;
                }
            }
            b':' => self.colon = true,
            // a line break within the first object belongs to a document or to a broken row, which the rules
            // refuse
            b' ' | b'\t' | b'\r' | b'\n' => {}
            _ => self.colon = false,
        }
    }

    fn names_rows(&self) -> bool {
        self.name
            .and_then(|(from, to)| self.row.get(from..to))
            .is_some_and(|name| name == self.member.as_bytes())
    }

    fn in_string(&mut self, byte: u8) {
        self.quotes = match (self.quotes, byte) {
            (Quotes::Inside, b'\\') => Quotes::Escaped,
            (Quotes::Inside, b'"') => Quotes::Outside,
            _ => Quotes::Inside,
        };
    }

    fn between(&mut self, byte: u8, awaited: Awaited) -> Result<(), Malformed> {
        match (byte, awaited) {
            (b' ' | b'\t' | b'\r' | b'\n', _) => Ok(()),
            (b']', Awaited::ElementOrEnd | Awaited::CommaOrEnd) => {
                self.form = Form::Ended;
                Ok(())
            }
            (b',', Awaited::CommaOrEnd) => {
                self.form = Form::Between(Awaited::Element);
                Ok(())
            }
            (_, Awaited::CommaOrEnd) => {
                Err(self.malformed("a comma or the end of the array must follow an element"))
            }
            (b',' | b']' | b'}' | b':', _) => Err(self.malformed("an element of the array is missing")),
            _ => {
                self.form = Form::Element;
                self.element(byte)
            }
        }
    }

    fn element(&mut self, byte: u8) -> Result<(), Malformed> {
        if self.quotes != Quotes::Outside {
            self.keep(&[byte]);
            self.in_string(byte);
            if self.quotes == Quotes::Outside && self.depth == 0 {
                self.end_element(Awaited::CommaOrEnd);
            }
            return Ok(());
        }
        match byte {
            b'"' => self.quotes = Quotes::Inside,
            b'{' | b'[' => self.depth += 1,
            // a bare value ends at the next delimiter
            b',' | b']' | b'}' if self.depth == 0 => {
                if byte == b'}' {
                    return Err(self.malformed("a closing bracket has no opening one"));
                }
                self.end_element(Awaited::CommaOrEnd);
                return self.between(byte, Awaited::CommaOrEnd);
            }
            b' ' | b'\t' | b'\r' | b'\n' if self.depth == 0 => {
                self.end_element(Awaited::CommaOrEnd);
                return Ok(());
            }
            b'}' | b']' => {
                self.depth -= 1;
                if self.depth == 0 {
                    self.keep(&[byte]);
                    self.end_element(Awaited::CommaOrEnd);
                    return Ok(());
                }
            }
            _ => {}
        }
        self.keep(&[byte]);
        Ok(())
    }

    fn end_element(&mut self, awaited: Awaited) {
        self.emit();
        self.form = Form::Between(awaited);
    }
}

/// Whether a line is the header of the push form: it names an e-shop and no product.
fn is_header(line: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Header {
        eshop: Option<IgnoredAny>,
        #[serde(rename = "productSku")]
        product_sku: Option<IgnoredAny>,
    }
    serde_json::from_slice::<Header>(line).is_ok_and(|h| h.eshop.is_some() && h.product_sku.is_none())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split(feed: &[u8], piece: usize) -> Result<Vec<String>, Malformed> {
        let mut splitter = Splitter::new("products");
        for piece in feed.chunks(piece.max(1)) {
            splitter.push(piece)?;
        }
        splitter.finish()?;
        let rows = std::iter::from_fn(|| splitter.take());
        Ok(rows
            .map(|found| match found {
                Split::Row(row) => String::from_utf8_lossy(&row).trim().to_owned(),
                Split::TooLong(row) => format!("too long: {} bytes kept", row.len()),
            })
            .collect())
    }

    const A: &str = r#"{"productSku":"A","name":"with ] and } and \" in it"}"#;
    const B: &str = r#"{"productSku":"B","childrenProducts":[{"productId":"x"}]}"#;

    #[test]
    fn every_form_gives_the_same_rows_however_it_is_split_into_pieces() {
        let forms = [
            format!("{A}\n{B}\n"),
            format!("{A}\r\n\r\n{B}"),
            format!("\u{feff}{A}\n{B}\n"),
            format!("{{\"eshop\":\"x\"}}\n{A}\n{B}\n"),
            format!("[{A},{B}]"),
            format!(" [\n  {A} ,\n {B}\n]\n"),
            format!("{{\"eshop\":\"x\",\"products\":[{A},{B}]}}"),
            format!(
                "{{\n \"a\": [1, {{\"products\": []}}],\n \"products\" : [\n{A},\n{B}\n]\n, \"more\": 1}}"
            ),
        ];
        for form in forms {
            for piece in [1, 2, 7, 64, 10_000] {
                assert_eq!(split(form.as_bytes(), piece).unwrap(), [A, B], "{piece}: {form}");
            }
        }
    }

    #[test]
    fn an_empty_feed_and_an_empty_array_have_no_rows() {
        for empty in ["", " \n", "[]", "[ ]", r#"{"products":[]}"#, "{\"eshop\":\"x\"}\n"] {
            assert_eq!(split(empty.as_bytes(), 3).unwrap(), Vec::<String>::new(), "{empty}");
        }
    }

    #[test]
    fn a_line_that_is_not_json_is_a_row_that_the_rules_refuse() {
        assert_eq!(
            split(format!("nonsense\n{A}\n{{broken\n").as_bytes(), 5).unwrap(),
            ["nonsense", A, "{broken"]
        );
        assert_eq!(
            split(b"[1,\"two\",{\"three\":3},null]", 2).unwrap(),
            ["1", "\"two\"", "{\"three\":3}", "null"]
        );
    }

    #[test]
    fn the_error_of_a_broken_document_gives_the_position() {
        for (broken, at) in
            [("[{\"a\":1}", 8), ("[1 2]", 3), ("[,1]", 1), ("[1,]", 3), ("[}", 1), ("<html>", 0), ("[1}", 2)]
        {
            let error = split(broken.as_bytes(), 1).unwrap_err();
            assert_eq!(error.at, at, "{broken}: {error}");
        }
    }

    #[test]
    fn a_row_that_is_too_long_is_skipped_and_reported() {
        let long = format!("{{\"name\":\"{}\"}}", "x".repeat(LONGEST_ROW));
        for form in
            [format!("{A}\n{long}\n{B}\n"), format!("[{A},{long},{B}]"), format!("{long}\n{A}\n{B}\n")]
        {
            let rows = split(form.as_bytes(), 8192).unwrap();
            let replacement = format!("too long: {SHOWN} bytes kept");
            assert_eq!(rows.iter().filter(|row| **row == replacement).count(), 1);
            assert_eq!(rows.iter().filter(|row| **row != replacement).collect::<Vec<_>>(), [A, B]);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_split_without_a_panic_and_alike_in_any_pieces(feed in prop::collection::vec(any::<u8>(), 0..300), piece in 1usize..40) {
            prop_assert_eq!(split(&feed, piece), split(&feed, 300));
        }

        #[test]
        fn any_brackets_split_alike_in_any_pieces(feed in r#"[\[\]{}",:a \\\n]{0,80}"#, piece in 1usize..20) {
            prop_assert_eq!(split(feed.as_bytes(), piece), split(feed.as_bytes(), 300));
        }
    }
}

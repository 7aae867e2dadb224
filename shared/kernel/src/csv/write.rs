//! Writing: one line after the other into a text, each ended by CRLF.
//!
//! A text that a spreadsheet could take for a formula is [marked](is_marked); whoever reads it takes one mark away. So what is
//! written is read as it was.

use std::borrow::Cow;

use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::json::compact;

/// The media type of what is written.
pub const MEDIA: &str = "text/csv; charset=utf-8";

/// What the elements of a list in a cell are joined by.
pub const ELEMENTS: char = '|';

/// What stands before a text that is no formula.
pub const MARK: char = '\'';

/// A cell of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell<'t> {
    /// Nothing: null, or absent.
    Empty,
    /// A number, a boolean.
    Plain(Cow<'t, str>),
    /// Any text.
    Text(Cow<'t, str>),
}

impl<'t> Cell<'t> {
    /// A text, if there is one.
    #[must_use]
    pub fn text(text: Option<&'t str>) -> Self {
        text.map_or(Self::Empty, |text| Self::Text(text.into()))
    }

    /// An integer, if there is one.
    #[must_use]
    pub fn integer(number: Option<impl Into<i64>>) -> Self {
        number.map_or(Self::Empty, |number| Self::Plain(number.into().to_string().into()))
    }

    /// A value of JSON; of an array its elements, of an object its text.
    fn of(value: &'t RawValue) -> Result<Self, serde_json::Error> {
        let json = value.get();
        Ok(match json.as_bytes() {
            b"null" => Self::Empty,
            [b'"', within @ .., b'"'] if !within.contains(&b'\\') => {
                Self::Text(json.get(1..json.len() - 1).unwrap_or_default().into())
            }
            [b'"', ..] => Self::Text(serde_json::from_str::<String>(json)?.into()),
            [b'[', ..] => {
                let elements: Vec<&RawValue> = serde_json::from_str(json)?;
                let mut joined = String::new();
                for (position, element) in elements.into_iter().enumerate() {
                    if position > 0 {
                        joined.push(ELEMENTS);
                    }
                    if let Self::Plain(text) | Self::Text(text) = Self::of(element)? {
                        joined.push_str(&text);
                    }
                }
                Self::Text(joined.into())
            }
            [b'{', ..] => Self::Text(compact(json).into()),
            _ => Self::Plain(json.into()),
        })
    }
}

/// Whether one [`MARK`] belongs before a text: a spreadsheet could take it for a formula, or it has such marks itself. A number needs
/// none.
#[must_use]
pub fn is_marked(text: &str) -> bool {
    let bare = text.trim_start_matches(MARK);
    bare.starts_with(['=', '+', '-', '@', '\t', '\r']) && !is_number(text)
}

/// Whether a text is a number of people: `^[+-]?\d+([.,]\d+)?$`.
#[must_use]
pub fn is_number(text: &str) -> bool {
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    match unsigned.split_once(['.', ',']) {
        Some((whole, fraction)) => is_digits(whole) && is_digits(fraction),
        None => is_digits(unsigned),
    }
}

/// Appends a line with these cells.
pub fn line<'t>(text: &mut String, cells: impl IntoIterator<Item = Cell<'t>>) {
    line_by(text, ',', cells);
}

/// The same with another delimiter between the cells.
pub fn line_by<'t>(text: &mut String, delimiter: char, cells: impl IntoIterator<Item = Cell<'t>>) {
    let mut line = Line { delimiter, ..Line::begin(text) };
    for cell in cells {
        line.cell(&cell);
    }
    line.end();
}

/// Appends a line with the values of a record: an object, as JSON, whose members are in the order of the columns.
///
/// # Errors
/// It is no object.
pub fn record(text: &mut String, json: &str) -> Result<(), serde_json::Error> {
    let mut line = Line::begin(text);
    serde_json::Deserializer::from_str(json).deserialize_map(&mut line)?;
    line.end();
    Ok(())
}

/// A line on its way into a text.
struct Line<'l> {
    text: &'l mut String,
    delimiter: char,
    began: usize,
    is_first: bool,
}

impl<'l> Line<'l> {
    fn begin(text: &'l mut String) -> Self {
        Self { began: text.len(), text, delimiter: ',', is_first: true }
    }

    fn cell(&mut self, cell: &Cell<'_>) {
        if !std::mem::take(&mut self.is_first) {
            self.text.push(self.delimiter);
        }
        match cell {
            Cell::Empty => {}
            Cell::Plain(plain) => self.text.push_str(plain),
            Cell::Text(text) => self.push_text(text),
        }
    }

    fn push_text(&mut self, text: &str) {
        let mark = if is_marked(text) { "'" } else { "" };
        if !text.contains([self.delimiter, '"', '\r', '\n']) {
            self.text.extend([mark, text]);
            return;
        }
        self.text.extend(["\"", mark]);
        for (number, piece) in text.split('"').enumerate() {
            self.text.extend([if number > 0 { "\"\"" } else { "" }, piece]);
        }
        self.text.push('"');
    }

    fn end(self) {
        // readers skip an empty line
        if self.text.len() == self.began {
            self.text.push_str("\"\"");
        }
        self.text.push_str("\r\n");
    }
}

impl<'de> Visitor<'de> for &mut Line<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a record")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while members.next_key::<IgnoredAny>()?.is_some() {
            let value: &RawValue = members.next_value()?;
            self.cell(&Cell::of(value).map_err(serde::de::Error::custom)?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(json: &str) -> String {
        let mut text = String::new();
        record(&mut text, json).unwrap();
        text
    }

    #[test]
    fn each_value_of_a_record_is_a_cell() {
        let json = r#"{"a":"plain","b":null,"c":-1.50,"d":true,"e":["x","y"],"f":{"g": [1, 2]},"h":[],"i":"a \"b\", č\n"}"#;
        assert_eq!(of(json), "plain,,-1.50,true,x|y,\"{\"\"g\"\":[1,2]}\",,\"a \"\"b\"\", č\n\"\r\n");
        assert_eq!(of("{}"), "\"\"\r\n");
        assert_eq!(of(r#"{"a":null}"#), "\"\"\r\n", "no line is empty");
        assert_eq!(of(r#"{"a":null,"b":null}"#), ",\r\n");
        assert!(record(&mut String::new(), "[1]").is_err());
    }

    #[test]
    fn a_text_that_looks_like_a_formula_is_marked_and_a_number_is_not() {
        for (text, written) in [
            ("=1+1", "'=1+1"),
            ("'=1+1", "''=1+1"),
            ("+420 777", "'+420 777"),
            ("@home", "'@home"),
            ("-", "'-"),
            ("\tx", "'\tx"),
            ("-1.5.2", "'-1.5.2"),
            ("'-1", "''-1"),
            ("-1", "-1"),
            ("+12,50", "+12,50"),
            ("'n", "'n"),
            ("1=1", "1=1"),
        ] {
            let mut line = String::new();
            super::line(&mut line, [Cell::text(Some(text))]);
            let quoted =
                if text.contains(',') { format!("\"{written}\"\r\n") } else { format!("{written}\r\n") };
            assert_eq!(line, quoted, "{text:?}");
        }
        let mut line = String::new();
        super::line(
            &mut line,
            [Cell::text(Some("\r\n=1")), Cell::integer(Some(7)), Cell::integer(None::<i64>)],
        );
        assert_eq!(line, "\"'\r\n=1\",7,\r\n");
    }

    /// The cells of one line, by the letter of RFC 4180.
    fn read(line: &str) -> Vec<String> {
        let (mut cells, mut cell, mut is_quoted) = (Vec::new(), String::new(), false);
        let mut rest = line.strip_suffix("\r\n").unwrap().chars().peekable();
        while let Some(c) = rest.next() {
            match c {
                '"' if is_quoted && rest.peek() == Some(&'"') => cell.extend(rest.next()),
                '"' => is_quoted = !is_quoted,
                ',' if !is_quoted => cells.push(std::mem::take(&mut cell)),
                c => {
                    assert!(is_quoted || !['\r', '\n'].contains(&c), "{line:?}");
                    cell.push(c);
                }
            }
        }
        assert!(!is_quoted, "{line:?}");
        cells.push(cell);
        cells
    }

    proptest! {
        #[test]
        fn whatever_is_written_is_read_as_it_was(texts in prop::collection::vec("['=+@\\\\N\",\r\n\t0-9.a č-]{0,8}", 1..5)) {
            let mut text = String::new();
            line(&mut text, texts.iter().map(|text| Cell::text(Some(text))));
            let cells: Vec<_> = read(&text).into_iter().map(|cell| match cell.strip_prefix(MARK) {
                // what a reader does: takes one mark away where one belongs
                Some(bare) if is_marked(bare) => bare.to_owned(),
                _ => cell,
            }).collect();
            prop_assert_eq!(&cells, &texts);
        }
    }
}

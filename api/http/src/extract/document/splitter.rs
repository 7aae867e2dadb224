//! Extracts the rows of a JSON document while it arrives in pieces of any size.
//!
//! It only finds where a row begins and ends. Each row is validated by itself, and the rest of the document
//! once it is complete.

use longshore_domain::job::payload::LONGEST_ROW;
use longshore_kernel::problem::{MALFORMED_BODY, Problem};

use crate::extract::body::{DEFAULT_LIMIT, too_large};

/// The document is not JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed {
    at: usize,
    what: &'static str,
}

impl Malformed {
    pub(super) fn problem(self) -> Problem {
        Problem::new(
            &MALFORMED_BODY,
            format!("the body is not valid JSON: at byte {}: {}", self.at, self.what),
        )
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Form {
    /// Outside the rows.
    #[default]
    Around,
    /// Between two rows.
    Between(Awaited),
    /// Within a row.
    Row,
}

/// What may follow among the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaited {
    RowOrEnd,
    Row,
    CommaOrEnd,
}

/// Whether the last byte is within a string.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Quotes {
    #[default]
    Outside,
    Inside,
    /// After a backslash.
    Escaped,
}

/// Splits a document into its rows and the rest.
#[derive(Debug, Default)]
pub(super) struct Splitter {
    /// The member with the rows.
    member: &'static str,
    form: Form,
    around: Vec<u8>,
    row: Vec<u8>,
    /// The number of open brackets; within a row, since the row began.
    depth: u32,
    quotes: Quotes,
    /// Outside the rows: where the last string of the outermost object began and ended …
    string_at: usize,
    name: Option<(usize, usize)>,
    /// … and whether a colon was the last byte since.
    colon: bool,
    at: usize,
}

impl Splitter {
    pub(super) fn new(member: &'static str) -> Self {
        Self { member, ..Self::default() }
    }

    /// Bytes in memory.
    pub(super) fn held(&self) -> usize {
        self.around.len() + self.row.len()
    }

    /// Processes more bytes, and calls `take` with each complete row.
    pub(super) fn push(
        &mut self,
        mut bytes: &[u8],
        take: &mut dyn FnMut(&[u8]) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        while let Some((&byte, rest)) = bytes.split_first() {
            match self.form {
                Form::Around => self.around(byte)?,
                Form::Between(awaited) => self.between(byte, awaited).map_err(Malformed::problem)?,
                Form::Row => {
                    // most bytes of most documents neither begin nor end anything, and are taken in one run
                    let plain = match self.quotes {
                        Quotes::Outside => bytes.iter().position(|b| b"\"{}[], \t\r\n".contains(b)),
                        Quotes::Inside => bytes.iter().position(|b| matches!(b, b'"' | b'\\')),
                        Quotes::Escaped => Some(0),
                    };
                    let plain = plain.unwrap_or(bytes.len());
                    if plain > 0 {
                        let (run, rest) = bytes.split_at(plain);
                        self.keep(run);
                        self.at += plain;
                        bytes = rest;
                        continue;
                    }
                    let end = self.in_row(byte);
                    if end != End::Later {
                        self.form = Form::Between(Awaited::CommaOrEnd);
                        take(&self.row)?;
                        self.row.clear();
                    }
                    if end == End::Before {
                        continue;
                    }
                }
            }
            self.at += 1;
            bytes = rest;
        }
        Ok(())
    }

    /// Ends the document, and returns the part outside the rows.
    pub(super) fn finish(self) -> Result<Vec<u8>, Malformed> {
        match self.form {
            Form::Around => Ok(self.around),
            Form::Between(_) | Form::Row => Err(self.malformed("it ends before its rows are complete")),
        }
    }

    fn malformed(&self, what: &'static str) -> Malformed {
        Malformed { at: self.at, what }
    }

    /// Keeps bytes of a row up to one byte above the limit, which is enough to detect that it is too long.
    fn keep(&mut self, bytes: &[u8]) {
        let room = (LONGEST_ROW + 1).saturating_sub(self.row.len());
        self.row.extend_from_slice(bytes.get(..room.min(bytes.len())).unwrap_or_default());
    }

    fn around(&mut self, byte: u8) -> Result<(), Problem> {
        let at = self.around.len();
        if at >= DEFAULT_LIMIT {
            return Err(too_large(DEFAULT_LIMIT));
        }
        self.around.push(byte);
        if self.quotes != Quotes::Outside {
            self.in_string(byte);
            if self.quotes == Quotes::Outside && self.depth == 1 {
                self.name = Some((self.string_at, at));
            }
            return Ok(());
        }
        match byte {
            b'"' => {
                self.quotes = Quotes::Inside;
                self.string_at = at + 1;
                self.colon = false;
            }
            b'[' if self.depth == 1 && self.colon && self.names_rows() => {
                self.depth = 0;
                self.form = Form::Between(Awaited::RowOrEnd);
            }
            b'{' | b'[' => {
                self.depth += 1;
                self.colon = false;
            }
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            b':' => self.colon = true,
            b' ' | b'\t' | b'\r' | b'\n' => {}
            _ => self.colon = false,
        }
        Ok(())
    }

    fn names_rows(&self) -> bool {
        let name = self.name.and_then(|(from, to)| self.around.get(from..to));
        // an array has no names
        self.around.trim_ascii_start().starts_with(b"{")
            && name.is_some_and(|name| name == self.member.as_bytes())
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
            (b' ' | b'\t' | b'\r' | b'\n', _) => {}
            (b']', Awaited::RowOrEnd | Awaited::CommaOrEnd) => {
                self.around.push(byte);
                (self.form, self.depth, self.colon) = (Form::Around, 1, false);
            }
            (b',', Awaited::CommaOrEnd) => self.form = Form::Between(Awaited::Row),
            (_, Awaited::CommaOrEnd) => {
                return Err(self.malformed("a comma or the end of the array must follow an element"));
            }
            (b',' | b']' | b'}' | b':', _) => {
                return Err(self.malformed("an element of the array is missing"));
            }
            _ => {
                self.form = Form::Row;
                self.in_row(byte);
            }
        }
        Ok(())
    }

    /// Processes a byte of a row.
    fn in_row(&mut self, byte: u8) -> End {
        if self.quotes != Quotes::Outside {
            self.keep(&[byte]);
            self.in_string(byte);
            return if self.quotes == Quotes::Outside && self.depth == 0 { End::With } else { End::Later };
        }
        match byte {
            b'"' => self.quotes = Quotes::Inside,
            b'{' | b'[' => self.depth += 1,
            // a delimiter that ends a bare value is not part of the row
            b',' | b']' | b'}' | b' ' | b'\t' | b'\r' | b'\n' if self.depth == 0 => return End::Before,
            b'}' | b']' => {
                self.depth -= 1;
                self.keep(&[byte]);
                return if self.depth == 0 { End::With } else { End::Later };
            }
            _ => {}
        }
        self.keep(&[byte]);
        End::Later
    }
}

/// Where a row ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Later,
    /// With this byte.
    With,
    /// Before it.
    Before,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    /// The part outside the rows, and the rows.
    fn split(document: &[u8], piece: usize) -> Result<(String, Vec<String>), String> {
        let (mut splitter, mut rows) = (Splitter::new("products"), Vec::new());
        for piece in document.chunks(piece.max(1)) {
            let mut take = |row: &[u8]| {
                rows.push(String::from_utf8_lossy(row).into_owned());
                Ok(())
            };
            splitter.push(piece, &mut take).map_err(|problem| problem.detail().to_owned())?;
        }
        let around = splitter.finish().map_err(|malformed| malformed.problem().detail().to_owned())?;
        Ok((String::from_utf8_lossy(&around).into_owned(), rows))
    }

    fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i32>().prop_map(Value::from),
            "[a\"\\\\{}\\[\\],: ]{0,8}".prop_map(Value::from)
        ];
        leaf.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::hash_map("[a-z\"]{0,3}", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn rows_are_those_of_a_parser_however_the_document_is_split(
            rows in prop::collection::vec(json_value(), 0..5), before in json_value(), after in json_value(),
            piece in 1usize..40, is_pretty in any::<bool>()
        ) {
            let document = json!({"a": before, "products": rows, "z": {"products": [after]}});
            let text = if is_pretty { serde_json::to_string_pretty(&document) } else { serde_json::to_string(&document) }.unwrap();
            let (around, found) = split(text.as_bytes(), piece).unwrap();
            let found: Vec<Value> = found.iter().map(|row| serde_json::from_str(row).unwrap()).collect();
            prop_assert_eq!(&found, &rows);
            let mut left = document;
            left["products"] = json!([]);
            prop_assert_eq!(serde_json::from_str::<Value>(&around).unwrap(), left);
        }

        #[test]
        fn any_brackets_split_alike_in_any_pieces(text in r#"\{"products":\[[\[\]{}",:a \\\n]{0,80}"#, piece in 1usize..20) {
            prop_assert_eq!(split(text.as_bytes(), piece), split(text.as_bytes(), 300));
        }

        #[test]
        fn any_bytes_are_split_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), piece in 1usize..40) {
            prop_assert_eq!(split(&bytes, piece), split(&bytes, 300));
        }
    }

    #[test]
    fn an_error_gives_its_position() {
        for (broken, at) in
            [("[1 2]", 3), ("[,1]", 1), ("[1,]", 3), ("[}", 1), ("[1}", 2), ("[1:2", 4), ("[{}", 3)]
        {
            let error = split(format!("{{\"products\":{broken}").as_bytes(), 1).unwrap_err();
            assert!(error.contains(&format!("at byte {}: ", 12 + at)), "{broken}: {error}");
        }
    }

    #[test]
    fn a_row_that_is_too_long_takes_no_more_memory_than_an_allowed_one() {
        let mut splitter = Splitter::new("products");
        let mut lengths = Vec::new();
        let mut take = |row: &[u8]| {
            lengths.push(row.len());
            Ok(())
        };
        splitter.push(b"{\"products\":[\"", &mut take).unwrap();
        for _ in 0..64 {
            splitter.push(&vec![b'x'; 64 * 1024], &mut take).unwrap();
        }
        assert_eq!(splitter.held(), 13 + LONGEST_ROW + 1);
        splitter.push(b"\"]}", &mut take).unwrap();
        assert_eq!(lengths, [LONGEST_ROW + 1]);
    }
}

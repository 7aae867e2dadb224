//! CSV bodies (`docs/reference/syncs.md#csv`), read line by line in constant memory, from clients that may be slow, broken or
//! hostile, as those of [`lines`](super::lines). What the header says in NDJSON is in the query.

use axum::extract::Request;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use bytes::Bytes;
use longshore_domain::job::payload::LONGEST_ROW;
use longshore_domain::job::row::csv::CsvForm;
use longshore_domain::job::row::csv::columns::{Columns, boolean};
use longshore_kernel::crypto::Hasher;
use longshore_kernel::csv::read::{DELIMITERS, Malformed, Record, Records};
use longshore_kernel::encoding::Foreign;
use longshore_kernel::encoding::charset::{Charset, Decoder};
use longshore_kernel::input::Schema;
use longshore_kernel::json::REPEATED_KEY;
use longshore_kernel::problem::{MALFORMED_BODY, Problem, Violation};
use serde_json::{Map, Value};
use url::form_urlencoded;

use super::arriving::Arriving;

/// The media type.
pub const CSV: &str = "text/csv";

/// The rows of a file.
#[derive(Debug)]
pub struct CsvRows {
    pieces: Arriving,
    charset: Charset,
    decoder: Decoder,
    records: Records,
    record: Record,
    /// What a row is.
    schema: Schema,
    /// Once the first line has arrived.
    columns: Option<Columns>,
    begins: bool,
    ended: bool,
    hasher: Hasher,
    beside: usize,
}

/// What the query of a request says: the header, and how the file is to be read.
struct Query {
    header: Map<String, Value>,
    delimiter: Option<u8>,
    charset: Option<Charset>,
}

impl Query {
    /// Reads it; the types of the members of the header are those of a schema, whose rule judges them.
    fn of(query: &str, schema: &Schema) -> Result<Self, Problem> {
        let mut read = Self { header: Map::new(), delimiter: None, charset: None };
        let (mut seen, mut refused) = (Vec::new(), Vec::new());
        for (name, text) in form_urlencoded::parse(query.as_bytes()) {
            if seen.contains(&name) {
                refused.push(Violation::new(name.clone(), REPEATED_KEY, "must be given only once"));
            }
            match name.as_ref() {
                "delimiter" => match text.as_bytes() {
                    b"tab" => read.delimiter = Some(b'\t'),
                    [byte] if DELIMITERS.contains(byte) => read.delimiter = Some(*byte),
                    _ => {
                        let message = "must be one of the characters , ; and |, or tab";
                        refused.push(Violation::new("delimiter", "not_allowed", message));
                    }
                },
                "charset" => {
                    read.charset = Charset::named(&text);
                    if read.charset.is_none() {
                        let names: Vec<_> = Charset::names().collect();
                        let message = format!("must be one of {}", names.join(", "));
                        refused.push(Violation::new("charset", "not_allowed", message));
                    }
                }
                member => {
                    let value = match boolean(&text).filter(|_| is_boolean(schema, member)) {
                        Some(word) => Value::Bool(word),
                        None => Value::String(text.into_owned()),
                    };
                    // a member of an object in the header: `guard.maxDeactivated`
                    match member.split_once('.').filter(|(name, _)| is_object(schema, name)) {
                        Some((name, inner)) => {
                            let object = read.header.entry(name).or_insert_with(|| Value::Object(Map::new()));
                            object.as_object_mut().map(|object| object.insert(inner.to_owned(), value));
                        }
                        None => {
                            read.header.insert(member.to_owned(), value);
                        }
                    }
                }
            }
            seen.push(name);
        }
        if refused.is_empty() { Ok(read) } else { Err(Problem::invalid(refused)) }
    }
}

/// The one that `Content-Type` names, if it is known.
fn of_media_type(headers: &HeaderMap) -> Option<Charset> {
    let mut parameters = headers.get(CONTENT_TYPE)?.to_str().ok()?.split(';').skip(1);
    parameters.find_map(|parameter| {
        let (name, value) = parameter.trim().split_once('=')?;
        name.eq_ignore_ascii_case("charset").then(|| Charset::named(value.trim_matches('"')))?
    })
}

/// Whether a member of a schema is an object.
fn is_object(schema: &Schema, name: &str) -> bool {
    let Schema::Object(members) = schema else { return false };
    members.iter().any(|member| member.name == name && matches!(member.schema, Schema::Object(_)))
}

/// Whether a member of a schema is true or false.
fn is_boolean(schema: &Schema, name: &str) -> bool {
    let Schema::Object(members) = schema else { return false };
    members.iter().filter(|member| member.name == name).any(|member| match &member.schema {
        Schema::OrNull(schema) => **schema == Schema::Boolean,
        schema => *schema == Schema::Boolean,
    })
}

impl CsvRows {
    /// Reads the query of a request, and its decompressed body: the header and the rows, each of a schema.
    ///
    /// # Errors
    /// A parameter that is there twice, or an unknown delimiter, character set or coding.
    pub fn of(request: Request, header: &Schema, schema: Schema) -> Result<(Value, Self), Problem> {
        let query = request.uri().query().unwrap_or_default();
        let mut hasher = Hasher::default();
        // a body with another query is another request
        hasher.update(query.as_bytes());
        hasher.update(b"\n");
        let Query { header, delimiter, charset } = Query::of(query, header)?;
        let of_media_type = of_media_type(request.headers()).filter(|_| charset.is_none());
        hasher.update(of_media_type.map_or("", Charset::name).as_bytes());
        let charset = charset.or(of_media_type).unwrap_or(Charset::Utf8);
        let rows = Self {
            pieces: Arriving::of(request)?,
            charset,
            decoder: Decoder::new(charset),
            records: Records::new(delimiter, LONGEST_ROW),
            record: Record::default(),
            schema,
            columns: None,
            begins: true,
            ended: false,
            hasher,
            beside: 0,
        };
        Ok((Value::Object(header), rows))
    }

    /// Reads the first line, which names the fields of the rows.
    ///
    /// # Errors
    /// There is none, or a name is unknown, empty, or there twice.
    pub async fn begin(&mut self) -> Result<(), Problem> {
        if !self.line().await? {
            let detail = "the body is missing; its first line must name the fields of the rows";
            return Err(Problem::new(&MALFORMED_BODY, detail));
        }
        self.columns = Some(Columns::new(&self.schema, self.records.delimiter(), &self.record)?);
        Ok(())
    }

    /// Sets how many bytes of the rows the caller holds in memory.
    pub fn beside(&mut self, bytes: usize) {
        self.beside = bytes;
    }

    /// The next row, at most [`LONGEST_ROW`] bytes of JSON, and the line that it begins in. It can be cancelled and called again
    /// without loss.
    ///
    /// # Errors
    /// The body is not CSV of its character set, has a row that is too long, ends early or stalls.
    pub async fn next(&mut self) -> Result<Option<(Bytes, u64)>, Problem> {
        while self.line().await? {
            if let Some(columns) = &mut self.columns
                && let Some((row, line)) = columns.push(&mut self.record)?
            {
                return Ok(Some((row.into(), line)));
            }
        }
        let rest = self.columns.as_mut().map(Columns::rest).transpose()?.flatten();
        Ok(rest.map(|(row, line)| (row.into(), line)))
    }

    /// The form of the file, as far as it was read.
    #[must_use]
    pub fn form(&self) -> Option<&CsvForm> {
        self.columns.as_ref().map(Columns::form)
    }

    /// SHA-256 of the query and the whole decompressed body, after it was read to its end.
    #[must_use]
    pub fn hash(self) -> [u8; 32] {
        self.hasher.finish()
    }

    /// Reads the next line of cells; false at the end.
    async fn line(&mut self) -> Result<bool, Problem> {
        loop {
            if self.records.next(&mut self.record).map_err(|malformed| refused(&malformed))? {
                return Ok(true);
            }
            if self.ended {
                return Ok(false);
            }
            self.fill().await?;
        }
    }

    /// Waits for more of the body.
    async fn fill(&mut self) -> Result<(), Problem> {
        let held = self.beside + self.records.held() + self.columns.as_ref().map_or(0, Columns::held);
        let piece = self.pieces.next(held).await?;
        let bytes = piece.as_deref().unwrap_or_default();
        self.hasher.update(bytes);
        if std::mem::take(&mut self.begins)
            && self.charset == Charset::Utf8
            && Foreign::begins(bytes).is_some()
        {
            return Err(self.foreign(bytes));
        }
        if self.decoder.decode(bytes, piece.is_none(), self.records.arriving()).is_err() {
            return Err(self.foreign(bytes));
        }
        if piece.is_none() {
            self.ended = true;
            self.records.end();
        }
        Ok(())
    }

    /// The body is not of its character set, from behind what has arrived on.
    fn foreign(&self, bytes: &[u8]) -> Problem {
        let (line, byte) = self.records.end_of_arrived();
        let mut detail = format!("line {line}, byte {byte}: the text is not valid {}", self.charset.name());
        match (Charset::fitting(bytes), Foreign::begins(bytes)) {
            (Some(charset), _) if self.charset == Charset::Utf8 => {
                let name = charset.name();
                detail =
                    format!("{detail}: it looks like {name}; give the charset {name}, or save it as UTF-8");
            }
            (None, Some(foreign)) => detail = format!("{detail}: {foreign}"),
            _ => {}
        }
        Problem::new(&MALFORMED_BODY, detail)
    }
}

fn refused(malformed: &Malformed) -> Problem {
    Problem::new(&MALFORMED_BODY, malformed.to_string())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::body::Body;
    use futures::stream;
    use longshore_kernel::crypto::sha256;
    use longshore_kernel::input::{Object, boolean, id, int32, text};
    use serde_json::json;

    use super::*;

    fn header() -> Schema {
        Object::schema(|header| {
            header.required("eshop", id());
            header.nullable("send", boolean());
        })
    }

    fn rows() -> Schema {
        Object::schema(|row| {
            row.required("productSku", text(1..=255));
            row.nullable("name", text(1..=255));
            row.optional("weight", int32(0..=9));
        })
    }

    /// The rows of a body in pieces, each with its line, or why it is refused.
    async fn read(query: &str, body: &[u8], size: usize) -> Result<Vec<(Value, u64)>, String> {
        let pieces: Vec<_> = body.chunks(size).map(|piece| Ok::<_, Infallible>(piece.to_vec())).collect();
        let request =
            Request::post(format!("/?{query}")).body(Body::from_stream(stream::iter(pieces))).unwrap();
        let reading = async {
            let (_, mut csv) = CsvRows::of(request, &header(), rows())?;
            csv.begin().await?;
            let mut read = Vec::new();
            while let Some((row, line)) = csv.next().await? {
                read.push((serde_json::from_slice(&row).unwrap(), line));
            }
            assert_eq!(csv.hash(), sha256(&[query.as_bytes(), b"\n", body].concat()));
            Ok::<_, Problem>(read)
        };
        reading.await.map_err(|problem| problem.detail().to_owned())
    }

    #[tokio::test]
    async fn rows_do_not_depend_on_how_the_body_was_split() {
        let body = "\u{feff}productSku;name;weight\r\n\r\nH-1;\"Žlutý;\r\nhrníček\";1\r\nH-2;;\r\n";
        for size in [1, 2, 3, 1_000] {
            assert_eq!(
                read("", body.as_bytes(), size).await.unwrap(),
                [
                    (json!({"productSku": "H-1", "name": "Žlutý;\r\nhrníček", "weight": 1}), 3),
                    (json!({"productSku": "H-2"}), 5),
                ]
            );
        }
    }

    #[tokio::test]
    async fn what_is_not_utf_8_is_named_by_line_and_byte_with_the_character_set_that_fits() {
        let czech = b"productSku;name\r\nH-1;\xe8aj\r\n";
        let utf_16: Vec<u8> = "productSku;name\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        for (query, body, detail) in [
            (
                "",
                &czech[..],
                "line 2, byte 5: the text is not valid utf-8: it looks like windows-1250; give the charset windows-1250, or",
            ),
            (
                "",
                &utf_16,
                "line 1, byte 1: the text is not valid utf-8: it looks like utf-16; give the charset utf-16, or",
            ),
            (
                "",
                b"PK\x03\x04",
                "line 1, byte 1: the text is not valid utf-8: it looks like a ZIP archive or an Excel workbook;",
            ),
            ("charset=utf-16", b"a\0\0\xd8b\0", "line 1, byte 2: the text is not valid utf-16"),
        ] {
            for size in [4, 1_000] {
                let refused = read(query, body, size).await.unwrap_err();
                assert!(refused.starts_with(detail), "{refused}");
            }
        }
        let tea = [(json!({"productSku": "H-1", "name": "čaj"}), 2)];
        assert_eq!(read("charset=Windows-1250&delimiter=%3B", czech, 5).await.unwrap(), tea);
        let request = Request::post("/?delimiter=;")
            .header(CONTENT_TYPE, "text/csv; header=present; Charset=\"windows-1250\"");
        let (_, mut csv) =
            CsvRows::of(request.body(Body::from(czech.to_vec())).unwrap(), &header(), rows()).unwrap();
        csv.begin().await.unwrap();
        let (row, line) = csv.next().await.unwrap().unwrap();
        assert_eq!([(serde_json::from_slice::<Value>(&row).unwrap(), line)], tea);
    }

    #[test]
    fn the_query_is_the_header() {
        let query = |query: &str| Query::of(query, &header()).map(|query| Value::Object(query.header));
        assert_eq!(
            query("eshop=1&send=YES&name=no&delimiter=tab").unwrap(),
            json!({"eshop": "1", "send": true, "name": "no"})
        );
        let refused = |text: &str| query(text).unwrap_err().detail().to_owned();
        assert_eq!(refused("eshop=1&eshop=1"), "eshop must be given only once");
        assert!(refused("delimiter=:").starts_with("delimiter must be one of"));
        assert!(refused("charset=latin1").starts_with("charset must be one of utf-8, windows-1250,"));
    }

    #[tokio::test]
    async fn a_body_without_a_line_is_missing() {
        for body in ["", "\r\n\n", "\u{feff}"] {
            assert!(read("", body.as_bytes(), 10).await.unwrap_err().starts_with("the body is missing"));
        }
        assert_eq!(read("", b"productSku", 10).await.unwrap(), []);
        assert_eq!(
            read("", b"sku\n1", 10).await.unwrap_err(),
            "sku is not a known field; did you mean productSku?"
        );
    }

    #[tokio::test]
    async fn an_endless_line_is_refused_before_it_ends() {
        for text in ["x", "\"", "productSku\nx", "productSku\n\"x"] {
            let endless = stream::repeat_with(|| Ok::<_, Infallible>(vec![b'x'; 64 * 1024]));
            let begin = stream::iter([Ok(text.as_bytes().to_vec())]);
            let request = Request::post("/")
                .body(Body::from_stream(futures::StreamExt::chain(begin, endless)))
                .unwrap();
            let (_, mut csv) = CsvRows::of(request, &header(), rows()).unwrap();
            let refused = match csv.begin().await {
                Ok(()) => csv.next().await.unwrap_err(),
                Err(refused) => refused,
            };
            let line = text.lines().count();
            assert!(refused.detail().starts_with(&format!("line {line}")), "{refused:?}");
        }
    }
}

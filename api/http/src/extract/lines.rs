//! NDJSON bodies, read line by line in constant memory, from clients that may be slow, broken or hostile.
//!
//! Such an upload may take any time, so it is limited otherwise than other requests: [`crate::middleware`] counts it
//! as a stream, and ends it with its token. [`Lines::are_sent`] and [`is_upload`] say for all of them what it is, those of CSV included.

use axum::body::Body;
use axum::extract::Request;
use bytes::{Buf as _, Bytes, BytesMut};
use http::HeaderMap;
use longshore_domain::job::payload::LONGEST_ROW;
use longshore_kernel::crypto::Hasher;
use longshore_kernel::encoding::Foreign;
use longshore_kernel::json::{self, BYTE_ORDER_MARK, ONE_A_LINE};
use longshore_kernel::problem::{MALFORMED_BODY, Problem};
use serde_json::Value;

use super::arriving::Arriving;
use super::body::must_be;
use super::csv::CSV;
use super::form::has_file;
use crate::limits::Stall;

/// The media type of a stream of rows.
pub const NDJSON: &str = "application/x-ndjson";

/// The media type of a sync as one document.
const JSON: &str = "application/json";

/// All media types of a sync; some programs use the other names for NDJSON.
pub const TYPES: &[&str] =
    &[JSON, NDJSON, "application/ndjson", "application/jsonl", "application/x-jsonlines", CSV];

/// The paths of the operations that take rows line by line, each with `POST`.
pub const PATHS: &[&str] = &[
    "/api/partner-integration/eshop/sync/products",
    "/api/partner-integration/eshop/sync/product-stocks",
    "/api/partner-integration/eshop/sync/expeditions",
    "/api/partner-integration/wms/sync/news",
];

/// The page that takes a file of such rows.
pub const IMPORT: &str = "/console/import";

/// Whether a request is an upload line by line, or a file of lines in a form.
#[must_use]
pub fn is_upload(request: &Request) -> bool {
    let (path, headers) = (request.uri().path(), request.headers());
    (PATHS.contains(&path) && Lines::are_sent(headers).unwrap_or(false))
        || (path == IMPORT && has_file(headers))
}

/// The form of the rows of a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// One document of JSON.
    Document,
    /// A row of JSON a line.
    Lines,
    /// A file of CSV.
    Csv,
}

impl Rows {
    /// The one that a request names.
    ///
    /// # Errors
    /// It names another media type.
    pub fn of(headers: &HeaderMap) -> Result<Self, Problem> {
        Ok(match must_be(headers, TYPES)? {
            JSON => Self::Document,
            CSV => Self::Csv,
            _ => Self::Lines,
        })
    }
}

/// The lines of a body.
#[derive(Debug)]
pub struct Lines {
    pieces: Arriving,
    buffer: BytesMut,
    /// bytes of the buffer that contain no end of a line
    scanned: usize,
    ended: bool,
    number: u64,
    hasher: Hasher,
    beside: usize,
}

impl Lines {
    /// Whether the body of a sync has lines, of NDJSON or CSV; otherwise it is one document.
    ///
    /// # Errors
    /// It is neither.
    pub fn are_sent(headers: &HeaderMap) -> Result<bool, Problem> {
        Ok(Rows::of(headers)? != Rows::Document)
    }

    /// Reads the decompressed body of a request.
    pub fn of(request: Request) -> Result<Self, Problem> {
        Ok(Self::from(Arriving::of(request)?))
    }

    /// Reads a body, and ends if a client sends almost nothing for `stall`.
    #[must_use]
    pub fn new(body: Body, stall: Stall) -> Self {
        Self::from(Arriving::plain(body, stall))
    }

    fn from(pieces: Arriving) -> Self {
        Self {
            pieces,
            buffer: BytesMut::new(),
            scanned: 0,
            ended: false,
            number: 0,
            hasher: Hasher::default(),
            beside: 0,
        }
    }

    /// Sets how many bytes of the lines the caller holds in memory.
    pub fn beside(&mut self, bytes: usize) {
        self.beside = bytes;
    }

    /// The next non-blank line, without its end: valid UTF-8 of at most [`LONGEST_ROW`] bytes.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        loop {
            if let Some(line) = self.take()? {
                return Ok(Some(line));
            }
            if self.ended {
                return Ok(None);
            }
            self.fill().await?;
        }
    }

    /// The value of the line that was read last, if it fits in the memory of the request.
    pub fn parse(&self, line: &[u8]) -> Result<Value, Problem> {
        self.pieces.holds(self.beside + self.buffer.len() + line.len() + json::weight(line))?;
        json::parse(line).map_err(|unread| unread.problem(&format!("line {}", self.number)))
    }

    /// Numbers the line that was read last, and those after it on from there.
    pub fn renumber(&mut self, number: u64) {
        self.number = number;
    }

    /// The number of the line that was read last, from 1; blank lines count.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// SHA-256 of the whole decompressed body, after it was read to its end.
    #[must_use]
    pub fn hash(self) -> [u8; 32] {
        self.hasher.finish()
    }

    /// Takes the next complete line from the buffer; at the end of the body, the rest is a line, too.
    fn take(&mut self) -> Result<Option<Bytes>, Problem> {
        loop {
            let unseen = self.buffer.get(self.scanned..).unwrap_or_default();
            let line = match unseen.iter().position(|byte| *byte == b'\n') {
                Some(end) => {
                    let line = self.buffer.split_to(self.scanned + end);
                    self.buffer.advance(1);
                    self.scanned = 0;
                    line
                }
                None if self.ended && !self.buffer.is_empty() => {
                    self.scanned = 0;
                    self.buffer.split()
                }
                None => {
                    self.scanned = self.buffer.len();
                    // a byte more for a carriage return, and room for a mark
                    return if self.scanned > LONGEST_ROW + BYTE_ORDER_MARK.len() + 1 {
                        Err(self.too_long())
                    } else {
                        Ok(None)
                    };
                }
            };
            self.number += 1;
            let mut line = line.freeze();
            // that of a file stands behind the header that a program put before it
            if line.starts_with(BYTE_ORDER_MARK) {
                line.advance(BYTE_ORDER_MARK.len());
            }
            let line = if line.ends_with(b"\r") { line.slice(..line.len() - 1) } else { line };
            if line.len() > LONGEST_ROW {
                self.number -= 1;
                return Err(self.too_long());
            }
            if let Some(foreign) = Foreign::of(&line) {
                return Err(malformed(format!("line {} is not valid UTF-8: {foreign}", self.number)));
            }
            if !line.trim_ascii().is_empty() {
                return Ok(Some(line));
            }
        }
    }

    /// Waits for more of the body.
    async fn fill(&mut self) -> Result<(), Problem> {
        match self.pieces.next(self.beside + self.buffer.len()).await? {
            Some(bytes) => {
                self.hasher.update(&bytes);
                self.buffer.extend_from_slice(&bytes);
            }
            None => self.ended = true,
        }
        Ok(())
    }

    fn too_long(&self) -> Problem {
        let number = self.number + 1;
        // a whole body in one line
        let hint = if number == 1 { format!("; {ONE_A_LINE}") } else { String::new() };
        malformed(format!("line {number} is longer than {LONGEST_ROW} bytes{hint}"))
    }
}

fn malformed(detail: impl Into<String>) -> Problem {
    Problem::new(&MALFORMED_BODY, detail)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use futures::{StreamExt as _, stream};
    use tokio::time::Instant;

    use super::*;

    const STALL: Stall = Stall(Duration::from_secs(30));

    async fn read(pieces: Vec<Vec<u8>>) -> Result<Vec<String>, String> {
        let body = Body::from_stream(stream::iter(pieces.into_iter().map(Ok::<_, Infallible>)));
        let mut lines = Lines::new(body, STALL);
        let mut read = Vec::new();
        loop {
            match lines.next().await {
                Ok(Some(line)) => read.push(String::from_utf8(line.to_vec()).unwrap()),
                Ok(None) => return Ok(read),
                Err(problem) => return Err(problem.detail().to_owned()),
            }
        }
    }

    #[tokio::test]
    async fn lines_do_not_depend_on_how_the_body_was_split() {
        let text = "{\"a\":1}\r\n\n  \n{\"b\":\"ü\"}\n{\"c\":3}".as_bytes();
        for size in 1..text.len() {
            let pieces = text.chunks(size).map(<[u8]>::to_vec).collect();
            assert_eq!(
                read(pieces).await.unwrap(),
                ["{\"a\":1}", "{\"b\":\"ü\"}", "{\"c\":3}"],
                "pieces of {size}"
            );
        }
    }

    #[tokio::test]
    async fn a_byte_order_mark_is_skipped_at_the_beginning_of_each_line() {
        let text =
            "\u{feff}{\"a\":1}\n\u{feff}{\"b\":\"\u{feff}\"}\n\u{feff}\r\n\u{feff}\u{feff}{}".as_bytes();
        for size in 1..text.len() {
            let pieces = text.chunks(size).map(<[u8]>::to_vec).collect();
            assert_eq!(
                read(pieces).await.unwrap(),
                ["{\"a\":1}", "{\"b\":\"\u{feff}\"}", "\u{feff}{}"],
                "pieces of {size}"
            );
        }
    }

    #[tokio::test]
    async fn the_longest_line_is_accepted_and_one_byte_more_is_refused() {
        let line = |n: usize| vec![b"{}\n".to_vec(), vec![b'x'; n], b"\n".to_vec()];
        assert_eq!(read(line(LONGEST_ROW)).await.unwrap().len(), 2);
        assert!(read(line(LONGEST_ROW + 1)).await.unwrap_err().starts_with("line 2 is longer"));
    }

    #[tokio::test]
    async fn an_endless_line_is_refused_before_it_ends() {
        let endless = stream::repeat_with(|| Ok::<_, Infallible>(vec![b'x'; 64 * 1024]));
        let mut lines = Lines::new(Body::from_stream(endless), STALL);
        assert!(lines.next().await.unwrap_err().detail().starts_with("line 1 is longer"));
    }

    #[tokio::test]
    async fn invalid_utf_8_is_reported_with_its_line() {
        for (rows, said) in [
            (&b"{}\n{}\n\xff\n"[..], "line 3 is not valid UTF-8: it looks like windows-1250"),
            (b"{}\n\xff\xfe{\0}\0\n\0", "line 2 is not valid UTF-8: it looks like UTF-16"),
            (
                b"\x1f\x8b\x08\0",
                "line 1 is not valid UTF-8: it looks like gzip; send it compressed once, with Content-Encoding: gzip",
            ),
        ] {
            let detail = read(vec![rows.to_vec()]).await.unwrap_err();
            assert!(detail.starts_with(said), "{detail}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_stops_sending_is_refused() {
        let body = stream::iter([Ok::<_, Infallible>(b"{}\n".to_vec())]).chain(stream::pending());
        let mut lines = Lines::new(Body::from_stream(body), STALL);
        assert!(lines.next().await.unwrap().is_some());
        assert!(lines.next().await.unwrap_err().detail().starts_with("the body stalled"));
    }

    #[tokio::test(start_paused = true)]
    async fn calling_it_repeatedly_does_not_prolong_the_wait() {
        let body = stream::iter([Ok::<_, Infallible>(b"{}\n".to_vec())]).chain(stream::pending());
        let mut lines = Lines::new(Body::from_stream(body), STALL);
        assert!(lines.next().await.unwrap().is_some());
        let since = Instant::now();
        let problem = loop {
            if let Ok(next) = tokio::time::timeout(STALL.0 / 7, lines.next()).await {
                break next.unwrap_err();
            }
        };
        assert!(problem.detail().starts_with("the body stalled"));
        assert!(since.elapsed() <= STALL.0 + Duration::from_secs(1));
    }

    #[test]
    fn the_hash_is_that_of_the_body() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let hash = runtime.block_on(async {
            let mut lines = Lines::new(Body::from("a\nb\n"), STALL);
            while lines.next().await.unwrap().is_some() {}
            lines.hash()
        });
        assert_eq!(hash, longshore_kernel::crypto::sha256(b"a\nb\n"));
    }
}

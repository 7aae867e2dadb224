//! A JSON document with many rows in one member. It is processed as it arrives: rows are packed into chunks,
//! and parsed one at a time. Memory holds the packed rows, which count for the request ([`Arriving`]).

mod splitter;

use std::collections::BTreeMap;

use axum::extract::Request;
use bytes::Buf as _;
use http::header::CONTENT_LENGTH;
use longshore_domain::job::payload::LONGEST_ROW;
use longshore_domain::job::receiving::{Gathering, Packed};
use longshore_kernel::crypto::Hasher;
use longshore_kernel::encoding::Foreign;
use longshore_kernel::json::{self, BYTE_ORDER_MARK, ONE_A_LINE, Unread};
use longshore_kernel::problem::{MALFORMED_BODY, Problem};
use serde_json::value::RawValue;

use self::splitter::{Malformed, Splitter};
use super::arriving::Arriving;
use super::body::too_large;

/// Maximum number of rows in a document; larger syncs use NDJSON.
pub const MOST_ROWS: usize = 100_000;

/// A document that has arrived completely.
#[derive(Debug)]
pub struct Document {
    /// The document with empty brackets in place of its rows.
    pub around: Vec<u8>,
    /// The rows.
    pub chunks: Vec<Packed>,
    /// SHA-256 of its decompressed bytes.
    pub hash: [u8; 32],
    rows: usize,
}

impl Document {
    /// Receives a document of at most `limit` bytes, with its rows in `member`, which are gathered to chunks.
    ///
    /// # Errors
    /// A row that is not an object or is too long, too many rows, invalid JSON, or a body that is too large
    /// or stalls.
    pub async fn receive(
        request: Request,
        member: &'static str,
        gathering: Gathering,
        limit: usize,
    ) -> Result<Self, Problem> {
        let announced =
            request.headers().get(CONTENT_LENGTH).and_then(|v| v.to_str().ok()).and_then(|v| v.parse().ok());
        if announced.is_some_and(|length: usize| length > limit) {
            return Err(too_large(limit));
        }
        let mut pieces = Arriving::of(request)?.at_most(limit);
        let (splitter, chunks) = (Splitter::new(member), Vec::new());
        let mut packing = Packing { member, splitter, gathering, chunks, packed: 0, rows: 0 };
        let (mut hasher, mut length, mut begins) = (Hasher::default(), 0, true);
        while let Some(mut piece) = pieces.next(packing.held()).await? {
            length += piece.len();
            if length > limit {
                return Err(too_large(limit));
            }
            if std::mem::take(&mut begins) {
                if let Some(foreign) = Foreign::begins(&piece) {
                    return Err(Unread::Foreign(foreign).problem("the body"));
                }
                if piece.starts_with(BYTE_ORDER_MARK) {
                    piece.advance(BYTE_ORDER_MARK.len());
                }
            }
            hasher.update(&piece);
            packing.take(&piece)?;
        }
        packing.end(hasher.finish())
    }

    /// Bytes in memory.
    #[must_use]
    pub fn held(&self) -> usize {
        self.around.len() + self.chunks.iter().map(Packed::held).sum::<usize>()
    }

    /// The members of the document other than the rows.
    ///
    /// # Errors
    /// The document is not a JSON object, or has a member twice.
    pub fn members(&self) -> Result<BTreeMap<String, &RawValue>, Problem> {
        json::members(&self.around).map_err(|unread| match unread {
            Unread::Malformed(error) => {
                let text = error.to_string();
                // without the rows, the position is not that in the document
                let what =
                    if self.rows > 0 { text.split(" at line").next().unwrap_or_default() } else { &text };
                let mut detail = format!("the body is not a JSON object: {what}");
                if text.starts_with("trailing characters") {
                    detail.push_str("; ");
                    detail.push_str(ONE_A_LINE);
                }
                Problem::new(&MALFORMED_BODY, detail)
            }
            unread => unread.problem("the body"),
        })
    }
}

/// A document that is arriving.
struct Packing {
    member: &'static str,
    splitter: Splitter,
    gathering: Gathering,
    chunks: Vec<Packed>,
    packed: usize,
    rows: usize,
}

impl Packing {
    fn take(&mut self, piece: &[u8]) -> Result<(), Problem> {
        let Self { member, splitter, gathering, chunks, packed, rows } = self;
        splitter.push(piece, &mut |row| {
            judge(member, *rows, row)?;
            *rows += 1;
            if let Some(chunk) = gathering.push(row, None) {
                *packed += chunk.held();
                chunks.push(chunk);
            }
            Ok(())
        })
    }

    fn held(&self) -> usize {
        self.splitter.held() + self.gathering.held() + self.packed
    }

    fn end(mut self, hash: [u8; 32]) -> Result<Document, Problem> {
        let around = std::mem::take(&mut self.splitter).finish().map_err(Malformed::problem)?;
        let mut document = Document { around, chunks: Vec::new(), hash, rows: self.rows };
        if !document.around.trim_ascii_start().starts_with(b"[") {
            self.take_named_otherwise(&mut document)?;
        }
        self.chunks.extend(self.gathering.rest());
        document.chunks = self.chunks;
        document.rows = self.rows;
        Ok(document)
    }

    /// Takes rows whose member name contains escapes, or refuses a member of that name that is not an array.
    fn take_named_otherwise(&mut self, document: &mut Document) -> Result<(), Problem> {
        let members = document.members()?;
        let Some(rows) = members.get(self.member) else { return Ok(()) };
        let rows: Vec<&RawValue> = serde_json::from_str(rows.get())
            .map_err(|_| Problem::violation(self.member, "wrong_type", "must be an array"))?;
        for row in rows {
            judge(self.member, self.rows, row.get().as_bytes())?;
            self.rows += 1;
            self.chunks.extend(self.gathering.push(row.get().as_bytes(), None));
        }
        Ok(())
    }
}

/// Checks that a row can be accepted at all; its rules are checked with its chunk.
fn judge(member: &str, position: usize, row: &[u8]) -> Result<(), Problem> {
    if position >= MOST_ROWS {
        let message = format!(
            "must have at most {MOST_ROWS} elements; to send more, use application/x-ndjson with one row per line"
        );
        return Err(Problem::violation(member, "invalid_count", message));
    }
    let path = || format!("{member}[{position}]");
    if row.len() > LONGEST_ROW {
        return Err(Problem::violation(
            path(),
            "invalid_length",
            format!("must have at most {LONGEST_ROW} bytes"),
        ));
    }
    if let Err(error) = serde_json::from_slice::<&RawValue>(row) {
        return Err(Unread::of(row, error).problem(&path()));
    }
    if !row.starts_with(b"{") {
        return Err(Problem::violation(path(), "wrong_type", "must be an object"));
    }
    Ok(())
}

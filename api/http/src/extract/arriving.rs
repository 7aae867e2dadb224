//! A body as it arrives, from a client that does not stall ([`Steady`]). A compressed one
//! (`Content-Encoding`) is decompressed step by step, so that no small body fills the memory or occupies a
//! thread. Whatever the reader keeps of it counts for the request ([`Budget`]).

use axum::body::Body;
use axum::extract::Request;
use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_ENCODING;
use longshore_kernel::problem::{MALFORMED_BODY, Problem, TOO_LARGE, UNSUPPORTED_CONTENT_ENCODING};
use longshore_kernel::unfold::{Bounds, Coding, Step, Unfoldable, Unfolder};

use super::budget::Budget;
use super::stall::Steady;
use crate::limits::Stall;

/// The size to which any body may grow when decompressed; a larger one only by this ratio. zstd compresses
/// rows that differ only in a number a hundredfold.
const BOUNDS: Bounds = Bounds { free: 1024 * 1024, ratio: 200 };

/// More than compression adds to a body that it cannot make smaller.
const OVERHEAD: usize = 64 * 1024;

/// The supported codings of bodies, as in `Accept-Encoding` (RFC 9110, section 12.5.3).
pub const CODINGS: &str = "gzip, zstd";

/// The pieces of a body.
#[derive(Debug)]
pub struct Arriving {
    pieces: Steady,
    unfolder: Option<Unfolder>,
    budget: Budget,
    /// Other tasks run before the next step.
    is_busy: bool,
    /// Bytes that may still arrive.
    left: Option<usize>,
}

impl Arriving {
    /// The body of a request, of any length.
    pub fn of(request: Request) -> Result<Self, Problem> {
        let (stall, budget) = (Stall::of(request.extensions()), Budget::of(request.extensions()));
        let unfolder = match coding(request.headers())? {
            Some(coding) => Some(Unfolder::new(coding, BOUNDS).map_err(Problem::internal)?),
            None => None,
        };
        let pieces = Steady::new(request.into_body(), stall);
        Ok(Self { pieces, unfolder, budget, is_busy: false, left: None })
    }

    /// An uncompressed body of no request.
    #[must_use]
    pub fn plain(body: Body, stall: Stall) -> Self {
        let pieces = Steady::new(body, stall);
        Self { pieces, unfolder: None, budget: Budget::default(), is_busy: false, left: None }
    }

    /// Limits the compressed size for a body of at most `limit` decompressed bytes, so that a body that
    /// decompresses to nothing ends, too. The reader must count the decompressed bytes.
    #[must_use]
    pub fn at_most(mut self, limit: usize) -> Self {
        self.left = self.unfolder.is_some().then_some(limit + OVERHEAD);
        self
    }

    /// Counts what is in memory of this body: the bytes that its reader holds, and what decompression keeps (the
    /// window of zstd fills with its output).
    pub fn holds(&self, bytes: usize) -> Result<(), Problem> {
        self.budget.set(bytes + self.unfolder.as_ref().map_or(0, Unfolder::held))
    }

    /// The next piece, `None` at the end, for a reader that holds this many bytes of the pieces before; a problem if
    /// there is no memory for it, or if the body ended early, stalls, or is not in its declared coding. It can be
    /// cancelled and called again without loss.
    pub async fn next(&mut self, held: usize) -> Result<Option<Bytes>, Problem> {
        let piece = self.arrive().await?;
        if let Some(piece) = &piece {
            self.holds(held + piece.len())?;
        }
        Ok(piece)
    }

    async fn arrive(&mut self) -> Result<Option<Bytes>, Problem> {
        let Some(unfolder) = &mut self.unfolder else { return self.pieces.next().await };
        loop {
            if std::mem::take(&mut self.is_busy) {
                tokio::task::yield_now().await;
            }
            match unfolder.step().map_err(|unfoldable| refused(&unfoldable))? {
                Step::Piece(piece) => {
                    self.is_busy = true;
                    return Ok(Some(piece));
                }
                Step::More => self.is_busy = true,
                Step::NeedsInput => match self.pieces.next().await? {
                    Some(piece) => {
                        if let Some(left) = &mut self.left {
                            *left = left.checked_sub(piece.len()).ok_or_else(too_much)?;
                        }
                        unfolder.push(piece);
                    }
                    None => unfolder.end(),
                },
                Step::End => return Ok(None),
            }
        }
    }
}

fn refused(unfoldable: &Unfoldable) -> Problem {
    match unfoldable {
        Unfoldable::Damaged(_) => {
            Problem::new(&MALFORMED_BODY, format!("the body cannot be decompressed: {unfoldable}"))
        }
        Unfoldable::Bomb(ratio) => {
            Problem::new(&TOO_LARGE, format!("the body decompresses to more than {ratio} times its size"))
        }
    }
}

fn too_much() -> Problem {
    Problem::new(&TOO_LARGE, "the body is larger than its decompressed size may be")
}

/// The coding of the body, if it is compressed. Only one coding is accepted; `identity` means none.
pub fn coding(headers: &HeaderMap) -> Result<Option<Coding>, Problem> {
    let mut named = headers
        .get_all(CONTENT_ENCODING)
        .into_iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii)
        .filter(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity"));
    let is = |name: &[u8], known: &[u8]| name.eq_ignore_ascii_case(known);
    match (named.next(), named.next()) {
        (None, _) => Ok(None),
        (Some(name), None) if is(name, b"gzip") || is(name, b"x-gzip") => Ok(Some(Coding::Gzip)),
        (Some(name), None) if is(name, b"zstd") => Ok(Some(Coding::Zstd)),
        _ => {
            let detail = "Content-Encoding must be gzip or zstd, or be left out";
            Err(Problem::new(&UNSUPPORTED_CONTENT_ENCODING, detail))
        }
    }
}

//! Multipart forms with one file. They are read piece by piece as they arrive, and refused as soon as they
//! are too large.

use axum::extract::{FromRequest, Request};
use bytes::{Bytes, BytesMut};
use futures::{StreamExt as _, stream};
use http::header::CONTENT_TYPE;
use longshore_shared::kernel::problem::{MALFORMED_BODY, Problem, TOO_LARGE};
use multer::{Constraints, Multipart, SizeLimit};

use super::Failure;
use super::arriving::Arriving;
use super::body::must_be;

/// Maximum bytes of the rest of the form: headers, boundaries, and other fields.
const AROUND: usize = 64 * 1024;

/// The file of a form, in one part with one of the known names; other fields are ignored.
#[derive(Debug)]
pub struct FileForm<const LIMIT: usize> {
    /// Its bytes.
    pub bytes: Bytes,
}

/// Names for the part with the file.
const NAMES: [&str; 2] = ["image", "file"];

impl<S, const LIMIT: usize> FromRequest<S> for FileForm<LIMIT>
where
    S: Send + Sync,
{
    type Rejection = Failure;

    async fn from_request(request: Request, _: &S) -> Result<Self, Failure> {
        must_be(request.headers(), &["multipart/form-data"])?;
        let content_type =
            request.headers().get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
        let boundary = multer::parse_boundary(content_type)
            .map_err(|_| malformed("the Content-Type header names no boundary"))?;
        let limits = SizeLimit::new().whole_stream((LIMIT + AROUND) as u64);
        let pieces = Arriving::of(request)?.at_most(LIMIT + AROUND);
        let pieces =
            stream::unfold(pieces, |mut pieces| async { Some((pieces.next().await.transpose()?, pieces)) });
        let mut form = Multipart::with_constraints(pieces, boundary, Constraints::new().size_limit(limits));
        let mut bytes = None;
        // to the end of the form: an upload that breaks off is refused
        while let Some(mut field) = form.next_field().await.map_err(|e| refused::<LIMIT>(&e))? {
            let name = field.name().and_then(|name| NAMES.into_iter().find(|known| *known == name));
            if let (Some(name), Some(_)) = (name, &bytes) {
                return Err(Problem::violation(name, "duplicate", "must be the only file in the form").into());
            }
            let wanted = name.is_some();
            let mut collected = BytesMut::new();
            while let Some(piece) = field.next().await {
                let piece = piece.map_err(|e| refused::<LIMIT>(&e))?;
                if wanted && collected.len() + piece.len() > LIMIT {
                    return Err(too_large::<LIMIT>().into());
                }
                if wanted {
                    collected.extend_from_slice(&piece);
                }
            }
            if wanted {
                bytes = Some(collected.freeze());
            }
        }
        let missing =
            || Problem::violation("image", "required", "is required: send the file in a part with this name");
        Ok(Self { bytes: bytes.ok_or_else(missing)? })
    }
}

fn refused<const LIMIT: usize>(error: &multer::Error) -> Problem {
    match error {
        multer::Error::StreamSizeExceeded { .. } | multer::Error::FieldSizeExceeded { .. } => {
            too_large::<LIMIT>()
        }
        multer::Error::StreamReadFailed(cause) => match cause.downcast_ref::<Problem>() {
            Some(problem) => Problem::new(problem.kind(), problem.detail()),
            None => malformed("the body ended early"),
        },
        _ => malformed("the body is not a valid multipart form"),
    }
}

fn malformed(detail: &str) -> Problem {
    Problem::new(&MALFORMED_BODY, detail)
}

fn too_large<const LIMIT: usize>() -> Problem {
    Problem::new(&TOO_LARGE, format!("the file is larger than {LIMIT} bytes"))
}

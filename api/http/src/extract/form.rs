//! Multipart forms with one file. They are read piece by piece as they arrive, and refused as soon as they
//! are too large. [`FileForm`] keeps the file, [`FileStream`] passes it on.

use std::future::ready;
use std::marker::PhantomData;

use axum::extract::{FromRequest, Request};
use bytes::{Bytes, BytesMut};
use futures::stream::{self, BoxStream};
use futures::{StreamExt as _, TryStreamExt as _};
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use longshore_kernel::problem::{MALFORMED_BODY, Problem, TOO_LARGE};
use multer::{Constraints, Multipart, SizeLimit};

use super::Failure;
use super::arriving::Arriving;
use super::body::{JsonBody, media_type, must_be};

/// Maximum bytes of the rest of the form: headers, boundaries, and other fields.
const AROUND: usize = 64 * 1024;

/// The media type of a form with a file.
pub const FORM_DATA: &str = "multipart/form-data";

/// What a file of a form is.
pub trait FormFile: Send {
    /// The name of the part that has it; `file` is another.
    const NAME: &'static str;
    /// Bytes that it may have.
    const LIMIT: usize;
}

/// The file of a form, in one part with its name or `file`; other fields are ignored.
#[derive(Debug)]
pub struct FileForm<F> {
    /// Its bytes.
    pub bytes: Bytes,
    /// What the caller calls it.
    pub file_name: Option<String>,
    what: PhantomData<fn() -> F>,
}

/// A name for the part with the file of any form.
pub const ANY: &str = "file";

impl<S, F> FromRequest<S> for FileForm<F>
where
    S: Send + Sync,
    F: FormFile,
{
    type Rejection = Failure;

    async fn from_request(request: Request, _: &S) -> Result<Self, Failure> {
        let mut form = multipart(request, F::LIMIT, true)?;
        let mut file = None;
        // to the end of the form: an upload that breaks off is refused
        while let Some(mut field) = form.next_field().await.map_err(|e| refused(F::LIMIT, e))? {
            let name = field.name().and_then(|name| [F::NAME, ANY].into_iter().find(|known| *known == name));
            if let (Some(name), Some(_)) = (name, &file) {
                return Err(Problem::violation(name, "duplicate", "must be the only file in the form").into());
            }
            let wanted = name.is_some();
            let file_name = field.file_name().map(str::to_owned);
            let mut collected = BytesMut::new();
            while let Some(piece) = field.next().await {
                let piece = piece.map_err(|e| refused(F::LIMIT, e))?;
                if wanted && collected.len() + piece.len() > F::LIMIT {
                    return Err(too_large(F::LIMIT).into());
                }
                if wanted {
                    collected.extend_from_slice(&piece);
                }
            }
            if wanted {
                file = Some((collected.freeze(), file_name));
            }
        }
        let missing =
            || Problem::violation(F::NAME, "required", "is required: send the file in a part with this name");
        let (bytes, file_name) = file.ok_or_else(missing)?;
        Ok(Self { bytes, file_name, what: PhantomData })
    }
}

/// Whether a request is a form with a file.
#[must_use]
pub fn has_file(headers: &HeaderMap) -> bool {
    media_type(headers).is_some_and(|media| media.eq_ignore_ascii_case(FORM_DATA))
}

/// Reads a form of a file of at most `limit` bytes, whose pieces are kept, or passed on as they come.
fn multipart(request: Request, limit: usize, is_kept: bool) -> Result<Multipart<'static>, Problem> {
    must_be(request.headers(), &[FORM_DATA])?;
    let content_type = request.headers().get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let boundary = multer::parse_boundary(content_type)
        .map_err(|_| malformed("the Content-Type header names no boundary"))?;
    let limits = SizeLimit::new().whole_stream((limit + AROUND) as u64);
    let pieces = Arriving::of(request)?.at_most(limit + AROUND);
    let pieces = stream::unfold((pieces, 0), move |(mut pieces, held)| async move {
        // the reader of forms takes whatever is there: one piece a time
        tokio::task::yield_now().await;
        let piece = pieces.next(held).await.transpose()?;
        // other fields count, too, though they are not kept: the whole form is hardly larger than its file may be
        let held = held + piece.as_ref().map_or(0, Bytes::len);
        Some((piece, (pieces, if is_kept { held } else { 0 })))
    });
    Ok(Multipart::with_constraints(pieces, boundary, Constraints::new().size_limit(limits)))
}

fn refused(limit: usize, error: multer::Error) -> Problem {
    match error {
        multer::Error::StreamSizeExceeded { .. } | multer::Error::FieldSizeExceeded { .. } => {
            too_large(limit)
        }
        multer::Error::StreamReadFailed(cause) => match cause.downcast::<Problem>() {
            Ok(problem) => *problem,
            Err(_) => malformed("the body ended early"),
        },
        _ => malformed("the body is not a valid multipart form"),
    }
}

fn malformed(detail: &str) -> Problem {
    Problem::new(&MALFORMED_BODY, detail)
}

fn too_large(limit: usize) -> Problem {
    Problem::new(&TOO_LARGE, format!("the file is larger than {limit} bytes"))
}

/// A form that ends with a file of any size, which is read as it arrives.
pub struct FileStream {
    /// The fields before it.
    pub fields: Vec<(String, String)>,
    /// What the sender calls it; empty if there is none.
    pub file_name: String,
    /// Its bytes, to the end of the form.
    pub pieces: BoxStream<'static, Result<Bytes, Problem>>,
}

impl FileStream {
    /// Reads the fields of a form, up to its file of at most `limit` bytes.
    ///
    /// # Errors
    /// It is no form, or too large.
    pub async fn of(request: Request, limit: usize) -> Result<Self, Problem> {
        let mut form = multipart(request, limit, false)?;
        let (mut fields, mut length) = (Vec::new(), 0);
        while let Some(mut field) = form.next_field().await.map_err(|e| refused(limit, e))? {
            let name = field.name().unwrap_or_default().to_owned();
            if name == ANY {
                let file_name = field.file_name().unwrap_or_default().to_owned();
                let pieces = field.scan(0, move |length, piece| {
                    let piece = piece.map_err(|e| refused(limit, e)).and_then(|piece| {
                        *length += piece.len();
                        if *length > limit { Err(too_large(limit)) } else { Ok(piece) }
                    });
                    ready(Some(piece))
                });
                // also what is behind it: an upload that breaks off there is refused
                let rest = stream::once(async move {
                    while let Some(mut field) = form.next_field().await.map_err(|e| refused(limit, e))? {
                        while field.next().await.transpose().map_err(|e| refused(limit, e))?.is_some() {}
                    }
                    Ok(Bytes::new())
                });
                let pieces = pieces.chain(rest.try_filter(|piece| ready(!piece.is_empty()))).fuse();
                return Ok(Self { fields, file_name, pieces: pieces.boxed() });
            }
            let mut value = Vec::new();
            while let Some(piece) = field.next().await {
                let piece = piece.map_err(|e| refused(limit, e))?;
                length += piece.len();
                if length > AROUND {
                    return Err(malformed("the fields before the file are too long"));
                }
                value.extend_from_slice(&piece);
            }
            fields.push((name, String::from_utf8_lossy(&value).into_owned()));
        }
        Ok(Self { fields, file_name: String::new(), pieces: stream::empty().boxed() })
    }
}

/// A file, in a form or in JSON.
#[derive(Debug)]
pub enum FileUpload<F, const JSON_LIMIT: usize> {
    /// In a form.
    Form(FileForm<F>),
    /// In JSON.
    Json(JsonBody<JSON_LIMIT>),
}

impl<S: Send + Sync, F: FormFile, const JSON_LIMIT: usize> FromRequest<S> for FileUpload<F, JSON_LIMIT> {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        let headers = request.headers();
        must_be(headers, &[FORM_DATA, "application/json"])?;
        if must_be(headers, &["application/json"]).is_ok() {
            return JsonBody::from_request(request, state).await.map(Self::Json);
        }
        FileForm::from_request(request, state).await.map(Self::Form)
    }
}

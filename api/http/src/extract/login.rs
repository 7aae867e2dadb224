//! The body of a login: JSON with any `Content-Type`, or the fields of a form. Clients of this API family
//! send the values in either form, under either name. It is small, because anyone may send one.

use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use futures::stream;
use http::header::CONTENT_TYPE;
use longshore_kernel::json::REPEATED_KEY;
use longshore_kernel::problem::{MALFORMED_BODY, Problem};
use multer::Multipart;
use serde_json::{Map, Value};
use url::form_urlencoded;

use super::Failure;
use super::arriving;
use super::body::{Sent, media_type, parse_within, read};
use super::budget::Budget;

/// Maximum bytes of such a body: many times an address, a password and a code.
pub const LIMIT: usize = 16 * 1024;

/// Named values, if any were sent.
#[derive(Debug)]
pub struct Fields(pub Option<Value>);

impl<S: Send + Sync> FromRequest<S> for Fields {
    type Rejection = Failure;

    async fn from_request(request: Request, _: &S) -> Result<Self, Failure> {
        arriving::coding(request.headers())?;
        let is_form = is_of_type(&request, "application/x-www-form-urlencoded");
        let is_multipart = is_of_type(&request, "multipart/form-data");
        let content_type = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let boundary = content_type.and_then(|content_type| multer::parse_boundary(content_type).ok());
        let sent = request.extensions().get::<Sent>().cloned();
        let budget = Budget::of(request.extensions());
        let body = read(request, LIMIT).await?;
        if body.is_empty() {
            return Ok(Self(None));
        }
        let looks_like_json = body.trim_ascii_start().starts_with(b"{");
        let fields = match boundary {
            _ if looks_like_json => return Ok(Self(Some(parse_within(&budget, &body)?))),
            Some(boundary) if is_multipart => parts(&body, boundary).await?,
            _ if is_form => fields(form_urlencoded::parse(&body).into_owned())?,
            _ => return Ok(Self(Some(parse_within(&budget, &body)?).filter(|body| !body.is_null()))),
        };
        let fields = Value::Object(fields);
        if let Some(sent) = sent {
            sent.keep(Bytes::from(fields.to_string()));
        }
        Ok(Self(Some(fields)))
    }
}

fn is_of_type(request: &Request, name: &str) -> bool {
    media_type(request.headers()).is_some_and(|media_type| media_type.eq_ignore_ascii_case(name))
}

fn fields(given: impl Iterator<Item = (String, String)>) -> Result<Map<String, Value>, Problem> {
    let mut fields = Map::new();
    for (name, value) in given {
        if fields.contains_key(&name) {
            return Err(Problem::violation(name, REPEATED_KEY, "must be given only once"));
        }
        fields.insert(name, Value::String(value));
    }
    Ok(fields)
}

async fn parts(body: &Bytes, boundary: String) -> Result<Map<String, Value>, Problem> {
    let malformed = |_| Problem::new(&MALFORMED_BODY, "the body is not a valid multipart form");
    let whole = stream::iter([Ok::<_, std::convert::Infallible>(body.clone())]);
    let mut form = Multipart::new(whole, boundary);
    let mut given = Vec::new();
    while let Some(field) = form.next_field().await.map_err(malformed)? {
        let name = field.name().unwrap_or_default().to_owned();
        given.push((name, field.text().await.map_err(malformed)?));
    }
    fields(given.into_iter())
}

impl Fields {
    /// The values; refuses a request without them.
    pub fn required(self) -> Result<Value, Problem> {
        self.0.ok_or_else(|| Problem::new(&MALFORMED_BODY, "the body is missing; it must be JSON"))
    }
}

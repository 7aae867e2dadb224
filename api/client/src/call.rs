//! A call, from its request to its answer.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use bytes::Bytes;
use chrono::Utc;
use longshore_http_time::retry_after;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::client::Client;
use crate::error::{Error, Problem};
use crate::retry::RetryPolicy;
use crate::rows::Rows;

/// The header of idempotency keys.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// The media type of rows, one JSON object a line.
const NDJSON: &str = "application/x-ndjson";

/// A call of one operation, whose answer is a `T`.
///
/// Nothing happens until one of its last five methods sends it:
///
/// | method | repeats | other than 2xx | answer |
/// | --- | --- | --- | --- |
/// | [`send`](Call::send) | yes | [`Error::Problem`] | read as a `T` |
/// | [`answer`](Call::answer) | yes | [`Error::Problem`] | its status, headers and body |
/// | [`stream`](Call::stream) | yes | [`Error::Problem`] | its body can be read piece by piece |
/// | [`pieces`](Call::pieces) | yes | [`Error::Problem`] | its headers, and its body piece by piece, without a time limit |
/// | [`once`](Call::once) | no | is an answer | its status, headers and body |
#[must_use = "a call does nothing until it is sent"]
pub struct Call<T = serde_json::Value> {
    client: Client,
    method: Method,
    path: String,
    headers: Vec<(Cow<'static, str>, Cow<'static, str>)>,
    body: Body,
    key: Key,
    retry: RetryPolicy,
    timeout: Option<Duration>,
    answers: PhantomData<fn() -> T>,
}

/// The body of a request.
enum Body {
    None,
    Whole(Bytes),
    Rows(Rows),
    /// It cannot be written as JSON.
    Invalid(String),
}

/// The idempotency key of a call.
enum Key {
    None,
    Random,
    Given(String),
}

impl<T> fmt::Debug for Call<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("method", &self.method).field("path", &self.path).finish_non_exhaustive()
    }
}

impl<T> Call<T> {
    pub(crate) fn new(client: Client, method: Method, path: String) -> Self {
        let key = if client.idempotency_keys() && method != Method::GET { Key::Random } else { Key::None };
        let (retry, timeout) = (client.retry(), Some(client.timeout()));
        let (headers, body) = (Vec::new(), Body::None);
        Self { client, method, path, headers, body, key, retry, timeout, answers: PhantomData }
    }

    /// Adds a header, in addition to `Authorization` and `Accept`; another value for `Accept` or
    /// `Content-Type` replaces the usual one. The name is in lower case.
    pub fn header(mut self, name: impl Into<Cow<'static, str>>, value: impl Into<Cow<'static, str>>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Asks for the job at once (`Prefer: respond-async`) instead of for its end.
    pub fn respond_async(self) -> Self {
        self.header("prefer", "respond-async")
    }

    /// Asks a list for CSV; read it by [`Call::pieces`].
    pub fn csv(self) -> Self {
        self.header("accept", "text/csv")
    }

    /// Sends a value as JSON.
    pub fn json(mut self, body: &(impl Serialize + ?Sized)) -> Self {
        self.body = match serde_json::to_vec(body) {
            Ok(bytes) => Body::Whole(bytes.into()),
            Err(error) => Body::Invalid(error.to_string()),
        };
        self
    }

    /// Sends prepared bytes: JSON, unless [`header`](Call::header) gives another `content-type`. They are not
    /// copied.
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = Body::Whole(body.into());
        self
    }

    /// Sends rows as a stream (`application/x-ndjson`, unless [`header`](Call::header) gives another `content-type`), without a time limit.
    pub fn rows(mut self, rows: Rows) -> Self {
        self.body = Body::Rows(rows);
        self.timeout = None;
        self
    }

    /// Sets the idempotency key, at most 255 characters. Without it, a call that changes something has a
    /// random one, which all its attempts share. With your own key, you can repeat a call later, even from
    /// another process: the operation is executed once, and later calls get the same answer.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.key = Key::Given(key.into());
        self
    }

    /// Sends no idempotency key.
    pub fn without_idempotency_key(mut self) -> Self {
        self.key = Key::None;
        self
    }

    /// When this call is repeated, instead of the policy of its client.
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// How long the answer may take, instead of the limit of its client.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Removes the limit of its client for the time of an answer.
    pub(crate) fn without_timeout(mut self) -> Self {
        self.timeout = None;
        self
    }

    /// Sends the call, and returns its answer as soon as it is a success; the body is not read yet.
    ///
    /// # Errors
    /// As [`Call::send`].
    pub async fn stream(mut self) -> Result<Response, Error> {
        if let Key::Random = self.key {
            self.key = Key::Given(key());
        }
        let mut waits = self.retry.waits();
        let mut left = self.retry.attempts;
        loop {
            left = left.saturating_sub(1);
            let response = self.attempt().await?;
            if response.status().is_success() {
                return Ok(response);
            }
            let wait = self.retry.wait(response.status(), retry_after_of(response.headers()), &mut waits);
            match wait {
                Some(wait) if left > 0 && self.is_repeatable() => {
                    // the connection can be used again only after the body
                    drop(response.bytes().await);
                    tokio::time::sleep(wait).await;
                }
                _ => {
                    let answer = whole(response, self.name(), self.client.clone()).await?;
                    return Err(answer.into_problem());
                }
            }
        }
    }

    /// The same, for a body of any length: it may take any time.
    ///
    /// # Errors
    /// As [`Call::send`].
    pub async fn pieces(self) -> Result<Pieces, Error> {
        let (call, client) = (self.name(), self.client.clone());
        let response = self.without_timeout().stream().await?;
        Ok(Pieces { call, client, response })
    }

    /// Sends the call, and returns its answer, which is a success.
    ///
    /// # Errors
    /// As [`Call::send`].
    pub async fn answer(self) -> Result<Answer, Error> {
        let (call, client) = (self.name(), self.client.clone());
        whole(self.stream().await?, call, client).await
    }

    /// Sends the call once, and returns its answer, of any status.
    ///
    /// # Errors
    /// [`Error::Unreachable`] without a complete answer, [`Error::Rows`], [`Error::Invalid`].
    pub async fn once(&self) -> Result<Answer, Error> {
        whole(self.attempt().await?, self.name(), self.client.clone()).await
    }

    /// Sends the call once, and returns its answer, of any status; the body is not read yet. Unless the
    /// key of the call is given, each such attempt has another one.
    ///
    /// # Errors
    /// As [`Call::once`].
    async fn attempt(&self) -> Result<Response, Error> {
        let mut request = self.client.request(self.method.clone(), &self.path);
        if !self.has("accept") {
            request = request.header(ACCEPT, "application/json");
        }
        for (name, value) in &self.headers {
            request = request.header(name.as_ref(), value.as_ref());
        }
        match &self.key {
            Key::None => {}
            Key::Random => request = request.header(IDEMPOTENCY_KEY, key()),
            Key::Given(key) => request = request.header(IDEMPOTENCY_KEY, key),
        }
        if let Some(timeout) = self.timeout {
            request = request.timeout(timeout);
        }
        let (request, failed) = match &self.body {
            Body::None => (request, None),
            Body::Whole(bytes) => {
                (self.typed(request, "application/json").body(reqwest::Body::from(bytes.clone())), None)
            }
            Body::Rows(rows) => {
                let (body, failed) = rows.open()?;
                (self.typed(request, NDJSON).body(body), Some(failed))
            }
            Body::Invalid(reason) => {
                return Err(Error::invalid(format!("the body of {}", self.name()), reason.clone()));
            }
        };
        request.send().await.map_err(|error| match failed.and_then(|failed| failed.taken()) {
            Some(unread) => Error::Rows(unread),
            None => broken(error, self.name(), &self.client),
        })
    }

    fn typed(&self, request: RequestBuilder, media_type: &'static str) -> RequestBuilder {
        if self.has("content-type") { request } else { request.header(CONTENT_TYPE, media_type) }
    }

    fn has(&self, name: &str) -> bool {
        self.headers.iter().any(|(given, _)| given == name)
    }

    fn is_repeatable(&self) -> bool {
        match &self.body {
            Body::Rows(rows) => rows.is_repeatable(),
            _ => true,
        }
    }

    /// Its name in errors.
    fn name(&self) -> String {
        format!("{} {}", self.method, self.path)
    }
}

impl<T: DeserializeOwned> Call<T> {
    /// Sends the call, repeats it while the service is busy ([`RetryPolicy`]), and reads its answer.
    ///
    /// # Errors
    /// Each variant of [`Error`] but [`Error::Interrupted`].
    pub async fn send(self) -> Result<T, Error> {
        self.answer().await?.read()
    }
}

impl Client {
    /// A call of any operation. `T` is the type of its answer: a record, [`Page`](crate::Page),
    /// [`Value`](crate::Value), or `()` where there is none.
    ///
    /// `path` is the path of the operation, as in `/api/product`. Put only ids and fixed words into it:
    /// nothing is escaped.
    pub fn call<T>(&self, method: Method, path: impl Into<String>) -> Call<T> {
        Call::new(self.clone(), method, path.into())
    }

    /// A `GET`; see [`Client::call`].
    pub fn get<T>(&self, path: impl Into<String>) -> Call<T> {
        self.call(Method::GET, path)
    }

    /// A `POST`; see [`Client::call`].
    pub fn post<T>(&self, path: impl Into<String>) -> Call<T> {
        self.call(Method::POST, path)
    }

    /// A `PUT`; see [`Client::call`].
    pub fn put<T>(&self, path: impl Into<String>) -> Call<T> {
        self.call(Method::PUT, path)
    }

    /// A `DELETE`; see [`Client::call`].
    pub fn delete<T>(&self, path: impl Into<String>) -> Call<T> {
        self.call(Method::DELETE, path)
    }
}

/// The answer to a call.
#[derive(Clone, Debug)]
pub struct Answer {
    call: String,
    client: Client,
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Answer {
    /// Its status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Its headers.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Its body.
    #[must_use]
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// Whether it is the stored answer to an earlier call with the same idempotency key.
    #[must_use]
    pub fn is_replayed(&self) -> bool {
        self.headers.get("idempotent-replayed").is_some_and(|value| value == "true")
    }

    /// How long the service asks to wait before the next call (`Retry-After`).
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        retry_after_of(&self.headers)
    }

    /// The id of the request, which finds it in the log of the service.
    #[must_use]
    pub fn request_id(&self) -> Option<&str> {
        self.headers.get("x-request-id")?.to_str().ok()
    }

    /// Reads its body, of any status; an empty one reads as null.
    ///
    /// # Errors
    /// [`Error::Unexpected`] when it is not JSON, or not a `T`.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let body = if self.body.is_empty() { b"null".as_slice() } else { &self.body };
        serde_json::from_slice(body).map_err(|error| Error::Unexpected {
            call: self.call.clone(),
            base: self.client.base().to_owned(),
            status: self.status.as_u16(),
            reason: error.to_string(),
        })
    }

    /// The answer itself if its status is a success, otherwise the service's explanation as an error.
    ///
    /// # Errors
    /// [`Error::Problem`], or [`Error::Unexpected`] without an explanation of this service.
    pub fn success(self) -> Result<Self, Error> {
        if self.status.is_success() { Ok(self) } else { Err(self.into_problem()) }
    }

    fn into_problem(self) -> Error {
        let problem =
            serde_json::from_slice::<Problem>(&self.body).ok().filter(|problem| !problem.code.is_empty());
        let Self { call, client, status, .. } = self;
        match problem {
            Some(problem) => Error::Problem { call, problem: Box::new(problem) },
            // from a proxy, or another service
            None => Error::Unexpected {
                call,
                base: client.base().to_owned(),
                status: status.as_u16(),
                reason: format!("status {status}"),
            },
        }
    }
}

/// An answer whose body is read piece by piece; made by [`Call::pieces`].
#[derive(Debug)]
pub struct Pieces {
    call: String,
    client: Client,
    response: Response,
}

impl Pieces {
    /// Its headers.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// The next piece; `None` at the end.
    ///
    /// # Errors
    /// [`Error::Unreachable`] if the body breaks off: what came is not all of it.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        self.response.chunk().await.map_err(|error| broken(error, self.call.clone(), &self.client))
    }
}

/// Reads an answer to its end.
async fn whole(mut response: Response, call: String, client: Client) -> Result<Answer, Error> {
    let (status, headers) = (response.status(), std::mem::take(response.headers_mut()));
    match response.bytes().await {
        Ok(body) => Ok(Answer { call, client, status, headers, body }),
        Err(error) => Err(broken(error, call, &client)),
    }
}

fn broken(error: reqwest::Error, call: String, client: &Client) -> Error {
    if error.is_builder() {
        return Error::invalid(call, error);
    }
    Error::Unreachable { call, base: client.base().to_owned(), source: error }
}

fn retry_after_of(headers: &HeaderMap) -> Option<Duration> {
    #[expect(clippy::disallowed_methods, reason = "a date in Retry-After is compared with the clock")]
    let now = Utc::now();
    retry_after(headers.get(RETRY_AFTER)?.to_str().ok()?, now)
}

/// A new idempotency key.
fn key() -> String {
    #[expect(clippy::disallowed_methods, reason = "a key must be random, and is no id of a record")]
    let key = Uuid::new_v4();
    key.to_string()
}

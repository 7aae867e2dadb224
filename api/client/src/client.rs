//! The client: where the service is, and who calls.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::HeaderValue;
use reqwest::{Method, Url};

use crate::error::Error;
use crate::retry::RetryPolicy;

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(10);

/// How long an answer may take: longer than the service's own limit.
const ANSWER: Duration = Duration::from_mins(3);

/// A client of the service with one access token. It is cheap to clone, and clones share their connections.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    base: String,
    authorization: Option<HeaderValue>,
    http: reqwest::Client,
    retry: RetryPolicy,
    timeout: Duration,
    idempotency_keys: bool,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("base", &self.0.base).finish_non_exhaustive()
    }
}

/// Settings of a client; made by [`Client::builder`].
#[derive(Clone)]
pub struct Builder {
    base: String,
    token: String,
    http: Option<reqwest::Client>,
    user_agent: String,
    retry: RetryPolicy,
    timeout: Duration,
    idempotency_keys: bool,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("base", &self.base).finish_non_exhaustive()
    }
}

impl Builder {
    /// When calls are repeated; without it, as [`RetryPolicy::default`] says.
    #[must_use]
    pub fn retry(self, retry: RetryPolicy) -> Self {
        Self { retry, ..self }
    }

    /// How long an answer may take, from the first byte of the request to the last of the answer; without it,
    /// three minutes. It does not apply to streamed rows and to the progress of jobs.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Whether calls that change something carry an `Idempotency-Key`; without it, they do. The service keeps
    /// the answer of such a call for 24 hours.
    #[must_use]
    pub fn idempotency_keys(self, idempotency_keys: bool) -> Self {
        Self { idempotency_keys, ..self }
    }

    /// The name of the program in `User-Agent`, as in `my-shop/1.2`. It has no effect with
    /// [`Builder::http`].
    #[must_use]
    pub fn user_agent(self, user_agent: impl Into<String>) -> Self {
        Self { user_agent: user_agent.into(), ..self }
    }

    /// Uses this HTTP client, which brings its own connections, proxies and time limits, so that several
    /// clients share them. Without it, a new one is set up.
    #[must_use]
    pub fn http(self, http: reqwest::Client) -> Self {
        Self { http: Some(http), ..self }
    }

    /// Makes the client. No connection is opened yet.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the base URL is not an absolute `http` or `https` URL, the token contains
    /// characters that no header may have, or the HTTP client cannot be set up.
    pub fn build(self) -> Result<Client, Error> {
        let url = Url::parse(&self.base).map_err(|error| Error::invalid("the base URL", error))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Error::invalid("the base URL", "it must be an http or https URL"));
        }
        let authorization = if self.token.is_empty() {
            None
        } else {
            if !self.token.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(Error::invalid("the token", NOT_ONE_WORD));
            }
            let mut value = HeaderValue::from_str(&format!("Bearer {}", self.token))
                .map_err(|error| Error::invalid("the token", error))?;
            value.set_sensitive(true);
            Some(value)
        };
        let http = match self.http {
            Some(http) => http,
            None => http(&self.user_agent).map_err(|error| Error::invalid("the HTTP client", error))?,
        };
        Ok(Client(Arc::new(Inner {
            base: url.as_str().trim_end_matches('/').to_owned(),
            authorization,
            http,
            retry: self.retry,
            timeout: self.timeout,
            idempotency_keys: self.idempotency_keys,
        })))
    }
}

/// What is wrong with a token that no service has made.
const NOT_ONE_WORD: &str =
    "it has a line break, a blank or another character that no token has; give it as one word, such as lsh_…";

fn http(user_agent: &str) -> reqwest::Result<reqwest::Client> {
    // an error means that the program has already installed one
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().user_agent(user_agent).connect_timeout(CONNECT).build()
}

impl Client {
    /// A client of the service at `base`, such as `https://longshore.example`, with an access token, and the
    /// defaults of [`Client::builder`].
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub fn new(base: impl Into<String>, token: impl Into<String>) -> Result<Self, Error> {
        Self::builder(base, token).build()
    }

    /// Settings of a client of the service at `base` with an access token. An empty token is not sent: only
    /// the login, the documentation and the health of the service can be called without one.
    #[must_use]
    pub fn builder(base: impl Into<String>, token: impl Into<String>) -> Builder {
        Builder {
            base: base.into(),
            token: token.into(),
            http: None,
            user_agent: concat!("longshore-client/", env!("CARGO_PKG_VERSION")).to_owned(),
            retry: RetryPolicy::default(),
            timeout: ANSWER,
            idempotency_keys: true,
        }
    }

    /// The base URL, without a slash at its end.
    #[must_use]
    pub fn base(&self) -> &str {
        &self.0.base
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let request = self.0.http.request(method, format!("{}{path}", self.0.base));
        match &self.0.authorization {
            Some(authorization) => request.header(reqwest::header::AUTHORIZATION, authorization.clone()),
            None => request,
        }
    }

    pub(crate) fn retry(&self) -> RetryPolicy {
        self.0.retry
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.0.timeout
    }

    pub(crate) fn idempotency_keys(&self) -> bool {
        self.0.idempotency_keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_needs_an_http_url_and_a_token_that_a_header_can_carry() {
        assert_eq!(
            Client::new("https://longshore.example/", "t").unwrap().base(),
            "https://longshore.example"
        );
        for (base, token, what) in [
            ("longshore.example", "t", "the base URL is not valid"),
            ("ftp://longshore.example", "t", "it must be an http or https URL"),
            ("https://longshore.example", "a\nb", "the token is not valid: it has a line break"),
            ("https://longshore.example", "lsh_a\n", "the token is not valid: it has a line break"),
            (
                "https://longshore.example",
                "lsh_a lsh_b",
                "the token is not valid: it has a line break, a blank",
            ),
        ] {
            let error = Client::new(base, token).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
    }

    #[test]
    fn what_is_printed_for_debugging_has_no_token() {
        let builder = Client::builder("https://longshore.example", "lsh_secret");
        let client = builder.clone().build().unwrap();
        assert!(!format!("{builder:?} {client:?}").contains("lsh_secret"));
    }
}

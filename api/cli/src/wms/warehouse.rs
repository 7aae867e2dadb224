//! A WMS as Longshore calls it.

use std::error::Error as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use chrono::Utc;
use longshore_client::{Client, Method, StatusCode, Uuid};
use reqwest::header::CONTENT_TYPE;
use reqwest::redirect::Policy;
use serde_json::{Value, json};
use standardwebhooks::Webhook;

use super::answer::{Answer, LONGEST, Trouble};
use super::order;

/// How old a call is that must not be believed any more, in seconds: older than five minutes.
const OLD: i64 = 600;

/// How a call is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signature {
    /// As Longshore signs; not at all without a secret.
    Good,
    /// By a secret that was replaced, and by the valid one after it.
    Rotated,
    /// Not at all.
    Missing,
    /// By another secret.
    Forged,
    /// Another body was signed.
    OfOther,
    /// Ten minutes ago.
    Old,
}

/// A WMS, and the orders that it was given.
pub(super) struct Warehouse {
    http: reqwest::Client,
    base: String,
    key: Option<Webhook>,
    foreign_key: Webhook,
    template: Value,
    /// A SKU that it refuses.
    pub(super) refused_sku: Option<String>,
    timeout: Duration,
    /// The orders that it was given, the first one first, each with its highest number.
    given: Mutex<Vec<(Uuid, u64)>>,
}

/// Reads the base URL of a WMS.
pub(super) fn base(text: &str) -> Result<String, String> {
    // a client is cheap to make, and judges the URL
    Client::new(text, "").map(|client| client.base().to_owned()).map_err(|error| error.to_string())
}

impl Warehouse {
    pub(super) fn new(
        base: String,
        secret: Option<&str>,
        template: Value,
        refused_sku: Option<String>,
        timeout: Duration,
    ) -> anyhow::Result<Self> {
        let key = secret.map(Webhook::new).transpose().context("the secret is not whsec_ and base64")?;
        let foreign_key = Webhook::from_bytes(order::random_id().as_bytes().to_vec())?;
        // an error means that the program has already installed one
        let _ = rustls::crypto::ring::default_provider().install_default();
        let agent = concat!("longshore/", env!("CARGO_PKG_VERSION"));
        let http = reqwest::Client::builder().user_agent(agent).redirect(Policy::none()).build()?;
        let given = Mutex::default();
        Ok(Self { http, base, key, foreign_key, template, refused_sku, timeout, given })
    }

    /// Whether calls are signed.
    pub(super) fn signs(&self) -> bool {
        self.key.is_some()
    }

    /// Hands an order over.
    pub(super) async fn put(&self, id: Uuid, number: u64) -> Result<Answer, Trouble> {
        self.put_signed(id, number, Signature::Good).await
    }

    /// Hands an order over, with this signature.
    pub(super) async fn put_signed(
        &self,
        id: Uuid,
        number: u64,
        signature: Signature,
    ) -> Result<Answer, Trouble> {
        self.put_order(id, number, &order::with(&self.template, id, number), signature).await
    }

    /// Hands an order over whose references have changed meanwhile.
    pub(super) async fn put_edited(&self, id: Uuid, number: u64) -> Result<Answer, Trouble> {
        let order = order::edited(order::with(&self.template, id, number));
        self.put_order(id, number, &order, Signature::Good).await
    }

    /// Hands over an order with the number that the first one has for the e-shop.
    pub(super) async fn put_again(&self, id: Uuid, number: u64, first: Uuid) -> Result<Answer, Trouble> {
        let order = order::as_first(order::with(&self.template, id, number), first);
        self.put_order(id, number, &order, Signature::Good).await
    }

    /// Hands over an order that the WMS refuses.
    pub(super) async fn put_refused(&self, id: Uuid, number: u64, sku: &str) -> Result<Answer, Trouble> {
        let order = order::of_sku(order::with(&self.template, id, number), sku);
        self.put_order(id, number, &order, Signature::Good).await
    }

    async fn put_order(
        &self,
        id: Uuid,
        number: u64,
        order: &Value,
        signature: Signature,
    ) -> Result<Answer, Trouble> {
        {
            let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
            match given.iter_mut().find(|(known, _)| *known == id) {
                Some((_, highest)) => *highest = number.max(*highest),
                None => given.push((id, number)),
            }
        }
        self.call(Method::PUT, id, number, order.to_string(), signature).await
    }

    /// Asks for an order back.
    pub(super) async fn delete(&self, id: Uuid, number: u64) -> Result<Answer, Trouble> {
        self.delete_signed(id, number, Signature::Good).await
    }

    /// Asks for an order back, with this signature.
    pub(super) async fn delete_signed(
        &self,
        id: Uuid,
        number: u64,
        signature: Signature,
    ) -> Result<Answer, Trouble> {
        let body = json!({"number": number}).to_string();
        self.call(Method::DELETE, id, number, body, signature).await
    }

    /// Tests the connection: asks for an order that does not exist, with this signature.
    pub(super) async fn get(&self, id: Uuid, signature: Signature) -> Result<Answer, Trouble> {
        self.call(Method::GET, id, 0, String::new(), signature).await
    }

    /// Asks for all orders back, the first one first; returns the ids of those that it may still have.
    pub(super) async fn give_all_back(&self) -> Vec<Uuid> {
        let given = self.given.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut left = Vec::new();
        for (id, number) in given {
            let answer = self.delete(id, number).await;
            if answer.and_then(Answer::given_back).is_err() {
                left.push(id);
            }
        }
        left
    }

    async fn call(
        &self,
        method: Method,
        id: Uuid,
        number: u64,
        body: String,
        signature: Signature,
    ) -> Result<Answer, Trouble> {
        let kind = if method == Method::GET { "connection test" } else { method.as_str() };
        let name = match signature {
            Signature::Good if method == Method::GET => "the connection test".to_owned(),
            Signature::Good => format!("the {kind} of number {number}"),
            Signature::Rotated => format!("the {kind} with two signatures"),
            Signature::Missing => format!("a {kind} without a signature"),
            Signature::Forged => format!("a {kind} that is signed by another secret"),
            Signature::OfOther => format!("a {kind} whose body is not the signed one"),
            Signature::Old => format!("a {kind} that was signed ten minutes ago"),
        };
        let failed = |error: &reqwest::Error| self.trouble(&name, error);
        let key = format!("{id}.{number}");
        let mut url = format!("{}/expedition/{id}", self.base);
        if method == Method::DELETE {
            url = format!("{url}?number={number}");
        }
        let mut call =
            self.http.request(method.clone(), url).timeout(self.timeout).header("webhook-id", &key);
        if method == Method::PUT {
            call = call.header("idempotency-key", &key);
        }
        if !body.is_empty() {
            call = call.header(CONTENT_TYPE, "application/json");
        }
        if let Some((at, signatures)) = self.signed(&key, &body, signature) {
            call = call.header("webhook-timestamp", at).header("webhook-signature", signatures);
        }
        let mut response = call.body(body).send().await.map_err(|error| failed(&error))?;
        let status: StatusCode = response.status();
        let media_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let media_type = media_type.unwrap_or_default().to_owned();
        let mut bytes = Vec::new();
        while bytes.len() <= LONGEST
            && let Some(part) = response.chunk().await.map_err(|error| failed(&error))?
        {
            bytes.extend_from_slice(&part);
        }
        Answer::of(name, status, &media_type, &bytes)
    }

    /// The timestamp and the signatures of a call.
    fn signed(&self, id: &str, body: &str, signature: Signature) -> Option<(i64, String)> {
        let key = self.key.as_ref()?;
        #[expect(clippy::disallowed_methods, reason = "calls are signed now")]
        let now = Utc::now().timestamp();
        let at = if signature == Signature::Old { now - OLD } else { now };
        let by = |key: &Webhook, body: &str| key.sign(id, at, body.as_bytes()).ok();
        let signatures = match signature {
            Signature::Good | Signature::Old => by(key, body)?,
            Signature::Rotated => format!("{} {}", by(&self.foreign_key, body)?, by(key, body)?),
            Signature::Missing => return None,
            Signature::Forged => by(&self.foreign_key, body)?,
            Signature::OfOther => by(key, &format!("{body} "))?,
        };
        Some((at, signatures))
    }

    /// Why a call got no answer.
    fn trouble(&self, call: &str, error: &reqwest::Error) -> Trouble {
        if error.is_timeout() {
            return Trouble::Broken(format!("{call} was not answered within {} s", self.timeout.as_secs()));
        }
        let mut why = error.source();
        while let Some(deeper) = why.and_then(std::error::Error::source) {
            why = Some(deeper);
        }
        let why = why.map_or_else(|| error.to_string(), ToString::to_string);
        if error.is_connect() {
            return Trouble::Unreachable(format!("{} cannot be reached: {why}", self.base));
        }
        Trouble::Broken(format!("{call} got no whole answer: {why}"))
    }
}

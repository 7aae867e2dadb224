//! A client of the service, with the calls that the demo and the measurements need.

use std::time::Duration;

use anyhow::{Context as _, bail};
use http::Method;
use reqwest::Response;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use uuid::Uuid;

/// Item errors per page.
const ERRORS_A_PAGE: usize = 1_000;

/// A client of the service with one access token.
#[derive(Clone)]
pub struct Api {
    base: String,
    token: String,
    http: reqwest::Client,
}

impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Api").field("base", &self.base).finish_non_exhaustive()
    }
}

/// A webhook as creation shows it.
#[derive(Debug, Deserialize)]
pub struct Webhook {
    /// Its id.
    pub id: Uuid,
    /// Its secret, which is shown only once.
    pub secret: String,
}

/// A job, with the fields that are used here (`docs/reference/jobs.md#job`).
#[derive(Debug, Clone, Deserialize)]
pub struct Job {
    /// Its id.
    pub id: Uuid,
    /// `queued`, `running`, `succeeded` and so on.
    pub state: String,
    /// Its progress.
    pub progress: Progress,
    /// Why it failed.
    pub error: Option<Value>,
}

/// The progress of a job, in items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Progress {
    /// All of them.
    pub total: u64,
    /// Processed ones.
    pub done: u64,
    /// Created or changed ones.
    pub changed: u64,
    /// Unchanged ones.
    pub unchanged: u64,
    /// Refused ones.
    pub failed: u64,
}

/// Why an item of a job was refused.
#[derive(Debug, Clone, Deserialize)]
pub struct ItemError {
    /// Its position in the request, from 0.
    pub index: u64,
    /// Its key, if it has a readable one.
    pub key: Option<String>,
    /// The code of the error.
    pub code: String,
    /// The error in words.
    pub message: String,
}

#[derive(Deserialize)]
struct Page<T> {
    results: Vec<T>,
}

#[derive(Deserialize)]
struct Identified {
    id: Uuid,
}

impl Job {
    /// Whether the job has ended.
    #[must_use]
    pub fn ended(&self) -> bool {
        ["succeeded", "failed", "cancelled"].contains(&self.state.as_str())
    }
}

impl Api {
    /// A client of the service at `base`, such as `http://127.0.0.1:8080`.
    ///
    /// # Errors
    /// When the HTTP client cannot be set up.
    pub fn new(base: &str, token: &str) -> reqwest::Result<Self> {
        let base = base.trim_end_matches('/').to_owned();
        Ok(Self { base, token: token.to_owned(), http: longshore_testkit::client::outside()? })
    }

    /// Whether the token is valid and has access to the organisation.
    ///
    /// # Errors
    /// When the service cannot be reached or is at fault itself.
    pub async fn sees_organisation(&self, organisation: Uuid) -> anyhow::Result<bool> {
        let body = json!({ "criteria": { "id": { "eq": organisation } }, "limit": 1 });
        let answer = self.send(Method::POST, "/api/organisation/list", &[], Some(body.to_string())).await?;
        match answer.status().as_u16() {
            401 | 403 => Ok(false),
            _ => Ok(!read::<Page<Identified>>(answer).await?.results.is_empty()),
        }
    }

    /// Creates a webhook on an e-shop.
    ///
    /// # Errors
    /// When the service refuses.
    pub async fn create_webhook(
        &self,
        eshop: Uuid,
        event: &str,
        destination: &str,
    ) -> anyhow::Result<Webhook> {
        let body = json!({ "eshop": eshop, "event": event, "destination": destination, "active": true });
        read(self.send(Method::POST, "/api/eshop-webhook", &[], Some(body.to_string())).await?).await
    }

    /// Activates or deactivates a webhook.
    ///
    /// # Errors
    /// When the service refuses.
    pub async fn set_webhook_active(&self, webhook: Uuid, active: bool) -> anyhow::Result<()> {
        let path = format!("/api/eshop-webhook/{webhook}");
        let body = json!({ "active": active }).to_string();
        succeeded(self.send(Method::PUT, &path, &[], Some(body)).await?).await.map(drop)
    }

    /// Deletes a webhook.
    ///
    /// # Errors
    /// When the service refuses.
    pub async fn delete_webhook(&self, webhook: Uuid) -> anyhow::Result<()> {
        let path = format!("/api/eshop-webhook/{webhook}");
        succeeded(self.send(Method::DELETE, &path, &[], None).await?).await.map(drop)
    }

    /// Creates a product with the required fields.
    ///
    /// # Errors
    /// When the service refuses.
    pub async fn create_product(&self, organisation: Uuid, eshop: Uuid, sku: &str) -> anyhow::Result<()> {
        let body = json!({
            "organisation": organisation, "eshops": [eshop], "productSku": sku, "internalSku": sku,
            "name": format!("Product {sku}"), "imeiCheckRequired": false, "active": true,
        });
        succeeded(self.send(Method::POST, "/api/product", &[], Some(body.to_string())).await?).await.map(drop)
    }

    /// Syncs products as NDJSON; returns the job.
    ///
    /// # Errors
    /// When the service refuses.
    pub async fn sync_products(&self, body: String) -> anyhow::Result<Job> {
        let path = "/api/partner-integration/eshop/sync/products";
        let headers = [("content-type", "application/x-ndjson"), ("prefer", "respond-async")];
        read(self.send(Method::POST, path, &headers, Some(body)).await?).await
    }

    /// Makes a feed the partner of an e-shop.
    ///
    /// # Errors
    /// When the service refuses.
    pub async fn store_feed(&self, eshop: Uuid, url: &str) -> anyhow::Result<()> {
        let path = format!("/api/partner-integration/eshop-setting/{eshop}");
        let body = json!({ "integrationType": "feed", "baseUrl": url, "credentials": { "type": "none" } });
        succeeded(self.send(Method::POST, &path, &[], Some(body.to_string())).await?).await.map(drop)
    }

    /// Makes the worker fetch products from the partner; returns the job.
    ///
    /// # Errors
    /// When the service refuses.
    pub async fn fetch_products(&self, eshop: Uuid, inventory: &str) -> anyhow::Result<Job> {
        let path = "/api/partner-integration/eshop/sync/products";
        let body = json!({ "eshop": eshop, "inventoryId": inventory }).to_string();
        read(self.send(Method::POST, path, &[("prefer", "respond-async")], Some(body)).await?).await
    }

    /// Syncs stock counts as NDJSON; returns the job.
    ///
    /// # Errors
    /// When the service refuses.
    pub async fn sync_stocks(&self, body: String) -> anyhow::Result<Job> {
        let path = "/api/partner-integration/eshop/sync/product-stocks";
        let headers = [("content-type", "application/x-ndjson"), ("prefer", "respond-async")];
        read(self.send(Method::POST, path, &headers, Some(body)).await?).await
    }

    /// Reads a product completely.
    ///
    /// # Errors
    /// When the service refuses.
    pub async fn get_product(&self, id: Uuid) -> anyhow::Result<()> {
        let path = format!("/api/product/{id}");
        succeeded(self.send(Method::GET, &path, &[], None).await?).await?.bytes().await?;
        Ok(())
    }

    /// Renames a product.
    ///
    /// # Errors
    /// When the service refuses.
    pub async fn rename_product(&self, id: Uuid, name: &str) -> anyhow::Result<()> {
        let path = format!("/api/product/{id}");
        let body = json!({ "name": name }).to_string();
        succeeded(self.send(Method::PUT, &path, &[], Some(body)).await?).await?.bytes().await?;
        Ok(())
    }

    /// Its token.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Posts a body; returns the status after reading the whole answer.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn status(&self, path: &str, body: &str) -> anyhow::Result<u16> {
        let mut answer = self.send(Method::POST, path, &[], Some(body.to_owned())).await?;
        while answer.chunk().await?.is_some() {}
        Ok(answer.status().as_u16())
    }

    /// Lists products; returns the number of bytes of the answer.
    ///
    /// # Errors
    /// When the service refuses, or cuts its answer short.
    pub async fn list_products(&self, body: &Value) -> anyhow::Result<u64> {
        let answer = self.send(Method::POST, "/api/product/list", &[], Some(body.to_string())).await?;
        let mut answer = succeeded(answer).await?;
        let mut bytes = 0;
        while let Some(chunk) = answer.chunk().await? {
            bytes += chunk.len() as u64;
        }
        Ok(bytes)
    }

    /// Switches products on or off in bulk; returns the accepted job.
    ///
    /// # Errors
    /// When the service refuses.
    pub async fn switch_products(&self, on: bool, products: &[Uuid]) -> anyhow::Result<Job> {
        let path = if on { "/api/product/activate" } else { "/api/product/deactivate" };
        let body = serde_json::to_string(products)?;
        let answer = self.send(Method::PUT, path, &[("prefer", "respond-async")], Some(body)).await?;
        if answer.status() != 202 {
            bail!("{path} with Prefer: respond-async answered {} instead of 202", answer.status());
        }
        read(answer).await
    }

    /// Waits for the end of a job through its server-sent events.
    ///
    /// # Errors
    /// When it has not ended by the deadline, or the service refuses.
    pub async fn job_ended(&self, id: Uuid, deadline: Duration) -> anyhow::Result<Job> {
        let mut latest = None;
        let ended = tokio::time::timeout(deadline, async {
            // A stream may end early while the job continues: follow it again.
            loop {
                if let Some(job) = self.follow(id, &mut latest).await? {
                    return anyhow::Ok(job);
                }
            }
        });
        match ended.await {
            Ok(ended) => ended,
            Err(_) => bail!("job {id} has not ended after {deadline:?}: {latest:?}"),
        }
    }

    /// Follows one stream of events until the job or the stream ends.
    async fn follow(&self, id: Uuid, latest: &mut Option<Job>) -> anyhow::Result<Option<Job>> {
        let path = format!("/api/job/{id}/events");
        let headers = [("accept", "text/event-stream")];
        let mut answer = succeeded(self.send(Method::GET, &path, &headers, None).await?).await?;
        let mut unread = Vec::new();
        while let Ok(Some(chunk)) = answer.chunk().await {
            unread.extend_from_slice(&chunk);
            while let Some(end) = unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = unread.drain(..=end).collect();
                let Some(data) = line.strip_prefix(b"data:") else { continue };
                let job: Job = serde_json::from_slice(data).with_context(|| path.clone())?;
                if job.ended() {
                    return Ok(Some(job));
                }
                *latest = Some(job);
            }
        }
        Ok(None)
    }

    /// All item errors of a job.
    ///
    /// # Errors
    /// When the service refuses.
    pub async fn item_errors(&self, job: Uuid) -> anyhow::Result<Vec<ItemError>> {
        let path = format!("/api/job/{job}/error/list");
        let mut errors = Vec::new();
        loop {
            let body = json!({ "limit": ERRORS_A_PAGE, "offset": errors.len() }).to_string();
            let page: Page<ItemError> = read(self.send(Method::POST, &path, &[], Some(body)).await?).await?;
            let last = page.results.len() < ERRORS_A_PAGE;
            errors.extend(page.results);
            if last {
                return Ok(errors);
            }
        }
    }

    /// The ids of all products of an organisation, from a list without limit.
    ///
    /// # Errors
    /// When the service refuses.
    pub async fn products(&self, organisation: Uuid) -> anyhow::Result<Vec<Uuid>> {
        let body = json!({ "criteria": { "organisation": { "eq": organisation } }, "select": ["id"] });
        let answer = self.send(Method::POST, "/api/product/list", &[], Some(body.to_string())).await?;
        let page: Page<Identified> = read(answer).await?;
        Ok(page.results.into_iter().map(|product| product.id).collect())
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<String>,
    ) -> anyhow::Result<Response> {
        let mut request =
            self.http.request(method.clone(), format!("{}{path}", self.base)).bearer_auth(&self.token);
        let given = |name: &str| headers.iter().any(|(given, _)| *given == name);
        if !given("accept") {
            request = request.header("accept", "application/json");
        }
        if body.is_some() && !given("content-type") {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request.body(body);
        }
        request.send().await.with_context(|| format!("{method} {path}"))
    }
}

/// The answer, or its problem as an error.
async fn succeeded(answer: Response) -> anyhow::Result<Response> {
    if answer.status().is_success() {
        return Ok(answer);
    }
    let (status, url) = (answer.status(), answer.url().path().to_owned());
    bail!("{url} answered {status}: {}", answer.text().await.unwrap_or_default())
}

async fn read<T: DeserializeOwned>(answer: Response) -> anyhow::Result<T> {
    let answer = succeeded(answer).await?;
    let path = answer.url().path().to_owned();
    let body = answer.bytes().await?;
    serde_json::from_slice(&body).with_context(|| format!("{path} answered what it should not"))
}

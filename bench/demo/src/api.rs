//! The client of the service, with the calls that the demo and the measurements need.
//!
//! It sends each call once and without an idempotency key: a measurement sees every answer, and measures the
//! operation only.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use longshore_client::{
    Call, Client, Error, EventChoice, ListQuery, RetryPolicy, StatusCode, WebhookToCreate,
};
pub use longshore_client::{ItemError, Job, JobState, Progress};
use longshore_kernel::ids::random_id;
use longshore_testkit::client::outside;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

/// Item errors per page.
const ERRORS_A_PAGE: u32 = 1_000;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_mins(1);

const SYNC_PRODUCTS: &str = "/api/partner-integration/eshop/sync/products";
const IMPORT_ORDERS: &str = "/api/partner-integration/eshop/sync/expeditions";
const REPORT_NEWS: &str = "/api/partner-integration/wms/sync/news";
const SYNC_STOCKS: &str = "/api/partner-integration/eshop/sync/product-stocks";

/// A client of the service with one access token.
#[derive(Clone, Debug)]
pub struct Api {
    client: Client,
    token: String,
}

/// A webhook as creation shows it.
#[derive(Debug)]
pub struct Webhook {
    /// Its id.
    pub id: Uuid,
    /// Its secret, which is shown only once.
    pub secret: String,
}

#[derive(Deserialize)]
struct Identified {
    id: Uuid,
}

impl Api {
    /// A client of the service at `base`, such as `http://127.0.0.1:8080`.
    ///
    /// # Errors
    /// When the HTTP client cannot be set up.
    pub fn new(base: &str, token: &str) -> anyhow::Result<Self> {
        let client = Client::builder(base, token)
            .http(outside()?)
            .timeout(PATIENCE)
            .retry(RetryPolicy::never())
            .idempotency_keys(false)
            .build()?;
        Ok(Self { client, token: token.to_owned() })
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
        let (event, destination) = (Some(event.to_owned()), destination.to_owned());
        let webhook = WebhookToCreate {
            choice: EventChoice { eshop: Some(eshop), event, ..EventChoice::default() },
            destination,
            active: true,
            batch: None,
            max_per_second: None,
        };
        let created = self.client.create_webhook(&webhook).send().await?;
        Ok(Webhook { id: created.id, secret: created.secret.context("a new webhook has no secret")? })
    }

    /// Changes fields of a webhook.
    ///
    /// # Errors
    /// When the service refuses.
    pub async fn set_webhook(&self, webhook: Uuid, fields: &Value) -> anyhow::Result<()> {
        done(self.client.put(format!("/api/eshop-webhook/{webhook}")).json(fields)).await
    }

    /// Deletes a webhook.
    ///
    /// # Errors
    /// When the service refuses.
    pub async fn delete_webhook(&self, webhook: Uuid) -> anyhow::Result<()> {
        Ok(self.client.delete_webhook(webhook).send().await?)
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
        done(self.client.post("/api/product").json(&body)).await
    }

    /// Syncs products as NDJSON; returns the job.
    ///
    /// # Errors
    /// When the service refuses.
    pub async fn sync_products(&self, body: String) -> anyhow::Result<Job> {
        self.sync(SYNC_PRODUCTS, body).await
    }

    /// Makes a feed the partner of an e-shop.
    ///
    /// # Errors
    /// When the service refuses.
    pub async fn store_feed(&self, eshop: Uuid, url: &str) -> anyhow::Result<()> {
        let path = format!("/api/partner-integration/eshop-setting/{eshop}");
        let body = json!({ "integrationType": "feed", "baseUrl": url, "credentials": { "type": "none" } });
        done(self.client.post(path).json(&body)).await
    }

    /// Makes the worker fetch products from the partner; returns the job.
    ///
    /// # Errors
    /// When the service refuses.
    pub async fn fetch_products(&self, eshop: Uuid, inventory: &str) -> anyhow::Result<Job> {
        Ok(self.client.fetch_products(eshop, inventory).respond_async().send().await?)
    }

    /// Syncs stock counts as NDJSON; returns the job.
    ///
    /// # Errors
    /// When the service refuses.
    pub async fn sync_stocks(&self, body: String) -> anyhow::Result<Job> {
        self.sync(SYNC_STOCKS, body).await
    }

    /// Creates a carrier that ships for an organisation; needs the token of a superadmin.
    ///
    /// # Errors
    /// When the service refuses.
    pub async fn create_carrier(&self, organisation: Uuid) -> anyhow::Result<Uuid> {
        // codes are unique among all carriers
        let code = i32::try_from(random_id().as_u128() % (1 << 31))?;
        let body = json!({"name": "Harbour Post", "code": code, "organisations": [organisation]});
        let made: Call = self.client.post("/api/carrier").json(&body);
        Ok(made.answer().await?.read::<Identified>()?.id)
    }

    /// The SKUs of all products of an organisation, sorted.
    ///
    /// # Errors
    /// When the service refuses.
    pub async fn skus(&self, organisation: Uuid) -> anyhow::Result<Vec<String>> {
        let query = ListQuery::new().filter("organisation", "eq", organisation).select(["productSku"]);
        let page = self.client.list::<Value>("/api/product/list", &query).send().await?;
        let skus = page.results.into_iter();
        let mut skus: Vec<String> =
            skus.filter_map(|product| product["productSku"].as_str().map(str::to_owned)).collect();
        skus.sort_unstable();
        Ok(skus)
    }

    /// All orders of an organisation.
    ///
    /// # Errors
    /// When the service refuses.
    pub async fn orders(&self, organisation: Uuid) -> anyhow::Result<Vec<Value>> {
        let query = ListQuery::new().filter("organisation", "eq", organisation);
        Ok(self.client.list::<Value>("/api/expedition/list", &query).send().await?.results)
    }

    /// Reports what the warehouse has done with an order.
    ///
    /// # Errors
    /// When the service refuses.
    pub async fn report_order(&self, id: Uuid, report: &Value) -> anyhow::Result<()> {
        done(self.client.put(format!("/api/expedition/{id}/status")).json(report)).await
    }

    /// Creates an order from a prepared body.
    ///
    /// # Errors
    /// When the service refuses.
    pub async fn place_order(&self, body: &str) -> anyhow::Result<()> {
        done(self.client.post("/api/expedition").body(body.to_owned())).await
    }

    /// Lists orders; returns the number of bytes of the answer.
    ///
    /// # Errors
    /// When the service refuses, or cuts its answer short.
    pub async fn list_orders(&self, body: &Value) -> anyhow::Result<u64> {
        self.list("/api/expedition/list", body).await
    }

    /// Counts stocks by the SKUs of their products; returns the job.
    ///
    /// # Errors
    /// When the service refuses.
    pub async fn count_stocks(
        &self,
        eshop: Uuid,
        warehouse: Uuid,
        counts: &HashMap<String, i64>,
    ) -> anyhow::Result<Job> {
        let mut body = json!({"eshop": eshop, "warehouseId": warehouse}).to_string();
        for (sku, quantity) in counts {
            body.push('\n');
            body.push_str(&json!({"productSku": sku, "quantity": quantity}).to_string());
        }
        self.sync_stocks(body).await
    }

    /// Imports orders as NDJSON; returns the job.
    ///
    /// # Errors
    /// When the service refuses.
    pub async fn import_orders(&self, body: String) -> anyhow::Result<Job> {
        self.sync(IMPORT_ORDERS, body).await
    }

    /// Reports what a warehouse did; returns the job, with the reports that were refused.
    ///
    /// # Errors
    /// When the service refuses.
    pub async fn report_news(&self, wms: Uuid, news: &[Value]) -> anyhow::Result<Value> {
        Ok(self.client.post(REPORT_NEWS).json(&json!({"wms": wms, "news": news})).send().await?)
    }

    /// Reports what a warehouse did; `body` is NDJSON. Returns the job.
    ///
    /// # Errors
    /// When the service refuses.
    pub async fn report_all_news(&self, body: String) -> anyhow::Result<Job> {
        self.sync(REPORT_NEWS, body).await
    }

    /// Stores the setting of a wms.
    ///
    /// # Errors
    /// When the service refuses.
    pub async fn store_wms_setting(&self, wms: Uuid, setting: &Value) -> anyhow::Result<()> {
        done(self.client.post(format!("/api/partner-integration/wms-setting/{wms}")).json(setting)).await
    }

    /// Sends a prepared body at once: a stream of rows would measure the client, too.
    async fn sync(&self, path: &str, body: String) -> anyhow::Result<Job> {
        self.push(path, "application/x-ndjson", body).await
    }

    /// Syncs products as CSV; returns the job.
    ///
    /// # Errors
    /// When the service refuses.
    pub async fn sync_products_of_csv(&self, eshop: Uuid, body: String) -> anyhow::Result<Job> {
        self.push(&format!("{SYNC_PRODUCTS}?eshop={eshop}"), "text/csv", body).await
    }

    async fn push(&self, path: &str, media: &'static str, body: String) -> anyhow::Result<Job> {
        let call = self.client.post(path).header("content-type", media).body(body);
        Ok(call.respond_async().send().await?)
    }

    /// Reads the rows that a job refused; returns the number of bytes.
    ///
    /// # Errors
    /// When the service refuses.
    pub async fn refused_rows(&self, job: Uuid) -> anyhow::Result<u64> {
        read(self.client.refused_rows(job)).await
    }

    /// Reads a product completely.
    ///
    /// # Errors
    /// When the service refuses.
    pub async fn get_product(&self, id: Uuid) -> anyhow::Result<()> {
        done(self.client.get(format!("/api/product/{id}"))).await
    }

    /// Renames a product.
    ///
    /// # Errors
    /// When the service refuses.
    pub async fn rename_product(&self, id: Uuid, name: &str) -> anyhow::Result<()> {
        done(self.client.put(format!("/api/product/{id}")).json(&json!({ "name": name }))).await
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
        let call: Call = self.client.post(path).body(body.to_owned());
        let mut answer = match call.stream().await {
            Ok(answer) => answer,
            Err(Error::Problem { problem, .. }) => return Ok(problem.status),
            Err(error) => return Err(error.into()),
        };
        while answer.chunk().await?.is_some() {}
        Ok(answer.status().as_u16())
    }

    /// Lists products; returns the number of bytes of the answer.
    ///
    /// # Errors
    /// When the service refuses, or cuts its answer short.
    pub async fn list_products(&self, body: &Value) -> anyhow::Result<u64> {
        self.list("/api/product/list", body).await
    }

    async fn list(&self, path: &str, body: &Value) -> anyhow::Result<u64> {
        let call: Call = self.client.post(path).json(body);
        read(call).await
    }

    /// Lists products as CSV; returns the number of bytes.
    ///
    /// # Errors
    /// When the service refuses.
    pub async fn list_products_as_csv(&self, body: &Value) -> anyhow::Result<u64> {
        let call: Call = self.client.post("/api/product/list").json(body);
        read(call.csv()).await
    }

    /// Switches products on or off in bulk; returns the accepted job.
    ///
    /// # Errors
    /// When the service refuses.
    pub async fn switch_products(&self, on: bool, products: &[Uuid]) -> anyhow::Result<Job> {
        let answer = self.client.switch_products(on, products).respond_async().answer().await?;
        ensure!(
            answer.status() == StatusCode::ACCEPTED,
            "a bulk with Prefer: respond-async was answered {} instead of 202",
            answer.status()
        );
        Ok(answer.read()?)
    }

    /// Waits for the end of a job through its server-sent events.
    ///
    /// # Errors
    /// When it has not ended by the deadline, or the service refuses.
    pub async fn job_ended(&self, id: Uuid, deadline: Duration) -> anyhow::Result<Job> {
        let (mut events, mut latest) = (self.client.follow_job(id), None);
        let ended = tokio::time::timeout(deadline, async {
            loop {
                let event = events.next().await?.context("the progress of the job has no end")?;
                if event.is_end {
                    return anyhow::Ok(event.job);
                }
                latest = Some(event.job);
            }
        });
        match ended.await {
            Ok(ended) => ended,
            Err(_) => bail!("job {id} has not ended after {deadline:?}: {latest:?}"),
        }
    }

    /// All item errors of a job.
    ///
    /// # Errors
    /// When the service refuses.
    pub async fn item_errors(&self, job: Uuid) -> anyhow::Result<Vec<ItemError>> {
        Ok(self.client.job_errors(job, ListQuery::new().limit(ERRORS_A_PAGE)).all().await?)
    }

    /// The ids of all products of an organisation, from a list without limit.
    ///
    /// # Errors
    /// When the service refuses.
    pub async fn products(&self, organisation: Uuid) -> anyhow::Result<Vec<Uuid>> {
        let query = ListQuery::new().filter("organisation", "eq", organisation).select(["id"]);
        let page = self.client.list::<Identified>("/api/product/list", &query).send().await?;
        Ok(page.results.into_iter().map(|product| product.id).collect())
    }
}

/// The bytes of an answer, which is read as it arrives.
async fn read<T>(call: Call<T>) -> anyhow::Result<u64> {
    let mut answer = call.stream().await?;
    let mut bytes = 0;
    while let Some(chunk) = answer.chunk().await? {
        bytes += chunk.len() as u64;
    }
    Ok(bytes)
}

/// Sends a call, and reads its answer to the end.
async fn done(call: Call) -> anyhow::Result<()> {
    call.answer().await?;
    Ok(())
}

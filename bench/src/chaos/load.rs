//! The load, and the promises in its answers.
//!
//! Each kind of load has its own products, so that its effects can be checked: single renamings, single
//! creations, bulk switches, syncs of products and stocks as NDJSON, and syncs that break off. Some
//! idempotent requests are repeated, with the same body and with another.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use http::Method;
use longshore_testkit::world::Tenant;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::json;
use uuid::Uuid;

use super::caller::{Caller, Reply, Request};

/// The number of parallel callers that rename products, and the products of each.
const NAMERS: usize = 4;
const NAMED_EACH: usize = 10;

/// The number of switched and of synced products.
const SWITCHED: usize = 100;
const SYNCED: usize = 150;

/// The media type of NDJSON.
pub(super) const NDJSON: &str = "application/x-ndjson";

pub(super) const SYNC_PRODUCTS: &str = "/api/partner-integration/eshop/sync/products";
pub(super) const SYNC_STOCKS: &str = "/api/partner-integration/eshop/sync/product-stocks";

/// An accepted job.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PromisedJob {
    pub(crate) id: Uuid,
    pub(crate) items: usize,
}

/// The promises: each was answered with success.
#[derive(Debug, Default)]
pub(crate) struct Promises {
    /// Renamings, in order.
    pub(crate) names: Vec<(Uuid, String)>,
    /// Products created, by their `productSku`.
    pub(crate) created: Vec<(String, Uuid)>,
    pub(crate) jobs: Vec<PromisedJob>,
    /// The state that the last switch requested.
    pub(crate) switched: Option<bool>,
    /// The name of each synced product, after the last sync.
    pub(crate) synced: Option<String>,
    /// The quantity of each synced product, after the last stock sync.
    pub(crate) counted: Option<i32>,
    /// Requests repeated with the same body, and with another.
    pub(crate) repeated: u64,
    pub(crate) contradicted: u64,
    /// Syncs that broke off.
    pub(crate) broken_off: u64,
}

/// The load; see the module.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) caller: Caller,
    pub(crate) tenant: Tenant,
    products: HashMap<String, Uuid>,
    promises: Mutex<Promises>,
}

fn sku(kind: &str, number: usize) -> String {
    format!("{kind}-{number:04}")
}

pub(super) fn key() -> String {
    longshore_kernel::ids::random_id().to_string()
}

impl Load {
    /// Creates the products of the load with a sync.
    pub(crate) async fn prepare(caller: Caller, tenant: Tenant) -> anyhow::Result<Self> {
        let mut body = json!({ "eshop": tenant.eshop }).to_string();
        let kinds = [("NAMED", NAMERS * NAMED_EACH), ("SWITCHED", SWITCHED), ("SYNCED", SYNCED)];
        let skus: Vec<String> =
            kinds.iter().flat_map(|(kind, count)| (0..*count).map(|n| sku(kind, n))).collect();
        for sku in &skus {
            _ = write!(body, "\n{}", json!({ "productSku": sku, "name": "to begin with" }));
        }
        let mut load = Self { caller, tenant, products: HashMap::new(), promises: Mutex::default() };
        let sync = Request::new(Method::POST, SYNC_PRODUCTS, body)
            .with("content-type", NDJSON)
            .with("prefer", "wait=60");
        let job = job(&load.caller.ask(&sync, &[200, 202]).await?, skus.len())?;
        load.promises().jobs.push(job);
        let until = Instant::now() + Duration::from_mins(1);
        while load.products.len() < skus.len() {
            anyhow::ensure!(
                Instant::now() < until,
                "{} of {} products came in",
                load.products.len(),
                skus.len()
            );
            let list = json!({ "criteria": { "organisation": { "eq": load.tenant.organisation } },
                               "select": ["id", "productSku"] });
            let list = Request::new(Method::POST, "/api/product/list", list.to_string());
            let listed = load.caller.ask(&list, &[200]).await?;
            let products = listed.body["results"].as_array().cloned().unwrap_or_default();
            load.products = products
                .iter()
                .filter_map(|product| Some((product["productSku"].as_str()?.to_owned(), id_of(product)?)))
                .collect();
        }
        Ok(load)
    }

    /// The promises so far.
    pub(crate) fn promises(&self) -> MutexGuard<'_, Promises> {
        self.promises.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One of the products that are switched together.
    pub(crate) fn switched(&self) -> anyhow::Result<Uuid> {
        self.product(&sku("SWITCHED", 0))
    }

    /// Runs the load until then.
    pub(crate) async fn offer(&self, seed: u64, until: Instant) -> anyhow::Result<()> {
        let lot = |n: u64| StdRng::seed_from_u64(seed ^ (n << 32));
        let namers = (0..NAMERS).map(|namer| self.give_names(lot(namer as u64), namer, until));
        tokio::try_join!(
            futures::future::try_join_all(namers),
            self.create(lot(100), until),
            self.switch(lot(101), until),
            self.sync(lot(102), until),
            self.count(lot(103), until),
            self.break_off(lot(104), until),
            self.read(lot(105), until),
        )?;
        Ok(())
    }

    async fn give_names(&self, mut lot: StdRng, namer: usize, until: Instant) -> anyhow::Result<()> {
        for turn in 0.. {
            if !pause(&mut lot, 0.05..0.3, until).await {
                break;
            }
            let number = namer * NAMED_EACH + lot.random_range(0..NAMED_EACH);
            let product = self.product(&sku("NAMED", number))?;
            let name = format!("name {turn} by {namer}");
            let body = json!({ "name": name }).to_string();
            self.caller
                .ask(&Request::new(Method::PUT, format!("/api/product/{product}"), body), &[200])
                .await?;
            self.promises().names.push((product, name));
        }
        Ok(())
    }

    async fn create(&self, mut lot: StdRng, until: Instant) -> anyhow::Result<()> {
        for number in 0.. {
            if !pause(&mut lot, 0.1..0.7, until).await {
                break;
            }
            let sku = sku("CREATED", number);
            let body = json!({
                "organisation": self.tenant.organisation, "eshops": [self.tenant.eshop], "productSku": sku,
                "internalSku": sku, "name": format!("Product {sku}"), "imeiCheckRequired": false, "active": true,
            });
            let create =
                Request::new(Method::POST, "/api/product", body.to_string()).with("idempotency-key", key());
            let reply = self.caller.ask(&create, &[201]).await?;
            let id = id_of(&reply.body).context("a created product has no id")?;
            self.promises().created.push((sku, id));
            self.repeat(&mut lot, &create, &reply).await?;
        }
        Ok(())
    }

    async fn switch(&self, mut lot: StdRng, until: Instant) -> anyhow::Result<()> {
        let products =
            (0..SWITCHED).map(|n| self.product(&sku("SWITCHED", n))).collect::<anyhow::Result<Vec<_>>>()?;
        // the same ones, either way
        let criteria = json!({ "criteria": { "productSku": { "like": "SWITCHED-" } }, "expect": SWITCHED });
        let (ids, criteria) = (json!(products).to_string(), criteria.to_string());
        let (mut on, mut tried) = (false, None);
        while pause(&mut lot, 2.0..6.0, until).await {
            let path = if on { "/api/product/activate" } else { "/api/product/deactivate" };
            let body = if lot.random_bool(0.5) { &ids } else { &criteria };
            let switch = Request::new(Method::PUT, path, body.clone())
                .with("idempotency-key", key())
                .with("prefer", "respond-async");
            let reply = self.caller.ask(&switch, &[202]).await?;
            let job = job(&reply, SWITCHED)?;
            {
                let mut promises = self.promises();
                promises.jobs.push(job);
                promises.switched = Some(on);
            }
            self.repeat(&mut lot, &switch, &reply).await?;
            on = !on;
            if lot.random_bool(0.5) {
                tried = self.try_switch(on, &products, tried).await?;
            }
        }
        Ok(())
    }

    /// Tries to switch products, which changes nothing, whatever breaks. The one before has ended: only few may wait.
    async fn try_switch(
        &self,
        on: bool,
        products: &[Uuid],
        before: Option<Uuid>,
    ) -> anyhow::Result<Option<Uuid>> {
        if let Some(before) = before {
            let look = Request::new(Method::GET, format!("/api/job/{before}"), String::new());
            if self.caller.ask(&look, &[200]).await?.body["finishedAt"].is_null() {
                return Ok(Some(before));
            }
        }
        let path = if on { "/api/product/activate" } else { "/api/product/deactivate" };
        let body = json!({ "ids": products, "dryRun": true }).to_string();
        let tried = Request::new(Method::PUT, path, body)
            .with("idempotency-key", key())
            .with("prefer", "respond-async");
        let tried = job(&self.caller.ask(&tried, &[202]).await?, SWITCHED)?;
        self.promises().jobs.push(tried);
        Ok(Some(tried.id))
    }

    async fn sync(&self, mut lot: StdRng, until: Instant) -> anyhow::Result<()> {
        for turn in 0.. {
            if !pause(&mut lot, 3.0..8.0, until).await {
                break;
            }
            let name = format!("sync {turn}");
            let mut body = json!({ "eshop": self.tenant.eshop }).to_string();
            for number in 0..SYNCED {
                _ = write!(body, "\n{}", json!({ "productSku": sku("SYNCED", number), "name": name }));
            }
            self.stream(&mut lot, SYNC_PRODUCTS, body).await?;
            self.promises().synced = Some(name);
        }
        Ok(())
    }

    async fn count(&self, mut lot: StdRng, until: Instant) -> anyhow::Result<()> {
        for turn in 1.. {
            if !pause(&mut lot, 3.0..8.0, until).await {
                break;
            }
            let mut body =
                json!({ "eshop": self.tenant.eshop, "warehouseId": self.tenant.warehouse }).to_string();
            for number in 0..SYNCED {
                _ = write!(body, "\n{}", json!({ "productSku": sku("SYNCED", number), "quantity": turn }));
            }
            self.stream(&mut lot, SYNC_STOCKS, body).await?;
            self.promises().counted = Some(turn);
        }
        Ok(())
    }

    async fn stream(&self, lot: &mut StdRng, path: &str, body: String) -> anyhow::Result<()> {
        let sync = Request::new(Method::POST, path, body)
            .with("content-type", NDJSON)
            .with("prefer", "respond-async")
            .with("idempotency-key", key());
        let reply = self.caller.ask(&sync, &[202]).await?;
        let job = job(&reply, SYNCED)?;
        self.promises().jobs.push(job);
        self.repeat(lot, &sync, &reply).await
    }

    async fn break_off(&self, mut lot: StdRng, until: Instant) -> anyhow::Result<()> {
        while pause(&mut lot, 3.0..10.0, until).await {
            let mut body = json!({ "eshop": self.tenant.eshop }).to_string();
            for number in 0..lot.random_range(1..2_000) {
                _ = write!(body, "\n{}", json!({ "productSku": sku("BROKEN", number), "name": "never" }));
            }
            let sync = Request::new(Method::POST, SYNC_PRODUCTS, body).with("content-type", NDJSON);
            self.caller.break_off(&sync).await;
            self.promises().broken_off += 1;
        }
        Ok(())
    }

    async fn read(&self, mut lot: StdRng, until: Instant) -> anyhow::Result<()> {
        let list = json!({ "criteria": { "organisation": { "eq": self.tenant.organisation } }, "limit": 50 });
        while pause(&mut lot, 0.1..0.6, until).await {
            let product = self.product(&sku("NAMED", lot.random_range(0..NAMERS * NAMED_EACH)))?;
            self.caller
                .ask(&Request::new(Method::GET, format!("/api/product/{product}"), ""), &[200])
                .await?;
            self.caller
                .ask(&Request::new(Method::POST, "/api/product/list", list.to_string()), &[200])
                .await?;
        }
        Ok(())
    }

    /// Sometimes repeats an answered request: the same body must get the same answer, and another body must
    /// be refused.
    async fn repeat(&self, lot: &mut StdRng, request: &Request, first: &Reply) -> anyhow::Result<()> {
        if lot.random_bool(0.3) {
            let again = self.caller.ask(request, &[first.status]).await?;
            if id_of(&again.body) != id_of(&first.body) || !again.replayed {
                self.caller.violation(format!(
                    "{} repeated: {} instead of {}",
                    request.path, again.body, first.body
                ));
            }
            self.promises().repeated += 1;
        }
        if lot.random_bool(0.2) {
            let mut other = request.clone();
            if request.path.ends_with("activate") {
                other.body = json!([Uuid::nil()]).to_string();
            } else if request.path == "/api/product" {
                other.body = request.body.replacen("Product ", "Another ", 1);
            } else {
                other.body = format!("{}\n", request.body.replacen("0001", "0000", 1));
            }
            self.caller.ask(&other, &[422]).await?;
            self.promises().contradicted += 1;
        }
        Ok(())
    }

    fn product(&self, sku: &str) -> anyhow::Result<Uuid> {
        self.products.get(sku).copied().with_context(|| format!("there is no product {sku}"))
    }
}

pub(super) fn job(reply: &Reply, items: usize) -> anyhow::Result<PromisedJob> {
    let id = id_of(&reply.body).with_context(|| format!("this is no job: {}", reply.body))?;
    Ok(PromisedJob { id, items })
}

pub(super) fn id_of(body: &serde_json::Value) -> Option<Uuid> {
    body["id"].as_str()?.parse().ok()
}

/// Waits a random time; `false` if the run is over.
pub(super) async fn pause(lot: &mut StdRng, seconds: Range<f64>, until: Instant) -> bool {
    tokio::time::sleep(Duration::from_secs_f64(lot.random_range(seconds))).await;
    Instant::now() < until
}

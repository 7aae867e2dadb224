//! A noisy neighbour: an organisation that floods the service during the faults. It requests bulk jobs and
//! syncs without a pause, the most expensive lists, many parallel changes of one row, and changes for
//! webhooks whose destinations hang.
//!
//! It may get 429; others must not get it because of the flood, and every accepted request must be executed
//! as usual. Most of its requests change nothing, so that few deliveries are left at the end.

use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures::future::try_join_all;
use http::Method;
use longshore_kernel::access::Role;
use longshore_kernel::services::Services;
use longshore_testkit::world::Tenant;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use serde_json::json;
use sqlx::PgConnection;
use uuid::Uuid;

use super::caller::{Caller, Request};
use super::fleet::{Misbehaviour, Shop};
use super::load::{NDJSON, PromisedJob, SYNC_PRODUCTS, id_of, job, key, pause};
use super::subscribe;

/// Its products, which are all active, and are activated again and again.
const PRODUCTS: usize = 1_000;

/// The products of a sync; one in [`NAMED_ANEW`] has a new name.
const SYNCED: usize = 500;
const NAMED_ANEW: usize = 50;

/// Its webhooks, whose destinations all hang.
const WEBHOOKS: usize = 4;

/// Parallel callers for bulk jobs and for lists.
const BULKS: u64 = 2;
const LISTS: u64 = 2;

/// Parallel requests for the same row: more than an organisation may have connections.
const CROWD: usize = 80;

/// Suppliers, whose notes are searched with a criterion that pairs each with all others.
const SUPPLIERS: i32 = 200;

/// How long creating its products may take before the faults.
const IN_WITHIN: Duration = Duration::from_mins(1);

/// The interval of checking that.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The organisation; see the module.
#[derive(Debug)]
pub(crate) struct Neighbour {
    pub(crate) caller: Caller,
    pub(crate) tenant: Tenant,
    /// Its webhooks and their destinations.
    pub(crate) shops: Vec<(Uuid, Shop)>,
    products: Vec<Uuid>,
    jobs: Mutex<Vec<PromisedJob>>,
}

fn row(number: usize, name: &str) -> String {
    format!("\n{}", json!({ "productSku": format!("NOISE-{number:04}"), "name": name }))
}

impl Neighbour {
    /// Creates it with its products and webhooks, whose destinations are at an address.
    pub(crate) async fn open(
        services: &Services,
        caller: &Caller,
        psql: &mut PgConnection,
        at: Ipv4Addr,
    ) -> anyhow::Result<Self> {
        let tenant = Tenant::create(services, "Noisy neighbour").await?;
        let caller = caller.flooding(&tenant.token(services, Role::User).await?)?;
        sqlx::query(
            "INSERT INTO supplier (id, organisation_id, name, active, note)
             SELECT uuid_v7(), $1, 'S' || n, true, repeat('a', 10000) FROM generate_series(1, $2) n",
        )
        .bind(tenant.organisation)
        .bind(SUPPLIERS)
        .execute(psql)
        .await?;
        let mut shops = Vec::new();
        for number in 1..=WEBHOOKS {
            let shop =
                Shop::open(at, &format!("of the neighbour, {number}"), Some(Misbehaviour::Hang)).await?;
            shops.push(subscribe(&caller, &tenant, shop, &json!({}), None).await?);
        }
        let mut neighbour = Self { caller, tenant, shops, products: Vec::new(), jobs: Mutex::default() };
        neighbour.sync((0..PRODUCTS).map(|number| row(number, "to begin with")).collect(), PRODUCTS).await?;
        let until = Instant::now() + IN_WITHIN;
        while neighbour.products.len() < PRODUCTS {
            let came = neighbour.products.len();
            anyhow::ensure!(Instant::now() < until, "{came} of {PRODUCTS} products of the neighbour came in");
            let list = json!({ "select": ["id"] }).to_string();
            let list = Request::new(Method::POST, "/api/product/list", list);
            let listed = neighbour.caller.ask(&list, &[200]).await?.body;
            neighbour.products =
                listed["results"].as_array().into_iter().flatten().filter_map(id_of).collect();
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        Ok(neighbour)
    }

    /// Its accepted jobs so far.
    pub(crate) fn jobs(&self) -> MutexGuard<'_, Vec<PromisedJob>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Floods until then.
    pub(crate) async fn flood(&self, seed: u64, until: Instant) -> anyhow::Result<()> {
        let lot = |n: u64| StdRng::seed_from_u64(seed ^ ((400 + n) << 32));
        self.shops.iter().for_each(|(_, shop)| shop.misbehave(shop.how));
        tokio::try_join!(
            try_join_all((0..BULKS).map(|n| self.switch_on(lot(n), until))),
            try_join_all((0..LISTS).map(|n| self.list(lot(100 + n), until))),
            self.sync_often(lot(200), until),
            self.switch_some(lot(201), until),
            self.crowd(lot(202), until),
        )?;
        Ok(())
    }

    /// Makes its destinations work from now on.
    pub(crate) fn be_well(&self) {
        self.shops.iter().for_each(|(_, shop)| shop.misbehave(None));
    }

    /// Activates products that are already active.
    async fn switch_on(&self, mut lot: StdRng, until: Instant) -> anyhow::Result<()> {
        let body = serde_json::to_string(&self.products[NAMED_ANEW..])?;
        while pause(&mut lot, 0.1..0.8, until).await {
            self.switch("/api/product/activate", &body, PRODUCTS - NAMED_ANEW).await?;
        }
        Ok(())
    }

    /// Switches some products off and on, which its webhooks receive.
    async fn switch_some(&self, mut lot: StdRng, until: Instant) -> anyhow::Result<()> {
        let body = serde_json::to_string(&self.products[..NAMED_ANEW])?;
        for path in ["/api/product/deactivate", "/api/product/activate"].into_iter().cycle() {
            if !pause(&mut lot, 0.5..3.0, until).await {
                break;
            }
            self.switch(path, &body, NAMED_ANEW).await?;
        }
        Ok(())
    }

    async fn switch(&self, path: &str, body: &str, items: usize) -> anyhow::Result<()> {
        let switch = Request::new(Method::PUT, path, body)
            .with("idempotency-key", key())
            .with("prefer", "respond-async");
        let promised = job(&self.caller.ask(&switch, &[202]).await?, items)?;
        self.jobs().push(promised);
        Ok(())
    }

    async fn sync_often(&self, mut lot: StdRng, until: Instant) -> anyhow::Result<()> {
        for turn in 0.. {
            if !pause(&mut lot, 0.5..3.0, until).await {
                break;
            }
            let name = |number: usize| format!("no {number}, {}", (number + turn) / NAMED_ANEW);
            self.sync((0..SYNCED).map(|number| row(number, &name(number))).collect(), SYNCED).await?;
        }
        Ok(())
    }

    async fn sync(&self, rows: String, items: usize) -> anyhow::Result<()> {
        let mut body = json!({ "eshop": self.tenant.eshop }).to_string();
        _ = write!(body, "{rows}");
        let sync = Request::new(Method::POST, SYNC_PRODUCTS, body)
            .with("content-type", NDJSON)
            .with("prefer", "respond-async")
            .with("idempotency-key", key());
        let promised = job(&self.caller.ask(&sync, &[202]).await?, items)?;
        self.jobs().push(promised);
        Ok(())
    }

    /// Requests the most expensive list.
    async fn list(&self, mut lot: StdRng, until: Instant) -> anyhow::Result<()> {
        let pattern = format!("{}b", "a".repeat(254));
        let body = json!({ "criteria": { "organisation.suppliers.note": { "like": pattern } } }).to_string();
        let list = Request::new(Method::POST, "/api/supplier/list", body);
        while pause(&mut lot, 0.5..3.0, until).await {
            self.attempt(&list, until).await?;
        }
        Ok(())
    }

    /// Writes an unchanged value with many parallel requests.
    async fn crowd(&self, mut lot: StdRng, until: Instant) -> anyhow::Result<()> {
        let product = self.products.last().context("it has no product")?;
        let body = json!({ "imeiCheckRequired": false }).to_string();
        let write = Request::new(Method::PUT, format!("/api/product/{product}"), body);
        while pause(&mut lot, 1.0..4.0, until).await {
            try_join_all((0..CROWD).map(|_| self.attempt(&write, until))).await?;
        }
        Ok(())
    }

    /// Sends a request once, and accepts a refusal.
    async fn attempt(&self, request: &Request, until: Instant) -> anyhow::Result<()> {
        let over = tokio::time::Instant::from_std(until);
        match tokio::time::timeout_at(over, self.caller.attempt(request, &[200])).await {
            Ok(answered) => answered.map(drop),
            // the run is over
            Err(_) => Ok(()),
        }
    }
}

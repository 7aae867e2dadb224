//! Breaks one thing at a time and measures the effect; rows may have bounds.
//!
//! Each row has its own tenant on one [`Site`]. To add one: a function in a file below, and a line in
//! [`all`].

mod destination;
mod headers;
mod retry;
mod server;
mod worker;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use http::Method;
use longshore_kernel::access::Role as AccessRole;
use longshore_testkit::services;
use longshore_testkit::stack::programs;
use longshore_testkit::world::Tenant;
use serde_json::json;
use uuid::Uuid;

use super::caller::{Caller, Request};
use super::check;
use super::fleet::Shop;
use super::load::id_of;
use super::site::Site;
use crate::measure::Row;

/// MiB for Postgres.
const ROOM: u64 = 2048;

/// Changes per second in measurements at a steady rate.
const RATE: f64 = 50.0;

/// An operation that takes longer hangs.
const HUNG: Duration = Duration::from_mins(3);

/// The names of the rows.
pub const NAMES: [&str; 13] = [
    "retries", "flush", "streams", "away", "kill", "thrice", "crash", "snapshot", "slow", "drip", "large",
    "key", "headers",
];

/// Measures rows (all of [`NAMES`] if none is named), and reports each when it is done. `divisor` makes them
/// smaller.
///
/// # Errors
/// If one cannot be measured; those before it were reported.
pub async fn all(divisor: usize, only: &[String], tell: impl Fn(&Row)) -> anyhow::Result<Vec<Row>> {
    let site = Site::start(ROOM, programs()?).await?;
    let mut rows = Vec::new();
    macro_rules! take {
        ($($name:literal => $taken:expr;)*) => {
            $(if only.is_empty() || only.iter().any(|only| only == $name) {
                let taken = Box::pin($taken).await;
                let taken = taken.with_context(|| format!("{}\n{}", $name, site.ends_of_logs()))?;
                taken.iter().for_each(&tell);
                rows.extend(taken);
            })*
        };
    }
    take! {
        "retries" => retry::at_once(&site, 10_000 / divisor);
        "flush" => server::flush(&site, 6_000 / divisor);
        "streams" => server::streams(&site, 6_000 / divisor);
        "away" => server::away(&site, 400 / divisor);
        "kill" => worker::kill(&site, 6_000 / divisor);
        "thrice" => worker::thrice(&site);
        "crash" => server::crash(&site);
        "snapshot" => server::snapshot(&site, 120_000 / divisor);
        "slow" => destination::slow(&site, 600 / divisor);
        "drip" => destination::drip(&site);
        "large" => destination::large(&site);
        "key" => server::key(&site);
        "headers" => headers::flood(&site);
    }
    Ok(rows)
}

/// A tenant with products, and its caller.
struct Scene {
    caller: Caller,
    tenant: Tenant,
}

impl Scene {
    async fn new(site: &Site, name: &str) -> anyhow::Result<Self> {
        site.be_ready().await?;
        let services = services::for_test(&site.postgres.url.as_str().parse()?)?;
        let tenant = Tenant::create(&services, name).await?;
        let token = tenant.token(&services, AccessRole::User).await?;
        Ok(Self { caller: Caller::new(site.bases(), &token)?, tenant })
    }

    /// Creates products with a sync; returns their ids.
    async fn products(&self, count: usize) -> anyhow::Result<Vec<Uuid>> {
        let mut body = json!({ "eshop": self.tenant.eshop }).to_string();
        for number in 0..count {
            _ = write!(body, "\n{}", json!({ "productSku": format!("P-{number}"), "name": "to begin with" }));
        }
        let sync = Request::new(Method::POST, "/api/partner-integration/eshop/sync/products", body)
            .with("content-type", "application/x-ndjson")
            .with("prefer", "wait=60");
        self.caller.ask(&sync, &[200, 202]).await?;
        let list =
            json!({ "criteria": { "organisation": { "eq": self.tenant.organisation } }, "select": ["id"] });
        let list = Request::new(Method::POST, "/api/product/list", list.to_string());
        let until = Instant::now() + HUNG;
        loop {
            let listed = self.caller.ask(&list, &[200]).await?.body;
            let products: Vec<Uuid> = listed["results"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|product| product["id"].as_str()?.parse().ok())
                .collect();
            if products.len() == count {
                return Ok(products);
            }
            anyhow::ensure!(Instant::now() < until, "{} of {count} products came in", products.len());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Subscribes a working shop to changes of products.
    async fn shop(&self, name: &str) -> anyhow::Result<Shop> {
        let shop = Shop::open(Ipv4Addr::LOCALHOST, name, None).await?;
        let body = json!({ "eshop": self.tenant.eshop, "event": "product_change", "destination": shop.url(),
                           "active": true });
        let create = Request::new(Method::POST, "/api/eshop-webhook", body.to_string());
        let made = self.caller.ask(&create, &[201]).await?.body;
        shop.believe(made["secret"].as_str().context("a webhook without a secret")?)?;
        Ok(shop)
    }

    /// Switches products off or on in bulk; returns the job.
    async fn switch(&self, on: bool, products: &[Uuid]) -> anyhow::Result<Uuid> {
        let path = if on { "/api/product/activate" } else { "/api/product/deactivate" };
        let switch = Request::new(Method::PUT, path, serde_json::to_string(products)?)
            .with("prefer", "respond-async")
            .with("idempotency-key", longshore_kernel::ids::random_id().to_string());
        id_of(&self.caller.ask(&switch, &[202]).await?.body).context("a job without an id")
    }

    /// Renames products at a steady rate; returns how long each change takes to reach a shop, in
    /// milliseconds, sorted.
    async fn change_to_webhook(
        &self,
        shop: &Shop,
        products: &[Uuid],
        name: &str,
    ) -> anyhow::Result<Vec<f64>> {
        let (mut asked, before) = (HashMap::new(), shop.book().moments.len());
        let accepted = shop.book().accepted.len();
        let mut ticks = tokio::time::interval(Duration::from_secs_f64(1.0 / RATE));
        for product in products {
            ticks.tick().await;
            asked.insert(*product, Instant::now());
            self.rename(*product, name).await?;
        }
        shop.accepts(accepted + products.len(), HUNG).await?;
        let book = shop.book();
        let recorded = book.moments[before..].iter();
        let mut waits: Vec<f64> = recorded
            .filter_map(|(product, came)| Some(1_000.0 * (*came - *asked.get(product)?).as_secs_f64()))
            .collect();
        waits.sort_by(f64::total_cmp);
        Ok(waits)
    }

    /// Renames a product.
    async fn rename(&self, product: Uuid, name: &str) -> anyhow::Result<()> {
        let body = json!({ "name": name }).to_string();
        let rename = Request::new(Method::PUT, format!("/api/product/{product}"), body);
        self.caller.ask(&rename, &[200]).await.map(drop)
    }

    /// The number of answers with a status.
    fn answers(&self, status: &str) -> u64 {
        self.caller.tally().answers.get(status).copied().unwrap_or(0)
    }
}

/// Waits until all work is done.
async fn quiet(site: &Site) -> anyhow::Result<()> {
    let left = check::be_quiet(site, HUNG).await?;
    anyhow::ensure!(left.is_none(), "{left:?}");
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "counts of a table, far below 2^52")]
fn count(count: u64) -> f64 {
    count as f64
}

//! The partners: external systems whose catalogues the worker reads, to which it sends stocks, and which
//! misbehave for a while.
//!
//! Each has its own organisation, whose syncs run one after another, so one that misbehaves delays no other.
//! Its catalogue has editions with different product names; the last one must have been read at the end. Its
//! stocks, which are counted and ordered from, must then be the available ones, and it must not have been asked
//! for anything else.
//!
//! [`Serves`] describes a partner and its misbehaviours. There is a [`feed`] for each of their mischiefs, and
//! a [`baselinker`] account with all of its mischiefs, one at a time; several e-shops share that account,
//! because its limit applies to a token. A new kind of partner is a module with an `impl Serves`, a variant
//! of [`Mischief`], and its place in [`open_all`].

mod baselinker;
mod feed;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use futures::future::try_join_all;
use http::Method;
use longshore_kernel::access::Role;
use longshore_kernel::services::Services;
use longshore_testkit::world::Tenant;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};
use uuid::Uuid;

use self::baselinker::Account;
use self::feed::Feed;
use super::caller::{Caller, Request};
use super::load::{NDJSON, PromisedJob, SYNC_PRODUCTS, SYNC_STOCKS, id_of, key, pause};

/// A misbehaviour of a partner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mischief {
    /// One of a feed.
    Feed(feed::Mischief),
    /// One of the BaseLinker account.
    BaseLinker(baselinker::Mischief),
}

/// Products of a catalogue: more than one page.
pub(crate) const PRODUCTS: usize = 1_100;

/// Products per stock count.
const COUNTED: usize = 50;

/// Products per order.
const ORDERED: usize = 3;

/// Pieces that are not offered to a partner.
const RESERVE: i64 = 2;

/// How long the first sync may take before the faults.
const FIRST_WITHIN: Duration = Duration::from_mins(1);

impl Mischief {
    /// All misbehaviours.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let feeds = feed::Mischief::ALL.into_iter().map(Self::Feed);
        feeds.chain(baselinker::Mischief::ALL.into_iter().map(Self::BaseLinker))
    }

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Feed(how) => how.as_str(),
            Self::BaseLinker(how) => how.as_str(),
        }
    }
}

/// The SKU of a product of a catalogue.
pub(crate) fn sku(number: usize) -> String {
    format!("ITEM-{number:04}")
}

/// The name of a product in an edition: each edition renames a tenth of all products.
pub(crate) fn name(number: usize, edition: usize) -> String {
    format!("no {number}, edition {}", (edition + number) / 10)
}

/// Where a partner has its products and stocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// The id of its only inventory.
    inventory: &'static str,
    /// The id of its only warehouse.
    warehouse: &'static str,
}

/// A fake partner.
pub(crate) trait Serves: fmt::Debug + Send + Sync {
    /// Its inventory and warehouse.
    fn place(&self) -> Place;

    /// The integration setting of its e-shop.
    fn setting(&self) -> Value;

    /// Whether it has this misbehaviour.
    fn does(&self, how: Mischief) -> bool;

    /// The edition of its catalogue.
    fn edition(&self) -> usize;

    /// Publishes the next edition.
    fn publish(&self);

    /// Starts a misbehaviour, with its planned duration; [`Serves::behave`] ends it.
    fn misbehave(&self, how: Mischief, lasts: Duration);

    /// Ends the misbehaviour.
    fn behave(&self);

    /// Releases calls that it has kept waiting.
    fn let_go(&self) {}

    /// Evaluates the requests since the last look, which then need not be kept.
    fn look(&self) {}

    /// The pause of its e-shop between two requests, in seconds.
    fn pace(&self) -> Range<f64> {
        2.0..6.0
    }

    /// The number of unfinished syncs at which its e-shop requests no more, if there is such a limit.
    fn bears(&self) -> Option<usize> {
        None
    }

    /// Whether its misbehaviour may be the reason for a job that failed with this error.
    fn explains(&self, error: &str) -> bool;

    /// Its id of a product.
    fn item(&self, number: usize) -> String;

    /// The quantities that it offers, by SKU.
    fn offers(&self) -> BTreeMap<String, i64>;

    /// The results of all requests to it.
    fn book(&self) -> Book;
}

/// The results of all requests to a partner.
#[derive(Debug)]
pub(crate) struct Book {
    /// The number of requests.
    pub(crate) asked: u64,
    /// Requests that it should never get.
    pub(crate) odd: Vec<String>,
    /// How its limit was respected, if it has one.
    pub(crate) limited: Option<Limited>,
    /// The number of requests during each misbehaviour, and other figures for the report.
    pub(crate) figures: Vec<(String, u64)>,
}

/// How a limit was respected.
#[derive(Debug)]
pub(crate) struct Limited {
    /// The time of each request, in order.
    pub(crate) came: Vec<Instant>,
    /// Each request over the limit: its time, and the number of requests in the window that it ended.
    pub(crate) over: Vec<(Instant, usize)>,
}

/// The promises.
#[derive(Debug, Default)]
pub(crate) struct Promises {
    /// Syncs and send-outs.
    pub(crate) syncs: BTreeSet<Uuid>,
    /// Accepted stock counts.
    pub(crate) counts: Vec<PromisedJob>,
    /// The last counted quantities, by SKU.
    counted: HashMap<String, i64>,
    /// The last sync, which starts after the faults.
    pub(crate) last: Option<Uuid>,
}

/// A partner and the e-shop that uses it.
#[derive(Debug)]
pub(crate) struct Partner {
    /// Its name.
    pub(crate) name: &'static str,
    pub(crate) tenant: Tenant,
    number: u64,
    caller: Caller,
    carrier: Uuid,
    /// The fake that the worker calls.
    pub(crate) serves: Arc<dyn Serves>,
    /// Whether another e-shop has the same partner, and sends stocks to it.
    shares: bool,
    promises: Mutex<Promises>,
}

/// Opens all of them: a feed for each misbehaviour of feeds (one if none misbehaves), and a BaseLinker account that several e-shops
/// share. They listen at an address.
pub(crate) async fn open_all(
    services: &Services,
    caller: &Caller,
    carrier: Uuid,
    at: Ipv4Addr,
    misbehaves: bool,
) -> anyhow::Result<Vec<Partner>> {
    let mut wanted: Vec<(&str, Arc<dyn Serves>)> = Vec::new();
    let feeds = if misbehaves { feed::Mischief::ALL.len() } else { 1 };
    for how in feed::Mischief::ALL.into_iter().take(feeds) {
        wanted.push((how.as_str(), Arc::new(Feed::open(at, how).await?)));
    }
    let account: Arc<dyn Serves> = Arc::new(Account::open(at).await?);
    wanted.extend(baselinker::NAMES.map(|name| (name, Arc::clone(&account))));
    let open = (0..).zip(wanted).map(async |(number, (name, serves))| {
        let tenant = Tenant::create(services, &format!("Partner: {name}")).await?;
        let caller = caller.with_token(&tenant.token(services, Role::User).await?)?;
        let shares = baselinker::NAMES[1..].contains(&name);
        let promises = Mutex::default();
        let partner = Partner { name, tenant, number, caller, carrier, serves, shares, promises };
        partner.store_setting(60).await?;
        anyhow::Ok(partner)
    });
    try_join_all(open).await
}

/// The e-shops that send stocks: one for each partner.
pub(crate) fn synced(partners: &[Partner]) -> impl Iterator<Item = &Partner> {
    partners.iter().filter(|partner| !partner.shares)
}

/// Makes the worker read each partner's last edition, and send it all differing stocks.
pub(crate) async fn conclude(partners: &[Partner]) -> anyhow::Result<()> {
    synced(partners).for_each(|partner| partner.serves.publish());
    try_join_all(partners.iter().map(Partner::conclude)).await.map(drop)
}

impl Partner {
    /// Reads its catalogue for the first time.
    pub(crate) async fn begin(&self) -> anyhow::Result<()> {
        let first = self.sync().await?;
        let until = Instant::now() + FIRST_WITHIN;
        loop {
            let look = Request::new(Method::GET, format!("/api/job/{first}"), "");
            let job = self.caller.ask(&look, &[200]).await?.body;
            match job["state"].as_str() {
                Some("succeeded") => return Ok(()),
                Some("queued" | "running") if Instant::now() < until => {}
                _ => bail!("the first sync of a partner: {job}"),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Stores the setting of the e-shop; storing it again retries syncs that had failed permanently.
    async fn store_setting(&self, minutes: u32) -> anyhow::Result<()> {
        let Place { inventory, warehouse } = self.serves.place();
        let mut setting = self.serves.setting();
        setting["inventories"] = json!([{ "inventoryId": inventory }]);
        setting["warehouses"] = json!([{ "warehouseId": warehouse, "warehouse": self.tenant.warehouse }]);
        setting["stockSync"] =
            json!({ "enabled": !self.shares, "intervalMinutes": minutes, "reserve": RESERVE });
        let path = format!("/api/partner-integration/eshop-setting/{}", self.tenant.eshop);
        self.caller.ask(&Request::new(Method::POST, path, setting.to_string()), &[200]).await.map(drop)
    }

    /// The promises so far.
    pub(crate) fn promises(&self) -> MutexGuard<'_, Promises> {
        lock(&self.promises)
    }

    /// The quantity of a product that it should offer, although orders hold some of its pieces.
    pub(crate) fn available(&self, sku: &str, held: i64) -> i64 {
        self.promises().counted.get(sku).map_or(0, |counted| 0.max(counted - held - RESERVE))
    }

    /// Starts a misbehaviour for a while, and first requests a sync that meets it.
    pub(crate) async fn misbehave(&self, how: Mischief, lasts: Duration) -> anyhow::Result<()> {
        let over = tokio::time::Instant::now() + lasts;
        self.serves.misbehave(how, lasts);
        // a sync that is not accepted in this time is not promised
        if let Ok(provoked) = tokio::time::timeout_at(over, self.sync_anew()).await {
            provoked?;
        }
        tokio::time::sleep_until(over).await;
        self.serves.behave();
        Ok(())
    }

    /// Requests syncs, stock counts and send-outs until then.
    pub(crate) async fn work(&self, seed: u64, until: Instant) -> anyhow::Result<()> {
        let mut lot = StdRng::seed_from_u64(seed ^ ((300 + self.number) << 32));
        for turn in 0.. {
            if !pause(&mut lot, self.serves.pace(), until).await {
                break;
            }
            // an e-shop that shares its partner does nothing with stocks
            match lot.random_range(0..if self.shares { 3 } else { 8 }) {
                0..3 if self.is_busy().await? => {}
                0 => _ = self.sync().await?,
                1 | 2 => _ = self.sync_anew().await?,
                3 | 4 => self.count(&mut lot).await?,
                5 => self.send_out().await?,
                _ => self.order(&mut lot, turn).await?,
            }
            self.serves.look();
        }
        Ok(())
    }

    /// Whether its partner's maximum number of unfinished syncs is reached. A repeated request returns the
    /// job that waits only until that has begun.
    async fn is_busy(&self) -> anyhow::Result<bool> {
        let Some(bears) = self.serves.bears() else { return Ok(false) };
        let list = json!({
            "criteria": { "eshop": { "eq": self.tenant.eshop }, "kind": { "eq": "product.sync" },
                          "state": { "in": ["queued", "running", "retrying"] } },
            "select": ["id"], "limit": bears,
        });
        let list = Request::new(Method::POST, "/api/job/list", list.to_string());
        let listed = self.caller.ask(&list, &[200]).await?.body;
        Ok(listed["results"].as_array().is_none_or(|under_way| under_way.len() >= bears))
    }

    /// After the faults: releases hanging calls, and retries syncs that had failed permanently.
    pub(crate) async fn be_well(&self) -> anyhow::Result<()> {
        self.serves.let_go();
        self.store_setting(61).await
    }

    /// Reads its last edition, and sends all differing stocks.
    async fn conclude(&self) -> anyhow::Result<()> {
        let last = self.sync().await?;
        self.promises().last = Some(last);
        if !self.shares {
            self.send_out().await?;
        }
        Ok(())
    }

    async fn sync_anew(&self) -> anyhow::Result<Uuid> {
        self.serves.publish();
        self.sync().await
    }

    async fn sync(&self) -> anyhow::Result<Uuid> {
        let body =
            json!({ "eshop": self.tenant.eshop, "inventoryId": self.serves.place().inventory }).to_string();
        self.accepted(SYNC_PRODUCTS, body).await
    }

    async fn send_out(&self) -> anyhow::Result<()> {
        let body =
            json!({ "eshop": self.tenant.eshop, "warehouseId": self.serves.place().warehouse }).to_string();
        self.accepted(SYNC_STOCKS, body).await.map(drop)
    }

    async fn accepted(&self, path: &str, body: String) -> anyhow::Result<Uuid> {
        let sync = Request::new(Method::POST, path, body)
            .with("prefer", "respond-async")
            .with("idempotency-key", key());
        let reply = self.caller.ask(&sync, &[202]).await?;
        let job = id_of(&reply.body).with_context(|| format!("this is no job: {}", reply.body))?;
        self.promises().syncs.insert(job);
        Ok(job)
    }

    /// Orders a few pieces of products that were counted, and sometimes cancels the order.
    async fn order(&self, lot: &mut StdRng, turn: usize) -> anyhow::Result<()> {
        let counted: Vec<String> = self.promises().counted.keys().cloned().collect();
        let items: Vec<Value> = counted
            .choose_multiple(lot, ORDERED)
            .map(|sku| json!({ "productSku": sku, "quantity": lot.random_range(1..4) }))
            .collect();
        if items.is_empty() {
            return Ok(());
        }
        let body = json!({
            "eshop": self.tenant.eshop, "orderNumber": format!("O-{turn}"), "value": 1, "currency": "EUR",
            "carrier": self.carrier, "ignoreAddressValidation": true, "items": items, "send": true,
        });
        let create =
            Request::new(Method::POST, "/api/expedition", body.to_string()).with("idempotency-key", key());
        let made = self.caller.ask(&create, &[201]).await?.body;
        if lot.random_bool(0.3) {
            let id = id_of(&made).with_context(|| format!("this is no order: {made}"))?;
            let cancel = Request::new(Method::PUT, format!("/api/expedition/{id}/cancel"), "");
            self.caller.ask(&cancel, &[200]).await?;
        }
        Ok(())
    }

    async fn count(&self, lot: &mut StdRng) -> anyhow::Result<()> {
        let first = lot.random_range(0..PRODUCTS - COUNTED);
        let counts: Vec<(String, i64)> =
            (first..first + COUNTED).map(|number| (sku(number), lot.random_range(0..40))).collect();
        let head = json!({ "eshop": self.tenant.eshop, "warehouseId": self.tenant.warehouse });
        let body = counts.iter().fold(head.to_string(), |mut body, (sku, quantity)| {
            _ = write!(body, "\n{}", json!({ "productSku": sku, "quantity": quantity }));
            body
        });
        let sync = Request::new(Method::POST, SYNC_STOCKS, body)
            .with("content-type", NDJSON)
            .with("prefer", "respond-async")
            .with("idempotency-key", key());
        let reply = self.caller.ask(&sync, &[202]).await?;
        let id = id_of(&reply.body).with_context(|| format!("this is no job: {}", reply.body))?;
        let mut promises = self.promises();
        promises.counts.push(PromisedJob { id, items: COUNTED });
        promises.counted.extend(counts);
        Ok(())
    }
}

/// Ignores poisoning: the run fails anyway if a thread panicked while it held the lock.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edition_renames_a_tenth_of_all_products() {
        let differ = |edition| (0..PRODUCTS).filter(|n| name(*n, edition) != name(*n, edition + 1)).count();
        assert!((0..20).all(|edition| differ(edition) == PRODUCTS / 10));
    }
}

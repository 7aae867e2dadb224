//! The partners: e-shops whose catalogue the worker reads, and whom it tells of stocks, and which misbehave for a while.
//!
//! Each belongs to an organisation of its own, whose syncs run one after the other: who misbehaves holds up nobody else. Its
//! catalogue has editions, which name its products differently; the last one must have come in when all is over. What it was
//! told of stocks is what is available then, and it was asked for nothing that is not its own.
//!
//! What a partner is, and how it misbehaves, is told by [`Serves`]: a [`feed`], of which each mischief has one, or an account
//! of [`baselinker`], which has them all, one at a time, and which several e-shops share: its limit is that of a token. A new kind of partner is a module with an `impl Serves`, a variant of
//! [`Mischief`], and its place in [`open_all`].

mod baselinker;
mod feed;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use futures::future::try_join_all;
use http::Method;
use longshore_shared::platform::access::Role;
use longshore_shared::platform::services::Services;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};
use uuid::Uuid;

use self::baselinker::Account;
use self::feed::Feed;
use super::caller::{Caller, Request};
use super::load::{NDJSON, PromisedJob, SYNC_PRODUCTS, SYNC_STOCKS, id_of, key, pause};
use crate::world::Tenant;

/// What a partner does badly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mischief {
    /// What a feed does.
    Feed(feed::Mischief),
    /// What the account of BaseLinker does.
    BaseLinker(baselinker::Mischief),
}

/// Products of a catalogue: more than a page has.
pub(crate) const PRODUCTS: usize = 1_100;

/// Products that are counted at once.
const COUNTED: usize = 50;

/// Pieces that a partner is not told of.
const RESERVE: i64 = 2;

/// How long a first sync may take, while nothing is broken.
const FIRST_WITHIN: Duration = Duration::from_mins(1);

impl Mischief {
    /// All of them.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let feeds = feed::MISCHIEFS.into_iter().map(Self::Feed);
        feeds.chain(baselinker::MISCHIEFS.into_iter().map(Self::BaseLinker))
    }

    /// What it is called.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Feed(how) => how.name(),
            Self::BaseLinker(how) => how.name(),
        }
    }
}

/// SKU of a product of a catalogue.
pub(crate) fn sku(number: usize) -> String {
    format!("ITEM-{number:04}")
}

/// Its name in an edition: each edition names a tenth of all anew.
pub(crate) fn name(number: usize, edition: usize) -> String {
    format!("no {number}, edition {}", (edition + number) / 10)
}

/// Where a partner has its products, and their stocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// What it calls its only inventory.
    inventory: &'static str,
    /// What it calls its only warehouse.
    warehouse: &'static str,
}

/// Whom the worker asks, and tells.
pub(crate) trait Serves: fmt::Debug + Send + Sync {
    /// Where it has what.
    fn place(&self) -> Place;

    /// What the setting of its e-shop says of it.
    fn setting(&self) -> Value;

    /// Whether this is one of its mischiefs.
    fn does(&self, how: Mischief) -> bool;

    /// The edition of its catalogue.
    fn edition(&self) -> usize;

    /// Names its products as the next edition does.
    fn publish(&self);

    /// Misbehaves from now on; it is told to behave when this is to be over.
    fn misbehave(&self, how: Mischief, lasts: Duration);

    /// Is well from now on.
    fn behave(&self);

    /// Lets go whom it has kept waiting.
    fn let_go(&self) {}

    /// Looks at what it was asked since the last look, which need not be kept any longer then.
    fn look(&self) {}

    /// How long its e-shop rests between two requests, in seconds.
    fn pace(&self) -> Range<f64> {
        2.0..6.0
    }

    /// How many syncs of an e-shop may be under way before it asks for another, if that matters.
    fn bears(&self) -> Option<usize> {
        None
    }

    /// Whether a job may have failed for good with this error by what it did badly.
    fn explains(&self, error: &str) -> bool;

    /// What it calls the product of a number.
    fn item(&self, number: usize) -> String;

    /// Pieces that it offers, by SKU.
    fn offers(&self) -> BTreeMap<String, i64>;

    /// What came of all that it was asked.
    fn book(&self) -> Book;
}

/// What came of all that a partner was asked.
#[derive(Debug)]
pub(crate) struct Book {
    /// How many requests came.
    pub(crate) asked: u64,
    /// What it should never have been asked.
    pub(crate) odd: Vec<String>,
    /// How its limit was kept, where it has one.
    pub(crate) limited: Option<Limited>,
    /// How many requests met a mischief, and whatever else is to be reported.
    pub(crate) figures: Vec<(String, u64)>,
}

/// How a limit was kept.
#[derive(Debug)]
pub(crate) struct Limited {
    /// When each request came, in order.
    pub(crate) came: Vec<Instant>,
    /// Each that was over the limit: when it came, and how many had come in the window that it ended.
    pub(crate) over: Vec<(Instant, usize)>,
}

/// What was promised.
#[derive(Debug, Default)]
pub(crate) struct Promises {
    /// Syncs and send-outs.
    pub(crate) syncs: BTreeSet<Uuid>,
    /// Counts of stocks that were brought.
    pub(crate) counts: Vec<PromisedJob>,
    /// Pieces that were counted last, by SKU.
    counted: HashMap<String, i64>,
    /// The sync that was started when everything was well.
    pub(crate) last: Option<Uuid>,
}

/// A partner, and who works with it.
#[derive(Debug)]
pub(crate) struct Partner {
    /// What it is called.
    pub(crate) name: &'static str,
    pub(crate) tenant: Tenant,
    number: u64,
    caller: Caller,
    /// Whom the worker meets there.
    pub(crate) serves: Arc<dyn Serves>,
    /// Whether another e-shop has the same partner, and is the one that sends stocks to it.
    shares: bool,
    promises: Mutex<Promises>,
}

/// Opens all of them: a feed for each of their mischiefs, and an account of BaseLinker, which several e-shops share.
pub(crate) async fn open_all(services: &Services, caller: &Caller) -> anyhow::Result<Vec<Partner>> {
    let mut wanted: Vec<(&str, Arc<dyn Serves>)> = Vec::new();
    for how in feed::MISCHIEFS {
        wanted.push((how.name(), Arc::new(Feed::open(how).await?)));
    }
    let account: Arc<dyn Serves> = Arc::new(Account::open().await?);
    wanted.extend(baselinker::NAMES.map(|name| (name, Arc::clone(&account))));
    let open = (0..).zip(wanted).map(async |(number, (name, serves))| {
        let tenant = Tenant::create(services, &format!("Partner: {name}")).await?;
        let caller = caller.with_token(tenant.token(services, Role::User).await?);
        let shares = baselinker::NAMES[1..].contains(&name);
        let partner = Partner { name, tenant, number, caller, serves, shares, promises: Mutex::default() };
        partner.store_setting(60).await?;
        anyhow::Ok(partner)
    });
    try_join_all(open).await
}

/// Those that are told of stocks: each partner once.
pub(crate) fn told(partners: &[Partner]) -> impl Iterator<Item = &Partner> {
    partners.iter().filter(|partner| !partner.shares)
}

/// Has each partner read in its last edition, and be sent everything that it does not have.
pub(crate) async fn conclude(partners: &[Partner]) -> anyhow::Result<()> {
    told(partners).for_each(|partner| partner.serves.publish());
    try_join_all(partners.iter().map(Partner::conclude)).await.map(drop)
}

impl Partner {
    /// Has its catalogue read for the first time.
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

    /// Whoever minds the e-shop stores its setting; anew, it lets what failed for good be tried again.
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

    /// What was promised so far.
    pub(crate) fn promises(&self) -> MutexGuard<'_, Promises> {
        lock(&self.promises)
    }

    /// Pieces of a product that it should offer.
    pub(crate) fn available(&self, sku: &str) -> i64 {
        self.promises().counted.get(sku).map_or(0, |counted| 0.max(counted - RESERVE))
    }

    /// Misbehaves for so long; at first, its catalogue is to be read.
    pub(crate) async fn misbehave(&self, how: Mischief, lasts: Duration) -> anyhow::Result<()> {
        let over = tokio::time::Instant::now() + lasts;
        self.serves.misbehave(how, lasts);
        // what is not accepted in this time is nobody's promise
        if let Ok(provoked) = tokio::time::timeout_at(over, self.sync_anew()).await {
            provoked?;
        }
        tokio::time::sleep_until(over).await;
        self.serves.behave();
        Ok(())
    }

    /// Has its catalogue synced, its stocks counted and sent out, until then.
    pub(crate) async fn work(&self, seed: u64, until: Instant) -> anyhow::Result<()> {
        let mut lot = StdRng::seed_from_u64(seed ^ ((300 + self.number) << 32));
        while pause(&mut lot, self.serves.pace(), until).await {
            // who only shares has nothing to do with stocks
            match lot.random_range(0..if self.shares { 3 } else { 6 }) {
                0..3 if self.is_busy().await? => {}
                0 => _ = self.sync().await?,
                1 | 2 => _ = self.sync_anew().await?,
                3 | 4 => self.count(&mut lot).await?,
                _ => self.send_out().await?,
            }
            self.serves.look();
        }
        Ok(())
    }

    /// Whether as many of its syncs are under way as its partner bears. An equal request is answered by the job that waits
    /// only as long as that has not begun.
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

    /// Nothing is broken any more: lets go what hangs, and what had failed for good be tried again.
    pub(crate) async fn be_well(&self) -> anyhow::Result<()> {
        self.serves.let_go();
        self.store_setting(61).await
    }

    /// Has its edition read, and everything sent that it does not have.
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

/// A judge that panicked left nothing half done that matters: a run that it spoils, fails.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edition_names_a_tenth_of_all_products_anew() {
        let differ = |edition| (0..PRODUCTS).filter(|n| name(*n, edition) != name(*n, edition + 1)).count();
        assert!((0..20).all(|edition| differ(edition) == PRODUCTS / 10));
    }
}

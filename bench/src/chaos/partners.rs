//! The partners: e-shops whose feed the worker reads, and tells of stocks, and which misbehave for a while each in a way of
//! its own.
//!
//! Each belongs to an organisation of its own, whose syncs run one after the other: who misbehaves holds up nobody else. Its
//! feed has editions, which name its products differently; the last one must have come in when all is over. What it was
//! told of stocks is what is available then, and it was asked for nothing that is not its own.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use http::header::ETAG;
use http::{Method, StatusCode};
use longshore_shared::account::access::Role;
use longshore_shared::platform::services::Services;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

use super::caller::{Caller, Request};
use super::load::{NDJSON, PromisedJob, SYNC_PRODUCTS, SYNC_STOCKS, id_of, key, pause};
use crate::receiver::{Answer, By, Document, Gate, Receipt, Receiver};
use crate::world::Tenant;

/// What a partner does badly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mischief {
    /// Does not answer.
    Hang,
    /// Answers 500, or that it wants to be left alone for a moment.
    Fail,
    /// Gives what is no feed, or not quite; takes stocks, and answers what nobody understands.
    Malformed,
    /// Gives half of its feed; takes stocks, and ends the connection instead of saying so.
    Cut,
    /// Answers a redirect.
    Redirect,
}

/// All of them; each is one partner's.
pub(crate) const MISCHIEFS: [Mischief; 5] =
    [Mischief::Hang, Mischief::Fail, Mischief::Malformed, Mischief::Cut, Mischief::Redirect];

/// Products of a feed: more than a page has.
pub(crate) const PRODUCTS: usize = 1_100;

/// Products that are counted at once.
const COUNTED: usize = 50;

/// Pieces that a partner is not told of.
const RESERVE: i64 = 2;

/// What it calls its only inventory, and its only warehouse.
const INVENTORY: &str = "main";
const WAREHOUSE: &str = "W1";

/// How long a first sync may take, while nothing is broken.
const FIRST_WITHIN: Duration = Duration::from_mins(1);

impl Mischief {
    /// What it is called.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Hang => "hangs",
            Self::Fail => "answers 500, or wants to be left alone",
            Self::Malformed => "gives what is no feed",
            Self::Cut => "gives half of it",
            Self::Redirect => "redirects",
        }
    }

    /// Whether a job may fail for good by it; the others pass.
    pub(crate) fn is_permanent(self) -> bool {
        matches!(self, Self::Malformed | Self::Redirect)
    }
}

/// SKU of a product of a feed.
pub(crate) fn sku(number: usize) -> String {
    format!("FEED-{number:04}")
}

/// Its name in an edition: each edition names a tenth of all anew.
pub(crate) fn name(number: usize, edition: usize) -> String {
    format!("no {number}, edition {}", (edition + number) / 10)
}

/// What a partner was told, and asked.
#[derive(Debug, Default)]
pub(crate) struct Book {
    /// Pieces that it was told last, by SKU.
    pub(crate) stocks: HashMap<String, i64>,
    /// What it should never have been asked.
    pub(crate) odd: Vec<String>,
    /// Requests, and those of them that it misbehaved at: when its feed was read, and when it was told of stocks.
    pub(crate) asked: u64,
    pub(crate) unread: u64,
    pub(crate) untold: u64,
}

/// Where a partner lives.
#[derive(Debug)]
struct State {
    how: Mischief,
    elsewhere: String,
    misbehaves: Mutex<bool>,
    /// What hangs lets go when nothing is broken any more.
    gate: Gate,
    edition: Mutex<usize>,
    book: Mutex<Book>,
}

/// A line of what it is told.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Count {
    product_sku: String,
    quantity: i64,
}

impl State {
    fn answer(&self, receipt: &Receipt) -> Answer {
        let how = lock(&self.misbehaves).then_some(self.how);
        let turn = {
            let mut book = lock(&self.book);
            book.asked += 1;
            let spoiled = if receipt.method == Method::PUT { &mut book.untold } else { &mut book.unread };
            *spoiled += u64::from(how.is_some());
            *spoiled
        };
        match (&receipt.method, receipt.query.as_deref()) {
            (&Method::GET, Some(query)) if query == format!("inventory={INVENTORY}") => {
                self.give(receipt, how, turn)
            }
            (&Method::PUT, Some(query)) if query == format!("warehouse={WAREHOUSE}") => {
                self.take(receipt, how, turn)
            }
            (method, query) => {
                lock(&self.book).odd.push(format!("{method} {query:?}"));
                Answer::Status(404)
            }
        }
    }

    /// Its products.
    fn give(&self, receipt: &Receipt, how: Option<Mischief>, turn: u64) -> Answer {
        let edition = *lock(&self.edition);
        let version = format!("\"{edition}\"");
        let document = |body: String| Document {
            headers: vec![(ETAG, version.clone())],
            body: body.into(),
            ..Document::default()
        };
        match how {
            Some(Mischief::Malformed) => {
                let whole = feed(edition);
                Answer::Document(document(match turn % 3 {
                    0 => "<html><body>Sign in</body></html>".to_owned(),
                    1 => format!(
                        "[{} {{\"productSku\": \"INVENTED\"",
                        json!({"productSku": sku(0), "name": name(0, edition)})
                    ),
                    // lines that are none, among others
                    _ => whole.replace("0\",\"name\":", "0-INVENTED\",\"name\":,"),
                }))
            }
            Some(Mischief::Cut) => {
                let whole = feed(edition);
                let cut_after = Some(whole.len() * 19 / 20);
                Answer::Document(Document { cut_after, ..document(whole) })
            }
            Some(how) => self.refuse(how, turn),
            None if receipt.header("if-none-match") == Some(&version) => {
                Answer::Status(StatusCode::NOT_MODIFIED.as_u16())
            }
            // either form
            None if edition.is_multiple_of(2) => Answer::Document(document(feed(edition))),
            None => {
                let rows = feed(edition).trim_end().replace('\n', ",");
                Answer::Document(document(format!("{{\"products\":[{rows}]}}")))
            }
        }
    }

    /// Takes what it is told.
    fn take(&self, receipt: &Receipt, how: Option<Mischief>, turn: u64) -> Answer {
        let answer = match how {
            None => Answer::Status(204),
            Some(Mischief::Malformed) => Answer::Body(200, "<html>Thank you".into()),
            Some(Mischief::Cut) => Answer::Cut,
            Some(how) => return self.refuse(how, turn),
        };
        let mut book = lock(&self.book);
        for line in receipt.body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match serde_json::from_slice::<Count>(line) {
                Ok(count) => {
                    book.stocks.insert(count.product_sku, count.quantity);
                }
                Err(error) => book.odd.push(format!("{}: {error}", String::from_utf8_lossy(line))),
            }
        }
        answer
    }

    fn refuse(&self, how: Mischief, turn: u64) -> Answer {
        match how {
            Mischief::Hang => Answer::Gated(self.gate.clone(), Box::new(Answer::Cut)),
            Mischief::Redirect => Answer::Redirect(self.elsewhere.clone()),
            Mischief::Fail | Mischief::Malformed | Mischief::Cut => match turn % 3 {
                0 => Answer::RetryAfter(503, 1),
                1 => Answer::RetryAfter(429, 2),
                _ => Answer::Status(500),
            },
        }
    }
}

/// An edition of a feed, a product a line.
fn feed(edition: usize) -> String {
    (0..PRODUCTS).fold(String::new(), |mut feed, number| {
        // in this order, by which a malformed one finds its places
        _ = writeln!(feed, "{{\"productSku\":\"{}\",\"name\":\"{}\"}}", sku(number), name(number, edition));
        feed
    })
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
    pub(crate) how: Mischief,
    pub(crate) tenant: Tenant,
    caller: Caller,
    state: Arc<State>,
    receiver: Receiver,
    promises: Mutex<Promises>,
}

impl Partner {
    /// Opens one, as the partner of an e-shop of a new organisation.
    pub(crate) async fn open(services: &Services, caller: &Caller, how: Mischief) -> anyhow::Result<Self> {
        let tenant = Tenant::create(services, &format!("Partner that {}", how.name())).await?;
        let caller = caller.with_token(tenant.token(services, Role::User).await?);
        let (receiver, state) = serve(how).await?;
        let partner = Self { how, tenant, caller, state, receiver, promises: Mutex::default() };
        partner.store_setting(60).await?;
        Ok(partner)
    }

    /// Reads its feed for the first time.
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
        let setting = json!({
            "integrationType": "feed", "baseUrl": self.receiver.url("/"),
            "inventories": [{ "inventoryId": INVENTORY }],
            "warehouses": [{ "warehouseId": WAREHOUSE, "warehouse": self.tenant.warehouse }],
            "stockSync": { "enabled": true, "intervalMinutes": minutes, "reserve": RESERVE },
        });
        let path = format!("/api/partner-integration/eshop-setting/{}", self.tenant.eshop);
        self.caller.ask(&Request::new(Method::POST, path, setting.to_string()), &[200]).await.map(drop)
    }

    /// What was promised so far.
    pub(crate) fn promises(&self) -> MutexGuard<'_, Promises> {
        lock(&self.promises)
    }

    /// What it was told, and asked.
    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        lock(&self.state.book)
    }

    /// The edition of its feed.
    pub(crate) fn edition(&self) -> usize {
        *lock(&self.state.edition)
    }

    /// Pieces of a product that it should offer.
    pub(crate) fn available(&self, sku: &str) -> i64 {
        self.promises().counted.get(sku).map_or(0, |counted| 0.max(counted - RESERVE))
    }

    /// Misbehaves for so long; at first, its feed is to be read.
    pub(crate) async fn misbehave(&self, lasts: Duration) -> anyhow::Result<()> {
        let over = tokio::time::Instant::now() + lasts;
        *lock(&self.state.misbehaves) = true;
        // what is not accepted in this time is nobody's promise
        if let Ok(provoked) = tokio::time::timeout_at(over, self.sync_anew()).await {
            provoked?;
        }
        tokio::time::sleep_until(over).await;
        *lock(&self.state.misbehaves) = false;
        Ok(())
    }

    /// Has its feed synced, its stocks counted and sent out, until then.
    pub(crate) async fn work(&self, seed: u64, until: Instant) -> anyhow::Result<()> {
        let mut lot = StdRng::seed_from_u64(seed ^ ((300 + self.how as u64) << 32));
        while pause(&mut lot, 2.0..6.0, until).await {
            match lot.random_range(0..6) {
                0 => _ = self.sync().await?,
                1 | 2 => _ = self.sync_anew().await?,
                3 | 4 => self.count(&mut lot).await?,
                _ => self.send_out().await?,
            }
        }
        Ok(())
    }

    /// Nothing is broken any more: lets go what hangs, and what had failed for good be tried again.
    pub(crate) async fn be_well(&self) -> anyhow::Result<()> {
        self.state.gate.open();
        self.store_setting(61).await
    }

    /// Has its last edition read, and everything sent that it does not have.
    pub(crate) async fn conclude(&self) -> anyhow::Result<()> {
        let last = self.sync_anew().await?;
        self.promises().last = Some(last);
        self.send_out().await
    }

    async fn sync_anew(&self) -> anyhow::Result<Uuid> {
        *lock(&self.state.edition) += 1;
        self.sync().await
    }

    async fn sync(&self) -> anyhow::Result<Uuid> {
        let body = json!({ "eshop": self.tenant.eshop, "inventoryId": INVENTORY }).to_string();
        self.accepted(SYNC_PRODUCTS, body).await
    }

    async fn send_out(&self) -> anyhow::Result<()> {
        let body = json!({ "eshop": self.tenant.eshop, "warehouseId": WAREHOUSE }).to_string();
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

/// Serves a feed.
async fn serve(how: Mischief) -> io::Result<(Receiver, Arc<State>)> {
    let receiver = Receiver::counting().await?;
    let state = Arc::new(State {
        how,
        elsewhere: receiver.url("/elsewhere"),
        misbehaves: Mutex::default(),
        gate: Gate::closed(),
        edition: Mutex::default(),
        book: Mutex::default(),
    });
    let judging = Arc::clone(&state);
    receiver.answer("/", Answer::By(By::new(move |receipt| judging.answer(receipt))));
    // whoever follows a redirect is found out
    let followed = Arc::clone(&state);
    let judge = By::new(move |receipt| {
        lock(&followed.book).odd.push(format!("{} followed a redirect", receipt.method));
        Answer::Status(204)
    });
    receiver.answer("/elsewhere", Answer::By(judge));
    Ok((receiver, state))
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

//! The warehouses: systems (WMS) to which orders are handed over, and which misbehave for a while.
//!
//! Each has its own organisation, whose [`buyers`] send, hold and cancel orders. [`work`] picks, packs and ships what it has
//! taken, and reports that: late, twice, and in any order. The book of a WMS is the truth of what it answered.
//!
//! One keeps the rules ([warehouse-systems.md](../../../docs/reference/warehouse-systems.md#rules)) and has no troubles. One keeps
//! them and has all [`Trouble`]s that a network or a crash makes, one at a time; one breaks them. A new trouble is a variant of
//! [`Trouble`], and its place in [`BREACHES`] if it breaks the rules.

mod buyers;
mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures::future::try_join_all;
use http::Method;
use longshore_kernel::access::Role;
use longshore_kernel::services::Services;
use longshore_kernel::words;
use longshore_testkit::wms::{Mischief, Wms};
use longshore_testkit::world::Tenant;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use uuid::Uuid;

use super::caller::{Caller, Request};
use super::fleet::{LARGE, Shop};
use super::load::{NDJSON, SYNC_PRODUCTS, SYNC_STOCKS, key};
use super::subscribe_to;

/// The products, and the pieces of each: more than are ever wanted.
const SKUS: [&str; 3] = ["CRATE", "PALLET", "BARREL"];
const PIECES: i64 = 100_000;

/// Callers of each organisation that create orders.
const BUYERS: usize = 2;

words! {
    /// A misbehaviour of a WMS.
    pub(crate) enum Trouble ("misbehaviour of a WMS") {
        /// Does nothing, and never answers.
        Hang = "hangs",
        /// Does what it is asked for, and never answers.
        HangDone = "takes and hangs",
        /// Ends the connection.
        Reset = "resets",
        /// Dies between taking an order and answering.
        Die = "takes and dies",
        /// Answers 500.
        Fail = "answers 500",
        /// Does what it is asked for, and answers 500.
        FailDone = "takes and answers 500",
        /// Answers 503, and asks for a pause.
        Busy = "answers 503",
        /// Answers late.
        Late = "answers late",
        /// Its answers break off, or do not end.
        Broken = "breaks answers off",
        /// Answers a web page.
        WebPage = "answers a web page",
        /// Redirects.
        Redirect = "redirects",
        /// Calls arrive after later ones.
        Overtaken = "is called in another order",
        /// Refuses orders.
        Refuse = "refuses",
        /// Answers as usual, and does nothing.
        Lie = "lies",
        /// Forgets everything.
        Forget = "forgets everything",
        /// Answers 409, and does nothing.
        Conflict = "answers 409",
        /// Answers 410, and does nothing.
        Gone = "answers 410",
        /// Answers 422, and does nothing.
        Unprocessable = "answers 422",
    }
}

/// How one breaks the rules. One that keeps them can suffer all others.
const BREACHES: [Trouble; 5] =
    [Trouble::Lie, Trouble::Forget, Trouble::Conflict, Trouble::Gone, Trouble::Unprocessable];

impl Trouble {
    /// What it makes of calls, in turn. Most leave some calls alone: after five failures in a row it would be called no more.
    fn turns(self, elsewhere: String) -> Vec<Mischief> {
        let spoilt = match self {
            Self::Hang => return vec![Mischief::Hang],
            Self::Reset => return vec![Mischief::Cut],
            Self::HangDone => vec![Mischief::DoneHang],
            Self::Die => vec![Mischief::DoneCut],
            Self::Fail => vec![Mischief::Status(500)],
            Self::FailDone => vec![Mischief::DoneStatus(500)],
            Self::Busy => vec![Mischief::RetryAfter(503, 1)],
            Self::Late => vec![Mischief::Late(LATE)],
            Self::Broken => vec![Mischief::Short, Mischief::Flood, Mischief::Large(LARGE)],
            Self::WebPage => vec![Mischief::WebPage],
            Self::Redirect => vec![Mischief::Redirect(elsewhere)],
            Self::Overtaken => vec![Mischief::Overtaken],
            Self::Refuse => vec![Mischief::Refuse(json!([{ "message": "it does not fit" }]))],
            Self::Lie => vec![Mischief::Lie],
            Self::Forget => vec![Mischief::Forget],
            Self::Conflict => vec![Mischief::Status(409)],
            Self::Gone => vec![Mischief::Status(410)],
            Self::Unprocessable => vec![Mischief::Status(422)],
        };
        [spoilt, vec![Mischief::None]].concat()
    }
}

/// How late an answer comes.
const LATE: Duration = Duration::from_secs(2);

/// What was answered to the organisation of a WMS, and what the WMS has reported.
#[derive(Debug, Default)]
pub(crate) struct Book {
    /// The orders that were created.
    pub(crate) orders: BTreeSet<Uuid>,
    /// Those that were answered as `canceled`.
    pub(crate) canceled: BTreeSet<Uuid>,
    /// The number of each order under which it was last asked back.
    asked_back: BTreeMap<Uuid, u64>,
    /// Reports that were accepted, by their ids.
    pub(crate) reports: BTreeMap<String, Value>,
    /// Jobs of reports.
    pub(crate) jobs: Vec<Uuid>,
    /// Operations that were executed, and that were refused because of the status.
    pub(crate) done: u64,
    pub(crate) refused: u64,
}

/// A WMS, and the organisation whose orders it ships; see the module.
#[derive(Debug)]
pub(crate) struct Warehouse {
    pub(crate) name: &'static str,
    pub(crate) tenant: Tenant,
    /// Its webhooks and their destinations.
    pub(crate) shops: Vec<(Uuid, Shop)>,
    /// The fake that the worker calls.
    pub(crate) system: Wms,
    troubles: Vec<Trouble>,
    /// Whether a withdrawal gets back what is being picked.
    gives_back_picked: bool,
    number: u64,
    buyer: Caller,
    /// The program of the WMS.
    program: Caller,
    carrier: Uuid,
    book: Mutex<Book>,
}

/// Opens all of them: one that keeps the rules, one that does so in trouble, and one that breaks them. They listen at an address.
pub(crate) async fn open_all(
    services: &Services,
    caller: &Caller,
    carrier: Uuid,
    at: Ipv4Addr,
) -> anyhow::Result<Vec<Warehouse>> {
    let (breaches, troubles): (Vec<_>, Vec<_>) =
        Trouble::ALL.into_iter().partition(|how| BREACHES.contains(how));
    let wanted: [(_, Vec<Trouble>, _); 3] = [
        ("keeps the rules", Vec::new(), true),
        ("keeps the rules in trouble", troubles, false),
        ("breaks the rules", breaches, false),
    ];
    let open = (0..).zip(wanted).map(async |(number, (name, troubles, gives_back_picked))| {
        let tenant = Tenant::create(services, &format!("Warehouse: {name}")).await?;
        let buyer = caller.with_token(&tenant.token(services, Role::User).await?)?;
        let program = caller.with_token(&tenant.token(services, Role::Warehouse).await?)?;
        let admin = caller.with_token(&tenant.token(services, Role::Admin).await?)?;
        let mut shops = Vec::new();
        if troubles.is_empty() {
            let shop = Shop::open(at, &format!("of the WMS that {name}"), None).await?;
            shops.push(subscribe_to(&buyer, &tenant, shop, &["*"], &json!({}), None).await?);
        }
        let system = Wms::start_at((at, 0).into()).await?;
        system.give_back_picked(gives_back_picked);
        let warehouse = Warehouse {
            name,
            tenant,
            shops,
            system,
            troubles,
            gives_back_picked,
            number,
            buyer,
            program,
            carrier,
            book: Mutex::default(),
        };
        warehouse.connect(&admin).await?;
        warehouse.stock_up().await?;
        anyhow::Ok(warehouse)
    });
    try_join_all(open).await
}

/// Runs the load of all of them until then. Orders of the same round have the same numbers, from 0 on.
pub(crate) async fn trade(
    warehouses: &[Warehouse],
    seed: u64,
    round: u64,
    until: Instant,
) -> anyhow::Result<()> {
    try_join_all(warehouses.iter().map(|one| one.trade(seed, round, until))).await.map(drop)
}

/// When all is quiet, each reports what it has not reported yet.
pub(crate) async fn conclude(warehouses: &[Warehouse]) -> anyhow::Result<()> {
    try_join_all(warehouses.iter().map(Warehouse::report_all)).await.map(drop)
}

impl Warehouse {
    /// The answers so far.
    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it has this misbehaviour.
    pub(crate) fn does(&self, how: Trouble) -> bool {
        self.troubles.contains(&how)
    }

    /// Whether its system keeps the rules.
    pub(crate) fn keeps_rules(&self) -> bool {
        !self.troubles.iter().any(|how| BREACHES.contains(how))
    }

    /// Misbehaves for a while.
    pub(crate) async fn misbehave(&self, how: Trouble, lasts: Duration) {
        let elsewhere = format!("{}/elsewhere", self.system.url());
        self.system.misbehave_in_turn(how.turns(elsewhere));
        tokio::time::sleep(lasts).await;
        self.system.misbehave_in_turn(Vec::new());
    }

    /// Forgets what was answered: Postgres was set back. What it has reported it reports again.
    pub(crate) fn lose_promises(&self) {
        let mut book = self.book();
        let reports = std::mem::take(&mut book.reports);
        for report in reports.into_values() {
            self.system.say(report);
        }
        *book = Book::default();
    }

    /// After the faults: what was overtaken arrives.
    pub(crate) fn be_well(&self) {
        self.system.let_overtaken_arrive();
    }

    /// Stores the setting of its wms.
    async fn connect(&self, admin: &Caller) -> anyhow::Result<()> {
        let path = format!("/api/partner-integration/wms-setting/{}", self.tenant.wms);
        let body = json!({ "baseUrl": self.system.url(), "maxInFlight": 16 }).to_string();
        let stored = admin.ask(&Request::new(Method::POST, path, body), &[200]).await?.body;
        let secret = stored["secret"].as_str().context("a setting without a secret")?;
        Ok(self.system.trust(secret)?)
    }

    /// Creates its products, and counts their pieces.
    async fn stock_up(&self) -> anyhow::Result<()> {
        let mut products = json!({ "eshop": self.tenant.eshop }).to_string();
        let mut stocks =
            json!({ "eshop": self.tenant.eshop, "warehouseId": self.tenant.warehouse }).to_string();
        for sku in SKUS {
            _ = write!(products, "\n{}", json!({ "productSku": sku, "name": sku }));
            _ = write!(stocks, "\n{}", json!({ "productSku": sku, "quantity": PIECES }));
        }
        for (path, body) in [(SYNC_PRODUCTS, products), (SYNC_STOCKS, stocks)] {
            let sync = Request::new(Method::POST, path, body)
                .with("content-type", NDJSON)
                .with("prefer", "wait=60")
                .with("idempotency-key", key());
            let job = self.buyer.ask(&sync, &[200]).await?.body;
            let is_done = job["progress"]["changed"] == SKUS.len();
            anyhow::ensure!(is_done, "the stock of a warehouse: {job}");
        }
        Ok(())
    }

    async fn trade(&self, seed: u64, round: u64, until: Instant) -> anyhow::Result<()> {
        let buyers = (1..=BUYERS).map(async |buyer| {
            self.buy(self.lot(seed, buyer as u64), &format!("{round}-{buyer}"), until).await
        });
        tokio::try_join!(try_join_all(buyers), self.work(self.lot(seed, 0), until)).map(drop)
    }

    /// The lot of its `n`th hand.
    fn lot(&self, seed: u64, n: u64) -> StdRng {
        StdRng::seed_from_u64(seed ^ ((900 + 10 * self.number + n) << 32))
    }
}

//! Orders during the faults: organisations that sell from a handful of stocks, one of which all orders want and
//! which runs out.
//!
//! Each [`Merchant`] has several [`buyer`]s, who create orders and operate on them one by one and in bulk. Beside
//! them, [`goods`] counts the same stocks and receives deliveries of suppliers, and [`import`] pushes orders from
//! the same stocks as NDJSON, and orders of new products beside syncs of these. What is asked of one order or one stock
//! at the same moment is in [`together`]. Both merchants use the same numbers and keys, and try each other's orders,
//! which they must not see.
//!
//! A [`Book`] keeps the answers that a merchant got: of each order, its last accepted state.

mod buyer;
mod goods;
mod import;
mod together;

use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anyhow::Context as _;
use futures::future::try_join_all;
use http::Method;
use longshore_kernel::access::Role;
use longshore_kernel::services::Services;
use longshore_testkit::world::Tenant;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom as _, IteratorRandom as _};
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use super::caller::{Caller, Reply, Request};
use super::fleet::Shop;
use super::load::{NDJSON, SYNC_PRODUCTS, SYNC_STOCKS, id_of, key, pause};
use super::subscribe_to;

/// The stock that all orders want, and the pieces that it begins with. It is never counted again.
pub(crate) const HOT: &str = "HOT";
pub(crate) const HOT_PIECES: i64 = 40;

/// The stocks that are counted and received, and the pieces that they begin with.
const COLD: [&str; 3] = ["COLD-A", "COLD-B", "COLD-C"];
const COLD_PIECES: i64 = 30;

/// A bundle, with its parts.
const BUNDLE: &str = "BUNDLE";
const PARTS: [(&str, i64); 2] = [(COLD[0], 2), (COLD[1], 1)];

/// A product without a stock.
const VOUCHER: &str = "VOUCHER";

/// Callers of each merchant that create orders.
const BUYERS: usize = 4;

/// What a sent order can be as long as the warehouse has not begun with it, once the allocator has nothing to do.
const SENT: &[&str] = &["waiting_for_goods", "stock_ok", "awaiting_processing"];
/// The same of one whose pieces are there, and of one whose pieces are not.
const BOOKED: &[&str] = &["stock_ok", "awaiting_processing"];
const WAITING: &[&str] = &["waiting_for_goods"];

const ON_HOLD: &[&str] = &["on_hold"];
const CANCELED: &[&str] = &["canceled"];

/// The last answer that a merchant got about an order.
#[derive(Debug, Clone)]
pub(crate) enum Fate {
    /// Its record: only the allocator may have changed it since.
    Record { id: Uuid, status: String, version: i64 },
    /// A job executed it, after which it has one of these statuses.
    OneOf(&'static [&'static str]),
}

/// An accepted job.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Accepted {
    pub(crate) id: Uuid,
    pub(crate) items: usize,
    /// Items that must be refused.
    pub(crate) failed: usize,
    /// Whether it must change nothing.
    pub(crate) is_repeated: bool,
}

/// The promises: each was answered with success.
#[derive(Debug, Default)]
pub(crate) struct Book {
    /// The orders, by their numbers.
    pub(crate) orders: BTreeMap<String, Fate>,
    /// Orders that were deleted, with their numbers.
    pub(crate) deleted: Vec<(Uuid, String)>,
    /// Bulk operations, imports and syncs.
    pub(crate) jobs: Vec<Accepted>,
    /// Imports and product syncs that name the same products, when nothing is broken any more.
    pub(crate) crossed: Vec<Uuid>,
    /// The row that was last imported of each order.
    rows: BTreeMap<String, Value>,
    /// Pieces that were received, by SKU.
    pub(crate) received: BTreeMap<&'static str, i64>,
    /// Operations that were executed, and that were refused because of the status.
    pub(crate) done: u64,
    pub(crate) refused: u64,
}

/// An organisation that sells; see the module.
#[derive(Debug)]
pub(crate) struct Merchant {
    caller: Caller,
    /// The one that reports for the warehouse.
    warehouse: Caller,
    pub(crate) tenant: Tenant,
    /// Its webhooks and their destinations.
    pub(crate) shops: Vec<(Uuid, Shop)>,
    number: u64,
    carrier: Uuid,
    supplier: Uuid,
    products: HashMap<&'static str, Uuid>,
    book: Mutex<Book>,
}

/// A carrier, which [`attach`] lets all organisations use.
pub(crate) async fn carrier(psql: &mut PgConnection) -> anyhow::Result<Uuid> {
    let carrier = "INSERT INTO carrier (id, name, code, countries_of_operation, active)
                   SELECT uuid_v7(), 'Post', coalesce(max(code), 0) + 1, '{}', true FROM carrier RETURNING id";
    Ok(sqlx::query_scalar(carrier).fetch_one(psql).await?)
}

/// Lets all organisations use a carrier.
pub(crate) async fn attach(psql: &mut PgConnection, carrier: Uuid) -> anyhow::Result<()> {
    let attach =
        "INSERT INTO carrier_organisation (carrier_id, organisation_id) SELECT $1, id FROM organisation";
    sqlx::query(attach).bind(carrier).execute(psql).await?;
    Ok(())
}

/// Opens all of them, with destinations at an address. The webhooks of the first differ in what they subscribe to.
pub(crate) async fn open_all(
    services: &Services,
    caller: &Caller,
    carrier: Uuid,
    psql: &mut PgConnection,
    at: Ipv4Addr,
) -> anyhow::Result<Vec<Merchant>> {
    let subscriptions: [&[&[&str]]; 2] = [
        &[&["*"], &["expedition_status_change"], &["expedition_booked_change", "expedition_deleted"]],
        &[&["*"]],
    ];
    let mut merchants = Vec::new();
    for (number, events) in (0..).zip(subscriptions) {
        let tenant = Tenant::create(services, &format!("Merchant {number}")).await?;
        let user = caller.with_token(&tenant.token(services, Role::User).await?)?;
        let warehouse = caller.with_token(&tenant.token(services, Role::Admin).await?)?;
        let mut shops = Vec::new();
        for events in events {
            let name = format!("of merchant {number}, {}", events.join(", "));
            let shop = Shop::open(at, &name, None).await?;
            shops.push(
                subscribe_to(&user, &tenant, shop, events, &json!({ "ordered": *events == ["*"] }), None)
                    .await?,
            );
        }
        let supplier = sqlx::query_scalar(
            "INSERT INTO supplier (id, organisation_id, name, active) VALUES (uuid_v7(), $1, 'Mill', true) RETURNING id",
        )
        .bind(tenant.organisation)
        .fetch_one(&mut *psql)
        .await?;
        let mut merchant = Merchant {
            caller: user,
            warehouse,
            tenant,
            shops,
            number,
            carrier,
            supplier,
            products: HashMap::new(),
            book: Mutex::default(),
        };
        merchant.stock_up().await?;
        merchants.push(merchant);
    }
    Ok(merchants)
}

/// Runs the load of all merchants until then.
pub(crate) async fn sell(merchants: &[Merchant], seed: u64, until: Instant) -> anyhow::Result<()> {
    let strangers = merchants.iter().cycle().skip(1);
    try_join_all(merchants.iter().zip(strangers).map(|(one, other)| one.sell(other, seed, until)))
        .await
        .map(drop)
}

/// When all is quiet: imports beside syncs once more, and pushes each imported row again.
pub(crate) async fn conclude(merchants: &[Merchant]) -> anyhow::Result<()> {
    try_join_all(merchants.iter().map(Merchant::conclude)).await.map(drop)
}

impl Merchant {
    /// The answers so far.
    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates its products, and counts their first pieces.
    async fn stock_up(&mut self) -> anyhow::Result<()> {
        for sku in [HOT].into_iter().chain(COLD) {
            self.product(sku, json!({ "type": "physical" })).await?;
        }
        self.product(VOUCHER, json!({ "type": "virtual" })).await?;
        let part = |(sku, quantity): &(&'static str, i64)| json!({ "productId": self.products[sku], "quantity": quantity });
        let parts: Vec<Value> = PARTS.iter().map(part).collect();
        self.product(BUNDLE, json!({ "type": "bundle", "childrenProducts": parts })).await?;
        let cold = COLD.map(|sku| (sku, COLD_PIECES));
        self.count(&[[(HOT, HOT_PIECES)].as_slice(), &cold].concat(), "wait=60").await.map(drop)
    }

    async fn product(&mut self, sku: &'static str, further: Value) -> anyhow::Result<()> {
        let mut body = json!({
            "organisation": self.tenant.organisation, "eshops": [self.tenant.eshop], "productSku": sku,
            "internalSku": sku, "name": sku, "imeiCheckRequired": false, "active": true,
        });
        for (name, value) in further.as_object().into_iter().flatten() {
            body[name] = value.clone();
        }
        let create =
            Request::new(Method::POST, "/api/product", body.to_string()).with("idempotency-key", key());
        let made = self.caller.ask(&create, &[201]).await?.body;
        self.products.insert(sku, id_of(&made).context("a product without an id")?);
        Ok(())
    }

    async fn sell(&self, stranger: &Self, seed: u64, until: Instant) -> anyhow::Result<()> {
        let lot = |n: u64| StdRng::seed_from_u64(seed ^ ((500 + 100 * self.number + n) << 32));
        tokio::try_join!(
            try_join_all((0..BUYERS).map(|buyer| self.buy(lot(buyer as u64), buyer, until))),
            self.import(lot(50), until),
            self.count_often(lot(51), until),
            self.receive(lot(52), until),
            self.try_those_of(stranger, lot(53), until),
            self.edit_and_send(lot(54), until),
            self.take_and_give_back(lot(55), until),
            self.import_beside_syncs(lot(56), until),
        )?;
        Ok(())
    }

    async fn conclude(&self) -> anyhow::Result<()> {
        self.import_beside_syncs_at_rest().await?;
        self.import_again().await
    }

    /// The body of an order.
    fn body(&self, number: &str, items: &[(&str, i64)]) -> Value {
        let item = |(sku, quantity): &(&str, i64)| json!({ "productSku": sku, "quantity": quantity });
        let items: Vec<Value> = items.iter().map(item).collect();
        json!({
            "eshop": self.tenant.eshop, "orderNumber": number, "value": "12.50", "currency": "EUR",
            "carrier": self.carrier, "billingLastName": "Byron", "billingStreet": "Quay Street",
            "billingCity": "Bristol", "billingZip": 11000, "billingCountry": "GB", "items": items,
        })
    }

    /// Creates an order; returns its id.
    async fn place(&self, number: &str, items: &[(&str, i64)], send: bool) -> anyhow::Result<Uuid> {
        let mut body = self.body(number, items);
        body["send"] = json!(send);
        let create = Request::new(Method::POST, "/api/expedition", body.to_string())
            .with("idempotency-key", format!("order-{number}"));
        let made = self.caller.ask(&create, &[201]).await?.body;
        id_of(&made).with_context(|| format!("this is no order: {made}"))
    }

    /// Accepts a job; returns its id.
    fn promise(&self, reply: &Reply, items: usize, failed: usize) -> anyhow::Result<Uuid> {
        let id = id_of(&reply.body).with_context(|| format!("this is no job: {}", reply.body))?;
        self.book().jobs.push(Accepted { id, items, failed, is_repeated: false });
        Ok(id)
    }

    /// Tries to read and change orders of another organisation.
    async fn try_those_of(&self, stranger: &Self, mut lot: StdRng, until: Instant) -> anyhow::Result<()> {
        while pause(&mut lot, 0.3..1.5, until).await {
            let theirs = stranger.any_order(&mut lot);
            let Some(id) = theirs else { continue };
            let path = format!("/api/expedition/{id}");
            let request = match lot.random_range(0..6) {
                0 => Request::new(Method::GET, path, ""),
                1 => Request::new(Method::PUT, format!("{path}/cancel"), "{}"),
                2 => Request::new(Method::PATCH, path, json!({ "ref1": "stolen" }).to_string()),
                3 => Request::new(Method::DELETE, path, ""),
                4 => {
                    let report = json!({ "status": "delivered" }).to_string();
                    let report = Request::new(Method::PUT, format!("{path}/status"), report);
                    self.warehouse.ask(&report, &[404]).await?;
                    continue;
                }
                _ => {
                    self.list_those_of(stranger).await?;
                    let cancel = bulk("cancel", &[id]);
                    self.promise(&self.caller.ask(&cancel, &[202]).await?, 1, 1)?;
                    continue;
                }
            };
            self.caller.ask(&request, &[404]).await?;
        }
        Ok(())
    }

    fn any_order(&self, lot: &mut StdRng) -> Option<Uuid> {
        let book = self.book();
        let ids = book.orders.values().filter_map(|fate| match fate {
            Fate::Record { id, .. } => Some(*id),
            Fate::OneOf(_) => None,
        });
        ids.choose(lot)
    }

    /// Lists must show its own orders only, with any criteria.
    async fn list_those_of(&self, stranger: &Self) -> anyhow::Result<()> {
        let criteria = [
            json!({}),
            json!({ "eshop.organisation": { "eq": stranger.tenant.organisation } }),
            json!({ "eshop": { "eq": stranger.tenant.eshop } }),
        ];
        for criteria in criteria {
            let list =
                json!({ "criteria": criteria, "limit": 50, "select": ["id", "organisation"] }).to_string();
            let list = Request::new(Method::POST, "/api/expedition/list", list);
            let listed = self.caller.ask(&list, &[200]).await?.body;
            let own = json!(self.tenant.organisation);
            let mut shown = listed["results"].as_array().into_iter().flatten();
            if let Some(other) = shown.find(|order| order["organisation"] != own) {
                self.caller.violation(format!("an order of another organisation is listed: {other}"));
            }
        }
        Ok(())
    }
}

/// Whether the status of an order did not allow what was asked: an operation is then 409, a change of the record 400.
fn is_wrong_status(reply: &Reply) -> bool {
    match reply.status {
        409 => reply.body["code"] == "wrong_status",
        400 => reply.body["violations"][0]["code"] == "wrong_status",
        _ => false,
    }
}

/// An operation on many orders, as a job.
fn bulk(operation: &str, ids: &[Uuid]) -> Request {
    Request::new(Method::PUT, format!("/api/expedition/{operation}"), json!(ids).to_string())
        .with("idempotency-key", key())
        .with("prefer", "respond-async")
}

/// A few items, of any stock.
fn wish(lot: &mut StdRng) -> Vec<(&'static str, i64)> {
    let mut cold = |most| (*COLD.choose(lot).unwrap_or(&COLD[0]), lot.random_range(1..=most));
    let (first, second) = (cold(3), cold(2));
    match lot.random_range(0..20) {
        0..7 => vec![(HOT, 1)],
        7 | 8 => vec![(HOT, 2)],
        9..12 => vec![(HOT, 1), first],
        12..15 => vec![first, second],
        15..17 => vec![first],
        17 => vec![(BUNDLE, 1), first],
        18 => vec![(BUNDLE, 2)],
        _ => vec![(VOUCHER, 1), second],
    }
}

//! `/api/expedition` (`docs/reference/orders.md#order`).

use std::ops::Deref;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use http::Method;
use longshore_domain::expedition::silence::presume;
use longshore_domain::expedition::{allocation, invariants};
use longshore_kernel::ids;
use serde_json::{Value, json};
use sqlx::postgres::PgConnectOptions;

use crate::stock_advice;
use crate::support::Reply;

mod bodies;
mod bulk;
mod changes;
mod choice;
mod doubt;
mod edits;
mod invoice;
mod life;
mod lists;
mod news;
mod operations;
mod picture;
mod receipts;
mod references;
mod report;
mod scope;
mod sending;
mod silence;

pub(crate) use crate::product::MIGRATIONS;

pub(crate) const PATH: &str = "/api/expedition";

/// The statuses, in the order of the line.
pub(crate) const STATUSES: [&str; 15] = [
    "on_hold",
    "incorrect",
    "awaiting_reservation",
    "waiting_for_goods",
    "stock_ok",
    "awaiting_processing",
    "take_out",
    "completion",
    "waiting_for_the_carrier",
    "carrier_picked_up",
    "ready_to_takeover",
    "probably_delivered",
    "delivered",
    "waiting_for_cancel",
    "canceled",
];

/// The code of the next carrier.
static NEXT_CODE: AtomicI32 = AtomicI32::new(1_000);

/// The service with a carrier, and the products `MUG` (many pieces) and `LAMP` (none).
pub(crate) struct World {
    goods: stock_advice::World,
    pub(crate) mug: String,
    pub(crate) lamp: String,
    pub(crate) carrier: String,
    /// The code of the carrier: no other carrier has it.
    pub(crate) code: i32,
    pub(crate) service: String,
}

impl Deref for World {
    type Target = stock_advice::World;
    fn deref(&self) -> &stock_advice::World {
        &self.goods
    }
}

impl World {
    pub(crate) async fn new(options: &PgConnectOptions) -> Self {
        let world = stock_advice::World::new(options).await;
        let mug = world.add("MUG", json!({})).await;
        let lamp = world.add("LAMP", json!({})).await;
        let api = &world.api;
        let id = |reply: Reply| reply.expect(201).json()["id"].as_str().unwrap().to_owned();
        let code = NEXT_CODE.fetch_add(1, Ordering::Relaxed);
        let carrier = json!({"name": "Post", "code": code, "organisations": [api.tenant.organisation]});
        let carrier = id(api.post(&api.superadmin, "/api/carrier", carrier).await);
        let service = json!({"name": "Parcel", "code": 1, "carrier": carrier});
        let service = id(api.post(&api.superadmin, "/api/carrier-service", service).await);
        let world = Self { goods: world, mug, lamp, carrier, code, service };
        world.stock_up(&world.mug, 100_000).await;
        world
    }

    /// Pieces of a product come.
    pub(crate) async fn stock_up(&self, product: &str, pieces: i64) {
        let advice = self.announce(&ids::new_id().to_string(), &[(product, pieces)]).await;
        self.receive(&advice, &[(0, pieces)], true).await.expect(200);
    }

    /// The body of a create that can be sent.
    pub(crate) fn order(&self, number: &str, product: &str) -> Value {
        json!({
            "eshop": self.api.tenant.eshop, "orderNumber": number, "value": 10, "currency": "EUR",
            "carrier": self.carrier, "billingLastName": "Byron", "billingStreet": "Quay Street",
            "billingCity": "Bristol", "billingZip": "BS1", "billingCountry": "GB",
            "items": [{"product": product, "quantity": 1}],
        })
    }

    /// The same with further members.
    pub(crate) fn order_with(&self, number: &str, members: &Value) -> Value {
        let mut order = self.order(number, &self.mug);
        order.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        order
    }

    /// Requests a create as a user.
    pub(crate) async fn place(&self, body: Value) -> Reply {
        self.api.post(&self.api.user, PATH, body).await
    }

    /// Creates an order; returns the record.
    pub(crate) async fn made(&self, body: Value) -> Value {
        self.place(body).await.expect(201).json()
    }

    /// Creates and sends an order with further members; returns the record.
    pub(crate) async fn sent(&self, number: &str, members: &Value) -> Value {
        let mut order = self.order_with(number, members);
        order["send"] = json!(true);
        self.made(order).await
    }

    /// Requests an operation on an order as a superadmin, who may do them all.
    pub(crate) async fn on(&self, method: Method, order: &Value, operation: &str, body: Value) -> Reply {
        let path = path(order, operation);
        self.api.call_with(&self.api.superadmin, method, &path, body, &[]).await
    }

    /// Requests a `PUT` on an order.
    pub(crate) async fn act(&self, order: &Value, operation: &str, body: Value) -> Reply {
        self.on(Method::PUT, order, operation, body).await
    }

    /// Reports a status by hand.
    pub(crate) async fn report(&self, order: &Value, body: Value) -> Reply {
        self.act(order, "status", body).await
    }

    /// Reads an order.
    pub(crate) async fn read(&self, order: &Value) -> Value {
        self.api.get(&self.api.user, &path(order, "")).await.expect(200).json()
    }

    /// An order with that status.
    pub(crate) async fn at(&self, status: &str, number: &str) -> Value {
        // what others gave back is allocated, so that no order waits for its turn
        self.allocate().await;
        let order = match status {
            "on_hold" => self.made(self.order(number, &self.mug)).await,
            "incorrect" => self.sent(number, &json!({"carrier": null})).await,
            "waiting_for_goods" => {
                self.sent(number, &json!({"items": [{"product": self.lamp, "quantity": 1}]})).await
            }
            "stock_ok" => self.sent(number, &json!({"waitBeforeProcessing": true})).await,
            "awaiting_reservation" => {
                let order = self.sent(number, &json!({"waitBeforeProcessing": true})).await;
                let order = self.on(Method::PATCH, &order, "unbook", Value::Null).await.expect(200).json();
                self.allocate().await;
                order
            }
            "canceled" => {
                let order = self.made(self.order(number, &self.mug)).await;
                self.act(&order, "cancel", Value::Null).await.expect(200).json()
            }
            "awaiting_processing" => self.sent(number, &json!({})).await,
            "probably_delivered" => {
                let order = self.sent(number, &json!({})).await;
                self.report(&order, json!({"status": "carrier_picked_up"})).await.expect(200);
                self.pass_silence(&order, 14).await;
                presume(&self.api.services, 14).await.unwrap();
                self.read(&order).await
            }
            "waiting_for_cancel" => {
                let order = self.sent(number, &json!({})).await;
                self.report(&order, json!({"status": "take_out"})).await.expect(200);
                self.act(&order, "cancel", Value::Null).await.expect(202).json()
            }
            reported => {
                let order = self.sent(number, &json!({})).await;
                self.report(&order, json!({"status": reported})).await.expect(200).json()
            }
        };
        assert_eq!(order["status"], status);
        order
    }

    /// So many days pass without news of an order.
    pub(crate) async fn pass_silence(&self, order: &Value, days: i32) {
        // audit records are never changed, so they have to be let
        self.execute("ALTER TABLE audit DISABLE TRIGGER USER").await;
        let since = "WITH moved AS (
                         UPDATE expedition SET status_since = status_since - make_interval(days => $2) WHERE id = $1::uuid
                     )
                     UPDATE audit SET at = at - make_interval(days => $2) WHERE entity_id = $1::uuid";
        let id = order["id"].as_str().unwrap();
        sqlx::query(since).bind(id).bind(days).execute(&self.owner).await.unwrap();
        self.execute("ALTER TABLE audit ENABLE TRIGGER USER").await;
    }

    /// Allocates until nothing is left to do, like a worker.
    pub(crate) async fn allocate(&self) {
        for _ in 0..100 {
            let places = allocation::places(&self.api.services).await.unwrap();
            if places.is_empty() {
                return;
            }
            for due in places {
                allocation::allocate(&self.api.services, due.place, Duration::from_secs(30)).await.unwrap();
            }
        }
        panic!("the allocator does not come to an end");
    }

    /// Nothing is broken.
    pub(crate) async fn must_hold(&self) {
        assert_eq!(invariants::broken(&self.owner).await.unwrap(), []);
    }
}

/// The path of an order, or of an operation on it.
pub(crate) fn path(order: &Value, operation: &str) -> String {
    let id = order["id"].as_str().unwrap();
    if operation.is_empty() { format!("{PATH}/{id}") } else { format!("{PATH}/{id}/{operation}") }
}

/// Asserts a 409 that names the status.
#[track_caller]
pub(crate) fn must_be_wrong_status(reply: Reply, status: &str) {
    let problem = reply.expect(409).json();
    assert_eq!(problem["code"], "wrong_status");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.starts_with(&format!("the order is {status}: ")), "{detail}");
}

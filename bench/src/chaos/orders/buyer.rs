//! Callers that create orders, and operate on those that they created. No other caller does, so each knows what its
//! orders are, but for what the allocator makes of them.

use std::time::Instant;

use anyhow::Context as _;
use http::Method;
use rand::Rng as _;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{CANCELED, Fate, Merchant, ON_HOLD, SENT, bulk, is_wrong_status, wish};
use crate::chaos::caller::{Caller, Request};
use crate::chaos::load::{id_of, key, pause};

/// Orders of a bulk operation.
const IN_BULK: usize = 3;

/// What the warehouse can report.
const REPORTS: [&str; 4] = ["take_out", "completion", "waiting_for_the_carrier", "delivered"];

/// An order of a buyer, as its record last showed it.
#[derive(Debug)]
struct Order {
    id: Uuid,
    number: String,
    record: Value,
}

impl Order {
    fn path(&self, operation: &str) -> String {
        format!("/api/expedition/{}{operation}", self.id)
    }

    /// A report on what left of each item: some of it, and the same as before once that was reported.
    fn report_of_items(&self, lot: &mut StdRng) -> Value {
        let items = self.record["items"].as_array().into_iter().flatten();
        let report = items.map(|item| {
            let quantity = item["quantity"].as_i64().unwrap_or_default();
            let left = item["expedited"].as_i64().unwrap_or_else(|| lot.random_range(0..=quantity));
            json!({ "id": item["id"], "expedited": left })
        });
        report.collect()
    }
}

impl Merchant {
    /// Creates orders and operates on them until then.
    pub(super) async fn buy(&self, mut lot: StdRng, buyer: usize, until: Instant) -> anyhow::Result<()> {
        let mut orders: Vec<Order> = Vec::new();
        for turn in 0.. {
            if !pause(&mut lot, 0.1..0.6, until).await {
                break;
            }
            let number = format!("{buyer}-{turn}");
            if orders.is_empty() || lot.random_bool(0.35) {
                let send = lot.random_bool(0.8);
                // the same in both organisations
                let key = format!("order-{number}");
                orders.push(self.create(&mut lot, &number, send, key).await?);
            } else if lot.random_bool(0.05) {
                self.operate_on_many(&mut lot, &number).await?;
            } else {
                let place = lot.random_range(0..orders.len());
                let order = &mut orders[place];
                if lot.random_bool(0.05) {
                    if self.delete(order).await? {
                        let deleted = orders.swap_remove(place);
                        if lot.random_bool(0.5) {
                            // its number is free again
                            orders.push(self.create(&mut lot, &deleted.number, true, key()).await?);
                        }
                    }
                } else if lot.random_bool(0.3) {
                    self.report(&mut lot, order).await?;
                } else {
                    self.command(&mut lot, order).await?;
                }
            }
        }
        Ok(())
    }

    async fn create(&self, lot: &mut StdRng, number: &str, send: bool, key: String) -> anyhow::Result<Order> {
        let mut body = self.body(number, &wish(lot));
        (body["send"], body["waitBeforeProcessing"]) = (json!(send), json!(lot.random_bool(0.3)));
        if lot.random_bool(0.1) {
            body["priority"] = json!(lot.random_range(1..4));
        }
        if lot.random_bool(0.05) {
            // incorrect once it is sent
            body["billingStreet"] = Value::Null;
        }
        let create =
            Request::new(Method::POST, "/api/expedition", body.to_string()).with("idempotency-key", key);
        let reply = self.caller.ask(&create, &[201]).await?;
        let id = id_of(&reply.body).with_context(|| format!("this is no order: {}", reply.body))?;
        if reply.body["orderNumber"] != number || reply.body["eshop"] != json!(self.tenant.eshop) {
            self.caller.violation(format!("order {number} was to be created, and is {}", reply.body));
        }
        if lot.random_bool(0.3) {
            let again = self.caller.ask(&create, &[201]).await?;
            if id_of(&again.body) != Some(id) || !again.replayed {
                self.caller.violation(format!("order {number} again: {} instead of {id}", again.body));
            }
        }
        if lot.random_bool(0.1) {
            let mut other = create.clone();
            other.body = create.body.replacen("Byron", "Lovelace", 1);
            self.caller.ask(&other, &[422]).await?;
        }
        let mut order = Order { id, number: number.to_owned(), record: Value::Null };
        self.learn(&mut order, reply.body)?;
        Ok(order)
    }

    /// Keeps the answer about an order.
    fn learn(&self, order: &mut Order, record: Value) -> anyhow::Result<()> {
        let (Some(status), Some(version)) = (record["status"].as_str(), record["version"].as_i64()) else {
            anyhow::bail!("this is no order: {record}")
        };
        if version < order.record["version"].as_i64().unwrap_or_default() {
            self.caller.violation(format!("order {} goes back to {record}", order.number));
        }
        let fate = Fate::Record { id: order.id, status: status.to_owned(), version };
        let mut book = self.book();
        book.orders.insert(order.number.clone(), fate);
        book.done += 1;
        drop(book);
        order.record = record;
        Ok(())
    }

    /// Operates on an order; whether its status allowed it.
    async fn operate(&self, caller: &Caller, order: &mut Order, request: &Request) -> anyhow::Result<bool> {
        let reply = caller.ask(request, &[200, 202, 400, 409]).await?;
        if matches!(reply.status, 200 | 202) {
            self.learn(order, reply.body)?;
            return Ok(true);
        }
        if !is_wrong_status(&reply) {
            caller.violation(format!("{} {}: {}", request.method, request.path, reply.body));
        }
        self.book().refused += 1;
        Ok(false)
    }

    async fn command(&self, lot: &mut StdRng, order: &mut Order) -> anyhow::Result<()> {
        let request = match lot.random_range(0..12) {
            0 => Request::new(Method::PUT, order.path("/send"), json!({ "rebook": true }).to_string()),
            1..4 => Request::new(Method::PUT, order.path("/send"), "{}"),
            4 => Request::new(Method::PUT, order.path("/process"), ""),
            5 | 6 => Request::new(Method::PUT, order.path("/rollback"), ""),
            7 => {
                Request::new(Method::PUT, order.path("/cancel"), json!({ "reason": "no longer" }).to_string())
            }
            8 => Request::new(Method::PATCH, order.path("/rebook"), ""),
            9 => Request::new(Method::PATCH, order.path("/unbook"), ""),
            10 => {
                let ref1 = lot.random_range(0..1_000).to_string();
                Request::new(Method::PATCH, order.path(""), json!({ "ref1": ref1 }).to_string())
            }
            _ => {
                let mut body =
                    json!({ "billingStreet": "Pier 4", "note": lot.random_range(0..1_000).to_string() });
                if lot.random_bool(0.5) {
                    body["items"] = self.body("", &wish(lot))["items"].take();
                }
                Request::new(Method::PUT, order.path(""), body.to_string())
            }
        };
        self.operate(&self.caller, order, &request).await?;
        if lot.random_bool(0.2) {
            let read = self.caller.ask(&Request::new(Method::GET, order.path(""), ""), &[200]).await?;
            self.learn(order, read.body)?;
        }
        Ok(())
    }

    /// Reports for the warehouse.
    async fn report(&self, lot: &mut StdRng, order: &mut Order) -> anyhow::Result<()> {
        let status = REPORTS[lot.random_range(0..REPORTS.len())];
        let mut body = json!({ "status": status });
        if order.record["status"] == "waiting_for_cancel" && lot.random_bool(0.7) {
            let answer = if lot.random() { "accepted" } else { "refused" };
            let answer = json!({ "cancel": answer }).to_string();
            let answer = Request::new(Method::PUT, order.path("/status"), answer);
            return self.operate(&self.warehouse, order, &answer).await.map(drop);
        }
        let is_packed = matches!(status, "waiting_for_the_carrier" | "delivered");
        if lot.random_bool(0.1) {
            body = json!({ "status": "incorrect", "errors": [{ "message": "it is broken" }] });
        } else if is_packed && lot.random_bool(0.3) {
            // not all of it was there
            body["items"] = order.report_of_items(lot);
        }
        // parcels without another status have no event
        if is_packed && body["status"] == status && order.record["status"] != status {
            let number = lot.random_range(1..4).to_string();
            body["parcels"] =
                json!([{ "extPackageNumber": number, "extPackageTrackingNumber": format!("T{number}") }]);
        }
        let report = Request::new(Method::PUT, order.path("/status"), body.to_string());
        self.operate(&self.warehouse, order, &report).await.map(drop)
    }

    /// Deletes an order; whether its status allowed it.
    async fn delete(&self, order: &Order) -> anyhow::Result<bool> {
        // of one whose answer was lost, the repetition says that it is gone
        let delete = Request::new(Method::DELETE, order.path(""), "");
        let reply = self.caller.ask(&delete, &[204, 409, 410]).await?;
        let mut book = self.book();
        if reply.status == 409 {
            book.refused += 1;
            return Ok(false);
        }
        book.orders.remove(&order.number);
        book.deleted.push((order.id, order.number.clone()));
        Ok(true)
    }

    /// Creates a few orders, and lets a job operate on them.
    async fn operate_on_many(&self, lot: &mut StdRng, number: &str) -> anyhow::Result<()> {
        let mut orders = Vec::new();
        for place in 0..IN_BULK {
            let number = format!("{number}-{place}");
            let id = self.place(&number, &wish(lot), false).await?;
            orders.push((number, id));
        }
        let (operation, ends) = match lot.random_range(0..4) {
            0 => ("cancel", CANCELED),
            1 => ("rollback", ON_HOLD),
            _ => ("send", SENT),
        };
        let ids: Vec<Uuid> = orders.iter().map(|(_, id)| *id).collect();
        let reply = self.caller.ask(&bulk(operation, &ids), &[202]).await?;
        self.promise(&reply, IN_BULK, 0)?;
        self.book().orders.extend(orders.into_iter().map(|(number, _)| (number, Fate::OneOf(ends))));
        Ok(())
    }
}

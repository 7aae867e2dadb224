//! Sending, holding and cancelling orders, often while they are being handed over.

use std::time::Instant;

use anyhow::Context as _;
use http::Method;
use rand::Rng as _;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{SKUS, Warehouse};
use crate::chaos::caller::Request;
use crate::chaos::load::{id_of, key, pause};

/// Orders that are still operated on, the latest.
const OPEN: usize = 10;

impl Warehouse {
    /// Creates orders and operates on them until then.
    pub(super) async fn buy(&self, mut lot: StdRng, buyer: &str, until: Instant) -> anyhow::Result<()> {
        let mut orders: Vec<Uuid> = Vec::new();
        for turn in 0.. {
            if !pause(&mut lot, 0.05..0.4, until).await {
                break;
            }
            if orders.is_empty() || lot.random_bool(0.45) {
                orders.push(self.create(&mut lot, buyer, turn).await?);
            } else {
                let open = &orders[orders.len().saturating_sub(OPEN)..];
                let order = *open.choose(&mut lot).context("there is no order")?;
                self.command(&mut lot, order).await?;
            }
        }
        Ok(())
    }

    /// Operates on each of these orders.
    pub(crate) async fn command_each(&self, seed: u64, orders: &[Uuid]) -> anyhow::Result<()> {
        let mut lot = self.lot(seed, 1);
        for order in orders {
            self.command(&mut lot, *order).await?;
        }
        Ok(())
    }

    async fn create(&self, lot: &mut StdRng, buyer: &str, turn: usize) -> anyhow::Result<Uuid> {
        let count = lot.random_range(1..=2);
        let items: Vec<Value> = SKUS
            .choose_multiple(lot, count)
            .map(|sku| json!({ "productSku": sku, "quantity": lot.random_range(1..4) }))
            .collect();
        let body = json!({
            "eshop": self.tenant.eshop, "orderNumber": format!("{buyer}-{turn}"), "value": "12.50", "currency": "EUR",
            "carrier": self.carrier, "ignoreAddressValidation": true, "items": items, "send": lot.random_bool(0.9),
        });
        let create =
            Request::new(Method::POST, "/api/expedition", body.to_string()).with("idempotency-key", key());
        let made = self.buyer.ask(&create, &[201]).await?.body;
        let id = id_of(&made).with_context(|| format!("this is no order: {made}"))?;
        self.book().orders.insert(id);
        Ok(id)
    }

    async fn command(&self, lot: &mut StdRng, order: Uuid) -> anyhow::Result<()> {
        let operation = match lot.random_range(0..10) {
            0..3 => "rollback",
            3..5 => "cancel",
            _ => "send",
        };
        let request = Request::new(Method::PUT, format!("/api/expedition/{order}/{operation}"), "{}");
        let reply = self.buyer.ask(&request, &[200, 202, 409]).await?;
        let mut book = self.book();
        if reply.status == 409 {
            book.refused += 1;
            drop(book);
            if reply.body["code"] != "wrong_status" {
                self.buyer.violation(format!("{} {}: {}", request.method, request.path, reply.body));
            }
            return Ok(());
        }
        book.done += 1;
        if reply.status == 202 {
            let number = reply.body["handover"]["number"].as_u64();
            book.asked_back.extend(number.map(|number| (order, number)));
        }
        if reply.body["status"] == "canceled" {
            book.canceled.insert(order);
        }
        Ok(())
    }

    /// Whether it has to give this number of an order back, as far as its organisation knows.
    pub(super) fn is_asked_back(&self, order: Uuid, number: u64) -> bool {
        self.book().asked_back.get(&order) == Some(&number)
    }
}

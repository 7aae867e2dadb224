//! Counts of the stocks, deliveries of suppliers, and syncs of products.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use http::Method;
use rand::Rng as _;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{COLD, Merchant, NDJSON, SYNC_PRODUCTS, SYNC_STOCKS};
use crate::chaos::caller::Request;
use crate::chaos::load::{id_of, key, pause};

/// The most pieces of a count; few enough that bookings are taken back.
const COUNTED: i64 = 60;

/// The interval of checking whether a job has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

impl Merchant {
    /// Counts some of the stocks again and again until then.
    pub(super) async fn count_often(&self, mut lot: StdRng, until: Instant) -> anyhow::Result<()> {
        while pause(&mut lot, 1.5..5.0, until).await {
            let some = lot.random_range(1..=COLD.len());
            let counts: Vec<(&str, i64)> =
                COLD.choose_multiple(&mut lot, some).copied().map(|sku| (sku, 0)).collect();
            let counts: Vec<(&str, i64)> =
                counts.into_iter().map(|(sku, _)| (sku, lot.random_range(0..COUNTED))).collect();
            self.count(&counts, "respond-async").await?;
        }
        Ok(())
    }

    /// Sets quantities; returns the job.
    pub(super) async fn count(&self, counts: &[(&str, i64)], prefer: &str) -> anyhow::Result<Uuid> {
        let mut body =
            json!({ "eshop": self.tenant.eshop, "warehouseId": self.tenant.warehouse }).to_string();
        for (sku, quantity) in counts {
            _ = write!(body, "\n{}", json!({ "productSku": sku, "quantity": quantity }));
        }
        self.sync(SYNC_STOCKS, body, counts.len(), prefer).await
    }

    /// Creates products, or gives them another name; returns the job.
    pub(super) async fn name(&self, skus: &[String], name: &str) -> anyhow::Result<Uuid> {
        let mut body = json!({ "eshop": self.tenant.eshop }).to_string();
        for sku in skus {
            _ = write!(body, "\n{}", json!({ "productSku": sku, "name": name }));
        }
        self.sync(SYNC_PRODUCTS, body, skus.len(), "respond-async").await
    }

    async fn sync(&self, path: &str, body: String, rows: usize, prefer: &str) -> anyhow::Result<Uuid> {
        let sync = Request::new(Method::POST, path, body)
            .with("content-type", NDJSON)
            .with("prefer", prefer)
            .with("idempotency-key", key());
        let reply = self.caller.ask(&sync, &[200, 202]).await?;
        self.promise(&reply, rows, 0)
    }

    /// Waits for the end of a job; `false` if the run is over before.
    pub(super) async fn has_ended(&self, job: Uuid, until: Instant) -> anyhow::Result<bool> {
        let look = Request::new(Method::GET, format!("/api/job/{job}"), "");
        loop {
            if !self.caller.ask(&look, &[200]).await?.body["finishedAt"].is_null() {
                return Ok(true);
            }
            if Instant::now() >= until {
                return Ok(false);
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Announces goods and receives them until then: sometimes not all, sometimes more, sometimes in two parts.
    pub(super) async fn receive(&self, mut lot: StdRng, until: Instant) -> anyhow::Result<()> {
        for turn in 0.. {
            if !pause(&mut lot, 2.0..6.0, until).await {
                break;
            }
            let sku = *COLD.choose(&mut lot).context("there are no stocks")?;
            let body = json!({
                "organisation": self.tenant.organisation, "warehouse": self.tenant.warehouse,
                "wms": self.tenant.wms, "supplier": self.supplier, "internalId": format!("advice {turn}"),
                "expectedAt": "2030-01-01T00:00:00Z",
                "items": [{ "product": self.products[sku], "quantity": lot.random_range(1..20) }],
            });
            let create = Request::new(Method::POST, "/api/stock-advice", body.to_string())
                .with("idempotency-key", key());
            let advice = self.caller.ask(&create, &[201]).await?.body;
            let id = id_of(&advice).with_context(|| format!("this is no advice: {advice}"))?;
            let item: &Value = &advice["items"][0]["id"];
            let parts = lot.random_range(1..3);
            for part in 1..=parts {
                let quantity = lot.random_range(1..12);
                let body = json!({ "items": [{ "id": item, "quantity": quantity }], "close": part == parts });
                let receive =
                    Request::new(Method::PUT, format!("/api/stock-advice/{id}/receive"), body.to_string())
                        .with("idempotency-key", key());
                self.caller.ask(&receive, &[200]).await?;
                *self.book().received.entry(sku).or_default() += quantity;
            }
        }
        Ok(())
    }
}

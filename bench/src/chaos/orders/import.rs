//! Imports of orders: new rows, the same rows again, other rows of orders on hold, cancellations, numbers that
//! another caller creates at the same time, and orders of products that have no stock yet, while syncs rename these.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures::future::try_join_all;
use http::Method;
use rand::Rng as _;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom as _, IteratorRandom as _};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{CANCELED, Fate, Merchant, NDJSON, ON_HOLD, SENT, WAITING, wish};
use crate::chaos::caller::Request;
use crate::chaos::load::{id_of, key, pause};

const SYNC_EXPEDITIONS: &str = "/api/partner-integration/eshop/sync/expeditions";

/// New products that are ordered and renamed at the same time, and those of an import.
const NEW: usize = 60;
const NEW_EACH: usize = 30;

/// The same when all is quiet: how often, and how long creating the products may take.
const AT_REST: [&str; 3] = ["R0", "R1", "R2"];
const CREATED_WITHIN: Duration = Duration::from_mins(1);

impl Merchant {
    /// Imports orders until then.
    pub(super) async fn import(&self, mut lot: StdRng, until: Instant) -> anyhow::Result<()> {
        let (mut held, mut sent): (Vec<String>, Vec<String>) = Default::default();
        for turn in 0.. {
            if !pause(&mut lot, 2.0..6.0, until).await {
                break;
            }
            let mut rows = Vec::new();
            // rows that were taken before: unchanged
            let known: Vec<String> = self.book().rows.keys().cloned().choose_multiple(&mut lot, 5);
            // another row of an order that is on hold
            let edited = held.choose(&mut lot).cloned().filter(|number| !known.contains(number));
            for number in known {
                rows.extend(self.book().rows.get(&number).cloned());
            }
            if let Some(number) = edited {
                let mut row = self.row(&number, &wish(&mut lot));
                (row["note"], row["send"]) = (json!(format!("as of {turn}")), json!(false));
                self.take(&number, &row, ON_HOLD);
                rows.push(row);
            }
            for place in 0..lot.random_range(3..9) {
                let number = format!("import-{turn}-{place}");
                let mut row = self.row(&number, &wish(&mut lot));
                let is_held = lot.random_bool(0.2);
                if is_held {
                    row["send"] = json!(false);
                }
                self.take(&number, &row, if is_held { ON_HOLD } else { SENT });
                if is_held { &mut held } else { &mut sent }.push(number);
                rows.push(row);
            }
            if !sent.is_empty() && lot.random_bool(0.5) {
                let place = lot.random_range(0..sent.len());
                let number = sent.swap_remove(place);
                rows.push(json!({ "orderNumber": number, "cancel": true }));
                self.book().orders.insert(number, Fate::OneOf(CANCELED));
            }
            let mut failed = 0;
            if lot.random_bool(0.3) {
                rows.push(json!({ "orderNumber": format!("unknown-{turn}"), "cancel": true }));
                failed = 1;
            }
            if lot.random_bool(0.6) {
                let number = format!("contested-{turn}");
                let row = self.row(&number, &wish(&mut lot));
                self.take(&number, &row, SENT);
                rows.push(row.clone());
                tokio::try_join!(self.push(&rows, failed), self.contest(row))?;
            } else {
                let (push, id) = self.push(&rows, failed).await?;
                if lot.random_bool(0.3) {
                    let again = self.caller.ask(&push, &[202]).await?;
                    if id_of(&again.body) != Some(id) || !again.replayed {
                        self.caller.violation(format!("an import again: {}, not {id}", again.body));
                    }
                }
            }
        }
        Ok(())
    }

    /// A row of an order.
    fn row(&self, number: &str, items: &[(&str, i64)]) -> Value {
        let mut row = self.body(number, items);
        row.as_object_mut().and_then(|row| row.remove("eshop"));
        row
    }

    /// Keeps what a row makes of an order.
    fn take(&self, number: &str, row: &Value, ends: &'static [&'static str]) {
        let mut book = self.book();
        book.rows.insert(number.to_owned(), row.clone());
        book.orders.insert(number.to_owned(), Fate::OneOf(ends));
    }

    async fn push(&self, rows: &[Value], failed: usize) -> anyhow::Result<(Request, Uuid)> {
        let mut body = json!({ "eshop": self.tenant.eshop, "send": true }).to_string();
        for row in rows {
            _ = write!(body, "\n{row}");
        }
        let push = Request::new(Method::POST, SYNC_EXPEDITIONS, body)
            .with("content-type", NDJSON)
            .with("prefer", "respond-async")
            .with("idempotency-key", key());
        let reply = self.caller.ask(&push, &[202]).await?;
        let id = self.promise(&reply, rows.len(), failed)?;
        Ok((push, id))
    }

    /// Creates the order of a row that is being imported.
    async fn contest(&self, mut row: Value) -> anyhow::Result<()> {
        (row["eshop"], row["send"]) = (json!(self.tenant.eshop), json!(true));
        let create =
            Request::new(Method::POST, "/api/expedition", row.to_string()).with("idempotency-key", key());
        let reply = self.caller.ask(&create, &[201, 400]).await?;
        let is_taken = reply.body["violations"][0]["code"] == "already_taken";
        if reply.status == 400 && !is_taken {
            self.caller.violation(format!("a number that is being imported: {}", reply.body));
        }
        Ok(())
    }

    /// Imports orders of new products while syncs rename these, until then.
    pub(super) async fn import_beside_syncs(&self, mut lot: StdRng, until: Instant) -> anyhow::Result<()> {
        for turn in 0.. {
            if !pause(&mut lot, 3.0..8.0, until).await {
                break;
            }
            let (skus, created) = self.create_new(&turn.to_string()).await?;
            if !self.has_ended(created, until).await? {
                break;
            }
            self.cross(&skus).await?;
        }
        Ok(())
    }

    /// The same when nothing is broken any more: only then does the time that a job takes say what it has waited for.
    pub(super) async fn import_beside_syncs_at_rest(&self) -> anyhow::Result<()> {
        let until = Instant::now() + CREATED_WITHIN;
        let new = try_join_all(AT_REST.map(|turn| self.create_new(turn))).await?;
        for (_, job) in &new {
            anyhow::ensure!(
                self.has_ended(*job, until).await?,
                "the sync {job} of new products has not ended"
            );
        }
        let crossed = try_join_all(new.iter().map(|(skus, _)| self.cross(skus))).await?;
        self.book().crossed = crossed.concat();
        Ok(())
    }

    /// Creates products; returns them in the order of their ids, and the job.
    async fn create_new(&self, turn: &str) -> anyhow::Result<(Vec<String>, Uuid)> {
        let skus: Vec<String> = (0..NEW).map(|number| format!("NEW-{turn}-{number:02}")).collect();
        let job = self.name(&skus, "new").await?;
        Ok((skus, job))
    }

    /// Imports orders of products that have no stock yet, while syncs rename all of them; returns the jobs.
    async fn cross(&self, skus: &[String]) -> anyhow::Result<Vec<Uuid>> {
        let syncs = ["renamed", "renamed again"].map(|name| self.name(skus, name));
        let imports = skus.chunks(NEW_EACH).map(|skus| self.import_new(skus));
        let (syncs, imports) = tokio::try_join!(try_join_all(syncs), try_join_all(imports))?;
        Ok([syncs, imports].concat())
    }

    /// Imports an order of each of these products, from the last to the first, and cancels every other in the row after it. A
    /// number that comes again ends what is written together, so the import locks the later products before the earlier ones;
    /// a sync locks them the other way round.
    async fn import_new(&self, skus: &[String]) -> anyhow::Result<Uuid> {
        let (mut rows, mut orders) = (Vec::new(), Vec::new());
        for (place, sku) in skus.iter().enumerate().rev() {
            let number = format!("of-{sku}");
            let row = self.row(&number, &[(sku.as_str(), 1)]);
            rows.push(row.clone());
            let is_cancelled = place.is_multiple_of(2);
            if is_cancelled {
                rows.push(json!({ "orderNumber": number, "cancel": true }));
            }
            orders.push((number, row, if is_cancelled { CANCELED } else { WAITING }));
        }
        let (_, id) = self.push(&rows, 0).await?;
        // not earlier: other imports repeat what is in the book
        for (number, row, ends) in orders {
            self.take(&number, &row, ends);
        }
        Ok(id)
    }

    /// Pushes the last row of each order again, which must change nothing.
    pub(super) async fn import_again(&self) -> anyhow::Result<()> {
        let rows: Vec<Value> = self.book().rows.values().cloned().collect();
        self.push(&rows, 0).await?;
        self.book().jobs.last_mut().context("there is no job")?.is_repeated = true;
        Ok(())
    }
}

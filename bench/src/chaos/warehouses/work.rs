//! What a WMS does with the orders that it has taken, and how it reports that.

use std::time::Instant;

use anyhow::Context as _;
use http::Method;
use longshore_testkit::wms::{Entry, Manner, Stage, Step};
use rand::Rng as _;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use serde_json::{Value, json};
use uuid::Uuid;

use super::Warehouse;
use crate::chaos::caller::Request;
use crate::chaos::load::{id_of, pause};

const REPORTS: &str = "/api/partner-integration/wms/sync/news";

const MANNERS: [Manner; 4] = [Manner::InOrder, Manner::Twice, Manner::Backwards, Manner::Shuffled];

impl Warehouse {
    /// Works on orders and reports it, until then.
    pub(super) async fn work(&self, mut lot: StdRng, until: Instant) -> anyhow::Result<()> {
        while pause(&mut lot, 0.1..0.6, until).await {
            for (order, entry) in self.system.book() {
                self.go_on(&mut lot, order, &entry);
            }
            // else later, together with more
            if lot.random_bool(0.4) {
                let manner = *MANNERS.choose(&mut lot).context("there is no manner")?;
                self.report(manner).await?;
            }
        }
        Ok(())
    }

    /// The next step of an order, if it is taken now. A call may have made it impossible in the meantime.
    fn go_on(&self, lot: &mut StdRng, order: Uuid, entry: &Entry) {
        let stage = entry.stage;
        let is_open = matches!(stage, Stage::Taken | Stage::Picked);
        if is_open && self.is_asked_back(order, entry.number) && lot.random_bool(0.3) {
            // as it answers a withdrawal
            let gives_back = stage == Stage::Taken || self.gives_back_picked;
            _ = self.system.answer_cancel(order, gives_back);
        } else if is_open && lot.random_bool(0.02) {
            _ = self.system.give_up(order, &json!([{ "message": "it is broken", "code": "broken" }]));
        } else if stage == Stage::Picked && self.keeps_rules() && lot.random_bool(0.1) {
            _ = self.system.pack_some(order, &some(lot, &entry.order));
        } else if let Some(step) = Step::after(stage)
            && lot.random_bool(0.35)
        {
            _ = self.system.step(order, step);
        }
    }

    /// Reports everything that it has to report.
    pub(super) async fn report_all(&self) -> anyhow::Result<()> {
        self.report(Manner::Twice).await
    }

    async fn report(&self, manner: Manner) -> anyhow::Result<()> {
        let send = async |news: Vec<Value>| {
            let body = json!({ "wms": self.tenant.wms, "news": news }).to_string();
            let reply = self.program.ask(&Request::new(Method::POST, REPORTS, body), &[200, 202]).await?;
            let job = id_of(&reply.body).with_context(|| format!("this is no job: {}", reply.body))?;
            let mut book = self.book();
            book.jobs.push(job);
            for report in news {
                let id = report["id"].as_str().context("a report without an id")?.to_owned();
                book.reports.insert(id, report);
            }
            anyhow::Ok(())
        };
        self.system.report(manner, send).await.map(drop)
    }
}

/// Some of the pieces of an order, by product.
fn some(lot: &mut StdRng, order: &Value) -> Vec<(Uuid, u64)> {
    let items = order["items"].as_array().into_iter().flatten();
    let some = items.filter_map(|item| {
        let product = item["product"].as_str()?.parse().ok()?;
        Some((product, lot.random_range(0..=item["quantity"].as_u64()?)))
    });
    some.collect()
}

//! Readers of events, while all that breaks breaks: each event comes once, in one order, which is that of versions. Who reads dies
//! now and then, and reads on from where it was before.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use http::Method;
use longshore_testkit::world::Tenant;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use super::caller::{Caller, Request};
use super::fleet::lock;
use super::report::Check;

/// The wait at the end of what there is.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// How long what is left may take to be read.
const READ_WITHIN: Duration = Duration::from_mins(2);

/// What was read.
#[derive(Debug)]
struct Heard {
    event: Uuid,
    entity: Uuid,
    version: i64,
}

/// A reader of all events of an organisation, and who reads by it.
#[derive(Debug)]
pub(crate) struct Reading {
    organisation: Uuid,
    path: String,
    /// Where each part began, and what it had.
    parts: Mutex<Vec<(Option<String>, Vec<Heard>)>>,
}

impl Reading {
    /// Makes it.
    pub(crate) async fn open(caller: &Caller, tenant: &Tenant, name: &str) -> anyhow::Result<Self> {
        let body = json!({ "organisation": tenant.organisation, "name": name }).to_string();
        let made = caller.ask(&Request::new(Method::POST, "/api/event-reader", body), &[201]).await?.body;
        let id = made["id"].as_str().context("a reader without an id")?;
        let path = format!("/api/event-reader/{id}/events");
        Ok(Self { organisation: tenant.organisation.get(), path, parts: Mutex::default() })
    }

    /// Reads until then.
    pub(crate) async fn read(&self, caller: &Caller, seed: u64, until: Instant) -> anyhow::Result<()> {
        let mut lot = StdRng::seed_from_u64(seed);
        let mut after = None;
        while Instant::now() < until {
            let limit = lot.random_range(1..400);
            if self.next(caller, &mut after, limit).await? {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            if lot.random_bool(0.05) {
                // it dies, and had stored an earlier place
                let mut parts = lock(&self.parts);
                let back = lot.random_range(0..parts.len());
                after.clone_from(&parts[back].0);
                parts.truncate(back);
            }
        }
        Ok(())
    }

    /// Reads the next part; returns whether that was all.
    async fn next(&self, caller: &Caller, after: &mut Option<String>, limit: u32) -> anyhow::Result<bool> {
        let from = after.as_ref().map(|after| format!("&after={after}")).unwrap_or_default();
        let request = Request::new(Method::GET, format!("{}?limit={limit}{from}", self.path), "");
        let page = caller.ask(&request, &[200]).await?.body;
        let uuid = |value: &Value| value.as_str().and_then(|id| id.parse().ok()).context("no id");
        let events = page["events"].as_array().context("no events")?.iter();
        let heard: anyhow::Result<Vec<Heard>> = events
            .map(|event| {
                let version = event["data"]["version"].as_i64().unwrap_or_default();
                Ok(Heard { event: uuid(&event["webhookId"])?, entity: uuid(&event["id"])?, version })
            })
            .collect();
        let next = page["next"].as_str().context("no next")?.to_owned();
        lock(&self.parts).push((after.replace(next), heard?));
        Ok(page["behindMs"] == 0)
    }

    /// Reads what is left.
    pub(crate) async fn conclude(&self, caller: &Caller) -> anyhow::Result<()> {
        // the last place is not kept: its part is read once more
        let mut after = lock(&self.parts).pop().and_then(|(from, _)| from);
        let until = Instant::now() + READ_WITHIN;
        while !self.next(caller, &mut after, 1_000).await? {
            anyhow::ensure!(Instant::now() < until, "a reader does not come to its end");
        }
        Ok(())
    }
}

/// Checks what readers of one organisation have read.
pub(crate) async fn check(psql: &mut PgConnection, readings: &[Reading]) -> anyhow::Result<Vec<Check>> {
    let mut looked_at = 0;
    let (mut wrong, mut disorder, mut orders) = (Vec::new(), Vec::new(), Vec::new());
    for (n, reading) in readings.iter().enumerate() {
        let told: Vec<Uuid> = sqlx::query_scalar(
            "SELECT id FROM event WHERE organisation_id = $1 AND type <> 'restored' AND entity_type <> 'webhook'",
        )
        .bind(reading.organisation)
        .fetch_all(&mut *psql)
        .await?;
        let parts = lock(&reading.parts);
        let heard: Vec<&Heard> = parts.iter().flat_map(|(_, events)| events).collect();
        looked_at += told.len() as u64;
        let mut seen = HashSet::new();
        wrong.extend(
            heard
                .iter()
                .filter(|one| !seen.insert(one.event))
                .map(|one| format!("{n}: {} came twice", one.event)),
        );
        let told: HashSet<Uuid> = told.into_iter().collect();
        wrong.extend(told.difference(&seen).map(|event| format!("{n}: {event} did not come")));
        wrong.extend(seen.difference(&told).map(|event| format!("{n}: {event} is no event")));
        let mut versions: HashMap<Uuid, i64> = HashMap::new();
        for one in &heard {
            let before = versions.insert(one.entity, one.version);
            if before.is_some_and(|before| before > one.version) {
                disorder
                    .push(format!("{n}: version {} of {} came after {before:?}", one.version, one.entity));
            }
        }
        orders.push(heard.iter().map(|one| one.event).collect::<Vec<_>>());
    }
    let differing = orders.windows(2).filter(|two| two[0] != two[1]).count();
    disorder.extend((differing > 0).then(|| "two readers read different orders".to_owned()));
    Ok(vec![
        Check::new("each event came to each reader once, and nothing else did", looked_at, wrong),
        Check::new("readers read one order, which is that of versions", looked_at, disorder),
    ])
}

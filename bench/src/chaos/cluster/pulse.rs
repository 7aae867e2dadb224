//! A steady write and a steady read at each api process: they tell when the service could be used, and whether what it answered
//! happened once. No write is repeated.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures::StreamExt as _;
use futures::future::join_all;
use futures::stream::FuturesUnordered;
use http::Method;
use longshore_client::{Call, Client, RetryPolicy};
use longshore_kernel::access::Role;
use longshore_testkit::client;
use longshore_testkit::services;
use longshore_testkit::world::Tenant;
use serde_json::json;
use uuid::Uuid;

use super::witness::Tried;
use crate::chaos::caller::{Caller, Request};
use crate::chaos::crew::{Crew, connect};
use crate::chaos::fleet::lock;
use crate::chaos::load::id_of;

/// The pause between two, and after a failure.
const PACE: Duration = Duration::from_millis(100);
const FAILED: Duration = Duration::from_millis(400);

/// How long an answer may take. Others are tried meanwhile: what is stuck tells nothing about what comes later.
const PATIENCE: Duration = Duration::from_secs(6);
const AT_ONCE: usize = 16;

/// One process, as who uses it sees it.
#[derive(Debug)]
pub(super) struct Pulse {
    /// The name of the process.
    pub(super) name: String,
    client: Client,
    product: Uuid,
    writes: Mutex<Vec<Tried>>,
    reads: Mutex<Vec<Tried>>,
}

/// What became of the writes that were answered.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// What is not there, and what is there twice, with the time of the answer.
    pub(super) lost: Vec<(Instant, String)>,
    pub(super) twice: Vec<(Instant, String)>,
    pub(super) looked_at: u64,
}

/// Opens one for each api process. They belong to an organisation without webhooks.
pub(super) async fn open_all(crew: &Crew) -> anyhow::Result<Vec<Pulse>> {
    let services = services::for_test(&crew.database_url.as_str().parse()?)?;
    let tenant = Tenant::create(&services, "Pulse").await?;
    let token = tenant.token(&services, Role::User).await?;
    let (caller, http) = (Caller::new(crew.bases(), &token)?, client::outside()?);
    let mut pulses = Vec::new();
    for api in &crew.apis {
        let body = json!({
            "organisation": tenant.organisation, "eshops": [tenant.eshop], "productSku": api.name,
            "internalSku": api.name, "name": "to begin with", "imeiCheckRequired": false, "active": true,
        });
        let create = Request::new(Method::POST, "/api/product", body.to_string());
        let made = caller.ask(&create, &[201]).await?.body;
        let client = Client::builder(&api.base_url, &token)
            .http(http.clone())
            .timeout(PATIENCE)
            .retry(RetryPolicy::never())
            .idempotency_keys(false)
            .build()?;
        pulses.push(Pulse {
            name: api.name.clone(),
            client,
            product: id_of(&made).context("a product without an id")?,
            writes: Mutex::default(),
            reads: Mutex::default(),
        });
    }
    Ok(pulses)
}

/// Has all of them beat all the time.
pub(super) async fn beat(pulses: &[Pulse]) {
    let both = pulses.iter().map(async |pulse| {
        tokio::join!(pulse.go_on(Method::PUT, &pulse.writes), pulse.go_on(Method::GET, &pulse.reads))
    });
    join_all(both).await;
}

/// Moments of success, in order.
pub(super) fn successes(tried: &Mutex<Vec<Tried>>) -> Vec<Instant> {
    let mut answered: Vec<Instant> =
        lock(tried).iter().filter(|one| one.is_done).map(|one| one.answered).collect();
    answered.sort_unstable();
    answered
}

impl Pulse {
    /// When writes were answered with success.
    pub(super) fn written(&self) -> Vec<Instant> {
        successes(&self.writes)
    }

    /// When reads were.
    pub(super) fn read(&self) -> Vec<Instant> {
        successes(&self.reads)
    }

    async fn go_on(&self, method: Method, tried: &Mutex<Vec<Tried>>) {
        let mut under_way = FuturesUnordered::new();
        let (mut number, mut next) = (0, tokio::time::Instant::now());
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(next) => {
                    if under_way.len() < AT_ONCE {
                        number += 1;
                        under_way.push(self.attempt(method.clone(), number));
                    }
                    let last = lock(tried).last().is_none_or(|one| one.is_done);
                    next = tokio::time::Instant::now() + if last { PACE } else { FAILED };
                }
                Some(one) = under_way.next() => lock(tried).push(one),
            }
        }
    }

    fn value(&self, number: u64) -> String {
        format!("{}, no {number}", self.name)
    }

    async fn attempt(&self, method: Method, number: u64) -> Tried {
        let is_write = method == Method::PUT;
        let mut call: Call = self.client.call(method, format!("/api/product/{}", self.product));
        if is_write {
            call = call.body(json!({ "name": self.value(number) }).to_string());
        }
        let is_done = call.once().await.is_ok_and(|answer| answer.status() == 200);
        Tried { number, answered: Instant::now(), is_done }
    }

    /// Compares the writes with the audit. One without an answer may have happened, once.
    pub(super) async fn kept(&self, crew: &Crew) -> anyhow::Result<Kept> {
        let mut psql = connect(crew).await?;
        let counts: Vec<(Option<String>, i64)> = sqlx::query_as(
            "SELECT changes -> 'name' ->> 1, count(*) FROM audit WHERE entity_id = $1 GROUP BY 1",
        )
        .bind(self.product)
        .fetch_all(&mut psql)
        .await?;
        let counts: HashMap<String, i64> =
            counts.into_iter().filter_map(|(name, count)| Some((name?, count))).collect();
        let writes = lock(&self.writes);
        let mut kept = Kept { looked_at: writes.len() as u64, ..Kept::default() };
        for one in writes.iter() {
            let value = self.value(one.number);
            match counts.get(&value).copied().unwrap_or_default() {
                0 if one.is_done => kept.lost.push((one.answered, value)),
                0 | 1 => {}
                _ => kept.twice.push((one.answered, value)),
            }
        }
        Ok(kept)
    }
}

//! Operations on webhooks during the faults: rotating a secret, pausing and resuming, tests, redeliveries,
//! and recoveries of deliveries that a destination refused until they failed.
//!
//! Each operation has its own webhook ([`NAMES`]), which subscribes to the same changes as all others, and
//! must receive each of them nevertheless. [`Deeds`] keeps the further promises.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use http::Method;
use longshore_domain::webhook::schedule::ATTEMPTS;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};
use serde_json::json;
use uuid::Uuid;

use super::caller::{Caller, Reply, Request};
use super::crew::{Crew, connect};
use super::fleet::Shop;
use super::load::{id_of, key, pause};

/// The destination of the webhook whose secret is rotated; it also gets tests and redeliveries.
pub(crate) const ROTATED: &str = "rotates its secret";
/// The destination of the webhook that is paused and resumed; it also gets tests and redeliveries.
pub(crate) const PAUSED: &str = "is paused";
/// The destination that refuses a few changes until their deliveries fail, and then has them recovered.
pub(crate) const GIVEN_UP: &str = "gives up";

/// All of them.
pub(crate) const NAMES: [&str; 3] = [ROTATED, PAUSED, GIVEN_UP];

/// Rotations per day: a replaced secret signs for another day, and this is the maximum number of such
/// secrets.
const ROTATIONS: u32 = 8;

/// Ids refused at a time: too few to open the breaker, because this tests failed deliveries.
const REFUSED: usize = 3;

/// How long deliveries may take to fail. Making their retries due needs Postgres, which may be away.
const GIVEN_UP_WITHIN: Duration = Duration::from_secs(30);

/// The interval of checking that.
const LOOK_AGAIN: Duration = Duration::from_millis(300);

/// How long making them due may take.
const HURRY_WITHIN: Duration = Duration::from_secs(2);

/// Maximum number of deliveries that one request sends again.
const AGAIN_AT_ONCE: usize = 5;

/// The promises: each was answered with success.
#[derive(Debug, Default)]
pub(crate) struct Deeds {
    /// Rotations, and those whose secret was never seen: the answer was lost, and a repetition does not show
    /// the secret.
    pub(crate) rotations: u64,
    pub(crate) unseen: u64,
    /// Tests: the delivery and the event.
    pub(crate) tests: Vec<(Uuid, Uuid)>,
    /// Redeliveries, each with the delivery that it repeats.
    pub(crate) redeliveries: Vec<(Uuid, Uuid)>,
    /// Jobs for several redeliveries, with the deliveries they repeat.
    pub(crate) redelivery_jobs: Vec<(Uuid, Vec<Uuid>)>,
    /// When a webhook was paused, and when it was asked to resume.
    pub(crate) pauses: Vec<(Instant, Instant)>,
    /// The jobs of recoveries.
    pub(crate) recoveries: Vec<Uuid>,
}

/// The operator of the webhooks; see the module.
#[derive(Debug)]
pub(crate) struct Minder<'r> {
    crew: &'r Crew,
    caller: &'r Caller,
    rotated: &'r (Uuid, Shop),
    paused: &'r (Uuid, Shop),
    given_up: &'r (Uuid, Shop),
    deeds: Mutex<Deeds>,
}

/// The webhook with this name and its destination.
pub(crate) fn find<'s>(shops: &'s [(Uuid, Shop)], name: &str) -> anyhow::Result<&'s (Uuid, Shop)> {
    shops.iter().find(|(_, shop)| shop.name == name).with_context(|| format!("no shop {name}"))
}

impl<'r> Minder<'r> {
    pub(crate) fn new(crew: &'r Crew, caller: &'r Caller, shops: &'r [(Uuid, Shop)]) -> anyhow::Result<Self> {
        let [rotated, paused, given_up] = NAMES.map(|name| find(shops, name));
        let (rotated, paused, given_up) = (rotated?, paused?, given_up?);
        Ok(Self { crew, caller, rotated, paused, given_up, deeds: Mutex::default() })
    }

    /// The promises so far.
    pub(crate) fn deeds(&self) -> MutexGuard<'_, Deeds> {
        self.deeds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Operates the webhooks until then.
    pub(crate) async fn mind(&self, seed: u64, until: Instant) -> anyhow::Result<()> {
        let lot = |n: u64| StdRng::seed_from_u64(seed ^ (n << 32));
        tokio::try_join!(
            self.rotate(lot(200), until),
            self.pause(lot(201), until),
            self.test(lot(202), until),
            self.send_again(lot(203), until),
            self.give_up(lot(204), until),
        )?;
        Ok(())
    }

    /// The final operations, when all work is done: recovers deliveries that failed since the last recovery,
    /// and sends a test that all current secrets must sign. Returns the webhook-id of that test.
    pub(crate) async fn conclude(&self) -> anyhow::Result<Uuid> {
        self.recover().await?;
        let test = Request::new(Method::POST, format!("/api/eshop-webhook/{}/test", self.rotated.0), "")
            .with("idempotency-key", key());
        self.tested(&self.caller.ask(&test, &[202]).await?)
    }

    async fn rotate(&self, mut lot: StdRng, until: Instant) -> anyhow::Result<()> {
        let (webhook, shop) = self.rotated;
        let share = until.saturating_duration_since(Instant::now()).as_secs_f64() / f64::from(ROTATIONS);
        for _ in 0..ROTATIONS {
            if !pause(&mut lot, 0.4 * share..1.3 * share, until).await {
                break;
            }
            let path = format!("/api/eshop-webhook/{webhook}/rotate-secret");
            let rotate = Request::new(Method::PUT, path, "").with("idempotency-key", key());
            let reply = self.caller.ask(&rotate, &[200]).await?;
            self.deeds().rotations += 1;
            match (reply.body["secret"].as_str(), reply.replayed) {
                (Some(secret), false) => shop.believe(secret)?,
                (None, true) => self.deeds().unseen += 1,
                (secret, replayed) => self.caller.violation(format!(
                    "a rotation answered {} a secret, replayed: {replayed}",
                    if secret.is_some() { "with" } else { "without" },
                )),
            }
        }
        Ok(())
    }

    async fn pause(&self, mut lot: StdRng, until: Instant) -> anyhow::Result<()> {
        while pause(&mut lot, 1.0..6.0, until).await {
            self.set_active(&mut lot, false).await?;
            let paused = Instant::now();
            pause(&mut lot, 2.0..22.0, until).await;
            // noted before the request: the webhook may resume long before the answer arrives
            self.deeds().pauses.push((paused, Instant::now()));
            self.set_active(&mut lot, true).await?;
        }
        Ok(())
    }

    /// Uses either of the two requests for it.
    async fn set_active(&self, lot: &mut StdRng, active: bool) -> anyhow::Result<()> {
        let webhook = self.paused.0;
        let (request, status) = if lot.random_bool(0.5) {
            let body = json!({ "active": active }).to_string();
            (Request::new(Method::PUT, format!("/api/eshop-webhook/{webhook}"), body), 200)
        } else {
            let word = if active { "activate" } else { "deactivate" };
            (Request::new(Method::PUT, format!("/api/eshop-webhook/{word}/{webhook}"), ""), 204)
        };
        self.caller.ask(&request, &[status]).await.map(drop)
    }

    async fn test(&self, mut lot: StdRng, until: Instant) -> anyhow::Result<()> {
        while pause(&mut lot, 1.0..5.0, until).await {
            let webhook = self.either(&mut lot);
            let test = Request::new(Method::POST, format!("/api/eshop-webhook/{webhook}/test"), "")
                .with("idempotency-key", key());
            let reply = self.caller.ask(&test, &[202]).await?;
            self.tested(&reply)?;
            self.repeat(&mut lot, &test, &reply).await?;
        }
        Ok(())
    }

    fn tested(&self, reply: &Reply) -> anyhow::Result<Uuid> {
        let event = reply.body["webhookId"].as_str().and_then(|id| id.parse().ok());
        let (Some(delivery), Some(event)) = (id_of(&reply.body), event) else {
            anyhow::bail!("this is no test: {}", reply.body)
        };
        self.deeds().tests.push((delivery, event));
        Ok(event)
    }

    /// One of the two webhooks that get all kinds of deliveries.
    fn either(&self, lot: &mut StdRng) -> Uuid {
        if lot.random_bool(0.5) { self.rotated.0 } else { self.paused.0 }
    }

    async fn send_again(&self, mut lot: StdRng, until: Instant) -> anyhow::Result<()> {
        while pause(&mut lot, 1.0..5.0, until).await {
            let webhook = self.either(&mut lot);
            let list = json!({ "criteria": { "webhook": { "eq": webhook }, "state": { "eq": "delivered" } },
                               "sort": [{ "field": "createdAt", "order": "DESC" }], "limit": 50, "select": ["id"] });
            let list = Request::new(Method::POST, "/api/webhook-delivery/list", list.to_string());
            let listed = self.caller.ask(&list, &[200]).await?.body;
            let ended: Vec<Uuid> =
                listed["results"].as_array().into_iter().flatten().filter_map(id_of).collect();
            let chosen = lot.random_range(1..=AGAIN_AT_ONCE);
            let chosen: Vec<Uuid> = ended.choose_multiple(&mut lot, chosen).copied().collect();
            let again = match chosen.as_slice() {
                [] => continue,
                [one] => Request::new(Method::PUT, format!("/api/webhook-delivery/redeliver/{one}"), ""),
                several => {
                    let several = serde_json::to_string(several)?;
                    Request::new(Method::PUT, "/api/webhook-delivery/redeliver", several)
                }
            };
            let again = again.with("idempotency-key", key());
            let reply = self.caller.ask(&again, &[202]).await?;
            let id = id_of(&reply.body).with_context(|| format!("nothing was promised: {}", reply.body))?;
            match chosen.as_slice() {
                [one] if reply.body["redeliveryOf"] == json!(one) => {
                    self.deeds().redeliveries.push((id, *one));
                }
                several if reply.body["progress"]["total"] == several.len() => {
                    self.deeds().redelivery_jobs.push((id, chosen));
                }
                wanted => self.caller.violation(format!("{} sent again: {}", wanted.len(), reply.body)),
            }
            self.repeat(&mut lot, &again, &reply).await?;
        }
        Ok(())
    }

    async fn give_up(&self, mut lot: StdRng, until: Instant) -> anyhow::Result<()> {
        let shop = &self.given_up.1;
        while pause(&mut lot, 1.0..5.0, until).await {
            shop.refuse(REFUSED);
            let enough = until.min(Instant::now() + GIVEN_UP_WITHIN);
            while shop.refused(ATTEMPTS) < REFUSED && Instant::now() < enough {
                // while Postgres is broken, nothing can be made due
                _ = tokio::time::timeout(HURRY_WITHIN, self.hurry()).await;
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            shop.refuse(0);
            self.recover().await?;
        }
        Ok(())
    }

    /// Makes the retries of refused deliveries due now.
    async fn hurry(&self) -> anyhow::Result<()> {
        let mut psql = connect(self.crew).await?;
        let hurry = "UPDATE delivery SET next_attempt_at = now()
                     WHERE webhook_id = $1 AND attempt_count > 0 AND next_attempt_at > now()";
        sqlx::query(hurry).bind(self.given_up.0).execute(&mut psql).await?;
        Ok(())
    }

    async fn recover(&self) -> anyhow::Result<()> {
        // without a lower bound
        let since = json!({ "since": "2000-01-01T00:00:00Z" }).to_string();
        let recover =
            Request::new(Method::POST, format!("/api/eshop-webhook/{}/recover", self.given_up.0), since)
                .with("idempotency-key", key());
        let reply = self.caller.ask(&recover, &[202]).await?;
        let job = id_of(&reply.body).with_context(|| format!("this is no job: {}", reply.body))?;
        self.deeds().recoveries.push(job);
        Ok(())
    }

    /// Sometimes repeats an answered request: it must be executed once, with the same answer.
    async fn repeat(&self, lot: &mut StdRng, request: &Request, first: &Reply) -> anyhow::Result<()> {
        if lot.random_bool(0.3) {
            let again = self.caller.ask(request, &[first.status]).await?;
            // a job may have progressed
            let same = if again.body["progress"].is_object() {
                id_of(&again.body) == id_of(&first.body)
            } else {
                again.body == first.body
            };
            if !same || !again.replayed {
                let Request { path, .. } = request;
                self.caller.violation(format!("{path} repeated: {} instead of {}", again.body, first.body));
            }
        }
        Ok(())
    }
}

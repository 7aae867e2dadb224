//! A tenant with webhooks for a receiver, and the lanes of one worker.

use std::sync::Arc;
use std::time::Duration;

use longshore_domain::job::dispatch;
use longshore_domain::webhook::{lane, subscription};
use longshore_kernel::access::{Actor, Caller, Role, Scope};
use longshore_kernel::answer::Answer;
use longshore_kernel::context::{Context, Origin};
use longshore_kernel::ids::{EventId, TokenId, WebhookId};
use longshore_kernel::services::Services;
use longshore_testkit::receiver::Receiver;
use longshore_testkit::services;
use longshore_testkit::signature::Verifier;
use longshore_testkit::world::Tenant;
use longshore_worker::context::WorkerContext;
use longshore_worker::jobs::chunk;
use longshore_worker::lanes::{self, LaneContext, OutcomeWriter, Ran};
use longshore_worker::outbound::Client;
use serde_json::{Value, json};
use sqlx::postgres::PgConnectOptions;
use sqlx::{PgConnection, PgPool};
use tokio_util::sync::CancellationToken;

/// How long a test waits for an expected event.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub struct World {
    pub services: Services,
    pub tenant: Tenant,
    pub receiver: Receiver,
    /// With the role of the owner: tests read the tables, and move the clock by changing due times.
    pub pool: PgPool,
    pub worker: LaneContext,
}

/// A webhook of the world.
pub struct Hook {
    pub id: WebhookId,
    pub path: String,
    /// As it was shown at creation.
    pub secret: String,
    pub verifier: Verifier,
}

impl World {
    pub async fn new(options: &PgConnectOptions) -> Self {
        Self::over(services::for_test(options).unwrap(), options, Receiver::start().await.unwrap()).await
    }

    pub async fn over(services: Services, options: &PgConnectOptions, receiver: Receiver) -> Self {
        let tenant = Tenant::create(&services, "Gifts").await.unwrap();
        let pool = PgPool::connect_with(options.clone()).await.unwrap();
        let worker = worker(&services);
        Self { services, tenant, receiver, pool, worker }
    }

    pub fn context(&self) -> Context {
        let actor = Actor { kind: "token".to_owned(), id: None, name: "test".to_owned() };
        let origin = Origin { actor: actor.clone(), request_id: None, job: None, traceparent: None };
        let scope = Scope::Organisations(Arc::from([self.tenant.organisation]));
        let (session, must_set_up) = (None, false);
        let caller = Caller { token: TokenId::nil(), session, actor, role: Role::User, scope, must_set_up };
        Context { caller, origin, claim: None }
    }

    /// Creates a webhook for a path of the receiver; `fields` override the default ones.
    pub async fn hook(&self, path: &str, fields: Value) -> Hook {
        self.hook_at(&self.receiver.url(path), path, fields).await
    }

    pub async fn hook_at(&self, url: &str, path: &str, fields: Value) -> Hook {
        let mut body = json!({"eshop": self.tenant.eshop, "event": "product_change", "destination": url});
        for (name, value) in fields.as_object().into_iter().flatten() {
            body[name] = value.clone();
        }
        let answer = subscription::create(&self.services, &self.context(), body).await.unwrap();
        let shown: Value = serde_json::from_str(&answer.body.unwrap()).unwrap();
        Hook {
            id: shown["id"].as_str().unwrap().parse().unwrap(),
            path: path.to_owned(),
            secret: shown["secret"].as_str().unwrap().to_owned(),
            verifier: Verifier::new(shown["secret"].as_str().unwrap()).unwrap(),
        }
    }

    /// Creates events for this webhook, due now; returns their ids in order.
    pub async fn events(&self, hook: &Hook, count: i32) -> Vec<EventId> {
        self.events_in(&mut self.pool.acquire().await.unwrap(), hook, count).await
    }

    /// The same on a given connection.
    pub async fn events_in(&self, connection: &mut PgConnection, hook: &Hook, count: i32) -> Vec<EventId> {
        sqlx::query_scalar(
            r#"WITH made AS (
                   SELECT n, uuid_v7_floor(now()) AS floor, gen_random_uuid() AS entity FROM generate_series(1, $3) n
               ), recorded AS (
                   INSERT INTO event (id, type, organisation_id, entity_type, entity_id, data)
                   SELECT uuid_v7(), 'product_change', $2, 'product', entity,
                          jsonb_build_object('id', entity, 'changedFields', '["name"]'::jsonb,
                              'fields', jsonb_build_object('name', 'no ' || n), 'n', n)
                   FROM made RETURNING id, (data ->> 'n')::int AS n
               ), due AS (
                   INSERT INTO delivery (id, webhook_id, eshop_id, event_id, next_attempt_at, created_at)
                   SELECT uuid_v7(), $1, $4, id, now() + n * interval '1 microsecond' - interval '1 second',
                          now() + n * interval '1 microsecond' - interval '1 second' FROM recorded
               )
               SELECT id FROM recorded ORDER BY n"#,
        )
        .bind(hook.id)
        .bind(self.tenant.organisation)
        .bind(count)
        .bind(self.tenant.eshop)
        .fetch_all(connection)
        .await
        .unwrap()
    }

    /// Runs turns of a lane until nothing more is due.
    pub async fn drain(&self, hook: &Hook) {
        while lanes::run(&self.worker, hook.id).await.unwrap() == Ran::More {}
    }

    /// Runs the chunks of jobs until none is due; returns the job.
    pub async fn run_job(&self, accepted: &Answer) -> Value {
        let worker = WorkerContext::new(self.services.clone()).unwrap();
        loop {
            let due = dispatch::due(&self.services.db.main).await.unwrap();
            if due.is_empty() {
                break;
            }
            for (_, name) in due {
                Box::pin(chunk::run(worker.clone(), name)).await;
            }
        }
        sqlx::query_scalar("SELECT to_jsonb(job) FROM job WHERE id = $1")
            .bind(accepted.job.unwrap())
            .fetch_one(&self.pool)
            .await
            .unwrap()
    }

    /// Moves the clock: retries and probes are due now.
    pub async fn make_due(&self, hook: &Hook) {
        self.make_probe_due(hook).await;
        sqlx::query(
            "UPDATE delivery SET next_attempt_at = now() - interval '1 second' WHERE webhook_id = $1 AND attempt_count > 0",
        )
        .bind(hook.id)
        .execute(&self.pool)
        .await
        .unwrap();
    }

    /// Moves the clock to the next probe, if there is one.
    pub async fn make_probe_due(&self, hook: &Hook) {
        sqlx::query(
            "UPDATE webhook_lane SET probe_at = now() - interval '1 second'
             WHERE webhook_id = $1 AND probe_at IS NOT NULL",
        )
        .bind(hook.id)
        .execute(&self.pool)
        .await
        .unwrap();
    }

    /// Live deliveries of a webhook.
    pub async fn live(&self, hook: &Hook) -> i64 {
        sqlx::query_scalar("SELECT count(*) FROM delivery WHERE webhook_id = $1")
            .bind(hook.id)
            .fetch_one(&self.pool)
            .await
            .unwrap()
    }

    /// Ended deliveries of a webhook in a state.
    pub async fn ended(&self, hook: &Hook, state: &str) -> i64 {
        sqlx::query_scalar("SELECT count(*) FROM delivery_history WHERE webhook_id = $1 AND state = $2")
            .bind(hook.id)
            .bind(state)
            .fetch_one(&self.pool)
            .await
            .unwrap()
    }

    /// One value of the database.
    pub async fn value(&self, sql: &'static str, hook: &Hook) -> Value {
        sqlx::query_scalar(sql).bind(hook.id).fetch_one(&self.pool).await.unwrap()
    }

    /// Leases a lane like another worker.
    pub async fn lease(&self, hook: &Hook) -> lane::Lease {
        lane::lease(&self.services, &[hook.id]).await.unwrap().remove(&hook.id).unwrap().unwrap().lease
    }
}

/// The lanes of another worker.
pub fn worker(services: &Services) -> LaneContext {
    let client = Client::new(&services.outbound).unwrap();
    LaneContext::new(
        services.clone(),
        client,
        OutcomeWriter::start(services.clone()),
        CancellationToken::new(),
    )
}

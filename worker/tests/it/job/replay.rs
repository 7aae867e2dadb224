//! Replays: several webhooks in turns, periods, deliveries that succeeded, and workers that die.

use longshore_domain::job::chunk::{self as claims, Claimed};
use longshore_domain::job::control;
use longshore_domain::job::failing;
use longshore_domain::job::walking;
use longshore_domain::webhook::delivery::replay::{self, Count, Replay};
use longshore_kernel::change::Change;
use longshore_kernel::hold::Hold;
use longshore_kernel::ids::{DeliveryId, JobId, WebhookId};
use longshore_kernel::migration::MIGRATIONS;
use longshore_worker::jobs::chunk;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::redelivery::{DUE, MADE, MORE, ended, shown, succeeded, waiting};
use super::support::World;

pub(super) async fn replay(world: &World, body: Value) -> JobId {
    replay::replay(&world.services, &world.context, body).await.unwrap().job.unwrap()
}

async fn count(world: &World, body: Value) -> Count {
    replay::count(&world.services, world.context.scope(), body).await.unwrap()
}

fn all_of(hooks: &[WebhookId]) -> Value {
    json!({"webhooks": hooks, "since": "2020-01-01T00:00:00Z"})
}

/// Redeliveries of a webhook.
async fn made(world: &World, hook: WebhookId) -> i64 {
    sqlx::query_scalar("SELECT count(*) FROM delivery WHERE redelivery_of IS NOT NULL AND webhook_id = $1")
        .bind(hook)
        .fetch_one(&world.owner)
        .await
        .unwrap()
}

/// Moves the times of an ended delivery: made and ended so many hours ago. Its id is of the time when it was made.
async fn dated(world: &World, id: DeliveryId, made: f64, ended: f64) -> DeliveryId {
    sqlx::query_scalar(
        "UPDATE delivery_history
         SET id = uuid_v7_at(now() - make_interval(secs => $2 * 3600)), created_at = now() - make_interval(secs => $2 * 3600),
             finished_at = now() - make_interval(secs => $3 * 3600)
         WHERE id = $1 RETURNING id",
    )
    .bind(id)
    .bind(made)
    .bind(ended)
    .fetch_one(&world.owner)
    .await
    .unwrap()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_replay_of_several_webhooks_takes_turns_and_its_figures_add_up(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let (large, small, other) =
        (world.webhook("test").await, world.webhook("test").await, world.webhook("test").await);
    ended(&world, large, "exhausted", MORE).await;
    ended(&world, small, "exhausted", 3).await;
    ended(&world, small, "delivered", 2).await;
    ended(&world, other, "exhausted", 3).await;
    waiting(&world, small, 4).await;
    waiting(&world, other, 4).await;
    let more = i64::from(MORE);
    let known = count(&world, all_of(&[large, small])).await;
    assert_eq!(
        (known.webhooks, known.waiting, known.failed, known.delivered, known.total, known.at_least),
        (2, 4, more + 3, 0, more + 7, false)
    );
    let job = replay(&world, all_of(&[large, small])).await;
    // the second step of the large one comes behind the first of the small one
    for number in [0, 1] {
        chunk::run(world.worker.clone(), format!("{job}:{number}")).await;
    }
    assert_eq!((made(&world, large).await, made(&world, small).await), (2_000, 3));
    let (state, [total, ..], sent) = shown(&world, job).await;
    assert_eq!((state.as_str(), total, sent), ("running", more + 7, [4, 2_003]));
    world.drain().await;
    assert_eq!(shown(&world, job).await, succeeded([more + 7, more + 7, 0, 0], [4, more + 3]));
    assert_eq!((made(&world, large).await, made(&world, other).await), (more, 0));
    assert_eq!(world.count(DUE).await, 4);
    let audited = "SELECT count(*) FROM audit WHERE action = 'webhook.replay'";
    assert_eq!(world.count(audited).await, 3, "a record for each step that sent something");
    // everything is on its way, so there is nothing to send: a job that looks at one of the webhooks says so
    let again = replay(&world, all_of(&[large, small])).await;
    world.drain().await;
    assert_eq!(shown(&world, again).await, succeeded([more, 0, more, 0], [0, 0]));
    assert_eq!(world.count(MADE).await, more + 3);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_replay_ends_however_many_of_its_webhooks_fail(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let hooks = [world.webhook("test").await, world.webhook("test").await, world.webhook("test").await];
    for hook in hooks {
        ended(&world, hook, "exhausted", 1).await;
    }
    let job = replay(&world, all_of(&hooks)).await;
    chunk::run(world.worker.clone(), format!("{job}:0")).await;
    // it has found more than was foreseen
    world.execute("UPDATE job SET total = 2").await;
    for number in [1, 2] {
        let Claimed::Now(claim) = claims::claim(&world.services.db.main, job, number, false).await.unwrap()
        else {
            panic!("chunk {number} is due");
        };
        assert_eq!(failing::give_up(&world.services, &claim, "no").await.unwrap(), Hold::Kept);
    }
    assert_eq!(shown(&world, job).await, ("failed".to_owned(), [3, 1, 0, 2], [0, 1]));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_was_delivered_in_a_period_is_sent_again_however_long_it_took(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let hook = world.webhook("test").await;
    let ids = ended(&world, hook, "delivered", 6).await;
    // within an hour; made long before; before, after; made before and within an hour; at the bounds
    let prompt = dated(&world, ids[0], 5.0, 4.9).await;
    let late = dated(&world, ids[1], 50.0, 5.0).await;
    dated(&world, ids[2], 8.0, 7.9).await;
    dated(&world, ids[3], 2.0, 1.9).await;
    let across = dated(&world, ids[4], 6.5, 5.9).await;
    dated(&world, ids[5], 9.0, 2.5).await;
    let failed = ended(&world, hook, "exhausted", 1).await[0];
    let failed = dated(&world, failed, 70.0, 4.0).await;
    let moment = async |hours: f64| -> String {
        sqlx::query_scalar("SELECT to_json(now() - make_interval(secs => $1 * 3600)) #>> '{}'")
            .bind(hours)
            .fetch_one(&world.owner)
            .await
            .unwrap()
    };
    let (since, until) = (moment(6.0).await, moment(3.0).await);
    let body =
        |delivered: bool| json!({"webhooks": [hook], "since": since, "until": until, "delivered": delivered});
    let known = count(&world, body(true)).await;
    assert_eq!((known.failed, known.delivered, known.total), (1, 3, 4));
    assert_eq!(count(&world, body(false)).await.total, 1);
    let job = replay(&world, body(true)).await;
    world.drain().await;
    assert_eq!(shown(&world, job).await, succeeded([4, 4, 0, 0], [0, 4]));
    let mut repeated: Vec<DeliveryId> =
        sqlx::query_scalar("SELECT redelivery_of FROM delivery").fetch_all(&world.owner).await.unwrap();
    repeated.sort_unstable();
    let mut expected = [prompt, late, across, failed];
    expected.sort_unstable();
    assert_eq!(repeated, expected);
    // one that was sent again and delivered in the period replaces the first
    world
        .execute(
            "WITH gone AS (DELETE FROM delivery RETURNING *)
             INSERT INTO delivery_history (id, webhook_id, eshop_id, organisation_id, event_id, event_type, entity_id, state,
                 attempt_count, attempts, redelivery_of, created_at, finished_at)
             SELECT g.id, g.webhook_id, g.eshop_id, e.organisation_id, e.id, e.type, e.entity_id, 'delivered', 1, '[]',
                    g.redelivery_of, now(), now()
             FROM gone g JOIN event e ON e.id = g.event_id",
        )
        .await;
    let job = replay(&world, json!({"webhooks": [hook], "since": since, "delivered": true})).await;
    world.drain().await;
    let (state, _, sent) = shown(&world, job).await;
    assert_eq!(
        (state.as_str(), sent),
        ("succeeded", [0, 6]),
        "the four, and the two that ended after the period"
    );
    let twice =
        "SELECT count(*) FROM (SELECT event_id FROM delivery GROUP BY event_id HAVING count(*) > 1) d";
    assert_eq!(world.count(twice).await, 0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_replay_looks_at_one_type_of_event_only(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let hook = world.webhook("product_change").await;
    let ids = ended(&world, hook, "exhausted", 3).await;
    sqlx::query("UPDATE delivery_history SET event_type = 'sync_finished' WHERE id = $1")
        .bind(ids[1])
        .execute(&world.owner)
        .await
        .unwrap();
    waiting(&world, hook, 2).await;
    let mut body = all_of(&[hook]);
    body["event"] = json!("sync_finished");
    assert_eq!(count(&world, body.clone()).await.total, 1);
    let job = replay(&world, body).await;
    world.drain().await;
    assert_eq!(shown(&world, job).await, succeeded([1, 1, 0, 0], [0, 1]));
    assert_eq!(world.count(DUE).await, 0, "what waits has events of another type");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_replay_whose_worker_dies_continues_and_sends_nothing_twice(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let hook = world.webhook("test").await;
    ended(&world, hook, "delivered", MORE).await;
    let mut body = all_of(&[hook]);
    body["delivered"] = json!(true);
    let job = replay(&world, body).await;
    // dies after the changes of a step, before the commit
    let Claimed::Now(claim) = claims::claim(&world.services.db.main, job, 0, false).await.unwrap() else {
        panic!("it is due")
    };
    let mut change = Change::begin(&world.services).await.unwrap();
    let (parameters, ()) = claim.job::<Replay>().unwrap();
    let step = replay::step(&mut change, &claim, &parameters).await.unwrap();
    assert_eq!(step.resent, 2_000);
    assert!(!walking::complete(&mut change, &claim, step).await.unwrap().is_lost());
    drop(change);
    world.execute("UPDATE job_chunk SET leased_until = now() - interval '1 second'").await;
    world.drain().await;
    let more = i64::from(MORE);
    assert_eq!(shown(&world, job).await, succeeded([more, more, 0, 0], [0, more]));
    assert_eq!(world.count(MADE).await, more);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_cancelled_replay_stops_and_one_of_a_deleted_webhook_goes_on(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let (first, second) = (world.webhook("test").await, world.webhook("test").await);
    ended(&world, first, "exhausted", MORE).await;
    ended(&world, second, "exhausted", 2).await;
    let job = replay(&world, all_of(&[first, second])).await;
    chunk::run(world.worker.clone(), format!("{job}:0")).await;
    control::cancel(&world.services, &world.context, job).await.unwrap();
    assert_eq!(world.drain().await, 0);
    let (state, [_, changed, ..], sent) = shown(&world, job).await;
    assert_eq!((state.as_str(), changed, sent), ("cancelled", 2_000, [0, 2_000]));
    assert_eq!(world.count(MADE).await, 2_000);

    let job = replay(&world, all_of(&[first, second])).await;
    sqlx::query("DELETE FROM webhook WHERE id = $1").bind(first).execute(&world.owner).await.unwrap();
    world.drain().await;
    assert_eq!(shown(&world, job).await, succeeded([2, 2, 0, 0], [0, 2]));
}

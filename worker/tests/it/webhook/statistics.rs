//! The cost of a delivery in Postgres beside a backlog, with missing or outdated table statistics.

use longshore_domain::webhook::lane::{self, End};
use longshore_kernel::migration::MIGRATIONS;
use longshore_kernel::statistics;
use longshore_testkit::receiver::Receiver;
use longshore_testkit::services;
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection as _, PgConnection};

use super::lease::outcome;
use super::support::{Hook, World};

/// Deliveries that wait for a webhook that is not called; half of them were attempted before.
const BACKLOG: i32 = 20_000;
/// Deliveries of the measured webhook.
const DUE: i32 = 200;
/// Pages that a delivery may read. A bad plan reads hundreds.
const FEW: f64 = 60.0;
/// Pages that a look for due deliveries may read: it covers what the last deliveries left behind, but not the
/// backlog.
const LOOK: f64 = 400.0;
/// Connections of the service: few, so that each of them has planned every statement.
const CONNECTIONS: u32 = 2;

/// A world with a webhook that is called, and another that is not.
async fn world(options: &PgConnectOptions) -> (World, Hook, Hook) {
    let services = services::with_connections(options, CONNECTIONS).unwrap();
    let world = World::over(services, options, Receiver::counting().await.unwrap()).await;
    services::analyse_by_hand(&world.pool).await.unwrap();
    let (called, idle) = (world.hook("/called", json!({})).await, world.hook("/idle", json!({})).await);
    let inactive = sqlx::query("UPDATE webhook SET active = false WHERE id = $1").bind(idle.id);
    inactive.execute(&world.pool).await.unwrap();
    (world, called, idle)
}

async fn backlog(world: &World, idle: &Hook, count: i32) {
    world.events(idle, count / 2).await;
    sqlx::query(
        "INSERT INTO delivery (id, webhook_id, eshop_id, event_id, next_attempt_at, attempt_count)
         SELECT uuid_v7(), webhook_id, eshop_id, event_id, now() + interval '1 hour', 1 FROM delivery
         WHERE webhook_id = $1 LIMIT $2",
    )
    .bind(idle.id)
    .bind(i64::from(count / 2))
    .execute(&world.pool)
    .await
    .unwrap();
}

async fn analyse(world: &World) {
    sqlx::query("VACUUM ANALYZE").execute(&world.pool).await.unwrap();
}

async fn pages(world: &World) -> i64 {
    services::pages_looked_at(&world.services.db.main, CONNECTIONS, &world.pool).await.unwrap()
}

/// The pages of a look for retries, of a look over all lanes, and of each of several deliveries.
#[expect(clippy::cast_precision_loss, reason = "a count of pages is far below what a float holds exactly")]
async fn turn(world: &World, called: &Hook, deliver: impl AsyncFnOnce()) -> [f64; 3] {
    let now = lane::retries(&world.services.db, None, 100).await.unwrap().until;
    world.events(called, DUE).await;
    let before = pages(world).await;
    lane::retries(&world.services.db, Some(now), 100).await.unwrap();
    let retried = pages(world).await;
    lane::due(&world.services.db, None, 100).await.unwrap();
    let seen = pages(world).await;
    deliver().await;
    let sent = pages(world).await;
    assert_eq!(world.live(called).await, 0);
    [(retried - before) as f64, (seen - retried) as f64, (sent - seen) as f64 / f64::from(DUE)]
}

/// Delivers what is due by the statements of a turn, as many of them on every machine: a worker that is short of processor time
/// records fewer outcomes at once, and looks more often.
async fn deliver(world: &World, hook: &Hook) {
    const TOGETHER: usize = 10;
    let db = &world.services.db;
    let lease = world.lease(hook).await;
    let mut after = None;
    loop {
        let batch = lane::fetch(db, &lease, lane::From { after, ..lane::From::default() }).await.unwrap();
        for sent in batch.due.chunks(TOGETHER) {
            let delivered = sent.iter().map(|due| outcome(world, hook, lease.token, due.id, End::Delivered));
            lane::record(&world.services, &delivered.collect::<Vec<_>>()).await.unwrap();
        }
        after = batch.cursor;
        if after.is_none() {
            break;
        }
    }
    assert!(lane::fetch(db, &lease, lane::From::default()).await.unwrap().due.is_empty());
    lane::release(db, &[(lease.webhook, lease.token)]).await.unwrap();
}

async fn costs_little(world: &World, called: &Hook) {
    let cost = turn(world, called, async || world.drain(called).await).await;
    let [retries, lanes, delivery] = cost;
    assert!(
        retries <= LOOK && lanes <= LOOK && delivery <= FEW,
        "{cost:?} pages: a look for what is to be tried again, a look over all lanes, a delivery"
    );
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_delivery_costs_little_beside_a_backlog_that_was_never_analysed(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (world, called, idle) = world(&options).await;
    backlog(&world, &idle, BACKLOG).await;
    costs_little(&world, &called).await;
    analyse(&world).await;
    costs_little(&world, &called).await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_delivery_costs_little_beside_a_backlog_that_was_tiny_when_its_plans_were_made(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (world, called, idle) = world(&options).await;
    world.events(&idle, 57).await;
    analyse(&world).await;
    turn(&world, &called, async || world.drain(&called).await).await;
    backlog(&world, &idle, BACKLOG).await;
    costs_little(&world, &called).await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_delivery_costs_little_beside_a_backlog_that_was_not_there_when_its_plans_were_made(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (world, called, idle) = world(&options).await;
    analyse(&world).await;
    turn(&world, &called, async || world.drain(&called).await).await;
    backlog(&world, &idle, BACKLOG).await;
    // as a worker does every second
    assert!(statistics::refresh(&world.services.db.main).await.unwrap() > 0);
    costs_little(&world, &called).await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_delivery_costs_little_after_a_vacuum_found_the_queue_empty(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (world, called, idle) = world(&options).await;
    let ended = async || {
        backlog(&world, &idle, BACKLOG).await;
        sqlx::query("DELETE FROM delivery").execute(&world.pool).await.unwrap();
    };
    ended().await;
    // on a busy table, a vacuum does not get the lock to give the pages back
    sqlx::query("VACUUM (TRUNCATE false) delivery").execute(&world.pool).await.unwrap();
    // what ends from here on leaves dead entries behind
    let mut old = PgConnection::connect_with(&options).await.unwrap();
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM delivery";
    sqlx::raw_sql(begin).execute(&mut old).await.unwrap();
    for _ in 0..4 {
        ended().await;
    }
    // the looks go over the dead entries, the deliveries must not
    let cost = turn(&world, &called, async || deliver(&world, &called).await).await;
    assert!(cost[2] <= FEW, "{cost:?} pages");
    old.close().await.unwrap();
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn due_deliveries_are_counted_without_reading_the_webhooks_that_have_none(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (world, called, _idle) = world(&options).await;
    world.events(&called, 3).await;
    analyse(&world).await;
    let db = &world.services.db;
    // each connection plans it for two webhooks
    for _ in 0..2 * CONNECTIONS {
        let (first, second) = tokio::try_join!(lane::backlog::read(db), lane::backlog::read(db)).unwrap();
        assert_eq!((first.due, second.due), (3, 3));
    }
    sqlx::query(
        "WITH made AS (
             INSERT INTO webhook (id, organisation_id, eshop_id, events, destination, active, authentication_type, secret)
             SELECT uuid_v7(), $1, $2, ARRAY['product_change'], 'http://127.0.0.1:1/', true, 'none', '' FROM generate_series(1, 20000)
             RETURNING id
         )
         INSERT INTO webhook_lane (webhook_id) SELECT id FROM made",
    )
    .bind(world.tenant.organisation)
    .bind(world.tenant.eshop)
    .execute(&world.pool)
    .await
    .unwrap();
    let before = pages(&world).await;
    let (first, second) = tokio::try_join!(lane::backlog::read(db), lane::backlog::read(db)).unwrap();
    let cost = pages(&world).await - before;
    assert_eq!((first.due, second.due), (3, 3));
    assert!(cost <= 200, "{cost} pages");
}

//! Beside an organisation that has many lines, or many requests.

use std::time::Duration;

use longshore_kernel::access::{Role, Scope};
use longshore_kernel::ids::{self, JobId};
use longshore_kernel::share::{Asker, Who, as_asker};
use longshore_operate::snapshots::Snapshots;
use longshore_testkit::world::Tenant;
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tokio::time::timeout;
use uuid::Uuid;

use super::exhausted::is_exhausted;
use super::missed::{pull, sync};
use super::{FAILS, execute, execute_of, line, lines, refused_reports};
use crate::console::{job, webhook};
use crate::product::{MIGRATIONS, World};

/// Adds 1,100 e-shops to an organisation, more than any kind of line compares. Their ids begin with this: zeros come before all others.
async fn shops(world: &World, tenant: &Tenant, begin: &str) {
    sqlx::query(
        "INSERT INTO eshop (id, organisation_id, name, active, wait_before_processing, edit_before_processing)
         SELECT ($2::text || '-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, $1, 'Shop ' || n, true, false, false
         FROM generate_series(1, 1100) AS n",
    )
    .bind(tenant.organisation)
    .bind(begin)
    .execute(&world.owner)
    .await
    .unwrap();
}

/// A sync of each of the added e-shops of an organisation that refused all of its rows, so many minutes ago.
async fn refused(world: &World, tenant: &Tenant, minutes_ago: i32) {
    execute_of(world, "INSERT INTO job (id, kind, state, organisation_id, eshop_id, acceptance, total, done, failed, actor_type, actor_name, created_at,
                          finished_at)
         SELECT uuid_v7(), 'product.sync', 'succeeded', $1, id, nextval('acceptance'), 4, 4, 4, 'token', 'x',
                now() - make_interval(mins => $2), now()
         FROM eshop WHERE organisation_id = $1 AND name LIKE 'Shop %'", tenant.organisation, minutes_ago).await;
}

/// A job of each of the added e-shops of an organisation that failed, so many minutes ago.
async fn failed(world: &World, tenant: &Tenant, minutes_ago: i32) {
    execute_of(world, "INSERT INTO job (id, kind, state, organisation_id, eshop_id, acceptance, error, actor_type, actor_name, created_at, finished_at)
         SELECT uuid_v7(), 'stock.sync', 'failed', $1, id, nextval('acceptance'), 'no', 'token', 'x', now() - make_interval(mins => $2), now()
         FROM eshop WHERE organisation_id = $1 AND name LIKE 'Shop %'", tenant.organisation, minutes_ago).await;
}

/// The organisations have lines of a kind. All that are listed are of the neighbour, but for the one of the tenant, which has this page.
async fn each_is_listed(world: &World, neighbour: &Tenant, kind: &str, most: usize, page: String) {
    let api = &world.api;
    let ours = api.tenant.token(&api.services, Role::Admin).await.unwrap();
    let theirs = neighbour.token(&api.services, Role::Admin).await.unwrap();
    let page = json!(page);
    for (token, listed, is_listed) in
        [(&api.superadmin, most, true), (&ours, 1, true), (&theirs, most, false)]
    {
        let mut found = lines(world, token).await;
        found.retain(|line| line["kind"] == kind);
        assert_eq!(found.len(), listed, "{found:?}");
        assert_eq!(found.iter().any(|line| line["page"] == page), is_listed, "{found:?}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn many_refused_syncs_do_not_hide_that_of_another(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let (neighbour, _) = world.stranger().await;
    shops(&world, &neighbour, "00000000").await;
    refused(&world, &neighbour, 1).await;
    let older = sync(&world, "product.sync", [4, 4], 60).await;
    each_is_listed(&world, &neighbour, "refused_rows", 20, format!("/console/job/{older}")).await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn many_failed_jobs_do_not_hide_that_of_another(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let (neighbour, _) = world.stranger().await;
    shops(&world, &neighbour, "00000000").await;
    job(&world, &world.api.tenant, "failed", Some("no")).await;
    world.execute("UPDATE job SET created_at = now() - interval '1 hour'").await;
    failed(&world, &neighbour, 1).await;
    let page = format!("/console/eshop/{}", world.api.tenant.eshop);
    each_is_listed(&world, &neighbour, "failing_jobs", 20, page).await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn many_warehouses_whose_reports_were_refused_do_not_hide_that_of_another(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let (neighbour, _) = world.stranger().await;
    let older = refused_reports(&world, world.api.tenant.wms, 60).await;
    let others: Vec<Uuid> = sqlx::query_scalar(
        "INSERT INTO wms (id, organisation_id, name, distribution_center, store_key, internal_id)
         SELECT uuid_v7(), $1, 'Depot ' || n, uuid_v7(), 'X', 'I' || n FROM generate_series(1, 30) AS n RETURNING id",
    )
    .bind(neighbour.organisation)
    .fetch_all(&world.owner)
    .await
    .unwrap();
    for wms in others {
        refused_reports(&world, wms, 1).await;
    }
    each_is_listed(&world, &neighbour, "refused_reports", 20, format!("/console/job/{older}")).await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_was_refused_or_failed_long_ago_does_not_hide_what_is_recent(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let api = &world.api;
    // before and after the e-shop of the tenant
    for begin in ["00000000", "ffffffff"] {
        shops(&world, &api.tenant, begin).await;
    }
    refused(&world, &api.tenant, 4 * 24 * 60).await;
    failed(&world, &api.tenant, 2 * 24 * 60).await;
    let recent = sync(&world, "product.sync", [4, 4], 60).await;
    job(&world, &api.tenant, "failed", Some("no")).await;
    for (kind, page) in [
        ("refused_rows", format!("/console/job/{recent}")),
        ("failing_jobs", format!("/console/eshop/{}", api.tenant.eshop)),
    ] {
        let mut found = lines(&world, &api.superadmin).await;
        found.retain(|line| line["kind"] == kind);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0]["page"], page);
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn many_pulls_without_an_answer_do_not_hide_that_of_another(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let (neighbour, _) = world.stranger().await;
    shops(&world, &neighbour, "00000000").await;
    execute(
        &world,
        "WITH made AS (
             INSERT INTO job (id, kind, state, organisation_id, eshop_id, source, sequence, acceptance, out_of_line_until, chunks_open, attempts,
                              actor_type, actor_name, created_at, started_at)
             SELECT uuid_v7(), 'product.sync', 'running', $1, id, '307', id, nextval('acceptance'), 'infinity', 1, 1, 'clock', 'schedule',
                    now() - interval '2 hours', now() - interval '2 hours'
             FROM eshop WHERE organisation_id = $1 AND name LIKE 'Shop %' RETURNING id, started_at
         ), fetched AS (
             INSERT INTO partner_fetch (job_id, changed_at) SELECT id, started_at FROM made
         )
         INSERT INTO job_chunk (job_id, number, state, calls_partner, item_count, first_index, attempts, leased_until, started_at)
         SELECT id, 0, 'running', true, 0, 0, 1, now() + interval '2 hours', started_at FROM made",
        neighbour.organisation.get(),
    )
    .await;
    let ours = pull(&world, 7).await;
    each_is_listed(&world, &neighbour, "silent_partner", 20, format!("/console/job/{ours}")).await;
}

/// Jobs that wait in the lines of 25 e-shops.
const MANY_WAIT: &str =
    "INSERT INTO job (id, kind, state, organisation_id, eshop_id, sequence, acceptance, chunks_open, actor_type, actor_name, changed_at)
     SELECT uuid_v7(), 'product.sync', 'queued', $1, id, id, nextval('acceptance'), 1, 'token', 'x', now() - interval '1 minute'
     FROM (SELECT id FROM eshop WHERE organisation_id = $1 AND name LIKE 'Shop %' LIMIT 25) AS shop, generate_series(1, 50)";

#[sqlx::test(migrator = "MIGRATIONS")]
async fn many_jobs_that_wait_for_others_do_not_hide_those_of_another(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let (neighbour, _) = world.stranger().await;
    shops(&world, &neighbour, "00000000").await;
    execute(&world, MANY_WAIT, neighbour.organisation.get()).await;
    let tenant = &world.api.tenant;
    sqlx::query(
        "INSERT INTO job (id, kind, state, organisation_id, eshop_id, sequence, acceptance, chunks_open, actor_type, actor_name, changed_at)
         SELECT uuid_v7(), 'product.sync', 'queued', $1, $2, $2, nextval('acceptance'), 1, 'token', 'x', now() - interval '1 minute'
         FROM generate_series(1, 2)",
    )
    .bind(tenant.organisation)
    .bind(tenant.eshop)
    .execute(&world.owner)
    .await
    .unwrap();
    let ahead: JobId =
        sqlx::query_scalar("SELECT id FROM job WHERE organisation_id = $1 ORDER BY acceptance LIMIT 1")
            .bind(tenant.organisation)
            .fetch_one(&world.owner)
            .await
            .unwrap();
    each_is_listed(&world, &neighbour, "waiting_jobs", 20, format!("/console/job/{ahead}")).await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn many_jobs_under_way_do_not_hide_that_one_of_another_is_stuck(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let (neighbour, _) = world.stranger().await;
    shops(&world, &neighbour, "00000000").await;
    execute(&world, MANY_WAIT, neighbour.organisation.get()).await;
    // one in a line, and one in none
    for is_in_line in [true, false] {
        let stuck: JobId = sqlx::query_scalar(
            "INSERT INTO job (id, kind, state, organisation_id, eshop_id, sequence, acceptance, chunks_open, actor_type, actor_name,
                              started_at, changed_at)
             SELECT uuid_v7(), 'product.sync', 'running', $1, $2::uuid, CASE WHEN $3 THEN $2::uuid END, nextval('acceptance'), 1, 'token', 'x', t, t
             FROM (SELECT now() - interval '20 minutes' AS t) AS began RETURNING id",
        )
        .bind(world.api.tenant.organisation)
        .bind(world.api.tenant.eshop)
        .bind(is_in_line)
        .fetch_one(&world.owner)
        .await
        .unwrap();
        let found = line(&world, &world.api.superadmin, "stuck_jobs").await;
        assert_eq!(
            (&found["sentence"], &found["page"]),
            (
                &json!("1 running job has made no progress for 20 min."),
                &json!(format!("/console/job/{stuck}"))
            )
        );
        execute(&world, "DELETE FROM job WHERE id = $1", stuck.get()).await;
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn many_failing_destinations_do_not_hide_that_of_another(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let (neighbour, _) = world.stranger().await;
    sqlx::query(
        "WITH made AS (
             INSERT INTO webhook (id, organisation_id, eshop_id, events, destination, active, authentication_type, secret)
             SELECT uuid_v7(), $1, $2, ARRAY['product_change'], 'https://host-' || n || '.example/', true, 'none', ''
             FROM generate_series(1, 60) AS n RETURNING id, eshop_id
         ), waits AS (
             INSERT INTO delivery (id, webhook_id, eshop_id, event_id, next_attempt_at)
             SELECT uuid_v7(), id, eshop_id, uuid_v7(), now() + interval '1 hour' FROM made
         )
         INSERT INTO webhook_lane (webhook_id, failures, failing_since) SELECT id, 3, now() - interval '2 hours' FROM made",
    )
    .bind(neighbour.organisation)
    .bind(neighbour.eshop)
    .execute(&world.owner)
    .await
    .unwrap();
    let hook = webhook(&world.api, "https://hooks.alpine.example/in").await;
    execute(&world, FAILS, hook).await;
    each_is_listed(&world, &neighbour, "destination", 50, format!("/console/webhook/{hook}")).await;
    let rest = line(&world, &world.api.superadmin, "failing_webhooks").await;
    assert_eq!(rest["sentence"], "11 more webhooks are failing.");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn many_exhausted_deliveries_do_not_hide_those_of_another(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let (neighbour, _) = world.stranger().await;
    let mut hooks: Vec<Uuid> = sqlx::query_scalar(
        "WITH made AS (
             INSERT INTO webhook (id, organisation_id, eshop_id, events, destination, active, authentication_type, secret)
             SELECT uuid_v7(), $1, $2, ARRAY['product_change'], 'https://host-' || n || '.example/', true, 'none', ''
             FROM generate_series(1, 210) AS n RETURNING id
         ), lane AS (
             INSERT INTO webhook_lane (webhook_id) SELECT id FROM made
         )
         SELECT id FROM made",
    )
    .bind(neighbour.organisation)
    .bind(neighbour.eshop)
    .fetch_all(&world.owner)
    .await
    .unwrap();
    let hook = webhook(&world.api, "https://hooks.alpine.example/in").await;
    hooks.push(hook);
    is_exhausted(&world, &hooks).await;
    each_is_listed(&world, &neighbour, "exhausted_deliveries", 20, format!("/console/webhook/{hook}")).await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn many_failing_warehouses_do_not_hide_that_of_another(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let (neighbour, _) = world.stranger().await;
    let tenant = &world.api.tenant;
    execute(
        &world,
        "INSERT INTO wms (id, organisation_id, name, distribution_center, store_key, internal_id)
         SELECT uuid_v7(), $1, 'Hall ' || n, uuid_v7(), 'hall-' || n, 'hall-' || n FROM generate_series(1, 25) AS n",
        neighbour.organisation.get(),
    )
    .await;
    for (organisation, minutes) in [(neighbour.organisation, 120), (tenant.organisation, 6)] {
        execute_of(&world, "WITH called AS (
                 INSERT INTO wms_setting (wms_id, organisation_id, active, paused, base_url, credentials, max_in_flight, secret, fills)
                 SELECT id, organisation_id, true, false, 'https://wms.example/', '', 1, '', false FROM wms WHERE organisation_id = $1
                 RETURNING wms_id
             )
             INSERT INTO wms_lane (wms_id, failures, failing_since, error, error_at)
             SELECT wms_id, 3, now() - make_interval(mins => $2), 'HTTP 503', now() FROM called", organisation, minutes).await;
    }
    each_is_listed(&world, &neighbour, "warehouse", 20, format!("/console/wms/{}", tenant.wms)).await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn one_that_waits_for_its_share_delays_no_overview_of_another(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let api = &world.api;
    let (neighbour, _) = world.stranger().await;
    let of = |tenant: &Tenant| {
        let asker = Asker::default();
        asker.is(Who { group: tenant.organisation.get(), account: ids::new_id() });
        (asker, Scope::Organisations([tenant.organisation].into()))
    };
    let mut taken = Vec::new();
    while let Ok(connection) =
        timeout(Duration::from_secs(1), as_asker(of(&neighbour).0, api.services.db.main.acquire())).await
    {
        taken.push(connection.unwrap());
    }
    let look = async |tenant: &Tenant| {
        let (asker, scope) = of(tenant);
        as_asker(asker, api.app.kept::<Snapshots>().attention(&api.services, &scope)).await
    };
    tokio::select! {
        biased;
        found = look(&neighbour) => panic!("it has its share already: {found:?}"),
        found = timeout(Duration::from_secs(3), look(&api.tenant)) => found.unwrap().unwrap(),
    };
}

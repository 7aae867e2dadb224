//! Clients that are broken, slow, greedy or hostile: each gets a clear answer, and no change is lost or
//! incomplete. The rules of single resources have their own tests.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use longshore_http::app::App;
use longshore_http::limits::Limits;
use longshore_testkit::services;
use sqlx::postgres::PgConnectOptions;

use crate::product::World;
use crate::support::Api;

mod bodies;
mod coded;
mod connections;
mod h2;
mod hang_up;
mod headers;
mod memory;
mod paths;
mod rate;
pub(crate) mod socket;
mod streams;
mod upload;

const MIGRATIONS: &sqlx::migrate::Migrator = &longshore_kernel::migration::MIGRATIONS;

const PRODUCTS: &str = "/api/partner-integration/eshop/sync/products";

/// The time limit for conditions on a slow machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// The service with other limits.
pub(crate) async fn limited(options: &PgConnectOptions, limits: Limits) -> (World, App) {
    let app = App::with(services::for_test(options).unwrap(), limits);
    (World::over(Api::with(app.clone()).await, options).await, app)
}

/// The number of rows in every table.
pub(crate) async fn census(world: &World) -> BTreeMap<String, i64> {
    let counted: Vec<(String, i64)> = sqlx::query_as(
        "SELECT tablename::text, (xpath('/row/n/text()', query_to_xml(
             format('SELECT count(*) AS n FROM %I', tablename), false, true, '')))[1]::text::bigint
         FROM pg_tables WHERE schemaname = 'public'",
    )
    .fetch_all(&world.owner)
    .await
    .unwrap();
    assert!(counted.iter().any(|(table, rows)| table == "access_token" && *rows > 0), "it does count");
    counted.into_iter().collect()
}

/// Waits until every table has its previous number of rows.
pub(crate) async fn until_as_before(world: &World, before: &BTreeMap<String, i64>) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let now = census(world).await;
        if now == *before {
            return;
        }
        let differ: Vec<_> = now.iter().filter(|(table, rows)| before.get(*table) != Some(rows)).collect();
        assert!(Instant::now() < deadline, "rows stay behind: {differ:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

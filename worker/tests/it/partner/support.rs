//! A tenant with an e-shop that has a feed.

use std::fmt::Write as _;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use longshore_domain::partner::pull;
use longshore_domain::partner::push::Push;
use longshore_domain::partner::setting::store;
use longshore_kernel::ids::JobId;
use serde_json::{Value, json};
use sqlx::postgres::PgConnectOptions;

use super::fake::Fake;
use crate::job::support::World;

/// The inventory of the tests.
pub(crate) const INVENTORY: &str = "main";

/// Makes everything due that waits for its time.
pub(crate) const DUE: &str = "UPDATE job_chunk SET next_attempt_at = now() WHERE state = 'queued';
    UPDATE job SET out_of_line_until = now() WHERE out_of_line_until IS NOT NULL";

/// A world whose e-shop has the fake as its feed; `fields` override the default ones of the setting.
pub(crate) async fn world_with_feed(options: &PgConnectOptions, fake: &Fake, fields: Value) -> World {
    let world = World::new(options).await;
    store_setting(&world, &fake.url(), fields).await;
    world
}

pub(crate) async fn store_setting(world: &World, url: &str, fields: Value) {
    let mut body = json!({"integrationType": "feed", "baseUrl": url, "credentials": {"type": "none"}});
    for (name, value) in fields.as_object().into_iter().flatten() {
        body[name] = value.clone();
    }
    Box::pin(store::store(&world.services, &world.context, world.tenant.eshop, body, |_| Ok(())))
        .await
        .unwrap();
}

/// Accepts a pull of products; returns the job.
pub(crate) async fn pull(world: &World) -> JobId {
    let body = json!({"eshop": world.tenant.eshop, "inventoryId": INVENTORY});
    pull::accept(&world.services, &world.context, Push::Products, body).await.unwrap().job.unwrap()
}

/// A row of a feed.
pub(crate) fn row(n: usize) -> Value {
    json!({"productSku": format!("F{n}"), "name": format!("Thing no {n}"), "weight": n})
}

/// This many rows as NDJSON.
pub(crate) fn lines(count: usize) -> String {
    let mut lines = String::new();
    for n in 0..count {
        writeln!(lines, "{}", row(n)).unwrap();
    }
    lines
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

//! Neighbours: partners that hang, beside one of another organisation that must be read at once.

use std::time::Duration;

use longshore_kernel::migration::MIGRATIONS;
use longshore_testkit::receiver::Answer;
use longshore_worker::jobs::partner_turn;
use longshore_worker::places::Places;
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::fake::{Fake, document};
use super::support::{lines, pull, store_setting, world_with_feed};
use crate::job::support::World;

/// Long enough for a loaded machine; no test waits it out.
const SOON: Duration = Duration::from_mins(1);

#[sqlx::test(migrator = "MIGRATIONS")]
async fn partners_that_hang_give_a_place_to_another_organisation(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let hanging = Fake::start(|_| Answer::Hang).await;
    let mut first = world_with_feed(&options, &hanging, json!({})).await;
    first.worker.partner_places = Places::of_long_turns(2);
    let mut second = first.sister().await;
    second.worker.partner_places = first.worker.partner_places.clone();
    store_setting(&second, &hanging.url(), json!({})).await;
    let well = Fake::start(|_| Answer::Document(document(lines(10)))).await;
    let mut other = World::new(&options).await;
    other.worker.partner_places = first.worker.partner_places.clone();
    store_setting(&other, &well.url(), json!({})).await;

    let turn = |world: &World, job| tokio::spawn(partner_turn::run(world.worker.clone(), format!("{job}:0")));
    let older_job = pull(&first).await;
    let older = turn(&first, older_job);
    hanging.receiver().wait_for(1, SOON).await.unwrap();
    let newer_job = pull(&second).await;
    let newer = turn(&second, newer_job);
    hanging.receiver().wait_for(2, SOON).await.unwrap();

    let job = pull(&other).await;
    turn(&other, job).await.unwrap();
    let job = other.job(job).await;
    assert_eq!((well.receipts().len(), &job["total"]), (1, &json!(10)), "{job}");
    // the newer turn has ended for it and continues later without loss; the older one still waits for its
    // page
    newer.await.unwrap();
    assert!(!older.is_finished());
    let newer = second.job(newer_job).await;
    assert_eq!((&newer["state"], &newer["error"]), (&json!("running"), &json!(null)), "{newer}");
    assert_eq!(first.job(older_job).await["state"], "running");
    older.abort();
}

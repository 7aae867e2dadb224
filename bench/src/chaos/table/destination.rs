//! One destination misbehaves.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::Value;

use super::{HUNG, Scene, count, quiet};
use crate::chaos::crew::{Member, Role, connect};
use crate::chaos::fleet::Misbehaviour;
use crate::chaos::site::Site;
use crate::measure::process::{forget_peak, peak};
use crate::measure::{Reach, Row, percentile};

/// Changes at a steady rate, while one destination takes 25 s for each.
pub(super) async fn slow(site: &Site, changes: usize) -> anyhow::Result<Vec<Row>> {
    let scene = Scene::new(site, "Slow").await?;
    let products = scene.products(changes).await?;
    let (slow, well) = (scene.shop("slow").await?, scene.shop("well").await?);
    slow.take(Duration::from_secs(25));
    let waits = scene.change_to_webhook(&well, &products, "sent to both").await?;
    // so that the slow deliveries do not affect the next rows
    slow.take(Duration::ZERO);
    quiet(site).await?;
    let what =
        |which: &str| format!("{changes} changes beside one that takes 25 s: {which}, request to receipt");
    Ok(vec![
        Row::absolute(what("p50"), percentile(&waits, 50), "ms", Reach::Anywhere),
        Row::absolute(what("p99"), percentile(&waits, 99), "ms", Reach::AtMost(100.0)),
    ])
}

/// One change for a destination that answers one byte at a time, for ever.
pub(super) async fn drip(site: &Site) -> anyhow::Result<Vec<Row>> {
    let scene = Scene::new(site, "Drip").await?;
    let products = scene.products(1).await?;
    let shop = scene.shop("drip").await?;
    shop.misbehave(Some(Misbehaviour::Drip));
    scene.rename(products[0], "dripped").await?;
    let mut psql = connect(site).await?;
    let until = Instant::now() + HUNG;
    let attempts = loop {
        let attempts: Option<Value> =
            sqlx::query_scalar("SELECT attempts FROM delivery_history WHERE organisation_id = $1")
                .bind(scene.tenant.organisation)
                .fetch_optional(&mut psql)
                .await?;
        if let Some(attempts) = attempts {
            break attempts;
        }
        anyhow::ensure!(Instant::now() < until, "it was never cut");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let requests = shop.requests();
    shop.misbehave(None);
    quiet(site).await?;
    let made = attempts.as_array().map_or(0, Vec::len) as u64;
    let took = attempts[0]["durationMs"].as_f64().context("an attempt without durationMs")?;
    Ok(vec![
        Row::absolute("a dripped answer is cut after", took / 1_000.0, "s", Reach::AtMost(16.0)),
        Row::absolute(
            "a dripped answer: calls beyond one an attempt",
            count(requests - made),
            "",
            Reach::AtMost(0.0),
        ),
    ])
}

/// Three answers of 300 MiB.
pub(super) async fn large(site: &Site) -> anyhow::Result<Vec<Row>> {
    const ANSWERS: usize = 3;
    let scene = Scene::new(site, "Large").await?;
    let products = scene.products(2 * ANSWERS).await?;
    let shop = scene.shop("large").await?;
    // the same number of usual answers first, so that the memory of first calls is not counted
    scene.switch(false, &products[..ANSWERS]).await?;
    shop.accepts(ANSWERS, HUNG).await?;
    let workers: Vec<u32> = site.of(Role::Worker).iter().filter_map(Member::pid).collect();
    let mut before = Vec::new();
    for pid in &workers {
        forget_peak(*pid)?;
        before.push(peak(*pid)?);
    }
    shop.misbehave(Some(Misbehaviour::Large));
    scene.switch(false, &products[ANSWERS..]).await?;
    shop.accepts(2 * ANSWERS, HUNG).await?;
    quiet(site).await?;
    let mut more: f64 = 0.0;
    for (pid, before) in workers.iter().zip(before) {
        more = more.max(peak(*pid)? - before);
    }
    Ok(vec![Row::absolute(
        "three answers of 300 MiB: memory of a worker, more",
        more,
        "MiB",
        Reach::AtMost(10.0),
    )])
}

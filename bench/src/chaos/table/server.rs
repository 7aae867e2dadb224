//! Faults of Redis and Postgres.

use std::time::{Duration, Instant};

use http::Method;
use longshore_kernel::queue::Queue;
use longshore_testkit::client;
use longshore_testkit::process::signal;
use longshore_testkit::stack;
use serde_json::json;
use sqlx::PgConnection;
use uuid::Uuid;

use super::{HUNG, Scene, count, quiet};
use crate::chaos::caller::Request;
use crate::chaos::check;
use crate::chaos::crew::{Member, Role, connect};
use crate::chaos::fleet::Misbehaviour;
use crate::chaos::proxy::Network;
use crate::chaos::site::Site;
use crate::chaos::streams::{self, Damage};
use crate::chaos::transaction;
use crate::measure::{Floor, Reach, Row, percentile};

/// How long a shop takes per delivery, so that there is time to inject a fault.
const SHOP_TAKES: Duration = Duration::from_millis(5);

/// The same for a shop that must be busy for longer than streams are damaged.
const BUSY_TAKES: Duration = Duration::from_millis(20);

/// How long streams stay damaged that do not recover by themselves.
const DAMAGED: Duration = Duration::from_secs(2);

/// Products of the small job that waits on a stream when that is damaged.
const FEW: usize = 20;

/// A little more than the lag between the beginning of a lane and what was delivered.
const LAGS: Duration = Duration::from_secs(11);

/// Changes that are timed beside a snapshot.
const TIMED: usize = 400;

/// Redis is emptied during deliveries, restarted empty, and emptied while all deliveries wait for their
/// retries.
pub(super) async fn flush(site: &Site, changes: usize) -> anyhow::Result<Vec<Row>> {
    let scene = Scene::new(site, "Flush").await?;
    let products = scene.products(changes).await?;
    let shop = scene.shop("flushed").await?;
    shop.take(SHOP_TAKES);
    let mut rows = Vec::new();
    for (round, (what, on)) in [("flushed", false), ("restarted empty", true)].into_iter().enumerate() {
        let before = round * changes;
        scene.switch(on, &products).await?;
        shop.accepts(before + changes / 10, HUNG).await?;
        let broken = Instant::now();
        if on {
            site.redis.server.end("KILL").await?;
            site.redis.be_there().await?;
        } else {
            stack::flush(&site.redis.url).await?;
        }
        // changes accepted now must be delivered without anything that Redis knew
        scene.rename(products[0], what).await?;
        scene.switch(!on, &products[..1]).await?;
        scene.switch(on, &products[..1]).await?;
        shop.accepts(before + changes, HUNG).await?;
        let silence = shop.book().longest_silence(broken).as_secs_f64();
        let what = format!("Redis {what} while {changes} are delivered: longest silence");
        rows.push(Row::absolute(what, silence, "s", Reach::AtMost(5.0)));
    }
    quiet(site).await?;

    let seen = shop.book().accepted.len();
    shop.misbehave(Some(Misbehaviour::Fail));
    scene.switch(false, &products[..changes / 2]).await?;
    let mut psql = connect(site).await?;
    let until = Instant::now() + HUNG;
    loop {
        let waiting: i64 = sqlx::query_scalar("SELECT count(*) FROM delivery").fetch_one(&mut psql).await?;
        if usize::try_from(waiting)? == changes / 2 {
            break;
        }
        anyhow::ensure!(Instant::now() < until, "{waiting} wait");
        tokio::time::sleep(SHOP_TAKES).await;
    }
    stack::flush(&site.redis.url).await?;
    shop.misbehave(None);
    quiet(site).await?;
    let events: i64 = sqlx::query_scalar("SELECT count(*) FROM event WHERE organisation_id = $1")
        .bind(scene.tenant.organisation)
        .fetch_one(&mut psql)
        .await?;
    let all = shop.book().accepted.len();
    let later = all - seen;
    let what = format!("Redis flushed while {} wait to be tried again: lost", changes / 2);
    rows.push(Row::absolute(
        what,
        count(((changes / 2) as u64).abs_diff(later as u64)),
        "",
        Reach::AtMost(0.0),
    ));
    let lost = count(events.unsigned_abs().abs_diff(all as u64));
    rows.push(Row::absolute(
        "Redis flushed and restarted: lost of all changes",
        lost,
        "",
        Reach::AtMost(0.0),
    ));
    Ok(rows)
}

/// The streams of the queues are damaged during deliveries, and while a chunk and a lane wait on them that no
/// worker has read.
pub(super) async fn streams(site: &Site, changes: usize) -> anyhow::Result<Vec<Row>> {
    let (busy, beside) = (Scene::new(site, "Streams").await?, Scene::new(site, "Beside").await?);
    let (products, few) = (busy.products(changes).await?, beside.products(FEW).await?);
    let (busy_shop, quiet_shop) = (busy.shop("busy").await?, beside.shop("beside").await?);
    busy_shop.take(BUSY_TAKES);
    let (mut psql, mut rows) = (connect(site).await?, Vec::new());
    for (round, how) in Damage::ALL.into_iter().enumerate() {
        let on = round % 2 == 1;
        busy.switch(on, &products).await?;
        busy_shop.accepts(round * changes + changes / 10, HUNG).await?;
        let heard = quiet_shop.book().moments.len();
        let workers: Vec<u32> = site.of(Role::Worker).iter().filter_map(Member::pid).collect();
        signal("STOP", &workers).await?;
        // otherwise a waiting read would take the next entries from the stream
        streams::end_reads(site).await?;
        if how == Damage::Refused {
            how.inflict(site).await?;
        }
        let job = beside.switch(on, &few).await?;
        beside.rename(few[0], how.as_str()).await?;
        if how != Damage::Refused {
            wait_on_streams(site, &mut psql, &beside, job).await?;
            how.inflict(site).await?;
        }
        signal("CONT", &workers).await?;
        if how.lasts() {
            tokio::time::sleep(DAMAGED).await;
            how.mend(site).await?;
        }
        let over = Instant::now();
        let job_after = ended(&mut psql, job, over).await?;
        quiet_shop.accepts((round + 1) * (FEW + 1), HUNG).await?;
        busy_shop.accepts((round + 1) * changes, HUNG).await?;
        let first = quiet_shop.book().moments[heard].1;
        let lane_after = first.saturating_duration_since(over).as_secs_f64();
        let silence = busy_shop.book().longest_silence(over).as_secs_f64();
        let what = |which: &str| format!("streams {}: {which}", how.as_str());
        let within = Reach::AtMost(5.0);
        rows.push(Row::absolute(what("a job that waited has ended after"), job_after, "s", within));
        rows.push(Row::absolute(what("a lane that waited goes on after"), lane_after, "s", within));
        rows.push(Row::absolute(what("longest silence of another"), silence, "s", within));
    }
    quiet(site).await?;
    let all = Damage::ALL.len() * (changes + FEW + 1);
    let seen = busy_shop.book().accepted.len() + quiet_shop.book().accepted.len();
    let lost = count((all as u64).abs_diff(seen as u64));
    rows.push(Row::absolute("streams damaged: lost of all changes", lost, "", Reach::AtMost(0.0)));
    Ok(rows)
}

/// Waits until the lanes of an organisation and the chunks of its job are on their streams.
async fn wait_on_streams(
    site: &Site,
    psql: &mut PgConnection,
    scene: &Scene,
    job: Uuid,
) -> anyhow::Result<()> {
    let (queues, mut redis) = (check::queues(site)?, client::redis(&site.redis.url).await?);
    let lanes: Vec<String> = sqlx::query_scalar("SELECT id::text FROM webhook WHERE organisation_id = $1")
        .bind(scene.tenant.organisation)
        .fetch_all(&mut *psql)
        .await?;
    let chunks: Vec<String> =
        sqlx::query_scalar("SELECT job_id || ':' || number FROM job_chunk WHERE job_id = $1")
            .bind(job)
            .fetch_all(psql)
            .await?;
    let mut wanted = Vec::new();
    for (queue, ids) in [(Queue::Lane, lanes), (Queue::Chunk, chunks)] {
        let keys = queues.keys(queue);
        wanted.extend(ids.iter().map(|id| keys.marker(id)));
    }
    let mut exist = redis::cmd("EXISTS");
    exist.arg(&wanted);
    let until = Instant::now() + HUNG;
    while exist.query_async::<usize>(&mut redis).await? < wanted.len() {
        anyhow::ensure!(Instant::now() < until, "{wanted:?} are not on their streams");
        tokio::time::sleep(SHOP_TAKES).await;
    }
    Ok(())
}

/// The seconds from `since` until a job ends.
async fn ended(psql: &mut PgConnection, job: Uuid, since: Instant) -> anyhow::Result<f64> {
    let until = Instant::now() + HUNG;
    loop {
        let state: String =
            sqlx::query_scalar("SELECT state FROM job WHERE id = $1").bind(job).fetch_one(&mut *psql).await?;
        match state.as_str() {
            "succeeded" => return Ok(since.elapsed().as_secs_f64()),
            "queued" | "running" | "retrying" => {}
            _ => anyhow::bail!("the job has {state}"),
        }
        anyhow::ensure!(Instant::now() < until, "the job is {state}");
        tokio::time::sleep(SHOP_TAKES).await;
    }
}

/// A snapshot is held open while dead deliveries pile up: how long a change then takes to be delivered,
/// compared with before.
pub(super) async fn snapshot(site: &Site, deliveries: usize) -> anyhow::Result<Vec<Row>> {
    let scene = Scene::new(site, "Snapshot").await?;
    let products = scene.products(deliveries / 20).await?;
    let shop = scene.shop("snapshot").await?;
    let timed = &products[..TIMED.min(products.len())];
    // a warm-up, so that statements are prepared and connections open
    scene.change_to_webhook(&shop, &timed[..timed.len() / 4], "warm").await?;
    let held = transaction::snapshot(site).await?;
    let before = scene.change_to_webhook(&shop, timed, "before").await?;
    for round in 0..deliveries / products.len() {
        let seen = shop.book().accepted.len();
        scene.switch(round % 2 == 1, &products).await?;
        shop.accepts(seen + products.len(), HUNG).await?;
    }
    quiet(site).await?;
    let at_once = scene.change_to_webhook(&shop, timed, "at once").await?;
    tokio::time::sleep(LAGS).await;
    scene.change_to_webhook(&shop, &timed[..1], "begins later").await?;
    let after = scene.change_to_webhook(&shop, timed, "after").await?;
    let mut psql = connect(site).await?;
    let dead = "SELECT pg_stat_get_dead_tuples('delivery'::regclass)";
    let dead: i64 = sqlx::query_scalar(dead).fetch_one(&mut psql).await?;
    drop(held);
    let mut rows = vec![Row::absolute(
        "an old snapshot: dead rows of delivery",
        count(dead.unsigned_abs()),
        "",
        Reach::AtLeast(count(deliveries as u64)),
    )];
    // the last ones are read again until the beginning of the lane has moved past them
    let figures =
        [("at once", &at_once, [Reach::Anywhere; 2]), ("later", &after, [2.0, 3.0].map(Reach::RatioAtMost))];
    for (when, waits, reaches) in figures {
        for (percent, reach) in [50, 99].into_iter().zip(reaches) {
            let what = format!("change to webhook beside them, {when}, p{percent}");
            let floor = Floor::of(percentile(&before, percent), "the same before they died");
            rows.push(Row::relative(what, percentile(waits, percent), "ms", floor, reach));
        }
    }
    Ok(rows)
}

/// Products are created while Redis works, is unreachable, and does not answer.
pub(super) async fn away(site: &Site, requests: usize) -> anyhow::Result<Vec<Row>> {
    let scene = Scene::new(site, "Away").await?;
    let shop = scene.shop("away").await?;
    let mut p99s = Vec::new();
    for (name, network) in [("there", Network::Well), ("away", Network::Gone), ("silent", Network::Silent)] {
        site.to_redis.be(network);
        if network == Network::Gone {
            site.to_redis.cut();
        }
        let mut took = Vec::new();
        for number in 0..requests {
            let sku = format!("{name}-{number}");
            let body = json!({
                "organisation": scene.tenant.organisation, "eshops": [scene.tenant.eshop], "productSku": sku,
                "internalSku": sku, "name": format!("Product {sku}"), "imeiCheckRequired": false, "active": true,
            });
            let started = Instant::now();
            scene.caller.ask(&Request::new(Method::POST, "/api/product", body.to_string()), &[201]).await?;
            took.push(1_000.0 * started.elapsed().as_secs_f64());
        }
        took.sort_by(f64::total_cmp);
        p99s.push(percentile(&took, 99));
        site.to_redis.be(Network::Well);
    }
    shop.accepts(3 * requests, HUNG).await?;
    let (what, within) = (format!("POST of {requests} products, p99"), Reach::AtMost(1_000.0));
    Ok(vec![
        Row::absolute(what.clone(), p99s[0], "ms", Reach::Anywhere),
        Row::absolute(format!("{what} while Redis is away, more"), p99s[1] - p99s[0], "ms", within),
        Row::absolute(format!("{what} while Redis is silent, more"), p99s[2] - p99s[0], "ms", within),
        Row::absolute(
            "changes made while Redis was away or silent: lost",
            count((3 * requests as u64).abs_diff(shop.book().accepted.len() as u64)),
            "",
            Reach::AtMost(0.0),
        ),
    ])
}

/// Postgres is restarted in immediate mode under load.
pub(super) async fn crash(site: &Site) -> anyhow::Result<Vec<Row>> {
    const CALLERS: usize = 8;
    let scene = Scene::new(site, "Crash").await?;
    let products = scene.products(CALLERS).await?;
    let shop = scene.shop("crash").await?;
    let until = Instant::now() + Duration::from_secs(8);
    let calls = products.iter().map(async |product| {
        let mut renamed = 0_u64;
        while Instant::now() < until {
            renamed += 1;
            scene.rename(*product, &format!("name {renamed}")).await?;
        }
        anyhow::Ok(renamed)
    });
    let crashes = async {
        for _ in 0..2 {
            tokio::time::sleep(Duration::from_secs(2)).await;
            site.postgres.server.end("QUIT").await?;
            site.postgres.be_there().await?;
        }
        anyhow::Ok(())
    };
    let (renamed, ()) = tokio::try_join!(futures::future::try_join_all(calls), crashes)?;
    let renamed = renamed.iter().sum::<u64>();
    shop.accepts(usize::try_from(renamed)?, HUNG).await?;
    let failed =
        scene.caller.tally().answers.iter().filter(|(status, _)| *status == "500").map(|(_, n)| n).sum();
    Ok(vec![
        Row::absolute(
            format!("Postgres restarted twice in {renamed} changes: 500"),
            count(failed),
            "",
            Reach::AtMost(0.0),
        ),
        Row::absolute(
            "Postgres restarted: 503 with Retry-After",
            count(scene.answers("503")),
            "",
            Reach::Anywhere,
        ),
        Row::absolute(
            "Postgres restarted: other violations",
            count(scene.caller.tally().violated - failed),
            "",
            Reach::AtMost(0.0),
        ),
        Row::absolute(
            "Postgres restarted: lost",
            count(renamed.abs_diff(shop.book().accepted.len() as u64)),
            "",
            Reach::AtMost(0.0),
        ),
    ])
}

/// An idempotency key is used again with another body.
pub(super) async fn key(site: &Site) -> anyhow::Result<Vec<Row>> {
    let scene = Scene::new(site, "Key").await?;
    let create = |sku: &str| {
        let body = json!({
            "organisation": scene.tenant.organisation, "eshops": [scene.tenant.eshop], "productSku": sku,
            "internalSku": sku, "name": "Product", "imeiCheckRequired": false, "active": true,
        });
        Request::new(Method::POST, "/api/product", body.to_string()).with("idempotency-key", "k")
    };
    scene.caller.ask(&create("A"), &[201]).await?;
    let refused = scene.caller.ask(&create("B"), &[200, 201, 422]).await?;
    let status = f64::from(refused.status);
    Ok(vec![Row::absolute(
        "an idempotency key with another body is answered",
        status,
        "",
        Reach::AtLeast(422.0),
    )])
}

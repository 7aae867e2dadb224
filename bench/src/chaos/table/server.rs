//! Redis and Postgres break.

use std::time::{Duration, Instant};

use http::Method;
use serde_json::json;

use super::{HUNG, Scene, count};
use crate::chaos::caller::Request;
use crate::chaos::check;
use crate::chaos::fleet::Misbehaviour;
use crate::chaos::proxy::Network;
use crate::chaos::site::Site;
use crate::measure::{Reach, Row, percentile};
use crate::stack;

/// How long a shop takes where there is to be a middle to break things in.
const SHOP_TAKES: Duration = Duration::from_millis(5);

/// Redis is emptied in the middle of deliveries, is started again empty, and is emptied while everything waits to be
/// tried again.
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
        // what is accepted now must find its way without anything that Redis knew
        scene.rename(products[0], what).await?;
        scene.switch(!on, &products[..1]).await?;
        scene.switch(on, &products[..1]).await?;
        shop.accepts(before + changes, HUNG).await?;
        let silence = shop.book().longest_silence(broken).as_secs_f64();
        let what = format!("Redis {what} while {changes} are delivered: longest silence");
        rows.push(Row::absolute(what, silence, "s", Reach::AtMost(5.0)));
    }
    let left = check::be_quiet(site, HUNG).await?;
    anyhow::ensure!(left.is_none(), "{left:?}");

    let told = shop.book().accepted.len();
    shop.misbehave(Some(Misbehaviour::Fail));
    scene.switch(false, &products[..changes / 2]).await?;
    let mut psql = check::connect(site).await?;
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
    let left = check::be_quiet(site, HUNG).await?;
    anyhow::ensure!(left.is_none(), "{left:?}");
    let events: i64 = sqlx::query_scalar("SELECT count(*) FROM event WHERE organisation_id = $1")
        .bind(scene.tenant.organisation)
        .fetch_one(&mut psql)
        .await?;
    let all = shop.book().accepted.len();
    let later = all - told;
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

/// Products are created while Redis is there, cannot be reached, and does not answer.
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

/// A key comes again, with another body.
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

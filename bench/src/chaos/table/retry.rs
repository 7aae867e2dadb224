//! Many destinations that fail at once: when each call is retried.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::Method;
use longshore_testkit::receiver::{Answer, By, Receiver};
use serde_json::json;

use super::{HUNG, Scene};
use crate::chaos::caller::Request;
use crate::chaos::site::Site;
use crate::measure::{Reach, Row, percentile};

/// Parallel requests that create webhooks.
const AT_ONCE: usize = 16;

/// The interval of checking.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

type Calls = Arc<Mutex<HashMap<String, Vec<Instant>>>>;

/// Webhooks with one delivery each, whose first attempts all fail, and whose second ones succeed.
pub(super) async fn at_once(site: &Site, webhooks: usize) -> anyhow::Result<Vec<Row>> {
    let scene = Scene::new(site, "Retries").await?;
    let products = scene.products(1).await?;
    let receiver = Receiver::counting().await?;
    let calls = Calls::default();
    let judged = Arc::clone(&calls);
    receiver.answer_all(Answer::By(By::new(move |receipt| {
        let mut calls = judged.lock().unwrap_or_else(PoisonError::into_inner);
        let calls = calls.entry(receipt.path.clone()).or_default();
        calls.push(Instant::now());
        Answer::Status(if calls.len() == 1 { 500 } else { 204 })
    })));
    let subscribe = |number: usize| {
        let body = json!({ "eshop": scene.tenant.eshop, "event": "product_change",
                           "destination": receiver.url(&number.to_string()), "active": true });
        let create = Request::new(Method::POST, "/api/eshop-webhook", body.to_string());
        let scene = &scene;
        async move { scene.caller.ask(&create, &[201]).await.map(drop) }
    };
    stream::iter((0..webhooks).map(subscribe)).buffer_unordered(AT_ONCE).try_collect::<()>().await?;

    let started = Instant::now();
    scene.rename(products[0], "sent to all").await?;
    let until = Instant::now() + HUNG;
    loop {
        let twice = {
            let calls = calls.lock().unwrap_or_else(PoisonError::into_inner);
            calls.values().filter(|calls| calls.len() > 1).count()
        };
        if twice == webhooks {
            break;
        }
        anyhow::ensure!(Instant::now() < until, "{twice} of {webhooks} were tried again");
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    let calls = calls.lock().unwrap_or_else(PoisonError::into_inner);
    let mut waits: Vec<f64> = calls.values().map(|calls| (calls[1] - calls[0]).as_secs_f64()).collect();
    waits.sort_by(f64::total_cmp);
    let last = calls.values().map(|calls| (calls[0] - started).as_secs_f64()).fold(0.0, f64::max);
    let what = |which: &str| format!("{webhooks} webhooks fail at once: {which}");
    Ok(vec![
        Row::absolute(what("the last first attempt"), last, "s", Reach::Anywhere),
        Row::absolute(what("p50 of first to second"), percentile(&waits, 50), "s", Reach::Anywhere),
        Row::absolute(what("p99 of first to second"), percentile(&waits, 99), "s", Reach::AtMost(7.0)),
        Row::absolute(what("the longest first to second"), percentile(&waits, 100), "s", Reach::Anywhere),
    ])
}

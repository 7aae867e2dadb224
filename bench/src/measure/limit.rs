//! How much of a partner's limit two workers use together, and whether they ever exceed it, as the partner
//! counts.

use std::time::Instant;

use anyhow::{Context as _, ensure};
use longshore_domain::partner::baselinker::TokenHash;
use longshore_domain::partner::baselinker::window::{DOCUMENTED, Limit, Taken, Window};
use longshore_kernel::config::RedisSettings;
use longshore_kernel::ids;
use longshore_kernel::queue::Queues;
use longshore_testkit::baselinker::{BaseLinker, TOKEN};
use longshore_testkit::services;
use longshore_testkit::stack::Stack;
use tokio::task::JoinSet;

use super::{Effort, Reach, Row};

/// Windows that are used up one after another; the first one at once.
const WINDOWS: u32 = 4;

pub(super) async fn measure(stack: &Stack, effort: Effort) -> anyhow::Result<Vec<Row>> {
    let limit = Limit { window: DOCUMENTED.window / u32::try_from(effort.divisor)?, ..DOCUMENTED };
    let partner = BaseLinker::limited(limit.requests as usize, limit.window).await?;
    let prefix = format!("limit-{}:", ids::new_id());
    let mut windows = Vec::new();
    for _ in 0..2 {
        let settings = RedisSettings { redis_url: stack.redis_url.clone(), queue_prefix: prefix.clone() };
        windows.push(Window::new(&Queues::open(&settings)?, limit));
    }
    services::nothing_was_sent_before(&Queues::open(&RedisSettings {
        redis_url: stack.redis_url.clone(),
        queue_prefix: prefix,
    })?)
    .await?;
    let (began, end) = (Instant::now(), limit.window * WINDOWS);
    let mut workers = JoinSet::new();
    for window in windows {
        let url = partner.url().to_owned();
        workers.spawn(async move { work(&window, &url, began + end).await });
    }
    while let Some(ended) = workers.join_next().await {
        ended.context("a worker")??;
    }
    let (sent, fullest) = (partner.asked().len(), partner.fullest_window());
    ensure!(sent > 0, "nothing was sent");
    let used = 100.0 * f64::from(u32::try_from(sent)?) / f64::from(limit.requests * WINDOWS);
    let what = |what: &str| {
        format!("limit of {} in {} s, two workers: {what}", limit.requests, limit.window.as_secs())
    };
    let most = f64::from(limit.requests);
    Ok(vec![
        Row::absolute(what("used"), used, "%", Reach::AtLeast(95.0)),
        Row::absolute(
            what("most in any window"),
            f64::from(u32::try_from(fullest)?),
            "requests",
            Reach::AtMost(most),
        ),
    ])
}

/// Sends requests as often as allowed.
async fn work(window: &Window, url: &str, until: Instant) -> anyhow::Result<()> {
    let http = reqwest::Client::builder().no_proxy().build()?;
    let token = TokenHash::of(TOKEN);
    while Instant::now() < until {
        match window.take(token, 0).await {
            Taken::Slot(slot) => {
                let call =
                    http.post(url).header("x-bltoken", TOKEN).body("method=getInventories&parameters={}");
                let answered = call.send().await;
                slot.end().await;
                answered?.error_for_status()?;
            }
            Taken::Wait(wait) => {
                tokio::time::sleep(wait.min(until.saturating_duration_since(Instant::now()))).await;
            }
        }
    }
    Ok(())
}

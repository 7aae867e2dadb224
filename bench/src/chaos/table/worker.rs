//! Deaths of workers.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use longshore_testkit::process::signal;

use super::{HUNG, Scene, count, quiet};
use crate::chaos::crew::{Member, Role, connect};
use crate::chaos::plan::KILLS;
use crate::chaos::site::Site;
use crate::chaos::transaction;
use crate::measure::{Reach, Row};

/// How long a shop takes per delivery, so that some are under way when the workers die.
const SHOP_TAKES: Duration = Duration::from_millis(5);

/// By then, calls that left a worker before it died have arrived; no other calls begin before its lease has
/// ended.
const ARRIVED: Duration = Duration::from_millis(300);

/// Both workers are killed during deliveries to one webhook, and to ten.
pub(super) async fn kill(site: &Site, deliveries: usize) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for webhooks in [1, 10] {
        let changes = deliveries / webhooks;
        let scene = Scene::new(site, "Kill").await?;
        let products = scene.products(changes).await?;
        let mut shops = Vec::new();
        for number in 0..webhooks {
            let shop = scene.shop(&format!("kill {number}")).await?;
            shop.take(SHOP_TAKES);
            shops.push(shop);
        }
        scene.switch(false, &products).await?;
        shops[0].accepts(changes / 5, HUNG).await?;
        let killed = Instant::now();
        let pids: Vec<u32> = site.of(Role::Worker).iter().filter_map(Member::pid).collect();
        signal("KILL", &pids).await?;
        tokio::time::sleep(ARRIVED).await;
        let accepted: u64 = shops.iter().map(|shop| shop.book().accepted.len() as u64).sum();
        let mut psql = connect(site).await?;
        let recorded: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM delivery_history d JOIN webhook w ON w.id = d.webhook_id WHERE w.organisation_id = $1",
        )
        .bind(scene.tenant.organisation)
        .fetch_one(&mut psql)
        .await?;
        let in_flight = accepted.saturating_sub(recorded.unsigned_abs());
        for shop in &shops {
            shop.accepts(changes, HUNG).await?;
        }
        quiet(site).await?;
        let silences = shops.iter().map(|shop| shop.book().longest_silence(killed).as_secs_f64());
        let silence = silences.fold(0.0, f64::max);
        let duplicates: u64 = shops.iter().map(|shop| shop.book().duplicates()).sum();
        let lost: u64 = shops.iter().map(|shop| (changes - shop.book().accepted.len()) as u64).sum();
        let what = |which: &str| format!("workers killed in {deliveries} to {webhooks}: {which}");
        rows.extend([
            Row::absolute(what("longest silence"), silence, "s", Reach::AtMost(5.0)),
            Row::absolute(what("in flight"), count(in_flight), "", Reach::Anywhere),
            Row::absolute(what("delivered again"), count(duplicates), "", Reach::AtMost(count(in_flight))),
            Row::absolute(what("lost"), count(lost), "", Reach::AtMost(0.0)),
        ]);
    }
    Ok(rows)
}

/// Both workers are killed three times while they execute the same chunk, which waits for a locked row.
pub(super) async fn thrice(site: &Site) -> anyhow::Result<Vec<Row>> {
    const PRODUCTS: usize = 100;
    let scene = Scene::new(site, "Thrice").await?;
    let products = scene.products(PRODUCTS).await?;
    let shop = scene.shop("thrice").await?;
    let locked = transaction::lock(site, products[PRODUCTS / 2]).await?;
    let job = scene.switch(false, &products).await?;
    let mut psql = connect(site).await?;
    let (mut claims, mut killed, mut longest) = (0, None, 0.0_f64);
    'kills: for kill in 0..=KILLS {
        let until = Instant::now() + HUNG;
        // a new claim, and a session younger than the last kill that waits for the row
        loop {
            let claimed: Option<i64> = sqlx::query_scalar(
                "SELECT c.token FROM job_chunk c
                 WHERE c.job_id = $1 AND c.token > $2 AND c.state = 'running' AND c.leased_until > now()
                   AND EXISTS (SELECT FROM pg_stat_activity
                               WHERE wait_event_type = 'Lock' AND application_name LIKE 'longshore-worker%'
                                 AND backend_start > now() - make_interval(secs => $3))",
            )
            .bind(job)
            .bind(claims)
            .bind(killed.map_or(HUNG, |killed: Instant| killed.elapsed()).as_secs_f64())
            .fetch_optional(&mut psql)
            .await?;
            if let Some(claimed) = claimed {
                claims = claimed;
                break;
            }
            let ended: bool = sqlx::query_scalar(
                "SELECT state IN ('succeeded', 'failed', 'cancelled') FROM job WHERE id = $1",
            )
            .bind(job)
            .fetch_one(&mut psql)
            .await?;
            if ended {
                break 'kills;
            }
            anyhow::ensure!(Instant::now() < until, "the chunk was not claimed after {kill} kills");
            tokio::time::sleep(SHOP_TAKES).await;
        }
        longest = longest.max(killed.map_or(0.0, |killed| killed.elapsed().as_secs_f64()));
        if kill < KILLS {
            let pids: Vec<u32> = site.of(Role::Worker).iter().filter_map(Member::pid).collect();
            anyhow::ensure!(!pids.is_empty(), "no worker runs");
            signal("KILL", &pids).await?;
            killed = Some(Instant::now());
        }
    }
    drop(locked);
    quiet(site).await?;
    let (state, done, failed): (String, i32, i32) =
        sqlx::query_as("SELECT state, done, failed FROM job WHERE id = $1")
            .bind(job)
            .fetch_one(&mut psql)
            .await?;
    let unfinished = u64::from(state != "succeeded");
    let undone = PRODUCTS.abs_diff(usize::try_from(done).context("a job without items")?) as u64;
    let lost = PRODUCTS.abs_diff(shop.book().accepted.len()) as u64;
    let what = |which: &str| format!("both workers killed {KILLS} times at one chunk: {which}");
    Ok(vec![
        Row::absolute(what("claimed again after, at most"), longest, "s", Reach::AtMost(5.0)),
        Row::absolute(what("jobs that did not succeed"), count(unfinished), "", Reach::AtMost(0.0)),
        Row::absolute(what("items that failed"), f64::from(failed), "", Reach::AtMost(0.0)),
        Row::absolute(what("items that were not done"), count(undone), "", Reach::AtMost(0.0)),
        Row::absolute(what("changes that were not delivered"), count(lost), "", Reach::AtMost(0.0)),
    ])
}

//! Workers die.

use std::time::{Duration, Instant};

use super::{HUNG, Scene, count};
use crate::chaos::check;
use crate::chaos::site::{Member, Role, Site};
use crate::measure::{Reach, Row};
use crate::stack::signal;

/// How long a shop takes: some are under way whenever the workers die.
const SHOP_TAKES: Duration = Duration::from_millis(5);

/// What left a worker before it died has come by then; nobody sends anything before its lease has ended.
const ARRIVED: Duration = Duration::from_millis(300);

/// Both workers are killed in the middle of so many deliveries, to one webhook and to ten.
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
        let mut psql = check::connect(site).await?;
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
        let left = check::be_quiet(site, HUNG).await?;
        anyhow::ensure!(left.is_none(), "{left:?}");
        let silences = shops.iter().map(|shop| shop.book().longest_silence(killed).as_secs_f64());
        let silence = silences.fold(0.0, f64::max);
        let duplicates: u64 = shops.iter().map(|shop| shop.book().duplicates()).sum();
        let lost: u64 = shops.iter().map(|shop| (changes - shop.book().accepted.len()) as u64).sum();
        let what = |which: &str| format!("workers killed in {deliveries} to {webhooks}: {which}");
        rows.extend([
            Row::absolute(what("longest silence"), silence, "s", Reach::AtMost(5.0)),
            Row::absolute(what("in flight"), count(in_flight), "", Reach::Anywhere),
            Row::absolute(what("told again"), count(duplicates), "", Reach::AtMost(count(in_flight))),
            Row::absolute(what("lost"), count(lost), "", Reach::AtMost(0.0)),
        ]);
    }
    Ok(rows)
}

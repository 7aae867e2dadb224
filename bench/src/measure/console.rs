//! The pages of the console over a million jobs and a million ended deliveries: how long each takes, with statistics that are old,
//! absent and new.
//!
//! The tables are aged: they were analysed while they were small, contain dead rows, and a transaction that is older than most of
//! their rows keeps vacuum from removing these. The floor of a page is the same page over a hundredth of the rows, opened by turns:
//! their ratio says what the size costs, whatever the machine does.

mod fill;

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use http::StatusCode;
use http::header::COOKIE;
use longshore_testkit::client::outside;
use longshore_testkit::services;
use longshore_testkit::stack::{Stack, StackSettings};
use secrecy::{ExposeSecret as _, SecretString};
use uuid::Uuid;

use self::fill::Filled;
use super::floor::Psql;
use super::load::milliseconds;
use super::{Effort, Floor, Reach, Row, median};
use longshore_demo::site::operator_token;

/// The answers of a page that are measured.
const ANSWERS: usize = 10;

/// How long a page may take, in milliseconds.
const PATIENCE: f64 = 50.0;

/// The page of searches.
const FIND: &str = "/console/find";

/// The tables that are large.
const LARGE: &str = "job, delivery_history, delivery, event, audit, expedition, expedition_detail, expedition_item, webhook_activity, job_activity, worker_activity, exhausted_activity";

/// The ages of the statistics that the planner has, one after the other, and how to get there.
fn ages() -> [(&'static str, Option<String>); 3] {
    let absent = format!(
        "DELETE FROM pg_statistic WHERE starelid IN (
             SELECT t.oid FROM unnest(string_to_array('{LARGE}', ', ')::regclass[]) AS named (oid)
             CROSS JOIN LATERAL (SELECT named.oid UNION SELECT inhrelid FROM pg_inherits WHERE inhparent = named.oid) AS t)"
    );
    [("old", None), ("absent", Some(absent)), ("new", Some(format!("VACUUM (ANALYZE) {LARGE}")))]
}

/// The floor has so many times fewer rows.
const SMALLER: usize = 100;

/// How long a page took, in milliseconds.
#[derive(Default)]
struct Took {
    /// The median with statistics of each age.
    medians: Vec<f64>,
    slowest: f64,
    /// The medians of the small installation, measured by turns with these.
    small: Vec<f64>,
}

pub(super) async fn measure(settings: &StackSettings, effort: Effort) -> anyhow::Result<Vec<Row>> {
    let small = Installation::start(settings, Effort { divisor: effort.divisor * SMALLER, ..effort }).await?;
    let mut large = Installation::start(settings, effort).await?;
    let mut took: BTreeMap<&str, Took> = BTreeMap::new();
    for (_, get) in ages() {
        if let Some(sql) = get {
            large.psql.run(&sql).await?;
        }
        for ((name, path), (_, small_path)) in large.pages.iter().zip(&small.pages) {
            let (mut answers, mut of_small) = (Vec::new(), Vec::new());
            for answer in 0..=ANSWERS {
                let milliseconds = [large.open(path).await?, small.open(small_path).await?];
                // the first one warms the caches
                if answer > 0 {
                    answers.push(milliseconds[0]);
                    of_small.push(milliseconds[1]);
                }
            }
            let took = took.entry(name).or_default();
            took.slowest = answers.iter().copied().fold(took.slowest, f64::max);
            took.medians.push(median(answers));
            took.small.push(median(of_small));
        }
    }
    large.old.run("COMMIT").await?;
    let rows = large.pages.iter().filter_map(|(name, _)| {
        let Took { medians, slowest, small } = took.remove(name)?;
        let worst = medians.iter().copied().fold(0.0, f64::max);
        let floor = Floor::median(small, "the page over a hundredth of the rows");
        Some([
            Row::relative(format!("console: {name}"), worst, "ms", floor, Reach::AtMost(PATIENCE)),
            Row::absolute(format!("console: {name}, the slowest"), slowest, "ms", Reach::Anywhere),
        ])
    });
    Ok(rows.flatten().collect())
}

/// The service over an aged database, and an operator who is logged in to its console.
struct Installation {
    pages: Vec<(&'static str, String)>,
    psql: Psql,
    /// In a transaction that is older than most rows.
    old: Psql,
    http: reqwest::Client,
    token: SecretString,
    stack: Stack,
}

impl Installation {
    async fn start(settings: &StackSettings, effort: Effort) -> anyhow::Result<Self> {
        let stack = Stack::start(settings).await?;
        let (mut psql, mut old) = (Psql::connect(&stack).await?, Psql::connect(&stack).await?);
        let pages = pages(&fill::fill(&stack, &mut psql, &mut old, effort).await?);
        let services = services::for_test(&stack.database_url.as_str().parse()?)?;
        let token = operator_token(&services).await?;
        Ok(Self { pages, psql, old, http: outside()?, token, stack })
    }

    /// Opens a page; returns the time in milliseconds.
    async fn open(&self, path: &str) -> anyhow::Result<f64> {
        let cookie = format!("longshore_console={}", self.token.expose_secret());
        let request = self.http.get(format!("{}{path}", self.stack.base_url)).header(COOKIE, cookie);
        let started = Instant::now();
        let answer = request.send().await?;
        let status = answer.status();
        let page = answer.text().await.with_context(|| path.to_owned())?;
        let took = milliseconds(started);
        // a search with one hit leads to its page
        let is_there =
            status == StatusCode::OK || (status == StatusCode::SEE_OTHER && path.starts_with(FIND));
        ensure!(is_there, "{path}: {status}: {page}");
        Ok(took)
    }
}

/// The pages, by name.
fn pages(filled: &Filled) -> Vec<(&'static str, String)> {
    let Filled { organisation, eshop, webhook, job, delivery, order, product, wms } = filled;
    let of = |path: &str, id: &Uuid| format!("/console/{path}/{id}");
    let mut pages = vec![
        ("overview", "/console".to_owned()),
        ("overview, 6 hours", "/console?span=six-hours".to_owned()),
        ("overview, a day", "/console?span=day".to_owned()),
        ("overview, a week", "/console?span=week".to_owned()),
        ("attention", "/console/attention".to_owned()),
        ("queues", "/console/queue".to_owned()),
        ("queue of jobs", "/console/queue/chunk".to_owned()),
        ("queue of jobs, a kind for a day", "/console/queue/chunk?kind=product.sync&span=day".to_owned()),
        ("workers", "/console/worker".to_owned()),
        ("workers, a day", "/console/worker?span=day".to_owned()),
        ("worker, a week", format!("/console/worker/{}?span=week", fill::WORKER)),
        ("jobs", "/console/job".to_owned()),
        ("jobs of a shop", format!("/console/job?eshop={eshop}")),
        ("jobs of a kind", "/console/job?kind=stock.sync".to_owned()),
        ("jobs by error", "/console/job?error=refused".to_owned()),
        ("jobs, oldest first", "/console/job?sort=oldest".to_owned()),
        ("job", of("job", job)),
        ("failures", "/console/failure".to_owned()),
        ("webhooks", "/console/webhook".to_owned()),
        ("webhooks, newest first", "/console/webhook?sort=newest".to_owned()),
        ("webhook", of("webhook", webhook)),
        ("webhook, exhausted", format!("/console/webhook/{webhook}?state=exhausted")),
        ("deliveries", "/console/delivery".to_owned()),
        ("deliveries, oldest first", "/console/delivery?sort=oldest".to_owned()),
        ("deliveries of a day", "/console/delivery?hours=24".to_owned()),
        ("deliveries of a shop", format!("/console/delivery?eshop={eshop}")),
        ("deliveries to a host", "/console/delivery?destination=shop-3".to_owned()),
        ("deliveries of a SKU", "/console/delivery?entity=MU-0000001".to_owned()),
        ("deliveries of an event", "/console/delivery?event=expedition_change".to_owned()),
        ("delivery", of("delivery", delivery)),
        ("syncs", "/console/sync".to_owned()),
        ("audit", "/console/audit".to_owned()),
        ("audit, all", "/console/audit?whose=all".to_owned()),
        ("orders", "/console/order".to_owned()),
        ("orders of a status", "/console/order?status=waiting_for_goods".to_owned()),
        ("orders, oldest first", "/console/order?sort=oldest".to_owned()),
        ("orders of a shop", format!("/console/order?eshop={eshop}")),
        ("orders, attention", "/console/order/attention".to_owned()),
        ("order", of("order", order)),
        ("e-shop", of("eshop", eshop)),
        ("organisation", of("organisation", organisation)),
        ("products", "/console/product".to_owned()),
        ("products, oldest first", "/console/product?sort=oldest".to_owned()),
        ("products of a shop", format!("/console/product?eshop={eshop}")),
        ("products by name", "/console/product?name=0000001".to_owned()),
        ("product", of("product", product)),
        ("search of a SKU", "/console/find?q=MU-0000001".to_owned()),
        ("search of a host", "/console/find?q=shop-3".to_owned()),
        ("search of an id", format!("/console/find?q={delivery}")),
        ("replay", format!("/console/replay?hours=24&webhooks={webhook}")),
        ("replay with delivered", format!("/console/replay?hours=24&delivered=true&webhooks={webhook}")),
        ("wms", of("wms", wms)),
        ("list of wms", "/console/wms".to_owned()),
        ("carrier preferences", "/console/preference".to_owned()),
    ];
    for (name, state) in [
        ("jobs, failed", "job?state=failed"),
        ("jobs, running", "job?state=running"),
        ("jobs, retrying", "job?state=retrying"),
        ("jobs, queued", "job?state=queued"),
        ("jobs, receiving", "job?state=receiving"),
        ("jobs, succeeded", "job?state=succeeded"),
        ("jobs, cancelled", "job?state=cancelled"),
        ("deliveries, exhausted", "delivery?state=exhausted"),
        ("deliveries, pending", "delivery?state=pending"),
        ("deliveries, cancelled", "delivery?state=cancelled"),
        ("deliveries, delivered", "delivery?state=delivered"),
    ] {
        pages.push((name, format!("/console/{state}")));
    }
    pages
}

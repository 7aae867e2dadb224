//! The proof of the main guarantee: a catalogue is synced, switched off and on in bulk, and every change
//! reaches the e-shop's webhook, despite faults during each phase.
//!
//! It uses the service only through HTTP, and injects faults through [`Breaks`], so that the same proof runs
//! with the processes of `./dev up` (the demo) and with those of a test ([`longshore_testkit::stack`]).
//!
//! It requires that each of the three changes of each product (created, switched off, switched on) is
//! delivered at least once, with a unique `webhook-id` and a valid signature.

pub mod orders;
mod report;

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use longshore_testkit::process::kill;
use longshore_testkit::receiver::{Answer, Receiver};
use longshore_testkit::signature::Verifier;
use longshore_testkit::stack::{Stack, flush};
use uuid::Uuid;

pub use self::report::{Phase, Report};
use crate::api::{Job, JobState};
use crate::catalogue::Catalogue;
use crate::site::Site;

/// The event type of its webhook.
const EVENT: &str = "product_change";

/// How long the e-shop takes to answer: like a fast one, but long enough to inject a fault in the middle.
const SHOP_TAKES: Duration = Duration::from_millis(5);

/// How long a phase may take. Taking over the work of a killed worker takes seconds; the first retry of a
/// delivery comes after five.
const DEADLINE: Duration = Duration::from_mins(2);

/// Injects faults.
pub trait Breaks {
    /// Kills the worker with SIGKILL; it is expected to be restarted.
    fn kill_worker(&self) -> impl Future<Output = anyhow::Result<()>>;
    /// Empties Redis.
    fn flush_redis(&self) -> impl Future<Output = anyhow::Result<()>>;
}

impl Breaks for Stack {
    async fn kill_worker(&self) -> anyhow::Result<()> {
        kill(self.worker_pid()?).await
    }

    async fn flush_redis(&self) -> anyhow::Result<()> {
        flush(&self.redis_url).await
    }
}

/// Runs the proof on a site without products, and logs each step. The report shows whether the guarantee holds.
///
/// # Errors
/// When the service refuses a call, or does not finish in time: there is then no report.
pub async fn run(
    site: &Site,
    catalogue: &Catalogue,
    breaks: &impl Breaks,
    mut tell: impl FnMut(String),
) -> anyhow::Result<Report> {
    let receiver = Receiver::start().await?;
    receiver.answer_all(Answer::After(SHOP_TAKES, Box::new(Answer::Status(204))));
    let webhook = site.api.create_webhook(site.eshop, EVENT, &receiver.url("/webhooks")).await?;
    let verifier = Verifier::new(&webhook.secret)?;
    let mut watch = Watch { site, receiver: &receiver, phases: Vec::new() };

    tell(format!("syncing {} ({} rows)", catalogue.name, catalogue.lines.len()));
    let started = Instant::now();
    let expected = catalogue.expected();
    let accepted = site.api.sync_products(catalogue.body(site.eshop)).await?;
    let synced = watch.phase("synced in", started, &accepted, expected.taken).await?;
    let refused = site.api.item_errors(synced.id).await?;
    let products = site.api.products(site.organisation).await?;
    tell(format!("{} products in, {} rows refused", synced.progress.changed, synced.progress.failed));

    tell("switching all of them off; killing the worker by SIGKILL in the middle".to_owned());
    let started = Instant::now();
    let accepted = site.api.switch_products(false, &products).await?;
    let told_at_kill = watch.part_of_phase(products.len(), 10).await?;
    breaks.kill_worker().await?;
    watch.phase("switched off", started, &accepted, products.len() as u64).await?;

    tell("switching all of them on; emptying Redis at once and again in the middle".to_owned());
    let started = Instant::now();
    let accepted = site.api.switch_products(true, &products).await?;
    breaks.flush_redis().await?;
    let told_at_flush = watch.part_of_phase(products.len(), 10).await?;
    breaks.flush_redis().await?;
    watch.phase("switched on", started, &accepted, products.len() as u64).await?;

    let phases = watch.phases;
    site.api.delete_webhook(webhook.id).await?;
    let mut report = Report {
        expected,
        synced: synced.progress,
        refused,
        products: products.len(),
        phases,
        told_at_kill,
        told_at_flush,
        webhooks: receiver.requests(),
        ..Report::default()
    };
    count(&receiver, &verifier, &products, &mut report);
    Ok(report)
}

/// Follows the phases of one proof.
struct Watch<'a> {
    site: &'a Site,
    receiver: &'a Receiver,
    phases: Vec<Phase>,
}

impl Watch<'_> {
    /// The number of changes in the phases so far.
    fn told_before(&self) -> u64 {
        self.phases.iter().map(|phase| phase.changes).sum()
    }

    /// Waits until one in `share` of the changes of the current phase is delivered; returns how many are.
    async fn part_of_phase(&self, changes: usize, share: usize) -> anyhow::Result<u64> {
        let before = self.told_before();
        let ids = usize::try_from(before)? + (changes / share).max(1);
        self.receiver.wait_for_ids(ids, DEADLINE).await?;
        Ok(self.receiver.counts_by("webhook-id").len() as u64 - before)
    }

    /// Waits for the end of a phase: of its job and of its last webhook.
    async fn phase(
        &mut self,
        name: &'static str,
        started: Instant,
        job: &Job,
        changes: u64,
    ) -> anyhow::Result<Job> {
        let job = self.site.api.job_ended(job.id, DEADLINE).await?;
        if job.state != JobState::Succeeded {
            bail!("the job of \"{name}\" {}: {:?}, {:?}", job.state, job.progress, job.error);
        }
        let executed = started.elapsed();
        ensure!(
            job.progress.changed == changes,
            "the job of \"{name}\" changed {} of {changes}",
            job.progress.changed
        );
        let ids = usize::try_from(self.told_before() + changes)?;
        self.receiver
            .wait_for_ids(ids, DEADLINE)
            .await
            .with_context(|| format!("\"{name}\": {changes} changes, {ids} webhooks in all were expected"))?;
        let delivered = self.receiver.latest().map_or(executed, |latest| latest.duration_since(started));
        self.phases.push(Phase { name, changes, executed, delivered });
        Ok(job)
    }
}

/// Counts the requests to the e-shop.
fn count(receiver: &Receiver, verifier: &Verifier, products: &[Uuid], report: &mut Report) {
    let mut delivered: HashMap<Uuid, HashSet<String>> =
        products.iter().map(|id| (*id, HashSet::new())).collect();
    let mut product_of: HashMap<String, Uuid> = HashMap::new();
    for receipt in receiver.receipts() {
        if verifier.verify(&receipt).is_err() {
            report.unsigned += 1;
            continue;
        }
        let Some(id) = receipt.header("webhook-id").map(str::to_owned) else { continue };
        let body = receipt.json().unwrap_or_default();
        let product = body["id"].as_str().and_then(|id| id.parse::<Uuid>().ok());
        match product.and_then(|product| Some((product, delivered.get_mut(&product)?))) {
            Some((product, ids)) if body["type"] == EVENT => {
                // The same id repeats the same change; it must not belong to another product.
                if *product_of.entry(id.clone()).or_insert(product) != product {
                    report.foreign += 1;
                }
                if !ids.insert(id) {
                    report.duplicates += 1;
                }
            }
            _ => report.foreign += 1,
        }
    }
    let changes = report.phases.len();
    report.lost = delivered.values().map(|ids| changes.saturating_sub(ids.len()) as u64).sum();
    report.invented = delivered.values().map(|ids| ids.len().saturating_sub(changes) as u64).sum();
}

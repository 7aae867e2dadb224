//! The proof that goes on with orders: stock in, orders in, booked; goods arrive, and those that waited are booked; one is packed
//! and delivered. Each transition is sent exactly as it happened, despite a killed worker and an emptied Redis.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use longshore_testkit::receiver::{Answer, Receiver};
use longshore_testkit::signature::Verifier;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Breaks, DEADLINE, SHOP_TAKES};
use crate::api::{Api, ItemError, JobState};
use crate::orders::{Fate, Orders};
use crate::site::Site;

/// The event type of its webhook.
const EVENT: &str = "expedition_status_change";

/// The result; printed as a summary for people.
#[derive(Debug, Clone, Default)]
pub struct OrdersReport {
    /// Rows of the import.
    pub rows: usize,
    /// Orders by their status after the import.
    pub imported: BTreeMap<String, usize>,
    /// What that was to be.
    pub expected: BTreeMap<String, usize>,
    /// The refused rows.
    pub refused: Vec<ItemError>,
    /// Rows that the same import changed when it came again.
    pub changed_again: u64,
    /// The time from the import to the last booking.
    pub booked_after: Duration,
    /// The time from the arrival of goods until no order waits.
    pub served_after: Duration,
    /// The number of the order that was delivered.
    pub delivered: String,
    /// Transitions that were to be sent.
    pub transitions: usize,
    /// Requests to the e-shop.
    pub webhooks: u64,
    /// Transitions that were never delivered.
    pub lost: usize,
    /// What was sent and has not happened.
    pub invented: usize,
    /// Requests that repeated a transition with its id.
    pub duplicates: usize,
    /// Requests with an invalid signature.
    pub unsigned: usize,
}

impl OrdersReport {
    /// The violations of the guarantee; empty if it holds.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let facts = [
            (
                self.imported == self.expected,
                format!("the orders were to be {:?}, and are {:?}", self.expected, self.imported),
            ),
            (
                self.refused.iter().all(|error| !error.code.is_empty() && !error.message.is_empty()),
                "an order was refused without a reason".to_owned(),
            ),
            (self.changed_again == 0, format!("the same import changed {} orders", self.changed_again)),
            (self.lost == 0, format!("{} transitions were never delivered", self.lost)),
            (self.invented == 0, format!("{} webhooks belong to no transition", self.invented)),
            (self.unsigned == 0, format!("{} webhooks about orders had no valid signature", self.unsigned)),
        ];
        facts.into_iter().filter(|(holds, _)| !holds).map(|(_, fault)| fault).collect()
    }
}

impl fmt::Display for OrdersReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "orders        {} rows:", self.rows)?;
        for (status, count) in &self.imported {
            write!(f, " {count} {status},")?;
        }
        writeln!(f, " in {:.2} s", self.booked_after.as_secs_f64())?;
        for error in &self.refused {
            writeln!(
                f,
                "              {}: {} ({})",
                error.key.as_deref().unwrap_or("?"),
                error.message,
                error.code
            )?;
        }
        writeln!(
            f,
            "goods         came, and no order waited after {:.2} s",
            self.served_after.as_secs_f64()
        )?;
        writeln!(f, "packed        and delivered: {}", self.delivered)?;
        writeln!(f, "broken        worker killed during the import, Redis emptied as the goods came")?;
        writeln!(
            f,
            "webhooks      {} came for {} transitions: {} lost, {} delivered again, {} with a bad signature",
            self.webhooks, self.transitions, self.lost, self.duplicates, self.unsigned
        )?;
        let faults = self.faults();
        if faults.is_empty() {
            return write!(
                f,
                "proof         holds: each order booked or waiting as it should, each transition sent"
            );
        }
        write!(f, "proof         FAILS")?;
        faults.iter().try_for_each(|fault| write!(f, "\n              {fault}"))
    }
}

/// Runs it on a site that has the products of the orders. The operator creates the carrier, and reports what the warehouse does.
///
/// # Errors
/// When the service refuses a call, or does not finish in time: there is then no report.
pub async fn run(
    site: &Site,
    operator: &Api,
    orders: &Orders,
    breaks: &impl Breaks,
    mut tell: impl FnMut(String),
) -> anyhow::Result<OrdersReport> {
    let receiver = Receiver::start().await?;
    receiver.answer_all(Answer::After(SHOP_TAKES, Box::new(Answer::Status(204))));
    let webhook = site.api.create_webhook(site.eshop, EVENT, &receiver.url("/orders")).await?;
    let verifier = Verifier::new(&webhook.secret)?;
    let carrier = operator.create_carrier(site.organisation).await?;
    let mut report = OrdersReport { rows: orders.count(), ..OrdersReport::default() };

    let skus = site.api.skus(site.organisation).await?;
    let few: HashMap<String, i64> = skus
        .iter()
        .enumerate()
        .map(|(n, sku)| (sku.clone(), i64::try_from(n % 4 * 6).unwrap_or(0)))
        .collect();
    tell(format!("counting the stocks of {} products: some have nothing", skus.len()));
    count(site, &few).await?;

    tell(format!("importing {} orders; killing the worker by SIGKILL", orders.count()));
    let fates = orders.fates(few);
    for fate in &fates {
        let status = match fate {
            Fate::Refused => continue,
            Fate::Incorrect => "incorrect",
            Fate::Booked => "awaiting_processing",
            Fate::Waiting => "waiting_for_goods",
        };
        *report.expected.entry(status.to_owned()).or_default() += 1;
    }
    let started = Instant::now();
    let job = site.api.import_orders(orders.body(site.eshop, carrier)).await?;
    breaks.kill_worker().await?;
    let job = site.api.job_ended(job.id, DEADLINE).await?;
    report.booked_after = started.elapsed();
    report.refused = site.api.item_errors(job.id).await?;
    for order in site.api.orders(site.organisation).await? {
        *report.imported.entry(text(&order, "status").to_owned()).or_default() += 1;
    }
    let again = site.api.import_orders(orders.body(site.eshop, carrier)).await?;
    report.changed_again = site.api.job_ended(again.id, DEADLINE).await?.progress.changed;

    tell("goods arrive for all who wait; emptying Redis".to_owned());
    let started = Instant::now();
    count(site, &skus.into_iter().map(|sku| (sku, 1_000)).collect()).await?;
    breaks.flush_redis().await?;
    let waits = async {
        while site
            .api
            .orders(site.organisation)
            .await?
            .iter()
            .any(|o| text(o, "status") == "waiting_for_goods")
        {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(DEADLINE, waits).await.context("orders still wait")??;
    report.served_after = started.elapsed();

    let first = fates.iter().position(|fate| *fate == Fate::Waiting).context("no order has waited")?;
    report.delivered = orders.number(first).to_owned();
    tell(format!("packing and delivering {}", report.delivered));
    let parcels = json!([{"extPackageNumber": "P-1", "extPackageTrackingNumber": "LS0000001"}]);
    let order = site.api.orders(site.organisation).await?;
    let order = order.iter().find(|order| text(order, "orderNumber") == report.delivered);
    let id: Uuid = order.map(|order| text(order, "id")).context("the order is gone")?.parse()?;
    operator.report_order(id, &json!({"status": "waiting_for_the_carrier", "parcels": parcels})).await?;
    operator.report_order(id, &json!({"status": "delivered"})).await?;

    let happened = happened(orders, &fates, &report.delivered);
    report.transitions = happened.values().map(Vec::len).sum();
    receiver.wait_for_ids(report.transitions, DEADLINE).await?;
    site.api.delete_webhook(webhook.id).await?;
    report.webhooks = receiver.requests();
    judge(&receiver, &verifier, happened, &mut report);
    Ok(report)
}

/// Counts stocks, and waits for the end of the job.
async fn count(site: &Site, counts: &HashMap<String, i64>) -> anyhow::Result<()> {
    let job = site.api.count_stocks(site.eshop, site.warehouse, counts).await?;
    let job = site.api.job_ended(job.id, DEADLINE).await?;
    ensure!(job.state == JobState::Succeeded, "the counts were not taken: {job:?}");
    Ok(())
}

/// The transitions of each order, by its number.
fn happened(orders: &Orders, fates: &[Fate], delivered: &str) -> HashMap<String, Vec<String>> {
    let mut happened = HashMap::new();
    for (n, fate) in fates.iter().enumerate() {
        let mut statuses = match fate {
            Fate::Refused => continue,
            Fate::Incorrect => vec!["incorrect"],
            Fate::Booked => vec!["awaiting_processing"],
            Fate::Waiting => vec!["waiting_for_goods", "awaiting_processing"],
        };
        if orders.number(n) == delivered {
            statuses.extend(["waiting_for_the_carrier", "delivered"]);
        }
        happened.insert(orders.number(n).to_owned(), statuses.into_iter().map(str::to_owned).collect());
    }
    happened
}

/// Compares what was sent with what has happened.
fn judge(
    receiver: &Receiver,
    verifier: &Verifier,
    mut happened: HashMap<String, Vec<String>>,
    report: &mut OrdersReport,
) {
    let mut known: HashMap<String, Value> = HashMap::new();
    for receipt in receiver.receipts() {
        if verifier.verify(&receipt).is_err() {
            report.unsigned += 1;
            continue;
        }
        let body = receipt.json().unwrap_or_default();
        let id = receipt.header("webhook-id").unwrap_or_default().to_owned();
        if let Some(same) = known.insert(id, body.clone()) {
            // the same id repeats the same transition
            if same["data"] == body["data"] {
                report.duplicates += 1;
            } else {
                report.invented += 1;
            }
            continue;
        }
        let found = happened.get_mut(text(&body, "orderNumber")).and_then(|statuses| {
            let place = statuses.iter().position(|status| status == text(&body, "status"))?;
            Some(statuses.remove(place))
        });
        if found.is_none() {
            report.invented += 1;
        }
    }
    report.lost = happened.values().map(Vec::len).sum();
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_default()
}

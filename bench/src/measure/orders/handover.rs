//! Orders that are handed over to the system of a warehouse that answers at once, compared with a bare loop of the same calls.

use std::time::Instant;

use anyhow::{Context as _, ensure};
use longshore_testkit::client::outside;
use longshore_testkit::stack::Stack;
use longshore_testkit::wms::Wms;
use serde_json::{Value, json};
use uuid::Uuid;

use super::depot::{Depot, HUNG, items};
use crate::measure::floor::Psql;
use crate::measure::load::{per_second, rate, runs};
use crate::measure::{Effort, Floor, Reach, Row, median};
use longshore_demo::api::Api;
use longshore_demo::site::operator_of;

/// Orders of a run.
const ORDERS: usize = 10_000;

/// Different products.
const PRODUCTS: usize = 1_000;

/// More pieces than are ever wanted.
const PLENTY: i64 = 1_000_000;

/// Calls at the same time.
const IN_FLIGHT: usize = 16;

pub(in crate::measure) async fn measure(stack: &Stack, effort: Effort) -> anyhow::Result<Vec<Row>> {
    let count = effort.of(ORDERS);
    let depot = Depot::on(stack, "hand-over", PRODUCTS, PLENTY).await?;
    let operator = operator_of(stack).await?;
    let mut psql = Psql::connect(stack).await?;
    let warehouse = depot.site.warehouse;
    let wms: Uuid =
        psql.ask(&format!("SELECT default_wms_id FROM warehouse WHERE id = '{warehouse}'")).await?;
    let order = sample(&depot, &operator, wms).await?;
    let (mut figures, mut floors) = (Vec::new(), Vec::new());
    for run in runs(effort) {
        psql.run(&format!("DELETE FROM expedition_handover WHERE handover_wms_id = '{wms}'")).await?;
        depot.empty(&mut psql, PLENTY).await?;
        let floor = bare(&Wms::counting().await?, count, &order).await?;
        let system = Wms::counting().await?;
        set(&operator, wms, &system, true).await?;
        let rows = (0..count).map(|n| depot.row(&format!("H-{n}"), &items(n, PRODUCTS)));
        depot.imported(depot.import(rows), count).await?;
        psql.settle().await?;
        let started = Instant::now();
        set(&operator, wms, &system, false).await?;
        system.wait_until(HUNG, move |book, _| book.len() >= count).await?;
        accepted(&mut psql, wms, count).await?;
        let figure = per_second(count, started)?;
        ensure!(system.asked().len() == count, "{} calls of {count} orders", system.asked().len());
        if run > 0 {
            floors.push(floor);
            figures.push(figure);
        }
    }
    let floor = Floor::median(floors, "a loop of reqwest with the same bodies, 16 calls in flight");
    let what = format!("{count} orders are handed over to a system that answers at once");
    Ok(vec![Row::relative(what, median(figures), "1/s", floor, Reach::RatioAtLeast(0.6))])
}

/// Connects a system.
async fn set(operator: &Api, wms: Uuid, system: &Wms, paused: bool) -> anyhow::Result<()> {
    let setting = json!({"baseUrl": system.url(), "maxInFlight": IN_FLIGHT, "paused": paused});
    operator.store_wms_setting(wms, &setting).await
}

/// An order as a system gets it.
async fn sample(depot: &Depot, operator: &Api, wms: Uuid) -> anyhow::Result<Value> {
    let system = Wms::start().await?;
    set(operator, wms, &system, false).await?;
    depot.place("H-sample", &items(2, PRODUCTS)).await?;
    system.wait_until(HUNG, |book, _| !book.is_empty()).await?;
    let (_, entry) = system.book().pop_first().context("no order was handed over")?;
    Ok(entry.order)
}

/// Makes the calls without the service; returns how many a second.
async fn bare(system: &Wms, count: usize, order: &Value) -> anyhow::Result<f64> {
    let (http, url) = (outside()?, system.url());
    rate(count, IN_FLIGHT, |n| {
        let id = Uuid::from_u128(n as u128);
        let mut order = order.clone();
        (order["id"], order["number"]) = (json!(id), json!(1));
        let call = http.put(format!("{url}/expedition/{id}"));
        let call = call.header("idempotency-key", format!("{id}.1")).header("webhook-id", format!("{id}.1"));
        async move {
            let answer = call.body(order.to_string()).send().await?.error_for_status()?;
            answer.bytes().await?;
            Ok(())
        }
    })
    .await
}

/// Waits until this many are recorded as accepted.
async fn accepted(psql: &mut Psql, wms: Uuid, count: usize) -> anyhow::Result<()> {
    let left = format!(
        "SELECT count(*) <> {count} FROM expedition_handover
         WHERE handover_wms_id = '{wms}' AND handover_state = 'accepted'"
    );
    let wait = async {
        while psql.ask::<bool>(&left).await? {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(HUNG, wait).await?
}

//! Bodies: a change beside the most expensive bodies of another organisation.

use std::sync::Arc;
use std::time::Instant;

use longshore_testkit::stack::Stack;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::measure::load::milliseconds;
use crate::measure::{Effort, Floor, Reach, Row, percentile};
use longshore_demo::site::Site;

/// Clients that send bodies of each kind, one after another.
const CLIENTS: usize = 32;
/// Rows of a sync, of about three megabytes …
const ROWS: usize = 10_000;
/// … and members of a product, of about a megabyte. Both are refused at their end, so that only the api works on them.
const MEMBERS: usize = 40_000;
/// Changes of the other organisation.
const CHANGES: usize = 500;

pub(super) async fn measure(stack: &Stack, effort: Effort) -> anyhow::Result<Vec<Row>> {
    let (one, other) = (Arc::new(Site::on(stack, "bulky").await?), Site::on(stack, "small").await?);
    other.api.create_product(other.organisation, other.eshop, "A").await?;
    let product = other.api.products(other.organisation).await?.into_iter().next().unwrap_or_default();
    let changes = async || {
        let mut took = Vec::new();
        for n in 0..effort.of(CHANGES) {
            let started = Instant::now();
            other.api.rename_product(product, &format!("Mug {n}")).await?;
            took.push(milliseconds(started));
        }
        took.sort_by(f64::total_cmp);
        anyhow::Ok(took)
    };
    changes().await?;
    let quiet = changes().await?;
    let row = |n: usize| json!({ "productSku": format!("S{n}"), "name": "x".repeat(260) });
    let rows: Vec<Value> = (0..ROWS).map(row).collect();
    let sync = json!({ "eshop": one.eshop, "products": rows, "unknown": true }).to_string();
    let members: serde_json::Map<String, Value> =
        (0..MEMBERS).map(|n| (format!("some member {n}"), json!(n))).collect();
    let bodies: [(&'static str, Arc<str>); 2] = [
        ("/api/partner-integration/eshop/sync/products", sync.into()),
        ("/api/product", Value::from(members).to_string().into()),
    ];
    let mut clients = JoinSet::new();
    for (path, body) in bodies {
        for _ in 0..CLIENTS {
            let (one, body) = (Arc::clone(&one), Arc::clone(&body));
            clients.spawn(async move {
                loop {
                    // any answer will do
                    let _ = one.api.status(path, &body).await;
                }
            });
        }
    }
    let beside = changes().await?;
    clients.shutdown().await;
    let row = |what: &str, of: usize, most: f64| {
        let floor = Floor::of(percentile(&quiet, of), "the same in a quiet service");
        Row::relative(what, percentile(&beside, of), "ms", floor, Reach::AtMost(most))
    };
    Ok(vec![
        row("PUT beside 64 clients of another with bodies of 1 to 3 MB, p50", 50, 20.0),
        row("the same, p99", 99, 100.0),
    ])
}

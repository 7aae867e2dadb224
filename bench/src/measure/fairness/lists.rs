//! Lists and locks: a page beside the most expensive lists of another organisation, a record beside many
//! requests for a locked row, and the memory of the api beside clients that do not read or send.

use std::sync::Arc;
use std::time::{Duration, Instant};

use longshore_testkit::stack::Stack;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::measure::floor::Psql;
use crate::measure::load::milliseconds;
use crate::measure::process::{forget_peak, peak};
use crate::measure::{Effort, Floor, Reach, Row, percentile};
use longshore_demo::site::Site;

/// Lists that one organisation requests in parallel and repeatedly.
const LISTS: usize = 8;

/// Suppliers whose notes are searched with a criterion that pairs each with all others.
const SUPPLIERS: usize = 200;

/// Callers that need the locked row.
const CALLERS: usize = 60;

/// Requests of the other organisation.
const ASKED: usize = 100;

/// A step that takes longer to begin has failed.
const SOON: Duration = Duration::from_secs(20);

/// Clients of each hostile kind, and how many seconds they stay.
const HOSTILE: usize = 1_000;
const STAY: usize = 60;

/// How often a hostile client reads a byte.
const BEAT: Duration = Duration::from_secs(1);

pub(super) async fn measure(stack: &Stack, effort: Effort) -> anyhow::Result<Vec<Row>> {
    let (one, other) = (Arc::new(Site::on(stack, "costly").await?), Site::on(stack, "neighbour").await?);
    for site in [&*one, &other] {
        for sku in ["A", "B", "C"] {
            site.api.create_product(site.organisation, site.eshop, sku).await?;
        }
    }
    let mut rows = beside_lists(stack, &one, &other, effort).await?;
    rows.push(beside_a_lock(stack, &one, &other, effort).await?);
    rows.push(memory(stack, &one, effort).await?);
    Ok(rows)
}

/// The slowest page of the other organisation, without and beside the lists.
async fn beside_lists(
    stack: &Stack,
    one: &Arc<Site>,
    other: &Site,
    effort: Effort,
) -> anyhow::Result<Vec<Row>> {
    let mut psql = Psql::connect(stack).await?;
    let organisation = one.organisation;
    psql.run(&format!(
        "INSERT INTO supplier (id, organisation_id, name, active, note)
         SELECT uuid_v7(), '{organisation}', 'S' || n, true, repeat('a', 10000) FROM generate_series(1, {SUPPLIERS}) n"
    ))
    .await?;
    let page = async || {
        let started = Instant::now();
        other.api.list_products(&json!({ "limit": 100 })).await?;
        anyhow::Ok(milliseconds(started))
    };
    let quiet = slowest(effort, page).await?;
    let pattern = format!("{}b", "a".repeat(254));
    let body = json!({ "criteria": { "organisation.suppliers.note": { "like": pattern } } }).to_string();
    let mut lists = JoinSet::new();
    for _ in 0..LISTS {
        let (one, body) = (Arc::clone(one), body.clone());
        lists.spawn(async move {
            loop {
                // any answer will do
                let _ = one.api.status("/api/supplier/list", &body).await;
            }
        });
    }
    let begun = async {
        while psql.ask::<i64>("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%supplier%' AND state = 'active' AND pid <> pg_backend_pid()").await? < 2 {
            tokio::task::yield_now().await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(SOON, begun).await??;
    let beside = slowest(effort, page).await?;
    lists.shutdown().await;
    let floor = Floor::of(quiet, "the same in a quiet service");
    let what = "eight costly lists of one: another's page, the slowest";
    Ok(vec![Row::relative(what, beside, "ms", floor, Reach::AtMost(1_000.0))])
}

/// The 99th percentile of the other organisation's look-ups, without and beside callers that need a locked
/// row.
async fn beside_a_lock(stack: &Stack, one: &Arc<Site>, other: &Site, effort: Effort) -> anyhow::Result<Row> {
    let wanted = one.api.products(one.organisation).await?.into_iter().next().unwrap_or_default();
    let theirs = other.api.products(other.organisation).await?.into_iter().next().unwrap_or_default();
    let look = async || {
        let started = Instant::now();
        other.api.get_product(theirs).await?;
        anyhow::Ok(milliseconds(started))
    };
    let quiet = p99(effort, look).await?;
    let mut holder = Psql::connect(stack).await?;
    holder.run(&format!("BEGIN; SELECT FROM product WHERE id = '{wanted}' FOR UPDATE")).await?;
    let mut callers = JoinSet::new();
    for n in 0..CALLERS {
        let one = Arc::clone(one);
        callers.spawn(async move {
            loop {
                let _ = one.api.rename_product(wanted, &format!("Mug {n}")).await;
            }
        });
    }
    let mut psql = Psql::connect(stack).await?;
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    let begun = async {
        while psql.ask::<i64>(waiting).await? < 2 {
            tokio::task::yield_now().await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(SOON, begun).await??;
    let beside = p99(effort, look).await?;
    callers.shutdown().await;
    holder.run("ROLLBACK").await?;
    let floor = Floor::of(quiet, "the same in a quiet service");
    let what = "one row locked, 60 callers want it: another's GET, p99";
    Ok(Row::relative(what, beside, "ms", floor, Reach::AtMost(50.0)))
}

/// The peak memory of the api beside clients of each hostile kind.
async fn memory(stack: &Stack, site: &Site, effort: Effort) -> anyhow::Result<Row> {
    let mut psql = Psql::connect(stack).await?;
    let organisation = site.organisation;
    psql.run(&format!(
        "INSERT INTO supplier (id, organisation_id, name, active, note)
         SELECT uuid_v7(), '{organisation}', 'M' || n, true, repeat('m', 10000) FROM generate_series(1, 5000) n"
    ))
    .await?;
    let pid = stack.api_pid()?;
    forget_peak(pid)?;
    let token = site.api.token().to_owned();
    let sync = "/api/partner-integration/eshop/sync/products";
    let zeros = format!("{{\"products\":[{}0", "0,".repeat(512 * 1024));
    // the sent part, and the declared length
    let page = json!({ "limit": 10_000 }).to_string();
    let kinds: [(&str, String, usize); 4] = [
        ("/api/supplier/list", page.clone(), page.len()),
        ("/api/supplier/list", "{}".to_owned(), 2),
        (sync, format!("{{\"eshop\":\"{}\",\"products\":[", site.eshop) + &unfinished(), 32 * 1024 * 1024),
        (sync, zeros, 32 * 1024 * 1024),
    ];
    let address = stack.base_url.trim_start_matches("http://").to_owned();
    let mut clients = JoinSet::new();
    for (path, sent, length) in kinds {
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{sent}"
        );
        let request: Arc<str> = request.into();
        for _ in 0..effort.of(HOSTILE) {
            let (request, address) = (Arc::clone(&request), address.clone());
            clients.spawn(async move {
                let mut stream = TcpStream::connect(address).await?;
                stream.write_all(request.as_bytes()).await?;
                // reads a byte now and then, and never the end
                while stream.read_u8().await.is_ok() {
                    tokio::time::sleep(BEAT).await;
                }
                std::io::Result::Ok(())
            });
        }
    }
    let stay = Duration::from_secs(effort.of(STAY).max(5).try_into()?);
    tokio::time::sleep(stay).await;
    clients.shutdown().await;
    let what = format!("memory of the api beside {} hostile clients of each of 4 kinds", effort.of(HOSTILE));
    Ok(Row::absolute(what, peak(pid)?, "MiB", Reach::AtMost(256.0)))
}

/// Rows of a document that never ends.
fn unfinished() -> String {
    let row = json!({ "productSku": "X", "name": "x".repeat(1_000) }).to_string() + ",";
    row.repeat(8 * 1024)
}

async fn slowest<F: Future<Output = anyhow::Result<f64>>>(
    effort: Effort,
    ask: impl Fn() -> F,
) -> anyhow::Result<f64> {
    Ok(percentile(&taken(effort, ask).await?, 100))
}

async fn p99<F: Future<Output = anyhow::Result<f64>>>(
    effort: Effort,
    ask: impl Fn() -> F,
) -> anyhow::Result<f64> {
    Ok(percentile(&taken(effort, ask).await?, 99))
}

async fn taken<F: Future<Output = anyhow::Result<f64>>>(
    effort: Effort,
    ask: impl Fn() -> F,
) -> anyhow::Result<Vec<f64>> {
    let mut taken = Vec::new();
    for _ in 0..effort.of(ASKED * 3) {
        taken.push(ask().await?);
    }
    taken.sort_by(f64::total_cmp);
    Ok(taken)
}

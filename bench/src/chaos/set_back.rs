//! The last act: Postgres is set back to a copy of its data, while warehouses and e-shops remember what came after it. Nothing that
//! is lost comes back, so this comes after all other checks, and has its own.

use std::time::{Duration, Instant};

use anyhow::ensure;
use longshore_testkit::client;

use super::crew::{Crew, connect};
use super::report::Check;
use super::warehouses::{self, Warehouse};
use super::{QUIET_WITHIN, check};

/// How long orders are traded after the copy, while nothing is handed over, and after it was mended.
const TRADED: Duration = Duration::from_secs(6);

/// Rounds of orders: those that are lost, and those that come when it was mended.
const LOST: u64 = 1;
const LATER: u64 = 2;

/// How soon it must be seen.
const SEEN_WITHIN: Duration = Duration::from_secs(5);

/// How long a call that was under way may take to end.
const CALLS_END_WITHIN: Duration = Duration::from_secs(2);

/// Sets Postgres back, mends that, and checks what outsiders have then. What is committed between `keep` and `lose` is lost.
pub(super) async fn act(
    crew: &Crew,
    keep: impl Future<Output = anyhow::Result<()>>,
    lose: impl Future<Output = anyhow::Result<()>>,
    warehouses: &[Warehouse],
    seed: u64,
    tell: &(impl Fn(String) + Sync),
) -> anyhow::Result<Vec<Check>> {
    keep.await?;
    crew.be_ready().await?;
    tell("what is traded now will be lost".to_owned());
    warehouses::trade(warehouses, seed, LOST, Instant::now() + TRADED).await?;
    lose.await?;
    let back = Instant::now();
    warehouses.iter().for_each(Warehouse::lose_promises);
    let seen = seen(crew).await?;
    let seen_after = back.elapsed();
    tell(format!("Postgres was set back; seen after {:.1} s", seen_after.as_secs_f64()));
    crew.be_ready().await?;
    let unsaid = unsaid(crew).await?;

    tokio::time::sleep(CALLS_END_WITHIN).await;
    let before = calls(warehouses);
    // what was lost is pushed again
    warehouses::trade(warehouses, seed ^ 1, LOST, Instant::now() + TRADED).await?;
    let begun = calls(warehouses) - before;

    let mut restored = crew.service.command("longshore-api");
    let ended = restored.arg("restored").output().await?;
    ensure!(ended.status.success(), "restored: {}", String::from_utf8_lossy(&ended.stderr));
    tell(String::from_utf8_lossy(&ended.stdout).trim_end().to_owned());
    warehouses::trade(warehouses, seed, LATER, Instant::now() + TRADED).await?;
    let mut psql = connect(crew).await?;
    for warehouse in warehouses {
        let orders: Vec<_> =
            sqlx::query_scalar("SELECT id FROM expedition WHERE organisation_id = $1 ORDER BY id")
                .bind(warehouse.tenant.organisation)
                .fetch_all(&mut psql)
                .await?;
        warehouse.command_each(seed, &orders).await?;
    }
    let mut left = Vec::from_iter(check::be_quiet(crew, QUIET_WITHIN).await?);
    warehouses::conclude(warehouses).await?;
    left.extend(check::be_quiet(crew, QUIET_WITHIN).await?);

    let late = (!seen).then(|| "no process has said so".to_owned());
    let called = (begun > 0).then(|| format!("{begun} calls began"));
    let mut checks = vec![
        Check::new("a set-back is seen within seconds", 1, late.into_iter().collect()),
        Check::new("doctor and metrics say that Postgres was set back", 2, unsaid),
        Check::new("nothing is handed over until it is mended", 1, called.into_iter().collect()),
        Check::new("after a set-back: all comes to rest", 1, left),
    ];
    checks.extend(check::after_a_set_back(crew, warehouses).await?);
    Ok(checks)
}

/// Whether a process has seen it in time.
async fn seen(crew: &Crew) -> anyhow::Result<bool> {
    let until = Instant::now() + SEEN_WITHIN;
    let mut psql = connect(crew).await?;
    while Instant::now() < until {
        let seen = "SELECT EXISTS (SELECT FROM set_back WHERE mended_at IS NULL)";
        if sqlx::query_scalar(seen).fetch_one(&mut psql).await? {
            return Ok(true);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(false)
}

/// Who should say so and does not.
async fn unsaid(crew: &Crew) -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    let said = crew.service.command("longshore-api").arg("doctor").output().await?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    if !said.lines().any(|line| line.starts_with("fail") && line.contains("postgres.set_back")) {
        found.push(format!("doctor: {said}"));
    }
    let (http, mut is_counted) = (client::outside()?, false);
    for member in crew.members() {
        let figures = http.get(format!("{}/metrics", member.base_url)).send().await?.text().await?;
        is_counted |= figures.contains("longshore_database_set_back 1");
    }
    found.extend((!is_counted).then(|| "no process has the figure".to_owned()));
    Ok(found)
}

/// The calls that warehouses got.
fn calls(warehouses: &[Warehouse]) -> usize {
    warehouses.iter().map(|warehouse| warehouse.system.asked().len()).sum()
}

//! Chaos runs: everything that the service depends on fails at random moments, and afterwards each guarantee
//! is checked.
//!
//! A run is determined by its seed, which gives the plan of faults ([`plan`]). The parts:
//!
//! - [`crew`]: the processes of the service; [`site`]: two of each role on one machine, and [`server`]: a separate Postgres and
//!   Redis, each behind a [`proxy`] that can simulate a bad network; damaged [`streams`] and [`transaction`]s that stay open;
//! - [`company`]: all who take part beside the service;
//! - [`fleet`]: destinations that misbehave, [`partners`]: partners that misbehave, [`warehouses`]: systems of
//!   warehouses that misbehave;
//! - [`load`]: the requests and the promises in their answers, sent by a [`caller`] that repeats unanswered
//!   requests;
//! - [`minder`]: operations on webhooks; [`neighbour`]: an organisation that floods the service; [`orders`]:
//!   organisations that sell, from stocks that many want;
//! - [`check`]: the invariants, checked after all faults have ended and all work is done; [`report`]: the
//!   results;
//! - [`set_back`]: the last act, in which Postgres loses what was committed for a while;
//! - [`upgrade`]: no fault, but another version.
//!
//! [`run`] breaks everything at once; [`table`] breaks one thing at a time, and measures the effect. A new
//! fault is a variant of `plan::Fault`, its place in a deck there, and its arm in `inject`; a new
//! misbehaviour of destinations is a variant of `fleet::Misbehaviour`, of partners one of
//! `partners::Mischief`, of warehouses one of `warehouses::Trouble`; a new promise is a field of `load::Promises`, stored with the answer, and checked in
//! `check`.

mod caller;
mod check;
pub mod cluster;
mod company;
mod crew;
mod fleet;
mod load;
mod minder;
mod neighbour;
mod orders;
mod partners;
mod plan;
mod proxy;
mod reading;
pub mod report;
mod server;
mod set_back;
mod site;
mod streams;
pub mod table;
mod transaction;
pub mod upgrade;
mod warehouses;

use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use http::Method;
use longshore_kernel::share;
use longshore_testkit::process::signal;
use longshore_testkit::stack::{flush, programs};
use longshore_testkit::world::Tenant;
use serde_json::{Value, json};
use uuid::Uuid;

use self::caller::{Caller, Request};
use self::check::{Course, Emptied};
use self::company::Company;
use self::crew::{Member, Role};
use self::fleet::Shop;
pub use self::plan::Effort;
use self::plan::{Fault, KILLS, Plan, Step, Which};
use self::proxy::{Network, Proxy};
use self::report::Injected;
pub use self::report::Report;
use self::server::{Disk, Postgres};
use self::site::Site;

/// MiB for Postgres, and in addition for each minute of a run.
const ROOM: u64 = 384;
const ROOM_A_MINUTE: u64 = 128;

/// How long all work may take to finish after the last fault.
pub(crate) const QUIET_WITHIN: Duration = Duration::from_mins(3);

/// Breaks everything for a while, waits until all work is done, and checks whether every promise was kept. It
/// logs each step.
///
/// # Errors
/// If the run itself fails; violations are in its report.
pub async fn run(seed: u64, effort: Effort, tell: impl Fn(String) + Sync) -> anyhow::Result<Report> {
    tell(format!("seed {seed}: breaking everything for {} s", effort.faults.as_secs()));
    let room = ROOM + ROOM_A_MINUTE * effort.faults.as_secs().div_ceil(60);
    let site = Site::start(room, programs()?).await?;
    let disk = match site.postgres.disk {
        Disk::Own => "a small one of its own, filled by another file",
        Disk::Limited => "SIMULATED by a limit on the size of files: no disk can be mounted here",
    };
    tell(format!("full disk: {disk}"));
    let outcome = Box::pin(on(&site, seed, effort, disk, &tell)).await;
    outcome.with_context(|| format!("seed {seed}\n{}", site.ends_of_logs()))
}

async fn on(
    site: &Site,
    seed: u64,
    effort: Effort,
    disk: &'static str,
    tell: &(impl Fn(String) + Sync),
) -> anyhow::Result<Report> {
    let company = Company::open(site, true).await?;
    let minder = company.minder(site)?;
    let redis_bytes = check::redis_bytes(site).await?;

    let plan = Plan::new(seed, effort);
    let started = Instant::now();
    let until = started + effort.faults;
    let hands = Hands {
        site,
        company: &company,
        started,
        until,
        injected: Mutex::default(),
        emptied: Mutex::default(),
        tell,
    };
    tokio::try_join!(
        company.play(&minder, seed, until),
        hands.work(&plan.processes),
        hands.work(&plan.servers),
        hands.work(&plan.destinations),
        hands.work(&plan.partners),
        hands.work(&plan.snapshots),
        hands.work(&plan.warehouses),
    )?;
    site.be_ready().await.context("not all processes are ready although nothing is broken any more")?;
    let mut faults = hands.injected.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    faults.sort_by(|a, b| a.at.total_cmp(&b.at));
    let emptied = hands.emptied.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let seconds = started.elapsed().as_secs_f64();
    tell(format!("{} faults; waiting until all is quiet", faults.len()));

    let rest = company.rest(site, &minder).await?;
    let quiet_after = rest.after;
    let course = Course {
        began: started,
        redis_bytes,
        emptied,
        stalls: stalls(started, &faults),
        last_test: rest.last_test,
        to_postgres: Some(&site.to_postgres),
    };
    let mut checks = company.checks(site, &minder, &course, rest).await?;
    let moments = company.moments();
    for fault in &mut faults {
        fault.pause = silence(&moments, started, fault);
    }
    let (keep, set_back) = (site.postgres.keep(), site.postgres.set_back());
    checks.extend(Box::pin(set_back::act(site, keep, set_back, &company.warehouses, seed, tell)).await?);
    let played = company.played(site, &minder).await?;
    Ok(Report { seed, seconds, disk, faults, played, quiet_after, checks })
}

/// Creates a webhook for all events.
async fn subscribe(
    caller: &Caller,
    tenant: &Tenant,
    shop: Shop,
    fields: &Value,
    destination: Option<String>,
) -> anyhow::Result<(Uuid, Shop)> {
    subscribe_to(caller, tenant, shop, &["*"], fields, destination).await
}

async fn subscribe_to(
    caller: &Caller,
    tenant: &Tenant,
    shop: Shop,
    events: &[&str],
    fields: &Value,
    destination: Option<String>,
) -> anyhow::Result<(Uuid, Shop)> {
    let mut body = json!({ "eshop": tenant.eshop, "destination": destination.unwrap_or_else(|| shop.url()), "active": true });
    if let (Some(body), Some(fields)) = (body.as_object_mut(), fields.as_object()) {
        body.extend(fields.clone());
    }
    match events {
        [event] => body["event"] = json!(event),
        several => body["events"] = json!(several),
    }
    let create = Request::new(Method::POST, "/api/eshop-webhook", body.to_string());
    let made = caller.ask(&create, &[201]).await?.body;
    let id = made["id"].as_str().and_then(|id| id.parse().ok()).context("a webhook without an id")?;
    shop.believe(made["secret"].as_str().context("a webhook without a secret")?)?;
    Ok((id, shop))
}

/// When requests may have waited for a server that did not answer, plus the time to process what had piled
/// up.
fn stalls(started: Instant, faults: &[Injected]) -> Vec<(Instant, Instant)> {
    let stalling = faults.iter().filter(|fault| {
        fault.kind.contains("Postgres") || fault.kind == "api stands still" || fault.kind.ends_with("of api")
    });
    let moment = |seconds: f64| started + Duration::from_secs_f64(seconds);
    stalling.map(|fault| (moment(fault.at), moment(fault.at + fault.lasted) + share::PATIENCE)).collect()
}

/// The time from the end of a fault until a shop next accepted a delivery, in seconds.
fn silence(moments: &[Instant], started: Instant, fault: &Injected) -> Option<f64> {
    let beside = ["destination", "partner", "warehouse", "an old snapshot"];
    if beside.iter().any(|beside| fault.kind.starts_with(beside)) {
        return None;
    }
    let end = started + Duration::from_secs_f64(fault.at + fault.lasted);
    let next = moments.iter().find(|moment| **moment >= end)?;
    Some((*next - end).as_secs_f64())
}

/// Injects faults.
struct Hands<'r, T> {
    site: &'r Site,
    company: &'r Company,
    started: Instant,
    until: Instant,
    injected: Mutex<Vec<Injected>>,
    emptied: Mutex<Vec<Emptied>>,
    tell: &'r T,
}

impl<T: Fn(String) + Sync> Hands<'_, T> {
    /// Executes the steps of one hand, as many as there is time for: on a slow machine, injecting takes time
    /// itself.
    async fn work(&self, steps: &[Step]) -> anyhow::Result<()> {
        for (wait, fault) in steps {
            tokio::time::sleep(*wait).await;
            if Instant::now() >= self.until {
                break;
            }
            let from = Instant::now();
            let at = (from - self.started).as_secs_f64();
            (self.tell)(format!("{at:7.1} s  {fault}"));
            self.inject(fault).await.with_context(|| fault.to_string())?;
            if fault.empties_redis() {
                let emptied = Emptied { from, until: Instant::now() };
                self.emptied.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(emptied);
            }
            let lasted = self.started.elapsed().as_secs_f64() - at;
            let injected = Injected { at, fault: fault.to_string(), kind: fault.kind(), lasted, pause: None };
            self.injected.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(injected);
        }
        Ok(())
    }

    async fn inject(&self, fault: &Fault) -> anyhow::Result<()> {
        let Site { postgres, redis, .. } = self.site;
        match fault {
            Fault::Signal(role, member, name) => send(name, &self.site.of(*role)[*member]).await,
            Fault::Freeze(role, member, lasts) => {
                let member = &self.site.of(*role)[*member];
                let Some(pid) = member.pid() else { return Ok(()) };
                signal("STOP", &[pid]).await?;
                tokio::time::sleep(*lasts).await;
                signal("CONT", &[pid]).await
            }
            Fault::KillWorkers(lasts) => {
                // each worker with one of these products gets the same chunk after each kill; while Postgres
                // is away, any chunk
                let locked = transaction::lock(self.site, self.company.load.switched()?).await;
                for _ in 0..KILLS {
                    tokio::time::sleep(*lasts / KILLS).await;
                    for worker in self.site.of(Role::Worker) {
                        send("KILL", worker).await?;
                    }
                }
                drop(locked);
                Ok(())
            }
            Fault::FlushRedis => flush(&redis.url).await,
            Fault::RestartRedis => {
                redis.server.end("KILL").await?;
                redis.be_there().await
            }
            Fault::Streams(how, lasts) => {
                how.inflict(self.site).await?;
                tokio::time::sleep(*lasts).await;
                how.mend(self.site).await
            }
            Fault::Pause(Which::Redis, lasts) => {
                redis.server.pause().await?;
                tokio::time::sleep(*lasts).await;
                redis.server.resume().await
            }
            Fault::Pause(Which::Postgres, lasts) => {
                postgres.server.pause().await?;
                tokio::time::sleep(*lasts).await;
                postgres.server.resume().await
            }
            Fault::Away(which, lasts) => self.network(*which, Network::Gone, *lasts).await,
            Fault::Network(which, network, lasts) => self.network(*which, *network, *lasts).await,
            Fault::Cut(which) => {
                self.proxy(*which).cut();
                Ok(())
            }
            Fault::CrashPostgres => crash(postgres).await,
            Fault::FullDisk(lasts) => {
                // a limited file size is not a full disk: Postgres reports it as an internal error
                self.company.load.caller.excuse(postgres.disk == Disk::Limited);
                postgres.fill_disk().await?;
                tokio::time::sleep(*lasts).await;
                postgres.free_disk().await?;
                self.company.load.caller.excuse(false);
                Ok(())
            }
            Fault::Snapshot(lasts) => {
                let over = tokio::time::Instant::now() + *lasts;
                // Postgres may be away and give no snapshot, or crash and lose it
                let open = transaction::snapshot(self.site).await;
                tokio::time::sleep_until(over).await;
                drop(open);
                Ok(())
            }
            Fault::Misbehave(how, lasts) => {
                let shop = self
                    .company
                    .shops
                    .iter()
                    .find(|(_, shop)| shop.how == Some(*how))
                    .context("no such shop")?;
                shop.1.misbehave(Some(*how));
                tokio::time::sleep(*lasts).await;
                shop.1.misbehave(None);
                Ok(())
            }
            Fault::Mischief(how, lasts) => {
                let partner = self.company.partners.iter().find(|partner| partner.serves.does(*how));
                partner.context("no such partner")?.misbehave(*how, *lasts).await
            }
            Fault::Trouble(how, lasts) => {
                let warehouse = self.company.warehouses.iter().find(|warehouse| warehouse.does(*how));
                warehouse.context("no such warehouse")?.misbehave(*how, *lasts).await;
                Ok(())
            }
        }
    }

    fn proxy(&self, which: Which) -> &Proxy {
        match which {
            Which::Postgres => &self.site.to_postgres,
            Which::Redis => &self.site.to_redis,
        }
    }

    async fn network(&self, which: Which, network: Network, lasts: Duration) -> anyhow::Result<()> {
        let proxy = self.proxy(which);
        proxy.be(network);
        if network == Network::Gone {
            proxy.cut();
        }
        tokio::time::sleep(lasts).await;
        proxy.be(Network::Well);
        Ok(())
    }
}

/// Sends a signal to a process; ignores one that has just ended.
async fn send(name: &str, member: &Member) -> anyhow::Result<()> {
    if let Some(pid) = member.pid() {
        _ = signal(name, &[pid]).await;
    }
    Ok(())
}

/// Stops Postgres without a clean shutdown, and starts it again.
async fn crash(postgres: &Postgres) -> anyhow::Result<()> {
    postgres.server.end("QUIT").await?;
    postgres.be_there().await
}

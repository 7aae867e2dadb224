//! Chaos runs: everything that the service depends on fails at random moments, and afterwards each guarantee
//! is checked.
//!
//! A run is determined by its seed, which gives the plan of faults ([`plan`]). The parts:
//!
//! - [`site`]: two api and two worker processes, and [`server`]: a separate Postgres and Redis, each behind a
//!   [`proxy`] that can simulate a bad network; damaged [`streams`] and [`transaction`]s that stay open;
//! - [`fleet`]: destinations that misbehave, [`partners`]: partners that misbehave, [`warehouses`]: systems of
//!   warehouses that misbehave;
//! - [`load`]: the requests and the promises in their answers, sent by a [`caller`] that repeats unanswered
//!   requests;
//! - [`minder`]: operations on webhooks; [`neighbour`]: an organisation that floods the service; [`orders`]:
//!   organisations that sell, from stocks that many want;
//! - [`check`]: the invariants, checked after all faults have ended and all work is done; [`report`]: the
//!   results;
//! - [`set_back`]: the last act, in which Postgres loses what was committed for a while.
//!
//! [`run`] breaks everything at once; [`table`] breaks one thing at a time, and measures the effect. A new
//! fault is a variant of `plan::Fault`, its place in a deck there, and its arm in `inject`; a new
//! misbehaviour of destinations is a variant of `fleet::Misbehaviour`, of partners one of
//! `partners::Mischief`, of warehouses one of `warehouses::Trouble`; a new promise is a field of `load::Promises`, stored with the answer, and checked in
//! `check`.

mod caller;
mod check;
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
mod warehouses;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures::future::try_join_all;
use http::Method;
use longshore_kernel::access::Role as AccessRole;
use longshore_kernel::share;
use longshore_testkit::process::signal;
use longshore_testkit::services;
use longshore_testkit::stack::flush;
use longshore_testkit::world::Tenant;
use serde_json::{Value, json};
use sqlx::Connection as _;
use uuid::Uuid;

use self::caller::{Caller, Request};
use self::check::{Cast, Course, Emptied};
use self::fleet::{Impostor, Misbehaviour, Shop};
use self::load::Load;
use self::minder::Minder;
use self::neighbour::Neighbour;
use self::orders::Merchant;
use self::partners::Partner;
pub use self::plan::Effort;
use self::plan::{Fault, KILLS, Plan, Step, Which};
use self::proxy::{Network, Proxy};
use self::reading::Reading;
pub use self::report::Report;
use self::report::{Check, Injected};
use self::server::{Disk, Postgres};
use self::site::{Member, Role, Site, connect};
use self::warehouses::Warehouse;

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
    let site = Site::start(ROOM + ROOM_A_MINUTE * effort.faults.as_secs().div_ceil(60)).await?;
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
    let services = services::for_test(&site.postgres.url.as_str().parse()?)?;
    let tenant = Tenant::create(&services, "Chaos").await?;
    let token = tenant.token(&services, AccessRole::User).await?;
    let bases = site.of(Role::Api).iter().map(|member| member.base_url.clone()).collect();
    let caller = Caller::new(bases, &token)?;
    let impostor = Impostor::open().await?;
    let mut shops = Vec::new();
    for (name, fields) in [
        ("well", json!({})),
        ("well and ordered", json!({ "ordered": true })),
        (
            "in batches, at a rate",
            json!({ "batch": { "maxEvents": 50, "maxWaitMs": 300 }, "maxPerSecond": 20 }),
        ),
        ("in batches and ordered", json!({ "batch": { "maxEvents": 50 }, "ordered": true })),
        (
            "of some changes, and a part of each",
            json!({ "criteria": { (check::OF_CHANGED): { "eq": "active" } }, "select": ["active"] }),
        ),
        (check::OF_ORGANISATION, json!({ "eshop": null, "organisation": tenant.organisation })),
    ] {
        shops.push(subscribe(&caller, &tenant, Shop::open(name, None).await?, &fields, None).await?);
    }
    let bases = site.of(Role::Api).iter().map(|member| member.base_url.clone()).collect();
    let connector = Caller::new(bases, &tenant.eshop_token(&services).await?)?;
    let plain = json!({});
    let own = Shop::open("of a connector of the e-shop", None).await?;
    shops.push(subscribe(&connector, &tenant, own, &plain, None).await?);
    for how in Misbehaviour::ALL {
        let shop = Shop::open(how.as_str(), Some(how)).await?;
        shops.push(subscribe(&caller, &tenant, shop, &plain, None).await?);
    }
    for name in minder::NAMES {
        shops.push(subscribe(&caller, &tenant, Shop::open(name, None).await?, &plain, None).await?);
    }
    let shop = Shop::open("bad certificate", None).await?;
    shops.push(subscribe(&caller, &tenant, shop, &plain, Some(impostor.url())).await?);
    let readings =
        [Reading::open(&caller, &tenant, "one").await?, Reading::open(&caller, &tenant, "other").await?];
    // which is true: the fake BaseLinker has just started to count
    services::nothing_was_sent_before(&check::queues(site)?).await?;
    let mut psql = connect(site).await?;
    let carrier = orders::carrier(&mut psql).await?;
    let partners = partners::open_all(&services, &caller, carrier).await?;
    try_join_all(partners.iter().map(Partner::begin)).await?;
    let neighbour = Neighbour::open(&services, &caller, &mut psql).await?;
    let merchants = orders::open_all(&services, &caller, carrier, &mut psql).await?;
    let warehouses = warehouses::open_all(&services, &caller, carrier).await?;
    orders::attach(&mut psql, carrier).await?;
    psql.close().await?;
    let load = Load::prepare(caller, tenant).await?;
    let minder = Minder::new(site, &load.caller, &shops)?;
    let redis_bytes = check::redis_bytes(site).await?;

    let plan = Plan::new(seed, effort);
    let started = Instant::now();
    let until = started + effort.faults;
    let hands = Hands {
        site,
        load: &load,
        shops: &shops,
        partners: &partners,
        warehouses: &warehouses,
        started,
        until,
        injected: Mutex::default(),
        emptied: Mutex::default(),
        tell,
    };
    tokio::try_join!(
        load.offer(seed, until),
        minder.mind(seed, until),
        try_join_all(readings.iter().zip(1..).map(|(one, n)| one.read(&load.caller, seed + n, until))),
        neighbour.flood(seed, until),
        orders::sell(&merchants, seed, until),
        warehouses::trade(&warehouses, seed, 0, until),
        try_join_all(partners.iter().map(|partner| partner.work(seed, until))),
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
    let ended = Instant::now();
    tell(format!("{} faults; waiting until all is quiet", faults.len()));

    // the owner of the shop with the bad certificate corrects its address
    let (webhook, shop) = shops.last().context("there is no shop")?;
    let correct = json!({ "destination": shop.url() }).to_string();
    let correct = Request::new(Method::PUT, format!("/api/eshop-webhook/{webhook}"), correct);
    load.caller.ask(&correct, &[200]).await?;
    try_join_all(partners.iter().map(Partner::be_well)).await?;
    neighbour.be_well();
    warehouses.iter().for_each(Warehouse::be_well);
    let mut left = Vec::from_iter(check::be_quiet(site, QUIET_WITHIN).await?);
    let quiet_after = ended.elapsed().as_secs_f64();
    let last_test = minder.conclude().await?;
    partners::conclude(&partners).await?;
    orders::conclude(&merchants).await?;
    warehouses::conclude(&warehouses).await?;
    check::run_nightly_comparison(site).await?;
    left.extend(check::be_quiet(site, QUIET_WITHIN).await?);

    // the stock counts of partners' e-shops are jobs like the others
    for partner in &partners {
        load.promises().jobs.append(&mut partner.promises().counts);
    }
    let course = Course { began: started, redis_bytes, emptied, stalls: stalls(started, &faults), last_test };
    let cast = Cast {
        load: &load,
        shops: &shops,
        partners: &partners,
        minder: &minder,
        neighbour: &neighbour,
        merchants: &merchants,
        warehouses: &warehouses,
    };
    try_join_all(readings.iter().map(|one| one.conclude(&load.caller))).await?;
    let mut checks = check::all(site, cast, &course).await?;
    checks.extend(reading::check(&mut connect(site).await?, &readings).await?);
    checks.insert(0, Check::new("all comes to rest", 1, left));
    let believed = impostor.believed();
    let found = (believed > 0).then(|| format!("{believed} times")).into_iter().collect();
    checks.push(Check::new("no client trusted a certificate without a known issuer", 1, found));
    let moments: Vec<Instant> = shops[0].1.book().moments.iter().map(|(_, moment)| *moment).collect();
    for fault in &mut faults {
        fault.pause = silence(&moments, started, fault);
    }
    checks.extend(set_back::act(site, &warehouses, seed, tell).await?);
    let mut psql = connect(site).await?;
    let changes: i64 = sqlx::query_scalar("SELECT count(*) FROM event").fetch_one(&mut psql).await?;
    let duplicates = shops.iter().map(|(_, shop)| (shop.name.clone(), shop.book().duplicates()));
    let (promises, deeds) = (load.promises(), minder.deeds());
    let books: Vec<_> = merchants.iter().map(Merchant::book).collect();
    let sum = |of: fn(&orders::Book) -> u64| books.iter().map(|book| of(book)).sum::<u64>();
    let of_warehouses =
        |of: fn(&warehouses::Book) -> u64| warehouses.iter().map(|one| of(&one.book())).sum::<u64>();
    let promised = BTreeMap::from([
        ("names", promises.names.len() as u64),
        ("products", promises.created.len() as u64),
        ("jobs", promises.jobs.len() as u64),
        ("repeats", promises.repeated),
        ("keys with another body", promises.contradicted),
        ("syncs broken off", promises.broken_off),
        ("rotations", deeds.rotations),
        ("pauses", deeds.pauses.len() as u64),
        ("tests", deeds.tests.len() as u64),
        ("redeliveries", (deeds.redeliveries.len() + deeds.redelivery_jobs.len()) as u64),
        ("recoveries", deeds.recoveries.len() as u64),
        ("orders", sum(|book| (book.orders.len() + book.deleted.len()) as u64)),
        ("operations on orders", sum(|book| book.done)),
        ("refusals because of a status", sum(|book| book.refused)),
        ("jobs of orders and their stocks", sum(|book| book.jobs.len() as u64)),
        ("orders of warehouses", of_warehouses(|book| book.orders.len() as u64)),
        ("operations on orders of warehouses", of_warehouses(|book| book.done)),
        ("reports of warehouses", of_warehouses(|book| book.reports.len() as u64)),
        ("jobs of the neighbour", neighbour.jobs().len() as u64),
        (
            "syncs and send-outs of partners",
            partners.iter().map(|one| one.promises().syncs.len() as u64).sum(),
        ),
    ]);
    Ok(Report {
        seed,
        seconds: (ended - started).as_secs_f64(),
        disk,
        faults,
        answers: load.caller.tally().answers.clone(),
        neighbour: neighbour.caller.tally().answers.clone(),
        partners: partners::synced(&partners).flat_map(|partner| partner.serves.book().figures).collect(),
        promised,
        changes: changes.unsigned_abs(),
        webhooks: (shops.len() + neighbour.shops.len()) as u64,
        duplicates: duplicates.collect(),
        quiet_after,
        checks,
    })
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
    load: &'r Load,
    shops: &'r [(Uuid, Shop)],
    partners: &'r [Partner],
    warehouses: &'r [Warehouse],
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
                let locked = transaction::lock(self.site, self.load.switched()?).await;
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
                self.load.caller.excuse(postgres.disk == Disk::Limited);
                postgres.fill_disk().await?;
                tokio::time::sleep(*lasts).await;
                postgres.free_disk().await?;
                self.load.caller.excuse(false);
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
                let shop =
                    self.shops.iter().find(|(_, shop)| shop.how == Some(*how)).context("no such shop")?;
                shop.1.misbehave(Some(*how));
                tokio::time::sleep(*lasts).await;
                shop.1.misbehave(None);
                Ok(())
            }
            Fault::Mischief(how, lasts) => {
                let partner = self.partners.iter().find(|partner| partner.serves.does(*how));
                partner.context("no such partner")?.misbehave(*how, *lasts).await
            }
            Fault::Trouble(how, lasts) => {
                let warehouse = self.warehouses.iter().find(|warehouse| warehouse.does(*how));
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

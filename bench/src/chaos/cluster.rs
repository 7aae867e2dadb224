//! Chaos of more than one machine: a service with Postgres under Patroni, Redis under Sentinel and HAProxy, whose primaries are
//! switched, killed and cut off. `docs/chaos.md#a-cluster` describes it.
//!
//! - [`machine`]: network namespaces as machines, and cuts between them; [`postgres`], [`redis`] and [`balancer`]: the servers, from
//!   the packages of the system; [`rig`]: all of it with the service;
//! - [`plan`]: the faults of a seed;
//! - [`outsiders`] and [`pulse`]: those who write all the time, to Postgres and to the service; [`witness`]: what follows from that;
//! - [`report`]: the results.
//!
//! Load, destinations, partners, warehouses and their checks are those of the other runs. A new fault is a variant of
//! `plan::Fault`, its place in a plan there, and its arm in `inject`.

mod balancer;
mod machine;
mod outsiders;
mod plan;
mod postgres;
mod pulse;
mod redis;
mod report;
mod rig;
mod witness;

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::ValueEnum;
use longshore_kernel::share;

pub use self::machine::FOLDER;
use self::machine::{Cut, Kind, Machine};
use self::outsiders::Outsiders;
use self::plan::{Fault, Hand, MASTER_CUT_OFF, Plan, Step};
use self::pulse::{Kept, Pulse};
pub use self::report::{ClusterReport, Row};
pub use self::rig::Hosts;
use self::rig::{APIS, Rig, WORKERS, machine_of};
use self::witness::{Span, longest_gap, silences, two_primaries, writable};
use super::check::{self, Course, Emptied};
use super::company::Company;
use super::crew::{Role, connect};
use super::fleet::lock;
use super::report::Check;
use super::set_back;
use super::warehouses::Warehouse;
use longshore_testkit::process::signal;

/// MiB for each Postgres, and in addition for each minute of faults.
const ROOM: u64 = 1024;
const ROOM_A_MINUTE: u64 = 128;

/// What replication is, as `nft` matches it on the primary, and a slow link.
const REPLICATION: &str = "tcp {own} 5432";
const SLOW: &str = "256 kbytes/second";

/// How soon the service must write when an outsider can again; in the short run, of which the tests of a crowded machine are a part, later.
const WRITES_WITHIN: Duration = Duration::from_secs(2);
const CROWDED_WRITES_WITHIN: Duration = Duration::from_secs(5);

/// How long it may be silent while outsiders can write: it may be crowded.
const SILENT: Duration = Duration::from_secs(10);

/// How soon a process must write that was cut off, or that was killed: its connections learn late that the network is mended.
const REJOINS_WITHIN: Duration = Duration::from_secs(10);

/// How long a fault may have effects after its cause was removed, for the table.
const AFTERMATH: Duration = Duration::from_secs(10);

/// How long all go on after the last fault.
const SETTLES: Duration = Duration::from_secs(3);

/// What kind of run it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Length {
    /// One fault of each kind.
    Short,
    /// All that was promised, which takes a quarter of an hour.
    Whole,
    /// One failover that loses commits, because none waits for a standby.
    Asynchronous,
}

/// A run.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Its seed.
    pub seed: u64,
    /// What kind of run it is.
    pub length: Length,
    /// How processes find the primary.
    pub hosts: Hosts,
    /// A folder for the logs of all servers and processes, if wanted.
    pub logs: Option<PathBuf>,
}

impl Setup {
    /// The time in which the load is offered.
    fn load(&self) -> Duration {
        match self.length {
            Length::Short => Duration::from_secs(85),
            Length::Whole => Duration::from_mins(15),
            Length::Asynchronous => Duration::from_secs(15),
        }
    }

    fn writes_within(&self) -> Duration {
        if self.length == Length::Whole { WRITES_WITHIN } else { CROWDED_WRITES_WITHIN }
    }

    fn plan(&self) -> Plan {
        match self.length {
            Length::Short => Plan::short(self.seed),
            Length::Whole => Plan::whole(self.seed),
            Length::Asynchronous => Plan::none(),
        }
    }

    fn name(&self) -> &'static str {
        match self.length {
            Length::Short => "one fault of each kind",
            Length::Whole => "all faults",
            Length::Asynchronous => "asynchronous, a failover that loses commits",
        }
    }
}

/// An injected fault.
#[derive(Debug)]
struct Injected {
    fault: Fault,
    from: Instant,
    until: Instant,
}

impl Injected {
    /// Processes that had no way to the primary, or did not run.
    fn spared(&self) -> &[Machine] {
        match &self.fault {
            Fault::CutPrimary(with, ..) => with,
            _ => &[],
        }
    }
}

/// Breaks a cluster, waits until all work is done, and checks whether every promise was kept. It must run inside namespaces of its
/// own, as the first to use them.
///
/// # Errors
/// If the run itself fails; violations are in its report.
pub async fn run(setup: &Setup, tell: impl Fn(String) + Sync) -> anyhow::Result<ClusterReport> {
    let began = Instant::now();
    tell(format!("seed {}: breaking a cluster, {}", setup.seed, setup.name()));
    let room = ROOM + ROOM_A_MINUTE * setup.load().as_secs().div_ceil(60);
    let is_synchronous = setup.length != Length::Asynchronous;
    let rig = Rig::start(room, is_synchronous, setup.hosts).await?;
    tell(format!("{:7.1} s  all servers and processes are ready", began.elapsed().as_secs_f64()));
    let outcome = Box::pin(on(&rig, setup, began, &tell)).await;
    if let Some(folder) = &setup.logs {
        rig.keep_logs(folder)?;
    }
    outcome.with_context(|| format!("seed {}\n{}", setup.seed, rig.ends_of_logs()))
}

async fn on(
    rig: &Rig,
    setup: &Setup,
    began: Instant,
    tell: &(impl Fn(String) + Sync),
) -> anyhow::Result<ClusterReport> {
    let crew = &rig.crew;
    let company = Company::open(crew, false).await?;
    let minder = company.minder(crew)?;
    let (outsiders, pulses) = (Outsiders::open(rig).await?, pulse::open_all(crew).await?);
    let redis_bytes = check::redis_bytes(crew).await?;
    let started_after = began.elapsed().as_secs_f64();
    tell(format!("{started_after:7.1} s  the load begins"));

    let (plan, started) = (setup.plan(), Instant::now());
    let hands = Hands { rig, began, injected: Mutex::default(), emptied: Mutex::default(), tell };
    let faults = async {
        tokio::try_join!(hands.work(&plan.postgres), hands.work(&plan.redis), hands.work(&plan.processes))?;
        rig.postgres.be_whole().await?;
        rig.redis.be_whole().await?;
        tokio::time::sleep(SETTLES).await;
        anyhow::Ok(())
    };
    tokio::select! {
        done = async { tokio::try_join!(company.play(&minder, setup.seed, started + setup.load()), faults) } => {
            done?;
        }
        // these never end
        () = outsiders.write() => {}
        () = pulse::beat(&pulses) => {}
    }
    let ended = Instant::now();
    crew.be_ready().await.context("not all processes are ready although nothing is broken any more")?;
    let mut injected = std::mem::take(&mut *lock(&hands.injected));
    injected.sort_by_key(|one| one.from);
    let emptied = std::mem::take(&mut *lock(&hands.emptied));
    tell(format!(
        "{:7.1} s  {} faults; waiting until all is quiet",
        began.elapsed().as_secs_f64(),
        injected.len()
    ));

    let rest = company.rest(crew, &minder).await?;
    let quiet_after = rest.after;
    tell(format!("{:7.1} s  all is quiet", began.elapsed().as_secs_f64()));
    let course = Course {
        began: started,
        redis_bytes,
        emptied,
        stalls: injected.iter().map(|one| (one.from, one.until + AFTERMATH + share::PATIENCE)).collect(),
        last_test: rest.last_test,
        to_postgres: None,
    };
    let mut checks = company.checks(crew, &minder, &course, rest).await?;
    let seen = Seen::gather(rig, &outsiders, &pulses, injected, (started, ended)).await?;
    let faults = seen.table(&company.moments());
    checks.splice(0..0, seen.checks(rig, setup.writes_within()).await?);
    if setup.length == Length::Asynchronous {
        checks.extend(lose_commits(rig, &company.warehouses, setup.seed, tell).await?);
    }
    let played = company.played(crew, &minder).await?;
    Ok(ClusterReport {
        seed: setup.seed,
        run: setup.name(),
        took: began.elapsed().as_secs_f64(),
        started_after,
        seconds: (ended - started).as_secs_f64(),
        quiet_after,
        faults,
        played,
        checks,
    })
}

/// Has a standby take the place of the primary that lacks what was committed last, and mends that.
async fn lose_commits(
    rig: &Rig,
    warehouses: &[Warehouse],
    seed: u64,
    tell: &(impl Fn(String) + Sync),
) -> anyhow::Result<Vec<Check>> {
    let Rig { crew, postgres, .. } = rig;
    let primary = postgres.be_whole().await?;
    let standbys = postgres.machines_but(primary);
    let cut = Mutex::new(None);
    let keep = async {
        let lost = machine::Lost::Both;
        let made = Cut::make_for("replication", &[primary.machine], &standbys, lost, REPLICATION).await?;
        *lock(&cut) = Some(made);
        Ok(())
    };
    let lose = async {
        primary.kill().await?;
        postgres.fail_over(primary).await?;
        let made = lock(&cut).take();
        if let Some(made) = made {
            made.mend().await?;
        }
        primary.start_again().await?;
        postgres.be_whole().await.map(drop)
    };
    set_back::act(crew, keep, lose, warehouses, seed, tell).await
}

/// Injects faults.
struct Hands<'r, T> {
    rig: &'r Rig,
    began: Instant,
    injected: Mutex<Vec<Injected>>,
    emptied: Mutex<Vec<Emptied>>,
    tell: &'r T,
}

impl<T: Fn(String) + Sync> Hands<'_, T> {
    async fn work(&self, steps: &[Step]) -> anyhow::Result<()> {
        for (wait, fault) in steps {
            match fault.hand() {
                Hand::Postgres => drop(self.rig.postgres.be_whole().await?),
                Hand::Redis => drop(self.rig.redis.be_whole().await?),
                Hand::Processes => {}
            }
            tokio::time::sleep(*wait).await;
            self.inject(fault).await.with_context(|| fault.to_string())?;
        }
        Ok(())
    }

    /// Says that a fault begins.
    fn begin(&self, fault: &Fault, what: &str) -> Instant {
        (self.tell)(format!("{:7.1} s  {fault}{what}", self.began.elapsed().as_secs_f64()));
        Instant::now()
    }

    async fn inject(&self, fault: &Fault) -> anyhow::Result<()> {
        let Rig { postgres, redis, crew, .. } = self.rig;
        let from = match fault {
            Fault::Switchover => {
                let primary = postgres.be_whole().await?;
                let from = self.begin(fault, &format!(": {}", primary.machine));
                postgres.switch_over(primary).await?;
                from
            }
            Fault::KillPrimary => {
                let primary = postgres.be_whole().await?;
                let from = self.begin(fault, &format!(": {}", primary.machine));
                primary.kill().await?;
                postgres.fail_over(primary).await?;
                primary.start_again().await?;
                from
            }
            Fault::CutPrimary(with, lost, lasts) => {
                let primary = postgres.be_whole().await?;
                let side = [&[primary.machine], with.as_slice()].concat();
                let from = self.begin(fault, &format!(": {}", primary.machine));
                let cut = Cut::make("primary", &side, &self.others(&side, &[Kind::Redis]), *lost).await?;
                postgres.fail_over(primary).await?;
                tokio::time::sleep(*lasts).await;
                cut.mend().await?;
                from
            }
            Fault::FillDisk(lasts) => {
                let primary = postgres.be_whole().await?;
                let from = self.begin(fault, &format!(": {}", primary.machine));
                primary.fill_disk().await?;
                tokio::time::sleep(*lasts).await;
                primary.make_room().await?;
                from
            }
            Fault::SlowReplication(lasts) => {
                let primary = postgres.be_whole().await?;
                let standbys = postgres.machines_but(primary);
                let from = self.begin(fault, &format!(": {}", primary.machine));
                let slow = format!("{REPLICATION} limit rate over {SLOW}");
                let slow =
                    Cut::make_for("slow", &[primary.machine], &standbys, machine::Lost::Sent, &slow).await?;
                tokio::time::sleep(*lasts).await;
                slow.mend().await?;
                from
            }
            Fault::KillRedis(number) => {
                let master = redis.be_whole().await?;
                let killed = redis.members.iter().find(|one| one.machine.number == *number);
                let killed = killed.context("no such Redis")?;
                let is_master = killed.machine == master.machine;
                let from = self.begin(fault, if is_master { ", the master" } else { ", a replica" });
                killed.kill().await?;
                if is_master {
                    redis.fail_over(killed).await?;
                    lock(&self.emptied).push(Emptied { from, until: Instant::now() });
                }
                killed.start_again().await?;
                from
            }
            Fault::CutMaster(with, lasts) => {
                let master = redis.be_whole().await?;
                let side = [&[master.machine], with.as_slice()].concat();
                let from = self.begin(fault, &format!(": {}", master.machine));
                let others = self.others(&side, &[Kind::Postgres, Kind::Balancer]);
                let cut = Cut::make("master", &side, &others, machine::Lost::Both).await?;
                redis.fail_over(master).await?;
                lock(&self.emptied).push(Emptied { from, until: Instant::now() });
                tokio::time::sleep_until((from + *lasts).into()).await;
                cut.mend().await?;
                from
            }
            Fault::KillProcess(role, number) => {
                let member = &crew.of(*role)[usize::from(*number) - 1];
                let from = self.begin(fault, "");
                if let Some(pid) = member.pid() {
                    signal("KILL", &[pid]).await?;
                }
                // another hand may have cut one of them off
                while from.elapsed() < MASTER_CUT_OFF && crew.be_ready().await.is_err() {}
                crew.be_ready().await?;
                from
            }
        };
        lock(&self.injected).push(Injected { fault: fault.clone(), from, until: Instant::now() });
        Ok(())
    }

    /// The machines on the other side of a cut; those of some kinds are on both.
    fn others(&self, side: &[Machine], on_both: &[Kind]) -> Vec<Machine> {
        let Rig { postgres, redis, balancer, .. } = self.rig;
        let servers = postgres.members.iter().map(|one| one.machine);
        let servers = servers.chain(redis.members.iter().map(|one| one.machine)).chain([balancer.machine]);
        let processes = [(Role::Api, APIS), (Role::Worker, WORKERS)];
        let processes =
            processes.into_iter().flat_map(|(role, count)| (1..=count).map(move |n| machine_of(role, n)));
        servers.chain(processes).filter(|one| !side.contains(one) && !on_both.contains(&one.kind)).collect()
    }
}

/// What was seen during the faults.
struct Seen {
    span: Span,
    injected: Vec<Injected>,
    /// Of outsiders.
    written: Vec<witness::Written>,
    lost: Vec<witness::Written>,
    /// Of each api process, with its machine: when its writes and its reads succeeded, and what became of its writes.
    served: Vec<(Machine, Vec<Instant>, Vec<Instant>, Kept)>,
}

impl Seen {
    async fn gather(
        rig: &Rig,
        outsiders: &Outsiders,
        pulses: &[Pulse],
        injected: Vec<Injected>,
        span: Span,
    ) -> anyhow::Result<Self> {
        let mut served = Vec::new();
        for (number, pulse) in (1..).zip(pulses) {
            let kept = pulse.kept(&rig.crew).await?;
            served.push((machine_of(Role::Api, number), pulse.written(), pulse.read(), kept));
        }
        Ok(Self { span, injected, written: outsiders.written(), lost: outsiders.lost().await?, served })
    }

    /// When a process cannot be expected to write: it is cut off or dead, or a disk is full, and a while after that.
    fn excused(&self, machine: Machine) -> Vec<Span> {
        let mut spans = Vec::new();
        for Injected { fault, from, until } in &self.injected {
            let is_concerned = match fault {
                Fault::CutPrimary(with, ..) => with.contains(&machine),
                Fault::KillProcess(role, number) => machine_of(*role, *number) == machine,
                // what an outsider writes may find room
                Fault::FillDisk(_) => true,
                _ => false,
            };
            spans.extend(is_concerned.then_some((*from, *until + REJOINS_WITHIN)));
        }
        spans
    }

    async fn checks(&self, rig: &Rig, writes_within: Duration) -> anyhow::Result<Vec<Check>> {
        let since = |at: Instant| (at - self.span.0).as_secs_f64();
        let lost = self.lost.iter().map(|one| {
            let (at, timeline) = (since(one.answered), one.timeline);
            format!("{at:.2} s: no {} of {}, timeline {timeline}", one.number, one.at)
        });
        let of = self.written.len() as u64;
        let (mut looked_at, mut wrong) = (0, Vec::new());
        let (mut tardy, mut possible) = (Vec::new(), 0);
        let writable = writable(&self.written);
        for (machine, writes, _, kept) in &self.served {
            looked_at += kept.looked_at;
            wrong.extend(kept.lost.iter().map(|(at, what)| format!("{:.2} s: {what} is lost", since(*at))));
            wrong.extend(kept.twice.iter().map(|(at, what)| format!("{:.2} s: {what} twice", since(*at))));
            possible += writable.len() as u64;
            for one in silences(writes, &writable, &self.excused(*machine)) {
                let within = if one.is_after_outage { writes_within } else { SILENT };
                if one.to - one.from > within {
                    let long = (one.to - one.from).as_secs_f64();
                    tardy.push(format!(
                        "{machine} wrote nothing for {long:.1} s, until {:.1} s",
                        since(one.to)
                    ));
                }
            }
        }
        let rejoined: Vec<_> = self.injected.iter().filter_map(|one| self.rejoined(one)).collect();
        let outside = rejoined.iter().filter(|after| **after > REJOINS_WITHIN);
        let outside = outside.map(|after| format!("after {:.1} s", after.as_secs_f64())).collect();
        let mut psql = connect(&rig.crew).await?;
        let set_back: Vec<String> =
            sqlx::query_scalar("SELECT to_jsonb(set_back)::text FROM set_back").fetch_all(&mut psql).await?;
        Ok(vec![
            Check::new("nothing that Postgres answered outsiders is lost", of, lost.collect()),
            Check::new("no two primaries answered writes at the same time", of, two_primaries(&self.written)),
            Check::new(
                "what the service answered happened once, and nothing happened twice",
                looked_at,
                wrong,
            ),
            Check::new(
                "the service writes soon after an outsider can, and is never silent for ten seconds",
                possible,
                tardy,
            ),
            Check::new("who was cut off writes again within ten seconds", rejoined.len() as u64, outside),
            Check::new("no failover counts as a set-back", self.injected.len() as u64, set_back),
        ])
    }

    /// The time from the end of a cut until each process that was cut off had written.
    fn rejoined(&self, one: &Injected) -> Option<Duration> {
        let apis = self.served.iter().filter(|(machine, ..)| one.spared().contains(machine));
        let first =
            |writes: &[Instant]| writes.iter().copied().find(|at| *at > one.until).unwrap_or(self.span.1);
        apis.map(|(_, writes, ..)| first(writes) - one.until).max()
    }

    /// What each fault cost.
    fn table(&self, delivered: &[Instant]) -> Vec<Row> {
        let mut written: Vec<Instant> = self.written.iter().map(|one| one.answered).collect();
        written.sort_unstable();
        let mut rows = Vec::new();
        for (n, one) in self.injected.iter().enumerate() {
            // its effects may overlap with those of a fault of another hand, but not of the next one of the same
            let next = self.injected[n + 1..].iter().find(|next| next.fault.hand() == one.fault.hand());
            let end = (one.until + AFTERMATH).min(next.map_or(self.span.1, |next| next.from));
            let span = (one.from, end);
            let last = self.injected.get(n + 1).map_or(self.span.1, |next| next.from);
            let is_of_it = |at: &Instant| (one.from..last).contains(at);
            let count = |of: &[(Instant, String)]| of.iter().filter(|(at, _)| is_of_it(at)).count() as u64;
            let gap = |of: &[Instant]| longest_gap(of, span).as_secs_f64();
            let reached = self.served.iter().filter(|(machine, ..)| !one.spared().contains(machine));
            let worst = |gaps: Vec<f64>| gaps.into_iter().fold(0.0, f64::max);
            rows.push(Row {
                at: (one.from - self.span.0).as_secs_f64(),
                fault: one.fault.to_string(),
                kind: one.fault.kind(),
                lasted: (one.until - one.from).as_secs_f64(),
                lost: self.lost.iter().filter(|lost| is_of_it(&lost.answered)).count() as u64
                    + self.served.iter().map(|(.., kept)| count(&kept.lost)).sum::<u64>(),
                twice: self.served.iter().map(|(.., kept)| count(&kept.twice)).sum(),
                postgres: gap(&written),
                writes: worst(reached.clone().map(|(_, writes, ..)| gap(writes)).collect()),
                reads: worst(reached.map(|(_, _, reads, _)| gap(reads)).collect()),
                deliveries: gap(delivered),
                rejoined: self.rejoined(one).map(|after| after.as_secs_f64()),
            });
        }
        rows
    }
}

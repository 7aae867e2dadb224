//! The plan of faults, which the seed determines.
//!
//! Six hands inject faults in parallel, each one after another: into processes, into servers and their
//! networks, into destinations, into partners, into what Postgres can vacuum, and into warehouses. Each draws from a shuffled
//! deck of its faults, and reshuffles the deck when it is empty, so every fault occurs, equally often.
//!
//! There is one exception. After Redis was emptied, BaseLinker gets no requests for a minute and a half, so a
//! run that empties Redis frequently would test nothing else of BaseLinker. Half of all seeds therefore do
//! not empty it for a while: see [`UNTIL_EMPTIED`].

use std::fmt;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{Rng as _, SeedableRng as _};

use super::crew::Role;
use super::fleet::Misbehaviour;
use super::partners::Mischief;
use super::proxy::Network;
use super::site::PROCESSES;
use super::streams::Damage;
use super::warehouses::Trouble;

/// The length of a run, and of its faults.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// For how long faults are injected.
    pub faults: Duration,
    /// The longest pause or absence of a server.
    pub longest: Duration,
}

impl Effort {
    /// For continuous integration: the whole run takes less than three minutes.
    pub const SHORT: Self = Self { faults: Duration::from_secs(75), longest: Duration::from_secs(6) };

    /// A run of this many minutes, with pauses of up to one.
    #[must_use]
    pub fn minutes(minutes: u64) -> Self {
        Self { faults: Duration::from_mins(minutes), longest: Duration::from_mins(1) }
    }
}

/// In every other run, Redis is not emptied during this time, so that BaseLinker gets requests during other
/// faults.
const UNTIL_EMPTIED: Duration = Duration::from_mins(1);

/// In such a run, the time between two emptyings, each of which stops requests to BaseLinker for a minute and
/// a half.
const BETWEEN_EMPTYINGS: Duration = Duration::from_secs(150);

/// How often the workers are killed while they execute the same chunk.
pub(crate) const KILLS: u32 = 3;

/// Seconds between two of these kills: by then the lease of the killed worker has ended, and another has the
/// chunk.
const BETWEEN_KILLS: std::ops::Range<f64> = 3.2..4.5;

/// One of the two servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    Postgres,
    Redis,
}

/// A fault.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Fault {
    /// A process ends by a signal.
    Signal(Role, usize, &'static str),
    /// A process is frozen.
    Freeze(Role, usize, Duration),
    /// All workers are killed [`KILLS`] times, before they can finish their work.
    KillWorkers(Duration),
    /// Redis is emptied.
    FlushRedis,
    /// Redis dies and is restarted empty.
    RestartRedis,
    /// The streams of the queues are damaged.
    Streams(Damage, Duration),
    /// A server is frozen.
    Pause(Which, Duration),
    /// A server cannot be reached.
    Away(Which, Duration),
    /// A server's network is bad.
    Network(Which, Network, Duration),
    /// All connections to a server are cut.
    Cut(Which),
    /// Postgres crashes and is restarted.
    CrashPostgres,
    /// The disk of Postgres is full.
    FullDisk(Duration),
    /// A long-running reader prevents Postgres from vacuuming.
    Snapshot(Duration),
    /// A destination misbehaves.
    Misbehave(Misbehaviour, Duration),
    /// A partner misbehaves.
    Mischief(Mischief, Duration),
    /// The system of a warehouse misbehaves.
    Trouble(Trouble, Duration),
}

impl Fault {
    /// Its kind, for the statistics.
    pub(crate) fn kind(&self) -> String {
        match self {
            Self::Signal(role, _, signal) => format!("SIG{signal} of {}", word(*role)),
            Self::Freeze(role, ..) => format!("{} stands still", word(*role)),
            Self::KillWorkers(_) => format!("all workers killed {KILLS} times"),
            Self::FlushRedis => "Redis flushed".to_owned(),
            Self::RestartRedis => "Redis restarted empty".to_owned(),
            Self::Streams(how, _) => format!("streams {how}"),
            Self::Pause(which, _) => format!("{which:?} paused"),
            Self::Away(which, _) => format!("{which:?} away"),
            Self::Network(which, Network::Slow(_), _) => format!("network to {which:?} slow"),
            Self::Network(which, ..) => format!("network to {which:?} silent"),
            Self::Cut(which) => format!("connections to {which:?} cut"),
            Self::CrashPostgres => "Postgres restarted (immediate)".to_owned(),
            Self::FullDisk(_) => "disk of Postgres full".to_owned(),
            Self::Snapshot(_) => "an old snapshot".to_owned(),
            Self::Misbehave(how, _) => format!("destination: {how}"),
            Self::Mischief(how, _) => format!("partner: {}", how.name()),
            Self::Trouble(how, _) => format!("warehouse: {how}"),
        }
    }

    /// Whether it empties Redis.
    pub(crate) fn empties_redis(&self) -> bool {
        matches!(self, Self::FlushRedis | Self::RestartRedis)
    }

    /// How long it lasts.
    pub(crate) fn lasts(&self) -> Duration {
        match self {
            Self::Freeze(.., lasts)
            | Self::KillWorkers(lasts)
            | Self::Streams(_, lasts)
            | Self::Pause(_, lasts)
            | Self::Away(_, lasts)
            | Self::Network(.., lasts)
            | Self::FullDisk(lasts)
            | Self::Snapshot(lasts)
            | Self::Misbehave(_, lasts)
            | Self::Mischief(_, lasts)
            | Self::Trouble(_, lasts) => *lasts,
            _ => Duration::ZERO,
        }
    }
}

fn word(role: Role) -> &'static str {
    match role {
        Role::Api => "api",
        Role::Worker => "worker",
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signal(_, member, _) | Self::Freeze(_, member, _) => {
                write!(f, "{} {}", self.kind(), member + 1)?;
            }
            _ => f.write_str(&self.kind())?,
        }
        if self.lasts().is_zero() { Ok(()) } else { write!(f, " for {:.1} s", self.lasts().as_secs_f64()) }
    }
}

/// A fault, and how long its hand waits before it.
pub(crate) type Step = (Duration, Fault);

/// The steps of the hands; see the module.
#[derive(Debug, PartialEq)]
pub(crate) struct Plan {
    /// The processes.
    pub(crate) processes: Vec<Step>,
    /// The servers and their networks.
    pub(crate) servers: Vec<Step>,
    /// The destinations.
    pub(crate) destinations: Vec<Step>,
    /// The partners.
    pub(crate) partners: Vec<Step>,
    /// The vacuum of Postgres.
    pub(crate) snapshots: Vec<Step>,
    /// The systems of warehouses.
    pub(crate) warehouses: Vec<Step>,
}

impl Plan {
    /// The plan of a seed.
    pub(crate) fn new(seed: u64, effort: Effort) -> Self {
        let mut lot = StdRng::seed_from_u64(seed);
        let spares_redis = lot.random_bool(0.5);
        Self {
            processes: hand(&mut lot, effort, 0.5..4.0, false, processes),
            servers: hand(&mut lot, effort, 0.5..3.0, spares_redis, servers),
            destinations: hand(&mut lot, effort, 0.2..1.0, false, destinations),
            partners: hand(&mut lot, effort, 0.2..2.0, false, partners),
            snapshots: hand(&mut lot, effort, 0.5..5.0, false, snapshots),
            warehouses: hand(&mut lot, effort, 0.2..1.0, false, warehouses),
        }
    }
}

fn hand(
    lot: &mut StdRng,
    effort: Effort,
    waits: std::ops::Range<f64>,
    spares_redis: bool,
    deck: impl Fn(&mut StdRng, Effort) -> Vec<Fault>,
) -> Vec<Step> {
    let (mut steps, mut cards, mut spent) = (Vec::<Step>::new(), Vec::<Fault>::new(), Duration::ZERO);
    let mut spared_until = if spares_redis { UNTIL_EMPTIED } else { Duration::ZERO };
    loop {
        let wait = Duration::from_secs_f64(lot.random_range(waits.clone()));
        let may_come = |card: &Fault| !card.empties_redis() || spent + wait >= spared_until;
        let Some(next) = cards.iter().rposition(may_come) else {
            let mut fresh = deck(lot, effort);
            fresh.shuffle(lot);
            // faults that had to wait come first, as soon as they may
            fresh.append(&mut cards);
            cards = fresh;
            continue;
        };
        let fault = cards.remove(next);
        spent += wait + fault.lasts();
        if spent > effort.faults {
            return steps;
        }
        if spares_redis && fault.empties_redis() {
            spared_until = spent + BETWEEN_EMPTYINGS;
        }
        steps.push((wait, fault));
    }
}

/// A time of up to `longest`; shorter ones are more frequent.
fn up_to(lot: &mut StdRng, longest: Duration) -> Duration {
    let least = 1.0_f64.min(longest.as_secs_f64());
    Duration::from_secs_f64(least * (longest.as_secs_f64() / least).powf(lot.random()))
}

fn processes(lot: &mut StdRng, effort: Effort) -> Vec<Fault> {
    // longer than the leases of a worker
    let frozen = effort.longest.min(Duration::from_secs(8));
    let mut deck = Vec::new();
    for role in [Role::Api, Role::Worker] {
        for signal in ["KILL", "TERM", "KILL"] {
            deck.push(Fault::Signal(role, lot.random_range(0..PROCESSES), signal));
        }
        deck.push(Fault::Freeze(role, lot.random_range(0..PROCESSES), up_to(lot, frozen)));
    }
    deck.push(Fault::KillWorkers(KILLS * Duration::from_secs_f64(lot.random_range(BETWEEN_KILLS))));
    deck
}

fn servers(lot: &mut StdRng, effort: Effort) -> Vec<Fault> {
    let short = effort.longest.min(Duration::from_secs(10));
    let mut deck = vec![Fault::FlushRedis, Fault::RestartRedis, Fault::CrashPostgres];
    deck.push(Fault::FullDisk(up_to(lot, short)));
    for which in [Which::Postgres, Which::Redis] {
        let delay = Duration::from_millis(lot.random_range(5..80));
        deck.extend([
            Fault::Cut(which),
            Fault::Pause(which, up_to(lot, effort.longest)),
            Fault::Away(which, up_to(lot, effort.longest)),
            Fault::Network(which, Network::Silent, up_to(lot, short)),
            Fault::Network(which, Network::Slow(delay), up_to(lot, short)),
        ]);
    }
    for how in Damage::ALL {
        let lasts = if how.lasts() { up_to(lot, short) } else { Duration::ZERO };
        deck.push(Fault::Streams(how, lasts));
    }
    deck
}

fn destinations(lot: &mut StdRng, effort: Effort) -> Vec<Fault> {
    let longest = effort.longest.min(Duration::from_secs(20));
    Misbehaviour::ALL.into_iter().map(|how| Fault::Misbehave(how, up_to(lot, longest))).collect()
}

fn partners(lot: &mut StdRng, effort: Effort) -> Vec<Fault> {
    let longest = effort.longest.min(Duration::from_secs(20));
    Mischief::all().map(|how| Fault::Mischief(how, up_to(lot, longest))).collect()
}

fn snapshots(lot: &mut StdRng, effort: Effort) -> Vec<Fault> {
    // like a backup of a large database, which takes far longer than any other fault
    vec![Fault::Snapshot(up_to(lot, effort.faults / 2))]
}

fn warehouses(lot: &mut StdRng, effort: Effort) -> Vec<Fault> {
    let longest = effort.longest.min(Duration::from_secs(20));
    Trouble::ALL.into_iter().map(|how| Fault::Trouble(how, up_to(lot, longest))).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_seed_always_gives_the_same_plan() {
        assert_eq!(Plan::new(7, Effort::SHORT), Plan::new(7, Effort::SHORT));
        assert_ne!(Plan::new(7, Effort::SHORT), Plan::new(8, Effort::SHORT));
    }

    #[test]
    fn half_of_all_plans_do_not_empty_redis_for_a_while() {
        let spares = |seed| {
            let (mut at, mut emptied) = (Duration::ZERO, Vec::new());
            for (wait, fault) in Plan::new(seed, Effort::minutes(12)).servers {
                at += wait;
                if fault.empties_redis() {
                    emptied.push(at);
                }
                at += fault.lasts();
            }
            assert!(emptied.len() > 2, "{seed}");
            emptied[0] >= UNTIL_EMPTIED && emptied.is_sorted_by(|a, b| *b >= *a + BETWEEN_EMPTYINGS)
        };
        let count = (0..100).filter(|seed| spares(*seed)).count();
        assert!((35..65).contains(&count), "{count}");
    }

    #[test]
    fn a_plan_of_minutes_holds_every_fault_and_ends_in_time() {
        let effort = Effort::minutes(12);
        for seed in 0..20 {
            let plan = Plan::new(seed, effort);
            for (steps, deck) in [
                (&plan.processes, processes(&mut StdRng::seed_from_u64(0), effort)),
                (&plan.servers, servers(&mut StdRng::seed_from_u64(0), effort)),
                (&plan.destinations, destinations(&mut StdRng::seed_from_u64(0), effort)),
                (&plan.partners, partners(&mut StdRng::seed_from_u64(0), effort)),
                (&plan.snapshots, snapshots(&mut StdRng::seed_from_u64(0), effort)),
                (&plan.warehouses, warehouses(&mut StdRng::seed_from_u64(0), effort)),
            ] {
                let kinds: BTreeSet<_> = steps.iter().map(|(_, fault)| fault.kind()).collect();
                assert!(deck.iter().all(|fault| kinds.contains(&fault.kind())), "{seed}: {kinds:?}");
                let took: Duration = steps.iter().map(|(wait, fault)| *wait + fault.lasts()).sum();
                assert!(took <= effort.faults, "{seed}");
            }
        }
    }
}

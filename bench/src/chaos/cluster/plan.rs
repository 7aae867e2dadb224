//! The plan of faults of a cluster, which the seed determines.
//!
//! Three hands inject faults, each one after another: into Postgres, into Redis, and into processes. Each hand waits before a fault
//! until what the fault before broke is whole again.

use std::fmt;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::{IndexedRandom as _, SliceRandom as _};
use rand::{Rng as _, SeedableRng as _};

use super::machine::{Kind, Lost, Machine};
use super::redis;
use super::rig::{APIS, WORKERS};
use crate::chaos::crew::Role;

/// How long the old primary and the processes with it stay cut off after another one took its place.
const CUT_OFF: Duration = Duration::from_secs(4);

/// How long the primary has a full disk, or a slow link.
const TROUBLED: Duration = Duration::from_secs(20);

/// How long the old master of Redis stays cut off.
pub(super) const MASTER_CUT_OFF: Duration = Duration::from_mins(1);

/// What breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// Another Postgres becomes the primary, as somebody wants it.
    Switchover,
    /// Postgres and Patroni of the primary are killed, and started again when another one took its place.
    KillPrimary,
    /// The primary is cut off, together with these processes, until another one has taken its place for a while.
    CutPrimary(Vec<Machine>, Lost, Duration),
    /// The disk of the primary is full for a while.
    FillDisk(Duration),
    /// What the primary sends its standbys passes slowly for a while.
    SlowReplication(Duration),
    /// A Redis is killed, and started again empty. When it was the master, another one has taken its place by then.
    KillRedis(u8),
    /// The master of Redis is cut off for a while, together with these workers.
    CutMaster(Vec<Machine>, Duration),
    /// A process is killed.
    KillProcess(Role, u8),
}

/// The three who inject faults, each one after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hand {
    Postgres,
    Redis,
    Processes,
}

impl Fault {
    /// Who injects it.
    pub(super) fn hand(&self) -> Hand {
        match self {
            Self::Switchover
            | Self::KillPrimary
            | Self::CutPrimary(..)
            | Self::FillDisk(_)
            | Self::SlowReplication(_) => Hand::Postgres,
            Self::KillRedis(_) | Self::CutMaster(..) => Hand::Redis,
            Self::KillProcess(..) => Hand::Processes,
        }
    }

    /// Its kind, for the statistics.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Switchover => "switchover",
            Self::KillPrimary => "primary killed",
            Self::CutPrimary(..) => "primary cut off",
            Self::FillDisk(_) => "disk of the primary full",
            Self::SlowReplication(_) => "replication slow",
            Self::KillRedis(_) => "Redis killed",
            Self::CutMaster(..) => "master of Redis cut off",
            Self::KillProcess(Role::Api, _) => "api killed",
            Self::KillProcess(Role::Worker, _) => "worker killed",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())?;
        let listed =
            |machines: &[Machine]| machines.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        match self {
            Self::CutPrimary(with, lost, _) => write!(f, " with {}: {lost}", listed(with)),
            Self::CutMaster(with, lasts) => {
                write!(f, " with {} for {} s", listed(with), lasts.as_secs())
            }
            Self::KillRedis(number) | Self::KillProcess(_, number) => write!(f, " ({number})"),
            Self::FillDisk(lasts) | Self::SlowReplication(lasts) => write!(f, " for {} s", lasts.as_secs()),
            Self::Switchover | Self::KillPrimary => Ok(()),
        }
    }
}

/// A fault, and how long its hand waits before it.
pub(super) type Step = (Duration, Fault);

/// The steps of the hands; see the module.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) postgres: Vec<Step>,
    pub(super) redis: Vec<Step>,
    pub(super) processes: Vec<Step>,
}

impl Plan {
    /// No fault.
    pub(super) fn none() -> Self {
        Self { postgres: Vec::new(), redis: Vec::new(), processes: Vec::new() }
    }

    /// One fault of each kind that concerns a server.
    pub(super) fn short(seed: u64) -> Self {
        let mut lot = StdRng::seed_from_u64(seed);
        let cut = cut_primary(&mut lot, None);
        let mut postgres = vec![Fault::Switchover, Fault::KillPrimary, cut];
        postgres.shuffle(&mut lot);
        // the first one: a partner is called again a minute and a half later
        let redis = vec![Fault::KillRedis(1)];
        Self {
            postgres: steps(&mut lot, 2.0..4.0, postgres),
            redis: steps(&mut lot, 1.0..8.0, redis),
            processes: Vec::new(),
        }
    }

    /// All that was promised.
    pub(super) fn whole(seed: u64) -> Self {
        let mut lot = StdRng::seed_from_u64(seed);
        let mut postgres = vec![Fault::Switchover; 12];
        postgres.extend(vec![Fault::KillPrimary; 5]);
        postgres.extend(Lost::ALL.map(|lost| cut_primary(&mut lot, Some(lost))));
        postgres.extend([Fault::FillDisk(TROUBLED), Fault::SlowReplication(TROUBLED)]);
        postgres.shuffle(&mut lot);
        let mut redis: Vec<Fault> = (1..=redis::COUNT).map(Fault::KillRedis).collect();
        redis.push(Fault::CutMaster(some(&mut lot, Kind::Worker, WORKERS), MASTER_CUT_OFF));
        redis.shuffle(&mut lot);
        let mut processes: Vec<Fault> = (1..=APIS).map(|n| Fault::KillProcess(Role::Api, n)).collect();
        processes.extend((1..=WORKERS).map(|n| Fault::KillProcess(Role::Worker, n)));
        processes.shuffle(&mut lot);
        Self {
            postgres: steps(&mut lot, 3.0..10.0, postgres),
            // a partner is called between two of them
            redis: steps(&mut lot, 90.0..120.0, redis),
            processes: steps(&mut lot, 20.0..60.0, processes),
        }
    }
}

fn steps(lot: &mut StdRng, waits: std::ops::Range<f64>, faults: Vec<Fault>) -> Vec<Step> {
    let wait = |fault| (Duration::from_secs_f64(lot.random_range(waits.clone())), fault);
    faults.into_iter().map(wait).collect()
}

fn cut_primary(lot: &mut StdRng, lost: Option<Lost>) -> Fault {
    let mut with = some(lot, Kind::Api, APIS);
    with.extend(some(lot, Kind::Worker, WORKERS));
    let lost = lost.unwrap_or_else(|| *Lost::ALL.choose(lot).unwrap_or(&Lost::Both));
    Fault::CutPrimary(with, lost, CUT_OFF)
}

/// Half of the processes of a kind.
fn some(lot: &mut StdRng, kind: Kind, count: u8) -> Vec<Machine> {
    let mut machines: Vec<Machine> = (1..=count).map(|number| Machine { kind, number }).collect();
    machines.shuffle(lot);
    machines.truncate(usize::from(count / 2));
    machines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_gives_the_same_plan() {
        for plan in [Plan::short, Plan::whole] {
            assert_eq!(plan(7), plan(7));
            assert_ne!(plan(7), plan(8));
        }
    }

    #[test]
    fn a_whole_plan_has_every_fault_as_often_as_promised() {
        let Plan { postgres, redis, processes } = Plan::whole(7);
        let count = |kind: &str| {
            let all = postgres.iter().chain(&redis).chain(&processes);
            all.filter(|(_, fault)| fault.kind() == kind).count()
        };
        let promised = [
            ("switchover", 12),
            ("primary killed", 5),
            ("primary cut off", 3),
            ("disk of the primary full", 1),
            ("replication slow", 1),
            ("Redis killed", 3),
            ("master of Redis cut off", 1),
            ("api killed", 2),
            ("worker killed", 3),
        ];
        for (kind, times) in promised {
            assert_eq!(count(kind), times, "{kind}");
        }
    }

    #[test]
    fn a_cut_leaves_processes_of_each_role_on_both_sides() {
        for seed in 0..20 {
            let Fault::CutPrimary(with, ..) = cut_primary(&mut StdRng::seed_from_u64(seed), None) else {
                panic!("another fault")
            };
            for (kind, count) in [(Kind::Api, APIS), (Kind::Worker, WORKERS)] {
                let side = with.iter().filter(|machine| machine.kind == kind).count();
                assert!(side > 0 && side < count.into(), "{seed}: {with:?}");
            }
        }
    }
}

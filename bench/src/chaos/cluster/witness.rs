//! What those saw who write during the faults, and what follows from it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::machine::Machine;

/// A longer time without a write of an outsider is an outage of Postgres.
const OUTAGE: Duration = Duration::from_secs(1);

/// A period.
pub(super) type Span = (Instant, Instant);

/// A write of an outsider that one of the addresses has answered with success.
#[derive(Debug, Clone)]
pub(super) struct Written {
    pub(super) at: Machine,
    pub(super) number: i64,
    /// The timeline in which it was written: each promotion begins the next one.
    pub(super) timeline: u32,
    pub(super) began: Instant,
    pub(super) answered: Instant,
}

/// A write or a read of the service that was tried.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tried {
    pub(super) number: u64,
    pub(super) answered: Instant,
    pub(super) is_done: bool,
}

/// Primaries that answered writes at the same time. A write may happen at any moment between its beginning and its answer, so two
/// are found only if one of an older timeline began after one of a newer timeline was answered, or if two addresses share a timeline.
pub(super) fn two_primaries(written: &[Written]) -> Vec<String> {
    let mut found = Vec::new();
    let mut owners: BTreeMap<u32, Machine> = BTreeMap::new();
    let mut newest: Option<&Written> = None;
    let mut in_order: Vec<&Written> = written.iter().collect();
    in_order.sort_by_key(|one| one.answered);
    for one in &in_order {
        let owner = *owners.entry(one.timeline).or_insert(one.at);
        if owner != one.at {
            found.push(format!("{owner} and {} both wrote in timeline {}", one.at, one.timeline));
        }
        // of the newest timeline, the first answer
        if newest.is_none_or(|newest| newest.timeline < one.timeline) {
            newest = Some(one);
        }
    }
    // the first answer of each timeline: `owners` is in the order of timelines
    let first_of = |timeline: u32| {
        in_order.iter().filter(|one| one.timeline > timeline).map(|one| (one.answered, one.at)).min()
    };
    let firsts: BTreeMap<u32, Option<(Instant, Machine)>> =
        owners.keys().map(|timeline| (*timeline, first_of(*timeline))).collect();
    for one in &in_order {
        if let Some(Some((answered, other))) = firsts.get(&one.timeline)
            && one.began > *answered
        {
            let late = (one.began - *answered).as_secs_f64();
            found.push(format!(
                "{} answered a write in timeline {} that began {late:.2} s after {other} had answered in a later one",
                one.at, one.timeline
            ));
        }
    }
    found
}

/// When outsiders could write.
pub(super) fn writable(written: &[Written]) -> Vec<Span> {
    let mut answered: Vec<Instant> = written.iter().map(|one| one.answered).collect();
    answered.sort_unstable();
    let mut spans: Vec<Span> = Vec::new();
    for at in answered {
        match spans.last_mut() {
            Some((_, end)) if at - *end <= OUTAGE => *end = at,
            _ => spans.push((at, at)),
        }
    }
    spans
}

/// The longest time without success in a period.
pub(super) fn longest_gap(successes: &[Instant], (from, to): Span) -> Duration {
    let within = successes.iter().copied().filter(|at| (from..to).contains(at));
    let mut last = from;
    let mut longest = Duration::ZERO;
    for at in within.chain([to]) {
        longest = longest.max(at - last);
        last = at;
    }
    longest
}

/// A time without a success of the service, in which it could have had one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Silence {
    pub(super) from: Instant,
    pub(super) to: Instant,
    /// Whether it began when an outage ended.
    pub(super) is_after_outage: bool,
}

/// The times without success in periods of `possible`, without those that are in an excused period.
pub(super) fn silences(successes: &[Instant], possible: &[Span], excused: &[Span]) -> Vec<Silence> {
    let mut found = Vec::new();
    for (from, to) in possible {
        let within = successes.iter().copied().filter(|at| (*from..*to).contains(at));
        let mut last = *from;
        for at in within.chain([*to]) {
            found.push(Silence { from: last, to: at, is_after_outage: last == *from });
            last = at;
        }
    }
    found.retain(|one| !excused.iter().any(|(from, to)| *from < one.to && one.from < *to));
    found
}

#[cfg(test)]
mod tests {
    use super::super::machine::Kind;
    use super::*;

    struct Clock(Instant);

    impl Clock {
        fn at(&self, seconds: f64) -> Instant {
            self.0 + Duration::from_secs_f64(seconds)
        }

        fn written(&self, number: u8, timeline: u32, began: f64, answered: f64) -> Written {
            let at = Machine { kind: Kind::Postgres, number };
            Written { at, number: 0, timeline, began: self.at(began), answered: self.at(answered) }
        }
    }

    #[test]
    fn primaries_one_after_the_other_are_no_two_primaries() {
        let clock = Clock(Instant::now());
        let written = [
            clock.written(1, 1, 0.0, 0.1),
            clock.written(1, 1, 0.1, 0.2),
            clock.written(2, 2, 1.0, 1.1),
            clock.written(1, 3, 2.0, 2.1),
            // begun before, and answered late
            clock.written(2, 2, 1.9, 2.2),
        ];
        assert_eq!(two_primaries(&written), Vec::<String>::new());
    }

    #[test]
    fn a_write_of_an_older_timeline_after_one_of_a_newer_is_a_second_primary() {
        let clock = Clock(Instant::now());
        let written =
            [clock.written(1, 1, 0.0, 0.1), clock.written(2, 2, 1.0, 1.1), clock.written(1, 1, 1.2, 1.3)];
        assert_eq!(two_primaries(&written).len(), 1);
        let shared = [clock.written(1, 2, 0.0, 0.1), clock.written(2, 2, 1.0, 1.1)];
        assert_eq!(two_primaries(&shared).len(), 1);
    }

    #[test]
    fn the_service_is_silent_where_outsiders_could_write_and_it_did_not() {
        let clock = Clock(Instant::now());
        let written: Vec<Written> = (0..100)
            .filter(|n| !(20..60).contains(n))
            .map(|n| clock.written(1, 1, f64::from(n) / 10.0, f64::from(n) / 10.0))
            .collect();
        let possible = writable(&written);
        assert_eq!(possible, [(clock.at(0.0), clock.at(1.9)), (clock.at(6.0), clock.at(9.9))]);
        let successes: Vec<Instant> = [0.5, 1.0, 1.5, 8.0, 9.5].map(|at| clock.at(at)).into();
        let longest = |excused: &[Span]| {
            let silences = silences(&successes, &possible, excused);
            silences.into_iter().max_by_key(|one| one.to - one.from).unwrap()
        };
        let first = Silence { from: clock.at(6.0), to: clock.at(8.0), is_after_outage: true };
        assert_eq!(longest(&[]), first);
        let later = Silence { from: clock.at(8.0), to: clock.at(9.5), is_after_outage: false };
        assert_eq!(longest(&[(clock.at(5.0), clock.at(7.5))]), later);
        assert_eq!(longest_gap(&successes, (clock.at(1.0), clock.at(9.0))), Duration::from_millis(6500));
    }
}

//! The doctor: checks an installation from where it runs, and says what is wrong and what to do about it.
//!
//! Every check is a line: a [`Finding`] with its name, its verdict, what was found, and the remedy. A check that an
//! earlier one makes impossible (the tables of a Postgres that does not answer) gives no line; the earlier one does.
//! Nothing is changed: the test object in the object store is removed again, and the key in Redis expires after seconds. As any process
//! that connects, it records that Postgres was set back if it is the first to see that.
//!
//! - [`settings`]: contradictions, and settings for development only;
//! - [`postgres`]: connection, pooler, version, durability, room for our connections, role and grants, migrations and the right to
//!   run them, clock; whether it was set back;
//! - [`queues`]: Redis' connection, version, eviction, clock, memory, whether it accepts writes; whether workers are active;
//! - [`stores`]: whether the keys open all sealed values, whether orders and stocks agree, and whether an object can be stored, read and deleted.
//!
//! One more check is one more function in the room that it belongs to, and a test that makes it fail.

mod postgres;
mod queues;
mod settings;
mod stores;

use std::error::Error;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use clap::Args;
use serde::Serialize;

use longshore_kernel::cause::causes;
use longshore_kernel::clock::Clock;
use longshore_kernel::config::{
    DatabaseSettings, LimitSettings, ObjectStoreSettings, OutboundSettings, RedisSettings, VaultSettings,
};
use longshore_kernel::database::{Database, Use};

/// How long one part may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A larger difference of clocks is a warning: times in answers and logs are wrong.
const CLOCKS_DIFFER: TimeDelta = TimeDelta::seconds(2);
/// Clocks that differ by more break signatures (receivers allow five minutes) and the expiry of tokens.
const CLOCKS_ARE_WRONG: TimeDelta = TimeDelta::minutes(1);

/// What is looked at: the settings of a process that serves.
#[derive(Args, Clone, Debug)]
pub struct Patient {
    /// Postgres.
    #[command(flatten)]
    pub database: DatabaseSettings,
    /// Redis.
    #[command(flatten)]
    pub redis: RedisSettings,
    /// Keys.
    #[command(flatten)]
    pub vault: VaultSettings,
    /// Images.
    #[command(flatten)]
    pub objects: ObjectStoreSettings,
    /// Outbound calls.
    #[command(flatten)]
    pub outbound: OutboundSettings,
    /// Limits.
    #[command(flatten)]
    pub limits: LimitSettings,
}

/// What a check came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As it should be.
    Ok,
    /// It works, but needs attention.
    Warn,
    /// It does not work, or not as promised.
    Fail,
}

impl Verdict {
    /// Its word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// A line of the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The check; its name is stable.
    pub check: &'static str,
    /// What it came to.
    pub verdict: Verdict,
    /// What was found.
    pub found: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl Finding {
    fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Ok, found: found.into(), remedy: None }
    }

    fn warn(check: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Warn, found: found.into(), remedy: Some(remedy.into()) }
    }

    fn fail(check: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Fail, found: found.into(), remedy: Some(remedy.into()) }
    }

    /// How far another clock is from ours.
    fn clocks(check: &'static str, ours: DateTime<Utc>, theirs: DateTime<Utc>) -> Self {
        let difference = theirs - ours;
        let found = format!("{:+.3} s off the clock of this machine", difference.as_seconds_f64());
        let remedy = "synchronise the clocks of all machines (NTP, chrony): timedatectl set-ntp true";
        match difference.abs() {
            apart if apart > CLOCKS_ARE_WRONG => Self::fail(check, found, remedy),
            apart if apart > CLOCKS_DIFFER => Self::warn(check, found, remedy),
            _ => Self::ok(check, found),
        }
    }
}

/// Looks at everything; the findings in the order of a report.
pub async fn examine(patient: &Patient, clock: &Clock) -> Vec<Finding> {
    let mut findings = settings::examine(patient);
    let (in_postgres, in_redis, in_store) = tokio::join!(
        postgres::examine(&patient.database, clock),
        queues::examine(&patient.redis, clock),
        stores::examine_objects(&patient.objects),
    );
    let database = if postgres::usable(&in_postgres) {
        Database::connect_lazy(&patient.database, "longshore-doctor", Use::Work).ok()
    } else {
        None
    };
    let redis_answers = in_redis.iter().any(|f| f.check == queues::CONNECTION && f.verdict == Verdict::Ok);
    findings.extend(in_postgres);
    findings.extend(in_redis);
    if redis_answers {
        findings.extend(queues::examine_writes(&patient.redis).await);
        findings.push(queues::examine_workers(&patient.redis, database.as_ref()).await);
    }
    if let Some(database) = &database {
        findings.push(postgres::examine_set_back(database).await);
        findings.push(stores::examine_secrets(&patient.vault, database).await);
        findings.push(stores::examine_orders(database).await);
    }
    findings.push(in_store);
    findings
}

/// An error with its causes, as one line.
fn reason(error: &(dyn Error + 'static)) -> String {
    causes(error).to_string().replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_are_judged_by_how_far_they_are_apart_either_way() {
        let ours = DateTime::UNIX_EPOCH + TimeDelta::days(20_000);
        let judged = |apart: TimeDelta| Finding::clocks("clock", ours, ours + apart).verdict;
        assert_eq!(judged(TimeDelta::zero()), Verdict::Ok);
        for sign in [1, -1] {
            assert_eq!(judged(CLOCKS_DIFFER * sign), Verdict::Ok);
            assert_eq!(judged(CLOCKS_DIFFER * sign * 2), Verdict::Warn);
            assert_eq!(judged(CLOCKS_ARE_WRONG * sign), Verdict::Warn);
            assert_eq!(judged(CLOCKS_ARE_WRONG * sign * 2), Verdict::Fail);
        }
        assert_eq!(
            Finding::clocks("clock", ours, ours - TimeDelta::milliseconds(1_500)).found,
            "-1.500 s off the clock of this machine"
        );
    }
}

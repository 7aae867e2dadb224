//! The pulse of the database, by which a process sees that Postgres was set back: by a restore, a point in time, or a failover that lost
//! commits ([`set_back`](super::set_back), `docs/backup.md#after-a-restore`).
//!
//! Workers `raise` the one row of `pulse` each second, in a commit of its own that waits for the disk. Each process and Redis
//! remember the highest that was committed. A process compares what it finds with what is remembered on each new connection, before
//! anything else is done there (`greet`), and a worker each second; [`judge`] is the rule. Who sees a set-back first records it and begins
//! the next epoch in one commit. For the others the pulse is then higher than any that they remember.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;

use super::cause::causes;
use super::sqlstate;

/// How often a worker raises the pulse, or finds that another has.
pub const EVERY: Duration = Duration::from_secs(1);

/// A pulse is raised once it is so old: a bit less than [`EVERY`], so that a worker that ticks a bit early does not leave one out.
const OLD: Duration = Duration::from_millis(900);

/// Where a pulse was raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The cluster, as `initdb` named it.
    pub system_identifier: i64,
    /// The database in it.
    pub database: i64,
    /// The table in it, which is another one after a restore into the same database.
    pub table: i64,
    /// The timeline of its WAL: a promotion and a recovery to a point in time begin a new one.
    pub timeline: i32,
}

impl Place {
    /// Whether both are copies of the same files, whatever their timelines.
    fn is_same_database(&self, other: &Self) -> bool {
        Self { timeline: other.timeline, ..*self } == *other
    }
}

/// A pulse that was raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pulse {
    /// Each set-back begins the next one.
    pub epoch: i32,
    /// Within all epochs.
    pub number: i64,
    /// When it was raised, by the clock of Postgres.
    pub at: DateTime<Utc>,
    /// Where.
    pub place: Place,
    /// Whether its commit waited for no standby: what came within the second after it may be lost by a promotion, and nobody sees it.
    pub is_asynchronous: bool,
}

impl Pulse {
    fn is_lower_than(&self, other: &Self) -> bool {
        (self.epoch, self.number) < (other.epoch, other.number)
    }
}

/// What a comparison comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing happened.
    Same,
    /// The database is at another place, and lost nothing: a failover to a standby that was waited for, or a move.
    Moved,
    /// Commits were lost, or may have been.
    SetBack(Loss),
}

/// How a set-back was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// A higher pulse is remembered.
    Lower,
    /// A standby was promoted that nothing waited for, so that what it lacks of the last second cannot be seen.
    Asynchronous,
    /// The database is at another place, and nobody remembers its last pulse.
    Unremembered,
}

impl Loss {
    /// For people.
    const fn as_str(self) -> &'static str {
        match self {
            Self::Lower => "commits that are remembered are missing",
            Self::Asynchronous => "a standby was promoted that commits had not waited for",
            Self::Unremembered => {
                "the database is at another place, and neither Redis nor a process remembers its last commits"
            }
        }
    }
}

/// Judges the pulse that was found in the database that is `here`. `remembered` was read before it, so it was committed.
///
/// A database whose pulse was never raised (a new one) is not judged.
#[must_use]
pub fn judge(remembered: Option<&Pulse>, found: &Pulse, here: &Place) -> Verdict {
    let Some(remembered) = remembered else {
        return if found.place == *here { Verdict::Same } else { Verdict::SetBack(Loss::Unremembered) };
    };
    if found.is_lower_than(remembered) {
        Verdict::SetBack(Loss::Lower)
    } else if found.place == *here {
        Verdict::Same
    } else if found.is_asynchronous && found.place.is_same_database(here) {
        Verdict::SetBack(Loss::Asynchronous)
    } else {
        Verdict::Moved
    }
}

/// The highest pulse that a process knows to be committed; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Memory(Arc<Mutex<Remembered>>);

#[derive(Clone, Copy, Debug, Default)]
struct Remembered {
    highest: Option<Pulse>,
    /// The place of which the log says that the database has moved there.
    told: Option<Place>,
}

impl Memory {
    fn lock(&self) -> MutexGuard<'_, Remembered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The highest pulse.
    pub(super) fn highest(&self) -> Option<Pulse> {
        self.lock().highest
    }

    /// Remembers a pulse that is committed.
    pub(super) fn remember(&self, pulse: Pulse) {
        let mut kept = self.lock();
        if kept.highest.is_none_or(|highest| highest.is_lower_than(&pulse)) {
            kept.highest = Some(pulse);
        }
    }

    /// Says once that the database has moved.
    fn tell_of_move(&self, found: &Pulse, here: Place) {
        if self.lock().told.replace(here) != Some(here) {
            tracing::info!(
                pulse.number = found.number,
                timeline.before = found.place.timeline,
                timeline.now = here.timeline,
                "Postgres is another server or another database than before, and has all commits that are remembered"
            );
        }
    }
}

/// The row and its place, as they were before the statement, and the pulse that the statement has raised.
#[derive(Debug)]
struct Row {
    epoch: i32,
    number: i64,
    at: DateTime<Utc>,
    system_identifier: Option<i64>,
    database_oid: Option<i64>,
    table_oid: Option<i64>,
    timeline: Option<i32>,
    is_asynchronous: bool,
    here_system_identifier: i64,
    here_database_oid: i64,
    here_table_oid: i64,
    here_timeline: i32,
    here_is_asynchronous: bool,
    raised_epoch: Option<i32>,
    raised_number: Option<i64>,
    raised_at: Option<DateTime<Utc>>,
}

impl Row {
    fn here(&self) -> Place {
        Place {
            system_identifier: self.here_system_identifier,
            database: self.here_database_oid,
            table: self.here_table_oid,
            timeline: self.here_timeline,
        }
    }

    /// The pulse that was found, unless none was ever raised.
    fn found(&self) -> Option<Pulse> {
        let place = Place {
            system_identifier: self.system_identifier?,
            database: self.database_oid?,
            table: self.table_oid?,
            timeline: self.timeline?,
        };
        let Self { epoch, number, at, is_asynchronous, .. } = *self;
        Some(Pulse { epoch, number, at, place, is_asynchronous })
    }

    fn raised(&self) -> Option<Pulse> {
        Some(Pulse {
            epoch: self.raised_epoch?,
            number: self.raised_number?,
            at: self.raised_at?,
            place: self.here(),
            is_asynchronous: self.here_is_asynchronous,
        })
    }
}

/// Compares on a new connection, before anything else is done there. Nothing on a standby, nor where the tables are not there yet.
pub(super) async fn greet(connection: &mut PgConnection, memory: &Memory) -> Result<(), sqlx::Error> {
    let compared = async {
        // before the row is read: what is remembered later may be newer than the row
        let remembered = memory.highest();
        if let Some(row) = look(connection).await? {
            settle(connection, memory, remembered, &row).await?;
        }
        Ok(())
    };
    match compared.await {
        // before the migrations, or where nothing can be written
        Err(error) if sqlstate::is_of_schema(&error) || sqlstate::is_read_only(&error) => {
            tracing::debug!(error = %causes(&error), "the pulse of the database cannot be compared");
            Ok(())
        }
        result => result,
    }
}

/// Raises the pulse unless another worker just has, and compares. Whether there is something new that Redis should remember.
pub(super) async fn raise(connection: &mut PgConnection, memory: &Memory) -> Result<bool, sqlx::Error> {
    let remembered = memory.highest();
    let Some(row) = raise_if_due(connection, remembered, false).await? else { return Ok(false) };
    let raised = match settle(connection, memory, remembered, &row).await? {
        Verdict::Same => row.raised(),
        Verdict::Moved => raise_if_due(connection, remembered, true).await?.and_then(|row| row.raised()),
        Verdict::SetBack(_) => return Ok(true),
    };
    if let Some(raised) = raised {
        memory.remember(raised);
    }
    Ok(raised.is_some())
}

/// Does what the comparison of a row asks for.
async fn settle(
    connection: &mut PgConnection,
    memory: &Memory,
    remembered: Option<Pulse>,
    row: &Row,
) -> Result<Verdict, sqlx::Error> {
    let Some(found) = row.found() else { return Ok(Verdict::Same) };
    let verdict = judge(remembered.as_ref(), &found, &row.here());
    match verdict {
        Verdict::Same => memory.remember(found),
        Verdict::Moved => memory.tell_of_move(&found, row.here()),
        Verdict::SetBack(loss) => {
            if let Some(begun) = begin_epoch(connection, remembered, &found, row, loss).await? {
                tracing::error!(
                    since = %found.at,
                    until = remembered.map(|pulse| tracing::field::display(pulse.at)),
                    reason = loss.as_str(),
                    "Postgres was set back: nothing is handed over to warehouses until `longshore-api restored` has run"
                );
                memory.remember(begun);
            }
            // else another process was first, and the next look finds its epoch
        }
    }
    Ok(verdict)
}

async fn look(connection: &mut PgConnection) -> Result<Option<Row>, sqlx::Error> {
    sqlx::query_as!(
        Row,
        r#"SELECT p.epoch, p.number, p.at, p.system_identifier, p.database_oid, p.table_oid, p.timeline, p.is_asynchronous,
                  h.system_identifier AS "here_system_identifier!", h.database_oid AS "here_database_oid!",
                  h.table_oid AS "here_table_oid!", h.timeline AS "here_timeline!", h.is_asynchronous AS "here_is_asynchronous!",
                  NULL::integer AS raised_epoch, NULL::bigint AS raised_number, NULL::timestamptz AS raised_at
           FROM pulse p CROSS JOIN pulse_place() h"#
    )
    .fetch_optional(connection)
    .await
}

/// Raises the pulse, unless that happened just now, somebody else does it at this moment, or something is strange: the row is lower than
/// what is remembered, or was raised elsewhere and not `moved` without loss. A new database begins above what is remembered of another.
async fn raise_if_due(
    connection: &mut PgConnection,
    remembered: Option<Pulse>,
    moved: bool,
) -> Result<Option<Row>, sqlx::Error> {
    let (epoch, number) = remembered.map_or((1, 0), |pulse| (pulse.epoch, pulse.number));
    sqlx::query_as!(
        Row,
        r#"WITH here AS MATERIALIZED (
               SELECT * FROM pulse_place()
           ), due AS MATERIALIZED (
               SELECT p.one FROM pulse p CROSS JOIN here h
               -- also after the clock of Postgres was put back
               WHERE (p.at < clock_timestamp() - make_interval(secs => $3) OR p.at > clock_timestamp() + make_interval(secs => $3))
                 AND (p.system_identifier IS NULL
                      OR (p.epoch, p.number) >= ($1, $2)
                         AND ($4 OR (p.system_identifier, p.database_oid, p.table_oid, p.timeline)
                                    = (h.system_identifier, h.database_oid, h.table_oid, h.timeline)))
               FOR NO KEY UPDATE OF p SKIP LOCKED
           ), raised AS (
               UPDATE pulse p
               SET epoch = greatest(p.epoch, $1), number = greatest(p.number, $2) + 1, at = clock_timestamp(),
                   system_identifier = h.system_identifier, database_oid = h.database_oid, table_oid = h.table_oid,
                   timeline = h.timeline, is_asynchronous = h.is_asynchronous
               FROM here h
               WHERE p.one = ANY (ARRAY(SELECT one FROM due))
                 -- what others remember must not be undone by a crash
                 AND (current_setting('synchronous_commit') <> 'off'
                      OR set_config('synchronous_commit', 'local', true) IS NOT NULL)
               RETURNING p.epoch, p.number, p.at
           )
           SELECT p.epoch, p.number, p.at, p.system_identifier, p.database_oid, p.table_oid, p.timeline, p.is_asynchronous,
                  h.system_identifier AS "here_system_identifier!", h.database_oid AS "here_database_oid!",
                  h.table_oid AS "here_table_oid!", h.timeline AS "here_timeline!", h.is_asynchronous AS "here_is_asynchronous!",
                  r.epoch AS "raised_epoch?", r.number AS "raised_number?", r.at AS "raised_at?"
           FROM pulse p CROSS JOIN here h LEFT JOIN raised r ON true"#,
        epoch,
        number,
        OLD.as_secs_f64(),
        moved,
    )
    .fetch_optional(connection)
    .await
}

/// Records a set-back and begins the next epoch, unless another process just has: the pulse that it begins with.
async fn begin_epoch(
    connection: &mut PgConnection,
    remembered: Option<Pulse>,
    found: &Pulse,
    row: &Row,
    loss: Loss,
) -> Result<Option<Pulse>, sqlx::Error> {
    let (epoch, number) = remembered.map_or((found.epoch, found.number), |pulse| {
        (pulse.epoch.max(found.epoch), pulse.number.max(found.number))
    });
    let begun = sqlx::query!(
        r#"WITH here AS MATERIALIZED (
               SELECT * FROM pulse_place()
           ), begun AS (
               UPDATE pulse p
               SET epoch = $2::integer + 1, number = $3::bigint + 1, at = clock_timestamp(),
                   system_identifier = h.system_identifier, database_oid = h.database_oid, table_oid = h.table_oid,
                   timeline = h.timeline, is_asynchronous = h.is_asynchronous
               FROM here h
               -- without its standby, nobody else gets a connection while this waits; what a failover loses of it is seen again
               WHERE p.epoch = $1 AND set_config('synchronous_commit', 'local', true) IS NOT NULL
               RETURNING p.epoch, p.number, p.at
           ), recorded AS (
               INSERT INTO set_back (epoch, reason, since, "until") SELECT epoch, $4::text, $5::timestamptz, $6::timestamptz FROM begun
           )
           SELECT epoch AS "epoch!", number AS "number!", at AS "at!" FROM begun"#,
        found.epoch,
        epoch,
        number,
        loss.as_str(),
        found.at,
        remembered.map(|pulse| pulse.at),
    )
    .fetch_optional(connection)
    .await?;
    Ok(begun.map(|begun| Pulse {
        epoch: begun.epoch,
        number: begun.number,
        at: begun.at,
        place: row.here(),
        is_asynchronous: row.here_is_asynchronous,
    }))
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    const HERE: Place = Place { system_identifier: 7, database: 16_384, table: 17_992, timeline: 1 };

    fn pulse(epoch: i32, number: i64) -> Pulse {
        let at = DateTime::UNIX_EPOCH + TimeDelta::seconds(number);
        Pulse { epoch, number, at, place: HERE, is_asynchronous: true }
    }

    fn elsewhere() -> [Place; 4] {
        [
            Place { system_identifier: 8, ..HERE },
            Place { database: 16_385, ..HERE },
            Place { table: 17_993, ..HERE },
            Place { timeline: 2, ..HERE },
        ]
    }

    #[test]
    fn a_pulse_that_is_not_lower_at_its_place_is_no_set_back() {
        for (found, remembered) in [((1, 5), (1, 5)), ((1, 6), (1, 5)), ((2, 1), (1, 5))] {
            let remembered = pulse(remembered.0, remembered.1);
            assert_eq!(judge(Some(&remembered), &pulse(found.0, found.1), &HERE), Verdict::Same);
        }
        assert_eq!(judge(None, &pulse(1, 5), &HERE), Verdict::Same);
    }

    #[test]
    fn a_lower_pulse_is_a_set_back_wherever_it_is_and_whoever_was_waited_for() {
        for (found, remembered) in [((1, 4), (1, 5)), ((1, 9), (2, 5)), ((2, 1), (3, 1))] {
            for here in elsewhere().into_iter().chain([HERE]) {
                for is_asynchronous in [false, true] {
                    let found = Pulse { is_asynchronous, ..pulse(found.0, found.1) };
                    let remembered = pulse(remembered.0, remembered.1);
                    assert_eq!(judge(Some(&remembered), &found, &here), Verdict::SetBack(Loss::Lower));
                }
            }
        }
    }

    #[test]
    fn another_place_of_which_nobody_remembers_a_pulse_is_a_set_back() {
        for here in elsewhere() {
            let found = Pulse { is_asynchronous: false, ..pulse(1, 5) };
            assert_eq!(judge(None, &found, &here), Verdict::SetBack(Loss::Unremembered));
        }
    }

    #[test]
    fn a_promotion_costs_nothing_only_where_a_standby_was_waited_for() {
        let here = Place { timeline: 2, ..HERE };
        let waited = Pulse { is_asynchronous: false, ..pulse(1, 5) };
        assert_eq!(judge(Some(&waited), &waited, &here), Verdict::Moved);
        // which one was remembered last does not matter: it may be older
        assert_eq!(judge(Some(&pulse(1, 4)), &waited, &here), Verdict::Moved);
        let not_waited = pulse(1, 5);
        assert_eq!(judge(Some(&not_waited), &not_waited, &here), Verdict::SetBack(Loss::Asynchronous));
    }

    #[test]
    fn a_move_of_the_whole_database_with_its_last_pulse_costs_nothing() {
        for here in &elsewhere()[..3] {
            assert_eq!(judge(Some(&pulse(1, 5)), &pulse(1, 5), here), Verdict::Moved);
        }
    }

    #[test]
    fn what_another_process_has_settled_is_not_judged_again() {
        // it remembers the last epoch and the old place
        let here = Place { timeline: 2, ..HERE };
        let begun = Pulse { place: here, ..pulse(2, 6) };
        assert_eq!(judge(Some(&pulse(1, 5)), &begun, &here), Verdict::Same);
    }

    #[test]
    fn a_process_remembers_the_highest_pulse() {
        let memory = Memory::default();
        assert_eq!(memory.highest(), None);
        for (epoch, number) in [(1, 5), (1, 4), (2, 1), (1, 9)] {
            memory.remember(pulse(epoch, number));
        }
        assert_eq!(memory.highest(), Some(pulse(2, 1)));
    }
}

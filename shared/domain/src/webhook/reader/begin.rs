//! Where readers begin, and the moments between which events are read.
//!
//! A statement that began before a reader was made does not see it, and may write a change that is no event. So a reader is
//! *starting* until every transaction has ended that may have looked at the readers before: each holds a lock on their table, which
//! it takes before its snapshot and keeps to its end.

use std::time::Duration;

use chrono::{DateTime, Utc};

use longshore_kernel::database::Database;
use longshore_kernel::figure::stamp;
use longshore_kernel::ids::{EventReaderId, OrganisationId};
use longshore_kernel::problem::Problem;

use super::cursor::{Cursor, Line, Tick};

/// Days for which events are kept, at least.
pub(super) const KEPT_DAYS: i32 = 37;

/// Moments of an organisation follow each other no faster, however many readers wait.
const APART: Duration = Duration::from_millis(100);

/// Settles a reader if everything has ended that it waits for; returns whether it is settled. It begins where it is then, unless it
/// began before on this line. If it began on another one, it keeps where it was there: whoever reads on from there is told.
pub(super) async fn settle(
    db: &Database,
    reader: EventReaderId,
    organisation: OrganisationId,
) -> Result<bool, Problem> {
    // statements of their own: what they see is newer than the reader
    sqlx::query!(
        "UPDATE event_reader_position
         SET writers = ARRAY(SELECT DISTINCT virtualtransaction FROM pg_locks
                             WHERE relation = 'event_reader'::regclass AND pid <> pg_backend_pid()
                               AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))
         WHERE reader_id = $1 AND writers IS NULL AND NOT settled",
        reader.get(),
    )
    .execute(&db.main)
    .await?;
    let state = sqlx::query!(
        r#"SELECT p.settled, p.writers, u.epoch, c.system_identifier AS "cluster!",
                  (p.epoch, p.cluster) IS NOT DISTINCT FROM (u.epoch, c.system_identifier) AS "has_begun!",
                  p.writers IS NOT NULL AND NOT EXISTS (
                      SELECT FROM pg_locks l
                      WHERE l.relation = 'event_reader'::regclass AND l.virtualtransaction = ANY (p.writers)
                        AND l.pid <> pg_backend_pid()) AS "all_ended!"
           FROM event_reader_position p CROSS JOIN pulse u CROSS JOIN pg_control_system() c WHERE p.reader_id = $1"#,
        reader.get(),
    )
    .fetch_optional(&db.main)
    .await?;
    let Some(state) = state else { return Ok(false) };
    if !state.settled && !state.all_ended {
        return Ok(false);
    }
    if state.settled && state.has_begun {
        return Ok(true);
    }
    let begun = if state.has_begun {
        None
    } else {
        let tick = next(db, organisation, None).await?;
        let line = Line { epoch: state.epoch, cluster: state.cluster };
        Some((Cursor::at(line, tick.clone()).to_string(), tick.at))
    };
    let (beginning, began_at) = begun.unzip();
    let settled = sqlx::query!(
        "UPDATE event_reader_position
         SET settled = true, epoch = $2, cluster = $3, beginning = coalesce($4, beginning), began_at = coalesce($5, began_at),
             position = CASE WHEN $4 IS NULL THEN position ELSE coalesce(position, beginning) END,
             position_at = CASE WHEN $4 IS NULL THEN position_at ELSE coalesce(position_at, began_at) END
         -- not if it heard of more types meanwhile
         WHERE reader_id = $1 AND (settled OR writers IS NOT DISTINCT FROM $6::text[])",
        reader.get(),
        state.epoch,
        state.cluster,
        beginning,
        began_at,
        state.writers.as_deref() as Option<&[String]>,
    )
    .execute(&db.main)
    .await?;
    Ok(settled.rows_affected() > 0)
}

/// Makes a moment for each organisation that has readers and something new, unless one was made lately: whoever reads later reads
/// from one to the next.
pub async fn keep(db: &Database) -> Result<u64, Problem> {
    let behind = sqlx::query!(
        r#"SELECT r.organisation_id AS "organisation: OrganisationId", t.n FROM (SELECT DISTINCT organisation_id FROM event_reader) AS r
           CROSS JOIN LATERAL (
               SELECT n, at, snapshot FROM event_tick
               WHERE organisation_id = r.organisation_id ORDER BY organisation_id DESC, n DESC LIMIT 1) AS t
           WHERE t.at < clock_timestamp() - interval '45 seconds' AND has_events_since(r.organisation_id, t.snapshot)"#,
    )
    .fetch_all(&db.main)
    .await?;
    for row in &behind {
        next(db, row.organisation, Some(row.n)).await?;
    }
    Ok(behind.len() as u64)
}

/// The first moment after the given one, or after the last that there is: one that is made now, if there is none yet.
pub(super) async fn next(
    db: &Database,
    organisation: OrganisationId,
    after: Option<i64>,
) -> Result<Tick, Problem> {
    loop {
        let mut tx = db.main.transaction(None).await?;
        sqlx::query!(
            "SELECT pg_advisory_xact_lock(hashtextextended('event ticks ' || $1::uuid, 0))",
            organisation.get()
        )
        .execute(&mut *tx)
        .await?;
        // a statement of its own: its snapshot is newer than those of all ticks before
        let last = sqlx::query!(
            r#"SELECT n, extract(epoch FROM clock_timestamp() - at)::float8 AS "age!" FROM event_tick
               WHERE organisation_id = $1 ORDER BY organisation_id DESC, n DESC LIMIT 1"#,
            organisation.get(),
        )
        .fetch_optional(&mut *tx)
        .await?;
        let newest = last.as_ref().map_or(0, |tick| tick.n);
        if let Some(after) = after.filter(|after| newest > *after) {
            let found = first_after(&mut tx, organisation, after).await?;
            tx.commit().await?;
            if let Some(found) = found {
                return Ok(found);
            }
            continue;
        }
        let age = last.map_or(f64::MAX, |tick| tick.age);
        // a clock that was set back makes nobody wait for long
        if after.is_some() && (0.0..APART.as_secs_f64()).contains(&age) {
            tx.commit().await?;
            tokio::time::sleep(APART.saturating_sub(Duration::from_secs_f64(age))).await;
            continue;
        }
        let tick = sqlx::query_as!(
            Tick,
            r#"INSERT INTO event_tick (organisation_id, n, at, snapshot, epoch, cluster)
               SELECT $1, $2, clock_timestamp(), pg_current_snapshot(), u.epoch, c.system_identifier
               FROM pulse u CROSS JOIN pg_control_system() c
               RETURNING n, at, snapshot::text AS "snapshot!""#,
            organisation.get(),
            newest + 1,
        )
        .fetch_one(&mut *tx)
        .await?;
        tx.commit().await?;
        return Ok(tick);
    }
}

/// The first moment after another.
pub(super) async fn first_after(
    connection: &mut sqlx::PgConnection,
    organisation: OrganisationId,
    after: i64,
) -> Result<Option<Tick>, Problem> {
    let found = sqlx::query_as!(
        Tick,
        r#"SELECT n, at, snapshot::text AS "snapshot!" FROM event_tick
           WHERE organisation_id = $1 AND n > $2 ORDER BY organisation_id, n LIMIT 1"#,
        organisation.get(),
        after,
    )
    .fetch_optional(connection)
    .await?;
    Ok(found)
}

/// The place of the last moment that is not after `from`, of those that were made since the service runs here.
///
/// # Errors
/// There is none, or it has not come yet.
pub(super) async fn place_at(
    connection: &mut sqlx::PgConnection,
    organisation: OrganisationId,
    from: DateTime<Utc>,
) -> Result<(Line, Tick), Problem> {
    let found = sqlx::query!(
        r#"SELECT u.epoch, c.system_identifier AS "cluster!", $2 <= clock_timestamp() AS "is_past!", f.at AS "first?",
                  t.n AS "n?", t.at AS "at?", t.snapshot::text AS snapshot
           FROM pulse u CROSS JOIN pg_control_system() c
           LEFT JOIN LATERAL (
               SELECT n, at, snapshot FROM event_tick
               WHERE organisation_id = $1 AND (epoch, cluster) = (u.epoch, c.system_identifier) AND at <= $2
                 AND at > now() - make_interval(days => $3)
               ORDER BY organisation_id DESC, event_tick.n DESC LIMIT 1) AS t ON true
           LEFT JOIN LATERAL (
               SELECT at FROM event_tick
               WHERE organisation_id = $1 AND (epoch, cluster) = (u.epoch, c.system_identifier) AND at > now() - make_interval(days => $3)
               ORDER BY organisation_id, event_tick.n LIMIT 1) AS f ON true"#,
        organisation.get(),
        from,
        KEPT_DAYS,
    )
    .fetch_one(connection)
    .await?;
    let line = Line { epoch: found.epoch, cluster: found.cluster };
    let message = match (found.n, found.at, found.snapshot, found.first) {
        _ if !found.is_past => "must not be in the future".to_owned(),
        (Some(n), Some(at), Some(snapshot), _) => return Ok((line, Tick { n, at, snapshot })),
        (.., Some(first)) => {
            format!("must not be before {}, since when events are kept for readers", stamp(first))
        }
        _ => "cannot be sent: no events are kept for readers before the first one of an organisation"
            .to_owned(),
    };
    Err(Problem::violation("from", "invalid", message))
}

/// Removes moments that are no longer needed apart: after an hour one a minute is kept, for as long as events are. A cursor has those
/// that it needs in itself. Returns how many.
pub async fn thin(db: &Database, most: i64) -> Result<u64, Problem> {
    let thinned = sqlx::query!(
        "WITH old AS MATERIALIZED (
             SELECT organisation_id, n, at FROM event_tick
             -- what is older was thinned before, or is left
             WHERE at BETWEEN now() - interval '3 hours' AND now() - interval '1 hour'
         ), followed AS (
             SELECT *, lead(at) OVER (PARTITION BY organisation_id ORDER BY n) AS following FROM old
         ), expired AS MATERIALIZED (
             SELECT organisation_id, n FROM event_tick t
             WHERE at < now() - make_interval(days => $2)
               -- the last one says what the next is
               AND (SELECT true FROM event_tick l WHERE l.organisation_id = t.organisation_id AND l.n > t.n
                    ORDER BY l.organisation_id, l.n LIMIT 1)
             LIMIT $1
         )
         DELETE FROM event_tick t
         WHERE (t.organisation_id, t.n) IN (
             (SELECT organisation_id, n FROM followed WHERE date_trunc('minute', at) = date_trunc('minute', following) LIMIT $1)
             UNION ALL
             SELECT organisation_id, n FROM expired)",
        most,
        KEPT_DAYS,
    )
    .execute(&db.main)
    .await?;
    Ok(thinned.rows_affected())
}

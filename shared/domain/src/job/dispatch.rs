//! Turns: which chunks are queued next.
//!
//! # Shares
//!
//! Organisations take turns, regardless of their backlogs. Only a **window** of the due chunks of an organisation is on a
//! queue at once ([`WINDOW`]), and each claim queues the next one of the same organisation, behind the chunks that other
//! organisations have queued since. So a new job has only a few chunks of each organisation ahead of it, not their
//! backlogs. An organisation that is alone gets every slot, because running chunks do not count. Chunks are of much the
//! same size, so a turn is a chunk. Jobs of no single organisation have a separate share ([`share_of`]).
//!
//! Within an organisation the first jobs take turns in the same way: first comes the first due chunk of each, then the
//! second. Only the first job of an e-shop's line takes part ([`line`](super::line)). Dry runs ([`preview`](super::preview)) come
//! after all others.
//!
//! # When it looks
//!
//! Every commit that makes a chunk due looks at the window of that organisation ([`hand_over`]), and so does every claim.
//! The dispatcher looks at all of them every second ([`Looks::due`]): that finds what the queue lost, what waits for its next
//! attempt, and what a dead process held. No look reads a backlog: indexes lead from one organisation, and from one line,
//! to the next.
//!
//! While a transaction is open for long, the indexes keep the dead entries of all jobs that ended since it began. A look at one
//! organisation reads only those of that organisation, and rests when it took long ([`rest`]), as a look at all does. The look for what
//! dead processes held begins where there may be some.

use std::time::Instant;

use chrono::{DateTime, TimeDelta, Utc};
use sqlx::PgPool;
use uuid::Uuid;

use super::name::{chunk_name, queue_of, share_of};
use longshore_kernel::change::Change;
use longshore_kernel::ids::{JobId, OrganisationId};
use longshore_kernel::problem::Problem;
use longshore_kernel::queue::Queue;
use longshore_kernel::rest;
use longshore_kernel::services::Services;

/// Due chunks of an organisation that are on a queue at once. The claim of one brings the next within a few milliseconds.
/// `job_waits_for_turn` in the database has the same number.
pub const WINDOW: i64 = 4;

/// Chunks of a queue that one look finds at most.
const MOST: i64 = 3_200;
/// For monitoring, up to this many jobs of an organisation are counted …
const COUNTED_JOBS: i64 = 2_000;
/// … and so many chunks of each.
const COUNTED_CHUNKS: i64 = 16;
/// Lines of an organisation that a look at it alone goes through; beyond that it is left to the dispatcher.
const LINES: i64 = 256;
/// The same for a look at all.
const ALL_LINES: i64 = i64::MAX;
/// A lease may end before others see it: the statement that gives it may wait for as long as the time limit of statements
/// ([`database`](longshore_kernel::database)).
const LATE: TimeDelta = TimeDelta::seconds(150);

/// The first and the last of the shares that a look is at: of one, or of all.
fn shares(one: Option<Uuid>) -> (Uuid, Uuid) {
    one.map_or((share_of(None), Uuid::max()), |share| (share, share))
}

/// Reads what is due of the jobs themselves as `c`: `$1` the first share, `$2` the limit per share, `$3` per job, `$4` of lines
/// to scan, `$5` in total, `$6` the last share.
macro_rules! due_chunks {
    ($head:literal, $tail:literal $(, $parameter:expr)* $(,)?) => {
        // Each step names what the index it is meant for is ordered by, so that no other one serves. Live chunks are read
        // in their order, and what is due is taken from them: the other way round, a plan made while few are due reads all
        // that are, for each job.
        sqlx::query!(
            $head
            + r#" FROM (
                WITH RECURSIVE line (organisation, sequence, nth) AS (
                    (SELECT organisation_id, sequence, 1::bigint FROM job
                     WHERE sequence IS NOT NULL AND state IN ('queued', 'running', 'retrying')
                       AND (organisation_id, sequence) > ($1, '00000000-0000-0000-0000-000000000000'::uuid) AND organisation_id <= $6
                     ORDER BY organisation_id, sequence LIMIT 1)
                    UNION ALL
                    SELECT following.organisation_id, following.sequence, l.nth + 1
                    FROM line l CROSS JOIN LATERAL (
                        SELECT organisation_id, sequence FROM job
                        WHERE sequence IS NOT NULL AND state IN ('queued', 'running', 'retrying')
                          AND (organisation_id, sequence) > (l.organisation, l.sequence)
                          AND organisation_id <= $6
                        ORDER BY organisation_id, sequence LIMIT 1) AS following
                    WHERE l.nth < $4
                ), share (id) AS (
                    (SELECT share FROM job
                     WHERE sequence IS NULL AND state IN ('queued', 'running', 'retrying')
                       AND share BETWEEN $1 AND $6
                     ORDER BY share, acceptance LIMIT 1)
                    UNION ALL
                    SELECT following.id
                    FROM share s CROSS JOIN LATERAL (
                        SELECT share AS id FROM job
                        WHERE sequence IS NULL AND state IN ('queued', 'running', 'retrying') AND share > s.id
                        ORDER BY share, acceptance LIMIT 1) AS following
                    WHERE s.id < $6
                ), head AS (
                    -- the first of a line may run up to the place of the second
                    SELECT l.organisation AS share, first.id, first.acceptance, first.in_order,
                           (SELECT e.acceptance FROM job e
                            WHERE e.sequence = l.sequence AND e.id <> first.id AND e.state IN ('queued', 'running', 'retrying')
                              AND e.out_of_line_until IS NULL AND e.kind <> 'stock.send'
                            ORDER BY e.acceptance LIMIT 1) AS end_of_turn
                    FROM line l
                    CROSS JOIN LATERAL (
                        SELECT j.id, j.acceptance, j.in_order FROM job j
                        WHERE j.sequence = l.sequence AND j.state IN ('queued', 'running', 'retrying')
                          AND j.out_of_line_until IS NULL AND j.kind <> 'stock.send'
                        ORDER BY j.acceptance LIMIT 1) AS first
                    UNION ALL
                    SELECT s.id, j.id, j.acceptance, j.in_order, NULL
                    FROM share s
                    CROSS JOIN LATERAL (
                        SELECT j.id, j.acceptance, j.in_order FROM job j
                        CROSS JOIN LATERAL (
                            SELECT FROM (SELECT state, calls_partner, next_attempt_at FROM job_chunk
                                         WHERE job_id = j.id AND state IN ('queued', 'running') ORDER BY number OFFSET 0) AS live
                            WHERE live.state = 'queued' AND NOT live.calls_partner AND live.next_attempt_at <= now() LIMIT 1) AS due
                        WHERE j.sequence IS NULL AND j.state IN ('queued', 'running', 'retrying')
                          AND j.share BETWEEN s.id AND s.id
                        ORDER BY j.share, j.acceptance LIMIT $2) AS j
                )
                SELECT placed.job_id, placed.number, placed.since
                FROM (SELECT h.acceptance, d.job_id, d.number, d.since,
                             -- dry runs (super::preview::BEHIND) when nothing else is due
                             row_number() OVER (PARTITION BY h.share ORDER BY h.acceptance >= 4611686018427387904, d.nth, h.acceptance) AS place
                      FROM head h
                      CROSS JOIN LATERAL (
                          SELECT taken.job_id, taken.number, taken.since, row_number() OVER () AS nth
                          FROM (SELECT live.job_id, live.number, live.since
                                FROM (SELECT job_id, number, state, calls_partner, acceptance, next_attempt_at AS since
                                      FROM job_chunk
                                      WHERE job_id = h.id AND state IN ('queued', 'running') ORDER BY number OFFSET 0) AS live
                                WHERE live.state = 'queued' AND NOT live.calls_partner AND live.since <= now()
                                  AND (h.end_of_turn IS NULL OR coalesce(live.acceptance, h.acceptance) < h.end_of_turn)
                                  -- of a job in order the first, while none of it runs
                                  AND NOT (h.in_order AND EXISTS (
                                      SELECT FROM job_chunk r WHERE r.job_id = h.id AND r.state = 'running'))
                                LIMIT CASE WHEN h.in_order THEN 1::bigint ELSE $3::bigint END) AS taken) AS d) AS placed
                WHERE placed.place <= $2
                -- one of each share, then a second of each
                ORDER BY placed.place, placed.acceptance LIMIT $5) AS c "#
            + $tail
            $(, $parameter)*
        )
    };
}

/// Reads the calls of partners that are due as `c`: `$1` the first share, `$2` the limit per share, `$3` in total, `$4` the last
/// share.
macro_rules! due_calls {
    ($head:literal, $tail:literal $(, $parameter:expr)* $(,)?) => {
        sqlx::query!(
            $head
            + r#" FROM (
                WITH RECURSIVE share (id) AS (
                    (SELECT organisation_id FROM job
                     WHERE source IS NOT NULL AND state IN ('queued', 'running', 'retrying')
                       AND organisation_id BETWEEN $1 AND $4
                     ORDER BY organisation_id, acceptance LIMIT 1)
                    UNION ALL
                    SELECT following.organisation_id
                    FROM share s CROSS JOIN LATERAL (
                        SELECT organisation_id FROM job
                        WHERE source IS NOT NULL AND state IN ('queued', 'running', 'retrying') AND organisation_id > s.id
                        ORDER BY organisation_id, acceptance LIMIT 1) AS following
                    WHERE s.id < $4
                )
                SELECT d.job_id, d.number, d.since
                FROM share s
                CROSS JOIN LATERAL (
                    SELECT found.*, row_number() OVER () AS place
                    FROM (SELECT j.acceptance, call.job_id, call.number, call.since
                          FROM job j
                          -- of send-outs, only the first in its line
                          LEFT JOIN LATERAL (
                              SELECT e.acceptance FROM job e
                              WHERE e.sequence = j.sequence AND e.id <> j.id AND e.state IN ('queued', 'running', 'retrying')
                                AND e.out_of_line_until IS NULL AND e.kind = 'stock.send'
                              ORDER BY e.acceptance LIMIT 1
                          ) AS other ON j.kind = 'stock.send'
                          CROSS JOIN LATERAL (
                              SELECT live.job_id, live.number, live.since
                              FROM (SELECT job_id, number, state, calls_partner, next_attempt_at AS since FROM job_chunk
                                    WHERE job_id = j.id AND state IN ('queued', 'running') ORDER BY number OFFSET 0) AS live
                              WHERE live.state = 'queued' AND live.calls_partner AND live.since <= now() LIMIT 1) AS call
                          WHERE j.source IS NOT NULL AND j.state IN ('queued', 'running', 'retrying')
                            AND j.organisation_id BETWEEN s.id AND s.id
                            AND CASE WHEN j.kind <> 'stock.send'
                                -- pulls of one source follow each other
                                THEN j.state <> 'queued' OR NOT EXISTS (
                                    SELECT FROM job e
                                    WHERE e.sequence = j.sequence AND e.kind = j.kind AND e.source = j.source AND e.id <> j.id
                                      AND e.state IN ('running', 'retrying'))
                                ELSE (j.out_of_line_until IS NULL OR j.out_of_line_until <= now())
                                     AND (other.acceptance IS NULL OR j.acceptance < other.acceptance) END
                          ORDER BY j.organisation_id, j.acceptance LIMIT $2) AS found) AS d
                ORDER BY d.place, d.acceptance LIMIT $3) AS c "#
            + $tail
            $(, $parameter)*
        )
    };
}

/// Chunks that are due, each with the queue it belongs on: of each share its window, taken in turns, and what dead
/// processes held. Any number of processes may ask: a queue takes each name once. Neither waiting or running chunks nor
/// chunks of another queue, which may be paused, hide those behind them.
pub async fn due(db: &PgPool) -> Result<Vec<(Queue, String)>, Problem> {
    Looks::default().due(db).await
}

/// What a process remembers from one look at all to the next.
#[derive(Debug, Default)]
pub struct Looks {
    /// Leases that ended earlier were all renewed, or given up.
    none_before: Option<DateTime<Utc>>,
    /// When it looks again whose turn it is.
    rest_until: Option<Instant>,
}

impl Looks {
    /// The same as [`due`]. While the look for turns rests, only what dead processes held.
    pub async fn due(&mut self, db: &PgPool) -> Result<Vec<(Queue, String)>, Problem> {
        let mut due = self.left_behind(db).await?;
        let started = Instant::now();
        if self.rest_until.is_some_and(|until| started < until) {
            return Ok(due);
        }
        due.extend(chunks_of(db, None).await?.into_iter().map(|name| (Queue::Chunk, name)));
        due.extend(calls_of(db, None).await?.into_iter().map(|name| (Queue::Partner, name)));
        self.rest_until = rest::after(started.elapsed()).map(|rest| Instant::now() + rest);
        Ok(due)
    }

    /// What a process held that did not renew it.
    async fn left_behind(&mut self, db: &PgPool) -> Result<Vec<(Queue, String)>, Problem> {
        let found = sqlx::query!(
            r#"SELECT now() AS "now!", c.job_id AS "job_id?", c.number AS "number?", c.calls_partner AS "calls_partner?",
                      c.leased_until AS "leased_until?"
               FROM (SELECT) AS one LEFT JOIN (
                   SELECT c.job_id, c.number, c.calls_partner, c.leased_until FROM job_chunk c
                   JOIN job j ON j.id = c.job_id AND j.state IN ('queued', 'running', 'retrying')
                   WHERE c.state = 'running' AND c.leased_until BETWEEN coalesce($2::timestamptz, '-infinity') AND now()
                   ORDER BY c.leased_until LIMIT $1) AS c ON true
               ORDER BY c.leased_until"#,
            MOST,
            self.none_before as Option<DateTime<Utc>>,
        )
        .fetch_all(db)
        .await?;
        self.none_before =
            found.first().map(|first| first.leased_until.unwrap_or(first.now).min(first.now - LATE));
        let name = |job: Option<Uuid>, number: Option<i32>| Some(chunk_name(job?.into(), number?));
        Ok(found
            .into_iter()
            .filter_map(|c| Some((queue_of(c.calls_partner?), name(c.job_id, c.number)?)))
            .collect())
    }
}

async fn chunks_of(db: &PgPool, share: Option<Uuid>) -> Result<Vec<String>, Problem> {
    let (first, last) = shares(share);
    let due = due_chunks!(
        r#"SELECT c.job_id AS "job_id!", c.number AS "number!""#,
        "",
        first,
        WINDOW,
        WINDOW,
        if share.is_some() { LINES } else { ALL_LINES },
        MOST,
        last,
    )
    .fetch_all(db)
    .await?;
    Ok(due.into_iter().map(|c| chunk_name(c.job_id.into(), c.number)).collect())
}

async fn calls_of(db: &PgPool, share: Option<Uuid>) -> Result<Vec<String>, Problem> {
    let (first, last) = shares(share);
    let due =
        due_calls!(r#"SELECT c.job_id AS "job_id!", c.number AS "number!""#, "", first, WINDOW, MOST, last)
            .fetch_all(db)
            .await?;
    Ok(due.into_iter().map(|c| chunk_name(c.job_id.into(), c.number)).collect())
}

/// The organisation of a job that calls a partner; nothing if the job was removed.
pub async fn organisation_of(db: &PgPool, job: JobId) -> Result<Option<OrganisationId>, Problem> {
    let found = sqlx::query_scalar!(
        r#"SELECT organisation_id AS "organisation: OrganisationId" FROM job WHERE id = $1"#,
        job.get()
    );
    Ok(found.fetch_optional(db).await?.flatten())
}

/// Notes that something of an organisation, or of no single one, may be due on a queue: it is handed over after the commit.
pub fn note(change: &mut Change<'_>, queue: Queue, organisation: Option<OrganisationId>) {
    change.note_turn(queue, share_of(organisation), |services, queue, share| {
        Box::pin(hand_over(services, queue, share))
    });
}

/// After a commit that made something of a share due, or took something of it from a queue: puts there what is in its
/// window. What goes wrong, and what comes while its looks rest, is left to the dispatcher.
pub async fn hand_over(services: &Services, queue: Queue, share: Uuid) {
    if services.rests.has(queue.name(), share) {
        return;
    }
    let started = Instant::now();
    let found = match queue {
        Queue::Partner => calls_of(&services.db.main, Some(share)).await,
        _ => chunks_of(&services.db.main, Some(share)).await,
    };
    services.rests.note(queue.name(), share, started.elapsed());
    match found {
        Ok(names) => services.queues.hand_over(queue, names),
        Err(error) => {
            tracing::debug!(%error, queue.name = %queue, "due work was not queued; the dispatcher will queue it");
        }
    }
}

/// What a queue could begin now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Waiting {
    /// The queue.
    pub queue: Queue,
    /// Chunks that are due, counted up to what one look finds, and up to a few of each job.
    pub due: i64,
    /// For how long the oldest of them has been due, in seconds; nothing where none is.
    pub oldest_seconds: Option<f64>,
}

/// How much is due, for monitoring: what [`due`] finds, and what is behind the windows.
pub async fn waiting(db: &PgPool) -> Result<Vec<Waiting>, Problem> {
    let left = sqlx::query!(
        r#"SELECT count(*) FILTER (WHERE NOT c.calls_partner) AS "chunks!", count(*) FILTER (WHERE c.calls_partner) AS "calls!",
                  min(c.leased_until) FILTER (WHERE NOT c.calls_partner) AS chunks_since,
                  min(c.leased_until) FILTER (WHERE c.calls_partner) AS calls_since, now() AS "now!"
           FROM job_chunk c JOIN job j ON j.id = c.job_id AND j.state IN ('queued', 'running', 'retrying')
           WHERE c.state = 'running' AND c.leased_until <= now()"#
    )
    .fetch_one(db)
    .await?;
    let (first, last) = shares(None);
    let chunks = due_chunks!(
        r#"SELECT count(*) AS "due!", min(c.since) AS since"#,
        "",
        first,
        COUNTED_JOBS,
        COUNTED_CHUNKS,
        ALL_LINES,
        MOST,
        last,
    )
    .fetch_one(db)
    .await?;
    let calls = due_calls!(
        r#"SELECT count(*) AS "due!", min(c.since) AS since"#,
        "",
        first,
        COUNTED_JOBS,
        MOST,
        last,
    )
    .fetch_one(db)
    .await?;
    let waiting = |queue, due, since: [Option<DateTime<Utc>>; 2]| {
        let oldest = since.into_iter().flatten().min();
        let oldest_seconds = oldest.map(|since| (left.now - since).as_seconds_f64().max(0.0));
        Waiting { queue, due, oldest_seconds }
    };
    Ok(vec![
        waiting(Queue::Chunk, left.chunks + chunks.due, [left.chunks_since, chunks.since]),
        waiting(Queue::Partner, left.calls + calls.due, [left.calls_since, calls.since]),
    ])
}

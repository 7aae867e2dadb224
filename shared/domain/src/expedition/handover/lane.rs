//! The lane of a wms: who calls its system, one worker at a time. It is leased as the lane of a webhook is
//! ([`crate::webhook::lane`]), and a failing system is probed by one call by the same [`Breaker`].

use chrono::{DateTime, Utc};
use http::{HeaderName, HeaderValue};
use tokio::time::Instant;

use super::setting;
use crate::calling::breaker::Breaker;
use crate::calling::signature::Signer;
use crate::calling::{LEASE, PostgresTime, renewal};
use longshore_kernel::database::Database;
use longshore_kernel::ids::{OrganisationId, WmsId};
use longshore_kernel::problem::Problem;
use longshore_kernel::services::Services;

/// A leased lane, and what is needed to call.
#[derive(Debug)]
pub struct Lease {
    /// The wms.
    pub wms: WmsId,
    /// Fencing token of this lease.
    pub token: i64,
    /// Whose it is.
    pub organisation: OrganisationId,
    /// Where its system is.
    pub base_url: String,
    /// Signs with its live secrets.
    pub signer: Signer,
    /// The header that authenticates to it.
    pub authentication: Option<(HeaderName, HeaderValue)>,
    /// How many calls may be under way at once.
    pub max_in_flight: usize,
    /// The state of its breaker. Where it is open, its pause is over: one probe may be made.
    pub breaker: Breaker,
    /// The version of the setting that this is of.
    pub version: DateTime<Utc>,
    /// How often its secret had been rotated when the secrets were read.
    pub rotations: i32,
    /// The clock for the timestamps of calls.
    pub time: PostgresTime,
    /// The lease holds until then at least, unless it is renewed.
    pub until: Instant,
}

/// Leases a lane that is free: its setting is active and not paused, and no probe or pause is waited for.
pub async fn lease(services: &Services, wms: WmsId) -> Result<Option<Lease>, Problem> {
    let until = Instant::now() + LEASE;
    let row = sqlx::query!(
        r#"WITH free AS MATERIALIZED (
               SELECT l.wms_id FROM wms_lane l
               WHERE l.wms_id = $1 AND l.leased_until < now() AND coalesce(greatest(l.probe_at, l.held_until) <= now(), true)
                 -- of a wms whose secret is being rotated, the setting may be read as it was before
                 AND (SELECT s.active AND NOT s.paused AND s.rotations = l.rotations FROM wms_setting s WHERE s.wms_id = l.wms_id)
               FOR NO KEY UPDATE SKIP LOCKED
           ), leased AS (
               UPDATE wms_lane l
               SET token = greatest(l.token + 1, (extract(epoch FROM clock_timestamp()) * 1e6)::bigint),
                   leased_until = now() + make_interval(secs => $2), ending = false
               WHERE l.wms_id = ANY (ARRAY(SELECT wms_id FROM free))
               RETURNING l.token, l.rotations, l.failures, CASE WHEN l.probe_at IS NOT NULL THEN l.probes END AS probes
           )
           SELECT leased.token, leased.rotations, leased.failures, leased.probes, clock_timestamp() AS "now!",
                  s.organisation_id AS "organisation: OrganisationId", s.base_url, s.credentials, s.secret, s.max_in_flight,
                  s.changed_at,
                  ARRAY(SELECT f.secret FROM wms_former_secret f WHERE f.wms_id = $1 AND f.signs_until > now()
                        ORDER BY f.signs_until DESC) AS "former!"
           FROM leased CROSS JOIN wms_setting s WHERE s.wms_id = $1"#,
        wms.get(),
        LEASE.as_secs_f64(),
    )
    .fetch_optional(&services.db.main)
    .await?;
    let read = Instant::now();
    let Some(row) = row else { return Ok(None) };
    let vault = &services.vault;
    let secrets = std::iter::once(&row.secret)
        .chain(&row.former)
        .map(|sealed| setting::open_secret(vault, wms, sealed))
        .collect::<Result<Vec<_>, _>>()?;
    let authentication = setting::open_credentials(vault, wms, &row.credentials)?.header();
    Ok(Some(Lease {
        wms,
        token: row.token,
        organisation: row.organisation,
        base_url: row.base_url,
        signer: Signer::new(secrets),
        authentication,
        max_in_flight: usize::try_from(row.max_in_flight).unwrap_or(1),
        breaker: Breaker::stored(row.failures.unsigned_abs(), row.probes.map(i32::unsigned_abs)),
        version: row.changed_at,
        rotations: row.rotations,
        time: PostgresTime::new(row.now, read),
        until,
    }))
}

renewal!(
    "wms_lane",
    "wms_id",
    wms,
    "EXISTS (SELECT FROM wms_setting s
             WHERE s.wms_id = l.wms_id AND s.active AND NOT s.paused AND s.changed_at = $4)",
);

/// Gives a lease back, then answers whether something is due that another worker may have passed over meanwhile.
pub async fn release(db: &Database, lease: &Lease) -> Result<bool, Problem> {
    sqlx::query!(
        "UPDATE wms_lane SET leased_until = '-infinity' WHERE wms_id = $1 AND token = $2",
        lease.wms.get(),
        lease.token,
    )
    .execute(&db.main)
    .await?;
    // a separate statement: its snapshot must be newer than the release
    Ok(due_of(db, Some(lease.wms)).await?.contains(&lease.wms))
}

/// The wms whose lane is free, may call (or probe), and has something due.
pub async fn due(db: &Database) -> Result<Vec<WmsId>, Problem> {
    due_of(db, None).await
}

async fn due_of(db: &Database, wms: Option<WmsId>) -> Result<Vec<WmsId>, Problem> {
    let due = sqlx::query_scalar!(
        r#"SELECT l.wms_id AS "id: WmsId" FROM wms_lane l JOIN wms_setting s ON s.wms_id = l.wms_id
           WHERE s.active AND NOT s.paused AND ($1::uuid IS NULL OR l.wms_id = $1) AND l.leased_until < now()
             AND coalesce(greatest(l.probe_at, l.held_until) <= now(), true) AND handover_is_due(l.wms_id)"#,
        wms as Option<WmsId>,
    )
    .fetch_all(&db.main)
    .await?;
    Ok(due)
}

/// The wms as the state of their queue counts them.
#[derive(Clone, Copy, Debug)]
pub struct Backlog {
    /// Those with orders that wait for a call or its answer.
    pub open: i64,
    /// Those that a worker calls now.
    pub running: i64,
    /// Those that could be called now.
    pub due: i64,
}

/// Counts them.
pub async fn backlog(db: &Database) -> Result<Backlog, Problem> {
    let counted = async {
        let counted = sqlx::query!(
            r#"SELECT (SELECT count(*) FROM wms_lane WHERE leased_until > now()) AS "running!",
                      (SELECT count(*) FROM wms_setting s
                       WHERE s.active
                         AND (EXISTS (SELECT FROM expedition_handover h
                                      WHERE h.handover_wms_id = s.wms_id AND h.handover_state = 'pending')
                           OR EXISTS (SELECT FROM expedition_handover h
                                      WHERE h.handover_wms_id = s.wms_id AND h.handover_state IN ('sending', 'withdrawing'))))
                          AS "open!""#
        );
        Ok(counted.fetch_one(&db.main).await?)
    };
    let (counted, due) = tokio::try_join!(counted, due(db))?;
    let due = i64::try_from(due.len()).map_err(Problem::internal)?;
    Ok(Backlog { open: counted.open, running: counted.running, due })
}

/// Whose wms it is; nothing where it has no setting.
pub async fn owner(db: &Database, wms: WmsId) -> Result<Option<OrganisationId>, Problem> {
    let owner = sqlx::query_scalar!(
        r#"SELECT organisation_id AS "id: OrganisationId" FROM wms_setting WHERE wms_id = $1"#,
        wms.get(),
    )
    .fetch_optional(&db.main)
    .await?;
    Ok(owner)
}

/// The wms that are furthest behind, and for how long their oldest order has waited for a call or its answer, in seconds.
pub async fn behind(db: &Database) -> Result<Vec<(WmsId, f64)>, Problem> {
    let behind = sqlx::query!(
        r#"SELECT s.wms_id AS "wms: WmsId", extract(epoch FROM now() - w.since)::float8 AS "seconds!"
           FROM wms_setting s
           CROSS JOIN LATERAL (
               SELECT least(
                   (SELECT min(h.handover_since) FROM expedition_handover h
                    WHERE h.handover_wms_id = s.wms_id AND h.handover_state = 'pending'),
                   (SELECT min(h.handover_since) FROM expedition_handover h
                    WHERE h.handover_wms_id = s.wms_id AND h.handover_state IN ('sending', 'withdrawing'))) AS since
           ) w
           WHERE s.active AND w.since IS NOT NULL ORDER BY w.since LIMIT $1"#,
        SHOWN,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(behind.into_iter().map(|row| (row.wms, row.seconds)).collect())
}

/// Wms that the metrics show.
const SHOWN: i64 = 20;

//! What outcomes say of the systems of their lanes: the breakers, pauses, and the last failure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use uuid::Uuid;

use super::{Answer, Outcome};
use crate::calling::breaker::{self, Breaker, Tally};
use longshore_kernel::change::Change;
use longshore_kernel::crypto::random_offset;
use longshore_kernel::ids::{ExpeditionId, WmsId};
use longshore_kernel::problem::Problem;
use longshore_kernel::services::Services;

/// The lanes that outcomes are of, and whether each was well before: nothing failed, and no error is shown.
pub(super) struct Lanes(BTreeMap<(WmsId, i64), bool>);

impl Lanes {
    pub(super) async fn read(services: &Services, outcomes: &[Outcome]) -> Result<Self, Problem> {
        let wmses: Vec<WmsId> = outcomes.iter().map(|outcome| outcome.wms).collect();
        let rows = sqlx::query!(
            r#"SELECT wms_id AS "wms: WmsId", token, failures, CASE WHEN probe_at IS NOT NULL THEN probes END AS probes,
                      error IS NOT NULL AS "has_error!"
               FROM wms_lane WHERE wms_id = ANY($1)"#,
            &wmses as &[WmsId],
        )
        .fetch_all(&services.db.main)
        .await?;
        let breaker = |failures: i32, probes: Option<i32>| {
            Breaker::stored(failures.unsigned_abs(), probes.map(i32::unsigned_abs))
        };
        let lanes = rows.into_iter().map(|row| {
            let is_well = !row.has_error && !breaker(row.failures, row.probes).has_failed();
            ((row.wms, row.token), is_well)
        });
        Ok(Self(lanes.collect()))
    }

    pub(super) fn is_live(&self, outcome: &Outcome) -> bool {
        self.0.contains_key(&(outcome.wms, outcome.token))
    }

    /// Steps the breakers of lanes. One that is well, and stays so, is not written. Returns those that are locked: their outcomes
    /// do not count yet.
    pub(super) async fn count(
        &self,
        services: &Services,
        outcomes: &[&Outcome],
    ) -> Result<BTreeSet<WmsId>, Problem> {
        let mut lanes_of =
            BTreeMap::<(WmsId, i64), (Tally, Option<Duration>, Option<(&str, ExpeditionId)>)>::new();
        for outcome in outcomes {
            let lane = lanes_of.entry((outcome.wms, outcome.token)).or_default();
            if let Some(sign) = outcome.sign() {
                lane.0.add(sign);
            }
            match &outcome.answer {
                Answer::Failed { error, hold, .. } => {
                    lane.1 = lane.1.max(*hold);
                    lane.2 = Some((error, outcome.expedition));
                }
                Answer::NotCalled => {}
                // that of another order stays
                _ => lane.2 = lane.2.filter(|(_, failed)| *failed != outcome.expedition),
            }
        }
        lanes_of.retain(|lane, (tally, hold, _)| {
            let is_well = self.0.get(lane).copied().unwrap_or_default();
            tally.failures > 0 || hold.is_some() || (tally.succeeded && !is_well)
        });
        let mut locked = BTreeSet::new();
        if lanes_of.is_empty() {
            return Ok(locked);
        }
        let mut change = Change::begin_together(services).await?;
        for ((wms, token), (tally, hold, error)) in lanes_of {
            if !count(&mut change, wms, token, tally, hold, error).await? {
                locked.insert(wms);
            }
        }
        change.commit().await?;
        Ok(locked)
    }
}

/// Steps the breaker of one lane, under its lock; `false` if another has that, or has leased the lane since: the next look tells.
async fn count(
    change: &mut Change<'_>,
    wms: WmsId,
    token: i64,
    tally: Tally,
    hold: Option<Duration>,
    error: Option<(&str, ExpeditionId)>,
) -> Result<bool, sqlx::Error> {
    let row = sqlx::query!(
        "SELECT failures, CASE WHEN probe_at IS NOT NULL THEN probes END AS probes
         FROM wms_lane WHERE wms_id = $1 AND token = $2 FOR NO KEY UPDATE SKIP LOCKED",
        wms.get(),
        token,
    )
    .fetch_optional(change.connection())
    .await?;
    let Some(row) = row else { return Ok(false) };
    let before = Breaker::stored(row.failures.unsigned_abs(), row.probes.map(i32::unsigned_abs));
    let (failures, probes) = match before.after(tally) {
        Breaker::Closed { failures } => (failures, None),
        Breaker::Open { failures, probes } => (failures, Some(probes)),
    };
    // what was under way when it opened moves no probe
    let is_paused_anew = probes.is_some() && (!before.is_open() || tally.succeeded || tally.probes > 0);
    let pause = probes.filter(|_| is_paused_anew).map(|n| breaker::pause(n, random_offset()).as_secs_f64());
    // an error is shown for as long as its order waits to be called again, although other calls succeed
    sqlx::query!(
        "UPDATE wms_lane l
         SET failures = $3, probes = coalesce($4, 0),
             failing_since = CASE WHEN $3 = 0 THEN NULL WHEN $5 THEN now() ELSE coalesce(failing_since, now()) END,
             probe_at = CASE WHEN $4::int IS NULL THEN NULL ELSE coalesce(now() + make_interval(secs => $6), probe_at) END,
             held_until = CASE WHEN $7::float8 > 0 THEN greatest(held_until, now() + make_interval(secs => $7)) ELSE held_until END,
             error = CASE WHEN $8::text IS NOT NULL THEN $8 WHEN is_over THEN other.error ELSE l.error END,
             error_at = CASE WHEN $8::text IS NOT NULL THEN now() WHEN is_over THEN other.at ELSE error_at END,
             error_expedition_id = CASE WHEN $8::text IS NOT NULL THEN $9 WHEN is_over THEN other.id ELSE error_expedition_id END
         FROM (SELECT $5 AND NOT EXISTS (
                   SELECT FROM wms_lane w JOIN expedition_handover h ON h.id = w.error_expedition_id
                   WHERE w.wms_id = $1 AND h.handover_wms_id = $1
                     AND h.handover_state IN ('pending', 'sending', 'withdrawing')) AS is_over) AS own
         -- that of another order that waits, the one whose next call is furthest away
         LEFT JOIN LATERAL (
             SELECT h.id, h.error, h.at FROM (
                 SELECT id, handover_error AS error, handover_since AS at FROM expedition_handover
                 WHERE handover_wms_id = $1 AND handover_state IN ('sending', 'withdrawing') AND handover_next_attempt_at > now()
                 ORDER BY handover_wms_id DESC, handover_next_attempt_at DESC, id DESC LIMIT 100) AS h
             WHERE h.error IS NOT NULL AND own.is_over LIMIT 1) AS other ON true
         WHERE l.wms_id = $1 AND l.token = $2",
        wms.get(),
        token,
        i32::try_from(failures).unwrap_or(i32::MAX),
        probes.map(|n| i32::try_from(n).unwrap_or(i32::MAX)) as Option<i32>,
        tally.succeeded,
        pause as Option<f64>,
        hold.unwrap_or_default().as_secs_f64(),
        error.map(|(error, _)| error) as Option<&str>,
        error.map(|(_, id)| id.get()) as Option<Uuid>,
    )
    .execute(change.connection())
    .await
    .map(|_| true)
}

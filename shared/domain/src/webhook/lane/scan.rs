//! Looking over all lanes for those that have something to send.

use std::collections::HashMap;

use chrono::{DateTime, Utc};

use longshore_kernel::database::Database;
use longshore_kernel::ids::{OrganisationId, WebhookId};
use longshore_kernel::problem::Problem;

/// One look over the lanes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// Active webhooks whose lane is free, may send (or probe), and has something due; organisations take turns.
    pub lanes: Vec<WebhookId>,
    /// Where the next look begins; nothing after the last lane.
    pub resume_after: Option<WebhookId>,
}

/// How lanes are looked over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// From lane to lane through the index of deliveries, independent of their backlogs: only lanes with deliveries are read. It
    /// reads what was delivered, too, as long as vacuum is kept from taking it away.
    #[default]
    ByDelivery,
    /// Each webhook from where its own deliveries begin: it reads nothing that is done, and looks at idle webhooks, too.
    ByWebhook,
}

/// Looks at up to `limit` lanes, in the order of their ids, for those that have something to do now; by delivery.
///
/// It also finds what a transaction of more than some seconds has left below the beginning of a lane, and has
/// the lane begin there.
pub async fn due(db: &Database, after: Option<WebhookId>, limit: usize) -> Result<Scan, Problem> {
    due_by(db, Way::ByDelivery, after, limit).await
}

/// The same, by one way or the other.
pub async fn due_by(
    db: &Database,
    way: Way,
    after: Option<WebhookId>,
    limit: usize,
) -> Result<Scan, Problem> {
    let after = after.unwrap_or(WebhookId::nil());
    let seen = match way {
        Way::ByDelivery => by_delivery(db, after, limit).await?,
        Way::ByWebhook => by_webhook(db, after, limit).await?,
    };
    let below: Vec<_> = seen.iter().filter(|s| s.below == Some(true)).map(|s| s.webhook).collect();
    if !below.is_empty() {
        begin_anew(db, &below).await?;
    }
    let resume_after = (seen.len() == limit).then(|| seen.last().map(|s| s.webhook)).flatten();
    let mut due: Vec<_> = seen.into_iter().filter(|s| s.due == Some(true)).collect();
    due.sort_unstable_by_key(|s| (s.next_attempt_at, s.webhook));
    let lanes =
        in_turns(due.into_iter().map(|s| (s.organisation.unwrap_or(OrganisationId::nil()), s.webhook)));
    Ok(Scan { lanes, resume_after })
}

/// A lane that was looked at.
struct Seen {
    webhook: WebhookId,
    organisation: Option<OrganisationId>,
    next_attempt_at: Option<DateTime<Utc>>,
    due: Option<bool>,
    /// It has an open delivery before its beginning.
    below: Option<bool>,
}

async fn by_delivery(db: &Database, after: WebhookId, limit: usize) -> Result<Vec<Seen>, Problem> {
    let seen = sqlx::query_as!(
        Seen,
        r#"WITH RECURSIVE seen AS (
               (SELECT webhook_id, next_attempt_at, 1 AS n FROM delivery
                WHERE webhook_id > $1 ORDER BY webhook_id, next_attempt_at, id LIMIT 1)
               UNION ALL
               SELECT next.webhook_id, next.next_attempt_at, seen.n + 1
               FROM seen CROSS JOIN LATERAL (
                   SELECT webhook_id, next_attempt_at FROM delivery
                   WHERE webhook_id > seen.webhook_id ORDER BY webhook_id, next_attempt_at, id LIMIT 1
               ) next
               WHERE seen.n < $2
           )
           SELECT seen.webhook_id AS "webhook!",
                  lane.organisation_id AS "organisation?: OrganisationId", seen.next_attempt_at AS "next_attempt_at?",
                  seen.next_attempt_at <= now() AND lane.free
                  AND (NOT lane.ordered OR coalesce(
                      (SELECT t.next_attempt_at <= now() FROM delivery t
                       WHERE t.webhook_id = seen.webhook_id AND t.attempt_count > 0
                       ORDER BY t.created_at, t.id LIMIT 1), true)) AS "due?",
                  seen.next_attempt_at < lane.nothing_before AS "below?"
           FROM seen
           LEFT JOIN LATERAL (
               SELECT w.active AND l.leased_until < now() AND coalesce(greatest(l.probe_at, l.held_until, rests_until(l.paid_until)) <= now(), true) AS free,
                      w.ordered, w.organisation_id, l.nothing_before
               FROM webhook w JOIN webhook_lane l ON l.webhook_id = w.id WHERE w.id = seen.webhook_id OFFSET 0
           ) lane ON true
           ORDER BY seen.webhook_id"#,
        after.get(),
        i32::try_from(limit).map_err(Problem::internal)?,
    )
    .fetch_all(&db.main)
    .await?;
    Ok(seen)
}

async fn by_webhook(db: &Database, after: WebhookId, limit: usize) -> Result<Vec<Seen>, Problem> {
    // each step separately through its index, independent of the statistics of the tables
    let seen = sqlx::query_as!(
        Seen,
        r#"SELECT lane.webhook_id AS "webhook!", w.organisation_id AS "organisation?: OrganisationId",
                  first.next_attempt_at AS "next_attempt_at?",
                  w.active AND lane.free AND first.next_attempt_at <= now()
                  AND (NOT w.ordered OR coalesce(
                      (SELECT t.next_attempt_at <= now() FROM delivery t
                       WHERE t.webhook_id = lane.webhook_id AND t.attempt_count > 0
                       ORDER BY t.created_at, t.id LIMIT 1), true)) AS "due?",
                  false AS "below?"
           FROM (
               SELECT l.webhook_id, l.nothing_before,
                      l.leased_until < now() AND coalesce(greatest(l.probe_at, l.held_until, rests_until(l.paid_until)) <= now(), true) AS free
               FROM webhook_lane l WHERE l.webhook_id > $1 ORDER BY l.webhook_id LIMIT $2
           ) lane
           LEFT JOIN LATERAL (
               SELECT active, ordered, organisation_id FROM webhook WHERE id = lane.webhook_id OFFSET 0
           ) w ON true
           LEFT JOIN LATERAL (
               SELECT d.next_attempt_at FROM delivery d
               WHERE d.webhook_id = lane.webhook_id AND d.next_attempt_at >= lane.nothing_before AND lane.free
               ORDER BY d.next_attempt_at, d.id LIMIT 1
           ) first ON true
           ORDER BY lane.webhook_id"#,
        after.get(),
        i64::try_from(limit).map_err(Problem::internal)?,
    )
    .fetch_all(&db.main)
    .await?;
    Ok(seen)
}

async fn begin_anew(db: &Database, webhooks: &[WebhookId]) -> Result<(), Problem> {
    sqlx::query!(
        "UPDATE webhook_lane SET nothing_before = to_timestamp(0) WHERE webhook_id = ANY (ARRAY(
             SELECT webhook_id FROM webhook_lane WHERE webhook_id = ANY ($1)
             ORDER BY webhook_id FOR NO KEY UPDATE SKIP LOCKED))",
        webhooks as &[WebhookId],
    )
    .execute(&db.main)
    .await?;
    Ok(())
}

/// Lanes so that their organisations take turns: the first of each, then the second of each, in the order in which they came.
pub(super) fn in_turns(lanes: impl IntoIterator<Item = (OrganisationId, WebhookId)>) -> Vec<WebhookId> {
    let mut counts = HashMap::<OrganisationId, usize>::new();
    let mut placed: Vec<_> = lanes
        .into_iter()
        .map(|(organisation, webhook)| {
            let before = counts.entry(organisation).or_default();
            *before += 1;
            (*before, webhook)
        })
        .collect();
    placed.sort_by_key(|(round, _)| *round);
    placed.into_iter().map(|(_, webhook)| webhook).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn organisations_take_turns_and_each_keeps_its_order() {
        let [a, b, c] = [1, 2, 3].map(OrganisationId::from_u128);
        let lane = WebhookId::from_u128;
        let lanes = [(a, 10), (a, 11), (a, 12), (b, 20), (c, 30), (b, 21)].map(|(o, n)| (o, lane(n)));
        assert_eq!(in_turns(lanes), [10, 20, 30, 11, 21, 12].map(lane));
    }
}

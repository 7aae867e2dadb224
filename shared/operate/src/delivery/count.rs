//! How many deliveries are in each state, counted in bounded time however many there are.

use longshore_domain::webhook::delivery::DeliveryState;
use longshore_kernel::access::Scope;
use longshore_kernel::database::Database;
use longshore_kernel::figure::AtLeast;
use longshore_kernel::ids::{EshopId, OrganisationId, WebhookId};
use longshore_kernel::problem::Problem;

use super::{UNSUCCESSFUL_WINDOW, WEBHOOKS, unsuccessful_webhooks, webhooks};

/// Deliveries that wait, and ended ones, that are counted; of those that did not succeed, as many of each webhook as a list looks
/// at.
const COUNTED: i64 = 1_000;

/// The deliveries of a scope by their state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct States {
    pending: AtLeast,
    delivered: AtLeast,
    exhausted: AtLeast,
    cancelled: AtLeast,
}

impl States {
    /// Those in a state.
    #[must_use]
    pub fn of(&self, state: DeliveryState) -> AtLeast {
        match state {
            DeliveryState::Pending => self.pending,
            DeliveryState::Delivered => self.delivered,
            DeliveryState::Exhausted => self.exhausted,
            DeliveryState::Cancelled => self.cancelled,
        }
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> AtLeast {
        let states = [self.pending, self.delivered, self.exhausted, self.cancelled];
        let count = states.iter().map(|state| state.count).sum();
        let all = AtLeast::up_to(count, COUNTED);
        AtLeast { is_more: all.is_more || states.iter().any(|state| state.is_more), ..all }
    }
}

/// Counts.
pub async fn states(db: &Database, scope: &Scope) -> Result<States, Problem> {
    let (pending, (delivered, is_more), (exhausted, cancelled)) =
        tokio::try_join!(waiting(db, scope), delivered(db, scope), unsuccessful(db, scope))?;
    Ok(States {
        pending: AtLeast::up_to(pending, COUNTED),
        delivered: AtLeast { count: delivered, is_more },
        exhausted,
        cancelled,
    })
}

/// What waits: of all webhooks in the order of their index, else of each webhook of the scope.
async fn waiting(db: &Database, scope: &Scope) -> Result<i64, Problem> {
    let count = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM (
               (SELECT FROM delivery WHERE $1::uuid[] IS NULL ORDER BY webhook_id, next_attempt_at, id LIMIT $3)
               UNION ALL
               (SELECT FROM webhook w CROSS JOIN LATERAL (
                    SELECT FROM delivery d WHERE d.webhook_id = ANY (ARRAY[w.id]) ORDER BY d.webhook_id, d.next_attempt_at, d.id LIMIT $3
                ) AS d
                WHERE w.organisation_id = ANY ($1) AND in_eshop($2, w.eshop_id) LIMIT $3)
           ) AS waiting"#,
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        COUNTED,
    )
    .fetch_one(&db.lists)
    .await?;
    Ok(count)
}

/// What was delivered among the newest that ended, and whether there are older ones.
async fn delivered(db: &Database, scope: &Scope) -> Result<(i64, bool), Problem> {
    let found = sqlx::query!(
        r#"SELECT count(*) FILTER (WHERE state = 'delivered') AS "delivered!", count(*) AS "ended!" FROM (
               (SELECT state FROM delivery_history WHERE $1::uuid[] IS NULL ORDER BY id DESC LIMIT $3)
               UNION ALL
               (SELECT h.state FROM unnest($1::uuid[]) AS o (id) CROSS JOIN LATERAL (
                    SELECT state FROM delivery_history
                    WHERE organisation_id BETWEEN o.id AND o.id AND $2::uuid IS NULL
                    ORDER BY organisation_id DESC, id DESC LIMIT $3
                ) AS h LIMIT $3)
               UNION ALL
               (SELECT state FROM delivery_history
                WHERE eshop_id BETWEEN $2 AND $2 AND organisation_id = ANY ($1) ORDER BY eshop_id DESC, id DESC LIMIT $3)
           ) AS newest"#,
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        COUNTED,
    )
    .fetch_one(&db.lists)
    .await?;
    Ok((found.delivered, found.ended >= COUNTED))
}

/// What was exhausted and what was cancelled: the last of each webhook that has any.
async fn unsuccessful(db: &Database, scope: &Scope) -> Result<(AtLeast, AtLeast), Problem> {
    let webhooks = match scope.organisations() {
        None => unsuccessful_webhooks(db).await?,
        Some(_) => webhooks(db, scope, scope.eshop(), None).await?,
    };
    let of_each = i64::try_from(UNSUCCESSFUL_WINDOW).map_err(Problem::internal)?;
    let found = sqlx::query!(
        r#"SELECT coalesce(sum(h.exhausted), 0)::bigint AS "exhausted!", coalesce(sum(h.cancelled), 0)::bigint AS "cancelled!",
                  coalesce(bool_or(h.ended >= $3), false) AS "is_more!"
           FROM unnest($1::uuid[]) AS hook (id) CROSS JOIN LATERAL (
               SELECT count(*) FILTER (WHERE state = 'exhausted') AS exhausted,
                      count(*) FILTER (WHERE state = 'cancelled') AS cancelled, count(*) AS ended
               FROM (SELECT state FROM delivery_history
                     WHERE webhook_id = hook.id AND state <> 'delivered' AND in_scope($2, organisation_id)
                     ORDER BY finished_at DESC LIMIT $3) AS last
           ) AS h"#,
        &webhooks as &[WebhookId],
        scope.organisations() as Option<&[OrganisationId]>,
        of_each,
    )
    .fetch_one(&db.lists)
    .await?;
    let is_more = found.is_more || webhooks.len() > WEBHOOKS;
    let at_least = |count| {
        let counted = AtLeast::up_to(count, COUNTED);
        AtLeast { is_more: is_more || counted.is_more, ..counted }
    };
    Ok((at_least(found.exhausted), at_least(found.cancelled)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_of_counts_that_stopped_says_so() {
        let exhausted = AtLeast { count: 3, is_more: false };
        let delivered = AtLeast { count: 999, is_more: true };
        let states = States { delivered, exhausted, ..States::default() };
        assert_eq!(states.all().in_words(), "1,000+");
    }
}

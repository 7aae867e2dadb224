//! Holding a lane back for a change of its webhook, and ending its waits for a person.

use std::time::Duration;

use sqlx::PgConnection;

use crate::calling::secret;
use longshore_kernel::access::Scope;
use longshore_kernel::database::Database;
use longshore_kernel::ids::{EshopId, OrganisationId, TokenId, WebhookId};
use longshore_kernel::problem::Problem;
use longshore_kernel::services::Services;

/// How long a lane is held back at most: longer than a deletion waits for a lock.
const HELD_BACK: Duration = Duration::from_secs(10);

/// Grants no lease of a lane for [`HELD_BACK`], and returns the token of its holder, which may begin no more calls from its next
/// renewal on. Nothing where the caller may not see the webhook. This replaces a longer hold, which might be
/// [ended](end_wait) meanwhile.
pub(in crate::webhook) async fn hold_back(
    db: &Database,
    scope: &Scope,
    webhook: WebhookId,
) -> Result<Option<i64>, Problem> {
    let lane = sqlx::query!(
        r#"UPDATE webhook_lane l
           SET held_until = clock_timestamp() + make_interval(secs => $4)
           WHERE l.webhook_id = $3 AND EXISTS (
               SELECT FROM webhook w
               WHERE in_scope($1, w.organisation_id) AND in_eshop($2, w.eshop_id) AND in_hands($5, w.made_by) AND w.id = l.webhook_id)
           RETURNING token, leased_until >= clock_timestamp() AS "held!""#,
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        webhook.get(),
        HELD_BACK.as_secs_f64(),
        scope.maker() as Option<TokenId>,
    )
    .fetch_optional(&db.main)
    .await?;
    Ok(lane.filter(|lane| lane.held).map(|lane| lane.token))
}

/// Waits [until no call can begin](secret::until_ending) with what was read under this lease. A hint makes the holder of a lane
/// without a turn look at once.
pub(in crate::webhook) async fn until_ending(services: &Services, webhook: WebhookId, token: i64) {
    services.queues.hand_over_hints(&services.vault, [webhook.into()]);
    secret::until_ending(&services.db, webhook, token).await;
}

/// Somebody is waiting for the result: a lane that waits for its next probe, or for as long as its destination asked, is served
/// now. Whether it waited.
///
/// A hold that ends within [`HELD_BACK`] anyway stays: it may be that of a deletion, which relies on it. It is compared with the clock, since a
/// deletion may set it after this transaction began.
pub(in crate::webhook) async fn end_wait(
    connection: &mut PgConnection,
    webhook: WebhookId,
) -> Result<bool, sqlx::Error> {
    let ended = sqlx::query!(
        "UPDATE webhook_lane
         SET probe_at = CASE WHEN probe_at > now() THEN now() ELSE probe_at END,
             held_until = CASE WHEN held_until > clock_timestamp() + make_interval(secs => $2) THEN NULL ELSE held_until END
         WHERE webhook_id = $1 AND (probe_at > now() OR held_until > clock_timestamp() + make_interval(secs => $2))",
        webhook.get(),
        HELD_BACK.as_secs_f64(),
    )
    .execute(connection)
    .await?;
    Ok(ended.rows_affected() > 0)
}

//! The webhooks and readers that a connector has made: they are those of its token. Where that ends, in whatever way, its webhooks are
//! deactivated; a successor takes them over before (`docs/reference/accounts.md#access-tokens`).

use sqlx::PgConnection;

use longshore_kernel::change::Change;
use longshore_kernel::context::Origin;
use longshore_kernel::ids::TokenId;
use longshore_kernel::problem::Problem;
use longshore_kernel::record_change;
use longshore_kernel::services::Services;

/// `disabledReason` of a webhook whose token has ended.
const ENDED: &str = "the access token that made it has ended";

/// Holds a token to the end of the transaction: what it makes comes before its end, or not at all; and concurrent creations by it follow
/// each other.
///
/// # Errors
/// It has ended.
pub async fn hold(connection: &mut PgConnection, token: TokenId) -> Result<(), Problem> {
    let held = sqlx::query_scalar!(
        "SELECT id FROM access_token
         WHERE id = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now()) FOR NO KEY UPDATE",
        token.get(),
    );
    held.fetch_optional(connection).await?.map(|_| ()).ok_or_else(super::unknown)
}

/// Gives what a token has made to its successor.
pub(super) async fn pass_on(
    connection: &mut PgConnection,
    from: TokenId,
    to: TokenId,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "WITH readers AS (UPDATE event_reader SET made_by = $2 WHERE made_by = $1)
         UPDATE webhook SET made_by = $2 WHERE made_by = $1",
        from.get(),
        to.get(),
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Deactivates the active webhooks of tokens that have ended; returns how many.
///
/// # Errors
/// Those of the database.
pub async fn deactivate_left(services: &Services) -> Result<u64, Problem> {
    let mut change = Change::begin(services).await?;
    let count = deactivate_of(&mut change, &Origin::schedule("upkeep"), false).await?;
    change.commit().await?;
    Ok(count)
}

/// The same of those that this transaction ends.
pub(super) async fn deactivate(change: &mut Change<'_>, origin: &Origin) -> Result<u64, sqlx::Error> {
    deactivate_of(change, origin, true).await
}

/// A worker that has read such a webhook gets no more leases.
async fn deactivate_of(
    change: &mut Change<'_>,
    origin: &Origin,
    ended_now: bool,
) -> Result<u64, sqlx::Error> {
    let recorded = record_change!(
        change.connection(),
        origin,
        "webhook.disable",
        "webhook",
        None,
        "WITH ended AS MATERIALIZED (
             SELECT id FROM access_token
             WHERE $10 AND revoked_at = now() AND num_nonnulls(admin_id, business_user_id) = 0
             UNION ALL
             SELECT t.id FROM webhook w JOIN access_token t ON t.id = w.made_by
             WHERE NOT $10 AND w.made_by IS NOT NULL AND w.active AND (t.revoked_at IS NOT NULL OR t.expires_at <= now())
         ), left_behind AS MATERIALIZED (
             SELECT id FROM webhook WHERE made_by = ANY (ARRAY(SELECT id FROM ended)) AND active ORDER BY id FOR UPDATE
         ), made AS (
             UPDATE webhook SET active = false, disabled_at = now(), disabled_reason = $9, rotations = rotations + 1, version = version + 1
             WHERE id = ANY (ARRAY(SELECT id FROM left_behind)) RETURNING *
         ), lanes AS (
             UPDATE webhook_lane SET rotations = rotations + 1 WHERE webhook_id = ANY (ARRAY(SELECT id FROM left_behind))
         ), changed AS (
             SELECT id AS entity, version, changed_at AS at, organisation_id AS organisation, '{}'::uuid[] AS eshops,
                    jsonb_build_object('active', jsonb_build_array(true, false),
                        'disabledReason', jsonb_build_array(NULL, disabled_reason)) AS changes,
                    '{}'::jsonb AS data
             FROM made
         )",
        ENDED,
        ended_now,
    )
    .await?;
    Ok(change.note(recorded).unsigned_abs())
}

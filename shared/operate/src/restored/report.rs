//! What a restore brings back without anybody knowing, and an operator has to look at.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;

use super::time;

/// Lines for the operator: tokens, accounts and secrets may be as they were before somebody revoked or changed them.
pub(super) async fn to_look_at(
    connection: &mut PgConnection,
    since: DateTime<Utc>,
) -> Result<[String; 3], sqlx::Error> {
    let count = sqlx::query!(
        r#"SELECT
               (SELECT count(*) FROM access_token
                WHERE num_nonnulls(admin_id, business_user_id) = 0 AND revoked_at IS NULL AND coalesce(expires_at > now(), true)
               ) AS "tokens!",
               (SELECT count(*) FROM admin WHERE active) AS "admins!",
               (SELECT count(*) FROM business_user WHERE active) AS "users!",
               (SELECT count(*) FROM webhook) AS "webhooks!",
               (SELECT count(*) FROM integration_setting) AS "partners!",
               (SELECT count(*) FROM wms_setting) AS "wms!""#
    )
    .fetch_one(connection)
    .await?;
    let since = time(since);
    Ok([
        format!(
            "look at {} access tokens (`longshore token list`): what was revoked after {since} is valid again; revoke it again. What was \
             made after it is gone; make it again",
            count.tokens,
        ),
        format!(
            "look at {} active admins and {} business users (`POST /api/admin/list`, `POST /api/business-user/list`): roles, passwords \
             and second factors that were changed after {since}, and accounts that were deactivated or deleted, are as before",
            count.admins, count.users,
        ),
        format!(
            "look at the secrets of {} webhooks, {} partners and {} wms: what was rotated or stored after {since} is as before; rotate \
             or store it again, and tell those who verify or accept it",
            count.webhooks, count.partners, count.wms,
        ),
    ])
}

//! A new secret, beside which the old one signs for a day: as that of a webhook, whose rotation explains why it fences the lane.

use std::time::Duration;

use futures::TryStreamExt as _;
use sqlx::PgPool;
use uuid::Uuid;

use super::{ENTITY, answer_with_secret, credentials_place, of_scope, row, secret_place};
use crate::webhook::lane::LEASE;
use crate::webhook::signature;
use longshore_kernel::answer::Answer;
use longshore_kernel::change::Change;
use longshore_kernel::context::Context;
use longshore_kernel::crypto::{Opened, Resealed, Vault};
use longshore_kernel::database::{self, Database};
use longshore_kernel::ids::WmsId;
use longshore_kernel::problem::Problem;
use longshore_kernel::record_change;
use longshore_kernel::services::Services;
use longshore_kernel::tombstone;

/// How often a lease that is to end is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// Settings that one transaction goes over.
const BATCH: i64 = 500;

/// Rotates the secret (`PUT …/rotate-secret`). It is shown in this answer, and in no replay of it.
pub async fn rotate_secret(services: &Services, context: &Context, wms: WmsId) -> Result<Answer, Problem> {
    let scope = context.scope();
    let mut change = Change::begin(services).await?;
    of_scope(change.connection(), scope, wms, true).await?;
    let live = sqlx::query_scalar!(
        r#"SELECT count(*) AS "live!" FROM wms_former_secret WHERE wms_id = $1 AND signs_until > now()"#,
        wms.get(),
    )
    .fetch_one(change.connection())
    .await?;
    signature::check_rotation(live, "wms")?;
    let secret = signature::new_secret();
    let sealed = services.vault.seal(&secret_place(wms), &secret).map_err(Problem::internal)?;
    let recorded = record_change!(
        change.connection(),
        context.origin,
        "wms_setting.rotate_secret",
        ENTITY,
        None,
        "WITH expired AS (
             DELETE FROM wms_former_secret WHERE wms_id = $9 AND signs_until <= now()
         ), former AS (
             INSERT INTO wms_former_secret (wms_id, secret, signs_until)
             SELECT wms_id, secret, clock_timestamp() + make_interval(secs => $11) FROM wms_setting WHERE wms_id = $9
         ), made AS (
             UPDATE wms_setting SET secret = $10, version = version + 1, rotations = rotations + 1 WHERE wms_id = $9
             RETURNING wms_id, version, changed_at, organisation_id
         ), changed AS (
             SELECT wms_id AS entity, version, changed_at AS at, organisation_id AS organisation, '{}'::uuid[] AS eshops,
                    jsonb_build_object('secret', jsonb_build_array('***', '***')) AS changes, '{}'::jsonb AS data
             FROM made
         )",
        wms.get(),
        sealed,
        signature::OVERLAP.as_secs_f64(),
    )
    .await?;
    if change.note(recorded) == 0 {
        return Err(tombstone::missing(change.connection(), scope, ENTITY, wms.get()).await);
    }
    let lane = sqlx::query!(
        r#"UPDATE wms_lane SET rotations = rotations + 1 WHERE wms_id = $1
           RETURNING token, leased_until >= clock_timestamp() AS "held!""#,
        wms.get(),
    )
    .fetch_one(change.connection())
    .await?;
    let stored = row(change.connection(), wms).await?.ok_or_else(|| Problem::not_found(ENTITY))?;
    let answer = answer_with_secret(change, context, stored.answer(&services.vault)?, &secret).await?;
    if lane.held {
        until_ending(&services.db, wms, lane.token).await;
    }
    Ok(answer)
}

/// Waits until no call can begin with the secrets that were read under this lease.
async fn until_ending(db: &Database, wms: WmsId, token: i64) {
    let waited = async {
        let mut looks = tokio::time::interval(LOOK_EVERY);
        loop {
            looks.tick().await;
            let begins = sqlx::query_scalar!(
                r#"SELECT EXISTS (SELECT FROM wms_lane WHERE wms_id = $1 AND token = $2 AND NOT ending
                                  AND leased_until >= now()) AS "begins!""#,
                wms.get(),
                token,
            )
            .fetch_one(&db.main)
            .await;
            if matches!(begins, Ok(false)) {
                return;
            }
        }
    };
    // in either case no call can begin now
    let _ = tokio::time::timeout(LEASE, waited).await;
}

/// Tries to open the secrets and credentials of all settings.
pub async fn examine(db: &PgPool, vault: &Vault, opened: &mut Opened) -> Result<(), Problem> {
    let mut rows = sqlx::query!(
        r#"SELECT wms_id AS "wms!", secret AS "secret!", credentials FROM wms_setting
           UNION ALL SELECT wms_id, secret, NULL FROM wms_former_secret WHERE signs_until > now()"#
    )
    .fetch(db);
    while let Some(row) = rows.try_next().await? {
        opened.look(vault, &secret_place(row.wms.into()), &row.secret);
        if let Some(credentials) = &row.credentials {
            opened.look(vault, &credentials_place(row.wms.into()), credentials);
        }
    }
    Ok(())
}

/// Seals what an older key sealed, of the settings after an id, former secrets included. Nothing to do: nothing is answered.
pub async fn reseal(db: &PgPool, vault: &Vault, after: Uuid) -> Result<Option<Resealed>, Problem> {
    let mut tx = database::begin(db).await?;
    let rows = sqlx::query!(
        r#"SELECT s.wms_id, s.secret, s.credentials,
                  ARRAY(SELECT f.signs_until FROM wms_former_secret f WHERE f.wms_id = s.wms_id ORDER BY f.signs_until) AS "ends!",
                  ARRAY(SELECT f.secret FROM wms_former_secret f WHERE f.wms_id = s.wms_id ORDER BY f.signs_until) AS "former!"
           FROM wms_setting s
           WHERE s.wms_id > $1
             AND (substr(s.secret, 1, length($2::bytea)) <> $2 OR substr(s.credentials, 1, length($2::bytea)) <> $2
                  OR EXISTS (SELECT FROM wms_former_secret f
                             WHERE f.wms_id = s.wms_id AND substr(f.secret, 1, length($2::bytea)) <> $2))
           ORDER BY s.wms_id LIMIT $3 FOR NO KEY UPDATE"#,
        after,
        &vault.mark(),
        BATCH,
    )
    .fetch_all(&mut *tx)
    .await?;
    let sealed = Resealed::each(
        &rows,
        |row| row.wms_id,
        |row| {
            let wms = row.wms_id.into();
            let former = row
                .former
                .iter()
                .map(|s| vault.reseal(&secret_place(wms), s))
                .collect::<Result<Vec<_>, _>>()?;
            let secret = vault.reseal(&secret_place(wms), &row.secret)?;
            let credentials = vault.reseal(&credentials_place(wms), &row.credentials)?;
            Ok((row.wms_id, secret, credentials, row.ends.clone(), former))
        },
        |id, error| tracing::warn!(wms.id = %id, %error, "the stored secrets of a wms cannot be read"),
    );
    let Some((sealed, done)) = sealed else { return Ok(None) };
    let (mut ids, mut secrets, mut credentials) = (Vec::new(), Vec::new(), Vec::new());
    let (mut of, mut ends, mut former) = (Vec::new(), Vec::new(), Vec::new());
    for (wms, secret, sealed, signs_until, secrets_before) in sealed {
        of.extend(signs_until.iter().map(|_| wms));
        ends.extend(signs_until);
        former.extend(secrets_before);
        ids.push(wms);
        secrets.push(secret);
        credentials.push(sealed);
    }
    sqlx::query!(
        "WITH former AS (
             UPDATE wms_former_secret f SET secret = n.secret
             FROM unnest($4::uuid[], $5::timestamptz[], $6::bytea[]) AS n (wms_id, signs_until, secret)
             WHERE f.wms_id = n.wms_id AND f.signs_until = n.signs_until
         )
         UPDATE wms_setting s SET secret = n.secret, credentials = n.credentials
         FROM unnest($1::uuid[], $2::bytea[], $3::bytea[]) AS n (wms_id, secret, credentials) WHERE s.wms_id = n.wms_id",
        &ids,
        &secrets,
        &credentials,
        &of,
        &ends,
        &former,
    )
    .execute(&mut *tx)
    .await?;
    tx.commit().await?;
    Ok(Some(done))
}

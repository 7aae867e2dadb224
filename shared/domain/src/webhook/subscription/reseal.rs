//! Sealing the secrets and authentications of webhooks by the newest key.

use futures::TryStreamExt as _;
use sqlx::PgPool;
use uuid::Uuid;

use super::{authentication_place, secret_place};
use longshore_kernel::crypto::{Opened, Resealed, Vault};
use longshore_kernel::database;
use longshore_kernel::problem::Problem;

/// Webhooks that one transaction goes over.
const BATCH: i64 = 500;

/// Tries to open the secrets and authentications of all webhooks.
pub async fn examine(db: &PgPool, vault: &Vault, opened: &mut Opened) -> Result<(), Problem> {
    let mut rows = sqlx::query!(
        r#"SELECT id AS "id!", secret AS "secret!", authentication FROM webhook
           UNION ALL SELECT webhook_id, secret, NULL FROM webhook_former_secret WHERE signs_until > now()"#
    )
    .fetch(db);
    while let Some(row) = rows.try_next().await? {
        opened.look(vault, &secret_place(row.id.into()), &row.secret);
        if let Some(authentication) = &row.authentication {
            opened.look(vault, &authentication_place(row.id.into()), authentication);
        }
    }
    Ok(())
}

/// Seals what an older key sealed, of the webhooks after an id. Nothing to do: nothing is answered. A webhook with an
/// unreadable part stays as it is.
pub async fn reseal(db: &PgPool, vault: &Vault, after: Uuid) -> Result<Option<Resealed>, Problem> {
    let mut tx = database::begin(db).await?;
    let rows = sqlx::query!(
        "SELECT id, secret, authentication FROM webhook
         WHERE id > $1
           AND (substr(secret, 1, length($2::bytea)) <> $2
                OR substr(authentication, 1, length($2::bytea)) <> $2)
         ORDER BY id LIMIT $3 FOR NO KEY UPDATE",
        after,
        &vault.mark(),
        BATCH,
    )
    .fetch_all(&mut *tx)
    .await?;
    let sealed = Resealed::each(
        &rows,
        |row| row.id,
        |row| {
            let authentication = row.authentication.as_deref();
            let authentication =
                authentication.map(|a| vault.reseal(&authentication_place(row.id.into()), a)).transpose()?;
            Ok((row.id, vault.reseal(&secret_place(row.id.into()), &row.secret)?, authentication))
        },
        |id, error| tracing::warn!(webhook.id = %id, %error, "the stored secrets of a webhook cannot be read"),
    );
    let Some((sealed, done)) = sealed else { return Ok(None) };
    let (ids, secrets, authentications): (Vec<_>, Vec<_>, Vec<_>) = sealed.into_iter().collect();
    sqlx::query!(
        "UPDATE webhook w
         SET secret = n.secret, authentication = n.authentication
         FROM unnest($1::uuid[], $2::bytea[], $3::bytea[]) AS n (id, secret, authentication)
         WHERE w.id = n.id",
        &ids,
        &secrets,
        &authentications as &[Option<Vec<u8>>],
    )
    .execute(&mut *tx)
    .await?;
    tx.commit().await?;
    Ok(Some(done))
}

/// The same for the secrets that were rotated away and still sign, of the webhooks after an id.
pub async fn reseal_former(db: &PgPool, vault: &Vault, after: Uuid) -> Result<Option<Resealed>, Problem> {
    let mut tx = database::begin(db).await?;
    let rows = sqlx::query!(
        "SELECT webhook_id, signs_until, secret FROM webhook_former_secret
         WHERE substr(secret, 1, length($2::bytea)) <> $2
           AND webhook_id IN (SELECT DISTINCT webhook_id FROM webhook_former_secret
                              WHERE webhook_id > $1 AND substr(secret, 1, length($2::bytea)) <> $2
                              ORDER BY webhook_id LIMIT $3)
         ORDER BY webhook_id, signs_until FOR NO KEY UPDATE",
        after,
        &vault.mark(),
        BATCH,
    )
    .fetch_all(&mut *tx)
    .await?;
    let sealed = Resealed::each(
        &rows,
        |row| row.webhook_id,
        |row| {
            let secret = vault.reseal(&secret_place(row.webhook_id.into()), &row.secret)?;
            Ok((row.webhook_id, row.signs_until, secret))
        },
        |id, error| tracing::warn!(webhook.id = %id, %error, "a former secret of a webhook cannot be read"),
    );
    let Some((sealed, done)) = sealed else { return Ok(None) };
    let (webhooks, ends, secrets): (Vec<_>, Vec<_>, Vec<_>) = sealed.into_iter().collect();
    sqlx::query!(
        "UPDATE webhook_former_secret f SET secret = n.secret
         FROM unnest($1::uuid[], $2::timestamptz[], $3::bytea[]) AS n (webhook_id, signs_until, secret)
         WHERE f.webhook_id = n.webhook_id AND f.signs_until = n.signs_until",
        &webhooks,
        &ends,
        &secrets,
    )
    .execute(&mut *tx)
    .await?;
    tx.commit().await?;
    Ok(Some(done))
}

//! Sealing the secrets and authentications of webhooks by the newest key.

use futures::TryStreamExt as _;
use sqlx::PgPool;
use uuid::Uuid;

use super::{authentication_place, secret_place};
use crate::platform::crypto::{Opened, Resealed, Vault, VaultError};
use crate::platform::database;
use crate::platform::problem::Problem;

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
        opened.look(vault, &secret_place(row.id), &row.secret);
        if let Some(authentication) = &row.authentication {
            opened.look(vault, &authentication_place(row.id), authentication);
        }
    }
    Ok(())
}

/// Seals what an older key sealed, of the webhooks after an id. Nothing to do: nothing is answered. A webhook of which a
/// part cannot be read stays as it is.
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
    let Some(last) = rows.last().map(|row| row.id) else { return Ok(None) };
    let mut done = Resealed { last, resealed: 0, unreadable: 0 };
    let (mut ids, mut secrets, mut authentications) = (Vec::new(), Vec::new(), Vec::new());
    for row in rows {
        let sealed = || -> Result<_, VaultError> {
            let authentication = row.authentication.as_deref();
            Ok((
                vault.reseal(&secret_place(row.id), &row.secret)?,
                authentication.map(|a| vault.reseal(&authentication_place(row.id), a)).transpose()?,
            ))
        };
        match sealed() {
            Ok((secret, authentication)) => {
                ids.push(row.id);
                secrets.push(secret);
                authentications.push(authentication);
                done.resealed += 1;
            }
            Err(error) => {
                tracing::warn!(webhook.id = %row.id, %error, "what is stored of a webhook cannot be read");
                done.unreadable += 1;
            }
        }
    }
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
    let Some(last) = rows.last().map(|row| row.webhook_id) else { return Ok(None) };
    let mut done = Resealed { last, resealed: 0, unreadable: 0 };
    let (mut webhooks, mut ends, mut secrets) = (Vec::new(), Vec::new(), Vec::new());
    for row in rows {
        match vault.reseal(&secret_place(row.webhook_id), &row.secret) {
            Ok(secret) => {
                webhooks.push(row.webhook_id);
                ends.push(row.signs_until);
                secrets.push(secret);
                done.resealed += 1;
            }
            Err(error) => {
                tracing::warn!(webhook.id = %row.webhook_id, %error, "a former secret of a webhook cannot be read");
                done.unreadable += 1;
            }
        }
    }
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

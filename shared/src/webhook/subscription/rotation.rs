//! Sealing the secrets and authentications of webhooks by the newest key.

use sqlx::PgPool;
use uuid::Uuid;

use super::{authentication_place, secret_place};
use crate::platform::crypto::{Resealed, Vault, VaultError};
use crate::platform::problem::Problem;

/// Webhooks that one transaction goes over.
const BATCH: i64 = 500;

/// Seals what an older key sealed, of the webhooks after an id. Nothing to do: nothing is answered. A webhook of which a
/// part cannot be read stays as it is.
pub async fn reseal(db: &PgPool, vault: &Vault, after: Uuid) -> Result<Option<Resealed>, Problem> {
    let mut tx = db.begin().await?;
    let rows = sqlx::query!(
        "SELECT id, secret, previous_secret, authentication FROM webhook
         WHERE id > $1
           AND (substr(secret, 1, length($2::bytea)) <> $2
                OR substr(previous_secret, 1, length($2::bytea)) <> $2
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
    let (mut ids, mut secrets, mut previous, mut authentications) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for row in rows {
        let sealed = || -> Result<_, VaultError> {
            let again =
                |place: &str, bytes: Option<Vec<u8>>| bytes.map(|b| vault.reseal(place, &b)).transpose();
            Ok((
                vault.reseal(&secret_place(row.id), &row.secret)?,
                again(&secret_place(row.id), row.previous_secret)?,
                again(&authentication_place(row.id), row.authentication)?,
            ))
        };
        match sealed() {
            Ok((secret, old, authentication)) => {
                ids.push(row.id);
                secrets.push(secret);
                previous.push(old);
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
         SET secret = n.secret, previous_secret = n.previous_secret, authentication = n.authentication
         FROM unnest($1::uuid[], $2::bytea[], $3::bytea[], $4::bytea[])
              AS n (id, secret, previous_secret, authentication)
         WHERE w.id = n.id",
        &ids,
        &secrets,
        &previous as &[Option<Vec<u8>>],
        &authentications as &[Option<Vec<u8>>],
    )
    .execute(&mut *tx)
    .await?;
    tx.commit().await?;
    Ok(Some(done))
}

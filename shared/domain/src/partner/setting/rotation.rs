//! Sealing the credentials of settings with the newest key.

use futures::TryStreamExt as _;
use sqlx::PgPool;
use uuid::Uuid;

use super::place;
use longshore_kernel::crypto::{Opened, Resealed, Vault};
use longshore_kernel::database;
use longshore_kernel::problem::Problem;

/// Settings that one transaction goes over.
const BATCH: i64 = 500;

/// Tries to open the credentials of all settings.
pub async fn examine(db: &PgPool, vault: &Vault, opened: &mut Opened) -> Result<(), Problem> {
    let mut rows = sqlx::query!("SELECT id, credentials FROM integration_setting").fetch(db);
    while let Some(row) = rows.try_next().await? {
        opened.look(vault, &place(row.id.into()), &row.credentials);
    }
    Ok(())
}

/// Seals what an older key sealed, of the settings after an id. Nothing to do: nothing is answered.
pub async fn reseal(db: &PgPool, vault: &Vault, after: Uuid) -> Result<Option<Resealed>, Problem> {
    let mut tx = database::begin(db).await?;
    let rows = sqlx::query!(
        "SELECT id, credentials FROM integration_setting
         WHERE id > $1 AND substr(credentials, 1, length($2::bytea)) <> $2
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
        |row| Ok((row.id, vault.reseal(&place(row.id.into()), &row.credentials)?)),
        |id, error| tracing::warn!(integration_setting.id = %id, %error, "stored credentials cannot be read"),
    );
    let Some((sealed, done)) = sealed else { return Ok(None) };
    let (ids, sealed): (Vec<_>, Vec<_>) = sealed.into_iter().unzip();
    sqlx::query!(
        "UPDATE integration_setting s SET credentials = n.credentials
         FROM unnest($1::uuid[], $2::bytea[]) AS n (id, credentials) WHERE s.id = n.id",
        &ids,
        &sealed,
    )
    .execute(&mut *tx)
    .await?;
    tx.commit().await?;
    Ok(Some(done))
}

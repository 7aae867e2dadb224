//! Sealing the secrets of second factors with the newest key.

use futures::TryStreamExt as _;
use sqlx::PgPool;
use uuid::Uuid;

use super::place;
use longshore_kernel::crypto::{Opened, Resealed, Vault};
use longshore_kernel::database;
use longshore_kernel::problem::Problem;

/// Second factors that one transaction goes over.
const BATCH: i64 = 500;

/// Tries to open the secrets of all second factors.
pub async fn examine(db: &PgPool, vault: &Vault, opened: &mut Opened) -> Result<(), Problem> {
    let mut rows = sqlx::query!("SELECT admin_id, secret FROM second_factor").fetch(db);
    while let Some(row) = rows.try_next().await? {
        opened.look(vault, &place(row.admin_id.into()), &row.secret);
    }
    Ok(())
}

/// Seals what an older key sealed, of the admins after an id. Nothing to do: nothing is answered.
pub async fn reseal(db: &PgPool, vault: &Vault, after: Uuid) -> Result<Option<Resealed>, Problem> {
    let mut tx = database::begin(db).await?;
    let rows = sqlx::query!(
        "SELECT admin_id, secret FROM second_factor
         WHERE admin_id > $1 AND substr(secret, 1, length($2::bytea)) <> $2
         ORDER BY admin_id LIMIT $3 FOR NO KEY UPDATE",
        after,
        &vault.mark(),
        BATCH,
    )
    .fetch_all(&mut *tx)
    .await?;
    let sealed = Resealed::each(
        &rows,
        |row| row.admin_id,
        |row| Ok((row.admin_id, vault.reseal(&place(row.admin_id.into()), &row.secret)?)),
        |id, error| tracing::warn!(admin.id = %id, %error, "the secret of a second factor cannot be read"),
    );
    let Some((sealed, done)) = sealed else { return Ok(None) };
    let (ids, sealed): (Vec<_>, Vec<_>) = sealed.into_iter().unzip();
    sqlx::query!(
        "UPDATE second_factor f SET secret = n.secret
         FROM unnest($1::uuid[], $2::bytea[]) AS n (id, secret) WHERE f.admin_id = n.id",
        &ids,
        &sealed,
    )
    .execute(&mut *tx)
    .await?;
    tx.commit().await?;
    Ok(Some(done))
}

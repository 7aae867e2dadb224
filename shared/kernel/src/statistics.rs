//! Keeps the statistics that Postgres has of the sizes of tables up to date.
//!
//! A plan of a look-up by key is made once and kept ([`database`](super::database)), for the sizes that tables are believed
//! to have. Autovacuum looks at them once a minute, which is long for a table that a partner fills with a first catalogue,
//! or that was empty while its plans were made: among indexes of nothing, one that only ends with the key is as good as the
//! key's own.

use sqlx::PgPool;

use super::problem::Problem;

/// Analyses small tables that have outgrown their statistics; every session then plans its queries on them again. Returns
/// how many. Any number of processes may ask: a table that is being analysed is left out.
pub async fn refresh(db: &PgPool) -> Result<u32, Problem> {
    let analysed = sqlx::query_scalar!(r#"SELECT analyse_what_grew() AS "analysed!""#).fetch_one(db).await?;
    Ok(analysed.unsigned_abs())
}

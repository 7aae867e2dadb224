//! Open transactions of other clients: one locks a row, another keeps a snapshot as a backup does. Dropping
//! one ends it.

use std::time::Duration;

use anyhow::Context as _;
use sqlx::{Connection as _, Executor as _, PgConnection};
use uuid::Uuid;

use super::site::Site;

/// How long one may take to begin.
const BEGINS_WITHIN: Duration = Duration::from_secs(5);

/// An open transaction, without the proxy.
#[derive(Debug)]
pub(crate) struct Open(#[expect(dead_code, reason = "it is there to be held")] PgConnection);

/// Locks a product.
pub(crate) async fn lock(site: &Site, product: Uuid) -> anyhow::Result<Open> {
    within(async {
        let mut psql = PgConnection::connect(site.postgres.url.as_str()).await?;
        psql.execute("BEGIN").await?;
        sqlx::query("SELECT FROM product WHERE id = $1 FOR UPDATE").bind(product).execute(&mut psql).await?;
        Ok(Open(psql))
    })
    .await
}

/// Takes a snapshot and the locks of `pg_dump`: rows that die from now on cannot be vacuumed, and no table
/// can be altered.
pub(crate) async fn snapshot(site: &Site) -> anyhow::Result<Open> {
    within(async {
        let mut psql = PgConnection::connect(site.postgres.url.as_str()).await?;
        psql.execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await?;
        let lock: String = sqlx::query_scalar(
            "SELECT 'LOCK TABLE ' || string_agg(oid::regclass::text, ', ') || ' IN ACCESS SHARE MODE' FROM pg_class
             WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')",
        )
        .fetch_one(&mut psql)
        .await?;
        psql.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(lock))).await?;
        Ok(Open(psql))
    })
    .await
}

async fn within(opening: impl Future<Output = anyhow::Result<Open>>) -> anyhow::Result<Open> {
    tokio::time::timeout(BEGINS_WITHIN, opening).await.context("a transaction does not begin")?
}

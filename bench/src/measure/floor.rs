//! The floor: the same work as bare SQL over one plain connection, like `psql`, with only the settings of the
//! server.

use std::fmt::Write as _;
use std::time::Instant;

use anyhow::Context as _;
use longshore_testkit::stack::Stack;
use sqlx::{AssertSqlSafe, Connection as _, Decode, Executor as _, PgConnection, Postgres, Type};
use uuid::Uuid;

use super::load::milliseconds;

/// The tables that the measurements write.
const WRITTEN: [&str; 16] = [
    "product",
    "product_eshop",
    "product_stock",
    "expedition",
    "expedition_detail",
    "expedition_item",
    "expedition_handover",
    "stock_movement",
    "audit",
    "event",
    "webhook",
    "webhook_lane",
    "delivery",
    "delivery_history",
    "job",
    "job_chunk",
];

/// A plain connection to the stack's database.
pub(super) struct Psql(PgConnection);

impl Psql {
    pub(super) async fn connect(stack: &Stack) -> anyhow::Result<Self> {
        Ok(Self(PgConnection::connect(stack.database_url.as_str()).await?))
    }

    /// Runs statements.
    pub(super) async fn run(&mut self, sql: &str) -> anyhow::Result<()> {
        let run = self.0.execute(sqlx::raw_sql(AssertSqlSafe(sql)));
        run.await.with_context(|| sql.to_owned()).map(drop)
    }

    /// Runs statements and reads their results; returns the time in milliseconds.
    pub(super) async fn timed(&mut self, sql: &str) -> anyhow::Result<f64> {
        let started = Instant::now();
        let answered = self.0.fetch_all(sqlx::raw_sql(AssertSqlSafe(sql))).await;
        answered.with_context(|| sql.to_owned())?;
        Ok(milliseconds(started))
    }

    /// Runs a statement with ids as `$1`, planned once, and returns the ids that it answers with.
    pub(super) async fn with_ids(&mut self, sql: &str, ids: &[Uuid]) -> anyhow::Result<Vec<Uuid>> {
        let asked = sqlx::query_scalar(AssertSqlSafe(sql)).bind(ids).fetch_all(&mut self.0).await;
        asked.with_context(|| sql.to_owned())
    }

    /// The result of a query with one value.
    pub(super) async fn ask<T>(&mut self, sql: &str) -> anyhow::Result<T>
    where
        T: Type<Postgres> + for<'row> Decode<'row, Postgres> + Send + Unpin,
    {
        let asked = sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut self.0).await;
        asked.with_context(|| sql.to_owned())
    }

    /// `COPY`s rows in text format into a table.
    pub(super) async fn copy(&mut self, sql: &str, rows: &[u8]) -> anyhow::Result<()> {
        let mut copy = self.0.copy_in_raw(sql).await?;
        copy.send(rows).await?;
        copy.finish().await?;
        Ok(())
    }

    /// Called before every run, so that neither the service nor the floor finds dead rows or dirty pages of
    /// the other.
    pub(super) async fn settle(&mut self) -> anyhow::Result<()> {
        self.vacuum().await?;
        self.run("CHECKPOINT").await
    }

    /// Does what autovacuum would do within a minute, in the middle of a measurement.
    pub(super) async fn vacuum(&mut self) -> anyhow::Result<()> {
        self.run(&format!("VACUUM (ANALYZE) {}", WRITTEN.join(", "))).await
    }
}

/// Rows `sku, name` of the first `count` generated products, in the format of `COPY`.
pub(super) fn made_up(count: usize) -> Vec<u8> {
    let mut rows = String::new();
    for n in 0..count {
        // writing to a string cannot fail
        _ = writeln!(rows, "MU-{n:07}\tMade up product {n}");
    }
    rows.into_bytes()
}

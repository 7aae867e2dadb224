//! The floor: the same work as bare SQL over one plain connection, as `psql` would do it. Nobody in between, no role,
//! no settings but those of the server.

use std::fmt::Write as _;
use std::time::Instant;

use anyhow::Context as _;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};

use super::load::milliseconds;
use crate::stack::Stack;

/// What the measurements write to.
const WRITTEN: [&str; 7] =
    ["product", "product_eshop", "product_stock", "audit", "delivery", "job", "job_chunk"];

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

    /// Runs statements and reads all that they answer; how long that took, in milliseconds.
    pub(super) async fn timed(&mut self, sql: &str) -> anyhow::Result<f64> {
        let started = Instant::now();
        let answered = self.0.fetch_all(sqlx::raw_sql(AssertSqlSafe(sql))).await;
        answered.with_context(|| sql.to_owned())?;
        Ok(milliseconds(started))
    }

    /// `COPY`s rows, text in the format of `COPY`, into a table.
    pub(super) async fn copy(&mut self, sql: &str, rows: &[u8]) -> anyhow::Result<()> {
        let mut copy = self.0.copy_in_raw(sql).await?;
        copy.send(rows).await?;
        copy.finish().await?;
        Ok(())
    }

    /// Before every run, ours and the floor's: neither finds the other's dead rows or unwritten pages.
    pub(super) async fn settle(&mut self) -> anyhow::Result<()> {
        self.run(&format!("VACUUM (ANALYZE) {}", WRITTEN.join(", "))).await?;
        self.run("CHECKPOINT").await
    }
}

/// Rows `sku, name` of the first `count` made-up products, as `COPY` takes them.
pub(super) fn made_up(count: usize) -> Vec<u8> {
    let mut rows = String::new();
    for n in 0..count {
        // writing to a string cannot fail
        _ = writeln!(rows, "MU-{n:07}\tMade up product {n}");
    }
    rows.into_bytes()
}

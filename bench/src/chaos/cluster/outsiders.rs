//! Who writes to each Postgres directly, in a database of their own: they tell when a Postgres could be written, which one, and
//! whether what it answered stays.

use std::collections::HashSet;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use futures::future::join_all;
use sqlx::{Connection as _, Executor as _, PgConnection};
use tokio::time::timeout;
use url::Url;

use super::machine::Machine;
use super::rig::{OUTSIDERS, Rig};
use super::witness::Written;
use crate::chaos::fleet::lock;

/// The interval of writes, and the pause after a failure.
const PACE: Duration = Duration::from_millis(20);
const FAILED: Duration = Duration::from_millis(100);

/// How long a write or a connection may take.
const PATIENCE: Duration = Duration::from_secs(1);

/// What a standby answers to a write.
const READ_ONLY: &str = "25006";

/// All of them; see the module.
#[derive(Debug)]
pub(super) struct Outsiders {
    /// Each Postgres.
    servers: Vec<(Machine, Url)>,
    /// One address that leads to the primary.
    primary: Url,
    written: Mutex<Vec<Written>>,
}

impl Outsiders {
    /// Creates their table.
    pub(super) async fn open(rig: &Rig) -> anyhow::Result<Self> {
        let primary = rig.balancer.url(OUTSIDERS)?;
        let mut psql = PgConnection::connect(primary.as_str()).await?;
        psql.execute("CREATE TABLE written (writer int, number bigint, PRIMARY KEY (writer, number))")
            .await?;
        psql.close().await?;
        let servers = rig.postgres.members.iter().map(|one| anyhow::Ok((one.machine, one.url(OUTSIDERS)?)));
        Ok(Self { servers: servers.collect::<Result<_, _>>()?, primary, written: Mutex::default() })
    }

    /// Writes all the time.
    pub(super) async fn write(&self) {
        join_all(self.servers.iter().map(|(at, url)| self.write_at(*at, url))).await;
    }

    async fn write_at(&self, at: Machine, url: &Url) {
        let (mut connected, mut number) = (None, 0);
        loop {
            let mut psql = if let Some(psql) = connected.take() {
                psql
            } else if let Ok(Ok(psql)) = timeout(PATIENCE, PgConnection::connect(url.as_str())).await {
                psql
            } else {
                tokio::time::sleep(FAILED).await;
                continue;
            };
            number += 1;
            let began = Instant::now();
            // the name of the segment begins with the timeline
            let write = sqlx::query_scalar(
                "INSERT INTO written VALUES ($1, $2)
                 RETURNING ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int",
            );
            let write = write.bind(i32::from(at.number)).bind(number);
            match timeout(PATIENCE, write.fetch_one(&mut psql)).await {
                Ok(Ok(timeline)) => {
                    let timeline: i32 = timeline;
                    let (timeline, answered) = (timeline.unsigned_abs(), Instant::now());
                    lock(&self.written).push(Written { at, number, timeline, began, answered });
                    connected = Some(psql);
                    tokio::time::sleep_until((began + PACE).into()).await;
                }
                Ok(Err(sqlx::Error::Database(error))) if error.code().as_deref() == Some(READ_ONLY) => {
                    connected = Some(psql);
                    tokio::time::sleep(FAILED).await;
                }
                _ => tokio::time::sleep(FAILED).await,
            }
        }
    }

    /// What was answered.
    pub(super) fn written(&self) -> Vec<Written> {
        lock(&self.written).clone()
    }

    /// What was answered and is not there.
    pub(super) async fn lost(&self) -> anyhow::Result<Vec<Written>> {
        let mut psql = PgConnection::connect(self.primary.as_str()).await?;
        let there: Vec<(i32, i64)> =
            sqlx::query_as("SELECT writer, number FROM written").fetch_all(&mut psql).await?;
        let there: HashSet<(i32, i64)> = there.into_iter().collect();
        let mut lost = self.written();
        lost.retain(|one| !there.contains(&(one.at.number.into(), one.number)));
        Ok(lost)
    }
}

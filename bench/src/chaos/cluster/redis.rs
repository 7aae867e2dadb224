//! Three machines with Redis, each with a Sentinel.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use longshore_testkit::client;
use longshore_testkit::process::ready;
use longshore_testkit::stack::ping;

use super::machine::{Kind, Machine, PASSWORD};
use crate::chaos::server::Server;

/// How many there are.
pub(super) const COUNT: u8 = 3;

/// The name of the master for Sentinels.
const NAME: &str = "longshore";

/// How long they may take to follow one master.
const WHOLE_WITHIN: Duration = Duration::from_mins(1);

/// The interval of asking.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(1);

/// One machine with Redis.
#[derive(Debug)]
pub(super) struct Redis {
    pub(super) machine: Machine,
    server: Server,
    sentinel: Server,
}

impl Redis {
    async fn start(number: u8) -> anyhow::Result<Self> {
        let machine = Machine { kind: Kind::Redis, number };
        for folder in ["etc/redis", "var/lib/redis"] {
            machine.give("redis", folder).await?;
        }
        machine.configure().await?;
        let server = machine.server("redis", &["redis-server"], "etc/redis/redis.conf");
        let sentinel = machine.server("redis", &["redis-sentinel"], "etc/redis/sentinel.conf");
        let redis = Self { machine, server, sentinel };
        redis.start_again().await?;
        Ok(redis)
    }

    /// Its logs.
    pub(super) fn logs(&self) -> [&Path; 2] {
        [self.server.log(), self.sentinel.log()]
    }

    fn url(&self, port: u16) -> String {
        format!("redis://:{PASSWORD}@{}:{port}", self.machine.address())
    }

    /// Kills Redis and Sentinel.
    pub(super) async fn kill(&self) -> anyhow::Result<()> {
        self.server.end("KILL").await?;
        self.sentinel.end("KILL").await
    }

    /// Starts both again, and waits until they answer. Redis is empty.
    pub(super) async fn start_again(&self) -> anyhow::Result<()> {
        for (server, port) in [(&self.server, 6379), (&self.sentinel, 26379)] {
            server.start().await?;
            let url = self.url(port);
            ready(server.log(), || async { ping(&url).await.is_ok() })
                .await
                .with_context(|| format!("Redis on {}", self.machine))?;
        }
        Ok(())
    }

    /// The address of the master that its Sentinel names.
    async fn named(&self) -> Option<String> {
        let ask = async {
            let mut sentinel = client::redis(&self.url(26379)).await.ok()?;
            let mut command = redis::cmd("SENTINEL");
            command.arg("get-master-addr-by-name").arg(NAME);
            let named: Option<(String, u16)> = command.query_async(&mut sentinel).await.ok()?;
            named.map(|(address, _)| address)
        };
        tokio::time::timeout(ANSWER, ask).await.ok().flatten()
    }

    /// Whether it has so many replicas that are up to date.
    async fn is_followed_by(&self, count: u8) -> bool {
        let ask = async {
            let mut server = client::redis(&self.url(6379)).await.ok()?;
            redis::cmd("INFO").arg("replication").query_async::<String>(&mut server).await.ok()
        };
        let said = tokio::time::timeout(ANSWER, ask).await.ok().flatten().unwrap_or_default();
        said.contains("role:master") && said.matches("state=online").count() == usize::from(count)
    }
}

/// All of them.
#[derive(Debug)]
pub(super) struct Cluster {
    pub(super) members: Vec<Redis>,
}

impl Cluster {
    /// Starts all of them.
    pub(super) async fn start() -> anyhow::Result<Self> {
        let mut members = Vec::new();
        for number in 1..=COUNT {
            members.push(Redis::start(number).await?);
        }
        Ok(Self { members })
    }

    /// The URL by which the service finds the master.
    pub(super) fn url(&self) -> String {
        let sentinels: Vec<String> =
            self.members.iter().map(|one| format!("{}:26379", one.machine.address())).collect();
        format!("redis+sentinel://:{PASSWORD}@{}/{NAME}?sentinelPassword={PASSWORD}", sentinels.join(","))
    }

    /// Waits until all Sentinels name one master, which the others follow, and returns that.
    pub(super) async fn be_whole(&self) -> anyhow::Result<&Redis> {
        self.wait("Redis is not whole", |named, master| async move {
            named.len() == usize::from(COUNT)
                && named.iter().all(|one| *one == master.machine.address().to_string())
                && master.is_followed_by(COUNT - 1).await
        })
        .await
    }

    /// Waits until two Sentinels name another master, which one follows, and returns that.
    pub(super) async fn fail_over(&self, from: &Redis) -> anyhow::Result<&Redis> {
        self.wait("no Redis takes the place of the master", |named, master| async move {
            let name = master.machine.address().to_string();
            master.machine != from.machine
                && named.iter().filter(|one| **one == name).count() >= usize::from(COUNT / 2 + 1)
                && master.is_followed_by(1).await
        })
        .await
    }

    async fn wait<'r, F: Future<Output = bool>>(
        &'r self,
        what: &str,
        is_right: impl Fn(Vec<String>, &'r Redis) -> F,
    ) -> anyhow::Result<&'r Redis> {
        let until = Instant::now() + WHOLE_WITHIN;
        loop {
            let mut named = Vec::new();
            for member in &self.members {
                named.extend(member.named().await);
            }
            for member in &self.members {
                if is_right(named.clone(), member).await {
                    return Ok(member);
                }
            }
            ensure!(Instant::now() < until, "{what} after {WHOLE_WITHIN:?}; Sentinels name {named:?}");
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
}

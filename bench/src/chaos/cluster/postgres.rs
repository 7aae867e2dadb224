//! Three machines with Postgres under Patroni, each with a member of etcd: with three, a cut leaves the side of two able to choose,
//! and the other one able to know that it is not.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use longshore_stack::postgres::{OWNER, hand_over, programs};
use longshore_stack::process::pid_in;
use longshore_testkit::client;
use longshore_testkit::process::{end_of, signal};
use serde::Deserialize;
use serde_json::json;
use url::Url;

use super::machine::{self, Kind, Machine, PASSWORD};
use crate::chaos::server::Server;

/// How many there are.
pub(super) const COUNT: u8 = 3;

/// How long Patroni may take to answer.
const ANSWER: Duration = Duration::from_secs(5);

/// How long a switchover may take.
const SWITCHED_WITHIN: Duration = Duration::from_secs(30);

/// How long all of them may take to follow one primary.
pub(super) const WHOLE_WITHIN: Duration = Duration::from_mins(2);

/// The interval of asking.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// What is otherwise than an operator has it. Disks are small, and what rejoins reads all WAL since a checkpoint. The checks compare
/// when transactions were committed. Machines share a folder of sockets. A login by password takes a debug build too long.
const OTHERWISE: &str = "
bootstrap:
  dcs:
    postgresql:
      parameters:
        checkpoint_timeout: 30s
        min_wal_size: 32MB
        max_wal_size: 128MB
        wal_keep_size: 256MB
        track_commit_timestamp: on
postgresql:
  parameters: { unix_socket_directories: '' }
  pg_hba: [host replication replicator samenet scram-sha-256, host all all samenet trust]
";

/// Without a synchronous standby, one that lags may take the primary's place.
const ASYNCHRONOUS: &str =
    "bootstrap: { dcs: { synchronous_mode: false, maximum_lag_on_failover: 1073741824 } }";

/// One machine with Postgres.
#[derive(Debug)]
pub(super) struct Postgres {
    pub(super) machine: Machine,
    disk: PathBuf,
    mebibytes: u64,
    data: PathBuf,
    patroni: Server,
    etcd: Server,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Cluster {
    pub(super) members: Vec<Postgres>,
    http: reqwest::Client,
    is_synchronous: bool,
}

/// What Patroni says of the cluster.
#[derive(Debug, Deserialize)]
struct View {
    members: Vec<Seen>,
}

#[derive(Debug, Deserialize)]
struct Seen {
    name: String,
    role: String,
    state: String,
    timeline: Option<u32>,
}

impl View {
    /// The primary, if all follow it, one of them synchronously if wanted.
    fn primary(&self, is_synchronous: bool) -> Option<&str> {
        let leader = self.members.iter().find(|one| one.role == "leader")?;
        // a standby is `running` in older versions
        let follows = |one: &Seen| {
            ["running", "streaming"].contains(&one.state.as_str()) && one.timeline == leader.timeline
        };
        let is_replicated = !is_synchronous || self.members.iter().any(|one| one.role == "sync_standby");
        let is_whole =
            self.members.len() == usize::from(COUNT) && self.members.iter().all(follows) && is_replicated;
        is_whole.then_some(leader.name.as_str())
    }
}

impl Postgres {
    /// Makes its disk of this many MiB, and starts it.
    async fn start(number: u8, mebibytes: u64, is_synchronous: bool) -> anyhow::Result<Self> {
        let machine = Machine { kind: Kind::Postgres, number };
        machine.give("etcd", "var/lib/etcd").await?;
        let home = machine.give("postgres", "var/lib/postgresql").await?;
        machine::mount(&home, &format!("size={mebibytes}m,mode=0700")).await?;
        hand_over(&home)?;
        machine.configure().await?;
        let data = home.join(version()?).join("longshore");
        let folder = machine.root().join("etc/patroni");
        fs::write(folder.join("of-chaos.yml"), OTHERWISE)?;
        if !is_synchronous {
            fs::write(folder.join("of-loss.yml"), ASYNCHRONOUS)?;
        }
        let etcd = machine.server("etcd", &["sh", "-c", "set -a; . $0; exec etcd"], "etc/default/etcd");
        etcd.start().await?;
        let patroni = machine.server("postgres", &["patroni"], "etc/patroni");
        patroni.start().await?;
        Ok(Self { machine, disk: home, mebibytes, data, patroni, etcd })
    }

    /// Its disk is full until [`Self::make_room`].
    pub(super) async fn fill_disk(&self) -> anyhow::Result<()> {
        machine::fill(&self.disk).await
    }

    /// Its disk has room again.
    pub(super) async fn make_room(&self) -> anyhow::Result<()> {
        machine::resize(&self.disk, &format!("{}m", self.mebibytes)).await
    }

    /// The URL of a database on it.
    pub(super) fn url(&self, database: &str) -> anyhow::Result<Url> {
        Ok(url(self.machine.address(), database).parse()?)
    }

    /// Kills Postgres and Patroni.
    pub(super) async fn kill(&self) -> anyhow::Result<()> {
        let postmaster = pid_in(&self.data.join("postmaster.pid"), "postgres");
        let postmaster = postmaster.with_context(|| format!("no Postgres runs on {}", self.machine))?;
        signal("KILL", &[postmaster]).await?;
        self.patroni.end("KILL").await
    }

    /// Starts them again.
    pub(super) async fn start_again(&self) -> anyhow::Result<()> {
        self.patroni.start().await
    }

    /// Its logs.
    pub(super) fn logs(&self) -> [&Path; 2] {
        [self.patroni.log(), self.etcd.log()]
    }

    /// The end of its log.
    pub(super) fn end_of_log(&self) -> String {
        format!("--- end of the log of {}:\n{}", self.machine, end_of(self.patroni.log()))
    }
}

/// The version of the newest one that is installed.
pub(super) fn version() -> anyhow::Result<String> {
    let programs = programs()?;
    let version = programs.parent().and_then(Path::file_name).context("Postgres is of no package")?;
    Ok(version.display().to_string())
}

/// The URL of a database on one host, or on the one of several that takes writes.
pub(super) fn url(hosts: impl fmt::Display, database: &str) -> String {
    format!("postgres://{OWNER}@{hosts}/{database}")
}

impl Cluster {
    /// Starts all of them, with disks of this many MiB.
    pub(super) async fn start(mebibytes: u64, is_synchronous: bool) -> anyhow::Result<Self> {
        let mut members = Vec::new();
        for number in 1..=COUNT {
            members.push(Postgres::start(number, mebibytes, is_synchronous).await?);
        }
        Ok(Self { members, http: client::outside()?, is_synchronous })
    }

    /// The machines of all others.
    pub(super) fn machines_but(&self, one: &Postgres) -> Vec<Machine> {
        self.members.iter().map(|other| other.machine).filter(|other| *other != one.machine).collect()
    }

    /// Waits until all follow one primary, and returns that.
    pub(super) async fn be_whole(&self) -> anyhow::Result<&Postgres> {
        let until = Instant::now() + WHOLE_WITHIN;
        loop {
            let mut views = Vec::new();
            for member in &self.members {
                let Some(view) = self.view(member).await else { continue };
                if let Some(primary) = view.primary(self.is_synchronous)
                    && let Some(primary) = self.members.iter().find(|one| one.machine.to_string() == primary)
                    && self.is_primary(primary).await
                {
                    return Ok(primary);
                }
                views.push(view);
            }
            if Instant::now() >= until {
                let logs: Vec<String> = self.members.iter().map(Postgres::end_of_log).collect();
                bail!("Postgres is not whole after {WHOLE_WITHIN:?}: {views:?}\n{}", logs.join("\n"));
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    async fn view(&self, asked: &Postgres) -> Option<View> {
        let url = format!("http://{}:8008/cluster", asked.machine.address());
        let said = self.http.get(url).timeout(ANSWER).send().await.ok()?.bytes().await.ok()?;
        serde_json::from_slice(&said).ok()
    }

    /// Whether Patroni says so of this one.
    async fn is_primary(&self, asked: &Postgres) -> bool {
        let url = format!("http://{}:8008/primary", asked.machine.address());
        self.http.get(url).timeout(ANSWER).send().await.is_ok_and(|answer| answer.status() == 200)
    }

    /// Waits until another one is the primary.
    pub(super) async fn fail_over(&self, from: &Postgres) -> anyhow::Result<()> {
        let until = Instant::now() + WHOLE_WITHIN;
        loop {
            for other in self.members.iter().filter(|one| one.machine != from.machine) {
                if self.is_primary(other).await {
                    return Ok(());
                }
            }
            ensure!(Instant::now() < until, "no Postgres takes the place of {}", from.machine);
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Has another one become the primary, as `patronictl switchover` does.
    pub(super) async fn switch_over(&self, from: &Postgres) -> anyhow::Result<()> {
        let url = format!("http://{}:8008/switchover", from.machine.address());
        let body = json!({ "leader": from.machine.to_string() });
        let asked = self
            .http
            .post(url)
            .basic_auth("patroni", Some(PASSWORD))
            .body(body.to_string())
            .timeout(SWITCHED_WITHIN)
            .send()
            .await?;
        let (status, said) = (asked.status(), asked.text().await?);
        ensure!(status == 200, "switchover: {status} {said}");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(members: &[(&str, &str, u32)]) -> View {
        let members = (1..).zip(members).map(|(n, (role, state, timeline))| Seen {
            name: format!("postgres{n}"),
            role: (*role).to_owned(),
            state: (*state).to_owned(),
            timeline: Some(*timeline),
        });
        View { members: members.collect() }
    }

    #[test]
    fn a_cluster_is_whole_when_all_follow_one_primary_and_one_synchronously() {
        let whole =
            view(&[("sync_standby", "running", 3), ("leader", "running", 3), ("replica", "streaming", 3)]);
        assert_eq!(whole.primary(true), Some("postgres2"));
        let late =
            view(&[("sync_standby", "running", 3), ("leader", "running", 3), ("replica", "running", 2)]);
        let starting =
            view(&[("sync_standby", "running", 3), ("leader", "running", 3), ("replica", "starting", 3)]);
        let less = view(&[("sync_standby", "running", 3), ("leader", "running", 3)]);
        let headless =
            view(&[("replica", "running", 3), ("replica", "running", 3), ("replica", "running", 3)]);
        for other in [late, starting, less, headless] {
            assert_eq!(other.primary(true), None, "{other:?}");
        }
        let alone = view(&[("replica", "running", 3), ("leader", "running", 3), ("replica", "running", 3)]);
        assert_eq!(alone.primary(true), None);
        assert_eq!(alone.primary(false), Some("postgres2"));
    }
}

//! Three machines with Postgres under Patroni, each with a member of etcd: with three, a cut leaves the side of two able to choose,
//! and the other one able to know that it is not.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use longshore_stack::postgres::{OWNER, hand_over, programs};
use longshore_stack::process::pid_in;
use longshore_testkit::client;
use longshore_testkit::process::{end_of, signal};
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use super::machine::{self, Kind, Machine};
use crate::chaos::server::Server;

/// How many there are.
pub(super) const COUNT: u8 = 3;

/// The name of the cluster.
const SCOPE: &str = "longshore";

/// How long Patroni may take to answer.
const ANSWER: Duration = Duration::from_secs(5);

/// How long a switchover may take.
const SWITCHED_WITHIN: Duration = Duration::from_secs(30);

/// How long all of them may take to follow one primary.
pub(super) const WHOLE_WITHIN: Duration = Duration::from_mins(2);

/// The interval of asking.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// One machine with Postgres.
#[derive(Debug)]
pub(super) struct Postgres {
    pub(super) machine: Machine,
    home: PathBuf,
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
        let home = Path::new(machine::FOLDER).join(machine.to_string());
        fs::create_dir(&home)?;
        machine::mount(&home, &format!("size={mebibytes}m,mode=0700")).await?;
        hand_over(&home)?;
        let etcd = etcd(machine, &home);
        etcd.start().await?;
        // JSON is YAML, too
        let settings = home.with_extension("yml");
        fs::write(&settings, settings_of(machine, &home, is_synchronous)?.to_string())?;
        let patroni = Server::new(home.with_extension("log"), move || {
            let mut command = machine.command_of_postgres("patroni");
            command.arg(&settings);
            Ok(command)
        });
        patroni.start().await?;
        Ok(Self { machine, home, patroni, etcd })
    }

    /// The URL of a database on it.
    pub(super) fn url(&self, database: &str) -> anyhow::Result<Url> {
        Ok(format!("postgres://{OWNER}@{}/{database}", self.machine.address()).parse()?)
    }

    /// Kills Postgres and Patroni.
    pub(super) async fn kill(&self) -> anyhow::Result<()> {
        let postmaster = pid_in(&self.home.join("data/postmaster.pid"), "postgres");
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

/// Where each etcd is.
fn etcds(port: u16) -> impl Iterator<Item = String> {
    (1..=COUNT).map(move |number| format!("{}:{port}", Machine { kind: Kind::Postgres, number }.address()))
}

fn etcd(machine: Machine, home: &Path) -> Server {
    let folder = home.with_extension("etcd");
    Server::new(home.with_extension("etcd.log"), move || {
        let (peer, client) =
            (format!("http://{}:2380", machine.address()), format!("http://{}:2379", machine.address()));
        let all: Vec<String> =
            (1..).zip(etcds(2380)).map(|(n, at)| format!("postgres{n}=http://{at}")).collect();
        let mut etcd = machine.command("etcd");
        etcd.args(["--name", &machine.to_string(), "--data-dir"]).arg(&folder);
        etcd.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        etcd.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        etcd.args(["--initial-cluster", &all.join(","), "--initial-cluster-state", "new"]);
        etcd.args(["--log-level", "warn"]);
        Ok(etcd)
    })
}

fn settings_of(machine: Machine, home: &Path, is_synchronous: bool) -> anyhow::Result<Value> {
    let (name, address) = (machine.to_string(), machine.address());
    let login = |name: &str| json!({ "username": name, "password": "not asked for" });
    Ok(json!({
        "scope": SCOPE,
        "name": name,
        "restapi": { "listen": format!("{address}:8008"), "connect_address": format!("{address}:8008") },
        "etcd3": { "hosts": etcds(2379).collect::<Vec<_>>() },
        "bootstrap": {
            "dcs": {
                "ttl": 20,
                "loop_wait": 2,
                "retry_timeout": 3,
                "synchronous_mode": is_synchronous,
                // without a synchronous standby, one that lags may take the primary's place
                "maximum_lag_on_failover": if is_synchronous { 0 } else { 1 << 30 },
                "postgresql": {
                    "use_pg_rewind": true,
                    "parameters": {
                        "max_connections": 350,
                        // what rejoins reads all of it that came after a checkpoint
                        "checkpoint_timeout": "30s",
                        "min_wal_size": "32MB",
                        "max_wal_size": "128MB",
                        // `pg_rewind` reads from the last checkpoint before the timelines parted
                        "wal_keep_size": "256MB",
                        // the checks compare when transactions were committed
                        "track_commit_timestamp": "on",
                    },
                },
            },
            "initdb": [{ "encoding": "UTF8" }, { "locale": "C.UTF-8" }, "no-sync"],
        },
        "postgresql": {
            "listen": format!("{address}:5432"),
            "connect_address": format!("{address}:5432"),
            "bin_dir": programs()?,
            "data_dir": home.join("data"),
            "pgpass": home.join("pgpass"),
            "remove_data_directory_on_rewind_failure": true,
            "authentication": {
                "superuser": login(OWNER), "replication": login("replicator"), "rewind": login(OWNER),
            },
            "parameters": { "unix_socket_directories": "" },
            "pg_hba": ["host all all samenet trust", "host replication all samenet trust"],
        },
    }))
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
        let asked = self.http.post(url).body(body.to_string()).timeout(SWITCHED_WITHIN).send().await?;
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

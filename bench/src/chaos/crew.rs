//! The processes of the service, which are restarted whenever they end, and how load and checks reach what they use.

use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::Context as _;
use longshore_testkit::client;
use longshore_testkit::process::{self, Kept, ready};
use longshore_testkit::stack::Service;
use sqlx::{Connection as _, PgConnection};
use url::Url;

/// The role of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Api,
    Worker,
}

/// One process of the service.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) name: String,
    /// Its URL.
    pub(crate) base_url: String,
    kept: Kept,
}

impl Member {
    /// Starts a process by a command, with its log in a folder.
    pub(crate) fn start(
        role: Role,
        number: usize,
        address: &str,
        folder: &Path,
        command: impl Fn() -> std::process::Command + Send + 'static,
    ) -> anyhow::Result<Self> {
        let name = match role {
            Role::Api => format!("api {number}"),
            Role::Worker => format!("worker {number}"),
        };
        let kept = Kept::start(command, folder.join(format!("{name}.log")))?;
        Ok(Self { name, base_url: format!("http://{address}"), kept })
    }

    /// Its process id; `None` while it is being restarted.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.kept.pid()
    }

    /// Its log.
    pub(crate) fn log(&self) -> &Path {
        self.kept.log()
    }
}

/// The settings of a process of a role, and its program with its arguments.
pub(crate) fn program(role: Role) -> (&'static str, &'static str, &'static [&'static str]) {
    match role {
        Role::Api => ("LONGSHORE_BIND", "longshore-api", &["serve"]),
        Role::Worker => ("LONGSHORE_WORKER_BIND", "longshore-worker", &[]),
    }
}

/// All processes; see the module.
#[derive(Debug)]
pub(crate) struct Crew {
    pub(crate) apis: Vec<Member>,
    pub(crate) workers: Vec<Member>,
    /// How its programs are started.
    pub(crate) service: Service,
    /// The database, without what disturbs the service.
    pub(crate) database_url: Url,
    /// Redis, likewise.
    pub(crate) redis_url: String,
    /// Where fakes listen, so that the service reaches them.
    pub(crate) outside: Ipv4Addr,
}

impl Crew {
    /// Waits until every process is ready.
    pub(crate) async fn be_ready(&self) -> anyhow::Result<()> {
        let http = client::outside()?;
        for member in self.members() {
            let url = format!("{}/health/ready", member.base_url);
            let asked = || async { http.get(&url).send().await.is_ok_and(|answer| answer.status() == 200) };
            ready(member.log(), asked).await.with_context(|| member.name.clone())?;
        }
        Ok(())
    }

    /// The processes of a role.
    pub(crate) fn of(&self, role: Role) -> &[Member] {
        match role {
            Role::Api => &self.apis,
            Role::Worker => &self.workers,
        }
    }

    /// All of them.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Member> {
        self.apis.iter().chain(&self.workers)
    }

    /// The URLs of the api processes.
    pub(crate) fn bases(&self) -> Vec<String> {
        self.apis.iter().map(|member| member.base_url.clone()).collect()
    }

    /// The ends of the logs, to find the cause of a failure.
    pub(crate) fn ends_of_logs(&self) -> String {
        let shown = |member: &Member| {
            format!("--- end of the log of {}:\n{}", member.name, process::end_of(member.log()))
        };
        self.members().map(shown).collect::<Vec<_>>().join("\n")
    }
}

/// A connection to the database, without what disturbs the service.
pub(crate) async fn connect(crew: &Crew) -> anyhow::Result<PgConnection> {
    Ok(PgConnection::connect(crew.database_url.as_str()).await?)
}

//! The service under test: two api and two worker processes, which are restarted whenever they end, and
//! Postgres and Redis behind proxies.

use std::path::Path;

use anyhow::{Context as _, ensure};
use longshore_testkit::client;
use longshore_testkit::port::free_port;
use longshore_testkit::process::{self, Kept, ready};
use longshore_testkit::stack::{KEY, Service, programs};
use sqlx::{Connection as _, PgConnection};
use tempfile::TempDir;

use super::proxy::Proxy;
use super::server::{Postgres, Redis};

/// Processes of each role.
pub(crate) const PROCESSES: usize = 2;

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
    /// Its process id; `None` while it is being restarted.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.kept.pid()
    }

    /// Its log.
    pub(crate) fn log(&self) -> &Path {
        self.kept.log()
    }
}

/// The whole site; see the module.
#[derive(Debug)]
pub(crate) struct Site {
    // dropped in this order: what uses the servers first
    apis: Vec<Member>,
    workers: Vec<Member>,
    /// How its programs are started.
    pub(crate) service: Service,
    pub(crate) to_postgres: Proxy,
    pub(crate) to_redis: Proxy,
    pub(crate) redis: Redis,
    pub(crate) postgres: Postgres,
    _folder: TempDir,
}

impl Site {
    /// Starts everything, with a disk of this many MiB for Postgres, and waits until it is ready.
    pub(crate) async fn start(mebibytes: u64) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let postgres = Postgres::start(mebibytes).await.context("Postgres")?;
        let redis = Redis::start(folder.path()).await?;
        let (to_postgres, to_redis) = (Proxy::start(postgres.port).await?, Proxy::start(redis.port).await?);
        let mut database_url = postgres.url.clone();
        database_url
            .set_port(Some(to_postgres.port()))
            .map_err(|()| anyhow::anyhow!("no port in {database_url}"))?;
        let environment = vec![
            ("DATABASE_URL", database_url.to_string()),
            ("REDIS_URL", format!("redis://127.0.0.1:{}", to_redis.port())),
            ("LONGSHORE_ENCRYPTION_KEY", KEY.to_owned()),
            ("LONGSHORE_OBJECT_STORE", folder.path().join("objects").display().to_string()),
            ("LONGSHORE_WEBHOOK_ALLOW_HTTP", "true".to_owned()),
            ("LONGSHORE_WEBHOOK_ALLOW_SUBNETS", "127.0.0.0/8".to_owned()),
            // more lanes than the shops need
            ("LONGSHORE_WEBHOOKS_PER_ESHOP", "10000".to_owned()),
            ("LONGSHORE_LOG_FORMAT", "json".to_owned()),
            // there is no load balancer
            ("LONGSHORE_DRAIN_SECONDS", "0".to_owned()),
            // counted but never exceeded: the whole load is one caller
            ("LONGSHORE_RATE_LIMIT", "100000".to_owned()),
            ("LONGSHORE_RATE_LIMIT_BURST", "1000000".to_owned()),
            ("LONGSHORE_TOKEN_STREAMS", "0".to_owned()),
            // … from one address
            ("LONGSHORE_CONNECTIONS", "100000".to_owned()),
            ("LONGSHORE_ADDRESS_CONNECTIONS", "100000".to_owned()),
        ];
        let service = Service { programs: programs()?, environment };
        let mut migrate = service.command("longshore-api");
        let migrated = migrate.arg("migrate").output().await?;
        ensure!(migrated.status.success(), "migrate: {}", String::from_utf8_lossy(&migrated.stderr));
        let member = |role: Role, number: usize| {
            let (name, bind) = match role {
                Role::Api => ("api", "LONGSHORE_BIND"),
                Role::Worker => ("worker", "LONGSHORE_WORKER_BIND"),
            };
            let name = format!("{name} {number}");
            let address = format!("127.0.0.1:{}", free_port()?);
            let mut service = service.clone();
            service.environment.push((bind, address.clone()));
            let command = move || match role {
                Role::Api => {
                    let mut api = service.command("longshore-api");
                    api.arg("serve");
                    api.into_std()
                }
                Role::Worker => service.command("longshore-worker").into_std(),
            };
            let kept = Kept::start(command, folder.path().join(format!("{name}.log")))?;
            anyhow::Ok(Member { name, base_url: format!("http://{address}"), kept })
        };
        let apis = (1..=PROCESSES).map(|n| member(Role::Api, n)).collect::<anyhow::Result<Vec<_>>>()?;
        let workers = (1..=PROCESSES).map(|n| member(Role::Worker, n)).collect::<anyhow::Result<Vec<_>>>()?;
        let site = Self { apis, workers, service, to_postgres, to_redis, redis, postgres, _folder: folder };
        site.be_ready().await?;
        Ok(site)
    }

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

    /// All processes of the service.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Member> {
        self.apis.iter().chain(&self.workers)
    }

    /// The ends of the logs, to find the cause of a failure.
    pub(crate) fn ends_of_logs(&self) -> String {
        let shown = |member: &Member| {
            format!("--- end of the log of {}:\n{}", member.name, process::end_of(member.log()))
        };
        self.members().map(shown).collect::<Vec<_>>().join("\n")
    }
}

/// A connection to the database, without the proxy.
pub(crate) async fn connect(site: &Site) -> anyhow::Result<PgConnection> {
    Ok(PgConnection::connect(site.postgres.url.as_str()).await?)
}

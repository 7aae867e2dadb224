//! The service under test on one machine: two api and two worker processes, and Postgres and Redis behind proxies.

use std::net::Ipv4Addr;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use longshore_testkit::port::free_port;
use longshore_testkit::stack::{KEY, Service};
use tempfile::TempDir;

use super::crew::{Crew, Member, Role, program};
use super::proxy::Proxy;
use super::server::{Postgres, Redis};

/// Processes of each role.
pub(crate) const PROCESSES: usize = 2;

/// The whole site; see the module.
#[derive(Debug)]
pub(crate) struct Site {
    // dropped in this order: what uses the servers first
    crew: Crew,
    pub(crate) to_postgres: Proxy,
    pub(crate) to_redis: Proxy,
    pub(crate) redis: Redis,
    pub(crate) postgres: Postgres,
    _folder: TempDir,
}

impl Deref for Site {
    type Target = Crew;

    fn deref(&self) -> &Crew {
        &self.crew
    }
}

/// The settings of the service in any run. `folder` has its objects, `subnet` the destinations.
pub(crate) fn environment(
    database_url: &str,
    redis_url: &str,
    folder: &Path,
    subnet: &str,
) -> Vec<(&'static str, String)> {
    vec![
        ("DATABASE_URL", database_url.to_owned()),
        ("REDIS_URL", redis_url.to_owned()),
        ("LONGSHORE_ENCRYPTION_KEY", KEY.to_owned()),
        ("LONGSHORE_OBJECT_STORE", folder.join("objects").display().to_string()),
        ("LONGSHORE_WEBHOOK_ALLOW_HTTP", "true".to_owned()),
        ("LONGSHORE_WEBHOOK_ALLOW_SUBNETS", subnet.to_owned()),
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
    ]
}

/// Creates the schema.
pub(crate) async fn migrate(service: &Service) -> anyhow::Result<()> {
    let migrated = service.command("longshore-api").arg("migrate").output().await?;
    ensure!(migrated.status.success(), "migrate: {}", String::from_utf8_lossy(&migrated.stderr));
    Ok(())
}

impl Site {
    /// Starts everything, with a disk of this many MiB for Postgres and the programs in a folder, and waits until it is ready.
    pub(crate) async fn start(mebibytes: u64, programs: PathBuf) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let postgres = Postgres::start(mebibytes).await.context("Postgres")?;
        let redis = Redis::start(folder.path()).await?;
        let (to_postgres, to_redis) = (Proxy::start(postgres.port).await?, Proxy::start(redis.port).await?);
        let mut proxied = postgres.url.clone();
        proxied.set_port(Some(to_postgres.port())).map_err(|()| anyhow::anyhow!("no port in {proxied}"))?;
        let to_redis_url = format!("redis://127.0.0.1:{}", to_redis.port());
        let environment = environment(proxied.as_str(), &to_redis_url, folder.path(), "127.0.0.0/8");
        let service = Service { programs, environment };
        migrate(&service).await?;
        let member = |role: Role, number: usize| {
            let (bind, name, arguments) = program(role);
            let address = format!("127.0.0.1:{}", free_port()?);
            let mut service = service.clone();
            service.environment.push((bind, address.clone()));
            let command = move || {
                let mut command = service.command(name);
                command.args(arguments);
                command.into_std()
            };
            Member::start(role, number, &address, folder.path(), command)
        };
        let apis = (1..=PROCESSES).map(|n| member(Role::Api, n)).collect::<anyhow::Result<Vec<_>>>()?;
        let workers = (1..=PROCESSES).map(|n| member(Role::Worker, n)).collect::<anyhow::Result<Vec<_>>>()?;
        let crew = Crew {
            apis,
            workers,
            service,
            database_url: postgres.url.clone(),
            redis_url: redis.url.clone(),
            outside: Ipv4Addr::LOCALHOST,
        };
        let site = Self { crew, to_postgres, to_redis, redis, postgres, _folder: folder };
        site.be_ready().await?;
        Ok(site)
    }
}

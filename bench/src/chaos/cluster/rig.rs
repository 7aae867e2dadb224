//! The service on a dozen machines: three with Postgres, three with Redis, one with HAProxy, and one for each process.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use clap::ValueEnum;
use longshore_stack::postgres::OWNER;
use longshore_testkit::stack::{Service, programs};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};

use super::balancer::Balancer;
use super::machine::{self, Kind, Machine, PASSWORD};
use super::{postgres, redis};
use crate::chaos::crew::{Crew, Member, Role, program};
use crate::chaos::site::{environment, migrate};

/// Processes of each role.
pub(super) const APIS: u8 = 2;
pub(super) const WORKERS: u8 = 3;

/// The port of a process.
const PORT: u16 = 8080;

/// The database of the service, and that of writers who know nothing of it.
const DATABASE: &str = "longshore";
pub(super) const OUTSIDERS: &str = "outsiders";

/// How processes find the primary of Postgres.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Hosts {
    /// All by the one address of HAProxy.
    Balancer,
    /// All by the list of the hosts.
    List,
    /// Each second process of a role by the list, the others by HAProxy.
    Half,
}

impl Hosts {
    /// Whether a process has the list.
    fn are_listed(self, number: u8) -> bool {
        match self {
            Self::Balancer => false,
            Self::List => true,
            Self::Half => number.is_multiple_of(2),
        }
    }
}

/// The machine of a process.
pub(super) fn machine_of(role: Role, number: u8) -> Machine {
    let kind = match role {
        Role::Api => Kind::Api,
        Role::Worker => Kind::Worker,
    };
    Machine { kind, number }
}

/// All of it; see the module.
#[derive(Debug)]
pub(super) struct Rig {
    // dropped in this order: what uses the servers first
    pub(super) crew: Crew,
    pub(super) balancer: Balancer,
    pub(super) redis: redis::Cluster,
    pub(super) postgres: postgres::Cluster,
}

impl Rig {
    /// Starts everything, with disks of this many MiB for Postgres, and waits until it is ready.
    pub(super) async fn start(mebibytes: u64, is_synchronous: bool, hosts: Hosts) -> anyhow::Result<Self> {
        machine::prepare(&cluster_env()?).await?;
        for (kind, count) in [
            (Kind::Postgres, postgres::COUNT),
            (Kind::Redis, redis::COUNT),
            (Kind::Balancer, 1),
            (Kind::Api, APIS),
            (Kind::Worker, WORKERS),
        ] {
            for number in 1..=count {
                Machine { kind, number }.plug_in().await?;
            }
        }
        let postgres = postgres::Cluster::start(mebibytes, is_synchronous).await?;
        let redis = redis::Cluster::start().await?;
        let balancer = Balancer::start().await?;
        let primary = postgres.be_whole().await?;
        redis.be_whole().await?;
        create_databases(primary).await?;

        let folder = Path::new(machine::FOLDER).join("service");
        fs::create_dir(&folder)?;
        let (database_url, redis_url) = (balancer.url(DATABASE)?, redis.url());
        let subnet = format!("{}/32", machine::OUTSIDE);
        let environment = environment(database_url.as_str(), &redis_url, &folder, &subnet);
        let service = Service { programs: programs()?, environment };
        migrate(&service).await?;
        let listed: Vec<String> =
            postgres.members.iter().map(|one| format!("{}:5432", one.machine.address())).collect();
        let listed = postgres::url(listed.join(","), DATABASE);
        let member = |role: Role, number: u8| {
            let (bind, name, arguments) = program(role);
            let (machine, programs) = (machine_of(role, number), service.programs.clone());
            let address = format!("{}:{PORT}", machine.address());
            let mut environment = service.environment.clone();
            environment.push((bind, address.clone()));
            if hosts.are_listed(number) {
                environment.push(("DATABASE_URL", listed.clone()));
            }
            let command = move || {
                let mut command = machine.command(programs.join(name));
                command.args(arguments).envs(environment.iter().map(|(name, value)| (name, value)));
                command
            };
            Member::start(role, number.into(), &address, &folder, command)
        };
        let apis = (1..=APIS).map(|n| member(Role::Api, n)).collect::<anyhow::Result<Vec<_>>>()?;
        let workers = (1..=WORKERS).map(|n| member(Role::Worker, n)).collect::<anyhow::Result<Vec<_>>>()?;
        let crew = Crew { apis, workers, service, database_url, redis_url, outside: machine::OUTSIDE };
        let rig = Self { crew, balancer, redis, postgres };
        rig.crew.be_ready().await.with_context(|| rig.ends_of_logs())?;
        Ok(rig)
    }

    /// Copies all logs.
    pub(super) fn keep_logs(&self, folder: &Path) -> anyhow::Result<()> {
        fs::create_dir_all(folder)?;
        let servers = self.postgres.members.iter().flat_map(postgres::Postgres::logs);
        let servers = servers.chain(self.redis.members.iter().flat_map(redis::Redis::logs));
        for log in servers.chain(self.crew.members().map(Member::log)).chain([self.balancer.log()]) {
            let Some(name) = log.file_name() else { continue };
            let machine = log.parent().and_then(Path::file_name).unwrap_or_default().display();
            fs::copy(log, folder.join(format!("{machine} {}", name.display())))?;
        }
        Ok(())
    }

    /// The ends of the logs, to find the cause of a failure.
    pub(super) fn ends_of_logs(&self) -> String {
        let servers: Vec<String> = self.postgres.members.iter().map(postgres::Postgres::end_of_log).collect();
        format!("{}\n{}", servers.join("\n"), self.crew.ends_of_logs())
    }
}

/// What `configure` reads: as on the machines of an operator, but for Redis and HAProxy, which have machines of their own.
fn cluster_env() -> anyhow::Result<String> {
    let addresses = |kind, count| {
        let all = (1..=count).map(|number| Machine { kind, number }.address().to_string());
        all.collect::<Vec<_>>().join(" ")
    };
    Ok(format!(
        "DATABASES='{}'\nREDIS='{}'\nSUBNET={}/{}\nPOSTGRES={}\nHAPROXY_BIND=:5432\n\
         POSTGRES_PASSWORD={PASSWORD}\nREPLICATION_PASSWORD={PASSWORD}\nPATRONI_PASSWORD={PASSWORD}\nREDIS_PASSWORD={PASSWORD}\n",
        addresses(Kind::Postgres, postgres::COUNT),
        addresses(Kind::Redis, redis::COUNT),
        machine::OUTSIDE,
        machine::PREFIX,
        postgres::version()?
    ))
}

async fn create_databases(primary: &postgres::Postgres) -> anyhow::Result<()> {
    // the superuser waits for no standby
    let mut superuser = primary.url("postgres")?;
    superuser.set_username("postgres").map_err(|()| anyhow::anyhow!("no user in {superuser}"))?;
    let mut psql = PgConnection::connect(superuser.as_str()).await?;
    psql.execute(AssertSqlSafe(format!("CREATE ROLE {OWNER} SUPERUSER LOGIN"))).await?;
    for database in [DATABASE, OUTSIDERS] {
        psql.execute(AssertSqlSafe(format!("CREATE DATABASE {database} OWNER {OWNER}"))).await?;
    }
    psql.close().await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_half_of_the_hosts_each_role_has_processes_of_both_kinds() {
        for count in [APIS, WORKERS] {
            let listed = (1..=count).filter(|number| Hosts::Half.are_listed(*number)).count();
            assert!(listed > 0 && listed < count.into());
        }
    }
}

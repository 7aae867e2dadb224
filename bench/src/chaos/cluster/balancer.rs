//! One address that follows the primary of Postgres: HAProxy, by what Patroni says.

use std::fs;
use std::path::Path;

use longshore_stack::postgres::OWNER;
use url::Url;

use super::machine::{self, Kind, Machine};
use super::postgres::Postgres;
use crate::chaos::server::Server;

/// What operators are given; only the servers are others here.
const EXAMPLE: &str = include_str!("../../../../deploy/haproxy/postgres.cfg");

/// It; see the module.
#[derive(Debug)]
pub(super) struct Balancer {
    pub(super) machine: Machine,
    server: Server,
}

impl Balancer {
    pub(super) async fn start(members: &[Postgres]) -> anyhow::Result<Self> {
        let machine = Machine { kind: Kind::Balancer, number: 1 };
        let is_kept = |line: &&str| !line.trim_start().starts_with("server ");
        let mut settings: Vec<_> = EXAMPLE.lines().filter(is_kept).map(str::to_owned).collect();
        settings.extend(members.iter().map(|member| {
            format!("    server {0} {1}:5432 check\n", member.machine, member.machine.address())
        }));
        let file = Path::new(machine::FOLDER).join("haproxy.cfg");
        fs::write(&file, settings.join("\n"))?;
        let server = Server::new(file.with_extension("log"), move || {
            let mut command = machine.command("haproxy");
            command.arg("-db").arg("-f").arg(&file);
            Ok(command)
        });
        server.start().await?;
        Ok(Self { machine, server })
    }

    /// Its log.
    pub(super) fn log(&self) -> &Path {
        self.server.log()
    }

    /// The URL of a database on the primary.
    pub(super) fn url(&self, database: &str) -> anyhow::Result<Url> {
        Ok(format!("postgres://{OWNER}@{}/{database}", self.machine.address()).parse()?)
    }
}

//! One address that follows the primary of Postgres: HAProxy, by what Patroni says.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use longshore_stack::postgres::OWNER;
use url::Url;

use super::machine::{self, Kind, Machine};
use super::postgres::Postgres;
use crate::chaos::server::Server;

/// It; see the module.
#[derive(Debug)]
pub(super) struct Balancer {
    pub(super) machine: Machine,
    server: Server,
}

impl Balancer {
    pub(super) async fn start(members: &[Postgres]) -> anyhow::Result<Self> {
        let machine = Machine { kind: Kind::Balancer, number: 1 };
        // after a switchover the former primary, which restarts, still counts as one for a second: who it refuses tries the other one
        let mut settings = "global\n maxconn 2000\n\
             defaults\n mode tcp\n timeout connect 1s\n timeout client 30m\n timeout server 30m\n timeout check 1s\n option redispatch 1\n\
             listen primary\n bind :5432\n option httpchk GET /primary\n http-check expect status 200\n \
             default-server port 8008 inter 500ms fall 2 rise 1 on-marked-down shutdown-sessions\n"
            .to_owned();
        for member in members {
            _ = writeln!(settings, " server {0} {1}:5432 check", member.machine, member.machine.address());
        }
        let file = Path::new(machine::FOLDER).join("haproxy.cfg");
        fs::write(&file, settings)?;
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

//! One address that follows the primary of Postgres: HAProxy, by what Patroni says.

use std::path::Path;

use url::Url;

use super::machine::{Kind, Machine};
use super::postgres::url;
use crate::chaos::server::Server;

/// It; see the module.
#[derive(Debug)]
pub(super) struct Balancer {
    pub(super) machine: Machine,
    server: Server,
}

impl Balancer {
    pub(super) async fn start() -> anyhow::Result<Self> {
        let machine = Machine { kind: Kind::Balancer, number: 1 };
        machine.configure().await?;
        // it gives up the rights of root itself
        let server = machine.server("root", &["haproxy", "-db", "-f"], "etc/haproxy/haproxy.cfg");
        server.start().await?;
        Ok(Self { machine, server })
    }

    /// Its log.
    pub(super) fn log(&self) -> &Path {
        self.server.log()
    }

    /// The URL of a database on the primary.
    pub(super) fn url(&self, database: &str) -> anyhow::Result<Url> {
        Ok(url(self.machine.address(), database).parse()?)
    }
}

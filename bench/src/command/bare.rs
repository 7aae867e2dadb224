//! The floors of measurements over HTTP, each as a separate process.

use crate::bare::{chain, look_up};
use clap::{Args, Subcommand};
use longshore_shared::kernel::config::{DatabaseSettings, ListenSettings};
use tokio::net::TcpListener;
use url::Url;
use uuid::Uuid;

#[derive(Args, Debug)]
pub(super) struct Bare {
    #[command(subcommand)]
    floor: Floor,
}

#[derive(Debug, Subcommand)]
enum Floor {
    /// Shows products.
    LookUp {
        /// Organisation whose products it shows.
        #[arg(long)]
        organisation: Uuid,
        #[command(flatten)]
        served: Served,
    },
    /// Inserts what it is given, and posts it.
    Chain {
        /// URL of the Redis with its queue.
        #[arg(long, env = "REDIS_URL")]
        redis_url: String,
        /// Where it posts to.
        #[arg(long)]
        receiver: Url,
        #[command(flatten)]
        served: Served,
    },
}

/// Where it listens, and what it stands on.
#[derive(Args, Debug)]
struct Served {
    #[command(flatten)]
    database: DatabaseSettings,
    #[command(flatten)]
    listen: ListenSettings,
}

impl Bare {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        match self.floor {
            Floor::LookUp { organisation, served } => {
                let listener = TcpListener::bind(served.listen.bind).await?;
                look_up::serve(listener, &served.database, organisation).await
            }
            Floor::Chain { redis_url, receiver, served } => {
                let listener = TcpListener::bind(served.listen.bind).await?;
                chain::serve(listener, &served.database, &redis_url, receiver).await
            }
        }
    }
}

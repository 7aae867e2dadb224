//! The floors of measurements over HTTP, each as a separate process.

use crate::bare::{chain, look_up};
use clap::{Args, Subcommand};
use longshore_kernel::config::{DatabaseSettings, ListenSettings};
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
    /// Serves products.
    LookUp {
        /// Organisation of the products.
        #[arg(long)]
        organisation: Uuid,
        #[command(flatten)]
        served: Served,
    },
    /// Inserts what it receives and posts it.
    Chain {
        /// URL of the Redis with the queue.
        #[arg(long, env = "REDIS_URL")]
        redis_url: String,
        /// URL to post to.
        #[arg(long)]
        receiver: Url,
        #[command(flatten)]
        served: Served,
    },
}

/// Its address and its database.
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

//! The floor of a look-up by HTTP, as a process of its own.

use clap::Args;
use longshore_bench::bare;
use longshore_shared::platform::config::{DatabaseSettings, ListenSettings};
use tokio::net::TcpListener;
use uuid::Uuid;

#[derive(Args, Debug)]
pub(super) struct Bare {
    /// Organisation whose products it shows.
    #[arg(long)]
    organisation: Uuid,
    #[command(flatten)]
    database: DatabaseSettings,
    #[command(flatten)]
    listen: ListenSettings,
}

impl Bare {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let listener = TcpListener::bind(self.listen.bind).await?;
        bare::serve(listener, &self.database, self.organisation).await
    }
}

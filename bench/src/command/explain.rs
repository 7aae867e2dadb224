//! Query plans of the service's statements.

use crate::explain;
use clap::Args;
use longshore_testkit::stack::{Stack, StackSettings};
use tracing_subscriber::EnvFilter;

#[derive(Args, Debug)]
pub(super) struct Explain {
    /// Products in the database.
    #[arg(long, default_value_t = 1_000_000)]
    products: i64,
    #[command(flatten)]
    stack: StackSettings,
}

impl Explain {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        // The plans are notices of Postgres, printed without decoration.
        let filter = EnvFilter::try_new(format!("off,{}=info", explain::TARGET))?;
        let plain = tracing_subscriber::fmt().with_env_filter(filter).without_time().with_level(false);
        plain.with_target(false).with_ansi(false).init();
        let stack = Stack::start(&self.stack).await?;
        explain::run(&stack, self.products).await
    }
}

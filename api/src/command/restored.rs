//! `longshore-api restored`: what is to be done once Postgres was set back.

use std::io::{Write as _, stdout};

use chrono::{DateTime, Utc};
use clap::Args;
use longshore_kernel::config::DatabaseSettings;
use longshore_kernel::database;
use longshore_operate::restored::{self, Wanted};

use super::{Exit, must_be_postgres, read};

#[derive(Args, Debug)]
pub(super) struct Restored {
    /// What was committed after this time may be lost, as in 2027-01-31T09:00:00Z: that of the backup. Where a set-back is
    /// seen, the time is known.
    #[arg(long, value_parser = read::moment)]
    since: Option<DateTime<Utc>>,
    /// Ask warehouses at once for every order that they may have, and not when its next change asks for it.
    #[arg(long)]
    ask_warehouses: bool,
    #[command(flatten)]
    database: DatabaseSettings,
}

impl Restored {
    pub(super) async fn run(self) -> anyhow::Result<Exit> {
        must_be_postgres(&self.database)?;
        let mut owner = database::connect_owner(&self.database, "longshore-api").await?;
        let wanted = Wanted { since: self.since, asks_warehouses: self.ask_warehouses };
        // a reader that wants no more, such as `head`, leaves nothing half done
        restored::mend(&mut owner, wanted, &mut |line| drop(writeln!(stdout(), "{line}"))).await?;
        Ok(Exit::Done)
    }
}

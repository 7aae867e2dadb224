//! `longshore wms`: the systems of warehouses, which take orders from Longshore.
//!
//! `check` is for those who build one: it calls that system as Longshore does, and never the service. The calls are in
//! [`warehouse`], the rules in [`rule`]; another rule is a variant and its arm there. `test` has the service call the system of a
//! wms, with the setting that it has stored.

mod answer;
mod order;
mod rule;
mod warehouse;

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use longshore_client::{Client, Job, ListQuery, Order, Uuid};
use serde_json::json;

use self::answer::Trouble;
use self::rule::{Rule, Verdict};
use self::warehouse::Warehouse;
use crate::find::Named;
use crate::job::followed;
use crate::list::Part;
use crate::output::stdout;
use crate::remote::Remote;
use crate::{Exit, output, read, table};

/// What can be done with the system of a warehouse.
#[derive(Debug, Subcommand)]
pub(super) enum WmsCommand {
    /// Check whether a WMS keeps the rules of the hand-over. It gets orders that are made up, and gives each back; use one for tests.
    Check(Check),
    /// Test the connection to the system of a wms, and show the result, which is also the exit status; nothing is changed.
    Test(Test),
    /// List orders that warehouses report of since Postgres was set back, and that are not in Longshore.
    Lost(Lost),
    /// Dismiss such orders: they are forgotten, until another report comes.
    Dismiss(Dismiss),
}

#[derive(Args, Debug)]
pub(super) struct Lost {
    /// Only those of this wms, by its id or name.
    #[arg(long, value_parser = Named::wms)]
    wms: Option<Named>,
    #[command(flatten)]
    part: Part<100>,
}

#[derive(Args, Debug)]
pub(super) struct Dismiss {
    /// Ids, as `longshore wms lost --ids` shows them.
    #[arg(required = true, value_parser = read::id)]
    ids: Vec<Uuid>,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Args, Debug)]
pub(super) struct Test {
    /// Id or name of the wms.
    #[arg(value_parser = Named::wms)]
    wms: Named,
    /// End as soon as the job is accepted, and print its id.
    #[arg(long)]
    detach: bool,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Args, Debug)]
pub(super) struct Check {
    /// Base URL of the WMS; calls go to URL/expedition/ID.
    #[arg(value_parser = warehouse::base)]
    url: String,
    /// Secret of its calls: `whsec_…`. Without it, calls are not signed, and signatures are not checked.
    #[arg(long, env = "LONGSHORE_WMS_SECRET", hide_env_values = true)]
    secret: Option<String>,
    /// SKU of a product that the WMS knows; the orders are of it.
    #[arg(long, default_value = "LONGSHORE-CHECK", conflicts_with = "order")]
    sku: String,
    /// SKU that the WMS refuses. Without it, refusals are not checked.
    #[arg(long)]
    refused_sku: Option<String>,
    /// File with an order as JSON, to hand over instead of the one that is made up. Its id, numbers and SKUs are replaced where a rule needs it.
    #[arg(long)]
    order: Option<PathBuf>,
    /// Seconds that an answer may take. Longshore waits 15.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=600))]
    timeout: u64,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

impl WmsCommand {
    pub(super) async fn run(self) -> anyhow::Result<Exit> {
        match self {
            Self::Check(check) => check.run().await,
            Self::Lost(lost) => lost.run().await,
            Self::Dismiss(Dismiss { ids, remote }) => {
                let client = remote.client()?;
                for id in ids {
                    client.dismiss_lost_order(id).answer().await?;
                    if !remote.json {
                        writeln!(stdout(), "the lost order {id} is dismissed")?;
                    }
                }
                Ok(Exit::Done)
            }
            Self::Test(Test { wms, detach, remote }) => {
                let client = remote.client()?;
                let answer = client.test_wms(wms.id(&client).await?).answer().await?;
                let job: Job = answer.read()?;
                followed(&client, &answer, job.id, detach, remote.json).await
            }
        }
    }
}

impl Lost {
    async fn run(self) -> anyhow::Result<Exit> {
        let wms = Named::id_of(self.wms.as_ref(), &self.part.client()?).await?;
        let mut query = ListQuery::new().equal("wms", wms).sort("createdAt", Order::Descending);
        // a table has the name of the wms; JSON and CSV are the record
        if !self.part.is_as_sent() {
            query = query.nested();
        }
        let columns = [
            ("id", "id"),
            ("wms", "wms.name"),
            ("order", "expedition"),
            ("number", "number"),
            ("first", "createdAt"),
            ("last", "changedAt"),
            ("report", "report"),
        ];
        self.part.write(query, Client::lost_orders, &columns).await
    }
}

impl Check {
    async fn run(self) -> anyhow::Result<Exit> {
        let template = match &self.order {
            None => order::made_up(&self.sku),
            Some(file) => {
                let text =
                    fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
                order::read(&text).with_context(|| format!("{} is not an order", file.display()))?
            }
        };
        let timeout = Duration::from_secs(self.timeout);
        let wms = Warehouse::new(self.url, self.secret.as_deref(), template, self.refused_sku, timeout)?;
        let mut findings = Vec::new();
        let mut stop = None;
        for rule in Rule::ALL {
            let verdict = match (stop, rule.needs(&wms)) {
                (Some(why), _) | (None, Some(why)) => Verdict::Unchecked(why),
                (None, None) => match rule.check(&wms).await {
                    Ok(()) => Verdict::Kept,
                    Err(Trouble::Broken(what)) => Verdict::Broken(what),
                    Err(Trouble::Unreachable(why)) if rule == Rule::Takes => {
                        anyhow::bail!(Unreachable(why))
                    }
                    Err(Trouble::Unreachable(why)) => Verdict::Broken(why),
                    Err(Trouble::Unchecked(why)) => Verdict::Unchecked(why),
                },
            };
            if rule == Rule::Takes && verdict != Verdict::Kept {
                stop = Some("the WMS takes no order");
            }
            if !self.json {
                write_verdict(rule, &verdict)?;
            }
            findings.push((rule, verdict));
        }
        let left = wms.give_all_back().await;
        let count = |word: &str| findings.iter().filter(|(_, verdict)| verdict.word() == word).count();
        let (kept, broken, unchecked) = (count("kept"), count("broken"), count("unchecked"));
        if self.json {
            let of = |(rule, verdict): &(Rule, Verdict)| json!({"rule": rule.name(), "title": rule.title(), "verdict": verdict.word(), "found": verdict.found()});
            let rules: Vec<_> = findings.iter().map(of).collect();
            output::json(&json!({"rules": rules, "leftOver": left}))?;
        } else {
            for id in &left {
                writeln!(
                    stdout(),
                    "left over  {id}: an order of this check, which the WMS did not give back"
                )?;
            }
            writeln!(stdout(), "{kept} kept, {broken} broken, {unchecked} unchecked")?;
        }
        Ok(if broken == 0 { Exit::Done } else { Exit::Failed })
    }
}

/// The WMS cannot be reached at all.
#[derive(Debug)]
pub(super) struct Unreachable(String);

impl std::fmt::Display for Unreachable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unreachable {}

/// Writes the verdict on a rule in a line.
fn write_verdict(rule: Rule, verdict: &Verdict) -> anyhow::Result<()> {
    let found = match verdict.found() {
        Some(found) => format!(": {}", table::shown(found)),
        None => String::new(),
    };
    writeln!(stdout(), "{:<9}  {}{found}", verdict.word(), rule.title())?;
    Ok(())
}

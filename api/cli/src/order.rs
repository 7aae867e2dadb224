//! `longshore order`: orders, which the API calls expeditions.

use std::io::Write;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use longshore_client::{Client, HAND_OVER_STATES, ListQuery, ORDER_STATUSES, Order, Value};

use crate::find::{Named, numbered};
use crate::list::Part;
use crate::output::stdout;
use crate::remote::{self, Remote};
use crate::sync::RowFile;
use crate::{Exit, output, table};

/// What can be done with orders.
#[derive(Debug, Subcommand)]
pub(super) enum OrderCommand {
    /// List orders, the newest first.
    List(List),
    /// Show an order: its status, what it waits for, what is wrong with it, and its history.
    Show(One),
    /// Send an order: it is checked and booked.
    Send(One),
    /// Cancel an order, unless the warehouse has begun with it.
    Cancel(Cancel),
    /// Import orders, one JSON object a line or a file of CSV, and follow the job to its end; the exit status shows the result.
    Import(Import),
}

#[derive(Args, Debug)]
pub(super) struct List {
    /// Only orders in these statuses, separated by commas.
    #[arg(long, value_delimiter = ',', value_parser = PossibleValuesParser::new(ORDER_STATUSES))]
    status: Vec<String>,
    /// Only orders whose hand-over to the system of their warehouse is in these states, separated by commas.
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = PossibleValuesParser::new(HAND_OVER_STATES))]
    hand_over: Vec<String>,
    /// Only orders of this e-shop, by its id or name.
    #[arg(long, value_parser = Named::eshop)]
    eshop: Option<Named>,
    /// Only orders with this number, external id or tracking number.
    #[arg(long)]
    number: Option<String>,
    /// Only orders of the product with this SKU.
    #[arg(long)]
    sku: Option<String>,
    #[command(flatten)]
    part: Part<20>,
}

#[derive(Args, Debug)]
pub(super) struct One {
    /// Id or number of the order.
    #[arg(value_parser = Named::order)]
    order: Named,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Args, Debug)]
pub(super) struct Cancel {
    /// Id or number of the order.
    #[arg(value_parser = Named::order)]
    order: Named,
    /// Why, for the audit.
    #[arg(long)]
    reason: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Args, Debug)]
pub(super) struct Import {
    #[command(flatten)]
    file: RowFile,
    /// Id or name of their e-shop.
    #[arg(long, value_parser = Named::eshop)]
    eshop: Named,
    /// Whether new orders are sent, where their rows do not say it. Without it, they are unless the e-shop edits them first.
    #[arg(long)]
    send: Option<bool>,
    /// Withhold what would cancel more orders than that: a number, or a percentage of those that can be cancelled such as 20%.
    #[arg(long, value_name = "LIMIT")]
    max_cancelled: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

impl OrderCommand {
    pub(super) async fn run(self) -> anyhow::Result<Exit> {
        match self {
            Self::List(list) => list.run().await,
            Self::Show(One { order, remote }) => {
                let client = remote.client()?;
                let order = remote::json(&client.order(order.id(&client).await?).answer().await?)?;
                if remote.json {
                    output::json(&order)?;
                } else {
                    show(&order)?;
                }
                Ok(Exit::Done)
            }
            Self::Send(One { order, remote }) => {
                let client = remote.client()?;
                let id = order.id(&client).await?;
                let order = remote::json(&client.send_order(id).answer().await?)?;
                tell(&order, remote.json)?;
                // the request was taken, and the order was not sent
                Ok(if order["status"] == "incorrect" { Exit::Refusals } else { Exit::Done })
            }
            Self::Cancel(Cancel { order, reason, remote }) => {
                let client = remote.client()?;
                let id = order.id(&client).await?;
                tell(&remote::json(&client.cancel_order(id, reason.as_deref()).answer().await?)?, remote.json)
            }
            Self::Import(Import { file, eshop, send, max_cancelled, remote }) => {
                let eshop = eshop.id(&remote.client()?).await?;
                let guard = ("maxCancelled", max_cancelled);
                file.send(&remote, guard, |client, rows| client.import_orders(eshop, send, rows)).await
            }
        }
    }
}

impl List {
    async fn run(self) -> anyhow::Result<Exit> {
        let mut query = ListQuery::new()
            .among("status", &self.status)
            .among("handover.state", &self.hand_over)
            .equal("eshop", Named::id_of(self.eshop.as_ref(), &self.part.client()?).await?)
            .equal("items.product.productSku", self.sku)
            .sort("createdAt", Order::Descending);
        if let Some(number) = &self.number {
            let (hits, is_more) = match numbered(&self.part.client()?, number).await {
                // the program of a warehouse lists orders, and finds nothing
                Err(error) if error.status() == Some(403) => (Vec::new(), false),
                found => found?,
            };
            let ids: Vec<_> = hits.iter().map(|hit| hit.id.to_string()).collect();
            // of more than it returns, the other options narrow only those
            query = if ids.is_empty() || is_more {
                query.filter("orderNumber", "eq", number.trim())
            } else {
                query.among("id", &ids)
            };
        }
        // a table has the SKU of what an order waits for; JSON and CSV are the record
        if !self.part.is_as_sent() {
            query = query.nested();
        }
        let columns = [
            ("id", "id"),
            ("number", "orderNumber"),
            ("status", "status"),
            ("since", "statusSince"),
            ("pieces", "sumOfQuantity"),
            ("waits for", "waitsFor.productSku"),
            ("hand-over", "handover.state"),
            ("error of it", "handover.error"),
            ("created", "createdAt"),
        ];
        self.part.write(query, Client::orders, &columns).await
    }
}

/// What an order waits for, as its items name it.
fn waits_for(order: &Value) -> String {
    let product = &order["waitsFor"];
    let items = order["items"].as_array().into_iter().flatten();
    let mut of = items.filter(|item| !product.is_null() && item["product"] == *product);
    of.next().map_or_else(|| table::cell(order, "waitsFor"), |item| table::cell(item, "productSku"))
}

/// Where its hand-over to the system of its warehouse is, and why it stays there.
fn handover(order: &Value) -> String {
    let said = |name: &str| table::cell(order, &format!("handover.{name}"));
    let mut text = said("state");
    if !order["handover"]["error"].is_null() {
        text = format!("{text}, {}, next call {}", said("error"), said("nextAttemptAt"));
    }
    if order["handover"]["contentsUnknown"] == true {
        text = format!("{text}, may have other items or another address there");
    } else if order["handover"]["inDoubt"] == true {
        text = format!("{text}, in doubt");
    }
    text
}

/// Writes the details of an order, one per line.
fn show(order: &Value) -> anyhow::Result<()> {
    let said = |path: &str| table::cell(order, path);
    let mut out = stdout();
    for (name, value) in [
        ("order", said("orderNumber")),
        ("id", said("id")),
        ("e-shop", said("eshop")),
        ("status", said("status")),
        ("since", said("statusSince")),
        ("waits for", waits_for(order)),
        ("hand-over", handover(order)),
        ("tracking", said("trackingNumber")),
    ] {
        writeln!(out, "{name:<10} {value}")?;
    }
    let each = |name: &str| order[name].as_array().cloned().unwrap_or_default();
    show_errors(&mut out, order)?;
    for item in each("items") {
        let of = |name: &str| table::cell(&item, name);
        writeln!(out, "item       {} x {}, {} booked", of("quantity"), of("productSku"), of("booked"))?;
    }
    for audit in each("audits") {
        let of = |name: &str| table::cell(&audit, name);
        writeln!(out, "history    {} {} by {}", of("createdAt"), of("statusTo"), of("updatedBy"))?;
    }
    Ok(())
}

/// Writes the status of an order.
fn tell(order: &Value, as_json: bool) -> anyhow::Result<Exit> {
    if as_json {
        output::json(order)?;
    } else {
        writeln!(
            stdout(),
            "order {} is {}",
            table::cell(order, "orderNumber"),
            table::cell(order, "status")
        )?;
        if order["handover"]["state"] == "withdrawing" {
            writeln!(stdout(), "its warehouse has been asked to give it back, and has not answered")?;
        }
        // a cancelled order keeps the errors that it had
        if order["status"] == "incorrect" {
            show_errors(&mut stdout(), order)?;
        }
    }
    Ok(Exit::Done)
}

/// Writes what is wrong with an order.
fn show_errors(out: &mut impl Write, order: &Value) -> anyhow::Result<()> {
    for error in order["errors"].as_array().into_iter().flatten() {
        writeln!(
            out,
            "error      {}: {}",
            table::cell(error, "propertyPath"),
            table::cell(error, "message")
        )?;
    }
    Ok(())
}

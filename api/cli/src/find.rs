//! `longshore find`: anything by what people call it. Commands that take an order find it here by its number, too.

use std::io::{Write as _, stderr};

use clap::Args;
use clap::builder::PossibleValuesParser;
use longshore_client::{Client, Error, Hit, Hits, Uuid, Value};

use crate::output::stdout;
use crate::remote::{self, Remote};
use crate::{Exit, Unknown, Usage, output, read, table};

#[derive(Args, Debug)]
pub(super) struct Find {
    /// An order number, a SKU, a name, the host of a destination, the id of a request, or any other id.
    text: String,
    /// Only hits of these kinds, separated by commas.
    #[arg(long, value_delimiter = ',', value_parser = PossibleValuesParser::new(Hit::KINDS))]
    kind: Vec<String>,
    #[command(flatten)]
    remote: Remote,
}

impl Find {
    pub(super) async fn run(self) -> anyhow::Result<Exit> {
        let mut answer = remote::json(&self.remote.client()?.find(&self.text).answer().await?)?;
        if !self.kind.is_empty() {
            let is_wanted = |kind: &Value| self.kind.iter().any(|wanted| kind == wanted);
            if let Some(hits) = answer["results"].as_array_mut() {
                hits.retain(|hit| is_wanted(&hit["kind"]));
            }
            if let Some(more) = answer["more"].as_array_mut() {
                more.retain(is_wanted);
            }
        }
        if self.remote.json {
            output::json(&answer)?;
            return Ok(Exit::Done);
        }
        let columns = ["kind", "id", "name", "of"];
        table::write(&mut stdout(), &columns, &table::rows(&answer["results"], &columns))?;
        for kind in answer["more"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            writeln!(stderr(), "there are more of the kind {}", table::shown(kind))?;
        }
        Ok(Exit::Done)
    }
}

/// An order, as a command names it.
#[derive(Clone, Debug)]
pub(super) enum Order {
    /// By its id.
    Id(Uuid),
    /// By its number, external id or tracking number.
    Number(String),
}

impl Order {
    /// Reads what was typed.
    pub(super) fn read(text: &str) -> Result<Self, &'static str> {
        match text.trim() {
            "" => Err("must be the id or the number of an order"),
            number => Ok(read::id(number).map_or_else(|_| Self::Number(number.to_owned()), Self::Id)),
        }
    }

    /// Its id.
    ///
    /// # Errors
    /// No order has that number, or several do.
    pub(super) async fn id(&self, client: &Client) -> anyhow::Result<Uuid> {
        let number = match self {
            Self::Id(id) => return Ok(*id),
            Self::Number(number) => number,
        };
        let (hits, is_more) = numbered(client, number).await?;
        one(number, &hits, is_more)
    }
}

/// The orders with this number, external id or tracking number, and whether there are more than these.
pub(super) async fn numbered(client: &Client, number: &str) -> Result<(Vec<Hit>, bool), Error> {
    const ORDER: &str = "order";
    let Hits { mut results, more, .. } = client.find(number).send().await?;
    results.retain(|hit| hit.kind == ORDER);
    Ok((results, more.iter().any(|kind| kind == ORDER)))
}

/// The only one of the hits, or, if they are all, the only one whose number is the typed one to the letter.
fn one(number: &str, hits: &[Hit], is_more: bool) -> anyhow::Result<Uuid> {
    let mut same = hits.iter().filter(|hit| hit.name == number && !is_more);
    match (hits, same.next(), same.next()) {
        ([hit], ..) | (_, Some(hit), None) => Ok(hit.id),
        ([], ..) => anyhow::bail!(Unknown(format!("there is no order {}", table::shown(number)))),
        _ => {
            let of = |hit: &Hit| hit.of.as_deref().map_or_else(String::new, |of| format!(", {of}"));
            let all: Vec<_> =
                hits.iter().map(|hit| format!("{} ({}{})", hit.id, hit.name, of(hit))).collect();
            let usage = format!(
                "{} finds several orders; name one by its id: {}",
                table::shown(number),
                table::shown(&all.join("; "))
            );
            anyhow::bail!(Usage(usage))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hit(id: u128, name: &str) -> Hit {
        let fields =
            serde_json::json!({"kind": "order", "id": Uuid::from_u128(id), "name": name, "of": "Shop"});
        serde_json::from_value(fields).unwrap()
    }

    #[test]
    fn an_order_is_named_by_its_id_or_its_number() {
        let id = Uuid::from_u128(7);
        assert!(matches!(Order::read(&format!(" {id}")), Ok(Order::Id(read)) if read == id));
        assert!(matches!(Order::read(" H-1 "), Ok(Order::Number(number)) if number == "H-1"));
        Order::read("  ").unwrap_err();
    }

    #[test]
    fn a_number_that_several_orders_have_names_none_of_them() {
        let (first, second) = (hit(1, "H-1"), hit(2, "h-1"));
        assert_eq!(one("TRACK", std::slice::from_ref(&first), false).unwrap(), first.id);
        assert_eq!(one("h-1", &[first.clone(), second.clone()], false).unwrap(), second.id);
        let error = one("h-1", &[first.clone(), second.clone()], true).unwrap_err();
        assert!(error.is::<Usage>(), "one that was not returned may have it, too: {error}");
        for hits in [&[first.clone(), second][..], &[first.clone(), hit(3, "H-1")]] {
            let typed = if hits[1].name == "H-1" { "H-1" } else { "TRACK" };
            let error = one(typed, hits, false).unwrap_err();
            assert!(error.is::<Usage>() && error.to_string().contains(&first.id.to_string()), "{error}");
        }
        assert!(one("H-9", &[], false).unwrap_err().is::<Unknown>());
    }
}

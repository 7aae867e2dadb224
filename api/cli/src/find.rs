//! `longshore find`: anything by what people call it. Commands that take an order, an e-shop, … find it here
//! by its number or name, too.

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
    /// Show ids, too: for commands that take no name.
    #[arg(long)]
    ids: bool,
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
        let columns: &[&str] = if self.ids { &["kind", "id", "name", "of"] } else { &["kind", "name", "of"] };
        table::write(&mut stdout(), columns, &table::rows(&answer["results"], columns))?;
        for kind in answer["more"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            writeln!(stderr(), "there are more of the kind {}", table::shown(kind))?;
        }
        Ok(Exit::Done)
    }
}

/// A record, as a command names it.
#[derive(Clone, Debug)]
pub(super) enum Named {
    /// By its id.
    Id(Uuid),
    /// As people call it.
    Called(Kind, String),
}

/// What commands name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Order,
    Eshop,
    Organisation,
    Webhook,
    Wms,
    Token,
    /// Whatever people have a number or a name for.
    Record,
}

impl Kind {
    /// As the service calls it.
    fn word(self) -> &'static str {
        match self {
            Self::Record => "record",
            Self::Order => "order",
            Self::Eshop => "eshop",
            Self::Organisation => "organisation",
            Self::Webhook => "webhook",
            Self::Wms => "wms",
            Self::Token => "token",
        }
    }

    /// As people call it.
    fn noun(self) -> &'static str {
        match self {
            Self::Eshop => "e-shop",
            Self::Token => "access token",
            other => other.word(),
        }
    }

    /// Whether a hit is of the kind. A request, and a job that is found by it, are no records of that name.
    fn has(self, hit: &Hit) -> bool {
        if self == Self::Record {
            !matches!(hit.kind.as_str(), "request" | "job")
        } else {
            hit.kind == self.word()
        }
    }

    /// Whether a hit is what a text means. Orders are found by whole numbers, and webhooks by a part of their destination; others by
    /// a part of their name, which means too little.
    fn means(hit: &Hit, text: &str) -> bool {
        let name = match hit.kind.as_str() {
            "order" | "webhook" => return true,
            // its role follows
            "token" => hit.name.rsplit_once(", ").map_or(hit.name.as_str(), |(name, _)| name),
            // its name follows
            "product" => hit.name.split_once(" · ").map_or(hit.name.as_str(), |(sku, _)| sku),
            _ => hit.name.as_str(),
        };
        name.to_lowercase() == text.to_lowercase()
    }
}

impl Named {
    /// The id, number, external id or tracking number of an order.
    pub(super) fn order(text: &str) -> Result<Self, &'static str> {
        Self::read(Kind::Order, text)
    }

    /// The id or name of an e-shop.
    pub(super) fn eshop(text: &str) -> Result<Self, &'static str> {
        Self::read(Kind::Eshop, text)
    }

    /// The id or name of an organisation.
    pub(super) fn organisation(text: &str) -> Result<Self, &'static str> {
        Self::read(Kind::Organisation, text)
    }

    /// The id of a webhook, or a part of its destination.
    pub(super) fn webhook(text: &str) -> Result<Self, &'static str> {
        Self::read(Kind::Webhook, text)
    }

    /// The id or name of a wms.
    pub(super) fn wms(text: &str) -> Result<Self, &'static str> {
        Self::read(Kind::Wms, text)
    }

    /// The id or name of an access token.
    pub(super) fn token(text: &str) -> Result<Self, &'static str> {
        Self::read(Kind::Token, text)
    }

    /// The id of a record, its number, its SKU or its name.
    pub(super) fn record(text: &str) -> Result<Self, &'static str> {
        Self::read(Kind::Record, text)
    }

    fn read(kind: Kind, text: &str) -> Result<Self, &'static str> {
        match text.trim() {
            "" => Err("must not be empty"),
            text => Ok(read::id(text).map_or_else(|_| Self::Called(kind, text.to_owned()), Self::Id)),
        }
    }

    /// Its id.
    ///
    /// # Errors
    /// Nothing is called that, or several things are.
    pub(super) async fn id(&self, client: &Client) -> anyhow::Result<Uuid> {
        let (kind, text) = match self {
            Self::Id(id) => return Ok(*id),
            Self::Called(kind, text) => (*kind, text),
        };
        let (hits, is_more) = hits(client, kind, text).await?;
        one(kind, text, &hits, is_more)
    }

    /// The id of what an option names, where it is given.
    pub(super) async fn id_of(named: Option<&Self>, client: &Client) -> anyhow::Result<Option<Uuid>> {
        match named {
            Some(named) => named.id(client).await.map(Some),
            None => Ok(None),
        }
    }
}

/// The orders with this number, external id or tracking number, and whether there are more than these.
pub(super) async fn numbered(client: &Client, number: &str) -> Result<(Vec<Hit>, bool), Error> {
    hits(client, Kind::Order, number).await
}

async fn hits(client: &Client, kind: Kind, text: &str) -> Result<(Vec<Hit>, bool), Error> {
    let Hits { mut results, more, .. } = client.find(text).send().await?;
    results.retain(|hit| kind.has(hit));
    Ok((results, more.iter().any(|more| more == kind.word())))
}

/// The only one that the text means, or, if these are all, the only one that is called so to the letter.
fn one(kind: Kind, text: &str, hits: &[Hit], is_more: bool) -> anyhow::Result<Uuid> {
    let meant: Vec<&Hit> = hits.iter().filter(|hit| Kind::means(hit, text)).collect();
    let mut same = meant.iter().filter(|hit| hit.name == text && !is_more);
    let (noun, called) = (kind.noun(), table::shown(text));
    match (meant.as_slice(), same.next(), same.next()) {
        ([hit], ..) | (_, Some(hit), None) => Ok(hit.id),
        ([], ..) if hits.is_empty() => anyhow::bail!(Unknown(format!("there is no {noun} {called}"))),
        ([], ..) => {
            let similar = listed(hits.iter());
            anyhow::bail!(Unknown(format!(
                "there is no {noun} {called}; did you mean one of these? {similar}"
            )))
        }
        (several, ..) => {
            let several = listed(several.iter().copied());
            anyhow::bail!(Usage(format!("{called} is the name of several; name one by its id: {several}")))
        }
    }
}

/// Hits in a sentence.
fn listed<'h>(hits: impl Iterator<Item = &'h Hit>) -> String {
    let of = |hit: &Hit| hit.of.as_deref().map_or_else(String::new, |of| format!(", {of}"));
    let all: Vec<_> = hits.map(|hit| format!("{} ({}{})", hit.id, hit.name, of(hit))).collect();
    table::shown(&all.join("; "))
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
        assert!(matches!(Named::order(&format!(" {id}")), Ok(Named::Id(read)) if read == id));
        assert!(matches!(Named::order(" H-1 "), Ok(Named::Called(Kind::Order, number)) if number == "H-1"));
        Named::order("  ").unwrap_err();
    }

    #[test]
    fn a_number_that_several_orders_have_names_none_of_them() {
        let (first, second) = (hit(1, "H-1"), hit(2, "h-1"));
        assert_eq!(one(Kind::Order, "TRACK", std::slice::from_ref(&first), false).unwrap(), first.id);
        assert_eq!(one(Kind::Order, "h-1", &[first.clone(), second.clone()], false).unwrap(), second.id);
        let error = one(Kind::Order, "h-1", &[first.clone(), second.clone()], true).unwrap_err();
        assert!(error.is::<Usage>(), "one that was not returned may have it, too: {error}");
        for hits in [&[first.clone(), second][..], &[first.clone(), hit(3, "H-1")]] {
            let typed = if hits[1].name == "H-1" { "H-1" } else { "TRACK" };
            let error = one(Kind::Order, typed, hits, false).unwrap_err();
            assert!(error.is::<Usage>() && error.to_string().contains(&first.id.to_string()), "{error}");
        }
        assert!(one(Kind::Order, "H-9", &[], false).unwrap_err().is::<Unknown>());
    }

    #[test]
    fn a_part_of_a_name_names_nothing_and_a_part_of_a_destination_does() {
        let hit = |kind: &str, id: u128, name: &str| -> Hit {
            let fields =
                serde_json::json!({"kind": kind, "id": Uuid::from_u128(id), "name": name, "of": "Harbour"});
            serde_json::from_value(fields).unwrap()
        };
        let (shop, other) = (hit("eshop", 1, "Mugs"), hit("eshop", 2, "Mugs and Cups"));
        assert_eq!(one(Kind::Eshop, "mugs", &[shop.clone(), other.clone()], true).unwrap(), shop.id);
        let error = one(Kind::Eshop, "Mug", &[shop.clone(), other], false).unwrap_err();
        assert!(error.is::<Unknown>() && error.to_string().contains("(Mugs and Cups, Harbour)"), "{error}");
        let twin = hit("eshop", 3, "Mugs");
        let error = one(Kind::Eshop, "Mugs", &[shop, twin], false).unwrap_err();
        assert!(
            error.is::<Usage>() && error.to_string().contains(&Uuid::from_u128(3).to_string()),
            "{error}"
        );
        let hook = hit("webhook", 4, "https://shop.example/hook");
        assert_eq!(one(Kind::Webhook, "shop.example", std::slice::from_ref(&hook), false).unwrap(), hook.id);
        // of a record of any kind, the name or number is whole, too
        let (mug, order) = (hit("product", 6, "MUG · Harbour mug"), hit("order", 7, "H-1"));
        assert_eq!(one(Kind::Record, "mug", std::slice::from_ref(&mug), false).unwrap(), mug.id);
        one(Kind::Record, "Harb", std::slice::from_ref(&mug), false).unwrap_err();
        assert_eq!(one(Kind::Record, "#H-1", std::slice::from_ref(&order), false).unwrap(), order.id);
        assert!(!Kind::Record.has(&hit("request", 8, "H-1")) && Kind::Record.has(&order));
        let token = hit("token", 5, "erp, nightly, connector");
        assert_eq!(one(Kind::Token, "ERP, nightly", std::slice::from_ref(&token), false).unwrap(), token.id);
        one(Kind::Token, "erp", &[token], false).unwrap_err();
    }
}

//! Catalogues of partners: valid and invalid rows of a sync.

use std::collections::HashSet;
use std::path::Path;

use anyhow::Context as _;
use serde_json::{Map, Value};
use uuid::Uuid;

/// The catalogue of a small gift shop, with a few invalid rows.
const SHIPPED: &str = include_str!("../data/catalogue.ndjson");

/// A catalogue as lines of a product sync.
#[derive(Debug, Clone)]
pub struct Catalogue {
    /// Its origin, for people.
    pub name: String,
    /// One line per product, mapped to the fields of the sync; lines that are not JSON objects are unchanged.
    pub lines: Vec<String>,
}

/// The expected result of a sync of a catalogue into an empty e-shop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// Rows that become products.
    pub taken: u64,
    /// Rows that are refused with a reason.
    pub refused: u64,
}

impl Catalogue {
    /// The catalogue of the demo.
    #[must_use]
    pub fn shipped() -> Self {
        Self::parse("the shipped catalogue", SHIPPED)
    }

    /// A catalogue of `count` generated products, all valid.
    #[must_use]
    pub fn made_up(count: usize) -> Self {
        let lines =
            (0..count).map(|n| format!(r#"{{"productSku":"MU-{n:07}","name":"Made up product {n}"}}"#));
        Self { name: format!("{count} made up products"), lines: lines.collect() }
    }

    /// Reads a catalogue from a file of NDJSON: rows of a sync, or rows with `sku` instead of `productSku`,
    /// but only that and `name` are used.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Self::parse(&path.display().to_string(), &text))
    }

    fn parse(name: &str, text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.trim().is_empty()).map(mapped).collect();
        Self { name: name.to_owned(), lines }
    }

    /// The body of a sync as NDJSON: the header, then the lines.
    #[must_use]
    pub fn body(&self, eshop: Uuid) -> String {
        let mut body = serde_json::json!({ "eshop": eshop }).to_string();
        for line in &self.lines {
            body.push('\n');
            body.push_str(line);
        }
        body.push('\n');
        body
    }

    /// The expected result of the sync, by an independent implementation of the rules
    /// (`docs/reference/products.md#product`), as far as catalogues break them.
    #[must_use]
    pub fn expected(&self) -> Expected {
        let mut skus = HashSet::new();
        let taken = self
            .lines
            .iter()
            .filter_map(|line| serde_json::from_str::<Map<String, Value>>(line).ok())
            .filter(keeps_the_rules)
            .filter(|row| row.get("productSku").is_some_and(|sku| skus.insert(sku.to_string())))
            .count();
        let refused = self.lines.len() - taken;
        Expected { taken: taken as u64, refused: refused as u64 }
    }
}

fn keeps_the_rules(row: &Map<String, Value>) -> bool {
    let text = |key: &str, least: usize| {
        row.get(key).and_then(Value::as_str).is_some_and(|text| (least..=255).contains(&text.chars().count()))
    };
    let number = |key: &str, most: u64| {
        row.get(key).is_none_or(|value| value.is_null() || value.as_u64().is_some_and(|value| value <= most))
    };
    let kind = row.get("type").is_none_or(|kind| {
        kind.is_null() || kind.as_str().is_some_and(|kind| ["virtual", "physical"].contains(&kind))
    });
    text("productSku", 1)
        && text("name", 2)
        && number("weight", 10_000_000)
        && ["height", "width", "length"].iter().all(|key| number(key, 20_000))
        && kind
}

fn mapped(line: &str) -> String {
    match serde_json::from_str::<Map<String, Value>>(line) {
        Ok(mut row) if row.contains_key("sku") => {
            let sku = row.remove("sku");
            let name = row.remove("name");
            serde_json::json!({ "productSku": sku, "name": name }).to_string()
        }
        _ => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_catalogue_has_valid_rows_and_an_invalid_one_of_each_kind() {
        assert_eq!(Catalogue::shipped().expected(), Expected { taken: 57, refused: 7 });
    }

    #[test]
    fn a_row_with_a_sku_is_mapped_to_the_fields_of_a_sync() {
        let catalogue =
            Catalogue::parse("", "{\"sku\":\"A\",\"name\":null,\"unitPrice\":\"1\"}\n\nnot json\n");
        assert_eq!(catalogue.lines, [r#"{"name":null,"productSku":"A"}"#, "not json"]);
        assert_eq!(catalogue.expected(), Expected { taken: 0, refused: 2 });
    }

    #[test]
    fn the_body_is_a_header_and_one_line_per_row() {
        let body = Catalogue::made_up(2).body(Uuid::nil());
        assert_eq!(body.lines().count(), 3);
        assert!(body.starts_with(
            "{\"eshop\":\"00000000-0000-0000-0000-000000000000\"}\n{\"productSku\":\"MU-0000000\""
        ));
    }
}

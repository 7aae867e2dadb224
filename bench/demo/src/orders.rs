//! Orders of an e-shop as rows of an import, and what becomes of them.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};
use uuid::Uuid;

/// Orders for the shipped catalogue, with a few that cannot be taken or sent.
const SHIPPED: &str = include_str!("../data/orders.ndjson");

/// Rows of an import.
#[derive(Debug, Clone)]
pub struct Orders(Vec<Map<String, Value>>);

/// What becomes of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is refused.
    Refused,
    /// Its order cannot be sent as it is.
    Incorrect,
    /// Its order is booked at once.
    Booked,
    /// Its order waits for goods.
    Waiting,
}

impl Orders {
    /// The orders of the demo.
    #[must_use]
    pub fn shipped() -> Self {
        Self(SHIPPED.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }

    /// How many rows there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The number of an order.
    #[must_use]
    pub fn number(&self, n: usize) -> &str {
        self.0.get(n).and_then(|row| row["orderNumber"].as_str()).unwrap_or_default()
    }

    /// The body of an import that sends what is new.
    #[must_use]
    pub fn body(&self, eshop: Uuid, carrier: Uuid) -> String {
        let mut body = json!({"eshop": eshop, "send": true}).to_string();
        for row in &self.0 {
            let mut row = row.clone();
            row.insert("carrier".to_owned(), json!(carrier));
            body.push('\n');
            body.push_str(&Value::Object(row).to_string());
        }
        body
    }

    /// What a warehouse may have of products, so that some orders are booked and others wait.
    #[must_use]
    pub fn stock(skus: &[String]) -> HashMap<String, i64> {
        let pieces = (0..).map(|n: i64| n % 4 * 6);
        skus.iter().cloned().zip(pieces).collect()
    }

    /// What becomes of each row, by an independent implementation of the rules (`docs/reference/orders.md#import`), as far as these rows
    /// need them: in their order, each takes all of its pieces or none.
    #[must_use]
    pub fn fates(&self, mut stock: HashMap<String, i64>) -> Vec<Fate> {
        let mut numbers = HashSet::new();
        self.0.iter().map(|row| fate(row, &mut numbers, &mut stock)).collect()
    }
}

fn fate(row: &Map<String, Value>, numbers: &mut HashSet<String>, stock: &mut HashMap<String, i64>) -> Fate {
    let text = |field: &str| row.get(field).and_then(Value::as_str).unwrap_or_default();
    let items: Vec<(&str, i64)> = row["items"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|item| {
            (item["productSku"].as_str().unwrap_or_default(), item["quantity"].as_i64().unwrap_or_default())
        })
        .collect();
    let is_known = items.iter().all(|(sku, quantity)| *quantity > 0 && stock.contains_key(*sku));
    if !numbers.insert(text("orderNumber").to_owned()) || !is_known || text("billingCountry").len() != 2 {
        return Fate::Refused;
    }
    if text("billingStreet").is_empty() {
        return Fate::Incorrect;
    }
    if items.iter().any(|(sku, quantity)| stock[*sku] < *quantity) {
        return Fate::Waiting;
    }
    for (sku, quantity) in items {
        *stock.entry(sku.to_owned()).or_default() -= quantity;
    }
    Fate::Booked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_orders_have_every_fate() {
        let orders = Orders::shipped();
        let skus: Vec<String> = (1..=57).map(|n| format!("HB-10{n:02}")).collect();
        let fates = orders.fates(Orders::stock(&skus));
        let count = |fate| fates.iter().filter(|of| **of == fate).count();
        assert_eq!((orders.count(), count(Fate::Refused), count(Fate::Incorrect)), (60, 4, 2));
        assert!(count(Fate::Booked) > 10 && count(Fate::Waiting) > 10, "{fates:?}");
    }
}

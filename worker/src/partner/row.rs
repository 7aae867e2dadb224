//! A row as a partner gives it, on its way into a chunk: the row of the push form, and what is to be told of it.
//!
//! A row that has something to tell is stored with a line before it; the first byte of such an entry begins no JSON, so
//! the two are never taken for each other.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Begins an entry that has something to tell: no JSON text begins with it.
const MARK: u8 = 0x01;

/// What is told of a row that was taken: recorded beside the refused items of the job, without counting as one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// The field it is about.
    pub field: String,
    /// What was done, for people.
    pub message: String,
}

/// A row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The SKU, for finding the same product twice.
    pub product_sku: Option<String>,
    /// What is told of it.
    told: Told,
    /// The row in the shape of the push form, as JSON; whatever it is, it is judged when its chunk is executed.
    pub body: Bytes,
}

/// What stands before a row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Told {
    /// The partner's own id of the item: what a row without a SKU is called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<String>,
    /// Told, whatever becomes of the row.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
    /// The row cannot even be judged, for this reason: it becomes an item error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// Only a row's SKU.
#[derive(Deserialize)]
struct Sku {
    #[serde(rename = "productSku")]
    product_sku: Option<String>,
}

impl Row {
    /// A row as it came, in the shape of the push form already.
    #[must_use]
    pub fn raw(body: Bytes) -> Self {
        let product_sku = serde_json::from_slice::<Sku>(&body).ok().and_then(|row| row.product_sku);
        Self { product_sku, told: Told::default(), body }
    }

    /// A row that was made of what a partner says.
    #[must_use]
    pub fn made(members: Map<String, Value>) -> Self {
        let product_sku = members.get("productSku").and_then(Value::as_str).map(str::to_owned);
        let body = Value::Object(members).to_string().into();
        Self { product_sku, told: Told::default(), body }
    }

    /// One that cannot be judged; of its bytes, what is given here is kept.
    #[must_use]
    pub fn refused(reason: impl Into<String>, body: Bytes) -> Self {
        Self { product_sku: None, told: Told { refused: Some(reason.into()), ..Told::default() }, body }
    }

    /// With the partner's own id of the item.
    #[must_use]
    pub fn of_item(mut self, item: impl Into<String>) -> Self {
        self.told.item = Some(item.into());
        self
    }

    /// With something to tell.
    #[must_use]
    pub fn noticing(mut self, notices: impl IntoIterator<Item = Notice>) -> Self {
        self.told.notices.extend(notices);
        self
    }

    /// The partner's own id of the item.
    #[must_use]
    pub fn item(&self) -> Option<&str> {
        self.told.item.as_deref()
    }

    /// As it is stored in a chunk.
    #[must_use]
    pub fn stored(&self) -> Bytes {
        if self.told == Told::default() {
            return self.body.clone();
        }
        // strings and lists of strings: writing them cannot fail
        let told = serde_json::to_vec(&self.told).unwrap_or_default();
        let mut entry = Vec::with_capacity(told.len() + self.body.len() + 2);
        entry.push(MARK);
        entry.extend_from_slice(&told);
        entry.push(b'\n');
        entry.extend_from_slice(&self.body);
        entry.into()
    }
}

/// Reads a stored entry of a fetched chunk: what is told of the row, and the row.
#[must_use]
pub fn read_stored(entry: &Bytes) -> (Told, Bytes) {
    if entry.first() == Some(&MARK)
        && let Some(end) = entry.iter().position(|byte| *byte == b'\n')
        && let Ok(told) = serde_json::from_slice(entry.get(1..end).unwrap_or_default())
    {
        return (told, entry.slice(end + 1..));
    }
    (Told::default(), entry.clone())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_row_comes_back_with_what_is_told_of_it() {
        let plain = Row::raw(Bytes::from_static(br#"{"productSku":"A"}"#));
        assert_eq!(plain.product_sku.as_deref(), Some("A"));
        assert_eq!(read_stored(&plain.stored()), (Told::default(), plain.body.clone()));
        let notice = Notice { field: "weight".to_owned(), message: "was rounded".to_owned() };
        let told = plain.clone().of_item("17").noticing([notice.clone()]);
        let (read, body) = read_stored(&told.stored());
        assert_eq!(
            (read.item.as_deref(), read.notices.as_slice(), body),
            (Some("17"), &[notice][..], plain.body)
        );
    }

    proptest! {
        #[test]
        fn any_entry_is_read_without_a_panic(entry in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = read_stored(&Bytes::from(entry));
        }
    }
}

//! A row from a partner, as it is stored in a chunk: the row of the push form, with notices about it.
//!
//! A row with notices is stored with a line before it. The first byte of such an entry begins no JSON text,
//! so the two forms cannot be confused.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Begins an entry with notices: no JSON text begins with this byte.
const MARK: u8 = 0x01;

/// A notice about an accepted row, recorded beside the item errors of the job without counting as one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// The field that it concerns.
    pub field: String,
    /// What was done to the field, for people.
    pub message: String,
}

/// A row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The SKU, to detect a product that appears twice.
    pub product_sku: Option<String>,
    /// Notices about it, or the reason to refuse it.
    remarks: Remarks,
    /// The row in the shape of the push form, as JSON, which is validated when its chunk is executed.
    pub body: Bytes,
}

/// Information stored before a row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Remarks {
    /// The partner's own id of the item, which identifies a row without a SKU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<String>,
    /// Notices, which are recorded whether or not the row is accepted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
    /// Why the row cannot be validated; it becomes an item error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// The SKU of a row.
#[derive(Deserialize)]
struct Sku {
    #[serde(rename = "productSku")]
    product_sku: Option<String>,
}

impl Row {
    /// A row that already has the shape of the push form.
    #[must_use]
    pub fn raw(body: Bytes) -> Self {
        let product_sku = serde_json::from_slice::<Sku>(&body).ok().and_then(|row| row.product_sku);
        Self { product_sku, remarks: Remarks::default(), body }
    }

    /// A row built from a partner's data.
    #[must_use]
    pub fn made(members: Map<String, Value>) -> Self {
        let product_sku = members.get("productSku").and_then(Value::as_str).map(str::to_owned);
        let body = Value::Object(members).to_string().into();
        Self { product_sku, remarks: Remarks::default(), body }
    }

    /// A row that cannot be validated, with the part of its bytes to store.
    #[must_use]
    pub fn refused(reason: impl Into<String>, body: Bytes) -> Self {
        Self {
            product_sku: None,
            remarks: Remarks { refused: Some(reason.into()), ..Remarks::default() },
            body,
        }
    }

    /// Adds the partner's own id of the item.
    #[must_use]
    pub fn of_item(mut self, item: impl Into<String>) -> Self {
        self.remarks.item = Some(item.into());
        self
    }

    /// Adds notices.
    #[must_use]
    pub fn noticing(mut self, notices: impl IntoIterator<Item = Notice>) -> Self {
        self.remarks.notices.extend(notices);
        self
    }

    /// The partner's own id of the item.
    #[must_use]
    pub fn item(&self) -> Option<&str> {
        self.remarks.item.as_deref()
    }

    /// The entry to store in a chunk.
    #[must_use]
    pub fn stored(&self) -> Bytes {
        if self.remarks == Remarks::default() {
            return self.body.clone();
        }
        // strings and lists of strings: serializing them cannot fail
        let remarks = serde_json::to_vec(&self.remarks).unwrap_or_default();
        let mut entry = Vec::with_capacity(remarks.len() + self.body.len() + 2);
        entry.push(MARK);
        entry.extend_from_slice(&remarks);
        entry.push(b'\n');
        entry.extend_from_slice(&self.body);
        entry.into()
    }
}

/// Reads a stored entry of a fetched chunk: the information about the row, and the row.
#[must_use]
pub fn read_stored(entry: &Bytes) -> (Remarks, Bytes) {
    if entry.first() == Some(&MARK)
        && let Some(end) = entry.iter().position(|byte| *byte == b'\n')
        && let Ok(remarks) = serde_json::from_slice(entry.get(1..end).unwrap_or_default())
    {
        return (remarks, entry.slice(end + 1..));
    }
    (Remarks::default(), entry.clone())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_row_reads_back_with_its_notices() {
        let plain = Row::raw(Bytes::from_static(br#"{"productSku":"A"}"#));
        assert_eq!(plain.product_sku.as_deref(), Some("A"));
        assert_eq!(read_stored(&plain.stored()), (Remarks::default(), plain.body.clone()));
        let notice = Notice { field: "weight".to_owned(), message: "was rounded".to_owned() };
        let remarks = plain.clone().of_item("17").noticing([notice.clone()]);
        let (read, body) = read_stored(&remarks.stored());
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

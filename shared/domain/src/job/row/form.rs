//! The forms in which a row is stored in a chunk, and what is stored with it.
//!
//! Whatever the form, a row that was read is one of a push, as JSON, with remarks about it. A form that comes is a
//! [`Form`], with how it is written and read here, and nowhere else.

use std::borrow::Cow;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::csv::CsvForm;
use crate::job::chunk::Claim;

/// Begins an entry with remarks: no JSON text begins with this byte.
const MARK: u8 = 0x01;

/// Name of the parameter of a job that has its [`CsvForm`].
pub(in crate::job) const CSV: &str = "csv";

/// How the rows of a job are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// As a caller sent them, whatever it is.
    Pushed,
    /// As those of a file of CSV that a caller sent are made: [`CsvForm`].
    Csv(CsvForm),
    /// As a partner's code made them: [`Row::stored`].
    Pulled,
}

impl Form {
    /// That of the rows of a chunk.
    #[must_use]
    pub fn of(claim: &Claim) -> Self {
        if claim.source.is_some() { Self::Pulled } else { Self::of_parameters(&claim.parameters) }
    }

    /// That of the rows that a caller sent, by the parameters of their job.
    #[must_use]
    pub fn of_parameters(parameters: &Value) -> Self {
        let csv = parameters.get(CSV).and_then(|csv| CsvForm::deserialize(csv).ok());
        csv.map_or(Self::Pushed, Self::Csv)
    }

    /// Reads a stored row: the remarks about it, and the row.
    #[must_use]
    pub fn read(&self, entry: Bytes) -> (Remarks, Bytes) {
        if let Self::Csv(form) = self
            && let Some((item, (code, reason))) = form.refusal(&entry)
        {
            return (Remarks { item, notices: Vec::new(), refused: Some(reason), code: Some(code) }, entry);
        }
        if *self == Self::Pulled
            && entry.first() == Some(&MARK)
            && let Some(end) = entry.iter().position(|byte| *byte == b'\n')
            && let Ok(remarks) = serde_json::from_slice(entry.get(1..end).unwrap_or_default())
        {
            return (remarks, entry.slice(end + 1..));
        }
        (Remarks::default(), entry)
    }

    /// What the property path of a rule is called in the form.
    #[must_use]
    pub fn column<'p>(&self, path: &'p str) -> Cow<'p, str> {
        if matches!(self, Self::Csv(_)) { CsvForm::column(path) } else { path.into() }
    }
}

/// What is stored with a row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Remarks {
    /// The partner's own id of the item, which identifies a row without a SKU; or what a row calls itself that cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<String>,
    /// Notices, which are recorded if the row is accepted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
    /// Why the row cannot be validated; it becomes an item error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// The same for programs, if it is not `malformed_row`.
    #[serde(skip)]
    pub code: Option<&'static str>,
}

/// A notice about an accepted row, recorded beside the item errors of the job without counting as one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// The field that it concerns.
    pub field: String,
    /// What was done to the field, for people.
    pub message: String,
}

impl Notice {
    /// What was done to a field.
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }
}

/// A row from a partner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The SKU, to detect a product that appears twice.
    pub product_sku: Option<String>,
    remarks: Remarks,
    /// The row in the shape of the push form, as JSON, which is validated when its chunk is executed.
    pub body: Bytes,
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
        Self { product_sku, remarks: Remarks::default(), body: Value::Object(members).to_string().into() }
    }

    /// A row that cannot be validated, with the part of its bytes to store.
    #[must_use]
    pub fn refused(reason: impl Into<String>, body: Bytes) -> Self {
        let remarks = Remarks { refused: Some(reason.into()), ..Remarks::default() };
        Self { product_sku: None, remarks, body }
    }

    /// Adds the partner's own id of the item.
    #[must_use]
    pub fn of_item(mut self, item: impl Into<String>) -> Self {
        self.remarks.item = Some(item.into());
        self
    }

    /// Adds notices: the field of each, and what was done to it.
    #[must_use]
    pub fn noticing<'f>(mut self, notices: impl IntoIterator<Item = (&'f str, String)>) -> Self {
        let notices = notices.into_iter().map(|(field, message)| Notice::new(field, message));
        self.remarks.notices.extend(notices);
        self
    }

    /// The partner's own id of the item.
    #[must_use]
    pub fn item(&self) -> Option<&str> {
        self.remarks.item.as_deref()
    }

    /// The entry to store in a chunk: the row, after a line with the remarks, if there are any.
    #[must_use]
    pub fn stored(&self) -> Bytes {
        if self.remarks == Remarks::default() {
            return self.body.clone();
        }
        // strings and lists of strings: serializing them cannot fail
        let remarks = serde_json::to_vec(&self.remarks).unwrap_or_default();
        [&[MARK], remarks.as_slice(), b"\n", &self.body].concat().into()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_row_reads_back_with_its_notices() {
        let plain = Row::raw(Bytes::from_static(br#"{"productSku":"A"}"#));
        assert_eq!(plain.product_sku.as_deref(), Some("A"));
        assert_eq!(Form::Pulled.read(plain.stored()), (Remarks::default(), plain.body.clone()));
        let notice = Notice { field: "weight".to_owned(), message: "was rounded".to_owned() };
        let entry = plain.clone().of_item("17").noticing([("weight", "was rounded".to_owned())]).stored();
        let (read, body) = Form::Pulled.read(entry.clone());
        assert_eq!(
            (read.item.as_deref(), read.notices.as_slice(), body),
            (Some("17"), &[notice][..], plain.body)
        );
        assert_eq!(Form::Pushed.read(entry.clone()), (Remarks::default(), entry), "nobody may push remarks");
    }

    proptest! {
        #[test]
        fn any_entry_is_read_without_a_panic(entry in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Form::Pulled.read(Bytes::from(entry));
        }
    }
}

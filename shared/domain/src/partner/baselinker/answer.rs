//! Answers. The envelope is checked as a whole, and its content item by item, so that one broken product is refused alone.
//!
//! BaseLinker may send an empty map as `[]` and a number as text, so both are accepted.

use std::borrow::Cow;
use std::collections::BTreeMap;

use longshore_kernel::json;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::partner::decimal;

/// Characters of a refusal that are worth keeping.
const TEXT_LENGTH: usize = 300;

/// Why there is nothing to read in an answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// What came is not what is documented: a page for people, half an answer, another type.
    #[error("BaseLinker's answer cannot be read: {0}")]
    Unreadable(String),
    /// The token is blocked until the time in the text ([`super::release`]).
    #[error("BaseLinker has blocked the token: {0}")]
    Blocked(String),
    /// The token is invalid or revoked.
    #[error(
        "BaseLinker does not accept the token ({code}: {message}); store a valid one in the integration setting"
    )]
    Unauthorized {
        /// Its code.
        code: String,
        /// What it says.
        message: String,
    },
    /// It refuses what was asked, and would again.
    #[error("BaseLinker refuses the request ({code}: {message})")]
    Refused {
        /// Its code.
        code: String,
        /// What it says.
        message: String,
    },
    /// It could not answer now.
    #[error("BaseLinker failed to answer ({code}: {message})")]
    Failed {
        /// Its code.
        code: String,
        /// What it says.
        message: String,
    },
}

/// One of several things that came, or why it is none.
pub type Item<T> = Result<T, Broken>;

/// Something that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Its id, as it came.
    pub key: String,
    /// What is wrong with it.
    pub message: String,
}

/// A product as the list shows it (`getInventoryProductsList`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its id.
    pub id: u64,
    /// Its SKU; empty where it has none.
    pub sku: String,
    /// Pieces by warehouse.
    pub stock: BTreeMap<String, i64>,
    /// Whether it is a variant of another product, whose data contains it.
    pub is_variant: bool,
}

/// A page of the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Its products.
    pub products: Vec<Item<Listed>>,
}

impl Page {
    /// Whether another follows.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.products.len() >= super::PAGE
    }
}

/// What became of stocks that were sent (`updateInventoryProductsStock`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Updated {
    /// Products that were taken.
    pub counter: u64,
    /// What it says of those that were not, by id.
    pub warnings: BTreeMap<u64, String>,
    /// What it says of none in particular.
    pub remarks: Vec<String>,
}

/// The envelope, skimmed.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    status: Option<Cow<'a, str>>,
    #[serde(borrow)]
    error_code: Option<&'a RawValue>,
    #[serde(borrow)]
    error_message: Option<&'a RawValue>,
    #[serde(borrow)]
    products: Option<&'a RawValue>,
    #[serde(borrow)]
    counter: Option<&'a RawValue>,
    #[serde(borrow)]
    warnings: Option<&'a RawValue>,
}

/// Reads `getInventoryProductsList`.
pub fn products_list(body: &[u8]) -> Result<Page, Unanswered> {
    #[derive(Deserialize)]
    struct Raw<'a> {
        #[serde(borrow)]
        sku: Option<&'a RawValue>,
        #[serde(borrow)]
        stock: Option<&'a RawValue>,
        #[serde(borrow)]
        parent_id: Option<&'a RawValue>,
    }
    let products = products(body)?;
    let read = |key: &str, raw: &RawValue| -> Result<Listed, String> {
        let id = id(key)?;
        let raw: Raw<'_> =
            serde_json::from_str(raw.get()).map_err(|error| format!("cannot be read: {error}"))?;
        let mut stock = BTreeMap::new();
        for (warehouse, pieces) in raw.stock.map(map).transpose()?.unwrap_or_default() {
            let pieces = number(pieces, 0)
                .ok_or_else(|| format!("has a stock in {warehouse} that is not a number"))?;
            stock.insert(warehouse, pieces.value);
        }
        let sku = text(raw.sku).ok_or("has a sku that is not text")?;
        let is_variant =
            raw.parent_id.and_then(|parent| number(parent, 0)).is_some_and(|parent| parent.value != 0);
        Ok(Listed { id, sku, stock, is_variant })
    };
    let read = |(key, raw): (String, &RawValue)| {
        read(&key, raw).map_err(|message| Broken { message, key: shortened(&key) })
    };
    Ok(Page { products: products.into_iter().map(read).collect() })
}

/// The products of `getInventoryProductsData`, each still as it came, by the id that it came under.
pub fn products_data(body: &[u8]) -> Result<Vec<(String, &RawValue)>, Unanswered> {
    products(body)
}

/// Reads `updateInventoryProductsStock`.
pub fn updated(body: &[u8]) -> Result<Updated, Unanswered> {
    let envelope = envelope(body)?;
    let counter = member(envelope.counter, "counter")?;
    let counter = number(counter, 0)
        .and_then(|counter| u64::try_from(counter.value).ok())
        .ok_or_else(|| Unanswered::Unreadable("its counter is not a number".to_owned()))?;
    let mut updated = Updated { counter, ..Updated::default() };
    let Some(warnings) = envelope.warnings.filter(|raw| raw.get() != "null") else { return Ok(updated) };
    let said = |raw: &RawValue| shortened(&text(Some(raw)).unwrap_or_else(|| raw.get().to_owned()));
    if let Ok(warnings) = map(warnings) {
        for (key, warning) in warnings {
            match id(&key) {
                Ok(id) => {
                    updated.warnings.insert(id, said(warning));
                }
                Err(_) => updated.remarks.push(said(warning)),
            }
        }
    } else if let Ok(warnings) = serde_json::from_str::<Vec<&RawValue>>(warnings.get()) {
        updated.remarks.extend(warnings.into_iter().map(said));
    } else {
        updated.remarks.push(said(warnings));
    }
    Ok(updated)
}

fn products(body: &[u8]) -> Result<Vec<(String, &RawValue)>, Unanswered> {
    map(member(envelope(body)?.products, "products")?)
        .map_err(|error| Unanswered::Unreadable(format!("its products: {error}")))
}

fn envelope(body: &[u8]) -> Result<Envelope<'_>, Unanswered> {
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    let envelope: Envelope<'_> = serde_json::from_slice(body).map_err(|error| unreadable(body, &error))?;
    match envelope.status.as_deref() {
        Some("SUCCESS") => Ok(envelope),
        Some("ERROR") => {
            let said = |raw| text(raw).map_or_else(String::new, |text| shortened(&text));
            Err(judge(said(envelope.error_code), said(envelope.error_message)))
        }
        _ => Err(Unanswered::Unreadable("it has no status".to_owned())),
    }
}

fn unreadable(body: &[u8], error: &serde_json::Error) -> Unanswered {
    let start = body.trim_ascii_start();
    Unanswered::Unreadable(if start.is_empty() {
        "it is empty".to_owned()
    } else if start.starts_with(b"<") {
        "it is a web page, not data".to_owned()
    } else if error.is_eof() {
        "it ends in the middle".to_owned()
    } else {
        format!("it is not the documented JSON ({error})")
    })
}

/// The meaning of a refusal, by its code; an unknown code counts as temporary.
fn judge(code: String, message: String) -> Unanswered {
    let has = |parts: &[&str]| parts.iter().any(|part| code.contains(part));
    if code == "ERROR_BLOCKED_TOKEN" || message.to_ascii_lowercase().contains("token blocked") {
        Unanswered::Blocked(message)
    } else if has(&["TOKEN", "USER_ACCOUNT", "AUTH", "PERMISSION"]) {
        Unanswered::Unauthorized { code, message }
    } else if has(&["METHOD", "INVENTORY", "STORAGE", "WAREHOUSE", "PARAM", "NOT_FOUND", "JSON"]) {
        Unanswered::Refused { code, message }
    } else {
        Unanswered::Failed { code, message }
    }
}

fn member<'a>(raw: Option<&'a RawValue>, name: &str) -> Result<&'a RawValue, Unanswered> {
    raw.ok_or_else(|| Unanswered::Unreadable(format!("it has no {name}")))
}

/// A map, or the `[]` that BaseLinker sends for an empty one.
pub(super) fn map(raw: &RawValue) -> Result<Vec<(String, &RawValue)>, String> {
    if raw.get() == "null" || serde_json::from_str::<[(); 0]>(raw.get()).is_ok() {
        return Ok(Vec::new());
    }
    serde_json::from_str::<BTreeMap<String, &RawValue>>(raw.get())
        .map(|map| map.into_iter().collect())
        .map_err(|_| "are not a map by id".to_owned())
}

/// A text, or a number by its digits; empty where there is none. A long barcode is `8.59e12` in what some programs write.
pub(super) fn text(raw: Option<&RawValue>) -> Option<String> {
    let Some(raw) = raw.map(RawValue::get) else { return Some(String::new()) };
    match raw.as_bytes().first()? {
        b'"' => serde_json::from_str(raw).ok(),
        b'n' => Some(String::new()),
        b'-' | b'0'..=b'9' => Some(match json::parse(raw.as_bytes()) {
            Ok(Value::Number(number)) if number.is_i64() || number.is_u64() => number.to_string(),
            _ => raw.to_owned(),
        }),
        _ => None,
    }
}

/// A number, or a text that is one, times ten to the power of `power`.
pub(super) fn number(raw: &RawValue, power: i32) -> Option<decimal::Scaled> {
    decimal::scale(&text(Some(raw))?, power)
}

/// The id of a product.
pub(super) fn id(key: &str) -> Result<u64, String> {
    key.parse().map_err(|_| "has an id that is not a number".to_owned())
}

/// As much of a text as is worth keeping, on one line.
pub(super) fn shortened(text: &str) -> String {
    text.chars().take(TEXT_LENGTH).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refused(code: &str, message: &str) -> Unanswered {
        let body = format!(r#"{{"status":"ERROR","error_code":"{code}","error_message":"{message}"}}"#);
        products_list(body.as_bytes()).unwrap_err()
    }

    #[test]
    fn a_page_is_read_as_documented() {
        let body = br#"{"status":"SUCCESS","products":{
            "2685":{"id":2685,"ean":"63576363463","sku":"FUG-453","name":"T-shirt","prices":{"105":20.99},"stock":{"bl_206":5}},
            "2686":{"id":2686,"ean":"","sku":"","name":"Nameless","prices":[],"stock":[],"parent_id":2685}}}"#;
        let page = products_list(body).unwrap();
        assert!(!page.is_full());
        let stock = BTreeMap::from([("bl_206".to_owned(), 5)]);
        assert_eq!(
            page.products[0],
            Ok(Listed { id: 2685, sku: "FUG-453".into(), stock, is_variant: false })
        );
        let variant = Listed { id: 2686, sku: String::new(), stock: BTreeMap::new(), is_variant: true };
        assert_eq!(page.products[1], Ok(variant));
    }

    #[test]
    fn an_empty_page_is_an_empty_list_or_an_empty_map() {
        for empty in ["[]", "{}", "[ ]"] {
            let body = format!(r#"{{"status":"SUCCESS","products":{empty}}}"#);
            assert_eq!(products_list(body.as_bytes()).unwrap(), Page::default());
        }
    }

    #[test]
    fn a_product_of_wrong_types_is_refused_alone() {
        let body =
            br#"{"status":"SUCCESS","products":{"1":{"sku":["A"]},"2":"x","3":{"sku":7,"stock":{"bl_1":"4"}},
            "x":{"sku":"X"},"5":{"sku":"B","stock":{"bl_1":{}}}}}"#;
        let page = products_list(body).unwrap();
        let keys: Vec<_> =
            page.products.iter().filter_map(|p| p.as_ref().err()).map(|b| b.key.as_str()).collect();
        assert_eq!(keys, ["1", "2", "5", "x"]);
        let good: Vec<_> = page.products.iter().flatten().collect();
        assert_eq!((good.len(), good[0].sku.as_str(), good[0].stock["bl_1"]), (1, "7", 4));
    }

    #[test]
    fn a_refusal_means_what_its_code_says() {
        let blocked =
            refused("ERROR_BLOCKED_TOKEN", "Query limit exceeded, token blocked until 2022-05-03 17:15:34");
        assert!(matches!(blocked, Unanswered::Blocked(text) if text.ends_with("17:15:34")));
        for code in ["ERROR_BAD_TOKEN", "ERROR_USER_ACCOUNT_BLOCKED", "ERROR_EMPTY_TOKEN"] {
            assert!(matches!(refused(code, "no"), Unanswered::Unauthorized { .. }), "{code}");
        }
        assert!(matches!(refused("ERROR_UNKNOWN_METHOD", "no"), Unanswered::Refused { .. }));
        assert!(matches!(refused("ERROR_INVENTORY_ID", "no"), Unanswered::Refused { .. }));
        assert!(matches!(refused("ERROR_INTERNAL", "no"), Unanswered::Failed { .. }));
        assert!(matches!(refused("", ""), Unanswered::Failed { .. }));
    }

    #[test]
    fn an_invalid_answer_gives_a_clear_message() {
        for (body, says) in [
            ("", "empty"),
            ("<!DOCTYPE html><html>", "web page"),
            (r#"{"status":"SUCCESS","products":{"1":{"#, "middle"),
            ("nonsense", "not the documented JSON"),
            ("[]", "not the documented JSON"),
            ("{}", "no status"),
            (r#"{"status":"SUCCESS"}"#, "no products"),
            (r#"{"status":"SUCCESS","products":[1]}"#, "not a map"),
            (r#"{"status":"SUCCESS","products":7}"#, "not a map"),
        ] {
            let Err(Unanswered::Unreadable(reason)) = products_list(body.as_bytes()) else {
                panic!("{body}")
            };
            assert!(reason.contains(says), "{body}: {reason}");
        }
    }

    #[test]
    fn warnings_come_by_product_or_not() {
        let read = |warnings: &str| {
            updated(format!(r#"{{"status":"SUCCESS","counter":2,"warnings":{warnings}}}"#).as_bytes())
                .unwrap()
        };
        assert_eq!(read("[]"), Updated { counter: 2, ..Updated::default() });
        assert_eq!(read(r#"{"7":"no such product"}"#).warnings[&7], "no such product");
        assert_eq!(read(r#"["slow"]"#).remarks, ["slow"]);
        assert_eq!(read(r#""slow""#).remarks, ["slow"]);
        assert_eq!(updated(br#"{"status":"SUCCESS","counter":"1"}"#).unwrap().counter, 1);
    }

    proptest! {
        #[test]
        fn no_bytes_are_a_fault(bytes in prop::collection::vec(any::<u8>(), 0..200), inner in ".{0,80}") {
            let wrapped = format!(r#"{{"status":"SUCCESS","counter":1,"products":{inner},"warnings":{inner}}}"#);
            for body in [&bytes[..], wrapped.as_bytes()] {
                let _ = (products_list(body), products_data(body), updated(body));
            }
        }
    }
}

//! Products as returned by `getInventoryProductsData`, converted to rows of a product sync
//! (`docs/reference/syncs.md#baselinker`).
//!
//! A product with variants is only a parent: its variants are sold, stocked and scanned, and are products with their own
//! ids. Each becomes a row that takes missing fields from its parent. Fields that a row leaves out stay as they are, so an
//! unknown (empty, zero) measure or barcode erases nothing.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::answer::{Broken, Item, id, map, number, shortened, text};

/// A product that becomes one of ours.
#[derive(Clone, Debug, PartialEq)]
pub struct Product {
    /// Its id with the partner.
    pub id: u64,
    /// The row of a product sync.
    pub row: Map<String, Value>,
    /// What was not taken exactly as it came: the field, and a sentence.
    pub notes: Vec<(&'static str, String)>,
}

/// Reads what came under an id: itself, or its variants.
#[must_use]
pub fn read(key: &str, raw: &RawValue) -> Vec<Item<Product>> {
    match Heading::read(key, raw) {
        Ok(heading) if heading.variants.is_empty() => vec![heading.itself()],
        Ok(heading) => heading.variants.iter().map(|(key, raw)| heading.variant(key, raw)).collect(),
        Err(message) => vec![Err(Broken { key: shortened(key), message })],
    }
}

#[derive(Deserialize)]
struct Raw<'a> {
    #[serde(borrow)]
    is_bundle: Option<&'a RawValue>,
    #[serde(borrow)]
    sku: Option<&'a RawValue>,
    #[serde(borrow)]
    ean: Option<&'a RawValue>,
    #[serde(borrow)]
    weight: Option<&'a RawValue>,
    #[serde(borrow)]
    height: Option<&'a RawValue>,
    #[serde(borrow)]
    width: Option<&'a RawValue>,
    #[serde(borrow)]
    length: Option<&'a RawValue>,
    #[serde(borrow)]
    text_fields: Option<&'a RawValue>,
    #[serde(borrow)]
    variants: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct RawVariant<'a> {
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    sku: Option<&'a RawValue>,
    #[serde(borrow)]
    ean: Option<&'a RawValue>,
}

/// What came under one id.
struct Heading<'a> {
    key: &'a str,
    id: u64,
    raw: Raw<'a>,
    name: String,
    variants: Vec<(String, &'a RawValue)>,
}

impl<'a> Heading<'a> {
    fn read(key: &'a str, raw: &'a RawValue) -> Result<Self, String> {
        let id = id(key)?;
        let raw: Raw<'_> =
            serde_json::from_str(raw.get()).map_err(|error| format!("cannot be read: {error}"))?;
        if is_true(raw.is_bundle) {
            return Err("is a bundle; create the bundle here instead, with the ids of its parts".to_owned());
        }
        let texts: BTreeMap<_, _> = match raw.text_fields {
            Some(texts) => {
                map(texts).map_err(|error| format!("has texts that {error}"))?.into_iter().collect()
            }
            None => BTreeMap::new(),
        };
        let name = text(texts.get("name").copied()).ok_or("has a name that is not text")?;
        let variants = match raw.variants {
            Some(variants) => map(variants).map_err(|error| format!("has variants that {error}"))?,
            None => Vec::new(),
        };
        Ok(Self { key, id, raw, name, variants })
    }

    fn itself(&self) -> Item<Product> {
        self.product(self.key, self.id, &self.name, self.raw.sku, self.raw.ean)
    }

    fn variant(&self, key: &str, raw: &RawValue) -> Item<Product> {
        let broken = |message: String| Broken { key: shortened(key), message };
        let variant: RawVariant<'_> =
            serde_json::from_str(raw.get()).map_err(|error| broken(format!("cannot be read: {error}")))?;
        let own = text(variant.name).ok_or_else(|| broken("has a name that is not text".to_owned()))?;
        // a variant is called "red, XL", and some shops repeat what it is a variant of
        let name = match (own.is_empty(), own.starts_with(&self.name)) {
            (true, _) => self.name.clone(),
            (false, true) => own,
            (false, false) => format!("{} {own}", self.name),
        };
        self.product(key, id(key).map_err(broken)?, &name, variant.sku, variant.ean)
    }

    fn product(
        &self,
        key: &str,
        id: u64,
        name: &str,
        sku: Option<&RawValue>,
        ean: Option<&RawValue>,
    ) -> Item<Product> {
        let broken = |message: &str| Broken { key: shortened(key), message: message.to_owned() };
        let sku = text(sku).ok_or_else(|| broken("has a sku that is not text"))?;
        if sku.is_empty() {
            return Err(broken("has no sku, which is needed to find its product"));
        }
        let (mut row, mut notes) = (Map::new(), Vec::new());
        row.insert("productSku".to_owned(), json!(sku));
        let name = name.trim();
        if !name.is_empty() {
            row.insert("name".to_owned(), json!(name));
        }
        let ean = text(ean).ok_or_else(|| broken("has an ean that is not text"))?;
        if !ean.trim().is_empty() {
            row.insert("referenceNumbers".to_owned(), json!([ean.trim()]));
        }
        let measures = [
            ("weight", self.raw.weight, 3, "kg", "g"),
            ("height", self.raw.height, 1, "cm", "mm"),
            ("width", self.raw.width, 1, "cm", "mm"),
            ("length", self.raw.length, 1, "cm", "mm"),
        ];
        for (field, raw, power, from, to) in measures {
            let Some(raw) = raw else { continue };
            let said =
                text(Some(raw)).ok_or_else(|| broken(&format!("has a {field} that is not a number")))?;
            if said.trim().is_empty() {
                continue;
            }
            let scaled =
                number(raw, power).ok_or_else(|| broken(&format!("has a {field} that is not a number")))?;
            if scaled.rounded {
                let said = shortened(&said);
                notes.push((field, format!("{said} {from} was rounded to {} {to}", scaled.value)));
            }
            // it was not weighed
            if scaled.value != 0 {
                row.insert(field.to_owned(), json!(scaled.value));
            }
        }
        Ok(Product { id, row, notes })
    }
}

fn is_true(raw: Option<&RawValue>) -> bool {
    raw.is_some_and(|raw| matches!(raw.get(), "true" | "1" | "\"1\"" | "\"true\""))
}

#[cfg(test)]
mod tests {
    use super::super::answer::products_data;
    use super::*;

    fn all(products: &str) -> Vec<Item<Product>> {
        let body = format!(r#"{{"status":"SUCCESS","products":{products}}}"#);
        products_data(body.as_bytes()).unwrap().into_iter().flat_map(|(key, raw)| read(&key, raw)).collect()
    }

    fn row(products: &str) -> Value {
        Value::Object(all(products).pop().unwrap().unwrap().row)
    }

    #[test]
    fn a_product_becomes_a_row_in_grams_and_millimetres() {
        let row = row(
            r#"{"2685":{"is_bundle":false,"sku":"EPL-432","ean":"6345345345","weight":0.29,"height":10.5,
            "width":"3","length":0,"text_fields":{"name":"Nintendo","description":"<p>long</p>"},"variants":[]}}"#,
        );
        assert_eq!(
            row,
            json!({"productSku": "EPL-432", "name": "Nintendo", "referenceNumbers": ["6345345345"], "weight": 290,
                   "height": 105, "width": 30})
        );
    }

    #[test]
    fn a_barcode_that_is_a_number_has_its_digits() {
        for (ean, digits) in [
            ("8.59e12", "8590000000000"),
            ("8590000000017", "8590000000017"),
            ("8590000000017.0", "8590000000017"),
        ] {
            let row = row(&format!(r#"{{"1":{{"sku":7.0,"ean":{ean}}}}}"#));
            assert_eq!(row, json!({"productSku": "7", "referenceNumbers": [digits]}));
        }
    }

    #[test]
    fn missing_fields_are_not_in_the_row() {
        let row = row(r#"{"1":{"sku":"A","ean":"","weight":null,"height":"","text_fields":{"name":""}}}"#);
        assert_eq!(row, json!({"productSku": "A"}));
    }

    #[test]
    fn rounding_gives_a_notice() {
        let product =
            all(r#"{"1":{"sku":"A","weight":0.12345,"width":"1.26","text_fields":{"name":"Cup"}}}"#)
                .pop()
                .unwrap()
                .unwrap();
        assert_eq!((&product.row["weight"], &product.row["width"]), (&json!(123), &json!(13)));
        assert_eq!(
            product.notes,
            [
                ("weight", "0.12345 kg was rounded to 123 g".to_owned()),
                ("width", "1.26 cm was rounded to 13 mm".to_owned()),
            ]
        );
    }

    #[test]
    fn variants_are_the_products_and_take_missing_fields_from_their_parent() {
        let read = all(r#"{"10":{"sku":"SHIRT","weight":0.2,"text_fields":{"name":"Shirt"},"variants":{
            "11":{"name":"red","sku":"SHIRT-R","ean":"4006381333931"},"12":{"name":"Shirt blue","sku":"SHIRT-B"},
            "13":{"name":"green","sku":""},"14":7}}}"#);
        let rows: Vec<_> = read.iter().flatten().map(|p| (p.id, Value::Object(p.row.clone()))).collect();
        assert_eq!(
            rows,
            [
                (
                    11,
                    json!({"productSku": "SHIRT-R", "name": "Shirt red", "referenceNumbers": ["4006381333931"], "weight": 200})
                ),
                (12, json!({"productSku": "SHIRT-B", "name": "Shirt blue", "weight": 200})),
            ]
        );
        let broken: Vec<_> = read.iter().filter_map(|p| p.as_ref().err()).map(|b| b.key.as_str()).collect();
        assert_eq!(broken, ["13", "14"]);
    }

    #[test]
    fn bundles_and_broken_products_are_refused_alone() {
        let read =
            all(r#"{"1":{"sku":"A","is_bundle":true},"2":{"sku":""},"3":{"sku":"C","weight":"heavy"},"4":[],
            "5":{"sku":"E","text_fields":7},"6":{"sku":"F","text_fields":{"name":"Fine"}}}"#);
        assert_eq!(
            read.iter().map(Result::is_ok).collect::<Vec<_>>(),
            [false, false, false, false, false, true]
        );
    }
}

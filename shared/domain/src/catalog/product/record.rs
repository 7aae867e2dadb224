//! The stored product, the table of its fields, and what changed between two states of it.
//!
//! `product_fields!` is that table: each field with its name in JSON, as it is given and as it is stored. The [`Product`],
//! the [`ProductFields`] of a body or of a row of a sync, and the differences of the two come from it, so that a single
//! update and a sync write the same audit records and events.

use std::ops::Deref;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};
use sqlx::types::Json;
use uuid::Uuid;

use crate::record::{self, Gives as _, moment};
pub use crate::record::{FieldChange, changes_json};
use longshore_kernel::ids::OrganisationId;
use longshore_kernel::input::Given;
use longshore_kernel::problem::Problem;

/// What a product is (`docs/reference/products.md#types`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, sqlx::Type)]
#[serde(rename_all = "lowercase")]
#[sqlx(type_name = "text", rename_all = "lowercase")]
pub enum ProductType {
    /// Has stock.
    #[default]
    Physical,
    /// Has none.
    Virtual,
    /// A set of physical products that is sold as one.
    Bundle,
}

impl ProductType {
    /// Its spelling.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Physical => "physical",
            Self::Virtual => "virtual",
            Self::Bundle => "bundle",
        }
    }
}

/// What a warehouse must know of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, sqlx::Type)]
#[serde(rename_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum Category {
    /// It is dangerous.
    DangerousSubstances,
}

impl Category {
    /// Its spelling.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DangerousSubstances => "dangerous_substances",
        }
    }
}

/// A part of a bundle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Child {
    /// A physical product of the same organisation.
    pub product_id: Uuid,
    /// Pieces of it in one bundle, 1 to 1,000,000.
    pub quantity: i32,
}

/// The parts of a bundle, in the order they were given. Other products have none, and answers, the audit and events all
/// show null.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Children(pub Vec<Child>);

impl Deref for Children {
    type Target = [Child];
    fn deref(&self) -> &[Child] {
        &self.0
    }
}

impl From<Json<Vec<Child>>> for Children {
    fn from(Json(children): Json<Vec<Child>>) -> Self {
        Self(children)
    }
}

impl Serialize for Children {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (!self.0.is_empty()).then_some(&self.0).serialize(serializer)
    }
}

macro_rules! product_fields {
    ($($(#[$doc:meta])* $field:ident, $name:literal: $given:ty => $stored:ty;)*) => {
        /// A product as it is stored; serialised, it is the record as it is returned (`docs/reference/products.md#product`).
        #[derive(Clone, Debug, Default, PartialEq, Serialize)]
        pub struct Product {
            /// Identifier.
            pub id: Uuid,
            /// Whose it is; never changes.
            pub organisation: OrganisationId,
            $($(#[$doc])* #[serde(rename = $name)] pub $field: $stored,)*
            /// Pictures of it.
            pub images: Vec<Uuid>,
            /// Product services that the operator switched on.
            pub services: Vec<String>,
            /// Creation time.
            #[serde(rename = "createdAt", serialize_with = "moment")]
            pub created_at: DateTime<Utc>,
            /// Last change time.
            #[serde(rename = "changedAt", serialize_with = "moment")]
            pub changed_at: DateTime<Utc>,
            /// Its version: one higher with each change.
            pub version: i64,
            /// Number of the acceptance that last wrote `active`.
            #[serde(skip)]
            pub active_acceptance: i64,
        }

        /// What was given of a product: absent fields stay as they are.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct ProductFields {
            $($(#[$doc])* pub $field: $given,)*
        }

        impl ProductFields {
            /// Whether nothing was given at all.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                *self == Self::default()
            }

            /// The names of what was given.
            #[must_use]
            pub fn names(&self) -> Vec<&'static str> {
                let mut names = Vec::new();
                $(if self.$field != <$given>::default() { names.push($name); })*
                names
            }

            /// Takes back what has one of these names.
            pub fn forget(&mut self, names: &[String]) {
                $(if names.iter().any(|name| name == $name) { self.$field = <$given>::default(); })*
            }

            /// Puts what was given into a product.
            pub fn write_to(self, product: &mut Product) {
                $(self.$field.replace(&mut product.$field);)*
            }
        }

        /// What the given fields would change in a stored product; empty when they are all there already.
        #[must_use]
        pub fn diff(current: &Product, given: &ProductFields) -> Vec<FieldChange> {
            let mut changes = Vec::new();
            $(
                if let Some(new) = given.$field.other_than(&current.$field) {
                    changes.push(FieldChange { field: $name, old: json!(current.$field), new });
                }
            )*
            changes
        }

        /// What a new product says: each of its fields that holds something.
        #[must_use]
        pub fn creation(new: &Product) -> Vec<FieldChange> {
            record::creation([$(($name, json!(new.$field))),*])
        }

        /// All that events may say of a product.
        fn all(product: &Product) -> Vec<(&'static str, Value)> {
            vec![$(($name, json!(product.$field)),)* ("images", json!(product.images)), ("services", json!(product.services))]
        }
    };
}

product_fields! {
    /// E-shops it is sold in, at least one, sorted, each once.
    eshops, "eshops": Option<Vec<Uuid>> => Vec<Uuid>;
    /// Usually the barcode; unique in the organisation.
    product_sku, "productSku": Option<String> => String;
    /// Its name in the client's own system.
    internal_sku, "internalSku": Option<String> => String;
    /// Product group; any uuid.
    product_group, "productGroup": Given<Uuid> => Option<Uuid>;
    /// Name.
    name, "name": Option<String> => String;
    /// Description.
    description, "description": Given<String> => Option<String>;
    /// Grams.
    weight, "weight": Given<i32> => Option<i32>;
    /// Millimeters.
    height, "height": Given<i32> => Option<i32>;
    /// Millimeters.
    width, "width": Given<i32> => Option<i32>;
    /// Millimeters.
    length, "length": Given<i32> => Option<i32>;
    /// Additional barcodes.
    reference_numbers, "referenceNumbers": Option<Vec<String>> => Vec<String>;
    /// Code of a packaging option.
    packaging_type, "packagingType": Option<String> => String;
    /// Partially implemented, not to be used yet.
    imei_check_required, "imeiCheckRequired": Option<bool> => bool;
    /// Serial numbers must be monitored.
    work_around_sn_in, "workAroundSnIn": Option<bool> => bool;
    /// It must be labeled with EAN barcodes.
    work_around_ean_sticker, "workAroundEanSticker": Option<bool> => bool;
    /// Warranty must be checked.
    work_around_warranty_inf, "workAroundWarrantyInf": Option<bool> => bool;
    /// Lot and batch must be checked.
    work_around_lot, "workAroundLot": Option<bool> => bool;
    /// Whether it is on sale.
    active, "active": Option<bool> => bool;
    /// ISO 3166-1 alpha-2.
    country_of_origin, "countryOfOrigin": Given<String> => Option<String>;
    /// Harmonized System code.
    hs_code, "hsCode": Given<String> => Option<String>;
    /// What it is.
    kind, "type": Option<ProductType> => ProductType;
    /// The parts of a bundle; none for other products.
    children_products, "childrenProducts": Option<Children> => Children;
    /// What a warehouse must know of it.
    category, "category": Given<Category> => Option<Category>;
}

/// `data` of the event: what the product is, what changed, and to what. If its e-shops changed, it is all that the product says:
/// an e-shop that has just been given it has heard of nothing before.
#[must_use]
pub(super) fn event_data(product: &Product, changes: &[FieldChange]) -> Value {
    let identity =
        [("organisation", json!(product.organisation)), ("productSku", json!(product.product_sku))];
    let attached = changes.iter().any(|c| c.field == "eshops" && !c.old.is_null());
    record::event_data(product.id, &identity, changes, if attached { all(product) } else { Vec::new() })
}

impl Product {
    /// The record as it is returned.
    pub fn json(&self) -> Result<String, Problem> {
        serde_json::to_string(self).map_err(Problem::internal)
    }
}

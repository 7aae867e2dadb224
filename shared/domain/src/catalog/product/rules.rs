//! The rules of a product (`docs/reference/products.md#product`): one reader for the body of a create, the body of an
//! update, and a row of a sync.

use chrono::{DateTime, Utc};
use serde_json::Value;
use uuid::Uuid;

use super::record::{Category, Child, Children, Product, ProductFields, ProductType};
use crate::list::fields::product::PRODUCT;
use longshore_kernel::country::country;
use longshore_kernel::echo::{self, Echo};
use longshore_kernel::ids::{EshopId, OrganisationId};
use longshore_kernel::input::{self, Given, Object, Reader, Rule, array, boolean, int32, text};
use longshore_kernel::problem::Violation;

/// E-shops that a product may be sold in.
pub const MAX_ESHOPS: usize = 1_000;
/// Children that a bundle may have.
pub const MAX_CHILDREN: usize = 1_000;
/// Pieces of a child in one bundle.
pub const MAX_QUANTITY: i32 = 1_000_000;
/// Additional barcodes that a product may have.
pub const MAX_REFERENCE_NUMBERS: usize = 100;
/// The heaviest product, in grams (`docs/reference/products.md#product`).
pub const MAX_WEIGHT: i32 = 10_000_000;
/// The longest side of a product, in millimeters (`docs/reference/products.md#product`).
pub const MAX_SIDE: i32 = 20_000;
/// The packaging that every operator has.
pub const DEFAULT_PACKAGING: &str = "A";

/// What a create must say; the rest has defaults or may stay empty.
const REQUIRED_TO_CREATE: &[&str] =
    &["eshops", "productSku", "internalSku", "name", "imeiCheckRequired", "active"];

/// What a body says of a product, and what is wrong with it. A refused field counts as absent.
#[derive(Clone, Debug, Default)]
pub struct Body {
    /// Whose it is said to be.
    pub organisation: Option<OrganisationId>,
    /// Its fields; `eshops` as they came.
    pub fields: ProductFields,
    /// Read-only members of the body of an update.
    pub echo: Echo,
    /// Violated rules.
    pub violations: Vec<Violation>,
}

impl Body {
    /// Whether a field was refused.
    #[must_use]
    pub fn refuses(&self, field: &str) -> bool {
        self.violations.iter().any(|v| {
            v.property_path
                .strip_prefix(field)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['[', '.']))
        })
    }

    /// The one rule that two fields make together: a bundle has children, nothing else has. Silent where either was
    /// refused already.
    #[must_use]
    pub fn bundle_rule(&self, merged: &Product) -> Option<Violation> {
        if self.refuses("type") || self.refuses("childrenProducts") { None } else { bundle_rule(merged) }
    }
}

/// Reads the body of a create.
#[must_use]
pub fn read_create(body: Value) -> Body {
    read(body, |object| {
        let organisation = object.required("organisation", input::id);
        let mut fields = fields(object, REQUIRED_TO_CREATE);
        fields.eshops = field(object, REQUIRED_TO_CREATE, "eshops", eshops);
        echo::pass_over_empty(object, |name| PRODUCT.shows(name));
        (organisation, fields, Echo::default())
    })
}

/// Reads the body of an update.
#[must_use]
pub fn read_update(body: Value) -> Body {
    read(body, |object| {
        let organisation = object.optional("organisation", input::id);
        let mut fields = fields(object, &[]);
        fields.eshops = object.optional("eshops", eshops);
        (organisation, fields, Echo::of_update(object, |name| PRODUCT.shows(name)))
    })
}

/// A row of a product sync (`docs/reference/syncs.md#products`): it names its product by `product_sku`, and everything else
/// may be absent. Its organisation and e-shop are those of the sync, so it cannot name others.
#[derive(Clone, Debug, PartialEq)]
pub struct SyncRow {
    /// Which product of the organisation.
    pub product_sku: String,
    /// What the row gives; `product_sku` and `eshops` are absent.
    pub fields: ProductFields,
}

/// Reads a row of a product sync.
pub fn read_sync_row(row: Value) -> Result<SyncRow, Vec<Violation>> {
    let mut body = read(row, |object| (None, fields(object, &["productSku"]), Echo::default()));
    match body.fields.product_sku.take() {
        Some(product_sku) if body.violations.is_empty() => Ok(SyncRow { product_sku, fields: body.fields }),
        _ => Err(body.violations),
    }
}

impl SyncRow {
    /// The new product that the row makes, with the defaults of `docs/reference/syncs.md#products` for what it leaves out.
    /// What it refers to (packaging option, children) is for the caller to look up.
    pub fn into_product(
        self,
        id: Uuid,
        organisation: OrganisationId,
        eshop: EshopId,
        at: DateTime<Utc>,
    ) -> Result<Product, Vec<Violation>> {
        let mut product = blank(id, organisation, at);
        product.eshops = vec![eshop.get()];
        product.internal_sku.clone_from(&self.product_sku);
        product.product_sku = self.product_sku;
        let nameless = self.fields.name.is_none();
        self.fields.write_to(&mut product);
        let mut violations = Vec::new();
        if nameless {
            violations.push(violation("name", "required", "is required for a new product"));
        }
        violations.extend(bundle_rule(&product));
        if violations.is_empty() { Ok(product) } else { Err(violations) }
    }
}

/// A product that says nothing yet: active, physical, in the default packaging, without special handling.
#[must_use]
pub fn blank(id: Uuid, organisation: OrganisationId, at: DateTime<Utc>) -> Product {
    Product {
        id,
        organisation,
        packaging_type: DEFAULT_PACKAGING.to_owned(),
        active: true,
        created_at: at,
        changed_at: at,
        version: 1,
        ..Product::default()
    }
}

/// A bundle has children, nothing else has: asked of the product as it would be stored.
#[must_use]
pub fn bundle_rule(merged: &Product) -> Option<Violation> {
    match (merged.kind, merged.children_products.is_empty()) {
        (ProductType::Bundle, true) => {
            Some(violation("childrenProducts", "required", "is required for a bundle"))
        }
        (ProductType::Physical | ProductType::Virtual, false) => {
            Some(violation("childrenProducts", "not_allowed", "is allowed for bundles only"))
        }
        _ => None,
    }
}

/// One violated rule.
pub(super) fn violation(path: impl Into<String>, code: &'static str, message: &str) -> Violation {
    Violation::new(path, code, message)
}

fn read(body: Value, read: impl FnOnce(&mut Object<'_>) -> (Option<Uuid>, ProductFields, Echo)) -> Body {
    let mut reader = Reader::default();
    let (organisation, fields, echo) = match reader.object(body) {
        Some(mut object) => {
            let read = read(&mut object);
            object.finish();
            read
        }
        None => Default::default(),
    };
    Body {
        organisation: organisation.map(OrganisationId::from),
        fields,
        echo,
        violations: reader.into_violations(),
    }
}

/// The fields that every form has.
fn fields(object: &mut Object<'_>, required: &[&str]) -> ProductFields {
    let side = || int32(0..=MAX_SIDE);
    ProductFields {
        eshops: None,
        product_sku: field(object, required, "productSku", text(1..=255)),
        internal_sku: field(object, required, "internalSku", text(1..=255)),
        product_group: object.nullable("productGroup", input::id),
        name: field(object, required, "name", text(2..=255)),
        description: object.nullable("description", text(2..=255)),
        weight: object.nullable("weight", int32(0..=MAX_WEIGHT)),
        height: object.nullable("height", side()),
        width: object.nullable("width", side()),
        length: object.nullable("length", side()),
        reference_numbers: object
            .optional("referenceNumbers", array(0..=MAX_REFERENCE_NUMBERS, text(1..=255))),
        packaging_type: object.optional("packagingType", text(1..=255)),
        imei_check_required: field(object, required, "imeiCheckRequired", boolean),
        work_around_sn_in: object.optional("workAroundSnIn", boolean),
        work_around_ean_sticker: object.optional("workAroundEanSticker", boolean),
        work_around_warranty_inf: object.optional("workAroundWarrantyInf", boolean),
        work_around_lot: object.optional("workAroundLot", boolean),
        active: field(object, required, "active", boolean),
        country_of_origin: object.nullable("countryOfOrigin", country),
        hs_code: object.nullable("hsCode", text(0..=25)),
        kind: or_empty(object.nullable("type", product_type)),
        children_products: or_empty(object.nullable("childrenProducts", children)).map(Children),
        category: object.nullable("category", category),
    }
}

fn field<R: Rule>(object: &mut Object<'_>, required: &[&str], name: &'static str, rule: R) -> Option<R::Out> {
    if required.contains(&name) { object.required(name, rule) } else { object.optional(name, rule) }
}

/// Null means what the empty value means: no type is physical, no children are none.
fn or_empty<T: Default>(given: Given<T>) -> Option<T> {
    match given {
        Given::Absent => None,
        Given::Null => Some(T::default()),
        Given::Value(value) => Some(value),
    }
}

fn eshops(reader: &mut Reader, value: Value) -> Option<Vec<Uuid>> {
    array(1..=MAX_ESHOPS, input::id)(reader, value)
}

fn product_type(reader: &mut Reader, value: Value) -> Option<ProductType> {
    match input::one_of(&["physical", "virtual", "bundle"])(reader, value)? {
        "virtual" => Some(ProductType::Virtual),
        "bundle" => Some(ProductType::Bundle),
        _ => Some(ProductType::Physical),
    }
}

fn category(reader: &mut Reader, value: Value) -> Option<Category> {
    input::one_of(&["dangerous_substances"])(reader, value).map(|_| Category::DangerousSubstances)
}

fn child(reader: &mut Reader, value: Value) -> Option<Child> {
    let mut object = reader.object(value)?;
    let product_id = object.required("productId", input::id);
    let quantity = object.required("quantity", int32(1..=MAX_QUANTITY));
    object.finish();
    Some(Child { product_id: product_id?, quantity: quantity? })
}

fn children(reader: &mut Reader, value: Value) -> Option<Vec<Child>> {
    let children = array(0..=MAX_CHILDREN, child)(reader, value)?;
    reader.differ("productId", children.iter().map(|child| child.product_id)).then_some(children)
}

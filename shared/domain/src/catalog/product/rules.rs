//! The rules of a product (`docs/reference/products.md#product`): one reader for the body of a create, the body of an
//! update, and a row of a sync.

use chrono::{DateTime, Utc};
use serde_json::Value;
use uuid::Uuid;

use super::record::{Category, Child, Children, Product, ProductFields, ProductType, creation};
use crate::list::fields::product::PRODUCT;
use longshore_kernel::country::country;
use longshore_kernel::echo::Echo;
use longshore_kernel::ids::{EshopId, OrganisationId};
use longshore_kernel::input::{
    Given, Object, Reader, Rule, Schema, array, boolean, drafts, id, int32, object, one_of, text,
};
use longshore_kernel::problem::{Violation, refuses};

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
const REQUIRED_TO_CREATE: &[&str] = &["productSku", "internalSku", "name", "imeiCheckRequired", "active"];

/// What a body says of a product, and what is wrong with it. A refused field counts as absent; a refused e-shop or child is blank.
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
        refuses(&self.violations, field)
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
    read(body, |object| members(object, true))
}

/// Reads the body of an update.
#[must_use]
pub fn read_update(body: Value) -> Body {
    read(body, |object| members(object, false))
}

fn members(object: &mut Object<'_>, is_new: bool) -> (Option<Uuid>, ProductFields, Echo) {
    let required = if is_new { REQUIRED_TO_CREATE } else { &[] };
    let organisation = object.required_if(is_new, "organisation", id());
    let mut fields = fields(object, required);
    fields.eshops = object.required_if(is_new, "eshops", drafts(1..=MAX_ESHOPS, id()));
    (organisation, fields, Echo::of(object, is_new, |name| PRODUCT.shows(name)))
}

/// What the body of a create or of an update accepts.
#[must_use]
pub fn schema(is_new: bool) -> Schema {
    let schema = Object::schema(|object| members(object, is_new));
    if !is_new {
        return schema;
    }
    let initial = creation(&blank(Uuid::nil(), OrganisationId::nil(), DateTime::UNIX_EPOCH));
    schema.with_defaults(initial.into_iter().map(|field| (field.field, field.new)))
}

/// What a row of a product sync accepts.
#[must_use]
pub fn schema_of_sync_row() -> Schema {
    Object::schema(|object| fields(object, &["productSku"]))
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

fn read(
    body: Value,
    members: impl FnOnce(&mut Object<'_>) -> (Option<Uuid>, ProductFields, Echo) + Clone,
) -> Body {
    let ((organisation, fields, echo), violations) =
        Reader::draft(body, object(|object| Some(members(object))));
    let organisation = organisation.map(OrganisationId::from);
    Body { organisation, fields, echo, violations }
}

/// The fields that every form has.
fn fields(object: &mut Object<'_>, required: &[&str]) -> ProductFields {
    let side = || int32(0..=MAX_SIDE);
    let is_required = |name| required.contains(&name);
    ProductFields {
        eshops: None,
        product_sku: object.required_if(is_required("productSku"), "productSku", text(1..=255)),
        internal_sku: object.required_if(is_required("internalSku"), "internalSku", text(1..=255)),
        product_group: object.nullable("productGroup", id()),
        name: object.required_if(is_required("name"), "name", text(2..=255)),
        description: object.nullable("description", text(2..=255)),
        weight: object.nullable("weight", int32(0..=MAX_WEIGHT)),
        height: object.nullable("height", side()),
        width: object.nullable("width", side()),
        length: object.nullable("length", side()),
        reference_numbers: object
            .optional("referenceNumbers", array(0..=MAX_REFERENCE_NUMBERS, text(1..=255))),
        packaging_type: object.optional("packagingType", text(1..=255)),
        imei_check_required: object.required_if(
            is_required("imeiCheckRequired"),
            "imeiCheckRequired",
            boolean(),
        ),
        work_around_sn_in: object.optional("workAroundSnIn", boolean()),
        work_around_ean_sticker: object.optional("workAroundEanSticker", boolean()),
        work_around_warranty_inf: object.optional("workAroundWarrantyInf", boolean()),
        work_around_lot: object.optional("workAroundLot", boolean()),
        active: object.required_if(is_required("active"), "active", boolean()),
        country_of_origin: object.nullable("countryOfOrigin", country()),
        hs_code: object.nullable("hsCode", text(0..=25)),
        kind: or_empty(object.nullable("type", product_type())),
        children_products: or_empty(object.nullable("childrenProducts", children())).map(Children),
        category: object.nullable("category", category()),
    }
}

/// Null means what the empty value means: no type is physical, no children are none.
fn or_empty<T: Default>(given: Given<T>) -> Option<T> {
    match given {
        Given::Absent => None,
        Given::Null => Some(T::default()),
        Given::Value(value) => Some(value),
    }
}

fn product_type() -> impl Rule<Out = ProductType> {
    one_of(&["physical", "virtual", "bundle"]).then(|_, kind| {
        Some(match kind {
            "virtual" => ProductType::Virtual,
            "bundle" => ProductType::Bundle,
            _ => ProductType::Physical,
        })
    })
}

fn category() -> impl Rule<Out = Category> {
    one_of(&["dangerous_substances"]).then(|_, _| Some(Category::DangerousSubstances))
}

/// The parts of a bundle.
pub fn children() -> impl Rule<Out = Vec<Child>> {
    let child = object(|object| {
        let product_id = object.required("productId", id()).unwrap_or_default();
        let quantity = object.required("quantity", int32(1..=MAX_QUANTITY)).unwrap_or_default();
        Some(Child { product_id, quantity })
    });
    drafts(0..=MAX_CHILDREN, child).then(|reader: &mut Reader, children: Vec<Child>| {
        reader.differ("productId", children.iter().map(|child| child.product_id));
        Some(children)
    })
}

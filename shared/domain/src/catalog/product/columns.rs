//! Many products as parameters for Postgres: one array per column.

use serde_json::{Value, json};
use uuid::Uuid;

use super::record::{Category, FieldChange, Product, changes_json, event_data};

/// The columns of products, an array each. Their audit and event data is passed as text: as JSON values, a chunk would need
/// many times its size in memory.
#[derive(Default)]
pub(super) struct Columns<'p> {
    pub(super) ids: Vec<Uuid>,
    pub(super) product_skus: Vec<&'p str>,
    pub(super) internal_skus: Vec<&'p str>,
    pub(super) product_groups: Vec<Option<Uuid>>,
    pub(super) names: Vec<&'p str>,
    pub(super) descriptions: Vec<Option<&'p str>>,
    pub(super) weights: Vec<Option<i32>>,
    pub(super) heights: Vec<Option<i32>>,
    pub(super) widths: Vec<Option<i32>>,
    pub(super) lengths: Vec<Option<i32>>,
    // arrays of arrays cannot be unnested: each as JSON
    pub(super) reference_numbers: Vec<Value>,
    pub(super) packaging_types: Vec<&'p str>,
    pub(super) imei_check_required: Vec<bool>,
    pub(super) work_around_sn_in: Vec<bool>,
    pub(super) work_around_ean_sticker: Vec<bool>,
    pub(super) work_around_warranty_inf: Vec<bool>,
    pub(super) work_around_lot: Vec<bool>,
    pub(super) active: Vec<bool>,
    pub(super) countries_of_origin: Vec<Option<&'p str>>,
    pub(super) hs_codes: Vec<Option<&'p str>>,
    pub(super) kinds: Vec<&'p str>,
    pub(super) categories: Vec<Option<&'static str>>,
    /// The changes for the audit.
    pub(super) changes: Vec<String>,
    /// `data` of the events.
    pub(super) data: Vec<String>,
}

impl<'p> Columns<'p> {
    pub(super) fn push(&mut self, product: &'p Product, changes: &[FieldChange]) {
        self.ids.push(product.id);
        self.product_skus.push(&product.product_sku);
        self.internal_skus.push(&product.internal_sku);
        self.product_groups.push(product.product_group);
        self.names.push(&product.name);
        self.descriptions.push(product.description.as_deref());
        self.weights.push(product.weight);
        self.heights.push(product.height);
        self.widths.push(product.width);
        self.lengths.push(product.length);
        self.reference_numbers.push(json!(product.reference_numbers));
        self.packaging_types.push(&product.packaging_type);
        self.imei_check_required.push(product.imei_check_required);
        self.work_around_sn_in.push(product.work_around_sn_in);
        self.work_around_ean_sticker.push(product.work_around_ean_sticker);
        self.work_around_warranty_inf.push(product.work_around_warranty_inf);
        self.work_around_lot.push(product.work_around_lot);
        self.active.push(product.active);
        self.countries_of_origin.push(product.country_of_origin.as_deref());
        self.hs_codes.push(product.hs_code.as_deref());
        self.kinds.push(product.kind.as_str());
        self.categories.push(product.category.map(Category::as_str));
        self.changes.push(changes_json(changes).to_string());
        let data = event_data(product.id, product.organisation, &product.product_sku, changes);
        self.data.push(data.to_string());
    }
}

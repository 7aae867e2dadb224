//! The columns of a product in SQL, for reading one and for writing many. A new field is added here, in the table of fields
//! ([`record`](super::record)), in the [`rules`](super::rules) of a body, and in the fields of lists.

use uuid::Uuid;

use super::record::{Category, FieldChange, Product, changes_json, event_data};

/// Reads products; the condition is on `product p`.
macro_rules! product_query {
    ($condition:literal $(, $parameter:expr)* $(,)?) => {
        $crate::catalog::product::columns::product_query!(
            eshops: "SELECT eshop_id FROM product_eshop WHERE product_id = p.id ORDER BY eshop_id",
            images: "SELECT id FROM product_image WHERE product_id = p.id ORDER BY id",
            from: "product p",
            $condition
            $(, $parameter)*
        )
    };
    (eshops: $eshops:literal, images: $images:literal, from: $from:literal, $condition:literal $(, $parameter:expr)* $(,)?) => {
        sqlx::query_as!(
            $crate::catalog::product::record::Product,
            r#"SELECT p.id, p.organisation_id AS organisation,
               ARRAY("# + $eshops + r#") AS "eshops!",
               p.product_sku, p.internal_sku, p.product_group, p.name, p.description, p.weight, p.height, p.width,
               p.length, p.reference_numbers, p.packaging_type, p.imei_check_required, p.work_around_sn_in,
               p.work_around_ean_sticker, p.work_around_warranty_inf, p.work_around_lot, p.active,
               p.active_acceptance, p.country_of_origin, p.hs_code,
               p.type AS "kind: ProductType",
               CASE WHEN p.type = 'bundle' THEN
                   (SELECT coalesce(jsonb_agg(jsonb_build_object('productId', product_id, 'quantity', quantity)
                                              ORDER BY position), '[]')
                    FROM product_child WHERE bundle_id = p.id)
               ELSE '[]' END AS "children_products!: sqlx::types::Json<Vec<Child>>",
               p.category AS "category: Category",
               ARRAY("# + $images + r#") AS "images!",
               p.services, p.created_at, p.changed_at, p.version
            FROM "# + $from + " WHERE " + $condition
            $(, $parameter)*
        )
    };
}

/// Runs [`record_change!`](longshore_kernel::record_change) or `record_changes!` with the arrays of [`Columns`] as its
/// parameters `$9` to `$32`; those of the caller start at `$33`. The SQL is literals and these words:
///
/// | word | stands for |
/// | --- | --- |
/// | `arrays` | the set-returning function of all columns, `changes` and `data` last |
/// | `names` | the names of those columns |
/// | `values` | the columns of `g`, as they are inserted |
/// | `set` | the assignments of all columns but `id`, from `g` |
///
/// `record_products!(record_change, connection, origin, action, columns, ["SQL" word …], parameters from $33 …)`
macro_rules! record_products {
    (@ [$($done:literal)*] [arrays $($sql:tt)*] $($rest:tt)*) => {
        $crate::catalog::product::columns::record_products!(@ [$($done)*
            "unnest($9::uuid[], $10::text[], $11::text[], $12::uuid[], $13::text[], $14::text[], $15::int[], $16::int[],
                    $17::int[], $18::int[], $19::text[], $20::text[], $21::boolean[], $22::boolean[], $23::boolean[],
                    $24::boolean[], $25::boolean[], $26::boolean[], $27::text[], $28::text[], $29::text[], $30::text[],
                    $31::text[], $32::text[])"
        ] [$($sql)*] $($rest)*)
    };
    (@ [$($done:literal)*] [names $($sql:tt)*] $($rest:tt)*) => {
        $crate::catalog::product::columns::record_products!(@ [$($done)*
            "id, product_sku, internal_sku, product_group, name, description, weight, height, width, length,
             reference_numbers, packaging_type, imei_check_required, work_around_sn_in, work_around_ean_sticker,
             work_around_warranty_inf, work_around_lot, active, country_of_origin, hs_code, type, category"
        ] [$($sql)*] $($rest)*)
    };
    (@ [$($done:literal)*] [values $($sql:tt)*] $($rest:tt)*) => {
        $crate::catalog::product::columns::record_products!(@ [$($done)*
            "g.id, g.product_sku, g.internal_sku, g.product_group, g.name, g.description, g.weight, g.height, g.width,
             g.length, g.reference_numbers::text[], g.packaging_type,
             g.imei_check_required, g.work_around_sn_in, g.work_around_ean_sticker, g.work_around_warranty_inf,
             g.work_around_lot, g.active, g.country_of_origin, g.hs_code, g.type, g.category"
        ] [$($sql)*] $($rest)*)
    };
    (@ [$($done:literal)*] [set $($sql:tt)*] $($rest:tt)*) => {
        $crate::catalog::product::columns::record_products!(@ [$($done)*
            "product_sku = g.product_sku, internal_sku = g.internal_sku, product_group = g.product_group, name = g.name,
             description = g.description, weight = g.weight, height = g.height, width = g.width, length = g.length,
             reference_numbers = g.reference_numbers::text[],
             packaging_type = g.packaging_type, imei_check_required = g.imei_check_required,
             work_around_sn_in = g.work_around_sn_in, work_around_ean_sticker = g.work_around_ean_sticker,
             work_around_warranty_inf = g.work_around_warranty_inf, work_around_lot = g.work_around_lot,
             active = g.active, country_of_origin = g.country_of_origin, hs_code = g.hs_code, type = g.type,
             category = g.category"
        ] [$($sql)*] $($rest)*)
    };
    (@ [$($done:literal)*] [$sql:literal $($more:tt)*] $($rest:tt)*) => {
        $crate::catalog::product::columns::record_products!(@ [$($done)* $sql] [$($more)*] $($rest)*)
    };
    (@ [$first:literal $($done:literal)*] [] $record:ident, $connection:expr, $origin:expr, $action:expr, $columns:ident
     $(, $parameter:expr)*) => {
        $record!(
            $connection,
            $origin,
            $action,
            $crate::catalog::product::ENTITY,
            Some($crate::catalog::product::EVENT),
            $first $(+ $done)*,
            &$columns.ids,
            &$columns.product_skus as &[&str],
            &$columns.internal_skus as &[&str],
            &$columns.product_groups as &[Option<uuid::Uuid>],
            &$columns.names as &[&str],
            &$columns.descriptions as &[Option<&str>],
            &$columns.weights as &[Option<i32>],
            &$columns.heights as &[Option<i32>],
            &$columns.widths as &[Option<i32>],
            &$columns.lengths as &[Option<i32>],
            &$columns.reference_numbers,
            &$columns.packaging_types as &[&str],
            &$columns.imei_check_required,
            &$columns.work_around_sn_in,
            &$columns.work_around_ean_sticker,
            &$columns.work_around_warranty_inf,
            &$columns.work_around_lot,
            &$columns.active,
            &$columns.countries_of_origin as &[Option<&str>],
            &$columns.hs_codes as &[Option<&str>],
            &$columns.kinds as &[&str],
            &$columns.categories as &[Option<&str>],
            &$columns.changes,
            &$columns.data
            $(, $parameter)*
        )
    };
    ($record:ident, $connection:expr, $origin:expr, $action:expr, $columns:ident, [$($sql:tt)*] $(, $parameter:expr)* $(,)?) => {
        $crate::catalog::product::columns::record_products!(
            @ [] [$($sql)*] $record, $connection, $origin, $action, $columns $(, $parameter)*
        )
    };
}

pub(super) use {product_query, record_products};

/// An array of texts as Postgres writes it.
pub(super) fn array(texts: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let texts: Vec<String> = texts.into_iter().map(|text| quoted(text.as_ref())).collect();
    format!("{{{}}}", texts.join(","))
}

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
    // arrays of arrays cannot be unnested: each as its text
    pub(super) reference_numbers: Vec<String>,
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
        self.reference_numbers.push(array(&product.reference_numbers));
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
        self.data.push(event_data(product, changes).to_string());
    }
}

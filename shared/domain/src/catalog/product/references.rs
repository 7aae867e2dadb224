//! What a product refers to: e-shops, children, a packaging option. They must exist and be visible to the caller
//! (`docs/reference/records.md#references`); each one that does not is a violation with its path. A body and the rows of a
//! sync are judged by the same look-up, in the same words.

use std::collections::{HashMap, HashSet};

use sqlx::PgExecutor;
use uuid::Uuid;

use super::record::{Product, ProductType};
use super::rules::{DEFAULT_PACKAGING, violation};
use longshore_kernel::ids::{EshopId, OrganisationId};
use longshore_kernel::problem::Violation;

/// What a product would come to refer to. What it refers to already need not be looked up: it stays, also where the caller
/// does not see it.
#[derive(Debug)]
pub(super) struct References {
    /// The product, unless it is new.
    product: Option<Uuid>,
    /// E-shops, each with its place among those that were given.
    eshops: Vec<(usize, EshopId)>,
    /// Children, each with its place.
    children: Vec<(usize, Uuid)>,
    /// Code of a packaging option.
    packaging_type: Option<String>,
    /// A `productSku` that must be free.
    product_sku: Option<String>,
    /// The product must not be a child of a bundle, in stock, in an open stock advice, or held or missed by orders.
    leaves_physical: bool,
}

/// What was found.
#[derive(Debug)]
pub(super) struct Referents {
    /// Whether the organisation exists.
    pub(super) organisation: bool,
    /// E-shops that are there and visible.
    eshops: HashSet<EshopId>,
    /// Existing, visible children of any type.
    children: HashSet<Uuid>,
    /// Those of them that are physical, and stay so.
    physical: HashSet<Uuid>,
    /// Packaging options that exist.
    packaging_types: HashSet<String>,
    /// Each `productSku` that another product has, and which, where that one is visible.
    taken: HashMap<String, Option<Uuid>>,
    /// Which of the products that leave physical are children of bundles.
    parts: HashSet<Uuid>,
    /// Which of them are in stock, in an open stock advice, or held or missed by orders.
    stocked: HashSet<Uuid>,
}

impl References {
    /// Those of a body: `product` is what it makes of the current one, with its e-shops as they came.
    pub(super) fn of_body(current: Option<&Product>, product: &Product) -> Self {
        let is_known = |id: &Uuid| current.is_some_and(|c| c.eshops.contains(id));
        let has_sku = current.is_some_and(|c| c.product_sku == product.product_sku);
        Self {
            eshops: product
                .eshops
                .iter()
                .enumerate()
                .filter(|(_, id)| !is_known(id))
                .map(|(place, id)| (place, EshopId::from(*id)))
                .collect(),
            product_sku: (!has_sku).then(|| product.product_sku.clone()),
            ..Self::of_row(current, product)
        }
    }

    /// Those of a row of a sync: its product is found by the SKU, and its e-shop is the one of the sync.
    pub(super) fn of_row(current: Option<&Product>, product: &Product) -> Self {
        let is_known =
            |id: &Uuid| current.is_some_and(|c| c.children_products.iter().any(|c| c.product_id == *id));
        let code = &product.packaging_type;
        let has_code = code == DEFAULT_PACKAGING || current.is_some_and(|c| c.packaging_type == *code);
        let children = product.children_products.iter().map(|c| c.product_id).enumerate();
        Self {
            product: current.map(|c| c.id),
            eshops: Vec::new(),
            children: children.filter(|(_, id)| !is_known(id)).collect(),
            packaging_type: (!has_code).then(|| code.clone()),
            product_sku: None,
            leaves_physical: current.is_some_and(|c| leaves_physical(c, product)),
        }
    }

    /// Whether there is nothing to look up.
    pub(super) fn is_empty(&self) -> bool {
        self.eshops.is_empty()
            && self.children.is_empty()
            && self.packaging_type.is_none()
            && self.product_sku.is_none()
            && !self.leaves_physical
    }

    /// New children.
    pub(super) fn children(&self) -> impl Iterator<Item = Uuid> {
        self.children.iter().map(|(_, id)| *id)
    }

    fn turned(&self) -> Option<Uuid> {
        self.product.filter(|_| self.leaves_physical)
    }

    /// What is wrong with them.
    pub(super) fn judge(&self, found: &Referents) -> Vec<Violation> {
        let mut violations = Vec::new();
        for (index, _) in self.eshops.iter().filter(|(_, id)| !found.eshops.contains(id)) {
            let path = format!("eshops[{index}]");
            violations.push(violation(path, "unknown_reference", "must be an e-shop of the organisation"));
        }
        for (index, id) in &self.children {
            let (code, message) = if self.product == Some(*id) {
                ("not_allowed", "must not be the bundle itself")
            } else if !found.children.contains(id) {
                ("unknown_reference", "must be a product of the organisation")
            } else if !found.physical.contains(id) {
                ("not_allowed", "must be a physical product")
            } else {
                continue;
            };
            violations.push(violation(format!("childrenProducts[{index}].productId"), code, message));
        }
        if self.packaging_type.as_ref().is_some_and(|code| !found.packaging_types.contains(code)) {
            violations.push(violation("packagingType", "unknown_reference", "must be a packaging option"));
        }
        if let Some(other) = self.product_sku.as_ref().and_then(|sku| found.taken.get(sku)) {
            let message = "belongs to another product of the organisation";
            violations.push(Violation::taken("productSku", message, *other));
        }
        if self.turned().is_some_and(|id| found.parts.contains(&id)) {
            let message = "must stay physical: the product is a child of a bundle";
            violations.push(violation("type", "not_allowed", message));
        }
        if self.turned().is_some_and(|id| found.stocked.contains(&id)) {
            let message =
                "must stay physical: the product is in stock, in an open stock advice, or in a sent order";
            violations.push(violation("type", "in_stock", message));
        }
        violations
    }
}

/// Whether a product that may be a child would stop being one that can.
pub(super) fn leaves_physical(current: &Product, product: &Product) -> bool {
    current.kind == ProductType::Physical && product.kind != ProductType::Physical
}

/// Looks up all references of products of an organisation, limited to what a caller who is bound to `eshop` sees. Each is
/// looked up by its key, independent of the statistics of Postgres: without statistics, any index that begins with the
/// organisation looks as good, and that one reads all of its products.
pub(super) async fn look_up(
    executor: impl PgExecutor<'_>,
    organisation: OrganisationId,
    eshop: Option<EshopId>,
    wanted: &[&References],
) -> Result<Referents, sqlx::Error> {
    let eshops: Vec<EshopId> = wanted.iter().flat_map(|w| &w.eshops).map(|(_, id)| *id).collect();
    let children: Vec<Uuid> = wanted.iter().flat_map(|w| w.children()).collect();
    let packaging_types: HashSet<&str> = wanted.iter().filter_map(|w| w.packaging_type.as_deref()).collect();
    let packaging_types: Vec<&str> = packaging_types.into_iter().collect();
    let (skus, owners): (Vec<&str>, Vec<Option<Uuid>>) =
        wanted.iter().filter_map(|w| Some((w.product_sku.as_deref()?, w.product))).unzip();
    let turned: HashSet<Uuid> = wanted.iter().filter_map(|w| w.turned()).collect();
    let found = sqlx::query!(
        r#"WITH child AS MATERIALIZED (
               SELECT id, type FROM product
               WHERE id = ANY($4) AND organisation_id IS NOT DISTINCT FROM $1
                 -- for EXISTS all products of the e-shop may be read and hashed
                 AND ($2::uuid IS NULL
                      OR (SELECT true FROM product_eshop WHERE product_id = product.id AND eshop_id = $2))
           ), other AS MATERIALIZED (
               SELECT given.sku,
                      CASE WHEN $2::uuid IS NULL
                                OR (SELECT true FROM product_eshop WHERE product_id = same.id AND eshop_id = $2)
                           THEN same.id END AS id
               FROM unnest($6::text[], $7::uuid[]) AS given (sku, owner) CROSS JOIN LATERAL (
                   SELECT id FROM product
                   WHERE organisation_id = $1 AND product_sku >= given.sku AND product_sku <= given.sku
                   ORDER BY product_sku LIMIT 1
               ) same
               WHERE same.id IS DISTINCT FROM given.owner
           )
           SELECT EXISTS (SELECT FROM organisation WHERE id = $1) AS "organisation!",
                  ARRAY(SELECT id FROM eshop WHERE id = ANY($3) AND organisation_id IS NOT DISTINCT FROM $1
                        AND ($2::uuid IS NULL OR id = $2)) AS "eshops!: Vec<EshopId>",
                  ARRAY(SELECT id FROM child) AS "children!",
                  ARRAY(SELECT id FROM child WHERE type = 'physical') AS "physical!",
                  ARRAY(SELECT code FROM packaging_option WHERE code = ANY($5)) AS "packaging_types!",
                  ARRAY(SELECT sku FROM other) AS "taken!",
                  ARRAY(SELECT id FROM other) AS "others!: Vec<Option<Uuid>>",
                  ARRAY(SELECT id FROM unnest($8::uuid[]) AS turned (id)
                        WHERE (SELECT true FROM product_child WHERE product_id = turned.id LIMIT 1)) AS "parts!",
                  ARRAY(SELECT product_id FROM product_stock
                        WHERE product_id = ANY($8)
                          AND (quantity, held, missing, incoming) <> (0, 0, 0, 0)
                        UNION
                        SELECT i.product_id FROM stock_advice_item i
                        JOIN stock_advice a ON a.id = ANY (ARRAY[i.stock_advice_id])
                        WHERE i.product_id = ANY($8) AND a.status IN ('new', 'receiving')) AS "stocked!: Vec<Uuid>""#,
        organisation.get(),
        eshop as Option<EshopId>,
        &eshops as &[EshopId],
        &children,
        &packaging_types as &[&str],
        &skus as &[&str],
        &owners as &[Option<Uuid>],
        &turned.iter().copied().collect::<Vec<_>>(),
    )
    .fetch_one(executor)
    .await?;
    Ok(Referents {
        organisation: found.organisation,
        eshops: found.eshops.into_iter().collect(),
        children: found.children.into_iter().collect(),
        // what is turned into something else beside it can be no part either
        physical: found.physical.into_iter().filter(|id| !turned.contains(id)).collect(),
        packaging_types: found.packaging_types.into_iter().collect(),
        taken: found.taken.into_iter().zip(found.others).collect(),
        parts: found.parts.into_iter().collect(),
        stocked: found.stocked.into_iter().collect(),
    })
}

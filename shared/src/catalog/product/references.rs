//! What a product refers to: e-shops, children, a packaging option. They must exist and be visible to the caller
//! (`docs/reference/records.md#references`); each one that does not is a violation with its path.

use sqlx::PgExecutor;
use uuid::Uuid;

use super::record::ProductFields;
use super::rules::{DEFAULT_PACKAGING, violation};
use crate::platform::access::Scope;
use crate::platform::problem::Violation;

/// Why a product stays physical whose stock nobody could correct any more.
pub const STOCKED: &str = "must stay physical: the product is in stock, or in an open stock advice";

/// What is to be looked up. What the product refers to already need not be.
#[derive(Clone, Debug, Default)]
pub struct References<'a> {
    /// The organisation that everything must belong to.
    pub organisation: Uuid,
    /// The product, unless it is new.
    pub product: Option<Uuid>,
    /// E-shops.
    pub eshops: Vec<Uuid>,
    /// Children.
    pub children: Vec<Uuid>,
    /// Code of a packaging option.
    pub packaging_type: Option<&'a str>,
    /// A `productSku` that must be free.
    pub product_sku: Option<&'a str>,
    /// Whether the product must be nobody's child, nowhere in stock, and in no open stock advice.
    pub leaves_physical: bool,
}

impl References<'_> {
    /// Whether there is nothing to look up.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.eshops.is_empty()
            && self.children.is_empty()
            && self.packaging_type.is_none_or(|code| code == DEFAULT_PACKAGING)
            && self.product_sku.is_none()
            && !self.leaves_physical
    }
}

/// What was found.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is the answer to a question of its own")]
pub struct Found {
    /// Whether the organisation exists.
    pub organisation: bool,
    /// E-shops that are there and visible.
    pub eshops: Vec<Uuid>,
    /// Children that are there and visible, whatever their type.
    pub children: Vec<Uuid>,
    /// Those of them that are physical.
    pub physical: Vec<Uuid>,
    /// Whether the packaging option exists.
    pub packaging_type: bool,
    /// Whether another product of the organisation has the `productSku` …
    pub is_taken: bool,
    /// … and which, where it is visible.
    pub other: Option<Uuid>,
    /// Whether the product is a child of a bundle.
    pub is_child: bool,
    /// Whether it is in stock, or in a stock advice of which more may come.
    pub is_stocked: bool,
}

/// Looks everything up at once, each by its own key, whatever Postgres believes of how large an organisation is: where it
/// knows nothing yet, any index that begins with the organisation looks as good to it, and that one reads all of its products.
pub async fn look_up(
    executor: impl PgExecutor<'_>,
    scope: &Scope,
    wanted: &References<'_>,
) -> Result<Found, sqlx::Error> {
    sqlx::query_as!(
        Found,
        r#"WITH child AS MATERIALIZED (
               SELECT id, type FROM product
               WHERE id = ANY($4) AND organisation_id IS NOT DISTINCT FROM $1
                 AND ($2::uuid IS NULL
                      OR EXISTS (SELECT FROM product_eshop WHERE product_id = product.id AND eshop_id = $2))
           ), other AS MATERIALIZED (
               SELECT id FROM (SELECT id FROM product
                               WHERE organisation_id = $1 AND product_sku >= $6 AND product_sku <= $6
                               ORDER BY product_sku LIMIT 1) same
               WHERE id IS DISTINCT FROM $7
           )
           SELECT EXISTS (SELECT FROM organisation WHERE id = $1) AS "organisation!",
                  ARRAY(SELECT id FROM eshop WHERE id = ANY($3) AND organisation_id IS NOT DISTINCT FROM $1
                        AND ($2::uuid IS NULL OR id = $2)) AS "eshops!",
                  ARRAY(SELECT id FROM child) AS "children!",
                  ARRAY(SELECT id FROM child WHERE type = 'physical') AS "physical!",
                  ($5::text IS NULL OR EXISTS (SELECT FROM packaging_option WHERE code = $5)) AS "packaging_type!",
                  EXISTS (SELECT FROM other) AS "is_taken!",
                  (SELECT id FROM other
                   WHERE $2::uuid IS NULL
                      OR EXISTS (SELECT FROM product_eshop WHERE product_id = other.id AND eshop_id = $2)) AS other,
                  EXISTS (SELECT FROM product_child WHERE product_id = $7) AS "is_child!",
                  EXISTS (SELECT FROM product_stock WHERE product_id = $7
                          AND (quantity, booked, missing, required, incoming) <> (0, 0, 0, 0, 0))
                  OR EXISTS (SELECT FROM stock_advice_item i JOIN stock_advice a ON a.id = i.stock_advice_id
                             WHERE i.product_id = $7 AND a.status IN ('new', 'receiving')) AS "is_stocked!""#,
        wanted.organisation,
        scope.eshop() as Option<Uuid>,
        &wanted.eshops,
        &wanted.children,
        wanted.packaging_type as Option<&str>,
        wanted.product_sku as Option<&str>,
        wanted.product as Option<Uuid>,
    )
    .fetch_one(executor)
    .await
}

/// What is wrong with the references of the given fields; what was not looked up is there already.
#[must_use]
pub fn judge(given: &ProductFields, wanted: &References<'_>, found: &Found) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (index, id) in given.eshops.iter().flatten().enumerate() {
        if wanted.eshops.contains(id) && !found.eshops.contains(id) {
            let path = format!("eshops[{index}]");
            violations.push(violation(path, "unknown_reference", "must be an e-shop of the organisation"));
        }
    }
    let children = given.children_products.as_deref().unwrap_or_default();
    for (index, child) in children.iter().enumerate().filter(|(_, c)| wanted.children.contains(&c.product_id))
    {
        let path = || format!("childrenProducts[{index}].productId");
        if wanted.product == Some(child.product_id) {
            violations.push(violation(path(), "not_allowed", "must not be the bundle itself"));
        } else if !found.children.contains(&child.product_id) {
            violations.push(violation(path(), "unknown_reference", "must be a product of the organisation"));
        } else if !found.physical.contains(&child.product_id) {
            violations.push(violation(path(), "not_allowed", "must be a physical product"));
        }
    }
    if !found.packaging_type {
        violations.push(violation("packagingType", "unknown_reference", "must be a packaging option"));
    }
    if found.is_taken {
        let message = "belongs to another product of the organisation";
        violations.push(Violation::taken("productSku", message, found.other));
    }
    if wanted.leaves_physical && found.is_child {
        let message = "must stay physical: the product is a child of a bundle";
        violations.push(violation("type", "not_allowed", message));
    }
    if wanted.leaves_physical && found.is_stocked {
        violations.push(violation("type", "in_stock", STOCKED));
    }
    violations
}

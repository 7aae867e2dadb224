//! What a field of a form names: by its id, by its name, or by a part of the name that only one record has.

use uuid::Uuid;

use longshore_domain::list::criteria::containing;
use longshore_kernel::access::Scope;
use longshore_kernel::database::Database;
use longshore_kernel::ids::{EshopId, OrganisationId, parse_id};
use longshore_kernel::problem::Problem;

use crate::order::search::spellings;

/// A record whose name has the text.
struct Named {
    id: Uuid,
    /// Its name is all of the text.
    is_whole: bool,
}

/// The e-shop that a field names.
///
/// # Errors
/// The field, where it names none or several.
pub async fn eshop(db: &Database, scope: &Scope, field: &str, text: &str) -> Result<EshopId, Problem> {
    if let Some(id) = parse_id(text) {
        return Ok(id.into());
    }
    let found = sqlx::query_as!(
        Named,
        r#"SELECT id, lower(name) = lower($3) AS "is_whole!" FROM eshop
           WHERE in_scope($1, organisation_id) AND in_eshop($2, id) AND name ILIKE $4
           ORDER BY lower(name) = lower($3) DESC, id LIMIT 2"#,
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        text,
        containing(text),
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(only(&found, field, "e-shop")?.into())
}

/// The organisation that a field names.
///
/// # Errors
/// The field, where it names none or several.
pub async fn organisation(
    db: &Database,
    scope: &Scope,
    field: &str,
    text: &str,
) -> Result<OrganisationId, Problem> {
    if let Some(id) = parse_id(text) {
        return Ok(id.into());
    }
    let found = sqlx::query_as!(
        Named,
        r#"SELECT id, lower(name) = lower($2) AS "is_whole!" FROM organisation
           WHERE in_scope($1, id) AND name ILIKE $3 ORDER BY lower(name) = lower($2) DESC, id LIMIT 2"#,
        scope.organisations() as Option<&[OrganisationId]>,
        text,
        containing(text),
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(only(&found, field, "organisation")?.into())
}

/// Entities that a text names at most: an SKU is one in each organisation.
const ENTITIES: i64 = 500;

/// The entities of events that a field names: by an id, by the SKU of a product (and of its stocks), or by the number of an order.
///
/// # Errors
/// The field, where it names none.
pub async fn entities(db: &Database, scope: &Scope, field: &str, text: &str) -> Result<Vec<Uuid>, Problem> {
    if let Some(id) = parse_id(text) {
        return Ok(vec![id]);
    }
    let spellings = spellings(text);
    let found = sqlx::query_scalar!(
        r#"WITH product_of AS MATERIALIZED (
               SELECT p.id FROM organisation o CROSS JOIN LATERAL (
                   SELECT id FROM product WHERE organisation_id = o.id AND product_sku = ANY ($3)
               ) AS p WHERE in_scope($1, o.id) LIMIT $4
           )
           SELECT id AS "id!" FROM (
               SELECT id FROM product_of
               UNION ALL
               SELECT k.id FROM product_of p JOIN product_stock k ON k.product_id = p.id
               UNION ALL
               SELECT e.id FROM expedition_detail d JOIN expedition e ON e.id = ANY (ARRAY[d.id])
               WHERE d.order_number = ANY ($3) AND in_scope($1, e.organisation_id) AND in_eshop($2, e.eshop_id)
           ) AS named LIMIT $4"#,
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        &spellings,
        ENTITIES,
    )
    .fetch_all(&db.lists)
    .await?;
    if found.is_empty() {
        let message = "must be a SKU, the number of an order, or an id";
        return Err(Problem::violation(field, "unknown_reference", message));
    }
    Ok(found)
}

/// The one that is meant, of the first two.
fn only(found: &[Named], field: &str, what: &str) -> Result<Uuid, Problem> {
    match found {
        [one] => Ok(one.id),
        [one, other] if one.is_whole && !other.is_whole => Ok(one.id),
        [] => Err(Problem::violation(field, "unknown_reference", format!("is the name of no {what}"))),
        _ => {
            let message =
                format!("is part of the names of several; write all of the name, or the id of the {what}");
            Err(Problem::violation(field, "unknown_reference", message))
        }
    }
}

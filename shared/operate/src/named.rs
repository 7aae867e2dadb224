//! What a field of a form names: by its id, by its name, or by a part of the name that only one record has.

use longshore_domain::list::criteria::containing;
use longshore_kernel::access::{Role, Scope};
use longshore_kernel::database::Database;
use longshore_kernel::ids::{EshopId, OrganisationId, parse_id};
use longshore_kernel::problem::Problem;
use longshore_kernel::words;
use uuid::Uuid;

use crate::find::find;
use crate::order::search::spellings;

words! {
    /// What a field may name.
    pub enum Kind ("kind of record") {
        /// An e-shop.
        Eshop = "e-shop",
        /// An organisation.
        Organisation = "organisation",
        /// A warehouse.
        Warehouse = "warehouse",
        /// A wms.
        Wms = "wms",
        /// An admin, a business user, or the access token of a program.
        Actor = "account or token",
    }
}

/// Names that a form suggests.
const SUGGESTED: i64 = 200;
/// Records that an error lists, of those that a field may mean; one more says that there are more.
const LISTED: usize = 5;

/// A record whose name has the text.
struct Named {
    id: Uuid,
    name: String,
    /// Where it belongs.
    of: Option<String>,
    /// Its name is all of the text.
    is_whole: bool,
}

/// The record of a kind that a field names.
///
/// # Errors
/// The field, where it names none or several.
pub async fn one(db: &Database, scope: &Scope, kind: Kind, field: &str, text: &str) -> Result<Uuid, Problem> {
    if let Some(id) = parse_id(text) {
        return Ok(id);
    }
    let most = i64::try_from(LISTED + 1).map_err(Problem::internal)?;
    only(&matching(db, scope, kind, text, most).await?, field, kind.as_str())
}

/// The record that a field names in any way in which the search finds things.
///
/// # Errors
/// The field, where it names none or several.
pub async fn thing(
    db: &Database,
    role: Role,
    scope: &Scope,
    field: &str,
    text: &str,
) -> Result<Uuid, Problem> {
    if let Some(id) = parse_id(text) {
        return Ok(id);
    }
    let wanted = text.to_lowercase();
    // hits are named `SKU · name` and `name, role`
    let is_whole = |name: &str| {
        name.to_lowercase()
            .strip_prefix(&wanted)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(" · ") || rest.starts_with(", "))
    };
    let groups = find(db, role, scope, text).await?;
    let hits = groups.into_iter().flat_map(|(kind, hits)| hits.into_iter().map(move |hit| (kind, hit)));
    let mut found: Vec<Named> = hits
        .map(|(kind, hit)| Named {
            id: hit.id,
            is_whole: is_whole(&hit.name),
            of: Some(kind.to_string()),
            name: hit.name,
        })
        .collect();
    found.sort_by_key(|named| !named.is_whole);
    only(&found, field, "record")
}

/// The names of a kind, for the suggestions of a form.
pub async fn suggestions(db: &Database, scope: &Scope, kind: Kind) -> Result<Vec<String>, Problem> {
    let found = matching(db, scope, kind, "", SUGGESTED).await?;
    let mut names: Vec<String> = found.into_iter().map(|named| named.name).collect();
    names.dedup();
    Ok(names)
}

/// The hosts of webhooks, for the suggestions of a form.
pub async fn hosts(db: &Database, scope: &Scope) -> Result<Vec<String>, Problem> {
    let hosts = sqlx::query_scalar!(
        r#"SELECT DISTINCT substring(destination FROM '://([^/:?#]+)') AS "host!" FROM webhook
           WHERE in_scope($1, organisation_id) AND in_eshop($2, eshop_id) AND destination ~ '://[^/:?#@]+(:[0-9]+)?([/?#]|$)'
           ORDER BY 1 LIMIT $3"#,
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        SUGGESTED,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(hosts)
}

/// Records of a kind whose names have a text, the one first whose name it is. What they set up is read through, by its names.
async fn matching(
    db: &Database,
    scope: &Scope,
    kind: Kind,
    text: &str,
    most: i64,
) -> Result<Vec<Named>, Problem> {
    let found = sqlx::query_as!(
        Named,
        r#"SELECT n.id AS "id!", n.name AS "name!", n.of, lower(n.name) = lower($4) AS "is_whole!"
           FROM (
               SELECT s.id, s.name, o.name AS of FROM eshop s JOIN organisation o ON o.id = s.organisation_id
               WHERE $3 = 'e-shop' AND in_scope($1, s.organisation_id) AND in_eshop($2, s.id)
               UNION ALL
               SELECT o.id, o.name, o.code FROM organisation o WHERE $3 = 'organisation' AND in_scope($1, o.id)
               UNION ALL
               SELECT w.id, w.name, o.name FROM warehouse w JOIN organisation o ON o.id = w.organisation_id
               WHERE $3 = 'warehouse' AND in_scope($1, w.organisation_id) AND $2::uuid IS NULL
               UNION ALL
               SELECT m.id, m.name, o.name FROM wms m JOIN organisation o ON o.id = m.organisation_id
               WHERE $3 = 'wms' AND in_scope($1, m.organisation_id) AND $2::uuid IS NULL
               UNION ALL
               SELECT a.id, a.first_name || ' ' || a.last_name, a.email FROM admin a
               WHERE $3 = 'account or token' AND $2::uuid IS NULL AND ($1::uuid[] IS NULL OR EXISTS (
                   SELECT FROM admin_organisation x WHERE x.admin_id = a.id AND x.organisation_id = ANY ($1)))
               UNION ALL
               SELECT u.id, u.first_name || ' ' || u.last_name, u.email FROM business_user u
               WHERE $3 = 'account or token' AND $2::uuid IS NULL AND in_scope($1, u.organisation_id)
               UNION ALL
               SELECT t.id, t.name, t.role || CASE WHEN t.revoked_at IS NULL THEN '' ELSE ', revoked' END FROM access_token t
               WHERE $3 = 'account or token' AND t.admin_id IS NULL AND t.business_user_id IS NULL
                 AND in_scope($1, t.organisation_id) AND in_eshop($2, t.eshop_id)
           ) AS n
           WHERE n.name ILIKE $5
           ORDER BY lower(n.name) = lower($4) DESC, n.name, n.id LIMIT $6"#,
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        kind.as_str(),
        text,
        containing(text),
        most,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found)
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

/// The one that is meant, of those that were found: the ones whose name is all of the text come first.
fn only(found: &[Named], field: &str, what: &str) -> Result<Uuid, Problem> {
    let message = match found {
        [one] => return Ok(one.id),
        [one, other, ..] if one.is_whole && !other.is_whole => return Ok(one.id),
        [] => format!("is the name of no {what}"),
        several => {
            let said = |named: &Named| match &named.of {
                Some(of) => format!("{} ({of})", named.name),
                None => named.name.clone(),
            };
            let listed: Vec<String> = several.iter().take(LISTED).map(said).collect();
            let more = if several.len() > LISTED { ", …" } else { "" };
            format!(
                "names several: {}{more}; write all of the name, or the id of the {what}",
                listed.join(", ")
            )
        }
    };
    Err(Problem::violation(field, "unknown_reference", message))
}

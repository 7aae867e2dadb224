//! Searching orders, newest or oldest first, in bounded time however many there are.
//!
//! A number, a tracking number or an SKU finds its orders by an index; otherwise the orders are read by their creation, or those
//! of a status by the time since which they have been in it.
//!
//! Lists are planned for their values, so `CASE WHEN $n THEN at END, CASE WHEN NOT $n THEN at END DESC` is the order of an index in
//! one direction or the other.

use std::collections::HashSet;

use chrono::{DateTime, Utc};

use longshore_domain::list::criteria::containing;
use longshore_domain::list::fields::expedition::ExpeditionStatus;
use longshore_kernel::access::Scope;
use longshore_kernel::database::Database;
use longshore_kernel::ids::{EshopId, ExpeditionId, OrganisationId};
use longshore_kernel::problem::Problem;

/// Orders a page.
pub const PAGE: usize = 50;
/// Orders that one page looks at.
pub const WINDOW: i64 = 20_000;
/// Orders of a status that are counted; beyond that, it is "many".
pub const COUNTED: i64 = 1_000;
/// Orders that have the number, tracking number or SKU: the newest of them are looked at.
const NAMED: i64 = 5_000;

/// What is wanted; all of it is required.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// With this order number or external id, in its own letters, or all capital or all small ones.
    pub number: Option<String>,
    /// Whose parcel has this tracking number.
    pub tracking_number: Option<String>,
    /// With an item of this SKU that has not been packed.
    pub sku: Option<String>,
    /// Of this e-shop.
    pub eshop: Option<EshopId>,
    /// In this status.
    pub status: Option<ExpeditionStatus>,
    /// One of whose errors has this in `path message`, with `[]` for the number of an item; of those that are incorrect, unless another
    /// status is wanted.
    pub error: Option<String>,
    /// Behind this cursor.
    pub after: Option<Cursor>,
    /// The oldest first, and not the newest.
    pub oldest: bool,
    /// Orders a page; nothing: [`PAGE`].
    pub size: Option<usize>,
}

/// Where a page ends.
pub type Cursor = longshore_kernel::cursor::Cursor<ExpeditionId>;

/// An order as a list of them shows it.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its id.
    pub id: ExpeditionId,
    /// Its number.
    pub number: String,
    /// Its status.
    pub status: ExpeditionStatus,
    /// Since when.
    pub status_since: DateTime<Utc>,
    /// Whether its reservation is paused.
    pub is_paused: bool,
    /// Its e-shop.
    pub eshop_id: EshopId,
    /// Name of that.
    pub eshop: String,
    /// SKU of the product that it waits for.
    pub waits_for: Option<String>,
    /// What the first error says, where it is incorrect.
    pub error: Option<String>,
    /// Pieces.
    pub pieces: i64,
    /// Its tracking number.
    pub tracking_number: Option<String>,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// What the list is sorted by.
    pub at: DateTime<Utc>,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The orders in their order, as many as a page has.
    pub orders: Vec<Line>,
    /// Whether that is the order of the times since which they have been in their status.
    pub by_status: bool,
    /// Where the next page begins, if there may be more.
    pub next: Option<Cursor>,
    /// As many orders were looked at as one search may, and fewer than a page of them matched.
    pub cut_short: bool,
}

/// How many orders of a scope are in each status, up to [`COUNTED`] of each.
pub async fn counts(db: &Database, scope: &Scope) -> Result<Vec<(ExpeditionStatus, i64)>, Problem> {
    counts_of(db, scope, &ExpeditionStatus::ALL).await
}

/// The same for some statuses.
pub(super) async fn counts_of(
    db: &Database,
    scope: &Scope,
    statuses: &[ExpeditionStatus],
) -> Result<Vec<(ExpeditionStatus, i64)>, Problem> {
    let words: Vec<&str> = statuses.iter().map(|status| status.as_str()).collect();
    let counts = sqlx::query!(
        r#"WITH having_orders AS MATERIALIZED (
               SELECT o.id FROM organisation o
               WHERE in_scope($2, o.id) AND (SELECT true FROM expedition e WHERE e.organisation_id = o.id
                                         ORDER BY e.status, e.status_since, e.id LIMIT 1)
           )
           SELECT s.status AS "status!: ExpeditionStatus", (SELECT count(*) FROM (
                      SELECT FROM having_orders o CROSS JOIN LATERAL (
                          SELECT FROM (
                              SELECT eshop_id FROM expedition e
                              WHERE e.organisation_id = ANY (ARRAY[o.id]) AND e.status = s.status
                              ORDER BY e.organisation_id, e.status_since, e.id LIMIT (SELECT $4::bigint)
                          ) AS looked_at WHERE in_eshop($3, eshop_id)
                      ) AS of_one LIMIT $4) AS counted) AS "orders!"
           FROM unnest($1::text[]) WITH ORDINALITY AS s (status, place) ORDER BY s.place"#,
        &words as &[&str],
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        COUNTED,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(counts.into_iter().map(|row| (row.status, row.orders)).collect())
}

/// Searches.
pub async fn search(db: &Database, scope: &Scope, wanted: &Filter) -> Result<Page, Problem> {
    let eshop = match (scope.eshop(), wanted.eshop) {
        (Some(own), Some(other)) if own != other => return Ok(Page::default()),
        (own, wanted) => own.or(wanted),
    };
    let named = named(db, scope, wanted).await?;
    let error = wanted.error.as_deref().map(containing);
    let status = wanted.status.or(error.as_ref().map(|_| ExpeditionStatus::Incorrect));
    let (at, id) = wanted.after.map(|cursor| (cursor.at, cursor.id)).unzip();
    let size = wanted.size.unwrap_or(PAGE);
    let limit = i64::try_from(size + 1).map_err(Problem::internal)?;
    let mut orders = sqlx::query_as!(
        Line,
        r#"WITH having_orders AS MATERIALIZED (
               SELECT o.id FROM organisation o
               WHERE in_scope($1, o.id) AND ($3::uuid IS NULL OR o.id = (SELECT organisation_id FROM eshop WHERE id = $3))
                 AND (SELECT true FROM expedition e WHERE e.organisation_id = o.id
                                         ORDER BY e.status, e.status_since, e.id LIMIT 1)
           ), found AS (
               -- those that are named
               SELECT e.id, e.created_at AS at FROM expedition e
               WHERE e.id = ANY ($2) AND in_scope($1, e.organisation_id) AND in_eshop($3, e.eshop_id)
                 AND ($4::text IS NULL OR e.status = $4) AND ($5::timestamptz IS NULL OR CASE WHEN $9 THEN (e.created_at, e.id) > ($5, $6) ELSE (e.created_at, e.id) < ($5, $6) END)
               UNION ALL
               -- those of a status
               SELECT looked_at.id, looked_at.at FROM having_orders o CROSS JOIN LATERAL (
                   SELECT e.id, e.status_since AS at, e.eshop_id FROM expedition e
                   WHERE $2::uuid[] IS NULL AND $4::text IS NOT NULL AND e.organisation_id = o.id AND e.status = $4
                     AND ($5::timestamptz IS NULL OR CASE WHEN $9 THEN (e.status_since, e.id) > ($5, $6) ELSE (e.status_since, e.id) < ($5, $6) END)
                   ORDER BY CASE WHEN $9 THEN e.status_since END, CASE WHEN $9 THEN e.id END,
                            CASE WHEN NOT $9 THEN e.status_since END DESC, CASE WHEN NOT $9 THEN e.id END DESC
                   LIMIT CASE WHEN $3::uuid IS NULL AND $10::text IS NULL THEN $7::bigint ELSE $8::bigint END
               ) AS looked_at
               WHERE in_eshop($3, looked_at.eshop_id)
               UNION ALL
               -- those of an e-shop
               (SELECT e.id, e.created_at FROM expedition e
                WHERE $2::uuid[] IS NULL AND $4::text IS NULL AND e.eshop_id = $3 AND in_scope($1, e.organisation_id)
                  AND ($5::timestamptz IS NULL OR CASE WHEN $9 THEN (e.created_at, e.id) > ($5, $6) ELSE (e.created_at, e.id) < ($5, $6) END)
                ORDER BY CASE WHEN $9 THEN e.created_at END, CASE WHEN $9 THEN e.id END,
                            CASE WHEN NOT $9 THEN e.created_at END DESC, CASE WHEN NOT $9 THEN e.id END DESC LIMIT $7)
               UNION ALL
               -- all
               SELECT looked_at.id, looked_at.at FROM having_orders o CROSS JOIN LATERAL (
                   SELECT e.id, e.created_at AS at FROM expedition e
                   WHERE $2::uuid[] IS NULL AND $4::text IS NULL AND $3::uuid IS NULL AND e.organisation_id = o.id
                     AND ($5::timestamptz IS NULL OR CASE WHEN $9 THEN (e.created_at, e.id) > ($5, $6) ELSE (e.created_at, e.id) < ($5, $6) END)
                   ORDER BY CASE WHEN $9 THEN e.created_at END, CASE WHEN $9 THEN e.id END,
                            CASE WHEN NOT $9 THEN e.created_at END DESC, CASE WHEN NOT $9 THEN e.id END DESC LIMIT $7
               ) AS looked_at
           ), page AS MATERIALIZED (
               SELECT id, at FROM found
               WHERE $10::text IS NULL OR EXISTS (
                   SELECT FROM expedition e CROSS JOIN LATERAL jsonb_array_elements(e.errors) AS x
                   WHERE e.id = ANY (ARRAY[found.id])
                     AND concat_ws(' ', regexp_replace(x ->> 'propertyPath', '\[[0-9]+\]', '[]', 'g'), x ->> 'message') ILIKE $10)
               ORDER BY CASE WHEN $9 THEN at END, CASE WHEN $9 THEN id END,
                            CASE WHEN NOT $9 THEN at END DESC, CASE WHEN NOT $9 THEN id END DESC LIMIT $7
           )
           SELECT e.id AS "id!", d.order_number AS "number!", e.status AS "status!: ExpeditionStatus",
                  e.status_since AS "status_since!", e.reservation_paused AS "is_paused!",
                  e.eshop_id AS "eshop_id!", (SELECT name FROM eshop s WHERE s.id = e.eshop_id) AS "eshop!",
                  (SELECT p.product_sku FROM product_stock k JOIN product p ON p.id = k.product_id
                   WHERE k.id = e.waits_for_id) AS waits_for,
                  CASE WHEN e.status = 'incorrect' THEN concat_ws(' ', e.errors -> 0 ->> 'propertyPath',
                                                                  e.errors -> 0 ->> 'message') END AS error,
                  e.sum_of_quantity AS "pieces!", d.tracking_number, e.created_at AS "created_at!", page.at AS "at!"
           FROM page
           JOIN expedition e ON e.id = ANY (ARRAY[page.id])
           JOIN expedition_detail d ON d.id = ANY (ARRAY[page.id])
           ORDER BY CASE WHEN $9 THEN page.at END, CASE WHEN $9 THEN page.id END,
                            CASE WHEN NOT $9 THEN page.at END DESC, CASE WHEN NOT $9 THEN page.id END DESC"#,
        scope.organisations() as Option<&[OrganisationId]>,
        named.as_deref() as Option<&[ExpeditionId]>,
        eshop as Option<EshopId>,
        status.map(ExpeditionStatus::as_str),
        at,
        id as Option<ExpeditionId>,
        limit,
        WINDOW,
        wanted.oldest,
        error.as_deref(),
    )
    .fetch_all(&db.lists)
    .await?;
    let by_status = named.is_none() && status.is_some();
    // where more orders are looked at than a page has
    let is_edged = error.is_some() || (eshop.is_some() && orders.len() <= size);
    let edge = match status.filter(|_| by_status && is_edged) {
        Some(status) => edge(db, scope, eshop, status, wanted).await?,
        None => None,
    };
    // what lies behind it is on the next page, with what other organisations have there
    let is_reached = |order: &Line| match edge {
        Some(edge) if wanted.oldest => (order.at, order.id) <= (edge.at, edge.id),
        Some(edge) => (order.at, order.id) >= (edge.at, edge.id),
        None => true,
    };
    orders.retain(is_reached);
    if orders.len() > size {
        orders.truncate(size);
        let next = orders.last().map(|order| Cursor { at: order.at, id: order.id });
        return Ok(Page { orders, by_status, next, cut_short: false });
    }
    Ok(Page { orders, by_status, cut_short: edge.is_some(), next: edge })
}

/// The first place in the order of the list behind which some organisation has orders of a status that a search did not look at.
async fn edge(
    db: &Database,
    scope: &Scope,
    eshop: Option<EshopId>,
    status: ExpeditionStatus,
    wanted: &Filter,
) -> Result<Option<Cursor>, Problem> {
    let (at, id) = wanted.after.map(|cursor| (cursor.at, cursor.id)).unzip();
    let edge = sqlx::query_as!(
        Cursor,
        r#"SELECT e.at AS "at!", e.id AS "id!" FROM organisation o CROSS JOIN LATERAL (
               SELECT e.status_since AS at, e.id FROM expedition e
               WHERE e.organisation_id = o.id AND e.status = $2
                 AND ($3::timestamptz IS NULL OR CASE WHEN $6 THEN (e.status_since, e.id) > ($3, $4)
                                                      ELSE (e.status_since, e.id) < ($3, $4) END)
               ORDER BY CASE WHEN $6 THEN e.status_since END, CASE WHEN $6 THEN e.id END,
                        CASE WHEN NOT $6 THEN e.status_since END DESC, CASE WHEN NOT $6 THEN e.id END DESC
               LIMIT 1 OFFSET $5
           ) AS e
           WHERE in_scope($7, o.id) AND ($1::uuid IS NULL OR o.id = (SELECT organisation_id FROM eshop WHERE id = $1))
           ORDER BY CASE WHEN $6 THEN e.at END, CASE WHEN $6 THEN e.id END,
                    CASE WHEN NOT $6 THEN e.at END DESC, CASE WHEN NOT $6 THEN e.id END DESC
           LIMIT 1"#,
        eshop as Option<EshopId>,
        status.as_str(),
        at,
        id as Option<ExpeditionId>,
        WINDOW - 1,
        wanted.oldest,
        scope.organisations() as Option<&[OrganisationId]>,
    )
    .fetch_optional(&db.lists)
    .await?;
    Ok(edge)
}

/// The orders that have the wanted number, tracking number and SKU, by their indexes; `None`: nothing of it is wanted.
async fn named(db: &Database, scope: &Scope, wanted: &Filter) -> Result<Option<Vec<ExpeditionId>>, Problem> {
    let mut sets = Vec::new();
    if let Some(number) = &wanted.number {
        sets.push(by_number(db, scope, number).await?);
    }
    if let Some(number) = &wanted.tracking_number {
        sets.push(by_tracking_number(db, scope, number).await?);
    }
    if let Some(sku) = &wanted.sku {
        sets.push(by_sku(db, scope, sku).await?);
    }
    let both = sets.into_iter().reduce(|one, other| one.intersection(&other).copied().collect());
    Ok(both.map(|ids| ids.into_iter().collect()))
}

/// What a typed number or SKU may stand for: the same in capital and in small letters, without blanks around it. Lists of shops show
/// a `#` before the number of an order, which some numbers have.
pub(crate) fn spellings(typed: &str) -> Vec<String> {
    let typed = typed.trim();
    let number = typed.trim_start_matches('#').trim_start();
    let cases = [number.to_owned(), number.to_uppercase(), number.to_lowercase()];
    let mut spellings: Vec<String> =
        cases.iter().map(|number| format!("#{number}")).chain([typed.to_owned()]).collect();
    spellings.extend(cases);
    spellings.sort_unstable();
    spellings.dedup();
    spellings
}

/// The orders of a scope with this number, id of the e-shop, or tracking number.
pub(crate) async fn numbered(
    db: &Database,
    scope: &Scope,
    number: &str,
) -> Result<Vec<ExpeditionId>, Problem> {
    let (numbers, tracking_numbers) =
        tokio::try_join!(by_number(db, scope, number), by_tracking_number(db, scope, number))?;
    Ok(numbers.union(&tracking_numbers).copied().collect())
}

/// By the index of each e-shop in the scope: each spelling of a number occurs once in an e-shop, and those of others do not take the
/// place of one's own. Without a scope, the index of all numbers is read.
async fn by_number(db: &Database, scope: &Scope, number: &str) -> Result<HashSet<ExpeditionId>, Problem> {
    let numbers = spellings(number);
    let ids = sqlx::query_scalar!(
        r#"WITH own AS MATERIALIZED (
               SELECT id FROM eshop
               WHERE $3::uuid[] IS NOT NULL AND in_scope($3, organisation_id) AND in_eshop($4, id)
           )
           SELECT id AS "id!" FROM (
               (SELECT d.id FROM own CROSS JOIN unnest($1::text[]) AS n (number) CROSS JOIN LATERAL (
                    SELECT id FROM expedition_detail WHERE eshop_id = own.id AND order_number = n.number OFFSET 0) AS d LIMIT $2)
               UNION ALL
               (SELECT d.id FROM own CROSS JOIN unnest($1::text[]) AS n (number) CROSS JOIN LATERAL (
                    SELECT id FROM expedition_detail WHERE eshop_id = own.id AND external_id = n.number OFFSET 0) AS d LIMIT $2)
               UNION ALL
               (SELECT id FROM expedition_detail WHERE $3::uuid[] IS NULL AND order_number = ANY ($1) LIMIT $2)
               UNION ALL
               (SELECT id FROM expedition_detail WHERE $3::uuid[] IS NULL AND external_id = ANY ($1) LIMIT $2)
           ) AS found"#,
        &numbers,
        NAMED,
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(ids.into_iter().map(ExpeditionId::from).collect())
}

/// By the index of the numbers; those of others are left before any is counted.
async fn by_tracking_number(
    db: &Database,
    scope: &Scope,
    number: &str,
) -> Result<HashSet<ExpeditionId>, Problem> {
    let numbers = spellings(number);
    let ids = sqlx::query_scalar!(
        r#"SELECT id AS "id!" FROM (
               (SELECT d.id FROM expedition_detail d CROSS JOIN LATERAL (
                    SELECT FROM expedition e
                    WHERE e.id = d.id AND in_scope($3, e.organisation_id) AND in_eshop($4, e.eshop_id) OFFSET 0) AS own
                WHERE d.tracking_number = ANY ($1) LIMIT $2)
               UNION ALL
               (SELECT p.expedition_id FROM expedition_parcel p CROSS JOIN LATERAL (
                    SELECT FROM expedition e
                    WHERE e.id = p.expedition_id AND in_scope($3, e.organisation_id) AND in_eshop($4, e.eshop_id) OFFSET 0) AS own
                WHERE p.ext_package_tracking_number = ANY ($1) LIMIT $2)
               UNION ALL
               (SELECT p.expedition_id FROM expedition_parcel p CROSS JOIN LATERAL (
                    SELECT FROM expedition e
                    WHERE e.id = p.expedition_id AND in_scope($3, e.organisation_id) AND in_eshop($4, e.eshop_id) OFFSET 0) AS own
                WHERE p.ext_carrier_tracking_number = ANY ($1) LIMIT $2)
           ) AS found"#,
        &numbers,
        NAMED,
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(ids.into_iter().map(ExpeditionId::from).collect())
}

async fn by_sku(db: &Database, scope: &Scope, sku: &str) -> Result<HashSet<ExpeditionId>, Problem> {
    let ids = sqlx::query_scalar!(
        r#"SELECT i.expedition_id FROM organisation o
           JOIN product p ON p.organisation_id = o.id AND p.product_sku = $2
           JOIN expedition_item i ON i.product_id = p.id AND i.expedited IS NULL
           WHERE in_scope($1, o.id)
           ORDER BY i.expedition_id DESC LIMIT $3"#,
        scope.organisations() as Option<&[OrganisationId]>,
        sku,
        NAMED,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(ids.into_iter().map(ExpeditionId::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_meant_in_either_case_without_blanks_and_with_or_without_a_number_sign() {
        assert_eq!(spellings(" h-1\n"), ["#H-1", "#h-1", "H-1", "h-1"]);
        assert_eq!(spellings("1001"), ["#1001", "1001"]);
        assert_eq!(spellings("#1001"), spellings("1001"));
        assert_eq!(
            spellings("# Shop-7"),
            ["# Shop-7", "#SHOP-7", "#Shop-7", "#shop-7", "SHOP-7", "Shop-7", "shop-7"]
        );
    }
}

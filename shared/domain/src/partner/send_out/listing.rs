//! Listings: the items of a partner's inventory, read to the end once, in as many turns as necessary.
//!
//! Its position is stored with each page, so that reading continues there (after a dead worker, the end of a turn, or a
//! wait for the partner). It counts as complete only with its last page. A listing belongs to the e-shop, not to a job: two
//! jobs that overtake each other while they wait read it together.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;

use crate::job::chunk::Claim;
use longshore_kernel::ids::EshopId;
use longshore_kernel::problem::Problem;
use longshore_kernel::services::Services;

/// A place that is older than this, in seconds, is not gone on from: too much may have moved to the pages before it.
const STALE_SECONDS: f64 = 86_400.0;

/// An item as the partner lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The partner's id of it.
    pub item: String,
    /// SKU of the product that it is.
    pub product_sku: String,
    /// Pieces that it has, by warehouse.
    pub stock: Vec<(String, i64)>,
}

/// A page of what a partner lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Its items.
    pub items: Vec<Listed>,
    /// Where the next one begins, in the partner's words; none: this was the last.
    pub next: Option<String>,
}

/// A listing that is under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The inventory.
    pub inventory: String,
    /// Where its next page begins; none: at the beginning.
    pub cursor: Option<String>,
    began_at: DateTime<Utc>,
}

/// Continues the listing of an inventory, or begins one; `None` if it was read to its end: ever or, with `anew`, since the
/// claim's job began.
pub async fn open(
    services: &Services,
    claim: &Claim,
    eshop: EshopId,
    inventory: &str,
    anew: bool,
) -> Result<Option<Listing>, Problem> {
    let found = sqlx::query!(
        r#"SELECT l.began_at, l.cursor, coalesce(l.whole_since >= j.since, false) AS "whole!",
                  l.whole_since IS DISTINCT FROM l.began_at AND l.began_at >= j.since
                      AND l.changed_at > now() - make_interval(secs => $5) AS "goes_on!"
           FROM partner_listing l, (
               SELECT CASE WHEN $4 THEN started_at ELSE '-infinity' END AS since FROM job WHERE id = $3) AS j
           WHERE l.eshop_id = $1 AND l.inventory = $2"#,
        eshop.get(),
        inventory,
        claim.job.get(),
        anew,
        STALE_SECONDS,
    )
    .fetch_optional(&services.db.main)
    .await?;
    let (began_at, cursor) = match found {
        Some(found) if found.whole => return Ok(None),
        Some(found) if found.goes_on => (found.began_at, found.cursor),
        Some(_) | None => (begin(services, eshop, inventory).await?, None),
    };
    Ok(Some(Listing { inventory: inventory.to_owned(), cursor, began_at }))
}

async fn begin(services: &Services, eshop: EshopId, inventory: &str) -> Result<DateTime<Utc>, sqlx::Error> {
    sqlx::query_scalar!(
        "INSERT INTO partner_listing (eshop_id, inventory, began_at, changed_at) VALUES ($1, $2, now(), now())
         ON CONFLICT (eshop_id, inventory) DO UPDATE
         SET began_at = excluded.began_at, cursor = NULL, changed_at = excluded.changed_at
         RETURNING began_at",
        eshop.get(),
        inventory,
    )
    .fetch_one(&services.db.main)
    .await
}

/// Records the position of a listing, in the transaction of its page; `false` if the listing no longer exists: its setting
/// was replaced, or another listing has begun.
pub(super) async fn advance(
    tx: &mut PgConnection,
    eshop: EshopId,
    listing: &Listing,
    next: Option<&str>,
) -> Result<bool, sqlx::Error> {
    let advanced = sqlx::query!(
        "UPDATE partner_listing
         SET cursor = $4, whole_since = CASE WHEN $4::text IS NULL THEN began_at ELSE whole_since END, changed_at = now()
         WHERE eshop_id = $1 AND inventory = $2 AND began_at = $3 AND whole_since IS DISTINCT FROM began_at",
        eshop.get(),
        listing.inventory,
        listing.began_at,
        next,
    )
    .execute(tx)
    .await?;
    Ok(advanced.rows_affected() == 1)
}

/// Forgets the listings of an e-shop except those of these inventories, because changes of others are not tracked.
pub async fn forget_beyond(
    tx: &mut PgConnection,
    eshop: EshopId,
    inventories: &[String],
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "DELETE FROM partner_listing WHERE eshop_id = $1 AND inventory <> ALL ($2)",
        eshop.get(),
        inventories
    )
    .execute(tx)
    .await?;
    Ok(())
}

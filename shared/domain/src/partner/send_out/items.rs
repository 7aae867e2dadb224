//! Items: our products in a partner's catalogue, and the partner's stocks of them.

use sqlx::PgConnection;

use super::listing::{self, Listing, Page};
use super::{Progress, grow};
use crate::job::chunk::{self, Claim};
use crate::job::fetching::note_items;
use crate::job::item_error::{self, ItemError};
use longshore_kernel::change::Change;
use longshore_kernel::ids::EshopId;
use longshore_kernel::problem::Problem;
use longshore_kernel::services::Services;

/// A partner that knows SKUs only: its items are the physical products of the e-shop.
pub async fn note_products(services: &Services, eshop: EshopId) -> Result<(), Problem> {
    sqlx::query!(
        "INSERT INTO partner_item (eshop_id, inventory, item, product_sku)
         SELECT e.eshop_id, '', p.product_sku, p.product_sku
         FROM product_eshop e JOIN product p ON p.id = ANY (ARRAY[e.product_id]) AND p.type = 'physical'
         WHERE e.eshop_id = $1
         ORDER BY p.product_sku
         ON CONFLICT DO NOTHING",
        eshop.get(),
    )
    .execute(&services.db.main)
    .await?;
    Ok(())
}

/// The same, of what is due only.
pub async fn note_due(services: &Services, eshop: EshopId) -> Result<(), Problem> {
    sqlx::query!(
        "INSERT INTO partner_item (eshop_id, inventory, item, product_sku)
         SELECT d.eshop_id, '', p.product_sku, p.product_sku
         FROM stock_due d JOIN product p ON p.id = ANY (ARRAY[d.product_id]) AND p.type = 'physical'
         WHERE d.eshop_id = $1
         ORDER BY p.product_sku
         ON CONFLICT DO NOTHING",
        eshop.get(),
    )
    .execute(&services.db.main)
    .await?;
    Ok(())
}

/// Forgets all items of an e-shop, and what was taken of them: its partner is another one, or another account.
pub async fn forget(tx: &mut PgConnection, eshop: EshopId) -> Result<(), sqlx::Error> {
    // first what fences a page of theirs that is under way
    listing::forget_beyond(tx, eshop, &[]).await?;
    sqlx::query!("DELETE FROM partner_item WHERE eshop_id = $1", eshop.get()).execute(&mut *tx).await?;
    sqlx::query!("DELETE FROM stock_withdrawn WHERE eshop_id = $1", eshop.get()).execute(tx).await?;
    Ok(())
}

/// Forgets the accepted quantities of items that the partner did not list since the claim's job began, or of all if it
/// lists none: they are sent again, and removed items are refused then. Quantities that were sent since are not sent a
/// second time.
pub async fn forget_taken(services: &Services, claim: &Claim, eshop: EshopId) -> Result<(), Problem> {
    sqlx::query!(
        "UPDATE partner_stock s SET taken = NULL, refused = NULL
         FROM partner_item i, job j
         WHERE s.eshop_id = $1 AND i.eshop_id = $1 AND i.inventory = s.inventory AND i.item = s.item
           AND j.id = $2 AND i.seen_at < j.started_at AND s.changed_at < j.started_at",
        eshop.get(),
        claim.job.get(),
    )
    .execute(&services.db.main)
    .await?;
    Ok(())
}

/// Forgets what all partners have taken, which may be more than is known here, and compares soon: everything is sent again. Returns how
/// many counts there were.
///
/// # Errors
/// Those of the database.
pub async fn forget_all_taken(connection: &mut PgConnection) -> Result<u64, sqlx::Error> {
    let forgotten = sqlx::query!(
        "UPDATE partner_stock SET taken = NULL, refused = NULL WHERE taken IS NOT NULL OR refused IS NOT NULL"
    )
    .execute(&mut *connection)
    .await?;
    sqlx::query!("UPDATE stock_send_out SET compare_at = least(compare_at, now())")
        .execute(connection)
        .await?;
    Ok(forgotten.rows_affected())
}

/// What became of a page of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// It is recorded; so many of its stocks differed.
    Drifted(usize),
    /// The claim was lost.
    Lost,
    /// The listing no longer exists: the setting has changed.
    Moved,
}

/// Records what the partner really has of the items of a page; what differs from what it last took was altered there, and
/// is reported if it is the e-shop's.
pub async fn found(
    services: &Services,
    claim: &Claim,
    eshop: EshopId,
    listing: &Listing,
    page: &Page,
) -> Result<Comparison, Problem> {
    let (inventory, items) = (listing.inventory.as_str(), page.items.as_slice());
    let mut change = Change::begin(services).await?;
    let tx = change.connection();
    if chunk::progressed(tx, claim).await?.is_lost() {
        return Ok(Comparison::Lost);
    }
    if !listing::advance(tx, eshop, listing, page.next.as_deref()).await? {
        return Ok(Comparison::Moved);
    }
    let known: Vec<(&str, &str)> =
        items.iter().map(|listed| (listed.item.as_str(), listed.product_sku.as_str())).collect();
    note_items(tx, eshop, inventory, &known).await?;
    let (mut ids, mut warehouses, mut pieces) = (Vec::new(), Vec::new(), Vec::new());
    for listed in items {
        for (warehouse, count) in &listed.stock {
            ids.push(listed.item.as_str());
            warehouses.push(warehouse.as_str());
            pieces.push(i32::try_from(*count).unwrap_or(if *count < 0 { i32::MIN } else { i32::MAX }));
        }
    }
    let drifted = sqlx::query!(
        r#"WITH listed AS (
               SELECT DISTINCT ON (t.item, t.warehouse) i.item, t.warehouse, t.pieces, i.product_sku
               FROM unnest($3::text[], $4::text[], $5::int[]) AS t (item, warehouse, pieces)
               JOIN partner_item i ON i.eshop_id = $1 AND i.inventory = $2 AND i.item = t.item
               -- warehouses that no setting maps belong to the partner alone
               WHERE EXISTS (SELECT FROM integration_setting s JOIN integration_warehouse m ON m.setting_id = s.id
                             WHERE s.eshop_id = $1 AND m.partner_warehouse = t.warehouse)
               ORDER BY t.item, t.warehouse
           ), was AS (
               SELECT l.*, s.taken FROM listed l
               LEFT JOIN partner_stock s ON s.eshop_id = $1 AND s.inventory = $2 AND s.item = l.item
                   AND s.partner_warehouse = l.warehouse
           ), written AS (
               INSERT INTO partner_stock (eshop_id, inventory, item, partner_warehouse, taken)
               SELECT $1, $2, item, warehouse, pieces FROM was WHERE taken IS DISTINCT FROM pieces
               ORDER BY item, warehouse
               ON CONFLICT (eshop_id, inventory, item, partner_warehouse) DO UPDATE
               SET taken = excluded.taken, refused = NULL, changed_at = now()
           )
           SELECT product_sku AS "sku!", item AS "item!", warehouse AS "warehouse!", pieces AS "pieces!", taken AS "taken!"
           FROM was
           -- what the e-shop does not sell is never sent again
           WHERE taken <> pieces
             AND ((SELECT true FROM integration_setting s
                   JOIN product p ON p.organisation_id = s.organisation_id AND p.product_sku = was.product_sku
                   JOIN product_eshop e ON e.product_id = p.id AND e.eshop_id = $1
                   WHERE s.eshop_id = $1 AND p.type = 'physical' LIMIT 1)
                  OR (SELECT true FROM stock_withdrawn x WHERE x.eshop_id = $1 AND x.product_sku = was.product_sku))
           ORDER BY item, warehouse"#,
        eshop.get(),
        inventory,
        &ids as &[&str],
        &warehouses as &[&str],
        &pieces,
    )
    .fetch_all(&mut *tx)
    .await?;
    if !drifted.is_empty() {
        let reported = Progress { changed: 0, unchanged: drifted.len(), failed: 0 };
        let first = grow(tx, claim.job, reported).await?;
        let reports = drifted.iter().zip(first..).map(|(drift, index)| ItemError {
            index,
            line: None,
            key: Some(drift.sku.clone()),
            code: "drift",
            message: format!(
                "the partner has {} pieces in {}, but {} were sent; the available quantity is sent again",
                drift.pieces, drift.warehouse, drift.taken
            ),
            field: None,
            payload: drift.item.clone().into_bytes(),
            notice: true,
        });
        item_error::record(tx, claim.job, &reports.collect::<Vec<_>>()).await?;
    }
    change.commit().await?;
    Ok(Comparison::Drifted(drifted.len()))
}

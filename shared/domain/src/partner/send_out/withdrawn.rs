//! Withdrawn SKUs: their product has left the e-shop, has another SKU, or has no stock any more, and the partner would go on
//! selling what it was last sent.
//!
//! Triggers record them (`stock_withdrawn`), in the transaction of the change. A send-out sends zero for each of their items
//! (`partner_stock_withdrawn`), like any quantity that differs. Then the SKU is released: its stock at the partner is no longer
//! ours.

use crate::job::chunk::{self, Claim};
use longshore_kernel::change::Change;
use longshore_kernel::hold::Hold;
use longshore_kernel::ids::EshopId;
use longshore_kernel::problem::Problem;
use longshore_kernel::services::Services;

/// How long zero is sent to a partner that refuses it, in seconds: it may not have the product any more.
const PATIENCE_SECONDS: f64 = 7.0 * 86_400.0;

/// Releases the SKUs of which the partner has none any more, and those that belong to a product of the e-shop again.
pub async fn release(services: &Services, claim: &Claim, eshop: EshopId) -> Result<Hold, Problem> {
    // most of the time there is none
    let withdrawn = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM stock_withdrawn WHERE eshop_id = $1) AS "withdrawn!""#,
        eshop.get()
    );
    if !withdrawn.fetch_one(&services.db.main).await? {
        return Ok(Hold::Kept);
    }
    let mut change = Change::begin(services).await?;
    let tx = change.connection();
    if chunk::progressed(tx, claim).await?.is_lost() {
        return Ok(Hold::Lost);
    }
    // a product that leaves the e-shop now waits for these rows, and adds its own again; the next statement sees one that has left
    let skus = sqlx::query_scalar!(
        "SELECT product_sku FROM stock_withdrawn WHERE eshop_id = $1 ORDER BY product_sku FOR UPDATE",
        eshop.get(),
    )
    .fetch_all(&mut *tx)
    .await?;
    sqlx::query!(
        "DELETE FROM stock_withdrawn x
         WHERE x.eshop_id = $1 AND x.product_sku = ANY ($2)
           AND (SELECT true FROM partner_stock_withdrawn g
                WHERE g.eshop_id = x.eshop_id AND g.product_sku = x.product_sku AND g.taken IS DISTINCT FROM 0
                  -- a zero that was never sent waits, however long ago it was withdrawn
                  AND (g.refused IS DISTINCT FROM 0 OR x.withdrawn_at >= now() - make_interval(secs => $3))
                LIMIT 1) IS NULL",
        eshop.get(),
        &skus,
        PATIENCE_SECONDS,
    )
    .execute(&mut *tx)
    .await?;
    change.commit().await?;
    Ok(Hold::Kept)
}

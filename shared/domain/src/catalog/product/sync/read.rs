//! What is stored under the SKUs of a chunk, and the locks on what is about to change.

use std::collections::HashMap;

use sqlx::PgConnection;
use uuid::Uuid;

use crate::catalog::product::columns::product_query;
use crate::catalog::product::record::{Category, Child, Product, ProductType};

use longshore_kernel::ids::{EshopId, OrganisationId};

/// Products of an organisation by SKU, as far as a row is compared with them: of the e-shops whether this one is among
/// them, and no images. Most rows of most syncs change nothing, and this is all that they cost.
pub(super) async fn by_sku(
    tx: &mut PgConnection,
    organisation: OrganisationId,
    eshop: EshopId,
    skus: &[&str],
) -> Result<HashMap<String, Product>, sqlx::Error> {
    // each by its key, as the first in the order of SKUs: without statistics, Postgres may plan a query by organisation and
    // SKU as a scan of the whole organisation
    let products = product_query!(
        eshops: "SELECT eshop_id FROM product_eshop WHERE product_id = p.id AND eshop_id = $3",
        images: "SELECT NULL::uuid WHERE false",
        from: "unnest($2::text[]) AS given (sku) CROSS JOIN LATERAL (
             SELECT * FROM product
             WHERE organisation_id = $1 AND product_sku >= given.sku AND product_sku <= given.sku
             ORDER BY product_sku LIMIT 1
         ) p",
        "true",
        organisation.get(),
        skus as &[&str],
        eshop.get(),
    )
    .fetch_all(tx)
    .await?;
    Ok(keyed(products))
}

/// The same products, whole, looked at again under their locks.
pub(super) async fn by_id(
    tx: &mut PgConnection,
    ids: &[Uuid],
) -> Result<HashMap<String, Product>, sqlx::Error> {
    Ok(keyed(product_query!("p.id = ANY($1)", ids).fetch_all(tx).await?))
}

fn keyed(products: Vec<Product>) -> HashMap<String, Product> {
    products.into_iter().map(|p| (p.product_sku.clone(), p)).collect()
}

/// Locks products in the order of their ids, as every bulk statement does; also against changes that create a stock, since
/// a product may stop being physical.
pub(super) async fn lock(tx: &mut PgConnection, ids: &[Uuid]) -> Result<(), sqlx::Error> {
    sqlx::query!("SELECT FROM product WHERE id = ANY($1) ORDER BY id FOR UPDATE", ids).execute(tx).await?;
    Ok(())
}

/// Keeps products of the organisation that are to be parts as they are until the transaction ends.
pub(super) async fn lock_parts(
    tx: &mut PgConnection,
    organisation: OrganisationId,
    ids: &[Uuid],
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "SELECT FROM product WHERE id = ANY($2) AND organisation_id IS NOT DISTINCT FROM $1 ORDER BY id FOR SHARE",
        organisation.get(),
        ids,
    )
    .execute(tx)
    .await?;
    Ok(())
}

//! Writing a chunk of products: one statement for those that differ, one for those that are new.

use sqlx::PgConnection;
use uuid::Uuid;

use super::{Altered, New, Sync};
use crate::catalog::product::columns::{Columns, record_products};
use crate::catalog::product::record::Product;
use longshore_kernel::change::Recorded;
use longshore_kernel::record_change;

/// Writes products that differ; they are locked.
pub(super) async fn update(
    tx: &mut PgConnection,
    sync: Sync<'_>,
    altered: &[Altered],
) -> Result<Recorded, sqlx::Error> {
    let mut columns = Columns::default();
    for alteration in altered {
        columns.push(&alteration.product, &alteration.changes);
    }
    let decided: Vec<bool> = altered.iter().map(|a| a.switched).collect();
    let recorded = record_products!(
        record_change,
        &mut *tx,
        sync.origin,
        "product.sync",
        columns,
        [
            "WITH given AS (
                 SELECT * FROM ROWS FROM (" arrays ", unnest($35::boolean[])) AS g (" names ", changes, data, switched)
             ), written AS (
                 UPDATE product p
                 SET " set ",
                     active_acceptance = CASE WHEN g.switched THEN greatest(p.active_acceptance, $34)
                                              ELSE p.active_acceptance END,
                     version = p.version + 1
                 -- each by its key: a join by equality may be planned as a look at all products while there are few of them
                 FROM given g WHERE p.id = ANY (ARRAY[g.id])
                 RETURNING p.id, p.version, p.changed_at, p.organisation_id, g.changes::jsonb AS changes,
                           g.data::jsonb AS data
             ), attached AS (
                 INSERT INTO product_eshop (product_id, eshop_id) SELECT id, $33 FROM written ORDER BY id
                 ON CONFLICT DO NOTHING
             ), changed AS (
                 SELECT id AS entity, version, changed_at AS at, organisation_id AS organisation,
                        ARRAY(SELECT eshop_id FROM product_eshop WHERE product_id = written.id UNION SELECT $33) AS eshops,
                        changes, data
                 FROM written
             )"
        ],
        sync.eshop.get(),
        sync.acceptance,
        &decided,
    )
    .await?;
    let recomposed = altered.iter().filter(|a| a.recomposed).map(|a| &a.product);
    compose(tx, recomposed).await?;
    Ok(recorded)
}

/// Inserts new products, in the order of their SKUs, except those whose SKU was taken concurrently.
pub(super) async fn insert(
    tx: &mut PgConnection,
    sync: Sync<'_>,
    new: &[New],
) -> Result<Recorded, sqlx::Error> {
    let mut columns = Columns::default();
    for New { product, changes, .. } in new {
        columns.push(product, changes);
    }
    let recorded = record_products!(
        record_change,
        &mut *tx,
        sync.origin,
        "product.sync",
        columns,
        [
            "WITH given AS (
                 SELECT * FROM " arrays " AS g (" names ", changes, data)
             ), made AS (
                 INSERT INTO product (" names ", organisation_id, active_acceptance)
                 SELECT " values ", $33, $35 FROM given g ORDER BY g.product_sku
                 ON CONFLICT (organisation_id, product_sku) DO NOTHING
                 RETURNING id, version, changed_at
             ), sold AS (
                 INSERT INTO product_eshop (product_id, eshop_id) SELECT id, $34 FROM made
             ), changed AS (
                 SELECT made.id AS entity, made.version, made.changed_at AS at, $33 AS organisation, ARRAY[$34] AS eshops,
                        g.changes::jsonb AS changes, g.data::jsonb AS data
                 FROM made JOIN given g ON g.id = made.id
             )"
        ],
        sync.organisation.get(),
        sync.eshop.get(),
        sync.acceptance,
    )
    .await?;
    compose(tx, new.iter().map(|n| &n.product).filter(|p| !p.children_products.is_empty())).await?;
    Ok(recorded)
}

/// Remembers that rows have said what `active` is, for products that are so already. It only matters where a switch that
/// was accepted earlier is still to come, so nothing is written where there is none: a sync that changes nothing stays a
/// sync that writes nothing.
pub(super) async fn confirm(tx: &mut PgConnection, acceptance: i64, ids: &[Uuid]) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE product SET active_acceptance = $1
         WHERE id = ANY($2) AND active_acceptance < $1
           AND EXISTS (SELECT FROM job
                       WHERE kind IN ('product.activate', 'product.deactivate') AND acceptance < $1
                         AND state IN ('queued', 'running', 'retrying'))",
        acceptance,
        ids,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Gives bundles their children. A bundle that was not inserted after all has none to give them to.
async fn compose<'p>(
    tx: &mut PgConnection,
    products: impl Iterator<Item = &'p Product>,
) -> Result<(), sqlx::Error> {
    let mut bundles: Vec<Uuid> = Vec::new();
    let (mut owners, mut children, mut quantities, mut positions) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for product in products {
        bundles.push(product.id);
        for (position, child) in (1..).zip(product.children_products.iter()) {
            owners.push(product.id);
            children.push(child.product_id);
            quantities.push(child.quantity);
            positions.push(position);
        }
    }
    if bundles.is_empty() {
        return Ok(());
    }
    sqlx::query!("DELETE FROM product_child WHERE bundle_id = ANY($1)", &bundles).execute(&mut *tx).await?;
    sqlx::query!(
        "INSERT INTO product_child (bundle_id, product_id, quantity, position)
         SELECT c.* FROM unnest($1::uuid[], $2::uuid[], $3::int[], $4::int[]) AS c (bundle, child, quantity, position)
         JOIN product p ON p.id = ANY (ARRAY[c.bundle])",
        &owners,
        &children,
        &quantities,
        &positions as &[i32],
    )
    .execute(tx)
    .await?;
    Ok(())
}

//! Writing a chunk of products: one statement for those that differ, one for those that are new.

use sqlx::PgConnection;
use uuid::Uuid;

use super::{Altered, New, Sync};
use crate::catalog::product::columns::Columns;
use crate::catalog::product::record::Product;
use crate::catalog::product::{ENTITY, EVENT};
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
    let recorded = record_change!(
        &mut *tx,
        sync.origin,
        "product.sync",
        ENTITY,
        EVENT,
        "WITH given AS (
             SELECT * FROM unnest($11::uuid[], $12::text[], $13::uuid[], $14::text[], $15::text[], $16::int[],
                 $17::int[], $18::int[], $19::int[], $20::jsonb[], $21::text[], $22::boolean[], $23::boolean[],
                 $24::boolean[], $25::boolean[], $26::boolean[], $27::boolean[], $28::text[], $29::text[], $30::text[],
                 $31::text[], $32::boolean[], $33::text[], $34::text[])
             AS g (id, internal_sku, product_group, name, description, weight, height, width, length,
                 reference_numbers, packaging_type, imei_check_required, work_around_sn_in, work_around_ean_sticker,
                 work_around_warranty_inf, work_around_lot, active, country_of_origin, hs_code, type, category,
                 switched, changes, data)
         ), written AS (
             UPDATE product p
             SET internal_sku = g.internal_sku, product_group = g.product_group, name = g.name,
                 description = g.description, weight = g.weight, height = g.height, width = g.width,
                 length = g.length,
                 reference_numbers = ARRAY(SELECT jsonb_array_elements_text(g.reference_numbers)),
                 packaging_type = g.packaging_type, imei_check_required = g.imei_check_required,
                 work_around_sn_in = g.work_around_sn_in, work_around_ean_sticker = g.work_around_ean_sticker,
                 work_around_warranty_inf = g.work_around_warranty_inf, work_around_lot = g.work_around_lot,
                 active = g.active,
                 active_acceptance = CASE WHEN g.switched THEN greatest(p.active_acceptance, $10)
                                          ELSE p.active_acceptance END,
                 country_of_origin = g.country_of_origin, hs_code = g.hs_code, type = g.type,
                 category = g.category,
                 version = p.version + 1
             -- each by its key: a join by equality may be planned as a look at all products while there are few of them
             FROM given g WHERE p.id = ANY (ARRAY[g.id])
             RETURNING p.id, p.version, p.changed_at, p.organisation_id, g.changes::jsonb AS changes, g.data::jsonb AS data
         ), attached AS (
             INSERT INTO product_eshop (product_id, eshop_id) SELECT id, $9 FROM written ORDER BY id
             ON CONFLICT DO NOTHING
         ), changed AS (
             SELECT id AS entity, version, changed_at AS at, organisation_id AS organisation,
                    ARRAY(SELECT eshop_id FROM product_eshop WHERE product_id = written.id UNION SELECT $9) AS eshops,
                    changes, data
             FROM written
         )",
        sync.eshop,
        sync.acceptance,
        &columns.ids,
        &columns.internal_skus as &[&str],
        &columns.product_groups as &[Option<Uuid>],
        &columns.names as &[&str],
        &columns.descriptions as &[Option<&str>],
        &columns.weights as &[Option<i32>],
        &columns.heights as &[Option<i32>],
        &columns.widths as &[Option<i32>],
        &columns.lengths as &[Option<i32>],
        &columns.reference_numbers,
        &columns.packaging_types as &[&str],
        &columns.imei_check_required,
        &columns.work_around_sn_in,
        &columns.work_around_ean_sticker,
        &columns.work_around_warranty_inf,
        &columns.work_around_lot,
        &columns.active,
        &columns.countries_of_origin as &[Option<&str>],
        &columns.hs_codes as &[Option<&str>],
        &columns.kinds as &[&str],
        &columns.categories as &[Option<&str>],
        &decided,
        &columns.changes,
        &columns.data,
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
    let recorded = record_change!(
        &mut *tx,
        sync.origin,
        "product.sync",
        ENTITY,
        EVENT,
        "WITH given AS (
             SELECT * FROM unnest($12::uuid[], $13::text[], $14::text[], $15::uuid[], $16::text[], $17::text[],
                 $18::int[], $19::int[], $20::int[], $21::int[], $22::jsonb[], $23::text[], $24::boolean[],
                 $25::boolean[], $26::boolean[], $27::boolean[], $28::boolean[], $29::boolean[], $30::text[],
                 $31::text[], $32::text[], $33::text[], $34::text[], $35::text[])
             AS g (id, product_sku, internal_sku, product_group, name, description, weight, height, width, length,
                 reference_numbers, packaging_type, imei_check_required, work_around_sn_in, work_around_ean_sticker,
                 work_around_warranty_inf, work_around_lot, active, country_of_origin, hs_code, type, category,
                 changes, data)
         ), made AS (
             INSERT INTO product (id, organisation_id, product_sku, internal_sku, product_group, name, description,
                 weight, height, width, length, reference_numbers, packaging_type, imei_check_required,
                 work_around_sn_in, work_around_ean_sticker, work_around_warranty_inf, work_around_lot, active,
                 active_acceptance, country_of_origin, hs_code, type, category)
             SELECT id, $9, product_sku, internal_sku, product_group, name, description, weight, height, width,
                 length, ARRAY(SELECT jsonb_array_elements_text(reference_numbers)), packaging_type,
                 imei_check_required, work_around_sn_in, work_around_ean_sticker, work_around_warranty_inf,
                 work_around_lot, active, $11, country_of_origin, hs_code, type, category
             FROM given ORDER BY product_sku
             ON CONFLICT (organisation_id, product_sku) DO NOTHING
             RETURNING id, version, changed_at
         ), sold AS (
             INSERT INTO product_eshop (product_id, eshop_id) SELECT id, $10 FROM made
         ), changed AS (
             SELECT made.id AS entity, made.version, made.changed_at AS at, $9 AS organisation, ARRAY[$10] AS eshops, g.changes::jsonb AS changes,
                    g.data::jsonb AS data
             FROM made JOIN given g ON g.id = made.id
         )",
        sync.organisation,
        sync.eshop,
        sync.acceptance,
        &columns.ids,
        &columns.product_skus as &[&str],
        &columns.internal_skus as &[&str],
        &columns.product_groups as &[Option<Uuid>],
        &columns.names as &[&str],
        &columns.descriptions as &[Option<&str>],
        &columns.weights as &[Option<i32>],
        &columns.heights as &[Option<i32>],
        &columns.widths as &[Option<i32>],
        &columns.lengths as &[Option<i32>],
        &columns.reference_numbers,
        &columns.packaging_types as &[&str],
        &columns.imei_check_required,
        &columns.work_around_sn_in,
        &columns.work_around_ean_sticker,
        &columns.work_around_warranty_inf,
        &columns.work_around_lot,
        &columns.active,
        &columns.countries_of_origin as &[Option<&str>],
        &columns.hs_codes as &[Option<&str>],
        &columns.kinds as &[&str],
        &columns.categories as &[Option<&str>],
        &columns.changes,
        &columns.data,
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

//! The two statements that look up what orders refer to.

use serde::Deserialize;
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use super::{Draft, Placed};
use crate::expedition::body::NewItem;
use longshore_kernel::ids::{ProductId, StockId};

/// A part of a bundle.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Part {
    pub(super) product: ProductId,
    pub(super) sku: String,
    pub(super) quantity: i64,
    pub(super) stock: Option<Shelf>,
}

/// The stock of a product in the place of an order.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Shelf {
    pub(super) id: StockId,
    pub(super) quantity: i64,
    pub(super) held: i64,
    pub(super) missing: i64,
    pub(super) is_marked: bool,
}

/// What an order refers to, but for its products.
#[expect(clippy::struct_excessive_bools, reason = "each is a question of its own")]
#[derive(Debug)]
pub(super) struct Head {
    pub(super) organisation: Option<Uuid>,
    pub(super) is_eshop_active: bool,
    pub(super) waits_before: bool,
    pub(super) edits_before: bool,
    pub(super) ignores_address: bool,
    pub(super) warehouse: Option<Uuid>,
    pub(super) is_warehouse_served: bool,
    pub(super) wms: Option<Uuid>,
    pub(super) is_wms_linked: bool,
    pub(super) carrier: Option<Uuid>,
    pub(super) service: Option<Uuid>,
    pub(super) is_carrier_active: bool,
    pub(super) is_service_active: bool,
    pub(super) countries: Vec<String>,
    pub(super) number_taken_by: Option<Uuid>,
    pub(super) external_taken_by: Option<Uuid>,
}

pub(super) async fn heads(
    connection: &mut PgConnection,
    drafts: &[Draft<'_>],
) -> Result<Vec<Head>, sqlx::Error> {
    let stored = |id: Uuid| Some(id).filter(|id| !id.is_nil());
    let column =
        |of: &dyn Fn(&Draft<'_>) -> Option<Uuid>| -> Vec<Option<Uuid>> { drafts.iter().map(of).collect() };
    let ids: Vec<Uuid> = drafts.iter().map(|d| d.id.get()).collect();
    let eshops: Vec<Uuid> = drafts.iter().map(|d| d.eshop.get()).collect();
    let warehouses = column(&|d| d.given.fields.warehouse_id.or(stored(d.detail.warehouse_id)));
    let wms = column(&|d| d.given.fields.wms_id.or(stored(d.detail.wms_id)));
    // a code that is given replaces what is stored
    let carriers = column(&|d| d.detail.carrier_id.filter(|_| d.given.names_carrier_by_id()));
    let services = column(&|d| d.detail.carrier_service_id.filter(|_| d.given.names_service_by_id()));
    let carrier_codes: Vec<Option<i32>> = drafts.iter().map(|d| d.given.codes.carrier).collect();
    let service_codes: Vec<Option<i32>> = drafts.iter().map(|d| d.given.codes.service).collect();
    let numbers: Vec<&str> = drafts.iter().map(|d| d.detail.order_number.as_str()).collect();
    let externals: Vec<Option<&str>> = drafts.iter().map(|d| d.detail.external_id.as_deref()).collect();
    sqlx::query_as!(
        Head,
        r#"SELECT s.organisation_id AS "organisation?", coalesce(s.active, false) AS "is_eshop_active!",
                  coalesce(s.wait_before_processing, false) AS "waits_before!",
                  coalesce(s.edit_before_processing, false) AS "edits_before!",
                  coalesce(o.ignore_address_validation, false) AS "ignores_address!",
                  w.id AS "warehouse?",
                  EXISTS (SELECT FROM eshop_warehouse x WHERE x.eshop_id = s.id AND x.warehouse_id = w.id)
                      AS "is_warehouse_served!",
                  m.id AS "wms?",
                  EXISTS (SELECT FROM warehouse_wms x WHERE x.warehouse_id = w.id AND x.wms_id = m.id) AS "is_wms_linked!",
                  c.id AS "carrier?", v.id AS "service?",
                  coalesce(c.active, false) AND EXISTS (
                      SELECT FROM carrier_organisation x WHERE x.carrier_id = c.id AND x.organisation_id = s.organisation_id)
                      AS "is_carrier_active!",
                  coalesce(v.carrier_id = c.id, false) AS "is_service_active!",
                  coalesce(c.countries_of_operation, '{}') AS "countries!",
                  (SELECT d.id FROM expedition_detail d
                   WHERE d.eshop_id = g.eshop AND d.order_number = g.number AND d.id <> g.id) AS "number_taken_by?",
                  (SELECT d.id FROM expedition_detail d
                   WHERE d.eshop_id = g.eshop AND d.external_id = g.external AND d.id <> g.id) AS "external_taken_by?"
           FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::uuid[], $6::uuid[], $7::int[], $8::int[], $9::text[],
                       $10::text[]) WITH ORDINALITY
               AS g (id, eshop, warehouse, wms, carrier, service, carrier_code, service_code, number, external, n)
           LEFT JOIN eshop s ON s.id = ANY (ARRAY[g.eshop])
           LEFT JOIN organisation o ON o.id = ANY (ARRAY[s.organisation_id])
           LEFT JOIN warehouse w ON w.id = ANY (ARRAY[coalesce(g.warehouse, s.default_warehouse_id)])
               AND w.organisation_id = s.organisation_id
           LEFT JOIN wms m ON m.id = ANY (ARRAY[coalesce(g.wms, w.default_wms_id)]) AND m.organisation_id = s.organisation_id
           LEFT JOIN LATERAL (
               SELECT id, active, countries_of_operation FROM carrier WHERE id = g.carrier
               UNION ALL
               SELECT id, active, countries_of_operation FROM carrier WHERE code = g.carrier_code AND g.carrier IS NULL
           ) c ON true
           LEFT JOIN LATERAL (
               SELECT id, carrier_id FROM carrier_service WHERE id = g.service
               UNION ALL
               SELECT id, carrier_id FROM carrier_service
               WHERE carrier_id = c.id AND code = g.service_code AND g.service IS NULL
           ) v ON true
           ORDER BY g.n"#,
        &ids,
        &eshops,
        &warehouses as &[Option<Uuid>],
        &wms as &[Option<Uuid>],
        &carriers as &[Option<Uuid>],
        &services as &[Option<Uuid>],
        &carrier_codes as &[Option<i32>],
        &service_codes as &[Option<i32>],
        &numbers as &[&str],
        &externals as &[Option<&str>],
    )
    .fetch_all(connection)
    .await
}

/// A product that an item names.
pub(super) struct Found {
    pub(super) product: Option<Uuid>,
    pub(super) product_sku: Option<String>,
    pub(super) kind: Option<String>,
    pub(super) is_active: bool,
    /// To the e-shop of the order.
    pub(super) is_attached: bool,
    pub(super) stock: Option<Json<Shelf>>,
    pub(super) parts: Option<Json<Vec<Part>>>,
}

/// The products of all items, in their order.
pub(super) async fn products(
    connection: &mut PgConnection,
    placed: &[Placed<'_>],
) -> Result<Vec<Found>, sqlx::Error> {
    let items: Vec<(&Placed<'_>, &NewItem)> =
        placed.iter().flat_map(|p| p.draft.given.items.iter().flatten().map(move |item| (p, item))).collect();
    if items.is_empty() {
        return Ok(Vec::new());
    }
    let products: Vec<Option<Uuid>> = items.iter().map(|(_, item)| item.product).collect();
    let skus: Vec<Option<&str>> = items
        .iter()
        .map(|(_, item)| item.product_sku.as_deref().filter(|_| item.product.is_none()))
        .collect();
    let organisations: Vec<Option<Uuid>> = items.iter().map(|(p, _)| p.head.organisation).collect();
    let eshops: Vec<Uuid> = items.iter().map(|(p, _)| p.draft.eshop.get()).collect();
    let warehouses: Vec<Uuid> = items.iter().map(|(p, _)| p.draft.detail.warehouse_id).collect();
    let wms: Vec<Uuid> = items.iter().map(|(p, _)| p.draft.detail.wms_id).collect();
    sqlx::query_as!(
        Found,
        r#"SELECT p.id AS "product?", p.product_sku AS "product_sku?", p.type AS "kind?",
                  coalesce(p.active, false) AS "is_active!",
                  coalesce((SELECT true FROM product_eshop x WHERE x.product_id = p.id AND x.eshop_id = g.eshop), false)
                      AS "is_attached!",
                  (SELECT jsonb_build_object('id', k.id, 'quantity', k.quantity, 'held', k.held, 'missing', k.missing,
                                             'is_marked', k.marked_at IS NOT NULL)
                   FROM product_stock k
                   WHERE k.product_id = p.id AND k.warehouse_id = g.warehouse AND k.wms_id = g.wms)
                      AS "stock?: Json<Shelf>",
                  CASE WHEN p.type = 'bundle' THEN (
                      SELECT jsonb_agg(jsonb_build_object(
                                 'product', c.product_id, 'sku', q.product_sku, 'quantity', c.quantity,
                                 'stock', (SELECT jsonb_build_object('id', k.id, 'quantity', k.quantity, 'held', k.held,
                                               'missing', k.missing, 'is_marked', k.marked_at IS NOT NULL)
                                           FROM product_stock k
                                           WHERE k.product_id = c.product_id AND k.warehouse_id = g.warehouse
                                             AND k.wms_id = g.wms)) ORDER BY c.position)
                      FROM product_child c JOIN product q ON q.id = c.product_id WHERE c.bundle_id = p.id)
                  END AS "parts?: Json<Vec<Part>>"
           FROM unnest($1::uuid[], $2::text[], $3::uuid[], $4::uuid[], $5::uuid[], $6::uuid[]) WITH ORDINALITY
               AS g (product, sku, organisation, eshop, warehouse, wms, n)
           LEFT JOIN LATERAL (
               (SELECT id, product_sku, type, active FROM product
                WHERE id = g.product AND organisation_id IS NOT DISTINCT FROM g.organisation)
               UNION ALL
               -- by its key, as the first in the order of SKUs, independent of the statistics
               (SELECT id, product_sku, type, active FROM product
                WHERE organisation_id = g.organisation AND product_sku >= g.sku AND product_sku <= g.sku
                ORDER BY product_sku LIMIT 1)
           ) p ON true
           ORDER BY g.n"#,
        &products as &[Option<Uuid>],
        &skus as &[Option<&str>],
        &organisations as &[Option<Uuid>],
        &eshops,
        &warehouses,
        &wms,
    )
    .fetch_all(connection)
    .await
}

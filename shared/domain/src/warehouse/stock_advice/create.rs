//! Announcing goods: looked up, judged, then written with the stocks that expect them.

use std::collections::HashSet;

use serde_json::Value;
use uuid::Uuid;

use super::record::shown;
use super::rules::{NewAdvice, body_to_create};
use super::{ATTEMPTS, ENTITY, EVENT, location};
use crate::account::belonging::no_such_organisation;
use crate::warehouse::stock::movement::{self, Kind, Move, Place};
use longshore_kernel::answer::Answer;
use longshore_kernel::change::{Change, Recorded};
use longshore_kernel::context::{Context, Origin};
use longshore_kernel::ids::{AdviceItemId, StockAdviceId};
use longshore_kernel::input::Reader;
use longshore_kernel::problem::{CONFLICT, Problem, Violation, with_found};
use longshore_kernel::quota;
use longshore_kernel::record_change;
use longshore_kernel::services::Services;
use longshore_kernel::sqlstate::violated_constraint;

/// Creates an advice (`POST /api/stock-advice`).
pub async fn create(services: &Services, context: &Context, body: Value) -> Result<Answer, Problem> {
    let (new, refused) = Reader::draft(body, body_to_create());
    for _ in 0..ATTEMPTS {
        judge(services, context, &new, &refused).await?;
        match attempt(services, context, &new).await {
            Ok(Some(answer)) => return Ok(answer),
            // a record that it refers to has changed: the next look-up finds which
            Ok(None) => {}
            Err(problem) if problem.is_contention() && !problem.is_locked() => {}
            Err(problem) => return Err(problem),
        }
    }
    Err(Problem::new(&CONFLICT, "a record that the stock advice refers to is being changed; try again"))
}

async fn attempt(services: &Services, context: &Context, new: &NewAdvice) -> Result<Option<Answer>, Problem> {
    let id = StockAdviceId::new();
    let mut change = Change::begin(services).await?;
    change.must_have_room(new.organisation, quota::Kind::StockAdvice).await?;
    let recorded = match insert(&mut change, &context.origin, id, new).await {
        Ok(recorded) => recorded,
        Err(error) if violated_constraint(&error) == Some("internal_id_is_unique_in_the_organisation") => {
            return Ok(None);
        }
        Err(error) => return Err(error.into()),
    };
    if change.note(recorded) == 0 {
        return Ok(None);
    }
    let announced = |item: &super::rules::NewItem| Move {
        product: item.product,
        kind: Kind::Announced,
        quantity: 0,
        incoming: item.quantity,
    };
    let moves: Vec<_> = new.items.iter().map(announced).collect();
    let place = Place { organisation: new.organisation, warehouse: new.warehouse, wms: new.wms };
    movement::apply(&mut change, &context.origin, "stock_advice.create", id, place, &moves, None).await?;
    let advice = shown(change.connection(), context.scope(), id).await?;
    let answer = Answer::created(location(id), advice.version, advice.json);
    change.answer(context.claim, answer).await.map(Some)
}

/// Everything that is wrong with the advice: what the rules refused, and what it refers to.
async fn judge(
    services: &Services,
    context: &Context,
    new: &NewAdvice,
    refused: &[Violation],
) -> Result<(), Problem> {
    let products: Vec<Uuid> = new.items.iter().map(|item| item.product).collect();
    let found = sqlx::query!(
        r#"SELECT EXISTS (SELECT FROM organisation WHERE id = $1) AS "organisation!",
                  EXISTS (SELECT FROM warehouse WHERE id = $2 AND organisation_id = $1) AS "warehouse!",
                  EXISTS (SELECT FROM wms WHERE id = $3 AND organisation_id = $1) AS "wms!",
                  EXISTS (SELECT FROM warehouse_wms WHERE warehouse_id = $2 AND wms_id = $3) AS "linked!",
                  EXISTS (SELECT FROM supplier WHERE id = $4 AND organisation_id = $1) AS "supplier!",
                  (SELECT id FROM stock_advice WHERE organisation_id = $1 AND internal_id = $5) AS other,
                  ARRAY(SELECT id FROM product WHERE id = ANY($6) AND organisation_id IS NOT DISTINCT FROM $1)
                      AS "products!",
                  ARRAY(SELECT id FROM product
                        WHERE id = ANY($6) AND organisation_id IS NOT DISTINCT FROM $1 AND type = 'physical')
                      AS "physical!""#,
        new.organisation.get(),
        new.warehouse,
        new.wms,
        new.supplier,
        new.internal_id,
        &products,
    )
    .fetch_one(&services.db.main)
    .await?;
    if !found.organisation || !context.scope().has_organisation(new.organisation) {
        return Err(Problem::invalid(with_found(refused.to_vec(), vec![no_such_organisation()])));
    }
    let mut violations = Vec::new();
    let mut refuse = |path: String, code, message: &str| {
        violations.push(Violation::new(path, code, message));
    };
    if !found.warehouse {
        refuse("warehouse".to_owned(), "unknown_reference", "must be a warehouse of the organisation");
    }
    if !found.wms {
        refuse("wms".to_owned(), "unknown_reference", "must be a wms of the organisation");
    } else if found.warehouse && !found.linked {
        refuse("wms".to_owned(), "not_linked", "must be linked to the warehouse");
    }
    if !found.supplier {
        refuse("supplier".to_owned(), "unknown_reference", "must be a supplier of the organisation");
    }
    let known: HashSet<Uuid> = found.products.into_iter().collect();
    let physical: HashSet<Uuid> = found.physical.into_iter().collect();
    for (index, product) in products.iter().enumerate().filter(|(_, product)| !physical.contains(*product)) {
        let path = format!("items[{index}].product");
        if known.contains(product) {
            refuse(path, "not_stocked", "must be a physical product: a bundle or virtual one has no stock");
        } else {
            refuse(path, "unknown_reference", "must be a product of the organisation");
        }
    }
    if found.other.is_some() {
        let message = "belongs to another stock advice of the organisation";
        violations.push(Violation::taken("internalId", message, found.other));
    }
    Problem::refuse(with_found(refused.to_vec(), violations))
}

/// Inserts the advice with its items; nothing if a product is no longer physical, or the wms no longer linked. Both are
/// kept as they are until the transaction ends.
async fn insert(
    change: &mut Change<'_>,
    origin: &Origin,
    id: StockAdviceId,
    new: &NewAdvice,
) -> Result<Recorded, sqlx::Error> {
    let items: Vec<AdviceItemId> = new.items.iter().map(|_| AdviceItemId::new()).collect();
    let products: Vec<Uuid> = new.items.iter().map(|item| item.product).collect();
    let quantities: Vec<i32> = new.items.iter().map(|item| item.quantity).collect();
    let [ref1, ref2, ref3] = &new.refs;
    record_change!(
        change.connection(),
        origin,
        "stock_advice.create",
        ENTITY,
        Some(EVENT),
        "WITH link AS MATERIALIZED (
             SELECT wms_id FROM warehouse_wms WHERE warehouse_id = $11 AND wms_id = $12 FOR SHARE
         ), announced AS MATERIALIZED (
             SELECT id FROM product
             WHERE id = ANY($23) AND organisation_id IS NOT DISTINCT FROM $10 AND type = 'physical' ORDER BY id FOR SHARE
         ), made AS (
             INSERT INTO stock_advice (id, organisation_id, warehouse_id, wms_id, supplier_id, packaging_unit,
                 count_of_units, note, internal_id, expected_at, ref1, ref2, ref3, status, count_of_items, count_of_sku,
                 sum_of_quantity)
             SELECT $9, $10, $11, wms_id, $13, $14, $15, $16, $17, $18, $19, $20, $21, 'new', cardinality($23::uuid[]),
                    (SELECT count(*) FROM announced), (SELECT sum(q) FROM unnest($24::int[]) AS q)
             FROM link
             WHERE (SELECT count(*) FROM announced) = (SELECT count(DISTINCT p) FROM unnest($23::uuid[]) AS p)
             RETURNING *
         ), listed AS (
             INSERT INTO stock_advice_item (id, stock_advice_id, position, product_id, quantity)
             SELECT i.id, made.id, i.position, i.product, i.quantity
             FROM made, unnest($22::uuid[], $23::uuid[], $24::int[]) WITH ORDINALITY
                 AS i (id, product, quantity, position)
         ), changed AS (
             SELECT id AS entity, version, changed_at AS at, organisation_id AS organisation,
                    ARRAY(SELECT eshop_id FROM eshop_warehouse WHERE warehouse_id = made.warehouse_id
                          UNION SELECT eshop_id FROM product_eshop WHERE product_id = ANY($23)) AS eshops,
                    ARRAY(SELECT eshop_id FROM product_eshop WHERE product_id = ANY($23)) AS seen_by,
                    (SELECT jsonb_object_agg(field, jsonb_build_array(NULL, becomes)) FROM (VALUES
                        ('warehouse', to_jsonb(warehouse_id)), ('wms', to_jsonb(wms_id)),
                        ('supplier', to_jsonb(supplier_id)), ('packagingUnit', to_jsonb(packaging_unit)),
                        ('countOfUnits', to_jsonb(count_of_units)), ('note', to_jsonb(note)),
                        ('internalId', to_jsonb(internal_id)), ('expectedAt', to_jsonb(expected_at)),
                        ('ref1', to_jsonb(ref1)), ('ref2', to_jsonb(ref2)), ('ref3', to_jsonb(ref3)),
                        ('status', to_jsonb(status)), ('sumOfQuantity', to_jsonb(sum_of_quantity)),
                        ('items', (SELECT jsonb_agg(jsonb_build_object('id', i.id, 'product', i.product,
                                       'quantity', i.quantity) ORDER BY i.position)
                                   FROM unnest($22::uuid[], $23::uuid[], $24::int[]) WITH ORDINALITY
                                       AS i (id, product, quantity, position)))
                     ) AS f (field, becomes) WHERE becomes IS NOT NULL) AS changes,
                    event_data(id,
                        jsonb_build_object('organisation', organisation_id, 'warehouse', warehouse_id, 'wms', wms_id,
                            'supplier', supplier_id, 'status', status, 'orderNumber', internal_id),
                        '{status}', jsonb_build_object('status', status)) AS data
             FROM made
         )",
        id.get(),
        new.organisation.get(),
        new.warehouse,
        new.wms,
        new.supplier,
        new.packaging_unit.as_deref() as Option<&str>,
        new.count_of_units as Option<i32>,
        new.note.as_deref() as Option<&str>,
        new.internal_id,
        new.expected_at,
        ref1.as_deref() as Option<&str>,
        ref2.as_deref() as Option<&str>,
        ref3.as_deref() as Option<&str>,
        &items as &[AdviceItemId],
        &products,
        &quantities,
    )
    .await
}

//! Changing what a body says of an order, and deleting it (`docs/reference/orders.md#changing`).

use serde_json::{Map, Value, json};
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use super::body::{Body, Detail, DetailFields};
use super::command::location;
use super::create::{detail_row, is_taken};
use super::decision::wrong_status;
use super::order::{self, Item, Order};
use super::references::{Draft, Resolved, resolve};
use super::write::ENTITY;
use crate::list;
use crate::list::fields::expedition::{EXPEDITION, ExpeditionStatus as Status};
use crate::record::{FieldChange, changes_json};
use longshore_kernel::answer::Answer;
use longshore_kernel::change::{Change, Recorded};
use longshore_kernel::context::{Context, Origin};
use longshore_kernel::echo::Echo;
use longshore_kernel::ids::ExpeditionId;
use longshore_kernel::input::{self, Reader};
use longshore_kernel::problem::{CONFLICT, Problem, Violation};
use longshore_kernel::record_change;
use longshore_kernel::services::Services;
use longshore_kernel::sqlstate::is_contention;
use longshore_kernel::tombstone;

/// How often a change is tried that is refused because of a concurrent one.
const ATTEMPTS: usize = 3;

/// An order, as it is stored.
struct Stored {
    order: Order,
    detail: Detail,
    user: Option<Uuid>,
    digest: Option<Vec<u8>>,
    removed_virtual_products: Value,
}

/// What a body changes: what it gives, the read-only members it gives, and the e-shop that it says.
struct Given {
    body: Body,
    echo: Echo,
    eshop: Option<Uuid>,
}

/// Changes the given fields of an order that is on hold or incorrect: 200 with the record.
pub async fn update(
    services: &Services,
    context: &Context,
    id: Uuid,
    body: Value,
    check: impl Fn(i64) -> Result<(), Problem>,
) -> Result<Answer, Problem> {
    let (body, (echo, eshop)) = Body::read(body, false, |object, _| {
        let eshop = object.optional("eshop", input::id());
        (Echo::of(object, false, |name| EXPEDITION.shows(name)), eshop)
    });
    change(services, context, id, &Given { body, echo, eshop }, false, check).await
}

/// Changes references of an order in any status: 200 with the record.
pub async fn patch(
    services: &Services,
    context: &Context,
    id: Uuid,
    body: Value,
    check: impl Fn(i64) -> Result<(), Problem>,
) -> Result<Answer, Problem> {
    let mut reader = Reader::default();
    let mut fields = DetailFields::default();
    if let Some(mut object) = reader.object(body) {
        let rule = || input::text(0..=255);
        fields.ref1 = object.nullable("ref1", rule());
        fields.ref2 = object.nullable("ref2", rule());
        fields.ref3 = object.nullable("ref3", rule());
        fields.external_id = object.nullable("externalId", input::text(1..=255));
        object.finish();
    }
    let body = Body { fields, violations: reader.into_violations(), ..Body::default() };
    change(services, context, id, &Given { body, echo: Echo::default(), eshop: None }, true, check).await
}

async fn change(
    services: &Services,
    context: &Context,
    id: Uuid,
    given: &Given,
    any_status: bool,
    check: impl Fn(i64) -> Result<(), Problem>,
) -> Result<Answer, Problem> {
    for _ in 0..ATTEMPTS {
        let mut change = Change::begin(services).await?;
        match attempt(&mut change, context, id.into(), given, any_status, &check).await {
            Ok(()) => {}
            Err(Failed::Problem(problem)) => return Err(problem),
            // another order took the number: the next look-up says which
            Err(Failed::Database(error)) if is_contention(&error) || is_taken(&error) => continue,
            Err(Failed::Database(error)) => return Err(error.into()),
        }
        let record = list::find(change.connection(), &EXPEDITION, context.scope(), id).await?;
        let record = record.ok_or_else(|| Problem::not_found(ENTITY))?;
        let answer = Answer::updated(location(id.into()), record.version, record.json);
        return change.answer(context.claim, answer).await;
    }
    Err(Problem::new(&CONFLICT, "a record that the order refers to is being changed; try again"))
}

enum Failed {
    Problem(Problem),
    Database(sqlx::Error),
}

impl From<Problem> for Failed {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

impl From<sqlx::Error> for Failed {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

async fn attempt(
    change: &mut Change<'_>,
    context: &Context,
    id: ExpeditionId,
    given: &Given,
    any_status: bool,
    check: impl Fn(i64) -> Result<(), Problem>,
) -> Result<(), Failed> {
    let Some(stored) = lock(change.connection(), context, id).await? else {
        return Err(tombstone::missing(change.connection(), context.scope(), ENTITY, id.get()).await.into());
    };
    check(stored.order.version)?;
    let status = stored.order.state.status;
    if !any_status && !status.is_editable() {
        return Err(wrong_status(status, "roll it back first").into());
    }
    let mut detail = stored.detail.clone();
    detail.take(given.body.fields.clone());
    let mut violations = moved(given, &stored);
    if !given.echo.is_empty() {
        let record = list::find(change.connection(), &EXPEDITION, context.scope(), id.get()).await?;
        violations.extend(given.echo.judge(&record.map(|record| record.json).unwrap_or_default())?);
    }
    let body =
        Body { violations: [given.body.violations.clone(), violations].concat(), ..given.body.clone() };
    let eshop = stored.order.eshop.get();
    let draft = Draft { id, eshop, scope: context.scope(), detail, given: &body, is_new: false };
    let resolved = resolve(change.connection(), vec![draft]).await?.into_iter().next();
    let resolved = match resolved {
        Some(Ok(resolved)) => resolved,
        Some(Err(violations)) => return Err(Problem::invalid(violations).into()),
        None => return Err(Problem::internal("a draft was not resolved").into()),
    };
    let changes = differences(&stored, &resolved);
    if changes.is_empty() {
        return Ok(());
    }
    let recorded = write(change.connection(), &context.origin, &stored, &resolved, &changes).await?;
    change.note(recorded);
    Ok(())
}

/// What never changes.
fn moved(given: &Given, stored: &Stored) -> Vec<Violation> {
    let other =
        |is_other: bool, field| is_other.then(|| Violation::new(field, "not_allowed", "cannot be changed"));
    let number = given.body.fields.order_number.as_ref();
    other(given.eshop.is_some_and(|id| id != stored.order.eshop.get()), "eshop")
        .into_iter()
        .chain(other(number.is_some_and(|number| *number != stored.detail.order_number), "orderNumber"))
        .collect()
}

/// Fields that say something of a person.
fn is_personal(field: &str) -> bool {
    let is_address = field.starts_with("billing") || field.starts_with("delivery");
    let is_kept = field.ends_with("Country")
        || matches!(field, "deliveryMethod" | "deliveryCost" | "deliveryCostCurrency");
    (is_address && !is_kept)
        || matches!(
            field,
            "note"
                | "carrierNote"
                | "carrierPickupPlaceCode"
                | "externalCarrierPickupPlaceCode"
                | "carrierOptions"
        )
}

/// What changes, for the audit: what is personal is masked.
fn differences(stored: &Stored, resolved: &Resolved) -> Vec<FieldChange> {
    let mask = |value: Value| if value.is_null() { value } else { json!("***") };
    let old: Map<_, _> = stored.detail.shown();
    let new: Map<_, _> = resolved.detail.shown();
    let mut changes: Vec<FieldChange> = Detail::NAMES
        .iter()
        .filter(|name| old.get(**name) != new.get(**name))
        .map(|name| {
            let of = |record: &Map<String, Value>| record.get(*name).cloned().unwrap_or_default();
            let (old, new) = (of(&old), of(&new));
            let is_personal = is_personal(name);
            FieldChange {
                field: name,
                old: if is_personal { mask(old) } else { old },
                new: if is_personal { mask(new) } else { new },
            }
        })
        .collect();
    if !resolved.items.is_empty() {
        let items = |order: &Order| -> Value {
            let show = |item: &Item| json!({"product": item.product, "quantity": item.quantity});
            order.items.iter().map(show).collect()
        };
        changes.push(FieldChange { field: "items", old: items(&stored.order), new: items(&resolved.order) });
    }
    changes
}

async fn lock(
    connection: &mut PgConnection,
    context: &Context,
    id: ExpeditionId,
) -> Result<Option<Stored>, Failed> {
    let Some(order) = order::lock(connection, context.scope(), &[id]).await?.pop() else { return Ok(None) };
    let row = sqlx::query!(
        r#"SELECT to_jsonb(d) || jsonb_build_object('warehouse_id', e.warehouse_id, 'wms_id', e.wms_id, 'priority', e.priority,
                      'wait_before_processing', e.wait_before_processing)
                      AS "columns!: Json<Map<String, Value>>",
                  d.user_id, d.digest, d.removed_virtual_products
           FROM expedition e JOIN expedition_detail d ON d.id = e.id WHERE e.id = $1"#,
        id.get(),
    )
    .fetch_one(connection)
    .await?;
    Ok(Some(Stored {
        detail: Detail::of_columns(id.get(), order.version, row.columns.0)?,
        order,
        user: row.user_id,
        digest: row.digest,
        removed_virtual_products: row.removed_virtual_products,
    }))
}

/// Writes a changed order. Its row of details is written anew: it has dozens of columns, and no other row refers to it.
async fn write(
    connection: &mut PgConnection,
    origin: &Origin,
    stored: &Stored,
    resolved: &Resolved,
    changes: &[FieldChange],
) -> Result<Recorded, sqlx::Error> {
    let gives_items = !resolved.items.is_empty();
    let id = stored.order.id.get();
    sqlx::query!("DELETE FROM expedition_detail WHERE id = $1", id).execute(&mut *connection).await?;
    if gives_items {
        sqlx::query!("DELETE FROM expedition_item WHERE expedition_id = $1", id)
            .execute(&mut *connection)
            .await?;
        sqlx::query!("DELETE FROM expedition_bundle WHERE expedition_id = $1", id)
            .execute(&mut *connection)
            .await?;
    }
    let removed = if gives_items {
        resolved.removed_virtual_products.clone()
    } else {
        stored.removed_virtual_products.as_array().cloned().unwrap_or_default()
    };
    let digest = stored.digest.as_ref().and_then(|digest| <[u8; 32]>::try_from(digest.as_slice()).ok());
    let detail = detail_row(&resolved.order, &resolved.detail, &removed, stored.user, digest);
    let place = resolved.order.place;
    record_change!(
        connection,
        origin,
        "expedition.update",
        ENTITY,
        None,
        "WITH detail AS (
             INSERT INTO expedition_detail
             SELECT d.* FROM jsonb_populate_record(NULL::expedition_detail,
                                                   $10::jsonb || jsonb_build_object('modified_at', now())) AS d
         ), bundles AS (
             INSERT INTO expedition_bundle SELECT * FROM jsonb_populate_recordset(NULL::expedition_bundle, $11::jsonb)
         ), items AS (
             INSERT INTO expedition_item
             SELECT i.* FROM jsonb_array_elements($12::jsonb) AS r (value)
             CROSS JOIN LATERAL jsonb_populate_record(
                 NULL::expedition_item, r.value || jsonb_build_object('created_at', now(), 'changed_at', now())) AS i
         ), written AS (
             UPDATE expedition
             SET warehouse_id = $13, wms_id = $14, priority = $15, wait_before_processing = $16,
                 count_of_items = CASE WHEN $17 THEN $18 ELSE count_of_items END,
                 count_of_sku = CASE WHEN $17 THEN $19 ELSE count_of_sku END,
                 sum_of_quantity = CASE WHEN $17 THEN $20 ELSE sum_of_quantity END, version = version + 1
             WHERE id = $9
             RETURNING id, version, changed_at, organisation_id
         ), changed AS (
             SELECT id AS entity, version, changed_at AS at, organisation_id AS organisation, '{}'::uuid[] AS eshops,
                    $21::jsonb AS changes, '{}'::jsonb AS data
             FROM written
         )",
        id,
        detail,
        Value::Array(resolved.bundles.clone()),
        Value::Array(resolved.items.clone()),
        place.warehouse.get(),
        place.wms.get(),
        resolved.detail.priority.unwrap_or(0),
        resolved.detail.wait_before_processing as Option<bool>,
        gives_items,
        i32::try_from(resolved.items.len()).unwrap_or(i32::MAX),
        i32::try_from(resolved.count_of_sku()).unwrap_or(i32::MAX),
        resolved.sum_of_quantity(),
        changes_json(changes),
    )
    .await
}

/// Deletes an order that is on hold, incorrect or canceled: 204. Its number is free again.
pub async fn delete(
    services: &Services,
    context: &Context,
    id: Uuid,
    check: impl Fn(i64) -> Result<(), Problem>,
) -> Result<Answer, Problem> {
    let mut change = Change::begin(services).await?;
    let scope = context.scope();
    let Some(order) = order::lock(change.connection(), scope, &[id.into()]).await?.pop() else {
        return Err(tombstone::missing(change.connection(), scope, ENTITY, id).await);
    };
    check(order.version)?;
    let status = order.state.status;
    if !status.is_editable() && status != Status::Canceled {
        return Err(wrong_status(status, "roll it back or cancel it first"));
    }
    let recorded = record_change!(
        change.connection(),
        context.origin,
        "expedition.delete",
        ENTITY,
        None,
        "WITH made AS (
             DELETE FROM expedition WHERE id = $9 RETURNING id, organisation_id, version, status
         ), buried AS (
             INSERT INTO tombstone (entity_type, entity_id, organisation_id, version, deleted_by)
             SELECT $7, id, organisation_id, version, $3 FROM made
         ), changed AS (
             SELECT id AS entity, organisation_id AS organisation, '{}'::uuid[] AS eshops,
                    jsonb_build_object('orderNumber', jsonb_build_array($10::text, NULL)) AS changes, '{}'::jsonb AS data
             FROM made
         )",
        id,
        order.order_number,
    )
    .await?;
    change.note(recorded);
    change.answer(context.claim, Answer::done()).await
}

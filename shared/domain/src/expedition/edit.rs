//! Changing what a body says of an order, and deleting it (`docs/reference/orders.md#changing`).

use std::borrow::Cow;

use serde_json::{Map, Value, json};
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use super::body::{Body, Detail, DetailFields, is_personal};
use super::command::location;
use super::create::{detail_row, is_taken};
use super::decision::wrong_status;
use super::invoice;
use super::order::{self, Item, Order};
use super::references::{Draft, Resolved, resolve};
use super::write::{ENTITY, change_event};
use crate::list;
use crate::list::fields::event::EXPEDITION_CHANGE;
use crate::list::fields::expedition::{EXPEDITION, ExpeditionStatus as Status};
use crate::record::{FieldChange, changes_json};
use longshore_kernel::access::Scope;
use longshore_kernel::answer::Answer;
use longshore_kernel::change::{Change, RecordedRows};
use longshore_kernel::context::{Context, Origin};
use longshore_kernel::echo::Echo;
use longshore_kernel::ids::{EshopId, ExpeditionId};
use longshore_kernel::input::{self, Given, Object, Reader, Rule, Schema, object};
use longshore_kernel::problem::{CONFLICT, Problem, Violation};
use longshore_kernel::queue::Hint;
use longshore_kernel::services::Services;
use longshore_kernel::sqlstate::is_contention;
use longshore_kernel::tombstone;
use longshore_kernel::{record_change, record_each};

/// How often a change is tried that is refused because of a concurrent one.
const ATTEMPTS: usize = 3;

/// An order, as it is stored.
pub(super) struct Stored {
    pub(super) order: Order,
    pub(super) detail: Detail,
    user: Option<Uuid>,
    pub(super) digest: Option<Vec<u8>>,
    removed_virtual_products: Value,
    bundles: Value,
    /// Its items, as far as a body gives them.
    items: Value,
}

/// Columns of an item that a body does not give.
const OF_THE_SERVICE: &[&str] = &[
    "id",
    "expedition_id",
    "bundle_position",
    "expedited",
    "assigned_lot",
    "serial_numbers",
    "created_at",
    "changed_at",
];

impl Stored {
    /// What of a body is not so already. A record that was read and is sent back changes nothing, even where it refers to
    /// what could no longer be given.
    pub(super) fn news<'b>(&self, body: &'b Body) -> Cow<'b, Body> {
        let mut body = Cow::Borrowed(body);
        let items = body.items.iter().flatten().enumerate().map(|(position, item)| {
            let is_named_so = |sku: &String| {
                self.order.items.get(position).is_some_and(|stored| stored.product_sku == *sku)
            };
            item.row(position).filter(|_| item.product_sku.as_ref().is_none_or(is_named_so))
        });
        let items: Option<Vec<_>> = items.collect();
        if items.is_some_and(|items| Value::Array(items) == self.items) {
            body.to_mut().items = None;
        }
        let fields = &body.fields;
        let is_stored = [
            fields.warehouse_id.is_some_and(|id| id == self.detail.warehouse_id),
            fields.wms_id.is_some_and(|id| id == self.detail.wms_id),
            fields.carrier_id.is_given() && fields.carrier_id.clone().value() == self.detail.carrier_id,
            fields.carrier_service_id.is_given()
                && fields.carrier_service_id.clone().value() == self.detail.carrier_service_id,
        ];
        if is_stored.contains(&true) {
            let [warehouse, wms, carrier, service] = is_stored;
            let fields = &mut body.to_mut().fields;
            fields.warehouse_id = fields.warehouse_id.filter(|_| !warehouse);
            fields.wms_id = fields.wms_id.filter(|_| !wms);
            if carrier {
                fields.carrier_id = Given::Absent;
            }
            if service {
                fields.carrier_service_id = Given::Absent;
            }
        }
        body
    }

    /// Takes items back that come to those that it has, with the same bundles and virtual products.
    pub(super) fn keep_items(&self, resolved: &mut Resolved) {
        let is_same = |given: &[Value], stored: &Value| {
            let stored = stored.as_array().map(Vec::as_slice).unwrap_or_default();
            given.len() == stored.len()
                && given.iter().zip(stored).all(|(given, stored)| said(given) == said(stored))
        };
        if is_same(&resolved.items, &self.items)
            && is_same(&resolved.bundles, &self.bundles)
            && is_same(&resolved.removed_virtual_products, &self.removed_virtual_products)
        {
            resolved.items.clear();
            resolved.bundles.clear();
        }
    }
}

/// What a row says of an item, as far as a body gives it: a column that is null says nothing.
fn said(row: &Value) -> Vec<(&String, &Value)> {
    let is_said =
        |(column, value): &(&String, &Value)| !value.is_null() && !OF_THE_SERVICE.contains(&column.as_str());
    row.as_object().into_iter().flatten().filter(is_said).collect()
}

/// What a body changes: what it gives, the read-only members it gives, and the e-shop that it says.
struct Asked {
    body: Body,
    echo: Echo,
    eshop: Option<EshopId>,
}

/// The body of an update.
#[must_use]
pub fn schema() -> Schema {
    Object::schema(|object| Body::members(object, false, |object, _| members(object)))
}

/// Reads the body of an update.
#[must_use]
pub fn read(body: Value) -> Body {
    Body::read(body, false, |object, _| members(object)).0
}

fn members(object: &mut Object<'_>) -> (Echo, Option<EshopId>) {
    let eshop = object.optional("eshop", input::id()).map(EshopId::from);
    (Echo::of(object, false, |name| EXPEDITION.shows(name)), eshop)
}

/// The body of a `PATCH`.
pub fn patch_body() -> impl Rule<Out = DetailFields> {
    object(|object| {
        let reference = || input::text(0..=255);
        Some(DetailFields {
            ref1: object.nullable("ref1", reference()),
            ref2: object.nullable("ref2", reference()),
            ref3: object.nullable("ref3", reference()),
            external_id: object.nullable("externalId", input::text(1..=255)),
            ..DetailFields::default()
        })
    })
}

/// Changes the given fields of an order that is on hold or incorrect: 200 with the record.
pub async fn update(
    services: &Services,
    context: &Context,
    id: ExpeditionId,
    body: Value,
    check: impl Fn(i64) -> Result<(), Problem>,
) -> Result<Answer, Problem> {
    let (body, (echo, eshop)) = Body::read(body, false, |object, _| members(object));
    change(services, context, id, &Asked { body, echo, eshop }, false, check).await
}

/// Changes references of an order in any status: 200 with the record.
pub async fn patch(
    services: &Services,
    context: &Context,
    id: ExpeditionId,
    body: Value,
    check: impl Fn(i64) -> Result<(), Problem>,
) -> Result<Answer, Problem> {
    let body = Body { fields: Reader::read(body, patch_body())?, ..Body::default() };
    change(services, context, id, &Asked { body, echo: Echo::default(), eshop: None }, true, check).await
}

async fn change(
    services: &Services,
    context: &Context,
    id: ExpeditionId,
    given: &Asked,
    any_status: bool,
    check: impl Fn(i64) -> Result<(), Problem>,
) -> Result<Answer, Problem> {
    for _ in 0..ATTEMPTS {
        let mut change = Change::begin(services).await?;
        match attempt(&mut change, context, id, given, any_status, &check).await {
            Ok(()) => {}
            Err(Failed::Problem(problem)) => return Err(problem),
            // another order took the number: the next look-up says which
            Err(Failed::Database(error)) if is_contention(&error) || is_taken(&error) => continue,
            Err(Failed::Database(error)) => return Err(error.into()),
        }
        let record = list::find(change.connection(), &EXPEDITION, context.scope(), id.get()).await?;
        let record = record.ok_or_else(|| Problem::not_found(ENTITY))?;
        let answer = Answer::updated(location(id), record.version, record.json);
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
    given: &Asked,
    any_status: bool,
    check: impl Fn(i64) -> Result<(), Problem>,
) -> Result<(), Failed> {
    let Some(stored) = lock(change.connection(), context.scope(), &[id]).await?.pop() else {
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
    // a carrier that is named is the caller's own, unless a record is sent back that says that it was chosen
    let is_own = matches!(given.body.fields.carrier_id, Given::Value(_)) && !given.echo.has("carrierChoice");
    let choice = stored.order.shipper.choice.filter(|_| !is_own);
    let mut body = stored.news(&given.body);
    if !violations.is_empty() {
        body.to_mut().violations.extend(violations);
    }
    let eshop = stored.order.eshop;
    let draft = Draft { id, eshop, scope: context.scope(), detail, given: body, choice, is_new: false };
    let resolved = resolve(change.connection(), vec![draft]).await?.into_iter().next();
    let resolved = match resolved {
        Some(Ok(mut resolved)) => {
            stored.keep_items(&mut resolved);
            resolved
        }
        Some(Err(violations)) => return Err(Problem::invalid(violations).into()),
        None => return Err(Problem::internal("a draft was not resolved").into()),
    };
    let changes = differences(&stored, &resolved);
    if changes.is_empty() {
        return Ok(());
    }
    let edited = Edited { stored, resolved, changes, digest: None, is_sent: false, origin: 0 };
    let lanes = write(change.connection(), &[&context.origin], &[edited]).await?;
    change.note_lanes(lanes);
    Ok(())
}

/// What never changes.
fn moved(given: &Asked, stored: &Stored) -> Vec<Violation> {
    let other =
        |is_other: bool, field| is_other.then(|| Violation::new(field, "not_allowed", "cannot be changed"));
    let number = given.body.fields.order_number.as_ref();
    other(given.eshop.is_some_and(|id| id != stored.order.eshop), "eshop")
        .into_iter()
        .chain(other(number.is_some_and(|number| *number != stored.detail.order_number), "orderNumber"))
        .collect()
}

/// What changes, for the audit: what is personal is masked.
pub(super) fn differences(stored: &Stored, resolved: &Resolved) -> Vec<FieldChange> {
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
    let (was, becomes) = (&stored.order.shipper, &resolved.order.shipper);
    if was.choice != becomes.choice {
        changes.push(FieldChange {
            field: "carrierChoice",
            old: json!(was.choice),
            new: json!(becomes.choice),
        });
    }
    if !resolved.items.is_empty() {
        let items = |order: &Order| -> Value {
            let show = |item: &Item| json!({"product": item.product, "quantity": item.quantity});
            order.items.iter().map(show).collect()
        };
        changes.push(FieldChange { field: "items", old: items(&stored.order), new: items(&resolved.order) });
    }
    changes
}

/// Locks orders of a scope, by id, and reads all that is stored of them.
pub(super) async fn lock(
    connection: &mut PgConnection,
    scope: &Scope,
    ids: &[ExpeditionId],
) -> Result<Vec<Stored>, sqlx::Error> {
    let orders = order::lock(connection, scope, ids).await?;
    let ids: Vec<Uuid> = orders.iter().map(|order| order.id.get()).collect();
    let rows = sqlx::query!(
        r#"SELECT to_jsonb(d) || jsonb_build_object('warehouse_id', e.warehouse_id, 'wms_id', e.wms_id, 'priority', e.priority,
                      'wait_before_processing', e.wait_before_processing)
                      AS "columns!: Json<Map<String, Value>>",
                  d.user_id, d.digest, d.removed_virtual_products,
                  (SELECT coalesce(jsonb_agg(to_jsonb(b) ORDER BY b.position), '[]')
                   FROM expedition_bundle b WHERE b.expedition_id = e.id) AS "bundles!",
                  (SELECT jsonb_agg(to_jsonb(i) - $2::text[]
                                    || jsonb_build_object('product_value', trim_scale(i.product_value)) ORDER BY i.position)
                   FROM expedition_item i WHERE i.expedition_id = e.id) AS "items!"
           FROM expedition e JOIN expedition_detail d ON d.id = e.id WHERE e.id = ANY($1) ORDER BY e.id"#,
        &ids,
        OF_THE_SERVICE as &[&str],
    )
    .fetch_all(connection)
    .await?;
    let stored = orders.into_iter().zip(rows).map(|(order, row)| {
        Ok(Stored {
            detail: Detail::of_columns(order.id.get(), order.version, row.columns.0)
                .map_err(|error| sqlx::Error::Decode(error.into()))?,
            order,
            user: row.user_id,
            digest: row.digest,
            removed_virtual_products: row.removed_virtual_products,
            bundles: row.bundles,
            items: row.items,
        })
    });
    stored.collect()
}

/// An order that a body changes.
pub(super) struct Edited {
    pub(super) stored: Stored,
    pub(super) resolved: Resolved,
    pub(super) changes: Vec<FieldChange>,
    /// SHA-256 of the row that was taken, where an import changes it.
    pub(super) digest: Option<[u8; 32]>,
    /// Whether it is sent again in the same transaction, which then says what became of it.
    pub(super) is_sent: bool,
    /// Its place among the origins.
    pub(super) origin: usize,
}

impl Edited {
    fn gives_items(&self) -> bool {
        !self.resolved.items.is_empty()
    }

    /// The order as it is since.
    pub(super) fn order(&self) -> Order {
        let (old, new) = (&self.stored.order, &self.resolved.order);
        let mut items = if self.gives_items() { new.items.clone() } else { old.items.clone() };
        if !self.gives_items() && old.place != new.place {
            // their stocks are those of the old place
            for item in &mut items {
                item.stock = None;
            }
        }
        let edits = self.changes.clone();
        Order { state: old.state.clone(), items, version: old.version + 1, edits, ..new.clone() }
    }

    /// Its row of `expedition`, as far as a body changes it.
    fn head(&self) -> Value {
        let Self { stored, resolved, .. } = self;
        let counts = self.gives_items();
        json!({
            "id": stored.order.id, "warehouse_id": resolved.order.place.warehouse, "wms_id": resolved.order.place.wms,
            "priority": resolved.detail.priority.unwrap_or(0),
            "wait_before_processing": resolved.detail.wait_before_processing,
            "count_of_items": counts.then_some(resolved.items.len()),
            "count_of_sku": counts.then(|| resolved.count_of_sku()),
            "sum_of_quantity": counts.then(|| resolved.sum_of_quantity()),
        })
    }

    fn detail(&self) -> Value {
        let Self { stored, resolved, .. } = self;
        let removed = if self.gives_items() {
            resolved.removed_virtual_products.clone()
        } else {
            stored.removed_virtual_products.as_array().cloned().unwrap_or_default()
        };
        let digest = stored.digest.as_ref().and_then(|digest| <[u8; 32]>::try_from(digest.as_slice()).ok());
        detail_row(&resolved.order, &resolved.detail, &removed, stored.user, self.digest.or(digest))
    }
}

/// Writes changed orders. Their rows of details are written anew: they have dozens of columns, and no other row refers to them.
pub(super) async fn write(
    connection: &mut PgConnection,
    origins: &[&Origin],
    orders: &[Edited],
) -> Result<Vec<Hint>, sqlx::Error> {
    let id = |edited: &Edited| edited.stored.order.id.get();
    let ids: Vec<Uuid> = orders.iter().map(id).collect();
    let with_items: Vec<Uuid> = orders.iter().filter(|edited| edited.gives_items()).map(id).collect();
    sqlx::query!("DELETE FROM expedition_detail WHERE id = ANY($1)", &ids).execute(&mut *connection).await?;
    if !with_items.is_empty() {
        sqlx::query!("DELETE FROM expedition_item WHERE expedition_id = ANY($1)", &with_items)
            .execute(&mut *connection)
            .await?;
        sqlx::query!("DELETE FROM expedition_bundle WHERE expedition_id = ANY($1)", &with_items)
            .execute(&mut *connection)
            .await?;
    }
    let places: Vec<i64> = orders.iter().map(|e| i64::try_from(e.origin + 1).unwrap_or(1)).collect();
    let changes: Vec<String> = orders.iter().map(|e| changes_json(&e.changes).to_string()).collect();
    let data: Vec<Option<String>> = orders
        .iter()
        .map(|edited| {
            let event = || change_event(&edited.order(), edited.stored.order.state.status, &edited.changes);
            (!edited.is_sent).then(|| event().to_string())
        })
        .collect();
    let recorded: RecordedRows = record_each!(
        connection,
        origins,
        "expedition.update",
        ENTITY,
        None,
        "WITH given AS MATERIALIZED (
             SELECT h.*, g.origin, g.changes, g.told
             FROM unnest($9::uuid[], $10::bigint[], $11::text[], $16::text[]) AS g (id, origin, changes, told)
             JOIN jsonb_populate_recordset(NULL::expedition, $12::jsonb) AS h ON h.id = g.id
         ), detail AS (
             INSERT INTO expedition_detail
             SELECT d.* FROM jsonb_array_elements($13::jsonb) AS r (value)
             CROSS JOIN LATERAL jsonb_populate_record(NULL::expedition_detail,
                                                      r.value || jsonb_build_object('modified_at', now())) AS d
         ), bundles AS (
             INSERT INTO expedition_bundle SELECT * FROM jsonb_populate_recordset(NULL::expedition_bundle, $14::jsonb)
         ), items AS (
             INSERT INTO expedition_item
             SELECT i.* FROM jsonb_array_elements($15::jsonb) AS r (value)
             CROSS JOIN LATERAL jsonb_populate_record(
                 NULL::expedition_item, r.value || jsonb_build_object('created_at', now(), 'changed_at', now())) AS i
         ), written AS (
             UPDATE expedition e
             SET warehouse_id = g.warehouse_id, wms_id = g.wms_id, priority = g.priority,
                 wait_before_processing = g.wait_before_processing,
                 count_of_items = coalesce(g.count_of_items, e.count_of_items),
                 count_of_sku = coalesce(g.count_of_sku, e.count_of_sku),
                 sum_of_quantity = coalesce(g.sum_of_quantity, e.sum_of_quantity), version = e.version + 1
             FROM given g WHERE e.id = ANY (ARRAY[g.id])
             RETURNING e.id, e.version, e.changed_at, e.organisation_id, e.eshop_id, g.origin, g.changes, g.told
         ), changed AS (
             SELECT id AS entity, version, changed_at AS at, organisation_id AS organisation, ARRAY[eshop_id] AS eshops,
                    changes::jsonb AS changes, told::jsonb AS data, origin, NULL::text AS action, NULL::text AS kind,
                    CASE WHEN told IS NOT NULL THEN $17::text END AS event
             FROM written
         )",
        &ids,
        &places,
        &changes,
        orders.iter().map(Edited::head).collect::<Value>(),
        orders.iter().map(Edited::detail).collect::<Value>(),
        orders.iter().flat_map(|e| e.resolved.bundles.iter().cloned()).collect::<Value>(),
        orders.iter().flat_map(|e| e.resolved.items.iter().cloned()).collect::<Value>(),
        &data as &[Option<String>],
        EXPEDITION_CHANGE.name,
    )
    .await?;
    Ok(recorded.lanes)
}

/// Deletes an order that is on hold, incorrect or canceled: 204. Its number is free again.
pub async fn delete(
    services: &Services,
    context: &Context,
    id: ExpeditionId,
    check: impl Fn(i64) -> Result<(), Problem>,
) -> Result<Answer, Problem> {
    let mut change = Change::begin(services).await?;
    let scope = context.scope();
    let Some(order) = order::lock(change.connection(), scope, &[id]).await?.pop() else {
        return Err(tombstone::missing(change.connection(), scope, ENTITY, id.get()).await);
    };
    check(order.version)?;
    let status = order.state.status;
    if !status.is_editable() && status != Status::Canceled {
        return Err(wrong_status(status, "roll it back or cancel it first"));
    }
    if was_handed_over(change.connection(), id).await? {
        return Err(wrong_status(status, "an order that was handed over to its warehouse is kept"));
    }
    invoice::discard(change.connection(), id).await?;
    let recorded = record_change!(
        change.connection(),
        context.origin,
        "expedition.delete",
        ENTITY,
        None,
        "WITH made AS (
             DELETE FROM expedition WHERE id = $9 RETURNING id, organisation_id, eshop_id, version, status
         ), buried AS (
             INSERT INTO tombstone (entity_type, entity_id, organisation_id, eshop_id, version, deleted_by)
             SELECT $7, id, organisation_id, eshop_id, version, $3 FROM made
         ), changed AS (
             SELECT id AS entity, organisation_id AS organisation, '{}'::uuid[] AS eshops,
                    jsonb_build_object('orderNumber', jsonb_build_array($10::text, NULL)) AS changes, '{}'::jsonb AS data
             FROM made
         )",
        id.get(),
        order.order_number,
    )
    .await?;
    change.note(recorded);
    change.answer(context.claim, Answer::done()).await
}

/// Whether its warehouse has ever reported on it, or it was ever handed over.
async fn was_handed_over(connection: &mut PgConnection, id: ExpeditionId) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT EXISTS (
               SELECT FROM audit
               WHERE entity_type = $2 AND entity_id = $1 AND action IN ('expedition.status', 'expedition.news'))
               OR EXISTS (SELECT FROM expedition_handover WHERE id = $1) AS "was!""#,
        id.get(),
        ENTITY,
    )
    .fetch_one(connection)
    .await
}

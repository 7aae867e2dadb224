//! Changing what a body says of an order, and deleting it (`docs/reference/orders.md#changing`).

mod delete;
mod stored;
mod write;

use serde_json::Value;
use sqlx::PgConnection;

use super::body::{Body, DetailFields, is_amendable};
use super::choice::choose;
use super::decision::not_editable;
use super::references::{Draft, Resolved, resolve};
use super::write::{ENTITY, is_taken, location};
use crate::list;
use crate::list::fields::expedition::{EXPEDITION, ExpeditionStatus as Status};
use longshore_kernel::answer::Answer;
use longshore_kernel::change::Change;
use longshore_kernel::context::Context;
use longshore_kernel::echo::Echo;
use longshore_kernel::ids::{EshopId, ExpeditionId};
use longshore_kernel::input::{self, Given, Object, Reader, Rule, Schema, object};
use longshore_kernel::problem::{CONFLICT, Problem, Violation, WRONG_STATUS};
use longshore_kernel::services::Services;
use longshore_kernel::sqlstate::is_contention;
use longshore_kernel::tombstone;

pub use self::delete::delete;
pub(super) use self::delete::kept;
pub(super) use self::stored::{Stored, lock};
pub(super) use self::write::{Edited, differences, write};

/// How often a change is tried that is refused because of a concurrent one.
const ATTEMPTS: usize = 3;

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
        object.empty_is_null();
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

/// Changes the given fields of an order that is on hold or incorrect, or, without touching its bookings, who gets and who ships one
/// that was sent and is not handed over: 200 with the record.
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
    let amends = !any_status && !stored.order.state.status.is_editable();
    if amends && !stored.order.state.status.is_amendable(stored.order.state.handover) {
        return Err(refused(change.connection(), &stored).await?.into());
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
    let mut resolved = match resolved {
        Some(Ok(mut resolved)) => {
            stored.keep_items(&mut resolved);
            resolved
        }
        Some(Err(violations)) => return Err(Problem::invalid(violations).into()),
        None => return Err(Problem::internal("a draft was not resolved").into()),
    };
    if amends {
        choose_again(change.connection(), &stored, &mut resolved).await?;
    }
    let changes = differences(&stored, &resolved);
    if changes.is_empty() {
        return Ok(());
    }
    if amends {
        if !changes.iter().all(|change| is_amendable(change.field)) {
            return Err(refused(change.connection(), &stored).await?.into());
        }
        // what would have made it incorrect, if it had been sent like this
        let faults = resolved.order.faults_since(&stored.order);
        if !faults.is_empty() {
            return Err(Problem::invalid(faults).into());
        }
    }
    let edited = Edited { stored, resolved, changes, digest: None, is_sent: false, origin: 0 };
    let lanes = write(change.connection(), &[&context.origin], &[edited]).await?;
    change.note_lanes(lanes);
    Ok(())
}

/// 400 for a body that cannot be taken in the status of the order: it says what is possible instead.
async fn refused(connection: &mut PgConnection, stored: &Stored) -> Result<Problem, sqlx::Error> {
    let order = &stored.order;
    let canceled = Some(order.id).filter(|_| order.state.status == Status::Canceled);
    let kept = kept(connection, canceled.as_slice()).await?;
    Ok(Problem::violation("status", WRONG_STATUS.code, not_editable(order, !kept.is_empty())))
}

/// Chooses a carrier again for an order that was sent, and has none of its own, if what it is chosen by has changed.
async fn choose_again(
    connection: &mut PgConnection,
    stored: &Stored,
    resolved: &mut Resolved,
) -> Result<(), sqlx::Error> {
    let is_same = stored.detail.consignment() == resolved.detail.consignment();
    if is_same && resolved.order.shipper.carrier.is_some() {
        return Ok(());
    }
    if resolved.items.is_empty() {
        // its weight counts
        resolved.order.items.clone_from(&stored.order.items);
    }
    choose(connection, std::iter::once(&mut resolved.order)).await?;
    resolved.detail.carrier_id = resolved.order.shipper.carrier;
    resolved.detail.carrier_service_id = resolved.order.shipper.service;
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

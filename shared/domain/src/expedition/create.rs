//! Creating orders, one or many by one statement; those that are to be sent are booked in it
//! (`docs/reference/orders.md#creating`).

mod insert;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::slice;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde_json::Value;
use uuid::Uuid;

pub(super) use self::insert::insert_placed;
use self::insert::{insert, place};
use super::allocator::Ledger;
use super::body::{Body, Detail};
use super::choice::choose;
use super::company::{self, Came, Company};
use super::order::Order;
use super::references::{Draft, Resolved, resolve};
use super::stocks::{self, By};
use super::write::detail::digest;
use super::write::{is_taken, location};
use crate::list;
use crate::list::fields::expedition::EXPEDITION;
use longshore_kernel::access::Scope;
use longshore_kernel::answer::Answer;
use longshore_kernel::change::Change;
use longshore_kernel::context::{Context, Origin};
use longshore_kernel::echo::Echo;
use longshore_kernel::idempotency::KeyClaim;
use longshore_kernel::ids::{EshopId, ExpeditionId, OrganisationId, StockId};
use longshore_kernel::input::{self, Object, Schema};
use longshore_kernel::problem::Problem;
use longshore_kernel::quota::Kind;
use longshore_kernel::services::Services;
use longshore_kernel::sqlstate::{is_contention, is_locked};

/// An order that is to be created.
#[derive(Debug)]
pub(super) struct New {
    pub(super) resolved: Resolved,
    /// Whether it is sent at once.
    pub(super) send: bool,
    /// Who created it.
    pub(super) user: Option<Uuid>,
    /// SHA-256 of the row that it was created by.
    pub(super) digest: Option<[u8; 32]>,
    /// Its place in the order of creations, where that is not the moment.
    pub(super) created_at: Option<DateTime<Utc>>,
    /// Its place among the origins.
    pub(super) origin: usize,
}

/// The body of a create.
#[must_use]
pub fn schema() -> Schema {
    Object::schema(|object| Body::members(object, true, members))
}

/// Reads the body of a create.
#[must_use]
pub fn read(body: Value) -> Body {
    let (body, ()) = Body::read(body, true, members);
    body
}

fn members(object: &mut Object<'_>, body: &mut Body) {
    body.eshop = object.required("eshop", input::id()).map(EshopId::from);
    body.send = object.nullable("send", input::boolean()).value();
    Echo::of(object, true, |name| EXPEDITION.shows(name));
}

/// A create that was asked for.
#[derive(Debug)]
pub(super) struct Asked {
    id: ExpeditionId,
    body: Body,
    digest: [u8; 32],
    user: Option<Uuid>,
    origin: Origin,
    claim: Option<KeyClaim>,
}

impl Asked {
    pub(super) fn read(context: &Context, body: Value) -> Self {
        let digest = digest(body.clone());
        Self {
            id: ExpeditionId::new(),
            body: read(body),
            digest,
            user: creator(context),
            origin: context.origin.clone(),
            claim: context.claim,
        }
    }

    /// How many items it has, before bundles are taken apart.
    pub(super) fn count_of_items(&self) -> usize {
        self.body.items.as_ref().map_or(0, Vec::len)
    }
}

/// Creates an order: 201 with the record.
pub async fn create(services: &Services, context: &Context, body: Value) -> Result<Answer, Problem> {
    alone(services, context.scope(), &Arc::new(Asked::read(context, body))).await
}

/// Creates an order in a transaction of its own.
pub(super) async fn alone(services: &Services, scope: &Scope, asked: &Arc<Asked>) -> Result<Answer, Problem> {
    company::alone(|| each(services, scope, slice::from_ref(asked), Company::Alone)).await
}

/// Creates orders that one scope asks for, all in one transaction; one that is refused is refused alone. `None`: another change
/// came first, and it is to be tried again alone.
pub(super) async fn each(
    services: &Services,
    scope: &Scope,
    asked: &[Arc<Asked>],
    company: Company,
) -> Result<Vec<Came>, Problem> {
    let mut answers: Vec<Came> = asked.iter().map(|_| None).collect();
    let mut single = Change::begin_single(services, None).await?;
    let drafts = asked.iter().map(|a| draft(a.id, a.body.eshop.unwrap_or_default(), scope, &a.body));
    let resolved = resolve(single.connection(), drafts.collect()).await?;
    let mut news = Vec::with_capacity(asked.len());
    let mut taken = HashSet::new();
    for (origin, (asked, resolved)) in asked.iter().zip(resolved).enumerate() {
        match resolved {
            Err(violations) => answers[origin] = Some(Err(Problem::invalid(violations))),
            // the later of two that want the same number finds it taken
            Ok(resolved) if !is_first(&resolved, &mut taken) => {}
            Ok(resolved) => news.push(New {
                resolved,
                send: asked.body.send.unwrap_or(false),
                user: asked.user,
                digest: Some(asked.digest),
                created_at: None,
                origin,
            }),
        }
    }
    choose(single.connection(), news.iter_mut().filter(|new| new.send).map(|new| &mut new.resolved.order))
        .await?;
    if let Some(ledger) = looked_up(asked, &news) {
        let written = write(single, scope, asked, &mut news, Booking::LookedUp(ledger), &mut answers).await?;
        if written {
            return Ok(answers);
        }
    } else {
        // no connection is held while another is waited for
        drop(single);
    }
    let mut sent: Vec<&mut Order> =
        news.iter_mut().filter(|new| new.send).map(|new| &mut new.resolved.order).collect();
    stocks::make_missing(By::Another(&services.db.main), &mut sent).await?;
    let change = company.begin(services).await?;
    write(change, scope, asked, &mut news, Booking::Locked, &mut answers).await?;
    Ok(answers)
}

/// By what orders are booked.
enum Booking {
    /// Their stocks, which are locked first.
    Locked,
    /// Their stocks as they were looked up: the statement that writes the orders finds out whether they still are so.
    LookedUp(Ledger),
}

/// The stocks that a single order is booked in if they do not change meanwhile: that takes one statement, and no lock before it. `None` where
/// more is to be done.
fn looked_up(asked: &[Arc<Asked>], news: &[New]) -> Option<Ledger> {
    let [new] = news else { return None };
    let New { resolved, send, .. } = new;
    if asked[new.origin].claim.is_some() {
        return None;
    }
    if !send {
        return Some(Ledger::default());
    }
    // of a stock that is all zeros, the product may have stopped being physical
    let is_known = |stock: StockId| resolved.stocks.get(&stock).is_some_and(|stock| !stock.is_zero());
    let are_known = resolved.order.items.iter().all(|item| item.stock.is_some_and(is_known));
    are_known.then(|| resolved.stocks.iter().map(|(id, stock)| (*id, *stock)).collect())
}

/// Writes new orders and answers them. `false`: a stock has changed since it was looked up, and nothing was written.
async fn write(
    mut change: Change<'_>,
    scope: &Scope,
    asked: &[Arc<Asked>],
    news: &mut Vec<New>,
    booking: Booking,
    answers: &mut [Came],
) -> Result<bool, Problem> {
    for full in beyond_quota(&mut change, news).await? {
        answers[full] = Some(Err(change.quotas().refusal(Kind::Expedition)));
    }
    if news.is_empty() {
        return Ok(true);
    }
    let places: HashMap<Uuid, usize> =
        news.iter().map(|new| (new.resolved.order.id.get(), new.origin)).collect();
    let origins: Vec<&Origin> = asked.iter().map(|asked| &asked.origin).collect();
    let inserted = match booking {
        Booking::Locked => place(change.connection(), &origins, news).await.map(Some),
        Booking::LookedUp(mut ledger) => {
            insert(change.connection(), &origins, news, &mut ledger, false).await
        }
    };
    match inserted {
        Ok(Some((lanes, counts))) => {
            change.note_lanes(lanes);
            change.note_orders(counts);
        }
        Ok(None) => return Ok(false),
        Err(error) if is_locked(&error) => return Err(error.into()),
        // another order took a number, or a product changed: the next look-up says which
        Err(error) if is_contention(&error) || is_taken(&error) => return Ok(true),
        Err(error) => return Err(error.into()),
    }
    let ids: Vec<Uuid> = places.keys().copied().collect();
    for record in list::find_each(change.connection(), &EXPEDITION, scope, &ids).await? {
        let answer = Answer::created(location(record.id.into()), record.version, record.json);
        answers[places[&record.id]] = Some(Ok(answer));
    }
    if let Some(place) = places.values().find(|place| answers[**place].is_none()) {
        let gone = format!("order {} is gone that was just created", asked[*place].id);
        return Err(Problem::internal(gone));
    }
    let made = places.values().filter_map(|place| {
        let answer = answers[*place].as_ref()?.as_ref().ok()?;
        asked[*place].claim.map(|claim| (claim, answer))
    });
    change.answer_each(&made.collect::<Vec<_>>()).await?;
    Ok(true)
}

/// Whether no earlier one of the company wants the same number or external id.
fn is_first(resolved: &Resolved, taken: &mut HashSet<(EshopId, bool, String)>) -> bool {
    let Resolved { order, .. } = resolved;
    let number = (order.eshop, true, order.order_number.clone());
    let external = order.external_id.clone().map(|id| (order.eshop, false, id));
    if taken.contains(&number) || external.as_ref().is_some_and(|id| taken.contains(id)) {
        return false;
    }
    taken.insert(number);
    taken.extend(external);
    true
}

/// Takes out the last orders of an organisation that go past its quota; returns their places among the origins.
async fn beyond_quota(change: &mut Change<'_>, news: &mut Vec<New>) -> Result<Vec<usize>, sqlx::Error> {
    let mut wanted: HashMap<OrganisationId, usize> = HashMap::new();
    for new in news.iter() {
        *wanted.entry(new.resolved.order.organisation).or_default() += 1;
    }
    let quotas = change.quotas();
    for (organisation, count) in &mut wanted {
        *count = quotas.room(change.connection(), *organisation, Kind::Expedition, *count).await?;
    }
    let mut full = Vec::new();
    news.retain(|new| {
        let room = wanted.entry(new.resolved.order.organisation).or_default();
        let fits = *room > 0;
        *room = room.saturating_sub(1);
        if !fits {
            full.push(new.origin);
        }
        fits
    });
    Ok(full)
}

/// The person that creates an order; none for a program.
pub(super) fn creator(context: &Context) -> Option<Uuid> {
    let actor = &context.origin.actor;
    actor.id.filter(|_| matches!(actor.kind.as_str(), "admin" | "business_user"))
}

/// The order that a body of a create describes.
pub(super) fn draft<'d>(id: ExpeditionId, eshop: EshopId, scope: &'d Scope, body: &'d Body) -> Draft<'d> {
    let mut detail = Detail::blank(id.get());
    detail.take(body.fields.clone());
    Draft { id, eshop, scope, detail, given: Cow::Borrowed(body), choice: None, is_new: true }
}

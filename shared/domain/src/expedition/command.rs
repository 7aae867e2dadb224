//! Operations on orders that are there: send, process, roll back, cancel, rebook, unbook
//! (`docs/reference/orders.md#operations`). One of them or many: each is locked, decided and written the same way.

use serde_json::{Map, Value};

pub use super::decision::Command;
use super::order;
use super::stocks;
use super::tally;
use super::write::{ENTITY, Transition, write};
use crate::list;
use crate::list::fields::expedition::EXPEDITION;
use longshore_kernel::access::Scope;
use longshore_kernel::answer::Answer;
use longshore_kernel::change::Change;
use longshore_kernel::context::{Context, Origin};
use longshore_kernel::ids::ExpeditionId;
use longshore_kernel::input::{Reader, Rule, boolean, object, text};
use longshore_kernel::problem::Problem;
use longshore_kernel::services::Services;

/// How often an operation is tried that is refused because of a concurrent change.
const ATTEMPTS: usize = 3;

/// Characters of the reason of a cancellation.
pub const REASON_LENGTH: usize = 255;

/// What came of a command for one order.
#[derive(Debug)]
pub enum Done {
    /// Its record shows another state.
    Changed,
    /// It was so already.
    Unchanged,
    /// There is no such order, as far as the scope goes.
    NotFound,
    /// It is not possible.
    Refused(Problem),
}

/// Does a command on one order: 200 with the record.
pub async fn run(
    services: &Services,
    context: &Context,
    id: ExpeditionId,
    command: &Command,
) -> Result<Answer, Problem> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        prepare(services, &[id], command).await?;
        let mut change = Change::begin(services).await?;
        let done = match apply(&mut change, &context.origin, context.scope(), &[id], command).await {
            Ok(mut done) => done.pop(),
            Err(problem) if attempts < ATTEMPTS && problem.is_contention() && !problem.is_locked() => {
                continue;
            }
            Err(problem) => return Err(problem),
        };
        match done {
            None | Some(Done::NotFound) => return Err(Problem::not_found(ENTITY)),
            Some(Done::Refused(problem)) => return Err(problem),
            Some(Done::Changed | Done::Unchanged) => {}
        }
        let record = list::find(change.connection(), &EXPEDITION, context.scope(), id.get()).await?;
        let record = record.ok_or_else(|| Problem::not_found(ENTITY))?;
        let answer = Answer::updated(location(id), record.version, record.json);
        return change.answer(context.claim, answer).await;
    }
}

/// Makes what a command needs before its transaction begins.
pub async fn prepare(services: &Services, ids: &[ExpeditionId], command: &Command) -> Result<(), Problem> {
    if matches!(command, Command::Send { .. } | Command::Rebook) {
        stocks::make_for(&services.db.main, ids).await?;
    }
    Ok(())
}

/// Does a command on orders, all in the transaction; one that is refused is refused alone. What came of each is in the order of
/// `ids`.
pub async fn apply(
    change: &mut Change<'_>,
    origin: &Origin,
    scope: &Scope,
    ids: &[ExpeditionId],
    command: &Command,
) -> Result<Vec<Done>, Problem> {
    let mut orders = order::lock(change.connection(), scope, ids).await?;
    let mut locked = stocks::lock(change.connection(), &orders).await?;
    if matches!(command, Command::Send { .. }) {
        let turned = stocks::turned(change.connection(), &locked).await?;
        for order in &mut orders {
            turned.judge(order);
        }
    }
    let mut done: Vec<Done> = Vec::with_capacity(ids.len());
    let mut transitions = Vec::with_capacity(orders.len());
    // in turn, as far as the caller says: in the order of the ids
    for id in ids {
        let Some(order) = orders.binary_search_by_key(id, |order| order.id).ok().map(|place| &orders[place])
        else {
            done.push(Done::NotFound);
            continue;
        };
        match command.decide(order, &mut locked.ledger) {
            Ok(state) => {
                let transition = Transition {
                    order,
                    state,
                    action: command.action(),
                    remark: command.remark(),
                    origin: 0,
                    is_raised: false,
                };
                done.push(if transition.is_change() { Done::Changed } else { Done::Unchanged });
                transitions.push(transition);
            }
            Err(problem) => done.push(Done::Refused(problem)),
        }
    }
    let (_, lanes) = write(change.connection(), &[origin], &transitions, &mut locked.ledger).await?;
    change.note_lanes(lanes);
    change.note_orders(tally::of(&transitions));
    Ok(done)
}

/// The body of `PUT …/send`, which may be absent.
pub fn send_body() -> impl Rule<Out = Command> {
    object(|body| {
        let rebook = body.nullable("rebook", boolean()).value();
        Some(Command::Send { rebook: rebook.unwrap_or(false) })
    })
}

/// The body of `PUT …/cancel`, which may be absent.
pub fn cancel_body() -> impl Rule<Out = Command> {
    object(|body| Some(Command::Cancel { reason: body.nullable("reason", text(0..=REASON_LENGTH)).value() }))
}

/// Reads a body that may be absent, which is an empty one.
pub fn read(body: Option<Value>, rule: impl Rule<Out = Command>) -> Result<Command, Problem> {
    Reader::read(body.unwrap_or_else(|| Value::Object(Map::new())), rule)
}

/// Path of an order.
pub(super) fn location(id: ExpeditionId) -> String {
    format!("/api/expedition/{id}")
}

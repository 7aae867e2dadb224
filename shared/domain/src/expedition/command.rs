//! Operations on orders that are there: send, process, roll back, cancel, rebook, unbook
//! (`docs/reference/orders.md#operations`). One of them or many: each is locked, decided and written the same way.

use std::collections::{HashMap, HashSet};
use std::slice;
use std::sync::Arc;

use serde_json::{Map, Value};
use uuid::Uuid;

use super::choice::choose;
use super::company::{self, Came, Company};
pub use super::decision::Command;
use super::handover;
use super::order::{self, Doubt, Order};
use super::stocks;
pub use super::stocks::By;
use super::tally;
use super::write::{ENTITY, Transition, location, write};
use crate::job::withheld;
use crate::list;
use crate::list::fields::expedition::{EXPEDITION, ExpeditionStatus as Status};
use longshore_kernel::access::Scope;
use longshore_kernel::answer::{Answer, Outcome};
use longshore_kernel::change::Change;
use longshore_kernel::context::{Context, Origin};
use longshore_kernel::idempotency::KeyClaim;
use longshore_kernel::ids::ExpeditionId;
use longshore_kernel::input::{Reader, Rule, boolean, object, text};
use longshore_kernel::precondition::Precondition;
use longshore_kernel::problem::Problem;
use longshore_kernel::services::Services;
use longshore_kernel::tombstone;

/// Characters of the reason of a cancellation.
pub const REASON_LENGTH: usize = 255;

/// What came of a command for one order.
#[derive(Debug)]
pub enum Done {
    /// Its record shows another state.
    Changed,
    /// It was so already.
    Unchanged,
    /// The warehouse is asked for it; whether that is new.
    Asked(bool),
    /// There is no such order, as far as the scope goes.
    NotFound,
    /// It is not possible.
    Refused(Problem),
}

/// A command that was asked for.
#[derive(Debug)]
pub(super) struct Asked {
    id: ExpeditionId,
    command: Command,
    precondition: Precondition,
    origin: Origin,
    claim: Option<KeyClaim>,
}

impl Asked {
    pub(super) fn new(
        context: &Context,
        id: ExpeditionId,
        command: &Command,
        precondition: &Precondition,
    ) -> Self {
        let (origin, claim) = (context.origin.clone(), context.claim);
        Self { id, command: command.clone(), precondition: precondition.clone(), origin, claim }
    }
}

/// Does a command on one order: 200 with the record; 202 where the warehouse is asked for it.
pub async fn run(
    services: &Services,
    context: &Context,
    id: ExpeditionId,
    command: &Command,
) -> Result<Answer, Problem> {
    alone(services, context.scope(), &Arc::new(Asked::new(context, id, command, Precondition::NONE))).await
}

/// Does a command in a transaction of its own.
pub(super) async fn alone(services: &Services, scope: &Scope, asked: &Arc<Asked>) -> Result<Answer, Problem> {
    company::alone(|| each(services, scope, slice::from_ref(asked), Company::Alone)).await
}

/// Does commands that one scope asks for, all in one transaction. `None`: another change came first, and it is to be tried again
/// alone.
pub(super) async fn each(
    services: &Services,
    scope: &Scope,
    asked: &[Arc<Asked>],
    company: Company,
) -> Result<Vec<Came>, Problem> {
    let mut answers: Vec<Came> = asked.iter().map(|_| None).collect();
    let mut places: HashMap<Uuid, usize> = HashMap::new();
    for (place, asked) in asked.iter().enumerate() {
        // the later of two for the same order finds what the earlier has made of it
        places.entry(asked.id.get()).or_insert(place);
    }
    let first = asked.iter().enumerate().filter(|(place, asked)| places[&asked.id.get()] == *place);
    let instructions: Vec<Instruction<'_>> = first
        .map(|(origin, asked)| {
            let Asked { id, command, precondition, .. } = &**asked;
            Instruction { id: *id, command, precondition, origin }
        })
        .collect();
    prepare(By::Another(&services.db.main), &instructions).await?;
    let mut change = company.begin(services).await?;
    let origins: Vec<&Origin> = asked.iter().map(|asked| &asked.origin).collect();
    let done = match apply(&mut change, &origins, scope, &instructions).await {
        Ok(done) => done,
        Err(problem) if problem.is_contention() && !problem.is_locked() => return Ok(answers),
        Err(problem) => return Err(problem),
    };
    let (mut ids, mut asked_of_the_warehouse) = (Vec::new(), HashSet::new());
    for (instruction, done) in instructions.iter().zip(done) {
        match done {
            Done::NotFound => {
                let missing =
                    tombstone::missing(change.connection(), scope, ENTITY, instruction.id.get()).await;
                answers[instruction.origin] = Some(Err(missing));
            }
            Done::Refused(problem) => answers[instruction.origin] = Some(Err(problem)),
            Done::Asked(_) => {
                asked_of_the_warehouse.insert(instruction.id.get());
                ids.push(instruction.id.get());
            }
            Done::Changed | Done::Unchanged => ids.push(instruction.id.get()),
        }
    }
    for record in list::find_each(change.connection(), &EXPEDITION, scope, &ids).await? {
        let mut answer = Answer::updated(location(record.id.into()), record.version, record.json);
        if asked_of_the_warehouse.contains(&record.id) {
            answer.outcome = Outcome::Accepted;
        }
        answers[places[&record.id]] = Some(Ok(answer));
    }
    let claimed = asked.iter().zip(&answers).filter_map(|(asked, answer)| {
        let answer = answer.as_ref()?.as_ref().ok()?;
        asked.claim.map(|claim| (claim, answer))
    });
    change.answer_each(&claimed.collect::<Vec<_>>()).await?;
    Ok(answers)
}

/// A command for an order.
#[derive(Clone, Copy, Debug)]
pub struct Instruction<'c> {
    /// The order.
    pub id: ExpeditionId,
    /// What is asked of it.
    pub command: &'c Command,
    /// The versions that it may start from.
    pub precondition: &'c Precondition,
    /// Its place among the origins.
    pub origin: usize,
}

/// Makes what commands need before their transaction holds locks.
pub async fn prepare(by: By<'_>, instructions: &[Instruction<'_>]) -> Result<(), Problem> {
    let books = |instruction: &&Instruction<'_>| {
        matches!(instruction.command, Command::Send { .. } | Command::Rebook)
    };
    let ids: Vec<ExpeditionId> = instructions.iter().filter(books).map(|one| one.id).collect();
    if !ids.is_empty() {
        stocks::make_for(by, &ids).await?;
    }
    Ok(())
}

/// Does commands on orders, all in the transaction; one that is refused is refused alone. What came of each is in their order. One
/// that lost a race fails all: they are prepared and tried again.
pub async fn apply(
    change: &mut Change<'_>,
    origins: &[&Origin],
    scope: &Scope,
    instructions: &[Instruction<'_>],
) -> Result<Vec<Done>, Problem> {
    let ids: Vec<ExpeditionId> = instructions.iter().map(|one| one.id).collect();
    let mut orders = order::lock(change.connection(), scope, &ids).await?;
    let mut locked = stocks::lock(change.connection(), &orders).await?;
    let sent: HashSet<ExpeditionId> = instructions
        .iter()
        .filter(|one| matches!(one.command, Command::Send { .. }))
        .map(|one| one.id)
        .collect();
    if !sent.is_empty() {
        let turned = stocks::turned(change.connection(), &locked).await?;
        orders.iter_mut().filter(|order| sent.contains(&order.id)).for_each(|order| turned.judge(order));
        let is_sent = |order: &&mut Order| sent.contains(&order.id) && order.state.status.is_editable();
        choose(change.connection(), orders.iter_mut().filter(is_sent)).await?;
    }
    let mut done: Vec<Done> = Vec::with_capacity(instructions.len());
    let mut transitions = Vec::with_capacity(orders.len());
    // in turn, as far as the caller says: in the order of the commands
    for Instruction { id, command, precondition, origin } in instructions {
        let Some(order) = orders.binary_search_by_key(id, |order| order.id).ok().map(|place| &orders[place])
        else {
            done.push(Done::NotFound);
            continue;
        };
        let decided =
            precondition.check(order.version).and_then(|()| command.decide(order, &mut locked.ledger));
        match decided {
            Ok(state) => {
                let transition = Transition {
                    order,
                    state,
                    action: command.action(),
                    remark: command.remark(),
                    origin: *origin,
                    is_raised: false,
                    handover_error: None,
                };
                let is_change = transition.is_change();
                done.push(if command.waits_for_the_warehouse(&transition.state) {
                    Done::Asked(is_change)
                } else if is_change {
                    Done::Changed
                } else {
                    Done::Unchanged
                });
                transitions.push(transition);
            }
            Err(problem) if problem.is_contention() => return Err(problem),
            Err(problem) => done.push(Done::Refused(problem)),
        }
    }
    let (_, lanes) = write(change.connection(), origins, &transitions, &mut locked.ledger).await?;
    change.note_lanes(lanes);
    change.note_orders(tally::of(&transitions));
    note_asked(change, instructions, &transitions, &mut done).await?;
    let given: Vec<ExpeditionId> = transitions.iter().map(|transition| transition.order.id).collect();
    withheld::drop_commanded(change.connection(), &given).await?;
    Ok(done)
}

/// Notes which orders in doubt, that are due by a command, their warehouse is asked for first: the database decides that.
async fn note_asked(
    change: &mut Change<'_>,
    instructions: &[Instruction<'_>],
    transitions: &[Transition<'_>],
    done: &mut [Done],
) -> Result<(), Problem> {
    let may_be_asked = |t: &&Transition<'_>| {
        t.order.state.doubt != Doubt::None && t.state.status == Status::AwaitingProcessing
    };
    let ids: Vec<ExpeditionId> = transitions.iter().filter(may_be_asked).map(|t| t.order.id).collect();
    if ids.is_empty() {
        return Ok(());
    }
    let asked = handover::asked_for(change.connection(), &ids).await?;
    for (done, _) in done.iter_mut().zip(instructions).filter(|(_, one)| asked.contains(&one.id)) {
        match done {
            Done::Changed => *done = Done::Asked(true),
            Done::Unchanged => *done = Done::Asked(false),
            Done::Asked(_) | Done::NotFound | Done::Refused(_) => {}
        }
    }
    Ok(())
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

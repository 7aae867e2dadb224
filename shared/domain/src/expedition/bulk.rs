//! Operations on many orders: a job over ids, whose chunks run in their order (`docs/reference/orders.md#bulk-operations`).

use sqlx::PgConnection;

use super::command::{self, Command, Done, Instruction};
use super::stocks::By;
use crate::job::acceptance::{self, Taken};
use crate::job::chosen::{self, Bulk};
use crate::job::kind::{Job, Within};
use crate::list::fields::expedition::EXPEDITION;
use longshore_kernel::access::Scope;
use longshore_kernel::answer::Answer;
use longshore_kernel::change::Change;
use longshore_kernel::context::{Context, Origin};
use longshore_kernel::ids::{ExpeditionId, OrganisationId};
use longshore_kernel::input::Rule;
use longshore_kernel::precondition::Precondition;
use longshore_kernel::problem::Problem;
use longshore_kernel::services::Services;

/// How orders are taken: in turn, as they wait for pieces.
const TAKEN: Taken = Taken { per_chunk: 500, order: "{t}.priority DESC, {t}.created_at, {t}.id" };

/// The body of an operation on orders.
pub fn body() -> impl Rule<Out = Bulk> {
    chosen::bulk(acceptance::ids(), &EXPEDITION)
}

/// Accepts an operation on orders; `job` is the constructor of its type. The job is of the organisations of these orders.
pub async fn accept<J: Job>(
    services: &Services,
    context: &Context,
    job: impl Fn(Within) -> J,
    bulk: impl Into<Bulk>,
) -> Result<Answer, Problem> {
    acceptance::accept(services, context, job, bulk.into(), TAKEN, organisations).await
}

/// Whose orders these are, as far as the scope includes them. If no id is known, the job belongs to the whole scope of the
/// caller, and callers with a smaller scope do not see it.
async fn organisations(
    connection: &mut PgConnection,
    scope: &Scope,
    ids: &[ExpeditionId],
) -> Result<Vec<OrganisationId>, sqlx::Error> {
    let within = scope.organisations();
    if let Some([only]) = within {
        return Ok(vec![*only]);
    }
    let found = sqlx::query_scalar!(
        r#"SELECT DISTINCT organisation_id AS "id: OrganisationId" FROM expedition
           WHERE id = ANY($1) AND in_scope($2, organisation_id)"#,
        ids as &[ExpeditionId],
        within as Option<&[OrganisationId]>,
    )
    .fetch_all(connection)
    .await?;
    Ok(if found.is_empty() { within.unwrap_or_default().to_vec() } else { found })
}

/// An id that was refused: its place, a code and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Its place among the ids.
    pub position: usize,
    /// A code.
    pub code: &'static str,
    /// What is wrong.
    pub message: String,
}

/// Executes a chunk of ids, in their order: how many changed, and what was refused.
pub async fn execute(
    change: &mut Change<'_>,
    origin: &Origin,
    within: &Within,
    ids: &[ExpeditionId],
    command: &Command,
) -> Result<(usize, Vec<Refused>), Problem> {
    let instructions: Vec<Instruction<'_>> = ids
        .iter()
        .map(|id| Instruction { id: *id, command, precondition: Precondition::NONE, origin: 0 })
        .collect();
    command::prepare(By::of(change), &instructions).await?;
    let done = command::apply(change, &[origin], &within.scope(), &instructions).await?;
    let changed = done.iter().filter(|done| matches!(done, Done::Changed | Done::Asked(true))).count();
    let refused = done.into_iter().enumerate().filter_map(|(position, done)| match done {
        Done::NotFound => {
            let message = "there is no such order".to_owned();
            Some(Refused { position, code: "not_found", message })
        }
        Done::Refused(problem) => {
            Some(Refused { position, code: problem.kind().code, message: problem.detail().to_owned() })
        }
        Done::Changed | Done::Unchanged | Done::Asked(_) => None,
    });
    Ok((changed, refused.collect()))
}

//! Operations on many records: an array of ids, which becomes a job (`docs/reference/jobs.md#bulk-operations`).

use longshore_domain::job::acceptance;
use longshore_http::app::App;
use longshore_http::extract::once::Answered;
use longshore_http::extract::{Failure, JsonBody, Once};
use longshore_kernel::answer::Answer;
use longshore_kernel::context::Context;
use longshore_kernel::input::Reader;
use longshore_kernel::problem::Problem;
use uuid::Uuid;

/// Generous room for 100,000 ids and their punctuation.
pub const BODY_LIMIT: usize = 8 * 1024 * 1024;

/// Reads the ids, and has `use_case` accept them unless its answer is stored.
pub async fn accept<I: From<Uuid>>(
    app: &App,
    context: &Context,
    once: &Once,
    body: JsonBody<BODY_LIMIT>,
    use_case: impl AsyncFnOnce(&Context, Vec<I>) -> Result<Answer, Problem>,
) -> Result<Answered, Failure> {
    let ids = Reader::read(body.value, acceptance::ids())?;
    let ids = ids.into_iter().map(I::from).collect();
    once.answer(&app.services, context.clone(), &body.hash, async |context| use_case(context, ids).await)
        .await
}

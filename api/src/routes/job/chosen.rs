//! Operations on many records, which become a job (`docs/reference/jobs.md#bulk-operations`).

use longshore_http::app::App;
use longshore_http::extract::once::Answered;
use longshore_http::extract::{Failure, JsonBody, Once};
use longshore_kernel::answer::Answer;
use longshore_kernel::context::Context;
use longshore_kernel::input::{Reader, Rule};
use longshore_kernel::problem::Problem;

/// Generous room for 100,000 ids and their punctuation.
pub const BODY_LIMIT: usize = 8 * 1024 * 1024;

/// Reads what the operation is about, and has `use_case` accept it unless its answer is stored.
pub async fn accept<R: Rule>(
    app: &App,
    context: &Context,
    once: &Once,
    body: JsonBody<BODY_LIMIT>,
    rule: R,
    use_case: impl AsyncFnOnce(&Context, R::Out) -> Result<Answer, Problem>,
) -> Result<Answered, Failure> {
    let chosen = Reader::read(body.value, rule)?;
    once.answer(&app.services, context.clone(), &body.hash, async |context| use_case(context, chosen).await)
        .await
}

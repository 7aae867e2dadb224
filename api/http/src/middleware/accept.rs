//! `Accept`: operations of the API answer with JSON, and lists with CSV, too. A request that excludes what its operation answers with is
//! refused (406). The header is optional.

use std::collections::HashSet;
use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use longshore_domain::list::Form;
use longshore_kernel::problem::{NOT_ACCEPTABLE, Problem};

use crate::extract::Failure;
use crate::extract::accept::{form, is_acceptable};

/// Paths of operations that answer with CSV, too.
pub type Csv = Arc<HashSet<&'static str>>;

/// Refuses a request that does not accept the answer.
pub async fn layer(State(csv): State<Csv>, request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>();
    let has_csv = path.is_some_and(|path| csv.contains(path.as_str()));
    let headers = request.headers();
    if is_acceptable(headers) || has_csv && form(headers) == Form::Csv {
        return next.run(request).await;
    }
    let or_csv = if has_csv { " or text/csv" } else { "" };
    let detail = format!("the Accept header must include application/json{or_csv}");
    Failure::from(Problem::new(&NOT_ACCEPTABLE, detail)).into_response()
}

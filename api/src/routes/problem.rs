//! Descriptions of problems: the pages behind the `type` of an error.

use axum::Json;
use axum::response::{IntoResponse, Redirect, Response};
use http::header::VARY;
use longshore_http::extract::{Failure, Segment, WantsPage};
use longshore_kernel::problem::{ALL, Kind, Problem};
use serde_json::{Value, json};

/// `GET /problems`: all of them. Browsers are led to the chapter about them.
pub async fn list_problems(WantsPage(is_page): WantsPage) -> Response {
    if is_page {
        return ([(VARY, "accept")], Redirect::to("/docs/errors")).into_response();
    }
    let results: Vec<_> = ALL.iter().copied().map(shown).collect();
    ([(VARY, "accept")], Json(json!({"results": results}))).into_response()
}

/// `GET /problems/{code}`.
pub async fn describe_problem(Segment(code): Segment) -> Result<Response, Failure> {
    let kind = ALL.iter().find(|k| k.code == code).ok_or_else(|| Problem::not_found("problem"))?;
    Ok(Json(shown(kind)).into_response())
}

fn shown(kind: &Kind) -> Value {
    json!({
        "type": format!("/problems/{}", kind.code),
        "code": kind.code,
        "status": kind.status,
        "title": kind.title,
        "explanation": kind.explanation,
    })
}

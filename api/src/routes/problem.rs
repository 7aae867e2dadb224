//! Descriptions of problems: the pages behind the `type` of an error.

use axum::Json;
use axum::response::{IntoResponse, Response};
use longshore_http::extract::{Failure, Segment};
use longshore_kernel::problem::{ALL, Problem};
use serde_json::json;

/// `GET /problems/{code}`.
pub async fn describe_problem(Segment(code): Segment) -> Result<Response, Failure> {
    let kind = ALL.iter().find(|k| k.code == code).ok_or_else(|| Problem::not_found("problem"))?;
    let page = json!({
        "type": format!("/problems/{}", kind.code),
        "code": kind.code,
        "status": kind.status,
        "title": kind.title,
        "explanation": kind.explanation,
    });
    Ok(Json(page).into_response())
}

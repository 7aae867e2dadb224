//! Serves the API document and its pages.

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use axum::response::{IntoResponse, Redirect, Response};
use http::HeaderName;
use http::header::{CONTENT_SECURITY_POLICY, REFERRER_POLICY};
use longshore_http::extract::{Failure, Segment};
use longshore_http::fixed::{Fixed, HowAsked};
use longshore_kernel::problem::Problem;

use super::docs::{self, File};
use crate::urls::Table;

/// Only files of this service, and no inline scripts or styles.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Headers of a page and of its files.
const PROTECTION: [(HeaderName, &str); 2] =
    [(CONTENT_SECURITY_POLICY, POLICY), (REFERRER_POLICY, "no-referrer")];

/// It may change with each version of the program.
const CACHE: &str = "no-cache";

static DOCUMENT: LazyLock<Result<Fixed, Problem>> =
    LazyLock::new(|| Fixed::new("application/json", super::served()));

/// The pages and files that have been requested.
static FILES: LazyLock<Mutex<BTreeMap<String, Fixed>>> = LazyLock::new(Mutex::default);

/// Their URLs.
pub fn urls() -> Table {
    Table::default()
        .get("/openapi.json", get_openapi)
        .get("/docs", show_docs)
        .get("/docs/{file}", show_docs_file)
}

/// `GET /openapi.json`.
pub async fn get_openapi(asked: HowAsked) -> Result<Response, Failure> {
    Ok(DOCUMENT.as_ref().map_err(|problem| Problem::internal(problem.to_string()))?.answer(&asked, CACHE)?)
}

/// `GET /docs`.
pub async fn show_docs(asked: HowAsked) -> Result<Response, Failure> {
    shown("", &asked, || Some(docs::start()))
}

/// `GET /docs/`, which people type: leads to `/docs`, and is no operation of its own.
pub async fn lead_to_docs() -> Redirect {
    Redirect::permanent("/docs")
}

/// `GET /docs/{file}`.
pub async fn show_docs_file(Segment(name): Segment, asked: HowAsked) -> Result<Response, Failure> {
    shown(&name, &asked, || docs::find(&name))
}

/// Renders and compresses a file once.
fn shown(name: &str, asked: &HowAsked, find: impl FnOnce() -> Option<File>) -> Result<Response, Failure> {
    let known = FILES.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
    let file = if let Some(file) = known {
        file
    } else {
        let found = find().ok_or_else(|| Problem::not_found("page"))?;
        let file = Fixed::new(found.media_type, found.content.into_owned())?;
        FILES.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), file.clone());
        file
    };
    Ok((PROTECTION, file.answer(asked, CACHE)?).into_response())
}

//! Invoices of orders: uploaded as JSON or as a form, served unchanged.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE, ETAG};
use http::{HeaderName, HeaderValue, StatusCode};
use longshore_domain::catalog::image::{LARGEST, upload_body};
use longshore_domain::expedition::invoice::{self, File, MEDIA_TYPE};
use longshore_http::extract::{Failure, FileUpload, FormFile, Id, IfNoneMatch, May, Once, permit};
use longshore_kernel::crypto::sha256;
use longshore_kernel::ids::ExpeditionId;
use longshore_kernel::problem::Problem;
use longshore_kernel::services::Services;

use crate::routes::catalog::image::BODY_LIMIT;
use crate::routes::view;

/// Another invoice may take its place, so it is asked for each time.
const CACHE: &str = "private, no-cache";

/// An invoice in a form.
#[derive(Debug)]
pub struct Invoice;

impl FormFile for Invoice {
    const NAME: &'static str = "invoice";
    const LIMIT: usize = LARGEST;
}

/// `POST /api/expedition/{id}/invoice`: 201 with the stored invoice.
pub async fn upload_expedition_invoice(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteExpeditions>,
    Id(id): Id<ExpeditionId>,
    once: Once,
    upload: FileUpload<Invoice, BODY_LIMIT>,
) -> Result<Response, Failure> {
    let (hash, file) = match upload {
        FileUpload::Form(form) => {
            let file = File { member: Invoice::NAME, name: form.file_name, bytes: form.bytes };
            (sha256(&file.bytes), file)
        }
        FileUpload::Json(body) => {
            let upload = upload_body::read(body.value)?;
            (body.hash, File { member: "data", name: upload.file_name, bytes: upload.bytes })
        }
    };
    view::once(&once, &services, may.0, &hash, async |context| {
        invoice::upload(&services, context, id, file).await
    })
    .await
}

/// `GET /api/expedition/{id}/invoice`: the bytes.
pub async fn get_expedition_invoice(
    State(services): State<Arc<Services>>,
    may: May<permit::ReadExpeditions>,
    Id(id): Id<ExpeditionId>,
    if_none_match: IfNoneMatch,
) -> Result<Response, Failure> {
    let found = invoice::find(&services, may.scope(), id).await?;
    let value = |text: &str| HeaderValue::from_str(text).map_err(Problem::internal);
    let etag = found.etag();
    let version = [(ETAG, value(&etag)?), (CACHE_CONTROL, HeaderValue::from_static(CACHE))];
    if if_none_match.has(&etag) {
        return Ok((StatusCode::NOT_MODIFIED, version).into_response());
    }
    let bytes = invoice::read(&services, &found).await?;
    let name = encoded(&found.original_name);
    let about: [(HeaderName, HeaderValue); 3] = [
        (CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE)),
        (CONTENT_LENGTH, HeaderValue::from(found.size)),
        // a file to keep, not a page of this origin
        (CONTENT_DISPOSITION, value(&format!("attachment; filename*=UTF-8''{name}"))?),
    ];
    Ok((version, about, Body::from_stream(bytes)).into_response())
}

/// A name as a header has it (RFC 8187).
fn encoded(name: &str) -> String {
    let byte = |byte: u8| match byte {
        plain if plain.is_ascii_alphanumeric() || b"-._".contains(&plain) => char::from(plain).to_string(),
        other => format!("%{other:02X}"),
    };
    name.bytes().map(byte).collect()
}

/// `DELETE /api/expedition/{id}/invoice`: 204.
pub async fn delete_expedition_invoice(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteExpeditions>,
    Id(id): Id<ExpeditionId>,
) -> Result<Response, Failure> {
    Ok(view::answer(&invoice::delete(&services, &may, id).await?)?)
}

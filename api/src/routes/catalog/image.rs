//! Images of products: uploaded as JSON or as a form, served unchanged.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, ETAG};
use http::{HeaderName, HeaderValue, StatusCode};
use longshore_domain::catalog::image::{self, LARGEST, upload_body};
use longshore_http::extract::{
    Failure, FileForm, FormFile, Id, Ids, IfNoneMatch, JsonBody, May, Once, permit,
};
use longshore_kernel::crypto::sha256;
use longshore_kernel::ids::{ImageId, ProductId};
use longshore_kernel::problem::Problem;
use longshore_kernel::services::Services;

use crate::routes::view;

/// The largest image in base64, and room for the rest of the body.
pub(in crate::routes) const BODY_LIMIT: usize = LARGEST.div_ceil(3) * 4 + 64 * 1024;

/// An image never changes, but it may be deleted, and only some callers may see it.
const CACHE: &str = "private, max-age=3600";

/// An image in a form.
#[derive(Debug)]
pub struct Picture;

impl FormFile for Picture {
    const NAME: &'static str = "image";
    const LIMIT: usize = LARGEST;
}

/// `PUT /api/product/{productId}/image/upload`: 201 with the stored image.
pub async fn upload_product_image_json(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteProducts>,
    Id(product): Id,
    once: Once,
    body: JsonBody<BODY_LIMIT>,
) -> Result<Response, Failure> {
    let bytes = upload_body::read(body.value)?.bytes;
    view::once(&once, &services, may.0, &body.hash, async |context| {
        image::upload(&services, context, product, "data", bytes).await
    })
    .await
}

/// `POST /api/product/{productId}/image/upload`: the same from a form.
pub async fn upload_product_image_form(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteProducts>,
    Id(product): Id,
    once: Once,
    form: FileForm<Picture>,
) -> Result<Response, Failure> {
    view::once(&once, &services, may.0, &sha256(&form.bytes), async |context| {
        image::upload(&services, context, product, "image", form.bytes).await
    })
    .await
}

/// `GET /api/product/{productId}/{imageId}`: the bytes.
pub async fn get_product_image(
    State(services): State<Arc<Services>>,
    may: May<permit::Read>,
    Ids(product, id): Ids<ProductId, ImageId>,
    if_none_match: IfNoneMatch,
) -> Result<Response, Failure> {
    let found = image::find(&services, may.scope(), product.get(), id.get()).await?;
    let value = |text: &str| HeaderValue::from_str(text).map_err(Problem::internal);
    let version = [(ETAG, value(&found.etag)?), (CACHE_CONTROL, HeaderValue::from_static(CACHE))];
    if if_none_match.has(&found.etag) {
        return Ok((StatusCode::NOT_MODIFIED, version).into_response());
    }
    let bytes = image::read(&services, &found).await?;
    let about: [(HeaderName, HeaderValue); 2] =
        [(CONTENT_TYPE, value(&found.content_type)?), (CONTENT_LENGTH, HeaderValue::from(found.size))];
    Ok((version, about, Body::from_stream(bytes)).into_response())
}

/// `DELETE /api/product/{productId}/{imageId}`: 204.
pub async fn delete_product_image(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteProducts>,
    Ids(product, id): Ids<ProductId, ImageId>,
) -> Result<Response, Failure> {
    Ok(view::answer(&image::delete(&services, &may, product.get(), id.get()).await?)?)
}

//! The style sheet, the script and the icon: in the binary, and named by their content, so that a browser keeps each until it
//! changes.

use std::sync::LazyLock;

use axum::response::{IntoResponse, Response};
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use longshore_shared::platform::crypto::sha256;
use longshore_shared::platform::problem::Problem;

use crate::extract::{Failure, Segment};

struct Asset {
    name: &'static str,
    media_type: &'static str,
    content: &'static str,
}

const ASSETS: [Asset; 3] = [
    Asset {
        name: "console.css",
        media_type: "text/css; charset=utf-8",
        content: include_str!("asset/console.css"),
    },
    Asset {
        name: "console.js",
        media_type: "text/javascript; charset=utf-8",
        content: include_str!("asset/console.js"),
    },
    Asset { name: "icon.svg", media_type: "image/svg+xml", content: include_str!("asset/icon.svg") },
];

static ADDRESSES: LazyLock<Vec<(&'static str, String)>> = LazyLock::new(|| {
    ASSETS
        .iter()
        .map(|asset| {
            let [a, b, c, d, ..] = sha256(asset.content.as_bytes());
            (asset.name, format!("/console/asset/{}?{a:02x}{b:02x}{c:02x}{d:02x}", asset.name))
        })
        .collect()
});

/// Where pages find one.
pub(super) fn address(name: &str) -> &'static str {
    ADDRESSES.iter().find(|(known, _)| *known == name).map_or("", |(_, address)| address)
}

/// `GET /console/asset/{name}`.
pub(super) async fn show(Segment(name): Segment) -> Result<Response, Failure> {
    let asset = ASSETS.iter().find(|asset| asset.name == name).ok_or_else(|| Problem::not_found("asset"))?;
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static(asset.media_type)),
        (CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable")),
    ];
    Ok((headers, asset.content).into_response())
}

//! The style sheets, scripts and icon, embedded in the binary. Their names contain a hash, so that browsers
//! cache each until it changes.

use std::sync::LazyLock;

use axum::response::Response;
use longshore_http::extract::{Failure, Segment};
use longshore_http::fixed::{Fixed, HowAsked};
use longshore_kernel::crypto::sha256;
use longshore_kernel::problem::Problem;

struct Asset {
    name: &'static str,
    media_type: &'static str,
    content: &'static str,
}

const ASSETS: [Asset; 6] = [
    Asset {
        name: "console.css",
        media_type: "text/css; charset=utf-8",
        content: include_str!("asset/console.css"),
    },
    Asset {
        name: "dark.css",
        media_type: "text/css; charset=utf-8",
        content: include_str!("asset/dark.css"),
    },
    Asset {
        name: "console.js",
        media_type: "text/javascript; charset=utf-8",
        content: include_str!("asset/console.js"),
    },
    // uPlot (asset/uplot/LICENSE) draws the charts
    Asset {
        name: "uplot.css",
        media_type: "text/css; charset=utf-8",
        content: include_str!("asset/uplot/uPlot.min.css"),
    },
    Asset {
        name: "uplot.js",
        media_type: "text/javascript; charset=utf-8",
        content: include_str!("asset/uplot/uPlot.iife.min.js"),
    },
    Asset { name: "icon.svg", media_type: "image/svg+xml", content: include_str!("asset/icon.svg") },
];

static FILES: LazyLock<Vec<(&'static str, Fixed)>> = LazyLock::new(|| {
    let file = |asset: &Asset| Some((asset.name, Fixed::new(asset.media_type, asset.content).ok()?));
    ASSETS.iter().filter_map(file).collect()
});

static ADDRESSES: LazyLock<Vec<(&'static str, String)>> = LazyLock::new(|| {
    ASSETS
        .iter()
        .map(|asset| {
            let [a, b, c, d, ..] = sha256(asset.content.as_bytes());
            (asset.name, format!("/console/asset/{}?{a:02x}{b:02x}{c:02x}{d:02x}", asset.name))
        })
        .collect()
});

/// The URL of an asset.
pub(super) fn address(name: &str) -> &'static str {
    ADDRESSES.iter().find(|(known, _)| *known == name).map_or("", |(_, address)| address)
}

/// `GET /console/asset/{name}`.
pub(super) async fn show(Segment(name): Segment, asked: HowAsked) -> Result<Response, Failure> {
    let (_, asset) =
        FILES.iter().find(|(known, _)| *known == name).ok_or_else(|| Problem::not_found("asset"))?;
    Ok(asset.answer(&asked, "public, max-age=31536000, immutable")?)
}

//! Static files of the pages.

use std::sync::LazyLock;

use super::{File, SITE, search};

/// The files, with their types.
const FILES: [(&str, &str, &str); 3] = [
    ("docs.css", "text/css; charset=utf-8", include_str!("asset/docs.css")),
    ("docs.js", "text/javascript; charset=utf-8", include_str!("asset/docs.js")),
    ("icon.svg", "image/svg+xml", include_str!("../../../console/src/asset/icon.svg")),
];

pub(super) fn find(name: &str) -> Option<File> {
    static INDEX: LazyLock<String> = LazyLock::new(|| search::index(&SITE));
    if name == "search.json" {
        return Some(File { media_type: "application/json", content: INDEX.as_str().into() });
    }
    let (_, media_type, content) = FILES.into_iter().find(|(known, ..)| *known == name)?;
    Some(File { media_type, content: content.into() })
}

//! The layout of every page, and the headers that protect it.

use std::time::Duration;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{Html, Response};
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_FRAME_OPTIONS};
use http::{HeaderName, HeaderValue};
use longshore_http::middleware::compress::AsItIs;
use maud::{DOCTYPE, Markup, html};

use super::form::FORM_TOKEN;
use super::theme::Theme;
use super::{asset, counts};

/// Only files from this origin, no inline styles or scripts, and no framing.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Headers of every answer of the console.
const HEADERS: [(HeaderName, &str); 4] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_FRAME_OPTIONS, "DENY"),
    // with `no-referrer`, browsers would not send the origin of a form
    (REFERRER_POLICY, "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// Sets the headers. A page contains a form token, so it is not compressed, nor cached unless it says
/// otherwise.
pub(super) async fn protect(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    let is_page = |media: &HeaderValue| media.as_bytes().starts_with(b"text/html");
    if headers.get(CONTENT_TYPE).is_some_and(is_page) {
        response.extensions_mut().insert(AsItIs);
    }
    response
}

/// The sections of the console, in the order of the navigation bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    Overview,
    Orders,
    Products,
    Queues,
    Jobs,
    Failures,
    Webhooks,
    Deliveries,
    Syncs,
    Warehouses,
    Audit,
}

impl Section {
    const ALL: [(Self, &'static str, &'static str); 11] = [
        (Self::Overview, "Overview", "/console"),
        (Self::Orders, "Orders", "/console/order"),
        (Self::Products, "Products", "/console/product"),
        (Self::Queues, "Queues", "/console/queue"),
        (Self::Jobs, "Jobs", "/console/job"),
        (Self::Failures, "Failures", "/console/failure"),
        (Self::Webhooks, "Webhooks", "/console/webhook"),
        (Self::Deliveries, "Deliveries", "/console/delivery"),
        (Self::Syncs, "Syncs", "/console/sync"),
        (Self::Warehouses, "Warehouses", "/console/wms"),
        (Self::Audit, "Audit", "/console/audit"),
    ];

    /// The section of a path.
    pub(super) fn of(path: &str) -> Option<Self> {
        let room = path.strip_prefix("/console")?.trim_start_matches('/').split('/').next()?;
        match room {
            "" | "attention" => Some(Self::Overview),
            "replay" | "reader" => Some(Self::Webhooks),
            // its rows become a job
            "import" => Some(Self::Jobs),
            // workers serve the queues
            "worker" => Some(Self::Queues),
            // e-shops belong to the section of their syncs
            "eshop" | "organisation" | "schedule" => Some(Self::Syncs),
            // what is shipped by whom, beside where from
            "preference" => Some(Self::Warehouses),
            room => {
                let known = |address: &str| address.strip_prefix("/console/") == Some(room);
                Self::ALL.iter().find(|(_, _, address)| known(address)).map(|(section, ..)| *section)
            }
        }
    }
}

/// The parts around the content of a page.
#[derive(Debug)]
pub(super) struct Chrome<'c> {
    /// The name of the visitor.
    pub(super) name: &'c str,
    /// The role of the visitor.
    pub(super) role: &'c str,
    pub(super) form_token: &'c str,
    /// A message about the last action.
    pub(super) said: Option<String>,
    /// The URL of the page's updates.
    pub(super) live: Option<&'c str>,
    /// How often there is one, if the visitor has chosen it.
    pub(super) every: Option<Duration>,
    /// What was searched for.
    pub(super) sought: Option<&'c str>,
    pub(super) theme: Theme,
    /// The page itself, to which a change of the theme leads back.
    pub(super) here: &'c str,
    /// The counts under the bar.
    pub(super) counts: &'c Markup,
}

/// A page, with its section marked in the navigation bar.
pub(super) fn page(
    chrome: &Chrome<'_>,
    section: Option<Section>,
    title: &str,
    content: &Markup,
) -> Html<String> {
    let every = chrome.every.map(|every| every.as_secs());
    let body = html! {
        header.bar {
            a.brand href="/console" { img src=(asset::address("icon.svg")) alt="" width="20" height="20"; "Longshore" }
            // as a form: a token that is looked for belongs in no URL
            form.find method="post" action="/console/find" role="search" aria-label="Everything" {
                input type="hidden" name=(FORM_TOKEN) value=(chrome.form_token);
                label.hidden for="find" { "Find a SKU, product, order, e-shop, organisation, destination, or any id" }
                input #find type="search" name="q" value=[chrome.sought] placeholder="SKU, order, e-shop, host, id" maxlength="200"
                    autocomplete="off" spellcheck="false" aria-keyshortcuts="/ Control+K Meta+K";
            }
            nav aria-label="Pages" {
                @for (room, name, address) in Section::ALL {
                    a href=(address) aria-current=[(Some(room) == section).then_some("page")] { (name) }
                }
            }
            div.who {
                // the style sheet cuts a long name
                a href="/console/account" title=(chrome.name) { span.visitor { (chrome.name) } " " span.muted { (chrome.role) } }
                form method="post" action="/console/logout" {
                    input type="hidden" name=(FORM_TOKEN) value=(chrome.form_token);
                    button.plain type="submit" { "Log out" }
                }
            }
        }
        div id=(counts::ID) { (chrome.counts) }
        main #main data-live=[chrome.live] data-every=[chrome.live.and(every)] {
            // empty while the page is up to date
            @if chrome.live.is_some() { p #stale .stale role="status" {} }
            @if let Some(said) = &chrome.said { p.said role="status" { (said) } }
            (content)
        }
        footer {
            span { "Longshore " (env!("CARGO_PKG_VERSION")) }
            nav aria-label="Help" {
                a href="/docs" { "Documentation" }
                a href="/docs/glossary" { "Glossary" }
            }
            // the script shows it: without one, times are in UTC
            button #zone .plain type="button" hidden {}
            (themes(chrome))
        }
        dialog #dialog aria-label="Confirm" {}
        dialog #palette aria-label="Find" {}
    };
    document(title, chrome.theme, &body, every)
}

/// The themes, in the footer.
fn themes(chrome: &Chrome<'_>) -> Markup {
    html! {
        form.theme method="post" action="/console/theme" aria-label="Theme" {
            input type="hidden" name=(FORM_TOKEN) value=(chrome.form_token);
            input type="hidden" name="back" value=(chrome.here);
            @for (theme, word, name) in Theme::ALL {
                button.plain type="submit" name="to" value=(word) aria-pressed=[(theme == chrome.theme).then_some("true")] { (name) }
            }
        }
    }
}

/// A page for visitors who are not logged in.
pub(super) fn bare(title: &str, content: &Markup) -> Html<String> {
    let body = html! {
        header.bar {
            a.brand href="/console" { img src=(asset::address("icon.svg")) alt="" width="20" height="20"; "Longshore" }
        }
        main #main { (content) }
    };
    document(title, Theme::System, &body, None)
}

fn document(title: &str, theme: Theme, body: &Markup, every: Option<u64>) -> Html<String> {
    let document = html! {
        (DOCTYPE)
        html lang="en" data-theme=[theme.forced()] {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " – Longshore" }
                link rel="icon" href=(asset::address("icon.svg")) type="image/svg+xml";
                link rel="stylesheet" href=(asset::address("console.css"));
                @if theme != Theme::Light {
                    link rel="stylesheet" href=(asset::address("dark.css")) media=[(theme == Theme::System).then_some("(prefers-color-scheme: dark)")];
                }
                script src=(asset::address("console.js")) defer {}
                @if let Some(every) = every { noscript { meta http-equiv="refresh" content=(every); } }
            }
            body {
                a.skip href="#main" { "Skip to the content" }
                (body)
            }
        }
    };
    Html(document.into_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_is_in_its_section() {
        for (section, _, address) in Section::ALL {
            assert_eq!(Section::of(address), Some(section), "{address}");
        }
        assert_eq!(Section::of("/console/"), Some(Section::Overview));
        assert_eq!(Section::of("/console/attention/7/mute"), Some(Section::Overview));
        assert_eq!(Section::of("/console/job/7/cancel"), Some(Section::Jobs));
        assert_eq!(Section::of("/console/order/attention"), Some(Section::Orders));
        assert_eq!(Section::of("/console/product/activate"), Some(Section::Products));
        assert_eq!(Section::of("/console/delivery/7"), Some(Section::Deliveries));
        assert_eq!(Section::of("/console/replay"), Some(Section::Webhooks));
        assert_eq!(Section::of("/console/reader/7/edit"), Some(Section::Webhooks));
        assert_eq!(Section::of("/console/worker/host-7"), Some(Section::Queues));
        assert_eq!(Section::of("/console/preference/7/edit"), Some(Section::Warehouses));
        assert_eq!(Section::of("/console/nothing"), None);
    }
}

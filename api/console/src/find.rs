//! The search of the bar: everything that an operator may have at hand leads to its page.

use axum::response::{IntoResponse as _, Redirect, Response};
use longshore_domain::account::token::is_token;
use longshore_http::extract::{Failure, permit};
use longshore_kernel::problem::Problem;
use longshore_operate::find::{self, Group, Hit, Kind, SHOWN};
use maud::{Markup, html};
use url::form_urlencoded;

use super::form::CHARACTERS;
use super::layout::Section;
use super::piece::empty;
use super::visit::{Act, Visit};

/// What can be found, for an empty search.
const ADVICE: &str = "A SKU, the beginning of a product's name, an order or tracking number, an e-shop, an organisation, the host of \
                      a destination, a warehouse system or its host, a carrier, an access token (its name, or itself), a person, any id, a request id, or a \
                      trace id.";

/// `GET /console/find?q=`.
pub(super) async fn show(visit: Visit<permit::Read>) -> Result<Response, Failure> {
    let text = visit.asked.text("q").map_err(|_| {
        let message = format!(
            "what is looked for must have at most {CHARACTERS} characters and must not contain U+0000"
        );
        Problem::violation("", "invalid_length", message)
    })?;
    found(&visit, &text.unwrap_or_default()).await
}

/// `POST /console/find`: leads to the page of what is looked for, but for a token, which stands in no URL.
pub(super) async fn seek(act: Act<permit::Read>) -> Result<Response, Failure> {
    match act.form.get("q") {
        Some(text) if is_token(text) => found(&act.visit, text).await,
        text => {
            Ok(Redirect::to(&format!("/console/find?{}", query("q", text.unwrap_or_default())))
                .into_response())
        }
    }
}

/// The page of the only hit, or all hits.
async fn found<P>(visit: &Visit<P>, text: &str) -> Result<Response, Failure> {
    let groups = find::find(visit.db(), visit.may.caller.role, visit.scope(), text).await?;
    if let [(kind, hits)] = &groups[..]
        && let [hit] = &hits[..]
    {
        return Ok(Redirect::to(&address(*kind, hit)).into_response());
    }
    let content = html! {
        @if text.is_empty() {
            h1 { "Find" }
            (empty("Nothing to look for.", ADVICE))
        } @else {
            h1 { @if is_token(text) { "Results for an access token" } @else { "Results for “" (text) "”" } }
            @if groups.is_empty() {
                (empty("Nothing found.", ADVICE))
            }
            @for group in &groups { (section(group, text)) }
        }
    };
    Ok(visit.page(None::<Section>, "Find", &content))
}

fn section((kind, hits): &Group, text: &str) -> Markup {
    let is_more = hits.len() > SHOWN;
    html! {
        section aria-labelledby={"found-" (kind)} {
            h2 id={"found-" (kind)} { (title(*kind)) }
            ul.hits {
                @for hit in hits.iter().take(SHOWN) {
                    li { a href=(address(*kind, hit)) { (hit.name) } @if let Some(of) = &hit.of { " " span.muted { (of) } } }
                }
            }
            @if is_more {
                p.muted {
                    "The first " (SHOWN) ". "
                    @match kind {
                        Kind::Webhook => a href={"/console/webhook?" (query("text", text))} { "All webhooks" },
                        Kind::Product => a href={"/console/product?" (query("name", text))} { "All products" },
                        Kind::Eshop => a href={"/console/sync?" (query("name", text))} { "All e-shops" },
                        Kind::Wms => a href={"/console/wms?" (query("text", text))} { "All warehouse systems" },
                        _ => "Search for more of the name to see fewer.",
                    }
                }
            }
        }
    }
}

fn title(kind: Kind) -> &'static str {
    match kind {
        Kind::Eshop => "E-shops",
        Kind::Organisation => "Organisations",
        Kind::Product => "Products",
        Kind::Order => "Orders",
        Kind::Webhook => "Webhooks",
        Kind::Job => "Jobs",
        Kind::Delivery => "Deliveries",
        Kind::Wms => "Warehouse systems",
        Kind::Preference => "Carrier preferences",
        Kind::Token => "Access tokens",
        Kind::Account => "Accounts",
        Kind::Request => "Requests",
        Kind::Entity => "Records of the audit",
    }
}

fn address(kind: Kind, hit: &Hit) -> String {
    match kind {
        Kind::Request => format!("/console/audit?{}", query("request", &hit.name)),
        Kind::Account => format!("/console/audit?by={}", hit.id),
        Kind::Entity => format!("/console/audit?entity={}", hit.id),
        Kind::Token => format!("/console/token?id={}", hit.id),
        Kind::Preference => match hit.listed_with {
            Some(organisation) => format!("/console/{kind}?organisation={organisation}"),
            None => format!("/console/{kind}"),
        },
        kind => format!("/console/{kind}/{}", hit.id),
    }
}

fn query(name: &str, value: &str) -> String {
    form_urlencoded::Serializer::new(String::new()).append_pair(name, value).finish()
}

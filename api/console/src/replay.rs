//! Replaying deliveries: which ones, how many these are, and the job that sends them again.

use std::collections::HashMap;

use axum::response::{IntoResponse as _, Response};
use chrono::{DateTime, SecondsFormat, Utc};
use http::StatusCode;
use longshore_domain::webhook::delivery::replay::{self, COUNTED_AT_ONCE, Count};
use longshore_domain::webhook::event::TYPES;
use longshore_domain::webhook::health;
use longshore_http::extract::{Failure, permit};
use longshore_kernel::ids::WebhookId;
use longshore_kernel::problem::Problem;
use longshore_operate::named as names;
use maud::{Markup, html};
use serde_json::{Map, Value, json};
use url::Url;
use uuid::Uuid;

use super::form::{Asked, Refused};
use super::job;
use super::layout::Section;
use super::period;
use super::piece::{
    self, alert, checked, counted, empty, number, options, seconds, sentence, suggested, switch,
};
use super::visit::{Act, Done, Visit, done};

const HERE: &str = "/console/replay";

/// The fields of the form.
const FIELDS: [&str; 7] = ["webhooks", "eshop", "host", "since", "until", "delivered", "event"];

type Asking = Visit<permit::WriteWebhooks>;

/// `GET /console/replay?webhooks=…`: the form, and the count of what it says.
pub(super) async fn show(visit: Asking) -> Result<Response, Failure> {
    let asked = with_period(&visit.asked, visit.now())?;
    let is_new = asked.get("since").is_none() && !visit.asked.0.iter().any(|(name, _)| name == "since");
    // nothing is counted for a form that is new, nor for a replay that was refused
    if is_new || !visit.refused.is_empty() {
        return Ok(page(&visit, &asked, &visit.refused, None).await?);
    }
    let count = match body(&visit, &asked).await {
        Ok(body) => replay::count_at_once(visit.services(), visit.scope(), body).await,
        Err(problem) => Err(problem),
    };
    match count {
        Ok(count) => Ok(page(&visit, &asked, &Refused::default(), Some(&count)).await?),
        Err(problem) => refuse(&visit, &asked, problem).await,
    }
}

/// `POST /console/replay`.
pub(super) async fn start(act: Act<permit::WriteWebhooks>) -> Result<Response, Failure> {
    let Act { visit, form } = act;
    let body = body(&visit, &form).await?;
    let answer = replay::replay(visit.services(), &visit.may, body).await?;
    Ok(done(&job::page(&answer)?, Done::Replaying, None))
}

async fn refuse(visit: &Asking, asked: &Asked, problem: Problem) -> Result<Response, Failure> {
    let refused = Refused::fields(problem)?;
    let page = page(visit, asked, &refused, None).await?;
    Ok((StatusCode::BAD_REQUEST, page).into_response())
}

/// What was asked, where a period was chosen with its beginning.
fn with_period(asked: &Asked, now: DateTime<Utc>) -> Result<Asked, Problem> {
    let fields = asked.0.iter().filter(|(name, _)| FIELDS.contains(&name.as_str())).cloned();
    let Some(since) = period::since(asked, now)? else { return Ok(Asked(fields.collect())) };
    let fields = fields.filter(|(name, _)| name != "since" && name != "until");
    let since = since.format("%Y-%m-%dT%H:%M:%S").to_string();
    Ok(Asked(fields.chain([("since".to_owned(), since)]).collect()))
}

/// The body of the API that a form says.
async fn body(visit: &Asking, asked: &Asked) -> Result<Value, Problem> {
    let mut body = Map::new();
    let webhooks: Vec<&str> = asked.all("webhooks").collect();
    if !webhooks.is_empty() {
        body.insert("webhooks".to_owned(), json!(webhooks));
    }
    let eshop: Option<Uuid> = visit.named(asked, names::Kind::Eshop, "eshop").await?;
    body.extend(eshop.map(|eshop| ("eshop".to_owned(), json!(eshop))));
    for name in ["host", "event"] {
        if let Some(text) = asked.get(name) {
            body.insert(name.to_owned(), json!(text));
        }
    }
    for name in ["since", "until"] {
        if let Some(at) = asked.moment(name)? {
            body.insert(name.to_owned(), json!(at.to_rfc3339_opts(SecondsFormat::Secs, true)));
        }
    }
    body.insert("delivered".to_owned(), json!(asked.get("delivered") == Some("true")));
    Ok(body.into())
}

async fn page(
    visit: &Asking,
    asked: &Asked,
    refused: &Refused,
    count: Option<&Count>,
) -> Result<Response, Problem> {
    let named: Vec<WebhookId> = asked.all("webhooks").filter_map(WebhookId::parse).collect();
    let destinations: HashMap<_, _> =
        health::destinations(visit.db(), visit.scope(), &named).await?.into_iter().collect();
    let content = html! {
        p.trail { a href="/console/webhook" { "Webhooks" } " / replay" }
        h1 { "Replay deliveries" }
        p.muted {
            "Events are sent again, each once to each webhook, with the same " code { "webhook-id" }
            ". Deliveries that wait for their next attempt become due now."
        }
        (period::choice(asked, HERE, &[]))
        (form(visit, asked, refused, &named, &destinations).await?)
        @if let Some(count) = count { (found(visit, asked, count)) }
    };
    Ok(visit.page(Section::Webhooks, "Replay deliveries", &content))
}

async fn form(
    visit: &Asking,
    asked: &Asked,
    refused: &Refused,
    named: &[WebhookId],
    destinations: &HashMap<WebhookId, String>,
) -> Result<Markup, Problem> {
    let only = match named {
        [only] => health::find(visit.db(), visit.scope(), *only).await?,
        _ => None,
    };
    let host =
        only.as_ref().and_then(|webhook| Some(Url::parse(&webhook.destination).ok()?.host_str()?.to_owned()));
    let (eshops, hosts) = tokio::try_join!(
        names::suggestions(visit.db(), visit.scope(), names::Kind::Eshop),
        names::hosts(visit.db(), visit.scope()),
    )?;
    let types = TYPES.iter().map(|kind| (kind.name, kind.name));
    Ok(html! {
        form.editor method="get" action=(HERE) {
            (alert(refused, &FIELDS))
            fieldset {
                legend { "Webhooks" }
                @for id in named {
                    label.switch-box {
                        input type="checkbox" name="webhooks" value=(id) checked;
                        span { (destinations.get(id).map_or("an unknown webhook", String::as_str)) }
                    }
                }
                (suggested(asked, refused, "eshop", "E-shop (name or id)", &eshops))
                (suggested(asked, refused, "host", "Host of the destination", &hosts))
                @if let Some(wrong) = refused.message("webhooks") { p.wrong { (sentence(wrong)) "." } }
                @if let Some(webhook) = &only {
                    p.muted {
                        "Instead of this webhook: "
                        @if let Some(eshop) = webhook.eshop_id {
                            a href=(asked.address(HERE, &["webhooks"], &[("eshop", &eshop.to_string())])) { "all of " (webhook.eshop) }
                            ", "
                        }
                        @if let Some(host) = &host {
                            a href=(asked.address(HERE, &["webhooks"], &[("host", host)])) { "all to " (host) }
                        }
                    }
                }
            }
            fieldset {
                legend { "Ended" }
                (checked(asked, refused, "since", "Since (UTC)", "datetime-local"))
                (checked(asked, refused, "until", "Before (UTC)", "datetime-local"))
            }
            fieldset {
                legend { "Deliveries" }
                (options(asked, refused, "event", "Event", [("", "any event")].into_iter().chain(types)))
                (switch(asked, "delivered", "Also those that were delivered"))
            }
            div.buttons {
                button.primary type="submit" { "Count" }
                a.button href="/console/webhook" { "Back" }
            }
        }
    })
}

/// What a replay would send, and the form that starts it.
fn found(visit: &Asking, asked: &Asked, count: &Count) -> Markup {
    let least = |of: i64| {
        if count.at_least && of >= COUNTED_AT_ONCE { piece::up_to(of, COUNTED_AT_ONCE) } else { number(of) }
    };
    let fields = html! {
        @for name in FIELDS { @for value in asked.all(name) { input type="hidden" name=(name) value=(value); } }
    };
    let all = counted(count.total, "delivery", "deliveries");
    let button = if count.at_least { format!("Replay {all} or more") } else { format!("Replay {all}") };
    html! {
        section aria-labelledby="count-title" {
            h2 #count-title { "What would be sent" }
            @if count.total == 0 && !count.at_least {
                (empty("Nothing to send.", "No delivery matches, or all that match are on their way. Choose a longer period, or include those that were delivered."))
            } @else {
                dl.facts {
                    div { dt { "Webhooks" } dd { (count.webhooks) } }
                    div { dt { "Waiting" } dd { (least(count.waiting)) } }
                    div { dt { "Failed" } dd { (least(count.failed)) } }
                    @if asked.get("delivered") == Some("true") { div { dt { "Delivered" } dd { (least(count.delivered)) } } }
                    div { dt { "In all" } dd { (number(count.total)) @if count.at_least { "+" } } }
                    div { dt { @if count.at_least { "Takes at least" } @else { "Takes about" } } dd { @match count.seconds { Some(time) => (seconds(time)), None => (piece::none()) } } }
                }
                p.muted {
                    @if count.seconds.is_some() { "The time is that of the calls, at the recent pace of the destinations. " }
                    @else { "No destination has delivered lately, so the time is unknown. " }
                    "Each event counts once. What is on its way already is not counted, and an event that is no longer kept is left."
                }
                (visit.form(HERE, &button, "/console/webhook", &fields))
            }
        }
    }
}

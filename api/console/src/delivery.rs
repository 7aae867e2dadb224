//! Deliveries: those of all webhooks, those of one, the details of one, and redelivery.

pub(super) mod all;
mod list;
mod redelivery;
mod request;

use axum::response::Response;
use chrono::{DateTime, Utc};
use futures::FutureExt as _;
use longshore_domain::webhook::delivery::search::{self, Delivery};
use longshore_domain::webhook::event::TEST;
use longshore_domain::webhook::health::Webhook;
use longshore_http::extract::{Failure, Id, permit};
use longshore_kernel::access::Permission;
use longshore_kernel::answer::Answer;
use longshore_kernel::ids::DeliveryId;
use longshore_kernel::noun::noun;
use longshore_kernel::problem::Problem;
use maud::{Markup, html};
use serde_json::Value;

pub(super) use self::list::{ended, waiting, wanted};
pub(super) use self::redelivery::{
    ask, ask_any, ask_matching, ask_selected, redeliver, redeliver_any, redeliver_matching,
    redeliver_selected,
};
use super::address;
use super::layout::Section;
use super::live::{self, Part, Parts, part};
use super::piece::{
    self, Tone, attempt_time, attempted_at, badge, empty, full_time, milliseconds, none, state, status, time,
};
use super::visit::Visit;

/// `GET /console/delivery/{id}`.
pub(super) async fn show(
    Id(id): Id<DeliveryId>,
    visit: Visit<permit::ReadWebhooks>,
) -> Result<Response, Failure> {
    let delivery = find(&visit, id).await?;
    let webhook = webhook(&visit, &delivery).await?;
    let authentication = webhook.as_ref().map(|webhook| webhook.authentication_type.as_str());
    let [standing, attempts] = parts(&visit, &delivery, webhook.as_ref());
    let content = html! {
        p.trail {
            a href="/console/delivery" { "Deliveries" } " / "
            a href={"/console/webhook/" (delivery.webhook_id)} { (delivery.destination.as_deref().unwrap_or("deleted webhook")) }
            " / " (delivery.event.as_deref().unwrap_or("delivery"))
        }
        (part(&standing))
        (request::draw(&delivery, authentication))
        (part(&attempts))
    };
    let title = format!("Delivery {id}");
    // what has ended does not change
    Ok(if delivery.finished_at.is_none() {
        visit.live_page(Section::Deliveries, &title, &format!("/console/delivery/{id}/live"), &content)
    } else {
        visit.page(Section::Deliveries, &title, &content)
    })
}

/// `GET /console/delivery/{id}/live`.
pub(super) async fn follow(Id(id): Id<DeliveryId>, mut visit: Visit<permit::ReadWebhooks>) -> Response {
    visit.subject = Some(id.get());
    live::stream(visit, |visit| refreshed(visit).boxed())
}

async fn refreshed(visit: &Visit<permit::ReadWebhooks>) -> Result<Parts, Problem> {
    let id = visit.subject.ok_or_else(|| Problem::not_found("delivery"))?;
    let delivery = find(visit, id.into()).await?;
    let webhook = webhook(visit, &delivery).await?;
    Ok(parts(visit, &delivery, webhook.as_ref()).into())
}

/// What of the page changes while the delivery is sent.
fn parts(visit: &Visit<permit::ReadWebhooks>, delivery: &Delivery, webhook: Option<&Webhook>) -> [Part; 2] {
    let now = visit.now();
    let may = visit.can(Permission::WriteWebhooks);
    [("standing".into(), standing(delivery, webhook, may, now)), ("attempts".into(), attempts(delivery, now))]
}

/// The page of a delivery that was just accepted.
pub(super) fn page(accepted: &Answer) -> Result<String, Problem> {
    let shown: Value =
        serde_json::from_str(accepted.body.as_deref().unwrap_or("{}")).map_err(Problem::internal)?;
    Ok(format!("/console/delivery/{}", shown["id"].as_str().unwrap_or_default()))
}

/// The webhook of a delivery, unless it was deleted.
async fn webhook<P>(visit: &Visit<P>, delivery: &Delivery) -> Result<Option<Webhook>, Problem> {
    match delivery.destination {
        Some(_) => Ok(Some(visit.webhook(delivery.webhook_id).await?)),
        None => Ok(None),
    }
}

async fn find<P>(visit: &Visit<P>, id: DeliveryId) -> Result<Delivery, Problem> {
    search::find(visit.db(), visit.scope(), id).await?.ok_or_else(|| Problem::not_found("delivery"))
}

fn standing(delivery: &Delivery, webhook: Option<&Webhook>, may: bool, now: DateTime<Utc>) -> Markup {
    html! {
        header.title {
            h1 { (delivery.event.as_deref().unwrap_or("Delivery")) }
            (state(delivery.state))
            (example(delivery.event.as_deref(), delivery.is_test()))
            @if may && delivery.destination.is_some() && delivery.data.is_some() {
                div.buttons { a.button.primary href={"/console/delivery/" (delivery.id) "/redeliver"} data-ask="" { "Redeliver" } }
            }
        }
        dl.details {
            div { dt { "Made" } dd { (full_time(delivery.created_at, now)) } }
            @if let Some(at) = delivery.next_attempt_at { div { dt { "Next attempt" } dd { (full_time(at, now)) (held(webhook, now)) } } }
            @if let Some(at) = delivery.finished_at { div { dt { "Ended" } dd { (full_time(at, now)) } } }
            div { dt { "webhook-id" } dd { (piece::id(delivery.event_id)) } }
            div { dt { "Id" } dd { (piece::id(delivery.id)) } }
            div { dt { "Entity" } dd {
                @match delivery.entity {
                    Some(id) => {
                        @let kind = delivery.entity_type.as_deref().unwrap_or("");
                        (noun(kind)) " "
                        // the name is that of the record in the example
                        @let name = delivery.name.as_deref().filter(|_| !delivery.is_test());
                        a href=(address::of_record(kind, id)) { (name.unwrap_or("its page")) } " " (piece::id(id))
                    },
                    None => (none()),
                }
            } }
            @if let Some(id) = delivery.redelivery_of { div { dt { "Repeats" } dd { a href={"/console/delivery/" (id)} { "an earlier delivery" } " " (piece::id(id)) } } }
        }
    }
}

/// Marks the example of an event; of type `test` there is nothing else.
fn example(event: Option<&str>, is_test: bool) -> Markup {
    html! { @if is_test && event != Some(TEST.name) { " " (badge(Tone::Quiet, "example")) } }
}

/// What keeps a delivery from being sent when it is due.
fn held(webhook: Option<&Webhook>, now: DateTime<Utc>) -> Markup {
    let Some(webhook) = webhook else { return html! {} };
    html! {
        @if !webhook.active {
            ". Kept until the webhook is activated"
        } @else if let Some(until) = webhook.held_until {
            ". Held" (piece::until_asked(until, now))
        } @else if let Some(probe) = webhook.probe_at {
            ". Held by the breaker, which probes the destination " @if probe > now { (time(probe, now)) } @else { "now" }
        }
    }
}

fn attempts(delivery: &Delivery, now: DateTime<Utc>) -> Markup {
    let attempts: Vec<&Value> = delivery.attempts.as_array().into_iter().flatten().rev().collect();
    html! {
        section aria-labelledby="attempts-title" {
            h2 #attempts-title { "Attempts " span.muted { "newest first" } }
            @if attempts.is_empty() {
                (empty("No attempts yet.", "The delivery is waiting in the lane of its webhook. The page of the webhook shows the state of the lane."))
            }
            @for attempt in attempts {
                article.attempt {
                    header {
                        strong { "Attempt " (attempt["number"]) } (status(attempt)) (attempt_time(attempt, now))
                        @if let Some(ms) = attempt["durationMs"].as_f64() { span.muted { (milliseconds(ms)) } }
                        @if let Some(at) = attempted_at(attempt) { span.muted { "webhook-timestamp " code { (at.timestamp()) } } }
                    }
                    @if let Some(error) = attempt["error"].as_str() { p.error { (error) } }
                    @if let Some(headers) = attempt["headers"].as_object() {
                        details {
                            summary { "Headers of the answer" }
                            dl.headers { @for (name, value) in headers { div { dt { code { (name) } } dd { (value.as_str().unwrap_or_default()) } } } }
                        }
                    }
                    @if let Some(answer) = attempt["response"].as_str() && !answer.is_empty() { pre tabindex="0" { code { (answer) } } }
                }
            }
        }
    }
}

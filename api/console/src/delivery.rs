//! Deliveries: those of all webhooks, those of one, the details of one, and redelivery.

pub(super) mod all;
mod list;
mod redelivery;

use axum::response::Response;
use chrono::{DateTime, Utc};
use longshore_http::extract::{Failure, Id, permit};
use longshore_shared::kernel::access::Permission;
use longshore_shared::kernel::ids::DeliveryId;
use longshore_shared::kernel::problem::Problem;
use longshore_shared::webhook::delivery::search::{self, Delivery};
use maud::{Markup, html};
use serde_json::Value;

pub(super) use self::list::{ended, waiting, wanted};
pub(super) use self::redelivery::{
    ask, ask_any, ask_matching, ask_selected, redeliver, redeliver_any, redeliver_matching,
    redeliver_selected,
};
use super::layout::Section;
use super::piece::{self, attempt_time, attempted_at, empty, full_time, milliseconds, none, state, status};
use super::visit::Visit;

/// `GET /console/delivery/{id}`.
pub(super) async fn show(
    Id(id): Id<DeliveryId>,
    visit: Visit<permit::ReadWebhooks>,
) -> Result<Response, Failure> {
    let delivery = find(&visit, id).await?;
    let now = visit.now();
    let content = html! {
        p.trail {
            a href="/console/delivery" { "Deliveries" } " / "
            a href={"/console/webhook/" (delivery.webhook_id)} { (delivery.destination.as_deref().unwrap_or("deleted webhook")) }
            " / " (delivery.event.as_deref().unwrap_or("delivery"))
        }
        (standing(&delivery, visit.can(Permission::WriteWebhooks), now))
        (request(&delivery))
        (attempts(&delivery, now))
    };
    Ok(visit.page(Section::Deliveries, &format!("Delivery {id}"), &content))
}

async fn find<P>(visit: &Visit<P>, id: DeliveryId) -> Result<Delivery, Problem> {
    search::find(visit.db(), visit.scope(), id).await?.ok_or_else(|| Problem::not_found("delivery"))
}

fn standing(delivery: &Delivery, may: bool, now: DateTime<Utc>) -> Markup {
    html! {
        header.title {
            h1 { (delivery.event.as_deref().unwrap_or("Delivery")) }
            (state(delivery.state))
            @if may && delivery.destination.is_some() && delivery.data.is_some() {
                div.buttons { a.button.primary href={"/console/delivery/" (delivery.id) "/redeliver"} data-ask="" { "Redeliver" } }
            }
        }
        dl.details {
            div { dt { "Made" } dd { (full_time(delivery.created_at, now)) } }
            @if let Some(at) = delivery.next_attempt_at { div { dt { "Next attempt" } dd { (full_time(at, now)) } } }
            @if let Some(at) = delivery.finished_at { div { dt { "Ended" } dd { (full_time(at, now)) } } }
            div { dt { "webhook-id" } dd { (piece::id(delivery.event_id)) } }
            div { dt { "Id" } dd { (piece::id(delivery.id)) } }
            div { dt { "Entity" } dd {
                @match delivery.entity {
                    Some(id) => {
                        @let kind = delivery.entity_type.as_deref().unwrap_or("");
                        (kind.replace('_', " ")) " "
                        a href=(piece::page_of(kind, id)) { (delivery.name.as_deref().unwrap_or("its page")) } " " (piece::id(id))
                    },
                    None => (none()),
                }
            } }
            @if let Some(id) = delivery.redelivery_of { div { dt { "Repeats" } dd { a href={"/console/delivery/" (id)} { "an earlier delivery" } " " (piece::id(id)) } } }
        }
    }
}

/// The request: the body as it is sent and signed.
fn request(delivery: &Delivery) -> Markup {
    let body = delivery.body();
    html! {
        section aria-labelledby="request-title" {
            h2 #request-title { "Request" }
            @match body.as_deref() {
                Some(body) => {
                    p { code { "POST " (delivery.destination.as_deref().unwrap_or("")) } }
                    p.muted {
                        "The exact body. The signature covers the webhook-id, the webhook-timestamp of the attempt and this body, joined by dots."
                    }
                    pre.wrapped tabindex="0" role="region" aria-label="Body of the request" { code { (String::from_utf8_lossy(body)) } }
                    @if let Ok(body) = serde_json::from_slice(body) {
                        details { summary { "Formatted" } (piece::json(&body)) }
                    }
                },
                None => (empty("The event was removed.", "Events are kept for 37 days. The delivery cannot be sent again.")),
            }
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
                    @if let Some(answer) = attempt["response"].as_str() && !answer.is_empty() { pre tabindex="0" { code { (answer) } } }
                }
            }
        }
    }
}

//! Webhooks: the list by health, and the details of one webhook.

pub(super) mod choice;
pub(super) mod control;
pub(super) mod edit;
pub(super) mod list;
pub(super) mod reader;

use axum::response::{IntoResponse as _, Response};
use chrono::{DateTime, Utc};
use futures::FutureExt as _;
use http::StatusCode;
use longshore_domain::webhook::delivery::search::{self, Counts};
use longshore_domain::webhook::health::{self, Call, Record, WAITING, Webhook};
use longshore_http::extract::{Failure, Id, permit};
use longshore_kernel::access::Permission;
use longshore_kernel::activity::CALLS_HOURS;
use longshore_kernel::ids::WebhookId;
use longshore_kernel::problem::Problem;
use longshore_operate as operate;
use maud::{Markup, html};

use super::form::Refused;
use super::layout::Section;
use super::live::{self, Part, Parts, part};
use super::piece::{
    self, Tone, attempt_time, badge, counted, empty, full_time, milliseconds, none, number, organisation,
    source, state, status, time, up_to,
};
use super::secret::former;
use super::visit::Visit;
use super::{course, delivery};

/// The number of calls shown.
const CALLS: i64 = 10;

/// `GET /console/webhook/{id}`.
pub(super) async fn show(
    Id(id): Id<WebhookId>,
    visit: Visit<permit::ReadWebhooks>,
) -> Result<Response, Failure> {
    let webhook = visit.webhook(id).await?;
    let (wanted, refused) = Refused::of(delivery::wanted(&visit, &visit.asked).await)?;
    let db = visit.db();
    let (past, ([standing, calls, waiting], counts), ended) = tokio::try_join!(
        operate::course::of_webhook(db, id, course::span(&visit.asked)?),
        parts(&visit, &webhook),
        async {
            if refused.is_empty() {
                search::ended(db, id, &wanted).await
            } else {
                Ok(search::Page::default())
            }
        },
    )?;
    let may = visit.can(Permission::WriteWebhooks);
    let here = format!("/console/webhook/{id}");
    let content = html! {
        p.trail { a href="/console/webhook" { "Webhooks" } " / " (source(webhook.eshop_id, webhook.organisation_id, &webhook.eshop)) }
        (part(&standing))
        (part(&calls))
        (part(&waiting))
        (course::of_webhook(&visit.asked, &here, &past))
        (delivery::ended(&visit.asked, &refused, id, &counts, &ended, may, visit.now()))
        (course::script())
    };
    let title = format!("Webhook {}", webhook.destination);
    let page = visit.live_page(Section::Webhooks, &title, &format!("{here}/live"), &content);
    Ok(if refused.is_empty() { page } else { (StatusCode::BAD_REQUEST, page).into_response() })
}

/// `GET /console/webhook/{id}/live`.
pub(super) async fn follow(Id(id): Id<WebhookId>, mut visit: Visit<permit::ReadWebhooks>) -> Response {
    visit.subject = Some(id.get());
    live::stream(visit, |visit| refreshed(visit).boxed())
}

async fn refreshed(visit: &Visit<permit::ReadWebhooks>) -> Result<Parts, Problem> {
    let id = visit.subject.ok_or_else(|| Problem::not_found("webhook"))?;
    let webhook = visit.webhook(id.into()).await?;
    let (parts, _) = parts(visit, &webhook).await?;
    Ok(parts.into())
}

/// What of the page changes while the webhook is called: its health, the last attempts, what waits. And how many deliveries have ended
/// in each state.
async fn parts(
    visit: &Visit<permit::ReadWebhooks>,
    webhook: &Webhook,
) -> Result<([Part; 3], Counts), Problem> {
    let (db, id) = (visit.db(), webhook.id);
    let (record, waiting) = tokio::try_join!(health::record(db, id, CALLS), search::waiting(db, id))?;
    let now = visit.now();
    let may = visit.can(Permission::WriteWebhooks);
    let parts = [
        ("standing".into(), standing(webhook, &record, may, now)),
        ("calls".into(), last_calls(&record.last_calls, now)),
        ("waiting".into(), delivery::waiting(webhook, &waiting, now)),
    ];
    Ok((parts, record.counts))
}

fn standing(webhook: &Webhook, record: &Record, may: bool, now: DateTime<Utc>) -> Markup {
    let path = format!("/console/webhook/{}", webhook.id);
    html! {
        header.title {
            h1.address { (webhook.destination) }
            (state(webhook.health()))
            @if may {
                div.buttons {
                    @if webhook.active {
                        a.button href={(path) "/test"} data-ask="" { "Test" }
                        a.button href={"/console/replay?hours=168&webhooks=" (webhook.id)} { "Replay" }
                        a.button href={(path) "/edit"} { "Edit" }
                        a.button href={(path) "/rotate"} data-ask="" { "Rotate secret" }
                        a.button.danger href={(path) "/deactivate"} data-ask="" { "Deactivate" }
                    } @else {
                        a.button.primary href={(path) "/activate"} data-ask="" { "Activate" }
                        a.button href={"/console/replay?hours=168&webhooks=" (webhook.id)} { "Replay" }
                        a.button href={(path) "/edit"} { "Edit" }
                        a.button href={(path) "/rotate"} data-ask="" { "Rotate secret" }
                    }
                }
            }
        }
        @if let Some(reason) = &webhook.disabled_reason {
            p.error { strong { "Disabled: " } (reason) @if let Some(at) = webhook.disabled_at { ", " (time(at, now)) } }
        }
        dl.facts {
            div { dt { "Success" } dd { (success(webhook.failures, record.calls, record.delivered)) } }
            div { dt { "Median" } dd { (latency(record.median_ms)) } }
            div { dt { "p95" } dd { (latency(record.p95_ms)) } }
            div { dt { "Waiting" } dd { (up_to(webhook.waiting, WAITING)) } }
            div { dt { "Due" } dd { (up_to(webhook.due, WAITING)) } }
            div { dt { "Oldest due" } dd { @match webhook.oldest_due { Some(at) => (time(at, now)), None => (none()) } } }
        }
        p.muted {
            @if record.calls > 0 {
                "Success: " (number(record.delivered)) " of " (counted(record.calls, "attempt", "attempts")) " in the last " (CALLS_HOURS) " hours. "
            } @else {
                "No attempts in the last " (CALLS_HOURS) " hours. "
            }
            @if let Some(since) = record.since {
                "Durations of the newest " (number(record.ended)) " ended deliveries, since " (time(since, now)) "."
            }
        }
        dl.details {
            (choice::details(&webhook.event, webhook.criteria.as_ref(), webhook.selected.as_deref()))
            div { dt { "E-shop" } dd { (source(webhook.eshop_id, webhook.organisation_id, &webhook.eshop)) @if webhook.eshop_id.is_some() { ", " (organisation(webhook.organisation_id, &webhook.organisation)) } } }
            div { dt { "Authentication" } dd { (webhook.authentication_type) } }
            @if let Some(until) = webhook.former_sign_until { div { dt { "Rotated" } dd { (former(webhook.former_secrets, until, now)) } } }
            div { dt { "Concurrency" } dd { @if webhook.ordered { "one, in order" } @else { (number(webhook.max_in_flight)) } } }
            @if let Some(rate) = webhook.max_per_second { div { dt { "Rate" } dd { "up to " (rate) " calls a second" } } }
            div { dt { "Batches" } dd { (batches(webhook)) } }
            div { dt { "10,000 changes" } dd { (many_changes(webhook, record.median_ms)) } }
            div { dt { "Lane" } dd { (lane(webhook, now)) } }
            div { dt { "Breaker" } dd { (breaker(webhook, now)) } }
            div { dt { "Created" } dd { (full_time(webhook.created_at, now)) } }
            div { dt { "Id" } dd { (piece::id(webhook.id)) } }
        }
    }
}

/// The share of attempts that delivered; of a destination that fails now, how many failed in a row: the share of a day hides that.
pub(super) fn success(failures: i32, calls: i64, delivered: i64) -> Markup {
    if failures > 0 {
        return html! { span.refused { "0 of the last " (number(failures)) } };
    }
    if calls == 0 {
        return none();
    }
    // a hundredth, rounded down: 100 % means all
    let hundredths = delivered * 10_000 / calls;
    html! { (hundredths / 100) "." (format!("{:02}", hundredths % 100)) " %" }
}

fn latency(ms: Option<f64>) -> Markup {
    ms.map_or_else(none, |ms| html! { (milliseconds(ms)) })
}

/// How events are put together.
fn batches(webhook: &Webhook) -> Markup {
    let Some(most) = webhook.batch_events else { return html! { "none: a call for each event" } };
    html! {
        "up to " (counted(i64::from(most), "event", "events")) " a call"
        @if webhook.batch_wait_ms > 0.0 { ", the first waits up to " (milliseconds(webhook.batch_wait_ms)) }
    }
}

/// What a bulk means for the receiver, as long as its calls take what they took.
fn many_changes(webhook: &Webhook, median_ms: Option<f64>) -> Markup {
    let calls = 10_000 / webhook.batch_events.map_or(1, i64::from).max(1);
    let at_once = if webhook.ordered { 1 } else { webhook.max_in_flight.max(1) };
    let count = f64::from(i32::try_from(calls).unwrap_or(i32::MAX));
    let by_calls = median_ms.map(|ms| ms * count / f64::from(at_once));
    let by_rate = webhook.max_per_second.map(|rate| 1e3 * count / rate);
    html! {
        "in " (counted(calls, "call", "calls"))
        @if let Some(ms) = [by_calls, by_rate].into_iter().flatten().reduce(f64::max) { ", in about " (milliseconds(ms)) }
    }
}

/// The state of the lane.
fn lane(webhook: &Webhook, now: DateTime<Utc>) -> Markup {
    html! {
        @if let Some(until) = webhook.held_until.filter(|_| webhook.active) {
            (badge(Tone::Warn, "held")) (piece::until_asked(until, now))
        } @else if webhook.leased {
            (badge(Tone::Busy, "served")) " by a worker"
        } @else if webhook.due == 0 {
            (badge(Tone::Quiet, "at rest"))
        } @else if !webhook.active {
            (badge(Tone::Quiet, "kept")) " until it is activated"
        } @else if webhook.probe_at.is_some_and(|probe| probe > now) {
            (badge(Tone::Warn, "held")) " by the breaker"
        } @else {
            (badge(Tone::Warn, "waiting")) " for a worker"
        }
    }
}

/// The state of the breaker, with the next probe if there will be one.
fn breaker(webhook: &Webhook, now: DateTime<Utc>) -> Markup {
    let Some(since) = webhook.failing_since else { return badge(Tone::Good, "closed") };
    let failures = counted(i64::from(webhook.failures), "failure", "failures");
    if !webhook.active {
        return html! {
            (badge(Tone::Quiet, "off")) " " (failures) " in a row since " (time(since, now))
            "; resets when it is activated"
        };
    }
    // a pause that the destination asked for includes probes
    let Some(probe) = webhook.probe_at.map(|probe| probe.max(webhook.held_until.unwrap_or(probe))) else {
        return html! {
            (badge(Tone::Warn, "closed")) " " (failures) " in a row since " (time(since, now))
        };
    };
    html! {
        (badge(Tone::Warn, "open")) " one probe at a time; next "
        @if webhook.due > 0 { (time(probe, now)) } @else if webhook.waiting > 0 { "when a delivery is due" } @else { "at the next event" }
        ", " (webhook.probes) " failed; failing since " (time(since, now))
    }
}

fn last_calls(calls: &[Call], now: DateTime<Utc>) -> Markup {
    html! {
        section aria-labelledby="calls-title" {
            h2 #calls-title { "Last attempts" }
            @if calls.is_empty() {
                (empty("No attempts yet.", "Send a test to see the answer of the destination."))
            } @else {
                div.scroll tabindex="0" role="region" aria-label="Last attempts, table" {
                    table.stack {
                        thead { tr { th { "When" } th.number { "Status" } th { "Error" } th { "Answer" } th.number { "Attempt" } th.number { "Took" } } }
                        tbody { @for call in calls { (row(call, now)) } }
                    }
                }
            }
        }
    }
}

fn row(call: &Call, now: DateTime<Utc>) -> Markup {
    let attempt = &call.attempt;
    let text = |name: &str| attempt[name].as_str().unwrap_or_default();
    html! {
        tr {
            td { a href={"/console/delivery/" (call.delivery)} { (attempt_time(attempt, now)) } }
            td.number { (status(attempt)) }
            td.text { (text("error")) }
            td.text.clip { @if !text("response").is_empty() { code { (text("response")) } } }
            td.number data-label="Attempt" { (attempt["number"]) }
            td.number data-label="Took" { (attempt["durationMs"].as_f64().map_or_else(|| "–".to_owned(), milliseconds)) }
        }
    }
}

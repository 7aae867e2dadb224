//! Actions on a webhook: enabling, testing, recovering.

use axum::response::Response;
use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use longshore_http::extract::{Failure, Id, permit};
use longshore_shared::kernel::ids::WebhookId;
use longshore_shared::kernel::problem::Problem;
use longshore_shared::webhook::delivery::recovery::{self, COUNTED, Known};
use longshore_shared::webhook::{delivery, subscription};
use maud::{Markup, html};
use serde_json::json;

use crate::job;
use crate::layout::Section;
use crate::piece::up_to;
use crate::visit::{Act, Done, Question, Visit, done};

type Asking = Visit<permit::WriteWebhooks>;
type Acting = Act<permit::WriteWebhooks>;

fn page(id: WebhookId) -> String {
    format!("/console/webhook/{id}")
}

/// `GET /console/webhook/{id}/activate`.
pub(crate) async fn ask_activate(Id(id): Id<WebhookId>, visit: Asking) -> Result<Response, Failure> {
    let said = html! { p { "Waiting deliveries are sent, and future ones as they become due." } };
    ask(&visit, id, "Activate the webhook?", said, "Activate", "activate", html! {}).await
}

/// `POST /console/webhook/{id}/activate`.
pub(crate) async fn activate(Id(id): Id<WebhookId>, act: Acting) -> Result<Response, Failure> {
    subscription::set_active(act.visit.services(), &act.visit.may, id, true).await?;
    Ok(done(&page(id), Done::Activated, None))
}

/// `GET /console/webhook/{id}/deactivate`.
pub(crate) async fn ask_deactivate(Id(id): Id<WebhookId>, visit: Asking) -> Result<Response, Failure> {
    let said = html! { p { "No deliveries are sent until the webhook is activated again. Due deliveries are kept." } };
    ask(&visit, id, "Deactivate the webhook?", said, "Deactivate", "deactivate", html! {}).await
}

/// `POST /console/webhook/{id}/deactivate`.
pub(crate) async fn deactivate(Id(id): Id<WebhookId>, act: Acting) -> Result<Response, Failure> {
    subscription::set_active(act.visit.services(), &act.visit.may, id, false).await?;
    Ok(done(&page(id), Done::Deactivated, None))
}

/// `GET /console/webhook/{id}/test`.
pub(crate) async fn ask_test(Id(id): Id<WebhookId>, visit: Asking) -> Result<Response, Failure> {
    let said = html! { p { "Sends a signed event of the type " code { "test" } " to the destination." } };
    ask(&visit, id, "Send a test?", said, "Send a test", "test", html! {}).await
}

/// `POST /console/webhook/{id}/test`.
pub(crate) async fn test(Id(id): Id<WebhookId>, act: Acting) -> Result<Response, Failure> {
    delivery::send_test(act.visit.services(), &act.visit.may, id).await?;
    let webhook = act.visit.webhook(id).await?;
    let message = if !webhook.active {
        Done::TestKept
    } else if webhook.ordered && webhook.probe_at.is_some() {
        Done::TestHeld
    } else {
        Done::Tested
    };
    Ok(done(&page(id), message, None))
}

/// `GET /console/webhook/{id}/recover`.
pub(crate) async fn ask_recover(Id(id): Id<WebhookId>, visit: Asking) -> Result<Response, Failure> {
    visit.webhook(id).await?;
    let now = visit.now();
    let mut known = Vec::with_capacity(SPANS.len());
    for (hours, words) in SPANS {
        let since = now - TimeDelta::hours(hours);
        known.push((words, since, recovery::count(visit.db(), id, since).await?));
    }
    let since = visit.asked.moment("since")?.unwrap_or(now - TimeDelta::days(1));
    let said = html! {
        p { "A job resends events that ended without success since then, each event once, and releases deliveries that wait for their next attempt. The page of the job shows the progress." }
        (spans(&known))
    };
    let field = html! {
        label { "Since (UTC)" input type="datetime-local" name="since" value=(moment(since)) step="1" required; }
    };
    ask(&visit, id, "Recover the webhook?", said, "Recover", "recover", field).await
}

/// The time spans for which the recovery page counts failures, in hours.
const SPANS: [(i64, &str); 3] = [(1, "the last hour"), (6, "the last 6 hours"), (24, "the last 24 hours")];

/// A moment as browsers write it, to the second.
fn moment(at: DateTime<Utc>) -> String {
    at.format("%Y-%m-%dT%H:%M:%S").to_string()
}

fn spans(known: &[(&str, DateTime<Utc>, Known)]) -> Markup {
    html! {
        @if let Some((.., Known { waiting, .. })) = known.first() {
            p { strong { (up_to(*waiting, COUNTED)) } " waiting for their next attempt. Ended without success:" }
        }
        ul { @for (words, since, Known { ended, .. }) in known {
            li { strong { (up_to(*ended, COUNTED)) } " in " (words) span.muted { ", since " (moment(*since)) } }
        } }
    }
}

/// `POST /console/webhook/{id}/recover`.
pub(crate) async fn recover(Id(id): Id<WebhookId>, act: Acting) -> Result<Response, Failure> {
    let missing = || Problem::violation("since", "required", "is required");
    let since = act.form.moment("since")?.ok_or_else(missing)?;
    let body = json!({"since": since.to_rfc3339_opts(SecondsFormat::Secs, true)});
    let answer = delivery::recover(act.visit.services(), &act.visit.may, id, body).await?;
    Ok(done(&job::page(&answer)?, Done::Recovering, None))
}

async fn ask(
    visit: &Asking,
    id: WebhookId,
    title: &str,
    explanation: Markup,
    button: &str,
    action: &str,
    fields: Markup,
) -> Result<Response, Failure> {
    let webhook = visit.webhook(id).await?;
    let explanation = html! { p { code { (webhook.destination) } } (explanation) };
    let back = page(id);
    let action = format!("{back}/{action}");
    let question =
        Question { title, explanation, button, is_grave: false, action: &action, back: &back, fields };
    Ok(visit.ask(Section::Webhooks, &question))
}

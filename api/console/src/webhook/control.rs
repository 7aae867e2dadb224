//! Actions on a webhook: enabling and testing.

use axum::response::Response;
use longshore_domain::webhook::event::{NAMES, TEST};
use longshore_domain::webhook::{delivery, subscription};
use longshore_http::extract::{Failure, Id, permit};
use longshore_kernel::ids::WebhookId;
use maud::{Markup, html};
use serde_json::json;

use crate::form::Asked;
use crate::layout::Section;
use crate::piece::options;
use crate::visit::{Act, Done, Question, Visit, done};

type Asking = Visit<permit::WriteWebhooks>;
type Acting = Act<permit::WriteWebhooks>;

/// The field of a test.
const EVENT: &str = "event";

fn page(id: WebhookId) -> String {
    format!("/console/webhook/{id}")
}

/// `GET /console/webhook/{id}/activate`.
pub(crate) async fn ask_activate(Id(id): Id<WebhookId>, visit: Asking) -> Result<Response, Failure> {
    let said =
        html! { p { "Waiting deliveries are sent now, also those that wait for their next attempt." } };
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

/// `GET /console/webhook/{id}/test`, with the `event` to begin with.
pub(crate) async fn ask_test(Id(id): Id<WebhookId>, visit: Asking) -> Result<Response, Failure> {
    let event = visit.asked.get(EVENT).filter(|event| NAMES.contains(event)).unwrap_or(TEST.name);
    let form = Asked::of(vec![(EVENT, event.to_owned())]);
    let explanation = html! {
        p { "Sends a signed example, whatever the webhook subscribes to. Its record does not exist, and its body has " code { "\"test\": true" } "." }
    };
    let fields = options(&form, &visit.refused, EVENT, "Event", NAMES.iter().map(|name| (*name, *name)));
    ask(&visit, id, "Send a test?", explanation, "Send a test", "test", fields).await
}

/// `POST /console/webhook/{id}/test`: leads to the delivery.
pub(crate) async fn test(Id(id): Id<WebhookId>, act: Acting) -> Result<Response, Failure> {
    let body = act.form.get(EVENT).map(|event| json!({"event": event}));
    let answer = delivery::send_test(act.visit.services(), &act.visit.may, id, body).await?;
    let webhook = act.visit.webhook(id).await?;
    let message = if !webhook.active {
        Done::TestKept
    } else if webhook.ordered && webhook.probe_at.is_some() {
        Done::TestHeld
    } else {
        Done::Tested
    };
    Ok(done(&crate::delivery::page(&answer)?, message, None))
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
    Ok(visit.ask_for(Section::Webhooks, &question, &[EVENT]))
}

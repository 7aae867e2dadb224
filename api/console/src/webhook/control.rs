//! Actions on a webhook: enabling and testing.

use axum::response::Response;
use longshore_http::extract::{Failure, Id, permit};
use longshore_shared::kernel::ids::WebhookId;
use longshore_shared::webhook::{delivery, subscription};
use maud::{Markup, html};

use crate::layout::Section;
use crate::visit::{Act, Done, Question, Visit, done};

type Asking = Visit<permit::WriteWebhooks>;
type Acting = Act<permit::WriteWebhooks>;

fn page(id: WebhookId) -> String {
    format!("/console/webhook/{id}")
}

/// `GET /console/webhook/{id}/activate`.
pub(crate) async fn ask_activate(Id(id): Id<WebhookId>, visit: Asking) -> Result<Response, Failure> {
    let said = html! { p { "Waiting deliveries are sent, and future ones as they become due." } };
    ask(&visit, id, "Activate the webhook?", said, "Activate", "activate").await
}

/// `POST /console/webhook/{id}/activate`.
pub(crate) async fn activate(Id(id): Id<WebhookId>, act: Acting) -> Result<Response, Failure> {
    subscription::set_active(act.visit.services(), &act.visit.may, id, true).await?;
    Ok(done(&page(id), Done::Activated, None))
}

/// `GET /console/webhook/{id}/deactivate`.
pub(crate) async fn ask_deactivate(Id(id): Id<WebhookId>, visit: Asking) -> Result<Response, Failure> {
    let said = html! { p { "No deliveries are sent until the webhook is activated again. Due deliveries are kept." } };
    ask(&visit, id, "Deactivate the webhook?", said, "Deactivate", "deactivate").await
}

/// `POST /console/webhook/{id}/deactivate`.
pub(crate) async fn deactivate(Id(id): Id<WebhookId>, act: Acting) -> Result<Response, Failure> {
    subscription::set_active(act.visit.services(), &act.visit.may, id, false).await?;
    Ok(done(&page(id), Done::Deactivated, None))
}

/// `GET /console/webhook/{id}/test`.
pub(crate) async fn ask_test(Id(id): Id<WebhookId>, visit: Asking) -> Result<Response, Failure> {
    let said = html! { p { "Sends a signed event of the type " code { "test" } " to the destination." } };
    ask(&visit, id, "Send a test?", said, "Send a test", "test").await
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

async fn ask(
    visit: &Asking,
    id: WebhookId,
    title: &str,
    explanation: Markup,
    button: &str,
    action: &str,
) -> Result<Response, Failure> {
    let webhook = visit.webhook(id).await?;
    let explanation = html! { p { code { (webhook.destination) } } (explanation) };
    let back = page(id);
    let action = format!("{back}/{action}");
    let fields = html! {};
    let question =
        Question { title, explanation, button, is_grave: false, action: &action, back: &back, fields };
    Ok(visit.ask(Section::Webhooks, &question))
}

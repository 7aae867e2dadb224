//! The request of a delivery: its headers, its body, and the command that makes it by hand.

use longshore_domain::webhook::delivery::search::Delivery;
use maud::{Markup, html};

use crate::json;
use crate::piece::empty;

/// The headers of every attempt (`docs/reference/webhooks.md#signatures`); each attempt has its own time, and so its own signature.
/// What authenticates the service at the destination is not shown.
fn headers(delivery: &Delivery, authentication: Option<&str>) -> Vec<(&'static str, String)> {
    let mut headers = vec![
        ("content-type", "application/json".to_owned()),
        ("webhook-id", delivery.event_id.to_string()),
        ("webhook-timestamp", "the time of the attempt, in Unix seconds".to_owned()),
        ("webhook-signature", "v1, and the signature of the attempt".to_owned()),
        ("traceparent", "the trace of the event".to_owned()),
        ("user-agent", concat!("longshore/", env!("CARGO_PKG_VERSION")).to_owned()),
    ];
    match authentication {
        Some("basic") => headers.push(("authorization", "Basic ***".to_owned())),
        Some("bearer") => headers.push(("authorization", "Bearer ***".to_owned())),
        Some("header") => headers.push(("the header of the webhook", "***".to_owned())),
        _ => {}
    }
    headers
}

/// The section of the page; `authentication` is the type of that of the webhook.
pub(super) fn draw(delivery: &Delivery, authentication: Option<&str>) -> Markup {
    let body = delivery.body();
    let Some(body) = body.as_deref() else {
        return html! {
            section aria-labelledby="request-title" {
                h2 #request-title { "Request" }
                (empty("The event was removed.", "The delivery cannot be sent again."))
            }
        };
    };
    let text = String::from_utf8_lossy(body);
    html! {
        section aria-labelledby="request-title" {
            h2 #request-title { "Request" }
            p { code { "POST " (delivery.destination.as_deref().unwrap_or("")) } }
            details {
                summary { "Headers" }
                dl.headers { @for (name, value) in headers(delivery, authentication) { div { dt { code { (name) } } dd { (value) } } } }
            }
            p.muted {
                "The exact body. The signature covers the webhook-id, the webhook-timestamp of the attempt and this body, joined by dots."
            }
            div.json {
                button.copy type="button" data-copy-of="pre" hidden aria-label="Copy the body" { "copy" }
                pre.wrapped tabindex="0" role="region" aria-label="Body of the request" { code { (text) } }
            }
            @if let Ok(body) = serde_json::from_slice(body) {
                details { summary { "Formatted" } (json::draw(&body)) }
            }
            @if let Some(destination) = &delivery.destination {
                details {
                    summary { "As a curl command" }
                    p.muted { "Set SECRET to the secret of the webhook: the command makes a new signature, because receivers refuse an old timestamp." }
                    div.json {
                        button.copy type="button" data-copy-of="pre" hidden aria-label="Copy the command" { "copy" }
                        pre.wrapped tabindex="0" role="region" aria-label="curl command" { code { (command(delivery, destination, &text)) } }
                    }
                }
            }
        }
    }
}

/// The shell command that makes the request by hand.
fn command(delivery: &Delivery, destination: &str, body: &str) -> String {
    format!(
        "body={body}\n\
         now=$(date +%s)\n\
         key=$(printf %s \"${{SECRET#whsec_}}\" | base64 -d | od -An -vtx1 | tr -d ' \\n')\n\
         signature=$(printf %s \"{id}.$now.$body\" | openssl dgst -sha256 -mac HMAC -macopt \"hexkey:$key\" -binary | base64)\n\
         curl -i {to} --data-binary \"$body\" -H 'content-type: application/json' \\\n  \
         -H 'webhook-id: {id}' -H \"webhook-timestamp: $now\" -H \"webhook-signature: v1,$signature\"",
        body = quoted(body),
        to = quoted(destination),
        id = delivery.event_id,
    )
}

/// A text as one word of a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_a_quoted_text_as_it_is() {
        assert_eq!(quoted("a $(rm) `b` \"c\""), "'a $(rm) `b` \"c\"'");
        assert_eq!(quoted("it's'"), r"'it'\''s'\'''");
    }
}

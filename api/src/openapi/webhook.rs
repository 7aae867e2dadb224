//! Webhooks, their deliveries, and the calls that they make.

use chrono::{DateTime, Utc};
use longshore_shared::catalog::product::record::{FieldChange, event_data};
use longshore_shared::job::acceptance::LARGEST_BULK;
use longshore_shared::kernel::authentication::TYPES as TYPES_OF_AUTHENTICATION;
use longshore_shared::list::fields::delivery::DELIVERY as DELIVERIES;
use longshore_shared::list::fields::subscription::SUBSCRIBABLE;
use longshore_shared::list::fields::subscription::WEBHOOK as WEBHOOKS;
use longshore_shared::webhook::event::{Event, EventType, TYPES};
use serde_json::{Value, json};
use utoipa::openapi::path::{HttpMethod, OperationBuilder};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::{ContentBuilder, PathItem, Ref, Required, ResponseBuilder};
use uuid::Uuid;

use super::example::{
    CHANGED, CREATED, DELIVERY as SENT, ESHOP, EVENT, JOB, ORGANISATION, PRODUCT, PRODUCT_STOCK, REDELIVERY,
    WAREHOUSE, WEBHOOK as HOOK, WMS,
};
use super::job::answers_job;
use super::operation::{JSON, Operation, delete, list, post, put, read};
use super::record::{self, Described};
use super::schema::{
    Said, Shape, any_integer, any_object, any_text, array, array_of, boolean, default, either, id, integer,
    named, object, one_of, or_null, pattern, text, timestamp, url,
};
use crate::routes::webhook::{delivery, read as handlers, subscription};

/// The operations of this module.
pub(super) fn operations() -> Vec<Operation> {
    vec![
        list("/api/eshop-webhook/list", handlers::list_webhooks, &WEBHOOKS, "Lists webhooks"),
        read("/api/eshop-webhook/{id}", handlers::get_webhook, &WEBHOOKS, "Reads a webhook")
            .refuses(&[410]),
        post("/api/eshop-webhook", subscription::create_webhook, "Creates a webhook")
            .says("The answer holds the `secret`, this once: a repeated answer is without it.")
            .body("WebhookToCreate", to_create(), json!({
                "eshop": ESHOP, "event": "product_change", "destination": "https://shop.example/hooks/longshore",
                "authentication": {"type": "bearer", "token": "a token of the shop"},
            }))
            .created(&WEBHOOKS)
            .schema("WebhookCreated", created())
            .answers(201, "The new webhook, with its secret.", named("WebhookCreated"), Some(shown_with_secret()))
            .with(&["ETag", "Location"]),
        put("/api/eshop-webhook/{id}", subscription::update_webhook, "Changes a webhook")
            .says("The given fields change, absent ones stay. `***` in `authentication` keeps what is stored.")
            .body("WebhookToUpdate", to_create().for_update(), json!({"active": true, "maxInFlight": 32}))
            .updated(&WEBHOOKS)
            .refuses(&[410, 422]),
        delete("/api/eshop-webhook/{id}", subscription::delete_webhook, "Deletes a webhook")
            .says("What is not delivered yet is cancelled.")
            .done()
            .refuses(&[410]),
        put("/api/eshop-webhook/activate/{id}", subscription::activate_webhook, "Switches a webhook on")
            .says("What was kept while it was off is sent.")
            .done()
            .refuses(&[410, 422]),
        put("/api/eshop-webhook/deactivate/{id}", subscription::deactivate_webhook, "Switches a webhook off")
            .says("What becomes due meanwhile is kept for 37 days.")
            .done()
            .refuses(&[410, 422]),
        put("/api/eshop-webhook/{id}/rotate-secret", subscription::rotate_webhook_secret, "Gives a webhook a new secret")
            .says(
                "The answer holds the new `secret`, this once: a repeated answer is without it. The one before goes on \
                 signing for 24 hours, beside the new one; eight may do so at a time. Every call that begins after this answer \
                 is signed with all of them; so that this is true, the answer waits for up to 3 seconds while calls are under way.",
            )
            .updated(&WEBHOOKS)
            .answers(200, "The webhook, with its new secret.", named("WebhookCreated"), Some(shown_with_secret()))
            .with(&["ETag", "Location"])
            .refuses(&[409, 410, 422]),
        post("/api/eshop-webhook/{id}/test", subscription::test_webhook, "Sends a test event")
            .says("A delivery of the type `test`, through the webhook's own lane; an inactive webhook keeps it.")
            .schema("TestSent", object().required("id", id()).required("webhookId", id()))
            .answers(
                202,
                "The delivery, and the `webhook-id` that it bears.",
                named("TestSent"),
                Some(json!({"id": SENT, "webhookId": EVENT})),
            )
            .with(&["Location"])
            .refuses(&[410, 422]),
        answers_job(
            post("/api/eshop-webhook/{id}/recover", subscription::recover_webhook, "Sends again what did not succeed")
                .body("WebhookToRecover", object().required("since", timestamp()), json!({"since": CREATED}))
                .refuses(&[410, 422]),
            "A job, answered at once unless `Prefer` says otherwise. What has ended without success since then is sent again, \
             each event once, under its `webhook-id`; what waits to be tried again is due now. Its `result` says how many of \
             each.",
        ),
        list("/api/webhook-delivery/list", handlers::list_deliveries, &DELIVERIES, "Lists deliveries")
            .says("Without their `attempts`."),
        read("/api/webhook-delivery/{id}", handlers::get_delivery, &DELIVERIES, "Reads a delivery"),
        put("/api/webhook-delivery/redeliver/{id}", delivery::redeliver_delivery, "Sends a delivery again")
            .says("A new delivery of the same event, with the same `webhook-id`.")
            .schema("Redelivery", object().required("id", id()).required("redeliveryOf", id()))
            .answers(
                202,
                "The new delivery.",
                named("Redelivery"),
                Some(json!({"id": REDELIVERY, "redeliveryOf": SENT})),
            )
            .with(&["Location"]),
        answers_job(
            put("/api/webhook-delivery/redeliver", delivery::redeliver_deliveries, "Sends deliveries again, in bulk")
                .body("DeliveryIds", array(1..=LARGEST_BULK, id()), json!([SENT])),
            "A job, answered at once unless `Prefer` says otherwise: a new delivery of the same event for each, with the same \
             `webhook-id`. Duplicates are ignored. Ids that are unknown, or whose webhook or event is gone, are item errors of \
             the job.",
        ),
    ]
}

fn to_create() -> Shape {
    object()
        .about("A webhook as it is wanted.")
        .required("eshop", id())
        .required("event", one_of(SUBSCRIBABLE))
        .required("destination", url(1..=2_000))
        .optional("active", default(boolean(), true))
        .nullable("authentication", of_webhook())
        .optional("maxInFlight", default(integer(1..=256), 16))
        .optional("ordered", default(boolean(), false))
        .explain(MEANINGS)
}

/// A value that a header can carry.
fn visible() -> Said {
    pattern(1..=2_000, "^[!-~]([ -~]*[!-~])?$")
}

/// How the receiver authenticates calls. One object covers all types: of a choice of several, no generator
/// makes correct classes.
pub(super) fn authentication(types: &[&str]) -> Shape {
    object()
        .required("type", one_of(types))
        .optional("username", pattern(1..=2_000, "^[!-9;-~]([ -9;-~]*[!-9;-~])?$"))
        .optional("password", visible())
        .optional("token", visible())
        .explain(&[
            ("type", "`basic` has `username` and `password`, `bearer` has `token`, `none` has nothing."),
            ("username", "Without a colon. Answers show `***`."),
            ("password", "Answers show `***`."),
            ("token", "Answers show `***`."),
        ])
}

fn of_webhook() -> Said {
    authentication(TYPES_OF_AUTHENTICATION)
        .optional("header", pattern(1..=255, "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"))
        .explain(&[
            (
                "type",
                "`basic` has `username` and `password`, `bearer` has `token`, `header` has `header` and `token`, `none` has \
                 nothing.",
            ),
            ("header", "Name of a header of your own, which carries the `token`. Answers show `***`."),
        ])
        .about("How a destination knows who calls: the members of its type, and no others.")
        .called("WebhookAuthentication")
}

fn created() -> Shape {
    record::record(&WEBHOOKS)
        .optional("secret", text(1..=255))
        .explain(&[("secret", "Signs every delivery (Standard Webhooks); shown this once.")])
}

fn shown_with_secret() -> Value {
    let mut shown = (WEBHOOK.example)();
    shown["secret"] = json!("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=");
    shown
}

const MEANINGS: &[(&str, &str)] = &[
    ("eshop", "Whose events it hears of; never changes."),
    ("event", "What it hears of; `*` is all."),
    ("destination", "An `https` URL without credentials or fragment, of no private address."),
    ("authentication", "What goes with every call, beside the signature."),
    ("health", "`failing`: its last attempt failed; `disabled`: by the service."),
    ("disabledReason", "Why the service disabled it."),
    ("maxInFlight", "Calls that may be under way at once."),
    ("ordered", "Whether a call waits for the one before."),
];

/// Webhooks.
pub(super) const WEBHOOK: Described = Described {
    resource: &WEBHOOKS,
    about: "An e-shop's wish to hear of events at a destination.",
    fields: MEANINGS,
    shapes: &[("authentication", of_webhook)],
    example: || {
        json!({
            "id": HOOK, "eshop": ESHOP, "event": "product_change",
            "destination": "https://shop.example/hooks/longshore", "active": true,
            "authentication": {"type": "bearer", "token": "***"}, "health": "healthy", "disabledReason": null,
            "maxInFlight": 16, "ordered": false, "createdAt": CREATED, "changedAt": CHANGED, "version": 3,
        })
    },
};

/// Deliveries.
pub(super) const DELIVERY: Described = Described {
    resource: &DELIVERIES,
    about: "An event on its way to a webhook. Kept 30 days.",
    fields: &[
        ("event", "Type of the event."),
        ("entity", "The record that the event tells of."),
        ("attempts", "Oldest first."),
        ("nextAttemptAt", "When it is tried next."),
        ("redeliveryOf", "The delivery that it repeats."),
        ("webhookId", "The `webhook-id` header: the same on every retry and redelivery."),
    ],
    shapes: &[("attempts", attempts)],
    example: || {
        json!({
            "id": SENT, "webhook": HOOK, "eshop": ESHOP, "event": "product_change",
            "entity": {"type": "product", "id": PRODUCT}, "state": "delivered",
            "attempts": [
                {"number": 1, "at": CREATED, "durationMs": 15_000, "status": null, "error": "timed out", "response": null},
                {"number": 2, "at": CHANGED, "durationMs": 84, "status": 204, "error": null, "response": ""},
            ],
            "attemptCount": 2, "nextAttemptAt": null, "createdAt": CREATED, "finishedAt": CHANGED,
            "redeliveryOf": null, "webhookId": EVENT,
        })
    },
};

fn attempts() -> Said {
    let attempt = object()
        .about("One call of the destination.")
        .required("number", any_integer())
        .required("at", timestamp())
        .required("durationMs", any_integer())
        .required("status", or_null(any_integer()))
        .required("error", or_null(any_text()))
        .required("response", or_null(any_text()))
        .explain(&[
            ("number", "Which of the delivery, from 1."),
            ("durationMs", "How long it took, in milliseconds."),
            ("status", "Status of the answer, where one came."),
            ("error", "Why there was none, or why it does not count."),
            ("response", "The first 2 KiB of the answer."),
        ]);
    array_of(attempt.called("DeliveryAttempt"))
}

/// The tag of the calls. It is separate, because generators put operations and webhooks of one tag into the
/// same file.
pub(super) const EVENTS: &str = "event";

/// The calls of webhooks, one for each type of event.
pub(super) fn calls() -> impl Iterator<Item = (&'static str, PathItem)> {
    TYPES.iter().map(|kind| (kind.name, PathItem::new(HttpMethod::Post, call(kind))))
}

/// The schema of the body of every call.
pub(super) fn body() -> Said {
    let names: Vec<_> = TYPES.iter().map(|kind| kind.name).collect();
    object()
        .about(
            "An event, as a webhook hears of it: under 20 kB, signed as [Standard Webhooks](https://www.standardwebhooks.com) says, at \
             least once, perhaps out of order: each field is as its highest `data.version` says. An answer in 2xx within 15 seconds is \
             success; anything else is tried again for three days.",
        )
        .required("id", id())
        .required("type", one_of(&names))
        .required("timestamp", timestamp())
        .optional("status", either([any_text(), any_integer()]))
        .optional("orderNumber", either([any_text(), any_integer()]))
        .required("data", any_object())
        .explain(&[
            ("id", "The record that changed."),
            ("timestamp", "When it changed: the record's `changedAt`."),
            ("status", "Of status events: the new status."),
            (
                "data",
                "What the record is, its `version`, the names of the changed fields, and in `fields` what they are now. Of each field, \
                 keep the highest version. Without `fields`, since they are large, read the record.",
            ),
        ])
        .into()
}

/// Headers of a call: the key, the name, the purpose.
pub(super) const HEADERS: &[(&str, &str, &str)] = &[
    ("WebhookId", "webhook-id", "The event: the same on every retry."),
    ("WebhookTimestamp", "webhook-timestamp", "When it was sent, in unix seconds."),
    ("WebhookSignature", "webhook-signature", "`v1,` and the signature, for every live secret."),
];

fn call(kind: &EventType) -> utoipa::openapi::path::Operation {
    let content =
        ContentBuilder::new().schema(Some(named("Event"))).example(Some(event_example(kind))).build();
    OperationBuilder::new()
        .operation_id(Some(format!("told_{}", kind.name)))
        .tag(EVENTS)
        .summary(Some(format!("Told when {}", kind.when)))
        .securities(Some(Vec::new()))
        .parameter_ref(Ref::new(format!("#/components/parameters/{}", HEADERS[0].0)))
        .parameter_ref(Ref::new(format!("#/components/parameters/{}", HEADERS[1].0)))
        .parameter_ref(Ref::new(format!("#/components/parameters/{}", HEADERS[2].0)))
        .request_body(Some(
            RequestBodyBuilder::new().required(Some(Required::True)).content(JSON, content).build(),
        ))
        .response("2XX", ResponseBuilder::new().description("Heard.").build())
        .response(
            "410",
            ResponseBuilder::new().description("Not wanted any more: disables the webhook.").build(),
        )
        .build()
}

/// The body of an event, exactly as it is sent.
fn event_example(kind: &EventType) -> Value {
    let fields = json!({"state": "succeeded", "outcome": "partial", "progress": {
        "total": 3, "done": 3, "changed": 2, "unchanged": 0, "failed": 1}});
    let of = |text: &str| Uuid::try_parse(text).unwrap_or_default();
    let (entity, data) = match kind.name {
        "product_change" => {
            let change = FieldChange { field: "active", old: json!(true), new: json!(false) };
            (PRODUCT, event_data(of(PRODUCT), of(ORGANISATION), "8590000000017", &[change]))
        }
        "product_stock_change" => (
            PRODUCT_STOCK,
            json!({
                "id": PRODUCT_STOCK, "organisation": ORGANISATION, "product": PRODUCT, "productSku": "8590000000017",
                "warehouse": WAREHOUSE, "wms": WMS, "changedFields": ["quantity", "available"],
                "fields": {"quantity": 120, "available": 100},
            }),
        ),
        "sync_finished" => (
            JOB,
            json!({
                "id": JOB, "organisation": ORGANISATION, "eshop": ESHOP, "kind": "product.sync",
                "changedFields": ["state", "progress", "outcome"], "fields": fields,
            }),
        ),
        "organization_change" => (
            ORGANISATION,
            json!({
                "id": ORGANISATION, "changedFields": ["name"], "fields": {"name": "Harbour Gifts"},
            }),
        ),
        _ if kind.status => (
            EVENT,
            json!({
                "id": EVENT, "orderNumber": "2026-0042", "changedFields": ["status"], "fields": {"status": "closed"},
            }),
        ),
        _ => (HOOK, json!({"id": HOOK})),
    };
    let mut data = data;
    if kind.name != "test" {
        data["version"] = json!(3);
    }
    let at = DateTime::parse_from_rfc3339(CHANGED).map_or(DateTime::<Utc>::UNIX_EPOCH, |at| at.to_utc());
    let event = Event {
        id: of(EVENT),
        kind: kind.name.to_owned(),
        entity: of(entity),
        at,
        data: data.to_string(),
        request_id: None,
        traceparent: None,
    };
    serde_json::from_slice(&event.body()).unwrap_or_default()
}

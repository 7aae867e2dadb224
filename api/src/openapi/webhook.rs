//! Webhooks, their deliveries, and the calls that they make.

use chrono::{DateTime, Utc};
use longshore_domain::list::fields::delivery::DELIVERY as DELIVERIES;
use longshore_domain::list::fields::subscription::WEBHOOK as WEBHOOKS;
use longshore_domain::webhook::delivery::{TESTS_A_MINUTE, recovery, redelivery, replay, test_body};
use longshore_domain::webhook::event::{Event, EventType, NAMES, TEST, TYPES, example};
use longshore_domain::webhook::subscription::{batch_schema, schema, trial_schema};
use longshore_kernel::authentication;
use serde_json::{Value, json};
use utoipa::openapi::path::{HttpMethod, OperationBuilder};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::{ContentBuilder, PathItem, Ref, Required, ResponseBuilder};
use uuid::Uuid;

use super::example::{
    CHANGED, CREATED, DELIVERY as SENT, ESHOP, EVENT, ORGANISATION, PRODUCT, REDELIVERY, TOKEN,
    WEBHOOK as HOOK,
};
use super::job::{answers_job, chosen};
use super::operation::{JSON, Operation, list, operation, read};
use super::record::{self, Described};
use super::schema::{
    Said, Shape, any_integer, any_number, any_object, any_text, array_of, body_of, boolean, either, id,
    members, named, object, one_of, or_null, text, timestamp,
};
use super::shared::WEBHOOK_HEADERS;
use crate::routes::webhook::{delivery, read as handlers, subscription};

/// The operations of this module.
pub(super) fn operations() -> Vec<Operation> {
    vec![
        list(handlers::list_webhooks, &WEBHOOK, "Lists webhooks"),
        read(handlers::get_webhook, &WEBHOOK, "Reads a webhook"),
        operation(subscription::create_webhook, "Creates a webhook")
            .says("The answer holds the `secret`, this once: a repeated answer is without it.")
            .body("WebhookToCreate", webhook_body(true), json!({
                "eshop": ESHOP, "event": "product_change", "destination": "https://shop.example/hooks/longshore",
                "authentication": {"type": "bearer", "token": "a token of the shop"},
            }))
            .created(&WEBHOOK)
            .schema("WebhookCreated", created())
            .answers(201, "The new webhook, with its secret.", named("WebhookCreated"), Some(shown_with_secret()))
            .with(&["ETag", "Location"]),
        operation(subscription::try_webhook, "Tries criteria")
            .says("Looks at the newest events of the e-shop or organisation, up to 1,000. Changes nothing.")
            .body("WebhookToTry", members(&trial_schema()).explain(MEANINGS).explain(&[("since", "Only events since then.")]), json!({
                "eshop": ESHOP, "event": "product_change", "criteria": {"data.fields.active": {"eq": false}},
            }))
            .schema("WebhookTried", tried())
            .answers(200, "What matched.", named("WebhookTried"), Some(json!({"looked": 212, "matched": 3, "examples": []}))),
        operation(subscription::update_webhook, "Changes a webhook")
            .says("Changes the given fields. `***` in `authentication` keeps what is stored.")
            .body("WebhookToUpdate", webhook_body(false), json!({"active": true, "maxInFlight": 32}))
            .updated(&WEBHOOK)
            .refuses(&[422]),
        operation(subscription::delete_webhook, "Deletes a webhook")
            .says("Cancels the deliveries that have not ended.")
            .done(),
        operation(subscription::activate_webhook, "Activates a webhook")
            .says("Sends the deliveries that were kept while it was inactive.")
            .done()
            .refuses(&[422]),
        operation(subscription::deactivate_webhook, "Deactivates a webhook")
            .says("Deliveries that become due while it is inactive are kept for 37 days.")
            .done()
            .refuses(&[422]),
        operation(subscription::rotate_webhook_secret, "Rotates the secret of a webhook")
            .says(
                "The response contains the new `secret`. It is shown once: no replayed response has it. The previous secret also signs for another 24 hours. Every call that starts after this response is signed with all valid secrets.",
            )
            .updated(&WEBHOOK)
            .answers(200, "The webhook, with its new secret.", named("WebhookCreated"), Some(shown_with_secret()))
            .with(&["ETag", "Location"])
            .refuses(&[409, 422]),
        operation(subscription::test_webhook, "Sends a test event")
            .says(&format!(
                "Creates a delivery of an example of an event, whatever the webhook subscribes to. Its body has `test: true`, and its record does not exist. A webhook can be tested {TESTS_A_MINUTE} times a minute. While it is inactive, the delivery is kept."
            ))
            .body("WebhookToTest", tested(), json!({"event": "product_change"}))
            .schema("TestSent", object().required("id", id()).required("webhookId", id()))
            .answers(
                202,
                "The delivery and its `webhook-id`.",
                named("TestSent"),
                Some(json!({"id": SENT, "webhookId": EVENT})),
            )
            .with(&["Location"])
            .refuses(&[422]),
        answers_job(
            operation(subscription::recover_webhook, "Recovers failed deliveries")
                .body("WebhookToRecover", body_of(&recovery::body()), json!({"since": CREATED}))
                .refuses(&[422]),
            "Creates a job. Events whose deliveries ended without success since then are sent again once, with the same `webhook-id`. Deliveries that wait for their next attempt become due now. `result` of the job has both counts.",
        ),
        list(handlers::list_deliveries, &DELIVERY, "Lists deliveries")
            .says("The deliveries have no `attempts`; read a delivery to get them."),
        read(handlers::get_delivery, &DELIVERY, "Reads a delivery"),
        operation(handlers::get_delivery_body, "Reads the body of a delivery")
            .says("The exact bytes that each attempt sends and signs. 410 after the event was removed, 37 to 44 days after the change.")
            .answers(200, "The body.", named("Event"), TYPES.first().map(event_example))
            .refuses(&[410]),
        operation(delivery::redeliver_delivery, "Sends a delivery again")
            .says("Creates a new delivery of the same event, with the same `webhook-id`.")
            .schema("Redelivery", object().required("id", id()).required("redeliveryOf", id()))
            .answers(
                202,
                "The new delivery.",
                named("Redelivery"),
                Some(json!({"id": REDELIVERY, "redeliveryOf": SENT})),
            )
            .with(&["Location"]),
        answers_job(
            chosen(
                operation(delivery::redeliver_deliveries, "Sends deliveries again in bulk"),
                "Chosen",
                &redelivery::body(),
                json!([SENT]),
            ),
            "Creates a job. The job creates a new delivery of the same event for each id, with the same `webhook-id`. Duplicates are ignored. Unknown ids, and ids whose webhook or event was deleted, become item errors of the job.",
        ),
        answers_job(
            operation(delivery::replay_deliveries, "Replays deliveries")
                .body("DeliveriesToReplay", replayed(), replay_example()),
            "Creates a job. For the webhooks that match, deliveries that wait for their next attempt become due now, and those that ended in the period without success are sent again, with `delivered` also those that succeeded. `result` of the job has the counts of both.",
        ),
        operation(delivery::count_replay, "Counts what a replay would find")
            .says("Changes nothing. Up to 100,000 deliveries of each sort are counted.")
            .form(JSON, named("DeliveriesToReplay"), Some(replay_example()))
            .schema("ReplayCount", replay_count())
            .answers(
                200,
                "The counts.",
                named("ReplayCount"),
                Some(json!({
                    "webhooks": 2, "waiting": 1_140, "failed": 61_000, "delivered": 0, "total": 62_140, "atLeast": false,
                    "seconds": 326.2,
                })),
            ),
    ]
}

fn tested() -> Shape {
    body_of(&test_body())
        .about("What a test sends.")
        .explain(&[("event", "The type of the event. The example of `test` is about the webhook itself.")])
}

fn tried() -> Shape {
    object()
        .required("looked", any_integer())
        .required("matched", any_integer())
        .required("examples", array_of(named("Event")))
        .explain(&[("examples", "The newest that match, up to three.")])
}

fn replayed() -> Shape {
    body_of(&replay::body())
        .about("Which deliveries are replayed. `webhooks`, `eshop` or `host` is required.")
        .explain(&[
            ("webhooks", "Only deliveries of these webhooks."),
            ("eshop", "Only deliveries of webhooks of this e-shop."),
            ("host", "Only deliveries to destinations of this host, such as `shop.example`."),
            ("since", "Only deliveries that ended at this moment or later."),
            ("until", "Only deliveries that ended before this moment."),
            ("delivered", "Also deliveries that succeeded."),
            ("event", "Only deliveries of this event type."),
        ])
}

fn replay_example() -> Value {
    json!({"webhooks": [HOOK], "since": CREATED})
}

fn replay_count() -> Shape {
    object()
        .required("webhooks", any_integer())
        .required("waiting", any_integer())
        .required("failed", any_integer())
        .required("delivered", any_integer())
        .required("total", any_integer())
        .required("atLeast", boolean())
        .required("seconds", or_null(any_number()))
        .explain(&[
            ("webhooks", "Webhooks that match."),
            ("waiting", "Deliveries that wait for their next attempt, or for their destination."),
            ("failed", "Events whose deliveries ended without success. What is on its way again is not counted."),
            ("delivered", "Events whose deliveries succeeded, if `delivered` is true."),
            ("total", "The sum of the three."),
            ("atLeast", "Whether there may be more than were counted."),
            (
                "seconds",
                "How long it takes to send them at the recent pace of the destinations; null if none of them succeeded lately.",
            ),
        ])
}

fn webhook_body(is_new: bool) -> Shape {
    members(&schema(is_new))
        .about("A webhook to create or change.")
        .part("authentication", called_authentication)
        .part("batch", called_batch)
        .explain(MEANINGS)
}

/// What the members of credentials mean. One object covers all types: of a choice of several, no generator
/// makes correct classes.
pub(super) const OF_AUTHENTICATION: &[(&str, &str)] = &[
    ("type", "`basic` has `username` and `password`, `bearer` has `token`, `none` has nothing."),
    ("username", "Must not contain a colon. Responses show `***`."),
    ("password", "Responses show `***`."),
    ("token", "Responses show `***`."),
];

/// How the receiver authenticates calls.
fn of_webhook() -> Said {
    called_authentication(members(&authentication::schema(authentication::TYPES, true)))
}

fn called_authentication(authentication: Shape) -> Said {
    authentication
        .explain(OF_AUTHENTICATION)
        .explain(&[
            (
                "type",
                "`basic` has `username` and `password`, `bearer` has `token`, `header` has `header` and `token`, `none` has \
                 nothing.",
            ),
            ("header", "Name of a custom header for the `token`. Responses show `***`."),
        ])
        .about("The authentication of calls to the destination. Only the members of its type are allowed.")
        .called("WebhookAuthentication")
}

fn of_batch() -> Said {
    called_batch(members(&batch_schema()))
}

fn called_batch(batch: Shape) -> Said {
    batch
        .about("How events are put together.")
        .explain(&[
            ("maxEvents", "A call has at most this many events, and at most 1 MB."),
            (
                "maxWaitMs",
                "How long the first event waits for others, in milliseconds. With `ordered`, it must be 0.",
            ),
        ])
        .called("WebhookBatch")
}

fn created() -> Shape {
    record::members(&WEBHOOK).optional("secret", text(1..=255)).explain(&[(
        "secret",
        "The secret that signs every delivery (Standard Webhooks). It is shown only once.",
    )])
}

fn shown_with_secret() -> Value {
    let mut shown = (WEBHOOK.example)();
    shown["secret"] = json!("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=");
    shown
}

/// What a webhook, or a reader, hears of.
pub(super) const OF_EVENT: (&str, &str) =
    ("event", "The only event type, or `*`: all that there were when it was stored. Null: several.");
pub(super) const OF_EVENTS: (&str, &str) = ("events", "The event types. A body says `event` or `events`.");
pub(super) const OF_CRITERIA: (&str, &str) = (
    "criteria",
    "Conditions about the body, as in lists, such as `data.fields.quantity`. Null: every event of the types.",
);
pub(super) const OF_SELECT: (&str, &str) = (
    "select",
    "Which members of `data` and of its `fields` are sent, beside ids and business keys. Null: all.",
);
pub(super) const OF_MAKER: (&str, &str) = ("createdBy", "Who made it, with the name at that time.");

const MEANINGS: &[(&str, &str)] = &[
    (
        "organisation",
        "The organisation. Instead of `eshop`: the webhook receives the events of all its e-shops, and its own. It cannot be changed.",
    ),
    (
        "eshop",
        "The e-shop whose events the webhook receives. Null: those of the organisation. It cannot be changed.",
    ),
    OF_EVENT,
    OF_EVENTS,
    ("destination", "An `https` URL without credentials, fragment or private address."),
    ("authentication", "Credentials that are sent with every call, in addition to the signature."),
    ("health", "`failing`: the last attempt failed. `disabled`: the service disabled the webhook."),
    ("disabledReason", "Why the service disabled the webhook."),
    (
        "heldUntil",
        "Until when nothing is sent, because the destination asked for a pause (429 or 503 with `Retry-After`).",
    ),
    ("maxInFlight", "Maximum number of calls at the same time. With `batch` it is at most 4."),
    ("ordered", "Whether each call waits for the previous one to end."),
    ("batch", "Null: a call for each event."),
    ("maxPerSecond", "How many calls may begin in a second. Null: any number."),
    OF_CRITERIA,
    OF_SELECT,
    (
        "backlog",
        "What waits, counted to 10,000, and the seconds that it takes at `maxPerSecond`. In a single record only.",
    ),
    OF_MAKER,
];

/// Webhooks.
pub(super) const WEBHOOK: Described = Described {
    resource: &WEBHOOKS,
    about: "A subscription of an e-shop, or of an organisation: event types and a destination.",
    fields: MEANINGS,
    shapes: &[
        ("authentication", of_webhook),
        ("batch", of_batch),
        ("criteria", any_object),
        ("select", || array_of(any_text())),
    ],
    example: || {
        json!({
            "id": HOOK, "organisation": ORGANISATION, "eshop": ESHOP, "event": "product_change", "events": ["product_change"],
            "destination": "https://shop.example/hooks/longshore", "active": true,
            "authentication": {"type": "bearer", "token": "***"}, "health": "healthy", "disabledReason": null,
            "heldUntil": null, "maxInFlight": 16, "ordered": false, "batch": null, "maxPerSecond": null, "criteria": null, "select": null,
            "backlog": {"waiting": 27, "seconds": null}, "createdBy": {"type": "token", "id": TOKEN, "name": "connector"}, "createdAt": CREATED, "changedAt": CHANGED, "version": 3,
        })
    },
};

/// Deliveries.
pub(super) const DELIVERY: Described = Described {
    resource: &DELIVERIES,
    about: "One event on its way to one webhook. A delivery that has ended is kept for 30 to 37 days.",
    fields: &[
        ("event", "Type of the event."),
        ("entity", "The record that the event is about. That of a test is the webhook."),
        ("attempts", "The attempts, oldest first."),
        ("nextAttemptAt", "When the next attempt is due."),
        ("redeliveryOf", "The delivery that this one repeats."),
        ("batch", "The batch in which it was sent last, or is sent next: the `webhook-id` header."),
        (
            "webhookId",
            "The `webhook-id` header, or `webhookId` in a batch: the same on every retry and redelivery.",
        ),
    ],
    shapes: &[("attempts", attempts)],
    example: || {
        json!({
            "id": SENT, "webhook": HOOK, "organisation": ORGANISATION, "eshop": ESHOP, "event": "product_change",
            "entity": {"type": "product", "id": PRODUCT}, "state": "delivered",
            "attempts": [
                {"number": 1, "at": CREATED, "durationMs": 15_000, "status": null, "error": "timed out", "response": null},
                {"number": 2, "at": CHANGED, "durationMs": 84, "status": 204, "error": null, "response": ""},
            ],
            "attemptCount": 2, "nextAttemptAt": null, "createdAt": CREATED, "finishedAt": CHANGED,
            "redeliveryOf": null, "batch": null, "webhookId": EVENT,
        })
    },
};

fn attempts() -> Said {
    let attempt = object()
        .about("One call to the destination.")
        .required("number", any_integer())
        .required("at", timestamp())
        .required("durationMs", any_integer())
        .required("status", or_null(any_integer()))
        .required("error", or_null(any_text()))
        .required("response", or_null(any_text()))
        .optional("headers", any_object())
        .explain(&[
            ("number", "The number of the attempt in the delivery, from 1."),
            ("durationMs", "Duration in milliseconds."),
            ("status", "HTTP status of the response, if there was one."),
            ("error", "Why there was no response, or why the response is a failure. Of a success, what could not be read of its headers or body."),
            ("response", "The first 2 KiB of the response."),
            (
                "headers",
                "Headers of a response that is a failure, without cookies: up to 24, and 256 characters of each.",
            ),
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
    object()
        .about(
            "An event that is sent to a webhook. It has less than 20 kB and is signed according to [Standard Webhooks](https://www.standardwebhooks.com). Events arrive at least once and can arrive out of order: for each field, keep the value with the highest `data.version`; at the type `restored`, drop the versions and read the records again. A 2xx response within 15 seconds is a success; after anything else, the delivery is retried for three days.",
        )
        .required("id", id())
        .required("type", one_of(NAMES))
        .required("timestamp", timestamp())
        .optional("test", boolean())
        .optional("eshop", or_null(id()))
        .optional("eshops", array_of(id()))
        .optional("status", either([any_text(), any_integer()]))
        .optional("orderNumber", either([any_text(), any_integer()]))
        .required("data", any_object())
        .optional("webhookId", id())
        .explain(&[
            ("id", "The record that changed."),
            ("webhookId", "In a batch, and for a reader: the id of the event."),
            ("timestamp", "When the record changed: its `changedAt`."),
            (
                "test",
                "True in an example that a test of the webhook sends; otherwise absent. Verify the signature, answer with a 2xx, and do not apply it: its record does not exist.",
            ),
            ("eshop", "For a webhook of an organisation: the e-shop. Null where it concerns none."),
            ("eshops", "Instead of `eshop` where several may have the record: up to 100 of them."),
            ("status", "In status events: the new status."),
            (
                "data",
                "The type of the record, its `version`, the names of the changed fields and, in `fields`, their new values. For each field, keep the value with the highest version. If `fields` is missing because the values are large, read the record.",
            ),
        ])
        .into()
}

/// Marks what openapi-generator leaves out. A client receives no calls, and for Python it writes them in no valid Python.
const NOT_FOR_CLIENTS: &str = "x-internal";

fn call(kind: &EventType) -> utoipa::openapi::path::Operation {
    let content =
        ContentBuilder::new().schema(Some(named("Event"))).example(Some(event_example(kind))).build();
    OperationBuilder::new()
        .operation_id(Some(format!("receive_{}", kind.name)))
        .tag(EVENTS)
        .summary(Some(format!("Sent when {}", kind.when)))
        .securities(Some(Vec::new()))
        .extensions(Some([(NOT_FOR_CLIENTS, json!(true))].into_iter().collect()))
        .parameter_ref(Ref::new(format!("#/components/parameters/{}", WEBHOOK_HEADERS[0].0)))
        .parameter_ref(Ref::new(format!("#/components/parameters/{}", WEBHOOK_HEADERS[1].0)))
        .parameter_ref(Ref::new(format!("#/components/parameters/{}", WEBHOOK_HEADERS[2].0)))
        .request_body(Some(
            RequestBodyBuilder::new().required(Some(Required::True)).content(JSON, content).build(),
        ))
        .response("2XX", ResponseBuilder::new().description("Heard.").build())
        .response("410", ResponseBuilder::new().description("Disables the webhook.").build())
        .build()
}

/// The body of an event, exactly as it is sent.
fn event_example(kind: &EventType) -> Value {
    let of = |text: &str| Uuid::try_parse(text).unwrap_or_default();
    let data = example::data(kind.name, of(HOOK).into(), Some(of(ESHOP).into()), of(EVENT).into());
    let at = DateTime::parse_from_rfc3339(CHANGED).map_or(DateTime::<Utc>::UNIX_EPOCH, |at| at.to_utc());
    let event = Event {
        id: of(EVENT).into(),
        kind: kind.name.to_owned(),
        entity: of(data["id"].as_str().unwrap_or_default()),
        is_test: *kind == TEST,
        at,
        data: data.to_string(),
        ..Event::default()
    };
    serde_json::from_slice(&event.body()).unwrap_or_default()
}

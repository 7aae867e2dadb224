//! Readers of events.

use longshore_domain::list::fields::event_reader::EVENT_READER as READERS;
use longshore_domain::webhook::reader::feed::MOST;
use longshore_domain::webhook::reader::{position_schema, schema};
use serde_json::json;

use super::example::{CHANGED, CREATED, ESHOP, ORGANISATION, READER as ID, TOKEN};
use super::operation::{Operation, list, operation, read};
use super::record::Described;
use super::schema::{
    Shape, any_integer, any_object, any_text, array_of, integer, members, named, object, one_of, text,
};
use super::webhook::{OF_CRITERIA, OF_EVENT, OF_EVENTS, OF_MAKER, OF_SELECT};
use crate::routes::webhook::reader as handlers;

/// Where a cursor leads is known to the service only.
const CURSOR: &str = "MS43MzI0NTg2MTIzNDUuMS4xNzY5ODYyNjAwMDAwMDAwLjc1MDo3NTA6";

/// The operations of this module.
pub(super) fn operations() -> Vec<Operation> {
    vec![
        operation(handlers::create_event_reader, "Creates a reader")
            .says("Waits up to two seconds until the reader has begun.")
            .body("EventReaderToCreate", body(true), json!({"eshop": ESHOP, "name": "ERP", "event": "product_change"}))
            .created(&READER)
            .refuses(&[409]),
        list(handlers::list_event_readers, &READER, "Lists readers"),
        read(handlers::get_event_reader, &READER, "Shows a reader"),
        operation(handlers::update_event_reader, "Changes a reader")
            .says("Changes the given fields. They hold for what is read from then on.")
            .body("EventReaderToUpdate", body(false), json!({"events": ["product_change", "job_finished"]}))
            .updated(&READER),
        operation(handlers::delete_event_reader, "Deletes a reader").done(),
        operation(handlers::read_events, "Reads events")
            .says("The events after a cursor, the oldest first, at most 4 MiB. Without `after`, those behind the stored position. With `wait`, as soon as there is one. 410: nothing goes on there, read a snapshot. 503 while the reader is starting.")
            .query("after", text(1..=16_384), None)
            .query("limit", integer(1..=i64::try_from(MOST).unwrap_or(i64::MAX)), None)
            .query("wait", integer(0..=60), None)
            .schema("EventPage", page())
            .answers(200, "The events.", named("EventPage"), Some(json!({"events": [], "next": CURSOR, "behindMs": 0})))
            .refuses(&[410]),
        operation(handlers::set_reader_position, "Stores the position of a reader")
            .body(
                "EventReaderPosition",
                members(&position_schema()).explain(&[("next", "The `next` of an answer.")]),
                json!({"next": CURSOR}),
            )
            .done()
            .refuses(&[410]),
        operation(handlers::read_snapshot, "Reads a snapshot")
            .says("All records of the reader's e-shop or organisation in one snapshot of the database, as lists show them, one in a line. The last line is `{\"next\", \"rows\"}`: reading events after this `next` misses nothing. Without it, the answer is not complete.")
            .required_query("of", one_of(&handlers::SNAPSHOTS), json!("products"))
            .answers_as(200, "The records.", "application/x-ndjson", any_text(), None),
    ]
}

fn body(is_new: bool) -> Shape {
    members(&schema(is_new)).explain(MEANINGS)
}

fn page() -> Shape {
    object()
        .about("Events in their order.")
        .required("events", array_of(named("Event")))
        .required("next", any_text())
        .required("behindMs", any_integer())
        .explain(&[
            ("events", "The bodies that a webhook would be sent, each with its `webhookId`."),
            ("next", "Where to read on."),
            ("behindMs", "How long ago what was read last was committed; 0 at the end."),
        ])
}

const MEANINGS: &[(&str, &str)] = &[
    (
        "organisation",
        "The organisation. Instead of `eshop`: the events of all its e-shops, and its own. It cannot be changed.",
    ),
    ("eshop", "The e-shop whose events are read. Null: those of the organisation. It cannot be changed."),
    ("name", "What people call it."),
    OF_EVENT,
    OF_EVENTS,
    OF_CRITERIA,
    OF_SELECT,
    ("from", "When it begins, as far back as the organisation has had readers. The default is now."),
    ("starting", "Whether changes that began before it was made have not ended yet."),
    ("position", "The stored position; null: none."),
    ("positionAt", "When that was."),
    ("readAt", "When it was read last, within a minute."),
    ("readTo", "The moment up to which events were read."),
    OF_MAKER,
];

/// Readers.
pub(super) const READER: Described = Described {
    resource: &READERS,
    about: "A name for a place in the events of an e-shop, or of an organisation.",
    fields: MEANINGS,
    shapes: &[("criteria", any_object), ("select", || array_of(any_text()))],
    example: || {
        json!({
            "id": ID, "organisation": ORGANISATION, "eshop": ESHOP, "name": "ERP", "event": "product_change", "events": ["product_change"],
            "criteria": null, "select": null, "starting": false, "position": null, "positionAt": null, "readAt": null,
            "readTo": null, "createdBy": {"type": "token", "id": TOKEN, "name": "connector"},
            "createdAt": CREATED, "changedAt": CHANGED, "version": 3,
        })
    },
};

//! What a reader of events shows (`docs/reference/event-readers.md#reader`).

use crate::list::fields::eshop::ESHOP;
use crate::list::fields::event::{NAMES, SUBSCRIBABLE};
use crate::list::fields::organisation::ORGANISATION;
use crate::list::resource::{Field, LookUp, Resource, Tenancy};

/// Readers of events.
pub static EVENT_READER: Resource = Resource {
    name: "event_reader",
    tables: &["event_reader"],
    order: "createdAt",
    version: "{t}.version",
    tenancy: Tenancy {
        organisation: "{t}.organisation_id",
        several: None,
        // a caller that is bound to an e-shop has none
        eshop: Some("{t}.eshop_id = {e} AND false"),
        wms: None,
    },
    fields: FIELDS,
    look_up: LookUp::new(),
};

const FIELDS: &[Field] = &[
    Field::id("id", "{t}.id"),
    Field::one("organisation", "{t}.organisation_id", &ORGANISATION),
    Field::one("eshop", "{t}.eshop_id", &ESHOP).or_null(),
    Field::text("name", "{t}.name"),
    Field::text("event", "{t}.event").among(SUBSCRIBABLE).or_null(),
    Field::texts("events", "{t}.events").among(NAMES),
    Field::json("criteria", "{t}.criteria").or_null(),
    // null, or names: no list is asked about them
    Field::json("select", "to_jsonb({t}.selected)").or_null(),
    Field::boolean(
        "starting",
        "(SELECT NOT p.settled FROM event_reader_position p WHERE p.reader_id = {t}.id)",
    ),
    Field::text("position", "(SELECT p.position FROM event_reader_position p WHERE p.reader_id = {t}.id)")
        .or_null(),
    Field::timestamp(
        "positionAt",
        "(SELECT p.position_at FROM event_reader_position p WHERE p.reader_id = {t}.id)",
    )
    .or_null(),
    Field::timestamp("readAt", "(SELECT p.read_at FROM event_reader_position p WHERE p.reader_id = {t}.id)")
        .or_null(),
    Field::timestamp("createdAt", "{t}.created_at"),
    Field::timestamp("changedAt", "{t}.changed_at"),
    Field::integer("version", "{t}.version"),
];

//! What a reader of events shows (`docs/reference/event-readers.md#reader`).

use crate::list::fields::eshop::ESHOP;
use crate::list::fields::event::{NAMES, SUBSCRIBABLE};
use crate::list::fields::organisation::ORGANISATION;
use crate::list::fields::subscription::{CREATED_BY, CREATED_BY_SHOWN};
use crate::list::resource::{Field, LookUp, Resource, Tenancy};

/// Readers of events.
pub static EVENT_READER: Resource = Resource {
    name: "event_reader",
    tables: &["event_reader"],
    order: "createdAt",
    version: "{t}.version",
    tenancy: Tenancy {
        eshop: Some("{t}.eshop_id = {e}"),
        maker: Some("{t}.made_by = {m}"),
        ..Tenancy::BY_ORGANISATION
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
    Field::timestamp("readTo", "(SELECT p.read_to FROM event_reader_position p WHERE p.reader_id = {t}.id)")
        .or_null(),
    Field::object("createdBy", CREATED_BY).or_null().shown_as(CREATED_BY_SHOWN),
    Field::timestamp("createdAt", "{t}.created_at"),
    Field::timestamp("changedAt", "{t}.changed_at"),
    Field::integer("version", "{t}.version"),
];

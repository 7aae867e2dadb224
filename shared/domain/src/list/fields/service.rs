//! What a carrier service shows (`docs/reference/carriers.md#carrier-service`).

use crate::list::fields::carrier::CARRIER;
use crate::list::resource::{Field, LookUp, Resource, Tenancy};

/// Carrier services.
pub static CARRIER_SERVICE: Resource = Resource {
    name: "carrier service",
    tables: &["carrier_service"],
    order: "name",
    version: "{t}.version",
    tenancy: Tenancy::of(
        "EXISTS (SELECT FROM carrier_organisation a
             WHERE a.carrier_id = {t}.carrier_id AND a.organisation_id = ANY ({o}))",
    ),
    fields: FIELDS,
    look_up: LookUp::new(),
};

const FIELDS: &[Field] = &[
    Field::id("id", "{t}.id"),
    Field::text("name", "{t}.name"),
    Field::integer("code", "{t}.code"),
    Field::one("carrier", "{t}.carrier_id", &CARRIER),
    Field::timestamp("createdAt", "{t}.created_at"),
    Field::timestamp("changedAt", "{t}.changed_at"),
    Field::integer("version", "{t}.version"),
];

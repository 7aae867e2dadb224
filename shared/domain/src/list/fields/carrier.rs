//! What a carrier shows (`docs/reference/carriers.md#carrier`): of its organisations, those the caller may see.

use crate::list::fields::organisation::ORGANISATION;
use crate::list::fields::service::CARRIER_SERVICE;
use crate::list::resource::{Field, Link, LookUp, Resource, Tenancy};

/// Carriers.
pub static CARRIER: Resource = Resource {
    name: "carrier",
    tables: &["carrier"],
    order: "name",
    version: "{t}.version",
    tenancy: Tenancy::of(
        "EXISTS (SELECT FROM carrier_organisation a
             WHERE a.carrier_id = {t}.id AND a.organisation_id = ANY ({o}))",
    ),
    fields: FIELDS,
    look_up: LookUp::new(),
};

const ORGANISATIONS: &Link = &Link {
    table: "carrier_organisation",
    of: "{l}.carrier_id = {t}.id AND ({o} IS NULL OR {l}.organisation_id = ANY ({o}))",
    id: "{l}.organisation_id",
};

const SERVICES: &Link = &Link { table: "carrier_service", of: "{l}.carrier_id = {t}.id", id: "{l}.id" };

const FIELDS: &[Field] = &[
    Field::id("id", "{t}.id"),
    Field::text("name", "{t}.name"),
    Field::integer("code", "{t}.code"),
    Field::many("organisations", ORGANISATIONS, &ORGANISATION),
    Field::many("services", SERVICES, &CARRIER_SERVICE),
    Field::texts("countriesOfOperation", "{t}.countries_of_operation"),
    Field::boolean("active", "{t}.active"),
    Field::timestamp("createdAt", "{t}.created_at"),
    Field::timestamp("changedAt", "{t}.changed_at"),
    Field::integer("version", "{t}.version"),
];

//! What a supplier shows (decisions, section 4).

use crate::account::organisation::fields::ORGANISATION;
use crate::list::resource::{Field, LookUp, Resource, Tenancy};

/// Suppliers.
pub static SUPPLIER: Resource = Resource {
    name: "supplier",
    table: "supplier",
    order: "createdAt",
    version: "{t}.changed_at",
    tenancy: Tenancy { organisation: "{t}.organisation_id", eshop: None },
    fields: FIELDS,
    look_up: LookUp::new(),
};

const FIELDS: &[Field] = &[
    Field::id("id", "{t}.id"),
    Field::one("organisation", "{t}.organisation_id", &ORGANISATION),
    Field::text("name", "{t}.name"),
    Field::boolean("active", "{t}.active"),
    Field::text("companyName", "{t}.company_name"),
    Field::text("firstName", "{t}.first_name"),
    Field::text("lastName", "{t}.last_name"),
    Field::text("degree", "{t}.degree"),
    Field::text("degree2", "{t}.degree2"),
    Field::text("street", "{t}.street"),
    Field::text("houseNr", "{t}.house_nr"),
    Field::text("city", "{t}.city"),
    Field::text("zip", "{t}.zip"),
    Field::text("country", "{t}.country"),
    Field::text("phone", "{t}.phone"),
    Field::text("email", "{t}.email"),
    Field::text("registrationNumber", "{t}.registration_number"),
    Field::text("vatNumber", "{t}.vat_number"),
    Field::text("note", "{t}.note"),
    Field::text("ref1", "{t}.ref1"),
    Field::text("ref2", "{t}.ref2"),
    Field::text("ref3", "{t}.ref3"),
    Field::timestamp("createdAt", "{t}.created_at"),
    Field::timestamp("changedAt", "{t}.changed_at"),
];

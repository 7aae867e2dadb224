//! What a supplier shows (`docs/reference/warehouses.md#supplier`).

use crate::list::fields::organisation::ORGANISATION;
use crate::list::resource::{Field, LookUp, Resource, Tenancy};

/// Suppliers.
pub static SUPPLIER: Resource = Resource {
    name: "supplier",
    tables: &["supplier"],
    order: "createdAt",
    version: "{t}.version",
    tenancy: Tenancy::BY_ORGANISATION,
    fields: FIELDS,
    look_up: LookUp::new(),
};

const FIELDS: &[Field] = &[
    Field::id("id", "{t}.id"),
    Field::one("organisation", "{t}.organisation_id", &ORGANISATION),
    Field::text("name", "{t}.name"),
    Field::boolean("active", "{t}.active"),
    Field::text("companyName", "{t}.company_name").or_null(),
    Field::text("firstName", "{t}.first_name").or_null(),
    Field::text("lastName", "{t}.last_name").or_null(),
    Field::text("degree", "{t}.degree").or_null(),
    Field::text("degree2", "{t}.degree2").or_null(),
    Field::text("street", "{t}.street").or_null(),
    Field::text("houseNr", "{t}.house_nr").or_null(),
    Field::text("city", "{t}.city").or_null(),
    Field::text("zip", "{t}.zip").or_null(),
    Field::text("country", "{t}.country").or_null(),
    Field::text("phone", "{t}.phone").or_null(),
    Field::text("email", "{t}.email").or_null(),
    Field::text("registrationNumber", "{t}.registration_number").or_null(),
    Field::text("vatNumber", "{t}.vat_number").or_null(),
    Field::text("note", "{t}.note").or_null(),
    Field::text("ref1", "{t}.ref1").or_null(),
    Field::text("ref2", "{t}.ref2").or_null(),
    Field::text("ref3", "{t}.ref3").or_null(),
    Field::timestamp("createdAt", "{t}.created_at"),
    Field::timestamp("changedAt", "{t}.changed_at"),
    Field::integer("version", "{t}.version"),
];

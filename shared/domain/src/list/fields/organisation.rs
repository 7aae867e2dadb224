//! What an organisation shows (`docs/reference/organisations.md#organisation`).

use crate::list::fields::supplier::SUPPLIER;
use crate::list::fields::wms::WMS;
use crate::list::resource::{Field, Link, LookUp, Resource, Tenancy};

/// Organisations.
pub static ORGANISATION: Resource = Resource {
    name: "organisation",
    tables: &["organisation"],
    order: "createdAt",
    version: "{t}.version",
    tenancy: Tenancy::of("{t}.id"),
    fields: FIELDS,
    look_up: LookUp::new(),
};

const WMSES: &Link = &Link { table: "wms", of: "{l}.organisation_id = {t}.id", id: "{l}.id" };

const SUPPLIERS: &Link = &Link { table: "supplier", of: "{l}.organisation_id = {t}.id", id: "{l}.id" };

const FIELDS: &[Field] = &[
    Field::id("id", "{t}.id"),
    Field::text("name", "{t}.name"),
    Field::text("registrationNumber", "{t}.registration_number"),
    Field::text("vatNumber", "{t}.vat_number"),
    Field::text("addressLine1", "{t}.address_line1"),
    Field::text("addressLine2", "{t}.address_line2"),
    Field::text("addressLine3", "{t}.address_line3"),
    Field::text("primaryCountry", "{t}.primary_country"),
    Field::id("owner", "{t}.owner").or_null(),
    Field::ids("owners", "{t}.owners"),
    Field::boolean("active", "{t}.active"),
    Field::timestamp("createdAt", "{t}.created_at"),
    Field::many("wmses", WMSES, &WMS),
    Field::many("suppliers", SUPPLIERS, &SUPPLIER),
    Field::text("code", "{t}.code").or_null(),
    Field::boolean("automaticExchangeEnabled", "{t}.automatic_exchange_enabled"),
    Field::boolean("ignoreAddressValidation", "{t}.ignore_address_validation"),
    Field::integer("stockAdviceCloseInterval", "{t}.stock_advice_close_interval").or_null(),
    Field::timestamp("changedAt", "{t}.changed_at"),
    Field::integer("version", "{t}.version"),
];

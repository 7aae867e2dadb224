//! What a carrier preference shows (`docs/reference/carriers.md#carrier-preference`).

use crate::list::fields::carrier::CARRIER;
use crate::list::fields::eshop::ESHOP;
use crate::list::fields::organisation::ORGANISATION;
use crate::list::fields::service::CARRIER_SERVICE;
use crate::list::resource::{Field, LookUp, Resource, Tenancy};

/// Carrier preferences. An e-shop sees its own and those of its organisation, which its orders may be shipped by.
pub static CARRIER_PREFERENCE: Resource = Resource {
    name: "carrier_preference",
    tables: &["carrier_preference"],
    order: "position",
    version: "{t}.version",
    tenancy: Tenancy {
        eshop: Some("({t}.eshop_id IS NULL OR {t}.eshop_id = {e})"),
        ..Tenancy::BY_ORGANISATION
    },
    fields: FIELDS,
    look_up: LookUp::new(),
};

const FIELDS: &[Field] = &[
    Field::id("id", "{t}.id"),
    Field::one("organisation", "{t}.organisation_id", &ORGANISATION),
    Field::one("eshop", "{t}.eshop_id", &ESHOP).or_null(),
    Field::integer("position", "{t}.position"),
    Field::boolean("active", "{t}.active"),
    Field::one("carrier", "{t}.carrier_id", &CARRIER),
    Field::one("carrierService", "{t}.carrier_service_id", &CARRIER_SERVICE).or_null(),
    Field::json("conditions", "{t}.conditions"),
    Field::timestamp("createdAt", "{t}.created_at"),
    Field::timestamp("changedAt", "{t}.changed_at"),
    Field::integer("version", "{t}.version"),
];

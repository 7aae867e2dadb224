//! What an audit record shows (`docs/reference/accounts.md#audit`).

use crate::list::fields::job::JOB;
use crate::list::fields::organisation::ORGANISATION;
use crate::list::resource::{Field, LookUp, Resource, Tenancy};

/// Audit records. Their ids are made in the order of time, and so is their order: the key of every partition gives it.
/// Records without an organisation (of queues, say) are only for callers who see everything.
pub static AUDIT: Resource = Resource {
    name: "audit record",
    tables: &["audit"],
    order: "id",
    version: "(extract(epoch FROM {t}.at) * 1000000)::bigint",
    // no e-shop: a connector has no part in the audit
    tenancy: Tenancy { organisation: "{t}.organisation_id", several: None, eshop: None, wms: None },
    fields: FIELDS,
    look_up: LookUp::new(),
};

const ACTOR: &[Field] = &[
    Field::text("type", "{t}.actor_type"),
    Field::id("id", "{t}.actor_id").or_null(),
    Field::text("name", "{t}.actor_name"),
];

const ENTITY: &[Field] = &[Field::text("type", "{t}.entity_type"), Field::id("id", "{t}.entity_id")];

const FIELDS: &[Field] = &[
    Field::id("id", "{t}.id"),
    Field::timestamp("at", "{t}.at"),
    Field::object("actor", ACTOR),
    Field::text("action", "{t}.action"),
    Field::object("entity", ENTITY),
    Field::one("organisation", "{t}.organisation_id", &ORGANISATION).or_null(),
    Field::json("changes", "{t}.changes"),
    Field::text("requestId", "{t}.request_id").or_null(),
    Field::one("job", "{t}.job_id", &JOB).or_null(),
];

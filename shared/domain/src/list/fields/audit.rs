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
    tenancy: Tenancy::BY_ORGANISATION,
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

/// What jobs changed, from the audit (`docs/reference/jobs.md#changes`). It is asked of one job, by those who may see the job.
pub static CHANGE: Resource = Resource {
    name: "change",
    tables: &["audit"],
    order: "id",
    version: AUDIT.version,
    tenancy: Tenancy {
        eshop: Some("(SELECT eshop_id FROM job WHERE id = {t}.job_id) = {e}"),
        wms: Some("(SELECT (parameters ->> 'wms')::uuid FROM job WHERE id = {t}.job_id) = {w}"),
        ..Tenancy::BY_ORGANISATION
    },
    fields: CHANGES,
    look_up: LookUp::new(),
};

const CHANGES: &[Field] = &[
    Field::id("id", "{t}.id"),
    Field::timestamp("at", "{t}.at"),
    Field::object("entity", ENTITY),
    Field::text(
        "key",
        "CASE {t}.entity_type
         WHEN 'product' THEN (SELECT product_sku FROM product WHERE id = {t}.entity_id)
         WHEN 'expedition' THEN (SELECT order_number FROM expedition_detail WHERE id = {t}.entity_id)
         WHEN 'product_stock' THEN (SELECT p.product_sku FROM product_stock s JOIN product p ON p.id = s.product_id WHERE s.id = {t}.entity_id)
         END",
    )
    .or_null(),
    Field::text("action", "{t}.action"),
    Field::json("changes", "{t}.changes"),
    Field::id("job", "{t}.job_id").hidden(),
];

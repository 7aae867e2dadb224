//! What a job shows (decisions, section 5).

use crate::account::eshop::fields::ESHOP;
use crate::account::organisation::fields::ORGANISATION;
use crate::list::resource::{Field, LookUp, Resource, Tenancy};

/// Jobs.
pub static JOB: Resource = Resource {
    name: "job",
    table: "job",
    order: "createdAt",
    version: "{t}.changed_at",
    tenancy: Tenancy { organisation: "{t}.organisation_id", eshop: Some("{t}.eshop_id = {e}") },
    fields: FIELDS,
    look_up: LookUp::new(),
};

const PROGRESS: &[Field] = &[
    Field::integer("total", "{t}.total"),
    Field::integer("done", "{t}.done"),
    Field::integer("changed", "{t}.changed"),
    Field::integer("unchanged", "{t}.unchanged"),
    Field::integer("failed", "{t}.failed"),
];

const ACTOR: &[Field] = &[
    Field::text("type", "{t}.actor_type"),
    Field::id("id", "{t}.actor_id"),
    Field::text("name", "{t}.actor_name"),
];

const FIELDS: &[Field] = &[
    Field::id("id", "{t}.id"),
    Field::text("kind", "{t}.kind"),
    Field::text("state", "{t}.state"),
    Field::one("organisation", "{t}.organisation_id", &ORGANISATION),
    Field::one("eshop", "{t}.eshop_id", &ESHOP),
    Field::object("progress", PROGRESS),
    Field::integer("attempts", "{t}.attempts"),
    Field::text("error", "{t}.error"),
    Field::object("createdBy", ACTOR),
    Field::text("requestId", "{t}.request_id"),
    Field::timestamp("createdAt", "{t}.created_at"),
    Field::timestamp("startedAt", "{t}.started_at"),
    Field::timestamp("finishedAt", "{t}.finished_at"),
    Field::timestamp("changedAt", "{t}.changed_at"),
];

//! What a job shows (decisions, section 5).

use crate::account::eshop::fields::ESHOP;
use crate::account::organisation::fields::ORGANISATION;
use crate::job::kind::JobKind;
use crate::list::resource::{Field, LookUp, Resource, Tenancy};

/// Jobs.
pub static JOB: Resource = Resource {
    name: "job",
    table: "job",
    order: "createdAt",
    version: "{t}.changed_at",
    tenancy: Tenancy {
        organisation: "{t}.organisation_id",
        several: Some("{t}.organisations <@ {o}"),
        eshop: Some("{t}.eshop_id = {e}"),
    },
    fields: FIELDS,
    look_up: LookUp::new(),
};

/// Every state, in the order of a job's life.
const STATES: &[&str] = &["receiving", "queued", "running", "retrying", "succeeded", "failed", "cancelled"];

/// The names of every kind.
const KINDS: &[&str] = &{
    let mut names = [""; JobKind::ALL.len()];
    let mut i = 0;
    while i < names.len() {
        names[i] = JobKind::ALL[i].1;
        i += 1;
    }
    names
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
    Field::id("id", "{t}.actor_id").or_null(),
    Field::text("name", "{t}.actor_name"),
];

const FIELDS: &[Field] = &[
    Field::id("id", "{t}.id"),
    Field::text("kind", "{t}.kind").among(KINDS),
    Field::text("state", "{t}.state").among(STATES),
    Field::one("organisation", "{t}.organisation_id", &ORGANISATION).or_null(),
    Field::one("eshop", "{t}.eshop_id", &ESHOP).or_null(),
    Field::object("progress", PROGRESS),
    Field::integer("attempts", "{t}.attempts"),
    Field::text("error", "{t}.error").or_null(),
    Field::object("createdBy", ACTOR),
    Field::text("requestId", "{t}.request_id").or_null(),
    Field::timestamp("createdAt", "{t}.created_at"),
    Field::timestamp("startedAt", "{t}.started_at").or_null(),
    Field::timestamp("finishedAt", "{t}.finished_at").or_null(),
    Field::timestamp("changedAt", "{t}.changed_at"),
];

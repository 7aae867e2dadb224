//! What a dry run, or the release of what a guard withholds, would do to an item (`docs/reference/jobs.md#dry-run`).

use crate::list::resource::{Field, LookUp, Resource, Tenancy};
use longshore_kernel::words;

/// Items of dry runs. They are asked of one job, by those who may see the job.
pub static PREVIEW: Resource = Resource {
    name: "previewed item",
    tables: &["job_previewed"],
    order: "index",
    version: "0::bigint",
    tenancy: Tenancy {
        several: Some("(SELECT organisations FROM job WHERE id = {t}.job_id) <@ {o}"),
        eshop: Some("(SELECT eshop_id FROM job WHERE id = {t}.job_id) = {e}"),
        ..Tenancy::of("(SELECT organisation_id FROM job WHERE id = {t}.job_id)")
    },
    fields: FIELDS,
    look_up: LookUp::new(),
};

words! {
    /// What would become of an item.
    pub enum Would ("outcome of a dry run") {
        /// A record would be created.
        Create = "create",
        /// A record would be changed.
        Update = "update",
        /// The item would be refused.
        Refuse = "refuse",
        /// An order would get its pieces.
        Book = "book",
        /// An order would wait for pieces.
        Wait = "wait",
        /// An order would be cancelled.
        Cancel = "cancel",
    }
}

const FIELDS: &[Field] = &[
    Field::integer("index", "{t}.index"),
    Field::integer("line", "{t}.line").or_null(),
    Field::text("key", "{t}.key").or_null(),
    Field::text("would", "{t}.would").among(&Would::WORDS),
    Field::id("id", "{t}.id").or_null().shown_as("CASE WHEN {t}.exists THEN {t}.id END"),
    Field::json("changes", "{t}.changes").or_null(),
    Field::text("code", "{t}.code").or_null(),
    Field::text("message", "{t}.message").or_null(),
    Field::id("job", "{t}.job_id").hidden(),
];

//! What a webhook shows (`docs/reference/webhooks.md#webhook`): never a secret.

use crate::list::fields::eshop::ESHOP;
use crate::list::fields::event::{NAMES, SUBSCRIBABLE};
use crate::list::fields::organisation::ORGANISATION;
use crate::list::resource::{Field, LookUp, Resource, Tenancy};
use longshore_kernel::words;

/// Webhooks.
pub static WEBHOOK: Resource = Resource {
    name: "webhook",
    tables: &["webhook"],
    order: "createdAt",
    version: "{t}.version",
    tenancy: Tenancy {
        eshop: Some("{t}.eshop_id = {e}"),
        maker: Some("{t}.made_by = {m}"),
        ..Tenancy::BY_ORGANISATION
    },
    fields: FIELDS,
    look_up: LookUp::new(),
};

words! {
    /// The state of a webhook, the worst first.
    pub enum Health ("health of webhooks") {
        /// It was disabled.
        Disabled = "disabled",
        /// The last calls failed.
        Failing = "failing",
        /// It was deactivated: nothing is sent, so it is neither failing nor healthy.
        Inactive = "inactive",
        /// Nothing failed since the last success.
        Healthy = "healthy",
    }
}

/// The health of a webhook as callers see it; whether it is deactivated is `active`.
pub const HEALTHS: [&str; 3] =
    [Health::Healthy.as_str(), Health::Failing.as_str(), Health::Disabled.as_str()];

const AUTHENTICATION: &[Field] =
    &[Field::text("type", "{t}.authentication_type").among(&["none", "basic", "bearer", "header"])];

const BACKLOG: &[Field] = &[Field::integer("waiting", "0"), Field::integer("seconds", "0").or_null()];

/// What waits is counted up to 10,000.
const BACKLOG_SHOWN: &str = "(
    SELECT json_build_object('waiting', n, 'seconds', ceil(n / ({t}.max_per_second * coalesce({t}.batch_events, 1))))
    FROM (SELECT count(*) AS n FROM (SELECT FROM delivery WHERE webhook_id = {t}.id LIMIT 10000) AS d) AS waiting)";

/// Who has made a webhook, or a reader.
pub(super) const CREATED_BY: &[Field] = &[
    Field::text("type", "{t}.created_by_type").or_null(),
    Field::id("id", "{t}.created_by_id").or_null(),
    Field::text("name", "{t}.created_by").or_null(),
];

pub(super) const CREATED_BY_SHOWN: &str = "(CASE WHEN {t}.created_by IS NOT NULL
    THEN json_build_object('type', {t}.created_by_type, 'id', {t}.created_by_id, 'name', {t}.created_by) END)";

const BATCH: &[Field] = &[
    Field::integer("maxEvents", "{t}.batch_events").or_null(),
    Field::integer("maxWaitMs", "(extract(epoch FROM {t}.batch_wait) * 1000)::int"),
];

const FIELDS: &[Field] = &[
    Field::id("id", "{t}.id"),
    Field::one("organisation", "{t}.organisation_id", &ORGANISATION),
    Field::one("eshop", "{t}.eshop_id", &ESHOP).or_null(),
    Field::text("event", "{t}.event").among(SUBSCRIBABLE).or_null(),
    Field::texts("events", "{t}.events").among(NAMES),
    Field::text("destination", "{t}.destination"),
    Field::boolean("active", "{t}.active"),
    // sealed as a whole: only the names of its members are shown
    Field::object("authentication", AUTHENTICATION).shown_as(
        "CASE {t}.authentication_type
         WHEN 'basic' THEN json_build_object('type', 'basic', 'username', '***', 'password', '***')
         WHEN 'bearer' THEN json_build_object('type', 'bearer', 'token', '***')
         WHEN 'header' THEN json_build_object('type', 'header', 'header', '***', 'token', '***')
         ELSE json_build_object('type', 'none') END",
    ),
    Field::text(
        "health",
        "CASE WHEN {t}.disabled_at IS NOT NULL THEN 'disabled'
         WHEN EXISTS (SELECT 1 FROM webhook_lane k WHERE k.webhook_id = {t}.id AND k.failures > 0) THEN 'failing'
         ELSE 'healthy' END",
    )
    .among(&HEALTHS),
    Field::text("disabledReason", "{t}.disabled_reason").or_null(),
    Field::timestamp(
        "heldUntil",
        "(SELECT k.held_until FROM webhook_lane k WHERE k.webhook_id = {t}.id AND k.held_until > now())",
    )
    .or_null(),
    Field::integer("maxInFlight", "{t}.max_in_flight"),
    Field::number("maxPerSecond", "{t}.max_per_second").or_null(),
    Field::boolean("ordered", "{t}.ordered"),
    Field::object("batch", BATCH).shown_as("webhook_batch_shown({t}.batch_events, {t}.batch_wait)").or_null(),
    Field::json("criteria", "{t}.criteria").or_null(),
    // null, or names: no list is asked about them
    Field::json("select", "to_jsonb({t}.selected)").or_null(),
    Field::object("backlog", BACKLOG).shown_as(BACKLOG_SHOWN).alone(),
    Field::object("createdBy", CREATED_BY).or_null().shown_as(CREATED_BY_SHOWN),
    Field::timestamp("createdAt", "{t}.created_at"),
    Field::timestamp("changedAt", "{t}.changed_at"),
    Field::integer("version", "{t}.version"),
];

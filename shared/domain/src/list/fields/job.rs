//! What a job shows (`docs/reference/jobs.md#job`).

use crate::list::fields::eshop::ESHOP;
use crate::list::fields::organisation::ORGANISATION;
use crate::list::resource::{Field, LookUp, Resource, Tenancy};
use longshore_kernel::words;

/// Jobs.
pub static JOB: Resource = Resource {
    name: "job",
    tables: &["job"],
    order: "createdAt",
    version: "{t}.version",
    tenancy: Tenancy {
        several: Some("{t}.organisations <@ {o}"),
        eshop: Some("{t}.eshop_id = {e}"),
        // a wms sees what it has reported
        wms: Some("{t}.kind = 'expedition.news' AND ({t}.parameters ->> 'wms')::uuid = {w}"),
        ..Tenancy::BY_ORGANISATION
    },
    fields: FIELDS,
    look_up: LookUp::new(),
};

words! {
    /// The state of a job.
    pub enum JobState ("state of jobs") {
        /// Its rows arrive.
        Receiving = "receiving",
        /// None of it was executed.
        Queued = "queued",
        /// Some of it was, or is, executed.
        Running = "running",
        /// A chunk waits for its next attempt.
        Retrying = "retrying",
        /// Every chunk was executed.
        Succeeded = "succeeded",
        /// A chunk failed for good.
        Failed = "failed",
        /// A caller cancelled it.
        Cancelled = "cancelled",
    }
}

impl JobState {
    /// Whether it has come to an end.
    #[must_use]
    pub fn is_ended(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }
}

words! {
    /// What a job that succeeded came to, the best first.
    pub enum JobOutcome ("outcome of jobs") {
        /// No item was refused.
        Complete = "complete",
        /// Some were.
        Partial = "partial",
        /// Its guard withheld what would have destroyed too much.
        Withheld = "withheld",
        /// All were.
        Nothing = "nothing",
    }
}

/// What a job came to (`outcome`), where it succeeded.
#[must_use]
pub fn outcome(state: JobState, total: i32, failed: i32, withheld: i32) -> Option<JobOutcome> {
    match failed {
        _ if state != JobState::Succeeded => None,
        _ if withheld > 0 => Some(JobOutcome::Withheld),
        0 => Some(JobOutcome::Complete),
        some if some < total => Some(JobOutcome::Partial),
        _ => Some(JobOutcome::Nothing),
    }
}

words! {
    /// What a job does. Its name is stable: it is stored, shown, and filtered by.
    pub enum JobKind ("kind of jobs") {
        /// Switches products on.
        ProductActivate = "product.activate",
        /// Switches products off.
        ProductDeactivate = "product.deactivate",
        /// Takes over products of a partner.
        ProductSync = "product.sync",
        /// Takes over stock counts of a partner.
        StockSync = "stock.sync",
        /// Sends stocks to a partner.
        StockSend = "stock.send",
        /// Takes over orders of an e-shop.
        ExpeditionSync = "expedition.sync",
        /// Takes what a warehouse reports of orders.
        ExpeditionNews = "expedition.news",
        /// Sends orders.
        ExpeditionSend = "expedition.send",
        /// Confirms orders.
        ExpeditionProcess = "expedition.process",
        /// Takes orders back.
        ExpeditionRollback = "expedition.rollback",
        /// Cancels orders.
        ExpeditionCancel = "expedition.cancel",
        /// Activates admins.
        AdminActivate = "admin.activate",
        /// Deactivates admins.
        AdminDeactivate = "admin.deactivate",
        /// Deletes admins for good.
        AdminDelete = "admin.delete",
        /// Sends again what did not succeed at a webhook.
        WebhookRecover = "webhook.recover",
        /// Sends deliveries again.
        WebhookRedeliver = "webhook.redeliver",
        /// Sends again what matches at several webhooks.
        WebhookReplay = "webhook.replay",
        /// Tests the connection to the partner of an e-shop.
        IntegrationTest = "integration.test",
        /// Tests the connection to the system of a warehouse.
        WmsTest = "wms.test",
        /// Tries what a job of another kind would do.
        Preview = "preview",
    }
}

const PROGRESS: &[Field] = &[
    Field::integer("total", "{t}.total"),
    Field::integer("done", "{t}.done"),
    Field::integer("changed", "{t}.changed"),
    Field::integer("unchanged", "{t}.unchanged"),
    Field::integer("failed", "{t}.failed"),
    Field::integer("withheld", "{t}.withheld"),
];

const RESULT: &[Field] = &[
    Field::integer(
        "released",
        "CASE WHEN {t}.kind IN ('webhook.recover', 'webhook.redeliver', 'webhook.replay') THEN {t}.released END",
    ),
    Field::integer(
        "resent",
        "CASE WHEN {t}.kind IN ('webhook.recover', 'webhook.redeliver', 'webhook.replay') THEN {t}.resent END",
    ),
];

const CONNECTION: &[Field] = &[
    Field::boolean(
        "works",
        "CASE WHEN {t}.kind IN ('integration.test', 'wms.test') THEN {t}.connection_works END",
    ),
    Field::text(
        "message",
        "CASE WHEN {t}.kind IN ('integration.test', 'wms.test') THEN {t}.connection_message END",
    ),
    Field::integer(
        "durationMs",
        "CASE WHEN {t}.kind IN ('integration.test', 'wms.test') THEN {t}.connection_ms END",
    ),
];

const ACTOR: &[Field] = &[
    Field::text("type", "{t}.actor_type"),
    Field::id("id", "{t}.actor_id").or_null(),
    Field::text("name", "{t}.actor_name"),
];

const FIELDS: &[Field] = &[
    Field::id("id", "{t}.id"),
    Field::text("kind", "{t}.kind").among(&JobKind::WORDS),
    Field::text("state", "{t}.state").among(&JobState::WORDS),
    Field::one("organisation", "{t}.organisation_id", &ORGANISATION).or_null(),
    Field::one("eshop", "{t}.eshop_id", &ESHOP).or_null(),
    Field::text("outcome", "job_outcome({t}.state, {t}.total, {t}.failed, {t}.withheld)")
        .among(&JobOutcome::WORDS)
        .or_null(),
    Field::object("progress", PROGRESS),
    // of what sends deliveries again, and of nothing else
    Field::object("result", RESULT).or_null().shown_as(
        "CASE WHEN {t}.kind IN ('webhook.recover', 'webhook.redeliver', 'webhook.replay')
         THEN json_build_object('released', {t}.released, 'resent', {t}.resent) END",
    ),
    // of what is about all records that matched
    Field::json("criteria", "({t}.parameters -> 'criteria')").or_null(),
    // of a dry run, and of nothing else
    Field::text("of", "{t}.preview_of").among(&JobKind::WORDS).or_null(),
    Field::json(
        "preview",
        "(({t}.preview - 'rows') || jsonb_build_object('unchanged', {t}.unchanged, 'refused', {t}.failed))",
    )
    .or_null(),
    // of a test that has ended, and of nothing else
    Field::object("connection", CONNECTION).or_null().shown_as(
        "CASE WHEN {t}.connection_works IS NOT NULL THEN json_build_object('works', {t}.connection_works,
             'message', {t}.connection_message, 'durationMs', {t}.connection_ms) END",
    ),
    // of what has ended, or was never accepted, nothing is looked up
    Field::json(
        "waitsFor",
        "(CASE WHEN {t}.state IN ('queued', 'running', 'retrying') THEN job_waits_for({t}.id) END)",
    )
    .or_null(),
    Field::integer("attempts", "{t}.attempts"),
    Field::text("error", "{t}.error").or_null(),
    Field::object("createdBy", ACTOR),
    Field::text("requestId", "{t}.request_id").or_null(),
    Field::timestamp("createdAt", "{t}.created_at"),
    Field::timestamp("startedAt", "{t}.started_at").or_null(),
    Field::timestamp("attemptStartedAt", "coalesce({t}.attempt_started_at, {t}.started_at)").or_null(),
    Field::timestamp("finishedAt", "{t}.finished_at").or_null(),
    Field::timestamp("changedAt", "{t}.changed_at"),
    Field::integer("version", "{t}.version"),
];

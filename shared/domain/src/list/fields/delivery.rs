//! What a delivery shows (`docs/reference/deliveries.md#delivery`).

use crate::list::fields::eshop::ESHOP;
use crate::list::fields::event;
use crate::list::fields::organisation::ORGANISATION;
use crate::list::fields::subscription::WEBHOOK;
use crate::list::resource::{Field, LookUp, Resource, Tenancy};
use longshore_kernel::words;

words! {
    /// The state of a delivery.
    pub enum DeliveryState ("state of deliveries") {
        /// It waits, or is being sent.
        Pending = "pending",
        /// The destination took it.
        Delivered = "delivered",
        /// Its last attempt failed.
        Exhausted = "exhausted",
        /// It is not sent any more.
        Cancelled = "cancelled",
    }
}

/// The live queue.
const WAITING: &str = "(
    SELECT d.id, d.webhook_id, w.eshop_id, w.organisation_id, d.event_id,
        (SELECT e.type FROM event e WHERE e.id = d.event_id) AS event_type,
        (SELECT e.entity_id FROM event e WHERE e.id = d.event_id) AS entity_id,
        'pending' AS state, d.attempt_count, d.attempts, d.next_attempt_at, d.redelivery_of, d.batch_id, d.created_at,
        NULL::timestamptz AS finished_at, d.next_attempt_at AS version
    FROM delivery d JOIN webhook w ON w.id = d.webhook_id
)";

/// What has ended.
const ENDED: &str = "(
    SELECT h.id, h.webhook_id, h.eshop_id, h.organisation_id, h.event_id, h.event_type, h.entity_id, h.state,
        h.attempt_count, h.attempts, NULL::timestamptz AS next_attempt_at, h.redelivery_of, h.batch_id, h.created_at, h.finished_at,
        h.finished_at AS version
    FROM delivery_history h
)";

/// Deliveries. Their ids are made in the order of time, and so is their order: the key of every partition gives it.
pub static DELIVERY: Resource = Resource {
    name: "delivery",
    tables: &[WAITING, ENDED],
    order: "id",
    version: "(extract(epoch FROM {t}.version) * 1000000)::bigint",
    tenancy: Tenancy {
        eshop: Some("{t}.eshop_id = {e}"),
        maker: Some("{t}.webhook_id = ANY (ARRAY(SELECT id FROM webhook WHERE made_by = {m}))"),
        ..Tenancy::BY_ORGANISATION
    },
    fields: FIELDS,
    look_up: LookUp::new(),
};

const ENTITY: &[Field] = &[
    Field::text("type", "(SELECT e.entity_type FROM event e WHERE e.id = {t}.event_id)").or_null(),
    Field::id("id", "{t}.entity_id"),
];

const FIELDS: &[Field] = &[
    Field::id("id", "{t}.id"),
    Field::one("webhook", "{t}.webhook_id", &WEBHOOK),
    Field::one("organisation", "{t}.organisation_id", &ORGANISATION),
    Field::one("eshop", "{t}.eshop_id", &ESHOP).or_null(),
    Field::text("event", "{t}.event_type").among(event::NAMES),
    Field::object("entity", ENTITY),
    Field::text("state", "{t}.state").among(&DeliveryState::WORDS),
    Field::json("attempts", "{t}.attempts").alone(),
    Field::integer("attemptCount", "{t}.attempt_count"),
    Field::timestamp("nextAttemptAt", "{t}.next_attempt_at").or_null(),
    Field::timestamp("createdAt", "{t}.created_at"),
    Field::timestamp("finishedAt", "{t}.finished_at").or_null(),
    Field::one("redeliveryOf", "{t}.redelivery_of", &DELIVERY).or_null(),
    Field::id("batch", "{t}.batch_id").or_null(),
    // the `webhook-id` header of a call with one event: the event's id, the same on every retry and redelivery
    Field::id("webhookId", "{t}.event_id"),
];

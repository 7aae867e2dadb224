//! Sending again: one delivery, or many by a job.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::PgConnection;

use super::Deliveries;
use crate::job::acceptance::{self, Taken};
use crate::job::chosen::{self, Bulk};
use crate::job::chunk::{Claim, Count};
use crate::job::item_error::ItemError;
use crate::job::kind::{Job, JobKind, Within};
use crate::job::outcome::{Fate, Outcome};
use crate::job::payload;
use crate::list::fields::delivery::DELIVERY;
use longshore_kernel::access::Scope;
use longshore_kernel::answer::Answer;
use longshore_kernel::change::Change;
use longshore_kernel::context::{Context, Origin};
use longshore_kernel::ids::{DeliveryId, EshopId, EventId, OrganisationId, WebhookId};
use longshore_kernel::input::{Reader, Rule};
use longshore_kernel::problem::{CONFLICT, Problem};
use longshore_kernel::record_change;
use longshore_kernel::services::Services;

/// How deliveries are taken. Each is a delivery and a record of the audit more.
const TAKEN: Taken = Taken { per_chunk: 2_000, order: "{t}.id" };

/// Sends deliveries again: those of its chunks, or all that match.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Redeliver {
    /// Whose they may be.
    #[serde(flatten)]
    pub within: Within,
    /// Those that match, found step by step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deliveries: Option<Deliveries>,
}

impl Redeliver {
    /// Those of its chunks.
    fn named(within: Within) -> Self {
        Self { within, deliveries: None }
    }
}

impl Job for Redeliver {
    const KIND: JobKind = JobKind::WebhookRedeliver;
    type Owner = ();

    fn is_divisible(&self) -> bool {
        self.deliveries.is_none()
    }
}

/// Sends a delivery again (`PUT /api/webhook-delivery/redeliver/{id}`): a new delivery of the same event.
pub async fn redeliver(services: &Services, context: &Context, id: DeliveryId) -> Result<Answer, Problem> {
    let mut change = Change::begin(services).await?;
    let scope = context.scope();
    let found = find(change.connection(), scope.organisations(), scope.eshop(), &[id]).await?;
    let found = found.first().ok_or_else(|| Problem::not_found("delivery"))?;
    if let Some(why) = found.refusal() {
        return Err(Problem::new(&CONFLICT, why));
    }
    let made = insert(&mut change, &context.origin, &[found]).await?;
    let new = made.first().ok_or_else(|| Problem::not_found("delivery"))?;
    let body = json!({"id": new, "redeliveryOf": id}).to_string();
    let answer = Answer::accepted(format!("/api/webhook-delivery/{new}"), body);
    change.answer(context.claim, answer).await
}

/// The body of [`redeliver_many`].
pub fn body() -> impl Rule<Out = Bulk> {
    chosen::bulk(acceptance::ids(), &DELIVERY)
}

/// Sends many again (`PUT /api/webhook-delivery/redeliver`), by a job.
pub async fn redeliver_many(services: &Services, context: &Context, body: Value) -> Result<Answer, Problem> {
    accept(services, context, Reader::read(body, self::body())?).await
}

/// The same, of deliveries that are chosen.
pub async fn accept(
    services: &Services,
    context: &Context,
    bulk: impl Into<Bulk>,
) -> Result<Answer, Problem> {
    acceptance::accept(services, context, Redeliver::named, bulk.into(), TAKEN, organisations).await
}

/// Whose deliveries these are, as far as the scope includes them; where none is known, the job is of the whole scope.
async fn organisations(
    tx: &mut PgConnection,
    scope: &Scope,
    ids: &[DeliveryId],
) -> Result<Vec<OrganisationId>, sqlx::Error> {
    let within = scope.organisations();
    if let Some([only]) = within {
        return Ok(vec![*only]);
    }
    // one by one by their keys: a join may be planned as a scan of all partitions
    let found = sqlx::query_scalar!(
        r#"SELECT DISTINCT d.organisation_id AS "organisation!: OrganisationId"
           FROM unnest($1::uuid[]) AS given (id)
           CROSS JOIN LATERAL (
               SELECT w.organisation_id FROM delivery JOIN webhook w ON w.id = delivery.webhook_id WHERE delivery.id = given.id
               UNION ALL SELECT organisation_id FROM delivery_history WHERE delivery_history.id = given.id
           ) d
           WHERE in_scope($2, d.organisation_id)"#,
        ids as &[DeliveryId],
        within as Option<&[OrganisationId]>,
    )
    .fetch_all(tx)
    .await?;
    Ok(if found.is_empty() { within.unwrap_or_default().to_vec() } else { found })
}

/// Executes a chunk of ids: ids outside the scope, and deliveries that cannot be sent again, are item errors; the others
/// are sent again.
pub async fn execute(change: &mut Change<'_>, claim: &Claim, within: &Within) -> Result<Outcome, Fate> {
    let ids = payload::unpack_ids(&claim.payload)?;
    let found = find(change.connection(), within.organisations.as_deref(), within.scope_eshop, &ids).await?;
    let known: HashMap<DeliveryId, &Redeliverable> = found.iter().map(|found| (found.id, found)).collect();
    let (mut sendable, mut errors) = (Vec::with_capacity(found.len()), Vec::new());
    for (position, id) in ids.iter().enumerate() {
        let found = known.get(id);
        let (code, message) = match found.map(|found| (found, found.refusal())) {
            Some((found, None)) => {
                sendable.push(*found);
                continue;
            }
            Some((_, Some(why))) => ("not_sendable", why),
            None => ("not_found", "there is no such delivery"),
        };
        errors.push(ItemError {
            index: claim.index(position),
            line: None,
            key: Some(id.to_string()),
            code,
            message: message.to_owned(),
            field: None,
            payload: id.get().as_bytes().to_vec(),
            notice: false,
        });
    }
    let made = insert(change, &claim.origin, &sendable).await?;
    let [resent, failed] = [made.len(), errors.len()].map(|count| i32::try_from(count).unwrap_or(i32::MAX));
    sqlx::query!("UPDATE job SET resent = resent + $2 WHERE id = $1", claim.job.get(), resent)
        .execute(change.connection())
        .await?;
    let count = Count { changed: resent, unchanged: claim.item_count - resent - failed, failed };
    Ok(Outcome { count, errors })
}

/// Sends these deliveries again, as far as possible; returns how many. All of them must be in scope.
pub(super) async fn send_again(
    change: &mut Change<'_>,
    origin: &Origin,
    ids: &[DeliveryId],
) -> Result<usize, sqlx::Error> {
    let found = find(change.connection(), None, None, ids).await?;
    let sendable: Vec<_> = found.iter().filter(|found| found.refusal().is_none()).collect();
    Ok(insert(change, origin, &sendable).await?.len())
}

/// A delivery that is to be sent again.
struct Redeliverable {
    id: DeliveryId,
    event: EventId,
    webhook: WebhookId,
    /// Its webhook and its event are still there.
    webhook_is_there: bool,
    event_is_there: bool,
}

impl Redeliverable {
    /// Why it cannot be sent again.
    fn refusal(&self) -> Option<&'static str> {
        if !self.webhook_is_there {
            Some("its webhook was deleted")
        } else if !self.event_is_there {
            Some("its event is no longer kept")
        } else {
            None
        }
    }
}

async fn find(
    connection: &mut PgConnection,
    organisations: Option<&[OrganisationId]>,
    eshop: Option<EshopId>,
    ids: &[DeliveryId],
) -> Result<Vec<Redeliverable>, sqlx::Error> {
    // the webhooks are locked, so that none is deleted before its deliveries are in
    sqlx::query!(
        "SELECT id FROM webhook WHERE id IN (
             SELECT d.webhook_id FROM unnest($1::uuid[]) AS given (id)
             CROSS JOIN LATERAL (
                 SELECT webhook_id FROM delivery WHERE id = given.id
                 UNION ALL SELECT webhook_id FROM delivery_history WHERE id = given.id
             ) d)
         ORDER BY id FOR KEY SHARE",
        ids as &[DeliveryId],
    )
    .fetch_all(&mut *connection)
    .await?;
    sqlx::query_as!(
        Redeliverable,
        r#"SELECT given.id AS "id!", d.event_id AS "event!", d.webhook_id AS "webhook!",
                  w.id IS NOT NULL AS "webhook_is_there!",
                  EXISTS (SELECT FROM event WHERE event.id = d.event_id) AS "event_is_there!"
           FROM unnest($3::uuid[]) WITH ORDINALITY AS given (id, place)
           CROSS JOIN LATERAL (
               SELECT event_id, webhook_id, eshop_id, NULL::uuid AS organisation_id FROM delivery
               WHERE delivery.id = given.id
               UNION ALL
               SELECT event_id, webhook_id, eshop_id, organisation_id FROM delivery_history
               WHERE delivery_history.id = given.id
           ) d
           LEFT JOIN webhook w ON w.id = d.webhook_id
           WHERE in_scope($1, coalesce(d.organisation_id, w.organisation_id))
             AND in_eshop($2, d.eshop_id)
           ORDER BY given.place"#,
        organisations as Option<&[OrganisationId]>,
        eshop as Option<EshopId>,
        ids as &[DeliveryId],
    )
    .fetch_all(connection)
    .await
}

/// Creates the new deliveries, in this order; returns their ids.
async fn insert(
    change: &mut Change<'_>,
    origin: &Origin,
    found: &[&Redeliverable],
) -> Result<Vec<DeliveryId>, sqlx::Error> {
    let new: Vec<DeliveryId> = found.iter().map(|_| DeliveryId::new()).collect();
    let of: Vec<DeliveryId> = found.iter().map(|found| found.id).collect();
    let events: Vec<EventId> = found.iter().map(|found| found.event).collect();
    let webhooks: Vec<WebhookId> = found.iter().map(|found| found.webhook).collect();
    let recorded = record_change!(
        change.connection(),
        origin,
        "delivery.redeliver",
        "delivery",
        None,
        "WITH made AS (
             INSERT INTO delivery (id, webhook_id, eshop_id, event_id, next_attempt_at, redelivery_of)
             SELECT g.id, w.id, w.eshop_id, g.event_id, now(), g.redelivery_of
             FROM unnest($9::uuid[], $10::uuid[], $11::uuid[], $12::uuid[]) AS g (id, redelivery_of, event_id, webhook_id)
             JOIN webhook w ON w.id = g.webhook_id
             RETURNING id, redelivery_of, webhook_id
         ), changed AS (
             SELECT made.redelivery_of AS entity, w.organisation_id AS organisation, '{}'::uuid[] AS eshops,
                    jsonb_build_object('redelivery', jsonb_build_array(NULL, made.id)) AS changes,
                    '{}'::jsonb AS data
             FROM made JOIN webhook w ON w.id = made.webhook_id
         )",
        &new as &[DeliveryId],
        &of as &[DeliveryId],
        &events as &[EventId],
        &webhooks as &[WebhookId],
    )
    .await?;
    change.note(recorded);
    let mut lanes: HashSet<WebhookId> = webhooks.iter().copied().collect();
    let active = sqlx::query_scalar!(
        r#"SELECT id AS "id: WebhookId" FROM webhook WHERE active AND id = ANY ($1)"#,
        &lanes.drain().collect::<Vec<_>>() as &[WebhookId]
    )
    .fetch_all(change.connection())
    .await?;
    change.note_lanes(active);
    Ok(new)
}

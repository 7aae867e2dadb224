//! Invariants of webhooks: each change reached every subscribed webhook, and each operation on a webhook was
//! executed.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use super::none;
use crate::chaos::fleet::Shop;
use crate::chaos::minder::{self, Deeds};
use crate::chaos::report::Check;

/// How long a paused webhook may still receive calls: a worker checks its lease before each call, may freeze
/// for up to eight seconds between the check and the call, and a lease that is not renewed lasts three.
const PAUSED_WITHIN: Duration = Duration::from_secs(12);

/// The webhooks of an organisation, and their destinations.
pub(super) type Listeners<'s> = (Uuid, &'s [(Uuid, Shop)]);

/// All invariants of webhooks. `last_test` was sent when all work was done. `deeds` are those of the first
/// listener.
pub(super) async fn all(
    psql: &mut PgConnection,
    listeners: &[Listeners<'_>],
    deeds: &Deeds,
    last_test: Uuid,
) -> anyhow::Result<Vec<Check>> {
    let mut checks = delivered(psql, listeners).await?;
    checks.push(derived(psql, listeners).await?);
    let (_, shops) = listeners.first().context("there is no listener")?;
    checks.push(sent_again(psql, listeners, deeds).await?);
    checks.push(recovered(psql, shops, deeds).await?);
    checks.push(rotated(psql, shops, deeds, last_test).await?);
    checks.push(paused(shops, deeds)?);
    Ok(checks)
}

/// Each webhook with its organisation.
fn each<'s>(listeners: &[Listeners<'s>]) -> impl Iterator<Item = (Uuid, &'s (Uuid, Shop))> {
    listeners.iter().flat_map(|(organisation, shops)| shops.iter().map(|shop| (*organisation, shop)))
}

/// What criteria of a webhook may be about.
pub(crate) const OF_CHANGED: &str = "data.changedFields";

/// The destination of the webhook of the organisation, which alone is told the e-shops of an event.
pub(crate) const OF_ORGANISATION: &str = "of the organisation";

/// Which events a webhook hears of.
#[derive(sqlx::FromRow)]
struct Subscribed {
    id: Uuid,
    types: Vec<String>,
    /// Only changes of this field.
    field: Option<String>,
    /// Only what a connector of this e-shop may see.
    bound: Option<Uuid>,
}

impl Subscribed {
    fn hears(&self, event: &Event) -> bool {
        let is_seen = |(eshop, seen_by): (Uuid, &Vec<Uuid>)| seen_by.contains(&eshop);
        self.types.contains(&event.kind)
            && self.bound.zip(event.seen_by.as_ref()).is_none_or(is_seen)
            && self.field.as_ref().is_none_or(|field| event.changed.contains(field))
    }
}

/// A change, as it was recorded.
#[derive(sqlx::FromRow)]
struct Event {
    organisation: Uuid,
    id: Uuid,
    entity: Uuid,
    kind: String,
    changed: Vec<String>,
    seen_by: Option<Vec<Uuid>>,
}

/// Which events each webhook hears of.
async fn subscribed(psql: &mut PgConnection) -> sqlx::Result<HashMap<Uuid, Subscribed>> {
    let found: Vec<Subscribed> = sqlx::query_as(
        "SELECT id, events AS types, criteria -> $1 ->> 'eq' AS field, CASE WHEN bound THEN eshop_id END AS bound FROM webhook",
    )
    .bind(OF_CHANGED)
    .fetch_all(psql)
    .await?;
    Ok(found.into_iter().map(|to| (to.id, to)).collect())
}

/// Compares the deliveries as the destinations and as the service recorded them.
async fn delivered(psql: &mut PgConnection, listeners: &[Listeners<'_>]) -> anyhow::Result<Vec<Check>> {
    let events: Vec<Event> = sqlx::query_as(
        "SELECT organisation_id AS organisation, id, entity_id AS entity, type AS kind,
                ARRAY(SELECT jsonb_array_elements_text(data -> 'changedFields')) AS changed, seen_by
         FROM event",
    )
    .fetch_all(&mut *psql)
    .await?;
    let subscribed = subscribed(psql).await?;
    let (mut untold, mut invented, mut unbelievable) = (Vec::new(), Vec::new(), Vec::new());
    let (mut promised, mut accepted) = (0, 0);
    for (organisation, (webhook, shop)) in each(listeners) {
        let book = shop.book();
        let to = subscribed.get(webhook);
        let due = events.iter().filter(|event| {
            // a test is sent only to its own webhook
            event.organisation == organisation
                && if event.kind == "test" {
                    event.entity == *webhook
                } else {
                    to.is_none_or(|to| to.hears(event))
                }
        });
        let entities: HashMap<Uuid, Uuid> = due.map(|event| (event.id, event.entity)).collect();
        promised += entities.len() as u64;
        accepted += book.accepted.len() as u64;
        untold.extend(
            entities
                .keys()
                .filter(|id| !book.accepted.contains_key(id))
                .map(|id| format!("{} never received {id}", shop.name)),
        );
        invented.extend(
            book.accepted
                .keys()
                .filter(|id| entities.get(id) != book.entities.get(id))
                .map(|id| format!("{} received {id}, which is no such change", shop.name)),
        );
        let calls: u64 = book.accepted.values().map(|count| u64::from(*count)).sum();
        let naming = if shop.name == OF_ORGANISATION { calls } else { 0 };
        if book.naming_eshops != naming {
            let named = book.naming_eshops;
            unbelievable.push(format!("{}: {named} of {calls} events name their e-shops", shop.name));
        }
        if book.unsigned > 0 || book.lies > 0 {
            unbelievable.push(format!("{}: {} unsigned, {} lies", shop.name, book.unsigned, book.lies));
        }
    }
    let recorded = none(
        psql,
        "each change is recorded as delivered once to each webhook, and nothing else is",
        promised.cast_signed(),
        "SELECT coalesce(ended.event_id, due.id) || ' to ' || coalesce(ended.webhook_id, due.webhook) || ': '
                || coalesce(ended.states, 'nothing')
         FROM (SELECT event_id, webhook_id, string_agg(state, ' ') AS states FROM delivery_history
               WHERE redelivery_of IS NULL GROUP BY event_id, webhook_id) ended
         FULL JOIN (SELECT event.id, webhook.id AS webhook FROM event JOIN webhook USING (organisation_id)
                    WHERE CASE event.type WHEN 'test' THEN event.entity_id = webhook.id
                          ELSE event.type = ANY (webhook.events)
                              AND (NOT webhook.bound OR event.seen_by IS NULL OR webhook.eshop_id = ANY (event.seen_by))
                              AND coalesce(
                              event.data -> 'changedFields' ? (webhook.criteria -> 'data.changedFields' ->> 'eq'),
                              webhook.criteria IS NULL) END) due
           ON (due.id, due.webhook) = (ended.event_id, ended.webhook_id)
         WHERE due.id IS NULL OR ended.states IS DISTINCT FROM 'delivered'
           -- what was given up counts as recovered
           AND NOT (ended.states IS NOT DISTINCT FROM 'exhausted' AND EXISTS (
                   SELECT FROM delivery_history h
                   WHERE h.event_id = ended.event_id AND h.webhook_id = ended.webhook_id AND h.state = 'delivered'))",
    )
    .await?;
    Ok(vec![
        Check::new("each change was delivered to each webhook", promised, untold),
        Check::new("each webhook-id belongs to one change", accepted, invented),
        Check::new("each request was signed, and was about one change", accepted, unbelievable),
        recorded,
    ])
}

/// Checks that a destination that keeps the highest version of each field, in any order of delivery, has the
/// stored values.
pub(super) async fn derived(psql: &mut PgConnection, listeners: &[Listeners<'_>]) -> anyhow::Result<Check> {
    let subscribed = subscribed(psql).await?;
    let stored: Vec<(Uuid, Value)> = sqlx::query_as(
        "SELECT id, to_jsonb(product) || jsonb_build_object('eshops',
                    ARRAY(SELECT eshop_id FROM product_eshop WHERE product_id = product.id ORDER BY eshop_id))
         FROM product
         UNION ALL SELECT id, to_jsonb(product_stock) || jsonb_build_object('available', quantity - booked)
         FROM product_stock
         UNION ALL SELECT id, to_jsonb(stock_advice) FROM stock_advice
         -- errors belong to a status; JSON of Postgres has another form of moments
         UNION ALL SELECT id, to_jsonb(e) - '{errors,packed_at,sent_at,delivered_at}'::text[] || jsonb_build_object('tracking_number', d.tracking_number,
                    'tracking_url', d.tracking_url, 'parcels', (
                        SELECT jsonb_agg(jsonb_build_object('extPackageNumber', p.ext_package_number,
                                    'extPackageTrackingNumber', p.ext_package_tracking_number,
                                    'extCarrierTrackingNumber', p.ext_carrier_tracking_number, 'trackingUrl', p.tracking_url)
                                ORDER BY p.created_at, p.ext_package_number)
                        FROM expedition_parcel p WHERE p.expedition_id = e.id))
         FROM expedition e JOIN expedition_detail d USING (id)
         UNION ALL SELECT id, to_jsonb(organisation) FROM organisation",
    )
    .fetch_all(psql)
    .await?;
    let stored: HashMap<Uuid, Value> = stored.into_iter().collect();
    let (mut compared, mut found) = (0, Vec::new());
    for (_, (webhook, shop)) in each(listeners) {
        let book = shop.book();
        // events of several types tell the fields of an order: one who hears of one type knows the status only
        let is_partial = subscribed
            .get(webhook)
            .is_some_and(|to| to.types.iter().all(|event| event.starts_with("expedition_")));
        // one that selects them is sent the changes of one field
        let only = subscribed.get(webhook).and_then(|to| to.field.as_ref());
        let others = book
            .fields
            .iter()
            .filter(|((_, field), (_, held))| only.is_some_and(|only| only != field && held.is_some()));
        found.extend(others.map(|((_, field), _)| format!("{} was sent {field}", shop.name)));
        if book.unversioned > 0 {
            found.push(format!("{} got {} changes without a version", shop.name, book.unversioned));
        }
        for ((record, field), (version, held)) in &book.fields {
            let Some(stored) = stored.get(record) else { continue };
            let last = stored["version"].as_i64().unwrap_or_default();
            if last < *version {
                found.push(format!("{}: got version {version} of {record}, which is at {last}", shop.name));
            }
            // values without a column, such as the parts of a bundle, are compared elsewhere
            let (Some(held), Some(stored)) = (held, stored.get(column(field))) else { continue };
            if is_partial && field != "status" {
                continue;
            }
            compared += 1;
            if held != stored {
                found.push(format!("{}: {field} of {record} is {held}, not {stored}", shop.name));
            }
        }
    }
    Ok(Check::new("the highest version of each field that was sent is what is stored", compared, found))
}

/// The column of a field, which is its name in snake case.
fn column(field: &str) -> String {
    let mut column = String::with_capacity(field.len() + 4);
    for letter in field.chars() {
        if letter.is_ascii_uppercase() {
            column.push('_');
        }
        column.push(letter.to_ascii_lowercase());
    }
    column
}

/// Tests and redeliveries: each is one more delivery, which its destination accepted.
async fn sent_again(
    psql: &mut PgConnection,
    listeners: &[Listeners<'_>],
    deeds: &Deeds,
) -> anyhow::Result<Check> {
    let (_, shops) = listeners.first().context("there is no listener")?;
    let all: Vec<Uuid> = each(listeners).map(|(_, (webhook, _))| *webhook).collect();
    let given_up = minder::find(shops, minder::GIVEN_UP)?.0;
    let (by_jobs, mut found) = sent_by_jobs(psql, deeds).await?;
    let tests = deeds.tests.iter().map(|(test, _)| (*test, None));
    let again = deeds.redeliveries.iter().chain(&by_jobs);
    let given = tests.chain(again.map(|(new, of)| (*new, Some(*of))));
    let (made, of): (Vec<Uuid>, Vec<Option<Uuid>>) = given.unzip();
    let wrong: Vec<String> = sqlx::query_scalar(
        "SELECT coalesce(given.id, made.id) || ': ' || coalesce(to_jsonb(made), 'null') || CASE
                    WHEN given.id IS NULL THEN ', which was not asked for' ELSE '' END
         FROM unnest($1::uuid[], $2::uuid[]) AS given (id, of)
         FULL JOIN (SELECT id, redelivery_of, event_type, state FROM delivery_history
                    WHERE webhook_id = ANY ($4) AND webhook_id <> $3 AND (redelivery_of IS NOT NULL OR event_type = 'test')) made
           ON made.id = given.id
         WHERE given.id IS NULL OR made.id IS NULL OR made.state <> 'delivered'
            OR made.redelivery_of IS DISTINCT FROM given.of",
    )
    .bind(&made)
    .bind(&of)
    .bind(given_up)
    .bind(&all)
    .fetch_all(&mut *psql)
    .await?;
    found.extend(wrong);
    let again: Vec<(Uuid, Uuid, i64)> = sqlx::query_as(
        "SELECT event_id, webhook_id, count(*) FROM delivery_history WHERE state = 'delivered' AND webhook_id = ANY ($1)
         GROUP BY event_id, webhook_id HAVING count(*) > 1",
    )
    .bind(&all)
    .fetch_all(psql)
    .await?;
    for (event, webhook, delivered) in again {
        let shop = shops.iter().find(|(id, _)| *id == webhook).map(|(_, shop)| shop);
        let accepted = shop.map_or(0, |shop| shop.book().accepted.get(&event).copied().unwrap_or(0));
        if i64::from(accepted) < delivered {
            found
                .push(format!("{event} was delivered {delivered} times to {webhook}, which took {accepted}"));
        }
    }
    Ok(Check::new(
        "each test and redelivery that was accepted was delivered once, and no other",
        made.len() as u64,
        found,
    ))
}

/// The redeliveries of jobs, each with the delivery that it repeats, from the audit; and differences from
/// what was requested.
async fn sent_by_jobs(
    psql: &mut PgConnection,
    deeds: &Deeds,
) -> anyhow::Result<(Vec<(Uuid, Uuid)>, Vec<String>)> {
    let (mut made, mut found) = (Vec::new(), Vec::new());
    for (job, wanted) in &deeds.redelivery_jobs {
        let sent: Vec<(Uuid, Uuid)> = sqlx::query_as(
            "SELECT (changes -> 'redelivery' ->> 1)::uuid, entity_id FROM audit
             WHERE action = 'delivery.redeliver' AND job_id = $1 ORDER BY entity_id",
        )
        .bind(job)
        .fetch_all(&mut *psql)
        .await?;
        let mut wanted = wanted.clone();
        wanted.sort_unstable();
        if !sent.iter().map(|(_, of)| *of).eq(wanted.iter().copied()) {
            found.push(format!("job {job} sent {} again, and was to send {}", sent.len(), wanted.len()));
        }
        made.extend(sent);
    }
    Ok((made, found))
}

/// Recoveries: failed deliveries were sent again until they were delivered, and no others were.
async fn recovered(psql: &mut PgConnection, shops: &[(Uuid, Shop)], deeds: &Deeds) -> anyhow::Result<Check> {
    let given_up = minder::find(shops, minder::GIVEN_UP)?.0;
    let ended: Vec<(Uuid, i64, i64, i64)> = sqlx::query_as(
        "SELECT event_id, count(*) FILTER (WHERE state = 'exhausted'), count(*) FILTER (WHERE state = 'delivered'),
                count(*) FILTER (WHERE redelivery_of IS NOT NULL)
         FROM delivery_history WHERE webhook_id = $1
         GROUP BY event_id HAVING count(*) > 1 OR bool_or(state = 'exhausted')",
    )
    .bind(given_up)
    .fetch_all(&mut *psql)
    .await?;
    let wrong = ended.iter().filter(|(_, exhausted, delivered, again)| *delivered != 1 || exhausted != again);
    let mut found: Vec<String> = wrong
        .map(|(event, exhausted, delivered, again)| {
            format!(
                "{event}: given up {exhausted} times, sent again {again} times, delivered {delivered} times"
            )
        })
        .collect();
    let again: i64 = ended.iter().map(|(_, _, _, again)| again).sum();
    let resent: i64 = sqlx::query_scalar("SELECT coalesce(sum(resent), 0) FROM job WHERE id = ANY ($1)")
        .bind(&deeds.recoveries)
        .fetch_one(psql)
        .await?;
    if again != resent {
        found.push(format!("{again} were sent again, where recoveries say {resent}"));
    }
    Ok(Check::new("each delivery that was given up was recovered once", ended.len() as u64, found))
}

/// Rotations: each was executed once, and each secret that was shown signed the last test.
async fn rotated(
    psql: &mut PgConnection,
    shops: &[(Uuid, Shop)],
    deeds: &Deeds,
    last_test: Uuid,
) -> anyhow::Result<Check> {
    let (webhook, shop) = minder::find(shops, minder::ROTATED)?;
    let mut found = Vec::new();
    let (secrets, signed) = (shop.secrets(), shop.book().signed.get(&last_test).copied());
    if signed != Some(secrets) {
        found.push(format!("of {secrets} secrets, {} signed the last test", signed.unwrap_or(0)));
    }
    if secrets as u64 + deeds.unseen != 1 + deeds.rotations {
        let (rotations, unseen) = (deeds.rotations, deeds.unseen);
        found.push(format!("{secrets} secrets after {rotations} rotations, {unseen} of them unseen"));
    }
    let audited: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM audit WHERE entity_id = $1 AND action = 'webhook.rotate_secret'",
    )
    .bind(webhook)
    .fetch_one(psql)
    .await?;
    if audited.unsigned_abs() != deeds.rotations {
        found.push(format!("{audited} rotations in the audit, of {} that were accepted", deeds.rotations));
    }
    Ok(Check::new(
        "each rotation happened once, and its secret signs beside those before",
        deeds.rotations,
        found,
    ))
}

/// Pauses: deliveries due meanwhile were kept. That they were sent later is covered by the other checks.
fn paused(shops: &[(Uuid, Shop)], deeds: &Deeds) -> anyhow::Result<Check> {
    let shop = &minder::find(shops, minder::PAUSED)?.1;
    let book = shop.book();
    let mut found = Vec::new();
    for (paused, resumed) in &deeds.pauses {
        let quiet = *paused + PAUSED_WITHIN..*resumed;
        for (entity, _) in book.moments.iter().filter(|(_, moment)| quiet.contains(moment)) {
            found.push(format!("it got {entity} more than {PAUSED_WITHIN:?} after it was paused"));
        }
    }
    let long = deeds.pauses.iter().filter(|(paused, resumed)| *resumed > *paused + PAUSED_WITHIN).count();
    Ok(Check::new("nothing is sent to a webhook that is paused for long", long as u64, found))
}

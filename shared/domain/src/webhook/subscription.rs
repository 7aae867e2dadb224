//! Subscriptions, which the interface calls webhooks: the wish of an e-shop, or of an organisation, to hear of events at a destination.
//!
//! [`stored`] is what lanes and deliveries know of one, below both. [`Authentication`] has the credentials for a destination, in
//! addition to the signature.

pub(super) mod choice;
mod edit;
pub(super) mod filter;
pub(super) mod room;
mod rotation;
pub(super) mod stored;
mod trial;

use serde_json::Value;

use self::choice::{Source, of_source};
use self::edit::{Edit, NewWebhook};
pub use self::edit::{batch_schema, schema, trial_schema};
pub use self::rotation::{SEALED, SEALED_FORMER, rotate_secret};
use self::stored::{Batching, ENTITY, Settings, location, lock, seal_authentication, secret_place, shown};
pub use self::trial::{Tried, try_out};
use super::delivery;
use super::lane;
use crate::calling::secret::{self, Signing as _};
use crate::calling::signature;
use longshore_kernel::answer::Answer;
pub use longshore_kernel::authentication::Authentication;
use longshore_kernel::cause::causes;
use longshore_kernel::change::Change;
use longshore_kernel::context::Context;
use longshore_kernel::ids::{EshopId, TokenId, WebhookId};
use longshore_kernel::problem::Problem;
use longshore_kernel::quota::Kind;
use longshore_kernel::record_change;
use longshore_kernel::services::Services;

/// Creates a webhook (`POST /api/eshop-webhook`). Its secret is shown in this answer, and in no repetition of it.
pub async fn create(services: &Services, context: &Context, body: Value) -> Result<Answer, Problem> {
    let scope = context.scope();
    let read = NewWebhook::read(&services.outbound, body);
    let (new, source) = of_source(services, scope, read).await?;
    let Source { organisation, eshop, .. } = source;
    let id = WebhookId::new();
    let secret = signature::new_secret();
    let sealed_secret = services.vault.seal(&secret_place(id), &secret).map_err(Problem::internal)?;
    let sealed = seal_authentication(&services.vault, id, &new.authentication)?;
    let mut change = Change::begin(services).await?;
    change.must_have_room(organisation, Kind::Webhook).await?;
    room::of_webhooks(change.connection(), source, services.outbound.webhooks_per_eshop).await?;
    room::of_maker(change.connection(), scope, "webhooks").await?;
    let Settings { subscribed, filter, .. } = &new.settings;
    let matches = filter.compiled(change.connection(), &new.conditions).await?;
    let recorded = record_change!(
        change.connection(),
        context.origin,
        "webhook.create",
        ENTITY,
        None,
        "WITH made AS (
             INSERT INTO webhook (id, organisation_id, eshop_id, event, events, destination, active, authentication_type,
                 authentication, secret, max_in_flight, ordered, batch_events, batch_wait, max_per_second, criteria, matches, selected,
                 created_by_type, created_by_id, created_by, made_by, bound)
             VALUES ($9, $10, $11, $12, $21, $13, $14, $15, $16, $17, $18, $19, $22, $23, $24::float8, $25, $26::text::jsonpath, $27,
                 $1, $2, $3, $28, $29)
             RETURNING *
         ), lane AS (
             INSERT INTO webhook_lane (webhook_id) SELECT id FROM made
         ), changed AS (
             SELECT id AS entity, version, changed_at AS at, organisation_id AS organisation, '{}'::uuid[] AS eshops,
                    jsonb_build_object('eshop', jsonb_build_array(NULL, eshop_id),
                        'events', jsonb_build_array(NULL, to_jsonb(events)),
                        'destination', jsonb_build_array(NULL, destination),
                        'active', jsonb_build_array(NULL, active),
                        'authentication', jsonb_build_array(NULL, $20::jsonb),
                        'maxInFlight', jsonb_build_array(NULL, max_in_flight),
                        'ordered', jsonb_build_array(NULL, ordered),
                        'batch', jsonb_build_array(NULL, webhook_batch_shown(batch_events, batch_wait)),
                        'maxPerSecond', jsonb_build_array(NULL, max_per_second),
                        'criteria', jsonb_build_array(NULL, criteria),
                        'select', jsonb_build_array(NULL, to_jsonb(selected)),
                        'secret', jsonb_build_array(NULL, '***')) AS changes,
                    '{}'::jsonb AS data
             FROM made
         )",
        id.get(),
        organisation.get(),
        eshop as Option<EshopId>,
        subscribed.event.as_deref(),
        new.settings.destination,
        new.settings.active,
        new.authentication.kind(),
        sealed.as_deref() as Option<&[u8]>,
        sealed_secret,
        new.settings.max_in_flight,
        new.settings.ordered,
        Authentication::masked(new.authentication.kind()),
        &subscribed.events,
        new.settings.batch.map(|batch| batch.max_events),
        Batching::wait(new.settings.batch),
        new.settings.max_per_second,
        filter.criteria.as_ref() as Option<&Value>,
        matches,
        filter.select.as_deref() as Option<&[String]>,
        scope.maker() as Option<TokenId>,
        scope.eshop().is_some(),
    )
    .await?;
    change.note(recorded);
    let webhook = shown(change.connection(), scope, id).await?;
    let stored = Answer::created(location(id), webhook.version, webhook.json);
    secret::answer_with(change, context, stored, &secret).await
}

/// Changes a webhook (`PUT /api/eshop-webhook/{id}`): the given fields; the others stay. `check` refuses a version.
pub async fn update(
    services: &Services,
    context: &Context,
    id: WebhookId,
    body: Value,
    check: impl FnOnce(i64) -> Result<(), Problem>,
) -> Result<Answer, Problem> {
    let edit = Edit::read(&services.outbound, body)?;
    let mut change = Change::begin(services).await?;
    let old = lock(&mut change, context.scope(), id).await?;
    check(old.version)?;
    if !edit.echo.is_empty() {
        Problem::refuse(edit.echo.judge(&shown(change.connection(), context.scope(), id).await?.json)?)?;
    }
    let new = edit.apply(&old, &old.authentication(&services.vault, id)?)?;
    let held = set(&mut change, services, context, id, &new).await?;
    let webhook = shown(change.connection(), context.scope(), id).await?;
    let answer = Answer::updated(location(id), webhook.version, webhook.json);
    let answer = change.answer(context.claim, answer).await?;
    after_switch(services, id, &new, held).await;
    Ok(answer)
}

/// Activates or deactivates a webhook (`PUT /api/eshop-webhook/activate|deactivate/{id}`). What waits at one that was inactive is
/// sent now, also what was to be tried again later, and its failures are reset. One that is active stays as it is; if it waits for
/// its destination, it is served now.
pub async fn set_active(
    services: &Services,
    context: &Context,
    id: WebhookId,
    active: bool,
) -> Result<Answer, Problem> {
    set_active_if(services, context, id, active, |_| Ok(())).await
}

/// The same, unless `check` refuses the version.
pub async fn set_active_if(
    services: &Services,
    context: &Context,
    id: WebhookId,
    active: bool,
    check: impl FnOnce(i64) -> Result<(), Problem>,
) -> Result<Answer, Problem> {
    let mut change = Change::begin(services).await?;
    let old = lock(&mut change, context.scope(), id).await?;
    check(old.version)?;
    let authentication = old.authentication(&services.vault, id)?;
    let new = Edit { active: Some(active), ..Edit::default() }.apply(&old, &authentication)?;
    let held = set(&mut change, services, context, id, &new).await?;
    if active && new.switched.is_none() && lane::end_wait(change.connection(), id).await? {
        change.note_lanes([id]);
    }
    let answer = change.answer(context.claim, Answer::done()).await?;
    after_switch(services, id, &new, held).await;
    Ok(answer)
}

/// After a change was committed: if it deactivates, waits until the holder of the lane begins no more calls; if it activates,
/// releases what waits.
async fn after_switch(services: &Services, id: WebhookId, new: &edit::Fields, held: Option<i64>) {
    if let Some(token) = held {
        lane::until_ending(services, id, token).await;
    }
    if new.switched != Some(true) {
        return;
    }
    // it is active, whatever becomes of this: what is not released is sent at its own time
    if let Err(problem) = delivery::release_all(services, id).await {
        tracing::warn!(
            webhook.id = %id, error = %causes(&problem),
            "deliveries of an activated webhook were not released; they are sent when their next attempt is due"
        );
    }
}

/// Deletes a webhook (`DELETE /api/eshop-webhook/{id}`); its deliveries that are not done are cancelled.
///
/// Before that its lane is held back until no worker can begin a call: with the webhook goes the lane, by which a worker
/// would confirm that. If the deletion then fails, the lane is free again within seconds.
pub async fn delete(services: &Services, context: &Context, id: WebhookId) -> Result<Answer, Problem> {
    if let Some(token) = lane::hold_back(&services.db, context.scope(), id).await? {
        lane::until_ending(services, id, token).await;
    }
    let mut change = Change::begin(services).await?;
    let organisation = lock(&mut change, context.scope(), id).await?.organisation;
    let recorded = record_change!(
        change.connection(),
        context.origin,
        "webhook.delete",
        ENTITY,
        None,
        "WITH made AS (
             DELETE FROM webhook WHERE id = $9 RETURNING *
         ), no_longer_begun AS (
             DELETE FROM webhook_batch WHERE webhook_id = $9
         ), buried AS (
             INSERT INTO tombstone (entity_type, entity_id, organisation_id, eshop_id, made_by, deleted_by)
             SELECT $7, id, organisation_id, eshop_id, coalesce(made_by, '00000000-0000-0000-0000-000000000000'), $3 FROM made
         ), changed AS (
             SELECT id AS entity, organisation_id AS organisation, '{}'::uuid[] AS eshops,
                    jsonb_build_object('eshop', jsonb_build_array(eshop_id, NULL),
                        'events', jsonb_build_array(to_jsonb(events), NULL),
                        'destination', jsonb_build_array(destination, NULL),
                        'active', jsonb_build_array(active, NULL),
                        'criteria', jsonb_build_array(criteria, NULL),
                        'select', jsonb_build_array(to_jsonb(selected), NULL)) AS changes,
                    '{}'::jsonb AS data
             FROM made
         )",
        id.get(),
    )
    .await?;
    change.note(recorded);
    let answer = change.answer(context.claim, Answer::done()).await?;
    // it is deleted, even if its backlog is not cleared: none of it is sent any more, and the upkeep cancels the rest
    if let Err(problem) = delivery::clear(&services.db.main, id, organisation).await {
        tracing::warn!(
            webhook.id = %id, error = %causes(&problem),
            "the backlog of a deleted webhook was not cleared; the upkeep will clear it"
        );
    }
    Ok(answer)
}

/// Writes what differs, and nothing where nothing does. Where it deactivates, returns the token of the holder of the lane.
async fn set(
    change: &mut Change<'_>,
    services: &Services,
    context: &Context,
    id: WebhookId,
    new: &edit::Fields,
) -> Result<Option<i64>, Problem> {
    let sealed = match &new.new_authentication {
        Some(authentication) => seal_authentication(&services.vault, id, authentication)?,
        None => None,
    };
    let Settings { subscribed, filter, .. } = &new.settings;
    let matches = match &new.conditions {
        Some(conditions) => filter.compiled(change.connection(), conditions).await?,
        None => None,
    };
    let recorded = record_change!(
        change.connection(),
        context.origin,
        new.action,
        ENTITY,
        None,
        "WITH old AS (
             SELECT * FROM webhook WHERE id = $9
         ), made AS (
             UPDATE webhook w
             SET event = $10, events = $20, destination = $11, active = $12, max_in_flight = $13, ordered = $14, batch_events = $21, batch_wait = $22,
                 max_per_second = $23::float8, criteria = $24, selected = $26,
                 matches = CASE WHEN $27 THEN $25::text::jsonpath ELSE w.matches END,
                 authentication_type = CASE WHEN $15 THEN $16 ELSE w.authentication_type END,
                 authentication = CASE WHEN $15 THEN $17 ELSE w.authentication END,
                 disabled_at = CASE WHEN $12 THEN NULL ELSE w.disabled_at END,
                 disabled_reason = CASE WHEN $12 THEN NULL ELSE w.disabled_reason END,
                 -- a person who activates that of a token that has ended takes it over
                 made_by = CASE WHEN w.active OR NOT $12 OR $28::uuid IS NOT NULL OR EXISTS (
                     SELECT FROM access_token t WHERE t.id = w.made_by AND t.revoked_at IS NULL AND coalesce(t.expires_at > now(), true))
                     THEN w.made_by END,
                 -- a worker that has read the webhook as it was gets no lease
                 rotations = w.rotations + (w.active AND NOT $12)::int + (w.destination <> $11)::int, version = w.version + 1
             FROM old
             WHERE w.id = old.id AND ($15 OR (old.event, old.events, old.destination, old.active, old.max_in_flight, old.ordered, old.batch_events,
                 old.batch_wait, old.max_per_second, old.criteria, old.selected)
                 IS DISTINCT FROM ($10, $20, $11, $12, $13, $14, $21, $22, $23::float8, $24::jsonb, $26::text[]))
             RETURNING w.*
         ), no_longer_begun AS (
             DELETE FROM webhook_batch b USING made WHERE b.webhook_id = made.id AND made.batch_events IS NULL
         ), lane AS (
             -- A webhook that is activated or gets another destination starts without failures. Calls to the former destination
             -- say nothing about the new one: the lease ends, and their outcomes are not recorded.
             UPDATE webhook_lane l
             SET failures = 0, failing_since = NULL, probes = 0, probe_at = NULL, held_until = NULL,
                 token = l.token + (made.destination <> old.destination)::int,
                 rotations = l.rotations + (made.destination <> old.destination)::int,
                 leased_until = CASE WHEN made.destination <> old.destination THEN '-infinity' ELSE l.leased_until END
             FROM made JOIN old USING (id)
             WHERE l.webhook_id = made.id
               AND (made.destination <> old.destination
                    OR ((l.failures > 0 OR l.held_until IS NOT NULL) AND ((made.active AND NOT old.active) OR $15)))
         ), changed AS (
             SELECT made.id AS entity, made.version, made.changed_at AS at, made.organisation_id AS organisation, '{}'::uuid[] AS eshops,
                    (SELECT jsonb_object_agg(field, jsonb_build_array(was, becomes)) FROM (VALUES
                        ('event', to_jsonb(old.event), to_jsonb(made.event)),
                        ('events', to_jsonb(old.events), to_jsonb(made.events)),
                        ('destination', to_jsonb(old.destination), to_jsonb(made.destination)),
                        ('active', to_jsonb(old.active), to_jsonb(made.active)),
                        ('maxInFlight', to_jsonb(old.max_in_flight), to_jsonb(made.max_in_flight)),
                        ('ordered', to_jsonb(old.ordered), to_jsonb(made.ordered)),
                        ('batch', webhook_batch_shown(old.batch_events, old.batch_wait),
                            webhook_batch_shown(made.batch_events, made.batch_wait)),
                        ('maxPerSecond', to_jsonb(old.max_per_second), to_jsonb(made.max_per_second)),
                        ('criteria', old.criteria, made.criteria),
                        ('select', to_jsonb(old.selected), to_jsonb(made.selected)),
                        ('disabledReason', to_jsonb(old.disabled_reason), to_jsonb(made.disabled_reason)),
                        ('authentication', CASE WHEN $15 THEN $18::jsonb END, CASE WHEN $15 THEN $19::jsonb END)
                     ) AS f (field, was, becomes)
                     WHERE was IS DISTINCT FROM becomes OR (field = 'authentication' AND $15)) AS changes,
                    '{}'::jsonb AS data
             FROM made JOIN old USING (id)
         )",
        id.get(),
        subscribed.event.as_deref(),
        new.settings.destination,
        new.settings.active,
        new.settings.max_in_flight,
        new.settings.ordered,
        new.new_authentication.is_some(),
        new.new_authentication.as_ref().map_or("none", Authentication::kind),
        sealed.as_deref() as Option<&[u8]>,
        Authentication::masked(&new.old_authentication),
        Authentication::masked(new.new_authentication.as_ref().map_or("none", Authentication::kind)),
        &subscribed.events,
        new.settings.batch.map(|batch| batch.max_events),
        Batching::wait(new.settings.batch),
        new.settings.max_per_second,
        filter.criteria.as_ref() as Option<&Value>,
        matches,
        filter.select.as_deref() as Option<&[String]>,
        new.conditions.is_some(),
        context.scope().maker() as Option<TokenId>,
    )
    .await?;
    if change.note(recorded) > 0 && new.settings.active {
        change.note_lanes([id]);
    }
    // as a rotation: no lease is granted, and none renewed unchanged, to a worker that has read the webhook as it was
    if new.switched == Some(false) { Ok(id.fence(change.connection()).await?) } else { Ok(None) }
}

//! Writing settings of wms: creating, replacing, deleting.

use serde_json::{Map, Value, json};

use super::body::{Fields, Given};
use super::{ENTITY, credentials_place, location, of_scope, row, secret_place};
use crate::calling::secret;
use crate::calling::signature;
use longshore_kernel::answer::Answer;
use longshore_kernel::authentication::{Authentication, MASK, nothing_stored};
use longshore_kernel::change::Change;
use longshore_kernel::context::Context;
use longshore_kernel::ids::{OrganisationId, WmsId};
use longshore_kernel::precondition::NOTHING;
use longshore_kernel::problem::Problem;
use longshore_kernel::record_change;
use longshore_kernel::services::Services;
use longshore_kernel::tombstone;

/// Creates or replaces a setting (`POST`). Created, it shows its secret, once. `check` refuses the version that would be replaced.
pub async fn store(
    services: &Services,
    context: &Context,
    wms: WmsId,
    body: Value,
    check: impl FnOnce(i64) -> Result<(), Problem>,
) -> Result<Answer, Problem> {
    let mut given = Given::read(&services.outbound, wms, body)?;
    let mut change = Change::begin(services).await?;
    // concurrent changes of the setting wait
    let organisation = of_scope(change.connection(), context.scope(), wms, true).await?;
    let stored = row(change.connection(), wms).await?;
    check(stored.as_ref().map_or(NOTHING, |stored| stored.version))?;
    // one that cannot be read is replaced, without credentials to keep
    let old = stored.as_ref().and_then(|row| row.fields(&services.vault).ok());
    let since = stored.as_ref().and_then(|row| row.since);
    given.wanted.since = std::mem::take(&mut given.since).or_keep(since);
    if !given.echo.is_empty() {
        let shown = stored.as_ref().and_then(|row| row.answer(&services.vault).ok()?.body);
        Problem::refuse(given.echo.judge(shown.as_deref().unwrap_or("{}"))?)?;
    }
    let kept = old.as_ref().filter(|(fields, _)| fields.is_at_the_place_of(&given.wanted));
    let kept = kept.map_or(Authentication::None, |(_, credentials)| credentials.clone());
    let credentials =
        given.credentials.unmask(&kept).map_err(|member| nothing_stored("credentials", member))?;
    let secret = stored.is_none().then(signature::new_secret);
    let is_changed = old.as_ref().is_none_or(|(fields, old)| *fields != given.wanted || *old != credentials);
    if is_changed {
        let sealed = serde_json::to_vec(&credentials).map_err(Problem::internal)?;
        let sealed = services.vault.seal(&credentials_place(wms), &sealed).map_err(Problem::internal)?;
        let changes = changes(old.as_ref(), &given.wanted, &credentials)?;
        let secret = secret.map(|secret| services.vault.seal(&secret_place(wms), &secret)).transpose();
        let secret = secret.map_err(Problem::internal)?;
        let new = Written { wms, organisation, wanted: &given.wanted, sealed, secret, changes };
        write(&mut change, context, &new).await?;
    }
    let stored = row(change.connection(), wms).await?.ok_or_else(|| Problem::not_found(ENTITY))?;
    let answer = Answer { location: Some(location(wms)), ..stored.answer(&services.vault)? };
    match secret {
        Some(secret) => secret::answer_with(change, context, answer, &secret).await,
        None => change.answer(context.claim, answer).await,
    }
}

/// Deletes a setting (`DELETE`): what is handed over goes on by hand.
pub async fn delete(services: &Services, context: &Context, wms: WmsId) -> Result<Answer, Problem> {
    let scope = context.scope();
    let mut change = Change::begin(services).await?;
    of_scope(change.connection(), scope, wms, true).await?;
    let recorded = record_change!(
        change.connection(),
        context.origin,
        "wms_setting.delete",
        ENTITY,
        None,
        "WITH made AS (
             DELETE FROM wms_setting WHERE wms_id = $9 RETURNING *
         ), buried AS (
             INSERT INTO tombstone (entity_type, entity_id, organisation_id, deleted_by, version)
             SELECT $7, wms_id, organisation_id, $3, version FROM made
         ), changed AS (
             SELECT wms_id AS entity, organisation_id AS organisation, '{}'::uuid[] AS eshops,
                    jsonb_build_object('baseUrl', jsonb_build_array(base_url, NULL),
                        'credentials', jsonb_build_array('***', NULL), 'secret', jsonb_build_array('***', NULL)) AS changes,
                    '{}'::jsonb AS data
             FROM made
         )",
        wms.get(),
    )
    .await?;
    if change.note(recorded) == 0 {
        return Err(tombstone::missing(change.connection(), scope, ENTITY, wms.get()).await);
    }
    change.answer(context.claim, Answer::done()).await
}

/// `{field: [old, new]}`; of credentials, only that they changed.
fn changes(
    old: Option<&(Fields, Authentication)>,
    new: &Fields,
    credentials: &Authentication,
) -> Result<Value, Problem> {
    let fields = |fields: &Fields| match serde_json::to_value(fields) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Ok(Map::new()),
        Err(error) => Err(Problem::internal(error)),
    };
    let mut was = old.map(|(old, _)| fields(old)).transpose()?.unwrap_or_default();
    let mut changes = Map::new();
    for (name, new) in fields(new)? {
        let old = was.remove(&name).unwrap_or_default();
        if old != new {
            changes.insert(name, json!([old, new]));
        }
    }
    if old.is_none_or(|(_, old)| old != credentials) {
        changes.insert("credentials".to_owned(), json!([old.map(|_| MASK), MASK]));
    }
    Ok(changes.into())
}

struct Written<'w> {
    wms: WmsId,
    organisation: OrganisationId,
    wanted: &'w Fields,
    sealed: Vec<u8>,
    /// That of a new one.
    secret: Option<Vec<u8>>,
    changes: Value,
}

async fn write(change: &mut Change<'_>, context: &Context, new: &Written<'_>) -> Result<(), Problem> {
    let action = if new.secret.is_some() { "wms_setting.create" } else { "wms_setting.update" };
    let recorded = record_change!(
        change.connection(),
        context.origin,
        action,
        ENTITY,
        None,
        "WITH old AS (
             SELECT active FROM wms_setting WHERE wms_id = $9
         ), replaced AS (
             UPDATE wms_setting s
             SET active = $11, paused = $12, base_url = $13, credentials = $14, max_in_flight = $15,
                 since = coalesce($18, '-infinity'::timestamptz),
                 fills = $11 AND (s.fills OR NOT s.active OR s.since <> coalesce($18, '-infinity'::timestamptz)),
                 fills_before = CASE WHEN s.fills AND s.active AND $11 AND s.since = coalesce($18, '-infinity'::timestamptz)
                                     THEN s.fills_before END,
                 wakes_at = now(), wakes_again = true, version = s.version + 1
             WHERE s.wms_id = $9 AND $16::bytea IS NULL
             RETURNING s.wms_id, s.version, s.changed_at, s.organisation_id
         ), created AS (
             INSERT INTO wms_setting (wms_id, organisation_id, active, paused, base_url, credentials, max_in_flight, secret, since,
                                      fills, wakes_at, version)
             SELECT $9, $10, $11, $12, $13, $14, $15, $16, coalesce($18, '-infinity'::timestamptz), $11, now(),
                    -- created anew it goes on counting: its path is the same
                    (SELECT greatest(max(version), version_floor()) + 1 FROM tombstone WHERE entity_id = $9 AND entity_type = $7)
             WHERE $16::bytea IS NOT NULL
             RETURNING wms_id, version, changed_at, organisation_id
         ), lane AS (
             INSERT INTO wms_lane (wms_id) SELECT wms_id FROM created
         ), risen AS (
             DELETE FROM tombstone WHERE entity_id = $9 AND entity_type = $7
         ), changed AS (
             SELECT wms_id AS entity, version, changed_at AS at, organisation_id AS organisation, '{}'::uuid[] AS eshops,
                    $17::jsonb AS changes, '{}'::jsonb AS data
             FROM (SELECT * FROM replaced UNION ALL SELECT * FROM created) AS made
         )",
        new.wms.get(),
        new.organisation.get(),
        new.wanted.active,
        new.wanted.paused,
        new.wanted.base_url,
        new.sealed,
        new.wanted.max_in_flight,
        new.secret.as_deref() as Option<&[u8]>,
        new.changes,
        new.wanted.since,
    )
    .await?;
    change.note(recorded);
    // what went wrong went wrong with another setting: its system is asked anew, and `handover::wake` makes its orders due
    sqlx::query!(
        "UPDATE wms_lane SET error = NULL, error_at = NULL, error_expedition_id = NULL, failures = 0, failing_since = NULL,
                probes = 0, probe_at = NULL, held_until = NULL
         WHERE wms_id = $1",
        new.wms.get(),
    )
    .execute(change.connection())
    .await?;
    Ok(())
}

//! Writing settings: creating, replacing, deleting.

use serde_json::{Map, Value, json};
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use super::body::{Given, Integration, Mapping, SettingFields};
use super::{ENTITY, Owner, Setting, of_scope, place, row};
use crate::job::control::{self, NoCalls};
use crate::job::guard::Guard;
use crate::job::kind::Shop;
use crate::partner::clock;
use crate::partner::send_out::{items, listing};
use longshore_kernel::access::Scope;
use longshore_kernel::answer::Answer;
use longshore_kernel::authentication::{Authentication, MASK, nothing_stored};
use longshore_kernel::change::Change;
use longshore_kernel::context::{Context, Origin};
use longshore_kernel::ids::{EshopId, OrganisationId, SettingId};
use longshore_kernel::precondition::NOTHING;
use longshore_kernel::problem::{Problem, Violation, with_found};
use longshore_kernel::record_change;
use longshore_kernel::services::Services;
use longshore_kernel::tombstone;

/// Creates or replaces a setting (`POST`). `check` refuses the version that would be replaced.
pub async fn store(
    services: &Services,
    context: &Context,
    eshop: EshopId,
    body: Value,
    check: impl FnOnce(i64) -> Result<(), Problem>,
) -> Result<Answer, Problem> {
    let (given, mappings, refused) = Given::read(&services.outbound, eshop, body);
    let scope = context.scope();
    let mut change = Change::begin(services).await?;
    // concurrent changes of the setting wait
    let owner = of_scope(change.connection(), scope, eshop, true).await?;
    let old = row(change.connection(), eshop).await?;
    check(old.as_ref().map_or(NOTHING, |old| old.version))?;
    let mut found = unknown_places(change.connection(), owner.organisation, &mappings).await?;
    let (old_id, old) = match old {
        // a setting that cannot be read is replaced, without credentials to keep
        Some(row) => (Some(row.id), row.read(&services.vault).ok()),
        None => (None, None),
    };
    if let Some(given) = given.as_ref().filter(|given| !given.echo.is_empty()) {
        let shown = match &old {
            Some(old) => old.clone().with_block(change.connection()).await?.answer()?.body,
            None => None,
        };
        found.extend(given.echo.judge(shown.as_deref().unwrap_or("{}"))?);
    }
    let violations = with_found(refused, found);
    let Some(mut given) = given.filter(|_| violations.is_empty()) else {
        return Err(Problem::invalid(violations));
    };
    if let Some(old) = old.as_ref().filter(|_| !given.says_guard) {
        given.wanted.guard = old.wanted.guard.clone();
    }
    let mut kept = Authentication::None;
    if let Some(old) = old.as_ref().filter(|old| old.wanted.is_at_the_place_of(&given.wanted)) {
        kept = old.credentials.clone();
    }
    let credentials =
        given.credentials.unmask(&kept).map_err(|member| nothing_stored("credentials", member))?;
    let moved = old
        .as_ref()
        .is_none_or(|old| !old.wanted.is_same_partner(&given.wanted) || old.credentials != credentials);
    let unchanged =
        old.as_ref().is_some_and(|old| old.wanted == given.wanted && old.credentials == credentials);
    if unchanged {
        clear_error(change.connection(), eshop).await?;
    } else {
        let id = old_id.unwrap_or_else(SettingId::new);
        let sealed = serde_json::to_vec(&credentials).map_err(Problem::internal)?;
        let sealed = services.vault.seal(&place(id), &sealed).map_err(Problem::internal)?;
        let changes = changes(old.as_ref(), &given.wanted, &credentials)?;
        let action =
            if old_id.is_some() { "integration_setting.update" } else { "integration_setting.create" };
        if !given.wanted.active {
            let shop = Shop { organisation: owner.organisation, eshop };
            control::cancel_calls(&mut change, &context.origin, shop, NoCalls::Inactive).await?;
        }
        write(
            &mut change,
            context,
            &Written { id, eshop, owner: &owner, wanted: &given.wanted, sealed, changes, action },
        )
        .await?;
        if moved {
            items::forget(change.connection(), eshop).await?;
        } else {
            let inventories: Vec<_> =
                given.wanted.inventories.iter().map(|i| i.inventory_id.clone()).collect();
            listing::forget_beyond(change.connection(), eshop, &inventories).await?;
        }
        follow(&mut change, context, eshop, Some(given.wanted.integration)).await?;
    }
    end_rest(change.connection(), eshop).await?;
    let stored = row(change.connection(), eshop).await?.ok_or_else(|| Problem::not_found(ENTITY))?;
    let stored = stored.read(&services.vault)?.with_block(change.connection()).await?;
    let answer = stored.answer()?;
    change.answer(context.claim, answer).await
}

/// Changes of stocks do not rest any more: who stores a setting has mended what failed.
async fn end_rest(connection: &mut PgConnection, eshop: EshopId) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE stock_send_out SET failed_at = NULL WHERE eshop_id = $1 AND failed_at IS NOT NULL",
        eshop.get(),
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Clears the error of a setting that stays as it is.
async fn clear_error(connection: &mut PgConnection, eshop: EshopId) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE integration_setting SET error = NULL, error_at = NULL, error_kind = NULL, error_job = NULL
         WHERE eshop_id = $1 AND error IS NOT NULL",
        eshop.get(),
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Deletes a setting (`DELETE`): it is gone until it is created again.
pub async fn delete(services: &Services, context: &Context, eshop: EshopId) -> Result<Answer, Problem> {
    let scope = context.scope();
    let mut change = Change::begin(services).await?;
    let organisation = of_scope(change.connection(), scope, eshop, true).await?.organisation;
    control::cancel_calls(&mut change, &context.origin, Shop { organisation, eshop }, NoCalls::Deleted)
        .await?;
    let recorded = record_change!(
        change.connection(),
        context.origin,
        "integration_setting.delete",
        ENTITY,
        None,
        "WITH made AS (
             DELETE FROM integration_setting WHERE eshop_id = $9 RETURNING *
         ), buried AS (
             INSERT INTO tombstone (entity_type, entity_id, organisation_id, deleted_by, version)
             SELECT $7, eshop_id, organisation_id, $3, version FROM made
         ), changed AS (
             SELECT id AS entity, organisation_id AS organisation, '{}'::uuid[] AS eshops,
                    jsonb_build_object('eshop', jsonb_build_array(eshop_id, NULL),
                        'integrationType', jsonb_build_array(integration_type, NULL),
                        'credentials', jsonb_build_array('***', NULL)) AS changes,
                    '{}'::jsonb AS data
             FROM made
         )",
        eshop.get(),
    )
    .await?;
    if change.note(recorded) == 0 {
        return Err(tombstone::missing(change.connection(), scope, ENTITY, eshop).await);
    }
    follow(&mut change, context, eshop, None).await?;
    change.answer(context.claim, Answer::done()).await
}

/// Cancels what still has to call the partner of an e-shop, if the setting was switched off or deleted while it was being accepted.
pub async fn cancel_stray(services: &Services, origin: &Origin, shop: Shop) -> Result<(), Problem> {
    let mut change = Change::begin(services).await?;
    of_scope(change.connection(), &Scope::Everything, shop.eshop, true).await?;
    let active =
        sqlx::query_scalar!("SELECT active FROM integration_setting WHERE eshop_id = $1", shop.eshop.get())
            .fetch_optional(change.connection())
            .await?;
    let why = match active {
        Some(true) => return Ok(()),
        Some(false) => NoCalls::Inactive,
        None => NoCalls::Deleted,
    };
    control::cancel_calls(&mut change, origin, shop, why).await?;
    change.commit().await
}

/// Warehouses that are not those of the organisation, and wms that do not work in theirs.
async fn unknown_places(
    connection: &mut PgConnection,
    organisation: OrganisationId,
    mappings: &[Mapping],
) -> Result<Vec<Violation>, sqlx::Error> {
    if mappings.is_empty() {
        return Ok(Vec::new());
    }
    let warehouses: Vec<Uuid> = mappings.iter().map(|m| m.warehouse).collect();
    let wmses: Vec<Option<Uuid>> = mappings.iter().map(|m| m.wms).collect();
    let unknown = sqlx::query!(
        r#"SELECT m.position AS "position!", w.id IS NULL AS "warehouse!"
           FROM unnest($2::uuid[], $3::uuid[]) WITH ORDINALITY AS m (warehouse, wms, position)
           LEFT JOIN warehouse w ON w.id = m.warehouse AND w.organisation_id = $1
           WHERE w.id IS NULL OR (m.wms IS NOT NULL AND NOT EXISTS (
               SELECT FROM warehouse_wms l WHERE l.warehouse_id = m.warehouse AND l.wms_id = m.wms))
           ORDER BY m.position"#,
        organisation.get(),
        &warehouses,
        &wmses as &[Option<Uuid>],
    )
    .fetch_all(connection)
    .await?;
    let violations = unknown.into_iter().map(|row| {
        let (member, message) = if row.warehouse {
            ("warehouse", "must be a warehouse of the organisation")
        } else {
            ("wms", "must be a wms that works in the warehouse")
        };
        let path = format!("warehouses[{}].{member}", row.position - 1);
        Violation::new(path, "unknown_reference", message)
    });
    Ok(violations.collect())
}

/// `{field: [old, new]}`; of credentials, only that they changed.
fn changes(
    old: Option<&Setting>,
    new: &SettingFields,
    credentials: &Authentication,
) -> Result<Value, Problem> {
    let fields = |wanted: &SettingFields| match serde_json::to_value(wanted) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Ok(Map::new()),
        Err(error) => Err(Problem::internal(error)),
    };
    let mut was = old.map(|old| fields(&old.wanted)).transpose()?.unwrap_or_default();
    let mut changes = Map::new();
    for (name, new) in fields(new)? {
        let old = was.remove(&name).unwrap_or_default();
        if old != new {
            changes.insert(name, json!([old, new]));
        }
    }
    if old.is_none_or(|old| old.credentials != *credentials) {
        changes.insert("credentials".to_owned(), json!([old.map(|_| MASK), MASK]));
    }
    Ok(changes.into())
}

struct Written<'w> {
    id: SettingId,
    eshop: EshopId,
    owner: &'w Owner,
    wanted: &'w SettingFields,
    sealed: Vec<u8>,
    changes: Value,
    action: &'w str,
}

async fn write(change: &mut Change<'_>, context: &Context, new: &Written<'_>) -> Result<(), Problem> {
    let wanted = new.wanted;
    let recorded = record_change!(
        change.connection(),
        context.origin,
        new.action,
        ENTITY,
        None,
        "WITH made AS (
             INSERT INTO integration_setting AS s (id, eshop_id, organisation_id, integration_type, active, credentials,
                 base_url, inventories, product_sync_enabled, product_sync_interval, stock_sync_enabled,
                 stock_sync_interval, stock_reserve, bound, guard, version)
             VALUES ($9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $23, $24,
                 -- created anew it goes on counting: its path is the same
                 (SELECT greatest(max(version), version_floor()) + 1 FROM tombstone WHERE entity_id = $10 AND entity_type = $7))
             ON CONFLICT (eshop_id) DO UPDATE
             SET integration_type = excluded.integration_type, active = excluded.active,
                 credentials = excluded.credentials, base_url = excluded.base_url, inventories = excluded.inventories,
                 product_sync_enabled = excluded.product_sync_enabled,
                 product_sync_interval = excluded.product_sync_interval,
                 stock_sync_enabled = excluded.stock_sync_enabled, stock_sync_interval = excluded.stock_sync_interval,
                 stock_reserve = excluded.stock_reserve,
                 bound = excluded.bound, guard = excluded.guard,
                 -- what went wrong went wrong with another setting
                 error = NULL, error_at = NULL, error_kind = NULL, error_job = NULL,
                 version = s.version + 1
             RETURNING id, version, changed_at, organisation_id
         ), risen AS (
             DELETE FROM tombstone WHERE entity_id = $10 AND entity_type = $7
         ), changed AS (
             SELECT id AS entity, version, changed_at AS at, organisation_id AS organisation, '{}'::uuid[] AS eshops, $22::jsonb AS changes,
                    '{}'::jsonb AS data
             FROM made
         )",
        new.id.get(),
        new.eshop.get(),
        new.owner.organisation.get(),
        wanted.integration.as_str(),
        wanted.active,
        new.sealed,
        wanted.base_url.as_deref() as Option<&str>,
        &wanted.inventories.iter().map(|i| i.inventory_id.clone()).collect::<Vec<_>>(),
        wanted.product_sync.enabled,
        wanted.product_sync.interval_minutes,
        wanted.stock_sync.enabled,
        wanted.stock_sync.interval_minutes,
        wanted.stock_sync.reserve,
        new.changes,
        context.scope().eshop().is_some(),
        wanted.guard.as_ref().map(Json) as Option<Json<&Guard>>,
    )
    .await?;
    change.note(recorded);
    clock::set(change.connection(), new.id, wanted).await?;
    // another reserve, another warehouse: other stocks
    sqlx::query!(
        "UPDATE partner_clock SET next_run_at = least(next_run_at, now()) WHERE setting_id = $1 AND kind = 'stock.send'",
        new.id.get(),
    )
    .execute(change.connection())
    .await?;
    let mapped = &wanted.warehouses;
    let partners: Vec<&str> = mapped.iter().map(|m| m.warehouse_id.as_str()).collect();
    let warehouses: Vec<Uuid> = mapped.iter().map(|m| m.warehouse).collect();
    let wmses: Vec<Option<Uuid>> = mapped.iter().map(|m| m.wms).collect();
    sqlx::query!("DELETE FROM integration_warehouse WHERE setting_id = $1", new.id.get())
        .execute(change.connection())
        .await?;
    sqlx::query!(
        "INSERT INTO integration_warehouse (setting_id, partner_warehouse, warehouse_id, wms_id, position)
         SELECT $1, m.* FROM unnest($2::text[], $3::uuid[], $4::uuid[]) WITH ORDINALITY AS m",
        new.id.get(),
        &partners as &[&str],
        &warehouses,
        &wmses as &[Option<Uuid>],
    )
    .execute(change.connection())
    .await?;
    Ok(())
}

/// The e-shop's `integrationType` follows its setting.
async fn follow(
    change: &mut Change<'_>,
    context: &Context,
    eshop: EshopId,
    integration: Option<Integration>,
) -> Result<(), Problem> {
    let recorded = record_change!(
        change.connection(),
        context.origin,
        "eshop.update",
        "eshop",
        None,
        "WITH old AS (
             SELECT id, integration_type FROM eshop WHERE id = $9
         ), made AS (
             UPDATE eshop e
             SET integration_type = $10, version = e.version + 1
             FROM old
             WHERE e.id = old.id AND e.integration_type IS DISTINCT FROM $10
             RETURNING e.id, e.version, e.changed_at, e.organisation_id, old.integration_type AS was
         ), changed AS (
             SELECT id AS entity, version, changed_at AS at, organisation_id AS organisation, '{}'::uuid[] AS eshops,
                    jsonb_build_object('integrationType', jsonb_build_array(was, $10::text)) AS changes,
                    '{}'::jsonb AS data
             FROM made
         )",
        eshop.get(),
        integration.map(Integration::as_str) as Option<&str>,
    )
    .await?;
    change.note(recorded);
    Ok(())
}

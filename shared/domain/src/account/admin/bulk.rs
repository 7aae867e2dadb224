//! Switching and deleting many admins: all or nothing (`docs/reference/jobs.md#bulk-operations`).
//!
//! The ids are validated at acceptance, so that the caller gets an error, and again when the job is executed, because
//! admins may have been created or deleted since.

use serde::{Deserialize, Serialize};
use sqlx::PgConnection;

use super::ENTITY;
use super::superadmins::{self, Guard};
use crate::account::token::{Which, end_made_by};
use crate::job::acceptance;
use crate::job::kind::{Job, JobKind, Within};
use longshore_kernel::answer::Answer;
use longshore_kernel::change::{Change, Recorded};
use longshore_kernel::context::{Context, Origin};
use longshore_kernel::ids::AdminId;
use longshore_kernel::problem::{Problem, Violation};
use longshore_kernel::record_change;
use longshore_kernel::services::Services;

/// Unknown ids that are named.
const NAMED: i64 = 100;

/// What is to become of admins.
#[derive(Clone, Copy, Debug)]
pub enum Wish {
    /// They are activated, or deactivated.
    Switch {
        /// What `active` becomes.
        active: bool,
        /// Number of the acceptance: an admin that a later one has switched stays as it is.
        acceptance: i64,
    },
    /// They are deleted.
    Delete,
}

/// Why nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The admin does not exist, or was deleted.
    Unknown(AdminId),
    /// No active superadmin would be left.
    LastSuperadmin,
}

/// Activates admins.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ActivateAdmins(pub Within);

impl Job for ActivateAdmins {
    const KIND: JobKind = JobKind::AdminActivate;
    type Owner = ();
}

/// Deactivates admins.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DeactivateAdmins(pub Within);

impl Job for DeactivateAdmins {
    const KIND: JobKind = JobKind::AdminDeactivate;
    type Owner = ();
}

/// Deletes admins for good.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DeleteAdmins(pub Within);

impl Job for DeleteAdmins {
    const KIND: JobKind = JobKind::AdminDelete;
    type Owner = ();
}

/// Accepts a bulk change; an unknown id is refused by its position.
pub async fn accept<J: Job>(
    services: &Services,
    context: &Context,
    job: fn(Within) -> J,
    ids: Vec<AdminId>,
) -> Result<Answer, Problem> {
    let mut change = Change::begin(services).await?;
    refuse_unknown(change.connection(), &ids).await?;
    if J::KIND != ActivateAdmins::KIND && !leaves_a_superadmin(change.connection(), &ids).await? {
        return Err(superadmins::last());
    }
    acceptance::accept_whole(change, context, job, ids).await
}

async fn refuse_unknown(tx: &mut PgConnection, ids: &[AdminId]) -> Result<(), Problem> {
    let unknown = sqlx::query!(
        r#"SELECT w.id AS "id!", w.position AS "position!"
           FROM unnest($1::uuid[]) WITH ORDINALITY AS w (id, position)
           WHERE NOT EXISTS (SELECT FROM admin a WHERE a.id = w.id)
           ORDER BY w.position LIMIT $2"#,
        ids as &[AdminId],
        NAMED,
    )
    .fetch_all(tx)
    .await?;
    if unknown.is_empty() {
        return Ok(());
    }
    let violations = unknown.into_iter().map(|unknown| {
        let path = format!("[{}]", unknown.position - 1);
        Violation::new(path, "unknown_reference", format!("must be an admin; {} is none", unknown.id))
    });
    Err(Problem::invalid(violations.collect()))
}

/// Whether an active superadmin is left without these, or there is none anyway.
async fn leaves_a_superadmin(tx: &mut PgConnection, ids: &[AdminId]) -> Result<bool, Problem> {
    let left = sqlx::query_scalar!(
        r#"SELECT count(*) = 0 OR count(*) > count(*) FILTER (WHERE id = ANY ($1)) AS "left!"
           FROM admin WHERE role = 'superadmin' AND active"#,
        ids as &[AdminId],
    )
    .fetch_one(tx)
    .await?;
    Ok(left)
}

/// Executes a bulk change in the transaction of its chunk; returns how many admins changed. After a refusal, the
/// transaction must be rolled back.
pub async fn execute(
    change: &mut Change<'_>,
    origin: &Origin,
    wish: Wish,
    ids: &[AdminId],
) -> Result<Result<i64, Refusal>, sqlx::Error> {
    let takes_away = !matches!(wish, Wish::Switch { active: true, .. });
    let guard = if takes_away { Some(Guard::take(change.connection()).await?) } else { None };
    let recorded = match wish {
        Wish::Switch { active, acceptance } => {
            if let Some(id) = lock(change.connection(), ids).await? {
                return Ok(Err(Refusal::Unknown(id)));
            }
            let switched = switch(change.connection(), origin, ids, active, acceptance).await?;
            if !active {
                end_made_by(change, origin, ids, Which::NotAllowed).await?;
            }
            switched
        }
        // a deleted admin need not be deleted again
        Wish::Delete => {
            lock(change.connection(), ids).await?;
            end_made_by(change, origin, ids, Which::All).await?;
            remove(change.connection(), origin, ids).await?
        }
    };
    let changed = change.note(recorded);
    if let Some(guard) = guard
        && !guard.permits(change.connection()).await?
    {
        return Ok(Err(Refusal::LastSuperadmin));
    }
    Ok(Ok(changed))
}

/// Locks admins in the order of their ids; returns one that does not exist.
async fn lock(tx: &mut PgConnection, ids: &[AdminId]) -> Result<Option<AdminId>, sqlx::Error> {
    sqlx::query_scalar!(
        r#"WITH found AS MATERIALIZED (
               SELECT id FROM admin WHERE id = ANY ($1) ORDER BY id FOR UPDATE
           )
           SELECT w.id AS "id!: AdminId" FROM unnest($1::uuid[]) AS w (id)
           WHERE NOT EXISTS (SELECT FROM found WHERE found.id = w.id) LIMIT 1"#,
        ids as &[AdminId],
    )
    .fetch_optional(tx)
    .await
}

/// An admin that is already in this state only stores the newer acceptance, without an audit record. A deactivated account
/// loses its sessions.
async fn switch(
    tx: &mut PgConnection,
    origin: &Origin,
    ids: &[AdminId],
    active: bool,
    acceptance: i64,
) -> Result<Recorded, sqlx::Error> {
    record_change!(
        tx,
        origin,
        if active { "admin.activate" } else { "admin.deactivate" },
        ENTITY,
        None,
        "WITH target AS MATERIALIZED (
             SELECT id, active FROM admin WHERE id = ANY ($9) AND active_acceptance < $11
         ), written AS (
             UPDATE admin a
             SET active = $10, active_acceptance = $11,
                 version = CASE WHEN t.active = $10 THEN a.version ELSE a.version + 1 END
             FROM target t WHERE a.id = t.id
             RETURNING a.id, a.version, a.changed_at, t.active AS was
         ), ended AS (
             UPDATE session s SET ended_at = now(), version = s.version + 1
             WHERE s.admin_id = ANY (ARRAY(SELECT id FROM written)) AND s.ended_at IS NULL AND NOT $10
         ), revoked AS (
             UPDATE access_token k SET revoked_at = now(), version = k.version + 1
             WHERE k.admin_id = ANY (ARRAY(SELECT id FROM written)) AND k.revoked_at IS NULL AND NOT $10
         ), changed AS (
             SELECT id AS entity, version, changed_at AS at, NULL::uuid AS organisation, '{}'::uuid[] AS eshops,
                    jsonb_build_object('active', jsonb_build_array(was, $10)) AS changes, '{}'::jsonb AS data
             FROM written WHERE was <> $10
         )",
        ids as &[AdminId],
        active,
        acceptance,
    )
    .await
}

/// Sessions and memberships go with their admin.
async fn remove(tx: &mut PgConnection, origin: &Origin, ids: &[AdminId]) -> Result<Recorded, sqlx::Error> {
    record_change!(
        tx,
        origin,
        "admin.delete",
        ENTITY,
        None,
        "WITH target AS MATERIALIZED (
             SELECT id FROM admin WHERE id = ANY ($9) ORDER BY id FOR UPDATE
         ), made AS (
             DELETE FROM admin a USING target t WHERE a.id = t.id RETURNING a.*
         ), buried AS (
             INSERT INTO tombstone (entity_type, entity_id, deleted_by) SELECT $7, id, $3 FROM made
         ), changed AS (
             SELECT id AS entity, NULL::uuid AS organisation, '{}'::uuid[] AS eshops,
                    jsonb_build_object('email', jsonb_build_array(email, NULL),
                        'firstName', jsonb_build_array(first_name, NULL),
                        'lastName', jsonb_build_array(last_name, NULL),
                        'role', jsonb_build_array(role, NULL),
                        'active', jsonb_build_array(active, NULL)) AS changes,
                    '{}'::jsonb AS data
             FROM made
         )",
        ids as &[AdminId],
    )
    .await
}

//! Admins: the accounts of people who run the service, or some of its organisations (`docs/reference/accounts.md#admins`).
//!
//! Every change of one admin reads it under a lock, says what it is to become, and writes what differs; [`bulk`] switches
//! and deletes many. Changes that could remove the last active superadmin run one at a time, and are refused if they would.

pub mod bulk;
mod create;
mod edit;
mod organisations;
mod superadmins;

use serde_json::{Map, Value};
use sqlx::PgConnection;

use self::edit::{Edit, Fields};
use self::organisations::check_organisations;
use self::superadmins::Guard;
use super::token::{Which, end_made_by};
use super::{own, password};
use crate::list::fields::admin::ADMIN;
use crate::list::{self, Record};
use longshore_kernel::access::Scope;
use longshore_kernel::answer::Answer;
use longshore_kernel::change::{Change, Recorded};
use longshore_kernel::context::{Context, Origin};
use longshore_kernel::database::Database;
use longshore_kernel::ids::{AdminId, OrganisationId};
use longshore_kernel::input::Given;
use longshore_kernel::problem::{Problem, Violation};
use longshore_kernel::record_change;
use longshore_kernel::services::Services;
use longshore_kernel::sqlstate::violated_constraint;
use longshore_kernel::tombstone;

pub use self::create::{NewAdmin, create, create_first, is_known};
pub use self::edit::{ORGANISATIONS, PREFERENCES_BYTES, body, preferences};
pub use self::organisations::{join, leave};
pub use super::person::body_hash;

/// Its entity type, in the audit and on tombstones.
const ENTITY: &str = "admin";

fn location(id: AdminId) -> String {
    format!("/api/admin/{id}")
}

async fn shown(connection: &mut PgConnection, scope: &Scope, id: AdminId) -> Result<Record, Problem> {
    list::find(connection, &ADMIN, scope, id).await?.ok_or_else(|| Problem::not_found(ENTITY))
}

/// Changes an admin (`PUT /api/admin/{id}`): the given fields; the others stay. `check` refuses a version. With a new password, the
/// tokens that the admin has made end if that is asked for, and the answer also names those that live on.
pub async fn update(
    services: &Services,
    context: &Context,
    id: AdminId,
    body: Value,
    check: impl FnOnce(i64) -> Result<(), Problem>,
) -> Result<Answer, Problem> {
    let (mut edit, refused) = Edit::read(body, false);
    let which = if edit.ends_tokens { Which::All } else { Which::NotAllowed };
    let password = match std::mem::take(&mut edit.person.password) {
        Given::Null => Password::Becomes(None, which),
        Given::Value(secret) if refused.is_empty() => {
            Password::Becomes(Some(password::hash(&secret).await?), which)
        }
        Given::Absent | Given::Value(_) => Password::Kept,
    };
    let is_reset = matches!(password, Password::Becomes(..));
    let joined = edit.organisations.clone().unwrap_or_default();
    let (email, echo) = (edit.person.email.clone(), std::mem::take(&mut edit.echo));
    let become_ = |old: Fields| Ok(edit.apply(old));
    let mut change = Change::begin(services).await?;
    check_organisations(change.connection(), &joined, refused).await?;
    if let Err(problem) = rewrite(&mut change, context, id, "admin.update", password, check, become_).await {
        drop(change);
        return Err(taken_by(&services.db, context.scope(), email.as_deref(), problem).await);
    }
    let admin = shown(change.connection(), context.scope(), id).await?;
    // no change alters what is read-only
    Problem::refuse(echo.judge(&admin.json)?)?;
    let mut body = admin.json;
    if is_reset {
        let left = own::tokens(change.connection(), id).await?;
        let mut record: Map<String, Value> = serde_json::from_str(&body).map_err(Problem::internal)?;
        record.extend(left.as_object().cloned().unwrap_or_default());
        body = Value::from(record).to_string();
    }
    change.answer(context.claim, Answer::updated(location(id), admin.version, body)).await
}

/// Replaces the preferences of an admin (`PUT /api/admin/{id}/preferences`), as a whole.
pub async fn set_preferences(
    services: &Services,
    context: &Context,
    id: AdminId,
    body: Value,
    check: impl FnOnce(i64) -> Result<(), Problem>,
) -> Result<Answer, Problem> {
    let preferences = edit::read_preferences(body)?;
    let become_ = |old: Fields| Ok(Fields { preferences, ..old });
    let mut change = Change::begin(services).await?;
    rewrite(&mut change, context, id, "admin.preferences", Password::Kept, check, become_).await?;
    answer_with(change, context, id).await
}

/// Activates or deactivates an admin (`PUT /api/admin/activate|deactivate/{id}`). A deactivated account loses its tokens.
pub async fn set_active(
    services: &Services,
    context: &Context,
    id: AdminId,
    active: bool,
) -> Result<Answer, Problem> {
    let mut change = Change::begin(services).await?;
    let acceptance = sqlx::query_scalar!(r#"SELECT nextval('acceptance') AS "number!""#)
        .fetch_one(change.connection())
        .await?;
    single(change, context, id, bulk::Wish::Switch { active, acceptance }).await
}

/// Deletes an admin for good (`DELETE /api/admin/{id}`), with its tokens.
pub async fn delete(services: &Services, context: &Context, id: AdminId) -> Result<Answer, Problem> {
    single(Change::begin(services).await?, context, id, bulk::Wish::Delete).await
}

/// What the bulk operations do, to one.
async fn single(
    mut change: Change<'_>,
    context: &Context,
    id: AdminId,
    wish: bulk::Wish,
) -> Result<Answer, Problem> {
    let found = list::find(change.connection(), &ADMIN, context.scope(), id).await?;
    if found.is_none() {
        return Err(tombstone::missing(change.connection(), context.scope(), ENTITY, id).await);
    }
    match bulk::execute(&mut change, &context.origin, wish, &[id]).await? {
        Ok(_) => change.answer(context.claim, Answer::done()).await,
        // deleted since it was found
        Err(bulk::Refusal::Unknown(_)) => {
            Err(tombstone::missing(change.connection(), context.scope(), ENTITY, id).await)
        }
        Err(bulk::Refusal::LastSuperadmin) => Err(superadmins::last()),
    }
}

/// What becomes of a password.
#[derive(Debug)]
enum Password {
    Kept,
    /// The hash of a new password, or none, and which tokens end with the former one.
    Becomes(Option<String>, Which),
}

async fn answer_with(mut change: Change<'_>, context: &Context, id: AdminId) -> Result<Answer, Problem> {
    let admin = shown(change.connection(), context.scope(), id).await?;
    change.answer(context.claim, Answer::updated(location(id), admin.version, admin.json)).await
}

/// Makes an admin what it is to become, under its lock.
async fn rewrite(
    change: &mut Change<'_>,
    context: &Context,
    id: AdminId,
    action: &str,
    password: Password,
    check: impl FnOnce(i64) -> Result<(), Problem>,
    become_: impl FnOnce(Fields) -> Result<Fields, Problem>,
) -> Result<(), Problem> {
    let guard = Guard::take(change.connection()).await?;
    let old = lock(change.connection(), context.scope(), id).await?;
    check(old.version)?;
    let new = become_(old)?;
    let which = if let Password::Becomes(_, which) = password { which } else { Which::NotAllowed };
    let recorded =
        write(change.connection(), &context.origin, id, action, &new, password).await.map_err(refused)?;
    change.note(recorded);
    end_made_by(change, &context.origin, &[id], which).await?;
    if guard.permits(change.connection()).await? { Ok(()) } else { Err(superadmins::last()) }
}

async fn lock(connection: &mut PgConnection, scope: &Scope, id: AdminId) -> Result<Fields, Problem> {
    let found = sqlx::query_as!(
        Fields,
        r#"SELECT email, first_name, last_name, phone, role, active, preferences, version,
                  ARRAY(SELECT organisation_id FROM admin_organisation m WHERE m.admin_id = a.id ORDER BY 1)
                      AS "organisations!: Vec<OrganisationId>"
           FROM admin a
           WHERE id = $2 AND ($1::uuid[] IS NULL OR EXISTS (
               SELECT FROM admin_organisation m WHERE m.admin_id = a.id AND m.organisation_id = ANY ($1)))
           FOR UPDATE OF a"#,
        scope.organisations() as Option<&[OrganisationId]>,
        id.get(),
    )
    .fetch_optional(&mut *connection)
    .await?;
    match found {
        Some(found) => Ok(found),
        None => Err(tombstone::missing(connection, scope, ENTITY, id).await),
    }
}

/// Writes what differs, and nothing where nothing does. The sessions of an account end when it is deactivated, is removed
/// from an organisation, or gets another password.
async fn write(
    connection: &mut PgConnection,
    origin: &Origin,
    id: AdminId,
    action: &str,
    new: &Fields,
    password: Password,
) -> Result<Recorded, sqlx::Error> {
    let (has_new_password, password_hash) = match password {
        Password::Kept => (false, None),
        Password::Becomes(hash, _) => (true, hash),
    };
    record_change!(
        connection,
        origin,
        action,
        ENTITY,
        None,
        "WITH old AS MATERIALIZED (
             SELECT a.*, ARRAY(SELECT organisation_id FROM admin_organisation m WHERE m.admin_id = a.id ORDER BY 1)
                 AS organisations
             FROM admin a WHERE id = $9
         ), made AS (
             UPDATE admin a
             SET email = $10, first_name = $11, last_name = $12, phone = $13, role = $14, active = $15,
                 preferences = $16,
                 password_hash = CASE WHEN $18 THEN $19 ELSE a.password_hash END,
                 active_acceptance = CASE WHEN old.active = $15 THEN a.active_acceptance
                                     ELSE nextval('acceptance') END,
                 version = a.version + 1
             FROM old
             WHERE a.id = old.id AND ($18
                 OR (old.email, old.first_name, old.last_name, old.phone, old.role, old.active, old.preferences,
                     old.organisations)
                    IS DISTINCT FROM ($10, $11, $12, $13, $14, $15, $16, $17::uuid[]))
             RETURNING a.*
         ), parted AS (
             DELETE FROM admin_organisation m USING made
             WHERE m.admin_id = made.id AND m.organisation_id <> ALL ($17)
         ), joined AS (
             INSERT INTO admin_organisation (admin_id, organisation_id)
             SELECT made.id, o.id FROM made CROSS JOIN unnest($17) AS o (id)
             ON CONFLICT DO NOTHING
         ), shut_out AS (
             SELECT made.id FROM made JOIN old USING (id)
             WHERE $18 OR NOT made.active OR NOT old.organisations <@ $17
         ), ended AS (
             UPDATE session s SET ended_at = now(), version = s.version + 1
             WHERE s.admin_id = ANY (ARRAY(SELECT id FROM shut_out)) AND s.ended_at IS NULL
         ), revoked AS (
             UPDATE access_token k SET revoked_at = now(), version = k.version + 1
             WHERE k.admin_id = ANY (ARRAY(SELECT id FROM shut_out)) AND k.revoked_at IS NULL
         ), changed AS (
             SELECT made.id AS entity, made.version, made.changed_at AS at, NULL::uuid AS organisation, '{}'::uuid[] AS eshops,
                    (SELECT jsonb_object_agg(field, jsonb_build_array(was, becomes)) FROM (VALUES
                        ('email', to_jsonb(old.email), to_jsonb(made.email)),
                        ('firstName', to_jsonb(old.first_name), to_jsonb(made.first_name)),
                        ('lastName', to_jsonb(old.last_name), to_jsonb(made.last_name)),
                        ('phone', to_jsonb(old.phone), to_jsonb(made.phone)),
                        ('role', to_jsonb(old.role), to_jsonb(made.role)),
                        ('active', to_jsonb(old.active), to_jsonb(made.active)),
                        ('preferences', old.preferences, made.preferences),
                        ('organisations', to_jsonb(old.organisations), to_jsonb($17)),
                        ('password', CASE WHEN old.password_hash IS NOT NULL THEN '\"***\"'::jsonb END,
                            CASE WHEN made.password_hash IS NOT NULL THEN '\"***\"'::jsonb END)
                     ) AS f (field, was, becomes)
                     WHERE was IS DISTINCT FROM becomes OR (field = 'password' AND $18)) AS changes,
                    '{}'::jsonb AS data
             FROM made JOIN old USING (id)
         )",
        id.get(),
        new.email,
        new.first_name,
        new.last_name,
        new.phone.as_deref() as Option<&str>,
        new.role,
        new.active,
        new.preferences,
        &new.organisations as &[OrganisationId],
        has_new_password,
        password_hash as Option<String>,
    )
    .await
}

/// An address that is already taken.
fn refused(error: sqlx::Error) -> Problem {
    if violated_constraint(&error) == Some("admin_email_is_unique") {
        return Problem::invalid(vec![Violation::taken("email", "belongs to another admin", None)]);
    }
    error.into()
}

/// A refusal with the admin that has the address, if the caller may see it; after the transaction has ended.
async fn taken_by(db: &Database, scope: &Scope, email: Option<&str>, problem: Problem) -> Problem {
    if !problem.is_taken() {
        return problem;
    }
    let other = async {
        let other = sqlx::query_scalar!("SELECT id FROM admin WHERE lower(email) = lower($1)", email)
            .fetch_optional(&db.main)
            .await?;
        match other {
            Some(id) => list::find(&db.main, &ADMIN, scope, id).await,
            None => Ok(None),
        }
    };
    match other.await {
        Ok(other) => problem.taken_by(other.map(|other| other.id)),
        Err(problem) => problem,
    }
}

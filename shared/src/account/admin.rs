//! Admins: the accounts of those who run the service, or some of its organisations (decisions, sections 3 and 4).
//!
//! Every change of one admin reads it under a lock, says what it is to become, and writes what differs; [`bulk`] switches
//! and deletes many. Whatever may take the last active superadmin away waits for its turn, and is refused if it did.

pub mod bulk;
mod edit;
pub mod fields;
mod superadmins;

use chrono::{DateTime, Utc};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

use self::edit::{Edit, Fields};
use self::superadmins::Guard;
use super::access::{Role, Scope};
use super::{password, person};
use crate::list::{self, Record};
use crate::platform::answer::Answer;
use crate::platform::change::{Change, Recorded};
use crate::platform::context::{Context, Origin};
use crate::platform::database::{Database, violated_constraint};
use crate::platform::ids;
use crate::platform::input::Given;
use crate::platform::problem::{Problem, Violation};
use crate::platform::services::Services;
use crate::platform::tombstone;
use crate::record_change;

pub use self::edit::{ORGANISATIONS, PREFERENCES_BYTES, ROLES};
pub use super::person::body_hash;

/// Its entity type, in the audit and on tombstones.
const ENTITY: &str = "admin";

fn location(id: Uuid) -> String {
    format!("/api/admin/{id}")
}

async fn shown(connection: &mut PgConnection, scope: &Scope, id: Uuid) -> Result<Record, Problem> {
    list::find(connection, &fields::ADMIN, scope, id).await?.ok_or_else(|| Problem::not_found(ENTITY))
}

/// Creates an admin (`POST /api/admin`).
pub async fn create(services: &Services, context: &Context, body: Value) -> Result<Answer, Problem> {
    let mut edit = Edit::read(body, true)?;
    let password = std::mem::take(&mut edit.person.password).value();
    let new = edit.apply(Fields {
        email: String::new(),
        first_name: String::new(),
        last_name: String::new(),
        phone: None,
        role: Role::Viewer.as_str().to_owned(),
        active: true,
        organisations: Vec::new(),
        preferences: Value::Object(serde_json::Map::new()),
        changed_at: DateTime::UNIX_EPOCH,
    });
    let hash = match password {
        Some(password) => Some(password::hash(&password).await?),
        None => None,
    };
    let mut change = Change::begin(services).await?;
    check_organisations(change.connection(), &new.organisations).await?;
    let id = ids::new_id();
    let recorded = insert(change.connection(), &context.origin, id, &new, hash).await.map_err(refused)?;
    change.note(recorded);
    let admin = shown(change.connection(), context.scope(), id).await?;
    change.answer(context.claim, Answer::created(location(id), admin.changed_at, admin.json)).await
}

/// An admin as the command line makes one: how the first one comes to be.
#[derive(Debug)]
pub struct NewAdmin {
    /// Address, which is the login.
    pub email: String,
    /// First name.
    pub first_name: String,
    /// Last name.
    pub last_name: String,
    /// `superadmin`, `admin` or `viewer`.
    pub role: Role,
    /// Password.
    pub password: SecretString,
    /// Organisations that it is added to.
    pub organisations: Vec<Uuid>,
}

/// Creates an admin without a request; answers its id.
pub async fn create_first(db: &Database, origin: &Origin, new: NewAdmin) -> Result<Uuid, Problem> {
    person::check(&new.email, new.password.expose_secret())?;
    let hash = password::hash(&new.password).await?;
    let mut organisations = new.organisations;
    organisations.sort_unstable();
    organisations.dedup();
    let fields = Fields {
        email: new.email,
        first_name: new.first_name,
        last_name: new.last_name,
        phone: None,
        role: new.role.as_str().to_owned(),
        active: true,
        organisations,
        preferences: Value::Object(serde_json::Map::new()),
        changed_at: DateTime::UNIX_EPOCH,
    };
    check_organisations(&db.main, &fields.organisations).await?;
    let id = ids::new_id();
    insert(&db.main, origin, id, &fields, Some(hash)).await.map_err(refused)?;
    Ok(id)
}

/// Whether an admin has this address.
pub async fn is_known(db: &Database, email: &str) -> Result<bool, Problem> {
    let known = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM admin WHERE lower(email) = lower($1)) AS "known!""#,
        email,
    )
    .fetch_one(&db.main)
    .await?;
    Ok(known)
}

async fn insert<'c>(
    connection: impl PgExecutor<'c>,
    origin: &Origin,
    id: Uuid,
    new: &Fields,
    password_hash: Option<String>,
) -> Result<Recorded, sqlx::Error> {
    record_change!(
        connection,
        origin,
        "admin.create",
        ENTITY,
        "",
        "WITH made AS (
             INSERT INTO admin (id, email, first_name, last_name, phone, role, active, password_hash, preferences,
                 active_acceptance)
             VALUES ($9, $10, $11, $12, $13, $14, $15, $16, $17, nextval('acceptance'))
             RETURNING *
         ), joined AS (
             INSERT INTO admin_organisation (admin_id, organisation_id)
             SELECT made.id, o.id FROM made CROSS JOIN unnest($18::uuid[]) AS o (id)
         ), changed AS (
             SELECT id AS entity, NULL::uuid AS organisation, '{}'::uuid[] AS eshops,
                    jsonb_build_object('email', jsonb_build_array(NULL, email),
                        'firstName', jsonb_build_array(NULL, first_name),
                        'lastName', jsonb_build_array(NULL, last_name),
                        'phone', jsonb_build_array(NULL, phone),
                        'role', jsonb_build_array(NULL, role),
                        'active', jsonb_build_array(NULL, active),
                        'organisations', jsonb_build_array(NULL, to_jsonb($18::uuid[])),
                        'preferences', jsonb_build_array(NULL, preferences),
                        'password', jsonb_build_array(NULL, CASE WHEN password_hash IS NOT NULL THEN '***' END)
                    ) AS changes,
                    '{}'::jsonb AS data
             FROM made
         )",
        id,
        new.email,
        new.first_name,
        new.last_name,
        new.phone.as_deref() as Option<&str>,
        new.role,
        new.active,
        password_hash as Option<String>,
        new.preferences,
        &new.organisations,
    )
    .await
}

/// Changes an admin (`PUT /api/admin/{id}`): the given fields; the others stay. `check` refuses a version.
pub async fn update(
    services: &Services,
    context: &Context,
    id: Uuid,
    body: Value,
    check: impl FnOnce(DateTime<Utc>) -> Result<(), Problem>,
) -> Result<Answer, Problem> {
    let mut edit = Edit::read(body, false)?;
    let password = match std::mem::take(&mut edit.person.password) {
        Given::Absent => Password::Kept,
        Given::Null => Password::Becomes(None),
        Given::Value(secret) => Password::Becomes(Some(password::hash(&secret).await?)),
    };
    let joined = edit.organisations.clone().unwrap_or_default();
    let become_ = |old: Fields| Ok(edit.apply(old));
    let mut change = Change::begin(services).await?;
    check_organisations(change.connection(), &joined).await?;
    rewrite(&mut change, context, id, "admin.update", password, check, become_).await?;
    answer_with(change, context, id).await
}

/// Replaces the preferences of an admin (`PUT /api/admin/{id}/preferences`), as a whole.
pub async fn set_preferences(
    services: &Services,
    context: &Context,
    id: Uuid,
    body: Value,
    check: impl FnOnce(DateTime<Utc>) -> Result<(), Problem>,
) -> Result<Answer, Problem> {
    let preferences = edit::read_preferences(body)?;
    let become_ = |old: Fields| Ok(Fields { preferences, ..old });
    let mut change = Change::begin(services).await?;
    rewrite(&mut change, context, id, "admin.preferences", Password::Kept, check, become_).await?;
    answer_with(change, context, id).await
}

/// Adds an admin to an organisation (`PUT /api/admin/{id}/organisation/{orgId}`); one that was added already stays so.
pub async fn join(
    services: &Services,
    context: &Context,
    id: Uuid,
    organisation: Uuid,
) -> Result<Answer, Problem> {
    let mut change = Change::begin(services).await?;
    find_organisation(change.connection(), context.scope(), organisation).await?;
    let become_ = |mut old: Fields| {
        if let Err(place) = old.organisations.binary_search(&organisation) {
            old.organisations.insert(place, organisation);
        }
        Ok(old)
    };
    rewrite(&mut change, context, id, "admin.organisation_add", Password::Kept, |_| Ok(()), become_).await?;
    change.answer(context.claim, Answer::no_content()).await
}

/// Removes an admin from an organisation (`DELETE /api/admin/{id}/organisation/{orgId}`).
pub async fn leave(
    services: &Services,
    context: &Context,
    id: Uuid,
    organisation: Uuid,
) -> Result<Answer, Problem> {
    let mut change = Change::begin(services).await?;
    find_organisation(change.connection(), context.scope(), organisation).await?;
    let become_ = |mut old: Fields| match old.organisations.binary_search(&organisation) {
        Ok(place) => {
            old.organisations.remove(place);
            Ok(old)
        }
        Err(_) => Err(Problem::not_found("admin in the organisation")),
    };
    rewrite(&mut change, context, id, "admin.organisation_remove", Password::Kept, |_| Ok(()), become_)
        .await?;
    change.answer(context.claim, Answer::no_content()).await
}

/// Activates or deactivates an admin (`PUT /api/admin/activate|deactivate/{id}`). Who is deactivated loses its tokens.
pub async fn set_active(
    services: &Services,
    context: &Context,
    id: Uuid,
    active: bool,
) -> Result<Answer, Problem> {
    let mut change = Change::begin(services).await?;
    let acceptance = sqlx::query_scalar!(r#"SELECT nextval('acceptance') AS "number!""#)
        .fetch_one(change.connection())
        .await?;
    single(change, context, id, bulk::Wish::Switch { active, acceptance }).await
}

/// Deletes an admin for good (`DELETE /api/admin/{id}`), with its tokens.
pub async fn delete(services: &Services, context: &Context, id: Uuid) -> Result<Answer, Problem> {
    single(Change::begin(services).await?, context, id, bulk::Wish::Delete).await
}

/// What the bulk operations do, to one.
async fn single(
    mut change: Change<'_>,
    context: &Context,
    id: Uuid,
    wish: bulk::Wish,
) -> Result<Answer, Problem> {
    let found = list::find(change.connection(), &fields::ADMIN, context.scope(), id).await?;
    if found.is_none() {
        return Err(tombstone::missing(change.connection(), context.scope(), ENTITY, id).await);
    }
    match bulk::execute(&mut change, &context.origin, wish, &[id]).await? {
        Ok(_) => change.answer(context.claim, Answer::no_content()).await,
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
    /// The hash of another one, or none any more.
    Becomes(Option<String>),
}

async fn answer_with(mut change: Change<'_>, context: &Context, id: Uuid) -> Result<Answer, Problem> {
    let admin = shown(change.connection(), context.scope(), id).await?;
    change.answer(context.claim, Answer::updated(location(id), admin.changed_at, admin.json)).await
}

/// Makes an admin what it is to become, under its lock.
async fn rewrite(
    change: &mut Change<'_>,
    context: &Context,
    id: Uuid,
    action: &str,
    password: Password,
    check: impl FnOnce(DateTime<Utc>) -> Result<(), Problem>,
    become_: impl FnOnce(Fields) -> Result<Fields, Problem>,
) -> Result<(), Problem> {
    let guard = Guard::take(change.connection()).await?;
    let old = lock(change.connection(), context.scope(), id).await?;
    check(old.changed_at)?;
    let new = become_(old)?;
    let recorded =
        write(change.connection(), &context.origin, id, action, &new, password).await.map_err(refused)?;
    change.note(recorded);
    if guard.permits(change.connection()).await? { Ok(()) } else { Err(superadmins::last()) }
}

async fn lock(connection: &mut PgConnection, scope: &Scope, id: Uuid) -> Result<Fields, Problem> {
    let found = sqlx::query_as!(
        Fields,
        r#"SELECT email, first_name, last_name, phone, role, active, preferences, changed_at,
                  ARRAY(SELECT organisation_id FROM admin_organisation m WHERE m.admin_id = a.id ORDER BY 1)
                      AS "organisations!: Vec<Uuid>"
           FROM admin a
           WHERE id = $2 AND ($1::uuid[] IS NULL OR EXISTS (
               SELECT FROM admin_organisation m WHERE m.admin_id = a.id AND m.organisation_id = ANY ($1)))
           FOR UPDATE OF a"#,
        scope.organisations() as Option<&[Uuid]>,
        id,
    )
    .fetch_optional(&mut *connection)
    .await?;
    match found {
        Some(found) => Ok(found),
        None => Err(tombstone::missing(connection, scope, ENTITY, id).await),
    }
}

/// Writes what differs, and nothing where nothing does. Who is shut out, or gets another password, loses its tokens.
async fn write(
    connection: &mut PgConnection,
    origin: &Origin,
    id: Uuid,
    action: &str,
    new: &Fields,
    password: Password,
) -> Result<Recorded, sqlx::Error> {
    let (has_new_password, password_hash) = match password {
        Password::Kept => (false, None),
        Password::Becomes(hash) => (true, hash),
    };
    record_change!(
        connection,
        origin,
        action,
        ENTITY,
        "",
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
                 changed_at = greatest(now(), a.changed_at + interval '1 microsecond')
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
         ), revoked AS (
             UPDATE access_token k SET revoked_at = now(), changed_at = now()
             FROM made
             WHERE k.admin_id = made.id AND k.revoked_at IS NULL AND ($18 OR NOT made.active)
         ), changed AS (
             SELECT made.id AS entity, NULL::uuid AS organisation, '{}'::uuid[] AS eshops,
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
        id,
        new.email,
        new.first_name,
        new.last_name,
        new.phone.as_deref() as Option<&str>,
        new.role,
        new.active,
        new.preferences,
        &new.organisations,
        has_new_password,
        password_hash as Option<String>,
    )
    .await
}

/// An address that somebody has already.
fn refused(error: sqlx::Error) -> Problem {
    if violated_constraint(&error) == Some("admin_email_is_unique") {
        return Problem::taken("email", "another admin has this address");
    }
    error.into()
}

/// Refuses organisations that do not exist.
async fn check_organisations<'c>(
    connection: impl PgExecutor<'c>,
    organisations: &[Uuid],
) -> Result<(), Problem> {
    let unknown = sqlx::query_scalar!(
        r#"SELECT w.id AS "id!" FROM unnest($1::uuid[]) AS w (id)
           WHERE NOT EXISTS (SELECT FROM organisation o WHERE o.id = w.id) ORDER BY 1"#,
        organisations,
    )
    .fetch_all(connection)
    .await?;
    if unknown.is_empty() {
        return Ok(());
    }
    let told = unknown.into_iter().map(|id| Violation {
        property_path: "organisations".to_owned(),
        message: format!("there is no organisation {id}"),
        code: "unknown_reference",
    });
    Err(Problem::invalid(told.collect()))
}

async fn find_organisation(
    connection: &mut PgConnection,
    scope: &Scope,
    organisation: Uuid,
) -> Result<(), Problem> {
    let known = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM organisation
               WHERE id = $2 AND ($1::uuid[] IS NULL OR id = ANY ($1))) AS "known!""#,
        scope.organisations() as Option<&[Uuid]>,
        organisation,
    )
    .fetch_one(&mut *connection)
    .await?;
    if known {
        return Ok(());
    }
    Err(tombstone::missing(connection, scope, "organisation", organisation).await)
}

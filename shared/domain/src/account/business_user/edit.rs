//! Changing business users: each change reads one under a lock, says what it is to become, and writes what differs.

use serde_json::Value;
use sqlx::PgConnection;

use super::{ENTITY, taken};
use crate::account::password;
use crate::list;
use crate::list::fields::business_user::BUSINESS_USER;
use crate::record::moved;
use longshore_kernel::access::Scope;
use longshore_kernel::answer::Answer;
use longshore_kernel::change::{Change, Recorded};
use longshore_kernel::context::{Context, Origin};
use longshore_kernel::ids::{BusinessUserId, OrganisationId};
use longshore_kernel::input::{Given, Reader};
use longshore_kernel::problem::Problem;
use longshore_kernel::record_change;
use longshore_kernel::services::Services;
use longshore_kernel::sqlstate::violated_constraint;
use longshore_kernel::tombstone;

/// A business user as it is stored, or as it is to be; the password is apart.
#[derive(Clone, Debug)]
struct Stored {
    organisation: OrganisationId,
    email: String,
    first_name: String,
    last_name: String,
    phone: Option<String>,
    active: bool,
    version: i64,
}

/// Changes a business user (`PUT /api/business-user/{id}`): the given fields; the others stay. `check` refuses a version.
pub async fn update(
    services: &Services,
    context: &Context,
    id: BusinessUserId,
    body: Value,
    check: impl FnOnce(i64) -> Result<(), Problem>,
) -> Result<Answer, Problem> {
    let (mut person, organisation, echo) = Reader::read(body, super::body(false))?;
    // null clears it
    let password = match std::mem::take(&mut person.password) {
        Given::Absent => Given::Absent,
        Given::Null => Given::Null,
        Given::Value(secret) => Given::Value(password::hash(&secret).await?),
    };
    let mut change = Change::begin(services).await?;
    let old = lock(change.connection(), context.scope(), id).await?;
    check(old.version)?;
    let mut violations: Vec<_> = moved("organisation", organisation, old.organisation).into_iter().collect();
    violations.extend(echo.judge(&shown(change.connection(), context.scope(), id).await?.json)?);
    Problem::refuse(violations)?;
    let email = person.email.clone().unwrap_or_default();
    let new = Stored {
        email: person.email.unwrap_or(old.email),
        first_name: person.first_name.unwrap_or(old.first_name),
        last_name: person.last_name.unwrap_or(old.last_name),
        phone: person.phone.or_keep(old.phone),
        active: person.active.unwrap_or(old.active),
        ..old
    };
    match write(change.connection(), &context.origin, id, "business_user.update", &new, password).await {
        Ok(recorded) => change.note(recorded),
        Err(error) if violated_constraint(&error) == Some("business_user_email_is_unique") => {
            drop(change);
            return Err(taken(services, context, &email).await?);
        }
        Err(error) => return Err(error.into()),
    };
    let user = shown(change.connection(), context.scope(), id).await?;
    let answer = Answer::updated(format!("/api/business-user/{id}"), user.version, user.json);
    change.answer(context.claim, answer).await
}

/// Activates or deactivates a business user (`PUT /api/business-user/activate|deactivate/{id}`). A deactivated account
/// loses its sessions.
pub async fn set_active(
    services: &Services,
    context: &Context,
    id: BusinessUserId,
    active: bool,
) -> Result<Answer, Problem> {
    let mut change = Change::begin(services).await?;
    let old = lock(change.connection(), context.scope(), id).await?;
    let action = if active { "business_user.activate" } else { "business_user.deactivate" };
    let new = Stored { active, ..old };
    let recorded = write(change.connection(), &context.origin, id, action, &new, Given::Absent).await?;
    change.note(recorded);
    change.answer(context.claim, Answer::done()).await
}

async fn shown(
    connection: &mut PgConnection,
    scope: &Scope,
    id: BusinessUserId,
) -> Result<list::Record, Problem> {
    list::find(connection, &BUSINESS_USER, scope, id).await?.ok_or_else(|| Problem::not_found(ENTITY))
}

async fn lock(connection: &mut PgConnection, scope: &Scope, id: BusinessUserId) -> Result<Stored, Problem> {
    let found = sqlx::query_as!(
        Stored,
        "SELECT organisation_id AS organisation, email, first_name, last_name, phone, active, version
         FROM business_user
         WHERE id = $2 AND in_scope($1, organisation_id) FOR NO KEY UPDATE",
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

/// Writes what differs, and nothing where nothing does. The sessions of an account end when it is deactivated or gets
/// another password.
async fn write(
    connection: &mut PgConnection,
    origin: &Origin,
    id: BusinessUserId,
    action: &str,
    new: &Stored,
    password: Given<String>,
) -> Result<Recorded, sqlx::Error> {
    let has_new_password = !matches!(password, Given::Absent);
    let hash = match password {
        Given::Value(hash) => Some(hash),
        Given::Absent | Given::Null => None,
    };
    record_change!(
        connection,
        origin,
        action,
        ENTITY,
        None,
        "WITH old AS MATERIALIZED (
             SELECT * FROM business_user WHERE id = $9
         ), made AS (
             UPDATE business_user u
             SET email = $10, first_name = $11, last_name = $12, phone = $13, active = $14,
                 password_hash = CASE WHEN $15 THEN $16 ELSE u.password_hash END,
                 version = u.version + 1
             FROM old
             WHERE u.id = old.id AND ($15 OR (old.email, old.first_name, old.last_name, old.phone, old.active)
                                             IS DISTINCT FROM ($10, $11, $12, $13, $14))
             RETURNING u.*
         ), ended AS (
             UPDATE session s SET ended_at = now(), version = s.version + 1
             WHERE s.business_user_id = ANY (ARRAY(SELECT id FROM made WHERE $15 OR NOT active)) AND s.ended_at IS NULL
         ), revoked AS (
             UPDATE access_token k SET revoked_at = now(), version = k.version + 1
             WHERE k.business_user_id = ANY (ARRAY(SELECT id FROM made WHERE $15 OR NOT active)) AND k.revoked_at IS NULL
         ), changed AS (
             SELECT made.id AS entity, made.version, made.changed_at AS at, made.organisation_id AS organisation, '{}'::uuid[] AS eshops,
                    (SELECT jsonb_object_agg(field, jsonb_build_array(was, becomes)) FROM (VALUES
                        ('email', to_jsonb(old.email), to_jsonb(made.email)),
                        ('firstName', to_jsonb(old.first_name), to_jsonb(made.first_name)),
                        ('lastName', to_jsonb(old.last_name), to_jsonb(made.last_name)),
                        ('phone', to_jsonb(old.phone), to_jsonb(made.phone)),
                        ('active', to_jsonb(old.active), to_jsonb(made.active)),
                        ('password', CASE WHEN old.password_hash IS NOT NULL THEN '\"***\"'::jsonb END,
                            CASE WHEN made.password_hash IS NOT NULL THEN '\"***\"'::jsonb END)
                     ) AS f (field, was, becomes)
                     WHERE was IS DISTINCT FROM becomes OR (field = 'password' AND $15)) AS changes,
                    '{}'::jsonb AS data
             FROM made JOIN old USING (id)
         )",
        id.get(),
        new.email,
        new.first_name,
        new.last_name,
        new.phone.as_deref() as Option<&str>,
        new.active,
        has_new_password,
        hash as Option<String>,
    )
    .await
}

//! Creating admins: by a request, and the first one by the command line.

use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;
use sqlx::PgExecutor;

use super::super::{password, person};
use super::edit::{Edit, Fields};
use super::organisations::check_organisations;
use super::{ENTITY, location, refused, shown, taken_by};
use longshore_kernel::access::Role;
use longshore_kernel::answer::Answer;
use longshore_kernel::change::{Change, Recorded};
use longshore_kernel::context::{Context, Origin};
use longshore_kernel::database::Database;
use longshore_kernel::ids::{AdminId, OrganisationId};
use longshore_kernel::problem::Problem;
use longshore_kernel::record_change;
use longshore_kernel::services::Services;

/// Creates an admin (`POST /api/admin`).
pub async fn create(services: &Services, context: &Context, body: Value) -> Result<Answer, Problem> {
    let (mut edit, violations) = Edit::read(body, true);
    let password = std::mem::take(&mut edit.person.password).value();
    let joined = edit.organisations.clone().unwrap_or_default();
    let new = edit.apply(Fields {
        email: String::new(),
        first_name: String::new(),
        last_name: String::new(),
        phone: None,
        role: Role::Viewer.as_str().to_owned(),
        active: true,
        organisations: Vec::new(),
        preferences: Value::Object(serde_json::Map::new()),
        version: 0,
    });
    let hash = match password {
        Some(password) if violations.is_empty() => Some(password::hash(&password).await?),
        _ => None,
    };
    let mut change = Change::begin(services).await?;
    check_organisations(change.connection(), &joined, violations).await?;
    let id = AdminId::new();
    match insert(change.connection(), &context.origin, id, &new, hash).await.map_err(refused) {
        Ok(recorded) => change.note(recorded),
        Err(problem) => {
            drop(change);
            return Err(taken_by(&services.db, context.scope(), Some(&new.email), problem).await);
        }
    };
    let admin = shown(change.connection(), context.scope(), id).await?;
    change.answer(context.claim, Answer::created(location(id), admin.version, admin.json)).await
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
    pub organisations: Vec<OrganisationId>,
}

/// Creates an admin without a request; returns its id.
pub async fn create_first(db: &Database, origin: &Origin, new: NewAdmin) -> Result<AdminId, Problem> {
    person::check(&new.email, new.password.expose_secret())?;
    let hash = password::hash(&new.password).await?;
    check_organisations(&mut *db.main.acquire().await?, &new.organisations, Vec::new()).await?;
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
        version: 0,
    };
    let id = AdminId::new();
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
    id: AdminId,
    new: &Fields,
    password_hash: Option<String>,
) -> Result<Recorded, sqlx::Error> {
    record_change!(
        connection,
        origin,
        "admin.create",
        ENTITY,
        None,
        "WITH made AS (
             INSERT INTO admin (id, email, first_name, last_name, phone, role, active, password_hash, preferences,
                 active_acceptance)
             VALUES ($9, $10, $11, $12, $13, $14, $15, $16, $17, nextval('acceptance'))
             RETURNING *
         ), joined AS (
             INSERT INTO admin_organisation (admin_id, organisation_id)
             SELECT made.id, o.id FROM made CROSS JOIN unnest($18::uuid[]) AS o (id)
         ), changed AS (
             SELECT id AS entity, version, changed_at AS at, NULL::uuid AS organisation, '{}'::uuid[] AS eshops,
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
        id.get(),
        new.email,
        new.first_name,
        new.last_name,
        new.phone.as_deref() as Option<&str>,
        new.role,
        new.active,
        password_hash as Option<String>,
        new.preferences,
        &new.organisations as &[OrganisationId],
    )
    .await
}

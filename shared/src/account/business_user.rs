//! Business users: the accounts of those who work in one organisation (decisions, section 4).

pub mod fields;

use serde_json::Value;
use uuid::Uuid;

use super::password;
use super::person::Person;
use crate::list;
use crate::platform::answer::Answer;
use crate::platform::change::Change;
use crate::platform::context::Context;
use crate::platform::database::violated_constraint;
use crate::platform::ids;
use crate::platform::input::{self, Reader};
use crate::platform::problem::Problem;
use crate::platform::services::Services;
use crate::platform::tombstone;
use crate::record_change;

pub use super::person::body_hash;

/// Its entity type, in the audit and on tombstones.
const ENTITY: &str = "business_user";

/// Creates a business user (`POST /api/business-user`), in an organisation of the caller's.
pub async fn create(services: &Services, context: &Context, body: Value) -> Result<Answer, Problem> {
    let (person, organisation) = Reader::read(body, |reader, body| {
        let mut object = reader.object(body)?;
        let person = Person::members(&mut object, true);
        let organisation = object.required("organisation", input::id);
        object.finish();
        Some((person, organisation?))
    })?;
    let hash = match person.password.value() {
        Some(password) => Some(password::hash(&password).await?),
        None => None,
    };
    let id = ids::new_id();
    let mut change = Change::begin(services).await?;
    let recorded = record_change!(
        change.connection(),
        context.origin,
        "business_user.create",
        ENTITY,
        "",
        "WITH made AS (
             INSERT INTO business_user (id, organisation_id, email, first_name, last_name, phone, password_hash, active)
             SELECT $9, o.id, $12, $13, $14, $15, $16, $17
             FROM organisation o WHERE o.id = $10 AND ($11::uuid[] IS NULL OR o.id = ANY ($11))
             RETURNING *
         ), changed AS (
             SELECT id AS entity, organisation_id AS organisation, '{}'::uuid[] AS eshops,
                    jsonb_build_object('email', jsonb_build_array(NULL, email),
                        'firstName', jsonb_build_array(NULL, first_name),
                        'lastName', jsonb_build_array(NULL, last_name),
                        'phone', jsonb_build_array(NULL, phone),
                        'organisation', jsonb_build_array(NULL, organisation_id),
                        'active', jsonb_build_array(NULL, active),
                        'password', jsonb_build_array(NULL, CASE WHEN password_hash IS NOT NULL THEN '***' END)
                    ) AS changes,
                    '{}'::jsonb AS data
             FROM made
         )",
        id,
        organisation,
        context.scope().organisations() as Option<&[Uuid]>,
        person.email.unwrap_or_default(),
        person.first_name.unwrap_or_default(),
        person.last_name.unwrap_or_default(),
        person.phone.value() as Option<String>,
        hash as Option<String>,
        person.active.unwrap_or(true),
    )
    .await
    .map_err(refused)?;
    if change.note(recorded) == 0 {
        return Err(Problem::violation("organisation", "unknown_reference", "there is no such organisation"));
    }
    let user = list::find(change.connection(), &fields::BUSINESS_USER, context.scope(), id)
        .await?
        .ok_or_else(|| Problem::not_found(ENTITY))?;
    let answer = Answer::created(format!("/api/business-user/{id}"), user.changed_at, user.json);
    change.answer(context.claim, answer).await
}

/// An address that somebody has already.
fn refused(error: sqlx::Error) -> Problem {
    if violated_constraint(&error) == Some("business_user_email_is_unique") {
        return Problem::taken("email", "another business user has this address");
    }
    error.into()
}

/// Deletes a business user for good (`DELETE /api/business-user/{id}`), with its tokens.
pub async fn delete(services: &Services, context: &Context, id: Uuid) -> Result<Answer, Problem> {
    let mut change = Change::begin(services).await?;
    let recorded = record_change!(
        change.connection(),
        context.origin,
        "business_user.delete",
        ENTITY,
        "",
        "WITH made AS (
             DELETE FROM business_user WHERE id = $10 AND ($9::uuid[] IS NULL OR organisation_id = ANY ($9)) RETURNING *
         ), buried AS (
             INSERT INTO tombstone (entity_type, entity_id, organisation_id, deleted_by)
             SELECT $7, id, organisation_id, $3 FROM made
         ), changed AS (
             SELECT id AS entity, organisation_id AS organisation, '{}'::uuid[] AS eshops,
                    jsonb_build_object('email', jsonb_build_array(email, NULL),
                        'firstName', jsonb_build_array(first_name, NULL),
                        'lastName', jsonb_build_array(last_name, NULL),
                        'active', jsonb_build_array(active, NULL)) AS changes,
                    '{}'::jsonb AS data
             FROM made
         )",
        context.scope().organisations() as Option<&[Uuid]>,
        id,
    )
    .await?;
    if change.note(recorded) == 0 {
        return Err(tombstone::missing(change.connection(), context.scope(), ENTITY, id).await);
    }
    change.answer(context.claim, Answer::no_content()).await
}

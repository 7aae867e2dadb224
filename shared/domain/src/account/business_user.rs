//! Business users: the accounts of people who work in one organisation (`docs/reference/accounts.md#business-users`).

mod edit;

use serde_json::Value;

use super::belonging::{no_such_organisation, owner};
use super::password;
use super::person::Person;
use crate::list;
use crate::list::fields::business_user::BUSINESS_USER;
use longshore_kernel::answer::Answer;
use longshore_kernel::change::Change;
use longshore_kernel::context::Context;
use longshore_kernel::echo::Echo;
use longshore_kernel::ids::{BusinessUserId, OrganisationId};
use longshore_kernel::input::{Reader, Rule, id, object};
use longshore_kernel::problem::{Problem, Violation, with_found};
use longshore_kernel::quota::Kind;
use longshore_kernel::record_change;
use longshore_kernel::services::Services;
use longshore_kernel::sqlstate::violated_constraint;
use longshore_kernel::tombstone;

pub use self::edit::{set_active, update};
pub use super::person::body_hash;

/// Its entity type, in the audit and on tombstones.
const ENTITY: &str = "business_user";

/// The body of a create or of an update: the person, the organisation, and read-only members.
pub fn body(is_new: bool) -> impl Rule<Out = (Person, Option<OrganisationId>, Echo)> {
    object(move |object| {
        let person = Person::members(object, is_new);
        let organisation = object.required_if(is_new, "organisation", id()).map(OrganisationId::from);
        let echo = Echo::of(object, is_new, |name| BUSINESS_USER.shows(name));
        Some((person, organisation, echo))
    })
}

/// Creates a business user (`POST /api/business-user`), in an organisation of the caller's.
pub async fn create(services: &Services, context: &Context, body: Value) -> Result<Answer, Problem> {
    let ((person, organisation, _), refused) = Reader::draft(body, self::body(true));
    if !refused.is_empty() {
        let mut connection = services.db.main.acquire().await?;
        let given = organisation.map(OrganisationId::get);
        let (_, found) = owner(&mut connection, context.scope(), None, given).await?;
        return Err(Problem::invalid(with_found(refused, found)));
    }
    let organisation = organisation.unwrap_or_default();
    let hash = match person.password.value() {
        Some(password) => Some(password::hash(&password).await?),
        None => None,
    };
    let (id, email) = (BusinessUserId::new(), person.email.unwrap_or_default());
    let mut change = Change::begin(services).await?;
    if context.scope().has_organisation(organisation) {
        change.must_have_room(organisation, Kind::BusinessUser).await?;
    }
    let made = record_change!(
        change.connection(),
        context.origin,
        "business_user.create",
        ENTITY,
        None,
        "WITH made AS (
             INSERT INTO business_user (id, organisation_id, email, first_name, last_name, phone, password_hash, active)
             SELECT $9, o.id, $12, $13, $14, $15, $16, $17
             FROM organisation o WHERE o.id = $10 AND in_scope($11, o.id)
             RETURNING *
         ), changed AS (
             SELECT id AS entity, version, changed_at AS at, organisation_id AS organisation, '{}'::uuid[] AS eshops,
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
        id.get(),
        organisation.get(),
        context.scope().organisations() as Option<&[OrganisationId]>,
        email,
        person.first_name.unwrap_or_default(),
        person.last_name.unwrap_or_default(),
        person.phone.value() as Option<String>,
        hash as Option<String>,
        person.active.unwrap_or(true),
    )
    .await;
    let recorded = match made {
        Ok(recorded) => recorded,
        Err(error) if violated_constraint(&error) == Some("business_user_email_is_unique") => {
            drop(change);
            return Err(taken(services, context, &email).await?);
        }
        Err(error) => return Err(error.into()),
    };
    if change.note(recorded) == 0 {
        return Err(Problem::invalid(vec![no_such_organisation()]));
    }
    let user = list::find(change.connection(), &BUSINESS_USER, context.scope(), id)
        .await?
        .ok_or_else(|| Problem::not_found(ENTITY))?;
    let answer = Answer::created(format!("/api/business-user/{id}"), user.version, user.json);
    change.answer(context.claim, answer).await
}

/// An address that is already taken. The other account is named if the caller may see it.
async fn taken(services: &Services, context: &Context, email: &str) -> Result<Problem, Problem> {
    let other = sqlx::query_scalar!(
        "SELECT id FROM business_user
         WHERE lower(email) = lower($1) AND in_scope($2, organisation_id)",
        email,
        context.scope().organisations() as Option<&[OrganisationId]>,
    )
    .fetch_optional(&services.db.main)
    .await?;
    Ok(Problem::invalid(vec![Violation::taken("email", "belongs to another business user", other)]))
}

/// Deletes a business user for good (`DELETE /api/business-user/{id}`), with its tokens.
pub async fn delete(services: &Services, context: &Context, id: BusinessUserId) -> Result<Answer, Problem> {
    let mut change = Change::begin(services).await?;
    let recorded = record_change!(
        change.connection(),
        context.origin,
        "business_user.delete",
        ENTITY,
        None,
        "WITH made AS (
             DELETE FROM business_user WHERE id = $10 AND in_scope($9, organisation_id) RETURNING *
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
        context.scope().organisations() as Option<&[OrganisationId]>,
        id.get(),
    )
    .await?;
    if change.note(recorded) == 0 {
        return Err(tombstone::missing(change.connection(), context.scope(), ENTITY, id).await);
    }
    change.answer(context.claim, Answer::done()).await
}

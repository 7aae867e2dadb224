//! The organisations that an admin belongs to.

use sqlx::PgConnection;
use uuid::Uuid;

use super::super::belonging::{Belonging, strangers};
use super::edit::Fields;
use super::{Password, rewrite};
use longshore_kernel::access::Scope;
use longshore_kernel::answer::Answer;
use longshore_kernel::change::Change;
use longshore_kernel::context::Context;
use longshore_kernel::ids::{AdminId, OrganisationId};
use longshore_kernel::problem::{Problem, Violation, with_found};
use longshore_kernel::services::Services;
use longshore_kernel::tombstone;

/// Adds an admin to an organisation (`PUT /api/admin/{id}/organisation/{orgId}`); one that was added already stays so.
pub async fn join(
    services: &Services,
    context: &Context,
    id: AdminId,
    organisation: OrganisationId,
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
    change.answer(context.claim, Answer::done()).await
}

/// Removes an admin from an organisation (`DELETE /api/admin/{id}/organisation/{orgId}`).
pub async fn leave(
    services: &Services,
    context: &Context,
    id: AdminId,
    organisation: OrganisationId,
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
    change.answer(context.claim, Answer::done()).await
}

/// Refuses organisations that do not exist, with what the rules refused.
pub(super) async fn check_organisations(
    connection: &mut PgConnection,
    organisations: &[OrganisationId],
    refused: Vec<Violation>,
) -> Result<(), Problem> {
    let ids: Vec<Uuid> = organisations.iter().map(|id| id.get()).collect();
    let unknown = strangers(connection, Belonging::Organisation, None, "organisations", &ids).await?;
    Problem::refuse(with_found(refused, unknown))
}

async fn find_organisation(
    connection: &mut PgConnection,
    scope: &Scope,
    organisation: OrganisationId,
) -> Result<(), Problem> {
    let known = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM organisation
               WHERE id = $2 AND in_scope($1, id)) AS "known!""#,
        scope.organisations() as Option<&[OrganisationId]>,
        organisation.get(),
    )
    .fetch_one(&mut *connection)
    .await?;
    if known {
        return Ok(());
    }
    Err(tombstone::missing(connection, scope, "organisation", organisation).await)
}

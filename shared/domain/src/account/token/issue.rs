//! Access tokens on request, for connectors and scripts: created, shown once, revoked
//! (`docs/reference/accounts.md#access-tokens`).

use chrono::{DateTime, Utc};
use secrecy::ExposeSecret as _;
use serde_json::Value;
use sqlx::PgConnection;

use super::create::{NewToken, check, in_a_year, insert, new_secret, unknown};
use super::making::{Maker, Means, revoke_tokens};
use super::{ENTITY, made};
use crate::account::belonging::no_such_organisation;
use crate::account::proof::Proof;
use crate::account::visitor::Visitor;
use crate::list;
use crate::list::fields::token::{ACCESS_TOKEN, ROLES};
use longshore_kernel::access::{Role, Scope};
use longshore_kernel::answer::Answer;
use longshore_kernel::change::Change;
use longshore_kernel::context::Context;
use longshore_kernel::ids::{EshopId, OrganisationId, TokenId, WmsId};
use longshore_kernel::input::{Given, Reader, Rule, id, object, one_of, text, timestamp};
use longshore_kernel::problem::{FORBIDDEN, Problem, Violation, with_found};
use longshore_kernel::quota::Kind;
use longshore_kernel::services::Services;
use longshore_kernel::tombstone;

/// What is said of a token that would have outlived its maker.
const SHORTENED: &str =
    "expiresAt is earlier than asked for: a token ends at the latest when the token that created it does";

/// Creates a token (`POST /api/access-token`). It is shown in this answer, and in no repetition of it. It outlives the session of a
/// login, which therefore proves whose it is.
pub async fn issue(
    services: &Services,
    context: &Context,
    visitor: &Visitor,
    body: Value,
) -> Result<Answer, Problem> {
    let ((new, named, replaces, proof), refused) = Reader::draft(body, body_to_create(services.clock.now()));
    let (id, secret) = (TokenId::new(), new_secret());
    let proof = if refused.is_empty() { proof.verify(services, context, visitor).await? } else { None };
    let mut change = Change::begin(services).await?;
    if let Some(proof) = &proof {
        proof.hold(change.connection(), services, context).await?;
    }
    let means = Maker::of(&context.origin.actor).hold(change.connection()).await?;
    let Some(mut new) = new.filter(|_| refused.is_empty()) else {
        let found = named.unknown(change.connection(), &means.scope).await?;
        return Err(Problem::invalid(with_found(refused, found)));
    };
    if let Some(former) = replaces {
        new.succeed(change.connection(), &means.scope, former).await?;
    }
    new.take_organisation(change.connection(), context.scope()).await?;
    limit(&means, &new)?;
    check(change.connection(), &new).await?;
    let wanted = new.expires_at;
    new.expires_at = [wanted, means.until].into_iter().flatten().min();
    if let Some(organisation) = new.organisation {
        change.must_have_room(organisation, Kind::AccessToken).await?;
    }
    let recorded = insert(change.connection(), &context.origin, id, &secret, &new, replaces).await?;
    change.note(recorded);
    if let Some(former) = replaces {
        made::pass_on(change.connection(), former, id).await?;
    }
    let token = list::find(change.connection(), &ACCESS_TOKEN, context.scope(), id)
        .await?
        .ok_or_else(|| Problem::not_found(ENTITY))?;
    let mut body: Value = serde_json::from_str(&token.json).map_err(Problem::internal)?;
    let stored = Answer::created(format!("/api/access-token/{id}"), token.version, token.json);
    let mut answer = change.answer(context.claim, stored).await?;
    if let Some(proof) = proof {
        proof.forgive().await;
    }
    body["token"] = secret.token.expose_secret().into();
    if new.expires_at != wanted {
        body["notice"] = SHORTENED.into();
    }
    answer.body = Some(body.to_string());
    Ok(answer)
}

/// What the body of a create refers to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Named {
    organisation: Option<OrganisationId>,
    eshop: Option<EshopId>,
    wms: Option<WmsId>,
}

impl Named {
    /// What is wrong with it, as far as it says whose it is.
    async fn unknown(
        self,
        connection: &mut PgConnection,
        scope: &Scope,
    ) -> Result<Vec<Violation>, sqlx::Error> {
        match self.organisation {
            Some(organisation) if scope.has_organisation(organisation) => {
                unknown(connection, self.organisation, self.eshop, self.wms).await
            }
            Some(_) => Ok(vec![no_such_organisation()]),
            None => Ok(Vec::new()),
        }
    }
}

/// The body of a create: the token, unless it is refused, and in any case what the body refers to, and what proves whose the login is.
pub fn body_to_create(
    now: DateTime<Utc>,
) -> impl Rule<Out = (Option<NewToken>, Named, Option<TokenId>, Proof)> {
    object(move |object| {
        let proof = Proof::members(object);
        let [is_successor, is_role_given] = ["replaces", "role"].map(|name| object.has(name));
        let mut said = ["role", "organisation", "eshop", "wms"].to_vec();
        said.retain(|name| is_successor && object.has(name));
        let name = object.required("name", text(1..=255));
        let replaces = object.optional("replaces", id()).map(TokenId::from);
        let role = object.optional("role", one_of(ROLES));
        if !is_role_given && !is_successor {
            object.refuse("role", "required", "is required, unless `replaces` is sent");
        }
        let organisation = object.nullable("organisation", id()).value().map(OrganisationId::from);
        let eshop = object.nullable("eshop", id()).value().map(EshopId::from);
        let wms = object.nullable("wms", id()).value().map(WmsId::from);
        let expires_at = match object.nullable("expiresAt", timestamp()) {
            Given::Absent => Some(in_a_year(now)),
            Given::Null => None,
            Given::Value(at) => Some(at),
        };
        if expires_at.is_some_and(|at| at <= now) {
            object.refuse("expiresAt", "out_of_range", "must be in the future");
        }
        for name in said {
            let message = "cannot be sent with `replaces`: the new token has that of the old one";
            object.refuse(name, "contradiction", message);
        }
        // that of a successor is read with its predecessor
        let role = role.or(replaces.map(|_| Role::Connector.as_str()));
        let new = || {
            Some(NewToken { name: name?, role: Role::parse(role?)?, organisation, eshop, wms, expires_at })
        };
        Some((new(), Named { organisation, eshop, wms }, replaces, proof))
    })
}

/// A token never has a wider role or scope than its creator.
fn limit(maker: &Means, new: &NewToken) -> Result<(), Problem> {
    if maker.role == Role::Superadmin {
        return Ok(());
    }
    // a caller that sees everything, even read-only, has a wider scope
    if new.role < maker.role || new.role.sees_everything() {
        let detail = format!(
            "the role {} may not create a token with the role {}",
            maker.role.as_str(),
            new.role.as_str()
        );
        return Err(Problem::new(&FORBIDDEN, detail));
    }
    match new.organisation {
        Some(organisation) if !maker.scope.has_organisation(organisation) => {
            Err(Problem::invalid(vec![no_such_organisation()]))
        }
        _ => Ok(()),
    }
}

/// Revokes a token (`DELETE /api/access-token/{id}`), and those that it made: they stop working everywhere within seconds. Their records
/// stay, with who revoked them; nothing changes of one that is revoked.
pub async fn delete(services: &Services, context: &Context, id: TokenId) -> Result<Answer, Problem> {
    let mut change = Change::begin(services).await?;
    let recorded = revoke_tokens!(
        change.connection(),
        context.origin,
        "SELECT id FROM access_token
         WHERE id = $10 AND admin_id IS NULL AND business_user_id IS NULL AND in_scope($9, organisation_id)",
        context.scope().organisations() as Option<&[OrganisationId]>,
        id.get(),
    )
    .await?;
    let is_ended = change.note(recorded) > 0;
    if is_ended {
        made::deactivate(&mut change, &context.origin).await?;
    }
    let is_known =
        is_ended || list::find(change.connection(), &ACCESS_TOKEN, context.scope(), id).await?.is_some();
    if !is_known {
        return Err(tombstone::missing(change.connection(), context.scope(), ENTITY, id).await);
    }
    change.answer(context.claim, Answer::done()).await
}

//! A webhook as it is stored: what a change of it, its lane and its deliveries need, with the secrets that the vault has sealed.

use serde_json::Value;
use sqlx::PgConnection;
use sqlx::postgres::types::PgInterval;

use super::filter::Filter;
use crate::list::fields::event::{ALL, NAMES};
use crate::list::fields::subscription::WEBHOOK;
use crate::list::{self, Record};
use longshore_kernel::access::Scope;
use longshore_kernel::authentication::Authentication;
use longshore_kernel::change::Change;
use longshore_kernel::crypto::Vault;
use longshore_kernel::ids::{EshopId, OrganisationId, TokenId, WebhookId};
use longshore_kernel::problem::{CORRUPTED_DATA, Problem};
use longshore_kernel::tombstone;

/// A webhook as it is stored, as far as a change needs it; [`WEBHOOK`] has how it is shown.
#[derive(Debug)]
pub(in crate::webhook) struct Stored {
    pub(in crate::webhook) organisation: OrganisationId,
    /// Nothing: it hears of all e-shops of the organisation.
    pub(in crate::webhook) eshop: Option<EshopId>,
    event: Option<String>,
    events: Vec<String>,
    pub(super) destination: String,
    pub(in crate::webhook) active: bool,
    sealed_authentication: Option<Vec<u8>>,
    max_in_flight: i32,
    ordered: bool,
    max_per_second: Option<f64>,
    batch_events: Option<i32>,
    batch_wait: PgInterval,
    criteria: Option<Value>,
    selected: Option<Vec<String>>,
    pub(super) version: i64,
}

/// What a webhook does.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Settings {
    pub(super) subscribed: Subscribed,
    pub(super) destination: String,
    pub(super) active: bool,
    pub(super) max_in_flight: i32,
    pub(super) ordered: bool,
    pub(super) batch: Option<Batching>,
    pub(super) max_per_second: Option<f64>,
    pub(super) filter: Filter,
}

/// What a webhook hears of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::webhook) struct Subscribed {
    /// The types.
    pub(in crate::webhook) events: Vec<String>,
    /// The same in a word: the only type, or [`ALL`] that there were; nothing: several.
    pub(in crate::webhook) event: Option<String>,
}

impl Subscribed {
    /// To a type, or to [`ALL`] that there are.
    pub(super) fn to_one(word: &str) -> Self {
        let events = if word == ALL { NAMES } else { &[word] };
        Self { events: events.iter().map(ToString::to_string).collect(), event: Some(word.to_owned()) }
    }

    /// To some types.
    pub(super) fn to_some(types: &[&str]) -> Self {
        let events: Vec<String> =
            NAMES.iter().filter(|name| types.contains(name)).map(ToString::to_string).collect();
        let event = events.first().filter(|_| events.len() == 1).cloned();
        Self { events, event }
    }
}

/// How events are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Batching {
    /// Events of a call at most.
    pub(super) max_events: i32,
    /// How long the first of them waits for more.
    pub(super) max_wait_ms: i32,
}

impl Batching {
    /// Its wait as it is stored; that of a call for each event is nothing.
    pub(super) fn wait(batching: Option<Self>) -> PgInterval {
        let milliseconds = batching.map_or(0, |batching| batching.max_wait_ms);
        PgInterval { months: 0, days: 0, microseconds: i64::from(milliseconds) * 1_000 }
    }
}

/// Its entity type, in the audit and on tombstones.
pub(in crate::webhook) const ENTITY: &str = "webhook";

/// The place of a secret in the vault.
pub(super) fn secret_place(id: WebhookId) -> String {
    format!("webhook.secret:{id}")
}

/// The place of an authentication in the vault.
pub(super) fn authentication_place(id: WebhookId) -> String {
    format!("webhook.authentication:{id}")
}

fn corrupted(what: &'static str) -> Problem {
    Problem::new(&CORRUPTED_DATA, format!("the stored {what} of the webhook cannot be read"))
}

pub(in crate::webhook) fn open_secret(
    vault: &Vault,
    id: WebhookId,
    sealed: &[u8],
) -> Result<Vec<u8>, Problem> {
    vault.open(&secret_place(id), sealed).map_err(|_| corrupted("secret"))
}

pub(in crate::webhook) fn open_authentication(
    vault: &Vault,
    id: WebhookId,
    sealed: &[u8],
) -> Result<Authentication, Problem> {
    let opened = vault.open(&authentication_place(id), sealed).map_err(|_| corrupted("authentication"))?;
    serde_json::from_slice(&opened).map_err(|_| corrupted("authentication"))
}

pub(super) fn seal_authentication(
    vault: &Vault,
    id: WebhookId,
    authentication: &Authentication,
) -> Result<Option<Vec<u8>>, Problem> {
    if *authentication == Authentication::None {
        return Ok(None);
    }
    let json = serde_json::to_vec(authentication).map_err(Problem::internal)?;
    vault.seal(&authentication_place(id), &json).map(Some).map_err(Problem::internal)
}

/// A webhook of the scope as the interface shows it, in the transaction that has just changed it.
pub(super) async fn shown(
    connection: &mut PgConnection,
    scope: &Scope,
    id: WebhookId,
) -> Result<Record, Problem> {
    list::find(connection, &WEBHOOK, scope, id).await?.ok_or_else(|| Problem::not_found(ENTITY))
}

pub(super) fn location(id: WebhookId) -> String {
    format!("/api/eshop-webhook/{id}")
}

impl Stored {
    /// What it does.
    pub(super) fn settings(&self) -> Settings {
        let max_wait_ms = i32::try_from(self.batch_wait.microseconds / 1_000).unwrap_or(i32::MAX);
        Settings {
            subscribed: Subscribed { events: self.events.clone(), event: self.event.clone() },
            destination: self.destination.clone(),
            active: self.active,
            max_in_flight: self.max_in_flight,
            ordered: self.ordered,
            batch: self.batch_events.map(|max_events| Batching { max_events, max_wait_ms }),
            max_per_second: self.max_per_second,
            filter: Filter { criteria: self.criteria.clone(), select: self.selected.clone() },
        }
    }

    /// Its authentication, opened.
    ///
    /// # Errors
    /// The vault has no key for it.
    pub(super) fn authentication(&self, vault: &Vault, id: WebhookId) -> Result<Authentication, Problem> {
        match &self.sealed_authentication {
            Some(sealed) => open_authentication(vault, id, sealed),
            None => Ok(Authentication::None),
        }
    }
}

/// Locks a webhook of the scope for a change.
pub(in crate::webhook) async fn lock(
    change: &mut Change<'_>,
    scope: &Scope,
    id: WebhookId,
) -> Result<Stored, Problem> {
    let found = sqlx::query_as!(
        Stored,
        r#"SELECT organisation_id AS "organisation: OrganisationId", eshop_id AS "eshop: EshopId", event, events, destination, active,
                  authentication AS sealed_authentication, max_in_flight, ordered, max_per_second::float8, batch_events, batch_wait, criteria, selected, version
           FROM webhook
           WHERE in_scope($1, organisation_id) AND in_eshop($2, eshop_id) AND id = $3 AND in_hands($4, made_by)
           FOR UPDATE"#,
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        id.get(),
        scope.maker() as Option<TokenId>,
    )
    .fetch_optional(change.connection())
    .await?;
    match found {
        Some(found) => Ok(found),
        None => Err(tombstone::missing(change.connection(), scope, ENTITY, id).await),
    }
}

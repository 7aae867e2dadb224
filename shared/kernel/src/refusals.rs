//! Refusals by account and address: failed and limited logins, and requests that a role may not make; and in the same way who
//! calls operations that will end.
//!
//! An attacker chooses how many refusals there are, so they are folded: a process logs the first one of an account or address
//! at once, counts the others, and adds one audit record a minute for each account or address. It keeps apart [`MOST`] of them
//! in a minute; the rest share a record.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chrono::NaiveDate;
use serde_json::{Value, json};
use sqlx::PgPool;
use uuid::Uuid;

use super::access::{Actor, Caller};
use super::crypto::sha256;
use super::problem::Problem;
use super::proxy::site;

use crate::ids::OrganisationId;

/// How often a process writes its audit records.
pub const WRITTEN_EVERY: Duration = Duration::from_mins(1);
/// Accounts and addresses that are kept apart in that time.
pub const MOST: usize = 1_000;
/// Addresses and operations that a record names.
const MOST_NAMED: usize = 10;

/// The `action` of the audit record of calls of deprecated operations.
pub const DEPRECATED: &str = "request.deprecated";

/// What was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// A login: the account, the password or the code was wrong.
    Login,
    /// A login that came too soon after others.
    LoginTooOften,
    /// A request whose role may not make it.
    Request,
}

impl Refused {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Login, Self::LoginTooOften, Self::Request];

    /// The `action` of its audit record.
    #[must_use]
    pub fn action(self) -> &'static str {
        match self {
            Self::Login => "login.failed",
            Self::LoginTooOften => "login.limited",
            Self::Request => "request.forbidden",
        }
    }
}

/// The account or address of a refusal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    /// An account or a token: its kind and id.
    Account(String, Uuid),
    /// Where no account is known.
    Address(Option<IpAddr>),
    /// Past [`MOST`].
    Others,
}

impl Subject {
    /// What the audit record is about. An address has no record: its id is made of it, so that it is the same each time.
    fn entity(&self) -> (&str, Uuid) {
        let made = |text: &str| {
            let mut bytes = [0; 16];
            bytes.copy_from_slice(&sha256(text.as_bytes())[..16]);
            uuid::Builder::from_custom_bytes(bytes).into_uuid()
        };
        match self {
            Self::Account(kind, id) => (kind, *id),
            Self::Address(Some(address)) => ("address", made(&address.to_string())),
            Self::Address(None) => ("address", Uuid::nil()),
            Self::Others => ("others", Uuid::nil()),
        }
    }
}

/// An account whose login was refused.
#[derive(Clone, Debug)]
pub struct Account {
    /// `admin` or `business_user`.
    pub kind: &'static str,
    /// Its id.
    pub id: Uuid,
    /// Its organisation, where it has one.
    pub organisation: Option<OrganisationId>,
}

/// What was counted of one subject.
#[derive(Clone, Debug, Default)]
struct Folded {
    count: u64,
    actor: Option<Actor>,
    organisation: Option<OrganisationId>,
    addresses: BTreeSet<IpAddr>,
    operations: BTreeSet<String>,
    /// Operations that are deprecated, with the day on which each ends.
    deprecated: BTreeMap<String, NaiveDate>,
    request: Option<String>,
}

impl Folded {
    fn add(&mut self, more: Self) {
        self.count += more.count;
        self.actor = self.actor.take().or(more.actor);
        self.organisation = self.organisation.or(more.organisation);
        self.request = self.request.take().or(more.request);
        fill(&mut self.addresses, more.addresses);
        fill(&mut self.operations, more.operations);
        self.deprecated.extend(more.deprecated);
    }

    fn changes(&self) -> Value {
        let mut changes = json!({"count": [null, self.count]});
        if !self.addresses.is_empty() {
            changes["addresses"] = json!([null, self.addresses]);
        }
        if !self.operations.is_empty() {
            changes["operations"] = json!([null, self.operations]);
        }
        if !self.deprecated.is_empty() {
            changes["deprecated"] = json!([null, self.deprecated]);
        }
        changes
    }
}

fn fill<T: Ord>(named: &mut BTreeSet<T>, more: BTreeSet<T>) {
    for name in more {
        if named.len() < MOST_NAMED {
            named.insert(name);
        }
    }
}

/// What a process has refused and not written yet; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Refusals(Arc<Mutex<Noted>>);

/// By the `action` of the record, and the account or address.
type Noted = BTreeMap<(&'static str, Subject), Folded>;

impl Refusals {
    /// A login that was refused: of that account, where there is one, else from that address.
    pub fn login(
        &self,
        refused: Refused,
        account: Option<&Account>,
        address: Option<IpAddr>,
        request: Option<&str>,
    ) {
        let subject = match account {
            Some(account) => Subject::Account(account.kind.to_owned(), account.id),
            None => Subject::Address(address.map(site)),
        };
        let folded = Folded {
            count: 1,
            organisation: account.and_then(|account| account.organisation),
            addresses: address.into_iter().collect(),
            request: request.map(str::to_owned),
            ..Folded::default()
        };
        if self.add((refused.action(), subject), folded) {
            let account = account.map(|account| tracing::field::display(account.id));
            let address = address.map(tracing::field::display);
            tracing::info!(
                request.id = request,
                account.id = account,
                client.address = address,
                "a login was refused: {}",
                if refused == Refused::Login { "it was wrong" } else { "there were too many" },
            );
        }
    }

    /// A request that the role of its caller may not make; `operation` is its method and the pattern of its path.
    pub fn request(&self, caller: &Caller, operation: &str, request: Option<&str>) {
        let folded = Folded { operations: BTreeSet::from([operation.to_owned()]), ..by(caller, 1, request) };
        if self.add((Refused::Request.action(), account(caller)), folded) {
            let actor = &caller.actor;
            tracing::info!(
                request.id = request,
                actor.kind,
                actor.id = actor.id.map(tracing::field::display),
                operation,
                "a request was refused: its role may not make it"
            );
        }
    }

    /// So many calls of an operation that ends on that day. They were answered; they are not counted as refusals.
    pub fn deprecated(
        &self,
        caller: &Caller,
        calls: u64,
        operation: &str,
        sunset: NaiveDate,
        request: Option<&str>,
    ) {
        let deprecated = BTreeMap::from([(operation.to_owned(), sunset)]);
        self.add((DEPRECATED, account(caller)), Folded { deprecated, ..by(caller, calls, request) });
        let actor = &caller.actor;
        tracing::info!(
            request.id = request,
            actor.kind,
            actor.id = actor.id.map(tracing::field::display),
            operation,
            %sunset,
            "an operation was called that will end"
        );
    }

    /// Whether it is the first of its subject since the last records.
    fn add(&self, (action, subject): (&'static str, Subject), more: Folded) -> bool {
        let mut folded = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = folded.len() >= MOST;
        let mut key = (action, subject);
        if is_full && !folded.contains_key(&key) {
            key.1 = Subject::Others;
        }
        let here = folded.entry(key).or_default();
        let is_first = here.count == 0;
        here.add(more);
        is_first
    }

    /// Writes an audit record for each account and address; what cannot be written is kept for the next time.
    ///
    /// # Errors
    /// Postgres does not take them.
    pub async fn write(&self, db: &PgPool) -> Result<(), Problem> {
        let folded = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        if folded.is_empty() {
            return Ok(());
        }
        let written = insert(db, &folded).await;
        if written.is_err() {
            for (key, folded) in folded {
                self.add(key, folded);
            }
        }
        Ok(written?)
    }

    /// Writes every minute, until it is dropped.
    pub async fn keep(self, db: PgPool) {
        let mut every = tokio::time::interval(WRITTEN_EVERY);
        every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            every.tick().await;
            if let Err(error) = self.write(&db).await {
                tracing::debug!(%error, "refusals were not audited; they will be audited with the next ones");
            }
        }
    }
}

/// The account of a caller, or the token that is of none.
fn account(caller: &Caller) -> Subject {
    Subject::Account(caller.actor.kind.clone(), caller.account())
}

/// So many requests of a caller, of which this is one.
fn by(caller: &Caller, count: u64, request: Option<&str>) -> Folded {
    Folded {
        count,
        actor: Some(caller.actor.clone()),
        organisation: caller.organisation(),
        request: request.map(str::to_owned),
        ..Folded::default()
    }
}

async fn insert(db: &PgPool, folded: &Noted) -> Result<(), sqlx::Error> {
    let unknown = Actor { kind: "visitor".to_owned(), id: None, name: String::new() };
    let rows = || folded.iter().map(|((action, subject), folded)| (*action, subject.entity(), folded));
    let actors: Vec<&Actor> =
        folded.values().map(|folded| folded.actor.as_ref().unwrap_or(&unknown)).collect();
    sqlx::query!(
        "INSERT INTO audit (id, actor_type, actor_id, actor_name, action, entity_type, entity_id, organisation_id, changes,
                            request_id)
         SELECT uuid_v7(), given.* FROM unnest($1::text[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::uuid[],
                                               $7::uuid[], $8::jsonb[], $9::text[]) AS given",
        &actors.iter().map(|actor| actor.kind.as_str()).collect::<Vec<_>>() as &[&str],
        &actors.iter().map(|actor| actor.id).collect::<Vec<_>>() as &[Option<Uuid>],
        &actors.iter().map(|actor| actor.name.as_str()).collect::<Vec<_>>() as &[&str],
        &rows().map(|(action, ..)| action).collect::<Vec<_>>() as &[&str],
        &rows().map(|(_, (kind, _), _)| kind).collect::<Vec<_>>() as &[&str],
        &rows().map(|(_, (_, id), _)| id).collect::<Vec<_>>(),
        &rows().map(|(.., folded)| folded.organisation).collect::<Vec<_>>() as &[Option<OrganisationId>],
        &rows().map(|(.., folded)| folded.changes()).collect::<Vec<_>>(),
        &rows().map(|(.., folded)| folded.request.as_deref()).collect::<Vec<_>>() as &[Option<&str>],
    )
    .execute(db)
    .await
    .map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_beyond_the_limit_share_a_record() {
        let refusals = Refusals::default();
        for number in 0..2 * u32::try_from(MOST).unwrap() {
            let address = IpAddr::from(number.to_be_bytes());
            refusals.login(Refused::Login, None, Some(address), None);
        }
        let folded = refusals.0.lock().unwrap();
        assert_eq!(folded.len(), MOST + 1);
        let others = &folded[&(Refused::Login.action(), Subject::Others)];
        assert_eq!((others.count, others.addresses.len()), (MOST as u64, MOST_NAMED));
    }
}

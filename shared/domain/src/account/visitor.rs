//! Who comes to an account: by which door, from where, and whose it then is.

use std::net::IpAddr;

use sqlx::PgConnection;
use uuid::Uuid;

use super::token::{ADMIN, BUSINESS_USER};
use longshore_kernel::access::Actor;
use longshore_kernel::ids::{AdminId, BusinessUserId};
use longshore_kernel::problem::{FORBIDDEN, Problem, UNAUTHENTICATED};

/// Whose accounts are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// `POST /api/login/admin`.
    Admin,
    /// `POST /api/login/user`.
    BusinessUser,
}

impl Door {
    /// The kind of actor.
    pub(super) fn actor(self) -> &'static str {
        match self {
            Self::Admin => ADMIN,
            Self::BusinessUser => BUSINESS_USER,
        }
    }

    /// The account that has logged in, where one has.
    pub(super) fn of(actor: &Actor) -> Option<(Self, Uuid)> {
        let door = [Self::Admin, Self::BusinessUser].into_iter().find(|door| door.actor() == actor.kind)?;
        Some((door, actor.id?))
    }
}

/// Where a login comes from.
#[derive(Clone, Debug)]
pub struct Visitor {
    /// Address of the client, where it is known.
    pub address: Option<IpAddr>,
    /// What the client says it is.
    pub user_agent: Option<String>,
    /// The request.
    pub request_id: Option<String>,
}

/// The account that a session is of, held until the end of the transaction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holder {
    /// Whose account.
    pub(super) door: Door,
    /// The account.
    pub(super) account: Uuid,
}

impl Holder {
    /// Holds an account that is (still) active, and has the password that was verified. A concurrent deactivation either
    /// sees the session of this transaction or comes first. Logins of one account run one after the other, so that they can
    /// be counted.
    pub(super) async fn take(
        connection: &mut PgConnection,
        door: Door,
        account: Uuid,
        password_hash: Option<&str>,
    ) -> Result<Option<Self>, sqlx::Error> {
        let held = match door {
            Door::Admin => {
                sqlx::query_scalar!(
                    "SELECT id FROM admin
                     WHERE id = $1 AND active AND ($2::text IS NULL OR password_hash = $2) FOR NO KEY UPDATE",
                    account,
                    password_hash,
                )
                .fetch_optional(connection)
                .await?
            }
            Door::BusinessUser => {
                sqlx::query_scalar!(
                    "SELECT id FROM business_user
                     WHERE id = $1 AND active AND ($2::text IS NULL OR password_hash = $2) FOR NO KEY UPDATE",
                    account,
                    password_hash,
                )
                .fetch_optional(connection)
                .await?
            }
        };
        Ok(held.map(|account| Self { door, account }))
    }

    /// Keeps another hash of the same password: no change of the account.
    pub(super) async fn rehash(self, connection: &mut PgConnection, hash: &str) -> Result<(), sqlx::Error> {
        let written = match self.door {
            Door::Admin => {
                sqlx::query!("UPDATE admin SET password_hash = $2 WHERE id = $1", self.account, hash)
                    .execute(connection)
                    .await
            }
            Door::BusinessUser => {
                sqlx::query!("UPDATE business_user SET password_hash = $2 WHERE id = $1", self.account, hash)
                    .execute(connection)
                    .await
            }
        };
        written.map(|_| ())
    }

    pub(super) fn admin(self) -> Option<AdminId> {
        (self.door == Door::Admin).then_some(self.account.into())
    }

    pub(super) fn business_user(self) -> Option<BusinessUserId> {
        (self.door == Door::BusinessUser).then_some(self.account.into())
    }
}

/// The refusal when the token, session or account ended during the request.
pub(super) fn over() -> Problem {
    Problem::new(&UNAUTHENTICATED, "the session has ended")
}

/// The refusal of access tokens in operations on accounts.
pub(super) fn no_login() -> Problem {
    Problem::new(&FORBIDDEN, "this token was not issued by a login")
}

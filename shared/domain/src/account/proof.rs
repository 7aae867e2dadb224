//! What a change asks of who has logged in, so that a stolen session makes nothing that outlives it: a login [moments
//! ago](session::FRESH), the password, or a code of the second factor (`docs/reference/accounts.md#access-tokens`).

use secrecy::SecretString;
use sqlx::PgConnection;
use uuid::Uuid;

use super::login::limit::Attempt;
use super::visitor::{Door, Holder, Visitor, no_login, over};
use super::{own, person, second_factor, session};
use longshore_kernel::context::Context;
use longshore_kernel::input::Object;
use longshore_kernel::problem::Problem;
use longshore_kernel::services::Services;

/// What a body gives of it.
#[derive(Debug, Default)]
pub struct Proof {
    password: Option<SecretString>,
    code: Option<SecretString>,
}

impl Proof {
    /// Reads it: `password` and `code`, each of which may be absent.
    pub(super) fn members(object: &mut Object<'_>) -> Self {
        object.holds_secrets();
        Self {
            password: object.nullable("password", person::credential(1..=255)).value(),
            code: object.nullable("code", second_factor::code()).value(),
        }
    }

    /// Verifies what is given, as far as it takes time; nothing is asked of a program. Wrong guesses are limited as logins are.
    pub(super) async fn verify<'s>(
        self,
        services: &'s Services,
        context: &Context,
        visitor: &Visitor,
    ) -> Result<Option<Verified<'s>>, Problem> {
        let Some((door, account)) = Door::of(&context.caller.actor) else {
            let is_given = self.password.is_some() || self.code.is_some();
            return if is_given { Err(no_login()) } else { Ok(None) };
        };
        let hash = match &self.password {
            Some(given) => own::verified(services, door, account, visitor, given).await?,
            None => None,
        };
        let code = match self.code {
            Some(code) => Some((code, second_factor::guess(services, door, account, visitor).await?)),
            None => None,
        };
        Ok(Some(Verified { door, account, hash, code }))
    }
}

/// A proof whose password was right.
#[derive(Debug)]
pub(super) struct Verified<'s> {
    door: Door,
    account: Uuid,
    /// The hash that the password was compared with.
    hash: Option<String>,
    code: Option<(SecretString, Attempt<'s>)>,
}

impl Verified<'_> {
    /// Holds the account to the end of the transaction, and uses up the code. Without either, the login was moments ago, and its session
    /// has not ended.
    pub(super) async fn hold(
        &self,
        connection: &mut PgConnection,
        services: &Services,
        context: &Context,
    ) -> Result<(), Problem> {
        let holder = Holder::take(connection, self.door, self.account, self.hash.as_deref()).await?;
        let holder = holder.ok_or_else(over)?;
        if let Some((code, _)) = &self.code {
            return second_factor::use_up(connection, services, &context.origin, holder, code).await;
        }
        let now = services.clock.now();
        if self.hash.is_some() || session::is_fresh(&mut *connection, context.caller.session, now).await? {
            return Ok(());
        }
        let minutes = session::FRESH.num_minutes();
        let message = format!(
            "is required, or a code of the second factor: the login was more than {minutes} minutes ago"
        );
        Err(Problem::violation("password", "required", message))
    }

    /// The change was made: its code was no wrong guess.
    pub(super) async fn forgive(self) {
        if let Some((_, attempt)) = self.code {
            attempt.forgive().await;
        }
    }
}

/// Whether a change asks the caller for it.
pub async fn is_needed(services: &Services, context: &Context) -> Result<bool, Problem> {
    if Door::of(&context.caller.actor).is_none() {
        return Ok(false);
    }
    second_factor::needs_password(services, context).await
}

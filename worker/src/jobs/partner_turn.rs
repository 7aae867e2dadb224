//! A turn at a partner, whatever it is for: by which setting, how long it lasts, and what breaks it off.

use std::time::Duration;

use longshore_shared::job::execution::Fate;
use longshore_shared::partner::setting::{self, Setting};
use longshore_shared::platform::problem::Problem;
use longshore_shared::platform::retry::{Failure, RetryPolicy};
use longshore_shared::platform::services::Services;
use uuid::Uuid;

use crate::partner::PartnerError;

/// How long one turn may take, before others are let in.
pub const TURN: Duration = Duration::from_mins(5);
/// How often a turn tries again what failed for a moment.
pub const TRIES: RetryPolicy =
    RetryPolicy { attempts: 3, initial: Duration::from_millis(300), max: Duration::from_secs(3) };

/// The setting by which a partner is called.
pub(crate) async fn usable_setting(services: &Services, eshop: Uuid) -> Result<Setting, Fate> {
    let discard = |sentence: &str| Fate::Discard(sentence.to_owned());
    let setting = match setting::of_eshop(services, eshop).await {
        Ok(setting) => setting,
        Err(problem) if problem.kind().status == 422 => return Err(Fate::Discard(problem.to_string())),
        Err(problem) => return Err(problem.into()),
    };
    let setting = setting.ok_or_else(|| discard("the e-shop has no integration setting any more"))?;
    if !setting.wanted.active {
        return Err(discard("the integration setting of the e-shop is switched off"));
    }
    Ok(setting)
}

/// Why a turn broke off.
#[derive(Debug)]
pub enum Broken {
    /// At the partner.
    Partner(PartnerError),
    /// On this side.
    Here(Fate),
}

impl Broken {
    /// Whether it may pass within the turn.
    pub fn sorted(self) -> Failure<Self> {
        if let Self::Partner(error @ PartnerError::Transient { wait: None, .. }) = &self {
            tracing::debug!(%error, "a partner failed for a moment");
            return Failure::Transient(self);
        }
        Failure::Permanent(self)
    }
}

impl From<PartnerError> for Broken {
    fn from(error: PartnerError) -> Self {
        Self::Partner(error)
    }
}

impl From<Problem> for Broken {
    fn from(problem: Problem) -> Self {
        Self::Here(problem.into())
    }
}

impl From<Fate> for Broken {
    fn from(fate: Fate) -> Self {
        Self::Here(fate)
    }
}

impl From<Broken> for Fate {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Partner(error) => error.into_fate(),
            Broken::Here(fate) => fate,
        }
    }
}

//! A turn at a partner, for a fetch or a send-out: its place, its setting, its time limit, and its failures.

use std::time::Duration;

use longshore_domain::job::chunk::Claim;
use longshore_domain::job::dispatch;
use longshore_domain::job::kind::Shop;
use longshore_domain::job::name::parse_chunk_name;
use longshore_domain::job::outcome::Fate;
use longshore_domain::partner::setting::{self, Setting};
use longshore_kernel::ids::EshopId;
use longshore_kernel::problem::{CORRUPTED_DATA, Problem};
use longshore_kernel::retry::{Failure, RetryPolicy};
use longshore_kernel::services::Services;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::chunk;
use crate::context::WorkerContext;
use crate::partner::PartnerError;

/// How long one turn may take while no other waits for a place, …
const ALONE: Duration = Duration::from_mins(5);
/// … and while others wait.
const BESIDE_OTHERS: Duration = Duration::from_secs(30);
/// A turn that is asked to end waits for its current page until it has lasted this long, then abandons the
/// page.
const LEAST: Duration = Duration::from_secs(5);
/// How often a turn retries a brief failure.
pub const TRIES: RetryPolicy =
    RetryPolicy { attempts: 3, initial: Duration::from_millis(300), max: Duration::from_secs(3) };

/// Runs the named chunk once there is a place for its organisation. A chunk that gets no place stays due.
pub async fn run(context: WorkerContext, name: String) {
    let Some((job, _)) = parse_chunk_name(&name) else { return chunk::run(context, name).await };
    let organisation = match dispatch::organisation_of(&context.services.db.main, job).await {
        Ok(Some(organisation)) => organisation,
        Ok(None) => return,
        Err(error) => {
            tracing::debug!(%error, job.id = %job, "a call of a partner was not queued; the dispatcher will queue it");
            return;
        }
    };
    let entered = tokio::select! {
        entered = context.partner_places.enter(job.get(), organisation) => entered,
        () = context.stop.cancelled() => None,
    };
    if let Some(_place) = entered {
        chunk::run(context, name).await;
    }
}

/// The time limit of a turn.
#[derive(Debug)]
pub(crate) struct TurnLimit<'c> {
    context: &'c WorkerContext,
    began: Instant,
    asked: CancellationToken,
}

impl<'c> TurnLimit<'c> {
    /// Starts the time limit of a turn.
    pub(crate) fn begin(context: &'c WorkerContext, claim: &Claim) -> Self {
        Self { context, began: Instant::now(), asked: context.partner_places.end_of(claim.job.get()) }
    }

    /// Whether the turn must end at the next point from which it can continue.
    pub(crate) fn is_over(&self) -> bool {
        let most = if self.context.partner_places.in_use().waiting == 0 { ALONE } else { BESIDE_OTHERS };
        self.context.stop.is_cancelled() || self.asked.is_cancelled() || self.began.elapsed() >= most
    }

    /// Completes when the turn must end in the middle of a page.
    pub(crate) async fn broken_off(&self) {
        let asked = async {
            self.asked.cancelled().await;
            tokio::time::sleep_until(self.began + LEAST).await;
        };
        tokio::select! {
            () = asked => {}
            () = self.context.stop.cancelled() => {}
        }
    }
}

/// The setting for calling the partner of an e-shop. Where it was switched off or deleted while the job was being accepted, the job
/// is cancelled, as those that were waiting then.
pub(crate) async fn usable_setting(services: &Services, claim: &Claim, shop: Shop) -> Result<Setting, Fate> {
    if let Some(setting) = stored_setting(services, shop.eshop).await?.filter(|setting| setting.wanted.active)
    {
        return Ok(setting);
    }
    setting::store::cancel_stray(services, &claim.origin, shop).await?;
    // the claim is lost, unless the setting was switched on again
    Err(Fate::Snooze(Duration::ZERO))
}

/// The setting of an e-shop, active or not.
pub(crate) async fn stored_setting(services: &Services, eshop: EshopId) -> Result<Option<Setting>, Fate> {
    match setting::of_eshop(services, eshop).await {
        Ok(setting) => Ok(setting),
        Err(problem) if *problem.kind() == CORRUPTED_DATA => Err(Fate::Discard(problem.to_string())),
        Err(problem) => Err(problem.into()),
    }
}

/// Why a turn was interrupted.
#[derive(Debug)]
pub enum Broken {
    /// A failure of the partner.
    Partner(PartnerError),
    /// A failure on this side.
    Here(Fate),
}

impl Broken {
    /// Whether a retry within the turn may succeed.
    pub fn sorted(self) -> Failure<Self> {
        if let Self::Partner(error @ PartnerError::Transient { wait: None, .. }) = &self {
            tracing::debug!(%error, "a partner failed temporarily");
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

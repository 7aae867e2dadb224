//! `integration.test` and `wms.test`: one call that changes nothing, and what it came to
//! (`docs/reference/jobs.md#connection-tests`).

use std::time::Duration;

use longshore_domain::expedition::handover::setting::trial;
use longshore_domain::expedition::handover::wake;
use longshore_domain::job::chunk::Claim;
use longshore_domain::job::connection::{self, Finding};
use longshore_domain::job::kind::{Shop, TestIntegration, TestWms};
use longshore_domain::job::outcome::Fate;
use longshore_kernel::change::Change;
use longshore_kernel::hold::Hold;
use longshore_kernel::ids::{OrganisationId, WmsId};
use longshore_kernel::problem::CORRUPTED_DATA;
use tokio::time::Instant;

use super::Body;
use super::partner_turn::stored_setting;
use crate::context::WorkerContext;
use crate::handover;
use crate::partner::{self, PartnerError};

/// How long a test may take: twice what a partner may take to begin an answer.
const LIMIT: Duration = Duration::from_mins(1);

impl Body for TestIntegration {
    async fn call(&self, context: &WorkerContext, claim: &Claim, shop: Shop) -> Result<Hold, Fate> {
        let setting = stored_setting(&context.services, shop.eshop).await?;
        let deleted = || Fate::Discard("the integration setting of the e-shop was deleted".to_owned());
        let setting = setting.ok_or_else(deleted)?;
        let began = Instant::now();
        let found = tokio::select! {
            found = tokio::time::timeout(LIMIT, partner::test(&context.partners, &setting)) => found,
            () = context.stop.cancelled() => return Err(Fate::Snooze(Duration::ZERO)),
        };
        let found = match found {
            Ok(Ok(said)) => Ok(said),
            // a limit of our own says nothing of the partner
            Ok(Err(PartnerError::Busy(wait))) => return Err(Fate::Snooze(wait)),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("the partner did not send its first rows within {} s", LIMIT.as_secs())),
        };
        end(context, claim, found, began, None).await
    }
}

impl Body for TestWms {
    async fn call(&self, context: &WorkerContext, claim: &Claim, _: OrganisationId) -> Result<Hold, Fate> {
        let contact = match trial::contact(&context.services, self.wms).await {
            Ok(Some(contact)) => contact,
            Ok(None) => return Err(Fate::Discard("the setting of the wms was deleted".to_owned())),
            Err(problem) if *problem.kind() == CORRUPTED_DATA => {
                return Err(Fate::Discard(problem.to_string()));
            }
            Err(problem) => return Err(problem.into()),
        };
        let began = Instant::now();
        let found = tokio::select! {
            found = handover::test(&context.handover, &contact) => found,
            () = context.stop.cancelled() => return Err(Fate::Snooze(Duration::ZERO)),
        };
        end(context, claim, found, began, Some(self.wms)).await
    }
}

/// Ends a test. A system that works again is called at once.
async fn end(
    context: &WorkerContext,
    claim: &Claim,
    found: Result<String, String>,
    began: Instant,
    wms: Option<WmsId>,
) -> Result<Hold, Fate> {
    let took = began.elapsed();
    let works = found.is_ok();
    let message = found.unwrap_or_else(|why| why);
    let mut change = Change::begin(&context.services).await?;
    if connection::complete(&mut change, claim, &Finding { works, message, took }).await?.is_lost() {
        return Ok(Hold::Lost);
    }
    if let Some(wms) = wms.filter(|_| works) {
        wake::ask(change.connection(), wms).await?;
    }
    change.commit().await?;
    Ok(Hold::Kept)
}

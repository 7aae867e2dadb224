//! The chunk of a sync that calls the partner: it records pages as chunks of rows while they arrive
//! (`docs/reference/syncs.md#syncs`).
//!
//! A turn ends after a while, or when it is asked to, and goes to the end of its queue, so that organisations
//! take turns ([`TurnLimit`]). The next turn continues at the page where this one ended, and so does the
//! successor of a dead worker. A brief failure is retried here a few times, then by the chunk with growing
//! waits; each recorded page resets the count of failures.

use std::time::Duration;

use futures::StreamExt as _;
use longshore_domain::job::chunk::{Claim, Count};
use longshore_domain::job::execution;
use longshore_domain::job::fetching;
use longshore_domain::job::kind::Shop;
use longshore_domain::job::outcome::Fate;
use longshore_domain::partner::push::Push;
use longshore_kernel::change::Change;
use longshore_kernel::hold::Hold;
use longshore_kernel::retry::retry;
use longshore_kernel::services::Services;

use super::partner_turn::{Broken, TRIES, TurnLimit, usable_setting};
use crate::context::WorkerContext;
use crate::partner::{self, Pages, Partner, PartnerError, Start};

/// How long a page may take to arrive.
const PAGE_LIMIT: Duration = Duration::from_mins(2);
/// After this many pages in a row without a new row, the partner repeats itself endlessly.
const REPEATS: u32 = 10;

/// The result of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// The fetch is complete.
    Whole,
    /// There is more to fetch, after the turns of others.
    More,
    /// The claim was lost.
    Lost,
}

/// Executes the chunk.
pub(super) async fn execute(
    context: &WorkerContext,
    claim: &Claim,
    shop: Shop,
    push: Push,
) -> Result<Hold, Fate> {
    let source = claim.source()?;
    let setting = usable_setting(&context.services, claim, shop).await?;
    let partner = partner::open(&context.partners, &setting).map_err(PartnerError::into_fate)?;
    let limit = TurnLimit::begin(context, claim);
    let turn = retry(TRIES, || async {
        turn(context, claim, partner.as_ref(), (push, source), &limit).await.map_err(Broken::sorted)
    })
    .await?;
    match turn {
        Turn::Whole => finish(&context.services, claim).await,
        Turn::More => Err(Fate::Snooze(Duration::ZERO)),
        Turn::Lost => Ok(Hold::Lost),
    }
}

/// Reads pages from the current position until there are no more or the turn is over.
async fn turn(
    context: &WorkerContext,
    claim: &Claim,
    partner: &dyn Partner,
    (push, source): (Push, &str),
    limit: &TurnLimit<'_>,
) -> Result<Turn, Broken> {
    let services = &context.services;
    let progress = fetching::progress(services, claim).await?;
    let start = Start { cursor: progress.cursor.as_deref(), memo: progress.memo.as_deref() };
    let mut pages = pages(partner, push, source, start)?;
    let mut repeats = 0;
    loop {
        let page = tokio::select! {
            page = tokio::time::timeout(PAGE_LIMIT, pages.next()) => page,
            () = limit.broken_off() => return Ok(Turn::More),
        };
        let page = match page {
            Ok(Some(page)) => page?,
            Ok(None) => return Ok(Turn::Whole),
            Err(_) => return Err(PartnerError::transient(partner.is_late(PAGE_LIMIT)).into()),
        };
        let Some(recorded) = fetching::record(services, claim, &page).await? else {
            return Ok(Turn::Lost);
        };
        repeats = if !page.rows.is_empty() && recorded.new == 0 { repeats + 1 } else { 0 };
        if repeats >= REPEATS {
            let sentence =
                format!("the partner repeats itself: its last {REPEATS} pages contained nothing new");
            return Err(PartnerError::Permanent(sentence).into());
        }
        if limit.is_over() {
            return Ok(Turn::More);
        }
    }
}

fn pages<'p>(
    partner: &'p dyn Partner,
    push: Push,
    source: &'p str,
    start: Start<'p>,
) -> Result<Pages<'p>, PartnerError> {
    let abilities = partner.abilities();
    match push {
        Push::Products if abilities.products => return Ok(partner.products(source, start)),
        Push::Stocks if abilities.stocks => return Ok(partner.stocks(source, start)),
        _ => {}
    }
    let kind = push.kind();
    Err(PartnerError::Permanent(format!("this partner cannot be asked for what {kind} needs")))
}

/// Ends the chunk of a complete fetch; the job ends with its last row.
async fn finish(services: &Services, claim: &Claim) -> Result<Hold, Fate> {
    let mut change = Change::begin(services).await?;
    if execution::complete(&mut change, claim, Count::default(), &[]).await?.is_lost() {
        return Ok(Hold::Lost);
    }
    fetching::forget_keys(change.connection(), &[claim.job]).await?;
    change.commit().await?;
    Ok(Hold::Kept)
}

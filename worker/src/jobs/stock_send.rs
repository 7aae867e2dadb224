//! `stock.send`: sends available quantities to a partner (`docs/reference/syncs.md#send-out`;
//! `longshore_domain::partner::send_out` defines the terms).
//!
//! Listed items are recorded page by page. A call is recorded before it is made, and its answer after it, so the
//! successor of a dead worker continues reading, and sends the rest and what has no answer. Repeating a call has no
//! further effect.

use std::time::Duration;

use futures::StreamExt as _;
use longshore_domain::job::chunk::{Claim, Count};
use longshore_domain::job::execution;
use longshore_domain::job::kind::{SendStocks, Shop, Unusable};
use longshore_domain::job::outcome::Fate;
use longshore_domain::partner::send_out::items::{self, Comparison};
use longshore_domain::partner::send_out::{self, After, Extent, StockToSend, changes, listing, withdrawn};
use longshore_domain::partner::setting::Setting;
use longshore_kernel::change::Change;
use longshore_kernel::hold::Hold;
use longshore_kernel::ids::EshopId;
use longshore_kernel::retry::retry;

use super::Body;
use super::partner_turn::{Broken, TRIES, TurnLimit, usable_setting};
use crate::context::WorkerContext;
use crate::partner::{self, Partner, PartnerError, Place, StockCount};

/// Items that one look-up returns: enough for several calls, since each look-up scans all items that match.
const AHEAD: usize = 10_000;

impl Body for SendStocks {
    async fn call(&self, context: &WorkerContext, claim: &Claim, shop: Shop) -> Result<Hold, Fate> {
        let source = claim.source()?;
        let extent = Extent::parse(source);
        let extent =
            extent.ok_or_else(|| Unusable::parameters(claim, format!("nothing is named {source:?}")))?;
        send(context, claim, shop, extent).await
    }
}

/// Executes the chunk.
async fn send(context: &WorkerContext, claim: &Claim, shop: Shop, extent: Extent) -> Result<Hold, Fate> {
    let setting = usable_setting(&context.services, claim, shop).await?;
    let partner = partner::open(&context.partners, &setting).map_err(PartnerError::into_fate)?;
    if partner.abilities().stocks_per_call == 0 {
        return Err(Fate::Discard("the partner of this e-shop does not accept stocks".to_owned()));
    }
    let limit = TurnLimit::begin(context, claim);
    let sending = Sending { context, claim, eshop: shop.eshop, partner: partner.as_ref(), extent, limit };
    if sending.look(&setting).await?.is_lost() || sending.send().await?.is_lost() {
        return Ok(Hold::Lost);
    }
    let mut change = Change::begin(&context.services).await?;
    if execution::complete(&mut change, claim, Count::default(), &[]).await?.is_lost() {
        return Ok(Hold::Lost);
    }
    change.commit().await?;
    Ok(Hold::Kept)
}

/// Positions of the counts that the partner refused, each with its reason.
type Refused = Vec<(usize, String)>;

/// A running send-out.
struct Sending<'c> {
    context: &'c WorkerContext,
    claim: &'c Claim,
    eshop: EshopId,
    partner: &'c dyn Partner,
    extent: Extent,
    limit: TurnLimit<'c>,
}

impl Sending<'_> {
    /// Finds out which items exist and, for a comparison, which quantities the partner has.
    async fn look(&self, setting: &Setting) -> Result<Hold, Fate> {
        let services = &self.context.services;
        let compares = self.extent == Extent::Comparison;
        if !self.partner.abilities().lists_items {
            match self.extent {
                Extent::Changes => items::note_due(services, self.eshop).await?,
                _ => items::note_products(services, self.eshop).await?,
            }
            if compares {
                items::forget_taken(services, self.claim, self.eshop).await?;
            }
            return Ok(Hold::Kept);
        }
        let inventories = &setting.wanted.inventories;
        if inventories.is_empty() {
            let sentence = "the integration setting has no inventory: add the one to send stocks to";
            return Err(Fate::Discard(sentence.to_owned()));
        }
        for inventory in inventories {
            let listed = retry(TRIES, || async {
                self.list(&inventory.inventory_id, compares).await.map_err(Broken::sorted)
            });
            if listed.await?.is_lost() {
                return Ok(Hold::Lost);
            }
        }
        if compares {
            items::forget_taken(services, self.claim, self.eshop).await?;
        }
        Ok(Hold::Kept)
    }

    /// Reads the partner's list of an inventory to its end, unless that was done before.
    async fn list(&self, inventory: &str, anew: bool) -> Result<Hold, Broken> {
        let services = &self.context.services;
        let listing = listing::open(services, self.claim, self.eshop, inventory, anew).await?;
        let Some(listing) = listing else { return Ok(Hold::Kept) };
        let mut pages = self.partner.items(inventory, listing.cursor.as_deref());
        loop {
            // a partner without a list has one empty page
            let page = pages.next().await.transpose()?.unwrap_or_default();
            match items::found(services, self.claim, self.eshop, &listing, &page).await? {
                Comparison::Drifted(0) => {}
                Comparison::Drifted(drifted) => {
                    tracing::info!(stock.drifted = drifted, "the stocks of a partner were changed elsewhere");
                }
                Comparison::Lost => return Ok(Hold::Lost),
                // the next turn opens the partner of the current setting
                Comparison::Moved => return Err(Fate::Snooze(Duration::ZERO).into()),
            }
            if page.next.is_none() {
                return Ok(Hold::Kept);
            }
            self.goes_on()?;
        }
    }

    /// Ends the turn if its time is over; called wherever a later turn can find the remaining work.
    fn goes_on(&self) -> Result<(), Fate> {
        if self.limit.is_over() {
            return Err(Fate::Snooze(Duration::ZERO));
        }
        Ok(())
    }

    /// Sends until no quantity differs.
    async fn send(&self) -> Result<Hold, Fate> {
        let services = &self.context.services;
        loop {
            let due = match self.extent {
                Extent::Changes => match changes::due(services, self.eshop).await? {
                    Some(due) => due,
                    None => return Ok(Hold::Kept),
                },
                _ => i64::MAX,
            };
            if self.sweep(due).await?.is_lost()
                || withdrawn::release(services, self.claim, self.eshop).await?.is_lost()
            {
                return Ok(Hold::Lost);
            }
            if self.extent != Extent::Changes {
                return Ok(Hold::Kept);
            }
            changes::confirm(services, self.eshop, due).await?;
        }
    }

    /// Compares every item once, and sends those that differ.
    async fn sweep(&self, due: i64) -> Result<Hold, Fate> {
        let services = &self.context.services;
        let most = self.partner.abilities().stocks_per_call;
        let mut after = After::default();
        loop {
            let wanted = send_out::next(services, self.eshop, &self.extent, due, &after, AHEAD).await?;
            let Some(last) = wanted.last() else { return Ok(Hold::Kept) };
            after = After::item(last);
            // one call concerns one place
            let places = wanted.chunk_by(|a, b| a.warehouse == b.warehouse && a.inventory == b.inventory);
            for part in places.flat_map(|place| place.chunks(most)) {
                let Some(refused) = self.call(part).await? else { return Ok(Hold::Lost) };
                if send_out::record(services, self.claim, self.eshop, part, &refused).await?.is_lost() {
                    return Ok(Hold::Lost);
                }
                // items that were not sent still differ
                self.goes_on()?;
            }
        }
    }

    /// Sends the counts of one place to the partner; returns those that it refused, or nothing if the claim was lost.
    async fn call(&self, wanted: &[StockToSend]) -> Result<Option<Refused>, Fate> {
        let Some(StockToSend { inventory, warehouse, .. }) = wanted.first() else {
            return Ok(Some(Refused::new()));
        };
        let place = Place {
            inventory: Some(inventory.clone()).filter(|inventory| !inventory.is_empty()),
            warehouse: warehouse.clone(),
        };
        let count = |wanted: &StockToSend| StockCount {
            item: Some(wanted.item.clone()),
            product_sku: wanted.product_sku.clone(),
            quantity: wanted.pieces,
        };
        let counts: Vec<StockCount> = wanted.iter().map(count).collect();
        let sent =
            retry(TRIES, || async { self.call_once(wanted, &place, &counts).await.map_err(Broken::sorted) });
        Ok(sent.await?)
    }

    /// Calls the partner, after recording that it is called.
    async fn call_once(
        &self,
        wanted: &[StockToSend],
        place: &Place,
        counts: &[StockCount],
    ) -> Result<Option<Refused>, Broken> {
        // each time, because the claim may be lost between two tries
        if send_out::announce(&self.context.services, self.claim, self.eshop, wanted).await?.is_lost() {
            return Ok(None);
        }
        Ok(Some(self.partner.send_stocks(place, counts).await?.refused))
    }
}

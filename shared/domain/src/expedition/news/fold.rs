//! What reports make of an order, one after the other, in memory (`docs/reference/orders.md#news`). It is pure.
//!
//! The order of reports does not matter, but for answers to a cancel and for reports that contradict each other: a status goes
//! only forward along the line, a moment is the earliest that said it, parcels are merged.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::row::{Cancel, Of, Row, Sent};
use super::subject::{Fixed, Known, Left};
use crate::expedition::handover::{self, KEPT, given_back, is_asked_for, kept};
use crate::expedition::order::{Doubt, Item, Order, State};
use crate::list::fields::expedition::{ExpeditionStatus as Status, HandoverState};
use longshore_kernel::ids::{ExpeditionItemId, ProductId, StockId};
use longshore_kernel::problem::Violation;

/// Parcels that reports may come to for one order.
const MAX_PARCELS: usize = 1_000;

/// A report that was not taken, or not as it is: an item error.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) violation: Violation,
    /// It took effect nevertheless, and so its id did.
    pub(super) is_taken: bool,
}

impl Refused {
    fn new(path: impl Into<String>, code: &'static str, message: impl Into<String>) -> Self {
        Self { violation: Violation::new(path, code, message), is_taken: false }
    }
}

/// What left of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Gone {
    pub(super) item: ExpeditionItemId,
    pub(super) product: ProductId,
    pub(super) stock: StockId,
    /// Each lot once.
    pub(super) left: Left,
}

/// What was reported of an order although it did not have that number.
#[derive(Clone, Debug)]
pub(super) struct Stray {
    pub(super) number: i32,
    pub(super) news: String,
    /// The pieces that left; absent: it was not said to be packed.
    pub(super) gone: Option<Vec<Gone>>,
    /// The order was not handed over by that number, as far as is known since a set-back.
    pub(super) is_lost: bool,
}

/// An order that is being reported of.
#[derive(Debug)]
pub(super) struct Fold<'o> {
    pub(super) order: &'o Order,
    pub(super) had: Known,
    fixed: Fixed,
    pub(super) state: State,
    pub(super) known: Known,
    /// Present where it is packed now.
    pub(super) left: Option<Vec<Gone>>,
    /// Items whose lots or serial numbers came after the order was packed: they are known only now.
    pub(super) detailed: Vec<Gone>,
    pub(super) strays: Vec<Stray>,
    /// What became of a cancel that was asked for.
    pub(super) cancel: Option<&'static str>,
    /// What the audit keeps of the reports that were taken.
    pub(super) kept: Vec<Value>,
}

/// Whether the warehouse has the number that a report is about.
enum Standing {
    Has,
    /// It has given that number back, or refused it.
    Old(i32),
    NotYet,
    /// It has the order by a number of which nothing is known since Postgres was set back, or although the order is not such that a
    /// warehouse has it.
    Lost(i32),
}

impl<'o> Fold<'o> {
    pub(super) fn new(order: &'o Order, (known, fixed): (Known, Fixed)) -> Self {
        Self {
            order,
            had: known.clone(),
            fixed,
            state: order.state.clone(),
            known,
            left: None,
            detailed: Vec::new(),
            strays: Vec::new(),
            cancel: None,
            kept: Vec::new(),
        }
    }

    /// Whether its record shows something else since.
    pub(super) fn is_change(&self) -> bool {
        let state = |state: &State| State { canceling_from: None, ..handover::without(state) };
        let known = |known: &Known| Known { internal_id: None, handover_error: None, ..known.clone() };
        state(&self.state) != state(&self.order.state)
            || known(&self.known) != known(&self.had)
            || !self.detailed.is_empty()
    }

    /// Its items, and those that it had before and that may be packed yet.
    pub(super) fn items(&self) -> impl Iterator<Item = &Item> {
        self.order.items.iter().chain(self.fixed.former.values().flatten())
    }

    /// Whether it gives its pieces back.
    pub(super) fn gives_back(&self) -> bool {
        self.order.state.status.is_booked() && !self.state.status.is_booked() && self.left.is_none()
    }

    /// How many pieces of an item left; none: it is not packed now.
    pub(super) fn left(&self) -> Option<impl Fn(ExpeditionItemId) -> i32> {
        let left = self.left.as_ref()?;
        Some(|item| left.iter().find(|gone| gone.item == item).map_or(0, |gone| gone.left.pieces))
    }

    /// What left of an item, as its record says.
    pub(super) fn left_before(&self, item: ExpeditionItemId) -> Option<&Left> {
        self.fixed.left.get(&item)
    }

    /// How many pieces of an item left when it was packed.
    pub(super) fn packed_before(&self) -> impl Fn(ExpeditionItemId) -> i32 {
        |item| self.left_before(item).map_or(0, |left| left.pieces)
    }

    /// Whether everything that was ordered has left; none: it is not packed now.
    pub(super) fn is_complete(&self) -> Option<bool> {
        self.left().map(|left| self.order.is_complete(left))
    }

    /// Takes a report that came at that moment.
    pub(super) fn take(&mut self, row: &Row, now: DateTime<Utc>) -> Result<(), Refused> {
        if self.state.status == Status::Canceled {
            return self.take_of_canceled(row);
        }
        match self.standing(row) {
            Standing::NotYet => return Err(not_handed_over(row.number)),
            Standing::Old(number) => return Err(self.take_of_old(row, number)),
            Standing::Lost(number) => {
                self.accept(row);
                return Err(self.take_of_lost(row, number));
            }
            Standing::Has => {}
        }
        let (mut leaves, mut details) = (None, Vec::new());
        match (row.is_packed(), self.state.status.is_packed()) {
            (false, _) => {}
            (true, false) => leaves = Some(leaving(&self.order.items, row.items.as_deref())?),
            (true, true) => details = self.details(row)?,
        }
        self.must_be_possible(row)?;
        self.accept(row);
        if let Some(cancel) = row.cancel {
            self.answer(cancel);
        }
        if let Some(status) = row.status {
            self.reach(status, row, now);
        }
        if leaves.is_some() {
            self.left = leaves;
        }
        self.add_details(details);
        self.merge_parcels(row);
        if self.state.handover.is_some() && row.internal_id.is_some() {
            self.known.internal_id.clone_from(&row.internal_id);
        }
        self.kept.push(row.kept());
        Ok(())
    }

    /// One that is cancelled does not come back: what was packed has left the stock nevertheless.
    fn take_of_canceled(&mut self, row: &Row) -> Result<(), Refused> {
        let standing = self.standing(row);
        let is_given_back = row.cancel == Some(Cancel::Accepted);
        if let Standing::Lost(number) = standing {
            if !is_given_back {
                return Err(self.take_of_lost(row, number));
            }
        } else if row.number.is_some_and(|number| number > self.fixed.number.unwrap_or(0)) {
            return Err(not_handed_over(row.number));
        }
        if row.is_packed() {
            let number = row.number.or(self.fixed.number).unwrap_or(0);
            return Err(self.stray(row, number, "the order is canceled"));
        }
        if is_given_back {
            self.kept.push(row.kept());
            return Ok(());
        }
        let has_left = self.fixed.strays.contains(&row.number.or(self.fixed.number).unwrap_or(0));
        if has_left && row.cancel.is_none() && !row.parcels.is_empty() {
            self.must_have_room(row)?;
            self.merge_parcels(row);
            self.kept.push(row.kept());
            return Ok(());
        }
        Err(match standing {
            Standing::Old(number) => old_number(number),
            _ => Refused::new("expedition", "not_handed_over", "is canceled, and not handed over"),
        })
    }

    fn take_of_old(&mut self, row: &Row, number: i32) -> Refused {
        if row.is_packed() { self.stray(row, number, "the order was given back") } else { old_number(number) }
    }

    fn standing(&self, row: &Row) -> Standing {
        let number = row.number;
        let State { status, handover, .. } = self.state;
        let is_by_hand = match status {
            Status::AwaitingProcessing => !self.fixed.is_called,
            _ => status.is_handed_over(None),
        };
        let is_there = handover.is_some_and(HandoverState::is_handed_over);
        let latest = self.fixed.number.unwrap_or(0);
        // the last number that a call was made for
        let made = if handover == Some(HandoverState::Pending) { latest - 1 } else { latest };
        if self.state.doubt != Doubt::None && number.is_none_or(|number| number <= latest) {
            let number = number.unwrap_or(latest);
            return if self.may_take(row) && !self.fixed.strays.contains(&number) {
                Standing::Has
            } else {
                Standing::Lost(number)
            };
        }
        match number {
            Some(number) if number > made && self.fixed.is_set_back => Standing::Lost(number),
            Some(number) if number > made => Standing::NotYet,
            Some(number) if number == latest && is_there => Standing::Has,
            None if is_there => Standing::Has,
            None | Some(0) if is_by_hand && !is_there => Standing::Has,
            None | Some(0) if made == 0 => Standing::NotYet,
            number => Standing::Old(number.unwrap_or(made)),
        }
    }

    /// Whether an order in doubt is where a report can take effect: on the line, or it is the answer to a question.
    fn may_take(&self, row: &Row) -> bool {
        let status = self.state.status;
        let is_answer = row.cancel.is_some() && row.status.is_none() && is_asked_for(&self.state);
        status.place().is_some() || status == Status::WaitingForCancel || is_answer
    }

    /// What a warehouse that has an order says of it is its acceptance, too. One in doubt it may have been given with other contents.
    fn accept(&mut self, row: &Row) {
        if row.number > self.fixed.number {
            return;
        }
        if self.state.handover == Some(HandoverState::Sending) {
            self.state.handover = Some(HandoverState::Accepted);
        }
        let has_it = row.cancel != Some(Cancel::Accepted) && row.status != Some(Status::Incorrect);
        if self.state.doubt == Doubt::None || !has_it {
            return;
        }
        // what is asked back stays so until it is answered
        if self.state.handover != Some(HandoverState::Withdrawing) {
            self.state.handover = Some(HandoverState::Accepted);
        }
        if row.number.is_none() || row.number != self.fixed.known_number {
            self.state.doubt = Doubt::Contents;
        }
    }

    /// Nothing is dropped of what a warehouse reports by a number that is lost: what it packed leaves the stock, once for each number,
    /// and its parcels are kept.
    fn take_of_lost(&mut self, row: &Row, number: i32) -> Refused {
        let lost = |gone| Stray { number, news: row.id.clone(), gone, is_lost: true };
        if row.is_packed() && self.fixed.strays.insert(number) {
            // it may have had other items
            let (gone, _) = as_far_as_ordered(&self.order.items, row.items.as_deref());
            self.strays.push(lost(Some(gone)));
        } else if !self.fixed.strays.contains(&number) && self.fixed.noted.insert(number) {
            self.strays.push(lost(None));
        }
        if self.must_have_room(row).is_ok() {
            self.merge_parcels(row);
        }
        self.kept.push(row.kept());
        let left = if row.is_packed() { ". It was packed, so its pieces left the stock" } else { "" };
        let message =
            format!("does not change: the order is not known to be handed over by number {number}{left}");
        Refused { is_taken: true, ..Refused::new("status", "contradiction", message) }
    }

    /// The pieces of an order that does not have them any more leave once for each number.
    fn stray(&mut self, row: &Row, number: i32, why: &str) -> Refused {
        let message = format!("does not change: {why}. It was packed, so its pieces left the stock");
        let refused = Refused { is_taken: true, ..Refused::new("status", "contradiction", message) };
        if !self.fixed.strays.contains(&number) {
            match leaving(self.items_of(number), row.items.as_deref()) {
                Ok(gone) => {
                    let news = row.id.clone();
                    self.strays.push(Stray { number, news, gone: Some(gone), is_lost: false });
                }
                Err(refused) => return refused,
            }
            self.fixed.strays.insert(number);
        }
        // what is under way can be tracked; an order that is handed over again has parcels of its own
        if self.state.status == Status::Canceled && self.must_have_room(row).is_ok() {
            self.merge_parcels(row);
        }
        self.kept.push(row.kept());
        refused
    }

    /// Refuses what the warehouse cannot say of an order that it has.
    fn must_be_possible(&self, row: &Row) -> Result<(), Refused> {
        let status = self.state.status;
        if row.status == Some(Status::Incorrect) && status.is_packed() {
            let message =
                format!("must not be incorrect: the order is {status}, and its pieces have left the stock");
            return Err(Refused::new("status", "contradiction", message));
        }
        if row.cancel == Some(Cancel::Accepted) && !is_asked_for(&self.state) {
            let message = format!("must not be accepted: the order is {status}, and no cancel was asked for");
            return Err(Refused::new("cancel", "contradiction", message));
        }
        self.must_have_room(row)
    }

    /// Refuses parcels beyond what an order may have.
    fn must_have_room(&self, row: &Row) -> Result<(), Refused> {
        let is_new = |number: &&str| !self.known.parcels.iter().any(|known| known.number == **number);
        let numbers: HashSet<&str> = row.parcels.iter().map(|parcel| parcel.number.as_str()).collect();
        if self.known.parcels.len() + numbers.iter().filter(|number| is_new(number)).count() > MAX_PARCELS {
            let message = format!("must come to at most {MAX_PARCELS} in the order");
            return Err(Refused::new("parcels", "too_many", message));
        }
        Ok(())
    }

    /// Takes an answer to a cancel, or to a rollback that is under way.
    fn answer(&mut self, cancel: Cancel) {
        if !is_asked_for(&self.state) {
            // a refusal that comes late
            return;
        }
        match cancel {
            Cancel::Accepted => self.state = given_back(&self.state),
            Cancel::Refused => {
                if self.state.canceling_from.is_some() {
                    self.cancel = Some("refused");
                }
                self.state = kept(&self.state);
                self.known.handover_error = Some(KEPT);
            }
        }
    }

    /// Takes a status; an earlier one of the line changes only moments.
    fn reach(&mut self, to: Status, row: &Row, now: DateTime<Utc>) {
        let from = self.state.canceling_from.unwrap_or(self.state.status);
        if to == Status::Incorrect {
            self.state.status = to;
            self.state.errors.clone_from(&row.errors);
            self.state.canceling_from = None;
            self.set_handover(HandoverState::Refused);
            return;
        }
        self.known.times = self.known.times.reach(to, row.at.unwrap_or(now));
        if to == from || to.place() < from.place() {
            return;
        }
        if self.state.canceling_from.is_some() && !to.is_packed() {
            self.state.canceling_from = Some(to);
            return;
        }
        if self.state.canceling_from.take().is_some() {
            // packed wins
            self.cancel = Some("too_late");
        }
        self.state.status = to;
        if to.is_packed() {
            self.state.errors = None;
            self.set_handover(HandoverState::Accepted);
        }
    }

    fn set_handover(&mut self, state: HandoverState) {
        if self.state.handover.is_some_and(HandoverState::is_handed_over) {
            self.state.handover = Some(state);
        }
    }

    fn merge_parcels(&mut self, row: &Row) {
        let known = &mut self.known;
        let before = known.parcels.clone();
        for parcel in &row.parcels {
            match known.parcels.iter_mut().find(|known| known.number == parcel.number) {
                Some(known) => known.take(parcel.clone()),
                None => known.parcels.push(parcel.clone()),
            }
        }
        known.tracking = known.tracking.after(&row.parcels, &before, &known.parcels);
    }

    /// The items that it had under that number.
    fn items_of(&self, number: i32) -> &[Item] {
        let former = self.fixed.former.range(number..).next();
        former.map_or(self.order.items.as_slice(), |(_, items)| items.as_slice())
    }

    /// The lots and serial numbers of a packed order that are known only by this report. Refuses what differs from what was
    /// reported before.
    fn details(&self, row: &Row) -> Result<Vec<Gone>, Refused> {
        let Some(sent) = row.items.as_deref() else { return Ok(Vec::new()) };
        let mut details = Vec::new();
        for mut gone in leaving(&self.order.items, Some(sent))? {
            let Some(left) = self.left_of(gone.item) else { continue };
            if gone.left.pieces != left.pieces {
                let message = format!(
                    "must say that {} of item {} left, as was reported when the order was packed",
                    left.pieces, gone.item
                );
                return Err(Refused::new("items", "contradiction", message));
            }
            let Some(known) = left.with(&gone.left) else {
                let message =
                    format!("must not have other lots or serialNumbers of item {} than before", gone.item);
                return Err(Refused::new("items", "contradiction", message));
            };
            if known != *left {
                gone.left = known;
                details.push(gone);
            }
        }
        Ok(details)
    }

    /// What is known to have left of an item.
    fn left_of(&self, item: ExpeditionItemId) -> Option<&Left> {
        let gone = self.left.iter().flatten().chain(&self.detailed).find(|gone| gone.item == item);
        gone.map(|gone| &gone.left).or_else(|| self.left_before(item))
    }

    fn add_details(&mut self, details: Vec<Gone>) {
        for gone in details {
            let known = self.left.iter_mut().flatten().chain(&mut self.detailed);
            match known.into_iter().find(|known| known.item == gone.item) {
                Some(known) => *known = gone,
                None => self.detailed.push(gone),
            }
        }
    }
}

/// What leaves of each item that has a stock: what is reported, otherwise all that was ordered.
fn leaving(items: &[Item], sent: Option<&[Sent]>) -> Result<Vec<Gone>, Refused> {
    let (gone, refused) = as_far_as_ordered(items, sent);
    refused.map_or(Ok(gone), Err)
}

/// The same as far as it was ordered, and the first that was not.
fn as_far_as_ordered(items: &[Item], sent: Option<&[Sent]>) -> (Vec<Gone>, Option<Refused>) {
    let mut gone: Vec<Gone> = Vec::with_capacity(items.len());
    for item in items {
        let Some(stock) = item.stock else { continue };
        let pieces = if sent.is_some() { 0 } else { item.quantity };
        let left = Left { pieces, ..Left::default() };
        gone.push(Gone { item: item.id, product: item.product, stock, left });
    }
    let mut refused = None;
    for (index, sent) in sent.iter().flat_map(|sent| sent.iter()).enumerate() {
        let filled = fill(items, &mut gone, index, sent);
        refused = refused.or(filled.err());
    }
    (gone, refused)
}

/// Adds what left of the items that a report names; several items of a product are filled by position.
fn fill(items: &[Item], gone: &mut [Gone], index: usize, sent: &Sent) -> Result<(), Refused> {
    let is_meant = |item: &Item| match &sent.of {
        Of::Item(id) => item.id == *id,
        Of::Product(id) => item.product == *id,
        Of::Sku(sku) => item.product_sku == *sku,
    };
    let quantities: HashMap<ExpeditionItemId, i32> =
        items.iter().filter(|item| is_meant(item)).map(|item| (item.id, item.quantity)).collect();
    if quantities.is_empty() {
        let path = format!("items[{index}]");
        return Err(Refused::new(path, "unknown_reference", "must be an item of the order"));
    }
    let (mut rest, mut serials, mut last) = (sent.pieces, sent.serials.iter(), None);
    for gone in gone.iter_mut() {
        let Some(quantity) = quantities.get(&gone.item) else { continue };
        let taken = rest.min(quantity - gone.left.pieces);
        if let Some(lot) = sent.lot.as_ref().filter(|lot| !gone.left.lots.contains(lot))
            && (taken > 0 || sent.pieces == 0)
        {
            gone.left.lots.push(lot.clone());
        }
        gone.left.pieces += taken;
        gone.left.serials.extend(serials.by_ref().take(usize::try_from(taken).unwrap_or(0)).cloned());
        rest -= taken;
        if taken > 0 || last.is_none() {
            last = Some(gone);
        }
    }
    // a piece may have several
    if let Some(last) = last {
        last.left.serials.extend(serials.cloned());
    }
    if rest > 0 {
        let path = format!("items[{index}].expedited");
        return Err(Refused::new(path, "too_many", "must come to at most what was ordered"));
    }
    Ok(())
}

fn not_handed_over(number: Option<i32>) -> Refused {
    let (path, message) = match number {
        Some(number @ 1..) => {
            ("number", format!("must not be {number}: the order was not handed over by that number"))
        }
        _ => ("expedition", "was not handed over".to_owned()),
    };
    Refused::new(path, "not_handed_over", message)
}

fn old_number(number: i32) -> Refused {
    let message = match number {
        0 => "must not be 0: the order was handed over by a call, whose number is greater".to_owned(),
        number => format!("must not be {number}: the warehouse has given it back, or refused it"),
    };
    Refused::new("number", "old_number", message)
}

#[cfg(test)]
mod model;

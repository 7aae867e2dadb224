//! The allocator: which orders are booked, and what the others wait for (`docs/reference/orders.md#booking`).
//!
//! It is pure. A [`Ledger`] holds stocks as they were read under their locks; its methods change them as the statement that
//! writes the changes will, and decide. Sending, rebooking, imports and the worker all decide here.
//!
//! # Rules
//!
//! - An order is booked whole or not at all. Its demand is added up by stock first ([`Demand`]).
//! - An order that cannot be booked names one stock that has too little for it ([`Lack`]), and is looked at again only when that
//!   one has enough. It does not hold up later orders.
//! - A stock is *marked* while orders that wait for it, or bookings that it can no longer cover, have to be looked at. An order
//!   that is sent while one of its stocks is marked queues behind those that wait.
//! - A booking is never made of pieces that are not there. Facts (counts) may lower a stock below its bookings; then bookings
//!   are taken back ([`Ledger::take_back`]).

use std::collections::HashMap;

use longshore_kernel::ids::StockId;

/// A stock: the pieces of a product in one warehouse and wms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stock {
    /// Pieces that are there.
    pub quantity: i64,
    /// Pieces that orders hold. More than there are, after a count that found fewer.
    pub held: i64,
    /// Pieces that sent orders wait for.
    pub missing: i64,
    /// Orders or bookings have to be looked at.
    pub is_marked: bool,
}

impl Stock {
    /// Pieces that an order can book; negative where more are held than there are.
    #[must_use]
    pub fn free(&self) -> i64 {
        self.quantity - self.held
    }

    /// Pieces that are shown as available.
    #[must_use]
    pub fn available(&self) -> i64 {
        self.free().max(0)
    }

    /// Pieces that are held though they are not there.
    #[must_use]
    pub fn excess(&self) -> i64 {
        (-self.free()).max(0)
    }

    /// Whether it has no pieces, and no order wants any.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        (self.quantity, self.held, self.missing) == (0, 0, 0)
    }

    /// Adds to it, and marks it if an order may be served since. The trigger of its table does the same by what the steps of a
    /// transaction come to.
    fn add(&mut self, quantity: i64, held: i64, missing: i64) {
        let before = *self;
        self.quantity += quantity;
        self.held += held;
        self.missing += missing;
        self.is_marked |= self.missing > 0 && self.available() > before.available();
        self.is_marked |= self.excess() > before.excess();
    }
}

/// What an order needs, added up by stock; sorted by stock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demand(Vec<(StockId, i64)>);

impl Demand {
    /// Adds up the items of an order: the stock and the quantity of each.
    #[must_use]
    pub fn new(items: impl IntoIterator<Item = (StockId, i64)>) -> Self {
        let mut wanted: Vec<(StockId, i64)> = items.into_iter().collect();
        wanted.sort_unstable_by_key(|(stock, _)| *stock);
        wanted.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            if same {
                kept.1 += later.1;
            }
            same
        });
        Self(wanted)
    }

    /// Each stock, with the pieces that are needed of it.
    pub fn iter(&self) -> impl Iterator<Item = (StockId, i64)> {
        self.0.iter().copied()
    }

    /// The pieces that are needed of a stock.
    #[must_use]
    pub fn of(&self, stock: StockId) -> i64 {
        self.0.iter().find(|(id, _)| *id == stock).map_or(0, |(_, quantity)| *quantity)
    }
}

/// What an order waits for: a stock, and the pieces that the order needs of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lack {
    /// The stock.
    pub stock: StockId,
    /// The pieces.
    pub quantity: i64,
}

/// What is decided of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It holds all of its pieces.
    Booked,
    /// A stock has too little for it.
    Waits(Lack),
    /// A stock is marked: it is looked at in turn.
    Queues(Lack),
}

/// Stocks whose rows are locked, and what is decided about them. A stock that it does not hold is empty.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    stocks: HashMap<StockId, Entry>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    was: Stock,
    is: Stock,
}

/// What changed of a stock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adjustment {
    /// The stock.
    pub stock: StockId,
    /// It before.
    pub was: Stock,
    /// It since.
    pub is: Stock,
}

impl FromIterator<(StockId, Stock)> for Ledger {
    fn from_iter<I: IntoIterator<Item = (StockId, Stock)>>(stocks: I) -> Self {
        let entry = |(id, stock)| (id, Entry { was: stock, is: stock });
        Self { stocks: stocks.into_iter().map(entry).collect() }
    }
}

impl Ledger {
    /// A stock as it is now.
    #[must_use]
    pub fn stock(&self, id: StockId) -> Stock {
        self.stocks.get(&id).map(|entry| entry.is).unwrap_or_default()
    }

    /// Sends an order: it is booked if it can be and none of its stocks is marked.
    pub fn send(&mut self, demand: &Demand) -> Decision {
        let marked = demand.iter().find(|(stock, _)| self.stock(*stock).is_marked);
        let decision = match marked {
            Some((stock, quantity)) => Decision::Queues(Lack { stock, quantity }),
            None => self.decide(demand),
        };
        self.enter(demand, decision);
        decision
    }

    /// Looks again at an order that waits, in its turn.
    pub fn serve(&mut self, demand: &Demand) -> Decision {
        self.withdraw(demand);
        let decision = self.decide(demand);
        self.enter(demand, decision);
        decision
    }

    /// Takes the pieces of a booked order back, if one of its stocks no longer covers its bookings; the order then waits for
    /// that one. `None`: they are covered.
    pub fn take_back(&mut self, demand: &Demand) -> Option<Lack> {
        let (stock, quantity) = demand.iter().find(|(stock, _)| self.stock(*stock).excess() > 0)?;
        self.add(demand, 0, -1, 1);
        Some(Lack { stock, quantity })
    }

    /// An order that is booked waits again, without being looked at.
    pub fn unbook(&mut self, demand: &Demand) {
        self.add(demand, 0, -1, 1);
    }

    /// An order that is booked gives its pieces back.
    pub fn release(&mut self, demand: &Demand) {
        self.add(demand, 0, -1, 0);
    }

    /// An order that waits no longer does.
    pub fn withdraw(&mut self, demand: &Demand) {
        self.add(demand, 0, 0, -1);
    }

    /// The pieces of a booked order leave: `demand` is what it held, `left` what left of each stock. A stock that has fewer than
    /// left had more than was known; returns how many more, of each such stock.
    pub fn pack(&mut self, demand: &Demand, left: &Demand) -> Vec<(StockId, i64)> {
        let gone = demand.iter().map(|(stock, held)| (stock, held, left.of(stock)));
        self.go(gone.collect())
    }

    /// Pieces leave that no order holds; as [`Ledger::pack`].
    pub fn leave(&mut self, left: &Demand) -> Vec<(StockId, i64)> {
        self.go(left.iter().map(|(stock, left)| (stock, 0, left)).collect())
    }

    /// Of each stock, what is no longer held and what leaves.
    fn go(&mut self, gone: Vec<(StockId, i64, i64)>) -> Vec<(StockId, i64)> {
        let mut found = Vec::new();
        for (stock, held, left) in gone {
            let more = (left - self.stock(stock).quantity).max(0);
            if more > 0 {
                found.push((stock, more));
            }
            self.stocks.entry(stock).or_default().is.add(more - left, -held, 0);
        }
        found
    }

    /// The stocks that changed or were marked since the last time, by id: they are written now. A mark is written even where the
    /// steps come to nothing: an order may have queued because of it.
    pub fn settle(&mut self) -> Vec<Adjustment> {
        let changed = self.stocks.iter().filter(|(_, entry)| entry.was != entry.is);
        let mut changed: Vec<_> = changed
            .map(|(stock, entry)| Adjustment { stock: *stock, was: entry.was, is: entry.is })
            .collect();
        changed.sort_unstable_by_key(|adjustment| adjustment.stock);
        for entry in self.stocks.values_mut() {
            entry.was = entry.is;
        }
        changed
    }

    /// Whether an order can be booked, by what is free: if not, it names the stock that it lacks most of.
    fn decide(&self, demand: &Demand) -> Decision {
        let short = |(stock, quantity): &(StockId, i64)| quantity - self.stock(*stock).free();
        let lacking = demand.iter().filter(|wanted| short(wanted) > 0).max_by_key(short);
        match lacking {
            None => Decision::Booked,
            Some((stock, quantity)) => Decision::Waits(Lack { stock, quantity }),
        }
    }

    fn enter(&mut self, demand: &Demand, decision: Decision) {
        match decision {
            Decision::Booked => self.add(demand, 0, 1, 0),
            Decision::Waits(_) | Decision::Queues(_) => self.add(demand, 0, 0, 1),
        }
    }

    fn add(&mut self, demand: &Demand, quantity: i64, held: i64, missing: i64) {
        for (stock, pieces) in demand.iter() {
            let entry = self.stocks.entry(stock).or_default();
            entry.is.add(quantity * pieces, held * pieces, missing * pieces);
        }
    }
}

#[cfg(test)]
mod model;

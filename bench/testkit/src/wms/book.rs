//! The book of a WMS: what it has of each order, and the rules by which a hand-over or a withdrawal changes it.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use uuid::Uuid;

use super::breach::{Breach, Breaches};

/// How far an order has come in the warehouse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Only a withdrawal has named it.
    Unknown,
    /// The latest hand-over was refused.
    Refused,
    /// It was given back.
    Withdrawn,
    /// The warehouse could not do it, and said so.
    GivenUp,
    /// It was handed over, and is not being picked yet.
    Taken,
    /// It is being picked.
    Picked,
    /// It is packed.
    Packed,
    /// It is on its way.
    Shipped,
    /// The customer has it.
    Delivered,
}

impl Stage {
    /// Whether the warehouse has the order, or has sent it.
    #[must_use]
    pub fn is_here(self) -> bool {
        self >= Self::Taken
    }

    /// Whether the goods have left the stock.
    #[must_use]
    pub fn is_packed(self) -> bool {
        self >= Self::Packed
    }
}

/// What a WMS has of one order.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// How far it has come.
    pub stage: Stage,
    /// The highest number that was handed over, taken or refused; 0 before the first.
    pub number: u64,
    /// The highest number that a withdrawal named, unless that was refused, or that came while an earlier one was being picked;
    /// 0 before the first.
    pub withdrawn: u64,
    /// The numbers that it has taken, each time it did so. A WMS that keeps the rules has none twice.
    pub taken: Vec<u64>,
    /// How often each number was handed over to it, repeated calls included.
    pub calls: BTreeMap<u64, u32>,
    /// Its own id of the hand-over.
    pub internal_id: Option<String>,
    /// The order as it was handed over last; null where the WMS keeps no orders.
    pub order: Value,
    /// The violations of the latest refusal.
    pub violations: Value,
    /// The items that were packed, as they are reported; null where that is all of them.
    pub packed: Value,
}

impl Default for Entry {
    fn default() -> Self {
        Self {
            stage: Stage::Unknown,
            number: 0,
            withdrawn: 0,
            taken: Vec::new(),
            calls: BTreeMap::new(),
            internal_id: None,
            order: Value::Null,
            violations: Value::Null,
            packed: Value::Null,
        }
    }
}

/// All orders of a WMS, by their id.
pub type Book = BTreeMap<Uuid, Entry>;

/// The answer to a call: its status and its JSON, null for none.
pub(super) type Answered = (u16, Value);

/// The answer to a number that is out of date.
fn out_of_date(what: &str) -> Answered {
    (410, json!({"detail": what}))
}

impl Entry {
    /// A hand-over. `refusal` is what the WMS has against the order, if anything.
    pub(super) fn put(
        &mut self,
        (number, order): (u64, Value),
        refusal: Option<Value>,
        internal_id: impl FnOnce() -> String,
        breaches: Breaches,
    ) -> Answered {
        *self.calls.entry(number).or_default() += 1;
        let is_forgiven = breaches.has(Breach::TakesWithdrawn)
            || (breaches.has(Breach::TakesUnknownWithdrawn) && self.number == 0);
        if number <= self.withdrawn && !is_forgiven {
            return out_of_date("this number was withdrawn");
        }
        if number < self.number && !breaches.has(Breach::TakesLower) {
            return out_of_date("a higher number is known");
        }
        if self.withdrawn > 0 && breaches.has(Breach::RefusesNext) {
            return out_of_date("the order was withdrawn");
        }
        let is_reconsidered = self.stage == Stage::Refused && breaches.has(Breach::TakesRefused);
        let is_known = number == self.number && self.stage != Stage::Withdrawn;
        if is_known && order != self.order && breaches.has(Breach::ComparesBodies) {
            return (422, json!({"violations": [{"message": "the key was used with another body"}]}));
        }
        if is_known && !breaches.has(Breach::TakesTwice) && !is_reconsidered {
            // The same hand-over again: the same answer, however far it has come.
            return if self.stage == Stage::Refused { self.refused() } else { self.accepted() };
        }
        if number > self.number && self.stage > Stage::Taken {
            // Two parcels for one order: only a person can decide that.
            let violation = json!({"message": "an earlier number of it is being picked", "code": "in_work"});
            self.withdrawn = self.withdrawn.max(number);
            return (422, json!({"violations": [violation]}));
        }
        self.number = number;
        self.order = order;
        if let Some(violations) = refusal {
            (self.stage, self.violations) = (Stage::Refused, violations);
            return self.refused();
        }
        self.stage = Stage::Taken;
        self.taken.push(number);
        self.internal_id = Some(internal_id());
        self.accepted()
    }

    /// A withdrawal of a number, and of all before it.
    pub(super) fn delete(&mut self, number: u64, gives_back_picked: bool, breaches: Breaches) -> Answered {
        let is_later = number < self.number && !breaches.has(Breach::WithdrawsHigher);
        let is_first = self.number == 0;
        match self.stage {
            _ if is_later => {}
            Stage::Picked if gives_back_picked => self.stage = Stage::Withdrawn,
            Stage::Picked | Stage::Packed | Stage::Shipped | Stage::Delivered => {
                return (409, json!({"detail": "it is being picked, or gone"}));
            }
            Stage::Taken => self.stage = Stage::Withdrawn,
            Stage::Unknown | Stage::Refused | Stage::Withdrawn | Stage::GivenUp => {}
        }
        if is_first && breaches.has(Breach::FailsUnknown) {
            return (500, Value::Null);
        }
        let named = if breaches.has(Breach::WithdrawsHigher) { number.max(self.number) } else { number };
        self.withdrawn = self.withdrawn.max(named);
        match self.stage {
            Stage::Unknown => (404, Value::Null),
            _ if is_later => out_of_date("a higher number is known"),
            _ => (204, Value::Null),
        }
    }

    fn accepted(&self) -> Answered {
        (200, json!({"wmsInternalId": self.internal_id}))
    }

    fn refused(&self) -> Answered {
        (422, json!({"violations": self.violations}))
    }
}

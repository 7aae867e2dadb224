//! A model of a place: stocks, orders, and everything that happens to them, by the ledger alone. A step is a transaction; several
//! commands may share one, as requests of the same moment do. What must always hold is judged of the stored stocks after each
//! step, and the model must notice each of some deliberate mistakes.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};
use uuid::Uuid;

use super::*;

/// A deliberate mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    None,
    /// Marks are forgotten when goods come.
    LostMark,
    /// The items of an order are judged one by one.
    ItemByItem,
    /// A cancelled order keeps its pieces.
    CancelKeeps,
    /// A count below the bookings takes nothing back.
    CountTakesNothing,
    /// An order that is sent passes those that wait for a marked stock.
    SendIgnoresMark,
    /// Those that wait are served in the order of their ids.
    OutOfTurn,
    /// An order that is held is still counted as missing.
    HoldStillMisses,
    /// Stocks are marked only by what the commands of a transaction come to.
    MarksByTheSum,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    OnHold,
    Queued(Lack),
    Paused,
    Waiting(Lack),
    Booked,
    HandedOver,
    Ended,
}

#[derive(Clone, Debug)]
struct Order {
    priority: i64,
    items: Vec<(StockId, i64)>,
    demand: Demand,
    state: State,
}

#[derive(Clone, Debug)]
enum Step {
    Create {
        priority: i64,
        items: Vec<(usize, i64)>,
    },
    Send(usize),
    Import(Vec<(i64, Vec<(usize, i64)>)>),
    Hold(usize),
    Cancel(usize),
    Unbook(usize),
    Rebook(usize),
    HandOver(usize),
    Pack(usize, bool),
    Count(usize, i64),
    Receive(usize, i64),
    Allocate,
    /// Commands that share a transaction.
    Together(Vec<Step>),
}

impl Step {
    /// Whether it is a command for that order.
    fn names(&self, order: usize) -> bool {
        match self {
            Self::Send(n) | Self::Hold(n) | Self::Cancel(n) | Self::Unbook(n) | Self::Rebook(n) => {
                *n == order
            }
            Self::Together(steps) => steps.iter().any(|step| step.names(order)),
            _ => false,
        }
    }
}

const STOCKS: usize = 4;

/// Orders that commands name: so few that commands of a transaction often concern each other.
const NAMED: usize = 10;

fn stock(n: usize) -> StockId {
    Uuid::from_u128(n as u128 + 1).into()
}

fn items() -> impl Strategy<Value = Vec<(usize, i64)>> {
    prop::collection::vec((0..STOCKS, 1..5_i64), 1..4)
}

fn command() -> impl Strategy<Value = Step> {
    let order = 0..NAMED;
    prop_oneof![
        6 => order.clone().prop_map(Step::Send),
        1 => order.clone().prop_map(Step::Hold),
        2 => order.clone().prop_map(Step::Cancel),
        1 => order.clone().prop_map(Step::Unbook),
        1 => order.prop_map(Step::Rebook),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let order = 0..NAMED;
    prop_oneof![
        3 => (0..3_i64, items()).prop_map(|(priority, items)| Step::Create { priority, items }),
        8 => command(),
        6 => prop::collection::vec(command(), 2..12).prop_map(Step::Together),
        2 => prop::collection::vec((0..3_i64, items()), 1..5).prop_map(Step::Import),
        2 => order.clone().prop_map(Step::HandOver),
        2 => (order, any::<bool>()).prop_map(|(order, short)| Step::Pack(order, short)),
        3 => (0..STOCKS, 0..12_i64).prop_map(|(stock, quantity)| Step::Count(stock, quantity)),
        3 => (0..STOCKS, 1..8_i64).prop_map(|(stock, quantity)| Step::Receive(stock, quantity)),
        5 => Just(Step::Allocate),
    ]
}

struct World {
    mistake: Mistake,
    /// Stocks as they are stored.
    rows: BTreeMap<StockId, Stock>,
    /// Stocks as the transaction has them.
    ledger: Ledger,
    /// By the order of their creation.
    orders: Vec<Order>,
    /// What the stocks must have, by what was counted, received and sent away.
    pieces: BTreeMap<StockId, i64>,
}

impl World {
    fn new(mistake: Mistake) -> Self {
        let rows: BTreeMap<_, _> =
            (0..STOCKS).map(|n| (stock(n), Stock { quantity: 5, ..Stock::default() })).collect();
        Self {
            mistake,
            ledger: rows.clone().into_iter().collect(),
            rows,
            orders: Vec::new(),
            pieces: (0..STOCKS).map(|n| (stock(n), 5)).collect(),
        }
    }

    /// Does a step in a transaction.
    fn transact(&mut self, step: &Step) {
        self.step(step);
        self.commit();
    }

    /// Stores the stocks that the transaction changed, as the statement that writes them and the trigger of their table do.
    fn commit(&mut self) {
        for Adjustment { stock, was, is } in self.ledger.settle() {
            let row = self.rows.get_mut(&stock).unwrap();
            row.add(is.quantity - was.quantity, is.held - was.held, is.missing - was.missing);
            row.is_marked |= is.is_marked && self.mistake != Mistake::MarksByTheSum;
        }
        self.ledger = self.rows.clone().into_iter().collect();
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Create { priority, items } => self.create(*priority, items),
            Step::Send(n) => self.with(*n, |world, order| {
                if order.state == State::OnHold {
                    world.send(order);
                }
            }),
            Step::Import(rows) => {
                for (priority, items) in rows {
                    self.create(*priority, items);
                    self.step(&Step::Send(self.orders.len() - 1));
                }
            }
            Step::Hold(n) => self.with(*n, |world, order| world.leave(order, State::OnHold)),
            Step::Cancel(n) => self.with(*n, |world, order| world.leave(order, State::Ended)),
            Step::Unbook(n) => self.with(*n, |world, order| match order.state {
                State::Booked => {
                    world.ledger.unbook(&order.demand);
                    order.state = State::Paused;
                }
                State::Queued(_) | State::Waiting(_) => order.state = State::Paused,
                _ => {}
            }),
            Step::Rebook(n) => self.with(*n, |world, order| match order.state {
                State::Booked => {
                    world.ledger.release(&order.demand);
                    world.send(order);
                }
                State::Queued(_) | State::Waiting(_) | State::Paused => {
                    world.ledger.withdraw(&order.demand);
                    world.send(order);
                }
                _ => {}
            }),
            Step::HandOver(n) => self.with(*n, |_, order| {
                if order.state == State::Booked {
                    order.state = State::HandedOver;
                }
            }),
            Step::Pack(n, short) => self.with(*n, |world, order| {
                if matches!(order.state, State::Booked | State::HandedOver) {
                    world.pack(order, *short);
                }
            }),
            Step::Count(n, quantity) => self.fact(stock(*n), *quantity),
            Step::Receive(n, quantity) => self.fact(stock(*n), self.pieces[&stock(*n)] + quantity),
            Step::Allocate => self.allocate(),
            Step::Together(steps) => steps.iter().for_each(|step| self.step(step)),
        }
    }

    fn with(&mut self, n: usize, change: impl FnOnce(&mut Self, &mut Order)) {
        if let Some(mut order) = self.orders.get(n).cloned() {
            change(self, &mut order);
            self.orders[n] = order;
        }
    }

    fn create(&mut self, priority: i64, items: &[(usize, i64)]) {
        let items: Vec<_> = items.iter().map(|(n, quantity)| (stock(*n), *quantity)).collect();
        let demand = Demand::new(items.iter().copied());
        self.orders.push(Order { priority, items, demand, state: State::OnHold });
    }

    fn send(&mut self, order: &mut Order) {
        let demand = match self.mistake {
            Mistake::ItemByItem => Demand(order.items.clone()),
            _ => order.demand.clone(),
        };
        let decision = match self.mistake {
            Mistake::SendIgnoresMark => {
                let decision = self.ledger.decide(&demand);
                self.ledger.enter(&demand, decision);
                decision
            }
            _ => self.ledger.send(&demand),
        };
        order.state = match decision {
            Decision::Booked => State::Booked,
            Decision::Waits(lack) => State::Waiting(lack),
            Decision::Queues(lack) => State::Queued(lack),
        };
    }

    fn leave(&mut self, order: &mut Order, to: State) {
        match order.state {
            State::Booked => {
                if self.mistake != Mistake::CancelKeeps || to != State::Ended {
                    self.ledger.release(&order.demand);
                }
            }
            State::Queued(_) | State::Waiting(_) | State::Paused => {
                if self.mistake != Mistake::HoldStillMisses || to != State::OnHold {
                    self.ledger.withdraw(&order.demand);
                }
            }
            State::OnHold => {}
            State::HandedOver | State::Ended => return,
        }
        order.state = to;
    }

    fn pack(&mut self, order: &mut Order, short: bool) {
        let left =
            order.demand.iter().map(|(stock, quantity)| (stock, if short { quantity / 2 } else { quantity }));
        let left = Demand::new(left);
        let found = self.ledger.pack(&order.demand, &left);
        for (stock, quantity) in left.iter() {
            let more = found.iter().find(|(of, _)| *of == stock).map_or(0, |(_, more)| *more);
            *self.pieces.get_mut(&stock).unwrap() += more - quantity;
        }
        order.state = State::Ended;
    }

    /// Sets the quantity of a stock regardless of bookings, by a statement of its own.
    fn fact(&mut self, stock: StockId, quantity: i64) {
        let row = self.rows.get_mut(&stock).unwrap();
        let was_marked = row.is_marked;
        row.add(quantity - row.quantity, 0, 0);
        if self.mistake == Mistake::LostMark && row.excess() == 0 {
            row.is_marked = was_marked;
        }
        if self.mistake == Mistake::CountTakesNothing && row.excess() > 0 {
            row.is_marked = was_marked;
        }
        self.pieces.insert(stock, quantity);
    }

    /// The places of orders by their turn.
    fn turns(&self) -> Vec<usize> {
        let mut turns: Vec<usize> = (0..self.orders.len()).collect();
        turns.sort_by_key(|n| (Reverse(self.orders[*n].priority), *n));
        if self.mistake == Mistake::OutOfTurn {
            turns.reverse();
        }
        turns
    }

    /// What the worker does until no stock is marked.
    fn allocate(&mut self) {
        for round in 0.. {
            assert!(round < 1_000, "the allocator does not come to an end");
            let mut is_done = true;
            for n in self.turns().into_iter().rev() {
                let mut order = self.orders[n].clone();
                if order.state == State::Booked
                    && let Some(lack) = self.ledger.take_back(&order.demand)
                {
                    order.state = State::Waiting(lack);
                    is_done = false;
                }
                self.orders[n] = order;
            }
            for n in self.turns() {
                let mut order = self.orders[n].clone();
                let may = match order.state {
                    State::Queued(lack) => self.ledger.stock(lack.stock).is_marked,
                    State::Waiting(lack) => {
                        let stock = self.ledger.stock(lack.stock);
                        stock.is_marked && lack.quantity <= stock.free()
                    }
                    _ => false,
                };
                if may {
                    order.state = match self.ledger.serve(&order.demand) {
                        Decision::Booked => State::Booked,
                        Decision::Waits(lack) | Decision::Queues(lack) => State::Waiting(lack),
                    };
                    is_done = false;
                }
                self.orders[n] = order;
            }
            if is_done {
                break;
            }
        }
        self.commit();
        for row in self.rows.values_mut() {
            row.is_marked = false;
        }
    }

    /// What must hold after each step; says what does not.
    fn judge(&self) -> Result<(), String> {
        for n in 0..STOCKS {
            let (id, is) = (stock(n), self.rows[&stock(n)]);
            let sum = |counts: fn(State) -> bool| -> i64 {
                self.orders.iter().filter(|o| counts(o.state)).map(|o| o.demand.of(id)).sum()
            };
            let held = sum(|state| matches!(state, State::Booked | State::HandedOver));
            let missing = sum(|state| matches!(state, State::Queued(_) | State::Waiting(_) | State::Paused));
            if (is.held, is.missing, is.quantity) != (held, missing, self.pieces[&id]) {
                return Err(format!("stock {n} has {is:?}: {held} are held and {missing} missing"));
            }
            let handed_over = sum(|state| state == State::HandedOver);
            if !is.is_marked && is.held > is.quantity.max(handed_over) {
                return Err(format!("stock {n} has {is:?}: bookings are not covered, and it is not marked"));
            }
        }
        for (n, order) in self.orders.iter().enumerate() {
            if let State::Waiting(lack) = order.state {
                let stock = self.rows[&lack.stock];
                if !stock.is_marked && lack.quantity <= stock.free() {
                    return Err(format!("order {n} waits for what is there, and it is not marked"));
                }
            }
            if let State::Queued(lack) = order.state
                && !self.rows[&lack.stock].is_marked
            {
                return Err(format!("order {n} is queued, and it is not marked"));
            }
        }
        Ok(())
    }

    /// How much more of each stock is booked than is there.
    fn excess(&self) -> Vec<i64> {
        (0..STOCKS).map(|n| self.ledger.stock(stock(n)).excess()).collect()
    }

    /// Only a count may leave a stock with more bookings than pieces.
    fn judge_excess(&self, before: &[i64]) -> Result<(), String> {
        match self.excess().iter().zip(before).position(|(after, before)| after > before) {
            Some(n) => Err(format!("stock {n} was booked beyond what is there")),
            None => Ok(()),
        }
    }

    /// Of two that want the same quantity of the same single stock, the earlier in turn is booked first, unless the step held it in
    /// between.
    fn judge_turns(&self, step: &Step, before: &[Order]) -> Result<(), String> {
        let waits = |order: &Order| matches!(order.state, State::Queued(_) | State::Waiting(_));
        let is_booked = |n: usize| self.orders[n].state == State::Booked;
        let was_booked = |n: usize| before.get(n).is_some_and(|order| order.state == State::Booked);
        let stays = |n: &usize| waits(&before[*n]) && waits(&self.orders[*n]) && !step.names(*n);
        for first in (0..before.len()).filter(stays) {
            for later in (0..self.orders.len()).filter(|n| is_booked(*n) && !was_booked(*n)) {
                let (a, b) = (&self.orders[first], &self.orders[later]);
                let is_later = (Reverse(a.priority), first) < (Reverse(b.priority), later);
                if is_later && a.demand.0.len() == 1 && a.demand == b.demand {
                    return Err(format!("order {later} was booked before order {first}"));
                }
            }
        }
        Ok(())
    }
}

/// Runs random histories; the least one after which something does not hold, and what.
fn run(mistake: Mistake, mut runner: TestRunner) -> Result<(), String> {
    let histories = prop::collection::vec(step(), 1..40);
    let ran = runner.run(&histories, |steps| {
        let mut world = World::new(mistake);
        for step in &steps {
            let (orders, excess) = (world.orders.clone(), world.excess());
            world.transact(step);
            world.judge().and_then(|()| world.judge_turns(step, &orders)).map_err(TestCaseError::fail)?;
            if !matches!(step, Step::Count(..)) {
                world.judge_excess(&excess).map_err(TestCaseError::fail)?;
            }
        }
        world.transact(&Step::Allocate);
        world.judge().map_err(TestCaseError::fail)?;
        Ok(())
    });
    ran.map_err(|error| match error {
        TestError::Fail(reason, steps) => format!("{reason} after {steps:?}"),
        TestError::Abort(reason) => format!("gave up: {reason}"),
    })
}

fn config() -> Config {
    Config { cases: 4_000, failure_persistence: None, ..Config::default() }
}

#[test]
fn what_must_hold_holds_after_each_step_of_any_history() {
    run(Mistake::None, TestRunner::new(config())).unwrap();
}

#[test]
fn the_model_notices_each_mistake() {
    for mistake in [
        Mistake::LostMark,
        Mistake::ItemByItem,
        Mistake::CancelKeeps,
        Mistake::CountTakesNothing,
        Mistake::SendIgnoresMark,
        Mistake::OutOfTurn,
        Mistake::HoldStillMisses,
        Mistake::MarksByTheSum,
    ] {
        // The same histories each time: whether a mistake is noticed must not depend on luck.
        let runner = TestRunner::new_with_rng(config(), TestRng::deterministic_rng(RngAlgorithm::ChaCha));
        assert!(run(mistake, runner).is_err(), "{mistake:?} goes unnoticed");
    }
}

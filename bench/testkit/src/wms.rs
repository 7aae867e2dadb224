//! A fake WMS: the system of a warehouse, which takes orders over real HTTP, keeps the rules of a hand-over,
//! has a book of every order, and reports what the warehouse does.
//!
//! ```text
//! Longshore ── PUT, DELETE /expedition/{id} ─▶ Wms: the book ── news ─▶ Longshore
//! ```
//!
//! - [`Wms::url`] is the `baseUrl` of its setting, [`Wms::trust`] takes the secret of its calls. Without a
//!   secret it does not look at signatures.
//! - The rules are in `wms/book.rs`: the same number again is one hand-over; a number that is lower than a known
//!   one, or that a withdrawal has named, is 410. An order that it has under another id is refused.
//! - [`Wms::book`] and [`Wms::order`] show what it has, [`Wms::wait_until`] waits for it.
//! - [`Wms::step`], [`Wms::give_up`] and [`Wms::answer_cancel`] work on an order. Each leaves news, which
//!   [`Wms::report`] sends.
//! - [`Wms::misbehave`] spoils one call, [`Wms::misbehave_in_turn`] each; [`Wms::break_rule`] breaks a rule
//!   for as long as it runs, for the check of conformance.
//!
//! It is a [`Receiver`], so it has its own thread and clock. To fake another fault, add a variant to
//! [`Mischief`] and its arm in `wms/state.rs`.

pub mod book;
pub mod breach;
mod call;
pub mod mischief;
pub mod report;
mod state;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use standardwebhooks::WebhookError;
use uuid::Uuid;

pub use self::book::{Book, Entry, Stage};
pub use self::breach::Breach;
use self::breach::Breaches;
use self::call::Call;
pub use self::mischief::{Mischief, On};
use self::report::arranged;
pub use self::report::{BATCH, Manner, NotNow, Step};
use self::state::State;
use crate::receiver::{Answer, By, Receiver, TooFew};
use crate::signature::Verifier;

/// A fake WMS on a loopback port; see the module. Dropping it closes the port.
#[derive(Debug)]
pub struct Wms {
    receiver: Receiver,
    state: Arc<Mutex<State>>,
}

/// A call that came, and how it was answered.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// `PUT` or `DELETE`.
    pub method: String,
    /// The order; `None` where the call could not be read.
    pub expedition: Option<Uuid>,
    /// The number; 0 where the call could not be read.
    pub number: u64,
    /// The status that the rules give; 401 for a wrong signature, 400 for a call that cannot be read.
    pub status: u16,
    /// What spoiled it.
    pub mischief: Mischief,
}

impl Wms {
    /// Starts one on a free loopback port.
    ///
    /// # Errors
    /// When no port or thread is available.
    pub async fn start() -> std::io::Result<Self> {
        Ok(Self::on(Receiver::counting().await?, true))
    }

    /// The same at a given address.
    ///
    /// # Errors
    /// When the address is taken, or no thread is available.
    pub async fn start_at(address: SocketAddr) -> std::io::Result<Self> {
        Ok(Self::on(Receiver::counting_at(address).await?, true))
    }

    /// The same for hundreds of thousands of orders: [`Entry::order`] stays null.
    ///
    /// # Errors
    /// As [`Wms::start`].
    pub async fn counting() -> std::io::Result<Self> {
        Ok(Self::on(Receiver::counting().await?, false))
    }

    fn on(receiver: Receiver, keeps_orders: bool) -> Self {
        let state = Arc::new(Mutex::new(State::new(keeps_orders)));
        let shared = Arc::clone(&state);
        receiver.answer_all(Answer::By(By::new(move |receipt| locked(&shared).answer(receipt))));
        Self { receiver, state }
    }

    /// Its `baseUrl`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.receiver.address())
    }

    /// Refuses calls with 401 from now on, unless they are signed with this secret (`whsec_…`) or one that it
    /// was given before.
    ///
    /// # Errors
    /// When it is not base64.
    pub fn trust(&self, secret: &str) -> Result<(), WebhookError> {
        let verifier = Verifier::new(secret)?;
        self.state().verifiers.push(verifier);
        Ok(())
    }

    /// Everything that it knows.
    #[must_use]
    pub fn book(&self) -> Book {
        self.state().book.clone()
    }

    /// What it knows of an order.
    #[must_use]
    pub fn order(&self, expedition: Uuid) -> Option<Entry> {
        self.state().book.get(&expedition).cloned()
    }

    /// The calls since the start, in order.
    #[must_use]
    pub fn asked(&self) -> Vec<Asked> {
        self.state().asked.clone()
    }

    /// The largest number of calls at the same time.
    #[must_use]
    pub fn peak_in_flight(&self) -> u64 {
        self.receiver.peak_in_flight()
    }

    /// Waits until a call has made this true of the book and the calls; it is asked for each call, so it must
    /// be cheap.
    ///
    /// # Errors
    /// [`TooFew`] when `deadline` passes first.
    pub async fn wait_until(
        &self,
        deadline: Duration,
        reached: impl Fn(&Book, &[Asked]) -> bool + Send + 'static,
    ) -> Result<(), TooFew> {
        let state = Arc::clone(&self.state);
        let is_reached = move || {
            let state = locked(&state);
            reached(&state.book, &state.asked)
        };
        self.receiver.wait_until(deadline, move |_| is_reached()).await
    }

    /// Waits until the book has an order in this stage because of a call.
    ///
    /// # Errors
    /// [`TooFew`] when `deadline` passes first.
    pub async fn wait_for(&self, expedition: Uuid, stage: Stage, deadline: Duration) -> Result<(), TooFew> {
        let is_there = move |book: &Book| book.get(&expedition).is_some_and(|entry| entry.stage == stage);
        self.wait_until(deadline, move |book, _| is_there(book)).await
    }

    /// Spoils the next call that `on` names, after those that earlier calls of this have ordered.
    pub fn misbehave(&self, on: On, mischief: Mischief) {
        self.state().mischief.push_back((on, mischief));
    }

    /// Spoils every call by the next of these faults, over and over; none: no more.
    pub fn misbehave_in_turn(&self, turns: Vec<Mischief>) {
        self.state().turns = (turns, 0);
    }

    /// Breaks a rule for as long as it runs.
    pub fn break_rule(&self, breach: Breach) {
        self.state().breaches = Breaches(Some(breach));
    }

    /// Refuses orders that have an item of this SKU: 422 with a violation at that item.
    pub fn refuse_sku(&self, sku: &str) {
        self.state().refused_skus.push(sku.to_owned());
    }

    /// Whether a withdrawal gets back what is being picked; it does not by default.
    pub fn give_back_picked(&self, gives_back: bool) {
        self.state().gives_back_picked = gives_back;
    }

    /// Takes an order that no call hands over, as number 1: one that the service does not know any more. Returns the status of the answer.
    #[must_use]
    pub fn take(&self, expedition: Uuid, order: Value) -> u16 {
        self.state().done(&Call { expedition, number: 1, order: Some(order) }).0
    }

    /// Forgets everything: the book, and news that were not sent.
    pub fn forget(&self) {
        self.state().forget();
    }

    /// Lets the calls that were overtaken ([`Mischief::Overtaken`]) arrive.
    pub fn let_overtaken_arrive(&self) {
        let mut state = self.state();
        let late = std::mem::take(&mut state.overtaken);
        for call in late {
            state.done(&call);
        }
    }

    /// Works on an order, and returns the news of it, which [`Wms::report`] sends.
    ///
    /// # Errors
    /// When the order is not there, or not so far.
    pub fn step(&self, expedition: Uuid, step: Step) -> Result<Value, NotNow> {
        let mut state = self.state();
        let entry = state.entry(expedition)?;
        let news = step.take(expedition, entry)?;
        Ok(state.say(expedition, news))
    }

    /// Packs only these pieces, by product.
    ///
    /// # Errors
    /// As [`Wms::step`].
    pub fn pack_some(&self, expedition: Uuid, items: &[(Uuid, u64)]) -> Result<Value, NotNow> {
        let mut state = self.state();
        let entry = state.entry(expedition)?;
        let packed =
            items.iter().map(|(product, pieces)| json!({"product": product, "expedited": pieces})).collect();
        let before = std::mem::replace(&mut entry.packed, packed);
        let news = Step::Pack.take(expedition, entry).inspect_err(|_| entry.packed = before)?;
        Ok(state.say(expedition, news))
    }

    /// Gives an order up that it has taken: `incorrect`, with these errors.
    ///
    /// # Errors
    /// As [`Wms::step`].
    pub fn give_up(&self, expedition: Uuid, errors: &Value) -> Result<Value, NotNow> {
        let mut state = self.state();
        let entry = state.entry(expedition)?;
        if !matches!(entry.stage, Stage::Taken | Stage::Picked) {
            return Err(NotNow { expedition, stage: entry.stage });
        }
        entry.stage = Stage::GivenUp;
        Ok(state.say(expedition, json!({"status": "incorrect", "errors": errors})))
    }

    /// Answers by news whether an order that is here is cancelled.
    ///
    /// # Errors
    /// As [`Wms::step`].
    pub fn answer_cancel(&self, expedition: Uuid, is_accepted: bool) -> Result<Value, NotNow> {
        let mut state = self.state();
        let entry = state.entry(expedition)?;
        if !matches!(entry.stage, Stage::Taken | Stage::Picked) {
            return Err(NotNow { expedition, stage: entry.stage });
        }
        if is_accepted {
            entry.stage = Stage::Withdrawn;
            entry.withdrawn = entry.withdrawn.max(entry.number);
        }
        let cancel = if is_accepted { "accepted" } else { "refused" };
        Ok(state.say(expedition, json!({"cancel": cancel})))
    }

    /// Adds news of its own, as they are: for those that contradict the book, or are about nothing that it has.
    pub fn say(&self, news: Value) {
        self.state().news.push_back(news);
    }

    /// The number of news that were not sent yet.
    #[must_use]
    pub fn unsent(&self) -> usize {
        self.state().news.len()
    }

    /// Sends what it has to report, at most [`BATCH`] news at a time, until nothing is left. `send` gets the
    /// `news` of a request; those that it does not take are kept for the next report. Returns how many were
    /// taken.
    ///
    /// # Errors
    /// The first error of `send`.
    pub async fn report<E>(
        &self,
        manner: Manner,
        mut send: impl AsyncFnMut(Vec<Value>) -> Result<(), E>,
    ) -> Result<usize, E> {
        let mut sent = 0;
        loop {
            let batch: Vec<Value> = self.state().news.iter().take(BATCH).cloned().collect();
            if batch.is_empty() {
                return Ok(sent);
            }
            for part in arranged(batch.clone(), manner).chunks(BATCH) {
                send(part.to_vec()).await?;
            }
            sent += batch.len();
            let mut state = self.state();
            for news in batch {
                // It may have forgotten them meanwhile.
                state.news.pop_front_if(|first| *first == news);
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }
}

/// Poisoning is harmless: a call changes the book by one entry.
fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

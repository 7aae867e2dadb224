//! Webhooks: how e-shops hear of changes (specification, part 6; decisions, section 7).
//!
//! # Who takes part
//!
//! - An **event** ([`event`]) is a change that somebody listens to, recorded by the statement that makes the change
//!   ([`record_change!`](crate::record_change)). It has a type, an entity and `data`.
//! - A **subscription** ([`subscription`]) is what the interface calls a webhook: an e-shop's wish to hear of events of
//!   one type (or of all, `*`) at a destination. It has secrets, with which every call is signed ([`signature`]).
//! - A **delivery** ([`delivery`]) is one event on its way to one webhook. While it is to be done it is a row of the
//!   live queue; when it ends (delivered, exhausted, cancelled) it moves to the history, its attempts inside.
//! - An **attempt** is one call. A failed one is followed by the next as the [`schedule`] says, until the last.
//! - A **lane** ([`lane`]) is one webhook as the workers see it: what of it is due goes through its lane, and the queues
//!   carry lanes, never deliveries. A worker *leases* a lane before it sends anything of it. The lease has a *token*,
//!   raised by each lease: what a worker reports under an older one changes nothing.
//!
//! # What is guaranteed
//!
//! - An event is recorded with its change or not at all, so none is lost; a delivery is repeated until a 2xx, so it
//!   arrives at least once, always under the same `webhook-id` (the id of the event).
//! - Two workers never send of one lane under a live lease. A worker that loses its lease starts nothing more.
//! - A lane has its own slots (`maxInFlight`), its own turn and its own failures: a slow or dead destination holds up
//!   no other.
//! - A destination that fails again and again is probed, one call at a time, at growing pauses ([`breaker`]); its backlog
//!   waits meanwhile, and spends no attempts.
//! - A webhook whose destination is gone (410), or did nothing but fail for five days, is disabled, which is audited.
//! - While a webhook is inactive or disabled its deliveries are kept and not sent (a worker in the middle of a turn
//!   notices within a second); deleting it cancels them.
//! - Due times and leases follow the clock of Postgres.
//!
//! # Adding an event type
//!
//! One row of [`event::TYPES`], its name in the CHECK of `webhook.event`, a snapshot in the tests of [`event`]; then
//! name it in the `record_change!` of the change.

pub mod breaker;
pub mod delivery;
pub mod event;
pub mod health;
pub mod lane;
pub mod schedule;
pub mod signature;
pub mod subscription;

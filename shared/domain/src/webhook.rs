//! Webhooks: how e-shops hear of changes (`docs/reference/webhooks.md#webhook`).
//!
//! # Terms
//!
//! - An **event** ([`event`]) is a change that a webhook listens to, recorded by the statement that makes the change
//!   ([`record_change!`](longshore_kernel::record_change)). It has a type, an entity and `data`.
//! - A **test** ([`delivery::send_test`]) is an event that no change has caused: an [`example`](event::example) of a type, sent to
//!   one webhook. Its entity is that webhook, which is how it is [known](event::is_test), and its body says `"test": true`.
//! - **`restored`** ([`delivery::tell_of_restore`]) is an event that no change has caused, either, and that every webhook gets.
//! - A **subscription** ([`subscription`]) is what the API calls a webhook: an e-shop receives events of one type (or all,
//!   `*`) at a destination. Its secrets sign every call ([`signature`](crate::calling::signature)).
//! - A **delivery** ([`delivery`]) is one event on its way to one webhook. It is a row of the live queue until it ends
//!   (delivered, exhausted, cancelled); then it moves to the history, with its attempts.
//! - A **reader** ([`reader`]) is an e-shop or organisation that reads its events, instead of being called.
//! - An **attempt** is one call. After a failure, the [`schedule`] decides when the next one follows.
//! - A **lane** ([`lane`]) is one webhook as the workers see it: its due deliveries go through its lane, and the queues carry
//!   lanes, never deliveries. A worker *leases* a lane before it sends deliveries. Each lease raises a *token*: results that a
//!   worker reports under an older token change nothing.
//!
//! # Guarantees
//!
//! - An event is recorded with its change or not at all, so none is lost; a delivery is repeated until a 2xx, so it
//!   arrives at least once, always under the same `webhook-id` (the id of the event).
//! - Two workers never send for one lane under a live lease. A worker that loses its lease starts no further call.
//! - A lane has its own slots (`maxInFlight`), its own turn and its own failures: a slow or dead destination delays no
//!   other.
//! - A destination that fails repeatedly is probed, one call at a time, at growing intervals ([`breaker`](crate::calling::breaker)); its backlog
//!   waits without using attempts.
//! - A webhook is disabled when its destination answers 410, or when every attempt has failed for five days. The audit has it.
//! - While a webhook is inactive or disabled its deliveries are kept and not sent; deleting it cancels them. Both are
//!   answered when no call can begin any more.
//! - Due times and leases follow the clock of Postgres.
//!
//! # Adding an event type
//!
//! One row of [`event::TYPES`], its name in the CHECK of `webhook.events`, its [example](event::example); then name it in the
//! `record_change!` of the change.

pub mod delivery;
pub mod event;
pub mod health;
pub mod lane;
pub mod reader;
pub mod schedule;
pub mod subscription;

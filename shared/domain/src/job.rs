//! Jobs: recorded work, cut into chunks (`docs/reference/jobs.md#job`).
//!
//! # Words
//!
//! - A **job** is what a caller was promised: a row with its kind, its progress and its end. It belongs to the
//!   organisations of its items, regardless of the caller who started it, and callers who may see all of them can see it.
//! - A **chunk** is a piece of its items, at most so many and so many bytes, cut when the job is accepted. It is the unit
//!   of dispatch, of execution, of retry, of progress and of cancelling.
//! - An **item error** is one item that was refused, with its position, its key, the reason, and the item itself.
//! - A **claim** is the right to execute a chunk: a lease in time, and a token that fences off earlier holders.
//! - A job with an unknown number of items takes **steps**: one chunk at a time, each of which creates the next ([`walking`]).
//! - A chunk that **calls a partner** has no items: it fetches them, and records them as further chunks
//!   ([`fetching`]). That of a job which tests a connection has one item, the connection ([`connection`]).
//! - The **acceptance** number orders jobs, the pages of pulls, and single activations; a **sequence** is what runs one job after
//!   the other: the e-shop's line ([`mod@line`]).
//!
//! # Guarantees
//!
//! A chunk is executed in one transaction, which also counts its progress and ends it: a worker that is killed half-way has
//! completed whole chunks only, and each chunk takes effect once. The queue carries the names of chunks and may lose or
//! double them; [`dispatch`] finds in Postgres what is due, and a claim on what is not due fails.
//!
//! # Life of a job
//!
//! ```text
//! receiving ──▶ queued ──▶ running ──▶ succeeded        every chunk was executed (items may have been refused)
//!     │            │        │    ▲ ──▶ failed           a chunk failed permanently; retry puts it in the queue again
//!     ▼            │        ▼    │ ──▶ cancelled        by a caller
//!  (removed)       │     retrying                       a chunk waits for its next attempt
//!                  └──────────────▶ cancelled
//! ```

pub mod acceptance;
pub mod attention;
pub mod backlog;
pub mod chosen;
pub mod chunk;
pub mod compared;
pub mod connection;
pub mod control;
pub mod dispatch;
mod ending;
mod entry;
pub mod execution;
pub mod failing;
pub mod failures;
pub mod fetching;
pub mod guard;
pub mod halving;
pub mod inspection;
pub mod item_error;
pub mod kind;
pub(crate) mod line;
pub mod mark;
pub mod name;
pub mod outcome;
pub mod payload;
pub mod preview;
pub mod receiving;
pub mod refused;
pub mod retention;
mod room;
pub mod row;
pub mod row_lines;
pub mod search;
pub mod shares;
pub mod suspicion;
pub mod sync_run;
pub mod waiting;
pub mod walking;
pub mod watch;
pub mod width;
pub mod withheld;

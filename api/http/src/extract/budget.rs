//! What the body of a request has in memory: bytes that arrived, what they unfold to, what they are parsed to. It counts until
//! the request is answered, and is refused (429, 503) where it is more than its share
//! ([`longshore_shared::platform::share`]).

use std::sync::{Arc, Mutex, PoisonError};

use http::Extensions;
use longshore_shared::platform::problem::{Problem, TOO_LARGE};
use longshore_shared::platform::share::{Asker, Grant, Ledger};

/// Bytes that are taken together.
const STEP: usize = 16 * 1024;

/// Bytes that the values of one body may have.
pub const MOST: usize = 32 * 1024 * 1024;

/// The memory of one request; cheap to clone. An extension of every request, put there by [`crate::middleware`].
#[derive(Clone, Debug, Default)]
pub struct Budget(Option<Arc<Inner>>);

#[derive(Debug)]
struct Inner {
    ledger: Ledger,
    asker: Asker,
    grant: Mutex<Option<Grant>>,
}

impl Budget {
    /// Of a request that has taken nothing yet.
    #[must_use]
    pub fn new(ledger: Ledger, asker: Asker) -> Self {
        Self(Some(Arc::new(Inner { ledger, asker, grant: Mutex::default() })))
    }

    /// Of a request; without end where no layer said otherwise.
    #[must_use]
    pub fn of(extensions: &Extensions) -> Self {
        extensions.get().cloned().unwrap_or_default()
    }

    /// So many bytes are in memory, or are about to be.
    ///
    /// # Errors
    /// 429 where that is more than its share, 503 where there are no more, 413 where no body may have so many.
    pub fn set(&self, bytes: usize) -> Result<(), Problem> {
        if bytes > MOST {
            return Err(Problem::new(
                &TOO_LARGE,
                "the body has too many values; send them in several requests",
            ));
        }
        let Some(inner) = &self.0 else { return Ok(()) };
        let amount = bytes.next_multiple_of(STEP) as u64;
        let mut grant = inner.grant.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *grant {
            Some(grant) if grant.amount() == amount => {}
            Some(grant) => grant.set(amount)?,
            None => *grant = Some(inner.ledger.take(inner.asker.who(), amount)?),
        }
        Ok(())
    }
}

//! The memory of a request's body: received, decompressed and parsed bytes. It counts until the request is
//! answered, and is refused (429, 503) above its share ([`longshore_kernel::share`]).

use std::sync::{Arc, Mutex, PoisonError};

use http::Extensions;
use longshore_kernel::problem::{Problem, TOO_LARGE};
use longshore_kernel::share::{Asker, Grant, Ledger};

/// Bytes that are taken at once.
const STEP: usize = 16 * 1024;

/// Maximum bytes of the values of one body.
pub const MOST: usize = 32 * 1024 * 1024;

/// The memory of one request; cheap to clone. [`crate::middleware`] adds it to the extensions of every
/// request.
#[derive(Clone, Debug, Default)]
pub struct Budget(Option<Arc<Inner>>);

#[derive(Debug)]
struct Inner {
    ledger: Ledger,
    asker: Asker,
    grant: Mutex<Option<Grant>>,
}

impl Budget {
    /// The budget of a request that has taken nothing yet.
    #[must_use]
    pub fn new(ledger: Ledger, asker: Asker) -> Self {
        Self(Some(Arc::new(Inner { ledger, asker, grant: Mutex::default() })))
    }

    /// The budget of a request; unlimited if no layer set one.
    #[must_use]
    pub fn of(extensions: &Extensions) -> Self {
        extensions.get().cloned().unwrap_or_default()
    }

    /// Sets the number of bytes that are, or will be, in memory.
    ///
    /// # Errors
    /// 429 above its share, 503 if no memory is left, 413 above the limit of any body.
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

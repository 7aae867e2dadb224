//! The receiver's side of Standard Webhooks, by the verifier that its authors publish.

use std::fmt;
use std::sync::Arc;

use standardwebhooks::{Webhook, WebhookError};

use crate::receiver::Receipt;

/// Verifies webhooks against one secret; cheap to clone.
#[derive(Clone)]
pub struct Verifier(Arc<Webhook>);

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verifier(***)")
    }
}

impl Verifier {
    /// A verifier for a secret as shown at creation: `whsec_` followed by the base64 of the key.
    ///
    /// # Errors
    /// When it is not base64.
    pub fn new(secret: &str) -> Result<Self, WebhookError> {
        Webhook::new(secret).map(|webhook| Self(Arc::new(webhook)))
    }

    /// Verifies a request that came to a [`crate::receiver::Receiver`], now.
    ///
    /// # Errors
    /// When a header is missing, the timestamp is more than five minutes away from now, or no signature matches.
    pub fn verify(&self, receipt: &Receipt) -> Result<(), WebhookError> {
        self.0.verify(&receipt.body, &receipt.headers)
    }

    /// The same for a request of any age.
    ///
    /// # Errors
    /// When a header is missing, or no signature matches.
    pub fn verify_of_any_age(&self, receipt: &Receipt) -> Result<(), WebhookError> {
        match self.verify(receipt) {
            Err(WebhookError::TimestampTooOldError | WebhookError::FutureTimestampError) => {}
            verdict => return verdict,
        }
        let header = |name| receipt.header(name).unwrap_or_default();
        let at = header("webhook-timestamp").parse().map_err(|_| WebhookError::InvalidTimestamp)?;
        let expected = self.0.sign(header("webhook-id"), at, &receipt.body)?;
        let is_signed = header("webhook-signature").split(' ').any(|given| given == expected);
        is_signed.then_some(()).ok_or(WebhookError::InvalidSignature)
    }
}

//! Signatures by Standard Webhooks (`webhook-id`, `webhook-timestamp`, `webhook-signature`).
//!
//! The signed text is `{webhook-id}.{webhook-timestamp}.{body}`, the signature its HMAC-SHA-256 in base64 after `v1,`.
//! While a secret is being changed every live one signs, the signatures divided by spaces.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use secrecy::SecretString;
use sha2::Sha256;

use longshore_kernel::crypto::random_bytes;

/// What a shown secret starts with.
pub const PREFIX: &str = "whsec_";

/// Bytes of a secret.
pub(super) const SECRET_BYTES: usize = 32;

/// A new secret.
#[must_use]
pub fn new_secret() -> [u8; SECRET_BYTES] {
    random_bytes()
}

/// A secret as its owner sees it: `whsec_` and its base64.
#[must_use]
pub fn shown(secret: &[u8]) -> SecretString {
    format!("{PREFIX}{}", STANDARD.encode(secret)).into()
}

/// Signs with every live secret of a webhook.
#[derive(Clone)]
pub struct Signer(Vec<Hmac<Sha256>>);

impl Signer {
    /// A signer with these secrets, the newest first.
    pub fn new<S: AsRef<[u8]>>(secrets: impl IntoIterator<Item = S>) -> Self {
        // HMAC takes keys of any length, so none is left out
        Self(secrets.into_iter().filter_map(|s| Hmac::new_from_slice(s.as_ref()).ok()).collect())
    }

    /// Value of `webhook-signature`; the timestamp is in seconds of Unix time.
    #[must_use]
    pub fn sign(&self, webhook_id: &str, timestamp: i64, body: &[u8]) -> String {
        let head = format!("{webhook_id}.{timestamp}.");
        let mut signatures = String::with_capacity(48 * self.0.len());
        for key in &self.0 {
            let mut mac = key.clone();
            mac.update(head.as_bytes());
            mac.update(body);
            if !signatures.is_empty() {
                signatures.push(' ');
            }
            signatures.push_str("v1,");
            STANDARD.encode_string(mac.finalize().into_bytes(), &mut signatures);
        }
        signatures
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signer({} secrets)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use secrecy::ExposeSecret as _;

    use super::*;

    fn key(text: &str) -> Vec<u8> {
        STANDARD.decode(text).unwrap()
    }

    #[test]
    fn the_published_vector_is_signed_as_published() {
        let signer = Signer::new([key("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")]);
        let signature =
            signer.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn every_live_secret_signs() {
        let (new, old) = ([1; 32], [2; 32]);
        let both = Signer::new([new, old]).sign("id", 1, b"body");
        let each = [new, old].map(|secret| Signer::new([secret]).sign("id", 1, b"body"));
        assert_eq!(both, each.join(" "));
    }

    #[test]
    fn a_shown_secret_is_its_prefix_and_32_bytes_of_base64() {
        let shown = shown(&new_secret());
        let text = shown.expose_secret().strip_prefix("whsec_").unwrap();
        assert_eq!(key(text).len(), 32);
    }

    proptest! {
        #[test]
        fn a_signature_binds_id_time_body_and_secret(
            id in "[a-z0-9]{1,20}", at in 0i64..4_000_000_000, body in proptest::collection::vec(any::<u8>(), 0..200),
            secret in any::<[u8; 32]>(), other in any::<[u8; 32]>()
        ) {
            let signed = Signer::new([secret]).sign(&id, at, &body);
            prop_assert_ne!(&signed, &Signer::new([secret]).sign(&format!("{id}x"), at, &body));
            prop_assert_ne!(&signed, &Signer::new([secret]).sign(&id, at + 1, &body));
            let mut longer = body.clone();
            longer.push(0);
            prop_assert_ne!(&signed, &Signer::new([secret]).sign(&id, at, &longer));
            prop_assume!(secret != other);
            prop_assert_ne!(&signed, &Signer::new([other]).sign(&id, at, &body));
        }
    }
}

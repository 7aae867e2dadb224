//! The receiver's side of Standard Webhooks: whether a webhook was signed by who knows the secret, just now.
//!
//! Written apart from the product's signer, from the published text of Standard Webhooks, so that the two can
//! disagree. The signed text is `{webhook-id}.{webhook-timestamp}.{body}`, the signature its HMAC-SHA-256,
//! in base64, after `v1,`; several, divided by spaces, may stand in the header while a secret is being changed.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use http::HeaderMap;
use sha2::Sha256;

use crate::receiver::Receipt;

/// How far a timestamp may be from now, as Standard Webhooks' own libraries have it.
pub const TOLERANCE: Duration = Duration::from_mins(5);

/// Why a webhook is not to be believed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Mistrust {
    /// A header is absent or unreadable.
    #[error("the header {0} is missing or not text")]
    Header(&'static str),
    /// The timestamp is no number of seconds.
    #[error("webhook-timestamp is not a number of seconds")]
    Timestamp,
    /// The timestamp is further from now than [`TOLERANCE`].
    #[error("webhook-timestamp is {0} seconds away from now")]
    Age(u64),
    /// None of the signatures is one by this secret.
    #[error("no signature matches")]
    Signature,
}

/// The secret is not `whsec_` and base64.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a secret is whsec_ followed by base64")]
pub struct BadSecret;

/// Checks webhooks against one secret.
#[derive(Clone)]
pub struct Verifier {
    key: Hmac<Sha256>,
}

impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Verifier(***)")
    }
}

impl Verifier {
    /// A verifier for a secret as shown at creation: `whsec_` followed by the base64 of the key.
    ///
    /// # Errors
    /// [`BadSecret`] when it is something else.
    pub fn new(secret: &str) -> Result<Self, BadSecret> {
        let key = secret.strip_prefix("whsec_").ok_or(BadSecret)?;
        let key = STANDARD.decode(key).map_err(|_| BadSecret)?;
        let key = Hmac::new_from_slice(&key).map_err(|_| BadSecret)?;
        Ok(Self { key })
    }

    /// Checks a request that came to a [`crate::receiver::Receiver`], now.
    ///
    /// # Errors
    /// [`Mistrust`] says why it is not to be believed.
    pub fn verify(&self, receipt: &Receipt) -> Result<(), Mistrust> {
        self.verify_at(&receipt.headers, &receipt.body, SystemTime::now())
    }

    /// Checks headers and body as of a time.
    ///
    /// # Errors
    /// [`Mistrust`] says why they are not to be believed.
    pub fn verify_at(&self, headers: &HeaderMap, body: &[u8], now: SystemTime) -> Result<(), Mistrust> {
        let id = header(headers, "webhook-id")?;
        let timestamp = header(headers, "webhook-timestamp")?;
        let signatures = header(headers, "webhook-signature")?;

        let seconds: u64 = timestamp.parse().map_err(|_| Mistrust::Timestamp)?;
        let now = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let age = now.abs_diff(seconds);
        if age > TOLERANCE.as_secs() {
            return Err(Mistrust::Age(age));
        }

        let mut signed = self.key.clone();
        for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
            signed.update(part);
        }
        let matches = signatures
            .split(' ')
            .filter_map(|signature| signature.strip_prefix("v1,"))
            .filter_map(|signature| STANDARD.decode(signature).ok())
            .any(|signature| signed.clone().verify_slice(&signature).is_ok());
        if matches { Ok(()) } else { Err(Mistrust::Signature) }
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<&'a str, Mistrust> {
    headers.get(name).and_then(|value| value.to_str().ok()).ok_or(Mistrust::Header(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vector that the libraries of Standard Webhooks share.
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    const AT: u64 = 1_614_265_330;
    const BODY: &[u8] = br#"{"test": 2432232314}"#;
    const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

    fn headers(id: &str, at: &str, signature: &str) -> HeaderMap {
        [("webhook-id", id), ("webhook-timestamp", at), ("webhook-signature", signature)]
            .into_iter()
            .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
            .collect::<HeaderMap>()
    }

    fn check(headers: &HeaderMap, body: &[u8], at: u64) -> Result<(), Mistrust> {
        Verifier::new(SECRET).unwrap().verify_at(headers, body, UNIX_EPOCH + Duration::from_secs(at))
    }

    fn vector() -> HeaderMap {
        headers(ID, &AT.to_string(), SIGNATURE)
    }

    #[test]
    fn the_published_vector_verifies() {
        assert_eq!(check(&vector(), BODY, AT), Ok(()));
    }

    #[test]
    fn the_vector_of_the_rust_library_verifies() {
        let verifier = Verifier::new("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD").unwrap();
        let headers = headers(
            "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk",
            "1649367553",
            "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=",
        );
        let body = br#"{"email":"test@example.com","username":"test_user"}"#;
        let now = UNIX_EPOCH + Duration::from_secs(1_649_367_553);
        assert_eq!(verifier.verify_at(&headers, body, now), Ok(()));
    }

    #[test]
    fn one_good_signature_among_several_is_enough() {
        let several = format!("v1,AAAA v1a,{} {SIGNATURE}", &SIGNATURE[3..]);
        assert_eq!(check(&headers(ID, &AT.to_string(), &several), BODY, AT), Ok(()));
    }

    #[test]
    fn a_changed_byte_of_body_id_or_time_is_noticed() {
        let other_id = headers("msg_p5jXN8AQM9LWM0D4loKWxJel", &AT.to_string(), SIGNATURE);
        let other_time = headers(ID, &(AT + 1).to_string(), SIGNATURE);
        assert_eq!(check(&vector(), br#"{"test": 2432232315}"#, AT), Err(Mistrust::Signature));
        assert_eq!(check(&other_id, BODY, AT), Err(Mistrust::Signature));
        assert_eq!(check(&other_time, BODY, AT), Err(Mistrust::Signature));
    }

    #[test]
    fn a_signature_of_another_version_or_cut_short_does_not_count() {
        for signature in [format!("v2,{}", &SIGNATURE[3..]), SIGNATURE[..8].to_owned(), "v1,".to_owned()] {
            let headers = headers(ID, &AT.to_string(), &signature);
            assert_eq!(check(&headers, BODY, AT), Err(Mistrust::Signature), "{signature}");
        }
    }

    #[test]
    fn a_timestamp_is_believed_for_five_minutes_either_way() {
        for (now, verdict) in [
            (AT + 300, Ok(())),
            (AT - 300, Ok(())),
            (AT + 301, Err(Mistrust::Age(301))),
            (AT - 301, Err(Mistrust::Age(301))),
        ] {
            assert_eq!(check(&vector(), BODY, now), verdict);
        }
        assert_eq!(check(&headers(ID, "yesterday", SIGNATURE), BODY, AT), Err(Mistrust::Timestamp));
    }

    #[test]
    fn an_absent_header_is_named() {
        for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
            let mut headers = vector();
            headers.remove(name);
            assert_eq!(check(&headers, BODY, AT), Err(Mistrust::Header(name)));
        }
    }

    #[test]
    fn a_secret_of_another_form_is_refused() {
        for secret in ["MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_!", "WHSEC_MfKQ"] {
            assert_eq!(Verifier::new(secret).err(), Some(BadSecret), "{secret}");
        }
    }
}

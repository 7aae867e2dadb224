//! Secrets at rest and in comparison: sealing by AES-256-GCM, hashing, random tokens.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Nonce};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rand::TryRngCore;
use rand::rngs::OsRng;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};

/// Why a secret could not be sealed or opened. Never holds any of it.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum VaultError {
    /// The setting is not `<key id>:<base64 of 32 bytes>`.
    #[error(
        "an encryption key must be <key id>:<base64 of 32 bytes>, with an id of 1 to 32 letters, digits, '-' or '_'"
    )]
    MalformedKey,
    /// Sealed by a key that this process does not have.
    #[error("sealed by key {0:?}, which is not among the configured ones")]
    UnknownKey(String),
    /// The stored bytes are not what was sealed for this place.
    #[error("the encrypted value cannot be opened")]
    Corrupted,
}

/// Seals and opens secrets. The first key seals; every key opens.
#[derive(Clone)]
pub struct Vault(Arc<Vec<(String, Aes256Gcm)>>, Arc<OnceLock<Transit>>);

/// Seals what is on its way to another process of the service. There may be thousands of these a second, too many for the
/// random nonces of one key over the years: each process has a key of its own, which is sealed beside, and counts.
struct Transit {
    key: Aes256Gcm,
    sealed_key: Vec<u8>,
    count: AtomicU64,
}

/// The place for which the key of a process is sealed.
const TRANSIT_KEY: &str = "transit.key";

const NONCE_BYTES: usize = 12;

impl Vault {
    /// Reads the keys of the setting.
    pub fn new(keys: &SecretString) -> Result<Self, VaultError> {
        let keys = keys.expose_secret().split(',').map(Self::read_key).collect::<Result<Vec<_>, _>>()?;
        Ok(Self(Arc::new(keys), Arc::default()))
    }

    fn read_key(text: &str) -> Result<(String, Aes256Gcm), VaultError> {
        let (id, key) = text.trim().split_once(':').ok_or(VaultError::MalformedKey)?;
        let named = (1..=32).contains(&id.len())
            && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        let key = STANDARD.decode(key).map_err(|_| VaultError::MalformedKey)?;
        let cipher = Aes256Gcm::new_from_slice(&key).map_err(|_| VaultError::MalformedKey)?;
        if named { Ok((id.to_owned(), cipher)) } else { Err(VaultError::MalformedKey) }
    }

    /// Seals a secret for one place (say `webhook.secret:<id>`): moved elsewhere, it does not open.
    pub fn seal(&self, place: &str, secret: &[u8]) -> Result<Vec<u8>, VaultError> {
        let (id, cipher) = self.0.first().ok_or(VaultError::MalformedKey)?;
        let nonce: [u8; NONCE_BYTES] = random_bytes();
        let sealed = cipher
            .encrypt(&Nonce::from(nonce), Payload { msg: secret, aad: place.as_bytes() })
            .map_err(|_| VaultError::Corrupted)?;
        let length = u8::try_from(id.len()).map_err(|_| VaultError::MalformedKey)?;
        let mut bytes = Vec::with_capacity(1 + id.len() + NONCE_BYTES + sealed.len());
        bytes.push(length);
        bytes.extend_from_slice(id.as_bytes());
        bytes.extend_from_slice(&nonce);
        bytes.extend_from_slice(&sealed);
        Ok(bytes)
    }

    /// Seals what another process opens for this place within a moment. It is not for what is stored.
    pub fn seal_in_transit(&self, place: &str, text: &[u8]) -> Result<Vec<u8>, VaultError> {
        let transit = if let Some(transit) = self.1.get() {
            transit
        } else {
            let key: [u8; 32] = random_bytes();
            let sealed_key = self.seal(TRANSIT_KEY, &key)?;
            let transit = Transit { key: Aes256Gcm::new(&key.into()), sealed_key, count: AtomicU64::new(0) };
            self.1.get_or_init(|| transit)
        };
        let count = transit.count.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        let sealed = transit
            .key
            .encrypt(&counted(count), Payload { msg: text, aad: place.as_bytes() })
            .map_err(|_| VaultError::Corrupted)?;
        let length = u8::try_from(transit.sealed_key.len()).map_err(|_| VaultError::MalformedKey)?;
        Ok([&[length], &transit.sealed_key[..], &count, &sealed].concat())
    }

    /// Opens what was sealed in transit for this place.
    pub fn open_in_transit(&self, place: &str, bytes: &[u8]) -> Result<Vec<u8>, VaultError> {
        let (length, rest) = bytes.split_first().ok_or(VaultError::Corrupted)?;
        let (sealed_key, rest) = rest.split_at_checked(usize::from(*length)).ok_or(VaultError::Corrupted)?;
        let (count, sealed) = rest.split_first_chunk().ok_or(VaultError::Corrupted)?;
        let key = self.open(TRANSIT_KEY, sealed_key)?;
        let key = Aes256Gcm::new_from_slice(&key).map_err(|_| VaultError::Corrupted)?;
        key.decrypt(&counted(*count), Payload { msg: sealed, aad: place.as_bytes() })
            .map_err(|_| VaultError::Corrupted)
    }

    /// Opens what was sealed for this place.
    pub fn open(&self, place: &str, bytes: &[u8]) -> Result<Vec<u8>, VaultError> {
        let (length, rest) = bytes.split_first().ok_or(VaultError::Corrupted)?;
        let (id, rest) = rest.split_at_checked(usize::from(*length)).ok_or(VaultError::Corrupted)?;
        let (nonce, sealed) = rest.split_at_checked(NONCE_BYTES).ok_or(VaultError::Corrupted)?;
        let nonce: [u8; NONCE_BYTES] = nonce.try_into().map_err(|_| VaultError::Corrupted)?;
        let (_, cipher) = self
            .0
            .iter()
            .find(|(known, _)| known.as_bytes() == id)
            .ok_or_else(|| VaultError::UnknownKey(String::from_utf8_lossy(id).into_owned()))?;
        cipher
            .decrypt(&Nonce::from(nonce), Payload { msg: sealed, aad: place.as_bytes() })
            .map_err(|_| VaultError::Corrupted)
    }
}

/// The nonce of a count.
fn counted(count: [u8; 8]) -> Nonce<aes_gcm::aead::consts::U12> {
    let mut nonce = [0; NONCE_BYTES];
    nonce[NONCE_BYTES - 8..].copy_from_slice(&count);
    Nonce::from(nonce)
}

impl Vault {
    /// What everything begins with that the newest key seals.
    #[must_use]
    pub fn mark(&self) -> Vec<u8> {
        self.0
            .first()
            .map_or_else(Vec::new, |(id, _)| u8::try_from(id.len()).into_iter().chain(id.bytes()).collect())
    }

    /// Seals by the newest key what any of them sealed for this place.
    pub fn reseal(&self, place: &str, bytes: &[u8]) -> Result<Vec<u8>, VaultError> {
        self.seal(place, &self.open(place, bytes)?)
    }
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Vault({} keys)", self.0.len())
    }
}

/// Random bytes of the operating system.
///
/// # Panics
///
/// When the operating system has none: no secret can be kept then.
#[must_use]
#[expect(clippy::expect_used, reason = "a system without randomness can keep no promise")]
pub fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    OsRng.try_fill_bytes(&mut bytes).expect("the operating system gives random bytes");
    bytes
}

/// A random number in -1.0 to 1.0: the place of a wait within its jitter.
#[must_use]
pub fn random_offset() -> f64 {
    f64::from(i32::from_le_bytes(random_bytes()).max(-i32::MAX)) / f64::from(i32::MAX)
}

/// SHA-256.
#[must_use]
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// SHA-256 of what arrives in pieces.
#[derive(Clone, Debug, Default)]
pub struct Hasher(Sha256);

impl Hasher {
    /// Takes the next piece.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The hash of all pieces.
    #[must_use]
    pub fn finish(self) -> [u8; 32] {
        self.0.finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: &str) -> String {
        format!("{id}:{}", STANDARD.encode(random_bytes::<32>()))
    }

    #[test]
    fn a_sealed_value_opens_only_in_its_place() {
        let vault = Vault::new(&key("k1").into()).unwrap();
        let sealed = vault.seal("webhook.secret:1", b"hush").unwrap();
        assert_eq!(vault.open("webhook.secret:1", &sealed).unwrap(), b"hush");
        assert_eq!(vault.open("webhook.secret:2", &sealed), Err(VaultError::Corrupted));
    }

    #[test]
    fn what_is_in_transit_opens_in_another_process_only_unchanged_and_in_its_place() {
        let key = key("k1");
        let [sender, receiver] = [(); 2].map(|()| Vault::new(&key.clone().into()).unwrap());
        let sealed = ["one", "two"].map(|text| sender.seal_in_transit("notice:1", text.as_bytes()).unwrap());
        assert_eq!(receiver.open_in_transit("notice:1", &sealed[0]).unwrap(), b"one");
        assert_eq!(receiver.open_in_transit("notice:1", &sealed[1]).unwrap(), b"two");
        assert_eq!(receiver.open_in_transit("notice:2", &sealed[0]), Err(VaultError::Corrupted));
        for at in 0..sealed[0].len() {
            let mut changed = sealed[0].clone();
            changed[at] ^= 1;
            assert!(receiver.open_in_transit("notice:1", &changed).is_err());
            assert!(receiver.open_in_transit("notice:1", &sealed[0][..at]).is_err());
        }
        assert!(sender.open("notice:1", &sealed[0]).is_err(), "and it is not what is stored");
    }

    #[test]
    fn an_older_key_still_opens_and_a_missing_one_is_named() {
        let (old, new) = (key("old"), key("new"));
        let sealed = Vault::new(&old.clone().into()).unwrap().seal("p", b"hush").unwrap();
        let both = Vault::new(&format!("{new},{old}").into()).unwrap();
        assert_eq!(both.open("p", &sealed).unwrap(), b"hush");
        let only_new = Vault::new(&new.into()).unwrap();
        assert_eq!(only_new.open("p", &sealed), Err(VaultError::UnknownKey("old".into())));
    }

    #[test]
    fn a_resealed_value_has_the_id_of_the_newest_key() {
        let (old, new) = (key("old"), key("new"));
        let sealed = Vault::new(&old.clone().into()).unwrap().seal("p", b"hush").unwrap();
        let both = Vault::new(&format!("{new},{old}").into()).unwrap();
        assert!(!sealed.starts_with(&both.mark()));
        let again = both.reseal("p", &sealed).unwrap();
        assert!(again.starts_with(&both.mark()));
        assert_eq!(Vault::new(&new.into()).unwrap().open("p", &again).unwrap(), b"hush");
    }

    #[test]
    fn any_damage_is_noticed() {
        let vault = Vault::new(&key("k1").into()).unwrap();
        let sealed = vault.seal("p", b"hush").unwrap();
        for i in 0..sealed.len() {
            let mut damaged = sealed.clone();
            damaged[i] ^= 1;
            assert!(vault.open("p", &damaged).is_err(), "byte {i}");
            assert!(vault.open("p", &sealed[..i]).is_err(), "cut at {i}");
        }
    }

    #[test]
    fn a_lot_is_within_its_bounds() {
        assert!((0..1_000).all(|_| (-1.0..=1.0).contains(&random_offset())));
    }

    #[test]
    fn malformed_keys_are_refused() {
        for text in ["", "k1", "k1:", "k1:AAAA", ":AAAA", "k 1:AAAA"] {
            assert_eq!(
                Vault::new(&text.to_owned().into()).unwrap_err(),
                VaultError::MalformedKey,
                "{text:?}"
            );
        }
    }
}

//! Passwords: Argon2id, off the threads that serve requests (decisions, section 3).
//!
//! A hash takes tens of milliseconds and 19 MiB on purpose. So only [`AT_ONCE`] are computed at once in a process,
//! whoever asks, and who would wait for too long is sent away instead of being queued without end.

use std::sync::LazyLock;
use std::time::Duration;

use argon2::password_hash::{PasswordHash, PasswordHasher as _, PasswordVerifier as _, SaltString};
use argon2::{Algorithm, Argon2, Params, Version};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::sync::Semaphore;

use crate::platform::crypto::random_bytes;
use crate::platform::problem::{Problem, RATE_LIMITED};

/// Hashes that are computed at once.
pub const AT_ONCE: usize = 4;

/// How long one may wait for its turn.
const PATIENCE: Duration = Duration::from_secs(10);

static TURNS: Semaphore = Semaphore::const_new(AT_ONCE);

/// What an account without a password, or no account at all, is verified against: it costs what any other does, and no
/// password opens it.
static NOBODY: LazyLock<Option<String>> = LazyLock::new(|| {
    let secret: [u8; 32] = random_bytes();
    compute(&secret).ok()
});

fn argon2id() -> Argon2<'static> {
    // the least that OWASP recommends: 19 MiB, two passes, one lane; the hash says so, and can be verified when this moves
    Argon2::new(Algorithm::Argon2id, Version::V0x13, Params::default())
}

fn compute(password: &[u8]) -> Result<String, argon2::password_hash::Error> {
    let salt: [u8; 16] = random_bytes();
    let salt = SaltString::encode_b64(&salt)?;
    Ok(argon2id().hash_password(password, &salt)?.to_string())
}

/// Hashes a password for keeping.
pub async fn hash(password: &SecretString) -> Result<String, Problem> {
    let password = password.clone();
    in_turn(move || compute(password.expose_secret().as_bytes()))
        .await?
        .map_err(|error| Problem::internal(error.to_string()))
}

/// Whether the password is the one that was hashed. Takes the same time where there is no hash: then it is not.
pub async fn verify(password: &SecretString, hash: Option<String>) -> Result<bool, Problem> {
    let password = password.clone();
    in_turn(move || {
        let known = hash.as_deref().and_then(|hash| PasswordHash::new(hash).ok());
        let nobody = NOBODY.as_deref().and_then(|hash| PasswordHash::new(hash).ok());
        let matches = |hash: &PasswordHash<'_>| {
            argon2id().verify_password(password.expose_secret().as_bytes(), hash).is_ok()
        };
        match (known, nobody) {
            (Some(hash), _) => matches(&hash),
            (None, Some(nobody)) => {
                matches(&nobody);
                false
            }
            (None, None) => false,
        }
    })
    .await
}

async fn in_turn<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Problem> {
    let turn = tokio::time::timeout(PATIENCE, TURNS.acquire())
        .await
        .map_err(|_| {
            Problem::new(&RATE_LIMITED, "too many passwords are being verified at this moment")
                .retry_after(PATIENCE)
        })?
        .map_err(Problem::internal)?;
    let done = tokio::task::spawn_blocking(move || {
        let done = work();
        // kept to the end of the work, also where nobody waits for it any more
        drop(turn);
        done
    });
    done.await.map_err(Problem::internal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_password_opens_its_own_hash_and_nothing_else_does() {
        let secret = SecretString::from("correct horse");
        let kept = hash(&secret).await.unwrap();
        assert!(kept.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{kept}");
        assert!(!kept.contains("correct"));
        assert_ne!(kept, hash(&secret).await.unwrap(), "a salt of its own");
        assert!(verify(&secret, Some(kept.clone())).await.unwrap());
        assert!(!verify(&SecretString::from("correct horsf"), Some(kept)).await.unwrap());
        assert!(!verify(&secret, None).await.unwrap());
        assert!(!verify(&secret, Some("nonsense".to_owned())).await.unwrap());
    }
}

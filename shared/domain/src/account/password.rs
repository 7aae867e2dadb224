//! Passwords: Argon2id, off the threads that serve requests (`docs/reference/accounts.md#passwords`).
//!
//! A hash takes tens of milliseconds and 19 MiB on purpose. So a process computes at most [`AT_ONCE`] of them at once, and
//! refuses requests that would wait too long.

use std::collections::HashSet;
use std::sync::LazyLock;
use std::time::Duration;

use argon2::password_hash::{PasswordHash, PasswordHasher as _, PasswordVerifier as _, SaltString};
use argon2::{Algorithm, Argon2, Params, Version};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::sync::Semaphore;

use longshore_kernel::crypto::random_bytes;
use longshore_kernel::problem::{Problem, RATE_LIMITED};

/// Hashes that are computed at once.
pub const AT_ONCE: usize = 4;

/// How long one may wait for its turn.
const PATIENCE: Duration = Duration::from_secs(10);

/// Of the most common passwords, those that are long enough to be taken at all: so few that no index is needed.
const COMMON: &str = include_str!("password/common.txt");

static TURNS: Semaphore = Semaphore::const_new(AT_ONCE);

/// What an account without a password, or no account at all, is verified against: it costs what any other does, and no
/// password opens it.
static UNKNOWN: LazyLock<Option<String>> = LazyLock::new(|| {
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

/// Whether a hash has other parameters than the current ones: the password is then hashed again at the next login.
#[must_use]
pub fn is_outdated(hash: &str) -> bool {
    let Ok(hash) = PasswordHash::new(hash) else { return false };
    let costs = |params: &Params| (params.m_cost(), params.t_cost(), params.p_cost());
    hash.algorithm != Algorithm::Argon2id.ident()
        || hash.version != Some(Version::V0x13.into())
        || Params::try_from(&hash).map_or(true, |params| costs(&params) != costs(argon2id().params()))
}

/// Whether a password is one of those that are tried first, however its letters are written.
#[must_use]
pub fn is_common(password: &str) -> bool {
    let password = password.to_lowercase();
    COMMON.lines().any(|common| common == password)
}

/// Different characters that a new password has at least.
pub const DIFFERENT: usize = 5;

/// Whether a password has too few different characters, or only blanks.
#[must_use]
pub fn is_simple(password: &str) -> bool {
    let different: HashSet<char> = password.chars().collect();
    different.len() < DIFFERENT || different.iter().all(|c| c.is_whitespace())
}

/// Whether the password is the one that was hashed. Takes the same time where there is no hash: then it is not.
pub async fn verify(password: &SecretString, hash: Option<String>) -> Result<bool, Problem> {
    let password = password.clone();
    in_turn(move || {
        let known = hash.as_deref().and_then(|hash| PasswordHash::new(hash).ok());
        let unknown = UNKNOWN.as_deref().and_then(|hash| PasswordHash::new(hash).ok());
        let matches = |hash: &PasswordHash<'_>| {
            argon2id().verify_password(password.expose_secret().as_bytes(), hash).is_ok()
        };
        match (known, unknown) {
            (Some(hash), _) => matches(&hash),
            (None, Some(unknown)) => {
                matches(&unknown);
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
            Problem::new(&RATE_LIMITED, "too many passwords are being verified; try again in a moment")
                .retry_after(PATIENCE)
        })?
        .map_err(Problem::internal)?;
    let done = tokio::task::spawn_blocking(move || {
        let done = work();
        // kept to the end of the work, even if no caller waits for it any more
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

    #[test]
    fn a_common_password_is_known_in_any_case() {
        for common in ["123qweasdzxc", "sonyericsson", "SonyEricsson", "1QAZ2WSX3EDC"] {
            assert!(is_common(common), "{common}");
        }
        for other in ["correct horse", "sonyericssons", "", "# Of the 30,000"] {
            assert!(!is_common(other), "{other}");
        }
        let shortest = *crate::account::person::PASSWORD_LENGTH.start();
        let listed: Vec<_> = COMMON.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(
            listed
                .iter()
                .all(|common| common.chars().count() >= shortest && *common == common.to_lowercase())
        );
        assert!(listed.len() > 200);
    }

    #[test]
    fn a_simple_password_has_four_different_characters_or_only_blanks() {
        for simple in [
            "",
            "aaaaaaaaaaaa",
            "            ",
            "abcdabcdabcd",
            "žščržščržščr",
            " \t\n\u{a0}\u{2003}\u{3000}",
        ] {
            assert!(is_simple(simple), "{simple:?}");
        }
        for other in ["abcdeabcdeab", "correct horse", "    a b c d "] {
            assert!(!is_simple(other), "{other:?}");
        }
    }

    #[test]
    fn a_hash_is_outdated_when_the_parameters_have_moved() {
        let hash = compute(b"correct horse").unwrap();
        assert!(!is_outdated(&hash) && !is_outdated("nonsense"));
        for moved in [
            hash.replace("m=19456", "m=9728"),
            hash.replace("t=2", "t=1"),
            hash.replace("argon2id", "argon2i"),
            hash.replace("v=19", "v=16"),
        ] {
            assert!(is_outdated(&moved), "{moved}");
        }
    }
}

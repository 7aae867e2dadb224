//! How often one may try to log in: so many times an account, so many times a client address, in a window.
//!
//! Counted in Redis, so that every process counts the same. **Open when Redis is away**: that must never fail a request
//! (decisions, section 2). An attempt is counted before its password is verified, or many at once would slip through; one
//! that succeeds is forgiven.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::LazyLock;
use std::time::Duration;

use redis::Script;

use crate::job::queue::Queues;
use crate::platform::crypto::sha256;
use crate::platform::problem::{Problem, RATE_LIMITED};

/// Attempts on one account in a [`WINDOW`].
pub const PER_ACCOUNT: u32 = 10;
/// Attempts from one address in a [`WINDOW`]; many people may share one.
pub const PER_ADDRESS: u32 = 100;
/// It begins with the first attempt.
pub const WINDOW: Duration = Duration::from_mins(5);

/// How long Redis may take to answer.
const PATIENCE: Duration = Duration::from_millis(500);

/// KEYS: a counter. ARGV: its window in milliseconds, its limit. Answers in how many milliseconds to try again; 0: now.
static COUNT: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
local count = redis.call('INCR', KEYS[1])
if count == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
if count > tonumber(ARGV[2]) then return math.max(redis.call('PTTL', KEYS[1]), 1) end
return 0",
    )
});

/// KEYS: a counter, from which one is taken back.
static FORGIVE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
local count = tonumber(redis.call('GET', KEYS[1]) or '0')
if count > 0 then redis.call('DECR', KEYS[1]) end
return count",
    )
});

/// An attempt to log in.
#[derive(Debug)]
pub struct Attempt<'q> {
    queues: &'q Queues,
    account: String,
    address: Option<String>,
}

impl<'q> Attempt<'q> {
    /// On an account of a kind, from an address.
    #[must_use]
    pub fn new(queues: &'q Queues, kind: &str, login: &str, address: Option<IpAddr>) -> Self {
        // no address of a person in the name of a key
        let account = hex::encode(sha256(login.to_lowercase().as_bytes()));
        let prefix = queues.prefix();
        Self {
            queues,
            account: format!("{prefix}login:{kind}:{account}"),
            address: address.map(|address| format!("{prefix}login:address:{}", site(address))),
        }
    }

    /// Counts the attempt; refuses it where there were too many.
    pub async fn admit(&self) -> Result<(), Problem> {
        let waits = futures::future::join(
            self.count(Some(&self.account), PER_ACCOUNT),
            self.count(self.address.as_ref(), PER_ADDRESS),
        )
        .await;
        let wait = waits.0.max(waits.1);
        if wait.is_zero() {
            return Ok(());
        }
        // a header of whole seconds: the next one that is past the wait
        let wait = wait + Duration::from_millis(999);
        Err(Problem::new(&RATE_LIMITED, "too many attempts to log in; try again later").retry_after(wait))
    }

    /// Takes the attempt back: it was a good one.
    pub async fn forgive(&self) {
        for key in std::iter::once(&self.account).chain(&self.address) {
            let mut connection = self.queues.connection();
            let call = FORGIVE.key(key);
            let _ = tokio::time::timeout(PATIENCE, call.invoke_async::<i64>(&mut connection)).await;
        }
    }

    async fn count(&self, key: Option<&String>, limit: u32) -> Duration {
        let Some(key) = key else { return Duration::ZERO };
        let mut call = COUNT.key(key);
        call.arg(WINDOW.as_secs() * 1000).arg(limit);
        let mut connection = self.queues.connection();
        let asked = tokio::time::timeout(PATIENCE, call.invoke_async::<u64>(&mut connection)).await;
        let Ok(Ok(wait)) = asked else {
            tracing::warn!("an attempt to log in goes uncounted: Redis does not answer");
            return Duration::ZERO;
        };
        Duration::from_millis(wait)
    }
}

/// Whom an address belongs to: of IPv6, everybody has a whole network.
fn site(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_address_counts_as_its_site() {
        let site = |text: &str| super::site(text.parse().unwrap()).to_string();
        assert_eq!(site("192.0.2.7"), "192.0.2.7");
        assert_eq!(site("::ffff:192.0.2.7"), "192.0.2.7");
        assert_eq!(site("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
    }
}

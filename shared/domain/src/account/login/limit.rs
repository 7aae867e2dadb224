//! The limit of login attempts, by client address and by account. The first attempts are free; then each wait is twice as long as
//! the one before, up to a bound.
//!
//! - **Address first.** An address over its limit is refused before anything else is read or counted: it can neither delay an
//!   account nor fill Redis.
//! - **An account is counted by its id**, regardless of the spelling of the login; an unknown login by its canonical form.
//! - **No account is locked.** Attempts are counted per account and address, and per account in total. The total does not apply
//!   to addresses that logged in to the account recently: an attacker elsewhere delays only logins from other addresses, by
//!   [`LONGEST_WAIT`] at most.
//! - **A code has few digits.** The known addresses of an account have a total of their own for codes of its second factor, so
//!   that many of them have no more guesses than one.
//! - **A successful login does not count**, and makes its address known. A right password without the code that it needs does not
//!   count either, but makes nothing known: whoever has only the password would have free guesses from each of their addresses.
//!
//! Counted in Redis, so that every process counts the same. **Open when Redis is away**: that must never fail a request. An
//! attempt is counted before its password is verified, or many at once would slip through.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::LazyLock;
use std::time::Duration;

use redis::{AsyncCommands as _, Script};
use uuid::Uuid;

use longshore_kernel::crypto::sha256;
use longshore_kernel::problem::{Problem, RATE_LIMITED};
use longshore_kernel::proxy::site;
use longshore_kernel::queue::Queues;

/// Attempts from one address before it has to wait; many people may share one.
pub const FREE_OF_ADDRESS: u32 = 100;
/// The same of all addresses of an IPv6 /48, which one site or customer may have.
pub const FREE_OF_NETWORK: u32 = 400;
/// Attempts on one account from one address before they have to wait.
pub const FREE_OF_PAIR: u32 = 5;
/// Attempts on one account, from all addresses that are not known, before they have to wait; and codes for it from all that are.
pub const FREE_OF_ACCOUNT: u32 = 10;
/// The wait after the last free attempt is a second, and twice as long after each more, up to this.
pub const LONGEST_WAIT: Duration = Duration::from_mins(5);
/// Without an attempt for so long, all is forgotten.
pub const KEPT: Duration = Duration::from_hours(1);
/// An address is known for so long after a good login.
pub const KNOWN: Duration = Duration::from_hours(30 * 24);
/// Addresses that are known of an account: the latest.
const MOST_KNOWN: i64 = 20;

/// How long Redis may take to answer.
const PATIENCE: Duration = Duration::from_millis(500);

/// KEYS: counters. ARGV: the longest wait and how long they are kept, in milliseconds; then the free attempts of each. Counts an
/// attempt in all of them, or, where one has to wait, in none; returns for how many milliseconds it has to wait.
static COUNT: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local wait = 0
for _, key in ipairs(KEYS) do
  wait = math.max(wait, tonumber(redis.call('HGET', key, 'next') or '0') - now)
end
if wait > 0 then return wait end
for index, key in ipairs(KEYS) do
  local over = redis.call('HINCRBY', key, 'count', 1) - tonumber(ARGV[index + 2])
  if over >= 0 then
    local pause = math.min(1000 * 2 ^ math.min(over, 30), tonumber(ARGV[1]))
    redis.call('HSET', key, 'next', string.format('%d', now + pause))
  end
  redis.call('PEXPIRE', key, ARGV[2])
end
return 0",
    )
});

/// KEYS: counters; one attempt is subtracted from each. ARGV: their free attempts.
static FORGIVE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
for index, key in ipairs(KEYS) do
  local count = tonumber(redis.call('HGET', key, 'count') or '0')
  if count <= 1 then
    redis.call('DEL', key)
  else
    redis.call('HINCRBY', key, 'count', -1)
    if count <= tonumber(ARGV[index]) then redis.call('HDEL', key, 'next') end
  end
end",
    )
});

/// KEYS: the addresses that are known of an account, by the time of their last good login. ARGV: an address, how many are kept,
/// for how many milliseconds.
static MEET: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
redis.call('ZADD', KEYS[1], redis.call('TIME')[1], ARGV[1])
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -1 - tonumber(ARGV[2]))
redis.call('PEXPIRE', KEYS[1], ARGV[3])",
    )
});

/// Whose password is tried.
#[derive(Clone, Debug)]
pub enum Whose<'a> {
    /// This account's.
    Account(Uuid),
    /// No account has this login, in its canonical form.
    Unknown(&'a str),
}

/// A counter in Redis, and its free attempts.
#[derive(Clone, Debug)]
struct Counter {
    key: String,
    free: u32,
}

/// An attempt to log in.
#[derive(Debug)]
pub struct Attempt<'q> {
    queues: &'q Queues,
    address: Option<IpAddr>,
    counted: Vec<Counter>,
    account: Option<Tried>,
}

/// The account of an attempt.
#[derive(Clone, Debug)]
struct Tried {
    /// Its name in keys.
    name: String,
    /// Whether it knows the address.
    is_known: bool,
}

impl<'q> Attempt<'q> {
    /// From an address, if it is known.
    #[must_use]
    pub fn new(queues: &'q Queues, address: Option<IpAddr>) -> Self {
        Self { queues, address: address.map(site), counted: Vec::new(), account: None }
    }

    /// An attempt on an account that is known, which is counted.
    ///
    /// # Errors
    /// There were too many.
    pub async fn on(
        queues: &'q Queues,
        kind: &str,
        account: Uuid,
        address: Option<IpAddr>,
    ) -> Result<Self, Problem> {
        let mut attempt = Self::new(queues, address);
        attempt.admit_address().await?;
        attempt.admit_account(kind, &Whose::Account(account)).await?;
        Ok(attempt)
    }

    /// Counts the attempt by its address; refuses it where there were too many.
    pub async fn admit_address(&mut self) -> Result<(), Problem> {
        let Some(site) = self.address else { return Ok(()) };
        let mut counters = vec![self.counter(&format!("address:{site}"), FREE_OF_ADDRESS)];
        if let Some(network) = network(site) {
            counters.push(self.counter(&format!("network:{network}"), FREE_OF_NETWORK));
        }
        self.admit(counters).await
    }

    /// Counts the attempt by its account; refuses it where there were too many.
    pub async fn admit_account(&mut self, kind: &str, whose: &Whose<'_>) -> Result<(), Problem> {
        let account = match whose {
            Whose::Account(id) => format!("{kind}:{id}"),
            // no address of a person in the name of a key
            Whose::Unknown(login) => format!("{kind}:{}", hex::encode(sha256(login.as_bytes()))),
        };
        let is_known = self.is_known(&account).await;
        let mut counters = Vec::new();
        if let Some(site) = self.address {
            counters.push(self.counter(&format!("pair:{account}:{site}"), FREE_OF_PAIR));
        }
        if !is_known {
            counters.push(self.counter(&format!("account:{account}"), FREE_OF_ACCOUNT));
        }
        self.account = Some(Tried { name: account, is_known });
        self.admit(counters).await
    }

    /// Counts the code of a second factor, after the attempt was counted by its account; refuses it where there were too many.
    pub async fn admit_code(&mut self) -> Result<(), Problem> {
        match &self.account {
            Some(Tried { name, is_known: true }) => {
                let counter = self.counter(&format!("code:{name}"), FREE_OF_ACCOUNT);
                self.admit(vec![counter]).await
            }
            // the total of the account has it
            _ => Ok(()),
        }
    }

    /// Takes the attempt back: it was no wrong guess.
    pub async fn forgive(&self) {
        let mut call = FORGIVE.prepare_invoke();
        for counter in &self.counted {
            call.key(&counter.key).arg(counter.free);
        }
        let mut connection = self.queues.connection();
        let _ = tokio::time::timeout(PATIENCE, call.invoke_async::<()>(&mut connection)).await;
    }

    /// Makes the address known to the account: the login was complete.
    pub async fn meet(&self) {
        let (Some(Tried { name, .. }), Some(site)) = (&self.account, self.address) else { return };
        let mut call = MEET.key(self.known(name));
        call.arg(site.to_string()).arg(MOST_KNOWN).arg(milliseconds(KNOWN));
        let mut connection = self.queues.connection();
        let _ = tokio::time::timeout(PATIENCE, call.invoke_async::<()>(&mut connection)).await;
    }

    async fn is_known(&self, account: &str) -> bool {
        let Some(site) = self.address else { return false };
        let mut connection = self.queues.connection();
        let asked = connection.zscore::<_, _, Option<f64>>(self.known(account), site.to_string());
        matches!(tokio::time::timeout(PATIENCE, asked).await, Ok(Ok(Some(_))))
    }

    /// The key of the addresses that are known of an account.
    fn known(&self, account: &str) -> String {
        self.key(&format!("known:{account}"))
    }

    async fn admit(&mut self, counters: Vec<Counter>) -> Result<(), Problem> {
        let mut call = COUNT.prepare_invoke();
        call.arg(milliseconds(LONGEST_WAIT)).arg(milliseconds(KEPT));
        for counter in &counters {
            call.key(&counter.key).arg(counter.free);
        }
        let mut connection = self.queues.connection();
        let asked = tokio::time::timeout(PATIENCE, call.invoke_async::<u64>(&mut connection)).await;
        let Ok(Ok(wait)) = asked else {
            tracing::warn!("a login attempt was not counted: Redis does not answer");
            return Ok(());
        };
        if wait > 0 {
            // a header of whole seconds: the next one that is past the wait
            let wait = Duration::from_millis(wait + 999);
            return Err(
                Problem::new(&RATE_LIMITED, "too many login attempts; try again later").retry_after(wait)
            );
        }
        self.counted.extend(counters);
        Ok(())
    }

    fn counter(&self, name: &str, free: u32) -> Counter {
        Counter { key: self.key(name), free }
    }

    /// All in one slot of a cluster, since a script takes several.
    fn key(&self, name: &str) -> String {
        format!("{}{{login}}:{name}", self.queues.prefix())
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The /48 that a site of IPv6 is in.
fn network(site: IpAddr) -> Option<IpAddr> {
    match site {
        IpAddr::V6(v6) => {
            let [a, b, c, ..] = v6.segments();
            Some(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0).into())
        }
        IpAddr::V4(_) => None,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_site_of_ipv6_has_a_network() {
        let network = |text: &str| super::network(text.parse().unwrap()).map(|network| network.to_string());
        assert_eq!(network("2001:db8:1:2::").as_deref(), Some("2001:db8:1::"));
        assert_eq!(network("192.0.2.7"), None);
    }
}

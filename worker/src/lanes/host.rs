//! Bounds the calls under way at one host, by organisation: nothing says that a host is theirs, and they may have any number of
//! webhooks there.
//!
//! - **Together, they have as many calls as one webhook may have**, [`MOST`], in this process. A host is a name or address with its port.
//! - **Lanes share them evenly.** A lane begins no call while it has its part of them, so one whose calls hang leaves the others theirs.
//! - **A lane without room waits for a call to end.** Where there are more lanes than calls, its slice ends meanwhile, and it goes to the
//!   end of the queue like any other.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longshore_kernel::ids::OrganisationId;
use tokio::sync::Notify;
use url::{Host, Url};

/// Calls under way of an organisation at one host, as many as `maxInFlight` may be.
pub const MOST: usize = 256;

/// An organisation, and a host with its port.
type Key = (OrganisationId, String, u16);

/// The hosts that the lanes of this process call; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Hosts(Arc<Mutex<HashMap<Key, Arc<Called>>>>);

/// What lanes of one organisation have at one host.
#[derive(Debug, Default)]
struct Called {
    lanes: AtomicUsize,
    calls: AtomicUsize,
    freed: Notify,
}

impl Hosts {
    /// Adds a lane that begins to run. One whose destination cannot be called calls no host.
    pub(super) fn join(&self, organisation: OrganisationId, url: Option<&Url>) -> Guest {
        let key = url.and_then(|url| Some((organisation, name(&url.host()?), url.port_or_known_default()?)));
        let key = key.unwrap_or((organisation, String::new(), 0));
        let mut hosts = self.called();
        let called = Arc::clone(hosts.entry(key.clone()).or_default());
        called.lanes.fetch_add(1, Ordering::Relaxed);
        drop(hosts);
        Guest { hosts: self.clone(), key, called }
    }

    fn called(&self) -> MutexGuard<'_, HashMap<Key, Arc<Called>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One host has one name here, however it is written.
fn name(host: &Host<&str>) -> String {
    match host {
        Host::Domain(name) => name.strip_suffix('.').unwrap_or(name).to_owned(),
        Host::Ipv4(address) => address.to_string(),
        Host::Ipv6(address) => address.to_canonical().to_string(),
    }
}

/// A lane that runs.
#[derive(Debug)]
pub(super) struct Guest {
    hosts: Hosts,
    key: Key,
    called: Arc<Called>,
}

impl Guest {
    /// Whether a lane that has `own` calls under way may have one more of its part.
    pub(super) fn has_part(&self, own: usize) -> bool {
        let lanes = self.called.lanes.load(Ordering::Relaxed).max(1);
        own < (MOST / lanes).max(1)
    }

    /// Begins a call, if there is room for it.
    pub(super) fn begin(&self) -> Option<Calling> {
        let more = |calls: usize| (calls < MOST).then_some(calls + 1);
        self.called.calls.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Calling(Arc::clone(&self.called)))
    }

    /// Waits until a call of some lane has ended.
    pub(super) async fn freed(&self) {
        self.called.freed.notified().await;
    }

    /// Lets another lane look: this one needs no room any more.
    pub(super) fn pass_on(&self) {
        self.called.freed.notify_one();
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let mut hosts = self.hosts.called();
        if self.called.lanes.fetch_sub(1, Ordering::Relaxed) == 1 {
            hosts.remove(&self.key);
        }
    }
}

/// A call under way; dropping it ends that.
#[derive(Debug)]
pub(super) struct Calling(Arc<Called>);

impl Drop for Calling {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::Relaxed);
        self.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    const A: OrganisationId = OrganisationId::from_u128(1 << 100);
    const B: OrganisationId = OrganisationId::from_u128(2 << 100);

    fn join(hosts: &Hosts, organisation: OrganisationId, url: &str) -> Guest {
        hosts.join(organisation, Some(&Url::parse(url).unwrap()))
    }

    fn begin_all(guest: &Guest) -> Vec<Calling> {
        let mut begun = Vec::new();
        while guest.has_part(begun.len()) {
            let Some(calling) = guest.begin() else { break };
            begun.push(calling);
        }
        begun
    }

    #[test]
    fn lanes_at_one_host_share_what_one_of_them_may_have_alone() {
        let hosts = Hosts::default();
        let first = join(&hosts, A, "https://shop.example/1");
        let of_first = begin_all(&first);
        assert_eq!(of_first.len(), MOST);
        let second = join(&hosts, A, "https://SHOP.example.:443/2");
        assert!(second.has_part(0) && second.begin().is_none(), "none is left");
        assert_eq!(begin_all(&join(&hosts, B, "https://shop.example/3")).len(), MOST, "another organisation");
        assert_eq!(begin_all(&join(&hosts, A, "https://shop.example:8443/")).len(), MOST, "another port");
        assert_eq!(begin_all(&join(&hosts, A, "https://other.example/")).len(), MOST, "another host");
        // what ends becomes the second's, up to its part
        drop(of_first);
        assert!(second.freed().now_or_never().is_some());
        let of_second = begin_all(&second);
        assert_eq!((of_second.len(), begin_all(&first).len()), (MOST / 2, MOST / 2));
        drop((first, second, of_second));
        assert!(hosts.called().is_empty());
    }

    #[test]
    fn any_number_of_lanes_has_no_more_calls() {
        let hosts = Hosts::default();
        let lanes: Vec<_> =
            (0..2 * MOST).map(|n| join(&hosts, A, &format!("https://[::ffff:1.2.3.4]/{n}"))).collect();
        let begun: Vec<_> = lanes.iter().flat_map(begin_all).collect();
        assert_eq!(begun.len(), MOST);
        assert!(join(&hosts, A, "https://1.2.3.4").begin().is_none(), "the same address");
    }
}

//! Room for connections: how many are open, in total and by address, and which one makes room for the next.
//!
//! A connection is idle while no request of it runs: before the head of the first one is complete, too. So clients that open
//! connections and send nothing, or never end a head, take no place from others: theirs are the first to be closed.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longshore_kernel::metrics::Metrics;
use tokio_util::sync::CancellationToken;

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// By its client, or after an answer that was its last.
    Done,
    /// It had no request for too long.
    Idle,
    /// Its client did not read an answer.
    Unread,
    /// It was idle, and another one needed its place.
    Displaced,
    /// It got no place.
    Refused,
    /// There was no memory for its head.
    Memory,
    /// The process stops.
    Stopped,
}

impl End {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Idle => "idle",
            Self::Unread => "unread",
            Self::Displaced => "displaced",
            Self::Refused => "refused",
            Self::Memory => "memory",
            Self::Stopped => "stopped",
        }
    }
}

/// The room of a listener; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Room(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    most: usize,
    most_of_address: usize,
    metrics: Metrics,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// of the next connection, and of the next that becomes idle
    number: u64,
    open: HashMap<u64, Open>,
    /// the connections that are idle, the one that has been so for longest first
    idle: BTreeMap<u64, u64>,
    addresses: HashMap<IpAddr, Address>,
}

#[derive(Debug)]
struct Open {
    /// nothing where it counts in total only
    address: Option<IpAddr>,
    /// its key in the idle ones
    idle: Option<u64>,
    displaced: CancellationToken,
}

/// The connections of one address.
#[derive(Debug, Default)]
struct Address {
    open: usize,
    idle: BTreeMap<u64, u64>,
}

impl Room {
    pub(crate) fn new(most: u32, most_of_address: u32, metrics: Metrics) -> Self {
        // exported before the first of them, so that their rate is visible
        for end in [End::Refused, End::Memory] {
            metrics.connections_ended(end.word(), 0);
        }
        let [most, most_of_address] = [most, most_of_address].map(|most| most as usize);
        Self(Arc::new(Inner { most, most_of_address, metrics, state: Mutex::default() }))
    }

    /// A place for a connection of an address, if need be that of an idle one; nothing where no place is left and none is idle.
    /// Without an address, it counts in total only.
    pub(crate) fn enter(&self, address: Option<IpAddr>) -> Option<Place> {
        let mut state = self.lock();
        let of_address = address.and_then(|address| state.addresses.get(&address));
        let is_address_full = of_address.is_some_and(|of| of.open >= self.0.most_of_address);
        if is_address_full && !state.displace(address) {
            return None;
        }
        if state.open.len() >= self.0.most && !state.displace(None) {
            return None;
        }
        let (number, displaced) = (state.next(), CancellationToken::new());
        state.open.insert(number, Open { address, idle: None, displaced: displaced.clone() });
        if let Some(address) = address {
            state.addresses.entry(address).or_default().open += 1;
        }
        state.rests(number);
        self.0.metrics.connections(state.open.len());
        Some(Place { room: self.clone(), number, displaced })
    }

    /// Ends an idle connection, without another one that takes its place.
    pub(crate) fn make(&self) {
        self.lock().displace(None);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn next(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// Ends the connection of an address, or of any, that has been idle for longest; returns whether there is one.
    fn displace(&mut self, address: Option<IpAddr>) -> bool {
        let idle = match address {
            Some(address) => self.addresses.get(&address).map(|of| &of.idle),
            None => Some(&self.idle),
        };
        let Some((_, &number)) = idle.and_then(BTreeMap::first_key_value) else { return false };
        let Some(displaced) = self.leaves(number) else { return false };
        displaced.cancel();
        true
    }

    /// A connection becomes idle.
    fn rests(&mut self, number: u64) {
        let turn = self.next();
        let Some(open) = self.open.get_mut(&number) else { return };
        open.idle = Some(turn);
        self.idle.insert(turn, number);
        if let Some(of) = open.address.and_then(|address| self.addresses.get_mut(&address)) {
            of.idle.insert(turn, number);
        }
    }

    /// A connection is no longer idle; returns whether it still has its place.
    fn works(&mut self, number: u64) -> bool {
        let Some(open) = self.open.get_mut(&number) else { return false };
        if let Some(turn) = open.idle.take() {
            self.idle.remove(&turn);
            if let Some(of) = open.address.and_then(|address| self.addresses.get_mut(&address)) {
                of.idle.remove(&turn);
            }
        }
        true
    }

    fn leaves(&mut self, number: u64) -> Option<CancellationToken> {
        self.works(number);
        let open = self.open.remove(&number)?;
        if let Some(address) = open.address
            && let Some(of) = self.addresses.get_mut(&address)
        {
            of.open -= 1;
            if of.open == 0 {
                self.addresses.remove(&address);
            }
        }
        Some(open.displaced)
    }
}

/// The place of a connection, until it is dropped or another one takes it.
#[derive(Debug)]
pub(crate) struct Place {
    room: Room,
    number: u64,
    displaced: CancellationToken,
}

impl Place {
    /// A request begins on an idle connection; returns false if that has lost its place.
    pub(crate) fn works(&self) -> bool {
        self.room.lock().works(self.number)
    }

    /// Its last request has ended.
    pub(crate) fn rests(&self) {
        self.room.lock().rests(self.number);
    }

    /// Returns when another connection has its place.
    pub(crate) async fn displaced(&self) {
        self.displaced.cancelled().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.room.lock();
        state.leaves(self.number);
        self.room.0.metrics.connections(state.open.len());
    }
}

#[cfg(test)]
mod tests {
    use longshore_kernel::proxy::site;

    use super::*;

    fn room(most: u32, most_of_address: u32) -> Room {
        Room::new(most, most_of_address, Metrics::new())
    }

    fn at(text: &str) -> IpAddr {
        site(text.parse().unwrap())
    }

    fn is_displaced(place: &Place) -> bool {
        place.displaced.is_cancelled()
    }

    #[test]
    fn the_connection_that_has_been_idle_for_longest_makes_room() {
        let room = room(3, 3);
        let [first, second, third] =
            ["192.0.2.1", "192.0.2.2", "192.0.2.3"].map(|a| room.enter(Some(at(a))).unwrap());
        assert!(first.works());
        first.rests();
        assert!(third.works());
        let fourth = room.enter(Some(at("192.0.2.4"))).unwrap();
        assert!(is_displaced(&second) && !is_displaced(&first));
        assert!(!second.works(), "it begins no request any more");
        let fifth = room.enter(Some(at("192.0.2.5"))).unwrap();
        assert!(is_displaced(&first) && !is_displaced(&third) && !is_displaced(&fourth));
        assert!(fourth.works() && fifth.works());
        assert!(room.enter(Some(at("192.0.2.6"))).is_none(), "a running request is not cut off");
        drop(second);
        assert!(room.enter(Some(at("192.0.2.6"))).is_none(), "its place was taken before");
        drop(third);
        let sixth = room.enter(Some(at("192.0.2.6"))).unwrap();
        drop((first, fourth, fifth, sixth));
        let state = room.lock();
        assert!(state.open.is_empty() && state.idle.is_empty() && state.addresses.is_empty());
    }

    #[test]
    fn an_address_makes_room_for_itself_and_proxies_are_not_counted_by_address() {
        let room = room(10, 2);
        let other = room.enter(Some(at("192.0.2.2"))).unwrap();
        let [first, second] = [(); 2].map(|()| room.enter(Some(at("192.0.2.1"))).unwrap());
        let third = room.enter(Some(at("192.0.2.1"))).unwrap();
        assert!(is_displaced(&first) && !is_displaced(&second) && !is_displaced(&other));
        assert!(second.works() && third.works());
        assert!(room.enter(Some(at("192.0.2.1"))).is_none());
        assert!(room.enter(Some(at("192.0.2.3"))).is_some());
        let proxied: Vec<_> = (0..5).map(|_| room.enter(None).unwrap()).collect();
        assert!(!proxied.iter().any(is_displaced));
    }

    #[test]
    fn an_address_of_ipv6_counts_as_its_network() {
        let room = room(10, 1);
        let first = room.enter(Some(at("2001:db8:1:2::1"))).unwrap();
        let other = room.enter(Some(at("2001:db8:1:3::1"))).unwrap();
        assert!(!is_displaced(&first));
        let same = room.enter(Some(at("2001:db8:1:2:3:4:5:6"))).unwrap();
        assert!(is_displaced(&first) && !is_displaced(&other) && !is_displaced(&same));
        let mapped = room.enter(Some(at("::ffff:192.0.2.1"))).unwrap();
        let plain = room.enter(Some(at("192.0.2.1"))).unwrap();
        assert!(is_displaced(&mapped) && !is_displaced(&plain));
    }
}

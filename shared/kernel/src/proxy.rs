//! The address of the client behind the operator's proxies.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use ipnet::IpNet;

/// The proxies that are believed.
#[derive(Clone, Debug, Default)]
pub struct Proxies(Arc<[IpNet]>);

impl Proxies {
    /// Those in these subnets.
    #[must_use]
    pub fn new(subnets: &[IpNet]) -> Self {
        Self(subnets.into())
    }

    /// Whether this is one of them.
    #[must_use]
    pub fn trusts(&self, peer: IpAddr) -> bool {
        self.0.iter().any(|subnet| subnet.contains(&peer.to_canonical()))
    }

    /// The client of a connection: its peer or, if that is a proxy, the client that the proxy names. In a chain of proxies,
    /// each has appended the address of its peer, so the last address that is not a proxy is the client; the client itself
    /// wrote everything before it.
    pub fn client<'a>(&self, peer: IpAddr, forwarded: impl DoubleEndedIterator<Item = &'a str>) -> IpAddr {
        let mut client = peer.to_canonical();
        for text in forwarded.rev() {
            if !self.trusts(client) {
                break;
            }
            let Ok(address) = text.trim().parse::<IpAddr>() else { break };
            client = address.to_canonical();
        }
        client
    }
}

/// The address that a client counts as: of IPv6, a client has a whole /64.
#[must_use]
pub fn site(address: IpAddr) -> IpAddr {
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
    use super::*;

    #[test]
    fn a_client_of_ipv6_counts_as_its_network() {
        let site = |text: &str| site(text.parse().unwrap()).to_string();
        assert_eq!(site("192.0.2.7"), "192.0.2.7");
        assert_eq!(site("::ffff:192.0.2.7"), "192.0.2.7");
        assert_eq!(site("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
    }

    #[test]
    fn only_a_proxy_is_believed_whom_it_speaks_for() {
        let proxies = Proxies::new(&["10.0.0.0/8".parse().unwrap()]);
        let client = |peer: &str, forwarded: &str| {
            proxies.client(peer.parse().unwrap(), forwarded.split(',')).to_string()
        };
        assert_eq!(client("192.0.2.1", "198.51.100.1"), "192.0.2.1", "anybody may write that header");
        assert_eq!(client("10.0.0.1", "198.51.100.1"), "198.51.100.1");
        assert_eq!(client("::ffff:10.0.0.1", "198.51.100.1"), "198.51.100.1");
        assert_eq!(client("10.0.0.1", "203.0.113.9, 198.51.100.1, 10.0.0.2"), "198.51.100.1");
        assert_eq!(client("10.0.0.1", "nonsense"), "10.0.0.1");
        assert_eq!(client("10.0.0.1", ""), "10.0.0.1");
    }
}

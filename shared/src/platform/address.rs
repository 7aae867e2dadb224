//! Which addresses an outbound call may reach.
//!
//! A destination comes from outside, so it must never lead back inside: into this machine, its network, or the metadata
//! service of its cloud (decisions, section 7). The same [`Guard`] judges an address that is written out in a URL when
//! it is stored, and the address that is really connected to when it is called. An address that carries another one
//! (IPv4 in IPv6, by mapping, translation or 6to4) is judged by what it carries.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use ipnet::IpNet;
use url::{Host, Url};

/// Judges addresses; cheap to clone.
#[derive(Clone, Debug)]
pub struct Guard(Arc<[IpNet]>);

impl Guard {
    /// Lets public addresses through, and those in `allowed` subnets.
    #[must_use]
    pub fn new(allowed: &[IpNet]) -> Self {
        Self(allowed.into())
    }

    /// Whether an address may be reached.
    #[must_use]
    pub fn permits(&self, address: IpAddr) -> bool {
        let carried = match address {
            IpAddr::V4(_) => None,
            IpAddr::V6(v6) => carried(v6).map(IpAddr::V4),
        };
        let listed = |a: IpAddr| self.0.iter().any(|net| net.contains(&a));
        listed(address)
            || carried.is_some_and(listed)
            || match (carried, address) {
                (Some(IpAddr::V4(v4)), _) | (None, IpAddr::V4(v4)) => is_public_v4(v4),
                (_, IpAddr::V6(v6)) => is_public_v6(v6),
                (Some(IpAddr::V6(_)), IpAddr::V4(_)) => false,
            }
    }

    /// Whether a URL names a host, or an address that may be reached. A name is judged when it is resolved.
    #[must_use]
    pub fn permits_url(&self, url: &Url) -> bool {
        match url.host() {
            Some(Host::Domain(_)) => true,
            Some(Host::Ipv4(v4)) => self.permits(v4.into()),
            Some(Host::Ipv6(v6)) => self.permits(v6.into()),
            None => false,
        }
    }
}

/// The IPv4 address that an IPv6 one stands for.
#[expect(clippy::many_single_char_names, reason = "the eight segments of an address have no better names")]
fn carried(v6: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, g, h] = v6.segments();
    let v4 = |high: u16, low: u16| {
        let ([w, x], [y, z]) = (high.to_be_bytes(), low.to_be_bytes());
        Some(Ipv4Addr::new(w, x, y, z))
    };
    match [a, b, c, d, e, f] {
        // ::ffff:0:0/96 mapped; ::ffff:0:0:0/96 translated (RFC 2765); 64:ff9b::/96 NAT64 (RFC 6052)
        [0, 0, 0, 0, 0, 0xffff] | [0, 0, 0, 0, 0xffff, 0] | [0x64, 0xff9b, 0, 0, 0, 0] => v4(g, h),
        // ::/96 compatible (RFC 4291), where it is more than :: and ::1
        [0, 0, 0, 0, 0, 0] if g != 0 => v4(g, h),
        // 2002::/16 6to4 (RFC 3056)
        [0x2002, high, low, ..] => v4(high, low),
        _ => None,
    }
}

/// Whether an address is out in the world (RFC 6890 and its successors).
fn is_public_v4(v4: Ipv4Addr) -> bool {
    let [a, b, c, _] = v4.octets();
    !(a == 0
        || v4.is_private()
        || v4.is_loopback()
        || v4.is_link_local() // with 169.254.169.254, the metadata service of most clouds
        || (a == 100 && b & 0xc0 == 64) // shared by carriers; with the metadata service of another cloud
        || (a == 192 && b == 0 && c == 0)
        || (a == 192 && b == 88 && c == 99)
        || (a == 198 && b & 0xfe == 18)
        || v4 == Ipv4Addr::new(168, 63, 129, 16) // public by its number; inside of Azure, its platform
        || a >= 224) // multicast, reserved, broadcast
}

/// The same for an address that carries no other.
fn is_public_v6(v6: Ipv6Addr) -> bool {
    let [a, b, c, d, ..] = v6.segments();
    !(v6.is_unspecified()
        || v6.is_loopback()
        || v6.is_multicast()
        || a & 0xfe00 == 0xfc00 // unique local; with fd00:ec2::254, a metadata service
        || a & 0xffc0 == 0xfe80 // link-local
        || a & 0xffc0 == 0xfec0 // site-local, as it was
        || (a == 0x64 && b == 0xff9b && c == 1) // NAT64 of a local network
        || (a == 0x100 && b == 0 && c == 0 && d == 0) // discarded
        || (a == 0x2001 && b == 0)) // Teredo: carries an address that it hides
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permits(text: &str) -> bool {
        Guard::new(&[]).permits(text.parse().unwrap())
    }

    #[test]
    fn public_addresses_may_be_reached() {
        for address in
            ["93.184.216.34", "1.1.1.1", "100.128.0.1", "172.32.0.1", "192.0.2.1", "2606:4700::1111"]
        {
            assert!(permits(address), "{address}");
        }
    }

    #[test]
    fn addresses_of_inside_may_not() {
        for address in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.100.100.200",
            "127.0.0.1",
            "127.9.9.9",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.192",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
            "100::1",
            "64:ff9b:1::1",
            "2001::1",
        ] {
            assert!(!permits(address), "{address}");
        }
    }

    #[test]
    fn an_address_inside_another_is_judged_by_what_it_is() {
        for address in [
            "::ffff:127.0.0.1",
            "::ffff:0:127.0.0.1",
            "64:ff9b::127.0.0.1",
            "64:ff9b::a9fe:a9fe",
            "::127.0.0.1",
            "2002:7f00:1::",
            "2002:a00:1::1",
        ] {
            assert!(!permits(address), "{address}");
        }
        for address in ["::ffff:1.1.1.1", "64:ff9b::1.1.1.1", "2002:101:101::1"] {
            assert!(permits(address), "{address}");
        }
    }

    #[test]
    fn every_spelling_of_a_url_comes_to_the_same_address() {
        let guard = Guard::new(&[]);
        for url in [
            "https://127.0.0.1/",
            "https://127.1/",
            "https://2130706433/",
            "https://0x7f000001/",
            "https://0x7f.1/",
            "https://0177.0.0.1/",
            "https://017700000001/",
            "https://127.0.0.1./",
            "https://%31%32%37.0.0.1/",
            "https://[::1]/",
            "https://[::ffff:7f00:1]/",
            "https://[0:0:0:0:0:ffff:127.0.0.1]/",
            "https://[64:ff9b::7f00:1]/",
            "https://①②⑦.⓪.⓪.①/",
            "https://0/",
            "https://169.254.169.254/latest",
            "https://[fe80::1]/",
        ] {
            assert!(!guard.permits_url(&Url::parse(url).unwrap()), "{url}");
        }
        assert!(guard.permits_url(&Url::parse("https://shop.example/hook").unwrap()));
        assert!(guard.permits_url(&Url::parse("https://1.1.1.1/hook").unwrap()));
    }

    #[test]
    fn the_platform_address_of_a_cloud_is_refused_in_every_spelling_and_its_neighbours_are_not() {
        let guard = Guard::new(&[]);
        for host in [
            "168.63.129.16",
            "168.63.129.16.",
            "168.63.33040",
            "168.4161808",
            "2822734096",
            "0xa83f8110",
            "0xA8.0x3F.0x81.0x10",
            "0250.077.0201.020",
            "025017700420",
            "%31%36%38.63.129.16",
            "①⑥⑧.⑥③.①②⑨.①⑥",
            "[::ffff:168.63.129.16]",
            "[::ffff:a83f:8110]",
            "[0:0:0:0:0:ffff:a83f:8110]",
            "[::ffff:0:168.63.129.16]",
            "[::168.63.129.16]",
            "[64:ff9b::a83f:8110]",
            "[64:ff9b::168.63.129.16]",
            "[64:ff9b:1::a83f:8110]",
            "[2002:a83f:8110::1]",
            "[2002:a83f:8110::]",
        ] {
            assert!(!guard.permits_url(&Url::parse(&format!("https://{host}/")).unwrap()), "{host}");
        }
        for address in ["168.63.129.15", "168.63.129.17", "::ffff:168.63.129.17", "2002:a83f:8111::1"] {
            assert!(permits(address), "{address}");
        }
    }

    #[test]
    fn an_allowed_subnet_opens_itself_and_what_carries_it() {
        let guard = Guard::new(&["127.0.0.0/8".parse().unwrap(), "fd00::/64".parse().unwrap()]);
        for address in ["127.0.0.1", "::ffff:127.0.0.1", "fd00::7"] {
            assert!(guard.permits(address.parse().unwrap()), "{address}");
        }
        for address in ["10.0.0.1", "::1", "fd01::7"] {
            assert!(!guard.permits(address.parse().unwrap()), "{address}");
        }
    }
}

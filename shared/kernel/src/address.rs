//! Which addresses an outbound call may reach.
//!
//! A destination is untrusted input, so it must never lead to this machine, its network, or the metadata service of its
//! cloud (`docs/reference/webhooks.md#destinations`). The same [`Guard`] judges an address that is written out in a URL
//! when it is stored, and the address that is really connected to when it is called. An address that carries another one
//! (IPv4 in IPv6, by mapping, translation or 6to4) is judged by the embedded one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
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

/// The IPv4 address that is embedded in an IPv6 one.
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

/// IPv4 blocks that no destination lives in: IANA's special-purpose registry, multicast, and one address of a cloud.
const SPECIAL_V4: &[Ipv4Net] = &[
    v4(0, 0, 0, 0, 8),
    v4(10, 0, 0, 0, 8),
    v4(100, 64, 0, 0, 10), // shared by carriers; with the metadata service of a cloud
    v4(127, 0, 0, 0, 8),
    v4(168, 63, 129, 16, 32), // public by its number; inside of Azure, its platform
    v4(169, 254, 0, 0, 16),   // link-local; with 169.254.169.254, the metadata service of most clouds
    v4(172, 16, 0, 0, 12),
    v4(192, 0, 0, 0, 24),
    v4(192, 0, 2, 0, 24),
    v4(192, 31, 196, 0, 24),
    v4(192, 52, 193, 0, 24),
    v4(192, 88, 99, 0, 24),
    v4(192, 168, 0, 0, 16),
    v4(192, 175, 48, 0, 24),
    v4(198, 18, 0, 0, 15),
    v4(198, 51, 100, 0, 24),
    v4(203, 0, 113, 0, 24),
    v4(224, 0, 0, 0, 3), // multicast, reserved, broadcast
];

/// What IANA has assigned to hosts of the public internet …
const GLOBAL_V6: Ipv6Net = v6(0x2000, 0, 0, 3);

/// … less the blocks of its special-purpose registry. 6to4 is judged by the address that it carries.
const SPECIAL_V6: &[Ipv6Net] = &[
    v6(0x2001, 0, 0, 23), // protocols: Teredo, benchmarks, ORCHID
    v6(0x2001, 0xdb8, 0, 32),
    v6(0x2620, 0x4f, 0x8000, 48),
    v6(0x3fff, 0, 0, 20),
];

const fn v4(a: u8, b: u8, c: u8, d: u8, length: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), length)
}

const fn v6(a: u16, b: u16, c: u16, length: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0), length)
}

/// Whether an address is a host's on the public internet.
fn is_public_v4(v4: Ipv4Addr) -> bool {
    !SPECIAL_V4.iter().any(|net| net.contains(&v4))
}

/// The same for an address that carries no other.
fn is_public_v6(v6: Ipv6Addr) -> bool {
    GLOBAL_V6.contains(&v6) && !SPECIAL_V6.iter().any(|net| net.contains(&v6))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permits(text: &str) -> bool {
        Guard::new(&[]).permits(text.parse().unwrap())
    }

    #[test]
    fn public_addresses_may_be_reached() {
        for address in [
            "93.184.216.34",
            "1.1.1.1",
            "100.128.0.1",
            "172.32.0.1",
            "192.0.3.1",
            "2606:4700::1111",
            "2001:200::1",
        ] {
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
            "192.0.2.1",
            "192.31.196.1",
            "192.52.193.1",
            "192.88.99.1",
            "192.168.1.1",
            "192.175.48.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::5",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
            "100::1",
            "100:0:0:1::1",
            "64:ff9b:1::1",
            "2001::1",
            "2001:2::1",
            "2001:10::1",
            "2001:20::1",
            "2001:db8::1",
            "2620:4f:8000::1",
            "3fff::1",
            "4000::1",
            "5f00::1",
        ] {
            assert!(!permits(address), "{address}");
        }
    }

    #[test]
    fn an_embedded_address_is_judged_by_itself() {
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
    fn an_allowed_subnet_also_allows_addresses_that_embed_it() {
        let guard = Guard::new(&["127.0.0.0/8".parse().unwrap(), "fd00::/64".parse().unwrap()]);
        for address in ["127.0.0.1", "::ffff:127.0.0.1", "fd00::7"] {
            assert!(guard.permits(address.parse().unwrap()), "{address}");
        }
        for address in ["10.0.0.1", "::1", "fd01::7"] {
            assert!(!guard.permits(address.parse().unwrap()), "{address}");
        }
    }
}

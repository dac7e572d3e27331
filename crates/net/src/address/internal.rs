//! Which IP addresses are internal: this machine, its link, and the metadata services of clouds.
//!
//! IPv6 addresses that stand for an IPv4 address (mapped, compatible, translated, NAT64, 6to4, Teredo)
//! are classified by that address. Private networks are not internal: forges and clusters run there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether an address belongs to this machine, its link or the metadata service of its cloud.
pub fn is_internal(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_internal_v4(address),
        IpAddr::V6(address) => {
            is_internal_v6(address) || embedded(address).into_iter().any(is_internal_v4)
        }
    }
}

fn is_internal_v4(address: Ipv4Addr) -> bool {
    // Metadata services outside the link-local range: Alibaba, Oracle, Azure.
    let metadata = [
        Ipv4Addr::new(100, 100, 100, 200),
        Ipv4Addr::new(192, 0, 0, 192),
        Ipv4Addr::new(168, 63, 129, 16),
    ];
    address.is_loopback()
        || address.is_link_local()
        || address.is_unspecified()
        || address.is_broadcast()
        || address.is_multicast()
        || address.octets()[0] == 0
        || metadata.contains(&address)
}

fn is_internal_v6(address: Ipv6Addr) -> bool {
    // The metadata, time and credentials services of AWS, and the metadata service of Google.
    let is_aws = address.segments()[..2] == [0xfd00, 0x0ec2];
    let google = Ipv6Addr::new(0xfd20, 0x00ce, 0, 0, 0, 0, 0, 0x0254);
    address.is_loopback()
        || address.is_unspecified()
        || address.is_multicast()
        || address.is_unicast_link_local()
        || is_aws
        || address == google
}

/// The IPv4 addresses that an IPv6 address may be translated to.
fn embedded(address: Ipv6Addr) -> Vec<Ipv4Addr> {
    let octets = address.octets();
    let at = |indices: [usize; 4]| Ipv4Addr::from(indices.map(|index| octets[index]));
    let last = at([12, 13, 14, 15]);
    match address.segments() {
        // Mapped, translated and compatible; `::` and `::1` are IPv6 addresses of their own.
        [0, 0, 0, 0, 0, 0xffff, ..] | [0, 0, 0, 0, 0xffff, 0, ..] => vec![last],
        [0, 0, 0, 0, 0, 0, ..] => vec![last],
        // NAT64 (RFC 6052).
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => vec![last],
        // NAT64 for local use (RFC 8215): the position of the address depends on the length of the
        // prefix, which only the operator of the translator knows.
        [0x64, 0xff9b, 1, ..] => {
            let forms = [
                [12, 13, 14, 15],
                [6, 7, 9, 10],
                [7, 9, 10, 11],
                [9, 10, 11, 12],
            ];
            let candidates = forms.map(at).into_iter();
            candidates.filter(|it| it.octets()[0] != 0).collect()
        }
        // 6to4.
        [0x2002, ..] => vec![at([2, 3, 4, 5])],
        // Teredo: the server, and the client with its bits inverted.
        [0x2001, 0, ..] => vec![at([4, 5, 6, 7]), Ipv4Addr::from(!u32::from(last))],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_internal_text(text: &str) -> bool {
        is_internal(text.parse().expect(text))
    }

    #[test]
    fn this_machine_its_link_and_clouds_are_internal() {
        for text in [
            "127.0.0.1",
            "127.9.9.9",
            "0.0.0.0",
            "0.1.2.3",
            "255.255.255.255",
            "224.0.0.1",
            "169.254.169.254",
            "100.100.100.200",
            "192.0.0.192",
            "168.63.129.16",
            "::",
            "::1",
            "ff02::1",
            "fe80::1",
            "fd00:ec2::254",
            "fd00:ec2::23",
            "fd20:ce::254",
            "::ffff:127.0.0.1",
            "::ffff:0:127.0.0.1",
            "::127.0.0.1",
            "::ffff:168.63.129.16",
            "64:ff9b::127.0.0.1",
            "64:ff9b::169.254.169.254",
            "64:ff9b:1::169.254.169.254",
            "64:ff9b:1:a9fe:a9:fe00::",
            "64:ff9b:1:a9:fe:a9fe::",
            "64:ff9b:1:0:a9:fea9:fe00:0",
            "2002:7f00:1::1",
            "2002:a9fe:a9fe::",
            "2001:0:7f00:1::",
            "2001:0:808:808:0:0:80ff:fffe",
        ] {
            assert!(is_internal_text(text), "{text}");
        }
    }

    #[test]
    fn private_and_public_networks_are_not() {
        for text in [
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "100.64.0.1",
            "8.8.8.8",
            "168.63.129.17",
            "fd00::1",
            "fd20:ce::253",
            "2606:4700::1",
            "::ffff:10.1.2.3",
            "64:ff9b::8.8.8.8",
            "64:ff9b:1::8.8.8.8",
            "64:ff9b:1:808:8:800::",
            "2002:808:808::1",
            "2001:db8::1",
        ] {
            assert!(!is_internal_text(text), "{text}");
        }
    }
}

//! The address of a client: that of the socket, or what a trusted proxy reports.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::HeaderMap;
use ipnet::IpNet;

/// The other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) IpAddr);

impl Default for Peer {
    fn default() -> Self {
        Self(Ipv4Addr::UNSPECIFIED.into())
    }
}

/// The address that requests are counted by: for IPv6 the /64 network, since a host owns all of it.
pub(crate) fn rate_limit_key(peer: Peer, headers: &HeaderMap, trusted: &[IpNet]) -> IpAddr {
    match client_address(peer.0.to_canonical(), headers, trusted) {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => {
            let network = u128::from(address) & !u128::from(u64::MAX);
            Ipv6Addr::from(network).into()
        }
    }
}

/// Each proxy appends the address it received the request from, so that the last address that is no
/// trusted proxy is the last one that can be relied on.
fn client_address(peer: IpAddr, headers: &HeaderMap, trusted: &[IpNet]) -> IpAddr {
    let is_trusted = |address: &IpAddr| trusted.iter().any(|network| network.contains(address));
    if !is_trusted(&peer) {
        return peer;
    }
    let lines = headers.get_all("x-forwarded-for").iter();
    let lines: Vec<&str> = lines.filter_map(|line| line.to_str().ok()).collect();
    let mut client = peer;
    for text in lines.iter().rev().flat_map(|line| line.rsplit(',')) {
        let Ok(address) = text.trim().parse::<IpAddr>() else {
            break;
        };
        client = address.to_canonical();
        if !is_trusted(&client) {
            break;
        }
    }
    client
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_trusted_proxies_may_report_an_address() {
        let trusted: Vec<IpNet> = vec!["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()];
        for (peer, forwarded, expected) in [
            ("203.0.113.7", &["198.51.100.1"][..], "203.0.113.7"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &["198.51.100.1"], "198.51.100.1"),
            ("::ffff:10.0.0.1", &["198.51.100.1"], "198.51.100.1"),
            (
                "10.0.0.1",
                &["192.0.2.9, 198.51.100.1, 10.0.0.2"],
                "198.51.100.1",
            ),
            ("10.0.0.1", &["192.0.2.9", "198.51.100.1"], "198.51.100.1"),
            ("10.0.0.1", &["192.0.2.9, nonsense, 10.0.0.2"], "10.0.0.2"),
            ("fd00::1", &["2001:db8:1:2:3:4:5:6"], "2001:db8:1:2::"),
            ("2001:db8:1:2:ffff::1", &[], "2001:db8:1:2::"),
        ] {
            let mut headers = HeaderMap::new();
            for line in forwarded {
                headers.append("x-forwarded-for", line.parse().unwrap());
            }
            let found = rate_limit_key(Peer(peer.parse().unwrap()), &headers, &trusted);
            assert_eq!(
                found,
                expected.parse::<IpAddr>().unwrap(),
                "{peer} {forwarded:?}"
            );
        }
    }
}

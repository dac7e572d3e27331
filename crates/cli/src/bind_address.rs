//! Listen addresses in the notation of Go programs.

use std::{
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    str::FromStr,
};

/// The address to listen on; `None` disables the listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BindAddress(pub(crate) Option<SocketAddr>);

impl FromStr for BindAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() || text == "0" {
            return Ok(Self(None));
        }
        let bad =
            || format!("`{text}` is not an address: write :8080, 127.0.0.1:8080 or [::1]:8080");
        if let Ok(address) = text.parse() {
            return Ok(Self(Some(address)));
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(bad)?;
        let port = port.parse().map_err(|_| bad())?;
        let host = match host {
            "" => Ipv6Addr::UNSPECIFIED.into(),
            "localhost" => Ipv4Addr::LOCALHOST.into(),
            _ => return Err(bad()),
        };
        Ok(Self(Some(SocketAddr::new(host, port))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_as_go_parses_them() {
        for (text, expected) in [
            (":8080", Some("[::]:8080")),
            ("0.0.0.0:80", Some("0.0.0.0:80")),
            ("localhost:80", Some("127.0.0.1:80")),
            ("[::1]:80", Some("[::1]:80")),
            ("0", None),
            ("", None),
        ] {
            let expected = expected.map(|address| address.parse().unwrap());
            assert_eq!(text.parse::<BindAddress>().unwrap().0, expected, "{text}");
        }
        for text in ["8080", ":x", "host:80", "::1:80:90:", ":70000"] {
            assert!(text.parse::<BindAddress>().is_err(), "{text}");
        }
    }
}

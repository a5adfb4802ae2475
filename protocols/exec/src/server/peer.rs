//! The host of a client, for limits that each host has for itself.

use std::net::{IpAddr, Ipv6Addr};

use reknit_seams::net::Stream;

/// The host that opened a connection. All clients behind one address are one peer. So are all
/// addresses of one IPv6 network of 64 bits, because one host may use any of them. Connections
/// without an address are one peer, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Peer(Option<IpAddr>);

impl Peer {
    /// Returns the peer of an accepted connection.
    pub(super) fn of(stream: &Stream) -> Self {
        Self(stream.peer().map(network))
    }
}

fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
    }
}

#[cfg(test)]
impl Peer {
    /// Returns the peer `10.0.0.n`.
    pub(super) fn number(n: u8) -> Self {
        Self(Some([10, 0, 0, n].into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_host_are_one_peer() {
        let same = |a: &str, b: &str| network(a.parse().unwrap()) == network(b.parse().unwrap());
        assert!(same("10.0.0.1", "::ffff:10.0.0.1"));
        assert!(!same("10.0.0.1", "10.0.0.2"));
        assert!(same("2001:db8::1", "2001:db8::ffff:1"));
        assert!(!same("2001:db8::1", "2001:db8:0:1::1"));
    }
}

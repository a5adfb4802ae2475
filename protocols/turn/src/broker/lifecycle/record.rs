//! The record of a running broker.

use reknit_seams::net::{Address, Endpoint};
use reknit_seams::process::Identity;
use serde::{Deserialize, Serialize};

/// The record of a running broker, as its file contains it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokerRecord {
    /// Where it listens.
    at: RecordedAddress,
    /// Its process id.
    pid: u32,
    /// Distinguishes the process from others with the same id.
    started: String,
    /// The account for which its app-server works.
    account: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum RecordedAddress {
    Unix(String),
    Tcp { host: String, port: u16 },
}

impl BrokerRecord {
    /// Creates the record of this broker. `None` if the path of its socket is not UTF-8.
    pub(super) fn new(at: &Endpoint, process: &Identity, account: &str) -> Option<Self> {
        let at = match at.address() {
            Address::Tcp { host, port } => RecordedAddress::Tcp { host: host.clone(), port: *port },
            Address::Unix(path) => RecordedAddress::Unix(path.to_str()?.to_owned()),
        };
        let Identity { pid, started } = process.clone();
        Some(Self { at, pid, started, account: account.to_owned() })
    }

    /// Returns where the broker listens.
    pub fn endpoint(&self) -> Endpoint {
        match &self.at {
            RecordedAddress::Tcp { host, port } => Endpoint::tcp(host, *port),
            RecordedAddress::Unix(path) => Endpoint::unix(path),
        }
    }

    /// Returns the process of the broker.
    pub fn process(&self) -> Identity {
        Identity { pid: self.pid, started: self.started.clone() }
    }

    /// Returns the account for which the broker's app-server works.
    pub fn account(&self) -> &str {
        &self.account
    }
}

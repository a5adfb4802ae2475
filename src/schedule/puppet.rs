//! Puppets: scripts of a raw peer that speaks the wire protocol. A puppet can do things that
//! network faults cannot: withhold, repeat or falsify messages, or answer with an error.

use std::time::Duration;

/// A script that plays the role of a host. The whole script is played once on each connection: as a
/// server, on each connection that the puppet accepts; as a client, on each connection that it
/// opens, one after another.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Puppet {
    /// The number of connections that it opens or accepts; `None` means no limit. The script is
    /// played once on each.
    pub connections: Option<u64>,
    /// The encoding of the texts on the wire.
    pub speaks: Speaks,
    /// The lines of the script, in order. The puppet closes the connection at the end of the
    /// script.
    pub script: Vec<PuppetStep>,
    /// The script for the connections after the first, if it differs.
    pub again: Option<Vec<PuppetStep>>,
}

impl Puppet {
    /// Returns the script for a connection. `number` counts from 1.
    pub fn script_of(&self, number: u64) -> &[PuppetStep] {
        self.again.as_ref().filter(|_| number > 1).unwrap_or(&self.script)
    }
}

/// The encoding of a script's texts on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Speaks {
    /// Raw bytes.
    #[default]
    Bytes,
    /// WebSocket text messages, one per text. The WebSocket is opened before the script begins, and
    /// pings are answered while the script reads. `Expect` searches the concatenation of the
    /// received texts. Requires the feature `websocket`.
    WebSocket,
}

/// The encodings, with their names in files.
pub const SPEAKS: [(&str, Speaks); 2] =
    [("bytes", Speaks::Bytes), ("websocket", Speaks::WebSocket)];

/// One line of a puppet's script.
#[derive(Clone, Debug, PartialEq)]
pub enum PuppetStep {
    /// Waits until the received bytes contain this text, and consumes them up to the end of the
    /// text.
    Expect {
        /// The text.
        text: String,
    },
    /// Sends text. `{n}` is replaced by the number of the repetition, from 1; `{conn}` by the
    /// number of the connection, from 1.
    Send {
        /// The text.
        text: String,
        /// The number of repetitions.
        times: u64,
        /// The time between two repetitions.
        every: Duration,
    },
    /// Neither sends nor reads for a while.
    Wait {
        /// The duration.
        lasts: Duration,
    },
    /// Reads and discards all data until the other end closes.
    Drain,
    /// Closes the connection, as at the end of the script.
    Close,
    /// Resets the connection.
    Reset,
}

//! Puppets: the script of a raw peer that speaks the wire, and does what faults of the network cannot do: withhold, repeat,
//! lie, answer with an error.

use std::time::Duration;

/// A host's part, played by a script. It plays the whole script once on each connection: on those it accepts where the host
/// is a server, on those it opens, one after the other, where the host is a client.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Puppet {
    /// How many connections it opens or accepts; the script is played once on each. `None`: as many as come.
    pub connections: Option<u64>,
    /// What its texts are on the wire.
    pub speaks: Speaks,
    /// What it does on a connection, in order. When it is through, it closes the connection.
    pub script: Vec<PuppetStep>,
    /// What it does on the connections after the first, where that is something else.
    pub again: Option<Vec<PuppetStep>>,
}

impl Puppet {
    /// What it does on a connection, counted from 1.
    pub fn script_of(&self, number: u64) -> &[PuppetStep] {
        self.again.as_ref().filter(|_| number > 1).unwrap_or(&self.script)
    }
}

/// What the texts of a script are on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Speaks {
    /// Bytes, as they are.
    #[default]
    Bytes,
    /// Text messages of a WebSocket, one a text. It is opened before the script begins, pings are answered as long as the script
    /// reads, and what is expected is looked for in the texts that came, one behind the other. The feature `websocket` has it.
    WebSocket,
}

/// The words for what a puppet speaks.
pub const SPEAKS: [(&str, Speaks); 2] =
    [("bytes", Speaks::Bytes), ("websocket", Speaks::WebSocket)];

/// One line of a puppet's script.
#[derive(Clone, Debug, PartialEq)]
pub enum PuppetStep {
    /// Waits until bytes that contain this text have come, and takes them up to and with the text.
    Expect {
        /// The text.
        text: String,
    },
    /// Sends text. `{n}` in it stands for the number of the repetition, from 1; `{conn}` for the number of the connection, from 1.
    Send {
        /// The text.
        text: String,
        /// How many times.
        times: u64,
        /// How long between two of them.
        every: Duration,
    },
    /// Sends and reads nothing for a while.
    Wait {
        /// How long.
        lasts: Duration,
    },
    /// Reads and throws away whatever comes, until the other end closes.
    Drain,
    /// Closes the connection, as the end of the script does.
    Close,
    /// Resets the connection.
    Reset,
}

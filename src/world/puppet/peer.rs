//! One connection of a puppet, as a place where texts go out and come in: bytes as they are, or messages of a WebSocket.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::net::Stream;
use crate::schedule::Speaks;

#[cfg_attr(not(feature = "websocket"), path = "peer/no_messages.rs")]
mod messages;

use messages::Messages;

/// One connection of a puppet.
pub(super) enum Peer {
    Bytes(Stream),
    WebSocket(Messages),
}

impl Peer {
    /// A connection that was opened to it.
    pub(super) async fn accepted(stream: Stream, speaks: Speaks) -> io::Result<Self> {
        match speaks {
            Speaks::Bytes => Ok(Self::Bytes(stream)),
            Speaks::WebSocket => Ok(Self::WebSocket(Messages::accepted(stream).await?)),
        }
    }

    /// A connection that it opened.
    pub(super) async fn connected(stream: Stream, speaks: Speaks) -> io::Result<Self> {
        match speaks {
            Speaks::Bytes => Ok(Self::Bytes(stream)),
            Speaks::WebSocket => Ok(Self::WebSocket(Messages::connected(stream).await?)),
        }
    }

    pub(super) fn stream(&self) -> &Stream {
        match self {
            Self::Bytes(stream) => stream,
            Self::WebSocket(messages) => messages.stream(),
        }
    }

    /// Sends a text; one message, where there are messages.
    pub(super) async fn log(&mut self, text: String) -> io::Result<()> {
        match self {
            Self::Bytes(stream) => stream.write_all(text.as_bytes()).await,
            Self::WebSocket(messages) => messages.log(text).await,
        }
    }

    /// Appends what comes next to `read`, and says how much that is: 0 when nothing comes any more.
    pub(super) async fn hear(&mut self, read: &mut Vec<u8>) -> io::Result<usize> {
        match self {
            Self::Bytes(stream) => stream.read_buf(read).await,
            Self::WebSocket(messages) => messages.hear(read).await,
        }
    }
}

//! One connection of a puppet, which sends and receives texts: as raw bytes, or as WebSocket
//! messages.

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
    /// Wraps a connection that the puppet accepted.
    pub(super) async fn accepted(stream: Stream, speaks: Speaks) -> io::Result<Self> {
        match speaks {
            Speaks::Bytes => Ok(Self::Bytes(stream)),
            Speaks::WebSocket => Ok(Self::WebSocket(Messages::accepted(stream).await?)),
        }
    }

    /// Wraps a connection that the puppet opened.
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

    /// Sends a text. On a WebSocket it is one message.
    pub(super) async fn send_text(&mut self, text: String) -> io::Result<()> {
        match self {
            Self::Bytes(stream) => stream.write_all(text.as_bytes()).await,
            Self::WebSocket(messages) => messages.send_text(text).await,
        }
    }

    /// Receives the next bytes, and appends them to `read`. Returns their number: 0 at the end of
    /// the connection.
    pub(super) async fn receive(&mut self, read: &mut Vec<u8>) -> io::Result<usize> {
        match self {
            Self::Bytes(stream) => stream.read_buf(read).await,
            Self::WebSocket(messages) => messages.receive(read).await,
        }
    }
}

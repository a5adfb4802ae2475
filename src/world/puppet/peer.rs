//! One connection of a puppet, as a place where texts go out and come in: bytes as they are, or messages of a WebSocket.

use std::io;

use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::net::Stream;
use crate::schedule::Speaks;

/// What a WebSocket is asked for.
const REQUEST: &str = "ws://server/";

/// One connection of a puppet.
pub(super) enum Peer {
    Bytes(Stream),
    WebSocket(Box<WebSocketStream<Stream>>),
}

impl Peer {
    /// A connection that was opened to it.
    pub(super) async fn accepted(stream: Stream, speaks: Speaks) -> io::Result<Self> {
        match speaks {
            Speaks::Bytes => Ok(Self::Bytes(stream)),
            Speaks::WebSocket => {
                let socket = tokio_tungstenite::accept_async(stream).await.map_err(broken)?;
                Ok(Self::WebSocket(Box::new(socket)))
            }
        }
    }

    /// A connection that it opened.
    pub(super) async fn connected(stream: Stream, speaks: Speaks) -> io::Result<Self> {
        match speaks {
            Speaks::Bytes => Ok(Self::Bytes(stream)),
            Speaks::WebSocket => {
                let (socket, _) = tokio_tungstenite::client_async(REQUEST, stream).await.map_err(broken)?;
                Ok(Self::WebSocket(Box::new(socket)))
            }
        }
    }

    pub(super) fn stream(&self) -> &Stream {
        match self {
            Self::Bytes(stream) => stream,
            Self::WebSocket(socket) => socket.get_ref(),
        }
    }

    /// Sends a text; one message, where there are messages.
    pub(super) async fn say(&mut self, text: String) -> io::Result<()> {
        match self {
            Self::Bytes(stream) => stream.write_all(text.as_bytes()).await,
            Self::WebSocket(socket) => socket.send(Message::text(text)).await.map_err(broken),
        }
    }

    /// Appends what comes next to `read`, and says how much that is: 0 when nothing comes any more.
    pub(super) async fn hear(&mut self, read: &mut Vec<u8>) -> io::Result<usize> {
        match self {
            Self::Bytes(stream) => stream.read_buf(read).await,
            Self::WebSocket(socket) => loop {
                match socket.next().await {
                    None | Some(Ok(Message::Close(_))) => return Ok(0),
                    Some(Ok(message @ (Message::Text(_) | Message::Binary(_)))) if !message.is_empty() => {
                        read.extend_from_slice(&message.into_data());
                        return Ok(1);
                    }
                    Some(Ok(_)) => {} // a ping is answered at the next look for a message
                    Some(Err(error)) => return Err(broken(error)),
                }
            },
        }
    }
}

fn broken(error: Error) -> io::Error {
    match error {
        Error::Io(error) => error,
        other => io::Error::new(io::ErrorKind::InvalidData, other),
    }
}

//! The WebSocket of a puppet: each text is one message.

use std::io;

use futures_util::{SinkExt, StreamExt};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::net::Stream;

/// The URL that a WebSocket client requests.
const REQUEST: &str = "ws://server/";

/// One WebSocket.
pub struct Messages(Box<WebSocketStream<Stream>>);

impl Messages {
    /// Accepts a WebSocket on a connection that the puppet accepted.
    pub async fn accepted(stream: Stream) -> io::Result<Self> {
        let socket = tokio_tungstenite::accept_async(stream).await.map_err(broken)?;
        Ok(Self(Box::new(socket)))
    }

    /// Opens a WebSocket on a connection that the puppet opened.
    pub async fn connected(stream: Stream) -> io::Result<Self> {
        let (socket, _) = tokio_tungstenite::client_async(REQUEST, stream).await.map_err(broken)?;
        Ok(Self(Box::new(socket)))
    }

    pub fn stream(&self) -> &Stream {
        self.0.get_ref()
    }

    /// Sends a message.
    pub async fn send_text(&mut self, text: String) -> io::Result<()> {
        self.0.send(Message::text(text)).await.map_err(broken)
    }

    /// Receives the next message, and appends it to `read`. Returns 0 at the end of the connection.
    pub async fn receive(&mut self, read: &mut Vec<u8>) -> io::Result<usize> {
        loop {
            match self.0.next().await {
                None | Some(Ok(Message::Close(_))) => return Ok(0),
                Some(Ok(message @ (Message::Text(_) | Message::Binary(_))))
                    if !message.is_empty() =>
                {
                    read.extend_from_slice(&message.into_data());
                    return Ok(1);
                }
                Some(Ok(_)) => {} // a ping is answered when the next message is read
                Some(Err(error)) => return Err(broken(error)),
            }
        }
    }
}

fn broken(error: Error) -> io::Error {
    match error {
        Error::Io(error) => error,
        other => io::Error::new(io::ErrorKind::InvalidData, other),
    }
}

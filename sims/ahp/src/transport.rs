//! A WebSocket with the transport interface that the crate expects.

use ahp::{Transport, TransportError, TransportMessage};
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

/// A WebSocket over any stream.
pub struct Ws<S>(WebSocketStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> Ws<S> {
    /// Opens a WebSocket to the peer.
    ///
    /// # Errors
    /// If the handshake fails.
    pub async fn open(stream: S, url: &str) -> Result<Self, TransportError> {
        let opened = client_async(url, stream).await;
        opened
            .map(|(socket, _)| Self(socket))
            .map_err(|error| TransportError::Io(error.to_string()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Transport for Ws<S> {
    async fn send(&mut self, message: TransportMessage) -> Result<(), TransportError> {
        let text = match message {
            TransportMessage::Text(text) => text,
            TransportMessage::Parsed(message) => serde_json::to_string(&message)
                .map_err(|error| TransportError::Protocol(error.to_string()))?,
            TransportMessage::Binary(bytes) => String::from_utf8(bytes)
                .map_err(|error| TransportError::Protocol(error.to_string()))?,
        };
        self.0
            .send(Message::text(text))
            .await
            .map_err(|error| TransportError::Io(error.to_string()))
    }

    async fn recv(&mut self) -> Result<Option<TransportMessage>, TransportError> {
        loop {
            match self.0.next().await {
                None | Some(Err(_)) => return Ok(None),
                Some(Ok(Message::Text(text))) => {
                    return Ok(Some(TransportMessage::Text(text.to_string())));
                }
                Some(Ok(_)) => {}
            }
        }
    }

    async fn close(&mut self) -> Result<(), TransportError> {
        self.0.close(None).await.map_err(|error| TransportError::Io(error.to_string()))
    }
}

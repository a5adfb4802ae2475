//! A client that sends frames as they are, and returns the frames of the server as they are. It has
//! no session, and knows no method.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

/// How long a test waits for a frame that must come.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A WebSocket to a server.
pub struct Raw(WebSocketStream<TcpStream>);

/// A message of the server.
#[derive(Clone, Debug, PartialEq)]
pub enum Received {
    /// A text frame.
    Text(String),
    /// A binary frame.
    Binary(Vec<u8>),
    /// The end of the connection, with the code of the Close frame, if there was one.
    End(Option<u16>),
}

impl Raw {
    /// Opens a WebSocket.
    ///
    /// # Panics
    /// If the server refuses it.
    pub async fn connect(server: SocketAddr) -> Self {
        let stream = TcpStream::connect(server).await.expect("a connection");
        stream.set_nodelay(true).expect("a socket option");
        let mut config = WebSocketConfig::default();
        (config.max_message_size, config.max_frame_size) = (None, None);
        let opened = client_async_with_config(format!("ws://{server}/"), stream, Some(config));
        Self(opened.await.expect("a WebSocket").0)
    }

    /// Sends a text frame. A server that has disconnected is no error: the next received item is
    /// its end.
    pub async fn send(&mut self, text: impl Into<String>) {
        let _ = self.0.send(Message::text(text.into())).await;
    }

    /// Sends a binary frame, in the same way.
    pub async fn send_binary(&mut self, bytes: impl Into<Vec<u8>>) {
        let _ = self.0.send(Message::binary(bytes.into())).await;
    }

    /// Sends a Close frame.
    pub async fn close(&mut self) {
        let _ = self.0.close(None).await;
    }

    /// Returns the next frame, or `None` after this long without one. Pings are answered and not
    /// returned.
    pub async fn receive(&mut self, at_most: Duration) -> Option<Received> {
        let received = async {
            loop {
                match self.0.next().await {
                    Some(Ok(Message::Text(text))) => return Received::Text(text.to_string()),
                    Some(Ok(Message::Binary(bytes))) => return Received::Binary(bytes.to_vec()),
                    Some(Ok(Message::Close(frame))) => {
                        return Received::End(frame.map(|frame| frame.code.into()));
                    }
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return Received::End(None),
                }
            }
        };
        timeout(at_most, received).await.ok()
    }

    /// Returns the next text frame as JSON.
    ///
    /// # Panics
    /// If none comes, or another kind of frame.
    pub async fn json(&mut self) -> Value {
        match self.receive(PATIENCE).await {
            Some(Received::Text(text)) => serde_json::from_str(&text).expect("JSON"),
            other => panic!("{other:?} instead of a text frame"),
        }
    }

    /// Performs the handshake with a new session; returns the answer to `initialize`.
    pub async fn initialize(&mut self) -> Value {
        self.send(r#"{"id":1,"method":"initialize","params":{"clientName":"raw"}}"#).await;
        let welcome = self.json().await;
        self.send(r#"{"method":"initialized","params":{}}"#).await;
        welcome
    }
}

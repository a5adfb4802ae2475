//! A connection that a window's program opens besides its client. It bypasses the client to send
//! messages that the client would not send, and reads everything it receives.

use futures_util::{SinkExt, StreamExt};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio_tungstenite::tungstenite::Message as Frame;
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::net::{Endpoint, Stream};
use crate::subject::HostContext;
use reknit_toolcall::wire::{InitializeParams, Message, ROOT, RequestId, ahp};

/// The reason why a request has no answer.
#[derive(Debug)]
pub(super) enum Unanswered {
    /// The host refused, with this text.
    Refused(String),
    /// The connection failed, for this reason.
    Lost(#[expect(dead_code, reason = "shown in debug output only")] String),
}

impl Unanswered {
    pub(super) fn lost(error: impl ToString) -> Self {
        Self::Lost(error.to_string())
    }
}

/// An open connection.
pub(super) struct Raw {
    pub(super) socket: WebSocketStream<Stream>,
}

impl Raw {
    /// Opens a connection. Connections with the same label are numbered separately:
    /// `client/second#1`.
    pub(super) async fn open(
        host: &HostContext,
        server: &Endpoint,
        label: &'static str,
    ) -> Result<Self, Unanswered> {
        let server = server.clone().labelled(label);
        let stream = host.env.net.connect(&server).await.map_err(Unanswered::lost)?;
        let (socket, _) =
            client_async(format!("ws://{server}/"), stream).await.map_err(Unanswered::lost)?;
        Ok(Self { socket })
    }

    /// Sends a request to the host, and returns the answer. Discards other messages that arrive
    /// before it.
    pub(super) async fn request(
        &mut self,
        id: i64,
        method: &str,
        params: &impl Serialize,
    ) -> Result<Box<RawValue>, Unanswered> {
        let text = Message::request(id, method, params).to_versioned_text();
        self.socket.send(Frame::text(text)).await.map_err(Unanswered::lost)?;
        while let Some(heard) = self.socket.next().await {
            let Frame::Text(text) = heard.map_err(Unanswered::lost)? else { continue };
            match Message::parse(text.as_bytes()) {
                Ok(Message::Response { id: RequestId::Number(of), result }) if of == id => {
                    return Ok(result);
                }
                Ok(Message::Error { error, .. }) => {
                    return Err(Unanswered::Refused(error.message.to_string()));
                }
                _ => {}
            }
        }
        Err(Unanswered::Lost("the connection was lost before the answer came".to_owned()))
    }
}

/// The handshake of a client: its id, and its initial subscriptions.
pub(super) fn hello(client_id: &str, channels: Vec<String>) -> InitializeParams {
    InitializeParams {
        channel: ROOT.to_owned(),
        meta: None,
        protocol_versions: ahp::SUPPORTED_PROTOCOL_VERSIONS
            .iter()
            .map(|version| (*version).to_owned())
            .collect(),
        client_id: client_id.to_owned(),
        client_info: None,
        initial_subscriptions: Some(channels),
        locale: None,
        capabilities: None,
    }
}

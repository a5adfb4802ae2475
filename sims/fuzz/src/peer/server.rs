//! The server that a client connects to: one hostile connection after another.

use std::time::Duration;

use arbitrary::Arbitrary;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::callee::{ClientRequest, Disturbance, HostileServer};
use crate::script::{Bytes, SendOptions};
use crate::stage::{Arrivals, Memory};

/// How a connection begins instead of with a WebSocket and the correct answer to the first request.
#[derive(Arbitrary, Clone, Debug)]
pub enum ConnectionStart {
    /// With a WebSocket; the script contains the answer to the first request.
    Bare,
    /// With this data instead of a WebSocket.
    Head(Bytes),
    /// Not at all: it is refused.
    Refused,
}

/// The server of one client.
pub struct TestServer {
    net: Memory,
    arrivals: Arrivals,
    /// Returns the answer of a correct server.
    right: fn(&ClientRequest) -> Value,
    /// How long it waits for the client to connect.
    coming: Duration,
    /// The current connection.
    peer: Option<HostileServer>,
    /// How the next connection begins; `None` for correctly.
    start: Option<ConnectionStart>,
}

impl TestServer {
    pub fn new(
        net: Memory,
        right: fn(&ClientRequest) -> Value,
        coming: Duration,
        start: Option<ConnectionStart>,
    ) -> Self {
        let arrivals = net.arrivals();
        Self { net, arrivals, right, coming, peer: None, start }
    }

    /// Returns the connection, if there is one soon.
    async fn peer(&mut self) -> Option<&mut HostileServer> {
        if self.peer.as_ref().is_none_or(HostileServer::is_over) {
            self.peer = None;
            let (_, stream) = timeout(self.coming, self.arrivals.recv()).await.ok()??;
            let mut peer = HostileServer::new(stream);
            match &self.start {
                None => {
                    peer.opens_websocket().await;
                    if let Some(request) = peer.question_soon().await {
                        peer.send_valid(
                            json!({"id": request.id, "result": (self.right)(&request)}),
                        )
                        .await;
                    }
                }
                Some(ConnectionStart::Bare | ConnectionStart::Refused) => {
                    peer.opens_websocket().await
                }
                Some(ConnectionStart::Head(bytes)) => peer.write(&bytes.bytes()).await,
            }
            self.peer = Some(peer);
        }
        self.peer.as_mut()
    }

    /// Answers the n-th of the open requests: with the result of `answer`, or else correctly.
    pub async fn answer(
        &mut self,
        n: u8,
        manner: &SendOptions,
        answer: impl FnOnce(&ClientRequest) -> Option<Value>,
    ) {
        let right = self.right;
        if let Some(peer) = self.peer().await
            && let Some(request) = peer.request(n)
        {
            let answer = answer(&request);
            let answer =
                answer.unwrap_or_else(|| json!({"id": request.id, "result": right(&request)}));
            peer.send(manner, answer).await;
        }
    }

    /// Sends a message.
    pub async fn send(&mut self, manner: &SendOptions, message: Value) {
        if let Some(peer) = self.peer().await {
            peer.send(manner, message).await;
        }
    }

    /// Sends something that no server sends.
    pub async fn disturb(&mut self, disturbance: &Disturbance) {
        if let Some(peer) = self.peer().await {
            peer.disturb(disturbance).await;
        }
    }

    /// Ends the connection. The next one begins in this way, or else correctly.
    pub fn end(&mut self, start: Option<ConnectionStart>) {
        self.peer = None;
        self.start = start;
        self.net.refuse(matches!(self.start, Some(ConnectionStart::Refused)));
    }

    /// Removes the server for good.
    pub fn close(&mut self) {
        self.peer = None;
        self.net.refuse(true);
        self.arrivals.close();
    }

    /// Closes the connections that arrived before the server was removed.
    pub fn close_refused(&mut self) {
        while self.arrivals.try_recv().is_ok() {}
    }
}

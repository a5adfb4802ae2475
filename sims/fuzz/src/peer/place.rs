//! The place that a client connects to: one hostile connection after another.

use std::time::Duration;

use arbitrary::Arbitrary;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::callee::{Disturbance, HostileServer, Question};
use crate::script::{Bytes, Manner};
use crate::stage::{Arrivals, Memory};

/// How a connection begins, in the place of a WebSocket and of what a good server answers to the first question.
#[derive(Arbitrary, Clone, Debug)]
pub enum Entrance {
    /// With a WebSocket; what answers the first question stands in the script.
    Bare,
    /// With something else than a WebSocket.
    Head(Bytes),
    /// Not at all: it is refused.
    Refused,
}

/// Where the client comes to.
pub struct Place {
    net: Memory,
    arrivals: Arrivals,
    /// What a good server answers.
    right: fn(&Question) -> Value,
    /// How long the client is waited for.
    coming: Duration,
    /// The connection that there is.
    peer: Option<HostileServer>,
    /// How the next one begins, where not as it should.
    entrance: Option<Entrance>,
}

impl Place {
    pub fn new(
        net: Memory,
        right: fn(&Question) -> Value,
        coming: Duration,
        entrance: Option<Entrance>,
    ) -> Self {
        let arrivals = net.arrivals();
        Self { net, arrivals, right, coming, peer: None, entrance }
    }

    /// The connection, if there is one soon.
    async fn peer(&mut self) -> Option<&mut HostileServer> {
        if self.peer.as_ref().is_none_or(HostileServer::is_over) {
            self.peer = None;
            let (_, stream) = timeout(self.coming, self.arrivals.recv()).await.ok()??;
            let mut peer = HostileServer::new(stream);
            match &self.entrance {
                None => {
                    peer.opens_websocket().await;
                    if let Some(question) = peer.question_soon().await {
                        peer.send_valid(
                            json!({"id": question.id, "result": (self.right)(&question)}),
                        )
                        .await;
                    }
                }
                Some(Entrance::Bare | Entrance::Refused) => peer.opens_websocket().await,
                Some(Entrance::Head(bytes)) => peer.write(&bytes.bytes()).await,
            }
            self.peer = Some(peer);
        }
        self.peer.as_mut()
    }

    /// Answers the n-th of the questions that are open: with what is made of it, or else as it should.
    pub async fn answer(
        &mut self,
        n: u8,
        manner: &Manner,
        answer: impl FnOnce(&Question) -> Option<Value>,
    ) {
        let right = self.right;
        if let Some(peer) = self.peer().await
            && let Some(question) = peer.question(n)
        {
            let answer = answer(&question);
            let answer =
                answer.unwrap_or_else(|| json!({"id": question.id, "result": right(&question)}));
            peer.send(manner, answer).await;
        }
    }

    /// Says something.
    pub async fn send(&mut self, manner: &Manner, message: Value) {
        if let Some(peer) = self.peer().await {
            peer.send(manner, message).await;
        }
    }

    /// Does what no server does.
    pub async fn disturb(&mut self, disturbance: &Disturbance) {
        if let Some(peer) = self.peer().await {
            peer.disturb(disturbance).await;
        }
    }

    /// Ends the connection. The next one begins like this, where not as it should.
    pub fn end(&mut self, entrance: Option<Entrance>) {
        self.peer = None;
        self.entrance = entrance;
        self.net.refuse(matches!(self.entrance, Some(Entrance::Refused)));
    }

    /// Nobody is there any more.
    pub fn close(&mut self) {
        self.peer = None;
        self.net.refuse(true);
        self.arrivals.close();
    }

    /// Ends what had come before nobody was there any more.
    pub fn turn_away(&mut self) {
        while self.arrivals.try_recv().is_ok() {}
    }
}

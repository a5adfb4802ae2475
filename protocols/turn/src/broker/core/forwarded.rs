//! Requests of clients on their way to the app-server.

use reknit_jsonrpc::RequestId;

use super::client::Asked;
use super::outside::ClientId;
use super::turn::{TurnKey, TurnToken};

/// A request that the app-server has not answered.
pub(super) enum Forwarded {
    /// The broker's own `initialize`.
    Initialize,
    /// An interrupt by the broker.
    Interrupt { token: TurnToken, key: TurnKey },
    /// The start of a turn whose deadline has passed. If the app-server answers it after all, the turn
    /// must be interrupted.
    LateStart { token: TurnToken },
    /// A request of a client.
    Client {
        /// The client. `None` if it has disconnected, or no longer waits.
        client: Option<ClientId>,
        id: RequestId,
        purpose: Purpose,
        /// The bytes that it takes.
        weight: usize,
    },
}

impl Forwarded {
    /// Whether the request starts this turn.
    pub fn starts(&self, token: TurnToken) -> bool {
        match self {
            Self::LateStart { token: other }
            | Self::Client { purpose: Purpose::Start(other), .. } => *other == token,
            _ => false,
        }
    }
}

/// The effect of the answer on the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Nothing.
    Other,
    /// It interrupts a turn of any client.
    Interrupt,
    /// It starts or loads a thread.
    Thread,
    /// It starts a turn.
    Start(TurnToken),
}

/// A start that waits until the abandoned turn on its thread has ended.
pub(super) struct Held {
    pub client: ClientId,
    pub asked: Asked,
    pub thread: String,
}

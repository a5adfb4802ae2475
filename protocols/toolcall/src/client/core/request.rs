//! What was asked for, and has not been answered.

use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::client::Failure;
use crate::wire::StateAction;

/// Tells somebody what came of what they asked for.
pub(in crate::client) type Answer<T> = oneshot::Sender<Result<T, Failure>>;

/// A request without its answer.
pub(super) struct Asked {
    pub(super) purpose: Purpose,
    pub(super) method: String,
    pub(super) params: Option<Box<RawValue>>,
    pub(super) until: Instant,
}

/// What a request is for.
pub(super) enum Purpose {
    /// To be taken in, with these channels.
    Initialize {
        /// Those.
        asked: Vec<String>,
    },
    /// To be taken back, with these channels.
    Reconnect {
        /// Those.
        asked: Vec<String>,
    },
    /// To hand over a token again.
    Token,
    /// To be told of a channel.
    Subscribe {
        /// Which.
        channel: String,
        /// Who wants to know.
        answer: Option<Answer<()>>,
    },
    /// Whatever the user wants.
    User {
        /// Who wants to know.
        answer: Option<Answer<Box<RawValue>>>,
    },
}

impl Asked {
    /// There will be no answer.
    pub(super) fn fail(self, why: Failure) {
        match self.purpose {
            Purpose::Subscribe { answer: to, .. } => answer(to, Err(why)),
            Purpose::User { answer: to } => answer(to, Err(why)),
            Purpose::Initialize { .. } | Purpose::Reconnect { .. } | Purpose::Token => {}
        }
    }
}

/// What waits for a connection.
pub(super) enum Held {
    /// A request.
    Request(Asked),
    /// The action of this number.
    Action(i64),
}

/// An action that was applied here, and not heard of from the host.
pub(super) struct Unconfirmed {
    pub(super) channel: String,
    pub(super) action: StateAction,
    /// Whether it was sent, over whatever connection.
    pub(super) sent: bool,
    pub(super) answer: Option<Answer<()>>,
}

/// Tells somebody, if they still want to know.
pub(super) fn answer<T>(to: Option<Answer<T>>, with: Result<T, Failure>) {
    if let Some(to) = to {
        // Who dropped the other end does not want to know.
        let _ = to.send(with);
    }
}

//! Requests without an answer.

use serde_json::value::{RawValue, Value};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::client::Failure;
use crate::wire::{ActionEnvelope, StateAction};

/// Reports a result to the caller.
pub(in crate::client) type Answer<T> = oneshot::Sender<Result<T, Failure>>;

/// A request without an answer.
pub(super) struct PendingRequest {
    pub(super) purpose: Purpose,
    pub(super) method: String,
    pub(super) params: Option<Box<RawValue>>,
    pub(super) until: Instant,
}

/// The purpose of a request.
pub(super) enum Purpose {
    /// Initializes the connection with these channels.
    Initialize {
        /// The channels.
        asked: Vec<String>,
    },
    /// Reconnects with these channels.
    Reconnect {
        /// The channels.
        asked: Vec<String>,
    },
    /// Sends a token again.
    Token,
    /// Subscribes to a channel.
    Subscribe {
        /// The channel.
        channel: String,
        /// The caller's answer channel.
        answer: Option<Answer<()>>,
    },
    /// Any request of the user.
    User {
        /// The caller's answer channel.
        answer: Option<Answer<Box<RawValue>>>,
    },
}

impl PendingRequest {
    /// Whether the user sent it. The client itself sends those of a handshake.
    pub(super) fn is_of_user(&self) -> bool {
        matches!(&self.purpose, Purpose::User { .. } | Purpose::Subscribe { .. })
    }

    /// Whether it subscribes to this channel.
    pub(super) fn subscribes_to(&self, channel: &str) -> bool {
        matches!(&self.purpose, Purpose::Subscribe { channel: wanted, .. } if wanted == channel)
    }

    /// Fails the request.
    pub(super) fn fail(self, why: Failure) {
        match self.purpose {
            Purpose::Subscribe { answer: to, .. } => answer(to, Err(why)),
            Purpose::User { answer: to } => answer(to, Err(why)),
            Purpose::Initialize { .. } | Purpose::Reconnect { .. } | Purpose::Token => {}
        }
    }
}

/// A request or action that waits for a connection.
pub(super) enum Held {
    /// A request.
    Request(PendingRequest),
    /// The action with this number.
    Action(i64),
}

/// An action that is applied locally but not confirmed by the host.
pub(super) struct Unconfirmed {
    pub(super) channel: String,
    pub(super) action: StateAction,
    /// Whether it was sent, over any connection.
    pub(super) sent: bool,
    pub(super) answer: Option<Answer<()>>,
}

impl Unconfirmed {
    /// Whether the user joins a session with it. A client that joins again by itself waits for no answer.
    pub(super) fn is_join(&self) -> bool {
        self.answer.is_some() && matches!(self.action, StateAction::SessionActiveClientSet(_))
    }

    /// Returns whether an envelope is about this action. The window may have been reloaded with its
    /// id: then the host may report an action of the earlier client that has the same number. A
    /// host may change an action, so only the fields that name its subject are compared.
    pub(super) fn is_in(&self, envelope: &ActionEnvelope) -> bool {
        self.channel == envelope.channel
            && (self.action == envelope.action
                || subject(&self.action) == subject(&envelope.action))
    }
}

/// The fields of an action that say what it is about.
fn subject(action: &StateAction) -> Option<[Value; 3]> {
    let fields = serde_json::to_value(action).ok()?;
    // A host may send an action that is no object.
    let fields = fields.as_object()?;
    let field = |name| fields.get(name).cloned().unwrap_or_default();
    Some(["type", "turnId", "toolCallId"].map(field))
}

/// Reports a result, if the caller still waits for it.
pub(super) fn answer<T>(to: Option<Answer<T>>, with: Result<T, Failure>) {
    if let Some(to) = to {
        // If the caller dropped its end, it does not need the result.
        let _ = to.send(with);
    }
}

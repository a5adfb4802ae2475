//! Actions with a valid shape.

use arbitrary::Arbitrary;
use serde_json::{Value, json};

use crate::script::{Bytes, Name, Rarely};

/// The name that only the well-behaved client has.
pub const WELL_BEHAVED: &str = "innocent";

/// Returns a name in its encoded form; never one of the well-behaved client's names.
pub fn text(name: &Name) -> String {
    name.text().replace(WELL_BEHAVED, "")
}

/// An action on a channel.
#[derive(Arbitrary, Clone, Debug)]
pub enum Action {
    /// A turn begins.
    Starts(Name),
    /// A turn is cancelled.
    Cancels(Name),
    /// A turn is over; only a host sends this.
    Completes(Name),
    /// A text is added to a turn; only a host sends this.
    Says(Name, Bytes),
    /// A text is continued.
    SaysOn(Name, Bytes),
    /// A call begins, owned by a client, or by the sender; only a host sends this.
    Calls { turn: Name, call: u8, owner: Option<Name> },
    /// A call may run, or needs a confirmation; only a host sends this.
    Readies { turn: Name, call: u8, confirmed: bool },
    /// A call is confirmed, or denied.
    Confirms { turn: Name, call: u8, approved: bool },
    /// A call has a result.
    Results { turn: Name, call: u8, works: bool, more: Rarely<Bytes> },
    /// A session gets a title.
    Titles(Bytes),
    /// A client becomes active in a session, with these tools.
    Joins { client: Option<Name>, tools: Vec<Name> },
    /// A client is no longer active.
    Leaves(Name),
    /// A chat is removed.
    Removes(Name),
    /// Any other action.
    Other(Name),
}

impl Action {
    /// Encodes the action. `own` is the id of the sender.
    pub fn value(&self, own: &str) -> Value {
        let call = |n: &u8| format!("call-{}", n % 16);
        let words = |bytes: &Bytes| String::from_utf8_lossy(&bytes.bytes()).into_owned();
        match self {
            Self::Starts(turn) => json!({
                "type": "chat/turnStarted", "turnId": text(turn), "startedAt": "2026-01-01T00:00:00.000Z",
                "message": {"text": "go", "origin": {"kind": "user"}},
            }),
            Self::Cancels(turn) => {
                json!({"type": "chat/turnCancelled", "turnId": text(turn), "duration": 1})
            }
            Self::Completes(turn) => {
                json!({"type": "chat/turnComplete", "turnId": text(turn), "duration": 1})
            }
            Self::Says(turn, said) => json!({
                "type": "chat/responsePart", "turnId": text(turn), "part": {"kind": "markdown", "id": "part-1", "content": words(said)},
            }),
            Self::SaysOn(turn, said) => {
                json!({"type": "chat/delta", "turnId": text(turn), "partId": "part-1", "content": words(said)})
            }
            Self::Calls { turn, call: n, owner } => json!({
                "type": "chat/toolCallStart", "turnId": text(turn), "toolCallId": call(n), "toolName": "p0", "displayName": "p0",
                "contributor": {"kind": "client", "clientId": owner.as_ref().map_or_else(|| own.to_owned(), text)},
            }),
            Self::Readies { turn, call: n, confirmed } => json!({
                "type": "chat/toolCallReady", "turnId": text(turn), "toolCallId": call(n), "invocationMessage": "now",
                "toolInput": "{}", "confirmed": confirmed.then_some("not-needed"),
            }),
            Self::Confirms { turn, call: n, approved } => json!({
                "type": "chat/toolCallConfirmed", "turnId": text(turn), "toolCallId": call(n), "approved": approved,
                "confirmed": approved.then_some("user-action"), "reason": (!approved).then_some("denied"),
            }),
            Self::Results { turn, call: n, works, more } => {
                let content =
                    more.0.as_ref().map(|more| json!([{"type": "text", "text": words(more)}]));
                let result =
                    json!({"success": works, "pastTenseMessage": "did", "content": content});
                json!({"type": "chat/toolCallComplete", "turnId": text(turn), "toolCallId": call(n), "result": result})
            }
            Self::Titles(title) => json!({"type": "session/titleChanged", "title": words(title)}),
            Self::Joins { client, tools } => {
                let client = client.as_ref().map_or_else(|| own.to_owned(), text);
                let tools: Vec<_> = tools.iter().map(|tool| json!({"name": text(tool)})).collect();
                json!({"type": "session/activeClientSet", "activeClient": {"clientId": client, "tools": tools}})
            }
            Self::Leaves(client) => {
                json!({"type": "session/activeClientRemoved", "clientId": text(client)})
            }
            Self::Removes(chat) => json!({"type": "session/chatRemoved", "chat": text(chat)}),
            Self::Other(name) => json!({"type": text(name)}),
        }
    }
}

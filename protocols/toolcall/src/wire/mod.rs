//! What the two ends say to each other: the names and numbers that stand on the wire, and how what they carry is read.
//!
//! The types themselves are those of the crate `ahp-types`, which is named here once, as [`ahp`]. Reading is strict where the
//! crate is not: an action that its types take for unknown ([`StateAction::Unknown`]) is read, and refused by whoever would
//! have to apply it.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

/// The crate of the protocol's types.
pub use ahp_types as ahp;
pub use ahp_types::actions::{ActionEnvelope, ActionOrigin, StateAction};
pub use ahp_types::commands::{
    AuthenticateParams, CreateChatParams, CreateSessionParams, DispatchActionParams,
    DisposeChatParams, DisposeSessionParams, InitializeParams, InitializeResult, ReconnectParams,
    ReconnectReplayResult, ReconnectResult, ReconnectSnapshotResult, SubscribeParams,
    SubscribeResult, UnsubscribeParams,
};
pub use ahp_types::state::{Snapshot, SnapshotState};
pub use reknit_jsonrpc::{ErrorBody, Malformed, Message, RequestId, read};

/// Where in `_meta` the name of a host's life stands: of the answer to `initialize`, and of `reconnect`.
pub const EPOCH: &str = "reknit.epoch";

/// The channel of what all sessions share.
pub const ROOT: &str = ahp_types::ROOT_RESOURCE_URI;

/// How long a channel's URI, a client's id, or the id of a turn or call may be, in bytes.
pub const LONGEST_NAME: usize = 512;

/// The numbers of errors.
pub mod code {
    /// There is no such session.
    pub const SESSION_NOT_FOUND: i64 = -32001;
    /// There is one already.
    pub const SESSION_EXISTS: i64 = -32003;
    /// None of the versions that the client speaks is spoken here.
    pub const UNSUPPORTED_VERSION: i64 = -32005;
    /// The token is not good for the resource.
    pub const AUTH_REQUIRED: i64 = -32007;
    /// There is no such channel, or no such client: it starts over.
    pub const NOT_FOUND: i64 = -32008;
    /// There is one already.
    pub const EXISTS: i64 = -32010;
    /// There are too many.
    pub const CONFLICT: i64 = -32011;
    /// The frame holds no JSON-RPC message.
    pub const PARSE: i64 = -32700;
    /// The request is out of place.
    pub const INVALID_REQUEST: i64 = -32600;
    /// There is no such method here.
    pub const UNKNOWN_METHOD: i64 = -32601;
    /// The parameters are not those of the method.
    pub const INVALID_PARAMS: i64 = -32602;
    /// The answering side failed.
    pub const INTERNAL: i64 = -32603;
}

/// The names of methods and notifications.
pub mod method {
    /// Is anybody there? Answered at any time.
    pub const PING: &str = "ping";
    /// The first request of a client that has seen nothing yet.
    pub const INITIALIZE: &str = "initialize";
    /// The first request of a client that has.
    pub const RECONNECT: &str = "reconnect";
    /// From now on, everything about a channel; the answer has its state.
    pub const SUBSCRIBE: &str = "subscribe";
    /// Nothing more about a channel; a notification.
    pub const UNSUBSCRIBE: &str = "unsubscribe";
    /// Something is to happen to a channel; a notification.
    pub const DISPATCH: &str = "dispatchAction";
    /// Something happened to a channel; a notification of the host's.
    pub const ACTION: &str = "action";
    /// Makes a session.
    pub const CREATE_SESSION: &str = "createSession";
    /// Lets a session go.
    pub const DISPOSE_SESSION: &str = "disposeSession";
    /// Makes a chat in a session.
    pub const CREATE_CHAT: &str = "createChat";
    /// Lets a chat go.
    pub const DISPOSE_CHAT: &str = "disposeChat";
    /// Hands over a token.
    pub const AUTHENTICATE: &str = "authenticate";
    /// A session is there; a notification of the host's to all.
    pub const SESSION_ADDED: &str = "root/sessionAdded";
    /// A session is gone; a notification of the host's to all.
    pub const SESSION_REMOVED: &str = "root/sessionRemoved";
}

/// Whether this can be the name of something: neither empty nor too long.
pub fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= LONGEST_NAME
}

/// What stands under [`EPOCH`].
pub fn epoch_of(meta: Option<&ahp::common::JsonObject>) -> Option<&str> {
    meta?.get(EPOCH)?.as_str()
}

/// A `_meta` that names an epoch.
pub fn meta_with(epoch: &str) -> ahp::common::JsonObject {
    [(EPOCH.to_owned(), epoch.into())].into_iter().collect()
}

/// Reads the parameters of a method.
///
/// # Errors
/// What serde says of what is wrong in them.
pub fn params<T: DeserializeOwned>(params: Option<&RawValue>) -> Result<T, String> {
    read(params).map_err(|error| error.to_string())
}

/// How many bytes something takes on the wire, about.
pub fn weight(sent: &impl Serialize) -> usize {
    serde_json::to_string(sent).map_or(0, |text| text.len())
}

//! The messages between client and host: the names and numbers on the wire, and how to parse
//! payloads.
//!
//! The types are those of the crate `ahp-types`, re-exported as [`ahp`]. This crate is stricter
//! than those types: an action of an unknown type ([`StateAction::Unknown`]) is parsed, but refused
//! when it would be applied.

use reknit_seams::defect;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

/// The crate with the types of the protocol.
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

/// The key in `_meta` for the name of a host's incarnation, in the answers to `initialize` and in
/// `reconnect`.
pub const EPOCH: &str = "reknit.epoch";

/// The key of the longest message in bytes that a host accepts, in the `_meta` of its answer to
/// `initialize`.
pub const LONGEST: &str = "reknit.message-bytes";

/// The channel of the state that all sessions share.
pub const ROOT: &str = ahp_types::ROOT_RESOURCE_URI;

/// The maximum length in bytes of a channel's URI, a client's id, and the id of a turn or call.
pub const LONGEST_NAME: usize = 512;

/// The error codes.
pub mod code {
    /// The session does not exist.
    pub const SESSION_NOT_FOUND: i64 = -32001;
    /// The session exists already.
    pub const SESSION_EXISTS: i64 = -32003;
    /// The host supports none of the client's protocol versions.
    pub const UNSUPPORTED_VERSION: i64 = -32005;
    /// The token is not valid for the resource.
    pub const AUTH_REQUIRED: i64 = -32007;
    /// The channel or the client does not exist; an unknown client has to start over.
    pub const NOT_FOUND: i64 = -32008;
    /// A channel with this name exists already.
    pub const EXISTS: i64 = -32010;
    /// A limit of the host is exceeded, or another request for the same session is still in
    /// progress.
    pub const CONFLICT: i64 = -32011;
    /// The frame contains no JSON-RPC message.
    pub const PARSE: i64 = -32700;
    /// The request is not valid now.
    pub const INVALID_REQUEST: i64 = -32600;
    /// The method does not exist.
    pub const UNKNOWN_METHOD: i64 = -32601;
    /// The parameters do not match the method.
    pub const INVALID_PARAMS: i64 = -32602;
    /// The peer failed to handle the request.
    pub const INTERNAL: i64 = -32603;
}

/// The names of methods and notifications.
pub mod method {
    /// Checks that the peer is alive; answered at any time.
    pub const PING: &str = "ping";
    /// The first request of a client that has no state yet.
    pub const INITIALIZE: &str = "initialize";
    /// The first request of a client that already has state.
    pub const RECONNECT: &str = "reconnect";
    /// Subscribes to a channel; the answer contains the channel's state.
    pub const SUBSCRIBE: &str = "subscribe";
    /// Unsubscribes from a channel (a notification).
    pub const UNSUBSCRIBE: &str = "unsubscribe";
    /// Requests an action on a channel (a notification).
    pub const DISPATCH: &str = "dispatchAction";
    /// An action changed a channel (a notification from the host).
    pub const ACTION: &str = "action";
    /// Creates a session.
    pub const CREATE_SESSION: &str = "createSession";
    /// Removes a session.
    pub const DISPOSE_SESSION: &str = "disposeSession";
    /// Creates a chat in a session.
    pub const CREATE_CHAT: &str = "createChat";
    /// Removes a chat.
    pub const DISPOSE_CHAT: &str = "disposeChat";
    /// Passes a token to the host.
    pub const AUTHENTICATE: &str = "authenticate";
    /// A session was added (a notification from the host to all clients).
    pub const SESSION_ADDED: &str = "root/sessionAdded";
    /// A session was removed (a notification from the host to all clients).
    pub const SESSION_REMOVED: &str = "root/sessionRemoved";
}

/// Whether this is a valid name: neither empty nor too long.
pub fn is_name(name: &str) -> bool {
    let length = if defect!(NamesCountLetters) { name.chars().count() } else { name.len() };
    !name.is_empty() && length <= LONGEST_NAME
}

/// Returns the value of [`EPOCH`].
pub fn epoch_of(meta: Option<&ahp::common::JsonObject>) -> Option<&str> {
    meta?.get(EPOCH)?.as_str()
}

/// Creates a `_meta` with an epoch.
pub fn meta_with(epoch: &str) -> ahp::common::JsonObject {
    [(EPOCH.to_owned(), epoch.into())].into_iter().collect()
}

/// Creates the `_meta` of an answer to `initialize`: with an epoch, and the longest message that the
/// host accepts.
pub fn host_meta(epoch: &str, longest: usize) -> ahp::common::JsonObject {
    let mut meta = meta_with(epoch);
    meta.insert(LONGEST.to_owned(), longest.into());
    meta
}

/// Returns the longest message that the host accepts, if a `_meta` contains it.
pub fn longest_of(meta: Option<&ahp::common::JsonObject>) -> Option<usize> {
    usize::try_from(meta?.get(LONGEST)?.as_u64()?).ok()
}

/// Parses the parameters of a method.
///
/// # Errors
/// serde's message if the parameters are invalid.
pub fn params<T: DeserializeOwned>(params: Option<&RawValue>) -> Result<T, String> {
    read(params).map_err(|error| error.to_string())
}

/// Returns the approximate size of a message on the wire, in bytes.
pub fn weight(sent: &impl Serialize) -> usize {
    serde_json::to_string(sent).map_or(0, |text| text.len())
}

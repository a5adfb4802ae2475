//! Requests that a server must refuse, each for its own reason.

use hyper::Method;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use reknit_sse::wire::header;

/// A request that a server must refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WrongRequest {
    /// It has no access token.
    NoToken,
    /// Its access token has the right length, and is another one.
    OtherToken,
    /// Its access token is the first part of the right one.
    ShortToken,
    /// There is no such path.
    OtherPath,
    /// The path does not have this method.
    OtherMethod,
    /// It names no command.
    NoId,
    /// It asks for the state of a command that was never started.
    OtherStatus,
    /// It asks a command to end that was never started.
    OtherInterrupt,
    /// It deletes a session that does not exist.
    OtherSession,
    /// It runs a command in a session that does not exist.
    RunInOtherSession,
    /// It starts a command with a body that is no JSON.
    BadBody,
    /// It starts a command without a command line.
    NoCommand,
    /// It starts a command as an owner whose name is malformed.
    BadOwner,
    /// It starts another command with the id of the command, and says that it has received events of it.
    UsedId,
    /// It starts a command with a list instead of an object.
    ListBody,
    /// It starts a command whose command line contains a zero character.
    ZeroInCommand,
    /// It starts a command in a folder whose name contains a zero character.
    ZeroInFolder,
    /// It starts a command with a variable whose name contains `=`.
    BadVariable,
    /// It starts a command with a variable without a name.
    NamelessVariable,
    /// It starts a command with a negative time limit.
    NegativeLimit,
    /// It starts a command as another user.
    OtherUser,
    /// It starts a command as another group.
    OtherGroup,
    /// It starts a command line and a program.
    TwoCommands,
    /// It starts a program without a name.
    NoProgram,
    /// It starts a command with an id that is none.
    BadId,
    /// It reads the logs of a command that was never started.
    OtherLogs,
    /// It asks for the stream of a command that was never started.
    OtherStream,
    /// It creates a session in a folder whose name contains a zero character.
    ZeroInSession,
    /// It creates a session with a list instead of an object.
    ListSession,
}

/// The content of a request, and its refusal. The user replaces `ID` with the id of the command.
pub(super) struct Row {
    method: &'static str,
    pub(super) path: &'static str,
    pub(super) body: &'static str,
    pub(super) headers: &'static [(&'static str, &'static str)],
    /// The status code, and the name of the refusal.
    pub(super) refusal: (u16, &'static str),
}

impl Row {
    pub(super) fn method(&self) -> Method {
        self.method.parse().unwrap_or_default()
    }
}

const fn row(
    method: &'static str,
    path: &'static str,
    body: &'static str,
    headers: &'static [(&'static str, &'static str)],
    refusal: (u16, &'static str),
) -> Row {
    Row { method, path, body, headers, refusal }
}

impl WrongRequest {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::NoToken,
        Self::OtherToken,
        Self::ShortToken,
        Self::OtherPath,
        Self::OtherMethod,
        Self::NoId,
        Self::OtherStatus,
        Self::OtherInterrupt,
        Self::OtherSession,
        Self::RunInOtherSession,
        Self::BadBody,
        Self::NoCommand,
        Self::BadOwner,
        Self::ListBody,
        Self::ZeroInCommand,
        Self::ZeroInFolder,
        Self::BadVariable,
        Self::NamelessVariable,
        Self::NegativeLimit,
        Self::OtherUser,
        Self::OtherGroup,
        Self::TwoCommands,
        Self::NoProgram,
        Self::BadId,
        Self::OtherLogs,
        Self::OtherStream,
        Self::ZeroInSession,
        Self::ListSession,
        Self::UsedId,
        // The only one that depends on what was there before.
        Self::UsedId,
        Self::UsedId,
    ];

    #[rustfmt::skip]
    pub(super) fn row(self) -> Row {
        match self {
            Self::NoToken => row("GET", "/ping", "", &[(header::ACCESS_TOKEN, "")], (401, "")),
            Self::OtherToken => row("GET", "/ping", "", &[(header::ACCESS_TOKEN, "secreT")], (401, "")),
            Self::ShortToken => row("GET", "/ping", "", &[(header::ACCESS_TOKEN, "secre")], (401, "")),
            Self::OtherPath => row("GET", "/commands", "", &[], (404, "PATH_NOT_FOUND")),
            Self::OtherMethod => row("DELETE", "/ping", "", &[], (405, "METHOD_NOT_ALLOWED")),
            Self::NoId => row("DELETE", "/command", "", &[], (400, "MISSING_QUERY")),
            Self::OtherStatus => row("GET", "/command/status/never-started", "", &[], (404, "COMMAND_NOT_FOUND")),
            Self::OtherInterrupt => row("DELETE", "/command?id=never-started", "", &[], (404, "COMMAND_NOT_FOUND")),
            Self::OtherSession => row("DELETE", "/session/never-created", "", &[], (404, "CONTEXT_NOT_FOUND")),
            Self::RunInOtherSession => row("POST", "/session/never-created/run", r#"{"command":"x"}"#, &[], (404, "CONTEXT_NOT_FOUND")),
            Self::BadBody => row("POST", "/command", "{", &[], (400, "INVALID_REQUEST_BODY")),
            Self::NoCommand => row("POST", "/command", r#"{"command":""}"#, &[], (400, "INVALID_REQUEST_BODY")),
            Self::BadOwner => row("POST", "/command", r#"{"command":"x"}"#, &[(header::OWNER, "?")], (400, "INVALID_REQUEST_BODY")),
            Self::ListBody => row("POST", "/command", r#"["listed","x"]"#, &[], (400, "INVALID_REQUEST_BODY")),
            Self::ZeroInCommand => row("POST", "/command", r#"{"command":"a\u0000b"}"#, &[], (400, "INVALID_REQUEST_BODY")),
            Self::ZeroInFolder => row("POST", "/command", r#"{"command":"x","cwd":"a\u0000b"}"#, &[], (400, "INVALID_REQUEST_BODY")),
            Self::BadVariable => row("POST", "/command", r#"{"command":"x","envs":{"a=b":"1"}}"#, &[], (400, "INVALID_REQUEST_BODY")),
            Self::NamelessVariable => row("POST", "/command", r#"{"command":"x","envs":{"":"1"}}"#, &[], (400, "INVALID_REQUEST_BODY")),
            Self::NegativeLimit => row("POST", "/command", r#"{"command":"x","timeout":-1}"#, &[], (400, "INVALID_REQUEST_BODY")),
            Self::OtherUser => row("POST", "/command", r#"{"command":"x","uid":0}"#, &[], (400, "NOT_SUPPORTED")),
            Self::OtherGroup => row("POST", "/command", r#"{"command":"x","gid":0}"#, &[], (400, "NOT_SUPPORTED")),
            Self::TwoCommands => row("POST", "/command", r#"{"command":"x","argv":["x"]}"#, &[], (400, "INVALID_REQUEST_BODY")),
            Self::NoProgram => row("POST", "/command", r#"{"argv":["","x"]}"#, &[], (400, "INVALID_REQUEST_BODY")),
            Self::BadId => row("POST", "/command", r#"{"command":"x","operation_id":"a b"}"#, &[], (400, "INVALID_REQUEST_BODY")),
            Self::OtherLogs => row("GET", "/command/never-started/logs", "", &[], (404, "COMMAND_NOT_FOUND")),
            Self::OtherStream => row("GET", "/command/never-started/resume", "", &[], (404, "COMMAND_NOT_FOUND")),
            Self::ZeroInSession => row("POST", "/session", r#"{"cwd":"a\u0000b"}"#, &[], (400, "INVALID_REQUEST_BODY")),
            Self::ListSession => row("POST", "/session", r#"["/"]"#, &[], (400, "INVALID_REQUEST_BODY")),
            Self::UsedId => row("POST", "/command?after_eid=1", r#"{"command":"another","operation_id":"ID"}"#, &[], (409, "OPERATION_ID_IN_USE")),
        }
    }
}

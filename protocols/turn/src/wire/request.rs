//! The parameters of requests. A field that is `None` is left out: the server uses its default.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::method;

/// The parameters of `initialize`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeParams {
    /// The program that connects.
    pub client_info: ClientInfo,
    /// Its abilities and wishes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<InitializeCapabilities>,
}

/// The program that connects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientInfo {
    /// Its name for programs.
    pub name: String,
    /// Its name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Its version.
    pub version: String,
}

/// The abilities and wishes of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InitializeCapabilities {
    /// Whether the client uses methods that are not stable.
    pub experimental_api: bool,
    /// The notifications that the server shall not send.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opt_out_notification_methods: Option<Vec<String>>,
}

impl InitializeParams {
    /// The parameters of a client that uses stable methods, and refuses the notifications that it
    /// never reads.
    pub fn new(client_info: ClientInfo) -> Self {
        let refused = method::REFUSED_NOTIFICATIONS.map(str::to_owned).to_vec();
        let capabilities = InitializeCapabilities {
            experimental_api: false,
            opt_out_notification_methods: Some(refused),
        };
        Self { client_info, capabilities: Some(capabilities) }
    }
}

/// The rights of the commands of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxMode {
    /// Read.
    ReadOnly,
    /// Read, and write in the workspace.
    WorkspaceWrite,
    /// Everything.
    DangerFullAccess,
}

/// The parameters of `thread/start`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ThreadStartParams {
    /// The folder in which the agent works.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// When the agent asks a person: `never`, `on-request`, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_policy: Option<String>,
    /// The rights of the commands of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxMode>,
    /// The service that starts the thread, for the server's statistics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_name: Option<String>,
    /// Whether the server forgets the thread when it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ephemeral: Option<bool>,
}

/// The parameters of `thread/resume`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ThreadResumeParams {
    /// The thread.
    pub thread_id: String,
    /// The folder in which the agent works.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// When the agent asks a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_policy: Option<String>,
    /// The rights of the commands of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxMode>,
}

/// The parameters of `thread/name/set`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadSetNameParams {
    /// The thread.
    pub thread_id: String,
    /// Its name.
    pub name: String,
}

/// A part of the input of a turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum TurnInput {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// Another kind of input: an image, a skill, …
    #[serde(untagged)]
    Other(Value),
}

/// The parameters of `turn/start`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TurnStartParams {
    /// The thread. If a turn runs on it, the app-server adds the input to that turn, and answers
    /// with that turn.
    pub thread_id: String,
    /// The input.
    pub input: Vec<TurnInput>,
    /// The model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How hard the model thinks: `low`, `medium`, `high`, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// The JSON schema of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
}

/// Where a review runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Delivery {
    /// On the thread itself.
    Inline,
    /// On a new thread. The app-server 0.169.0 refuses it.
    Detached,
}

/// The changes that a review looks at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum ReviewTarget {
    /// The changes that are not committed.
    UncommittedChanges,
    /// The difference between the current branch and this one.
    BaseBranch {
        /// The branch.
        branch: String,
    },
    /// A commit.
    Commit {
        /// Its hash.
        sha: String,
        /// Its subject, for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
    },
    /// The changes that these instructions name.
    Custom {
        /// The instructions.
        instructions: String,
    },
}

/// The parameters of `review/start`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReviewStartParams {
    /// The thread.
    pub thread_id: String,
    /// The changes to review.
    pub target: ReviewTarget,
    /// Where the review runs. The server's default is inline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<Delivery>,
}

/// The parameters of `turn/interrupt`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnInterruptParams {
    /// The thread of the turn.
    pub thread_id: String,
    /// The turn.
    pub turn_id: String,
}

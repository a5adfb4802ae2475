//! The items of a turn: messages and work.

use std::collections::BTreeMap;

use reknit_seams::defect;
use serde::{Deserialize, Serialize};

use super::open::open_names;

open_names! {
    /// The purpose of a message of the agent. A message without a phase may be an answer or not.
    MessagePhase {
        /// A comment on the work.
        Commentary = "commentary",
        /// A part of the answer. The agent goes on.
        PartialAnswer = "partial_answer",
        /// The answer.
        FinalAnswer = "final_answer",
    }
}

open_names! {
    /// The status of a piece of work.
    WorkStatus {
        /// It runs.
        InProgress = "inProgress",
        /// It succeeded.
        Completed = "completed",
        /// It failed.
        Failed = "failed",
        /// The user or a rule did not allow it.
        Declined = "declined",
        /// It was interrupted.
        Interrupted = "interrupted",
    }
}

open_names! {
    /// A tool of an agent for its subagents.
    AgentTool {
        /// Starts it.
        SpawnAgent = "spawnAgent",
        /// Sends it more input.
        SendInput = "sendInput",
        /// Loads it again.
        ResumeAgent = "resumeAgent",
        /// Waits for its turn to end.
        Wait = "wait",
        /// Ends it.
        CloseAgent = "closeAgent",
    }
}

open_names! {
    /// The kind of a change of a file.
    ChangeKind {
        /// The file is new.
        Add = "add",
        /// The file was deleted.
        Delete = "delete",
        /// The content or the name changed.
        Update = "update",
    }
}

/// The change of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileChange {
    /// The file.
    pub path: String,
    /// The kind of the change.
    pub kind: Change,
    /// The change, in the unified format.
    pub diff: String,
}

/// The kind of a change, as a message contains it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The kind.
    #[serde(rename = "type", default)]
    pub kind: ChangeKind,
}

/// The state of a subagent, as an item of another agent reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentState {
    /// `running`, `completed`, `errored`, …
    pub status: String,
}

/// An item of a turn. If a field of work is missing, it is empty; a missing status is
/// [`WorkStatus::Other`] with the empty name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum Item {
    /// The input.
    UserMessage {
        /// Its id.
        id: String,
    },
    /// A message of the agent.
    AgentMessage {
        /// Its id.
        id: String,
        /// Its text.
        #[serde(default)]
        text: String,
        /// The phase. `None` from a server or a model without phases.
        #[serde(default)]
        phase: Option<MessagePhase>,
    },
    /// A plan of the agent.
    Plan {
        /// Its id.
        id: String,
        /// Its text.
        #[serde(default)]
        text: String,
    },
    /// A thought of the agent.
    Reasoning {
        /// Its id.
        id: String,
    },
    /// A command.
    CommandExecution {
        /// Its id.
        id: String,
        /// The command line.
        #[serde(default)]
        command: String,
        /// Its status.
        #[serde(default)]
        status: WorkStatus,
        /// Its exit code, once it ended.
        #[serde(default)]
        exit_code: Option<i64>,
    },
    /// Changes of files.
    FileChange {
        /// Its id.
        id: String,
        /// The changes.
        #[serde(default)]
        changes: Vec<FileChange>,
        /// Whether they were made.
        #[serde(default)]
        status: WorkStatus,
    },
    /// A call of a tool of an MCP server.
    McpToolCall {
        /// Its id.
        id: String,
        /// The MCP server.
        #[serde(default)]
        server: String,
        /// The tool.
        #[serde(default)]
        tool: String,
        /// Its status.
        #[serde(default)]
        status: WorkStatus,
    },
    /// A call of a tool that the client runs.
    DynamicToolCall {
        /// Its id.
        id: String,
        /// The tool.
        #[serde(default)]
        tool: String,
        /// Its status.
        #[serde(default)]
        status: WorkStatus,
    },
    /// Work on a subagent.
    CollabAgentToolCall {
        /// Its id.
        id: String,
        /// The tool.
        #[serde(default)]
        tool: AgentTool,
        /// Its status.
        #[serde(default)]
        status: WorkStatus,
        /// The threads of the subagents. Empty while a new subagent starts.
        #[serde(default)]
        receiver_thread_ids: Vec<String>,
        /// The states of the subagents, by thread.
        #[serde(default)]
        agents_states: BTreeMap<String, AgentState>,
    },
    /// A subagent started, got input, or ended.
    SubAgentActivity {
        /// Its id.
        id: String,
        /// The thread of the subagent.
        #[serde(default)]
        agent_thread_id: String,
    },
    /// A search on the web.
    WebSearch {
        /// Its id.
        id: String,
        /// The words that it searches for.
        #[serde(default)]
        query: String,
    },
    /// The begin of a review.
    EnteredReviewMode {
        /// Its id.
        id: String,
    },
    /// The end of a review.
    ExitedReviewMode {
        /// Its id.
        id: String,
        /// The review.
        #[serde(default)]
        review: String,
    },
    /// An item of a kind that this version does not know, or whose fields it cannot read.
    #[serde(untagged)]
    Other {
        /// Its id. Empty if the server left it out.
        #[serde(default)]
        id: String,
        /// Its kind. Empty if the server left it out.
        #[serde(rename = "type", default)]
        kind: String,
    },
}

impl Item {
    /// Returns the id.
    pub fn id(&self) -> &str {
        match self {
            Self::UserMessage { id }
            | Self::AgentMessage { id, .. }
            | Self::Plan { id, .. }
            | Self::Reasoning { id }
            | Self::CommandExecution { id, .. }
            | Self::FileChange { id, .. }
            | Self::McpToolCall { id, .. }
            | Self::DynamicToolCall { id, .. }
            | Self::CollabAgentToolCall { id, .. }
            | Self::SubAgentActivity { id, .. }
            | Self::WebSearch { id, .. }
            | Self::EnteredReviewMode { id }
            | Self::ExitedReviewMode { id, .. }
            | Self::Other { id, .. } => id,
        }
    }

    /// Returns the kind, by its name on the wire.
    pub fn kind(&self) -> &str {
        match self {
            Self::UserMessage { .. } => "userMessage",
            Self::AgentMessage { .. } => "agentMessage",
            Self::Plan { .. } => "plan",
            Self::Reasoning { .. } => "reasoning",
            Self::CommandExecution { .. } => "commandExecution",
            Self::FileChange { .. } => "fileChange",
            Self::McpToolCall { .. } => "mcpToolCall",
            Self::DynamicToolCall { .. } => "dynamicToolCall",
            Self::CollabAgentToolCall { .. } => "collabAgentToolCall",
            Self::SubAgentActivity { .. } => "subAgentActivity",
            Self::WebSearch { .. } => "webSearch",
            Self::EnteredReviewMode { .. } => "enteredReviewMode",
            Self::ExitedReviewMode { .. } => "exitedReviewMode",
            Self::Other { kind, .. } => kind,
        }
    }

    /// Whether the item is work: the turn is not over before it is complete. Messages, thoughts,
    /// plans, and the marks of a review and of a subagent's activity are not. An unknown kind may be
    /// work, so it counts.
    pub fn is_work(&self) -> bool {
        if matches!(self, Self::Plan { .. }) && defect!(PlansAreWork) {
            return true;
        }
        !matches!(
            self.kind(),
            "userMessage"
                | "agentMessage"
                | "plan"
                | "reasoning"
                | "enteredReviewMode"
                | "exitedReviewMode"
                | "subAgentActivity"
        )
    }
}

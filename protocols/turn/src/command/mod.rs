//! The commands of a user, as requests to an app-server or a broker.
//!
//! - [`Command`], [`Settings`]: what the user wants. [`Order`]: both, for another process. `prompt`: the texts for the agent.
//! - [`StartSequence`]: the requests up to the start of the turn, and whether the command may run again
//!   on another server.

mod prompt;
mod sequence;

#[cfg(test)]
mod tests;

pub use prompt::findings_schema;
pub(crate) use sequence::and_left;
pub use sequence::{Fallback, Next, NotStarted, Refusal, Request, StartSequence};

use reknit_seams::defect;
use serde::{Deserialize, Serialize};

use crate::capture::TurnKind;
use crate::wire::{
    Delivery, ReviewStartParams, ReviewTarget, SandboxMode, ThreadResumeParams, ThreadStartParams,
    TurnInput, TurnStartParams,
};

/// A command with its circumstances: all that another process needs to run it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The command.
    pub command: Command,
    /// Its circumstances.
    pub settings: Settings,
}

/// A command that runs one turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Command {
    /// Work on a task.
    Task {
        /// The thread of the task.
        thread: TaskThread,
        /// Whether the agent may change files in its folder.
        write: bool,
    },
    /// A review by the reviewer of the app-server.
    Review {
        /// The changes to review.
        target: ReviewTarget,
        /// Where the review runs.
        delivery: Delivery,
    },
    /// A review that looks for reasons against the changes. Its answer is JSON: see
    /// [`findings_schema`].
    AdversarialReview {
        /// The changes to review.
        target: ReviewTarget,
        /// A subject that matters most to the user.
        focus: Option<String>,
    },
}

/// The thread of a task, and the prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum TaskThread {
    /// A new thread, which the server keeps.
    New {
        /// The prompt.
        prompt: String,
    },
    /// A thread of the past.
    Resume {
        /// The thread.
        thread: String,
        /// The prompt. Without one, the agent continues its work.
        prompt: Option<String>,
    },
}

/// The circumstances of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// The folder in which the agent works, as an absolute path.
    pub cwd: String,
    /// The model. `None` is the server's default.
    pub model: Option<String>,
    /// How hard the model thinks. `None` is the server's default.
    pub effort: Option<String>,
    /// The name of the program, for the server's statistics.
    pub service: String,
}

impl Command {
    /// Returns the kind of the turn, for its [`Capture`](crate::capture::Capture).
    pub fn kind(&self) -> TurnKind {
        match self {
            Self::Review { .. } => TurnKind::Review,
            Self::Task { .. } | Self::AdversarialReview { .. } => TurnKind::Task,
        }
    }

    /// Returns one line that says what the command is about.
    pub fn title(&self) -> String {
        match self {
            Self::Task { thread: TaskThread::New { prompt }, .. } => prompt::name(prompt),
            Self::Task { thread: TaskThread::Resume { prompt, .. }, .. } => {
                prompt::name(prompt.as_deref().unwrap_or(prompt::CONTINUE))
            }
            Self::Review { target, .. } | Self::AdversarialReview { target, .. } => {
                prompt::subject(target)
            }
        }
    }

    fn sandbox(&self) -> SandboxMode {
        match self {
            Self::Task { write: true, .. } => SandboxMode::WorkspaceWrite,
            // The bug: a review may change files.
            Self::Review { .. } | Self::AdversarialReview { .. } if defect!(ReviewsMayWrite) => {
                SandboxMode::WorkspaceWrite
            }
            _ => SandboxMode::ReadOnly,
        }
    }

    /// The thread to resume, if there is one.
    fn resumed(&self) -> Option<&str> {
        match self {
            Self::Task { thread: TaskThread::Resume { thread, .. }, .. } => Some(thread),
            _ => None,
        }
    }

    /// Whether the server forgets the thread when it ends. A user can resume only a task.
    fn is_ephemeral(&self) -> bool {
        !matches!(self, Self::Task { .. })
    }

    /// The name of a new thread.
    fn thread_name(&self) -> Option<String> {
        match self {
            Self::Task { thread: TaskThread::New { prompt }, .. } => Some(prompt::name(prompt)),
            _ => None,
        }
    }

    fn thread_start(&self, settings: &Settings) -> ThreadStartParams {
        ThreadStartParams {
            cwd: Some(settings.cwd.clone()),
            model: settings.model.clone(),
            // No person is there to ask.
            approval_policy: Some("never".into()),
            sandbox: Some(self.sandbox()),
            service_name: Some(settings.service.clone()),
            ephemeral: Some(self.is_ephemeral()),
        }
    }

    fn thread_resume(&self, thread: &str, settings: &Settings) -> ThreadResumeParams {
        ThreadResumeParams {
            thread_id: thread.to_owned(),
            cwd: Some(settings.cwd.clone()),
            model: settings.model.clone(),
            approval_policy: Some("never".into()),
            sandbox: Some(self.sandbox()),
        }
    }

    /// The request that starts the turn on this thread.
    fn turn_start(&self, thread: &str, settings: &Settings) -> Request {
        let (prompt, output_schema) = match self {
            Self::Review { target, delivery } => {
                return Request::review_start(&ReviewStartParams {
                    thread_id: thread.to_owned(),
                    target: target.clone(),
                    delivery: Some(*delivery),
                });
            }
            Self::Task { thread: TaskThread::New { prompt }, .. } => (prompt.clone(), None),
            Self::Task { thread: TaskThread::Resume { prompt, .. }, .. } => {
                (prompt.clone().unwrap_or_else(|| prompt::CONTINUE.to_owned()), None)
            }
            Self::AdversarialReview { target, focus } => {
                let focus = focus.as_deref().filter(|_| !defect!(FocusIsForgotten));
                let prompt = prompt::adversarial_review(target, focus);
                (prompt, Some(findings_schema()))
            }
        };
        Request::turn_start(&TurnStartParams {
            thread_id: thread.to_owned(),
            input: vec![TurnInput::Text { text: prompt }],
            model: settings.model.clone(),
            effort: settings.effort.clone().filter(|_| !defect!(EffortIsForgotten)),
            output_schema,
        })
    }
}

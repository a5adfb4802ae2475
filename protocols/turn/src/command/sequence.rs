//! The requests up to the start of a turn.
//!
//! ```text
//! thread/start or thread/resume ──► thread/name/set ──► turn/start or review/start ──► started
//!                                   (a new task only)      │ busy        │ refused otherwise
//!                                                          ▼             ▼
//!                                      retry ◄── waits ──► thread/delete or thread/unsubscribe
//!                                                          (a new thread only)
//! ```
//!
//! A broker can be busy, or absent. The command may then run on an app-server of the client, from the
//! begin ([`Fallback`]). It must not run a turn twice, and must not leave a thread behind. So, before it
//! moves to another server, it removes the thread that it started. It never moves with a thread that it
//! resumed: the app-server behind the broker holds that thread until it ends, and no other app-server can
//! load it.

use reknit_jsonrpc::ErrorBody;
use reknit_seams::defect;
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::{Command, Settings};
use crate::upstream::{NotConnected, RequestFailure};
use crate::wire::{
    ReviewStartParams, ThreadAnswer, ThreadSetNameParams, TurnStartParams, code, method,
};

/// A request to send.
#[derive(Clone, Debug)]
pub struct Request {
    /// The method.
    pub method: &'static str,
    /// The parameters.
    pub params: Box<RawValue>,
}

impl Request {
    fn new(method: &'static str, params: &impl Serialize) -> Self {
        let params =
            serde_json::value::to_raw_value(params).expect("the parameters are plain data");
        Self { method, params }
    }

    pub(super) fn turn_start(params: &TurnStartParams) -> Self {
        Self::new(method::TURN_START, params)
    }

    pub(super) fn review_start(params: &ReviewStartParams) -> Self {
        Self::new(method::REVIEW_START, params)
    }
}

/// Why a request has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The server refused it.
    #[error("{message} (error {code})")]
    Error {
        /// The error code.
        code: i64,
        /// The message of the server.
        message: String,
    },
    /// The connection ended, or its answer is unreadable or late. The server may have done it.
    #[error("{0}")]
    Unknown(String),
    /// It was not sent: there is no connection.
    #[error("{0}")]
    NotSent(String),
    /// It was not sent: the user cancelled the command.
    #[error("the user cancelled it")]
    Cancelled,
}

impl From<RequestFailure> for Refusal {
    fn from(failure: RequestFailure) -> Self {
        match failure {
            RequestFailure::Refused(ErrorBody { code, message, .. }) => {
                Self::Error { code, message }
            }
            RequestFailure::Deadline | RequestFailure::Ended(_) => {
                Self::Unknown(failure.to_string())
            }
        }
    }
}

impl From<NotConnected> for Refusal {
    fn from(why: NotConnected) -> Self {
        Self::NotSent(why.to_string())
    }
}

/// Whether the command may run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// From the begin, on another server. This one has no turn and no thread of the command.
    OtherServer,
    /// Later, on this server: see [`StartSequence::retry`]. To run it on another server instead, remove
    /// its thread first: see [`StartSequence::remove_thread`].
    SameServer,
    /// No.
    Never,
}

/// The next step.
#[derive(Clone, Debug)]
pub enum Next {
    /// Send this request, and hand in the answer with [`StartSequence::answered`].
    Request(Request),
    /// Create the capture of a turn on this thread, and send this request. If it is refused, hand that
    /// in with [`StartSequence::turn_refused`].
    Turn {
        /// The thread.
        thread: String,
        /// The request.
        request: Request,
    },
    /// The turn did not start.
    NotStarted(NotStarted),
}

/// Why a turn did not start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the turn did not start: {refusal}{}", and_left(.left_behind.as_deref()))]
pub struct NotStarted {
    /// The refusal.
    pub refusal: Refusal,
    /// Whether the command may run again.
    pub fallback: Fallback,
    /// A thread that the sequence started and has not removed.
    pub left_behind: Option<String>,
}

impl NotStarted {
    /// Returns the exit status of the program that ran the command: 130 if the user cancelled it,
    /// otherwise 1.
    pub fn exit_status(&self) -> i32 {
        if self.refusal == Refusal::Cancelled { 130 } else { 1 }
    }
}

/// Returns the end of a message, if a thread is left.
pub(crate) fn and_left(thread: Option<&str>) -> String {
    thread.map_or_else(String::new, |thread| format!("; the unused thread {thread} is left"))
}

#[derive(Clone, Debug)]
enum Step {
    Thread,
    Name { thread: String },
    Turn { thread: String },
    Remove { thread: String, refusal: Refusal },
    NotStarted(NotStarted),
}

/// The requests of one command on one server.
pub struct StartSequence {
    command: Command,
    settings: Settings,
    step: Step,
}

impl StartSequence {
    /// Creates the sequence of a command.
    pub fn new(command: Command, settings: Settings) -> Self {
        Self { command, settings, step: Step::Thread }
    }

    /// Returns the command.
    pub fn command(&self) -> &Command {
        &self.command
    }

    /// Returns the next step. It stays the same until its answer is handed in.
    pub fn next(&self) -> Next {
        match &self.step {
            Step::Thread => Next::Request(self.thread_request()),
            Step::Name { thread } => {
                let name = self.command.thread_name().unwrap_or_default();
                let params = ThreadSetNameParams { thread_id: thread.clone(), name };
                Next::Request(Request::new(method::THREAD_SET_NAME, &params))
            }
            Step::Turn { thread } => {
                let request = self.command.turn_start(thread, &self.settings);
                Next::Turn { thread: thread.clone(), request }
            }
            Step::Remove { thread, .. } => Next::Request(self.removal(thread)),
            Step::NotStarted(not_started) => Next::NotStarted(not_started.clone()),
        }
    }

    /// Takes the answer to a [`Next::Request`].
    pub fn answered(&mut self, answer: Result<Box<RawValue>, Refusal>) {
        let step = std::mem::replace(&mut self.step, Step::Thread);
        self.step = match (step, answer) {
            (Step::Thread, Ok(result)) => self.with_thread(&result),
            (Step::Thread, Err(refusal)) => {
                let fallback = self.without_thread(&refusal);
                not_started(refusal, fallback, None)
            }
            // A turn needs no name. If the server is busy or gone, the next request shows it.
            (Step::Name { thread }, _) => Step::Turn { thread },
            (Step::Remove { refusal, .. }, Ok(_)) => {
                let fallback =
                    if is_busy(&refusal) { Fallback::OtherServer } else { Fallback::Never };
                not_started(refusal, fallback, None)
            }
            (Step::Remove { thread, refusal }, Err(why)) => {
                let may_wait = is_busy(&why) && refusal != Refusal::Cancelled;
                let fallback = if may_wait { Fallback::SameServer } else { Fallback::Never };
                not_started(refusal, fallback, Some(thread))
            }
            (step @ (Step::Turn { .. } | Step::NotStarted(_)), _) => step,
        };
    }

    /// Takes the refusal of a [`Next::Turn`].
    pub fn turn_refused(&mut self, refusal: Refusal) {
        let Step::Turn { thread } = &self.step else { return };
        // The bug: a refusal removes a thread that the command has continued.
        let is_new = self.command.resumed().is_none() || defect!(RefusalsRemoveOldThreads);
        let new = Some(thread.clone()).filter(|_| is_new);
        self.step = match (&refusal, new) {
            (Refusal::Error { .. }, _)
                if is_busy(&refusal) && defect!(RunsAgainBesideItsThread) =>
            {
                not_started(refusal, Fallback::OtherServer, None)
            }
            (Refusal::Error { .. }, new) if is_busy(&refusal) => {
                not_started(refusal, Fallback::SameServer, new)
            }
            (Refusal::Error { .. }, Some(thread)) => Step::Remove { thread, refusal },
            (Refusal::Error { .. }, None) => not_started(refusal, Fallback::Never, None),
            (Refusal::Unknown(_), new) if defect!(RunsAgainAfterALostStart) => {
                not_started(refusal, Fallback::OtherServer, new)
            }
            (Refusal::Unknown(_), new) => not_started(refusal, Fallback::Never, new),
            // The bug: the command moves, and leaves its thread at a server that it has lost.
            (Refusal::NotSent(_), Some(_)) if defect!(LostThreadsAreForgotten) => {
                not_started(refusal, Fallback::OtherServer, None)
            }
            (Refusal::NotSent(_) | Refusal::Cancelled, None) => {
                not_started(refusal, Fallback::OtherServer, None)
            }
            (Refusal::NotSent(_) | Refusal::Cancelled, new) => {
                not_started(refusal, Fallback::Never, new)
            }
        };
    }

    /// Asks for the turn again, after [`Fallback::SameServer`].
    pub fn retry(&mut self) {
        if let Step::NotStarted(NotStarted {
            fallback: Fallback::SameServer, left_behind, ..
        }) = &self.step
        {
            let thread = left_behind.as_deref().or(self.command.resumed()).map(str::to_owned);
            self.step = Step::Turn { thread: thread.unwrap_or_default() };
        }
    }

    /// Gives the turn up on this server, after [`Fallback::SameServer`]: removes the thread that the
    /// sequence left behind.
    pub fn remove_thread(&mut self) {
        if let Step::NotStarted(NotStarted { refusal, left_behind: Some(thread), .. }) = &self.step
        {
            self.step = Step::Remove { thread: thread.clone(), refusal: refusal.clone() };
        }
    }

    /// The user cancelled the command: starts no turn, and removes a new thread. A turn that has started
    /// is the matter of its capture.
    pub fn cancel(&mut self) {
        // The bug: a cancel removes a thread that the command has continued.
        let is_new = self.command.resumed().is_none() || defect!(CancelsRemoveOldThreads);
        let new = |thread: &String| Some(thread.clone()).filter(|_| is_new);
        let thread = match &self.step {
            Step::Thread => None,
            Step::Name { .. } if defect!(UnnamedThreadIsLeft) => None,
            Step::Name { thread } | Step::Turn { thread } => new(thread),
            Step::NotStarted(why) if why.refusal != Refusal::Cancelled => why.left_behind.clone(),
            Step::Remove { thread, .. } => Some(thread.clone()),
            Step::NotStarted(_) => return,
        };
        self.step = match thread {
            Some(thread) => Step::Remove { thread, refusal: Refusal::Cancelled },
            None => not_started(Refusal::Cancelled, Fallback::Never, None),
        };
    }

    fn thread_request(&self) -> Request {
        match self.command.resumed() {
            Some(thread) => Request::new(
                method::THREAD_RESUME,
                &self.command.thread_resume(thread, &self.settings),
            ),
            None => Request::new(method::THREAD_START, &self.command.thread_start(&self.settings)),
        }
    }

    fn removal(&self, thread: &str) -> Request {
        let method = if self.command.is_ephemeral() || defect!(StoredThreadIsLeft) {
            method::THREAD_UNSUBSCRIBE
        } else {
            method::THREAD_DELETE
        };
        Request::new(method, &json!({ "threadId": thread }))
    }

    fn with_thread(&self, result: &RawValue) -> Step {
        let answer: ThreadAnswer = serde_json::from_str(result.get()).unwrap_or_default();
        let thread = answer.thread.id;
        if thread.is_empty() {
            let refusal = Refusal::Unknown("the answer contains no thread".into());
            // The bug: the command runs again, although there may be a thread.
            let moves = defect!(ThreadlessAnswersMove);
            let fallback = if moves { Fallback::OtherServer } else { Fallback::Never };
            return not_started(refusal, fallback, None);
        }
        match self.command.thread_name() {
            Some(_) if !defect!(TasksAreUnnamed) => Step::Name { thread },
            _ => Step::Turn { thread },
        }
    }

    /// Whether the command may run again if it got no thread. To load a thread changes nothing.
    fn without_thread(&self, refusal: &Refusal) -> Fallback {
        match refusal {
            Refusal::NotSent(_) => Fallback::OtherServer,
            Refusal::Error { .. } if is_busy(refusal) => Fallback::OtherServer,
            Refusal::Unknown(_) if self.command.resumed().is_some() => Fallback::OtherServer,
            Refusal::Error { .. } | Refusal::Unknown(_) | Refusal::Cancelled => Fallback::Never,
        }
    }
}

fn is_busy(refusal: &Refusal) -> bool {
    matches!(refusal, Refusal::Error { code: code::BUSY, .. })
}

fn not_started(refusal: Refusal, fallback: Fallback, left_behind: Option<String>) -> Step {
    Step::NotStarted(NotStarted { refusal, fallback, left_behind })
}

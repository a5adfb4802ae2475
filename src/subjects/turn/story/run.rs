//! A run collects what a history says about one command of a user.

use crate::history::{Answer, Call, Time};
use crate::schedule::Operation;
use crate::subjects::turn::notes::{Reported, Silence, TurnNote};
use crate::subjects::turn::outcome::{CommandOutcome, SeenRefusal};

/// A command of a user.
pub(in super::super) struct Run<'a> {
    pub call: Call,
    pub host: &'a str,
    pub operation: &'a Operation,
    pub asked: Time,
    /// The notes of the app-server about the turn, in order.
    pub notes: Vec<(Time, &'a TurnNote)>,
    /// The end for the user.
    pub answer: Option<(Time, &'a Answer)>,
    /// When the user abandoned it, or its host died.
    pub abandoned: Option<Time>,
    /// When the user cancelled it.
    pub cancelled: Option<Time>,
    /// When its client had a verdict, and its interrupt was answered. The user sees it later.
    pub decided: Option<Time>,
    /// When its turn had a verdict; an interrupt may follow.
    pub resolved: Option<Time>,
    /// The exit status of a command that got no turn, as its user saw it.
    pub status: Option<i32>,
}

impl<'a> Run<'a> {
    /// Returns the name of the turn.
    pub fn turn(&self) -> &'a str {
        text(self.operation).unwrap_or_default()
    }

    /// Returns what the user saw at the end of a turn that started.
    pub fn outcome(&self) -> Option<(Time, &'a CommandOutcome)> {
        let (at, answer) = self.answer?;
        let (Answer::Done(data) | Answer::Queued(data)) = answer else { return None };
        Some((at, data.downcast_ref::<CommandOutcome>()?))
    }

    /// Returns why the command got no turn.
    pub fn refusal(&self) -> Option<&'a SeenRefusal> {
        let (_, answer) = self.answer?;
        answer.refusal()
    }

    fn when(&self, is: impl Fn(&TurnNote) -> bool) -> Option<Time> {
        self.notes.iter().find(|(_, note)| is(note)).map(|(at, _)| *at)
    }

    /// Returns when the app-server sent the id of the turn.
    pub fn named(&self) -> Option<Time> {
        self.when(|note| *note == TurnNote::Named)
    }

    /// Returns when the command got its first thread, and the thread.
    pub fn thread(&self) -> Option<(Time, &'a str)> {
        self.notes.iter().find_map(|(at, note)| match note {
            TurnNote::Thread(thread) => Some((*at, thread.as_str())),
            _ => None,
        })
    }

    /// Whether its turn has this id.
    pub(super) fn has_turn(&self, id: Option<&str>) -> bool {
        self.started().is_some_and(|(_, turn, _)| Some(turn) == id)
    }

    /// Whether it has a thread with this id. The thread of a review is known once its turn starts.
    pub(super) fn has_thread(&self, id: Option<&str>) -> bool {
        self.notes.iter().any(|(_, note)| match note {
            TurnNote::Thread(thread) | TurnNote::Started { thread, .. } => {
                Some(thread.as_str()) == id
            }
            _ => false,
        })
    }

    /// Returns when the turn was over for the app-server, but without a report.
    pub fn left(&self) -> Option<Time> {
        self.when(|note| *note == TurnNote::Left)
    }

    /// Returns the account of the command, if its user chose one.
    pub fn account(&self) -> Option<&'a str> {
        self.operation.fields.get("account").and_then(|account| account.as_str())
    }

    /// Whether the app-server that was asked for the turn works for this account.
    pub fn is_on_account(&self, account: &str) -> bool {
        self.notes.iter().any(|(_, note)| matches!(note, TurnNote::Account(own) if own == account))
    }

    /// Returns the account of the command, and another one for which the app-server of its turn works.
    pub fn other_account(&self) -> Option<(Time, &'a str, &'a str)> {
        let own = self.account()?;
        self.notes.iter().find_map(|(at, note)| match note {
            TurnNote::Account(account) if account != own => Some((*at, own, account.as_str())),
            _ => None,
        })
    }

    /// Whether the command cannot start its own app-server.
    pub fn is_unstartable(&self) -> bool {
        let is = self.operation.fields.get("unstartable").and_then(|is| is.as_bool());
        is.unwrap_or(false)
    }

    /// Returns the route that the user chose.
    pub fn route(&self) -> &'a str {
        let route = self.operation.fields.get("route").and_then(|route| route.as_str());
        route.unwrap_or("broker-or-direct")
    }

    /// Returns when the app-server reported the end of the turn, and how.
    pub fn reported(&self) -> Option<(Time, Reported)> {
        self.notes.iter().find_map(|(at, note)| match note {
            TurnNote::Reported(reported) => Some((*at, *reported)),
            _ => None,
        })
    }

    /// Returns when the agent gave its final answer, with text.
    pub fn final_answer(&self) -> Option<Time> {
        self.when(|note| *note == TurnNote::Answered { is_final: true })
    }

    /// Returns when a client interrupted the turn.
    pub fn interrupted(&self) -> Option<Time> {
        self.when(|note| *note == TurnNote::Interrupted)
    }

    /// Returns when the first command or subagent of the turn began to work, while none worked.
    pub fn works(&self) -> Option<Time> {
        self.when(|note| *note == TurnNote::Works)
    }

    /// Returns when no command and no subagent of the turn worked any more, for the first time.
    pub fn rests(&self) -> Option<Time> {
        self.when(|note| *note == TurnNote::Rests)
    }

    /// Returns when the app-server refused to interrupt the turn for the first time.
    pub fn interrupt_refused(&self) -> Option<Time> {
        self.when(|note| *note == TurnNote::InterruptRefused)
    }

    /// Returns when an interrupt of the turn came after its end, for the first time.
    pub fn interrupted_late(&self) -> Option<Time> {
        self.when(|note| *note == TurnNote::InterruptedLate)
    }

    /// Returns when a client asked for the interrupt of the turn for the first time.
    pub fn asked_to_interrupt(&self) -> Option<Time> {
        self.when(|note| matches!(note, TurnNote::Interrupted | TurnNote::InterruptRefused))
    }

    /// Returns for how long the app-server had sent nothing about the turn when it was interrupted.
    pub fn silent(&self) -> Option<Silence> {
        silent(&self.notes)
    }

    /// Returns when the turn started, and its id and its thread.
    pub fn started(&self) -> Option<(Time, &'a str, &'a str)> {
        started(&self.notes)
    }

    /// Returns when the app-server had sent more than the client takes.
    pub fn too_much(&self) -> Option<Time> {
        too_much(&self.notes)
    }

    /// Returns when an interrupt of the turn named another thread, for the first time.
    pub fn interrupted_elsewhere(&self) -> Option<Time> {
        self.when(|note| *note == TurnNote::InterruptedElsewhere)
    }

    /// Returns when the app-server refused to start the turn.
    pub fn refused(&self) -> Option<Time> {
        self.when(|note| *note == TurnNote::Refused)
    }

    /// Returns when the app-server had nothing more to do with the turn.
    pub fn gone(&self) -> Option<Time> {
        self.when(|note| *note == TurnNote::Gone)
    }
}

/// Returns when an app-server had sent more than the client of a turn takes.
pub(in super::super) fn too_much(notes: &[(Time, &TurnNote)]) -> Option<Time> {
    notes.iter().find(|(_, note)| **note == TurnNote::TooMuch).map(|(at, _)| *at)
}

/// Returns when a turn started, and its id and its thread.
pub(in super::super) fn started<'a>(
    notes: &[(Time, &'a TurnNote)],
) -> Option<(Time, &'a str, &'a str)> {
    notes.iter().find_map(|(at, note)| match note {
        TurnNote::Started { turn, thread } => Some((*at, turn.as_str(), thread.as_str())),
        _ => None,
    })
}

/// Returns for how long an app-server had sent nothing about a turn when it was interrupted.
pub(in super::super) fn silent(notes: &[(Time, &TurnNote)]) -> Option<Silence> {
    notes.iter().find_map(|(_, note)| match note {
        TurnNote::Silent(silence) => Some(*silence),
        _ => None,
    })
}

/// Returns the turn that an operation names.
pub(super) fn text(operation: &Operation) -> Option<&str> {
    operation.fields.get("turn").and_then(|turn| turn.as_str())
}

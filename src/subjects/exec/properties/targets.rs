//! Which process each call of a user is about.

use std::collections::BTreeMap;

use super::served::UserOperation;
use crate::history::{Call, Event, EventKind};
use crate::property::CheckContext;

/// The calls of all users, and their processes.
#[derive(Default)]
pub(super) struct Targets<'a> {
    /// The calls.
    pub(super) asked: BTreeMap<Call, UserOperation<'a>>,
    /// The newest process that each user can name, by host and name: its record.
    newest: BTreeMap<(&'a str, &'a str), &'a str>,
    /// The record of the process of each call.
    of: BTreeMap<Call, &'a str>,
}

impl<'a> Targets<'a> {
    /// Processes an event.
    pub(super) fn pass(&mut self, cx: &CheckContext<'a>, event: &'a Event) {
        match &event.what {
            EventKind::Asked { .. } => {
                let Some((call, asked)) = UserOperation::of(event) else { return };
                self.of.extend(self.newest(&asked).map(|record| (call, record)));
                self.asked.insert(call, asked);
            }
            EventKind::Opened { stream, call } => {
                if let Some(start) = self.asked.get(call)
                    && let Some(process) = start.process()
                {
                    self.newest.insert((start.host, process), cx.guarantees.whole(stream));
                }
            }
            _ => {}
        }
    }

    /// Returns the record of the process of a call, if its user had started one.
    pub(super) fn of(&self, call: Call) -> Option<&'a str> {
        self.of.get(&call).copied()
    }

    /// Returns the record of the newest process with the name in an operation.
    pub(super) fn newest(&self, asked: &UserOperation<'a>) -> Option<&'a str> {
        self.newest.get(&(asked.host, asked.process()?)).copied()
    }
}

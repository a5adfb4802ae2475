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
    /// The start of each process, by record.
    starts: BTreeMap<&'a str, UserOperation<'a>>,
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
                    let record = cx.guarantees.whole(stream);
                    self.newest.insert((start.host, process), record);
                    if start.verb() == "start" {
                        self.starts.entry(record).or_insert(*start);
                    }
                }
            }
            _ => {}
        }
    }

    /// Returns the record of the process of a call, if its user had started one.
    pub(super) fn of(&self, call: Call) -> Option<&'a str> {
        self.of.get(&call).copied()
    }

    /// Returns the start of the process of a call, if its user had started one.
    pub(super) fn start_of(&self, call: Call) -> Option<&UserOperation<'a>> {
        self.starts.get(self.of(call)?)
    }

    /// Returns the record of the newest process with the name in an operation.
    pub(super) fn newest(&self, asked: &UserOperation<'a>) -> Option<&'a str> {
        self.newest.get(&(asked.host, asked.process()?)).copied()
    }
}

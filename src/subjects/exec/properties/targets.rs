//! Which process each call of a user is about.
//!
//! A user that has no handle of a process waits for the outcome of its start: a call that it makes
//! meanwhile is about the process that comes, not about an older one whose handle it has dropped. A call
//! over an older handle is about the process that the newest one replaced. The user of a restarted
//! host has no handle of an earlier process.

use std::collections::{BTreeMap, BTreeSet};

use super::served::UserOperation;
use crate::history::{Call, Event, EventKind};
use crate::property::CheckContext;
use crate::subjects::judging::host;

/// The calls of all users, and their processes.
#[derive(Default)]
pub(super) struct Targets<'a> {
    /// The calls.
    pub(super) asked: BTreeMap<Call, UserOperation<'a>>,
    /// The newest process that each user can name, by host and name: its record.
    newest: BTreeMap<(&'a str, &'a str), &'a str>,
    /// The process whose handle the newest one replaced, by host and name: its record.
    older: BTreeMap<(&'a str, &'a str), &'a str>,
    /// The processes whose handle their user has dropped, by host and name.
    dropped: BTreeSet<(&'a str, &'a str)>,
    /// The calls without an outcome that had no handle when they were made.
    waiting: BTreeSet<Call>,
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
                let key = asked.process().map(|process| (asked.host, process));
                if asked.is_older() {
                    let older = key.and_then(|key| self.older.get(&key).copied());
                    self.of.extend(older.map(|record| (call, record)));
                    self.asked.insert(call, asked);
                    return;
                }
                let is_dropped = key.is_some_and(|key| self.dropped.contains(&key));
                match self.newest(&asked).filter(|_| !is_dropped) {
                    Some(record) => {
                        self.of.insert(call, record);
                        // The history has the calls of one moment before the effects of the first of
                        // them. The user drops the handle before it performs the later ones.
                        self.dropped.extend(key.filter(|_| asked.verb() == "drop-handle"));
                    }
                    None if asked.verb() != "start" => drop(self.waiting.insert(call)),
                    None => {}
                }
                self.asked.insert(call, asked);
            }
            EventKind::GaveUp { stream: Some(_), call } => {
                let drops = self.asked.get(call).filter(|asked| asked.verb() == "drop-handle");
                let key = drops.and_then(|drops| Some((drops.host, drops.process()?)));
                self.dropped.extend(key);
            }
            EventKind::Answered { call, .. } | EventKind::Failed { call, .. } => {
                self.waiting.remove(call);
            }
            EventKind::Died { .. } => {
                let died = host(event);
                self.newest.retain(|(user, _), _| *user != died);
                self.older.retain(|(user, _), _| *user != died);
                self.dropped.retain(|(user, _)| *user != died);
                self.waiting.retain(|call| self.asked.get(call).is_none_or(|it| it.host != died));
            }
            EventKind::Opened { stream, call } => {
                if let Some(start) = self.asked.get(call)
                    && let Some(process) = start.process()
                {
                    let record = cx.guarantees.whole(stream);
                    let key = (start.host, process);
                    let is_dropped = self.dropped.remove(&key);
                    // A process opens a stream for each of its parts.
                    let before = self.newest.insert(key, record);
                    if before != Some(record) {
                        self.older.remove(&key);
                        let held = before.filter(|_| !is_dropped);
                        self.older.extend(held.map(|before| (key, before)));
                    }
                    let is_its = |call: &Call| {
                        self.asked.get(call).is_some_and(|it| it.is_about_the_process_of(start))
                    };
                    let its = self.waiting.iter().copied().filter(is_its);
                    self.of.extend(its.map(|call| (call, record)));
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

//! The record of a proxy: its connections, and the rules that fired.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use super::script::{End, Rule, Script};

/// How many events are kept; older ones are dropped.
const KEPT: usize = 10_000;

/// Something that happened in a proxy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    /// When, counted from the start of the proxy.
    pub at: Duration,
    /// The number of the connection, from 1.
    pub conn: u32,
    /// The event itself.
    pub what: Happening,
}

/// An event of one connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Happening {
    /// The proxy accepted it.
    Accepted,
    /// The server could not be reached; the client got an RST.
    Unreachable,
    /// A rule fired.
    Fired {
        /// Its place in the script, from 0.
        rule: usize,
        /// The name of its fault.
        fault: &'static str,
    },
    /// An end closed or reset it.
    EndedBy(End),
    /// The proxy holds it no longer.
    Gone,
}

/// The events, and how often each rule has fired.
pub(crate) struct Book {
    started: Instant,
    pages: Mutex<Pages>,
}

struct Pages {
    conns: u32,
    fired: Vec<u32>,
    events: VecDeque<Event>,
}

impl Book {
    pub(crate) fn new(script: &Script) -> Self {
        let pages = Pages { conns: 0, fired: vec![0; script.rules.len()], events: VecDeque::new() };
        Self { started: Instant::now(), pages: Mutex::new(pages) }
    }

    /// Counts a new connection; returns its number.
    pub(crate) fn accepted(&self) -> u32 {
        let mut pages = self.pages();
        pages.conns += 1;
        let conn = pages.conns;
        drop(pages);
        self.note(conn, Happening::Accepted);
        conn
    }

    /// Counts that a rule fires. Returns whether it may.
    pub(crate) fn fires(&self, conn: u32, index: usize, rule: &Rule) -> bool {
        let mut pages = self.pages();
        let fired = &mut pages.fired[index];
        if rule.times.is_some_and(|times| *fired >= times) {
            return false;
        }
        *fired += 1;
        drop(pages);
        self.note(conn, Happening::Fired { rule: index, fault: rule.fault.name() });
        true
    }

    pub(crate) fn note(&self, conn: u32, what: Happening) {
        let at = self.started.elapsed();
        let mut pages = self.pages();
        if pages.events.len() == KEPT {
            pages.events.pop_front();
        }
        pages.events.push_back(Event { at, conn, what });
    }

    pub(crate) fn connections(&self) -> u32 {
        self.pages().conns
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        self.pages().events.iter().cloned().collect()
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().expect("nothing panics under the lock")
    }
}

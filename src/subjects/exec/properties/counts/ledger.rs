//! The connections, calls and processes that are open at a moment, by the outside world, the
//! network and the users.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::history::{Answer, Call, Ending, Event, EventKind, Side, Time};
use crate::property::CheckContext;
use crate::schedule::MilestoneValue;
use crate::subjects::exec::answers::ExecFailure;
use crate::subjects::exec::network_fault::NetworkFault;
use crate::subjects::exec::{body, files, operations};
use crate::subjects::judging::host;
use reknit_exec::client::Failure;

/// The time within which something that is over is no longer counted, and something new is.
pub(super) const MOMENT: Duration = Duration::from_secs(1);

/// Everything that may be counted.
#[derive(Default)]
pub(in crate::subjects::exec::properties) struct Ledger<'a> {
    pub(super) conns: Vec<ConnLife<'a>>,
    pub(super) calls: BTreeMap<Call, CallLife<'a>>,
    pub(in crate::subjects::exec::properties) network_fault: NetworkFault,
    /// Whether a server died.
    pub(super) server_died: bool,
    /// The call that opened each stream: the stream is its whole.
    openers: BTreeMap<&'a str, Call>,
    /// When each stream ended that no call had opened yet.
    unopened: BTreeMap<&'a str, Time>,
    /// How often each client host died.
    deaths: BTreeMap<&'a str, u32>,
}

/// A connection of a client.
pub(super) struct ConnLife<'a> {
    pub(super) host: &'a str,
    /// The incarnation of the host.
    pub(super) incarnation: u32,
    pub(super) opened: Time,
    /// Whether a client opened it, and it was established at the server.
    pub(super) is_up: bool,
    pub(super) installed: Option<Time>,
    /// When it was over: at the client, and at the server.
    pub(super) over: (Option<Time>, Option<Time>),
}

/// A call of a user.
pub(super) struct CallLife<'a> {
    pub(super) host: &'a str,
    pub(super) verb: &'a str,
    pub(super) asked: Time,
    /// The name of its file, if it is about one.
    pub(super) file: Option<&'a str>,
    /// The name of its process, if it is about one.
    pub(super) process: Option<&'a str>,
    pub(super) requests: u64,
    /// The bytes that it writes.
    pub(super) written: u64,
    /// The number of its tasks with files.
    pub(super) tasks: u64,
    /// How long its file may hang.
    pub(super) hangs: Duration,
    /// How long the first write to its file takes.
    pub(super) writes_hang: Duration,
    /// How long the server may fetch its body.
    pub(super) fetches: Duration,
    /// The wait that it asks the server for.
    pub(super) wait: Duration,
    /// Whether its user reads the stream slowly or late, or no more.
    pub(super) is_slow: bool,
    pub(super) outcome: Option<(Time, Outcome)>,
    /// When it opened a stream for its user.
    pub(super) opened: Option<Time>,
    /// When its stream ended for its user, and whether it was complete.
    pub(super) ended: Option<(Time, bool)>,
    /// When its user dropped the stream.
    pub(super) dropped: Option<Time>,
    /// When its process was launched, and when it really ended.
    pub(super) launched: Option<Time>,
    pub(super) exited: Option<Time>,
    /// Whether its host died.
    pub(super) is_orphan: bool,
}

/// The outcome of a call for its user.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Answered,
    Refused,
    Failed,
    GivenUp,
}

impl<'a> Ledger<'a> {
    /// Processes an event.
    pub(in crate::subjects::exec::properties) fn pass(
        &mut self,
        cx: &CheckContext<'a>,
        event: &'a Event,
    ) {
        self.network_fault.pass(event);
        let at = event.at;
        match &event.what {
            EventKind::ConnOpened { conn } => {
                let host = cx.history.conn(*conn).client.as_str();
                let incarnation = self.deaths.get(host).copied().unwrap_or_default();
                let over = (None, None);
                let (is_up, installed) = (false, None);
                let life = ConnLife { host, incarnation, opened: at, is_up, installed, over };
                self.conns.push(life);
            }
            EventKind::ConnUp { conn, side: Side::Server } => {
                let is_of_a_client = !cx.servers.contains(&cx.history.conn(*conn).client.as_str());
                self.conn(conn.0, |life| life.is_up = is_of_a_client);
            }
            EventKind::ConnOver { conn, side, .. } => self.conn(conn.0, |life| {
                let over = match side {
                    Side::Client => &mut life.over.0,
                    Side::Server => &mut life.over.1,
                };
                over.get_or_insert(at);
            }),
            EventKind::Milestone { name: "exec.client.connected", fields } => {
                let conn = MilestoneValue::number(fields, "conn").unwrap_or_default();
                if let Some(conn) = (conn as usize).checked_sub(1) {
                    self.conn(conn, |life| life.installed = Some(at));
                }
            }
            EventKind::Died { .. } => self.died(cx, host(event), at),
            _ => self.pass_use(cx, event),
        }
    }

    fn pass_use(&mut self, cx: &CheckContext<'a>, event: &'a Event) {
        let at = event.at;
        match &event.what {
            EventKind::Asked { call, operation, .. } => {
                let life = CallLife {
                    host: host(event),
                    verb: &operation.verb,
                    asked: at,
                    file: operation.fields.get("file").and_then(|file| file.as_str()),
                    process: operation.fields.get("process").and_then(|process| process.as_str()),
                    requests: operations::requests(operation),
                    written: operations::written_bytes(operation).unwrap_or_default(),
                    tasks: operations::tasks(operation),
                    hangs: files::hangs(cx.plan, operation),
                    writes_hang: files::first_write(cx.plan, operation),
                    fetches: body::wait(cx.plan, operation),
                    wait: operation.wait(),
                    is_slow: operation.pauses().is_some() || !operation.looks_after().is_zero(),
                    outcome: None,
                    opened: None,
                    ended: None,
                    dropped: None,
                    launched: None,
                    exited: None,
                    is_orphan: false,
                };
                self.calls.insert(*call, life);
            }
            EventKind::Answered { call, answer } => {
                let outcome = match answer {
                    Answer::GivenUp => Outcome::GivenUp,
                    Answer::Refused(_) => Outcome::Refused,
                    _ => Outcome::Answered,
                };
                self.call(*call, |life| {
                    life.outcome.get_or_insert((at, outcome));
                });
            }
            EventKind::Failed { call, .. } => {
                self.call(*call, |life| {
                    life.outcome.get_or_insert((at, Outcome::Failed));
                });
            }
            EventKind::Opened { stream, call } => {
                let whole = cx.guarantees.whole(stream);
                self.openers.insert(whole, *call);
                let ended = self.unopened.remove(whole);
                self.call(*call, |life| {
                    life.opened.get_or_insert(at);
                    life.exited = life.exited.or(ended);
                });
            }
            EventKind::StreamEnded { stream, ending } => {
                let completed = matches!(ending, Ending::Completed { .. });
                let keeps_handle = ends_only_subscription(ending);
                self.opener(cx.guarantees.whole(stream), |life| match keeps_handle {
                    true => life.is_slow = true,
                    false => drop(life.ended.get_or_insert((at, completed))),
                });
            }
            EventKind::GaveUp { stream: Some(stream), call } => {
                // The user of a start gives up only its subscription.
                let verb = self.calls.get(call).map(|life| life.verb);
                let keeps_handle = matches!(verb, Some("unfollow" | "start"));
                self.opener(cx.guarantees.whole(stream), |life| {
                    life.is_slow |= keeps_handle;
                    if !keeps_handle {
                        life.dropped.get_or_insert(at);
                    }
                });
            }
            EventKind::Effect { call, target }
                if self.calls.get(call).is_some_and(|life| life.verb == "start") =>
            {
                self.openers.entry(target.as_str()).or_insert(*call);
                self.call(*call, |life| {
                    life.launched.get_or_insert(at);
                });
            }
            EventKind::Ended { stream, .. } => {
                if !self.openers.contains_key(&*stream.0) {
                    self.unopened.insert(&stream.0, at);
                }
                self.opener(&stream.0, |life| {
                    life.exited.get_or_insert(at);
                });
            }
            _ => {}
        }
    }

    fn conn(&mut self, conn: usize, act: impl FnOnce(&mut ConnLife<'a>)) {
        if let Some(life) = self.conns.get_mut(conn) {
            act(life);
        }
    }

    fn call(&mut self, call: Call, act: impl FnOnce(&mut CallLife<'a>)) {
        if let Some(life) = self.calls.get_mut(&call) {
            act(life);
        }
    }

    fn opener(&mut self, whole: &str, act: impl FnOnce(&mut CallLife<'a>)) {
        if let Some(call) = self.openers.get(whole).copied() {
            self.call(call, act);
        }
    }

    fn died(&mut self, cx: &CheckContext<'_>, host: &'a str, at: Time) {
        if cx.servers.contains(&host) {
            self.server_died = true;
            return;
        }
        *self.deaths.entry(host).or_default() += 1;
        for life in self.calls.values_mut().filter(|life| life.host == host) {
            life.is_orphan = true;
            life.outcome.get_or_insert((at, Outcome::Failed));
            life.ended.get_or_insert((at, false));
        }
        self.conns.iter_mut().filter(|life| life.host == host).for_each(|life| {
            life.over.0.get_or_insert(at);
        });
    }

    /// Returns since when a host has an installed connection that is open at both ends.
    pub(in crate::subjects::exec::properties) fn attached(&self, host: &str) -> Option<Time> {
        let open = self.conns.iter().filter(|life| life.host == host && life.over == (None, None));
        open.filter_map(|life| life.installed).max()
    }

    /// Returns whether something that was over at `at` may be counted at `now`. A fault can delay an
    /// end until the fault is over.
    pub(super) fn lingers(&self, at: Time, now: Time) -> bool {
        at.max(self.network_fault.settled.unwrap_or_default()) + MOMENT >= now
    }

    /// Returns whether the server may still have a connection that existed at `at`.
    pub(super) fn has_conn_of(&self, host: &str, at: Time, now: Time) -> bool {
        self.conns.iter().any(|life| {
            life.host == host
                && life.opened <= at
                && life.is_up
                && life.over.1.is_none_or(|over| self.lingers(over, now))
        })
    }
}

/// Returns whether the process goes on for its client, although a subscription of its user ended.
fn ends_only_subscription(ending: &Ending) -> bool {
    matches!(ending, Ending::Failed { reason } if ExecFailure::is(reason, &Failure::NotKept))
}

impl CallLife<'_> {
    /// Returns when its user had the result of the call: an answer, a failure, or a stream.
    pub(super) fn settled(&self) -> Option<Time> {
        self.outcome.map(|(at, _)| at).into_iter().chain(self.opened).min()
    }

    /// Returns when its stream was over for its user; if it opened none, when it was settled.
    pub(super) fn over(&self) -> Option<Time> {
        match self.opened {
            Some(_) => self.ended.map(|(at, _)| at).into_iter().chain(self.dropped).min(),
            None => self.settled(),
        }
    }

    pub(super) fn is_given_up(&self) -> bool {
        self.outcome.is_some_and(|(_, outcome)| outcome == Outcome::GivenUp)
    }

    /// Whether its process really runs, and its user receives the events.
    pub(super) fn is_followed(&self) -> bool {
        !self.is_slow && self.exited.is_none() && self.over().is_none()
    }
}

//! A story takes its facts from the events of a history, one after another.

use std::collections::BTreeMap;
use std::time::Duration;

use super::run::{Run, text};
use super::{BrokerConnection, Counted, Disturbance, Served, Story};
use crate::history::{Answer, Call, ConnEnd, Event, EventKind, Side, Time};
use crate::schedule::{Fault, MilestoneValue, Operation, faults};
use crate::subjects::judging::{host, is_of_the_network};
use crate::subjects::turn::app_server::RUNS_ON;
use crate::subjects::turn::jobs::starts;
use crate::subjects::turn::notes::{
    AppServerNote, BrokerExited, BrokerNote, Heard, Shown, ThreadNote,
};
use crate::subjects::turn::setup::BROKER;
use crate::subjects::turn::user::EXIT_STATUS;
use reknit_turn::wire::method;

/// The operations so far.
#[derive(Default)]
pub(super) struct Asked<'a> {
    pub(super) runs: BTreeMap<Call, Run<'a>>,
    shutdowns: BTreeMap<Call, Time>,
    /// When the user asked for each interrupt over a second connection, and of which turn.
    interrupts: BTreeMap<Call, (Time, &'a str)>,
    /// The number of brokers that serve the machine of each client.
    brokers: BTreeMap<&'a str, u64>,
}

impl<'a> Story<'a> {
    pub(super) fn take(&mut self, event: &'a Event, asked: &mut Asked<'a>) {
        match &event.what {
            EventKind::Asked { call, operation, .. } => self.asked(*call, operation, event, asked),
            EventKind::Answered { call, answer } => {
                if let Some(run) = asked.runs.get_mut(call) {
                    run.answer = run.answer.or(Some((event.at, answer)));
                } else if let (Some(at), Answer::Done(_)) = (asked.shutdowns.get(call), answer) {
                    self.accepted.push((*at, event.at));
                } else if let (Some((since, turn)), Answer::Refused(why)) =
                    (asked.interrupts.get(call), answer)
                {
                    let why = why.to_string();
                    if why.contains(RUNS_ON) {
                        self.refused_by_hand.push((*since, event.at, host(event), turn));
                    }
                    self.refused_interrupts.push((*call, event.at, why));
                }
            }
            EventKind::Observed { stream, saw } => {
                let call = stream.0.rsplit_once('-').and_then(|(_, call)| call.parse().ok());
                let run = call.and_then(|call| asked.runs.get_mut(&Call(call)));
                if let Some(BrokerExited(status)) = saw.downcast_ref() {
                    self.exits.push((event.at, *status));
                    self.ended.push(event.at);
                } else if let Some(got) = saw.downcast_ref() {
                    self.got.push((event.at, &*stream.0, got));
                } else if let (Some(call), Some(Heard(thread))) = (call, saw.downcast_ref()) {
                    self.heard.push((event.at, Call(call), thread.as_str()));
                } else if let Some(counts) = saw.downcast_ref() {
                    self.counted.push(Counted { at: event.at, counts });
                } else if let Some(Shown(text)) = saw.downcast_ref() {
                    if let Some(run) = run {
                        let status = text.strip_prefix(EXIT_STATUS);
                        run.status = run.status.or(status.and_then(|status| status.parse().ok()));
                    }
                } else if let Some(note) = saw.downcast_ref() {
                    self.app_server(*note, event);
                } else if let Some(ThreadNote::Made(thread)) = saw.downcast_ref() {
                    self.unnamed.insert(thread, event.at);
                } else if let Some(ThreadNote::Settled(thread)) = saw.downcast_ref() {
                    self.unnamed.remove(thread.as_str());
                } else if let Some(note) = saw.downcast_ref() {
                    self.broker(*note, event, asked);
                } else if let (Some(run), Some(note)) = (run, saw.downcast_ref()) {
                    run.notes.push((event.at, note));
                }
            }
            EventKind::Milestone {
                name: name @ ("turn.client.decided" | "turn.client.verdict"),
                fields,
            } => {
                let thread = MilestoneValue::text(fields, "thread");
                let turn = MilestoneValue::text(fields, "turn");
                // A later command may continue the thread of an earlier one, also beside it.
                let open = || asked.runs.values().filter(|run| run.answer.is_none());
                let own = open().find(|run| run.has_turn(turn));
                let run = own.or_else(|| open().rfind(|run| run.has_thread(thread)));
                let call = run.map(|run| run.call);
                if let Some(run) = call.and_then(|call| asked.runs.get_mut(&call)) {
                    let is_resolved = *name == "turn.client.decided";
                    *if is_resolved { &mut run.resolved } else { &mut run.decided } =
                        Some(event.at);
                }
            }
            EventKind::Milestone { name: "turn.client.cancelled", .. } => {
                self.cancels.push((event.at, host(event)));
            }
            EventKind::ConnOpened { conn } => {
                let Some(known) = self.cx.history.conns.get(conn.0) else { return };
                let (opened, over, closed) = (event.at, None, None);
                let (host, server) = (host(event), known.server.as_str());
                let connection = BrokerConnection { host, server, opened, over, closed };
                self.connections.insert(*conn, connection);
            }
            EventKind::ConnOver { conn, side: Side::Server, how } => {
                if let Some(connection) = self.connections.get_mut(conn) {
                    let is_first = connection.over.is_none() && *how == ConnEnd::Closed;
                    connection.closed = connection.closed.or(is_first.then_some(event.at));
                    connection.over = connection.over.or(Some(event.at));
                }
            }
            EventKind::Died { .. } => {
                abandon(&mut asked.runs, host(event), None, event.at);
                asked.brokers.remove(host(event));
                self.stops_serving(event);
                self.first_fault = self.first_fault.or(Some(event.at));
                if host(event) == BROKER {
                    self.broker_died = self.broker_died.or(Some(event.at));
                }
                self.disturbed(event.at, host(event));
            }
            EventKind::FaultEnded { fault } => {
                if let Some(disturbance) = self.disturbances.get_mut(&(true, *fault)) {
                    disturbance.ended = Some(event.at + disturbance.delays);
                }
                if let Some((_, end)) = self.holds.get_mut(fault) {
                    *end = Some(event.at);
                }
            }
            EventKind::FaultBegan { fault, what, scope, .. } => {
                if matches!(**what, Fault::Hold { .. })
                    && scope.hosts.iter().any(|held| held.as_str() == BROKER)
                {
                    self.holds.insert(*fault, (event.at, None));
                }
                self.first_fault = self.first_fault.or(Some(event.at));
                if !matches!(**what, Fault::Crash { .. }) {
                    self.first_other_fault = self.first_other_fault.or(Some(event.at));
                }
                let hosts = match is_of_the_network(what) {
                    true => Vec::new(),
                    false => scope.hosts.iter().map(|host| host.as_str()).collect(),
                };
                if !is_of_the_network(what) {
                    self.first_host_fault = self.first_host_fault.or(Some(event.at));
                }
                let delays = match **what {
                    Fault::DelayOutput(faults::DelayOutput { by, .. }) => by,
                    _ => what.latency(),
                };
                let disturbance = Disturbance { began: event.at, delays, ended: None, hosts };
                self.disturbances.insert((true, *fault), disturbance);
            }
            _ => {}
        }
    }

    fn asked(
        &mut self,
        call: Call,
        operation: &'a Operation,
        event: &'a Event,
        asked: &mut Asked<'a>,
    ) {
        let at = event.at;
        match operation.verb.as_str() {
            "task" | "review" if starts(operation) => {}
            "task" | "review" => {
                let run = Run {
                    call,
                    host: host(event),
                    operation,
                    asked: at,
                    notes: Vec::new(),
                    answer: None,
                    abandoned: None,
                    cancelled: None,
                    decided: None,
                    resolved: None,
                    status: None,
                };
                asked.runs.insert(call, run);
            }
            "abandon" => abandon(&mut asked.runs, host(event), text(operation), at),
            "cancel" => {
                for run in open(&mut asked.runs, host(event), text(operation)) {
                    run.cancelled = run.cancelled.or(Some(at));
                }
            }
            "interrupt" => {
                let turn = text(operation).unwrap_or_default();
                asked.interrupts.insert(call, (at, turn));
                self.interrupts.push((at, host(event), turn));
            }
            // The end of a process for its clients and children, like a fault.
            "kill-broker" => {
                self.first_fault = self.first_fault.or(Some(at));
                self.first_other_fault = self.first_other_fault.or(Some(at));
                self.first_host_fault = self.first_host_fault.or(Some(at));
                self.kills.push((at, host(event)));
                self.disturbed(at, host(event));
            }
            // The lines of a user can ask the broker to end, too.
            "speak" if !is_a_shutdown(operation) => {}
            "shutdown" | "speak" => {
                self.shutdowns.push(at);
                asked.shutdowns.insert(call, at);
            }
            _ => {}
        }
    }

    fn broker(&mut self, note: BrokerNote, event: &'a Event, asked: &mut Asked<'a>) {
        let serving = asked.brokers.entry(host(event)).or_default();
        match note {
            BrokerNote::Serves => {
                self.served.push(Served { on: host(event), began: event.at, ended: None });
                *serving += 1;
                if *serving > 1 {
                    self.second_brokers.push((event.at, host(event)));
                }
            }
            BrokerNote::Ended => {
                self.ended.push(event.at);
                self.stops_serving(event);
                *serving = serving.saturating_sub(1);
            }
        }
    }

    /// The first broker of a machine that serves it ends.
    fn stops_serving(&mut self, event: &Event) {
        let mut serving = self.served.iter_mut().filter(|served| served.ended.is_none());
        if let Some(served) = serving.find(|served| served.on == host(event)) {
            served.ended = Some(event.at);
        }
    }

    fn app_server(&mut self, note: AppServerNote, event: &'a Event) {
        match note {
            AppServerNote::Initialized if host(event) == BROKER => {
                self.initialized = self.initialized.or(Some(event.at));
            }
            AppServerNote::Initialized => {}
            AppServerNote::Killed => self.killed.push((event.at, host(event))),
            AppServerNote::Hurried => self.hurried.push((event.at, host(event))),
        }
    }

    /// Records that a host died, or a broker on it.
    fn disturbed(&mut self, at: Time, host: &'a str) {
        let (delays, ended, hosts) = (Duration::ZERO, Some(at), vec![host]);
        let disturbance = Disturbance { began: at, delays, ended, hosts };
        self.disturbances.insert((false, self.disturbances.len()), disturbance);
    }
}

/// Returns the open commands of a host, or those of a turn.
fn open<'r, 'a: 'r>(
    runs: &'r mut BTreeMap<Call, Run<'a>>,
    host: &str,
    turn: Option<&str>,
) -> impl Iterator<Item = &'r mut Run<'a>> {
    let own = runs.values_mut().filter(move |run| run.host == host && run.answer.is_none());
    own.filter(move |run| turn.is_none_or(|turn| run.turn() == turn))
}

/// The open commands of a host lose their client.
fn abandon(runs: &mut BTreeMap<Call, Run<'_>>, host: &str, turn: Option<&str>, at: Time) {
    for run in open(runs, host, turn) {
        run.abandoned = run.abandoned.or(Some(at));
    }
}

/// Returns whether a line that a user sends asks the broker to end.
fn is_a_shutdown(operation: &Operation) -> bool {
    let lines = operation.fields.get("lines").map(|lines| lines.to_string());
    lines.is_some_and(|lines| lines.contains(method::BROKER_SHUTDOWN))
}

//! The runs of a user's commands in a history: what the user asked and saw, and what the app-server
//! really did.

use std::collections::BTreeMap;
use std::time::Duration;

use super::app_server::RUNS_ON;
use super::jobs::starts;
use super::jobs::story::Jobs;
use super::notes::{
    AppServerNote, BrokerCounted, BrokerExited, BrokerNote, Got, Heard, Reported, Shown, Silence,
    ThreadNote, TurnNote,
};
use super::outcome::{CommandOutcome, SeenRefusal};
use super::setup::BROKER;
use super::user::EXIT_STATUS;
use crate::history::{Answer, Call, ConnEnd, ConnIndex, Event, EventKind, Side, Time};
use crate::property::CheckContext;
use crate::schedule::{Fault, MilestoneValue, Operation, faults};
use crate::subjects::judging::{host, is_of_the_network, judged};
use reknit_turn::wire::method;

/// A command of a user.
pub(super) struct Run<'a> {
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
    fn has_turn(&self, id: Option<&str>) -> bool {
        self.started().is_some_and(|(_, turn, _)| Some(turn) == id)
    }

    /// Whether it has a thread with this id. The thread of a review is known once its turn starts.
    fn has_thread(&self, id: Option<&str>) -> bool {
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
pub(super) fn too_much(notes: &[(Time, &TurnNote)]) -> Option<Time> {
    notes.iter().find(|(_, note)| **note == TurnNote::TooMuch).map(|(at, _)| *at)
}

/// Returns when a turn started, and its id and its thread.
pub(super) fn started<'a>(notes: &[(Time, &'a TurnNote)]) -> Option<(Time, &'a str, &'a str)> {
    notes.iter().find_map(|(at, note)| match note {
        TurnNote::Started { turn, thread } => Some((*at, turn.as_str(), thread.as_str())),
        _ => None,
    })
}

/// Returns for how long an app-server had sent nothing about a turn when it was interrupted.
pub(super) fn silent(notes: &[(Time, &TurnNote)]) -> Option<Silence> {
    notes.iter().find_map(|(_, note)| match note {
        TurnNote::Silent(silence) => Some(*silence),
        _ => None,
    })
}

/// A connection of a client to a broker.
pub(super) struct BrokerConnection<'a> {
    pub host: &'a str,
    /// The host of the broker.
    pub server: &'a str,
    pub opened: Time,
    /// When the broker's end was over.
    pub over: Option<Time>,
    /// When the broker closed it. `None` if the broker learned of its end first.
    pub closed: Option<Time>,
}

/// The counts of the broker on the host `broker`, at one moment.
pub(super) struct Counted<'a> {
    pub at: Time,
    pub counts: &'a BrokerCounted,
}

/// The time for which a broker served a client's machine.
pub(super) struct Served<'a> {
    pub on: &'a str,
    pub began: Time,
    pub ended: Option<Time>,
}

/// Something that may delay or end what runs: a fault, the death of a host, or of a broker.
struct Disturbance<'a> {
    began: Time,
    /// How much later what was sent in this time arrives.
    delays: Duration,
    /// When it was over, if it was, and all that it delayed has arrived.
    ended: Option<Time>,
    /// The hosts that it stops or kills; none if it affects connections only.
    hosts: Vec<&'a str>,
}

/// How long a user needs to kill a broker.
const KILLS: Duration = Duration::from_millis(10);

/// The name of a disturbance: the number of a fault, or a counter for all others.
type Disturbing = (bool, usize);

/// The operations so far.
#[derive(Default)]
struct Asked<'a> {
    runs: BTreeMap<Call, Run<'a>>,
    shutdowns: BTreeMap<Call, Time>,
    /// When the user asked for each interrupt over a second connection, and of which turn.
    interrupts: BTreeMap<Call, (Time, &'a str)>,
    /// The number of brokers that serve the machine of each client.
    brokers: BTreeMap<&'a str, u64>,
}

/// The facts of a run of the world.
pub(super) struct Story<'a> {
    pub cx: &'a CheckContext<'a>,
    /// The commands, in the order of their calls.
    pub runs: Vec<Run<'a>>,
    /// When the first fault began that was no crash of a host.
    pub first_other_fault: Option<Time>,
    /// When the first fault began, or the first host died.
    pub first_fault: Option<Time>,
    /// When the first fault of a host or its processes began.
    pub first_host_fault: Option<Time>,
    /// When users killed the brokers of their machines, and the machines.
    kills: Vec<(Time, &'a str)>,
    /// When users asked the broker to end.
    pub shutdowns: Vec<Time>,
    /// The requests to end the broker that it accepted: when it was asked, and when it answered.
    pub accepted: Vec<(Time, Time)>,
    /// The exits of the broker, and the statuses.
    pub exits: Vec<(Time, u8)>,
    /// When the host of the broker died.
    pub broker_died: Option<Time>,
    /// When the app-server of the broker was initialized for the first time.
    pub initialized: Option<Time>,
    /// The app-servers that were killed: when, and on which host.
    pub killed: Vec<(Time, &'a str)>,
    /// The app-servers that got SIGTERM before they could end: when, and on which host.
    pub hurried: Vec<(Time, &'a str)>,
    /// When a command learned that it is cancelled, and on which host.
    pub cancels: Vec<(Time, &'a str)>,
    /// When a broker began to serve a client's machine while another one served it: when, and the host.
    pub second_brokers: Vec<(Time, &'a str)>,
    /// The interrupts over a second connection that were refused: the call, when, and why.
    pub refused_interrupts: Vec<(Call, Time, String)>,
    /// The interrupts over a second connection that the app-server refused, although the turn ran: when the
    /// user asked, when the user knew, on which host, and the turn.
    pub refused_by_hand: Vec<(Time, Time, &'a str, &'a str)>,
    /// When a user interrupted a turn over a second connection: when, on which host, and the turn.
    pub interrupts: Vec<(Time, &'a str, &'a str)>,
    /// The lines that app-servers got, in order: when, the stream of the process, and the line.
    pub got: Vec<(Time, &'a str, &'a Got)>,
    /// When the client of a command got news of a thread that it does not own, and the thread.
    pub heard: Vec<(Time, Call, &'a str)>,
    /// When brokers ended.
    pub ended: Vec<Time>,
    /// When brokers served the machines of clients, in the order of their begins.
    pub served: Vec<Served<'a>>,
    /// The counts of the broker, in order.
    pub counted: Vec<Counted<'a>>,
    /// The threads that have no name and are not removed, and when they were made.
    pub unnamed: BTreeMap<&'a str, Time>,
    /// The jobs.
    pub jobs: Jobs<'a>,
    pub connections: BTreeMap<ConnIndex, BrokerConnection<'a>>,
    disturbances: BTreeMap<Disturbing, Disturbance<'a>>,
    /// The holds of a task of the broker: the start, and the end.
    holds: BTreeMap<usize, (Time, Option<Time>)>,
}

impl<'a> Story<'a> {
    pub fn of(cx: &'a CheckContext<'a>) -> Self {
        let mut story = Self {
            cx,
            runs: Vec::new(),
            first_other_fault: None,
            first_fault: None,
            first_host_fault: None,
            kills: Vec::new(),
            shutdowns: Vec::new(),
            accepted: Vec::new(),
            exits: Vec::new(),
            broker_died: None,
            initialized: None,
            killed: Vec::new(),
            hurried: Vec::new(),
            cancels: Vec::new(),
            second_brokers: Vec::new(),
            refused_interrupts: Vec::new(),
            refused_by_hand: Vec::new(),
            interrupts: Vec::new(),
            got: Vec::new(),
            heard: Vec::new(),
            ended: Vec::new(),
            served: Vec::new(),
            counted: Vec::new(),
            unnamed: BTreeMap::new(),
            jobs: Jobs::of(cx),
            connections: BTreeMap::new(),
            disturbances: BTreeMap::new(),
            holds: BTreeMap::new(),
        };
        let mut asked = Asked::default();
        for event in judged(cx) {
            story.take(event, &mut asked);
            story.jobs.take(cx, event);
        }
        story.runs = asked.runs.into_values().collect();
        story
    }

    fn take(&mut self, event: &'a Event, asked: &mut Asked<'a>) {
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

    /// Returns when the broker knew that the client of a command was gone, if it learned that.
    pub fn broker_learned(&self, run: &Run<'_>) -> Option<Time> {
        let (answered, _) = run.answer?;
        let own = self.connections.values().filter(|connection| {
            connection.host == run.host && (run.asked..=answered).contains(&connection.opened)
        });
        own.map(|connection| self.reported(connection.over?))
            .try_fold(answered, |known, reported| Some(known.max(reported?)))
    }

    /// Returns when the broker learns of the end of a connection: the task that reports it may be
    /// held.
    fn reported(&self, over: Time) -> Option<Time> {
        let mut holds = self.holds.values().filter(|(began, _)| *began <= over);
        holds.try_fold(over, |known, (_, end)| Some(known.max((*end)?)))
    }

    /// Returns whether a job may have owned a broker in this span. After a fault, the broker may not know
    /// that the worker has ended.
    pub fn works_on_a_job(&self, since: Time, until: Time, news: Duration) -> bool {
        let is_calm = self.is_calm_until(until);
        self.jobs.jobs.values().any(|job| {
            let ended = job.worker_ended().filter(|_| is_calm);
            job.asked <= until && ended.is_none_or(|ended| ended + news >= since)
        })
    }

    /// Records that a host died, or a broker on it.
    fn disturbed(&mut self, at: Time, host: &'a str) {
        let (delays, ended, hosts) = (Duration::ZERO, Some(at), vec![host]);
        let disturbance = Disturbance { began: at, delays, ended, hosts };
        self.disturbances.insert((false, self.disturbances.len()), disturbance);
    }

    /// Returns whether no fault was in force in this span, and no host died.
    pub fn is_calm_between(&self, since: Time, until: Time) -> bool {
        !self.disturbances.values().any(|it| it.touches(since, until))
    }

    /// Returns whether the broker of this machine that ended at this time was killed by its user.
    pub fn was_killed(&self, on: &str, ended: Time) -> bool {
        let is_by = |at: Time| (at..=at + KILLS).contains(&ended);
        self.kills.iter().any(|(at, own)| *own == on && is_by(*at))
    }

    /// Returns whether no fault was in force in this span, and no host or broker died in it, except before the
    /// third time.
    pub fn is_calm_after_deaths(&self, since: Time, until: Time, before: Time) -> bool {
        let is_past = |(is_fault, _): &Disturbing, it: &Disturbance<'_>| {
            !is_fault && it.ended.is_some_and(|ended| ended < before)
        };
        let mut disturbances = self.disturbances.iter();
        !disturbances.any(|(name, it)| it.touches(since, until) && !is_past(name, it))
    }

    /// Returns whether nothing stopped this host or its processes in this span.
    pub fn runs_between(&self, on: &str, since: Time, until: Time) -> bool {
        let mut own = self.disturbances.values().filter(|it| it.hosts.contains(&on));
        !own.any(|it| it.touches(since, until))
    }

    /// Returns when an app-server last got the request to start a turn or a review on a thread.
    pub fn asked_to_start(&self, thread: &str) -> Option<Time> {
        let named = format!("\"{thread}\"");
        let start = self.got.iter().rfind(|(.., got)| {
            let line = got.line();
            let starts = line.contains(method::TURN_START) || line.contains(method::REVIEW_START);
            starts && line.contains(&named)
        });
        start.map(|(at, ..)| *at)
    }

    /// Returns whether no fault began up to a time, and no user ended the broker.
    pub fn is_calm_until(&self, at: Time) -> bool {
        self.first_fault.is_none_or(|fault| fault > at)
            && self.shutdowns.iter().all(|shutdown| *shutdown > at)
    }
}

impl Disturbance<'_> {
    /// Whether it was in force in this span.
    fn touches(&self, since: Time, until: Time) -> bool {
        self.began <= until && self.ended.is_none_or(|ended| ended >= since)
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

/// Returns the turn that an operation names.
fn text(operation: &Operation) -> Option<&str> {
    operation.fields.get("turn").and_then(|turn| turn.as_str())
}

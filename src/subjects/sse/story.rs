//! The commands of a run, as they really were and as users saw them.

use std::collections::BTreeMap;
use std::time::Duration;

use super::limits;
use super::names::{Named, PARTS, SERVER, id_of};
use super::notes::{SeenRefusal, ServerCounted, SseNote};
use super::operations::{CommandName, SseOperation};
use crate::history::{
    Answer, Call, ConnEnd, ConnIndex, Connection, Content, Data, Ending, Event, EventKind,
    ProcessOutcome, Side, Stream, Time,
};
use crate::property::CheckContext;
use crate::schedule::{Fault, MilestoneValue, Operation, When};
use crate::subject::dyn_subject::read;
use crate::subjects::judging::{host, is_of_the_network, judged};
use crate::subjects::records;
use crate::world::process::{Setup, TABLE};
use reknit_sse::limits::{ClientLimits, ServerLimits};
use reknit_sse::server::Counts;
use reknit_sse::wire::CommandId;

mod asked_to_end;

/// A command, as the world ran it.
#[derive(Default)]
pub(super) struct Process<'a> {
    /// When it was launched, each time.
    pub launched: Vec<Time>,
    /// The lines of its standard output and of its standard error.
    pub lines: [Vec<(Time, &'a Content)>; 2],
    /// When it ended, and how.
    pub ended: Option<(Time, ProcessOutcome)>,
}

/// A reader of a command: a follower, or another connection that has its stream.
pub(super) struct Reader<'a> {
    pub host: &'a str,
    pub call: Call,
    pub since: Time,
    pub until: Time,
    /// Whether it reads nothing, or is not the product's client.
    pub is_stuck: bool,
}

/// A question of a user and its outcome.
pub(super) struct Question<'a> {
    pub call: Call,
    pub host: &'a str,
    pub operation: SseOperation,
    /// The record of the command that it names.
    pub record: String,
    pub asked: Time,
    /// The cursor that the user sent, and whether the user knew a run of the command.
    pub sent: Option<(&'a str, bool)>,
    pub answer: Option<(Time, &'a Answer)>,
    pub failure: Option<(Time, &'a Data)>,
}

impl Question<'_> {
    /// Whether it starts a command that belongs to no shell session.
    pub fn is_run(&self) -> bool {
        matches!(self.operation, SseOperation::Run { .. })
    }

    /// Whether it starts a command.
    pub fn starts_a_command(&self) -> bool {
        self.is_run() || matches!(self.operation, SseOperation::Session { .. })
    }

    /// Whether it opens a stream that the user follows.
    pub fn follows(&self) -> bool {
        self.is_run() || matches!(self.operation, SseOperation::Follow { .. })
    }

    /// Whether it reads the stream of a command without following it. It takes events from followers.
    pub fn takes_events(&self) -> bool {
        matches!(
            self.operation,
            SseOperation::Stick { .. } | SseOperation::Ask { .. } | SseOperation::Listen { .. }
        )
    }

    /// Whether the server refused the only request of this question.
    pub fn is_refused(&self) -> bool {
        self.answer.is_some_and(|(_, answer)| answer.refusal::<SeenRefusal>().is_some())
    }
}

/// A connection with a stream, as the server knows it.
pub(super) struct Attached {
    pub at: Time,
    /// The connection whose stream it replaced, and when.
    pub replaced: Option<(Time, ConnIndex)>,
}

/// A connection to the server.
pub(super) struct Connected<'a> {
    /// The host that opened it.
    pub client: &'a str,
    pub opened: Time,
    /// When the server's end was over.
    pub over: Option<Time>,
}

/// The facts of a run.
pub(super) struct Story<'a> {
    pub cx: &'a CheckContext<'a>,
    pub client: ClientLimits,
    pub server: ServerLimits,
    /// How many bytes each event of a long line has, at least. A line is split between characters.
    pub piece_bytes: usize,
    /// The commands, by record.
    pub processes: BTreeMap<&'a str, Process<'a>>,
    pub questions: Vec<Question<'a>>,
    /// The shell sessions in which users run commands, or which they interrupt or delete.
    pub sessions: BTreeMap<Call, &'a str>,
    /// When a user asked a command to end for the first time, by record.
    pub interrupts: BTreeMap<String, Time>,
    /// The notes of the users of each host about each command.
    pub notes: BTreeMap<(&'a str, &'a str), Vec<(Time, &'a SseNote)>>,
    /// The readers of each command.
    pub readers: BTreeMap<String, Vec<Reader<'a>>>,
    /// The failures of streams: when, on which host, of which command, and why.
    pub failures: Vec<(Time, &'a str, &'a str, &'a Data)>,
    pub attached: BTreeMap<ConnIndex, Attached>,
    /// The late ends of connections whose stream had been replaced.
    pub late_closes: Vec<(Time, ConnIndex)>,
    /// The connections that the server closed for a stated reason.
    pub closed_for_a_reason: Vec<ConnIndex>,
    /// When the server itself closed each connection.
    pub server_closed: BTreeMap<ConnIndex, Time>,
    pub client_over: BTreeMap<ConnIndex, Time>,
    /// The milestones of clients that only a wrong server can cause: when, the host, and the kind.
    pub protocol: Vec<(Time, &'a str, Wrong)>,
    pub server_deaths: Vec<Time>,
    /// When the server began, each time.
    pub server_starts: Vec<Time>,
    /// The counts of the server, in order.
    pub counted: Vec<(Time, &'a Counts)>,
    /// The connections to the server.
    pub connections: BTreeMap<ConnIndex, Connected<'a>>,
    /// When the server did not know the command of a follower, on which host the follower was, and the id
    /// that it named.
    pub unknown: Vec<(Time, &'a str, &'a str)>,
    /// When the server refused a start of a follower because too many commands ran, and its connection.
    pub busy: Vec<(Time, ConnIndex)>,
    /// Why followers lost connections: when, on which host, and why.
    pub losses: Vec<(Time, &'a str, &'a str)>,
    /// When the users of each host received items, also after a gap.
    pub deliveries: BTreeMap<&'a str, Vec<Time>>,
    /// When the followers of each host began attempts.
    pub attempts: BTreeMap<&'a str, Vec<Time>>,
    /// When the first fault began that can delay the server or its processes.
    pub delayed: Option<Time>,
    /// When the first of them began that was not only the hold of the end of a connection.
    pub held_up: Option<Time>,
    /// All these faults: when each began, and when it ended.
    pub delays: BTreeMap<usize, (Time, Time)>,
    pub first_fault: Option<Time>,
}

/// An error of the server that a client noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    Hole,
    Duplicate,
    EndedEarly,
}

/// The bytes of a character that do not fit into an event, at most.
const REST: usize = 3;

/// Returns how many bytes each event of a long line has, at least.
fn piece_bytes(cx: &CheckContext<'_>, line_bytes: usize) -> usize {
    let is_wide = |name: &str| {
        let setup = cx.plan.entry::<Setup>(TABLE, name).unwrap_or_default();
        [setup.print, setup.stderr].into_iter().flatten().any(|printed| printed.wide)
    };
    let rest = if cx.plan.entries(TABLE).any(|(name, _)| is_wide(name)) { REST } else { 0 };
    line_bytes.saturating_sub(rest).max(1)
}

impl<'a> Story<'a> {
    pub fn of(cx: &'a CheckContext<'a>) -> Self {
        let set = cx.limits;
        let mut story = Self {
            cx,
            client: limits::client(set),
            server: limits::server(set),
            piece_bytes: piece_bytes(cx, limits::server(set).line_bytes),
            processes: BTreeMap::new(),
            questions: Vec::new(),
            sessions: BTreeMap::new(),
            interrupts: BTreeMap::new(),
            notes: BTreeMap::new(),
            readers: BTreeMap::new(),
            failures: Vec::new(),
            attached: BTreeMap::new(),
            late_closes: Vec::new(),
            closed_for_a_reason: Vec::new(),
            server_closed: BTreeMap::new(),
            client_over: BTreeMap::new(),
            protocol: Vec::new(),
            server_deaths: Vec::new(),
            server_starts: Vec::new(),
            counted: Vec::new(),
            connections: BTreeMap::new(),
            unknown: Vec::new(),
            busy: Vec::new(),
            losses: Vec::new(),
            deliveries: BTreeMap::new(),
            attempts: BTreeMap::new(),
            delayed: None,
            held_up: None,
            delays: BTreeMap::new(),
            first_fault: None,
        };
        let mut starts = BTreeMap::new();
        for event in judged(cx) {
            story.take(event, &mut starts);
        }
        story.name_in_sessions();
        story.name_interrupted();
        story
    }

    /// Returns the requests that start a command.
    pub fn starts_of(&self, record: &str) -> impl Iterator<Item = &Question<'a>> {
        self.questions
            .iter()
            .filter(move |question| question.starts_a_command() && question.record == record)
    }

    /// Whether a command ever ran. A user that dies as it asks for a run forgets it: with its name, it means
    /// the run before.
    pub fn was_launched(&self, record: &str) -> bool {
        self.processes.get(record).is_some_and(|process| !process.launched.is_empty())
    }

    /// Returns the setup of a command's process.
    pub fn setup(&self, record: &str) -> Setup {
        self.cx.plan.entry(TABLE, records::declared(record)).unwrap_or_default()
    }

    /// Returns the last time at which the output of a process that ended at `ended` may still wait:
    /// while a host that asked for the command has a connection, and for the hold after that.
    pub fn waits_until(&self, record: &str, ended: Time) -> Time {
        let hold = self.server.hold;
        if hold.is_zero() {
            return ended;
        }
        let asks = |host: &str| {
            self.questions.iter().any(|question| question.record == record && question.host == host)
        };
        let own = self.connections.values().filter(|conn| asks(conn.client));
        own.fold(ended + hold, |until, conn| match conn.opened <= until {
            true => until.max(conn.over.unwrap_or(Time::from(self.cx.plan.horizon)) + hold),
            false => until,
        })
    }

    /// Returns when the users of a host last received output of a command before a time.
    pub fn last_delivery(&self, on: &str, record: &str, before: Time) -> Option<Time> {
        let events = self.cx.history.events.iter().rev().skip_while(|event| event.at > before);
        events.filter(|event| host(event) == on).find_map(|event| match &event.what {
            EventKind::Delivered { stream, .. } => {
                pipe(stream).filter(|(of, _)| *of == record).map(|_| event.at)
            }
            _ => None,
        })
    }

    /// Returns the connections of the followers of a host, in order. A connection for a single request has a
    /// label.
    pub fn followers_conns(&self, on: &str) -> impl Iterator<Item = &'a Connection> {
        let conns = self.cx.history.conns.iter();
        conns.filter(move |conn| conn.client.as_str() == on && !conn.is_labelled())
    }

    /// Returns the question of the only follower that a host had until a time.
    pub fn only_follower(&self, on: &str, until: Time) -> Option<&Question<'a>> {
        let mut own = self.questions.iter().filter(|question| {
            question.host == on && question.follows() && question.asked <= until
        });
        own.next().filter(|_| own.next().is_none())
    }

    /// Returns a time at which the server did not know yet the command that it refused as unknown to a
    /// follower of a host, which learned that at `learned`. An attempt takes at most its time.
    pub fn unknown_at(&self, on: &str, record: &str, learned: Time) -> Time {
        let from = learned.before(self.client.open_timeout);
        let id = self.id_of(record);
        // The first, because the server may refuse last what the client has already given up.
        let first = self.unknown.iter().find(|(at, host, named)| {
            *host == on && *named == id.as_str() && (from..=learned).contains(at)
        });
        // A launch in the same millisecond may follow the refusal.
        let before = Duration::from_millis(1);
        first.map_or(learned, |(at, ..)| at.before(before))
    }

    /// Returns the id by which the server knows a command.
    fn id_of(&self, record: &str) -> CommandId {
        let chosen = self.starts_of(record).find_map(|start| match &start.operation {
            SseOperation::Run { id, .. } => id.as_deref(),
            _ => None,
        });
        id_of(record, chosen)
    }

    /// Whether the server ran without an end from one time to another.
    pub fn server_lived(&self, from: Time, to: Time) -> bool {
        !self.server_deaths.iter().any(|death| (from..=to).contains(death))
    }

    /// Whether nothing can have delayed the server or its processes until this time.
    pub fn is_prompt(&self, until: Time) -> bool {
        self.delayed.is_none_or(|delayed| delayed > until)
    }

    /// Returns when something is due that takes so long from a time on: a fault that can delay the
    /// server or its processes does not count. `None` if the server died meanwhile.
    pub fn due(&self, since: Time, takes: Duration) -> Option<Time> {
        let mut due = since + takes;
        // They are in the order of their beginnings.
        for (began, over) in self.delays.values() {
            if *over >= since && *began <= due {
                due = due.max(*over + takes);
            }
        }
        (self.server_lived(since, due)).then_some(due)
    }

    fn take(&mut self, event: &'a Event, starts: &mut BTreeMap<(&'a str, String), u64>) {
        let at = event.at;
        match &event.what {
            EventKind::Asked { call, operation, .. } => self.asked(*call, operation, event, starts),
            EventKind::Answered { call, answer } => {
                if let Some(question) = self.question(*call) {
                    question.answer = question.answer.or(Some((at, answer)));
                }
                self.over(at, |reader| reader.call == *call && reader.is_stuck);
            }
            EventKind::Failed { call, reason } => {
                if let Some(question) = self.question(*call) {
                    question.failure = question.failure.or(Some((at, reason)));
                }
            }
            EventKind::Effect { call, target } => {
                self.launched(*call, target, starts);
                self.processes.entry(target.as_str()).or_default().launched.push(at);
            }
            EventKind::Produced { stream, bytes } => {
                if let Some((record, pipe)) = pipe(stream) {
                    self.processes.entry(record).or_default().lines[pipe].push((at, bytes));
                }
            }
            EventKind::Ended { stream, outcome } => {
                if let (None, Some(outcome)) = (pipe(stream), outcome.downcast_ref()) {
                    let process = self.processes.entry(stream.0.as_ref()).or_default();
                    process.ended = process.ended.or(Some((at, *outcome)));
                }
            }
            EventKind::Opened { stream, call } if pipe(stream).is_none() => {
                let reader = Reader {
                    host: host(event),
                    call: *call,
                    since: at,
                    until: Time::from(self.cx.plan.horizon),
                    is_stuck: false,
                };
                self.readers.entry(stream.to_string()).or_default().push(reader);
            }
            EventKind::Observed { stream, saw } => {
                if let Some(ServerCounted(counts)) = saw.downcast_ref() {
                    self.counted.push((at, counts));
                } else if let Some(SseNote::Asks { call, cursor, knows_run }) = saw.downcast_ref() {
                    if let Some(question) = self.question(*call) {
                        question.sent = Some((cursor, *knows_run));
                    }
                } else if let Some(SseNote::RunsIn { call, session }) = saw.downcast_ref() {
                    self.sessions.insert(*call, session);
                    if let Some(question) = self.question(*call) {
                        question.record = stream.to_string();
                    }
                } else if let Some(
                    SseNote::Interrupts { call, session } | SseNote::Deletes { call, session },
                ) = saw.downcast_ref()
                {
                    self.sessions.insert(*call, session);
                } else if let Some(note) = saw.downcast_ref::<SseNote>() {
                    // After a gap, the history has no other entry for what the user receives.
                    if note.is_item() {
                        self.deliveries.entry(host(event)).or_default().push(at);
                    }
                    let key = (host(event), stream.0.as_ref());
                    self.notes.entry(key).or_default().push((at, note));
                }
            }
            EventKind::StreamEnded { stream, ending } if pipe(stream).is_none() => {
                let (on, of) = (host(event), stream.0.as_ref());
                if let Ending::Failed { reason } = ending {
                    self.failures.push((at, on, of, reason));
                }
                // After a gap, the user reads on.
                let reads_on = self.notes.get(&(on, of)).is_some_and(|notes| {
                    notes
                        .iter()
                        .any(|(noted, note)| *noted == at && matches!(note, SseNote::Gap { .. }))
                });
                if let Some(readers) = self.readers.get_mut(of).filter(|_| !reads_on) {
                    readers
                        .iter_mut()
                        .filter(|reader| reader.host == on && !reader.is_stuck)
                        .for_each(|reader| reader.until = reader.until.min(at));
                }
            }
            EventKind::Milestone { name, fields } => self.milestone(name, fields, event),
            EventKind::Delivered { .. } => {
                self.deliveries.entry(host(event)).or_default().push(at);
            }
            EventKind::ConnOpened { conn } => {
                let client =
                    self.cx.history.conns.get(conn.0).map_or("", |conn| conn.client.as_str());
                self.connections.insert(*conn, Connected { client, opened: at, over: None });
            }
            EventKind::ConnOver { conn, side: Side::Server, how } => {
                if *how == ConnEnd::Closed {
                    self.server_closed.entry(*conn).or_insert(at);
                }
                if let Some(connected) = self.connections.get_mut(conn) {
                    connected.over = connected.over.or(Some(at));
                }
            }
            EventKind::Started if host(event) == SERVER => self.server_starts.push(at),
            EventKind::ConnOver { conn, side: Side::Client, .. } => {
                self.client_over.entry(*conn).or_insert(at);
            }
            EventKind::Died { .. } => {
                self.first_fault = self.first_fault.or(Some(at));
                if host(event) == SERVER {
                    self.server_deaths.push(at);
                    self.delayed = self.delayed.or(Some(at));
                    self.held_up = self.held_up.or(Some(at));
                }
            }
            EventKind::FaultBegan { fault, step, what, .. } => {
                self.first_fault = self.first_fault.or(Some(at));
                // Other faults can delay the server or its processes.
                if !is_of_the_network(what) {
                    self.delayed = self.delayed.or(Some(at));
                    if !self.holds_an_end(*step, what) {
                        self.held_up = self.held_up.or(Some(at));
                    }
                    self.delays.insert(*fault, (at, Time::from(self.cx.plan.horizon)));
                }
            }
            EventKind::FaultEnded { fault } => {
                if let Some((_, over)) = self.delays.get_mut(fault) {
                    *over = at;
                }
            }
            _ => {}
        }
    }

    /// Whether a fault only holds the end of a connection at the server, so that it delays no process.
    fn holds_an_end(&self, step: usize, fault: &Fault) -> bool {
        let when = self.cx.plan.steps.get(step).map(|step| &step.when);
        let at_the_end =
            matches!(when, Some(When::After(trigger)) if trigger.mark.name() == DETACH);
        at_the_end && matches!(fault, Fault::Hold { .. })
    }

    fn question(&mut self, call: Call) -> Option<&mut Question<'a>> {
        self.questions.iter_mut().find(|question| question.call == call)
    }

    /// Corrects the record of a command by the name of its process: a user that died as it was asked
    /// to run a command did not count that command.
    fn launched(
        &mut self,
        call: Call,
        target: &str,
        starts: &mut BTreeMap<(&'a str, String), u64>,
    ) {
        let Some(question) = self.question(call) else { return };
        let SseOperation::Run { process, id, .. } = &question.operation else { return };
        if question.record == target {
            return;
        }
        let (on, process, id) = (question.host, process.clone(), id.clone());
        let record_of = |nth: u64| Named::nth(on, &process, nth, id.as_deref()).record;
        let count = starts.entry((on, process.clone())).or_default();
        let all = *count;
        let Some(nth) = (1..all).find(|nth| record_of(*nth) == target) else { return };
        let asked = (nth..=all).find(|asked| record_of(*asked) == question.record);
        question.record = target.to_owned();
        let Some(asked) = asked else { return };
        // The user counted fewer starts.
        let more = asked - nth;
        *count = all - more;
        let is_run =
            |other: &Question<'_>| other.is_run() && other.host == on && other.call != call;
        let is_lost = |other: &Question<'_>| is_run(other) && other.record == target;
        let Some(lost) = self.questions.iter().position(is_lost) else { return };
        // What the user asked since then is about a command with a lower number, too.
        let later = self.questions[lost..].iter_mut();
        for other in later.filter(|other| other.host == on && other.call != call) {
            let Some(named) = (1..=all).find(|nth| record_of(*nth) == other.record) else {
                continue;
            };
            if other.is_run() && (nth..asked).contains(&named) {
                other.record.clear();
            } else if !other.is_run() || named > asked {
                other.record = record_of(named.saturating_sub(more).max(1));
            }
        }
    }

    fn over(&mut self, at: Time, is: impl Fn(&Reader<'_>) -> bool) {
        let readers = self.readers.values_mut().flatten().filter(|reader| is(reader));
        readers.for_each(|reader| reader.until = reader.until.min(at));
    }

    fn asked(
        &mut self,
        call: Call,
        operation: &'a Operation,
        event: &'a Event,
        starts: &mut BTreeMap<(&'a str, String), u64>,
    ) {
        let Ok(asked) = read::<SseOperation>(operation) else { return };
        let on = host(event);
        let mut newest = |process: &str, more: u64| {
            let count = starts.entry((on, process.to_owned())).or_default();
            *count += more;
            *count
        };
        let record = match &asked {
            SseOperation::Run { process, id, .. } => {
                Named::nth(on, process, newest(process, 1), id.as_deref()).record
            }
            // Its user names it once it has a session.
            SseOperation::Session { .. }
            | SseOperation::InterruptSession { .. }
            | SseOperation::DeleteSession { .. } => String::new(),
            SseOperation::Follow { command, .. }
            | SseOperation::Leave(command)
            | SseOperation::Interrupt(command)
            | SseOperation::Status(command)
            | SseOperation::Logs { command, .. }
            | SseOperation::Ask { command, .. }
            | SseOperation::Wrong { command, .. }
            | SseOperation::Listen { command, .. }
            | SseOperation::Stick { command, .. } => {
                named(on, command, newest(&command.process, 0))
            }
        };
        match &asked {
            SseOperation::Stick { wait, .. } | SseOperation::Listen { wait, .. } => {
                let until = event.at + wait.0 + Duration::from_secs(10);
                let reader = Reader { host: on, call, since: event.at, until, is_stuck: true };
                self.readers.entry(record.clone()).or_default().push(reader);
            }
            _ => {}
        }
        self.questions.push(Question {
            call,
            host: on,
            operation: asked,
            record,
            asked: event.at,
            sent: None,
            answer: None,
            failure: None,
        });
    }

    fn milestone(&mut self, name: &str, fields: &'a [(&str, MilestoneValue)], event: &'a Event) {
        let at = event.at;
        let wrong = match name {
            "sse.client.hole" => Some(Wrong::Hole),
            "sse.client.duplicate" => Some(Wrong::Duplicate),
            "sse.client.lost"
                if MilestoneValue::text(fields, "why") == Some("the stream ended early") =>
            {
                Some(Wrong::EndedEarly)
            }
            _ => None,
        };
        self.protocol.extend(wrong.map(|wrong| (at, host(event), wrong)));
        match name {
            "sse.client.lost" => {
                let why = MilestoneValue::text(fields, "why").unwrap_or_default();
                self.losses.push((at, host(event), why));
            }
            "sse.client.attempt" => self.attempts.entry(host(event)).or_default().push(at),
            _ => {}
        }
        let Some(conn) = ConnIndex::from_fields(fields) else { return };
        match name {
            "sse.server.attached" => {
                self.attached.entry(conn).or_insert(Attached { at, replaced: None });
            }
            "sse.server.fenced" => {
                let old = MilestoneValue::number(fields, "old").and_then(|old| old.checked_sub(1));
                let old = old.map(|old| (at, ConnIndex(old as usize)));
                if let Some(attached) = self.attached.get_mut(&conn) {
                    attached.replaced = old;
                }
            }
            "sse.server.refused-unknown" => {
                // A connection for a single request has a label.
                let conn = self.cx.history.conns.get(conn.0);
                let conn = conn.filter(|conn| !conn.name.contains('/'));
                let id = MilestoneValue::text(fields, "command").unwrap_or_default();
                self.unknown.extend(conn.map(|conn| (at, conn.client.as_str(), id)));
            }
            "sse.server.refused-busy" => self.busy.push((at, conn)),
            "sse.server.late-close" => self.late_closes.push((at, conn)),
            "sse.server.replaced" | "sse.server.stuck" | "sse.server.evicted" => {
                self.closed_for_a_reason.push(conn);
            }
            _ => {}
        }
    }
}

/// The point at which the server learns of the end of a connection.
const DETACH: &str = "sse.server.detach";

/// Returns the record of the command that an operation names.
fn named(user: &str, command: &CommandName, newest: u64) -> String {
    Named::of(user, command, newest).record
}

/// Returns the command that a stream is a pipe of, and the number of the pipe.
pub(super) fn pipe(stream: &Stream) -> Option<(&str, usize)> {
    let name: &str = stream.0.as_ref();
    PARTS.iter().zip(0..).find_map(|(suffix, pipe)| Some((name.strip_suffix(suffix)?, pipe)))
}

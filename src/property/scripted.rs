//! A builder for scripted runs, used by the tests of this module.
//!
//! `history().opened("s1", 1, 0).produced("s1", 100, "a").kills(200, 300)…`: times are in
//! milliseconds. Entries may be added in any order of time; entries at the same time keep the order
//! in which they are added. Entries of users and faults apply to the host named in
//! [`by`](ScriptedRun::by), initially `client`.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::history::{
    Answer, Call, Class, ConnIndex, Connection, Data, Ending, Event, EventKind, Fate, Flags,
    History, Nature, Packet, Scope, Side, Stream, Time,
};
use crate::schedule::{
    Action, Fault, HoldEnd, Host, Limit, LinkPlace, MilestoneValue, Operation, Plan, Puppet,
    SlowBy, Step, Tampering, When, faults,
};

use super::{CheckContext, GENERIC, Guarantees, Judgements, Retention, WorkBounds};
use crate::report::sentence;

/// `A` under the guarantees of these tests: 1 s of back-off, 3 round trips at 2 × 20 ms.
pub const A: u64 = 1_120;
/// The time that `bounded_ending` allows after the cause, if faults add no latency.
pub const BOUND: u64 = 16_000 + 25_000 + 5_000 + 1_000 + A;

/// A scripted run.
#[derive(Clone)]
pub struct ScriptedRun {
    pub plan: Plan,
    pub guarantees: Guarantees,
    history: History,
    control: Option<History>,
    by: Host,
    faults: usize,
}

/// Returns an empty run. Its horizon is far away, so it ends only where the script ends it.
pub fn history() -> ScriptedRun {
    let mut plan = Plan::new("scripted");
    plan.horizon = Duration::from_secs(1_000);
    ScriptedRun {
        plan,
        guarantees: guarantees(),
        history: History::default(),
        control: None,
        by: "client".into(),
        faults: 0,
    }
}

fn guarantees() -> Guarantees {
    Guarantees {
        detection: Duration::from_secs(16),
        recovery: Duration::from_secs(25),
        gives_up: true,
        attempt: Duration::from_secs(5),
        takeover: Duration::ZERO,
        reads: |_, _, _| None,
        also_reads: |_, _| Vec::new(),
        depends: Guarantees::default().depends,
        held: Guarantees::default().held,
        call_wait: Duration::ZERO,
        outside_wait: |_, operation| operation.wait(),
        round_trips: 3,
        connections: usize::MAX,
        no_room: |_, _| Vec::new(),
        is_loss: |_| true,
        is_local: |_| false,
        back_off: Duration::from_secs(1),
        session: Duration::from_secs(30),
        retention: Retention { items: Some(10), bytes: Some(100), ..Retention::ALL },
        around: 0,
        parts: &["/stdout", "/stderr"],
        closed_retention: Duration::from_secs(30),
        in_flight: None,
        answer_bytes: |_, _| 0,
        given: |_| Vec::new(),
        slow_users: None,
        at_once: Retention::ALL,
        begins_anew: |_| false,
        work: WorkBounds {
            attempts: 5,
            attempts_a_minute: 100,
            attempts_per_item: 0,
            frames: 10,
            polls: 20,
        },
        memory: vec![("retained", 10)],
        settle: Duration::from_secs(60),
        outside: &[],
    }
}

/// Settings and raw entries.
impl ScriptedRun {
    /// Switches to the user and the connections of another client.
    pub fn by(mut self, host: &str) -> Self {
        self.by = host.into();
        self
    }

    pub fn guarantees(mut self, change: impl FnOnce(&mut Guarantees)) -> Self {
        change(&mut self.guarantees);
        self
    }

    pub fn puppet(mut self, host: &str) -> Self {
        self.plan.puppets.insert(host.into(), Puppet::default());
        self
    }

    pub fn horizon(mut self, ms: u64) -> Self {
        self.plan.horizon = Duration::from_millis(ms);
        self.end(ms + 60_000)
    }

    /// Sets the start of the healed tail.
    pub fn healed(mut self, ms: u64, horizon: u64) -> Self {
        self.plan.heal = Duration::from_millis(horizon - ms);
        self
    }

    /// Extends the run to at least this time.
    pub fn end(mut self, ms: u64) -> Self {
        self.history.end = self.history.end.max(Time(ms));
        self
    }

    pub fn packets(mut self, n: u64) -> Self {
        self.history.packets = n;
        self
    }

    pub fn polls(mut self, n: u64) -> Self {
        self.history.polls = n;
        self
    }

    pub fn control(mut self, control: ScriptedRun) -> Self {
        self.control = Some(control.sorted());
        self
    }

    pub fn entry(mut self, ms: u64, host: Option<&str>, what: EventKind) -> Self {
        self.history.events.push(Event { at: Time(ms), host: host.map(Host::from), what });
        self.end(ms)
    }

    pub fn user(self, ms: u64, what: EventKind) -> Self {
        let by = self.by.clone();
        self.entry(ms, Some(by.as_str()), what)
    }

    fn server(self, ms: u64, what: EventKind) -> Self {
        self.entry(ms, Some("server"), what)
    }
}

/// Streams and calls.
impl ScriptedRun {
    /// Makes a call that opens a stream at the same time.
    pub fn opened(self, stream: &str, call: u64, ms: u64) -> Self {
        self.asked_as(call, ms, Class::Durable, "watch", "{}").opens(stream, call, ms)
    }

    /// Opens a stream for a call that was made before.
    pub fn opens(self, stream: &str, call: u64, ms: u64) -> Self {
        self.user(ms, EventKind::Opened { stream: stream.into(), call: Call(call) })
    }

    /// The same, with a call that is bound to its connection.
    pub fn opened_bound(self, stream: &str, call: u64, ms: u64) -> Self {
        self.asked_as(call, ms, Class::Bound, "tail", "{}").opens(stream, call, ms)
    }

    /// Opens all parts of a whole with one call.
    pub fn opened_with_parts(self, streams: &[&str], call: u64, ms: u64) -> Self {
        let asked = self.asked_as(call, ms, Class::Durable, "watch", "{}");
        streams.iter().fold(asked, |scripted, stream| scripted.opens(stream, call, ms))
    }

    /// Makes a durable call, `add`.
    pub fn asked(self, call: u64, ms: u64) -> Self {
        self.asked_as(call, ms, Class::Durable, "add", "{}")
    }

    pub fn asked_as(self, call: u64, ms: u64, class: Class, verb: &str, fields: &str) -> Self {
        let fields = serde_json::from_str(fields).unwrap();
        let operation = Operation { verb: verb.to_owned(), client: self.by.clone(), fields };
        self.user(ms, EventKind::Asked { call: Call(call), operation: operation.into(), class })
    }

    pub fn answered(self, call: u64, ms: u64, answer: impl Into<Answer>) -> Self {
        self.user(ms, EventKind::Answered { call: Call(call), answer: answer.into() })
    }

    pub fn failed(self, call: u64, ms: u64, reason: impl Into<Data>) -> Self {
        self.user(ms, EventKind::Failed { call: Call(call), reason: reason.into() })
    }

    pub fn effect(self, call: u64, ms: u64, target: &str) -> Self {
        self.server(ms, EventKind::Effect { call: Call(call), target: target.to_owned() })
    }

    pub fn fetched(self, ms: u64, what: &str, takes: u64) -> Self {
        let takes = Duration::from_millis(takes);
        self.server(ms, EventKind::Fetched { what: what.to_owned(), takes })
    }

    /// The producer of a stream asked something and got no answer.
    pub fn unanswered(self, ms: u64, stream: &str) -> Self {
        let (stream, what) = (stream.into(), "question-1".to_owned());
        self.server(ms, EventKind::Unanswered { stream, what })
    }

    pub fn produced(self, stream: &str, ms: u64, bytes: &str) -> Self {
        self.server(
            ms,
            EventKind::Produced { stream: stream.into(), bytes: bytes.to_owned().into() },
        )
    }

    pub fn ended(self, stream: &str, ms: u64, outcome: impl Into<Data>) -> Self {
        self.server(ms, EventKind::Ended { stream: stream.into(), outcome: outcome.into() })
    }

    /// Delivers an item over generation 1.
    pub fn delivered(self, stream: &str, ms: u64, bytes: &str) -> Self {
        self.delivered_in(1, stream, ms, bytes)
    }

    pub fn delivered_in(self, generation: u64, stream: &str, ms: u64, bytes: &str) -> Self {
        let bytes = bytes.to_owned().into();
        self.user(
            ms,
            EventKind::Delivered { stream: stream.into(), bytes, generation: Some(generation) },
        )
    }

    pub fn completed(self, stream: &str, ms: u64, outcome: impl Into<Data>) -> Self {
        let ending = Ending::Completed { outcome: outcome.into() };
        self.user(ms, EventKind::StreamEnded { stream: stream.into(), ending })
    }

    pub fn failed_stream(self, stream: &str, ms: u64, reason: impl Into<Data>) -> Self {
        let ending = Ending::Failed { reason: reason.into() };
        self.user(ms, EventKind::StreamEnded { stream: stream.into(), ending })
    }

    pub fn gave_up(self, call: u64, stream: Option<&str>, ms: u64) -> Self {
        self.user(ms, EventKind::GaveUp { stream: stream.map(Stream::from), call: Call(call) })
    }
}

/// The network and its faults.
impl ScriptedRun {
    fn link(&self) -> (Host, Host) {
        (self.by.clone(), "server".into())
    }

    /// A fault on the link of the client.
    pub fn fault(self, ms: u64, until: Option<u64>, nature: Nature, what: Fault) -> Self {
        let links = vec![self.link()];
        self.fault_in(ms, until, nature, what, Scope { links, ..Scope::default() })
    }

    pub fn fault_in(
        mut self,
        ms: u64,
        until: Option<u64>,
        nature: Nature,
        what: Fault,
        scope: Scope,
    ) -> Self {
        let fault = self.faults;
        self.faults += 1;
        let (what, scope) = (what.into(), scope.into());
        let scripted = self.entry(
            ms,
            None,
            EventKind::FaultBegan { fault, step: fault, what, scope, nature, in_flight: 0 },
        );
        match until {
            Some(until) => scripted.entry(until, None, EventKind::FaultEnded { fault }),
            None => scripted,
        }
    }

    /// A one-way partition: it kills connections and prevents new ones.
    pub fn kills(self, ms: u64, until: u64) -> Self {
        let (client, server) = self.link();
        let what = Fault::Partition(faults::Partition {
            hosts: (client, server.clone()),
            toward: Some(server),
            lasts: None,
        });
        self.fault(ms, Some(until), Nature::Kills, what)
    }

    /// A two-way partition.
    pub fn partition(self, ms: u64, until: Option<u64>) -> Self {
        let what =
            Fault::Partition(faults::Partition { hosts: self.link(), toward: None, lasts: None });
        self.fault(ms, until, Nature::Kills, what)
    }

    /// Holds a task of the client.
    pub fn slows(self, ms: u64, until: u64) -> Self {
        let scope = Scope { hosts: vec![self.by.clone()], ..Scope::default() };
        let what =
            Fault::Hold(faults::Hold { end: HoldEnd::After(Duration::from_millis(until - ms)) });
        self.fault_in(ms, Some(until), Nature::Slows, what, scope)
    }

    /// Holds a task of the server for the rest of the run.
    pub fn holds_for_ever(self, ms: u64) -> Self {
        let scope = Scope { hosts: vec!["server".into()], ..Scope::default() };
        self.fault_in(
            ms,
            None,
            Nature::Slows,
            Fault::Hold(faults::Hold { end: HoldEnd::After(Duration::MAX) }),
            scope,
        )
    }

    /// Narrows the window on the client's link to one byte.
    pub fn narrowed(self, ms: u64, until: u64) -> Self {
        let (client, server) = self.link();
        let what = Fault::Slow(faults::Slow {
            place: LinkPlace::Link(client, server),
            toward: None,
            by: SlowBy { window: Some(1), ..SlowBy::default() },
            lasts: None,
        });
        self.fault(ms, Some(until), Nature::Slows, what)
    }

    /// Delays packets on the client's link.
    pub fn delayed(self, ms: u64, until: Option<u64>, by: u64) -> Self {
        let (client, server) = self.link();
        let what = Fault::Delay(faults::Delay {
            place: LinkPlace::Link(client, server),
            toward: None,
            by: Duration::from_millis(by),
            lasts: None,
        });
        self.fault(ms, until, Nature::Slows, what)
    }

    /// A fault changed a message on the most recently added connection.
    pub fn tampered(mut self, ms: u64) -> Self {
        let (conn, from) = (ConnIndex(self.history.conns.len() - 1), Side::Server);
        let place = LinkPlace::Link(self.by.clone(), "server".into());
        let (toward, how) = (self.by.clone(), Tampering::Drop);
        let tamper = faults::Tamper { place, toward, how, messages: None, lasts: None };
        let (when, action) = (When::At(Duration::ZERO), Action::Fault(Fault::Tamper(tamper)));
        self.plan.steps.push(Step { when, action });
        self.entry(ms, None, EventKind::Tampered { fault: 0, conn, from, how, label: "m".into() })
    }

    pub fn died(self, host: &str, ms: u64) -> Self {
        self.entry(ms, Some(host), EventKind::Died { kernel: false })
    }

    pub fn started(self, host: &str, ms: u64) -> Self {
        self.entry(ms, Some(host), EventKind::Started)
    }

    pub fn stepped(self, step: usize, ms: u64) -> Self {
        self.entry(ms, None, EventKind::Stepped { step, note: None })
    }

    /// A connection of the client to the server. It carries generation `n`, which is installed when
    /// it opens.
    pub fn conn(mut self, n: u32, opened: u64, over: Option<u64>) -> Self {
        let id = self.history.conns.len() as u64 + 1;
        let name = format!("{}#{n}", self.by);
        let (client, server) = self.link();
        let (opened, over) = (Time(opened), over.map(Time));
        self.history.conns.push(Connection {
            generation: Some(n.into()),
            over: (over, over),
            ..Connection::new(name, client, server, opened)
        });
        let fields = [
            ("generation", MilestoneValue::Number(n.into())),
            ("conn", MilestoneValue::Number(id)),
        ];
        self.user(
            opened.0,
            EventKind::Milestone { name: "told.client.connected", fields: fields.into() },
        )
    }

    /// A connection of the client to the server for another purpose: the n-th with this label.
    pub fn conn_labelled(mut self, label: &str, n: u32, opened: u64, over: Option<u64>) -> Self {
        let ((client, server), over) = (self.link(), over.map(Time));
        let name = format!("{client}/{label}#{n}");
        let conn = Connection {
            over: (over, over),
            ..Connection::new(name, client, server, Time(opened))
        };
        self.history.conns.push(conn);
        self
    }

    /// A connection from this host to the outside world.
    pub fn upstream(mut self, opened: u64, over: Option<u64>) -> Self {
        let (client, over) = (self.by.clone(), over.map(Time));
        let name = format!("{client}#1");
        let conn = Connection {
            over: (over, over),
            ..Connection::new(name, client, "web".into(), Time(opened))
        };
        self.history.conns.push(conn);
        self
    }

    /// The server last received data at this time, over the connection that was opened last.
    pub fn received(mut self, ms: u64) -> Self {
        self.history.conns.last_mut().expect("a connection").received.1 = Some(Time(ms));
        self
    }

    /// The client last received data at this time, over the connection that was opened last.
    pub fn heard(mut self, ms: u64) -> Self {
        self.history.conns.last_mut().expect("a connection").received.0 = Some(Time(ms));
        self
    }

    /// The client wrote again at this time, after it had waited for room, over the connection that was opened
    /// last.
    pub fn unblocked(mut self, ms: u64) -> Self {
        self.history.conns.last_mut().expect("a connection").unblocked.0 = Some(Time(ms));
        self
    }

    /// As [`conn`](ScriptedRun::conn), but only the client knows that it is over.
    pub fn conn_half_over(self, n: u32, opened: u64, over: u64) -> Self {
        let mut scripted = self.conn(n, opened, None);
        scripted.history.conns.last_mut().expect("the connection was scripted").over.0 =
            Some(Time(over));
        scripted
    }

    /// As [`conn`](ScriptedRun::conn), but the server closed it at `closed`, before the client
    /// knew.
    pub fn conn_closed(self, n: u32, opened: u64, closed: u64, over: Option<u64>) -> Self {
        let mut scripted = self.conn(n, opened, over);
        scripted.history.conns.last_mut().expect("the connection was scripted").over.1 =
            Some(Time(closed));
        scripted
    }

    /// A connection that the client tries to open.
    pub fn attempt(self, n: u32, ms: u64) -> Self {
        let conn = ConnIndex(self.history.conns.len());
        self.conn(n, ms, None).user(ms, EventKind::ConnOpened { conn })
    }

    /// A segment with payload from the client, on the most recently added connection.
    pub fn frame(self, _n: u32, ms: u64, offset: u64, len: u32) -> Self {
        let conn = ConnIndex(self.history.conns.len() - 1);
        let (flags, fate) = (Flags::default(), Fate::Arrives(Time(ms + 10)));
        self.user(
            ms,
            EventKind::Packet(Packet { conn, from: Side::Client, flags, offset, len, fate }),
        )
    }
}

/// Entries that the world itself records.
impl ScriptedRun {
    pub fn panicked(self, ms: u64, message: &str) -> Self {
        self.server(ms, EventKind::Panicked { message: message.to_owned() })
    }

    pub fn livelock(self, ms: u64, what: &str) -> Self {
        self.entry(ms, None, EventKind::Livelock { what: what.to_owned() })
    }

    pub fn gauge(self, host: &str, ms: u64, name: &'static str, value: u64) -> Self {
        self.entry(ms, Some(host), EventKind::Gauge { name, value })
    }

    pub fn resources(self, host: &str, ms: u64, baseline: bool, counts: &[(&str, u64)]) -> Self {
        let counts: BTreeMap<_, _> =
            counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        self.entry(ms, Some(host), EventKind::ResourceCounts { baseline, counts })
    }

    pub fn outlived(self, host: &str, ms: u64, tasks: u64) -> Self {
        self.entry(ms, Some(host), EventKind::Outlived { tasks })
    }

    pub fn stray(self, ms: u64, what: &str) -> Self {
        self.entry(ms, None, EventKind::Unowned { what: what.into() })
    }

    pub fn unsent(self, ms: u64, name: &'static str) -> Self {
        self.entry(ms, None, EventKind::Milestone { name, fields: Default::default() })
    }
}

/// Checks.
impl ScriptedRun {
    fn sorted(mut self) -> History {
        self.history.events.sort_by_key(|event| event.at);
        self.history
    }

    /// Passes the check context of the run to `judge`. The subject has no limits.
    pub fn with<T>(&self, judge: impl FnOnce(&CheckContext<'_>) -> T) -> T {
        self.with_limits(&[], judge)
    }

    /// Passes the check context of the run to `judge`. The subject has these limits.
    pub fn with_limits<T>(&self, table: &[Limit], judge: impl FnOnce(&CheckContext<'_>) -> T) -> T {
        let history = self.clone().sorted();
        let (plan, guarantees, control) = (&self.plan, &self.guarantees, self.control.as_ref());
        judge(&CheckContext {
            plan,
            limits: &plan.limits.over(table),
            history: &history,
            guarantees,
            milestones: &[],
            servers: &["server"],
            control,
            judgements: &Judgements::default(),
        })
    }

    /// Returns the sentences of the violations of one generic property.
    pub fn violations(&self, property: &str) -> Vec<String> {
        let property =
            GENERIC.iter().find(|known| known.name == property).expect("a generic property");
        let broken = self.with(|cx| (property.check)(cx));
        assert!(broken.iter().all(
            |broken| broken.property == property.name && property.kinds.contains(&broken.kind)
        ));
        broken.iter().map(sentence).collect()
    }

    /// Returns the number of cases that one generic property judges, if all of them are checked.
    pub fn judged(&self, property: &str) -> u64 {
        self.with(|cx| {
            super::check(cx);
            cx.judgements.of(property)
        })
    }

    #[track_caller]
    pub fn holds(&self, property: &str) {
        assert_eq!(self.violations(property), Vec::<String>::new());
    }
}

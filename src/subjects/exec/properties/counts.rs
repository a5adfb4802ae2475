//! `counts_are_true`: client and server count what is open, while they run.
//!
//! The counts are levels: the history has each change. The property compares them, four times a
//! second, with what may be open and what certainly is: by the outside world, the network and the
//! users. So it finds what is never forgotten, which the end of a client would hide, and what is
//! forgotten too early.
//!
//! A count that the history does not have is 0. A count is compared only if no fault is in force. The counts of a server are compared until a
//! server dies.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::generations::LITTLE;
use crate::history::{EventKind, Time};
use crate::property::path::{NEVER, through};
use crate::property::violation::{fields, kinds};
use crate::property::{CheckContext, Violation};
use crate::schedule::Host;
use crate::subjects::exec::limits::{client_limits, server_limits};
use crate::subjects::exec::network_fault::AROUND;
use crate::subjects::exec::web;
use crate::subjects::judging::{host, judged};
use crate::world::process::{Setup, TABLE};

pub(super) mod ledger;

use ledger::{CallLife, Ledger, MOMENT, Outcome};

kinds! {
    pub(super) COUNTS_ARE_TRUE;
    MORE = "more": "{subject:}`{counter}` is {value}, but at most {most} can be open {moment}";
    FEWER = "fewer": "{subject:}`{counter}` is {value}, but at least {least} must be open {moment}";
}

/// How often the counts are compared.
const PERIOD: u64 = 250;

/// The durations that decide how long something is counted.
struct Spans {
    /// The calls that a client has in flight at a time; further ones wait for their turn.
    calls: u64,
    /// The longest time that a client waits for an answer, besides the wait of the call.
    call_wait: Duration,
    /// The processes of a session, and the open files of a connection.
    processes: u64,
    file_handles: u64,
    /// The ids of writes that the server remembers for a process.
    write_ids: u64,
    /// How long the server keeps a detached session, and a closed process.
    lifetime: Duration,
    retention: Duration,
    /// How long after its retention the server may keep a process because its connection is in doubt.
    doubt: Duration,
    /// The longest time of a packet on its way.
    latency: Duration,
    /// The time for a request and its answer, on an idle link.
    round_trip: Duration,
    /// The longest launch of a process. The client cannot end the process before that.
    launch: Duration,
}

impl Spans {
    fn of(cx: &CheckContext<'_>) -> Self {
        let limits = cx.limits;
        let server = server_limits(limits);
        let round_trip = cx.plan.latency.1 * 4;
        let processes = cx.plan.entries(TABLE);
        let launches = processes.filter_map(|(name, _)| {
            cx.plan.entry::<Setup>(TABLE, name)?.launch_takes.map(|takes| takes.0)
        });
        let client = client_limits(limits);
        Self {
            calls: client.calls as u64,
            call_wait: client.call_wait,
            processes: server.processes as u64,
            file_handles: server.file_handles as u64,
            write_ids: server.write_ids as u64,
            lifetime: server.detached_lifetime,
            retention: server.closed_retention,
            doubt: server.wire.ping_interval + round_trip,
            latency: cx.plan.latency.1,
            round_trip,
            launch: launches.max().unwrap_or_default(),
        }
    }
}

/// The facts with which a count is compared.
struct Scene<'s, 'a> {
    ledger: &'s Ledger<'a>,
    spans: &'s Spans,
    /// The host of the counter.
    host: &'s str,
    now: Time,
}

/// The least and the greatest possible count. `None`: any.
type Bounds = (u64, Option<u64>);

/// A counter: its name, and its bounds.
struct Counter {
    name: &'static str,
    bounds: for<'s, 'a> fn(&Scene<'s, 'a>) -> Bounds,
}

const fn counter(name: &'static str, bounds: fn(&Scene<'_, '_>) -> Bounds) -> Counter {
    Counter { name, bounds }
}

const OF_CLIENTS: &[Counter] = &[
    counter("calls", calls),
    counter("followed-processes", followed_processes),
    counter("endings", endings),
    counter("bodies", bodies),
];

const OF_SERVERS: &[Counter] = &[
    counter("sessions", sessions),
    counter("connections", connections),
    counter("known-processes", known_processes),
    counter("http-requests", http_requests),
    counter("file-requests", file_requests),
    counter("file-handles", file_handles),
    counter("write-ids", write_ids),
];

/// See the module.
pub(super) fn counts_are_true(cx: &CheckContext<'_>) -> Vec<Violation> {
    if !cx.is_honest() {
        return Vec::new();
    }
    let spans = Spans::of(cx);
    let clients: Vec<Host> = (1..=cx.plan.clients).map(Host::client).collect();
    let servers = cx.servers.iter().copied().filter(|server| *server != web::HOST);
    let hosts = servers.map(|host| (host, OF_SERVERS));
    let hosts: Vec<(&str, &[Counter])> =
        hosts.chain(clients.iter().map(|host| (host.as_str(), OF_CLIENTS))).collect();
    let mut ledger = Ledger::default();
    let mut levels: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    let mut wrong: BTreeSet<(&str, &'static str)> = BTreeSet::new();
    let (mut found, mut period) = (Vec::new(), 0);
    // At the horizon the world closes the clients.
    let until = Time::from(cx.plan.horizon).min(cx.history.end);
    for event in judged(cx).take_while(|event| event.at < until) {
        if event.at.0 / PERIOD > period {
            period = event.at.0 / PERIOD;
            found.extend(compare(cx, &hosts, &spans, &ledger, &levels, event.at, &mut wrong));
        }
        ledger.pass(cx, event);
        match &event.what {
            EventKind::Gauge { name, value } => drop(levels.insert((host(event), *name), *value)),
            EventKind::Died { .. } => levels.retain(|(on, _), _| *on != host(event)),
            _ => {}
        }
    }
    found.extend(compare(cx, &hosts, &spans, &ledger, &levels, until, &mut wrong));
    found.truncate(5);
    found
}

/// Compares all counts at a moment. Returns the violations of those that were right so far.
fn compare<'n>(
    cx: &CheckContext<'_>,
    hosts: &[(&'n str, &'static [Counter])],
    spans: &Spans,
    ledger: &Ledger<'_>,
    levels: &BTreeMap<(&str, &str), u64>,
    now: Time,
    wrong: &mut BTreeSet<(&'n str, &'static str)>,
) -> Vec<Violation> {
    let mut found = Vec::new();
    if ledger.network_fault.in_force > 0 {
        return found;
    }
    let judged =
        hosts.iter().filter(|(host, _)| !(ledger.server_died && cx.servers.contains(host)));
    for (host, counter) in
        judged.flat_map(|(host, table)| table.iter().map(move |row| (*host, row)))
    {
        let name = counter.name;
        let value = levels.get(&(host, name)).copied().unwrap_or_default();
        let (least, most) = (counter.bounds)(&Scene { ledger, spans, host, now });
        if least > 0 || most.is_some() {
            cx.judges("counts_are_true");
        }
        let violation = |kind, data| Violation::new("counts_are_true", host, now, kind, data);
        let more = most
            .filter(|most| value > *most)
            .map(|most| violation(&MORE, fields! { counter: name, value, most }));
        let fewer =
            (value < least).then(|| violation(&FEWER, fields! { counter: name, value, least }));
        found.extend(more.or(fewer).filter(|_| wrong.insert((host, name))));
    }
    found
}

impl<'s, 'a> Scene<'s, 'a> {
    /// The calls of all clients, or of this one.
    fn calls(&self) -> impl Iterator<Item = &'s CallLife<'a>> {
        self.ledger.calls.values()
    }

    fn own(&self) -> impl Iterator<Item = &'s CallLife<'a>> {
        self.calls().filter(|call| call.host == self.host)
    }

    /// Whether something may be counted that was over at this time, if it is over.
    fn may_be(&self, over: Option<Time>) -> bool {
        over.is_none_or(|over| self.ledger.lingers(over, self.now))
    }

    /// Whether something may be counted that is kept for a while after this time.
    fn may_be_kept(&self, over: Time, kept: Duration) -> bool {
        let settled = self.ledger.network_fault.settled.unwrap_or_default();
        self.may_be(Some(over.max(settled) + kept))
    }

    /// Whether a client may still have the call, although its user has given it up.
    fn may_expire(&self, call: &CallLife<'_>) -> bool {
        call.is_given_up()
            && call
                .outcome
                .is_some_and(|(at, _)| self.may_be(Some(at + self.spans.call_wait + call.wait)))
    }

    /// Whether a host has been connected for a moment.
    fn is_attached(&self, host: &str) -> bool {
        self.ledger.attached(host).is_some_and(|since| since + MOMENT <= self.now)
    }

    /// Whether a host has a connection that was installed by then.
    fn is_attached_since(&self, host: &str, then: Time) -> bool {
        self.ledger.attached(host).is_some_and(|since| since <= then)
    }

    /// Whether a moment is enough for a request and its answer: no fault delays them, and little output
    /// is before them.
    fn is_calm(&self) -> bool {
        let fault = &self.ledger.network_fault;
        fault.settled.is_none_or(|settled| settled + MOMENT <= self.now) && fault.printed <= LITTLE
    }

    /// Returns what may be before a request of a host: how many requests, and how much data. These are
    /// the calls that were made by `to`, if they had no answer at `from`. Each answer may contain all
    /// output. The data of a call that its user gave up may still be on its way.
    fn before(&self, host: &str, from: Time, to: Time) -> (u64, u64) {
        let may_be_there = |call: &&CallLife<'_>| {
            let has_answer = call.settled().is_some_and(|at| at < from);
            call.host == host && call.asked <= to && (call.is_given_up() || !has_answer)
        };
        let answer = (self.ledger.network_fault.printed + AROUND) as u64;
        self.calls().filter(may_be_there).fold((0, 0), |(requests, data), call| {
            let answers = call.requests.saturating_mul(answer);
            let more = call.written.saturating_add(answers);
            (call.requests.saturating_add(requests), more.saturating_add(data))
        })
    }

    /// Whether a moment is enough until the server has the request of a call. The client has only so
    /// many requests in flight, and the server handles them in order.
    fn arrives_soon(&self, call: &CallLife<'_>) -> bool {
        let (requests, data) = self.before(call.host, call.asked, call.asked);
        requests <= self.spans.calls && data <= LITTLE as u64
    }

    /// Whether the client certainly has a request of this call. The call makes one request, its user made it
    /// some time ago, and there is no answer. If the user waits for a start first, the time counts from the
    /// outcome of that start.
    fn is_pending(&self, call: &CallLife<'_>) -> bool {
        let has_one =
            matches!(call.verb, "read" | "http" | "read-file" | "write-file" | "remove-file");
        let starts = self.own().filter(|start| {
            start.verb == "start" && call.process.is_some() && start.process == call.process
        });
        let settled = starts.map(|start| start.settled().unwrap_or(NEVER));
        let made = settled.fold(call.asked, Time::max);
        has_one && call.settled().is_none() && made + MOMENT <= self.now
    }

    /// Whether a body certainly arrives for a call: its user has the head, reads at once and has not
    /// read the end, and the HTTP server has more.
    fn is_arriving(&self, call: &CallLife<'_>) -> bool {
        call.verb == "http-stream"
            && !call.is_slow
            && call.opened.is_some_and(|opened| opened + MOMENT <= self.now)
            && call.over().is_none()
            && call.exited.is_none()
            && call.asked + call.fetches > self.now
            && self.is_attached_since(call.host, call.asked)
    }

    /// Whether a server may still work for a call: until its user has the result, or, if it gets
    /// none, until the connection is over.
    fn may_be_served(&self, call: &CallLife<'_>) -> bool {
        let Some(over) = call.over() else { return true };
        let has_result = match (call.ended, call.outcome) {
            (Some((_, completed)), _) if call.opened.is_some() => completed,
            (_, Some((_, outcome))) => matches!(outcome, Outcome::Answered | Outcome::Refused),
            _ => false,
        };
        self.may_be(Some(over)) || !has_result && self.ledger.has_conn_of(call.host, over, self.now)
    }
}

fn count<'s, 'a: 's>(
    calls: impl Iterator<Item = &'s CallLife<'a>>,
    counts: impl Fn(&CallLife<'a>) -> bool,
) -> u64 {
    calls.filter(|call| counts(call)).count() as u64
}

fn at_most(most: u64) -> Bounds {
    (0, Some(most))
}

// -- the client -----------------------------------------------------------------------------------

fn calls(scene: &Scene<'_, '_>) -> Bounds {
    let open = scene.own().filter(|call| scene.may_be(call.settled()) || scene.may_expire(call));
    let most = open.map(|call| call.requests).sum();
    let is_up = scene.is_attached(scene.host);
    let least = if is_up { count(scene.own(), |call| scene.is_pending(call)) } else { 0 };
    (least.min(scene.spans.calls), Some(most))
}

fn followed_processes(scene: &Scene<'_, '_>) -> Bounds {
    let starts = || scene.own().filter(|call| call.verb == "start");
    // An open call on a process is a handle, too.
    let is_used = |start: &CallLife<'_>| {
        let mut others = scene.own().filter(|call| call.process == start.process);
        others.any(|call| scene.may_be(call.settled()) || scene.may_expire(call))
    };
    let most = count(starts(), |call| {
        scene.may_be(call.over())
            || scene.may_expire(call)
            || call.dropped.is_some() && is_used(call)
    });
    let is_certain = |call: &CallLife<'_>| {
        call.is_followed() && call.opened.is_some_and(|opened| opened + MOMENT <= scene.now)
    };
    let least = if scene.is_attached(scene.host) { count(starts(), is_certain) } else { 0 };
    (least, Some(most))
}

/// A client terminates what it does not follow, once it is connected. Its start and the terminate may
/// be behind other data. A slow user learns late that a process has failed. If its user dropped it, only
/// the calls that still wait for it report the failure.
fn endings(scene: &Scene<'_, '_>) -> Bounds {
    let Some(attached) = scene.ledger.attached(scene.host) else { return (0, None) };
    if scene.ledger.network_fault.printed > LITTLE {
        return (0, None);
    }
    let failed = |call: &CallLife<'_>| {
        let outcome = call
            .outcome
            .filter(|(_, outcome)| matches!(outcome, Outcome::Failed | Outcome::GivenUp));
        let ended = call.ended.filter(|(_, completed)| !completed);
        let waited = |other: &&CallLife<'_>| {
            call.dropped.is_some() && other.process == call.process && other.verb != "start"
        };
        let refused = scene.own().filter(waited).filter_map(|other| other.outcome);
        let refused = refused.filter(|(_, outcome)| *outcome == Outcome::Refused);
        let ends = outcome.map(|(at, _)| at).into_iter().chain(ended.map(|(at, _)| at));
        let at = ends.chain(refused.map(|(at, _)| at)).max();
        call.is_slow && call.ended.is_none()
            || at.is_some_and(|at| {
                let (_, data) = scene.before(call.host, at, scene.now);
                let takes = scene.spans.round_trip + through(data, scene.spans.latency);
                scene.may_be_kept(at.max(attached), takes + scene.spans.launch)
            })
    };
    at_most(count(scene.own().filter(|call| call.verb == "start"), failed))
}

fn bodies(scene: &Scene<'_, '_>) -> Bounds {
    let streams = || scene.own().filter(|call| call.verb == "http-stream");
    let most = count(streams(), |call| scene.may_be(call.over()));
    (count(streams(), |call| scene.is_arriving(call)), Some(most))
}

// -- the server -----------------------------------------------------------------------------------

/// A client has one session: that of its installed connections. Another connection may have another
/// session if its client did not learn the name.
fn sessions(scene: &Scene<'_, '_>) -> Bounds {
    let lifetime = scene.spans.lifetime;
    let may_have = scene.ledger.conns.iter().filter(|life| {
        life.is_up && life.over.1.is_none_or(|over| scene.may_be_kept(over, lifetime))
    });
    let (mut named, mut unnamed) = (BTreeSet::new(), 0);
    for life in may_have {
        match life.installed {
            Some(_) => drop(named.insert((life.host, life.incarnation))),
            None => unnamed += 1,
        }
    }
    let hosts: BTreeSet<&str> = scene.ledger.conns.iter().map(|life| life.host).collect();
    let least = hosts.iter().filter(|host| scene.is_attached(host)).count();
    (least as u64, Some(named.len() as u64 + unnamed))
}

fn connections(scene: &Scene<'_, '_>) -> Bounds {
    let conns = || scene.ledger.conns.iter();
    // A connection that is closed gracefully takes a moment more.
    let may_be = conns().filter(|life| {
        life.is_up && life.over.1.is_none_or(|over| scene.may_be(Some(over + MOMENT)))
    });
    let is_certain = |installed: Option<Time>| {
        installed.is_some_and(|installed| installed + MOMENT <= scene.now)
    };
    let open = conns().filter(|life| life.over == (None, None) && is_certain(life.installed));
    (open.count() as u64, Some(may_be.count() as u64))
}

/// A process is known while it runs, and for the retention after its end. Each session has so many.
fn known_processes(scene: &Scene<'_, '_>) -> Bounds {
    let starts = || scene.calls().filter(|call| call.verb == "start");
    let (retention, doubt) = (scene.spans.retention, scene.spans.doubt);
    let may_be_known = |call: &CallLife<'_>| match (call.outcome, call.ended) {
        (Some((at, Outcome::Refused)), _) => scene.may_be(Some(at)),
        (_, Some((at, true))) => scene.ledger.attached(call.host).is_none_or(|since| {
            call.is_orphan || scene.may_be_kept(at.max(since), retention + doubt)
        }),
        _ => true,
    };
    let is_certain = |call: &CallLife<'_>| match (call.launched, call.exited) {
        (Some(launched), None) => launched + MOMENT <= scene.now,
        (Some(_), Some(exited)) => {
            call.opened.is_some()
                && !call.is_orphan
                && exited + retention > scene.now
                && scene.is_attached(call.host)
        }
        (None, _) => false,
    };
    let most = sessions(scene).1.map(|sessions| sessions.saturating_mul(scene.spans.processes));
    (count(starts(), is_certain), most.map(|most| most.min(count(starts(), may_be_known))))
}

/// A request is in progress while the HTTP server has more of its body.
fn http_requests(scene: &Scene<'_, '_>) -> Bounds {
    let requests = || scene.calls().filter(|call| call.verb.starts_with("http"));
    let most = count(requests(), |call| scene.may_be_served(call));
    let is_certain = |call: &CallLife<'_>| scene.is_calm() && scene.is_arriving(call);
    (count(requests(), is_certain), Some(most))
}

fn file_requests(scene: &Scene<'_, '_>) -> Bounds {
    fn is_about_files(verb: &str) -> bool {
        verb.ends_with("-file") || matches!(verb, "read-blocks" | "use-files")
    }
    let requests = || scene.calls().filter(|call| is_about_files(call.verb));
    // A write that runs is finished, also if its connection ends.
    let most = count(requests(), |call| {
        let earlier = Scene { now: scene.now.before(call.hangs), ..*scene };
        scene.may_be_served(call) || earlier.may_be_served(call)
    });
    let least = u64::from(requests().any(|call| is_hanging(scene, call)));
    (least, Some(most))
}

/// Whether the server certainly performs a write: it is the first one to a file whose disk hangs for
/// longer, its request is there, and no other operation of any user is about files that may hold it
/// up.
fn is_hanging(scene: &Scene<'_, '_>, call: &CallLife<'_>) -> bool {
    let may_hold_up = |other: &CallLife<'_>| {
        other.asked <= call.asked
            && !std::ptr::eq(other, call)
            && (other.verb == "use-files" || other.file.is_some())
    };
    call.verb == "write-file"
        && call.settled().is_none()
        && call.asked + MOMENT <= scene.now
        && call.asked + call.writes_hang > scene.now
        && scene.is_calm()
        && scene.is_attached_since(call.host, call.asked)
        && scene.arrives_soon(call)
        && !scene.calls().any(may_hold_up)
}

/// A user that reads a file in blocks closes it, unless it was refused a block. One that does tasks with
/// files opens at most one for each task.
fn file_handles(scene: &Scene<'_, '_>) -> Bounds {
    let handles = scene.calls().filter(|call| matches!(call.verb, "read-blocks" | "use-files"));
    let is_left = |call: &CallLife<'_>| {
        let refused = call.outcome.filter(|(_, outcome)| *outcome == Outcome::Refused);
        refused.is_some_and(|(at, _)| scene.ledger.has_conn_of(call.host, at, scene.now))
    };
    let open = handles.filter(|call| scene.may_be_served(call) || is_left(call));
    let open = open.map(|call| call.tasks).sum::<u64>();
    let most = connections(scene).1.map(|conns| conns.saturating_mul(scene.spans.file_handles));
    (0, most.map(|most| most.min(open)))
}

/// The count is that of the process with the most ids. The server forgets ids only after it has sent a quarter
/// of the limit of answers. So it remembers all writes of a host with fewer writes. A byte stream may make
/// several writes.
fn write_ids(scene: &Scene<'_, '_>) -> Bounds {
    let writes = || scene.calls().filter(|call| matches!(call.verb, "write" | "write-stream"));
    if writes().any(|call| call.verb == "write-stream") {
        return (0, None);
    }
    let mut asked: BTreeMap<(&str, Option<&str>), u64> = BTreeMap::new();
    writes().for_each(|call| *asked.entry((call.host, call.process)).or_default() += 1);
    let starts = || scene.calls().filter(|call| call.verb == "start");
    let is_running = |start: &&CallLife<'_>| {
        start.launched.is_some() && start.exited.is_none() && !start.is_orphan
    };
    let kept = starts().filter(is_running).map(|start| {
        let is_its = |call: &CallLife<'_>| call.host == start.host && call.process == start.process;
        let of_host = count(writes(), |call| call.host == start.host);
        let is_unmarked = of_host < scene.spans.write_ids / 4 && count(starts(), is_its) == 1;
        let since = scene.ledger.attached(start.host).filter(|_| is_unmarked);
        since.map_or(0, |since| {
            count(writes(), |call| {
                let accepted = call.outcome.filter(|(_, outcome)| *outcome == Outcome::Answered);
                let is_there = accepted.is_some_and(|(at, _)| at + MOMENT <= scene.now);
                is_its(call) && call.asked >= since && is_there
            })
        })
    });
    (kept.max().unwrap_or_default(), asked.values().max().copied().or(Some(0)))
}

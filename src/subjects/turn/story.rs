//! The runs of a user's commands in a history: what the user asked and saw, and what the app-server
//! really did.

use std::collections::BTreeMap;
use std::time::Duration;

use super::jobs::story::Jobs;
use super::notes::{BrokerCounted, Got};
use crate::history::{Call, ConnIndex, Time};
use crate::property::CheckContext;
use crate::subjects::judging::judged;
use reknit_turn::wire::method;

mod events;
mod run;

use events::Asked;
pub(super) use run::{Run, silent, started, too_much};

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

//! The facts of a run about windows, connections and calls, collected in one pass. This module
//! reports no violations.
//!
//! The network's own record of both ends of each connection shows which connections exist. The
//! milestone with which the host accepts a connection shows which client it belongs to. The facts
//! about calls come from the agents that called, the tools that ran, and the users that watched.

use std::collections::BTreeMap;
use std::time::Duration;

use super::existence::Existence;
use super::facts::{
    Assignment, CallStory, DOWN, FailedCall, FaultPeriod, HandshakeAttempt, HostConnection,
    UserOperation, WatchSpan, Window, text,
};
use crate::history::{Call, ConnIndex, Connection, Event, EventKind, Nature, Scope, Stream, Time};
use crate::property::path::{NEVER, conns_of, through};
use crate::property::{CheckContext, Guarantees};
use crate::schedule::{Fault, MilestoneValue};
use crate::subjects::judging::{host, judged};
use crate::subjects::records;
use crate::subjects::toolcall::limits::{client_limits, host_limits};
use crate::subjects::toolcall::notes::{Became, By, OfCall, OfChannel, ToolWork};
use crate::subjects::toolcall::setup::{TOOL, ToolSetup};
use reknit_toolcall::limits::{ClientLimits, HostLimits};

/// The facts of a run.
pub(super) struct Story<'a> {
    pub(super) cx: &'a CheckContext<'a>,
    pub(super) host_limits: HostLimits,
    pub(super) client_limits: ClientLimits,
    /// The end of the checked part of the run.
    pub(super) until: Time,
    pub(super) attached: Vec<HostConnection<'a>>,
    /// The handshakes that clients began.
    pub(super) arriving: Vec<HandshakeAttempt<'a>>,
    pub(super) calls: Vec<CallStory<'a>>,
    /// The calls that the host failed, from its milestones.
    pub(super) failed: Vec<FailedCall<'a>>,
    /// The operations of the windows' users.
    pub(super) asked: BTreeMap<Call, UserOperation<'a>>,
    /// The intervals in which users watch a channel and have its state.
    pub(super) watch_spans: Vec<WatchSpan<'a>>,
    /// The intervals in which users saw that their clients take part in the session.
    pub(super) parts: Vec<WatchSpan<'a>>,
    /// The intervals of faults, and of hosts that were down.
    pub(super) fault_periods: Vec<FaultPeriod<'a>>,
    /// The times at which the host died.
    pub(super) deaths: Vec<Time>,
    /// The number of windows of each host so far.
    windows: BTreeMap<&'a str, usize>,
    /// The clients that the host forgot, with the times.
    pub(super) forgotten: Vec<(&'a str, Time)>,
    /// The channels and turns that really exist.
    pub(super) existence: Existence<'a>,
    /// How long the words of all agents and the results of all tools take to cross the network once: a
    /// state may contain all of them.
    pub(super) transfer: Duration,
}

impl<'a> Story<'a> {
    pub(super) fn of(cx: &'a CheckContext<'a>) -> Self {
        let limits = cx.limits;
        let mut story = Self {
            cx,
            host_limits: host_limits(limits),
            client_limits: client_limits(limits),
            until: Time::from(cx.plan.horizon),
            attached: Vec::new(),
            arriving: Vec::new(),
            calls: Vec::new(),
            failed: Vec::new(),
            asked: BTreeMap::new(),
            watch_spans: Vec::new(),
            parts: Vec::new(),
            fault_periods: Vec::new(),
            deaths: Vec::new(),
            windows: BTreeMap::new(),
            forgotten: Vec::new(),
            existence: Existence::of(cx),
            transfer: Duration::ZERO,
        };
        let mut owners = BTreeMap::new();
        for event in judged(cx) {
            story.read(event, &mut owners);
        }
        story.transfer = through(story.bytes(), cx.plan.latency.1);
        story
    }

    /// The number of bytes of the words of all agents and the results of all tools.
    fn bytes(&self) -> u64 {
        let words = judged(self.cx).map(|event| match &event.what {
            EventKind::Produced { bytes, .. } => bytes.len() as u64,
            _ => 0,
        });
        let has_ended =
            |call: &&CallStory<'_>| call.tools.iter().any(|(_, _, work)| *work == ToolWork::Ends);
        let results = self.calls.iter().filter(has_ended).map(|call| {
            let tool: Option<ToolSetup> = call.tool.and_then(|tool| self.cx.plan.entry(TOOL, tool));
            tool.unwrap_or_default().letters
        });
        words.sum::<u64>() + results.sum::<u64>()
    }

    fn read(&mut self, event: &'a Event, owners: &mut BTreeMap<&'a str, Assignment<'a>>) {
        let (at, host) = (event.at, host(event));
        match &event.what {
            EventKind::Milestone { name, fields } => {
                self.milestone(name, fields, (at, host), owners)
            }
            EventKind::Observed { stream, saw } => match (saw.downcast_ref(), saw.downcast_ref()) {
                (Some(note), _) => self.call_noted(stream, note, at, host, owners),
                (_, Some(OfChannel::Received)) => {
                    self.look_ends(host, &stream.0, at);
                    self.watch_spans.push(WatchSpan {
                        host,
                        channel: &stream.0,
                        from: at,
                        to: NEVER,
                    });
                }
                (_, Some(OfChannel::Unsubscribed | OfChannel::Removed)) => {
                    self.look_ends(host, &stream.0, at)
                }
                (_, Some(OfChannel::Joined(true))) => {
                    self.parts.push(WatchSpan { host, channel: &stream.0, from: at, to: NEVER })
                }
                (_, Some(OfChannel::Joined(false))) => ends(&mut self.parts, host, &stream.0, at),
                _ => {}
            },
            EventKind::Ended { stream, .. } => {
                let open =
                    self.calls.iter_mut().filter(|call| call.turn == stream && call.left == NEVER);
                open.for_each(|call| call.left = at);
            }
            EventKind::Asked { call, operation, .. } => {
                let windows = self.windows.entry(host).or_default();
                self.asked.insert(*call, UserOperation { at, host, window: *windows, operation });
                *windows += usize::from(operation.verb == "reload");
            }
            EventKind::Died { .. } => self.died(host, at),
            EventKind::Started => {
                *self.windows.entry(host).or_default() += 1;
                self.fault_periods
                    .iter_mut()
                    .filter(|period| period.is_down(host))
                    .for_each(|period| period.to = at);
            }
            EventKind::FaultBegan { fault, nature, what, scope, .. }
                if *nature != Nature::Harmless =>
            {
                let holds = matches!(**what, Fault::Hold { .. })
                    .then(|| scope.hosts.first().map(|host| host.as_str()))
                    .flatten();
                let (to, only) = (self.dies_with(what, scope, at), self.only(scope));
                let known = self.known_by(what, scope, at);
                let is_of_conns = scope.hosts.is_empty() && scope.links.is_empty();
                let conns = conns_of(what, scope, self.cx.history).filter(|_| is_of_conns);
                let conns = conns.collect();
                let (number, lag) = (*fault, what.latency());
                let period = FaultPeriod { number, from: at, to, lag, holds, only, conns, known };
                self.fault_periods.push(period);
            }
            EventKind::FaultEnded { fault } => {
                let ended = self.fault_periods.iter_mut().find(|period| period.number == *fault);
                ended.into_iter().for_each(|period| period.to = period.to.min(at + period.lag));
            }
            _ => {}
        }
    }

    /// The time at which a user received the answer to an operation.
    pub(super) fn answered_at(&self, asked: Call) -> Time {
        let answer = judged(self.cx).find(|event| match &event.what {
            EventKind::Answered { call, .. } | EventKind::Failed { call, .. } => *call == asked,
            _ => false,
        });
        answer.map_or(NEVER, |event| event.at)
    }

    /// The window whose user asked for a call.
    pub(super) fn window_of(&self, call: Call) -> Option<Window<'a>> {
        self.asked.get(&call).map(|asked| (asked.host, asked.window))
    }

    /// The time from which a fault has no effect: both ends of all connections in its scope,
    /// including later ones, are over. A reloaded window counts its generations from 1 again, so a
    /// generation may denote more than one connection.
    fn dies_with(&self, fault: &'a Fault, scope: &'a Scope, at: Time) -> Time {
        if !scope.hosts.is_empty() || !scope.links.is_empty() {
            return NEVER;
        }
        let conns = conns_of(fault, scope, self.cx.history);
        let over =
            conns.map(|conn| conn.over.0.unwrap_or(NEVER).max(conn.over.1.unwrap_or(NEVER))).max();
        over.filter(|over| *over > at).unwrap_or(NEVER)
    }

    /// The time from which the clients must know that a fault ended their connections, even if the
    /// network never reports it: they send pings over a connection, and an attempt has a timeout.
    fn known_by(&self, fault: &'a Fault, scope: &'a Scope, at: Time) -> Time {
        if !matches!(fault, Fault::Cut { .. } | Fault::CutAfter { .. }) {
            return NEVER;
        }
        let Guarantees { detection, attempt, .. } = self.cx.guarantees;
        let last = conns_of(fault, scope, self.cx.history).map(|conn| {
            let arrived = [conn.received.0, conn.received.1].into_iter().flatten();
            arrived.fold(conn.opened.max(at), Time::max)
        });
        last.max().map_or(NEVER, |last| last + *detection + *attempt)
    }

    /// The window that a fault affects, if it affects only one.
    fn only(&self, scope: &'a Scope) -> Option<&'a str> {
        let servers = self.cx.servers;
        let of_links = scope.links.iter().flat_map(|(one, other)| {
            let end = if servers.contains(&one.as_str()) { other } else { one };
            [end.as_str()]
        });
        let conns =
            scope.conns.iter().filter_map(|ConnIndex(index)| self.cx.history.conns.get(*index));
        let of_conns = conns.map(|conn| conn.client.as_str());
        let mut all = scope.hosts.iter().map(|host| host.as_str()).chain(of_links).chain(of_conns);
        let first = all.next().filter(|first| !servers.contains(first))?;
        all.all(|other| other == first).then_some(first)
    }

    fn milestone(
        &mut self,
        name: &str,
        fields: &'a [(&'static str, MilestoneValue)],
        (at, host): (Time, &'a str),
        owners: &mut BTreeMap<&'a str, Assignment<'a>>,
    ) {
        match name {
            "toolcall.host.initialized" | "toolcall.host.replayed" | "toolcall.host.reseated" => {
                let Some(ConnIndex(index)) = ConnIndex::from_fields(fields) else { return };
                let Some(conn) = self.cx.history.conns.get(index) else { return };
                let gone = conn.over.0.unwrap_or(NEVER);
                // The host may accept a connection that the window has already lost, if the host
                // has not noticed that yet.
                let handshake = self.arriving.iter_mut().rfind(|arriving| arriving.conn == index);
                let arrived = handshake.map(|arriving| {
                    arriving.to = arriving.to.min(at);
                    arriving.over
                });
                let over = arrived.unwrap_or_else(|| self.host_end(index, at));
                let second = conn.name.contains("/second").then(|| self.second_asked(conn));
                let received = conn.received.1.unwrap_or(conn.opened);
                self.attached.push(HostConnection {
                    conn: index,
                    client: text(fields, "client"),
                    at,
                    gone,
                    over,
                    received,
                    second,
                });
            }
            "toolcall.host.arriving" => {
                let Some(ConnIndex(conn)) = ConnIndex::from_fields(fields) else { return };
                let over = self.host_end(conn, at);
                self.arriving.push(HandshakeAttempt {
                    conn,
                    client: text(fields, "client"),
                    from: at,
                    to: over,
                    over,
                });
            }
            // The host's end remains open in the network for a while after the host closes it,
            // because the host still sends its last messages.
            "toolcall.host.cut" | "toolcall.host.lost" | "toolcall.host.no-handshake" => {
                let cut = ConnIndex::from_fields(fields).map(|ConnIndex(index)| index);
                let own = self.attached.iter_mut().filter(|attached| Some(attached.conn) == cut);
                own.for_each(|attached| attached.over = attached.over.min(at));
                let own = self.arriving.iter_mut().filter(|arriving| Some(arriving.conn) == cut);
                own.for_each(|arriving| {
                    (arriving.to, arriving.over) = (arriving.to.min(at), arriving.over.min(at))
                });
            }
            "toolcall.host.call" => {
                let [call, owner, chat] = ["call", "owner", "chat"].map(|name| text(fields, name));
                owners.insert(call, Assignment { owner, chat, accepted: self.attached.len() });
            }
            "toolcall.host.forgotten" => self.forgotten.push((text(fields, "client"), at)),
            // A tool may be stopped before it notes its begin, so the client's milestone counts as
            // the begin.
            "toolcall.client.runs" => {
                let (id, until) = (text(fields, "call"), self.news_until(By::Tool, host, at));
                let mut known = self.calls.iter_mut().rev();
                let begun = known.find(|call| call.id == id && Some(call.began) <= until);
                begun.into_iter().for_each(|call| call.tools.push((at, host, ToolWork::Begins)));
            }
            "toolcall.host.call-failed" => {
                let [chat, call, owner] = ["chat", "call", "owner"].map(|name| text(fields, name));
                let away = MilestoneValue::number(fields, "away") == Some(1);
                self.failed.push(FailedCall { at, chat, call, owner, away });
            }
            _ => {}
        }
    }

    /// The time at which the host's end of a connection is over, for a connection that is open at
    /// this moment. A connection attempt may outlive the host incarnation that it was first made
    /// to. In that case the host's milestone determines the end.
    fn host_end(&self, conn: usize, at: Time) -> Time {
        let over = self.cx.history.conns.get(conn).and_then(|conn| conn.over.1);
        over.filter(|over| *over >= at).unwrap_or(NEVER)
    }

    fn call_noted(
        &mut self,
        turn: &'a Stream,
        note: &'a OfCall,
        at: Time,
        host: &'a str,
        owners: &BTreeMap<&'a str, Assignment<'a>>,
    ) {
        let OfCall { by, call: id, what } = note;
        if let (By::Agent, Became::Calls { tool, of_its_choice }) = (by, what) {
            let Assignment { owner, chat, accepted } =
                owners.get(id.as_str()).copied().unwrap_or_default();
            let (chosen, tool) = (!of_its_choice, Some(tool.as_str()));
            let (tools, users, seconds) = (Vec::new(), Vec::new(), Vec::new());
            // An agent may still note a call at the moment in which its host dies.
            let left = if self.is_down(host) { at } else { NEVER };
            let call = CallStory {
                turn,
                id,
                chat,
                owner,
                chosen,
                accepted,
                tool,
                began: at,
                ready: None,
                asks: false,
                permitted: None,
                decisions: Vec::new(),
                over: None,
                left,
                given_up: NEVER,
                tools,
                begins: Vec::new(),
                users,
                seconds,
                replies: Vec::new(),
            };
            return self.calls.push(call);
        }
        let until = self.news_until(*by, host, at);
        let is_it = |call: &CallStory<'_>| call.turn == turn && call.id == id;
        // A tool ends for the call for which it began: the next host may have accepted the window since,
        // before the window knows.
        let is_end = matches!(what, Became::Works(ToolWork::Ends | ToolWork::Stopped));
        let begun = |call: &CallStory<'_>| is_end && is_it(call) && call.is_at_work(host);
        let known = |call: &CallStory<'_>| is_it(call) && Some(call.began) <= until;
        let own = self.calls.iter().rposition(begun).or_else(|| self.calls.iter().rposition(known));
        let Some(call) = own.and_then(|n| self.calls.get_mut(n)) else { return };
        match (by, what) {
            (By::Agent, Became::Over(end)) => {
                call.over.get_or_insert((at, end));
                call.left = call.left.min(at);
            }
            (By::Agent, Became::GivenUp) => call.given_up = call.given_up.min(at),
            (By::Agent, Became::Ready { asks }) => {
                (call.ready, call.asks) = (Some(at), *asks);
            }
            (By::Agent, Became::Permitted(true)) => call.permitted = Some(at),
            (By::Tool, Became::Works(work)) => {
                call.tools.push((at, host, *work));
                call.begins.extend((*work == ToolWork::Begins).then_some((at, host)));
            }
            (By::Second, Became::Is(status)) => call.seconds.push((at, host, *status)),
            (By::User, Became::Is(status)) => call.users.push((at, host, *status)),
            (By::User, Became::Decides(approves)) => call.decisions.push((at, *approves)),
            (By::User, Became::Replies(reply)) => call.replies.push((at, host, reply)),
            _ => {}
        }
    }

    /// The end of the time about which an author has news at a moment. A window that has not reconnected
    /// since the host died still receives what the dead host sent. A restarted host may give a call the
    /// same name, perhaps in the same turn. Returns `None` if the window has second connections to both.
    pub(super) fn news_until(&self, by: By, host: &str, at: Time) -> Option<Time> {
        let is_second = by == By::Second;
        let mut own = self.attached.iter().filter(|attached| {
            window(attached.client) == host
                && attached.at <= at
                && attached.is_second() == is_second
        });
        let until = |attached: &HostConnection<'_>| {
            self.deaths.iter().copied().find(|death| *death >= attached.at).unwrap_or(NEVER)
        };
        match by {
            By::Agent => Some(NEVER),
            By::User | By::Tool => Some(own.next_back().map_or(NEVER, until)),
            By::Second => {
                let mut all = own.filter(|attached| attached.gone >= at).map(until);
                let first = all.next().unwrap_or(NEVER);
                all.all(|other| other == first).then_some(first)
            }
        }
    }

    /// The times at which a host died.
    pub(super) fn deaths_of(&self, host: &str) -> impl Iterator<Item = Time> {
        let own =
            move |period: &&FaultPeriod<'a>| period.number == DOWN && period.holds == Some(host);
        self.fault_periods.iter().filter(own).map(|period| period.from)
    }

    /// The times from which a host may have another window: its user reloads it, or the host dies.
    pub(super) fn begins_of(&self, host: &str) -> impl Iterator<Item = Time> {
        let reloads =
            self.asked.values().filter(move |asked| asked.host == host && asked.verb() == "reload");
        reloads.map(|asked| asked.at).chain(self.deaths_of(host))
    }

    /// Returns whether a fault held a task of a host at any time of an interval.
    pub(super) fn is_held(&self, host: &str, from: Time, to: Time) -> bool {
        let mut holds = self.fault_periods.iter().filter(|period| period.holds == Some(host));
        holds.any(|period| period.from <= to && period.to >= from)
    }

    fn is_down(&self, host: &str) -> bool {
        self.fault_periods.iter().any(|period| period.is_down(host))
    }

    fn look_ends(&mut self, host: &str, channel: &str, at: Time) {
        ends(&mut self.watch_spans, host, channel, at);
        ends(&mut self.parts, host, channel, at);
    }

    fn died(&mut self, host: &'a str, at: Time) {
        let is_server = self.cx.servers.contains(&host);
        let only = (!is_server).then_some(host);
        self.fault_periods.push(FaultPeriod {
            number: DOWN,
            from: at,
            to: NEVER,
            lag: Duration::ZERO,
            holds: Some(host),
            only,
            conns: Vec::new(),
            known: NEVER,
        });
        if is_server {
            self.deaths.push(at);
            self.calls.iter_mut().filter(|call| call.left == NEVER).for_each(|call| call.left = at);
        }
        let looks = self
            .watch_spans
            .iter_mut()
            .chain(&mut self.parts)
            .filter(|look| look.host == host && look.to == NEVER);
        looks.for_each(|look| look.to = at);
    }
}

/// Ends the open intervals of a user for a channel.
fn ends(watch_spans: &mut [WatchSpan<'_>], host: &str, channel: &str, at: Time) {
    let open = watch_spans
        .iter_mut()
        .filter(|look| look.host == host && look.channel == channel && look.to == NEVER);
    open.for_each(|look| look.to = at);
}

/// The window of a client, named after its host.
pub(super) fn window(client: &str) -> &str {
    records::declared(client)
}

/// Returns whether a window opened this connection besides its own: `client/second#1`.
pub(super) fn is_second(conn: &Connection) -> bool {
    conn.is_labelled()
}

/// The default limits of a host.
pub(super) fn defaults() -> HostLimits {
    HostLimits::default()
}

//! The facts of a run about windows, connections and calls, collected in one pass. This module
//! reports no violations.
//!
//! The network's own record of both ends of each connection shows which connections exist. The
//! milestone with which the host accepts a connection shows which client it belongs to. The facts
//! about calls come from the agents that called, the tools that ran, and the users that watched.

use std::collections::BTreeMap;
use std::time::Duration;

use super::existence::Existence;
use crate::history::{Call, ConnIndex, Connection, Event, EventKind, Nature, Scope, Stream, Time};
use crate::property::path::{NEVER, conns_of};
use crate::property::{CheckContext, Guarantees};
use crate::schedule::{Fault, MilestoneValue, Operation};
use crate::subjects::judging::{host, judged};
use crate::subjects::records;
use crate::subjects::toolcall::limits::{LIMITS, client_limits, host_limits};
use crate::subjects::toolcall::notes::{Became, By, CallEnd, OfCall, OfChannel, Status, ToolWork};
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
    arriving: Vec<HandshakeAttempt<'a>>,
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
    fault_periods: Vec<FaultPeriod<'a>>,
    /// The times at which the host died.
    pub(super) deaths: Vec<Time>,
    /// The number of windows of each host so far.
    windows: BTreeMap<&'a str, usize>,
    /// The clients that the host forgot, with the times.
    pub(super) forgotten: Vec<(&'a str, Time)>,
    /// The channels and turns that really exist.
    pub(super) existence: Existence<'a>,
}

/// A connection that the host accepted.
pub(super) struct HostConnection<'a> {
    conn: usize,
    pub(super) client: &'a str,
    pub(super) at: Time,
    /// The time at which the window's end was over.
    pub(super) gone: Time,
    /// The time at which the host's end was over.
    pub(super) over: Time,
    /// When the host last received data over it.
    pub(super) received: Time,
    /// For a second connection, the time at which its user asked for it: it subscribes to the
    /// channels that the window watched then.
    second: Option<Time>,
}

impl HostConnection<'_> {
    /// Returns whether neither end is over at this moment.
    pub(super) fn is_live(&self, at: Time) -> bool {
        self.gone > at && self.over > at
    }

    /// The time at which its user asked for it: for any other than a second connection, the time at
    /// which the host accepted it.
    pub(super) fn asked_at(&self) -> Time {
        self.second.unwrap_or(self.at)
    }

    /// Returns whether it is a second connection.
    pub(super) fn is_second(&self) -> bool {
        self.second.is_some()
    }
}

/// A connection over which a client began its handshake.
struct HandshakeAttempt<'a> {
    conn: usize,
    client: &'a str,
    from: Time,
    /// The end of the handshake: the host accepted the client, gave up the handshake, or lost the
    /// connection.
    to: Time,
    /// The time at which the host's end was over.
    over: Time,
}

/// The decision of the host when an agent began a call.
#[derive(Clone, Copy, Default)]
struct Assignment<'a> {
    owner: &'a str,
    chat: &'a str,
    /// The number of connections that the host had accepted by then.
    accepted: usize,
}

/// A tool call.
pub(super) struct CallStory<'a> {
    pub(super) turn: &'a Stream,
    pub(super) id: &'a str,
    pub(super) chat: &'a str,
    /// The client that runs it; empty if there is none.
    pub(super) owner: &'a str,
    /// Whether the host chose the owner.
    pub(super) chosen: bool,
    /// The number of connections that the host had accepted before it assigned the call. The host
    /// may accept another one later in the same millisecond.
    pub(super) accepted: usize,
    pub(super) tool: Option<&'a str>,
    pub(super) began: Time,
    pub(super) ready: Option<Time>,
    /// Whether a user must consent, once the call is ready.
    pub(super) asks: bool,
    /// The decisions of users: approved, or denied.
    pub(super) decisions: Vec<(Time, bool)>,
    /// The time at which its agent received the end, and the kind of end.
    pub(super) over: Option<(Time, &'a CallEnd)>,
    /// The time at which its agent stopped waiting, for any reason.
    pub(super) left: Time,
    /// The work of its tool by host, from notes of the tool and milestones of the client.
    pub(super) tools: Vec<(Time, &'a str, ToolWork)>,
    /// The begins of its tool by host, from notes of the tool.
    pub(super) begins: Vec<(Time, &'a str)>,
    /// The statuses that users saw.
    pub(super) users: Vec<(Time, &'a str, Status)>,
    /// The statuses that second connections received, change by change.
    pub(super) seconds: Vec<(Time, &'a str, Status)>,
    /// The replies of users to its request for consent, by host: accepted, or refused for a reason.
    pub(super) replies: Vec<(Time, &'a str, &'a Result<(), String>)>,
}

impl CallStory<'_> {
    /// Returns whether a user had approved the call, or denied it.
    pub(super) fn has_decision(&self, approves: bool, by: Time) -> bool {
        self.decisions.iter().any(|(at, decision)| *at <= by && *decision == approves)
    }
}

/// A call that the host failed because its owner was absent.
pub(super) struct FailedCall<'a> {
    pub(super) at: Time,
    pub(super) chat: &'a str,
    pub(super) call: &'a str,
    pub(super) owner: &'a str,
    /// Whether the host's reason was the absence of the owner, and not that the owner unsubscribed
    /// from the chat.
    pub(super) away: bool,
}

/// A window: its host, and its number among that host's windows. A reload or a restart of the host
/// creates another window.
pub(super) type Window<'a> = (&'a str, usize);

/// An operation of a window's user.
#[derive(Clone, Copy)]
pub(super) struct UserOperation<'a> {
    pub(super) at: Time,
    pub(super) host: &'a str,
    window: usize,
    pub(super) operation: &'a Operation,
}

impl<'a> UserOperation<'a> {
    pub(super) fn verb(&self) -> &'a str {
        &self.operation.verb
    }

    pub(super) fn field(&self, name: &str) -> Option<&'a str> {
        self.operation.fields.get(name)?.as_str()
    }
}

/// An interval in which a user watches a channel and has its state.
pub(super) struct WatchSpan<'a> {
    pub(super) host: &'a str,
    pub(super) channel: &'a str,
    pub(super) from: Time,
    pub(super) to: Time,
}

/// The interval of a fault.
struct FaultPeriod<'a> {
    number: usize,
    from: Time,
    to: Time,
    /// The host of which the fault held a task, or that was down.
    holds: Option<&'a str>,
    /// The only window that the fault affects; `None` if it may affect all.
    only: Option<&'a str>,
    /// For a fault that ends connections, the time from which their clients must know that.
    known: Time,
}

impl FaultPeriod<'_> {
    /// Returns whether this means that a host is down and was not restarted yet.
    fn is_down(&self, host: &str) -> bool {
        self.number == DOWN && self.holds == Some(host) && self.to == NEVER
    }
}

/// A text field of a milestone.
pub(super) fn text<'a>(fields: &'a [(&'static str, MilestoneValue)], name: &str) -> &'a str {
    MilestoneValue::text(fields, name).unwrap_or_default()
}

impl<'a> Story<'a> {
    pub(super) fn of(cx: &'a CheckContext<'a>) -> Self {
        let limits = cx.plan.limits.over(LIMITS);
        let mut story = Self {
            cx,
            host_limits: host_limits(&limits),
            client_limits: client_limits(&limits),
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
        };
        let mut owners = BTreeMap::new();
        for event in judged(cx) {
            story.read(event, &mut owners);
        }
        story
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
                let number = *fault;
                self.fault_periods.push(FaultPeriod { number, from: at, to, holds, only, known });
            }
            EventKind::FaultEnded { fault } => {
                let ended = self.fault_periods.iter_mut().find(|period| period.number == *fault);
                ended.into_iter().for_each(|period| period.to = period.to.min(at));
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
    /// network never tells them: they send pings over a connection, and an attempt has a timeout.
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
                let begun =
                    self.calls.iter_mut().rev().find(|call| call.id == text(fields, "call"));
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
                decisions: Vec::new(),
                over: None,
                left,
                tools,
                begins: Vec::new(),
                users,
                seconds,
                replies: Vec::new(),
            };
            return self.calls.push(call);
        }
        let Some(call) =
            self.calls.iter_mut().rev().find(|call| call.turn == turn && call.id == id)
        else {
            return;
        };
        match (by, what) {
            (By::Agent, Became::Over(end)) => {
                call.over.get_or_insert((at, end));
                call.left = call.left.min(at);
            }
            (By::Agent, Became::Ready { asks }) => {
                (call.ready, call.asks) = (Some(at), *asks);
            }
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
            holds: Some(host),
            only,
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

/// The number of a host that is down, because that is not a fault of the schedule.
const DOWN: usize = usize::MAX;

/// The time resolution, used to query the state just before an event.
pub(super) const MS: Duration = Duration::from_millis(1);

/// The window of a client, named after its host.
pub(super) fn window(client: &str) -> &str {
    records::declared(client)
}

impl<'a> Story<'a> {
    /// The connections of a client that the host accepted up to a moment.
    pub(super) fn of_client<'s>(
        &'s self,
        client: &'s str,
        by: Time,
    ) -> impl Iterator<Item = &'s HostConnection<'a>> {
        self.attached.iter().filter(move |attached| attached.client == client && attached.at <= by)
    }

    /// If a client has a newer connection than this one at a moment, returns the times at which the host
    /// accepted the two. A client may begin again over a connection: the first time counts.
    pub(super) fn newer_than(&self, conn: usize, at: Time) -> Option<(Time, Time)> {
        let first = |conn| self.attached.iter().find(|attached| attached.conn == conn);
        let this = first(conn)?;
        let mut own = self.of_client(this.client, at.before(MS)).filter(|other| other.over > at);
        let newer = own.find(|other| {
            first(other.conn).is_some_and(|other| other.at > this.at && other.conn != conn)
        })?;
        Some((this.at, newer.at))
    }

    /// Returns whether a user may have reported a result of a call beside its tool.
    pub(super) fn reports_result(&self, call: &CallStory<'_>, by: Time) -> bool {
        let mut reports = self.asked.values().filter(|asked| asked.verb() == "report-result");
        reports.any(|asked| {
            asked.field("chat") == Some(call.chat) && (call.began..=by).contains(&asked.at)
        })
    }

    /// Returns whether a client returned at a moment and named a channel: its user watched the channel
    /// since before the window opened the connection.
    pub(super) fn returned_with(&self, client: &str, channel: &str, at: Time) -> bool {
        let mut own = self.of_client(client, at).filter(|attached| !attached.is_second());
        own.any(|attached| {
            let opened = self.cx.history.conns.get(attached.conn).map_or(at, |conn| conn.opened);
            attached.at == at
                && attached.is_live(at)
                && self.watches(window(client), channel, opened.before(MS), at)
        })
    }

    /// The time at which the host received the handshake of a connection that it accepted.
    pub(super) fn handshake_began(&self, attached: &HostConnection<'_>) -> Time {
        let attempt = self
            .arriving
            .iter()
            .rfind(|attempt| attempt.conn == attached.conn && attempt.from <= attached.at);
        attempt.map_or(attached.at, |attempt| attempt.from)
    }

    /// Returns whether a client has a connection at a moment that is over at neither end and that
    /// is not a second one: only the main connection carries the client's actions.
    pub(super) fn has_main_connection(&self, client: &str, at: Time) -> bool {
        self.of_client(client, at).any(|attached| attached.is_live(at) && !attached.is_second())
    }

    /// Returns whether a client has a connection at a moment that is over at neither end and that
    /// holds a channel which its user watches. A second connection holds a channel only if its
    /// window has watched the channel without a break since the connection was opened.
    pub(super) fn lives_with(&self, client: &str, channel: &str, at: Time) -> bool {
        let looks = |from| self.watches(window(client), channel, from, at);
        let holds = |attached: &HostConnection<'_>| {
            attached.second.map_or(looks(at), |asked| looks(asked.before(MS)))
        };
        self.of_client(client, at).any(|attached| attached.is_live(at) && holds(attached))
    }

    /// The time at which the user of a window asked for a second connection.
    fn second_asked(&self, conn: &Connection) -> Time {
        let asked = self
            .asked
            .values()
            .rev()
            .filter(|asked| asked.host == conn.client.as_str() && asked.at <= conn.opened);
        asked
            .filter(|asked| asked.verb() == "open-second")
            .map(|asked| asked.at)
            .next()
            .unwrap_or(conn.opened)
    }

    /// Returns whether the host accepted a client over a connection.
    pub(super) fn is_accepted(&self, conn: usize) -> bool {
        self.attached.iter().any(|attached| attached.conn == conn)
    }

    /// Returns whether the host has a connection of a client at a moment.
    pub(super) fn is_connected(&self, client: &str, at: Time) -> bool {
        self.of_client(client, at).any(|attached| attached.over > at)
    }

    /// The first moment, at or after `from`, at which no handshake of the client is in progress:
    /// until then the host releases nothing. The host gives up a handshake at its deadline.
    pub(super) fn no_handshake(&self, client: &str, from: Time) -> Time {
        let mut at = from;
        let under_way = |at: Time| {
            let mut own = self.arriving.iter().filter(|arriving| arriving.client == client);
            let to = |arriving: &HandshakeAttempt<'_>| {
                arriving.to.min(self.later(arriving.from, self.host_limits.handshake_deadline))
            };
            own.find(|arriving| arriving.from <= at && to(arriving) > at).map(to)
        };
        while let Some(to) = under_way(at) {
            at = to;
        }
        at
    }

    /// The time since which the host has had no connection of a client, if it has none at this
    /// moment.
    pub(super) fn away_since(&self, client: &str, at: Time) -> Option<Time> {
        if self.is_connected(client, at) {
            return None;
        }
        self.of_client(client, at).map(|attached| attached.over).max()
    }

    /// Returns whether a client was connected since the host was last started, or last forgot the
    /// client.
    pub(super) fn is_known(&self, client: &str, at: Time) -> bool {
        let forgotten = self.forgotten.iter().filter(|(of, _)| *of == client).map(|(_, at)| *at);
        let since = self
            .deaths
            .iter()
            .copied()
            .chain(forgotten)
            .filter(|end| *end <= at)
            .max()
            .unwrap_or(Time::ZERO);
        self.of_client(client, at).any(|attached| attached.at >= since)
    }

    /// Returns whether the user of a window watched a channel, and had its state, during an
    /// interval.
    pub(super) fn watches(&self, host: &str, channel: &str, from: Time, to: Time) -> bool {
        self.watch_spans.iter().any(|look| {
            look.host == host && look.channel == channel && look.from <= from && look.to > to
        })
    }

    /// Returns whether the user of a window saw during a whole interval that its client takes part
    /// in the session.
    pub(super) fn takes_part(&self, host: &str, from: Time, to: Time) -> bool {
        self.parts.iter().any(|part| part.host == host && part.from <= from && part.to > to)
    }

    /// The faults of a window, of the host, and of the network between them.
    fn fault_periods_of(&self, window: &str) -> impl Iterator<Item = &FaultPeriod<'a>> {
        self.fault_periods
            .iter()
            .filter(move |period| period.only.is_none_or(|only| only == window))
    }

    /// Returns whether a window, the host, and the network between them had no fault during an
    /// interval.
    pub(super) fn is_calm(&self, window: &str, from: Time, to: Time) -> bool {
        !self.fault_periods_of(window).any(|period| period.from <= to && period.to >= from)
    }

    /// Returns whether all data that earlier faults of a connection lost was retransmitted before a
    /// moment. TCP doubles its retransmission pauses, so this takes at most as long as the fault.
    /// Until then, the host may not have noticed that the window's end is over.
    pub(super) fn was_retransmitted(&self, attached: &HostConnection<'_>, at: Time) -> bool {
        let mut faults = self
            .fault_periods_of(window(attached.client))
            .filter(|period| period.to <= at && period.to > attached.at);
        attached.over <= at
            || faults.all(|period| period.to + period.to.since(period.from) + self.moment() < at)
    }

    /// The end of the last such fault before a moment, or the moment itself if a fault is in force
    /// then.
    pub(super) fn calm_since(&self, window: &str, at: Time) -> Time {
        let before = self.fault_periods_of(window).filter(|period| period.from <= at);
        before.map(|period| period.to.min(at)).max().unwrap_or(Time::ZERO)
    }

    /// The time from which no fault keeps a window from connecting, seen from a moment.
    pub(super) fn free_since(&self, window: &str, at: Time) -> Time {
        let before = self.fault_periods_of(window).filter(|period| period.from <= at);
        let over = before.map(|period| period.to.min(period.known.max(period.from)).min(at));
        over.max().unwrap_or(Time::ZERO)
    }

    /// The moment `from + by`, plus the time for which tasks of the host were held in between.
    pub(super) fn later(&self, from: Time, by: Duration) -> Time {
        let servers = self.cx.servers;
        let holds = self
            .fault_periods
            .iter()
            .filter(|period| period.holds.is_some_and(|host| servers.contains(&host)));
        holds.fold(from + by, |until, hold| {
            if hold.from <= until && hold.to > from { until.max(hold.to + by) } else { until }
        })
    }

    /// Returns whether puppets take the place of all windows, so that no note says what clients do.
    pub(super) fn has_no_window(&self) -> bool {
        let plan = self.cx.plan;
        plan.client_hosts().all(|host| plan.puppets.contains_key(&host))
    }

    /// Returns whether a channel may be full, because the limits of its size are below their
    /// defaults.
    pub(super) fn may_be_full(&self) -> bool {
        let (limits, defaults) = (&self.host_limits, defaults());
        limits.channel_bytes < defaults.channel_bytes || limits.parts < defaults.parts
    }

    /// The time in which a message crosses the network a few times and is processed.
    pub(super) fn moment(&self) -> Duration {
        self.cx.plan.latency.1 * 6 + Duration::from_millis(500)
    }

    /// The inbound silence after which the host gives up a connection.
    pub(super) fn host_detection(&self) -> Duration {
        self.host_limits.wire.ping_interval + self.host_limits.wire.pong_deadline
    }

    /// The time within which a client must be connected again after the last fault.
    pub(super) fn reconnect_bound(&self) -> Duration {
        let guarantees = self.cx.guarantees;
        guarantees.detection + guarantees.recovery + guarantees.attempt + self.moment()
    }
}

/// Returns whether a window opened this connection besides its own: `client/second#1`.
pub(super) fn is_second(conn: &Connection) -> bool {
    conn.is_labelled()
}

/// The default limits of a host.
pub(super) fn defaults() -> HostLimits {
    HostLimits::default()
}

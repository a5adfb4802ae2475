//! What the counts are compared with, besides the facts of the story: connections that were
//! established, the answers to users, the tools at work, and whether clients are connected.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::history::{Call, Event, EventKind, Side, Stream, Time};
use crate::property::path::NEVER;
use crate::schedule::{Operation, Plan};
use crate::subjects::judging::{host, judged};
use crate::subjects::toolcall::notes::{Became, By, OfCall, ToolWork};
use crate::subjects::toolcall::properties::facts::FaultPeriod;
use crate::subjects::toolcall::properties::room::StatesAsked;
use crate::subjects::toolcall::properties::story::Story;
use crate::subjects::toolcall::setup::{self, SESSION};

/// Everything that may be counted.
pub(super) struct Ledger<'a> {
    pub(super) story: &'a Story<'a>,
    /// The connections that were established at the host.
    pub(super) up: BTreeSet<usize>,
    pub(super) asked: BTreeMap<Call, UserCall<'a>>,
    pub(super) tools: Vec<ToolLife<'a>>,
    /// When clients sent actions for which no operation asked, by host.
    pub(super) sent: Vec<(&'a str, Time)>,
    lines: Vec<LineChange<'a>>,
    /// The states that windows asked for, by host.
    states: BTreeMap<&'a str, StatesAsked>,
    /// The channels to which a window subscribes by itself.
    initial: &'a [String],
}

/// An operation of a user.
pub(super) struct UserCall<'a> {
    pub(super) host: &'a str,
    pub(super) operation: &'a Operation,
    pub(super) at: Time,
    pub(super) answered: Time,
    /// Whether it failed, and was not refused.
    pub(super) has_failed: bool,
    /// Whether its user asked to unsubscribe before the answer. The subscription may come after that.
    is_overtaken: bool,
}

/// A call that a window runs.
pub(super) struct ToolLife<'a> {
    pub(super) host: &'a str,
    turn: &'a str,
    call: &'a str,
    pub(super) began: Time,
    /// When its tool ended.
    pub(super) ended: Time,
    /// When the call was over for the window.
    pub(super) over: Time,
}

/// A client is connected from now on, or is not.
struct LineChange<'a> {
    host: &'a str,
    at: Time,
    is_connected: bool,
}

/// Returns the channels to which a window subscribes by itself.
pub(super) fn initial(plan: &Plan) -> Vec<String> {
    let first = setup::first_turn(plan).map(|(_, turn)| turn.chat);
    setup::watched(plan).into_iter().chain(first).collect()
}

impl<'a> Ledger<'a> {
    /// Collects the facts of a run.
    pub(super) fn of(story: &'a Story<'a>, initial: &'a [String]) -> Self {
        let hosts: BTreeSet<&str> = story.asked.values().map(|asked| asked.host).collect();
        let states = hosts.into_iter().map(|host| (host, StatesAsked::of(story, host))).collect();
        let mut ledger = Self {
            story,
            up: BTreeSet::new(),
            asked: BTreeMap::new(),
            tools: Vec::new(),
            sent: Vec::new(),
            lines: Vec::new(),
            states,
            initial,
        };
        for event in judged(story.cx) {
            ledger.pass(event);
        }
        ledger
    }

    fn pass(&mut self, event: &'a Event) {
        let (at, host) = (event.at, host(event));
        match &event.what {
            EventKind::ConnUp { conn, side: Side::Server } => {
                self.up.insert(conn.0);
            }
            EventKind::Asked { call, operation, .. } => {
                if operation.verb == "unwatch" {
                    let own = self.asked.values_mut().filter(|asked| asked.host == host);
                    let open = own.filter(|asked| asked.answered == NEVER);
                    open.for_each(|asked| asked.is_overtaken = true);
                }
                let (answered, has_failed, is_overtaken) = (NEVER, false, false);
                let asked = UserCall { host, operation, at, answered, has_failed, is_overtaken };
                self.asked.insert(*call, asked);
            }
            EventKind::Answered { call, .. } => self.answered(*call, at, false),
            EventKind::Failed { call, .. } => self.answered(*call, at, true),
            EventKind::Milestone { name, .. } => self.milestone(name, at, host),
            EventKind::Observed { stream, saw } => {
                if let Some(note) = saw.downcast_ref() {
                    self.call_noted(stream, note, at, host);
                }
            }
            EventKind::Ended { stream, .. } => {
                let own = self.tools.iter_mut().filter(|tool| tool.turn == &*stream.0);
                own.for_each(|tool| tool.over = tool.over.min(at));
            }
            _ => {}
        }
    }

    fn answered(&mut self, call: Call, at: Time, has_failed: bool) {
        if let Some(asked) = self.asked.get_mut(&call).filter(|asked| asked.answered == NEVER) {
            (asked.answered, asked.has_failed) = (at, has_failed);
        }
    }

    fn milestone(&mut self, name: &str, at: Time, host: &'a str) {
        match name {
            "toolcall.client.connected" => {
                self.lines.push(LineChange { host, at, is_connected: true });
            }
            "toolcall.client.lost" | "toolcall.client.closed" => {
                self.lines.push(LineChange { host, at, is_connected: false });
            }
            "toolcall.client.ran" | "toolcall.client.joins-again" => self.sent.push((host, at)),
            _ => {}
        }
    }

    fn call_noted(&mut self, turn: &'a Stream, note: &'a OfCall, at: Time, host: &'a str) {
        let (turn, call) = (&*turn.0, note.call.as_str());
        let is_it =
            |tool: &&mut ToolLife<'a>| (tool.host, tool.turn, tool.call) == (host, turn, call);
        match (note.by, &note.what) {
            (By::Tool, Became::Works(ToolWork::Begins)) => {
                let (began, ended, over) = (at, NEVER, NEVER);
                self.tools.push(ToolLife { host, turn, call, began, ended, over });
            }
            (By::Tool, Became::Works(work)) => {
                let open = self.tools.iter_mut().filter(is_it).find(|tool| tool.ended == NEVER);
                if let Some(tool) = open {
                    tool.ended = at;
                    // A client stops only the tools of calls that it forgets.
                    tool.over = if *work == ToolWork::Stopped { at } else { tool.over };
                }
            }
            (By::User, Became::Is(status)) if status.is_end() => {
                let own = self.tools.iter_mut().filter(is_it);
                own.for_each(|tool| tool.over = tool.over.min(at));
            }
            (By::User, Became::Decides(_)) => self.sent.push((host, at)),
            _ => {}
        }
    }

    /// The time within which something that is over is no longer counted, and something new is.
    pub(super) fn slack(&self) -> Duration {
        self.story.moment() + Duration::from_secs(1)
    }

    /// Returns whether no fault was in force for a while. TCP doubles its pauses, so what a fault has
    /// lost is sent again within as much time as the fault lasted.
    pub(super) fn is_quiet(&self, now: Time) -> bool {
        let slack = self.slack();
        let settled =
            |period: &FaultPeriod<'_>| period.to + period.to.since(period.from) + slack < now;
        let mut begun = self.story.fault_periods.iter().filter(|period| period.from <= now);
        begun.all(settled)
    }

    /// Returns whether the counts of a host are those of its first incarnation, and of its first window.
    pub(super) fn is_whole(&self, host: &str, now: Time) -> bool {
        let is_of_host = self.story.cx.servers.contains(&host);
        let mut begins = self.story.begins_of(host);
        !self.story.deaths.iter().any(|at| *at <= now)
            && (is_of_host || !begins.any(|at| at <= now))
    }

    /// Returns when a client knows what happened at the host at a moment. The states that the
    /// window asked for before arrive first.
    pub(super) fn known_at(&self, host: &str, at: Time) -> Time {
        self.states.get(host).map_or(at, |states| states.until(at).max(at))
    }

    /// Returns since when a client is connected, if it is.
    pub(super) fn connected_since(&self, host: &str, now: Time) -> Option<Time> {
        let mut own = self.lines.iter().filter(|line| line.host == host && line.at <= now);
        own.next_back().filter(|line| line.is_connected).map(|line| line.at)
    }

    /// Returns since when a client is not connected, if it is not.
    pub(super) fn lost_since(&self, host: &str, now: Time) -> Option<Time> {
        let mut lost = Some(Time::ZERO);
        for line in self.lines.iter().filter(|line| line.host == host && line.at <= now) {
            lost = if line.is_connected { None } else { lost.or(Some(line.at)) };
        }
        lost
    }
}

impl<'a> UserCall<'a> {
    /// The channel to which the operation subscribes the client.
    pub(super) fn subscribes_to(&self) -> Option<&'a str> {
        match self.operation.verb.as_str() {
            "watch" | "watch-twice" => self.operation.fields.get("chat")?.as_str(),
            "new-session" => Some(SESSION),
            _ => None,
        }
    }

    /// Whether the operation subscribes to a channel, or unsubscribes from it.
    fn is_about(&self, channel: &str) -> bool {
        let unwatched = self.operation.fields.get("channel").and_then(|channel| channel.as_str());
        self.subscribes_to() == Some(channel) || unwatched == Some(channel)
    }
}

/// A moment at which the counts of a host are compared.
pub(super) struct Scene<'s, 'a> {
    pub(super) ledger: &'s Ledger<'a>,
    /// The host of the counter.
    pub(super) host: &'s str,
    pub(super) now: Time,
}

impl<'a> Scene<'_, 'a> {
    pub(super) fn story(&self) -> &'a Story<'a> {
        self.ledger.story
    }

    /// The interval in which something may have ended that still counts, or begun that counts already.
    pub(super) fn around(&self) -> (Time, Time) {
        let slack = self.ledger.slack();
        (self.now.before(slack), self.now + slack)
    }

    /// Returns whether something counts that is open in this interval.
    pub(super) fn has(&self, from: Time, to: Time) -> bool {
        let slack = self.ledger.slack();
        from + slack <= self.now && to > self.now + slack
    }

    /// Returns whether something may count that is open in this interval.
    pub(super) fn may_have(&self, from: Time, to: Time) -> bool {
        let slack = self.ledger.slack();
        from <= self.now + slack && to + slack >= self.now
    }

    /// The channels for which the client of a window may have asked without an answer. Other properties
    /// judge the effects of a request that failed.
    pub(super) fn asked_for(&self, window: &str) -> impl Iterator<Item = &'a str> {
        let own = self.ledger.asked.values().filter(move |asked| asked.host == window);
        let open = own.filter(move |asked| {
            let has_end = !asked.has_failed && !asked.is_overtaken;
            let until = if has_end { asked.answered } else { NEVER };
            self.may_have(asked.at, until)
        });
        open.filter_map(UserCall::subscribes_to)
    }

    /// The channels that a window watches from its start, and whose states it has not received yet. States
    /// that the window received before a reload do not count. If its user asks about one of them meanwhile, the
    /// window may ask for it again.
    pub(super) fn not_received(&self, window: &str) -> impl Iterator<Item = &'a str> {
        let initial = self.ledger.initial.iter().map(String::as_str);
        let is_starting = self.is_starting(window);
        let begins = self.story().begins_of(window).filter(|begins| *begins <= self.now).max();
        let begins = begins.unwrap_or_default();
        initial.filter(move |channel| {
            let looks = self.story().watch_spans.iter();
            let looks = looks.filter(|look| look.from <= self.now && look.to > begins);
            let mut own = self.ledger.asked.values().filter(|asked| asked.host == window);
            !looks.map(|look| (look.host, look.channel)).any(|look| look == (window, *channel))
                || is_starting && own.any(|asked| asked.is_about(channel) && asked.at <= self.now)
        })
    }

    /// Returns whether a window may still make its first subscriptions. It authenticates, and then subscribes
    /// to one channel after the other. Each subscription may wait for the restore of its channel.
    fn is_starting(&self, window: &str) -> bool {
        let each = self.story().host_limits.restore_deadline + self.ledger.slack();
        let steps = u32::try_from(self.ledger.initial.len()).unwrap_or(u32::MAX).saturating_add(1);
        let since = self.ledger.connected_since(window, self.now);
        since.is_none_or(|since| since + each.saturating_mul(steps.max(4)) > self.now)
    }
}

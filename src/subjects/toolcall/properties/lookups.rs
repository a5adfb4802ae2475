//! The questions that the properties ask of a story: who was connected, watched or took part at a
//! moment, and which faults affected whom.

use std::time::Duration;

use super::facts::{CallStory, FaultPeriod, HandshakeAttempt, HostConnection, MS};
use super::story::{Story, defaults, window};
use crate::history::{Answer, Call, Connection, EventKind, Time};
use crate::subjects::judging::judged;
use crate::subjects::toolcall::answers::NO_SUCH_CALL;

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
        let mut reports = self.asked.iter().filter(|(_, asked)| asked.verb() == "report-result");
        reports.any(|(report, asked)| {
            asked.field("chat") == Some(call.chat)
                && (call.began..=by).contains(&asked.at)
                && !self.has_no_call(*report)
        })
    }

    /// Returns whether a user asked nothing of its client, because its window ran no such call.
    fn has_no_call(&self, asked: Call) -> bool {
        let mut answers = judged(self.cx).filter_map(|event| match &event.what {
            EventKind::Answered { call, answer: Answer::Refused(why) } if *call == asked => {
                Some(why)
            }
            _ => None,
        });
        answers.any(|why| why.to_string() == NO_SUCH_CALL)
    }

    /// Returns whether a client returned at a moment and named a channel: its user watched the channel
    /// since before the window opened the connection.
    pub(super) fn returned_with(&self, client: &str, channel: &str, at: Time) -> bool {
        let mut own = self.of_client(client, at).filter(|attached| !attached.is_second());
        own.any(|attached| {
            let opened = self.opened(attached).unwrap_or(at);
            attached.at == at
                && attached.is_live(at)
                && self.watches(window(client), channel, opened.before(MS), at)
        })
    }

    /// The time at which the window opened a connection that the host accepted.
    pub(super) fn opened(&self, attached: &HostConnection<'_>) -> Option<Time> {
        self.cx.history.conns.get(attached.conn).map(|conn| conn.opened)
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
    pub(super) fn second_asked(&self, conn: &Connection) -> Time {
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

    /// Returns whether the user of a window asked to leave the session in an interval. The host may know
    /// that before the user sees it.
    pub(super) fn leaves(&self, host: &str, from: Time, to: Time) -> bool {
        let mut own = self.asked.values().filter(|asked| asked.host == host);
        own.any(|asked| asked.verb() == "leave" && (from..=to).contains(&asked.at))
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

    /// Returns whether a fault of a connection may delay or lose what its window sends in an interval.
    /// TCP retransmits what an earlier fault lost for at most as long as the fault. A fault of a host or
    /// link does not count: it may have begun before the connection, and it ends only when all data that
    /// it held has arrived. [`later`](Story::later) adds the hold of a task to a bound.
    pub(super) fn may_delay(&self, attached: &HostConnection<'_>, from: Time, to: Time) -> bool {
        let Some(conn) = self.cx.history.conns.get(attached.conn) else { return false };
        self.fault_periods_of(window(attached.client)).any(|period| {
            let end = period.to.min(to);
            period.is_of(conn)
                && period.from <= to
                && period.to > conn.opened
                && end + end.since(period.from) >= from
        })
    }

    /// The earliest time at which the host may have sent what arrives at a window at a moment. A fault
    /// delays data until its end, and TCP delays it by at most as long again.
    pub(super) fn sent_since(&self, window: &str, at: Time) -> Time {
        let mut since = at.before(self.moment());
        let delays = |period: &&FaultPeriod<'_>, since: Time| {
            let to = period.to.min(at);
            period.from < since && to + to.since(period.from) + self.moment() >= since
        };
        while let Some(first) = self
            .fault_periods_of(window)
            .filter(|period| delays(period, since))
            .map(|period| period.from)
            .min()
        {
            since = first.before(self.moment());
        }
        since
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

    /// The time in which a message crosses the network a few times, perhaps behind everything that agents
    /// and tools have said, and is processed.
    pub(super) fn moment(&self) -> Duration {
        self.cx.plan.latency.1 * 6 + Duration::from_millis(500) + self.transfer
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

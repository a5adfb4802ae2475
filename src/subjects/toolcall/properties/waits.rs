//! Properties of the host's waits for clients: the host waits only while something depends on an
//! absent client.

use std::collections::BTreeMap;

use super::facts::text;
use super::story::{Story, window};
use crate::history::{Answer, EventKind, Time};
use crate::property::path::NEVER;
use crate::property::violation::{fields, kinds};
use crate::property::{CheckContext, Phrase, Violation, ViolationFields};
use crate::schedule::Operation;
use crate::subjects::judging::{host, judged};
use crate::subjects::toolcall::notes::OfChannel;
use crate::subjects::toolcall::setup::SESSION;

kinds! {
    pub(super) WAITS_HAVE_CAUSES;
    WAITED_FOR = "waited-for": "{subject:}the host waited for it in {channel} from {from} on, although {why} {moment}";
}

// Parts of that message: the reason why no wait is necessary.
kinds! {
    LOOKED = "looked": "it was connected and subscribed to the channel";
    NO_PLACE = "no-place": "it had no place in the channel since {covered}";
    NO_CALL = "no-call": "it had no open call in the channel since {covered}";
}

/// A wait of the host for a client in a channel.
struct Wait<'a> {
    client: &'a str,
    channel: &'a str,
    from: Time,
    to: Time,
}

/// G8: the host waits for a client only while it is absent and something depends on it.
pub(super) fn waits_have_causes(story: &Story<'_>) -> Vec<Violation> {
    let record = WaitRecord::of(story.cx);
    let found = record.waits.iter().filter_map(|wait| {
        let Wait { client, channel, from, .. } = wait;
        // A shorter wait needs no cause.
        if story.later(*from, story.moment()) < story.until {
            story.cx.judges("waits_have_causes");
        }
        let (at, why) =
            story.stays_connected(wait).or_else(|| story.nothing_depends(wait, &record))?;
        let data = fields! { channel: *channel, from: *from, why };
        (at < story.until)
            .then(|| Violation::new("waits_have_causes", *client, at, &WAITED_FOR, data))
    });
    found.collect()
}

/// The facts of a run about waits, and about places in the session.
struct WaitRecord<'a> {
    /// All waits, from the host's milestones.
    waits: Vec<Wait<'a>>,
    /// The intervals in which windows may have joined the session, by host: they joined it again,
    /// received it again, or their users asked for it.
    joined: Vec<(&'a str, Time, Time)>,
    /// The times at which clients lost their places in the session.
    lost: Vec<(&'a str, Time)>,
    /// The times at which the session was disposed of, so that all clients lost their places.
    gone: Vec<Time>,
    /// The calls that the host assigned to clients.
    assigned: Vec<Assigned<'a>>,
}

/// A call that the host assigned to a client.
struct Assigned<'a> {
    call: &'a str,
    client: &'a str,
    chat: &'a str,
    at: Time,
}

impl<'a> WaitRecord<'a> {
    /// Collects the facts. The last milestones of a dying host may appear after its death in the
    /// history, so waits that begin there are ignored.
    fn of(cx: &CheckContext<'a>) -> Self {
        let mut record = Self {
            waits: Vec::new(),
            joined: Vec::new(),
            lost: Vec::new(),
            gone: Vec::new(),
            assigned: Vec::new(),
        };
        let mut open: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        let (mut is_dead, mut asked) = (false, BTreeMap::new());
        for event in judged(cx) {
            match &event.what {
                EventKind::Milestone { name: "toolcall.host.waits", fields } if !is_dead => {
                    let (client, channel) = (text(fields, "client"), text(fields, "channel"));
                    open.insert((client, channel), record.waits.len());
                    record.waits.push(Wait { client, channel, from: event.at, to: NEVER });
                }
                EventKind::Milestone { name: "toolcall.host.waits-no-more", fields } => {
                    let ended = open.remove(&(text(fields, "client"), text(fields, "channel")));
                    ended.into_iter().for_each(|n| record.waits[n].to = event.at);
                }
                EventKind::Milestone { name: "toolcall.host.call", fields } => {
                    let [call, client, chat] =
                        ["call", "owner", "chat"].map(|name| text(fields, name));
                    record.assigned.push(Assigned { call, client, chat, at: event.at });
                }
                EventKind::Milestone { name: "toolcall.client.joins-again", .. } => {
                    record.joined.push((host(event), event.at, event.at));
                }
                EventKind::Observed { stream, saw }
                    if &*stream.0 == SESSION
                        && saw.downcast_ref() == Some(&OfChannel::Received) =>
                {
                    record.joined.push((host(event), event.at, event.at));
                }
                EventKind::Asked { call, operation, .. } if joins(operation) => {
                    asked.insert(*call, record.joined.len());
                    record.joined.push((host(event), event.at, NEVER));
                }
                EventKind::Answered { call, answer: Answer::Refused(_) } => {
                    asked
                        .remove(call)
                        .into_iter()
                        .for_each(|n| record.joined[n].2 = record.joined[n].1);
                }
                EventKind::Answered { call, .. } | EventKind::Failed { call, .. } => {
                    asked.remove(call).into_iter().for_each(|n| record.joined[n].2 = event.at);
                }
                EventKind::Milestone { name: "toolcall.host.deactivated", fields } => {
                    record.lost.push((text(fields, "client"), event.at));
                }
                EventKind::Milestone { name: "toolcall.host.removed", fields }
                    if text(fields, "channel") == SESSION =>
                {
                    record.gone.push(event.at);
                }
                EventKind::Died { .. } if cx.servers.contains(&host(event)) => {
                    is_dead = true;
                    std::mem::take(&mut open)
                        .into_values()
                        .for_each(|n| record.waits[n].to = event.at);
                }
                EventKind::Started if cx.servers.contains(&host(event)) => is_dead = false,
                _ => {}
            }
        }
        record
    }
}

/// Returns whether an operation makes the client take part in the session. Its user may stop
/// watching before the client does.
fn joins(operation: &Operation) -> bool {
    let chat = operation.fields.get("chat").and_then(|chat| chat.as_str());
    operation.verb == "new-session" || operation.verb == "watch" && chat == Some(SESSION)
}

impl Story<'_> {
    /// The time at which a wait had continued for too long although its client was connected and
    /// its user watched the channel.
    fn stays_connected(&self, wait: &Wait<'_>) -> Option<(Time, Phrase)> {
        let own = self
            .attached
            .iter()
            .filter(|attached| attached.client == wait.client && !attached.is_second());
        let looks = || {
            self.watch_spans
                .iter()
                .filter(|look| look.host == window(wait.client) && look.channel == wait.channel)
        };
        own.flat_map(|attached| looks().map(move |look| (attached, look))).find_map(
            |(attached, look)| {
                let from = wait.from.max(attached.at).max(look.from);
                let at = self.later(from, self.moment());
                let goes_on = [wait.to, attached.gone, attached.over, look.to]
                    .iter()
                    .all(|until| *until > at);
                (goes_on && self.is_newest(wait.client, at) && !self.may_be_outdated(look, at))
                    .then(|| (at, Phrase::new(&LOOKED, ViolationFields::default())))
            },
        )
    }

    /// The time at which a wait had lasted for too long although nothing depended on the client.
    fn nothing_depends(&self, wait: &Wait<'_>, record: &WaitRecord<'_>) -> Option<(Time, Phrase)> {
        let causes: Vec<(Time, Time)> = match wait.channel == SESSION {
            true => self.places(wait.client, record),
            false => {
                let own = self
                    .calls
                    .iter()
                    .filter(|call| call.owner == wait.client && call.chat == wait.channel);
                let own = own.map(|call| (call.began, call.left));
                own.chain(self.calls_in_one_step(wait, record)).collect()
            }
        };
        let mut covered = wait.from;
        while let Some((_, to)) = causes.iter().find(|(from, to)| *from <= covered && *to > covered)
        {
            covered = *to;
        }
        if covered >= self.until {
            return None;
        }
        let at = self.later(covered, self.moment());
        let why = if wait.channel == SESSION { &NO_PLACE } else { &NO_CALL };
        (wait.to > at).then(|| (at, Phrase::new(why, fields! { covered })))
    }

    /// The intervals in which a client may have owned calls that their agents made in one step. Such
    /// an agent does not know the call, so the call may last as long as its turn.
    fn calls_in_one_step(
        &self,
        wait: &Wait<'_>,
        record: &WaitRecord<'_>,
    ) -> impl Iterator<Item = (Time, Time)> {
        let own = record
            .assigned
            .iter()
            .filter(|assigned| assigned.client == wait.client && assigned.chat == wait.channel);
        let is_noted = |assigned: &Assigned<'_>| {
            let mut noted = self.calls.iter().filter(|call| call.id == assigned.call);
            noted.any(|call| call.began == assigned.at)
        };
        let unnoted = own.filter(move |assigned| !is_noted(assigned));
        unnoted.map(|assigned| {
            let end = self.existence.turn_end(assigned.chat, assigned.at);
            (assigned.at, end.unwrap_or(assigned.at))
        })
    }

    /// The intervals in which a client may have been active in the session: from its acceptance, or
    /// its join, until it lost its place. A client that loses its place while its join is in
    /// progress may have joined after the loss.
    fn places(&self, client: &str, record: &WaitRecord<'_>) -> Vec<(Time, Time)> {
        let own = record.lost.iter().filter(|(of, _)| *of == client).map(|(_, at)| *at);
        let ends: Vec<Time> = own.chain(record.gone.iter().copied()).collect();
        let lost = |from: Time| ends.iter().copied().filter(|at| *at > from).min();
        let own = record.joined.iter().filter(|(host, ..)| *host == window(client));
        let joined = own.flat_map(|(_, from, to)| {
            [*from].into_iter().chain(ends.iter().copied().filter(move |at| at > from && at <= to))
        });
        let taken_in = self
            .attached
            .iter()
            .filter(|attached| attached.client == client)
            .map(|attached| attached.at);
        taken_in.chain(joined).map(|from| (from, lost(from).unwrap_or(NEVER))).collect()
    }
}

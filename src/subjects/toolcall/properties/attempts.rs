//! Properties of attempts to connect, from the network's record: the pauses between them, and the
//! end of connections that say nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use super::facts::MS;
use super::story::{Story, defaults, is_second};
use crate::history::{ConnIndex, Connection, EventKind, Time};
use crate::property::path::NEVER;
use crate::property::violation::{fields, kinds};
use crate::property::{About, Violation, ViolationFields};
use crate::subjects::judging::{host, judged, peers_may_lie};
use crate::subjects::toolcall::silent;

kinds! {
    pub(super) PAUSES_ARE_RIGHT;
    PAUSED = "paused": "{subject:}it paused for {pause} after {conn}, instead of {least} to {most} {moment}";
}

kinds! {
    pub(super) SILENT_IS_CLOSED;
    OPEN = "open": "{subject:}it said nothing, and the host had not closed it by {at}";
}

/// The time that an attempt may take to begin when its pause is over.
const AT_ONCE: Duration = Duration::from_millis(100);

/// The pauses between the attempts of a client: none after a connection that lasted for the longest
/// pause, then the shortest, then twice as long each time. Half of each pause is random.
pub(super) fn pauses_are_right(story: &Story<'_>) -> Vec<Violation> {
    if peers_may_lie(story.cx) {
        return Vec::new();
    }
    let connected = connected(story);
    let mut lines: BTreeMap<&str, Vec<(usize, &Connection)>> = BTreeMap::new();
    for (index, conn) in story.cx.history.conns.iter().enumerate() {
        // The connections that a window opens besides its client have a label.
        if !is_second(conn) {
            lines.entry(conn.client.as_str()).or_default().push((index, conn));
        }
    }
    let mut found = Vec::new();
    for (host, conns) in lines {
        let mut begins: Vec<Time> = story.begins_of(host).collect();
        let mut pauses = Pauses::new(story);
        for pair in conns.windows(2) {
            let [(index, before), (_, next)] = pair else { continue };
            let known = begins.len();
            begins.retain(|at| *at < before.opened || *at > next.opened);
            if begins.len() < known {
                pauses = Pauses::new(story);
                // It may be the last one of the earlier window.
                if story.deaths_of(host).any(|death| death == next.opened) {
                    pauses.next = None;
                }
                continue;
            }
            let Some(over) = before.over.0.filter(|_| before.opened < next.opened) else {
                pauses.next = None;
                continue;
            };
            let lasted = connected.get(index).map(|since| over.since(*since));
            let Some((least, most)) = pauses.after(lasted) else { continue };
            let (pause, at) = (next.opened.since(over), next.opened);
            if story.is_held(host, over, at) {
                // The client may count the time of the hold as time of the connection.
                pauses.next = None;
                continue;
            }
            if at >= story.until {
                continue;
            }
            story.cx.judges("pauses_are_right");
            if pause + MS < least || pause > most + AT_ONCE {
                let data = fields! { pause, conn: before.name.as_str(), least, most };
                let subject = About::Host(before.client.clone());
                found.push(Violation::new("pauses_are_right", subject, at, &PAUSED, data));
            }
        }
    }
    found.truncate(5);
    found
}

/// The connections over which clients were connected, with the times.
pub(super) fn connected(story: &Story<'_>) -> BTreeMap<usize, Time> {
    let mut opened: BTreeMap<&str, usize> = BTreeMap::new();
    let mut connected = BTreeMap::new();
    for event in judged(story.cx) {
        let EventKind::Milestone { name, fields } = &event.what else { continue };
        match *name {
            "toolcall.client.opened" => {
                let conn = ConnIndex::from_fields(fields).map(|ConnIndex(index)| index);
                conn.into_iter().for_each(|conn| _ = opened.insert(host(event), conn));
            }
            "toolcall.client.connected" => {
                let conn = opened.get(host(event));
                conn.into_iter().for_each(|conn| _ = connected.insert(*conn, event.at));
            }
            _ => {}
        }
    }
    connected
}

/// The pauses of a client, as the limits define them.
struct Pauses {
    min: Duration,
    max: Duration,
    /// The longest time of the next pause; `None` if it is not known.
    next: Option<Duration>,
}

impl Pauses {
    fn new(story: &Story<'_>) -> Self {
        let limits = &story.client_limits;
        let max = limits.back_off_max.max(limits.back_off_min);
        Self { min: limits.back_off_min, max, next: Some(Duration::ZERO) }
    }

    /// The least and the longest time of the pause after a connection that was of use for `lasted`.
    fn after(&mut self, lasted: Option<Duration>) -> Option<(Duration, Duration)> {
        let near = MS * 2;
        if let Some(lasted) = lasted.filter(|lasted| *lasted + near >= self.max) {
            // It may have been a moment shorter for the client.
            self.next = (lasted >= self.max + near).then_some(Duration::ZERO);
        }
        let pause = self.next?;
        self.next = Some((pause * 2).clamp(self.min, self.max));
        Some((pause / 2, pause))
    }
}

/// The host closes a connection that says nothing at the deadline of its handshake.
pub(super) fn silent_is_closed(story: &Story<'_>) -> Vec<Violation> {
    // A host does not accept more connections than its limit, and closes only what it accepts. A
    // puppet closes what its script says.
    if story.host_limits.connections < defaults().connections || peers_may_lie(story.cx) {
        return Vec::new();
    }
    let label = format!("/{}#", silent::LABEL);
    let mut found = Vec::new();
    for conn in story.cx.history.conns.iter().filter(|conn| conn.name.contains(&label)) {
        let deadline = story.host_limits.handshake_deadline;
        let bound = story.later(conn.opened, deadline + story.moment());
        let is_calm = story.is_calm(conn.client.as_str(), conn.opened, bound);
        if !is_calm || bound >= story.until {
            continue;
        }
        story.cx.judges("silent_is_closed");
        if conn.over.1.unwrap_or(NEVER) > bound {
            let (name, data) = (conn.name.as_str(), ViolationFields::default());
            found.push(Violation::new("silent_is_closed", name, bound, &OPEN, data));
        }
    }
    found
}

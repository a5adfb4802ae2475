//! What goes wrong at a position: a table, a row a fault, with the kinds of positions at which it makes sense.
//!
//! Each is a step of a schedule, in the words that a scenario file has. Where those cannot name a position exactly, the step is at
//! the nearest that they can: a packet has the millisecond in which it leaves, for latency is a millisecond at least; within that,
//! what comes first is drawn, as ever.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::history::Time;
use crate::schedule::{
    Action, Fault, HoldEnd, Host, Learns, Orphans, Step, TrafficCount, Trigger, When,
};

use super::positions::{Position, PositionKind, PositionSite, Site};

/// One fault of a sweep.
#[derive(Clone, Copy)]
pub struct SweepFault {
    /// What a person calls it.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub does: &'static str,
    /// At which kinds of positions it makes sense.
    pub kinds: &'static [PositionKind],
    /// The step that brings it; `None` where this very position has nothing that it could hit.
    step: fn(&Position) -> Option<Step>,
}

impl std::fmt::Debug for SweepFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl SweepFault {
    /// The step that brings this fault at a position, if it makes sense there.
    pub fn step(&self, position: &Position) -> Option<Step> {
        if self.kinds.contains(&position.kind()) { (self.step)(position) } else { None }
    }
}

/// So much later than the other does an end learn of a cut, or of the end of a connection.
pub(super) const LATE: Duration = Duration::from_secs(3);

/// So long nothing passes, a task stays where it is, or a host is down.
const A_WHILE: Duration = Duration::from_secs(2);

const ANYWHERE: &[PositionKind] =
    &[PositionKind::Packet, PositionKind::Message, PositionKind::Milestone, PositionKind::Point];

/// The table.
pub const FAULTS: &[SweepFault] = &[
    SweepFault {
        name: "cut, client first",
        does: "The connection dies. Its client learns of it at once, its server 3 s later.",
        kinds: ANYWHERE,
        step: |position| cut(position, Learns::After(Duration::ZERO), Learns::After(LATE)),
    },
    SweepFault {
        name: "cut, server first",
        does: "The connection dies. Its server learns of it at once, its client 3 s later.",
        kinds: ANYWHERE,
        step: |position| cut(position, Learns::After(LATE), Learns::After(Duration::ZERO)),
    },
    SweepFault {
        name: "half-open at client",
        does: "The connection dies. Its server learns of it at once, its client never, but by itself.",
        kinds: ANYWHERE,
        step: |position| cut(position, Learns::Never, Learns::After(Duration::ZERO)),
    },
    SweepFault {
        name: "half-open at server",
        does: "The connection dies. Its client learns of it at once, its server never, but by itself.",
        kinds: ANYWHERE,
        step: |position| cut(position, Learns::After(Duration::ZERO), Learns::Never),
    },
    SweepFault {
        name: "cut inside",
        does: "The connection dies when all but the last byte of the message has arrived. Both ends learn of it at once.",
        kinds: &[PositionKind::Message],
        step: |position| {
            let PositionSite::Message { toward, bytes: (start, end), .. } = &position.spot else {
                return None;
            };
            let bytes = end.checked_sub(1).filter(|bytes| bytes > start)?;
            Some(at(
                position.at,
                cut_after(position.open()?, toward, TrafficCount::Bytes(bytes), BTreeMap::new()),
            ))
        },
    },
    SweepFault {
        name: "stall toward client",
        does: "Nothing passes toward the client for 2 s.",
        kinds: &[PositionKind::Packet],
        step: |position| position.open().map(|site| at(position.at, stall(site, &site.client))),
    },
    SweepFault {
        name: "stall toward server",
        does: "Nothing passes toward the server for 2 s.",
        kinds: &[PositionKind::Packet],
        step: |position| position.open().map(|site| at(position.at, stall(site, &site.server))),
    },
    SweepFault {
        name: "delayed close",
        does: "The packet is a FIN or an RST, and arrives 3 s late.",
        kinds: &[PositionKind::Packet],
        step: |position| {
            let PositionSite::Packet { toward, flags, .. } = &position.spot else { return None };
            let site = position.open().filter(|_| flags.fin || flags.rst)?;
            let fault =
                Fault::DelayClose { conn: site.conn.clone(), toward: toward.clone(), by: LATE };
            // A packet that has left is late no more.
            Some(at(position.at.before(Duration::from_millis(1)), fault))
        },
    },
    SweepFault {
        name: "hold",
        does: "The task that is at the point stays there for 2 s.",
        kinds: &[PositionKind::Point],
        step: |position| match position.spot {
            PositionSite::Point { held: true, .. } => None,
            _ => Some(Step {
                when: after(position)?,
                action: Action::Fault(Fault::Hold { end: HoldEnd::After(A_WHILE) }),
            }),
        },
    },
    SweepFault {
        name: "crash",
        does: "The server crashes, with its processes, and starts again 2 s later.",
        kinds: &[PositionKind::Milestone, PositionKind::Point],
        step: |position| {
            let fault = Fault::Crash {
                host: position.server.clone()?,
                lasts: Some(A_WHILE),
                processes: Orphans::Die,
            };
            Some(Step { when: after(position)?, action: Action::Fault(fault) })
        },
    },
];

/// A cut of the position's connection: as soon as a message has arrived, or at a packet, or after a milestone or point.
fn cut(position: &Position, client: Learns, server: Learns) -> Option<Step> {
    let site = position.open()?;
    let learns = BTreeMap::from([(site.client.clone(), client), (site.server.clone(), server)]);
    Some(match &position.spot {
        PositionSite::Message { toward, n, .. } => {
            at(position.at, cut_after(site, toward, TrafficCount::Messages(*n), learns))
        }
        // There must be something to cut: the first packet of a connection is cut on its way.
        PositionSite::Packet { .. } => {
            let when = position.at.max(site.opened + Duration::from_millis(1));
            at(when, Fault::Cut { conn: site.conn.clone(), learns })
        }
        PositionSite::Milestone { .. } | PositionSite::Point { .. } => Step {
            when: after(position)?,
            action: Action::Fault(Fault::Cut { conn: site.conn.clone(), learns }),
        },
    })
}

fn cut_after(
    site: &Site,
    toward: &Host,
    count: TrafficCount,
    learns: BTreeMap<Host, Learns>,
) -> Fault {
    Fault::CutAfter { conn: site.conn.clone(), toward: toward.clone(), count, learns }
}

fn stall(site: &Site, toward: &Host) -> Fault {
    Fault::Stall { conn: site.conn.clone(), toward: toward.clone(), lasts: Some(A_WHILE) }
}

fn at(at: Time, fault: Fault) -> Step {
    Step { when: When::At(at.since(Time::ZERO)), action: Action::Fault(fault) }
}

/// The trigger that names a milestone or point.
fn after(position: &Position) -> Option<When> {
    let (trigger, nth) = match &position.spot {
        PositionSite::Milestone { name, nth } => (Trigger::milestone(*name), *nth),
        PositionSite::Point { name, nth, .. } => (Trigger::point(*name), *nth),
        PositionSite::Packet { .. } | PositionSite::Message { .. } => return None,
    };
    Some(When::After(trigger.on(position.host.clone()).nth(nth)))
}

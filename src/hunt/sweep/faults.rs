//! The faults of a sweep: a table with one fault per row, and the kinds of positions at which each
//! fault makes sense.
//!
//! Each fault is a step of a schedule, expressed in scenario-file terms. Some positions cannot be
//! expressed exactly; the step then uses the nearest expressible moment. A packet is identified by
//! the millisecond in which it leaves, because latency is at least one millisecond. The order of
//! events within that millisecond is drawn, as always.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::history::Time;
use crate::schedule::{
    Action, Fault, HoldEnd, Host, Learns, Orphans, Step, TrafficCount, Trigger, When, faults,
};

use super::positions::{ConnSite, Position, PositionKind, PositionSite};

/// One fault of a sweep.
#[derive(Clone, Copy)]
pub struct SweepFault {
    /// The display name.
    pub name: &'static str,
    /// The effect, in one or two sentences.
    pub does: &'static str,
    /// The kinds of positions at which the fault makes sense.
    pub kinds: &'static [PositionKind],
    /// Returns the step that injects the fault; `None` if there is nothing to hit at this position.
    step: fn(&Position) -> Option<Step>,
}

impl std::fmt::Debug for SweepFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl SweepFault {
    /// Returns the step that injects this fault at a position, if the fault makes sense there.
    pub fn step(&self, position: &Position) -> Option<Step> {
        if self.kinds.contains(&position.kind()) { (self.step)(position) } else { None }
    }
}

/// How much later than its peer an end learns of a cut, or how late a close arrives.
pub(super) const LATE: Duration = Duration::from_secs(3);

/// The duration of a stall, of a hold, or of a host's downtime.
const A_WHILE: Duration = Duration::from_secs(2);

const ANYWHERE: &[PositionKind] =
    &[PositionKind::Packet, PositionKind::Message, PositionKind::Milestone, PositionKind::Point];

/// The table of faults.
pub const FAULTS: &[SweepFault] = &[
    SweepFault {
        name: "cut, client first",
        does: "The connection is lost. The client learns of it at once, the server 3 s later.",
        kinds: ANYWHERE,
        step: |position| cut(position, Learns::After(Duration::ZERO), Learns::After(LATE)),
    },
    SweepFault {
        name: "cut, server first",
        does: "The connection is lost. The server learns of it at once, the client 3 s later.",
        kinds: ANYWHERE,
        step: |position| cut(position, Learns::After(LATE), Learns::After(Duration::ZERO)),
    },
    SweepFault {
        name: "half-open at client",
        does: "The connection is lost. The server learns of it at once; the client must detect it by itself.",
        kinds: ANYWHERE,
        step: |position| cut(position, Learns::Never, Learns::After(Duration::ZERO)),
    },
    SweepFault {
        name: "half-open at server",
        does: "The connection is lost. The client learns of it at once; the server must detect it by itself.",
        kinds: ANYWHERE,
        step: |position| cut(position, Learns::After(Duration::ZERO), Learns::Never),
    },
    SweepFault {
        name: "cut inside",
        does: "The connection is lost when all but the last byte of the message has arrived. Both ends learn of it at once.",
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
            let fault = Fault::DelayClose(faults::DelayClose {
                conn: site.conn.clone(),
                toward: toward.clone(),
                by: LATE,
            });
            // The delay must be set before the packet leaves.
            Some(at(position.at.before(Duration::from_millis(1)), fault))
        },
    },
    SweepFault {
        name: "hold",
        does: "The task at the point is held there for 2 s.",
        kinds: &[PositionKind::Point],
        step: |position| match position.spot {
            PositionSite::Point { held: true, .. } => None,
            _ => Some(Step {
                when: after(position)?,
                action: Action::Fault(Fault::Hold(faults::Hold { end: HoldEnd::After(A_WHILE) })),
            }),
        },
    },
    SweepFault {
        name: "crash",
        does: "The server and its processes crash. The server restarts 2 s later.",
        kinds: &[PositionKind::Milestone, PositionKind::Point],
        step: |position| {
            let fault = Fault::Crash(faults::Crash {
                host: position.server.clone()?,
                lasts: Some(A_WHILE),
                processes: Orphans::Die,
            });
            Some(Step { when: after(position)?, action: Action::Fault(fault) })
        },
    },
];

/// Cuts the position's connection: when a message has arrived, at a packet, or after a milestone or
/// point.
fn cut(position: &Position, client: Learns, server: Learns) -> Option<Step> {
    let site = position.open()?;
    let learns = BTreeMap::from([(site.client.clone(), client), (site.server.clone(), server)]);
    Some(match &position.spot {
        PositionSite::Message { toward, n, .. } => {
            at(position.at, cut_after(site, toward, TrafficCount::Messages(*n), learns))
        }
        // The connection must exist before it can be cut, so its first packet is cut while in
        // flight.
        PositionSite::Packet { .. } => {
            let when = position.at.max(site.opened + Duration::from_millis(1));
            at(when, Fault::Cut(faults::Cut { conn: site.conn.clone(), learns }))
        }
        PositionSite::Milestone { .. } | PositionSite::Point { .. } => Step {
            when: after(position)?,
            action: Action::Fault(Fault::Cut(faults::Cut { conn: site.conn.clone(), learns })),
        },
    })
}

fn cut_after(
    site: &ConnSite,
    toward: &Host,
    count: TrafficCount,
    learns: BTreeMap<Host, Learns>,
) -> Fault {
    Fault::CutAfter(faults::CutAfter {
        conn: site.conn.clone(),
        toward: toward.clone(),
        count,
        learns,
    })
}

fn stall(site: &ConnSite, toward: &Host) -> Fault {
    Fault::Stall(faults::Stall {
        conn: site.conn.clone(),
        toward: toward.clone(),
        lasts: Some(A_WHILE),
    })
}

fn at(at: Time, fault: Fault) -> Step {
    Step { when: When::At(at.since(Time::ZERO)), action: Action::Fault(fault) }
}

/// Returns the trigger that names a milestone or point.
fn after(position: &Position) -> Option<When> {
    let (trigger, nth) = match &position.spot {
        PositionSite::Milestone { name, nth } => (Trigger::milestone(*name), *nth),
        PositionSite::Point { name, nth, .. } => (Trigger::point(*name), *nth),
        PositionSite::Packet { .. } | PositionSite::Message { .. } => return None,
    };
    Some(When::After(trigger.on(position.host.clone()).nth(nth)))
}

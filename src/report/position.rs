//! A position of a sweep, in words.

use crate::history::Flags;
use crate::hunt::sweep::positions::{Position, PositionSite};
use crate::hunt::sweep::{SweepProgress, SweepTrial};

use super::phrases;

/// Returns a position: `packet 5 of client#1 toward server (312 bytes)`, `2nd exec.client.connected
/// on client`.
pub fn position(position: &Position) -> String {
    let place = position.place();
    match &position.spot {
        PositionSite::Packet { toward, n, flags, len } => {
            format!("packet {n} of {place} toward {toward} ({})", carries(*flags, *len))
        }
        PositionSite::Message { toward, n, label, .. } => {
            format!("message {n} of {place} toward {toward} ({label})")
        }
        PositionSite::Milestone { name, nth } => {
            format!("{} {name} on {place}", phrases::nth(*nth))
        }
        PositionSite::Point { name, nth, .. } => {
            format!("{} point {name} on {place}", phrases::nth(*nth))
        }
    }
}

/// Returns a trial: `cut, client first, at packet 5 of client#1 toward server (312 bytes)`.
pub fn trial(swept: &SweepProgress, trial: &SweepTrial) -> String {
    format!("{}, at {}", trial.fault.name, position(&swept.positions[trial.position]))
}

fn carries(flags: Flags, len: u32) -> String {
    let named = [(flags.syn, "SYN"), (flags.fin, "FIN"), (flags.rst, "RST")];
    let mut parts: Vec<_> =
        named.iter().filter(|(is, _)| *is).map(|(_, name)| (*name).to_owned()).collect();
    if len > 0 {
        parts.push(phrases::count(len.into(), "byte"));
    }
    if parts.is_empty() { "ACK".to_owned() } else { parts.join(", ") }
}

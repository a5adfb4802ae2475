//! The digest of a history: two runs with the same digest had the same packets and entries.

use crate::history::{Digest, EventKind, History, Time};
use crate::schedule::MilestoneValue;
use crate::world::thread::HostIx;

/// Adds an entry to the digest. Leaves out entries that only detailed histories contain.
pub(super) fn digest(history: &mut History, at: Time, host: Option<HostIx>, what: &EventKind) {
    let chain = &mut history.digest;
    let mut head = |kind: u64| {
        chain.number(kind | (host.map_or(0, |host| host.0 as u64 + 1) << 8));
        chain.number(at.0);
    };
    match what {
        EventKind::Packet(_) | EventKind::Message { .. } => {}
        EventKind::Produced { stream, bytes } => {
            head(1);
            chain.bytes(stream.0.as_bytes());
            chain.bytes(&bytes.whole());
        }
        EventKind::Delivered { stream, bytes, generation } => {
            head(2);
            chain.bytes(stream.0.as_bytes());
            chain.bytes(&bytes.whole());
            chain.number(generation.map_or(0, |generation| generation + 1));
        }
        EventKind::Milestone { name, fields } => {
            head(3);
            chain.bytes(name.as_bytes());
            fields.iter().for_each(|field| digest_field(chain, field));
        }
        EventKind::Point { name, fields, held } => {
            head(4);
            chain.bytes(name.as_bytes());
            chain.number(u64::from(*held));
            fields.iter().for_each(|field| digest_field(chain, field));
        }
        EventKind::ConnOpened { conn } => {
            head(5);
            chain.number(conn.0 as u64);
        }
        EventKind::ConnUp { conn, side } => {
            head(6);
            chain.number(conn.0 as u64 * 2 + *side as u64);
        }
        EventKind::Gauge { name, value } => {
            head(8);
            chain.bytes(name.as_bytes());
            chain.number(*value);
        }
        // These entries are rare, so they are digested as a text with all their fields in order.
        EventKind::Answered { call, answer } => {
            head(7);
            chain.bytes(format!("Answered {{ call: {call:?}, result: {answer:?} }}").as_bytes());
        }
        EventKind::Observed { stream, saw } => {
            head(7);
            chain.bytes(format!("Saw {{ stream: {stream:?}, what: {saw:?} }}").as_bytes());
        }
        EventKind::ResourceCounts { baseline, counts } => {
            head(7);
            let text = format!("Census {{ baseline: {baseline:?}, counts: {counts:?} }}");
            chain.bytes(text.as_bytes());
        }
        EventKind::Unowned { what } => {
            head(7);
            chain.bytes(format!("Stray {{ what: {what:?} }}").as_bytes());
        }
        other => {
            head(7);
            chain.bytes(format!("{other:?}").as_bytes());
        }
    }
}

fn digest_field(chain: &mut Digest, (name, value): &(&'static str, MilestoneValue)) {
    chain.bytes(name.as_bytes());
    match value {
        MilestoneValue::Number(n) => chain.number(*n),
        MilestoneValue::Text(text) => chain.bytes(text.as_bytes()),
    }
}

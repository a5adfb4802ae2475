//! A property of catch-ups over connections that are all too short for the whole answer.
//!
//! No other property sees a client that never makes progress over such connections: while each of
//! them is cut, every failure of the client is justified.

use std::collections::BTreeMap;

use crate::history::{Event, EventKind};
use crate::property::violation::{fields, kinds};
use crate::property::{About, CheckContext, Violation};
use crate::schedule::{Fault, Host, MilestoneValue, TrafficCount, faults};
use crate::subjects::judging::{host, judged};

kinds! {
    pub(super) CATCH_UPS_PROGRESS;
    STANDS_STILL = "stands-still": "{subject:}it lost {times} catch-ups in a row without receiving an event, although each connection carried at least {bytes} bytes {moment}";
}

/// The number of bytes that a connection must carry: three times as many as the longest event in the
/// answer to a read, with the handshake before it.
const ENOUGH: u64 = 32 << 10;

/// How many catch-ups a client may lose in a row until its pages are short enough.
const SEARCH: u64 = 5;

/// A client whose connections are cut during each catch-up must keep what they carry. A catch-up
/// counts only if a fault cut its connection after enough bytes.
pub(super) fn catch_ups_progress(cx: &CheckContext<'_>) -> Vec<Violation> {
    let mut hosts: BTreeMap<&str, CatchUps<'_>> = BTreeMap::new();
    let mut cuts = Cuts::default();
    let mut found = Vec::new();
    for event in judged(cx) {
        cuts.pass(event);
        if let EventKind::Died { .. } = event.what {
            hosts.remove(host(event));
            continue;
        }
        let catch_ups = hosts.entry(host(event)).or_default();
        let Some(lost) = catch_ups.pass(event) else { continue };
        if cuts.carried(cx, lost) < ENOUGH {
            continue;
        }
        catch_ups.lost += 1;
        catch_ups.cut += 1;
        if catch_ups.cut > SEARCH {
            cx.judges("catch_ups_progress");
        }
        if catch_ups.lost > SEARCH {
            let data = fields! { times: std::mem::take(&mut catch_ups.lost), bytes: ENOUGH };
            let subject = About::Host(host(event).into());
            let violation =
                Violation::new("catch_ups_progress", subject, event.at, &STANDS_STILL, data);
            found.push(violation);
        }
    }
    found.truncate(5);
    found
}

/// The catch-ups of one host since it last received an event.
#[derive(Default)]
struct CatchUps<'a> {
    /// The connection on which one has begun.
    begun: Option<u64>,
    /// How many were lost.
    lost: u64,
    /// How many were lost since the last complete one, even if the client received events over them.
    cut: u64,
    /// The last event of each process that a page has reached.
    pages: BTreeMap<&'a str, u64>,
}

impl<'a> CatchUps<'a> {
    /// Processes one event of the host. If a catch-up was lost, returns its connection.
    fn pass(&mut self, event: &'a Event) -> Option<u64> {
        let (name, fields) = match &event.what {
            EventKind::Milestone { name, fields } => (*name, fields),
            EventKind::Delivered { .. } => {
                self.lost = 0;
                return None;
            }
            _ => return None,
        };
        let number = |field| MilestoneValue::number(fields, field);
        match name {
            "exec.client.initialized" if number("processes") > Some(0) => {
                self.begun = number("conn");
            }
            "exec.client.caught-up" => {
                (self.begun, self.lost, self.cut) = (None, 0, 0);
            }
            "exec.client.page" => {
                let process = MilestoneValue::text(fields, "process")?;
                let before = self.pages.insert(process, number("last")?);
                if number("last") > before {
                    self.lost = 0;
                }
            }
            "exec.client.attempt-failed" => {
                return self.begun.take().filter(|begun| number("conn") == Some(*begun));
            }
            _ => {}
        }
        None
    }
}

/// The connections that are cut after a number of bytes, by their names: toward which host, and
/// after how many bytes.
#[derive(Default)]
struct Cuts<'a>(BTreeMap<String, (&'a Host, u64)>);

impl<'a> Cuts<'a> {
    fn pass(&mut self, event: &'a Event) {
        let EventKind::FaultBegan { what, .. } = &event.what else { return };
        if let Fault::CutAfter(faults::CutAfter {
            conn,
            toward,
            count: TrafficCount::Bytes(bytes),
            ..
        }) = &**what
        {
            self.0.insert(conn.to_string(), (toward, *bytes));
        }
    }

    /// Returns how many bytes a connection carried to its client before such a cut; 0 without one.
    fn carried(&self, cx: &CheckContext<'_>, conn: u64) -> u64 {
        let index = usize::try_from(conn).ok().and_then(|conn| conn.checked_sub(1));
        let Some(conn) = index.and_then(|index| cx.history.conns.get(index)) else { return 0 };
        let cut = self.0.get(&conn.name).filter(|(toward, _)| **toward == conn.client);
        cut.map_or(0, |(_, bytes)| *bytes)
    }
}

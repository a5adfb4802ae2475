//! The messages that the fault `tamper` changes on their way.

use crate::history::{ConnIndex, EventKind, Side};
use crate::schedule::Tampering;

use super::SimNet;
use super::faults::{ActiveFault, FaultAction};

impl SimNet {
    /// Returns the faults that may change the messages of a direction now: the number of each, and
    /// the change.
    pub fn tampering(&self, conn: ConnIndex, from: Side) -> Vec<(usize, Tampering)> {
        let toward = self.conns.get(conn).host(from.other());
        let touching =
            self.faults.active.iter().filter(|fault| fault.touches(&self.conns, conn, toward));
        touching
            .filter_map(|fault| match fault.kind {
                FaultAction::Tamper(how, 1..) => Some((fault.number, how)),
                _ => None,
            })
            .collect()
    }

    /// Records that a fault changed a message. The fault is over after its last message.
    pub fn note_tampered(&mut self, fault: usize, conn: ConnIndex, from: Side, label: String) {
        let active = self.faults.active.iter_mut().find(|active| active.number == fault);
        let Some(FaultAction::Tamper(how, left)) = active.map(|active| &mut active.kind) else {
            return;
        };
        *left -= 1;
        let (how, is_over) = (*how, *left == 0);
        self.record(None, EventKind::Tampered { fault, conn, from, how, label });
        if is_over {
            self.end_fault(fault);
        }
    }

    /// Handles that a fault changes no more messages: the receivers read the parts of messages that waited
    /// for their rest.
    pub fn release_messages(&self, fault: &ActiveFault) {
        if !matches!(fault.kind, FaultAction::Tamper(..)) {
            return;
        }
        let touched = self.conns.iter().filter(|(conn, _)| fault.target.holds(&self.conns, *conn));
        for (_, conn) in touched {
            for side in [Side::Client, Side::Server] {
                conn.end(side).lock().wake();
            }
        }
    }
}

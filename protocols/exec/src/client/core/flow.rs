//! The client's part of flow control: it reports to the server what the subscribers have read.
//!
//! A report may be lost with its connection, so each new connection begins with a report about
//! every process. When the client stops following a process, it says so, over one connection after
//! the other until the server has answered; otherwise the process would wait forever.

use std::collections::BTreeMap;
use std::sync::Arc;

use reknit_seams::defect;

use super::Core;
use super::connection::InFlight;
use super::process::ProcessState;
use crate::client::command::Key;
use crate::wire::flow::{ConsumedParams, FlowReports};
use crate::wire::method;

/// The processes whose release the server has not confirmed, and whether it was sent over the
/// current connection.
#[derive(Default)]
pub(super) struct Releases(BTreeMap<Arc<str>, bool>);

impl Releases {
    pub(super) fn settle(&mut self, id: &str) {
        self.0.remove(id);
    }

    pub(super) fn connection_lost(&mut self) {
        self.0.values_mut().for_each(|sent| *sent = false);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    fn take_unsent(&mut self) -> Vec<Arc<str>> {
        let unsent = self.0.iter_mut().filter(|(_, sent)| !**sent);
        unsent.map(|(id, sent)| (*sent = true, id.clone()).1).collect()
    }
}

impl Core {
    /// Returns how often the server needs reports over the current connection, if it does.
    pub(super) fn flow(&mut self) -> Option<FlowReports> {
        self.connection().and_then(|connection| connection.flow)
    }

    /// Handles the progress of the subscribers of a process.
    pub(super) fn progress(&mut self, key: &Key) {
        let process = self.processes.get(&key.id).filter(|process| process.serial == key.serial);
        let Some(seq) = process.and_then(|process| process.log.take_report()) else { return };
        // Without a connection, the next one begins with a report.
        if self.flow().is_some() {
            self.send_report(&key.id, Some(seq), InFlight::Report);
        }
    }

    /// Reports, over a new connection, what was read of every process, and which processes the
    /// client has released.
    pub(super) fn report_all(&mut self) {
        let flow = self.flow();
        if !defect!(OldRatesKept) {
            self.processes.values().for_each(|process| process.log.report_as(flow));
        }
        if flow.is_none() {
            self.releases.clear(); // the server does not wait for reports
            return;
        }
        let read_of = |process: &ProcessState| {
            if defect!(ArrivedCountsAsRead) { process.published() } else { process.log.last_read() }
        };
        let read = self.processes.iter().map(|(id, process)| (id.clone(), read_of(process)));
        let read: Vec<_> = read.filter(|(_, seq)| *seq > 0).collect();
        for (id, seq) in read {
            if !defect!(ReportLostAtCut) {
                self.send_report(&id, Some(seq), InFlight::Report);
            }
        }
        self.send_releases();
    }

    /// Releases a process that the client no longer follows.
    pub(super) fn release_flow(&mut self, id: Arc<str>) {
        if defect!(ReleaseDuringOutageLost) && !self.is_initialized() {
            return;
        }
        self.releases.0.insert(id, false);
        if self.is_initialized() {
            match self.flow() {
                Some(_) => self.send_releases(),
                None => self.releases.clear(),
            }
        }
    }

    fn send_releases(&mut self) {
        for id in self.releases.take_unsent() {
            self.send_report(&id.clone(), None, InFlight::Release(id));
        }
    }

    /// Sends one report.
    pub(super) fn send_report(&mut self, id: &Arc<str>, seq: Option<u64>, in_flight: InFlight) {
        let params = ConsumedParams { process_id: id.to_string(), seq };
        self.request(method::CONSUMED, &params, in_flight);
    }
}

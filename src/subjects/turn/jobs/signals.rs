//! A process table that records the signals of one command.

use std::io;
use std::sync::Arc;

use super::notes::Signalled;
use crate::env::Env;
use crate::history::Stream;
use crate::net::BoxFuture;
use crate::process::{Detached, Identity, ProcessTable, Reach};
use crate::subject::{HostContext, Recorder};

/// The process table of a command that ends jobs.
struct Recorded {
    table: Arc<dyn ProcessTable>,
    record: Recorder,
    stream: Stream,
}

/// Returns the environment of a command whose signals are recorded on a stream.
pub(super) fn recorded(host: &HostContext, stream: Stream) -> Env {
    let (table, record) = (host.env.processes.clone(), host.record.clone());
    Env { processes: Arc::new(Recorded { table, record, stream }), ..host.env.clone() }
}

impl ProcessTable for Recorded {
    fn own(&self) -> io::Result<Identity> {
        self.table.own()
    }

    fn find(&self, pid: u32) -> io::Result<Option<Identity>> {
        self.table.find(pid)
    }

    fn is_alive(&self, process: &Identity) -> io::Result<bool> {
        self.table.is_alive(process)
    }

    fn signal(&self, process: &Identity, number: i32, reach: Reach) -> io::Result<()> {
        let sent = self.table.signal(process, number, reach);
        if sent.is_ok() {
            self.record.observed(&self.stream, Signalled { to: process.into(), number });
        }
        sent
    }

    fn launch_detached<'a>(&'a self, program: &'a Detached) -> BoxFuture<'a, io::Result<Identity>> {
        self.table.launch_detached(program)
    }
}

//! The amount of data that the user of a client requests in total, and the time that its one
//! connection needs to transfer it.
//!
//! An HTTP body shares the connection with all other bodies, and with the output of processes. Over
//! a slow link, a deadline may pass before everything has arrived. That is the fault of the user
//! that set the deadline.

use std::time::Duration;

use super::network_fault::AROUND;
use super::operations::{ExecOperation, answer_bytes};
use super::web::WebSetup;
use crate::property::path::through;
use crate::schedule::{self, Action, Plan};
use crate::subject::dyn_subject::read;
use crate::world::process::{PrintedLines, Setup, TABLE};

/// The maximum length of a line without a declared length.
const LINE: u64 = 40;

/// The length of a usual file.
const FILE: u64 = 8192;

/// The length of the answer to a task with files, at most.
const TASK: u64 = 1024;

/// How often the network is crossed for a body, beside the body itself: to open a connection, to send
/// the request, and to close the connection.
const CROSSINGS: u32 = 6;

/// The time that everything may take that the user of this host requests in a run.
pub(super) fn takes(plan: &Plan, host: &str) -> Duration {
    let asked = plan.steps.iter().filter_map(|step| match &step.action {
        Action::Operation(operation) if operation.client.as_str() == host => {
            Some(bytes(plan, operation))
        }
        _ => None,
    });
    through(asked.fold(0, u64::saturating_add), plan.latency.1)
}

/// How long a request of this host for a body may wait for the others, because a connection has `most`
/// at a time.
pub(super) fn waits(plan: &Plan, host: &str, most: usize) -> Duration {
    let bodies = plan.steps.iter().filter_map(|step| match &step.action {
        Action::Operation(operation) if operation.client.as_str() == host => {
            match read::<ExecOperation>(operation).ok()? {
                ExecOperation::Http { body, .. } | ExecOperation::HttpStream { body, .. } => {
                    let crossings = plan.latency.1 * CROSSINGS;
                    Some(WebSetup::declared(plan, &body).occupies().saturating_add(crossings))
                }
                _ => None,
            }
        }
        _ => None,
    });
    let bodies: Vec<Duration> = bodies.collect();
    if bodies.len() > most { bodies.into_iter().sum() } else { Duration::ZERO }
}

/// The maximum number of bytes that an operation transfers to the client. The process may echo a
/// write.
fn bytes(plan: &Plan, operation: &schedule::Operation) -> u64 {
    match read::<ExecOperation>(operation).expect("operations are checked before a run") {
        ExecOperation::Http { body, .. } | ExecOperation::HttpStream { body, .. } => {
            WebSetup::declared(plan, &body).length()
        }
        ExecOperation::Start { process, .. }
        | ExecOperation::Read { process, .. }
        | ExecOperation::ReadAll { process, .. } => {
            let setup: Setup = plan.entry(TABLE, &process).unwrap_or_default();
            [setup.print, setup.stderr]
                .into_iter()
                .flatten()
                .map(printed)
                .fold(0, u64::saturating_add)
        }
        // The first chunk may contain several lines, and what the process echoes.
        ExecOperation::Pipeline { .. } => answer_bytes(plan, operation),
        // The file may have been written by any operation; all of them are short.
        ExecOperation::ReadFile { .. } | ExecOperation::ReadBlocks { .. } => FILE,
        ExecOperation::RemoveFile { .. } | ExecOperation::WatchFile { .. } => 0,
        ExecOperation::UseFiles { tasks, .. } => tasks.len() as u64 * TASK,
        ExecOperation::Write { bytes, .. }
        | ExecOperation::WriteStream { bytes, .. }
        | ExecOperation::WriteFile { bytes, .. } => bytes.map_or(0, |bytes| bytes.0),
        ExecOperation::Interrupt { .. }
        | ExecOperation::Terminate { .. }
        | ExecOperation::Unfollow { .. }
        | ExecOperation::ReadEvents { .. }
        | ExecOperation::ReadStream { .. }
        | ExecOperation::AwaitState { .. }
        | ExecOperation::CloseClient {}
        | ExecOperation::DropHandle { .. } => 0,
    }
}

fn printed(lines: PrintedLines) -> u64 {
    lines.lines.saturating_mul(lines.bytes.map_or(LINE, |bytes| bytes.0) + AROUND as u64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schedule::When;

    fn asks(plan: Plan, client: &str, verb: &str, fields: serde_json::Value) -> Plan {
        let fields = fields.as_object().expect("fields").clone();
        let operation = schedule::Operation { verb: verb.into(), client: client.into(), fields };
        plan.step(When::At(Duration::ZERO), Action::Operation(operation))
    }

    fn plan() -> Plan {
        let mut plan = Plan::new("exec");
        plan.latency = (Duration::from_millis(100), Duration::from_millis(120));
        plan.setup.insert("web".into(), json!({ "w1": { "pieces": 16, "bytes": "4KiB" } }));
        plan.setup.insert(
            "process".into(),
            json!({ "p1": { "print": { "lines": 181, "bytes": "16B" } } }),
        );
        plan
    }

    #[test]
    fn each_tcp_window_takes_a_round_trip() {
        let round_trip = Duration::from_millis(240);
        assert_eq!(takes(&plan(), "client"), Duration::ZERO);
        let body = || asks(plan(), "client", "http-stream", json!({ "body": "w1" }));
        assert_eq!(takes(&body(), "client"), round_trip * 2);
        let others = asks(body(), "client2", "http-stream", json!({ "body": "w1" }));
        assert_eq!(
            takes(&others, "client"),
            round_trip * 2,
            "others have connections of their own"
        );
        let both = asks(body(), "client", "http", json!({ "body": "w1" }));
        assert_eq!(takes(&both, "client"), round_trip * 4);
        let started = asks(body(), "client", "start", json!({ "process": "p1" }));
        assert_eq!(takes(&started, "client"), round_trip * 2, "half a window is none");
        let read = asks(started, "client", "read", json!({ "process": "p1" }));
        assert_eq!(
            takes(&read, "client"),
            round_trip * 3,
            "output comes as it is printed, and to whoever reads it"
        );
        let written = asks(body(), "client", "write", json!({ "process": "p1", "bytes": "32KiB" }));
        assert_eq!(takes(&written, "client"), round_trip * 3);
        let reads = json!({ "process": "p1", "requests": 300 });
        let pipeline = asks(body(), "client", "pipeline", reads);
        assert_eq!(
            takes(&pipeline, "client"),
            round_trip * 29,
            "each of the answers contains all lines, if they are one chunk"
        );
    }

    #[test]
    fn bodies_wait_for_each_other_only_if_too_many_are_asked_for() {
        let mut plan = plan();
        plan.setup.insert("web".into(), json!({ "w1": { "pieces": 5, "breaks-off": true } }));
        let stream = |plan| asks(plan, "client", "http-stream", json!({ "body": "w1" }));
        let each = WebSetup::declared(&plan, "w1").lasts() + Duration::from_millis(3_000 + 6 * 120);
        let two = stream(stream(plan));
        assert_eq!(waits(&two, "client", 2), Duration::ZERO);
        assert_eq!(waits(&two, "client", 1), each * 2);
        assert_eq!(waits(&two, "client2", 1), Duration::ZERO);
    }
}

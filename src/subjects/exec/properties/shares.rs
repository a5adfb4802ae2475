//! Properties of what the server accepts: input for a process that can read it, and sessions of
//! every host.

use std::collections::{BTreeMap, BTreeSet};

use super::served::UserOperation;
use crate::history::{Answer, Call, EventKind};
use crate::property::violation::{fields, kinds};
use crate::property::{About, CheckContext, Violation, ViolationFields};
use crate::schedule::MilestoneValue;
use crate::subjects::exec::answers::ExecObservation;
use crate::subjects::exec::limits::{LIMITS, server_limits};
use crate::subjects::judging::{has_puppet, judged};

kinds! {
    pub(super) WRITES_HAVE_A_READER;
    TAKEN = "accepted": "{subject:}the write was accepted, although its user had already received the exit of the process {moment}";
}

kinds! {
    pub(super) SESSIONS_ARE_SHARED;
    REFUSED = "refused": "{subject:}the server refused a session for lack of room, although the host had opened only {opened} {moment}";
}

/// If a user writes to a process after it has seen the exit of the process, the server must not
/// accept the write, because the server has seen the exit, too. Hosts that start the process again
/// are not judged.
pub(super) fn writes_have_a_reader(cx: &CheckContext<'_>) -> Vec<Violation> {
    if has_puppet(cx) {
        return Vec::new();
    }
    let mut starts: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    let mut exited: BTreeSet<&str> = BTreeSet::new();
    let mut in_vain: BTreeSet<Call> = BTreeSet::new();
    let mut found = Vec::new();
    for event in judged(cx) {
        match &event.what {
            EventKind::Observed { stream, saw } => {
                if let Some(ExecObservation::ExitAt(_)) = saw.downcast_ref() {
                    exited.insert(&stream.0);
                }
            }
            EventKind::Answered { call, answer: Answer::Queued(_) } if in_vain.contains(call) => {
                found.push(Violation::new(
                    "writes_have_a_reader",
                    *call,
                    event.at,
                    &TAKEN,
                    ViolationFields::default(),
                ));
            }
            _ => {
                let Some((call, asked)) = UserOperation::of(event) else { continue };
                let Some(process) = asked.process() else { continue };
                let times = starts.entry((asked.host, process)).or_default();
                *times += u64::from(asked.verb() == "start");
                let stream = match asked.host {
                    "client" => process.to_owned(),
                    host => format!("{host}/{process}"),
                };
                if asked.verb() == "write" && *times == 1 && exited.contains(&*stream) {
                    in_vain.insert(call);
                }
            }
        }
    }
    found
}

/// If the server has room for the share of every client host, each host gets its share.
pub(super) fn sessions_are_shared(cx: &CheckContext<'_>) -> Vec<Violation> {
    let limits = server_limits(&cx.plan.limits.over(LIMITS));
    let hosts = cx.plan.clients as usize;
    if has_puppet(cx) || hosts.saturating_mul(limits.peer_sessions) > limits.sessions {
        return Vec::new();
    }
    let mut opened: BTreeMap<&str, u64> = BTreeMap::new();
    let mut found = Vec::new();
    for event in judged(cx) {
        let EventKind::Milestone { name, fields } = &event.what else { continue };
        let conn = MilestoneValue::number(fields, "conn").and_then(|conn| conn.checked_sub(1));
        let Some(conn) = conn.and_then(|conn| cx.history.conns.get(conn as usize)) else {
            continue;
        };
        let opened = opened.entry(conn.client.as_str()).or_default();
        match *name {
            "exec.server.attached" if MilestoneValue::number(fields, "resumed") == Some(0) => {
                *opened += 1
            }
            "exec.server.refused-full" if *opened < limits.peer_sessions as u64 => {
                found.push(Violation::new(
                    "sessions_are_shared",
                    About::Named(conn.client.as_str().to_owned()),
                    event.at,
                    &REFUSED,
                    fields! { opened: *opened },
                ));
            }
            _ => {}
        }
    }
    found
}

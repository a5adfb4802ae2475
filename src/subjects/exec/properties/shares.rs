//! Properties of what the server accepts: input for a process that can read it, and sessions of
//! every host.

use std::collections::{BTreeMap, BTreeSet};

use super::served::UserOperation;
use crate::history::{Answer, Call, Event, EventKind, Side};
use crate::property::violation::{fields, kinds};
use crate::property::{About, CheckContext, Violation, ViolationFields};
use crate::schedule::MilestoneValue;
use crate::subjects::exec::answers::ExecObservation;
use crate::subjects::exec::limits::server_limits;
use crate::subjects::judging::{host, judged, peers_may_lie};

kinds! {
    pub(super) WRITES_HAVE_A_READER;
    TAKEN = "accepted": "{subject:}the write was accepted, although its user had already received the exit of the process {moment}";
}

kinds! {
    pub(super) SESSIONS_ARE_SHARED;
    REFUSED = "refused": "{subject:}the server refused a session for lack of room, although the host had opened only {opened} {moment}";
    IDLE = "idle": "{subject:}the server refused a session for lack of room, although the host had sessions: {sessions}. None had a process, and at least one had no connection {moment}";
    BEYOND = "beyond": "{subject:}the server opened a session for a host that then had {sessions}, more than {most} {moment}";
}

/// If a user writes to a process after it has seen the exit of the process, the server must not
/// accept the write, because the server has seen the exit, too. Hosts that start the process again
/// are not judged.
pub(super) fn writes_have_a_reader(cx: &CheckContext<'_>) -> Vec<Violation> {
    if peers_may_lie(cx) {
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
            EventKind::Answered { answer: Answer::GivenUp, .. } => {}
            EventKind::Answered { call, answer } if in_vain.contains(call) => {
                cx.judges("writes_have_a_reader");
                if let Answer::Queued(_) = answer {
                    found.push(Violation::new(
                        "writes_have_a_reader",
                        *call,
                        event.at,
                        &TAKEN,
                        ViolationFields::default(),
                    ));
                }
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

/// The sessions of all hosts, as far as they are certain.
#[derive(Default)]
struct Sessions<'a> {
    /// How many each host has opened.
    opened: BTreeMap<&'a str, u64>,
    /// How many sessions of all hosts have ended: a host has lost at most so many.
    ended: u64,
    /// The connections that may have a session, by their numbers: those that came up at the server, and that it
    /// neither detached nor refused.
    conns: BTreeMap<u64, &'a str>,
    /// The hosts whose users have started a process. It may still run.
    starters: BTreeSet<&'a str>,
}

impl<'a> Sessions<'a> {
    /// Processes an event. Returns the violation that it is.
    fn pass(&mut self, cx: &CheckContext<'a>, most: u64, event: &'a Event) -> Option<Violation> {
        match &event.what {
            EventKind::ConnUp { conn, side: Side::Server } => {
                let client = cx.history.conn(*conn).client.as_str();
                self.conns.insert(conn.0 as u64 + 1, client);
            }
            EventKind::Asked { operation, .. } if operation.verb == "start" => {
                self.starters.insert(host(event));
            }
            // The sessions die with the server. A client repeats a start that had no answer.
            EventKind::Died { .. } if host(event) == "server" => {
                let starters = std::mem::take(&mut self.starters);
                *self = Self { starters, ..Self::default() };
            }
            EventKind::Milestone { name: "exec.server.expired", .. } => self.ended += 1,
            EventKind::Milestone { name, fields } => {
                let conn = MilestoneValue::number(fields, "conn")?;
                let index = usize::try_from(conn).ok()?.checked_sub(1)?;
                let client = cx.history.conns.get(index)?.client.as_str();
                let violation = |kind, data: ViolationFields| {
                    let subject = About::Named(client.to_owned());
                    Violation::new("sessions_are_shared", subject, event.at, kind, data)
                };
                match *name {
                    "exec.server.detached" => drop(self.conns.remove(&conn)),
                    "exec.server.attached"
                        if MilestoneValue::number(fields, "resumed") == Some(0) =>
                    {
                        let opened = self.opened.entry(client).or_default();
                        *opened += 1;
                        // Up to this number, no session of the host had to end for the new one.
                        if *opened > most {
                            cx.judges("sessions_are_shared");
                        }
                        let sessions = self.of(client);
                        let data = fields! { sessions, most };
                        return (sessions > most).then(|| violation(&BEYOND, data));
                    }
                    "exec.server.refused-full" => {
                        self.conns.remove(&conn);
                        let sessions = self.of(client);
                        if sessions >= most {
                            cx.judges("sessions_are_shared");
                        }
                        let is_wrong = sessions >= most && self.has_idle(cx, client);
                        return is_wrong.then(|| violation(&IDLE, fields! { sessions }));
                    }
                    _ => {}
                }
            }
            _ => {}
        }
        None
    }

    /// Returns how many sessions a host has at least.
    fn of(&self, client: &str) -> u64 {
        self.opened.get(client).copied().unwrap_or_default().saturating_sub(self.ended)
    }

    /// Whether a host certainly has a detached session, and no process in any of its sessions. What a
    /// puppet started is unknown.
    fn has_idle(&self, cx: &CheckContext<'_>, client: &str) -> bool {
        let attached = self.conns.values().filter(|of| **of == client).count() as u64;
        let is_puppet = cx.plan.puppets.keys().any(|puppet| puppet.as_str() == client);
        self.of(client) > attached && !self.starters.contains(client) && !is_puppet
    }
}

/// A host has at most its number of sessions. At that number, its new session replaces one of its own
/// that is detached and runs nothing, whether or not the server is full. The server reports which sessions end, and
/// which are detached. Connections and starts are those of the world.
fn own_sessions_make_room(cx: &CheckContext<'_>, most: u64) -> Vec<Violation> {
    let mut sessions = Sessions::default();
    judged(cx).filter_map(|event| sessions.pass(cx, most, event)).take(5).collect()
}

/// If the server has room for the share of every client host, each host gets its share. In any case, a
/// host can have a new session instead of an idle one of its own.
pub(super) fn sessions_are_shared(cx: &CheckContext<'_>) -> Vec<Violation> {
    if peers_may_lie(cx) {
        return Vec::new();
    }
    let limits = server_limits(cx.limits);
    let hosts = cx.plan.clients as usize;
    let mut found = own_sessions_make_room(cx, limits.peer_sessions as u64);
    if hosts.saturating_mul(limits.peer_sessions) > limits.sessions {
        return found;
    }
    let mut opened: BTreeMap<&str, u64> = BTreeMap::new();
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
            "exec.server.refused-full" => {
                cx.judges("sessions_are_shared");
                if *opened < limits.peer_sessions as u64 {
                    found.push(Violation::new(
                        "sessions_are_shared",
                        About::Named(conn.client.as_str().to_owned()),
                        event.at,
                        &REFUSED,
                        fields! { opened: *opened },
                    ));
                }
            }
            _ => {}
        }
    }
    found
}

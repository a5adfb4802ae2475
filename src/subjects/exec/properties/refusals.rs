//! `refusals_are_true`: a call is refused only if its process or file is not there, or a limit binds.
//!
//! The property compares refusals with the outside world: the real ends of processes, the real
//! changes of files, and the limits of the run. After the death of the server, it judges no refusal. A
//! client that died and started again knows no earlier process. A closed process stays for its retention,
//! which begins when the process and its output have ended. A client acts on the code of a refusal, so each
//! refusal has the code of its reason.
//! `ids_are_own` judges the refusal of a taken id, and `processes_fail_truly` the failure of a whole
//! process because of a gap. A process also fails if its own read has no answer; `justified_failure`
//! judges that failure.

use std::collections::{BTreeMap, BTreeSet};

use super::served::UserOperation;
use super::targets::Targets;
use crate::history::{Answer, Call, Ending, Event, EventKind, Time};
use crate::property::violation::{fields, kinds};
use crate::property::{CheckContext, Violation, ViolationFields};
use crate::schedule::{Fault, Pipe, faults};
use crate::subjects::exec::answers::ExecFailure;
use crate::subjects::exec::files::{TARGET, path, target};
use crate::subjects::exec::limits::{client_limits, server_limits};
use crate::subjects::exec::web;
use crate::subjects::judging::{host, judged, peers_may_lie};
use crate::world::process::{Setup, TABLE};
use reknit_exec::client::Failure;
use reknit_exec::wire::code;
use reknit_exec::wire::process::WriteStatus;

mod limits;
#[cfg(test)]
mod tests;

use limits::{TOO_MANY, is_for_lack_of_room, may_be_too_large};

kinds! {
    pub(super) REFUSALS_ARE_TRUE;
    STILL_THERE = "still-there": "{subject:}it was refused ({answer}), although {process} was still running {moment}";
    STILL_KEPT = "still-kept": "{subject:}the read was refused ({answer}), although {process} ended only at {ended} and is kept for longer {moment}";
    NOT_STARTED = "not-started": "{subject:}the start was refused ({answer}), although the process can be started and no limit was reached {moment}";
    WAS_READ = "was-read": "{subject:}the write was refused ({answer}), although the process read its line {moment}";
    HAD_ROOM = "had-room": "{subject:}the write was refused ({answer}), although all that its user has written to processes of this name has room in one input {moment}";
    FILE_REFUSED = "file-refused": "{subject:}it was refused ({answer}), although nothing prevents it and no limit was reached {moment}";
    OTHER_CODE = "other-code": "{subject:}it was refused with the code {code} ({answer}), but this refusal has the code {wanted} {moment}";
    FILE_IS_THERE = "file-is-there": "{subject:}it was refused ({answer}), although the file was written at {written} and never removed {moment}";
}

/// The end of the target of a line that a process read.
const STDIN: &str = "/stdin";

/// The start of a refusal of an unknown process.
const UNKNOWN: &str = "unknown process id ";

/// The codes of refusals, by the start of their messages.
const CODES: [(&str, i64); 7] = [
    (UNKNOWN, code::INVALID_REQUEST),
    ("process id ", code::INVALID_REQUEST),
    ("start was cancelled", code::INVALID_REQUEST),
    ("the process could not be started: ", code::INTERNAL),
    ("the request failed: ", code::INTERNAL),
    (TOO_MANY, code::INTERNAL),
    ("entity not found", code::NOT_FOUND),
];

/// The facts that a refusal is compared with.
#[derive(Default)]
struct Truth<'a> {
    targets: Targets<'a>,
    /// When each process and its output really ended.
    ended: BTreeMap<&'a str, Time>,
    /// The lines that each process printed, and their bytes.
    printed: BTreeMap<&'a str, (usize, usize)>,
    /// The first write to each file, if it was not removed since.
    written: BTreeMap<&'a str, Time>,
    /// When a fault last closed the input of all processes.
    input_closed: Option<Time>,
    /// When each call was answered. A call that its user gave up may still wait at the server.
    answered: BTreeMap<Call, Time>,
    /// When each client last died.
    client_died: BTreeMap<&'a str, Time>,
    /// Whether the server died.
    server_died: bool,
}

/// See the module.
pub(super) fn refusals_are_true(cx: &CheckContext<'_>) -> Vec<Violation> {
    if peers_may_lie(cx) {
        return Vec::new();
    }
    let limits = cx.limits;
    let (client, limits) = (client_limits(limits), server_limits(limits));
    // Collected in advance, because a user that looks late records the failure later.
    let failed: BTreeSet<&str> = (cx.history.events.iter())
        .filter_map(|event| match &event.what {
            EventKind::StreamEnded { stream, ending: Ending::Failed { .. } } => {
                Some(cx.guarantees.whole(stream))
            }
            _ => None,
        })
        .collect();
    let mut truth = Truth::default();
    let mut found = read_all_the_same(cx);
    found.extend(with_another_code(cx));
    for event in judged(cx) {
        match &event.what {
            EventKind::Answered { call, answer: answer @ Answer::Refused(_) }
                if !truth.server_died =>
            {
                truth.answered.insert(*call, event.at);
                let Some(refusal) = answer.refusal::<ExecFailure>() else { continue };
                let Some(asked) = truth.targets.asked.get(call) else { continue };
                let violation = |kind, data: ViolationFields| {
                    let data = data.with("answer", Some(answer));
                    Violation::new("refusals_are_true", *call, event.at, kind, data)
                };
                if is_for_lack_of_room(refusal) && truth.needs_no_wait(&limits, asked) {
                    cx.judges("refusals_are_true");
                    found.push(violation(&HAD_ROOM, ViolationFields::default()));
                    continue;
                }
                let is_judged_elsewhere = ExecFailure::is_taken(answer)
                    || matches!(refusal.0, Failure::Gap { .. } | Failure::Unanswered);
                let is_not_kept =
                    refusal.0 == Failure::NotKept && truth.exceeds_log(*call, &client);
                // The server sends what it would accept itself.
                let is_too_long = refusal.0 == Failure::AnswerTooLong
                    && client.wire.message_bytes < limits.wire.message_bytes;
                let is_large = may_be_too_large(&limits, asked, refusal);
                if is_judged_elsewhere || is_too_long || is_large {
                    continue;
                }
                if is_not_kept || truth.may_be_full(&limits, asked, refusal) {
                    cx.judges("refusals_are_true");
                    continue;
                }
                let has_lost_its_file = || has_lost_its_file(cx, asked, event.at, refusal);
                match asked.verb() {
                    "read-blocks" | "use-files" if has_lost_its_file() => {
                        cx.judges("refusals_are_true");
                    }
                    "start" if truth.can_start(cx, asked) => {
                        cx.judges("refusals_are_true");
                        found.push(violation(&NOT_STARTED, ViolationFields::default()));
                    }
                    "read-file" | "read-blocks" => {
                        let file = truth.kept_file(asked);
                        let file = file.inspect(|_| cx.judges("refusals_are_true"));
                        let written = file.and_then(|file| truth.written(file));
                        let written = written.filter(|written| *written < asked.at);
                        found.extend(
                            written.map(|written| violation(&FILE_IS_THERE, fields! { written })),
                        );
                    }
                    "write-file" | "remove-file" | "watch-file" | "use-files" => {
                        cx.judges("refusals_are_true");
                        found.push(violation(&FILE_REFUSED, ViolationFields::default()));
                    }
                    // Other refusals of a request come from the HTTP server or the network.
                    "http" | "http-stream" => {
                        if is_for_lack_of_room(refusal) {
                            cx.judges("refusals_are_true");
                            found.push(violation(&FILE_REFUSED, ViolationFields::default()));
                        }
                    }
                    "write" | "write-stream" if truth.has_no_input(*call, refusal) => {
                        cx.judges("refusals_are_true");
                    }
                    _ => {
                        let is_known = |process: &&str| {
                            !failed.contains(process)
                                && !truth.has_successor(*call, asked)
                                && !truth.has_lost_its_client(*call)
                        };
                        let process = truth.targets.of(*call).filter(is_known);
                        let process = process.inspect(|_| cx.judges("refusals_are_true"));
                        let Some(process) = process else { continue };
                        match truth.ended.get(process).copied() {
                            None => found.push(violation(&STILL_THERE, fields! { process })),
                            Some(ended) => {
                                let is_kept = event.at < ended + limits.closed_retention;
                                if is_kept && is_unknown_read(asked, refusal) {
                                    let data = fields! { process, ended };
                                    found.push(violation(&STILL_KEPT, data));
                                }
                            }
                        }
                    }
                }
            }
            _ => truth.learn(cx, event),
        }
    }
    found.truncate(5);
    found
}

/// Returns whether a read was refused because the server has no such process.
fn is_unknown_read(asked: &UserOperation<'_>, refusal: &ExecFailure) -> bool {
    let reads = matches!(asked.verb(), "read" | "read-all" | "pipeline");
    reads && matches!(&refusal.0, Failure::Refused { message, .. } if message.starts_with(UNKNOWN))
}

/// Returns whether a call was refused because its file was open on a connection that ended meanwhile.
fn has_lost_its_file(
    cx: &CheckContext<'_>,
    asked: &UserOperation<'_>,
    at: Time,
    refusal: &ExecFailure,
) -> bool {
    let Failure::Refused { message, .. } = &refusal.0 else { return false };
    let mut own = cx.history.conns.iter().filter(|conn| conn.client.as_str() == asked.host);
    let ended = |over: Option<Time>| over.is_some_and(|over| over >= asked.at && over <= at);
    message.starts_with("unknown file handle") && own.any(|conn| ended(conn.over.1))
}

/// Returns a violation for each refused write whose line the process read. A call whose process
/// fails has an unknown outcome: its line may have been read before the connection
/// was lost.
fn read_all_the_same(cx: &CheckContext<'_>) -> Vec<Violation> {
    let lines = judged(cx).filter_map(|event| match &event.what {
        EventKind::Effect { call, target } => target.ends_with(STDIN).then_some(*call),
        _ => None,
    });
    let read: BTreeSet<Call> = lines.collect();
    let refused = judged(cx).filter_map(|event| match &event.what {
        EventKind::Answered { call, answer: answer @ Answer::Refused(why) }
            if !ExecFailure::is_of_its_process(why) =>
        {
            let refusal = answer.refusal::<ExecFailure>().map(|refusal| &refusal.0);
            let was_read = read.contains(call);
            // Another refusal may be that of a call that writes nothing.
            if was_read || matches!(refusal, Some(Failure::NotWritten(_))) {
                cx.judges("refusals_are_true");
            }
            was_read.then(|| {
                let data = fields! { answer };
                Violation::new("refusals_are_true", *call, event.at, &WAS_READ, data)
            })
        }
        _ => None,
    });
    refused.collect()
}

/// Returns a violation for each refusal that has another code than its message demands.
fn with_another_code(cx: &CheckContext<'_>) -> Vec<Violation> {
    let wrong = judged(cx).filter_map(|event| {
        let EventKind::Answered { call, answer } = &event.what else { return None };
        let Failure::Refused { code, message } = &answer.refusal::<ExecFailure>()?.0 else {
            return None;
        };
        let wanted = demanded(message).inspect(|_| cx.judges("refusals_are_true"));
        let wanted = wanted.filter(|wanted| wanted != code)?;
        let data = fields! { code: code.to_string(), answer, wanted: wanted.to_string() };
        Some(Violation::new("refusals_are_true", *call, event.at, &OTHER_CODE, data))
    });
    wrong.collect()
}

/// Returns the code that the message of a refusal demands, if it is known.
fn demanded(message: &str) -> Option<i64> {
    CODES.iter().find(|(start, _)| message.starts_with(start)).map(|(_, code)| *code)
}

impl<'a> Truth<'a> {
    fn learn(&mut self, cx: &CheckContext<'a>, event: &'a Event) {
        self.targets.pass(cx, event);
        match &event.what {
            EventKind::Answered { answer: Answer::GivenUp, .. } => {}
            EventKind::Answered { call, .. } | EventKind::Opened { call, .. } => {
                self.answered.entry(*call).or_insert(event.at);
            }
            EventKind::Ended { stream, .. } => drop(self.ended.insert(&stream.0, event.at)),
            EventKind::Produced { stream, bytes } => {
                let (lines, total) = self.printed.entry(cx.guarantees.whole(stream)).or_default();
                (*lines, *total) = (*lines + 1, *total + bytes.len());
            }
            EventKind::Effect { call, target } if target.starts_with(TARGET) => {
                match self.targets.asked.get(call).map(UserOperation::verb) {
                    Some("write-file") => drop(self.written.entry(target).or_insert(event.at)),
                    _ => drop(self.written.remove(&**target)),
                }
            }
            EventKind::FaultBegan { what, .. }
                if matches!(
                    &**what,
                    Fault::ClosePipe(faults::ClosePipe { pipe: Pipe::Stdin, .. })
                ) =>
            {
                self.input_closed = Some(event.at);
            }
            EventKind::Died { .. } => match host(event) {
                web::HOST => {}
                server if cx.servers.contains(&server) => self.server_died = true,
                client => drop(self.client_died.insert(client, event.at)),
            },
            _ => {}
        }
    }

    /// Returns whether nothing prevents a start: the process is declared, and no user asked to end a
    /// process of this name.
    fn can_start(&self, cx: &CheckContext<'_>, start: &UserOperation<'_>) -> bool {
        let is_declared =
            start.process().is_some_and(|process| cx.plan.entry::<Setup>(TABLE, process).is_some());
        // The machine may be unable to confine a command.
        let command = start.operation.fields.get("command");
        let is_confined = command.is_some_and(|command| command.get("sandbox").is_some());
        let ends = |asked: &UserOperation<'_>| matches!(asked.verb(), "terminate" | "start");
        let mut others = self.targets.asked.values().filter(|other| !std::ptr::eq(*other, start));
        is_declared
            && !is_confined
            && !others.any(|other| ends(other) && other.is_about_the_process_of(start))
    }

    /// Returns whether a write was refused because its process has no standard input: it was started
    /// without one, or before a fault closed the inputs.
    fn has_no_input(&self, write: Call, refusal: &ExecFailure) -> bool {
        let Some(start) = self.targets.start_of(write) else { return false };
        let command = start.operation.fields.get("command");
        let without = command.and_then(|command| command.get("without-input"));
        refusal.0 == Failure::NotWritten(WriteStatus::StdinClosed)
            && (without == Some(&true.into())
                || self.input_closed.is_some_and(|closed| start.at <= closed))
    }

    /// Returns the file of an operation. Returns `None` if a user asked to remove it.
    fn kept_file(&self, read: &UserOperation<'a>) -> Option<&'a str> {
        let file = |asked: &UserOperation<'a>| asked.operation.fields.get("file")?.as_str();
        let name = read.operation.fields.get("file")?.as_str()?;
        let mut removals =
            self.targets.asked.values().filter(|asked| asked.verb() == "remove-file");
        (!removals.any(|removal| file(removal) == Some(name))).then_some(name)
    }

    /// Returns when a file was first written. Returns `None` if it was removed.
    fn written(&self, file: &str) -> Option<Time> {
        self.written.get(&*target(&path(file))).copied()
    }

    /// Returns whether the client that started the process of a call has died.
    fn has_lost_its_client(&self, call: Call) -> bool {
        self.targets.start_of(call).is_some_and(|start| {
            self.client_died.get(start.host).is_some_and(|died| start.at <= *died)
        })
    }

    /// Returns whether a newer process may have the name of the process of a call.
    fn has_successor(&self, call: Call, asked: &UserOperation<'a>) -> bool {
        let mut newer = self.targets.asked.range(call..).map(|(_, newer)| newer);
        self.targets.newest(asked) != self.targets.of(call)
            || newer.any(|newer| newer.verb() == "start" && newer.is_about_the_process_of(asked))
    }
}

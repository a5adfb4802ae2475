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
use crate::subjects::exec::limits::{LIMITS, client_limits, server_limits};
use crate::subjects::exec::operations::LONGEST_LINE;
use crate::subjects::exec::web;
use crate::subjects::judging::{has_puppet, host, judged};
use crate::world::process::{Setup, TABLE};
use reknit_exec::client::Failure;
use reknit_exec::limits::{ClientLimits, ServerLimits};
use reknit_exec::server::CHUNK;
use reknit_exec::wire::code;
use reknit_exec::wire::process::WriteStatus;

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

/// The minimum size of a piece of a long line.
const SHORTEST: usize = CHUNK / 2;

/// The end of the target of a line that a process read.
const STDIN: &str = "/stdin";

/// The start of a refusal for lack of room.
const TOO_MANY: &str = "too many ";

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

/// More bytes than the requests of a user have in a random run. A lower limit of waiting bytes excuses
/// a refusal for lack of room.
const ALL_REQUESTS: usize = 4 << 20;

/// The most entries of a directory that a random schedule lists.
const MOST_LISTED: usize = 2;

/// More bytes than a text has that a random schedule writes to a file.
const LONGEST_TEXT: usize = 64;

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
    if has_puppet(cx) {
        return Vec::new();
    }
    let limits = cx.plan.limits.over(LIMITS);
    let (client, limits) = (client_limits(&limits), server_limits(&limits));
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

/// Returns whether a refusal may come from a limit of a size. Nothing compares it with the real size.
fn may_be_too_large(
    limits: &ServerLimits,
    asked: &UserOperation<'_>,
    refusal: &ExecFailure,
) -> bool {
    let Failure::Refused { message, .. } = &refusal.0 else { return false };
    if message.starts_with("file is too large") {
        let is_longer = asked.verb() == "use-files" && limits.file_bytes < LONGEST_TEXT;
        return asked.verb() == "read-file" || is_longer;
    }
    if message.starts_with("the directory has more than") {
        return limits.directory_entries < MOST_LISTED;
    }
    let what = message.strip_prefix(TOO_MANY);
    what.is_some_and(|what| what != "processes") && limits.waiting_bytes < ALL_REQUESTS
}

/// Returns whether the server refused a call because too many others wait.
fn is_for_lack_of_room(refusal: &ExecFailure) -> bool {
    matches!(&refusal.0, Failure::Refused { message, .. } if message.starts_with(TOO_MANY))
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

    /// Returns whether a refusal may come from a limit: the server counts what waits, or is open.
    fn may_be_full(
        &self,
        limits: &ServerLimits,
        asked: &UserOperation<'_>,
        refusal: &ExecFailure,
    ) -> bool {
        let Failure::Refused { message, .. } = &refusal.0 else { return false };
        let calls = || self.targets.asked.values().filter(|other| other.host == asked.host);
        if message.ends_with("file handles may be open per connection") {
            let opens =
                |call: &&UserOperation<'_>| matches!(call.verb(), "read-blocks" | "use-files");
            let open = calls().filter(opens).count();
            return open > limits.file_handles;
        }
        match message.strip_prefix(TOO_MANY) {
            // A start counts from its request on, whatever its outcome is.
            Some("processes") => {
                calls().filter(|call| call.verb() == "start").count() > limits.processes
            }
            Some(_) => self.may_wait(asked) >= limits.waiting_requests as u64,
            None => false,
        }
    }

    /// Returns how many requests of other calls may wait at the server beside a call: those that were
    /// not answered before it. Some operations send more requests than their user sees answers; these
    /// always count.
    fn may_wait(&self, asked: &UserOperation<'_>) -> u64 {
        let has_one_answer = |verb: &str| {
            let of_processes =
                matches!(verb, "start" | "read" | "write" | "interrupt" | "terminate");
            of_processes || matches!(verb, "http" | "read-file" | "write-file" | "remove-file")
        };
        let is_over = |call: &Call, other: &UserOperation<'_>| {
            let answered = self.answered.get(call);
            has_one_answer(other.verb()) && answered.is_some_and(|at| *at < asked.at)
        };
        let calls = self.targets.asked.iter();
        let others = calls.filter(|(call, other)| {
            other.host == asked.host && !std::ptr::eq(*other, asked) && !is_over(call, other)
        });
        others.map(|(_, other)| other.requests()).sum()
    }

    /// Returns whether a call is a write that the server can answer at once, however many requests wait. A write waits
    /// only for room for its bytes or its id, or behind another write that waits. So none waits if all writes to the
    /// processes of this name fit together, as if nothing had been read and no id forgotten. A byte stream writes in
    /// pieces, whose number the schedule does not say.
    fn needs_no_wait(&self, limits: &ServerLimits, write: &UserOperation<'_>) -> bool {
        let asked = self.targets.asked.values();
        let own = || asked.clone().filter(|other| other.is_about_the_process_of(write));
        let has_streams = own().any(|other| other.verb() == "write-stream");
        let writes = || own().filter(|other| other.verb() == "write");
        let bytes = writes().map(|other| other.bytes() + LONGEST_LINE as usize);
        write.verb() == "write"
            && !has_streams
            && bytes.sum::<usize>() <= limits.stdin_bytes
            && writes().count() <= limits.write_ids
    }

    /// Returns whether the process of a call may have printed more than its client keeps. A long line is
    /// several events.
    fn exceeds_log(&self, call: Call, limits: &ClientLimits) -> bool {
        let printed = self.targets.of(call).and_then(|process| self.printed.get(process));
        printed.is_some_and(|(lines, bytes)| {
            *lines + *bytes / SHORTEST >= limits.log_events || *bytes >= limits.log_bytes
        })
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::tests::{started, violations};
    use super::*;
    use crate::history::{Class, Nature, ProcessOutcome};
    use crate::property::scripted::ScriptedRun;
    use crate::schedule::LimitValue;

    fn refused(scripted: ScriptedRun, ms: u64, why: Failure) -> ScriptedRun {
        scripted.answered(2, ms, Answer::refused(ExecFailure(why)))
    }

    fn says(message: &str) -> Failure {
        let code = demanded(message).unwrap_or(code::INVALID_REQUEST);
        Failure::Refused { code, message: message.to_owned() }
    }

    #[test]
    fn a_refusal_has_the_code_of_its_message() {
        let found = |code, message: &str| {
            let read =
                call("read", r#"{"process":"p1"}"#).ended("p1", 2_050, ProcessOutcome::Exit(0));
            let why = Failure::Refused { code, message: message.to_owned() };
            violations(&refused(read, 300_000, why), refusals_are_true)
        };
        assert_eq!(found(-32600, "unknown process id p1"), [""; 0]);
        assert_eq!(
            found(-32603, "unknown process id p1"),
            [
                "call 2: it was refused with the code -32603 (refused: the server refused: unknown process id p1 (-32603)), but this refusal has the code -32600 (at 300.000 s)"
            ]
        );
        assert_eq!(found(-32603, "the request failed: lost"), [""; 0]);
        assert_eq!(found(-32600, "the request failed: lost").len(), 1);
        assert_eq!(found(-32000, "another message"), [""; 0]);
    }

    fn call(verb: &str, fields: &str) -> ScriptedRun {
        started().asked_as(2, 2_000, Class::InFlight, verb, fields)
    }

    #[test]
    fn a_call_on_a_live_process_is_not_refused() {
        let write = || call("write", r#"{"process":"p1"}"#);
        let why = || Failure::NotWritten(WriteStatus::StdinClosed);
        assert_eq!(
            violations(&refused(write(), 2_100, why()), refusals_are_true),
            [
                "call 2: it was refused (refused: not written: StdinClosed), although p1 was still running (at 2.100 s)"
            ]
        );
        let exited = write().ended("p1", 2_050, ProcessOutcome::Exit(0));
        assert!(violations(&refused(exited, 2_100, why()), refusals_are_true).is_empty());
        let failed = refused(write(), 2_100, why()).failed_stream("p1", 9_000, "gap");
        assert!(violations(&failed, refusals_are_true).is_empty());
        let again = write().asked_as(3, 2_010, Class::InFlight, "start", r#"{"process":"p1"}"#);
        assert!(violations(&refused(again, 2_100, why()), refusals_are_true).is_empty());
    }

    #[test]
    fn a_closed_process_is_read_for_its_retention() {
        let unknown = || says("unknown process id p1");
        let found = |verb: &str, ms, why: Failure| {
            let mut run = call(verb, r#"{"process":"p1"}"#);
            run.plan
                .limits
                .set("server.closed-retention", LimitValue::Duration(Duration::from_secs(5)));
            let run = run.ended("p1", 2_050, ProcessOutcome::Exit(0));
            violations(&refused(run, ms, why), refusals_are_true)
        };
        assert_eq!(
            found("read", 7_049, unknown()),
            [
                "call 2: the read was refused (refused: the server refused: unknown process id p1 (-32600)), although p1 ended only at 2.050 s and is kept for longer (at 7.049 s)"
            ]
        );
        assert_eq!(found("read", 7_050, unknown()), [""; 0]);
        assert_eq!(found("write", 2_100, unknown()), [""; 0], "the process has ended");
        assert_eq!(found("read", 2_100, says("no")), [""; 0], "for another reason");
    }

    #[test]
    fn a_death_excuses_refusals_of_its_own_host() {
        let why = || Failure::NotWritten(WriteStatus::StdinClosed);
        let found = |died: &str, ms| {
            let run = started().died(died, ms);
            let run = run.asked_as(2, 2_000, Class::InFlight, "write", r#"{"process":"p1"}"#);
            violations(&refused(run, 2_100, why()), refusals_are_true).len()
        };
        assert_eq!((found("server", 1_500), found("client", 1_500)), (0, 0));
        assert_eq!((found("client2", 1_500), found("web", 1_500)), (1, 1));
        let unknown = || says("unknown method");
        let file = |died| {
            let run = started().died(died, 1_500);
            let run = run.asked_as(2, 2_000, Class::InFlight, "remove-file", r#"{"file":"f1"}"#);
            violations(&refused(run, 2_100, unknown()), refusals_are_true).len()
        };
        assert_eq!((file("server"), file("client")), (0, 1), "files outlive their client");
    }

    #[test]
    fn a_write_needs_an_input_that_its_process_has() {
        let closed = || Failure::NotWritten(WriteStatus::StdinClosed);
        let start = |run: ScriptedRun, call, ms, host: &str, fields: &str| {
            let run = run.by(host).asked_as(call, ms, Class::InFlight, "start", fields);
            let stream = if host == "client" { "p2" } else { "client2/p2" }.into();
            run.user(ms + 50, EventKind::Opened { stream, call: Call(call) }).by("client")
        };
        let (with, without) =
            (r#"{"process":"p2"}"#, r#"{"process":"p2","command":{"without-input":true}}"#);
        let found = |run: ScriptedRun, why| {
            let write = run.asked_as(5, 2_000, Class::InFlight, "write", r#"{"process":"p2"}"#);
            let refused = write.answered(5, 2_100, Answer::refused(ExecFailure(why)));
            violations(&refused, refusals_are_true).len()
        };
        assert_eq!(found(start(started(), 3, 1_000, "client", without), closed()), 0);
        assert_eq!(found(start(started(), 3, 1_000, "client", with), closed()), 1);
        let other = Failure::NotWritten(WriteStatus::Starting);
        assert_eq!(found(start(started(), 3, 1_000, "client", without), other), 1);
        let both = start(started(), 3, 1_000, "client", with);
        let both = start(both, 4, 1_100, "client2", without);
        assert_eq!(found(both, closed()), 1, "another user's process has none");
        // A fault closes the inputs of the processes that run.
        let close = |run: ScriptedRun, ms| {
            let fault =
                Fault::ClosePipe(faults::ClosePipe { host: "server".into(), pipe: Pipe::Stdin });
            run.fault(ms, None, Nature::Harmless, fault)
        };
        assert_eq!(found(close(start(started(), 3, 1_000, "client", with), 1_500), closed()), 0);
        assert_eq!(found(start(close(started(), 900), 3, 1_000, "client", with), closed()), 1);
    }

    #[test]
    fn a_refused_write_has_no_effect() {
        let write =
            || call("write", r#"{"process":"p1"}"#).ended("p1", 2_050, ProcessOutcome::Exit(0));
        let why = || Failure::NotWritten(WriteStatus::StdinClosed);
        let read = || write().effect(2, 2_020, "p1/stdin");
        assert_eq!(violations(&refused(read(), 2_100, why()), refusals_are_true).len(), 1);
        let gap = refused(read(), 2_100, Failure::Gap { next: 1, last: 6 });
        assert!(violations(&gap, refusals_are_true).is_empty());
        assert!(violations(&refused(write(), 2_100, why()), refusals_are_true).is_empty());
    }

    #[test]
    fn a_subscription_is_refused_only_for_more_than_the_client_keeps() {
        let begins = call("read-events", r#"{"process":"p1"}"#);
        let found = violations(&refused(begins, 2_100, Failure::NotKept), refusals_are_true);
        assert_eq!(found.len(), 1, "it printed one line");
    }

    #[test]
    fn a_file_that_was_written_is_found() {
        let written = |target: &str| {
            let write =
                started().asked_as(3, 1_100, Class::InFlight, "write-file", r#"{"file":"f1"}"#);
            let write = write.effect(3, 1_200, target);
            write.asked_as(2, 2_000, Class::Durable, "read-file", r#"{"file":"f1"}"#)
        };
        let why = || says("no such file");
        for why in [why(), Failure::AnswerTooLong] {
            let found = violations(&refused(written("file /f1"), 2_100, why), refusals_are_true);
            assert_eq!(found.len(), 1);
        }
        let other = refused(written("file /f2"), 2_100, why());
        assert!(violations(&other, refusals_are_true).is_empty());
        let removed = written("file /f1").asked_as(
            4,
            1_900,
            Class::InFlight,
            "remove-file",
            r#"{"file":"f1"}"#,
        );
        assert!(violations(&refused(removed, 2_100, why()), refusals_are_true).is_empty());
    }

    #[test]
    fn the_blocks_of_a_file_need_the_connection_on_which_it_was_opened() {
        let lost = || says("unknown file handle `file-1`");
        let read = |over| {
            let write =
                started().asked_as(3, 1_100, Class::InFlight, "write-file", r#"{"file":"f1"}"#);
            let write = write.effect(3, 1_200, "file /f1").conn(2, 1_000, over);
            let read = write.asked_as(2, 2_000, Class::Bound, "read-blocks", r#"{"file":"f1"}"#);
            violations(&refused(read, 2_100, lost()), refusals_are_true).len()
        };
        assert_eq!((read(None), read(Some(2_050))), (1, 0));
    }

    #[test]
    fn a_change_of_a_file_is_refused_only_because_of_a_limit() {
        let remove = || call("remove-file", r#"{"file":"f1"}"#);
        let unknown = refused(remove(), 2_100, says("unknown method"));
        assert_eq!(violations(&unknown, refusals_are_true).len(), 1);
        let many = remove().asked_as(3, 2_010, Class::InFlight, "read-blocks", r#"{"file":"f2"}"#);
        let full = refused(many, 2_100, says("too many requests that wait"));
        assert_eq!(violations(&full, refusals_are_true).len(), 1, "the limit is higher");
    }

    #[test]
    fn a_limit_is_reached_only_by_as_many() {
        let full = || says("too many requests that wait");
        for (verb, fields) in [("read", r#"{"process":"p1"}"#), ("http", r#"{"body":"b1"}"#)] {
            let refused = refused(call(verb, fields), 2_100, full());
            assert_eq!(violations(&refused, refusals_are_true).len(), 1, "{verb}");
        }
    }

    #[test]
    fn a_request_waits_until_it_is_answered() {
        let found = |verb: &str, answered: u64, answer: Answer| {
            let read = call("read", r#"{"process":"p1"}"#);
            let fields = r#"{"process":"p1","body":"b1"}"#;
            let mut run = read.asked_as(3, 1_500, Class::InFlight, verb, fields);
            run.plan.limits.set("server.waiting-requests", LimitValue::Count(1));
            let run = run.answered(3, answered, answer);
            let run = refused(run, 2_100, says("too many requests that wait"));
            violations(&run, refusals_are_true).len()
        };
        let done = || Answer::from("done");
        assert_eq!([found("http", 1_999, done()), found("http", 2_000, done())], [1, 0]);
        let failed = Answer::refused(ExecFailure(says("the request failed: no answer")));
        assert_eq!(found("http", 1_999, failed), 1);
        assert_eq!(found("write", 1_999, Answer::GivenUp), 0, "it may still wait");
        assert_eq!(found("read-blocks", 1_999, done()), 0, "it sends several requests");
    }

    #[test]
    fn a_write_that_has_room_is_not_refused() {
        let found = |stdin_bytes, verb: &str| {
            let write = call("write", r#"{"process":"p1","bytes":"100B"}"#);
            let fields = r#"{"process":"p1"}"#;
            let mut run = write.asked_as(3, 1_500, Class::InFlight, verb, fields);
            let limits = &mut run.plan.limits;
            limits.set("server.waiting-requests", LimitValue::Count(1));
            limits.set("server.stdin-bytes", LimitValue::Bytes(stdin_bytes));
            let run = refused(run, 2_100, says("too many requests that wait"));
            violations(&run, refusals_are_true).len()
        };
        assert_eq!([found(140, "read"), found(139, "read")], [1, 0]);
        // The other write may wait.
        assert_eq!([found(180, "write"), found(179, "write")], [1, 0]);
        assert_eq!(found(300_000, "write-stream"), 0);
    }
}

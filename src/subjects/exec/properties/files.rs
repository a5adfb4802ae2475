//! `files_are_true`: what a user reads from a file is the complete content of one write, which no
//! later change had replaced when the user asked. And the calls of a user about a file take effect in
//! their order, also over two connections. A call sees what the user's earlier writes did. This holds even if
//! they still waited when the user asked. A client that died and was restarted has another session,
//! whose calls do not wait for those of the first one. A task with files has the answer that its
//! operation demands.
//!
//! The evidence: the answers of reads, which name the call that wrote the content, the changes that the
//! files of the server recorded, and the answers that the schedule contains. If a change and a read happened in the same millisecond,
//! the property decides in favour of the subject.

use std::collections::BTreeMap;

use crate::history::{Answer, Call, EventKind, Time};
use crate::property::violation::{fields, kinds};
use crate::property::{CheckContext, Violation};
use crate::subjects::exec::answers::{WrongBlock, WrongTask};
use crate::subjects::exec::files::{FileContent, TARGET, path, target};
use crate::subjects::exec::properties::served::UserOperation;
use crate::subjects::judging::{host, judged, peers_may_lie};

kinds! {
    pub(super) FILES_ARE_TRUE;
    TORN = "torn": "{subject:}it read {content}, which is no complete content {moment}";
    UNWRITTEN = "unwritten": "{subject:}it read {content}, but that call wrote nothing to the file before {moment}";
    OVERTAKEN = "overtaken": "{subject:}its content came into the file {moment}, but call {newer} of the same user, which came later, had been answered at {answered}";
    WRONG_END = "wrong-end": "{subject:}the block at {offset} did not say truly whether the file ends there {moment}";
    OTHER_ANSWER = "other-answer": "{subject:}task {task} said `{said}`, but must say `{wanted}` {moment}";
    PASSED = "passed": "{subject:}it has the content of call {writer}, but call {earlier} of the same user, which came earlier, changed the file after that, at {changed} {moment}";
    REPLACED = "replaced": "{subject:}it read {content}, but the file had been changed at {since}, before the user asked {moment}";
}

/// The changes of one file, in order: when, and by which call.
type Changes = Vec<(Time, Call)>;

/// A call about a file that was done.
struct DoneCall<'a> {
    call: Call,
    asked: UserOperation<'a>,
    answered: Time,
    file: &'a str,
    /// The call whose content it wrote or read.
    writer: Call,
}

impl<'a> DoneCall<'a> {
    fn of(call: Call, asked: &UserOperation<'a>, answered: Time, answer: &Answer) -> Option<Self> {
        let file = asked.operation.fields.get("file")?.as_str()?;
        let writer = match answer.done::<FileContent>() {
            Some(content) => Call(content.written_by.filter(|_| content.whole)?),
            None if asked.verb() == "write-file" && answer.acknowledges() => call,
            None => return None,
        };
        Some(Self { call, asked: *asked, answered, file, writer })
    }

    fn is_write(&self) -> bool {
        self.writer == self.call
    }

    /// Whether the same user made another call about the file after this one. In one millisecond, their
    /// order is unknown.
    fn is_before(&self, other: &Self) -> bool {
        self.asked.host == other.asked.host
            && self.file == other.file
            && self.asked.at < other.asked.at
    }
}

/// See the module.
pub(super) fn are_true(cx: &CheckContext<'_>) -> Vec<Violation> {
    if peers_may_lie(cx) {
        return Vec::new();
    }
    let mut changes: BTreeMap<&str, Changes> = BTreeMap::new();
    let mut asked: BTreeMap<Call, UserOperation<'_>> = BTreeMap::new();
    // How often each host has died.
    let mut deaths: BTreeMap<&str, u64> = BTreeMap::new();
    // The calls that are done in their order: the user, the file, and how often the host had died.
    let mut ordered: BTreeMap<Call, (&str, &str, u64)> = BTreeMap::new();
    // Of the answered calls that have an order: the newest one.
    let mut answered: BTreeMap<(&str, &str, u64), (Call, Time)> = BTreeMap::new();
    let mut done: Vec<DoneCall<'_>> = Vec::new();
    let mut found = Vec::new();
    for event in judged(cx) {
        match &event.what {
            EventKind::Asked { .. } => {
                let Some((call, operation)) = UserOperation::of(event) else { continue };
                let died = deaths.get(operation.host).copied().unwrap_or_default();
                ordered.extend(about(&operation).map(|(user, file)| (call, (user, file, died))));
                asked.insert(call, operation);
            }
            EventKind::Died { .. } => *deaths.entry(host(event)).or_default() += 1,
            EventKind::Effect { call, target } if target.starts_with(TARGET) => {
                changes.entry(target).or_default().push((event.at, *call));
                let newest = ordered.get(call).and_then(|own| answered.get(own));
                let newest = newest.filter(|(_, at)| *at < event.at);
                let newest = newest.inspect(|_| cx.judges("files_are_true"));
                found.extend(newest.filter(|(newest, _)| *newest > *call).map(
                    |(newest, answered)| {
                        let data = fields! { newer: newest.0, answered: *answered };
                        Violation::new("files_are_true", *call, event.at, &OVERTAKEN, data)
                    },
                ));
            }
            EventKind::Answered { call, answer } => {
                if let Some(own) = ordered.get(call).filter(|_| answer.acknowledges()) {
                    let newest = answered.entry(*own).or_insert((*call, event.at));
                    *newest = (*newest).max((*call, event.at));
                }
                done.extend(
                    asked.get(call).and_then(|asked| DoneCall::of(*call, asked, event.at, answer)),
                );
                // The user compares the answers to its tasks itself.
                let says =
                    asked.get(call).is_some_and(|it| it.operation.fields.contains_key("says"));
                if (says && answer.acknowledges()) || answer.done::<WrongBlock>().is_some() {
                    cx.judges("files_are_true");
                }
                found.extend(wrong(*call, event.at, answer));
                let Some(content) = answer.done::<FileContent>() else { continue };
                let Some((operation, file)) = asked.get(call).and_then(|operation| {
                    Some((operation, operation.operation.fields.get("file")?.as_str()?))
                }) else {
                    continue;
                };
                let changes = changes.get(&*target(&path(file))).map_or(&[][..], Vec::as_slice);
                cx.judges("files_are_true");
                found.extend(judge(*call, operation.at, event.at, content, changes));
            }
            _ => {}
        }
    }
    found.extend(passed(cx, &done, &changes));
    found
}

/// Returns a violation for each call that passed an earlier write of its user.
///
/// Both calls were done, so no cut has lost one of them: the client sends its calls in order, and a
/// read that it repeats comes even later. A change is recorded in the moment in which it happens, so the
/// order of the changes is the true one. `replaced` judges the changes before the user asked.
fn passed(
    cx: &CheckContext<'_>,
    done: &[DoneCall<'_>],
    changes: &BTreeMap<&str, Changes>,
) -> Vec<Violation> {
    let one = |later: &DoneCall<'_>| {
        let changes = changes.get(&*target(&path(later.file)))?;
        let own = changes.iter().rposition(|(_, by)| *by == later.writer)?;
        let earlier = done.iter().filter(|other| other.is_write() && other.is_before(later));
        let pending = earlier.filter_map(|earlier| {
            let change = changes.iter().position(|(_, by)| *by == earlier.call)?;
            let changed = changes[change].0;
            (changed >= later.asked.at).then_some((earlier.call, change, changed))
        });
        let mut pending = pending.inspect(|_| cx.judges("files_are_true"));
        let (earlier, _, changed) = pending.find(|(_, change, _)| *change > own)?;
        let data = fields! { writer: later.writer.0, earlier: earlier.0, changed };
        Some(Violation::new("files_are_true", later.call, later.answered, &PASSED, data))
    };
    done.iter().filter_map(one).collect()
}

/// Returns a violation for an answer that no file can have, or that the scenario excludes.
fn wrong(call: Call, at: Time, answer: &Answer) -> Option<Violation> {
    let violation = |kind, data| Violation::new("files_are_true", call, at, kind, data);
    let block = answer.done::<WrongBlock>();
    let task = answer.done::<WrongTask>().map(|WrongTask { task, said, wanted }| {
        violation(&OTHER_ANSWER, fields! { task: *task, said, wanted })
    });
    block.map(|WrongBlock(offset)| violation(&WRONG_END, fields! { offset: *offset })).or(task)
}

/// Returns the user and the file of a call that the server does in its order.
fn about<'a>(asked: &UserOperation<'a>) -> Option<(&'a str, &'a str)> {
    let is_in_order = matches!(asked.verb(), "write-file" | "read-file" | "remove-file");
    let file = asked.operation.fields.get("file")?.as_str()?;
    is_in_order.then_some((asked.host, file))
}

fn judge(
    call: Call,
    asked: Time,
    answered: Time,
    content: &FileContent,
    changes: &[(Time, Call)],
) -> Option<Violation> {
    let name = "files_are_true";
    let said = content.to_string();
    let Some(writer) = content.written_by.filter(|_| content.whole) else {
        return Some(Violation::new(name, call, answered, &TORN, fields! { content: said }));
    };
    let Some(written) = changes.iter().rposition(|(_, by)| by.0 == writer) else {
        return Some(Violation::new(name, call, answered, &UNWRITTEN, fields! { content: said }));
    };
    let replaced = changes[written + 1..].iter().map(|(at, _)| *at).find(|at| *at < asked);
    replaced.map(|since| {
        Violation::new(name, call, answered, &REPLACED, fields! { content: said, since })
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::violations;
    use super::*;
    use crate::history::Class;
    use crate::property::scripted::{ScriptedRun, history};

    /// Two writes of one user: the second is answered at 3 s.
    fn two_writes() -> ScriptedRun {
        let f1 = r#"{"file":"f1"}"#;
        let asked = history().asked_as(1, 1_000, Class::InFlight, "write-file", f1);
        let asked = asked.asked_as(2, 2_000, Class::InFlight, "write-file", f1);
        asked.effect(2, 2_900, "file /f1").answered(2, 3_000, "written")
    }

    #[test]
    fn the_answer_to_a_task_is_the_demanded_one() {
        let asked = || history().asked_as(1, 1_000, Class::InFlight, "use-files", "{}");
        let task = WrongTask { task: 2, said: "nothing".into(), wanted: "file a".into() };
        assert_eq!(
            violations(&asked().answered(1, 1_100, task), are_true),
            ["call 1: task 2 said `nothing`, but must say `file a` (at 1.100 s)"]
        );
        assert_eq!(violations(&asked().answered(1, 1_100, WrongBlock(4)), are_true).len(), 1);
        assert!(violations(&asked().answered(1, 1_100, "created"), are_true).is_empty());
    }

    #[test]
    fn an_older_write_does_not_come_after_a_newer_one_was_answered() {
        assert!(violations(&two_writes().effect(1, 3_000, "file /f1"), are_true).is_empty());
        assert_eq!(
            violations(&two_writes().effect(1, 3_001, "file /f1"), are_true),
            [
                "call 1: its content came into the file (at 3.001 s), but call 2 of the same user, which came later, had been answered at 3.000 s"
            ]
        );
    }

    #[test]
    fn a_restarted_client_does_not_wait_for_its_earlier_writes() {
        let f1 = r#"{"file":"f1"}"#;
        let found = |host: &str, died| {
            let asked = history().asked_as(1, 1_000, Class::InFlight, "write-file", f1);
            let again = asked.died(host, died).by("client");
            let again = again.asked_as(2, 2_000, Class::InFlight, "write-file", f1);
            let written = again.effect(2, 2_900, "file /f1").answered(2, 3_000, "written");
            violations(&written.effect(1, 3_001, "file /f1"), are_true).len()
        };
        assert_eq!([found("client", 1_500), found("client2", 1_500)], [0, 1]);
        let later = two_writes().died("client", 3_000).effect(1, 3_001, "file /f1");
        assert_eq!(violations(&later, are_true).len(), 1, "both calls came before the death");
    }

    #[test]
    fn a_call_does_not_pass_an_earlier_write() {
        let ended = |ms| two_writes().effect(1, ms, "file /f1").answered(1, 3_000, "written");
        assert!(violations(&ended(2_800), are_true).is_empty());
        assert_eq!(
            violations(&ended(2_950), are_true),
            [
                "call 2: it has the content of call 2, but call 1 of the same user, which came earlier, changed the file after that, at 2.950 s (at 3.000 s)"
            ]
        );
        let f1 = r#"{"file":"f1"}"#;
        let content = |call| FileContent { written_by: Some(call), bytes: 4, whole: true };
        let read = |by, ms, writer| {
            let run = two_writes().effect(1, 1_500, "file /f1");
            let asked = run.by(by).asked_as(3, ms, Class::Durable, "read-file", f1);
            violations(&asked.answered(3, 2_950, content(writer)), are_true)
        };
        assert_eq!(read("client", 2_500, 1).len(), 1);
        assert!(read("client", 2_500, 2).is_empty());
        assert!(read("client", 2_000, 1).is_empty(), "the order of the calls is unknown");
        assert!(read("client2", 2_500, 1).is_empty(), "another user may read earlier");
    }
}

//! `files_are_true`: what a user reads from a file is the complete content of one write, which no
//! later change had replaced when the user asked.
//!
//! The evidence: the answers of reads, which name the call that wrote the content, and the changes
//! that the files of the server recorded. If a change and a read happened in the same millisecond,
//! the property decides in favour of the subject.

use std::collections::BTreeMap;

use crate::history::{Call, EventKind, Time};
use crate::property::violation::{fields, kinds};
use crate::property::{CheckContext, Violation};
use crate::subjects::exec::files::{FileContent, TARGET, path, target};
use crate::subjects::exec::properties::served::UserOperation;
use crate::subjects::judging::{has_puppet, judged};

kinds! {
    pub(super) FILES_ARE_TRUE;
    TORN = "torn": "{subject:}it read {content}, which is no complete content {moment}";
    UNWRITTEN = "unwritten": "{subject:}it read {content}, but that call wrote nothing to the file before {moment}";
    REPLACED = "replaced": "{subject:}it read {content}, but the file had been changed at {since}, before the user asked {moment}";
}

/// The changes of one file, in order: when, and by which call.
type Changes = Vec<(Time, Call)>;

/// See the module.
pub(super) fn are_true(cx: &CheckContext<'_>) -> Vec<Violation> {
    if has_puppet(cx) {
        return Vec::new();
    }
    let mut changes: BTreeMap<&str, Changes> = BTreeMap::new();
    let mut asked: BTreeMap<Call, UserOperation<'_>> = BTreeMap::new();
    let mut found = Vec::new();
    for event in judged(cx) {
        match &event.what {
            EventKind::Asked { .. } => asked.extend(UserOperation::of(event)),
            EventKind::Effect { call, target } if target.starts_with(TARGET) => {
                changes.entry(target).or_default().push((event.at, *call));
            }
            EventKind::Answered { call, answer } => {
                let Some(content) = answer.done::<FileContent>() else { continue };
                let Some((operation, file)) = asked.get(call).and_then(|operation| {
                    Some((operation, operation.operation.fields.get("file")?.as_str()?))
                }) else {
                    continue;
                };
                let changes = changes.get(&*target(&path(file))).map_or(&[][..], Vec::as_slice);
                found.extend(judge(*call, operation.at, event.at, content, changes));
            }
            _ => {}
        }
    }
    found
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

//! The answers to single requests.

use std::time::{Duration, SystemTime};

use crate::history::{Answer, Content, ProcessOutcome, Time};
use crate::process::KILL;
use crate::property::violation::{fields, kinds};
use crate::property::{Violation, ViolationFields};
use crate::subjects::judging::peers_may_lie;
use crate::subjects::records;
use crate::subjects::sse::names::OVERHEAD;
use crate::subjects::sse::notes::{SeenRefusal, SeenStatus, SseFailure, SseNote};
use crate::subjects::sse::operations::SseOperation;
use crate::subjects::sse::story::{Process, Question, Story};
use crate::subjects::sse::tables::is_execd;
use crate::world::process::{ProcessEnd, UNKNOWN_EXIT};
use reknit_sse::client::Failure;
use reknit_sse::wire::{CommandStatus, Cursor, Ending};

kinds! {
    pub(super) CURSOR_IS_CHECKED;
    ACCEPTED = "accepted": "{subject:}the cursor `{cursor}` was accepted, but it is {wrong} {moment}";
    OTHER_REASON = "other-reason": "{subject:}the cursor `{cursor}` was refused as {code}, but it is {wrong} {moment}";
}

kinds! {
    pub(super) STATUS_IS_TRUE;
    STILL_RUNS = "still-runs": "{subject:}the server reported that the command runs, but the process had ended at {ended} {moment}";
    NOT_ENDED = "not-ended": "{subject:}the server reported that the command ended, but the process had not {moment}";
    OTHER_ENDING = "other-ending": "{subject:}the server reported the ending {reported}, but the true one is {outcome} {moment}";
    OTHER_COMMAND = "other-command": "{subject:}the server reported the command `{content}`, but the user started `{started}` {moment}";
    OTHER_TIME_SPAN = "other-time-span": "{subject:}the server reported that the command ran for {ran} ms, but it ran for {least} to {most} ms {moment}";
    OTHER_START = "other-start": "{subject:}the server reported that the command started at {began} of its clock, but it was asked for at {asked} and launched at {launched} {moment}";
    TOO_MANY_EVENTS = "too-many-events": "{subject:}the server reported event {last}, but there were {events} events {moment}";
    CONTRADICTS = "contradicts": "{subject:}the server reported a state whose {field} does not fit to its ending {moment}";
    TOO_FEW_EVENTS = "too-few-events": "{subject:}the server reported event {last}, but the process had printed {lines} lines before {asked} {moment}";
}

kinds! {
    pub(super) ENDINGS_ARE_TRUE;
    NOT_TIMED_OUT = "not-timed-out": "{subject:}{on} learned that the command ended because of its time limit, but no limit had passed {moment}";
    OTHER_TIME = "other-time": "{subject:}{on} learned that the command took {took} ms, but it took {least} to {most} ms {moment}";
    TIMED_OUT = "timed-out": "{subject:}{on} learned that the command was killed, but not that its time limit had passed {moment}";
}

kinds! {
    pub(super) REFUSAL_IS_TRUE;
    HAS_IT = "has-it": "{subject:}the server did not know the command, but it had launched it at {launched} {moment}";
    TOO_EARLY = "too-early": "{subject:}the server had dropped the log, but the command had ended only at {ended} {moment}";
    NOT_OVER = "not-over": "{subject:}the server had dropped the log of a command that runs {moment}";
}

kinds! {
    pub(super) SUCCESS_HAS_AN_ENDING;
    SOMEHOW = "somehow": "{subject:}{on} saw that the command has ended, but not how {moment}";
    MORE = "more": "{subject:}{on} continued after the ending, and received {item} {moment}";
}

kinds! {
    pub(super) OUTCOMES_STAY;
    OTHER = "other": "{subject:}the follower on {on} said {first}, and {then} when its user asked again {moment}";
}

/// The time that the server may take to learn of the end of a process.
const LEARNS: Duration = Duration::from_secs(1);

/// The size of the request of a command and of its ending in the log, at most.
const REQUEST: usize = 1024;

/// Returns the code of the refusal of a cursor, if the cursor is wrong. A user that knows a run of
/// the command puts it into the place of `RUN` in the cursor of the scenario.
fn wrong(asked: &str, sent: &str, knows_run: bool) -> Option<&'static str> {
    match sent.parse::<Cursor>() {
        _ if sent.is_empty() => None,
        Err(_) => Some("CURSOR_MALFORMED"),
        Ok(cursor) if cursor.epoch.is_some() && !(knows_run && asked.contains("RUN")) => {
            Some("CURSOR_FOREIGN")
        }
        Ok(cursor) if cursor.after > 9_999 => Some("CURSOR_FUTURE"),
        Ok(_) => None,
    }
}

/// The codes of refusals that may come before the check of the cursor.
const EARLIER: &[&str] = &["COMMAND_NOT_FOUND", "COMMAND_EXPIRED", "UNAUTHORIZED"];

pub(super) fn cursor_is_checked(story: &Story<'_>) -> Vec<Violation> {
    // A false server may answer anything, whatever cursor it is asked with.
    if peers_may_lie(story.cx) {
        return Vec::new();
    }
    let wrong = story.questions.iter().filter_map(|question| {
        let SseOperation::Ask { cursor, .. } = &question.operation else { return None };
        let (at, answer) = question.answer?;
        let (sent, knows_run) = question.sent?;
        let wrong = wrong(cursor, sent, knows_run)?;
        let is_foreign_now = !story.server_lived(Time::ZERO, at) && knows_run;
        let violation =
            |kind, data| Some(Violation::new("cursor_is_checked", question.call, at, kind, data));
        match answer {
            Answer::Queued(_) => {
                story.cx.judges("cursor_is_checked");
                violation(&ACCEPTED, fields! { cursor: cursor.clone(), wrong })
            }
            Answer::Refused(why) => {
                let code = why.downcast_ref::<SeenRefusal>()?.code.as_str();
                if EARLIER.contains(&code) && wrong != "CURSOR_MALFORMED" {
                    return None;
                }
                story.cx.judges("cursor_is_checked");
                let is_right = code == wrong || is_foreign_now && code == "CURSOR_FOREIGN";
                let data = fields! { cursor: cursor.clone(), code: code.to_owned(), wrong };
                (!is_right).then(|| violation(&OTHER_REASON, data)).flatten()
            }
            _ => None,
        }
    });
    wrong.collect()
}

/// Returns the process that a question is about, if it was launched once, and its server did not die.
pub(super) fn process<'s, 'a>(
    story: &'s Story<'a>,
    question: &Question<'_>,
) -> Option<&'s Process<'a>> {
    let process = story.processes.get(question.record.as_str())?;
    let (at, _) = question.answer?;
    let is_one = process.launched.len() == 1 && story.server_lived(Time::ZERO, at);
    is_one.then_some(process)
}

pub(super) fn status_is_true(story: &Story<'_>) -> Vec<Violation> {
    let untrue = story.questions.iter().filter_map(|question| {
        let (at, answer) = question.answer?;
        let SeenStatus(status) = answer.done()?;
        let process = process(story, question)?;
        story.cx.judges("status_is_true");
        let violation =
            |kind, data| Some(Violation::new("status_is_true", question.call, at, kind, data));
        let printed: usize = process
            .lines
            .iter()
            .map(|pipe| pipe.iter().filter(|(line, _)| *line <= at).count())
            .sum();
        let long =
            process.lines.iter().flatten().any(|(_, line)| line.len() > story.server.line_bytes);
        let events = printed as u64 + 1;
        if status.last > events && !long {
            return violation(&TOO_MANY_EVENTS, fields! { last: status.last, events });
        }
        let lines = lines_in_the_log(story, question, process, at);
        if status.last < lines {
            let asked = question.asked;
            return violation(&TOO_FEW_EVENTS, fields! { last: status.last, lines, asked });
        }
        if let Some(field) = contradiction(status) {
            return violation(&CONTRADICTS, fields! { field });
        }
        if let Some(data) = untrue_start(story, question, process, status) {
            return violation(&OTHER_START, data);
        }
        // A server that has forgotten the output may leave the text out.
        let started = records::declared(&question.record);
        if !status.content.is_empty() && status.content != started {
            let content = status.content.clone();
            return violation(&OTHER_COMMAND, fields! { content, started: started.to_owned() });
        }
        match (&status.ending, process.ended) {
            (None, Some((ended, _))) => {
                // The server has read the last output before it counts a command as ended.
                let learned = story.waits_until(&question.record, ended) + LEARNS;
                let is_late = learned < question.asked && story.is_prompt(at);
                is_late.then(|| violation(&STILL_RUNS, fields! { ended })).flatten()
            }
            (Some(_), None) => violation(&NOT_ENDED, fields! {}),
            (Some(_), Some((ended, _))) if ended > at => violation(&NOT_ENDED, fields! {}),
            (Some(reported), Some((ended, outcome))) => {
                let is_true = match (reported, outcome) {
                    (Ending::Exited(code), ProcessOutcome::Exit(real)) => *code == real,
                    (Ending::Killed(signal), ProcessOutcome::Signal(real)) => *signal == real,
                    (Ending::TimedOut, ProcessOutcome::Signal(real)) => {
                        real == KILL && limit_had_passed(story, &question.record, ended)
                    }
                    (Ending::Lost(_), ProcessOutcome::Exit(real)) => real == UNKNOWN_EXIT,
                    _ => false,
                };
                let data =
                    fields! { reported: format!("{reported:?}"), outcome: outcome.to_string() };
                if !is_true {
                    return violation(&OTHER_ENDING, data);
                }
                violation(&OTHER_TIME_SPAN, untrue_span(story, question, process, status)?)
            }
            (None, None) => None,
        }
    });
    untrue.collect()
}

/// Returns a field of a state that does not fit to its ending.
fn contradiction(status: &CommandStatus) -> Option<&'static str> {
    let code = status.ending.as_ref().map(|ending| match ending {
        Ending::Exited(code) => *code,
        Ending::Killed(_) | Ending::TimedOut => -1,
        Ending::NotStarted(_) | Ending::Lost(_) => 255,
    });
    let has_ended = code.is_some();
    let fits = [
        ("running", status.running != has_ended),
        ("exit_code", status.exit_code == code),
        ("error", status.error.is_empty() == code.is_none_or(|code| code == 0)),
        ("finished_at", status.finished_at.is_some() == has_ended),
    ];
    fits.into_iter().find_map(|(field, fits)| (!fits).then_some(field))
}

/// Returns how many lines of a process are in its log when the server answers a question, at least.
fn lines_in_the_log(
    story: &Story<'_>,
    question: &Question<'_>,
    process: &Process<'_>,
    at: Time,
) -> u64 {
    // Output may wait for a stream, and the server does not keep what a child prints after the end.
    let has_late_output = story.setup(&question.record).late_output.is_some();
    if !story.server.hold.is_zero() || has_late_output || !story.is_prompt(at) {
        return 0;
    }
    // A line without an end may have more bytes to come.
    let is_there = |(printed, line): &&(Time, &Content)| {
        *printed + LEARNS < question.asked && line.whole().ends_with(b"\n")
    };
    process.lines.iter().flatten().filter(is_there).count() as u64
}

/// The start of the wall clocks of a world: 2026-01-01 00:00 UTC, in milliseconds since 1970.
pub(super) const CLOCK: u64 = 1_767_225_600_000;

/// Compares the time of the start that a server reports with the request and the launch.
fn untrue_start(
    story: &Story<'_>,
    question: &Question<'_>,
    process: &Process<'_>,
    status: &CommandStatus,
) -> Option<ViolationFields> {
    let (at, _) = question.answer?;
    let began = humantime::parse_rfc3339(&status.started_at).ok()?;
    let began = began.duration_since(SystemTime::UNIX_EPOCH).map_or(0, millis);
    let began = Time(began.saturating_sub(CLOCK));
    let asked = story.starts_of(&question.record).next()?.asked;
    let launched = *process.launched.first()?;
    let exact = Duration::from_millis(1);
    let is_true = asked <= began + exact && began <= launched + exact;
    // A fault may set the clock of the server.
    let is_judged = story.is_prompt(at) && !peers_may_lie(story.cx);
    (!is_true && is_judged).then(|| fields! { began, asked, launched })
}

/// Compares the times of the start and of the end that a server reports with the life of a process. The
/// server reports when it took the request, and when it knew of the end.
fn untrue_span(
    story: &Story<'_>,
    question: &Question<'_>,
    process: &Process<'_>,
    status: &CommandStatus,
) -> Option<ViolationFields> {
    let (at, _) = question.answer?;
    let time = |text: &str| humantime::parse_rfc3339(text).ok();
    let (began, over) = (time(&status.started_at)?, time(status.finished_at.as_deref()?)?);
    let ran = over.duration_since(began).map_or(0, millis);
    let (ended, _) = process.ended?;
    let least = millis(ended.since(*process.launched.first()?)).saturating_sub(1);
    let asked = story.starts_of(&question.record).next()?.asked;
    let most = millis(at.since(asked)) + 1;
    let is_true = least <= ran && ran <= most;
    // A fault may set the clock of the server.
    let is_judged = story.is_prompt(at) && !peers_may_lie(story.cx);
    (!is_true && is_judged).then(|| fields! { ran, least, most })
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Whether the time limit of a command had passed at a time.
fn limit_had_passed(story: &Story<'_>, record: &str, at: Time) -> bool {
    let launched = story.processes.get(record).and_then(|process| process.launched.first());
    let limits = story.questions.iter().filter_map(|question| match &question.operation {
        SseOperation::Run { time_limit, .. } | SseOperation::Session { time_limit, .. } => {
            time_limit.filter(|_| question.record == record)
        }
        _ => None,
    });
    // The time of a command counts from its request.
    let mut passed =
        limits.map(|limit| launched.is_some_and(|launched| *launched + limit.0 <= at + LEARNS));
    passed.any(|passed| passed)
}

pub(super) fn endings_are_true(story: &Story<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    for ((on, record), notes) in &story.notes {
        let Some((ended, _)) = story.processes.get(record).and_then(|process| process.ended) else {
            continue;
        };
        let limited = limit_had_passed(story, record, ended);
        // Only its time limit can have killed it.
        let is_own = story.setup(record).exit.0 != ProcessEnd::Never
            || story.interrupts.contains_key(*record)
            || !story.is_prompt(ended);
        found.extend(notes.iter().filter_map(|(at, note)| match note {
            SseNote::Took(took) => untrue_time(story, (*on, *record), *at, *took),
            _ => None,
        }));
        found.extend(notes.iter().filter_map(|(at, note)| {
            let (kind, is_wrong) = match note {
                SseNote::Killed { timed_out: true } => (&NOT_TIMED_OUT, !limited),
                SseNote::Killed { timed_out: false } if limited && !is_own => (&TIMED_OUT, true),
                _ => return None,
            };
            story.cx.judges("endings_are_true");
            let data = fields! { on: *on };
            is_wrong.then(|| Violation::new("endings_are_true", *record, *at, kind, data))
        }));
    }
    found
}

/// Judges the time that a command took, as a user learned it: it is not shorter than the life of the process,
/// and not longer than the time since the command was asked for.
fn untrue_time(
    story: &Story<'_>,
    (on, record): (&str, &str),
    at: Time,
    took: u64,
) -> Option<Violation> {
    let process = story.processes.get(record)?;
    let (ended, _) = process.ended?;
    let asked = story.starts_of(record).next()?;
    let least = millis(ended.since(*process.launched.last()?)).saturating_sub(1);
    let most = millis(at.since(asked.asked)) + 1;
    let data = fields! { on: on.to_owned(), took, least, most };
    if peers_may_lie(story.cx) {
        return None;
    }
    story.cx.judges("endings_are_true");
    let is_true = least <= took && took <= most;
    (!is_true).then(|| Violation::new("endings_are_true", record, at, &OTHER_TIME, data))
}

pub(super) fn refusal_is_true(story: &Story<'_>) -> Vec<Violation> {
    if peers_may_lie(story.cx) {
        return Vec::new();
    }
    let refused = story.questions.iter().filter_map(|question| {
        let (at, answer) = question.answer?;
        let Answer::Refused(why) = answer else { return None };
        if matches!(
            question.operation,
            SseOperation::Wrong { .. } | SseOperation::InterruptSession { .. }
        ) {
            return None; // `refusals_are_true` judges it
        }
        let why = match (why.downcast_ref::<SseFailure>(), why.downcast_ref::<SeenRefusal>()) {
            (Some(SseFailure(Failure::NotFound | Failure::AnotherRun)), _) => Gone::Unknown,
            (Some(SseFailure(Failure::Expired)), _) => Gone::Expired,
            (_, Some(refusal)) if refusal.code == "COMMAND_NOT_FOUND" => Gone::Unknown,
            (_, Some(refusal)) if refusal.code == "COMMAND_EXPIRED" => Gone::Expired,
            _ => return None,
        };
        Some((at, question.asked, question.record.as_str(), why))
    });
    let failed = story.failures.iter().filter_map(|(at, _, record, why)| {
        let why = match why.downcast_ref::<SseFailure>()?.0 {
            Failure::NotFound | Failure::AnotherRun => Gone::Unknown,
            Failure::Expired => Gone::Expired,
            _ => return None,
        };
        Some((*at, *at, *record, why))
    });
    // A start whose answer was lost, after which the server did not know the command. Its first attempt may
    // arrive, and run the command, while that refusal is on its way.
    let lost = story.notes.iter().flat_map(|((on, record), notes)| {
        notes.iter().filter_map(|(at, note)| match note {
            SseNote::Failed(SseFailure(Failure::NotFound | Failure::AnotherRun)) => {
                Some((*at, story.unknown_at(on, record, *at), *record, Gone::Unknown))
            }
            _ => None,
        })
    });
    refused
        .chain(failed)
        .chain(lost)
        .filter_map(|(at, asked, record, why)| untrue(story, at, asked, record, why))
        .collect()
}

/// Why a command is not there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gone {
    Unknown,
    Expired,
}

fn untrue(story: &Story<'_>, at: Time, asked: Time, record: &str, why: Gone) -> Option<Violation> {
    let process = story.processes.get(record)?;
    let launched = *process.launched.last()?;
    if !story.server_lived(launched, at) || launched > asked {
        return None;
    }
    // An execd chooses the ids, and no user can guess one.
    if why == Gone::Unknown && is_execd(&story.cx.plan.defects) {
        return None;
    }
    story.cx.judges("refusal_is_true");
    let violation = |kind, data| Some(Violation::new("refusal_is_true", record, at, kind, data));
    match (why, process.ended) {
        (Gone::Unknown, Some((ended, _))) if is_forgotten(story, at, ended) => None,
        (Gone::Unknown, _) => violation(&HAS_IT, fields! { launched }),
        (Gone::Expired, None) => violation(&NOT_OVER, fields! {}),
        (Gone::Expired, Some((ended, _))) => {
            let is_early = !may_have_no_log(story, at, ended);
            is_early.then(|| violation(&TOO_EARLY, fields! { ended })).flatten()
        }
    }
}

/// Whether the server may remember nothing of a command: it remembers only so many after their logs.
fn is_forgotten(story: &Story<'_>, at: Time, ended: Time) -> bool {
    let over = story.processes.values().filter_map(|process| process.ended);
    let over = over.filter(|(over, _)| *over <= at).count();
    may_have_no_log(story, at, ended) && over > story.server.forgotten_commands
}

/// Whether the server may have dropped the log of a command that ended at `ended`.
fn may_have_no_log(story: &Story<'_>, at: Time, ended: Time) -> bool {
    at.since(ended) >= story.server.ended_retention || is_crowded_out(story, at, ended)
}

/// Whether the server may have dropped a log for lack of room.
pub(super) fn is_crowded(story: &Story<'_>, at: Time) -> bool {
    let starts = story.questions.iter().filter(|question| question.is_run()).count();
    let (count, bytes) = ended_logs(story, |_, ended| ended <= at);
    // A command that did not start is an ended one, too.
    count.max(starts) > story.server.ended_commands || bytes > story.server.ended_bytes
}

/// Whether the server may have dropped the log of a command that ended at `ended` for lack of room. The log
/// of the command that ended first goes first, so older ones do not count.
fn is_crowded_out(story: &Story<'_>, at: Time, ended: Time) -> bool {
    // Otherwise the server may learn of the ends in another order, or run commands of which the history
    // says nothing.
    if !story.is_prompt(at) || !story.cx.is_honest() {
        return is_crowded(story, at);
    }
    let (count, bytes) = ended_logs(story, |record, other| {
        other <= at && story.waits_until(record, other) + LEARNS >= ended
    });
    // The history does not say when a command ended that did not start.
    let is_missing = |question: &&Question<'_>| {
        let process = story.processes.get(question.record.as_str());
        question.starts_a_command() && process.is_none_or(|process| process.launched.is_empty())
    };
    let missing = story.questions.iter().filter(is_missing).count();
    count + missing > story.server.ended_commands
        || bytes + missing * REQUEST > story.server.ended_bytes
}

/// Returns how many commands ended at such a time, and the weight of their logs and requests, at most.
fn ended_logs(story: &Story<'_>, counts: impl Fn(&str, Time) -> bool) -> (usize, usize) {
    let (mut count, mut bytes) = (0, 0);
    for (record, process) in &story.processes {
        if !process.ended.is_some_and(|(ended, _)| counts(record, ended)) {
            continue;
        }
        count += 1;
        // A long line is several events.
        let weights = process.lines.iter().flatten().map(|(_, line)| {
            let events = line.len().div_ceil(story.piece_bytes);
            line.len() + OVERHEAD as usize * events
        });
        bytes += weights.sum::<usize>() + REQUEST;
    }
    (count, bytes)
}

/// Whether users of a host follow a command. The reader of a shell session is no follower.
fn follows(story: &Story<'_>, on: &str, record: &str) -> bool {
    let mut questions = story.questions.iter();
    questions.any(|question| question.follows() && question.host == on && question.record == record)
}

pub(super) fn success_has_an_ending(story: &Story<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    for ((on, record), notes) in &story.notes {
        found.extend(notes.iter().filter_map(|(at, note)| {
            let (kind, data) = match note {
                // The follower said how.
                SseNote::Took(_) if follows(story, on, record) => {
                    story.cx.judges("success_has_an_ending");
                    return None;
                }
                SseNote::EndedSomehow => (&SOMEHOW, fields! { on: *on }),
                SseNote::AfterTheEnding(item) => (&MORE, fields! { on: *on, item: item.clone() }),
                _ => return None,
            };
            story.cx.judges("success_has_an_ending");
            Some(Violation::new("success_has_an_ending", *record, *at, kind, data))
        }));
    }
    found
}

pub(super) fn outcomes_stay(story: &Story<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    // Each follower that has ended or failed is asked again. Only another outcome leaves a note.
    let of_streams = story.failures.iter().map(|(.., why)| *why);
    let of_calls = story.questions.iter().filter(|question| question.follows());
    let of_calls = of_calls.filter_map(|question| match question.answer {
        Some((_, Answer::Refused(why))) => Some(why),
        _ => question.failure.map(|(_, why)| why),
    });
    of_streams
        .chain(of_calls)
        .filter(|why| why.downcast_ref::<SseFailure>().is_some())
        .for_each(|_| story.cx.judges("outcomes_stay"));
    for ((on, record), notes) in &story.notes {
        found.extend(notes.iter().filter_map(|(at, note)| {
            let is_outcome = match note {
                SseNote::Took(_) => follows(story, on, record),
                SseNote::Failed(_) | SseNote::SaidAnother { .. } => true,
                _ => false,
            };
            if is_outcome {
                story.cx.judges("outcomes_stay");
            }
            let SseNote::SaidAnother { first, then } = note else { return None };
            let data = fields! { on: *on, first: first.clone(), then: then.clone() };
            Some(Violation::new("outcomes_stay", *record, *at, &OTHER, data))
        }));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cursor_has_one_reason_to_be_refused() {
        for (asked, sent, knows_run, reason) in [
            ("", "", false, None),
            ("3", "3", false, None),
            ("RUN-0", "7c0ffee15bad0042-0", true, None),
            ("x", "x", false, Some("CURSOR_MALFORMED")),
            ("-1", "-1", true, Some("CURSOR_MALFORMED")),
            ("99999", "99999", false, Some("CURSOR_FUTURE")),
            ("RUN-99999", "7c0ffee15bad0042-99999", true, Some("CURSOR_FUTURE")),
            ("RUN-0", "0000000000000000-0", false, Some("CURSOR_FOREIGN")),
            ("7c0ffee15bad0042-1", "7c0ffee15bad0042-1", true, Some("CURSOR_FOREIGN")),
        ] {
            assert_eq!(wrong(asked, sent, knows_run), reason, "{asked}");
        }
    }
}

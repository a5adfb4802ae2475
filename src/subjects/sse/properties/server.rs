//! The behavior of the server toward its streams and commands.

use std::time::Duration;

use super::followers::reads_at_once;
use crate::history::{Answer, Call, ConnIndex, Data, EventKind, ProcessOutcome, Time};
use crate::process::{KILL, TERMINATE};
use crate::property::Violation;
use crate::property::violation::{fields, kinds};
use crate::schedule::units::WrittenDuration;
use crate::subjects::judging::{judged, peers_may_lie};
use crate::subjects::sse::notes::SseFailure;
use crate::subjects::sse::operations::SseOperation;
use crate::subjects::sse::story::{Process, Question, Story, Wrong};
use crate::subjects::sse::tables::is_execd;
use crate::world::process::ProcessEnd;
use reknit_sse::client::Failure;

kinds! {
    pub(super) SERVER_KEEPS_THE_PROTOCOL;
    WRONG = "wrong": "{subject:}the client found {what} in a stream {moment}";
    FAILED = "failed": "{subject:}the client failed because of its server: {why} {moment}";
}

kinds! {
    pub(super) CONFLICT_IS_TRUE;
    ALONE = "alone": "{subject:}{on} was refused because of another stream, but there was none since {since} {moment}";
    FATAL = "fatal": "{subject:}{on} gave up at the first refusal because of another stream {moment}";
    OWN = "own": "{subject:}the server refused a stream to {on} because of another one, but no other reader asked for the command {moment}";
}

kinds! {
    pub(super) TAKEOVER_IS_DUE;
    OLDER = "older": "{subject:}a stream of an older connection replaced one of a newer connection that was attached at {attached} {moment}";
    TOO_EARLY = "too-early": "{subject:}a stream of {new} replaced one of {old} that was attached at {attached} {moment}";
    HEALTHY = "healthy": "{subject:}a stream of {new} replaced one of {old} that was attached at {attached} and made progress {moment}";
}

kinds! {
    pub(super) STALE_CLOSE_IS_INERT;
    ENDED_IT = "ended-it": "{subject:}the server ended the stream on this connection, after the late end of an older one at {late} {moment}";
}

kinds! {
    pub(super) PRODUCER_IS_NOT_DELAYED;
    HELD = "held": "{subject:}its users had no connection since {since}, it waits for {hold} and prints for {takes}, but it had not ended {moment}";
    DELAYED = "delayed": "{subject:}the process started at {launched} and prints for {takes}, but it had not ended {moment}";
}

kinds! {
    pub(super) COMMAND_LIVES_ON;
    KILLED = "killed": "{subject:}signal {signal} ended the process, but no user and no limit had asked for that {moment}";
}

kinds! {
    pub(super) ENDS_WHEN_ASKED;
    INTERRUPTED = "interrupted": "{subject:}the server accepted at {since} to interrupt the command, but its process had not ended {moment}";
    DELETED = "deleted": "{subject:}the server accepted at {since} to delete the session of the command, but its process had not ended {moment}";
    LOST_STREAM = "lost-stream": "{subject:}the stream of the command and its session was over at {since}, but its process had not ended {moment}";
    OVER_TIME = "over-time": "{subject:}the process started at {since}, and its time limit had passed, but it had not ended {moment}";
}

kinds! {
    pub(super) COMMANDS_ARE_BOUNDED;
    TOO_MANY = "too-many": "{subject:}{running} commands ran, but at most {most} may run {moment}";
    NOT_FULL = "not-full": "{subject:}the server refused the command because too many ran, but at most {running} of {most} ran since {asked} {moment}";
    HAS_IT = "has-it": "{subject:}the server refused the repeated start because too many commands ran, but it had launched the command at {launched} {moment}";
}

pub(super) fn server_keeps_the_protocol(story: &Story<'_>) -> Vec<Violation> {
    let name = "server_keeps_the_protocol";
    if peers_may_lie(story.cx) {
        return Vec::new();
    }
    // A client checks each stream and each answer. It notes only what is wrong.
    let conns = story.cx.history.conns.iter();
    let streams = conns.filter(|conn| !conn.is_labelled() && conn.received.0.is_some());
    streams.for_each(|_| story.cx.judges(name));
    let noticed = story.protocol.iter().map(|(at, on, wrong)| {
        story.cx.judges(name);
        let what = match wrong {
            Wrong::Hole => "a hole",
            Wrong::Duplicate => "an event that its user had",
            Wrong::EndedEarly => "a clean end without the ending of the command",
        };
        Violation::new(name, *on, *at, &WRONG, fields! { what })
    });
    let of_streams = story.failures.iter().map(|(at, on, _, why)| (*at, *on, *why));
    let of_calls = story.questions.iter().filter_map(|question| {
        let (at, why) = question.failure?;
        Some((at, question.host, why))
    });
    let failed = of_streams.chain(of_calls).filter_map(|(at, on, why)| {
        let failure = why.downcast_ref::<SseFailure>()?;
        story.cx.judges(name);
        let is_wrong = matches!(failure.0, Failure::Hole(_) | Failure::Protocol(_));
        let data = fields! { why: failure.to_string() };
        is_wrong.then(|| Violation::new(name, on, at, &FAILED, data))
    });
    noticed.chain(failed).collect()
}

/// A conflict that ended a follower: when, on which host, of which command, and the reason.
fn conflicts<'s>(
    story: &'s Story<'_>,
) -> impl Iterator<Item = (Time, &'s str, &'s str, &'s SseFailure)> {
    let of_streams = story.failures.iter().map(|(at, on, of, why)| (*at, *on, *of, *why));
    let of_calls = story.questions.iter().filter_map(|question| {
        let (at, answer) = question.answer?;
        let Answer::Refused(why) = answer else { return None };
        Some((at, question.host, question.record.as_str(), why))
    });
    let conflict = |why: &'s Data| why.downcast_ref::<SseFailure>().filter(|why| why.is_conflict());
    of_streams
        .chain(of_calls)
        .filter_map(move |(at, on, of, why)| Some((at, on, of, conflict(why)?)))
}

/// How many bytes the buffers between a server and a stuck reader can take, at most.
pub(super) const BUFFERS: u64 = 400 << 10;

pub(super) fn conflict_is_true(story: &Story<'_>) -> Vec<Violation> {
    let mut found = refused_alone(story);
    for (at, on, of, failure) in conflicts(story) {
        story.cx.judges("conflict_is_true");
        let violation = |kind, data| Violation::new("conflict_is_true", of, at, kind, data);
        if matches!(failure.0, Failure::Refused(_)) {
            found.push(violation(&FATAL, fields! { on }));
            continue;
        }
        // Another reader counts until the server may replace it.
        let margin = story.server.takeover_after + story.client.max_pause + Duration::from_secs(1);
        let since = at.before(story.client.budget.saturating_sub(margin));
        let is_calm = story.first_fault.is_none_or(|fault| fault > at);
        let is_full = printed(story, of, since) > BUFFERS && is_calm;
        let mut others = story.readers.get(of).into_iter().flatten().filter(|reader| {
            let counts = !reader.is_stuck || !is_full;
            let reads = reader.since <= at && reader.until + margin >= since;
            (reader.host != on || reader.is_stuck) && counts && reads
        });
        // A user that continues after a gap is a reader, too.
        let continues = story.notes.keys().any(|(host, record)| *record == of && *host != on);
        let own = story.notes.contains_key(&(on, of));
        if others.next().is_none() && !continues && !own && is_calm {
            found.push(violation(&ALONE, fields! { on, since }));
        }
    }
    found
}

/// Returns the refusals of followers because of another stream whose command no other reader ever asked for. Then the
/// other stream is an earlier one of the same follower, which replaces it at once, whether it is dead or not. So no
/// fault excuses this. A follower has one name for all its attempts, and the server refuses a late attempt that has an
/// older number for another reason.
fn refused_alone(story: &Story<'_>) -> Vec<Violation> {
    // A puppet may ask for any command, and an execd knows no owners.
    if !story.cx.is_honest() || is_execd(&story.cx.plan.defects) {
        return Vec::new();
    }
    for (on, attempts) in &story.attempts {
        if attempts.len() > 1 && reads_its_command_alone(story, on).is_some() {
            story.cx.judges("conflict_is_true");
        }
    }
    let refused = judged(story.cx).filter_map(|event| {
        let EventKind::Milestone { name: "sse.server.refused-active", fields } = &event.what else {
            return None;
        };
        let conn = story.cx.history.conns.get(ConnIndex::from_fields(fields)?.0)?;
        let on = conn.client.as_str();
        let record = reads_its_command_alone(story, on).filter(|_| !conn.is_labelled())?;
        Some(Violation::new("conflict_is_true", record, event.at, &OWN, fields! { on }))
    });
    refused.collect()
}

/// Returns the command of the only follower that a host ever had, if no other call asked for a stream of it.
fn reads_its_command_alone<'s>(story: &'s Story<'_>, on: &str) -> Option<&'s str> {
    let own = story.only_follower(on, Time::from(story.cx.plan.horizon))?;
    // Two commands with different records may have one id, if a user chose it.
    let chooses = |question: &Question<'_>| match &question.operation {
        SseOperation::Run { id, .. } => id.is_some(),
        SseOperation::Follow { command, .. }
        | SseOperation::Ask { command, .. }
        | SseOperation::Wrong { command, .. }
        | SseOperation::Listen { command, .. }
        | SseOperation::Stick { command, .. } => command.id.is_some(),
        _ => false,
    };
    let may_read = |question: &Question<'_>| {
        let opens_none = matches!(
            question.operation,
            SseOperation::Leave(_)
                | SseOperation::Interrupt(_)
                | SseOperation::Status(_)
                | SseOperation::Logs { .. }
        );
        question.call != own.call && question.record == own.record && !opens_none
    };
    let mut all = story.questions.iter();
    let is_alone = !all.any(|question| chooses(question) || may_read(question));
    is_alone.then_some(own.record.as_str())
}

/// Returns how many bytes a command had printed at a time.
fn printed(story: &Story<'_>, record: &str, at: Time) -> u64 {
    let lines =
        story.processes.get(record).into_iter().flat_map(|process| &process.lines).flatten();
    lines.filter(|(line, _)| *line <= at).map(|(_, bytes)| bytes.len() as u64).sum()
}

pub(super) fn takeover_is_due(story: &Story<'_>) -> Vec<Violation> {
    let host =
        |conn: ConnIndex| story.cx.history.conns.get(conn.0).map(|conn| conn.client.as_str());
    let early = story.attached.iter().filter_map(|(conn, attached)| {
        let (at, old) = attached.replaced?;
        let before = story.attached.get(&old)?.at;
        let (new_host, old_host) = (host(*conn)?, host(old)?);
        // A newer connection of the same host takes the stream at any time.
        if new_host != old_host || conn.0 < old.0 {
            story.cx.judges("takeover_is_due");
        }
        let is_early = at.since(before) < story.server.takeover_after;
        let kind = match new_host == old_host {
            false if is_early => &TOO_EARLY,
            false if makes_progress(story, old, at) => &HEALTHY,
            // Connections are numbered in the order in which they were opened.
            true if is_early && conn.0 < old.0 => &OLDER,
            _ => return None,
        };
        let data = fields! { new: new_host, old: old_host, attached: before };
        Some(Violation::new("takeover_is_due", new_host, at, kind, data))
    });
    early.collect()
}

/// Whether the connection of a stream has certainly taken bytes a short time ago: there was no fault, its user
/// reads at once, and the server sends a sign of life more often than others may take the stream.
fn makes_progress(story: &Story<'_>, conn: ConnIndex, at: Time) -> bool {
    let Some(conn) = story.cx.history.conns.get(conn.0) else { return false };
    // A connection for a single request has a label. Nobody may read from it.
    let is_read = !conn.name.contains('/') && reads_at_once(story, conn.client.as_str());
    let takes = story.cx.plan.latency.1 * 4 + Duration::from_millis(100);
    let is_calm = story.first_fault.is_none_or(|fault| fault > at);
    // A puppet reads as its script says, and a client does not read what a fault dropped.
    let may_lie = !story.cx.is_honest();
    let beats = story.server.heartbeat + takes < story.server.takeover_after;
    is_read && is_calm && beats && !may_lie
}

/// How long after a late close its effect can be seen.
const SOON: Duration = Duration::from_millis(200);

pub(super) fn stale_close_is_inert(story: &Story<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    for (late, old) in &story.late_closes {
        let newer = story.attached.iter().filter(|(_, attached)| {
            attached.replaced.is_some_and(|(_, replaced)| replaced == *old)
        });
        for (conn, _) in newer {
            if may_end_it(story, *late, *conn) {
                story.cx.judges("stale_close_is_inert");
            }
            // An end that the network caused is none of the server's doing.
            let Some(over) = story.server_closed.get(conn) else { continue };
            let client = story.client_over.get(conn);
            let own = client.is_some_and(|client| client <= over);
            let is_calm = !story.closed_for_a_reason.contains(conn) && !own;
            let is_soon = over >= late && over.since(*late) <= SOON;
            // The stream may be complete just then.
            let complete = story
                .processes
                .values()
                .any(|process| process.ended.is_some_and(|(ended, _)| ended <= *over));
            if is_calm
                && is_soon
                && !complete
                && story.server_lived(*late, *over)
                && !touched(story, *late, *over)
            {
                let subject = story.cx.history.conns[conn.0].name.as_str();
                found.push(Violation::new(
                    "stale_close_is_inert",
                    subject,
                    *over,
                    &ENDED_IT,
                    fields! { late: *late },
                ));
            }
        }
    }
    found
}

/// Whether the end of a connection soon after a late close would be an effect of that close: the connection is
/// there, and nothing else can end its stream yet.
fn may_end_it(story: &Story<'_>, late: Time, conn: ConnIndex) -> bool {
    let own = story.connections.get(&conn).and_then(|conn| conn.over);
    let has_client = story.client_over.get(&conn).is_none_or(|over| *over > late);
    let mut processes = story.processes.values();
    let complete = processes.any(|process| process.ended.is_some_and(|(ended, _)| ended <= late));
    own.is_none_or(|over| over >= late) && has_client && !complete && !touched(story, late, late)
}

/// Whether a fault began between two times.
fn touched(story: &Story<'_>, from: Time, to: Time) -> bool {
    story.cx.history.events.iter().any(|event| {
        (from..=to).contains(&event.at) && matches!(event.what, EventKind::FaultBegan { .. })
    })
}

pub(super) fn producer_is_not_delayed(story: &Story<'_>) -> Vec<Violation> {
    let (until, hold) = (Time::from(story.cx.plan.horizon), story.server.hold);
    let late = story.processes.iter().filter_map(|(record, process)| {
        let launched = *process.launched.first()?;
        let setup = story.setup(record);
        let prints = [setup.print, setup.stderr].into_iter().flatten();
        let takes =
            prints.map(|lines| lines.every.0 * u32::try_from(lines.lines).unwrap_or(u32::MAX));
        let takes = takes.max().unwrap_or_default();
        // With a hold, it waits for its users while they are there, and for the hold after that.
        let since =
            if hold.is_zero() { launched } else { unread_since(story, record)?.max(launched) };
        let bound = since + hold + takes + Duration::from_secs(1);
        let ends = matches!(setup.exit.0, ProcessEnd::Code(_) | ProcessEnd::Signal(_));
        if !ends || bound >= until || !story.is_prompt(bound) {
            return None;
        }
        story.cx.judges("producer_is_not_delayed");
        let is_late = process.ended.is_none_or(|(ended, _)| ended > bound);
        let takes = Time::from(takes);
        let (kind, data) = match hold.is_zero() {
            true => (&DELAYED, fields! { launched, takes }),
            false => (&HELD, fields! { since, takes, hold: Time::from(hold) }),
        };
        is_late.then(|| Violation::new("producer_is_not_delayed", *record, bound, kind, data))
    });
    late.collect()
}

/// Returns since when no host that asked about a command has a connection. `None` if one has.
fn unread_since(story: &Story<'_>, record: &str) -> Option<Time> {
    let asks = |host: &str| {
        story.questions.iter().any(|question| question.record == record && question.host == host)
    };
    // At the horizon, users ask again.
    let until = Time::from(story.cx.plan.horizon);
    let own = story.connections.values().filter(|conn| asks(conn.client) && conn.opened < until);
    own.map(|conn| conn.over).collect::<Option<Vec<_>>>()?.into_iter().max()
}

pub(super) fn command_lives_on(story: &Story<'_>) -> Vec<Violation> {
    let killed = story.processes.iter().filter_map(|(record, process)| {
        // A signal would have been wrong at least when the process began.
        let began = process.launched.first().copied().or(process.ended.map(|(at, _)| at))?;
        if [TERMINATE, KILL].iter().any(|signal| is_unasked(story, record, process, began, *signal))
        {
            story.cx.judges("command_lives_on");
        }
        let (at, ProcessOutcome::Signal(signal)) = process.ended? else { return None };
        let data = fields! { signal: signal.to_string() };
        is_unasked(story, record, process, at, signal)
            .then(|| Violation::new("command_lives_on", *record, at, &KILLED, data))
    });
    killed.collect()
}

/// Whether nothing can have asked for a signal that ends a process at a time.
fn is_unasked(
    story: &Story<'_>,
    record: &str,
    process: &Process<'_>,
    at: Time,
    signal: i32,
) -> bool {
    let over = |limit: &Option<WrittenDuration>| {
        limit.is_some_and(|limit| process.launched.iter().any(|launched| *launched + limit.0 <= at))
    };
    let limited = story.starts_of(record).any(|question| match &question.operation {
        SseOperation::Run { time_limit, .. } => over(time_limit),
        SseOperation::Session { time_limit, .. } => {
            over(time_limit)
                || may_have_lost_its_stream(story, question, at)
                || story.deletes_session_of(question, at)
                || story.is_left(story.sessions.get(&question.call).copied(), at)
        }
        _ => false,
    });
    let own = story.setup(record).exit.0 == ProcessEnd::Signal(signal) && signal == KILL;
    // The server may kill it only after its grace, which begins when the server has the request.
    let grace = if signal == KILL { story.server.interrupt_grace } else { Duration::ZERO };
    let asked = story.interrupts.get(record).is_some_and(|asked| *asked + grace <= at);
    // Before that, its server lived, and no fault kills processes.
    !limited && !own && !asked && story.is_prompt(at) && at < Time::from(story.cx.plan.horizon)
}

/// Whether the stream of a command of a shell session may be lost at a time, so that the command ends with
/// it: a fault began before, or its user has given it up.
fn may_have_lost_its_stream(story: &Story<'_>, question: &Question<'_>, at: Time) -> bool {
    let had_a_fault = story.first_fault.is_some_and(|fault| fault <= at);
    let has_no_answer = question.failure.is_some_and(|(failed, _)| failed <= at);
    let mut failures = story.failures.iter();
    let is_given_up = failures
        .any(|(failed, on, of, _)| *on == question.host && *of == question.record && *failed <= at);
    had_a_fault || has_no_answer || is_given_up
}

/// How long after its time a process may end.
const ENDS: Duration = Duration::from_secs(1);

pub(super) fn ends_when_asked(story: &Story<'_>) -> Vec<Violation> {
    let late = story.questions.iter().filter_map(|question| {
        let record = question.record.as_str();
        let process = story.processes.get(record)?;
        let launched = *process.launched.first()?;
        let setup = story.setup(record);
        let obeys = !setup.ignores.contains(&(TERMINATE as u8));
        let grace = if obeys { Duration::ZERO } else { story.server.interrupt_grace };
        let (kind, since, takes) = match (&question.operation, question.answer) {
            (SseOperation::Interrupt(_), Some((asked, Answer::Queued(_)))) => {
                (&INTERRUPTED, asked.max(launched), grace)
            }
            (SseOperation::InterruptSession { .. }, Some((asked, Answer::Queued(_))))
                if launched <= question.asked =>
            {
                (&INTERRUPTED, asked, grace)
            }
            (SseOperation::DeleteSession { .. }, Some((asked, Answer::Queued(_)))) => {
                (&DELETED, asked.max(launched), grace)
            }
            (SseOperation::Run { time_limit: Some(limit), .. }, _) => {
                (&OVER_TIME, launched, limit.0)
            }
            (SseOperation::Session { time_limit, .. }, _) => {
                // Its request came before its launch, and the connection of the request is the only reader that
                // it can have: the command ends with it, also if that connection never had its stream. A server
                // that died before may have left the process alive.
                let over = last_request_over(story, question.host, launched)
                    .filter(|over| story.server_lived(launched, *over));
                let lost = over.map(|over| (&LOST_STREAM, over.max(launched), grace));
                let limited = time_limit.map(|limit| (&OVER_TIME, launched, limit.0));
                // Each of the two ends it, so the one counts that is due first.
                let ends = lost.into_iter().chain(limited);
                ends.min_by_key(|(_, since, takes)| *since + *takes)?
            }
            _ => return None,
        };
        let bound = story.due(since, takes + ENDS)?;
        let in_time = process.ended.is_some_and(|(ended, _)| ended <= bound);
        let is_judged = process.launched.len() <= 1 && bound < Time::from(story.cx.plan.horizon);
        // A process that ends by itself shows nothing.
        let by_itself = process.ended.is_some_and(|(_, outcome)| match outcome {
            ProcessOutcome::Signal(signal) => setup.exit.0 == ProcessEnd::Signal(signal),
            _ => true,
        });
        if is_judged && !(in_time && by_itself) {
            story.cx.judges("ends_when_asked");
        }
        (is_judged && !in_time)
            .then(|| Violation::new("ends_when_asked", record, bound, kind, fields! { since }))
    });
    late.collect()
}

/// Returns when the last of the connections for single requests was over at the server that a host had
/// opened before a time. `None` if one of them is still there. The request of a session command has such a
/// connection. Those of followers bring nothing of it.
fn last_request_over(story: &Story<'_>, host: &str, before: Time) -> Option<Time> {
    let conns = &story.cx.history.conns;
    let is_request = |conn: ConnIndex| conns.get(conn.0).is_some_and(|conn| conn.is_labelled());
    let own = story.connections.iter().filter(|(conn, connected)| {
        connected.client == host && connected.opened <= before && is_request(**conn)
    });
    own.map(|(_, connected)| connected.over).collect::<Option<Vec<_>>>()?.into_iter().max()
}

/// How exactly the history names times.
const MOMENT: Duration = Duration::from_millis(1);

pub(super) fn commands_are_bounded(story: &Story<'_>) -> Vec<Violation> {
    let name = "commands_are_bounded";
    let most = story.server.running_commands as u64;
    let running = running_until(story, |_, ended| ended);
    // A process is over before the server has read its last output, and output may wait. A process
    // that ends in the millisecond of its launch has run.
    let counted = running_until(story, |record, ended| story.waits_until(record, ended) + MOMENT);
    // A server that died has left its processes to the next one.
    let lived = |at: Time| story.server_lived(Time::ZERO, at);
    let starts = story.questions.iter().filter(|question| question.starts_a_command());
    let is_few = starts.count() as u64 <= most;
    let mut full = running.iter().filter(|(at, running)| {
        // With fewer starts, no server can run too many commands.
        let is_judged = lived(*at) && (*running > most || *running == most && !is_few);
        if is_judged {
            story.cx.judges(name);
        }
        is_judged
    });
    let too_many = full.find(|(_, running)| *running > most);
    let too_many = too_many.map(|(at, running)| {
        Violation::new(name, Call::NONE, *at, &TOO_MANY, fields! { running: *running, most })
    });
    let refused = story.questions.iter().filter_map(|question| {
        let (at, Answer::Refused(why)) = question.answer? else { return None };
        let is_busy = why.downcast_ref::<SseFailure>()?.is_busy() && story.is_prompt(at);
        if !is_busy || !lived(at) {
            return None;
        }
        story.cx.judges(name);
        let (asked, slack) = (question.asked, Duration::from_secs(1));
        let before = counted.iter().rfind(|(since, _)| *since + slack <= asked);
        let since = counted.iter().filter(|(since, _)| *since + slack > asked && *since <= at);
        let ran = before.into_iter().chain(since).map(|(_, running)| *running).max().unwrap_or(0);
        let data = fields! { running: ran, most, asked };
        (ran < most).then(|| Violation::new(name, question.call, at, &NOT_FULL, data))
    });
    let has_it = story.busy.iter().filter_map(|(at, conn)| refused_again(story, *at, *conn));
    too_many.into_iter().chain(refused).chain(has_it).collect()
}

/// Judges the refusal of a start on a connection for lack of room: a command that was launched before needs none.
fn refused_again(story: &Story<'_>, at: Time, conn: ConnIndex) -> Option<Violation> {
    let conn = story.cx.history.conns.get(conn.0).filter(|conn| !conn.is_labelled())?;
    let (on, opened) = (conn.client.as_str(), conn.opened);
    // Followers whose start is not confirmed yet. The history does not say which of them has the connection.
    let may_ask = |question: &&Question<'_>| {
        let is_over = |over: Option<Time>| over.is_some_and(|over| over < opened);
        let answered = question.answer.map(|(at, _)| at);
        let failed = question.failure.map(|(at, _)| at);
        let mut readers = story.readers.get(&question.record).into_iter().flatten();
        let opens = readers.find(|reader| reader.call == question.call).map(|reader| reader.since);
        let is_start = question.is_run() && question.host == on && question.asked <= opened;
        is_start && !is_over(answered) && !is_over(failed) && !is_over(opens)
    };
    let asks: Vec<_> = story.questions.iter().filter(may_ask).collect();
    let is_known = story.processes.len() <= story.server.forgotten_commands
        && story.server_lived(Time::ZERO, at)
        && !is_execd(&story.cx.plan.defects);
    if asks.is_empty() || !is_known {
        return None;
    }
    story.cx.judges("commands_are_bounded");
    let launched = asks.into_iter().map(|question| {
        let process = story.processes.get(question.record.as_str())?;
        let launched = process.launched.first().copied().filter(|launched| *launched < at)?;
        Some((launched, question.record.as_str()))
    });
    // The last one may have been launched only after this refusal.
    let (launched, record) = launched.collect::<Option<Vec<_>>>()?.into_iter().max()?;
    let data = fields! { launched };
    Some(Violation::new("commands_are_bounded", record, at, &HAS_IT, data))
}

/// Returns how many processes ran, from each time at which the number changed. `until` is the time up
/// to which a process counts that ended at a time.
fn running_until(story: &Story<'_>, until: impl Fn(&str, Time) -> Time) -> Vec<(Time, u64)> {
    let mut changes: Vec<(Time, i64)> = Vec::new();
    for (record, process) in &story.processes {
        changes.extend(process.launched.iter().map(|at| (*at, 1)));
        changes.extend(process.ended.iter().map(|(at, _)| (until(record, *at), -1)));
    }
    changes.sort_unstable();
    let mut running = 0_i64;
    let running = changes.into_iter().map(|(at, change)| {
        running += change;
        (at, running.max(0) as u64)
    });
    running.collect()
}

//! The threads that commands leave behind.

use std::time::Duration;

use super::refusals::ENDS;
use super::shared::{is_in_use, news};
use crate::history::{Answer, Call, Time};
use crate::property::Violation;
use crate::property::violation::{fields, kinds};
use crate::schedule::{Action, Operation, Plan, Step};
use crate::subjects::turn::limits;
use crate::subjects::turn::notes::TurnNote;
use crate::subjects::turn::setup::{self, AppServerSetup, BROKER, Threads};
use crate::subjects::turn::story::{Run, Story};

kinds! {
    pub(in super::super) NO_THREAD_IS_LEFT;
    LEFT_BEHIND = "left-behind": "{subject:}the command left {thread} behind, and started its turn on {other} {moment}";
    MOVED = "moved": "{subject:}the command had asked a broker for {thread}, which was made at {made} and has no name, but its turn started on {other} {moment}";
    UNUSED = "unused": "{subject:}the user cancelled the command before its turn, but it left {thread} behind {moment}";
    UNNAMED = "unnamed": "{thread} has no name since {made}, and no command uses it {moment}";
}

/// The longest time for which a command leaves its thread without a name.
const NAMES: Duration = Duration::from_secs(10);

pub(in super::super) fn no_thread_is_left(story: &Story<'_>) -> Vec<Violation> {
    let left = story.runs.iter().filter_map(|run| {
        let (_, first) = run.thread()?;
        let (at, other) = run.notes.iter().find_map(|(at, note)| match note {
            TurnNote::Started { thread, .. } if thread != first => Some((*at, thread)),
            _ => None,
        })?;
        story.cx.judges("no_thread_is_left");
        let removed = run.notes.iter().any(|(removed, note)| {
            *removed <= at && matches!(note, TurnNote::Removed(thread) if thread == first)
        });
        let data = fields! { thread: first.to_owned(), other: other.clone() };
        (!removed).then(|| Violation::new("no_thread_is_left", run.call, at, &LEFT_BEHIND, data))
    });
    let unused = story.runs.iter().filter_map(|run| unused_thread(story, run));
    let moved = story.runs.iter().filter_map(|run| moved_from(story, run));
    left.chain(moved).chain(unused).chain(unnamed_threads(story)).collect()
}

/// A thread that the broker's app-server made for a command whose turn then started on another one. The
/// command does not know the thread, or whether there is one, so it must not move. Each command asks a broker
/// for one new thread at most. That of another command has a name, or its turn starts there.
fn moved_from(story: &Story<'_>, run: &Run<'_>) -> Option<Violation> {
    let (at, turn, other) = run.started()?;
    let uses_broker = |operation: &Operation| {
        let route = operation.fields.get("route").and_then(|route| route.as_str());
        !matches!(route, Some("direct" | "workspace"))
    };
    let is_at_broker =
        |id: &str| id.starts_with("turn-broker-") || id.starts_with("thread-broker-");
    if run.route() != "broker-or-direct" || is_at_broker(turn) || speaks(story.cx.plan) {
        return None;
    }
    if story.initialized.is_some_and(|ready| ready <= at) {
        story.cx.judges("no_thread_is_left");
    }
    let runs = story.runs.iter().filter(|other| other.call != run.call);
    let runs = runs.map(|other| (other.asked, other.operation, &other.notes));
    let jobs = story.jobs.jobs.values().map(|job| (job.asked, job.operation, &job.notes));
    let others: Vec<_> =
        runs.chain(jobs).filter(|(_, operation, _)| uses_broker(operation)).collect();
    let has = |notes: &[(Time, &TurnNote)], wanted: &dyn Fn(&str) -> bool| {
        notes.iter().any(|(_, note)| match note {
            TurnNote::Thread(thread) => wanted(thread),
            TurnNote::Started { turn, thread } => wanted(turn) || wanted(thread),
            _ => false,
        })
    };
    let (thread, made) = story.unnamed.iter().find(|(thread, made)| {
        let is_its = |id: &str| id == **thread;
        is_at_broker(thread)
            && **made >= run.asked
            && **made <= at
            && !others.iter().any(|(_, _, notes)| has(notes, &is_its))
    })?;
    let mut earlier = others.iter().filter(|(asked, _, _)| asked <= made);
    let is_own = earlier.all(|(_, _, notes)| has(notes, &is_at_broker));
    let data = fields! { thread: (*thread).to_owned(), made: *made, other: other.to_owned() };
    is_own.then(|| Violation::new("no_thread_is_left", run.call, at, &MOVED, data))
}

/// Whether a user sends lines to the broker by hand.
fn speaks(plan: &Plan) -> bool {
    plan.steps.iter().any(|step| match &step.action {
        Action::Operation(operation) => operation.verb == "speak",
        Action::Fault(_) => false,
    })
}

/// The thread of a new task that its user cancelled before the turn, or whose turn was refused. While
/// another command owns the broker, the broker refuses to delete a thread. An app-server that has exited
/// deletes none.
fn unused_thread(story: &Story<'_>, run: &Run<'_>) -> Option<Violation> {
    let (at, Answer::Refused(_)) = run.answer? else { return None };
    let has = |wanted: &TurnNote| run.notes.iter().any(|(_, note)| *note == wanted);
    let is_alone = story.runs.iter().all(|other| {
        let is_over = other.answer.is_some_and(|(over, _)| over < run.asked);
        other.call == run.call || is_over || other.asked > at
    });
    let is_unused = match has(&TurnNote::Refused) {
        true => is_alone && story.jobs.jobs.is_empty(),
        false => run.cancelled.is_some_and(|cancelled| {
            run.route() == "direct" || !is_in_use(story, run, cancelled, at)
        }),
    };
    let (_, thread) = run.thread()?;
    let bound = at + news(story.cx);
    let may_stay = !is_unused
        || broker_ended(story, run.asked, at)
        || run.started().is_some()
        || !story.is_calm_until(bound);
    if may_stay {
        return None;
    }
    story.cx.judges("no_thread_is_left");
    let data = fields! { thread: thread.to_owned() };
    let is_removed = has(&TurnNote::Removed(thread.to_owned()));
    (!is_removed).then(|| Violation::new("no_thread_is_left", run.call, at, &UNUSED, data))
}

/// Whether a broker ended in this span. The turn of another command may make its app-server exit.
fn broker_ended(story: &Story<'_>, since: Time, until: Time) -> bool {
    story.ended.iter().any(|end| *end >= since && *end <= until + ENDS)
}

/// The threads that a command made and neither named nor removed, in a run in which no command and no
/// broker is killed. A thread needs no name after its app-server has exited.
fn unnamed_threads(story: &Story<'_>) -> Vec<Violation> {
    let cx = story.cx;
    let kills = ["abandon", "kill-broker", "shutdown", "end-session"];
    let ends = |step: &Step| match &step.action {
        Action::Operation(operation) => kills.contains(&operation.verb.as_str()),
        Action::Fault(_) => true,
    };
    let is_told = |host: &str| {
        let AppServerSetup { threads, threads_take, .. } = setup::app_server(cx.plan, host);
        threads != Threads::Omitted
            && threads_take.0 + news(cx) < limits::connection(cx.limits).request
    };
    let mut hosts = cx.plan.client_hosts().map(|host| host.as_str().to_owned()).collect::<Vec<_>>();
    hosts.push(BROKER.to_owned());
    if cx.plan.steps.iter().any(ends) || !hosts.iter().all(|host| is_told(host)) {
        return Vec::new();
    }
    let is_judged = |made: Time| {
        let bound = made + NAMES;
        bound < Time::from(cx.plan.horizon) && !broker_ended(story, made, bound)
    };
    // The story keeps only the threads without a name. Those of the commands got theirs in time.
    let named = story.runs.iter().filter_map(Run::thread).filter(|(made, _)| is_judged(*made));
    named.for_each(|_| cx.judges("no_thread_is_left"));
    let unnamed = story.unnamed.iter().filter_map(|(thread, made)| {
        let bound = *made + NAMES;
        let data = fields! { thread: (*thread).to_owned(), made: *made };
        is_judged(*made)
            .then(|| Violation::new("no_thread_is_left", Call::NONE, bound, &UNNAMED, data))
    });
    unnamed.collect()
}

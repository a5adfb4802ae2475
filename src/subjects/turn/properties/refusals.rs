//! Commands that got no turn, and commands that moved to an app-server of their own: each had a reason.

use std::collections::BTreeSet;
use std::time::Duration;

use super::shared::{is_busy, is_in_use, is_over, news};
use crate::history::{Answer, Time};
use crate::property::Violation;
use crate::property::violation::{fields, kinds};
use crate::schedule::{Action, Limits, Plan};
use crate::subjects::turn::limits;
use crate::subjects::turn::outcome::SeenRefusal;
use crate::subjects::turn::setup::{self, BROKER, Initialize, Start, Threads};
use crate::subjects::turn::story::{Run, Story};
use reknit_turn::client::{ClientError, Place};
use reknit_turn::command::{NotStarted, Refusal};
use reknit_turn::wire::method;

kinds! {
    pub(in super::super) REFUSALS_ARE_TRUE;
    UNTRUE = "untrue": "{subject:}the command got no turn ({why}), but nothing was in its way {moment}";
}

kinds! {
    pub(in super::super) FALLBACK_IS_NEEDED;
    NOT_NEEDED = "not-needed": "{subject:}the command ran on an app-server of its own, but the broker was ready and idle {moment}";
    NO_BROKER = "no-broker": "{subject:}the command should find or start a broker on {on}, but none served there since {asked} {moment}";
    IDLE_BROKER = "idle-broker": "{subject:}the command ran on an app-server of its own, but the broker of its machine was ready and idle since {since} {moment}";
}

/// How long before a command its broker and its machine must be undisturbed.
const BEFORE: Duration = Duration::from_secs(6);

/// How long after its end a broker is over, at most.
pub(super) const ENDS: Duration = Duration::from_secs(4);

/// The name by which a broker introduces itself to its app-server.
const BROKER_NAME: &str = "\"name\":\"broker\"";

/// How long the machines need at the start of a run.
const BEGINS: Duration = Duration::from_millis(500);

pub(in super::super) fn refusals_are_true(story: &Story<'_>) -> Vec<Violation> {
    let untrue = story.runs.iter().filter_map(|run| {
        let (at, Answer::Refused(why)) = run.answer? else { return None };
        let SeenRefusal(error) = why.downcast_ref()?;
        if is_exempt(story, run, at, error) {
            return None;
        }
        story.cx.judges("refusals_are_true");
        let data = fields! { why: why.to_string() };
        (!is_true(story, run, at, error))
            .then(|| Violation::new("refusals_are_true", run.call, at, &UNTRUE, data))
    });
    untrue.collect()
}

/// Whether another property judges a refusal, or a fault or the end of a broker may have been in the way.
fn is_exempt(story: &Story<'_>, run: &Run<'_>, at: Time, error: &ClientError) -> bool {
    match error {
        ClientError::Cancelled { .. }
        | ClientError::NotStarted(NotStarted { refusal: Refusal::Cancelled, .. }) => false,
        // `busy_is_true` judges it.
        ClientError::NotStarted(why) if is_busy(&why.to_string()) => true,
        _ => !is_served(story, run, at),
    }
}

/// Whether the run explains why a command got no turn.
fn is_true(story: &Story<'_>, run: &Run<'_>, at: Time, error: &ClientError) -> bool {
    let set = story.cx.limits;
    let never_initializes =
        |on: &str| setup::app_server(story.cx.plan, on).initialize != Initialize::Answered;
    match error {
        ClientError::Cancelled { .. }
        | ClientError::NotStarted(NotStarted { refusal: Refusal::Cancelled, .. }) => {
            run.cancelled.is_some()
        }
        ClientError::NotStarted(NotStarted { refusal, .. }) => {
            starts_badly(story, run, (at, refusal), set)
        }
        ClientError::NotInitialized { place, .. } | ClientError::NotReady { place, .. } => {
            let on = if matches!(place, Place::Broker(_)) { BROKER } else { run.host };
            never_initializes(on) || is_full(story, run, at, set)
        }
        ClientError::CannotLaunch { .. } => run.is_unstartable(),
        ClientError::CannotConnect { .. } => {
            let has_broker = matches!(run.route(), "broker" | "broker-or-direct");
            has_broker && ends_uninitialized(story, at, set)
        }
        ClientError::NoBroker { .. } => false,
    }
}

/// Whether the broker ends at this time because its app-server has refused `initialize`, or did not answer it in
/// time. Such a broker accepts no clients. If its machine crashes before it has ended, nothing records its end.
fn ends_uninitialized(story: &Story<'_>, at: Time, set: &Limits) -> bool {
    let (process, named) = (format!("codex@{BROKER}-"), format!("\"{}\"", method::INITIALIZE));
    let asked = story.got.iter().rfind(|(asked, stream, got)| {
        *asked <= at && stream.starts_with(&process) && got.line().contains(&named)
    });
    let Some((asked, ..)) = asked else { return false };
    let own = setup::app_server(story.cx.plan, BROKER);
    let connection = limits::connection(set);
    let (request, takes) = (connection.request, own.initialize_takes.0);
    let after = match own.initialize {
        Initialize::Answered if takes < request => return false,
        Initialize::Answered | Initialize::Silent => request,
        Initialize::Exits | Initialize::Refused => takes.min(request),
    };
    let failed = *asked + after;
    // The broker ends only after its app-server.
    (failed..=failed + connection.close + connection.terminate + ENDS).contains(&at)
}

/// Whether an app-server of a command refused what it was asked for, or did not answer it in time.
fn starts_badly(
    story: &Story<'_>,
    run: &Run<'_>,
    (at, why): (Time, &Refusal),
    set: &Limits,
) -> bool {
    let setup = setup::turn(story.cx.plan, run.turn());
    let on: &[&str] = match run.route() {
        "broker" => &[BROKER],
        "broker-or-direct" => &[BROKER, run.host],
        _ => &[run.host],
    };
    let answers = |threads: Threads| {
        on.iter().any(|on| setup::app_server(story.cx.plan, on).threads == threads)
    };
    let request = limits::connection(set).request;
    let is_slow = setup.start == Start::Silent
        || setup.answers_after() + news(story.cx) >= request
        || on.iter().any(|on| makes_threads_slowly(story, on));
    let is_late = is_slow && run.asked + request <= at;
    match why {
        Refusal::Error { .. } => {
            let is_refused = run.refused().is_some_and(|refused| refused <= at);
            is_refused || is_late || answers(Threads::Refused)
        }
        Refusal::Unknown(_) => is_late || answers(Threads::Omitted),
        Refusal::NotSent(_) | Refusal::Cancelled => false,
    }
}

/// Whether the requests for a thread may take longer there than a client waits.
fn makes_threads_slowly(story: &Story<'_>, on: &str) -> bool {
    let request = limits::connection(story.cx.limits).request;
    setup::app_server(story.cx.plan, on).threads_take.0 + news(story.cx) >= request
}

/// Whether other clients may have taken all connections of the broker.
fn is_full(story: &Story<'_>, run: &Run<'_>, at: Time, set: &Limits) -> bool {
    let others = story.connections.values().filter(|connection| {
        let ended = connection.over.is_some_and(|over| over < run.asked);
        connection.server == BROKER && connection.opened <= at && !ended
    });
    others.count() > limits::broker(set).clients
}

/// Whether nothing was in the way of a command: no fault, and no end of the broker.
fn is_served(story: &Story<'_>, run: &Run<'_>, at: Time) -> bool {
    let since = run.asked.before(BEFORE);
    let ended = |end: Time| end >= since && end <= at + ENDS;
    let mut ends = story.ended.iter().chain(&story.shutdowns).copied();
    run.asked >= Time::ZERO + BEGINS
        && at + ENDS <= Time::from(story.cx.plan.horizon)
        && story.is_calm_between(since, at)
        && !ends.any(ended)
}

pub(in super::super) fn fallback_is_needed(story: &Story<'_>) -> Vec<Violation> {
    story.runs.iter().filter_map(|run| needless_fallback(story, run)).collect()
}

fn needless_fallback(story: &Story<'_>, run: &Run<'_>) -> Option<Violation> {
    let (at, turn, _) = run.started()?;
    let set = story.cx.limits;
    if run.route() == "workspace" {
        return without_broker(story, run, at).or_else(|| beside_broker(story, run, at, set));
    }
    if !is_served(story, run, at) || is_full(story, run, at, set) {
        return None;
    }
    let was_ready = story.initialized.is_some_and(|ready| ready <= run.asked);
    let is_prompt = !makes_threads_slowly(story, BROKER);
    let is_judged = run.route() == "broker-or-direct"
        && was_ready
        && is_prompt
        && !is_in_use(story, run, run.asked, at);
    if !is_judged {
        return None;
    }
    story.cx.judges("fallback_is_needed");
    let is_own = !turn.starts_with("turn-broker-");
    is_own.then(|| Violation::new("fallback_is_needed", run.call, at, &NOT_NEEDED, fields! {}))
}

/// The time in which a client finds out that a process was killed, at most.
const KILLED: Duration = Duration::from_millis(100);

/// Returns whether nothing was in the way of a command on its own machine, and its app-server works. A broker
/// that was killed before is no reason to have none.
fn is_undisturbed(story: &Story<'_>, run: &Run<'_>, at: Time) -> bool {
    let since = run.asked.before(BEFORE);
    let killed = run.asked.before(KILLED);
    let own = setup::app_server(story.cx.plan, run.host);
    let ends = |ended: Time| {
        let is_killed = story.was_killed(run.host, ended) && ended < killed;
        !is_killed && ended >= since && ended <= at + ENDS
    };
    let mut served = story.served.iter().filter(|served| served.on == run.host);
    own.initialize == Initialize::Answered
        && run.asked >= Time::ZERO + BEGINS
        && at + ENDS <= Time::from(story.cx.plan.horizon)
        && story.is_calm_after_deaths(since, at, killed)
        && !served.any(|served| served.ended.is_some_and(ends))
}

/// A command of a workspace whose turn started at this time, although no broker has served the machine since
/// the command was asked for.
fn without_broker(story: &Story<'_>, run: &Run<'_>, at: Time) -> Option<Violation> {
    if !is_undisturbed(story, run, at) {
        return None;
    }
    story.cx.judges("fallback_is_needed");
    let mut served = story.served.iter().filter(|served| served.on == run.host);
    let is_there = served
        .any(|served| served.began <= at && served.ended.is_none_or(|ended| ended >= run.asked));
    let data = fields! { on: run.host.to_owned(), asked: run.asked };
    (!is_there).then(|| Violation::new("fallback_is_needed", run.call, at, &NO_BROKER, data))
}

/// Whether a user does this. The record of a running broker that is damaged hides that broker.
pub(super) fn has(plan: &Plan, verb: &str) -> bool {
    plan.steps.iter().any(|step| match &step.action {
        Action::Operation(operation) => operation.verb == verb,
        Action::Fault(_) => false,
    })
}

/// A command of a workspace that did not use the broker of its machine, although that was ready and had no
/// work. The app-server of such a broker always has an account, also the empty one. That of a command has one
/// only if the command does.
fn beside_broker(story: &Story<'_>, run: &Run<'_>, at: Time, set: &Limits) -> Option<Violation> {
    let is_workspace = |other: &Run<'_>| other.host == run.host && other.route() == "workspace";
    let has_account = |run: &Run<'_>| run.account().is_some();
    if has_account(run) {
        return None;
    }
    let mut served = story.served.iter().filter(|served| served.on == run.host);
    let broker = served.find(|served| {
        served.began < run.asked && served.ended.is_none_or(|ended| ended > at + ENDS)
    })?;
    let since = broker.began;
    let mut others =
        story.runs.iter().filter(|other| other.call != run.call && is_workspace(other));
    // It had a turn of a command without an account, so it was ready, and works for the empty one.
    let has_served = others.clone().any(|other| {
        !has_account(other)
            && other.is_on_account("")
            && other.started().is_some_and(|(started, ..)| started > since && started < run.asked)
    });
    // Or its app-server was ready. A broker that no command with an account can have started works for the empty one.
    let is_ready =
        has_served || (!others.clone().any(has_account) && is_greeted(story, run, since));
    let is_free = |other: &Run<'_>| {
        let Some((answered, _)) = other.answer else { return other.asked > at };
        let is_done = other.gone().is_some() && other.left().is_none() || other.started().is_none();
        let is_known = is_over(story, other, run.asked) && story.is_calm_until(run.asked);
        let waits = match is_known {
            true => BEGINS,
            false => limits::broker(set).settle + limits::connection(set).request + ENDS,
        };
        other.asked > at || (is_done && answered + waits < run.asked)
    };
    // An interrupt by hand has a connection of its own.
    let clients = story.runs.len() + story.interrupts.len();
    let is_idle = others.all(is_free)
        && story.jobs.jobs.values().all(|job| job.host != run.host)
        && limits::broker(set).clients > clients
        && !has(story.cx.plan, "damage-broker");
    // A client may not have the time to find out that the broker works.
    let is_prompt = !makes_threads_slowly(story, run.host) && limits::start(set).probe >= BEGINS;
    let is_judged = is_ready && is_idle && is_prompt && is_undisturbed(story, run, at);
    if !is_judged {
        return None;
    }
    story.cx.judges("fallback_is_needed");
    let data = fields! { since };
    (!run.is_on_account(""))
        .then(|| Violation::new("fallback_is_needed", run.call, at, &IDLE_BROKER, data))
}

/// Whether a broker of the machine of a command that serves since this time said to its app-server that it is
/// initialized, some time before the command. Commands introduce themselves by another name.
fn is_greeted(story: &Story<'_>, run: &Run<'_>, since: Time) -> bool {
    let process = format!("codex@{}-", run.host);
    let (asks, says) = (
        format!("\"{}\"", method::INITIALIZE),
        format!("{{\"method\":\"{}\"}}", method::INITIALIZED),
    );
    let own = story.got.iter().filter(|(at, stream, _)| {
        *at >= since && *at + BEGINS < run.asked && stream.starts_with(&process)
    });
    let asked: BTreeSet<&str> = own
        .clone()
        .filter(|(.., got)| got.line().contains(&asks) && got.line().contains(BROKER_NAME))
        .map(|(_, stream, _)| *stream)
        .collect();
    own.filter(|(.., got)| got.line() == says).any(|(_, stream, _)| asked.contains(stream))
}

//! The ends of turns, of brokers and of app-servers: that they come, and come in time.

use std::time::Duration;

use super::refusals::has;
use super::shared::{ends, may_forget_news, may_lose_news, news, seen};
use super::works::MOST_FINISHED;
use crate::history::{Call, Time};
use crate::property::violation::{fields, kinds};
use crate::property::{CheckContext, Violation};
use crate::schedule::Operation;
use crate::subjects::turn::jobs::story::Job;
use crate::subjects::turn::limits;
use crate::subjects::turn::notes::TurnNote;
use crate::subjects::turn::outcome::SeenVerdict;
use crate::subjects::turn::setup::{
    self, Answer as AgentAnswer, BROKER, End, Initialize, Noise, Open, Start, TurnSetup,
};
use crate::subjects::turn::story::{Run, Story};
use reknit_turn::wire::method;

kinds! {
    pub(in super::super) ABANDONED_IS_INTERRUPTED;
    RUNS_ON = "runs-on": "{subject:}its client was gone at {gone}, but its turn still ran {moment}";
    CANCELLED_RUNS_ON = "cancelled-runs-on": "{subject:}the user cancelled it at {cancelled}, but its turn still ran {moment}";
    GIVEN_UP = "given-up": "{subject:}the client gave up the turn ({seen}) and did not interrupt it {moment}";
    SUBAGENT = "subagent": "{subject:}its client was gone at {gone}, but no interrupt named {thread}, on which a subagent had worked since {since} {moment}";
    BEGUN = "begun": "{subject:}its client was gone at {gone}, and the turn began at {began}, but no interrupt of it arrived {moment}";
    NAMED = "named": "{subject:}the broker knew at {known} that its client was gone, and the app-server named the turn at {named}, but no interrupt of it arrived {moment}";
}

kinds! {
    pub(in super::super) ENDING_IS_PROMPT;
    LATE = "late": "{subject:}the app-server was done with the turn at {over}, but the user still had no verdict {moment}";
    TOO_LONG = "too-long": "{subject:}the turn had started at {started}, and took longer than a turn may take, but the user still had no verdict {moment}";
}

kinds! {
    pub(in super::super) EXIT_IS_TRUE;
    UNASKED = "unasked": "the broker exited with 0, but no user had asked it to end {moment}";
    CRASHED = "crashed": "the broker was asked to end at {asked} and accepted that, but it did not exit with 0 {moment}";
}

kinds! {
    pub(in super::super) ENDS_IN_ORDER;
    KILLED = "killed": "an app-server on {on} was killed, although it would have ended by itself {moment}";
    HURRIED = "hurried": "an app-server on {on} got SIGTERM, although it would have ended by itself after the end of its input {moment}";
}

/// The length of a tick of stock turmoil.
const TICK: Duration = Duration::from_millis(1);

/// The longest time from the end of a client to the interruption of its turn.
const LEARNS: Duration = Duration::from_secs(3);

/// How long before a turn its machines must be undisturbed.
const BEFORE: Duration = Duration::from_secs(6);

pub(in super::super) fn abandoned_is_interrupted(story: &Story<'_>) -> Vec<Violation> {
    let cx = story.cx;
    let until = Time::from(cx.plan.horizon);
    let wrong = story.runs.iter().filter_map(|run| {
        let violation = |at, kind, data| {
            Some(Violation::new("abandoned_is_interrupted", run.call, at, kind, data))
        };
        let named = run.named()?;
        let waits_too_long = waits_too_long(cx, run.turn());
        // The app-server takes no interrupt before the turn begins.
        let begins = named + setup::turn(cx.plan, run.turn()).waits();
        let is_exempt = waits_too_long || run.left().is_some();
        let is_over = |at: Time| run.gone().is_some_and(|over| over <= at);
        if let Some(gone) = run.abandoned {
            let bound = gone.max(begins) + LEARNS + news(cx);
            let bound = refused(cx, run).map_or(bound, |refused| bound.max(refused));
            // The crash that ended the client may be the first fault.
            let is_calm = story.first_fault.is_none_or(|fault| fault == gone || fault > bound)
                && story.first_other_fault.is_none_or(|fault| fault > bound);
            if is_calm && !is_exempt && !is_over(gone) && bound < until {
                cx.judges("abandoned_is_interrupted");
                if !is_over(bound) {
                    return violation(bound, &RUNS_ON, fields! { gone });
                }
            }
        }
        if let Some(cancelled) = run.cancelled {
            let bound = cancelled.max(begins) + LEARNS + news(cx);
            let bound = refused(cx, run).map_or(bound, |refused| bound.max(refused));
            let is_calm = story.is_calm_until(bound);
            if is_calm && !is_exempt && !is_over(cancelled) && bound < until {
                cx.judges("abandoned_is_interrupted");
                if !is_over(bound) {
                    return violation(bound, &CANCELLED_RUNS_ON, fields! { cancelled });
                }
            }
        }
        let (at, outcome) = run.outcome()?;
        let decided = run.decided?;
        let knew = named + news(cx) < decided && story.is_calm_until(decided);
        let own_verdict = match outcome.verdict {
            SeenVerdict::Failed(_) => true,
            SeenVerdict::Interrupted => run.cancelled.is_some(),
            SeenVerdict::Completed => false,
        };
        // The interrupt may be why the turn is over by then.
        let is_interrupted = run.asked_to_interrupt().is_some_and(|asked| asked <= decided);
        let runs_on = || {
            run.reported().is_none_or(|(reported, _)| reported > decided)
                && !is_over(decided)
                && !interrupts_its_thread(story, run, decided)
        };
        if !own_verdict || is_exempt || !knew || !(is_interrupted || runs_on()) {
            return None;
        }
        cx.judges("abandoned_is_interrupted");
        let seen = seen(&outcome.verdict);
        (!is_interrupted).then(|| violation(at, &GIVEN_UP, fields! { seen })).flatten()
    });
    let begun = story.runs.iter().filter_map(|run| begun_alone(story, run));
    let named = story.runs.iter().filter_map(|run| named_alone(story, run));
    wrong
        .chain(story.runs.iter().filter_map(|run| left_subagent(story, run)))
        .chain(begun)
        .chain(named)
        .collect()
}

/// Whether the app-server got an interrupt of whatever runs on the thread of a command after its client had given
/// up. The broker holds a start back while an abandoned turn may run on the thread, but it passes interrupts at once.
/// So the interrupt may come before the start, or hit the abandoned turn. A client sends one interrupt, and the
/// broker interrupts the turn when it has gone. The app-server cannot tell such an interrupt from those that the
/// broker sends for the abandoned turn.
fn interrupts_its_thread(story: &Story<'_>, run: &Run<'_>, decided: Time) -> bool {
    let Some((began, _, thread)) = run.started() else { return false };
    let interrupt = limits::turn(story.cx.limits).interrupt;
    // Its client waits for the answer to the interrupt, but not longer than this.
    let sent = decided.before(interrupt + TICK);
    // A turn that waits before it begins is named as soon as the app-server has its start.
    let got_start = run.named().map_or(began, |named| named.min(began));
    let on_thread = format!("\"threadId\":\"{thread}\"");
    story.got.iter().any(|(at, _, got)| {
        let line = got.line();
        (sent..=got_start.max(decided)).contains(at)
            && line.contains(method::TURN_INTERRUPT)
            && line.contains(&on_thread)
            && line.contains("\"turnId\":\"\"")
    })
}

/// A turn that begins after its client has gone. The app-server has refused to interrupt it until then, and the
/// broker does that at the news of its begin, unless it has given the turn up.
fn begun_alone(story: &Story<'_>, run: &Run<'_>) -> Option<Violation> {
    let cx = story.cx;
    let set = cx.limits;
    let broker = limits::broker(set);
    let setup = setup::turn(cx.plan, run.turn());
    let (began, turn, _) = run.started()?;
    let (gone, known) = (run.abandoned?, story.broker_learned(run)?);
    let bound = began + LEARNS + news(cx);
    // The broker gives the turn up after that.
    let is_awaited = known + news(cx) < began && began + news(cx) < gone + broker.settle;
    let is_owned = began + broker.settle < run.asked + broker.turn;
    let is_calm = story.first_fault.is_none_or(|fault| fault == gone || fault > bound)
        && story.first_other_fault.is_none_or(|fault| fault > bound)
        && story.shutdowns.iter().chain(&story.ended).all(|ended| *ended > bound);
    let is_judged = !setup.waits().is_zero()
        && turn.starts_with("turn-broker-")
        && is_awaited
        && is_owned
        && is_calm
        && bound < Time::from(cx.plan.horizon);
    let is_over = run.gone().is_some_and(|over| over <= bound);
    let is_asked = run.notes.iter().any(|(at, note)| {
        let asks = matches!(note, TurnNote::Interrupted | TurnNote::InterruptRefused);
        asks && (began..=bound).contains(at)
    });
    // The interrupt may be why the turn is over by then.
    if !is_judged || run.left().is_some() || is_over && !is_asked {
        return None;
    }
    cx.judges("abandoned_is_interrupted");
    (!is_asked).then(|| {
        let data = fields! { gone, began };
        Violation::new("abandoned_is_interrupted", run.call, bound, &BEGUN, data)
    })
}

/// A turn that the app-server names only after its client has given it up and has gone. Until then, no command can
/// interrupt it: the thread of a detached review is as unknown as its turn. The broker does that at once, also if it
/// has given the turn up. The turns of users who cancel or abandon them are judged elsewhere.
fn named_alone(story: &Story<'_>, run: &Run<'_>) -> Option<Violation> {
    let cx = story.cx;
    let broker = limits::broker(cx.limits);
    let (_, turn, _) = run.started()?;
    let (named, known) = (run.named()?, story.broker_learned(run)?);
    let bound = named + LEARNS + news(cx);
    let is_left = run.abandoned.is_none() && run.cancelled.is_none() && known + news(cx) < named;
    // A broker forgets the oldest of many starts. Raw lines may start turns, too.
    let starts = story.runs.len() + story.jobs.jobs.len();
    let is_remembered = starts <= MOST_FINISHED && !has(cx.plan, "speak");
    // The request has its deadline before the time of the turn is over. So the broker knows that no client waits.
    let is_abandoned = broker.connection.request < broker.turn;
    let is_judged = is_left
        && is_remembered
        && is_abandoned
        && turn.starts_with("turn-broker-")
        && setup::turn(cx.plan, run.turn()).waits().is_zero()
        && run.left().is_none()
        && story.is_calm_until(bound)
        && story.ended.iter().all(|ended| *ended > bound)
        && bound < Time::from(cx.plan.horizon);
    let is_over = run.gone().is_some_and(|over| over <= bound);
    let is_asked = run.notes.iter().any(|(at, note)| {
        let asks = matches!(note, TurnNote::Interrupted | TurnNote::InterruptRefused);
        asks && *at <= bound
    });
    // The interrupt may be why the turn is over by then.
    if !is_judged || is_over && !is_asked {
        return None;
    }
    cx.judges("abandoned_is_interrupted");
    (!is_asked).then(|| {
        let data = fields! { known, named };
        Violation::new("abandoned_is_interrupted", run.call, bound, &NAMED, data)
    })
}

/// Whether a turn waits for longer before it begins than the broker waits for its end.
pub(in super::super) fn waits_too_long(cx: &CheckContext<'_>, turn: &str) -> bool {
    let settle = limits::broker(cx.limits).settle;
    let waits = setup::turn(cx.plan, turn).waits();
    !waits.is_zero() && waits + news(cx) * 2 >= settle
}

/// A subagent whose turn has lost its client. The broker interrupts it, too. The notes of the app-server say
/// when it works, and its input says what it was asked.
fn left_subagent(story: &Story<'_>, run: &Run<'_>) -> Option<Violation> {
    let cx = story.cx;
    let set = cx.limits;
    let until = Time::from(cx.plan.horizon);
    let setup = setup::turn(cx.plan, run.turn());
    let (started, turn, _) = run.started()?;
    let gone = story.broker_learned(run)?;
    let bound = gone + LEARNS + news(cx);
    let since = run.works().filter(|since| *since + news(cx) < gone)?;
    // Then nothing but the subagent is open.
    let is_alone = setup.subagents == 1 && setup.open == Open::None && setup.noise != Noise::Work;
    // The app-server reports the turn of such a subagent only at its end. Nothing but the answer to its
    // start names the thread of a detached review, and an inner turn takes room.
    let is_known = !setup.subagent.is_reported_last()
        && !setup.detached
        && !setup.inner
        && turn.starts_with("turn-broker-")
        && !may_lose_news(story, &setup);
    let request = limits::connection(set).request;
    let was_prompt = started.since(run.asked) + setup.answers_after() + news(cx) < request;
    // The broker gives up a turn that takes too long.
    let was_in_time = gone < run.asked + limits::broker(set).turn;
    let is_judged = is_alone
        && is_known
        && was_prompt
        && was_in_time
        && story.ended.iter().all(|ended| *ended > bound)
        && story.is_calm_until(bound)
        && bound < until;
    let thread = format!("{turn}-agent-1");
    let named = format!("\"{thread}\"");
    let is_interrupted = story.got.iter().any(|(at, _, got)| {
        let line = got.line();
        *at <= bound && line.contains(method::TURN_INTERRUPT) && line.contains(&named)
    });
    // The interrupt may be why the subagent rests by then.
    let works = run.rests().is_none_or(|rests| rests > bound);
    if !is_judged || !(is_interrupted || works) {
        return None;
    }
    cx.judges("abandoned_is_interrupted");
    (!is_interrupted).then(|| {
        let data = fields! { gone, thread, since };
        Violation::new("abandoned_is_interrupted", run.call, bound, &SUBAGENT, data)
    })
}

/// Returns when a turn must be interrupted whose first interrupt the app-server refused: its client waits
/// for the end of the turn, and then the broker repeats the interrupt.
fn refused(cx: &CheckContext<'_>, run: &Run<'_>) -> Option<Time> {
    let interrupt = limits::turn(cx.limits).interrupt;
    Some(run.interrupt_refused()? + interrupt * 2 + LEARNS + news(cx))
}

pub(in super::super) fn ending_is_prompt(story: &Story<'_>) -> Vec<Violation> {
    let cx = story.cx;
    let until = Time::from(cx.plan.horizon);
    let late = story.runs.iter().filter_map(|run| {
        let (over, allowed) = done(story, run)?;
        let bound = over + allowed + news(cx) * 2;
        let in_time = run.answer.is_some_and(|(at, _)| at <= bound);
        if run.abandoned.is_some() || bound >= until || !story.is_calm_until(bound) {
            return None;
        }
        cx.judges("ending_is_prompt");
        (!in_time).then(|| {
            let data = fields! { over };
            Violation::new("ending_is_prompt", run.call, bound, &LATE, data)
        })
    });
    late.chain(story.runs.iter().filter_map(|run| too_long(story, run))).collect()
}

/// A turn that takes longer than its client allows. The deadline is the client's own, so the network
/// excuses nothing. It runs from the request for the turn, and the app-server has that when it starts the turn.
fn too_long(story: &Story<'_>, run: &Run<'_>) -> Option<Violation> {
    let cx = story.cx;
    let set = cx.limits;
    let (turn, connection) = (limits::turn(set), limits::connection(set));
    let (started, ..) = run.started()?;
    // The broker refuses a start that takes too long, and then the command may ask again. Each time, the
    // deadline runs anew.
    let setup = setup::turn(cx.plan, run.turn());
    let held = started.since(run.asked);
    let starts = run.notes.iter().filter(|(_, note)| matches!(note, TurnNote::Started { .. }));
    let was_prompt =
        starts.count() == 1 && held + setup.answers_after() + news(cx) < connection.request;
    // A broker that ends refuses the start, and then the command tries to remove its thread.
    let most = turn.absolute.max(connection.request * 2);
    let waits = turn.interrupt * 2 + ends(set) + connection.terminate + news(cx) * 2;
    let bound = started + most + waits;
    let in_time = run.answer.is_some_and(|(at, _)| at <= bound);
    let runs = |on: &str| story.runs_between(on, run.asked.before(BEFORE), bound);
    let is_judged = was_prompt
        && run.abandoned.is_none()
        && runs(run.host)
        && runs(BROKER)
        && bound < Time::from(cx.plan.horizon);
    if !is_judged {
        return None;
    }
    cx.judges("ending_is_prompt");
    let data = fields! { started };
    (!in_time).then(|| Violation::new("ending_is_prompt", run.call, bound, &TOO_LONG, data))
}

/// Returns when the app-server was done with a turn, and how long the client may then take. A refused
/// turn did not run: its client removes the thread first, and the broker can be busy meanwhile.
fn done(story: &Story<'_>, run: &Run<'_>) -> Option<(Time, Duration)> {
    let cx = story.cx;
    let set = cx.limits;
    let (turn, connection) = (limits::turn(set), limits::connection(set));
    let setup = setup::turn(cx.plan, run.turn());
    if setup.start == Start::Refused {
        return None;
    }
    if setup.start == Start::Silent {
        // While the broker is busy, the command asks again.
        let (_, thread) = run.thread()?;
        let asked = story.asked_to_start(thread)?;
        return Some((asked, connection.request + turn.interrupt * 2 + ends(set)));
    }
    // The broker gives up a start that takes too long. Then only the deadlines of the client count.
    if setup.answers_after() + news(cx) >= connection.request {
        return None;
    }
    let ends = ends(set);
    if let Some((reported, _)) = run.reported() {
        return Some((reported, ends + turn.interrupt));
    }
    if let Some(left) = run.left() {
        // After the next final answer, silence counts again.
        let since = run.final_answer().unwrap_or(run.asked);
        let deadline = match setup.end {
            End::Error => turn.follow_up,
            _ if infers(&setup)
                && !may_forget_news(story, run, left)
                && !hears_noise(story, run, since, left + turn.inference) =>
            {
                turn.inference
            }
            // Each unreadable line ends the silence, and then more of them may come.
            _ if hears_noise(story, run, left, left + turn.idle) => turn.absolute,
            _ => turn.idle.min(turn.absolute),
        };
        return Some((left, deadline + turn.interrupt + ends));
    }
    Some((run.gone()?, ends))
}

/// Whether the client infers the end of a turn without a report.
fn infers(setup: &TurnSetup) -> bool {
    setup.answer == AgentAnswer::Final
        && !setup.answer_at_end
        && !setup.late_work
        && setup.noise != Noise::Work
        && setup.open == Open::None
}

/// Whether the client of a turn may have got an unreadable line of another turn in this span. The broker
/// passes such a line to the client that it works for: the line may be news of that one. The app-server may
/// still send it for a turn that its own client has left, until it accepts the interrupt.
fn hears_noise(story: &Story<'_>, run: &Run<'_>, since: Time, by: Time) -> bool {
    let is_noisy = |name: &str| {
        let setup = setup::turn(story.cx.plan, name);
        setup.unreadable > 0 || matches!(setup.noise, Noise::Line | Noise::Fields | Noise::Work)
    };
    let overlaps = |started: Option<Time>, gone: Option<Time>| {
        started.is_some_and(|started| started <= by) && gone.is_none_or(|gone| gone >= since)
    };
    // A turn on the route `direct` has an app-server of its own.
    let is_direct = |operation: &Operation| {
        operation.fields.get("route").and_then(|route| route.as_str()) == Some("direct")
    };
    let others = story.runs.iter().filter(|other| other.call != run.call);
    let mut others = others.filter(|other| is_noisy(other.turn()) && !is_direct(other.operation));
    let jobs = story.jobs.jobs.values();
    let mut jobs = jobs.filter(|job| is_noisy(job.turn()) && !is_direct(job.operation));
    run.route() != "direct"
        && (others.any(|other| overlaps(other.started().map(|(at, ..)| at), other.gone()))
            || jobs.any(|job| overlaps(job.started(), job.over())))
}

pub(in super::super) fn exit_is_true(story: &Story<'_>) -> Vec<Violation> {
    let cx = story.cx;
    let until = Time::from(cx.plan.horizon);
    let set = cx.limits;
    let (broker, connection) = (limits::broker(set), limits::connection(set));
    let ends = broker.shutdown + connection.close + connection.terminate * 2 + broker.linger * 2;
    let zeros = || story.exits.iter().filter(|(_, status)| *status == 0).map(|(at, _)| *at);
    let unasked = story
        .exits
        .iter()
        .filter(|(exit, _)| !story.shutdowns.iter().any(|asked| asked <= exit))
        .inspect(|_| cx.judges("exit_is_true"))
        .filter(|(_, status)| *status == 0);
    let unasked = unasked
        .map(|(exit, _)| Violation::new("exit_is_true", Call::NONE, *exit, &UNASKED, fields! {}));
    let crashed = story.accepted.iter().filter_map(|&(asked, answered)| {
        let bound = answered + ends + Duration::from_secs(1);
        let is_alive = story.broker_died.is_none_or(|died| died > bound);
        let has_ended = zeros().any(|exit| asked <= exit && exit <= bound);
        // A host that does not run cannot exit in time.
        let is_held = story.first_host_fault.is_some_and(|fault| fault <= bound);
        if !is_alive || is_held || bound >= until {
            return None;
        }
        cx.judges("exit_is_true");
        (!has_ended)
            .then(|| Violation::new("exit_is_true", Call::NONE, bound, &CRASHED, fields! { asked }))
    });
    unasked.chain(crashed).collect()
}

pub(in super::super) fn ends_in_order(story: &Story<'_>) -> Vec<Violation> {
    let cx = story.cx;
    let until = Time::from(cx.plan.horizon);
    let connection = limits::connection(cx.limits);
    let is_calm = |at: Time| at < until && story.first_fault.is_none_or(|fault| fault > at);
    let is_orderly = |on: &str| {
        let stubborn = setup::app_server(cx.plan, on);
        stubborn.initialize == Initialize::Answered
            && (stubborn.ends_with_its_input(connection.close)
                || stubborn.ends_when_asked(connection.terminate))
    };
    // Only a kill is recorded. An app-server that ends in order does so before its command, or its broker.
    let own = story.runs.iter().filter_map(|run| {
        let (at, _) = run.outcome()?;
        let (_, turn, _) = run.started()?;
        let is_own = run.route() != "workspace" && !turn.starts_with("turn-broker-");
        (is_own && run.abandoned.is_none()).then_some((at, run.host))
    });
    let of_brokers = story.exits.iter().map(|(at, _)| (*at, BROKER));
    let ended = own.chain(of_brokers).filter(|(at, on)| is_calm(*at) && is_orderly(on));
    ended.for_each(|_| cx.judges("ends_in_order"));
    let killed = story.killed.iter().filter(|kill| {
        let (at, on) = kill;
        // A user who abandons a command or a job kills its app-server. So does a command that is cancelled
        // while it connects: its app-server has no work.
        let runs = story.runs.iter().filter(|run| run.host == *on);
        let cancels = story.cancels.iter().filter(|(_, host)| host == on).map(|(at, _)| *at);
        let given_up = story.jobs.killed_on(on).chain(runs.filter_map(|run| run.abandoned));
        // On stock turmoil, a kill takes a tick.
        let abandoned = given_up.chain(cancels).any(|from| (from..=from + TICK).contains(at));
        is_calm(*at) && !abandoned && is_orderly(on)
    });
    // A command that ends a job may send its signal to the app-server of the worker, too.
    let is_asked = |on: &str, at: Time| {
        let jobs = story.jobs.jobs.values().filter(|job| job.host == on);
        jobs.filter_map(Job::unwanted).any(|unwanted| unwanted <= at)
    };
    let hurried = story.hurried.iter().filter(|(at, on)| {
        is_calm(*at)
            && setup::app_server(cx.plan, on).ends_with_its_input(connection.close)
            && !is_asked(on, *at)
    });
    let violation = |(at, on): &(Time, &str), kind| {
        cx.judges("ends_in_order");
        let data = fields! { on: (*on).to_owned() };
        Violation::new("ends_in_order", Call::NONE, *at, kind, data)
    };
    let killed = killed.map(|it| violation(it, &KILLED));
    killed.chain(hurried.map(|it| violation(it, &HURRIED))).collect()
}

//! The broker of a command: which one it uses, and whether it leaves it.

use super::refusals::ENDS;
use super::shared::{ends, is_busy, is_in_use, news};
use crate::history::{Answer, Call, Time};
use crate::property::Violation;
use crate::property::violation::{fields, kinds};
use crate::subjects::turn::limits;
use crate::subjects::turn::notes::TurnNote;
use crate::subjects::turn::setup::{self, BROKER, Initialize, Start, Threads};
use crate::subjects::turn::story::{Run, Story};

kinds! {
    pub(in super::super) BUSY_IS_TRUE;
    IDLE = "idle": "{subject:}the broker refused the command as busy, but no other turn ran {moment}";
    ADMITTED = "admitted": "{subject:}the broker refused the command as busy, but had admitted it at {admitted} {moment}";
    IMPATIENT = "impatient": "{subject:}the broker refused the command as busy, and it gave up, but it had a thread there and asks again for {busy} {moment}";
    ENDLESS = "endless": "{subject:}the command had a thread at the broker at {had}, and asks a busy broker for {busy}, but it got no turn and had not ended {moment}";
    INTERRUPT = "interrupt": "{subject:}the broker refused an interrupt as busy {moment}";
}

kinds! {
    pub(in super::super) ONE_BROKER_SERVES;
    SECOND = "second": "a broker began to serve the machine {on}, but another one served it {moment}";
}

kinds! {
    pub(in super::super) ACCOUNT_IS_OWN;
    OTHER_ACCOUNT = "other-account": "{subject:}the command of the account {own} asked an app-server of the account {other} {moment}";
}

kinds! {
    pub(in super::super) FALLBACK_IS_TAKEN;
    BUSY = "busy": "{subject:}the broker was busy, but the command failed instead of running on an app-server of its own {moment}";
    NOT_READY = "not-ready": "{subject:}the broker was never ready, but the command failed instead of running on an app-server of its own {moment}";
}

pub(in super::super) fn busy_is_true(story: &Story<'_>) -> Vec<Violation> {
    let cx = story.cx;
    let wrong = story.runs.iter().filter_map(|run| {
        let (at, Answer::Refused(why)) = run.answer? else { return None };
        if !is_busy(&why.to_string()) {
            return None;
        }
        cx.judges("busy_is_true");
        let violation = |kind, data| Some(Violation::new("busy_is_true", run.call, at, kind, data));
        // A client that has a thread at the broker keeps its admission for its turn, unless the
        // app-server refuses the turn.
        let admitted = run.thread().map(|(at, _)| at);
        let reserve = cx.limits.duration("broker.reserve");
        let is_refused = setup::turn(cx.plan, run.turn()).start == Start::Refused;
        if let Some(admitted) = admitted
            && !is_refused
            && story.is_calm_until(at)
            && at <= admitted + reserve
        {
            return violation(&ADMITTED, fields! { admitted });
        }
        // A client that has a thread at the broker asks again. It leaves at once if it cannot remove the thread,
        // since it has lost the broker, or the broker is about to end.
        let busy = cx.limits.duration("client.busy");
        if admitted.is_some()
            && at < run.asked + busy
            && run.cancelled.is_none()
            && story.is_calm_until(at)
            && story.ended.iter().all(|ended| *ended > at + ENDS)
        {
            return violation(&IMPATIENT, fields! { busy });
        }
        let is_idle = !is_in_use(story, run, run.asked, at);
        is_idle.then(|| violation(&IDLE, fields! {})).flatten()
    });
    let interrupts = story.refused_interrupts.iter().inspect(|_| cx.judges("busy_is_true"));
    let interrupts = interrupts
        .filter(|(_, _, why)| is_busy(why))
        .map(|(call, at, _)| Violation::new("busy_is_true", *call, *at, &INTERRUPT, fields! {}));
    let endless = story.runs.iter().filter_map(|run| asks_for_ever(story, run));
    wrong.chain(endless).chain(interrupts).collect()
}

/// A command that has a thread at the broker, and no app-server ever got its start. So the broker was busy, or kept
/// the start. The command has no other server, and gives up in time.
fn asks_for_ever(story: &Story<'_>, run: &Run<'_>) -> Option<Violation> {
    let cx = story.cx;
    let set = cx.limits;
    let client = limits::client(set);
    let busy = client.busy;
    let (had, thread) = run.thread()?;
    // The requests for the thread, its name, the turn, and the removal of the thread. The last ones may begin just
    // before the time is over.
    let answers = (setup::app_server(cx.plan, BROKER).threads_take.0 + news(cx)) * 4;
    // A broker may keep a start until another turn has ended. Then the client gives it up and interrupts it.
    let kept = client.connection.request + client.turn.interrupt * 2;
    let bound = had + busy + client.busy_pause + answers + kept + ends(set);
    let in_time = run.answer.is_some_and(|(at, _)| at <= bound);
    // Another command may continue the thread. So a start of any command on it excuses this one. A cancel and the
    // end of the client have their own properties.
    let is_judged = run.route() == "broker"
        && run.cancelled.is_none()
        && run.abandoned.is_none()
        && run.started().is_none()
        && story.asked_to_start(thread).is_none()
        && story.is_calm_between(run.asked, bound)
        && bound < Time::from(cx.plan.horizon);
    if !is_judged {
        return None;
    }
    cx.judges("busy_is_true");
    let data = fields! { had, busy };
    (!in_time).then(|| Violation::new("busy_is_true", run.call, bound, &ENDLESS, data))
}

pub(in super::super) fn one_broker_serves(story: &Story<'_>) -> Vec<Violation> {
    // Only a second broker is recorded as such, so each command is a case that can start one.
    let starters = story.runs.iter().filter(|run| may_start_a_second(story, run));
    starters.for_each(|_| story.cx.judges("one_broker_serves"));
    let second = story.second_brokers.iter().map(|(at, on)| {
        let data = fields! { on: (*on).to_owned() };
        Violation::new("one_broker_serves", Call::NONE, *at, &SECOND, data)
    });
    second.collect()
}

/// Whether a broker serves the machine of a command already, or an earlier command may start one beside it.
fn may_start_a_second(story: &Story<'_>, run: &Run<'_>) -> bool {
    let is_workspace = |run: &Run<'_>| run.route() == "workspace";
    let mut served = story.served.iter().filter(|served| served.on == run.host);
    let mut earlier = story
        .runs
        .iter()
        .filter(|other| other.call < run.call && other.host == run.host && is_workspace(other));
    is_workspace(run)
        && (served.any(|served| {
            served.began <= run.asked && served.ended.is_none_or(|ended| ended > run.asked)
        }) || earlier.any(|other| other.answer.is_none_or(|(at, _)| at >= run.asked)))
}

pub(in super::super) fn account_is_own(story: &Story<'_>) -> Vec<Violation> {
    let others = story.runs.iter().filter_map(|run| {
        run.account()?;
        let is_known = run.notes.iter().any(|(_, note)| matches!(note, TurnNote::Account(_)));
        if is_known {
            story.cx.judges("account_is_own");
        }
        let (at, own, other) = run.other_account()?;
        let data = fields! { own: own.to_owned(), other: other.to_owned() };
        Some(Violation::new("account_is_own", run.call, at, &OTHER_ACCOUNT, data))
    });
    others.collect()
}

pub(in super::super) fn fallback_is_taken(story: &Story<'_>) -> Vec<Violation> {
    let cx = story.cx;
    let wrong = story.runs.iter().filter_map(|run| {
        let (at, answer) = run.answer?;
        let was_ready = story.initialized.is_some_and(|initialized| initialized <= at);
        let own = setup::app_server(cx.plan, run.host);
        let request = limits::connection(cx.limits).request;
        let makes_threads = matches!(own.threads, Threads::Made | Threads::Nameless)
            && own.threads_take.0 + news(cx) < request;
        let can_run = own.initialize == Initialize::Answered
            && makes_threads
            && setup::turn(cx.plan, run.turn()).start != Start::Refused
            && run.route() == "broker-or-direct"
            && run.cancelled.is_none();
        if !can_run || !story.is_calm_until(at) {
            return None;
        }
        // A client that has a thread at the broker stays there.
        let resumes = run.operation.fields.get("resume").and_then(|is| is.as_bool());
        let is_new = run.operation.verb == "task" && resumes != Some(true);
        let is_free = run.thread().is_none() && is_new;
        let (is_refused, was_busy) = match answer {
            Answer::Refused(why) => (true, is_busy(&why.to_string())),
            _ => (false, false),
        };
        // A command that took the fallback would have failed without it.
        let started = run.started();
        let took = started.is_some_and(|(_, turn, _)| !turn.starts_with("turn-broker-"));
        let (kind, is_wrong) = match was_ready {
            false => (&NOT_READY, is_refused),
            true if is_free && was_busy => (&BUSY, true),
            true if is_new && took && !is_refused => (&BUSY, false),
            true => return None,
        };
        cx.judges("fallback_is_taken");
        is_wrong.then(|| Violation::new("fallback_is_taken", run.call, at, kind, fields! {}))
    });
    wrong.collect()
}

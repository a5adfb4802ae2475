//! The broker of a command: which one it uses, and whether it leaves it.

use super::refusals::ENDS;
use super::shared::{is_busy, is_in_use, news};
use crate::history::{Answer, Call};
use crate::property::Violation;
use crate::property::violation::{fields, kinds};
use crate::subjects::turn::limits::{self, LIMITS};
use crate::subjects::turn::setup::{self, Initialize, Start, Threads};
use crate::subjects::turn::story::Story;

kinds! {
    pub(in super::super) BUSY_IS_TRUE;
    IDLE = "idle": "{subject:}the broker refused the command as busy, but no other turn ran {moment}";
    ADMITTED = "admitted": "{subject:}the broker refused the command as busy, but had admitted it at {admitted} {moment}";
    IMPATIENT = "impatient": "{subject:}the broker refused the command as busy, and it gave up, but it had a thread there and asks again for {busy} {moment}";
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
        let violation = |kind, data| Some(Violation::new("busy_is_true", run.call, at, kind, data));
        // A client that has a thread at the broker keeps its admission for its turn, unless the
        // app-server refuses the turn.
        let admitted = run.thread().map(|(at, _)| at);
        let reserve = cx.plan.limits.over(LIMITS).duration("broker.reserve");
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
        let busy = cx.plan.limits.over(LIMITS).duration("client.busy");
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
    let interrupts = story.refused_interrupts.iter().filter(|(_, _, why)| is_busy(why));
    let interrupts = interrupts
        .map(|(call, at, _)| Violation::new("busy_is_true", *call, *at, &INTERRUPT, fields! {}));
    wrong.chain(interrupts).collect()
}

pub(in super::super) fn one_broker_serves(story: &Story<'_>) -> Vec<Violation> {
    let second = story.second_brokers.iter().map(|(at, on)| {
        let data = fields! { on: (*on).to_owned() };
        Violation::new("one_broker_serves", Call::NONE, *at, &SECOND, data)
    });
    second.collect()
}

pub(in super::super) fn account_is_own(story: &Story<'_>) -> Vec<Violation> {
    let others = story.runs.iter().filter_map(|run| {
        let (at, own, other) = run.other_account()?;
        let data = fields! { own: own.to_owned(), other: other.to_owned() };
        Some(Violation::new("account_is_own", run.call, at, &OTHER_ACCOUNT, data))
    });
    others.collect()
}

pub(in super::super) fn fallback_is_taken(story: &Story<'_>) -> Vec<Violation> {
    let cx = story.cx;
    let wrong = story.runs.iter().filter_map(|run| {
        let (at, Answer::Refused(why)) = run.answer? else { return None };
        let was_ready = story.initialized.is_some_and(|initialized| initialized <= at);
        let own = setup::app_server(cx.plan, run.host);
        let request = limits::connection(&cx.plan.limits.over(LIMITS)).request;
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
        let violation =
            |kind| Some(Violation::new("fallback_is_taken", run.call, at, kind, fields! {}));
        // A client that has a thread at the broker stays there.
        let resumes = run.operation.fields.get("resume").and_then(|is| is.as_bool());
        let is_free =
            run.thread().is_none() && run.operation.verb == "task" && resumes != Some(true);
        match was_ready {
            false => violation(&NOT_READY),
            true if is_free && is_busy(&why.to_string()) => violation(&BUSY),
            true => None,
        }
    });
    wrong.collect()
}

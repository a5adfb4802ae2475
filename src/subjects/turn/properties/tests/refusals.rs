//! Tests of `refusals_are_true` and `busy_is_true`.

use super::super::brokers::busy_is_true;
use super::super::refusals::refusals_are_true;
use super::*;
use crate::net::Endpoint;
use reknit_turn::command::{Fallback, NotStarted, Refusal};
use reknit_turn::wire::code;

/// A run in which a command on this way is refused for this reason at this time.
fn refused(route: &str, ms: u64, why: Refusal) -> ScriptedRun {
    let why = NotStarted { refusal: why, fallback: Fallback::Never, left_behind: None };
    let why = SeenRefusal(ClientError::NotStarted(why));
    asked(route).answered(1, ms, Answer::refused(why))
}

fn error() -> Refusal {
    Refusal::Error { code: -32600, message: "there is no room for a thread".into() }
}

#[test]
fn only_its_own_app_server_excuses_a_refusal() {
    let on = |host: &str, threads: &str, run: ScriptedRun| {
        let mut run = run;
        let setup = json!({ host: { "threads": threads } });
        run.plan.setup.insert(APP_SERVERS.into(), setup);
        run
    };
    holds(&on("client", "refused", refused("direct", 1_500, error())), refusals_are_true);
    holds(&on("broker", "refused", refused("broker", 1_500, error())), refusals_are_true);
    holds(&on("broker", "refused", refused("broker-or-direct", 1_500, error())), refusals_are_true);
    let untrue = "nothing was in its way";
    for run in [
        on("broker", "refused", refused("direct", 1_500, error())),
        on("client", "refused", refused("broker", 1_500, error())),
        on("client", "nameless", refused("direct", 1_500, error())),
        on("client", "omitted", refused("direct", 1_500, error())),
        on("client", "refused", refused("direct", 1_500, Refusal::Unknown("lost".into()))),
    ] {
        breaks(&run, refusals_are_true, untrue);
    }
}

#[test]
fn a_turn_is_refused_once_the_app_server_has_refused_it_or_is_late() {
    let plays = |start: &str, run: ScriptedRun| {
        let mut run = run;
        run.plan.setup.insert(TABLE.into(), json!({ "t1": { "start": start } }));
        run
    };
    let untrue = "nothing was in its way";
    let unasked = plays("refused", refused("direct", 1_500, error()));
    breaks(&unasked, refusals_are_true, untrue);
    holds(&notes(unasked, 1_400, TurnNote::Refused), refusals_are_true);
    breaks(&plays("silent", refused("direct", 1_500, error())), refusals_are_true, untrue);
    holds(&plays("silent", refused("direct", 61_000, error())), refusals_are_true);
}

/// A crash hides the end of such a broker.
#[test]
fn a_broker_whose_app_server_is_not_initialized_accepts_no_clients() {
    let refused = |initialize: &str, ms: u64| {
        let hello = json!({ "id": 1, "method": "initialize" });
        let mut run = gets(asked("broker"), ms, &hello);
        let setup = json!({ "broker": { "initialize": initialize } });
        run.plan.setup.insert(APP_SERVERS.into(), setup);
        run.plan.limits.set("connection.request", LimitValue::secs(2));
        run.plan.limits.set("connection.close", LimitValue::millis(1));
        run.plan.limits.set("connection.terminate", LimitValue::millis(199));
        let (endpoint, why) = (Endpoint::tcp("broker", 80), "connection refused".to_owned());
        let why = SeenRefusal(ClientError::CannotConnect { endpoint, why });
        run.answered(1, 7_000, Answer::refused(why))
    };
    let untrue = "nothing was in its way";
    holds(&refused("silent", 5_000), refusals_are_true);
    breaks(&refused("silent", 5_001), refusals_are_true, untrue);
    holds(&refused("silent", 800), refusals_are_true);
    breaks(&refused("silent", 799), refusals_are_true, untrue);
    holds(&refused("refused", 7_000), refusals_are_true);
    breaks(&refused("refused", 2_799), refusals_are_true, untrue);
    breaks(&refused("answered", 5_000), refusals_are_true, untrue);
}

#[test]
fn a_client_with_a_thread_asks_a_busy_broker_again() {
    let busy = |ms: u64| {
        let why = Refusal::Error { code: code::BUSY, message: "busy".into() };
        let run = notes(refused("broker", ms, why), 1_200, TurnNote::Thread("thread-1".into()));
        let other = json!({ "turn": "t2", "route": "broker" }).to_string();
        run.by("client2").asked_as(2, 1_500, Class::InFlight, "task", &other)
    };
    holds(&busy(61_000), busy_is_true);
    breaks(&busy(60_999), busy_is_true, "it gave up");
}

#[test]
fn a_client_does_not_ask_a_busy_broker_for_ever() {
    let asks = |route: &str| {
        notes(asked(route), 1_200, TurnNote::Thread("thread-1".into())).horizon(200_000)
    };
    breaks(&asks("broker"), busy_is_true, "had not ended");
    holds(&asks("broker-or-direct"), busy_is_true);
    let ended = |ms: u64| {
        let why = Refusal::Unknown("the connection ended".into());
        let run = notes(refused("broker", ms, why), 1_200, TurnNote::Thread("thread-1".into()));
        run.horizon(200_000)
    };
    holds(&ended(62_000), busy_is_true);
    breaks(&ended(190_000), busy_is_true, "had not ended");
    let start = json!({ "id": 3, "method": "turn/start", "params": { "threadId": "thread-1" } });
    holds(&gets(asks("broker"), 1_300, &start), busy_is_true);
}

//! Tests of the excuses of the properties, over hand-written runs.

use serde_json::json;

use super::interrupts::{interrupts_have_a_cause, report_counts};
use super::refusals::refusals_are_true;
use super::threads::no_thread_is_left;
use super::works::one_client_works;
use crate::history::{Answer, Class, EventKind};
use crate::property::Violation;
use crate::property::scripted::{ScriptedRun, history};
use crate::report::sentence;
use crate::schedule::LimitValue;
use crate::subjects::turn::app_server::RUNS_ON;
use crate::subjects::turn::notes::{BrokerExited, Reported, TurnNote};
use crate::subjects::turn::outcome::{CommandOutcome, SeenRefusal, SeenVerdict};
use crate::subjects::turn::setup::{APP_SERVERS, TABLE};
use crate::subjects::turn::story::Story;
use reknit_turn::client::ClientError;
use reknit_turn::command::{Fallback, NotStarted, Refusal};

type Property = fn(&Story<'_>) -> Vec<Violation>;

fn violations(scripted: &ScriptedRun, property: Property) -> Vec<String> {
    scripted.with(|cx| property(&Story::of(cx)).iter().map(sentence).collect())
}

#[track_caller]
fn holds(scripted: &ScriptedRun, property: Property) {
    assert_eq!(violations(scripted, property), Vec::<String>::new());
}

/// The run has one violation, and its sentence contains this.
#[track_caller]
fn breaks(scripted: &ScriptedRun, property: Property, part: &str) {
    let found = violations(scripted, property);
    assert!(found.len() == 1 && found[0].contains(part), "{found:?}");
}

/// A run in which a user asks for the turn `t1` at 1 s. The client keeps few bytes of text.
fn asked(route: &str) -> ScriptedRun {
    let fields = json!({ "turn": "t1", "route": route }).to_string();
    let mut run = history().asked_as(1, 1_000, Class::InFlight, "task", &fields);
    run.plan.limits.set("client.text-bytes", LimitValue::Bytes(600));
    run
}

fn notes(scripted: ScriptedRun, ms: u64, note: TurnNote) -> ScriptedRun {
    scripted.user(ms, EventKind::Observed { stream: "t1-1".into(), saw: note.into() })
}

/// The same run, and the app-server starts and names the turn at 2 s.
fn started() -> ScriptedRun {
    let started = TurnNote::Started { turn: "turn-1".into(), thread: "thread-1".into() };
    notes(notes(asked("direct"), 2_000, started), 2_000, TurnNote::Named)
}

#[test]
fn too_much_text_excuses_only_what_follows_it() {
    let interrupted = || notes(started(), 5_000, TurnNote::Interrupted);
    let too_much = |ms| notes(interrupted(), ms, TurnNote::TooMuch);
    breaks(&interrupted(), interrupts_have_a_cause, "no deadline was near");
    breaks(&too_much(5_001), interrupts_have_a_cause, "no deadline was near");
    holds(&too_much(5_000), interrupts_have_a_cause);
}

#[test]
fn too_much_text_excuses_only_a_later_report() {
    let failed = || {
        let outcome = CommandOutcome {
            verdict: SeenVerdict::Failed("too much".into()),
            answer: None,
            commands: Vec::new(),
            files: Vec::new(),
            left_out: 0,
            error: None,
            status: 1,
        };
        let reported = notes(started(), 5_000, TurnNote::Reported(Reported::Completed));
        reported.answered(1, 6_000, Answer::queued(outcome))
    };
    breaks(&failed(), report_counts, "reported at 5.000 s that the turn completed");
    breaks(&notes(failed(), 5_001, TurnNote::TooMuch), report_counts, "completed");
    holds(&notes(failed(), 4_000, TurnNote::TooMuch), report_counts);
}

#[test]
fn an_interrupt_names_the_thread_of_its_turn() {
    holds(&started(), interrupts_have_a_cause);
    let elsewhere = notes(started(), 5_000, TurnNote::InterruptedElsewhere);
    breaks(&elsewhere, interrupts_have_a_cause, "named another thread");
}

#[test]
fn a_cancelled_command_leaves_its_thread_only_to_a_broker_that_deletes_none() {
    let cancelled = |route: &str| {
        let run = notes(asked(route), 1_500, TurnNote::Thread("thread-1".into()));
        let turn = json!({ "turn": "t1" }).to_string();
        run.asked_as(9, 2_000, Class::InFlight, "cancel", &turn)
    };
    let leaves = |run: ScriptedRun| {
        let why = ClientError::Cancelled { left_behind: Some("thread-1".into()) };
        run.answered(1, 2_100, Answer::refused(SeenRefusal(why)))
    };
    let beside = |run: ScriptedRun| {
        let other = json!({ "turn": "t2", "route": "broker" }).to_string();
        run.asked_as(2, 2_050, Class::InFlight, "task", &other)
    };
    let exits = |run: ScriptedRun| {
        let saw = BrokerExited(1).into();
        run.entry(2_050, Some("broker"), EventKind::Observed { stream: "broker".into(), saw })
    };
    breaks(&leaves(cancelled("broker")), no_thread_is_left, "left thread-1 behind");
    breaks(&leaves(beside(cancelled("direct"))), no_thread_is_left, "left thread-1 behind");
    holds(&leaves(beside(cancelled("broker"))), no_thread_is_left);
    holds(&leaves(exits(cancelled("broker"))), no_thread_is_left);
}

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

/// The app-server refuses an interrupt, and then starts the turn of another client.
#[test]
fn a_client_stays_if_the_app_server_refuses_an_interrupt_by_hand() {
    let begins = |turn: &str| TurnNote::Started { turn: turn.into(), thread: "thread-1".into() };
    let refused = |ms| {
        let run = notes(asked("broker"), 2_000, begins("turn-1"));
        notes(run, ms, TurnNote::InterruptRefused)
    };
    let by_hand = |run: ScriptedRun, why: &str| {
        let turn = json!({ "turn": "t1" }).to_string();
        let run = run.asked_as(9, 3_000, Class::InFlight, "interrupt", &turn);
        run.answered(9, 3_020, Answer::refused(why.to_owned()))
    };
    let beside = |run: ScriptedRun| {
        let other = json!({ "turn": "t2", "route": "broker" }).to_string();
        let run = run.by("client2").asked_as(2, 5_000, Class::InFlight, "task", &other);
        let saw = begins("turn-2").into();
        run.user(5_100, EventKind::Observed { stream: "t2-2".into(), saw })
    };
    let why = format!("{RUNS_ON} (code -32600)");
    let one = beside(by_hand(refused(3_010), &why));
    breaks(&one, one_client_works, "while that of call 1 ran");
    // Any other refusal may be that of an interrupt of the client, which then leaves.
    holds(&beside(refused(3_010)), one_client_works);
    holds(&beside(by_hand(refused(3_021), &why)), one_client_works);
    holds(&beside(by_hand(refused(3_010), "no such turn (code -32600)")), one_client_works);
    let two = notes(refused(3_010), 3_010, TurnNote::InterruptRefused);
    holds(&beside(by_hand(two, &why)), one_client_works);
}

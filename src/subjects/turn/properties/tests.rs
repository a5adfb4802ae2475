//! Tests of the excuses of the properties, over hand-written runs.

use std::time::Duration;

use serde_json::{Value, json};

use super::brokers::busy_is_true;
use super::endings::{abandoned_is_interrupted, ending_is_prompt, ends_in_order};
use super::greetings::{app_server_is_greeted, ids_are_new};
use super::interrupts::{interrupts_have_a_cause, report_counts};
use super::refusals::{fallback_is_needed, refusals_are_true};
use super::reports::reports_are_whole;
use super::starts::start_is_prompt;
use super::threads::no_thread_is_left;
use super::verdicts::{failure_is_true, status_is_the_verdict};
use super::works::{broker_lets_go, news_stay_private, one_client_works};
use crate::history::{Answer, Call, Class, Data, EventKind, ProcessOutcome};
use crate::net::Endpoint;
use crate::property::Violation;
use crate::property::scripted::{ScriptedRun, history};
use crate::report::sentence;
use crate::schedule::{Action, LimitValue, MilestoneValue, Operation, Step, When};
use crate::subjects::turn::app_server::RUNS_ON;
use crate::subjects::turn::jobs::notes::{
    JobCancelled, Looks, ProcessNote, Saw, SeenJob, Signalled, WorkerBegan,
};
use crate::subjects::turn::jobs::properties::{cancels_reach_all, ended_job_stops};
use crate::subjects::turn::jobs::records::record_is_true;
use crate::subjects::turn::notes::{
    AppServerNote, BrokerCounted, BrokerExited, BrokerNote, Got, Heard, Reported, Shown,
    ThreadNote, TurnNote, Work,
};
use crate::subjects::turn::outcome::{CommandOutcome, SeenRefusal, SeenVerdict};
use crate::subjects::turn::setup::{APP_SERVERS, TABLE};
use crate::subjects::turn::story::Story;
use reknit_turn::broker::BrokerCounts;
use reknit_turn::client::ClientError;
use reknit_turn::command::{Fallback, NotStarted, Refusal};
use reknit_turn::jobs::StateName;
use reknit_turn::wire::code;

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
fn work_that_is_over_takes_no_answer_back() {
    let exits = |between: &[TurnNote]| {
        let run = notes(started(), 3_000, TurnNote::Answered { is_final: true });
        let run = between.iter().fold(run, |run, note| notes(run, 3_500, note.clone()));
        let mut run = notes(run, 4_000, TurnNote::Gone).answered(1, 4_100, failed(0));
        let setup = json!({ "t1": { "end": "exits", "late-work": true, "noise": "work" } });
        run.plan.setup.insert(TABLE.into(), setup);
        run
    };
    let answered = "had given its final answer";
    breaks(&exits(&[]), failure_is_true, answered);
    breaks(&exits(&[TurnNote::Works, TurnNote::Rests]), failure_is_true, answered);
    holds(&exits(&[TurnNote::Works]), failure_is_true);
    holds(&exits(&[TurnNote::TooMuch]), failure_is_true);
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

/// The history tells the order of two starts in the same millisecond, not the order of the calls.
#[test]
fn turns_that_start_in_one_millisecond_have_an_order() {
    let other = json!({ "turn": "t2", "route": "broker" }).to_string();
    let both = || asked("broker").by("client2").asked_as(2, 1_000, Class::InFlight, "task", &other);
    let first = |run: ScriptedRun, ms: u64, note: TurnNote| {
        run.by("client").user(ms, EventKind::Observed { stream: "t1-1".into(), saw: note.into() })
    };
    let second = |run: ScriptedRun, ms: u64, note: TurnNote| {
        run.by("client2").user(ms, EventKind::Observed { stream: "t2-2".into(), saw: note.into() })
    };
    let ended = || TurnNote::Reported(Reported::Completed);
    let swapped = |ms: u64| {
        let run = second(both(), 5_000, begins("turn-2"));
        first(second(run, ms, ended()), 5_000, begins("turn-1"))
    };
    holds(&swapped(5_000), one_client_works);
    breaks(&swapped(5_001), one_client_works, "while that of call 2 ran");
    let run = second(first(both(), 5_000, begins("turn-1")), 5_000, begins("turn-2"));
    breaks(&second(run, 5_000, ended()), one_client_works, "while that of call 1 ran");
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

/// The start of the turn `t1`.
fn begins(turn: &str) -> TurnNote {
    TurnNote::Started { turn: turn.into(), thread: "thread-1".into() }
}

/// A command that failed, and whose report leaves out so many pieces of work.
fn failed(left_out: u64) -> Answer {
    Answer::queued(CommandOutcome {
        verdict: SeenVerdict::Failed("too long".into()),
        answer: None,
        commands: Vec::new(),
        files: Vec::new(),
        left_out,
        error: None,
        status: 1,
    })
}

/// The same run, and the app-server of the broker gets a message.
fn gets(scripted: ScriptedRun, ms: u64, message: &Value) -> ScriptedRun {
    let saw = Got::of(&message.to_string()).into();
    let what = EventKind::Observed { stream: "codex@broker-codex".into(), saw };
    scripted.entry(ms, Some("broker"), what)
}

/// A client infers its end 250 ms after the final answer, or after the end of the work of which it knows.
#[test]
fn a_client_stays_while_it_knows_of_open_work() {
    let works = |from: u64, to: Option<u64>| {
        let run = notes(notes(asked("broker"), 2_000, begins("turn-1")), from, TurnNote::Works);
        let run = notes(run, 3_000, TurnNote::Answered { is_final: true });
        let run = match to {
            Some(to) => notes(run, to, TurnNote::Rests),
            None => run,
        };
        let other = json!({ "turn": "t2", "route": "broker" }).to_string();
        let run = run.by("client2").asked_as(2, 5_000, Class::InFlight, "task", &other);
        let saw = begins("turn-2").into();
        run.user(5_100, EventKind::Observed { stream: "t2-2".into(), saw })
    };
    let beside = "while that of call 1 ran";
    breaks(&works(2_500, None), one_client_works, beside);
    holds(&works(2_500, Some(4_850)), one_client_works);
    breaks(&works(2_500, Some(4_851)), one_client_works, beside);
    // Its client may follow too few threads, and the broker may hold too little news.
    let with = |name: &'static str, value: LimitValue| {
        let mut run = works(2_500, None);
        run.plan.setup.insert(TABLE.into(), json!({ "t1": { "subagents": 1 } }));
        run.plan.limits.set(name, value);
        run
    };
    holds(&with("client.threads", LimitValue::Count(1)), one_client_works);
    breaks(&with("client.threads", LimitValue::Count(2)), one_client_works, beside);
    holds(&with("connection.outbox-bytes", LimitValue::Bytes(64 << 10)), one_client_works);
    // The news of the work may come when the client has inferred the end.
    holds(&works(3_200, None), one_client_works);
    breaks(&works(3_199, None), one_client_works, beside);
}

/// The broker tries for four seconds to interrupt the subagent of a turn whose client is gone.
#[test]
fn a_start_waits_for_a_subagent_only_while_the_broker_tries_to_interrupt_it() {
    let start = |ms: u64| {
        let mut run = notes(asked("broker"), 1_100, begins("turn-1"));
        run.plan.setup.insert(TABLE.into(), json!({ "t1": { "subagents": 1 } }));
        let run = notes(notes(run, 2_500, TurnNote::Interrupted), 2_500, TurnNote::Gone);
        let saw = AppServerNote::Initialized.into();
        let what = EventKind::Observed { stream: "codex@broker-codex".into(), saw };
        let run = run.entry(100, Some("broker"), what).answered(1, 2_500, Answer::GivenUp);
        let other = json!({ "turn": "t2", "route": "broker" }).to_string();
        run.asked_as(2, ms, Class::InFlight, "task", &other)
    };
    holds(&start(12_500), start_is_prompt);
    breaks(&start(12_501), start_is_prompt, "its turn had not started");
}

#[test]
fn a_subagent_whose_client_is_gone_is_interrupted_in_time() {
    let works = |ms: u64| {
        let begins = begins("turn-broker-codex-2");
        let mut run = notes(notes(asked("broker"), 2_000, begins), ms, TurnNote::Works);
        run.plan.setup.insert(TABLE.into(), json!({ "t1": { "subagents": 1 } }));
        run.answered(1, 3_000, Answer::GivenUp)
    };
    let interrupted = |ms: u64, thread: &str| {
        let params = json!({ "threadId": thread, "turnId": "turn-broker-codex-2-sub-1" });
        let interrupt = json!({ "id": 7, "method": "turn/interrupt", "params": params });
        gets(works(2_500), ms, &interrupt)
    };
    let spared = "no interrupt named turn-broker-codex-2-agent-1";
    breaks(&works(2_949), abandoned_is_interrupted, spared);
    // The broker may not have known of it.
    holds(&works(2_950), abandoned_is_interrupted);
    holds(&interrupted(6_050, "turn-broker-codex-2-agent-1"), abandoned_is_interrupted);
    breaks(&interrupted(6_051, "turn-broker-codex-2-agent-1"), abandoned_is_interrupted, spared);
    breaks(&interrupted(3_000, "thread-1"), abandoned_is_interrupted, spared);
    holds(&notes(works(2_500), 6_050, TurnNote::Rests), abandoned_is_interrupted);
    breaks(&notes(works(2_500), 6_051, TurnNote::Rests), abandoned_is_interrupted, spared);
}

/// The broker passes an interrupt at once, also while it holds the start of the turn back.
#[test]
fn a_client_that_gives_up_may_interrupt_its_turn_before_the_broker_sends_the_start() {
    let given_up = |ms: u64, thread: &str, turn: &str| {
        let params = json!({ "threadId": thread, "turnId": turn });
        let interrupt = json!({ "id": 7, "method": "turn/interrupt", "params": params });
        let mut run = gets(asked("broker"), ms, &interrupt);
        run.plan.limits.set("client.interrupt", LimitValue::secs(2));
        let run = notes(notes(run, 5_000, begins("turn-1")), 5_000, TurnNote::Named);
        let fields = [("thread", MilestoneValue::Text("thread-1".into()))].into();
        let verdict = EventKind::Milestone { name: "turn.client.verdict", fields };
        run.user(6_900, verdict).answered(1, 7_000, failed(0))
    };
    let not_interrupted = "did not interrupt it";
    holds(&given_up(4_899, "thread-1", ""), abandoned_is_interrupted);
    holds(&given_up(5_000, "thread-1", ""), abandoned_is_interrupted);
    // An interrupt of another client, before this one gave up.
    breaks(&given_up(4_898, "thread-1", ""), abandoned_is_interrupted, not_interrupted);
    // It hits the abandoned turn, which the client does not know.
    holds(&given_up(6_900, "thread-1", ""), abandoned_is_interrupted);
    breaks(&given_up(6_901, "thread-1", ""), abandoned_is_interrupted, not_interrupted);
    breaks(&given_up(4_900, "thread-2", ""), abandoned_is_interrupted, not_interrupted);
    breaks(&given_up(4_900, "thread-1", "turn-2"), abandoned_is_interrupted, not_interrupted);
}

/// The time of a turn, that of two interrupts, and that of the end of an app-server.
#[test]
fn a_turn_that_takes_too_long_has_a_verdict_in_time() {
    let ends = |ms: u64, start: &str| {
        let mut run = started();
        run.plan.limits.set("client.absolute", LimitValue::secs(20));
        run.plan.limits.set("connection.request", LimitValue::secs(2));
        run.plan.setup.insert(TABLE.into(), json!({ "t1": { "start": start } }));
        run.answered(1, ms, failed(0))
    };
    holds(&ends(47_150, "answered"), ending_is_prompt);
    breaks(&ends(47_151, "answered"), ending_is_prompt, "took longer than a turn may take");
    // The command may have asked for the turn again.
    holds(&ends(47_151, "unanswered"), ending_is_prompt);
    let again = notes(ends(47_151, "answered"), 3_000, begins("turn-2"));
    holds(&again, ending_is_prompt);
}

/// The time counts from the last request for the turn: the command asks again while the broker is busy.
#[test]
fn a_start_without_an_answer_ends_in_time() {
    let ends = |starts: &[u64]| {
        let mut run = notes(asked("broker"), 1_500, TurnNote::Thread("thread-1".into()));
        run.plan.limits.set("connection.request", LimitValue::secs(2));
        run.plan.setup.insert(TABLE.into(), json!({ "t1": { "start": "silent" } }));
        let start =
            json!({ "id": 7, "method": "turn/start", "params": { "threadId": "thread-1" } });
        let run = starts.iter().fold(run, |run, ms| gets(run, *ms, &start));
        run.answered(1, 30_000, failed(0))
    };
    breaks(&ends(&[1_500]), ending_is_prompt, "done with the turn at 1.500 s");
    holds(&ends(&[1_500, 9_000]), ending_is_prompt);
    holds(&ends(&[]), ending_is_prompt);
}

/// Two commands of two letters.
#[test]
fn a_report_leaves_out_only_what_it_has_no_room_for() {
    let left_out = |bytes: u64| {
        let did = || TurnNote::Did(Work::Command("ls".into()));
        let run = notes(notes(started(), 3_000, did()), 4_000, did());
        let mut run = run.answered(1, 6_000, failed(1));
        run.plan.limits.set("client.text-bytes", LimitValue::Bytes(bytes));
        run
    };
    holds(&left_out(6 * 1_028 - 1), reports_are_whole);
    breaks(&left_out(6 * 1_028), reports_are_whole, "leaves out 1 pieces of work");
}

#[test]
fn an_app_server_is_greeted_before_any_other_request() {
    let asks = |methods: &[&str]| {
        let ask = |run, method: &&str| gets(run, 1_000, &json!({ "id": 1, "method": method }));
        methods.iter().fold(history(), ask)
    };
    let ungreeted = "got the request thread/start";
    holds(&asks(&["initialize", "initialized", "thread/start"]), app_server_is_greeted);
    breaks(&asks(&["initialize", "thread/start", "turn/start"]), app_server_is_greeted, ungreeted);
    let again = asks(&["initialize", "initialized", "initialize", "thread/start"]);
    breaks(&again, app_server_is_greeted, ungreeted);
}

#[test]
fn a_broker_drops_the_news_that_nothing_can_claim_any_more() {
    let held = |ms: u64, start: &str| {
        let mut run = notes(asked("broker"), 2_000, begins("turn-broker-codex-2"));
        run.plan.setup.insert(TABLE.into(), json!({ "t1": { "start": start } }));
        let run = run.answered(1, 3_000, Answer::GivenUp);
        [(4_000, 9), (ms, 0)].into_iter().fold(run, |run, (ms, unclaimed_bytes)| {
            let counts = BrokerCounts { unclaimed_bytes, ..BrokerCounts::default() };
            let saw = BrokerCounted::data(counts);
            let what = EventKind::Observed { stream: "broker".into(), saw };
            run.entry(ms, Some("broker"), what)
        })
    };
    // The counts are read each second. The broker has 244 s for a start and the end of its turn.
    holds(&held(245_000, "answered"), broker_lets_go);
    breaks(&held(245_001, "answered"), broker_lets_go, "9 bytes of news without an owner");
    // The late answer to the start may claim the news.
    holds(&held(245_001, "unanswered"), broker_lets_go);
    let speaks = held(245_001, "answered").asked_as(2, 2_500, Class::InFlight, "speak", "{}");
    holds(&speaks, broker_lets_go);
}

#[test]
fn an_app_server_that_ends_in_time_gets_no_signal() {
    let signalled = |note: AppServerNote, setup: Value| {
        let saw = note.into();
        let what = EventKind::Observed { stream: "codex@client-codex".into(), saw };
        let mut run = history().user(5_000, what);
        run.plan.limits.set("connection.terminate", LimitValue::secs(1));
        run.plan.setup.insert(APP_SERVERS.into(), json!({ "client": setup }));
        run
    };
    let killed = |takes: &str| {
        let setup = json!({ "outlives-input": true, "terminate-takes": takes });
        signalled(AppServerNote::Killed, setup)
    };
    breaks(&killed("989ms"), ends_in_order, "was killed");
    holds(&killed("990ms"), ends_in_order);
    // An app-server has 50 ms after the end of its input.
    let hurried = |takes: &str| signalled(AppServerNote::Hurried, json!({ "input-takes": takes }));
    breaks(&hurried("39ms"), ends_in_order, "got SIGTERM");
    holds(&hurried("40ms"), ends_in_order);
}

#[test]
fn a_turn_that_begins_without_its_client_is_interrupted() {
    let begun = |ms: u64, interrupted: u64| {
        let turn = json!({ "turn": "t1" }).to_string();
        let mut run = notes(asked("broker"), 1_100, TurnNote::Named);
        run.plan.setup.insert(TABLE.into(), json!({ "t1": { "queued": "2s" } }));
        let run = run.asked_as(9, 2_000, Class::InFlight, "abandon", &turn);
        let run = run.answered(1, 2_000, Answer::GivenUp);
        let run = notes(run, 2_010, TurnNote::InterruptRefused);
        let run = notes(run, ms, begins("turn-broker-codex-2"));
        notes(notes(run, interrupted, TurnNote::Interrupted), 20_000, TurnNote::Gone)
    };
    let spared = "no interrupt of it arrived";
    holds(&begun(3_100, 6_150), abandoned_is_interrupted);
    breaks(&begun(3_100, 6_151), abandoned_is_interrupted, spared);
    // The broker may still have known its client.
    holds(&begun(2_050, 6_151), abandoned_is_interrupted);
    breaks(&begun(2_051, 6_151), abandoned_is_interrupted, spared);
    let inner = |mut run: ScriptedRun| {
        run.plan.setup.insert(TABLE.into(), json!({ "t1": { "queued": "2s", "inner": true } }));
        run
    };
    holds(&inner(begun(3_100, 6_150)), abandoned_is_interrupted);
    breaks(&inner(begun(3_100, 6_151)), abandoned_is_interrupted, spared);
}

#[test]
fn a_command_that_another_client_interrupts_is_not_cancelled() {
    let ended = |status: i32| {
        Answer::queued(CommandOutcome {
            verdict: SeenVerdict::Interrupted,
            answer: None,
            commands: Vec::new(),
            files: Vec::new(),
            left_out: 0,
            error: None,
            status,
        })
    };
    let cancelled = |run: ScriptedRun| {
        let turn = json!({ "turn": "t1" }).to_string();
        run.asked_as(9, 3_000, Class::InFlight, "cancel", &turn)
    };
    let reported = |ms, status| {
        let run = notes(cancelled(started()), ms, TurnNote::Reported(Reported::Interrupted));
        run.answered(1, 4_000, ended(status))
    };
    holds(&started().answered(1, 4_000, ended(1)), status_is_the_verdict);
    let unasked = started().answered(1, 4_000, ended(130));
    breaks(&unasked, status_is_the_verdict, "its user had not cancelled it");
    holds(&reported(3_000, 1), status_is_the_verdict);
    breaks(&reported(3_001, 1), status_is_the_verdict, "exited with 1");
    holds(&reported(3_001, 130), status_is_the_verdict);
    let refused = |status: u64| {
        let saw = Shown(format!("exit status {status}")).into();
        let run = cancelled(asked("direct"));
        let run = run.user(3_500, EventKind::Observed { stream: "shown-1".into(), saw });
        let why = ClientError::Cancelled { left_behind: None };
        run.answered(1, 3_500, Answer::refused(SeenRefusal(why)))
    };
    holds(&refused(130), status_is_the_verdict);
    breaks(&refused(1), status_is_the_verdict, "did not start (cancelled");
}

#[test]
fn a_command_of_a_workspace_starts_a_broker_if_the_last_one_was_killed() {
    let observed = |run: ScriptedRun, ms: u64, note: BrokerNote| {
        run.user(ms, EventKind::Observed { stream: "turn-broker".into(), saw: note.into() })
    };
    let killed = |ms: u64| {
        let run = observed(asked("workspace"), 500, BrokerNote::Serves);
        let run = run.asked_as(8, ms, Class::InFlight, "kill-broker", "{}");
        notes(observed(run, ms, BrokerNote::Ended), 4_000, begins("turn-client-codex-1"))
    };
    breaks(&killed(899), fallback_is_needed, "none served there since");
    holds(&killed(900), fallback_is_needed);
    holds(&observed(killed(899), 3_000, BrokerNote::Serves), fallback_is_needed);
}

#[test]
fn a_command_whose_thread_is_unknown_does_not_move() {
    let moved = |note: Option<ThreadNote>| {
        let begins = TurnNote::Started {
            turn: "turn-client-codex-2".into(),
            thread: "thread-client-codex-1".into(),
        };
        let mut run = notes(asked("broker-or-direct"), 2_000, begins);
        let setup = json!({ "broker": { "threads": "omitted" } });
        run.plan.setup.insert(APP_SERVERS.into(), setup);
        let made = ThreadNote::Made("thread-broker-codex-1".into());
        [Some(made), note].into_iter().flatten().fold(run, |run, note| {
            let saw = note.into();
            let what = EventKind::Observed { stream: "codex@broker-codex".into(), saw };
            run.entry(1_500, Some("broker"), what)
        })
    };
    let beside = |ms: u64| {
        let other = json!({ "turn": "t2", "route": "broker" }).to_string();
        moved(None).by("client2").asked_as(2, ms, Class::InFlight, "task", &other)
    };
    let left = "which was made at";
    breaks(&moved(None), no_thread_is_left, left);
    let settled = ThreadNote::Settled("thread-broker-codex-1".into());
    holds(&moved(Some(settled)), no_thread_is_left);
    // The thread may be that of another command.
    holds(&beside(1_500), no_thread_is_left);
    breaks(&beside(1_501), no_thread_is_left, left);
    let has = |thread: &str| {
        let saw = TurnNote::Thread(thread.into()).into();
        beside(1_500).user(1_600, EventKind::Observed { stream: "t2-2".into(), saw })
    };
    breaks(&has("thread-broker-codex-9"), no_thread_is_left, left);
    holds(&has("thread-broker-codex-1"), no_thread_is_left);
}

#[test]
fn a_broker_holds_no_more_than_its_limits() {
    let held = |clients: usize| {
        let mut run = history();
        run.plan.limits.set("broker.clients", LimitValue::Count(2));
        [(4_000, clients), (4_500, 0)].into_iter().fold(run, |run, (ms, clients)| {
            let saw = BrokerCounted::data(BrokerCounts { clients, ..BrokerCounts::default() });
            let what = EventKind::Observed { stream: "broker".into(), saw };
            run.entry(ms, Some("broker"), what)
        })
    };
    holds(&held(2), broker_lets_go);
    breaks(&held(3), broker_lets_go, "the broker held 3 clients, but its limit is 2");
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

#[test]
fn a_turn_that_is_named_after_its_client_has_gone_is_interrupted() {
    let named = |ms: u64| {
        let run = notes(asked("broker"), 2_000, begins("turn-broker-1"));
        notes(run.answered(1, 3_000, failed(0)), ms, TurnNote::Named)
    };
    let asked = "no interrupt of it arrived";
    breaks(&named(9_000), abandoned_is_interrupted, asked);
    holds(&notes(named(9_000), 9_001, TurnNote::Interrupted), abandoned_is_interrupted);
    holds(&notes(named(9_000), 9_500, TurnNote::Gone), abandoned_is_interrupted);
    breaks(&notes(named(9_000), 13_000, TurnNote::Gone), abandoned_is_interrupted, asked);
    // The client knew the turn.
    holds(&named(3_000), abandoned_is_interrupted);
}

#[test]
fn the_news_of_a_thread_reach_no_other_command() {
    let heard = |call: u64, ms: u64, thread: &str| {
        let run = notes(asked("broker"), 2_000, begins("turn-1"));
        let other = json!({ "turn": "t2", "route": "broker" }).to_string();
        let run = run.asked_as(2, 1_500, Class::InFlight, "task", &other);
        let (stream, saw) = (Heard::stream(Call(call)), Heard(thread.to_owned()).into());
        run.user(ms, EventKind::Observed { stream, saw })
    };
    breaks(&heard(2, 2_000, "thread-1"), news_stay_private, "the thread of call 1");
    holds(&heard(1, 2_000, "thread-1"), news_stay_private);
    breaks(&heard(2, 1_999, "thread-1"), news_stay_private, "the thread of call 1");
    holds(&heard(2, 2_000, "thread-2"), news_stay_private);
    let mut few = heard(2, 2_000, "thread-1");
    few.plan.limits.set("broker.threads", LimitValue::Count(1));
    holds(&few, news_stay_private);
}

#[test]
fn the_news_of_a_subagent_reach_no_other_command() {
    let base = |ms: u64| {
        let run = notes(asked("broker"), 2_000, begins("turn-broker-codex-2"));
        let other = json!({ "turn": "t2", "route": "broker" }).to_string();
        let run = run.asked_as(2, 3_000, Class::InFlight, "task", &other);
        let saw = Heard("turn-broker-codex-2-agent-1".into()).into();
        run.user(ms, EventKind::Observed { stream: Heard::stream(Call(2)), saw })
    };
    let turn = json!({ "turn": "t1" }).to_string();
    let abandoned = |ms: u64| base(ms).asked_as(3, 2_500, Class::InFlight, "abandon", &turn);
    breaks(&base(4_000), news_stay_private, "a subagent of call 1");
    breaks(&abandoned(4_000), news_stay_private, "a subagent of call 1");
    // The broker waits for 30 s for the end of an abandoned turn.
    holds(&abandoned(32_500), news_stay_private);
    // The turn is over, or it is the client's own, or one on the same thread.
    holds(&notes(base(4_000), 4_000, TurnNote::Gone), news_stay_private);
    let own = |turn: &str, thread: &str| {
        let begun = TurnNote::Started { turn: turn.into(), thread: thread.into() };
        base(4_000).user(3_500, EventKind::Observed { stream: "t2-2".into(), saw: begun.into() })
    };
    breaks(&own("turn-broker-codex-4", "thread-4"), news_stay_private, "a subagent of call 1");
    holds(&own("turn-broker-codex-2", "thread-4"), news_stay_private);
    holds(&own("turn-broker-codex-4", "thread-1"), news_stay_private);
    // The broker does not know the id of the turn.
    let mut unnamed = base(4_000);
    unnamed.plan.setup.insert(TABLE.into(), json!({ "t1": { "start": "unnamed" } }));
    holds(&unnamed, news_stay_private);
}

/// A run in which a user starts a job of the turn `t1` and the session `s1` at 1 s, and knows of it at 1.1 s.
fn job() -> ScriptedRun {
    let fields =
        json!({ "turn": "t1", "route": "direct", "background": true, "session": "s1" }).to_string();
    let mut run = history().asked_as(1, 1_000, Class::InFlight, "task", &fields);
    let fields = serde_json::from_str(&fields).unwrap();
    let operation = Operation { verb: "task".into(), client: "client".into(), fields };
    let (when, action) = (When::At(Duration::from_secs(1)), Action::Operation(operation));
    run.plan.steps.push(Step { when, action });
    run.answered(1, 1_100, Answer::queued("in the background"))
}

/// The same run, and a user looks at the job.
fn sees(run: ScriptedRun, ms: u64, state: StateName, shown: Value) -> ScriptedRun {
    let (turn, id, log) = ("t1".into(), "task-1".into(), Vec::new());
    let seen = SeenJob { call: Call(1), turn, id, state, shown, log };
    let saw = Saw { all: true, jobs: vec![seen], broken: Vec::new(), not_found: Vec::new() };
    let observed = |saw: Data| EventKind::Observed { stream: "jobs".into(), saw };
    run.user(ms, observed(Looks.into())).user(ms, observed(saw.into()))
}

#[test]
fn the_end_of_a_session_reaches_each_of_its_jobs() {
    let ended = |verb: &str, fields: Value, asked: u64, answer: &'static str, looks: u64| {
        let run = job().asked_as(2, asked, Class::InFlight, verb, &fields.to_string());
        sees(run.answered(2, 2_500, answer), looks, StateName::Queued, Value::Null)
    };
    let session = |name: &str| json!({ "session": name });
    let done = "cancelled jobs: 1";
    let active = "saw the job queued";
    let one = ended("end-session", session("s1"), 2_000, done, 2_501);
    breaks(&one, cancels_reach_all, active);
    holds(&ended("end-session", session("s1"), 2_000, done, 2_500), cancels_reach_all);
    holds(&ended("end-session", session("s2"), 2_000, done, 2_501), cancels_reach_all);
    holds(&ended("end-session", session("s1"), 1_100, done, 2_501), cancels_reach_all);
    let failed = "cancelled jobs: 0, not ended: 1";
    holds(&ended("end-session", session("s1"), 2_000, failed, 2_501), cancels_reach_all);
    let cancel = ended("cancel", json!({ "turn": "t1" }), 2_000, done, 2_501);
    breaks(&cancel, cancels_reach_all, active);
}

#[test]
fn a_worker_ends_before_the_command_that_ends_its_job() {
    let observed = |stream: &str, saw: Data| EventKind::Observed { stream: stream.into(), saw };
    let process = || ProcessNote { pid: 7, started: "1".into() };
    let begun = || {
        let (job_id, name) = ("task-1".to_owned(), "turn-worker".to_owned());
        let began = WorkerBegan { job: job_id, name, process: process() };
        job().user(1_200, observed("t1-1", began.into()))
    };
    let ends = |run: ScriptedRun, verb: &str, stream: Option<&str>| {
        let fields = json!({ "turn": "t1", "session": "s1" }).to_string();
        let run = run.asked_as(2, 2_000, Class::InFlight, verb, &fields);
        let signalled = |stream| {
            let signalled = Signalled { to: process(), number: 15 };
            observed(stream, signalled.into())
        };
        let run = match stream {
            Some(stream) => run.user(2_500, signalled(stream)),
            None => run,
        };
        if verb == "end-session" {
            return run.answered(2, 3_000, "cancelled jobs: 1");
        }
        let cancelled = JobCancelled { had_thread: true, interrupts: true, killed: true };
        run.user(3_000, observed("t1-1", cancelled.into()))
    };
    let dies = |run: ScriptedRun, ms: u64| {
        let (stream, outcome) = ("turn-worker".into(), ProcessOutcome::Signal(9).into());
        run.user(ms, EventKind::Ended { stream, outcome })
    };
    let lived = "its worker lived on";
    let cancelled = || ends(begun(), "cancel", Some("t1-1"));
    breaks(&cancelled(), ended_job_stops, lived);
    breaks(&dies(cancelled(), 3_101), ended_job_stops, lived);
    holds(&dies(cancelled(), 3_100), ended_job_stops);
    // A cancel signals a worker that has not ended yet.
    let works = || notes(begun(), 1_500, TurnNote::Thread("thread-1".into()));
    let unsignalled = dies(ends(works(), "cancel", None), 3_050);
    breaks(&unsignalled, ended_job_stops, "sent its worker no signal");
    holds(&ends(dies(works(), 2_400), "cancel", None), ended_job_stops);
    // A worker that got no signal and has not worked does not know of the cancel.
    holds(&ends(begun(), "cancel", None), ended_job_stops);
    let worked = notes(begun(), 1_500, TurnNote::Thread("thread-1".into()));
    breaks(&ends(worked, "cancel", None), ended_job_stops, lived);
    breaks(&ends(begun(), "end-session", Some("jobs-2")), ended_job_stops, lived);
    holds(&ends(begun(), "end-session", Some("jobs-3")), ended_job_stops);
}

/// The job completes between 3.9 s after it was recorded and 5 s after its user had asked for it.
#[test]
fn a_record_names_its_turn_and_its_times() {
    let completed = |name: &str, value: Value| {
        let run = notes(job(), 2_000, begins("turn-1"));
        let run = notes(run, 5_000, TurnNote::Reported(Reported::Completed));
        let mut shown = json!({
            "exitStatus": 0, "turn": "turn-1", "thread": "thread-1",
            "created": 50_000, "started": 50_500, "ended": 54_000,
        });
        shown[name] = value;
        sees(run, 6_000, StateName::Completed, shown)
    };
    holds(&completed("ended", json!(53_900)), record_is_true);
    breaks(&completed("ended", json!(53_899)), record_is_true, "the times in its record");
    holds(&completed("ended", json!(55_000)), record_is_true);
    breaks(&completed("ended", json!(55_001)), record_is_true, "the times in its record");
    holds(&completed("started", json!(51_000)), record_is_true);
    breaks(&completed("started", json!(51_001)), record_is_true, "the times in its record");
    breaks(&completed("started", Value::Null), record_is_true, "the times in its record");
    breaks(&completed("turn", json!("turn-2")), record_is_true, "no such turn");
    breaks(&completed("thread", json!("thread-2")), record_is_true, "no such turn");
    breaks(&completed("exitStatus", json!(1)), record_is_true, "the exit status 1");
}

#[test]
fn the_record_of_a_completed_job_names_its_turn() {
    let completed = |thread: Value, lasts: u64| {
        let run = notes(job(), 2_000, begins("turn-1"));
        let lock = json!({ "lasts": "1s" }).to_string();
        let run = run.asked_as(2, 3_000, Class::InFlight, "hold-jobs", &lock);
        let run = run.answered(2, 3_000 + lasts, "held");
        let run = notes(run, 5_000, TurnNote::Reported(Reported::Completed));
        let (stream, process) = ("t1-1".into(), ProcessNote { pid: 7, started: "1".into() });
        let (id, name) = ("task-1".to_owned(), "turn-worker".to_owned());
        let saw = WorkerBegan { job: id, name, process }.into();
        let run = run.user(1_200, EventKind::Observed { stream, saw });
        let (stream, outcome) = ("turn-worker".into(), ProcessOutcome::Exit(0).into());
        let run = run.user(5_100, EventKind::Ended { stream, outcome });
        let shown = json!({
            "exitStatus": 0, "turn": "turn-1", "thread": thread,
            "created": 50_000, "started": 50_500, "ended": 54_000,
        });
        sees(run, 6_000, StateName::Completed, shown)
    };
    holds(&completed(json!("thread-1"), 1_000), record_is_true);
    breaks(&completed(Value::Null, 1_000), record_is_true, "its turn was turn-1 on thread-1");
    holds(&completed(Value::Null, 2_000), record_is_true);
}

#[test]
fn a_command_of_a_workspace_uses_the_idle_broker_of_its_machine() {
    let second = |ms: u64, account: &str| {
        let serves = BrokerNote::Serves.into();
        let run = asked("workspace");
        let run =
            run.user(1_100, EventKind::Observed { stream: "turn-broker".into(), saw: serves });
        let run = notes(run, 1_200, TurnNote::Account(account.into()));
        let run = notes(notes(run, 1_300, begins("turn-client-codex-1")), 1_300, TurnNote::Named);
        let run = notes(run, 2_000, TurnNote::Reported(Reported::Completed));
        let run = notes(run, 2_000, TurnNote::Gone).answered(1, 2_000, failed(0));
        let other = json!({ "turn": "t2", "route": "workspace" }).to_string();
        let run = run.asked_as(2, ms, Class::InFlight, "task", &other);
        let saw = begins("turn-client-codex~2-1").into();
        run.user(4_000, EventKind::Observed { stream: "t2-2".into(), saw })
    };
    let idle = "was ready and idle since";
    breaks(&second(2_501, ""), fallback_is_needed, idle);
    holds(&second(2_500, ""), fallback_is_needed);
    holds(&second(2_501, "a"), fallback_is_needed);
}

#[test]
fn a_broker_that_has_greeted_its_app_server_is_ready() {
    let alone = |name: &str, greets: u64, account: &str| {
        let observed = |run: ScriptedRun, ms: u64, stream: &str, saw: Data| {
            run.user(ms, EventKind::Observed { stream: stream.into(), saw })
        };
        let run = observed(history(), 2_000, "turn-broker", BrokerNote::Serves.into());
        let info = json!({ "clientInfo": { "name": name, "version": "1" } });
        let hello = json!({ "id": 1, "method": "initialize", "params": info }).to_string();
        let run = observed(run, 2_000, "codex@client-codex", Got::of(&hello).into());
        let said = json!({ "method": "initialized" }).to_string();
        let run = observed(run, greets, "codex@client-codex", Got::of(&said).into());
        let task = json!({ "turn": "t2", "route": "workspace" }).to_string();
        let run = run.asked_as(2, 4_000, Class::InFlight, "task", &task);
        let run = observed(run, 5_000, "t2-2", begins("turn-client-codex~2-1").into());
        let later = json!({ "turn": "t3", "route": "workspace", "account": account });
        match account {
            "" => run,
            _ => run.asked_as(3, 9_000, Class::InFlight, "task", &later.to_string()),
        }
    };
    let idle = "was ready and idle since";
    breaks(&alone("broker", 3_499, ""), fallback_is_needed, idle);
    holds(&alone("broker", 3_500, ""), fallback_is_needed);
    holds(&alone("world", 3_499, ""), fallback_is_needed);
    // The broker may work for the other account.
    holds(&alone("broker", 3_499, "a"), fallback_is_needed);
}

#[test]
fn each_request_to_an_app_server_has_a_new_id() {
    let asks = |asked: &[(&str, u64)]| {
        let ask = |run, (method, id): &(&str, u64)| {
            gets(run, 1_000, &json!({ "id": id, "method": method }))
        };
        asked.iter().fold(history(), ask)
    };
    holds(&asks(&[("initialize", 1), ("thread/start", 2), ("initialize", 1)]), ids_are_new);
    let again = asks(&[("initialize", 1), ("thread/start", 2), ("turn/start", 2)]);
    breaks(&again, ids_are_new, "got the request turn/start");
    // An answer has the id of the question.
    let answer = gets(asks(&[("initialize", 1)]), 1_000, &json!({ "id": 1, "result": {} }));
    holds(&answer, ids_are_new);
}

#[test]
fn a_broker_knows_the_turn_of_each_late_start() {
    let held = |late_starts: usize| {
        let counts = BrokerCounts { late_starts, finished_turns: 1, ..BrokerCounts::default() };
        let saw = BrokerCounted::data(counts);
        let what = EventKind::Observed { stream: "broker".into(), saw };
        history().entry(4_000, Some("broker"), what)
    };
    holds(&held(1), broker_lets_go);
    breaks(&held(2), broker_lets_go, "the broker held 2 late starts, but its limit is 1");
}

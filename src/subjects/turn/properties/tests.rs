//! Tests of the excuses of the properties, over hand-written runs.

use serde_json::{Value, json};

use crate::history::{Answer, Class, EventKind};
use crate::property::Violation;
use crate::property::scripted::{ScriptedRun, history};
use crate::report::sentence;
use crate::schedule::LimitValue;
use crate::subject::Subject;
use crate::subjects::turn::Turn;
use crate::subjects::turn::notes::{Got, Reported, TurnNote};
use crate::subjects::turn::outcome::{CommandOutcome, SeenRefusal, SeenVerdict};
use crate::subjects::turn::setup::{APP_SERVERS, TABLE};
use crate::subjects::turn::story::Story;
use reknit_turn::client::ClientError;

mod brokers;
mod deadlines;
mod fallbacks;
mod greetings;
mod interrupts;
mod jobs;
mod refusals;
mod threads;
mod verdicts;
mod works;

type Property = fn(&Story<'_>) -> Vec<Violation>;

fn violations(scripted: &ScriptedRun, property: Property) -> Vec<String> {
    scripted
        .with_limits(Turn.limits(), |cx| property(&Story::of(cx)).iter().map(sentence).collect())
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

//! Tests of the boundary cases of the properties, over hand-written runs.

use crate::history::{Answer, Class, Data, EventKind};
use crate::property::Violation;
use crate::property::scripted::{ScriptedRun, history};
use crate::report::sentence;
use crate::schedule::MilestoneValue;
use crate::subjects::toolcall::answers::{Did, Rejected};
use crate::subjects::toolcall::limits::LIMITS;
use crate::subjects::toolcall::notes::{
    Became, By, CallEnd, OfCall, OfChannel, Question, Status, ToolWork,
};

use super::story::Story;

mod actions;
mod calls;
mod chats;
mod counts;
mod deadlines;
mod excuses;
mod grants;
mod holds;
mod line;
mod memory;
mod presence;
mod refusals;
mod replicas;
mod states;
mod waits;

/// The default grace period.
const GRACE: u64 = 30_000;
/// The silence after which a host gives up a connection.
const DETECTION: u64 = 25_000;
/// The time allowed for a message to cross the network and be processed.
const MOMENT: u64 = 620;
/// The time allowed for an action of a host that knows when the action is due.
const AT_ONCE: u64 = 100;
/// The time within which a client is connected again: detection, recovery window and an attempt
/// under the guarantees of these runs.
const BACK: u64 = 16_000 + 25_000 + 5_000 + MOMENT;

type Fields<'f> = &'f [(&'static str, &'f str)];

fn milestone(
    scripted: ScriptedRun,
    ms: u64,
    host: &str,
    name: &'static str,
    fields: Fields<'_>,
) -> ScriptedRun {
    let value = |text: &str| {
        text.parse().map_or_else(|_| MilestoneValue::Text(text.to_owned()), MilestoneValue::Number)
    };
    let fields = fields.iter().map(|(name, text)| (*name, value(text))).collect();
    scripted.entry(ms, Some(host), EventKind::Milestone { name, fields })
}

fn saw(scripted: ScriptedRun, ms: u64, host: &str, about: &str, what: &str) -> ScriptedRun {
    scripted.entry(ms, Some(host), EventKind::Observed { stream: about.into(), saw: noted(what) })
}

/// Builds a note from its displayed text.
fn noted(shown: &str) -> Data {
    let by = [By::Agent, By::User, By::Tool, By::Second].into_iter();
    let of_call = by
        .filter_map(|by| Some((by, shown.strip_prefix(&format!("{by}: "))?.split_once(' ')?)))
        .next();
    if let Some((by, (call, what))) = of_call {
        let what = became().into_iter().find(|became| became.to_string() == what).expect("a note");
        return Data::of(OfCall { by, call: call.to_owned(), what });
    }
    let rest = |prefix: &str| shown.strip_prefix(prefix).map(str::to_owned);
    let stable = |second| move |digest| OfChannel::stable(second, digest);
    let note = rest("state stable: ").map(stable(false));
    let note = note.or_else(|| rest("second connection: state stable: ").map(stable(true)));
    let note = note.or_else(|| rest("title ").map(OfChannel::Title));
    let note = note.or_else(|| rest("contains chat ").map(OfChannel::ContainsChat));
    let joined = [true, false].map(OfChannel::Joined);
    let mut others =
        [OfChannel::Changed, OfChannel::Received, OfChannel::Unsubscribed, OfChannel::Removed]
            .into_iter()
            .chain(joined);
    Data::of(note.or_else(|| others.find(|note| note.to_string() == shown)).expect("a note"))
}

fn rejected(why: &str) -> Answer {
    Answer::refused(Rejected(why.to_owned()))
}

/// All call events that occur in these tests.
fn became() -> Vec<Became> {
    let failures = ["gone", "released", "another one offers it: try again"]
        .map(|why| CallEnd::Failed(why.to_owned()));
    let ends =
        failures.into_iter().chain([CallEnd::Completed, CallEnd::Cancelled]).map(Became::Over);
    let works = [ToolWork::Begins, ToolWork::Ends, ToolWork::Stopped].map(Became::Works);
    let statuses =
        [Status::Running, Status::Completed, Status::Failed, Status::Cancelled].map(Became::Is);
    let questions = [Became::Asks(asks("client")), Became::Hears(Err("lost".to_owned()))];
    let others = [
        Became::Calls { tool: "t1".to_owned(), of_its_choice: false },
        Became::Ready { asks: false },
        Became::GivenUp,
    ];
    let consents = [Became::Ready { asks: true }, Became::Decides(true), Became::Decides(false)];
    ends.chain(works).chain(statuses).chain(questions).chain(others).chain(consents).collect()
}

/// A question that a window answers at once.
fn asks(client: &str) -> Question {
    Question { client: client.to_owned(), takes: 100, is_unknown: false }
}

/// The host accepts the client over its n-th connection, which the run already contains.
fn accepted(scripted: ScriptedRun, ms: u64, conn: &str) -> ScriptedRun {
    milestone(
        scripted,
        ms,
        "server",
        "toolcall.host.initialized",
        &[("conn", conn), ("client", "client")],
    )
}

fn looks(scripted: ScriptedRun, ms: u64, host: &str) -> ScriptedRun {
    saw(
        saw(saw(scripted, ms, host, "s1", "state received"), ms, host, "c1", "state received"),
        ms,
        host,
        "s1",
        "joined",
    )
}

/// A run in which the client has one connection from the start until `over`, and watches
/// everything.
fn here_until(over: Option<u64>) -> ScriptedRun {
    looks(accepted(history().conn(1, 10, over), 20, "1"), 30, "client")
}

fn calls(scripted: ScriptedRun, ms: u64, call: &str, owner: &str) -> ScriptedRun {
    let scripted = milestone(
        scripted,
        ms,
        "server",
        "toolcall.host.call",
        &[("chat", "c1"), ("call", call), ("owner", owner)],
    );
    saw(scripted, ms, "server", "t1", &format!("agent: {call} calls t1"))
}

fn failed(scripted: ScriptedRun, ms: u64, owner: &str) -> ScriptedRun {
    let fields = [("chat", "c1"), ("call", "call-1"), ("owner", owner), ("away", "1")];
    let scripted = milestone(scripted, ms, "server", "toolcall.host.call-failed", &fields);
    saw(scripted, ms, "server", "t1", "agent: call-1 is over: failed (gone)")
}

/// The chat is removed and made again, without a pause.
fn remade(scripted: ScriptedRun, ms: u64) -> ScriptedRun {
    let note = |scripted: ScriptedRun, note: OfChannel| {
        let saw = Data::of(note);
        scripted.entry(ms, Some("server"), EventKind::Observed { stream: "c1".into(), saw })
    };
    note(note(scripted, OfChannel::Deleted), OfChannel::Stored)
}

/// The user of the client asks so many times for the state of the chat, and gives each request up.
fn asks_for_states(scripted: ScriptedRun, ms: u64, times: u64) -> ScriptedRun {
    (0..times).fold(scripted, |scripted, n| {
        let watch = r#"{"chat":"c1"}"#;
        let asked = scripted.asked_as(100 + n, ms, Class::InFlight, "watch", watch);
        asked.answered(100 + n, ms, Answer::GivenUp)
    })
}

fn over(scripted: ScriptedRun, ms: u64, how: &str) -> ScriptedRun {
    saw(scripted, ms, "server", "t1", &format!("agent: call-1 is over: {how}"))
}

fn violations(scripted: &ScriptedRun, property: fn(&Story<'_>) -> Vec<Violation>) -> Vec<String> {
    let found = scripted.with_limits(LIMITS, |cx| property(&Story::of(cx)));
    let is_listed = |it: &Violation| {
        super::OWN.iter().any(|own| own.name == it.property && own.kinds.contains(&it.kind))
    };
    assert!(found.iter().all(is_listed), "{found:?}");
    found.iter().map(sentence).collect()
}

#[track_caller]
fn holds(scripted: &ScriptedRun, property: fn(&Story<'_>) -> Vec<Violation>) {
    assert_eq!(violations(scripted, property), Vec::<String>::new());
}

//! Runs and their expectations.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::history::{
    Call, Class, ConnIndex, Connection, Data, Ending, Event, EventKind, History, ProcessOutcome,
    Stream, Time,
};
use crate::property::{CheckContext, Guarantees, Judgements, Violation};
use crate::report::sentence;
use crate::schedule::{Host, MilestoneValue, Operation};

const CONNECTED: &str = "ferry.client.connected";

/// Builds a history with one client and streams.
pub(super) struct HistoryBuilder {
    history: History,
    stream: Stream,
}

impl Default for HistoryBuilder {
    fn default() -> Self {
        Self { history: History::default(), stream: p1() }
    }
}

impl HistoryBuilder {
    /// Applies all following events to this stream.
    pub(super) fn of(self, stream: &str) -> Self {
        Self { stream: stream.into(), ..self }
    }

    fn stream(&self) -> Stream {
        self.stream.clone()
    }

    fn event(mut self, at: u64, what: EventKind) -> Self {
        self.history.events.push(Event { at: Time(at), host: Some(Host::client(1)), what });
        self.history.end = Time(at);
        self
    }

    /// Adds connection n of the client, which carries generation n.
    pub(super) fn connected(mut self, at: u64, n: u64) -> Self {
        let conn = Connection {
            generation: Some(n),
            ..Connection::new(format!("client#{n}"), Host::client(1), "server".into(), Time(at))
        };
        self.history.conns.push(conn);
        *self.history.milestones.entry(CONNECTED).or_default() += 1;
        let fields: Arc<[_]> =
            [("generation", MilestoneValue::Number(n)), ("conn", MilestoneValue::Number(n))].into();
        self.event(at, EventKind::ConnOpened { conn: ConnIndex(n as usize - 1) })
            .event(at, EventKind::Milestone { name: CONNECTED, fields })
    }

    fn asked(self, at: u64, call: u64) -> Self {
        let operation = Operation {
            verb: "start".into(),
            client: Host::client(1),
            fields: serde_json::Map::new(),
        };
        self.event(
            at,
            EventKind::Asked {
                call: Call(call),
                operation: operation.into(),
                class: Class::Durable,
            },
        )
    }

    pub(super) fn opened(self, at: u64) -> Self {
        let stream = self.stream();
        self.event(at, EventKind::Opened { stream, call: Call(1) })
    }

    pub(super) fn produced(self, at: u64, item: &'static str) -> Self {
        let stream = self.stream();
        self.event(at, EventKind::Produced { stream, bytes: item.into() })
    }

    pub(super) fn delivered(self, at: u64, item: &'static str, generation: u64) -> Self {
        let stream = self.stream();
        self.event(
            at,
            EventKind::Delivered { stream, bytes: item.into(), generation: Some(generation) },
        )
    }

    pub(super) fn really_ended(self, at: u64) -> Self {
        let stream = self.stream();
        self.event(at, EventKind::Ended { stream, outcome: ProcessOutcome::Exit(7).into() })
    }

    /// Adds the real end of a pipe: every holder closed it.
    pub(super) fn closed(self, at: u64) -> Self {
        let stream = self.stream();
        self.event(at, EventKind::Ended { stream, outcome: ProcessOutcome::Closed.into() })
    }

    pub(super) fn completed(self, at: u64, outcome: impl Into<Data>) -> Self {
        let stream = self.stream();
        self.event(
            at,
            EventKind::StreamEnded {
                stream,
                ending: Ending::Completed { outcome: outcome.into() },
            },
        )
    }

    pub(super) fn failed(self, at: u64, reason: impl Into<Data>) -> Self {
        let stream = self.stream();
        self.event(
            at,
            EventKind::StreamEnded { stream, ending: Ending::Failed { reason: reason.into() } },
        )
    }
}

fn p1() -> Stream {
    "p1".into()
}

/// A run without errors: `a` and `b` are produced, the client reconnects, `c` is produced,
/// everything is delivered.
fn good() -> HistoryBuilder {
    let begun = HistoryBuilder::default()
        .connected(0, 1)
        .asked(1, 1)
        .opened(2)
        .produced(10, "a")
        .delivered(15, "a", 1)
        .produced(20, "b");
    begun
        .connected(30, 2)
        .delivered(35, "b", 2)
        .produced(40, "c")
        .delivered(45, "c", 2)
        .really_ended(50)
        .completed(1050, ProcessOutcome::Exit(7))
}

/// Returns the unmet expectations, for a subject whose guarantees define parts of a stream.
fn broken(expect: &Expect, scripted: &HistoryBuilder) -> Vec<Violation> {
    let guarantees = Guarantees { parts: &["/stdout", "/stderr", "/pty"], ..Guarantees::default() };
    let plan = Plan::new("ferry");
    let history = &scripted.history;
    expect.unmet(&CheckContext {
        plan: &plan,
        limits: &plan.limits,
        history,
        guarantees: &guarantees,
        milestones: &[],
        servers: &["server"],
        control: None,
        judgements: &Judgements::default(),
    })
}

/// Returns the sentences of the unmet expectations of an `[expect]` section that begins with this
/// text.
pub(super) fn unmet(expect: &str, scripted: &HistoryBuilder) -> Vec<String> {
    let expect = after_head(&format!("[expect]\n{expect}")).expect;
    broken(&expect, scripted).iter().map(sentence).collect()
}

#[test]
fn a_good_run_meets_all_expectations() {
    let all = r#"
        reaches = ["ferry.client.connected", { milestone = "ferry.client.connected", generation = 2, conn = "client#2", nth = 1 }]
        never = [{ milestone = "ferry.client.connected", generation = 3 }, "ferry.client.recovering", { milestone = "ferry.client.connected", nth = 3 }]
        [expect.stream.p1]
        ends = "completed"
        outcome = "exit 7"
        output = "all"
        within = "1s"
        live-from = 2
        [expect.call.1]
        ends = "open""#;
    assert_eq!(unmet(all, &good()), Vec::<String>::new());
}

#[test]
fn an_unreached_required_milestone_is_reported() {
    assert_eq!(
        unmet("reaches = [\"ferry.client.recovering\"]", &good()),
        ["ferry.client.recovering was not reached"]
    );
    let third = "reaches = [{ milestone = \"ferry.client.connected\", nth = 3 }]";
    assert_eq!(unmet(third, &good()), ["ferry.client.connected was not reached 3 times"]);
    let other = "reaches = [{ milestone = \"ferry.client.connected\", generation = 2, conn = \"client#1\", host = \"client\" }]";
    assert_eq!(
        unmet(other, &good()),
        ["ferry.client.connected (generation 2, on client#1, at client) was not reached"]
    );
}

#[test]
fn a_reached_forbidden_milestone_is_reported() {
    let second = "never = [{ milestone = \"ferry.client.connected\", nth = 2 }]";
    assert_eq!(
        unmet(second, &good()),
        ["ferry.client.connected was reached at 0.030 s, but must never be"]
    );
}

#[test]
fn a_connection_is_named_by_number_by_generation_or_as_the_newest() {
    let reaches = |conn: &str| {
        unmet(
            &format!(
                "reaches = [{{ milestone = \"{CONNECTED}\", generation = 1, conn = \"{conn}\" }}]"
            ),
            &good(),
        )
        .is_empty()
    };
    assert_eq!(
        ["client#1", "client:gen1", "client#last"].map(reaches),
        [true; 3],
        "the first was the newest when it was reported"
    );
    assert_eq!(["client#2", "client:gen2", "client/status#1", "server#1"].map(reaches), [false; 4]);
}

#[test]
fn an_unexpected_end_of_a_stream_is_reported() {
    let of = |keys: &str, scripted: &HistoryBuilder| {
        unmet(&format!("[expect.stream.p1]\n{keys}"), scripted)
    };
    assert_eq!(
        of("ends = \"failed\"", &good()),
        ["p1: it must fail, but it completed at 1.050 s with `exit 7`"]
    );
    assert_eq!(
        of("ends = \"completed\"\noutcome = \"exit 0\"", &good()),
        ["p1: it completed at 1.050 s with `exit 7`, and must end with `exit 0`"]
    );
    let failed = HistoryBuilder::default().opened(1).failed(9, "session lost");
    assert_eq!(
        of("ends = \"completed\"", &failed),
        ["p1: it must complete, but it failed at 0.009 s: session lost"]
    );
    assert_eq!(of("ends = \"failed\"\nreason = \"lost\"", &failed), Vec::<String>::new());
    assert_eq!(
        of("ends = \"failed\"\nreason = \"deadline\"", &failed),
        [
            "p1: it failed at 0.009 s: session lost, and must fail with a reason that contains `deadline`"
        ]
    );
    assert_eq!(
        of("ends = \"completed\"", &HistoryBuilder::default().opened(1)),
        ["p1: it must complete, but it is still open"]
    );
    assert_eq!(of("ends = \"open\"", &HistoryBuilder::default()), ["p1: it was never opened"]);
}

#[test]
fn an_unexpected_output_of_a_stream_is_reported() {
    let of = |keys: &str, scripted: &HistoryBuilder| {
        unmet(&format!("[expect.stream.p1]\noutput = \"{keys}\""), scripted)
    };
    let part = HistoryBuilder::default().opened(1).produced(1, "ab").delivered(2, "a", 1);
    assert_eq!(of("all", &part), ["p1: 1 of 2 bytes were delivered, but all must be"]);
    assert_eq!(of("prefix", &part), Vec::<String>::new());
    assert_eq!(of("none", &part), ["p1: 1 of 2 bytes were delivered, but none may be"]);
    let other = HistoryBuilder::default().opened(1).produced(1, "ab").delivered(2, "ba", 1);
    assert_eq!(of("all", &other), ["p1: the delivered data differs from the produced data"]);
    assert_eq!(
        of("prefix", &other),
        ["p1: the delivered data is not a prefix of the produced data"]
    );
}

#[test]
fn a_late_end_of_a_stream_is_reported() {
    let within = |text: &str, scripted: &HistoryBuilder| {
        unmet(&format!("[expect.stream.p1]\nwithin = \"{text}\""), scripted)
    };
    assert_eq!(within("1s", &good()), Vec::<String>::new(), "1 s after its real end is within 1 s");
    assert_eq!(
        within("999ms", &good()),
        ["p1: it ended at 1.050 s, 1s after its real end at 0.050 s; the limit is 999ms"]
    );
    assert_eq!(
        within("1s", &HistoryBuilder::default().opened(1)),
        ["p1: it is still open, but must end within 1s of its real end"]
    );
    assert_eq!(
        within("1s", &HistoryBuilder::default().opened(1).failed(2, "x")),
        ["p1: it has no real end, but must end within 1s of it"]
    );
}

#[test]
fn a_user_must_see_each_expected_text_in_one_observation() {
    let shows = |expect: &str, scripted: &HistoryBuilder| {
        unmet(&format!("[expect.stream.p1]\n{expect}"), scripted)
    };
    let sees = |scripted: HistoryBuilder, saw: &'static str| {
        scripted.event(2, EventKind::Observed { stream: p1(), saw: saw.into() })
    };
    let both = || sees(sees(HistoryBuilder::default(), "one page"), "another");
    assert_eq!(shows("shows = [\"page\", \"other\"]", &both()), Vec::<String>::new());
    assert_eq!(
        shows("shows = [\"page\", \"page another\"]", &both()),
        ["p1: its user must see `page another`"]
    );
    // Only an opening opens a stream.
    assert_eq!(
        shows("shows = [\"page\"]", &HistoryBuilder::default()),
        ["p1: it was never opened"]
    );
    for more in ["ends = \"open\"", "output = \"none\"", "shows = [\"page\"]\nends = \"open\""] {
        assert_eq!(shows(more, &both()), ["p1: it was never opened"], "{more}");
    }
    let opened = || sees(HistoryBuilder::default().opened(1), "one page");
    assert_eq!(shows("shows = [\"page\"]\nends = \"open\"", &opened()), Vec::<String>::new());
    assert_eq!(
        shows("shows = [\"book\"]\nends = \"open\"", &opened()),
        ["p1: its user must see `book`"]
    );
}

#[test]
fn delivered_data_contains_an_expected_text_across_its_pieces() {
    let says = |said: &str, scripted: &HistoryBuilder| {
        unmet(&format!("[expect.stream.p1]\nsays = \"{said}\""), scripted)
    };
    let delivered = HistoryBuilder::default()
        .opened(1)
        .produced(2, "a")
        .produced(2, "b")
        .delivered(3, "a", 1)
        .delivered(4, "b", 1);
    assert_eq!(says("ab", &delivered), Vec::<String>::new());
    assert_eq!(says("ba", &delivered), ["p1: the delivered data must contain `ba`, but is `ab`"]);
}

#[test]
fn data_from_a_catch_up_is_not_live() {
    let live = |scripted: &HistoryBuilder| unmet("[expect.stream.p1]\nlive-from = 2", scripted);
    let caught_up = HistoryBuilder::default()
        .connected(0, 1)
        .opened(2)
        .produced(10, "a")
        .connected(30, 2)
        .delivered(35, "a", 2);
    assert_eq!(
        live(&caught_up),
        ["p1: nothing was delivered live over generation 2 or a later one"]
    );
    assert_eq!(live(&caught_up.produced(40, "b").delivered(41, "b", 2)), Vec::<String>::new());
    assert_eq!(
        live(
            &HistoryBuilder::default()
                .connected(0, 1)
                .opened(1)
                .produced(2, "a")
                .delivered(3, "a", 1)
        )
        .len(),
        1
    );
}

#[test]
fn an_unexpected_end_of_a_call_is_reported() {
    let of = |keys: &str, scripted: &HistoryBuilder| {
        unmet(&format!("[expect.call.1]\n{keys}"), scripted)
    };
    let answered = || {
        HistoryBuilder::default()
            .asked(1, 1)
            .event(5, EventKind::Answered { call: Call(1), answer: "sum 3".into() })
    };
    assert_eq!(of("ends = \"answered\"\nresult = \"sum 3\"", &answered()), Vec::<String>::new());
    assert_eq!(
        of("ends = \"answered\"\nresult = \"sum 4\"", &answered()),
        ["call 1: it was answered at 0.005 s with `sum 3`, and must end with `sum 4`"]
    );
    assert_eq!(
        of("ends = \"open\"", &answered()),
        ["call 1: it must stay open, but it was answered at 0.005 s with `sum 3`"]
    );
    let failed = HistoryBuilder::default()
        .asked(1, 1)
        .event(5, EventKind::Failed { call: Call(1), reason: "connection lost".into() });
    assert_eq!(of("ends = \"failed\"\nreason = \"lost\"", &failed), Vec::<String>::new());
    assert_eq!(
        of("ends = \"answered\"", &failed),
        ["call 1: it must be answered, but it failed at 0.005 s: connection lost"]
    );
    assert_eq!(
        of("ends = \"failed\"", &HistoryBuilder::default().asked(1, 1)),
        ["call 1: it must fail, but it is still open"]
    );
    assert_eq!(
        of("ends = \"failed\"", &HistoryBuilder::default()),
        ["call 1: it was never requested"]
    );
}

#[test]
fn an_unmet_expectation_is_reported_like_a_violation() {
    let expect = after_head("[expect.stream.p1]\nends = \"failed\"").expect;
    let broken = broken(&expect, &good());
    assert_eq!(
        (broken[0].property, broken[0].at, broken[0].stream().cloned()),
        ("expect", Time::from(Duration::from_millis(1050)), Some(p1()))
    );
}

/// Returns the sentences about idle steps of a schedule with two steps. Each run has two
/// connections, and lists the executed steps with their notes.
fn idle(second: &str, runs: &[&[(usize, Option<&str>)]]) -> Vec<String> {
    let first = "[[step]]\nat = \"1s\"\ndrop-handle = {}\n";
    let scenario = after_head(&format!("{first}\n[[step]]\n{second}\n"));
    let mut idle = Idle::new(&scenario);
    for run in runs {
        let mut scripted = HistoryBuilder::default().connected(0, 1).connected(1, 2);
        for (step, note) in *run {
            scripted = scripted.event(1, EventKind::Stepped { step: *step, note: None });
            if let Some(note) = note {
                scripted = scripted
                    .event(1, EventKind::Stepped { step: *step, note: Some((*note).to_owned()) });
            }
        }
        idle.add(&scripted.history);
    }
    idle.unmet().iter().map(sentence).collect()
}

const RESET: &str = "at = \"2s\"\nreset = { conn = \"client#5\" }";

#[test]
fn a_step_that_did_nothing_in_any_run_is_named_with_its_line() {
    let missed = (1, Some("client#5 does not exist yet"));
    assert_eq!(
        idle(RESET, &[&[(0, None), missed], &[(0, None), missed]]),
        [
            "step 2 in line 8, `reset`, had no effect in any of 2 runs: client#5 does not exist yet; add `may-miss = true` if that is intended"
        ]
    );
    let after = "after = \"ferry.client.recovering\"\nreset = { conn = \"client#1\" }";
    assert_eq!(
        idle(after, &[&[(0, None)]]),
        [
            "step 2 in line 8, `reset`, had no effect: its trigger was not reached; add `may-miss = true` if that is intended"
        ]
    );
}

#[test]
fn one_run_in_which_a_step_did_something_is_enough() {
    let missed = (1, Some("client#5 does not exist yet"));
    let reset = RESET.replace("client#5", "client#2");
    assert_eq!(
        idle(&reset, &[&[(0, None), missed], &[(0, None), (1, None)], &[(0, None), missed]]),
        Vec::<String>::new()
    );
}

#[test]
fn a_fault_on_a_connection_that_never_opens_does_nothing() {
    let stall = |conn: &str| {
        let step = format!("at = \"2s\"\nstall = {{ conn = \"{conn}\", toward = \"client\" }}");
        idle(&step, &[&[(0, None), (1, None)]])
    };
    assert_eq!(
        stall("client#3"),
        [
            "step 2 in line 8, `stall`, had no effect: client#3 never came; add `may-miss = true` if that is intended"
        ]
    );
    assert_eq!(["client#2", "client:gen2", "client#last"].map(|conn| stall(conn).len()), [0; 3]);
}

#[test]
fn a_step_that_may_miss_is_not_reported() {
    assert_eq!(idle(&format!("{RESET}\nmay-miss = true"), &[&[(0, None)]]), Vec::<String>::new());
}

#[test]
fn a_swarm_is_judged_over_all_its_runs_together() {
    let swarm = |expect: &str| after_head(&format!("[swarm]\n[expect]\n{expect}")).expect;
    let (once, never) =
        (HistoryBuilder::default().connected(0, 1).history, HistoryBuilder::default().history);
    let over = |expect: &str| {
        let expect = swarm(expect);
        let mut tally = SwarmTally::new(&expect);
        [&never, &once, &never, &never].into_iter().for_each(|history| tally.add(history));
        tally.unmet().iter().map(sentence).collect::<Vec<_>>()
    };
    let nothing = Vec::<String>::new();
    assert_eq!(over("reaches = [\"ferry.client.connected\"]"), nothing, "one run is enough");
    assert_eq!(
        over("reaches = [\"ferry.client.recovering\"]"),
        ["ferry.client.recovering was reached in none of 4 runs"]
    );
    assert_eq!(
        over("never = [\"ferry.client.connected\"]"),
        ["ferry.client.connected was reached in 1 of 4 runs, but must never be"]
    );
    assert_eq!(over("at-least = { \"ferry.client.connected\" = 0.25 }"), nothing);
    assert_eq!(
        over("at-least = { \"ferry.client.connected\" = 0.3 }"),
        ["ferry.client.connected was reached in 1 of 4 runs; the required share is 0.3"]
    );
}

#[test]
fn a_call_takes_its_time_and_says_something() {
    let answered = |at| {
        let what = EventKind::Answered { call: Call(1), answer: "closed: 12 bytes".into() };
        good().event(at, what)
    };
    let takes = |at| unmet("[expect.call.1]\ntakes = \"1s..2s\"", &answered(at));
    assert_eq!(takes(1_001), [""; 0]);
    assert_eq!(takes(2_001), [""; 0]);
    assert_eq!(takes(2_002), ["call 1: it ended after 2001ms, but must end after 1s to 2s"]);
    let says = |text: &str| {
        let expect = format!("[expect.call.1]\nends = \"answered\"\nsays = \"{text}\"");
        unmet(&expect, &answered(100))
    };
    assert_eq!(says("12 bytes"), [""; 0]);
    assert_eq!(
        says("13 bytes"),
        [
            "call 1: it was answered at 0.100 s with `closed: 12 bytes`, and must end with a result that contains `13 bytes`"
        ]
    );
}

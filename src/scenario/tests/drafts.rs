//! The first two scenario files, unchanged: a schedule and a swarm of processes. They use a subject
//! with the names of `exec` and the processes of the world. The subject is never run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::*;
use crate::history::Class;
use crate::property::Guarantees;
use crate::schedule::FaultKind;
use crate::schedule::profile::{Choice, Template};
use crate::schedule::{Limit, LimitValue, Limits};
use crate::subject::{
    DefectDoc, HostContext, MilestoneDoc, OperationQueue, Operations, PointDoc, Rule, Subject,
};
use crate::world::process::{self, ProcessEnd};

const LATE_CLOSE: &str = include_str!("drafts/late-close.toml");
const TIGHT_LIMITS: &str = include_str!("drafts/tight-limits.toml");

/// A subject that has only names.
struct Exec;

/// The operations of its user.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Ask {
    Start { process: String },
    Write {},
    Read {},
    Terminate {},
    HttpStream {},
    DropHandle {},
}

impl Operations for Ask {
    fn class(&self) -> Class {
        Class::Durable
    }

    fn strategy(_: &Plan) -> BoxedStrategy<Self> {
        prop_oneof![Just(Ask::Write {}), Just(Ask::Read {})].boxed()
    }
}

const fn limit(name: &'static str, default: LimitValue, least: LimitValue) -> Limit {
    Limit { name, default, least, doc: "" }
}

impl Subject for Exec {
    type Operation = Ask;

    fn name(&self) -> &'static str {
        "exec"
    }

    fn description(&self) -> &'static str {
        "has the names of exec"
    }

    fn limits(&self) -> &'static [Limit] {
        const LIMITS: &[Limit] = &[
            limit("client.recovery-deadline", LimitValue::secs(25), LimitValue::millis(1)),
            limit("server.detached-lifetime", LimitValue::secs(30), LimitValue::millis(1)),
            limit("server.retained-bytes", LimitValue::Bytes(1 << 20), LimitValue::Bytes(1)),
            limit("client.event-queue", LimitValue::Count(128), LimitValue::Count(1)),
            limit("client.retry-writes", LimitValue::Flag(false), LimitValue::Flag(false)),
        ];
        LIMITS
    }

    fn milestones(&self) -> &'static [MilestoneDoc] {
        const fn named(name: &'static str, fields: &'static [&'static str]) -> MilestoneDoc {
            MilestoneDoc { name, fields, doc: "", only: None }
        }
        const MILESTONES: &[MilestoneDoc] = &[
            named("exec.client.connected", &["generation", "conn"]),
            named("exec.client.recovering", &[]),
            named("exec.client.gap", &[]),
            named("exec.client.failed-deadline", &[]),
            named("exec.process.closed", &[]),
            named("exec.server.refused-still-attached", &[]),
        ];
        MILESTONES
    }

    fn points(&self) -> &'static [PointDoc] {
        &[PointDoc { name: "exec.server.detach.unlocked", doc: "", defect: None }]
    }

    fn defects(&self) -> &'static [DefectDoc] {
        const DEFECTS: &[DefectDoc] = &[DefectDoc {
            rust: "SenderClearedAfterUnlock",
            name: "sender-cleared-after-unlock",
            doc: "",
            breaks: &["gap_free"],
            source: "",
        }];
        DEFECTS
    }

    fn rules(&self) -> &'static [Rule] {
        &[
            Rule { id: "exec.detach-own-only", doc: "", source: "" },
            Rule { id: "exec.sender-under-attach-lock", doc: "", source: "" },
            Rule { id: "exec.still-attached-is-retried", doc: "", source: "" },
        ]
    }

    fn setup(&self) -> Vec<(&'static str, schemars::Schema)> {
        vec![(process::TABLE, process::schema())]
    }

    async fn serve(&self, _: HostContext) {}

    async fn drive(&self, _: HostContext, _: OperationQueue<Ask>) {}

    fn guarantees(&self, _: &Limits) -> Guarantees {
        Guarantees::default()
    }
}

fn exec() -> Arc<dyn DynSubject> {
    Arc::new(Exec)
}

fn parse(text: &str) -> Result<ScenarioFile, String> {
    ScenarioFile::parse(text, "f.toml", &[exec()]).map_err(|mistake| mistake.to_string())
}

/// Returns the mistake in a draft in which `instead` replaces `part`.
fn mistake(draft: &str, part: &str, instead: &str) -> String {
    assert!(draft.contains(part), "{part}");
    parse(&draft.replacen(part, instead, 1)).unwrap_err()
}

#[test]
fn the_schedule_has_expectations_for_a_process() {
    let scenario = parse(LATE_CLOSE).unwrap();
    let wanted = ExpectProcess {
        ends: Some(StreamEnds::Completed),
        exit: Some(ProcessExit::Code(7)),
        output: Some(ExpectedOutput::All),
        within: Some(Duration::from_secs(10)),
        live_from: Some(2),
        ..ExpectProcess::default()
    };
    assert_eq!(scenario.expect.processes, BTreeMap::from([("p1".to_owned(), wanted)]));
    let scripts = process::scripts(plan(&scenario)).unwrap().unwrap();
    assert_eq!((scripts["p1"].stdout.lines, scripts["p1"].end), (200, ProcessEnd::Code(7)));
}

#[test]
fn the_swarm_draws_processes_that_can_be_launched() {
    let scenario = parse(TIGHT_LIMITS).unwrap();
    let plans: Vec<_> = scenario.drawn(&exec()).collect();
    assert_eq!(plans.len(), 300);
    let scripts: Vec<_> =
        plans.iter().map(|plan| process::scripts(plan).unwrap().unwrap()).collect();
    for (plan, scripts) in plans.iter().zip(&scripts) {
        let most = 4 * plan.clients as usize;
        assert!((plan.clients as usize..=most).contains(&scripts.len()), "{scripts:?}");
    }
    let all: Vec<_> = scripts.iter().flat_map(BTreeMap::values).collect();
    let share = |of: &dyn Fn(&process::Script) -> bool| {
        all.iter().filter(|script| of(script)).count() as f64 / all.len() as f64
    };
    for end in [ProcessEnd::Code(0), ProcessEnd::Code(7), ProcessEnd::Signal(9), ProcessEnd::Never]
    {
        assert!((0.15..0.35).contains(&share(&|script| script.end == end)), "{end:?}");
    }
    assert!((0.05..0.15).contains(&share(&|script| script.late_output.is_some())));
    assert!(share(&|script| script.stdout.bytes == Some(65_536)) > 0.2);
}

#[test]
fn the_swarm_parses_its_choices() {
    let Body::Swarm(profile) = parse(TIGHT_LIMITS).unwrap().body else { panic!("a swarm") };
    assert_eq!(
        (&profile.clients, &profile.setup["process"].count),
        (&Choice::Range(1, 2), &Choice::Range(1, 4))
    );
    let bytes = [1 << 20, 4 << 10, 1].map(LimitValue::Bytes);
    assert_eq!(profile.limits["server.retained-bytes"], Choice::one_of(bytes));
    let Template::Table(fields) = &profile.setup["process"].template else { panic!("a table") };
    let Template::Maybe(chance, late) = &fields["late-output"] else { panic!("it may be there") };
    let after = Template::Durations(Duration::ZERO, Duration::from_secs(40));
    assert_eq!(
        (*chance, &**late),
        (0.1, &Template::Table([("after".to_owned(), after)].into_iter().collect()))
    );
    assert_eq!(
        (profile.operations["http-stream"], profile.faults.weights[&FaultKind::Crash].weight),
        (1, 1)
    );
}

#[test]
fn both_survive_being_written_and_read() {
    for draft in [LATE_CLOSE, TIGHT_LIMITS] {
        let scenario = parse(draft).unwrap();
        let text = scenario.to_toml();
        let read = parse(&text).unwrap_or_else(|mistake| panic!("{mistake}\n{text}"));
        assert_eq!(
            ScenarioFile { step_lines: scenario.step_lines.clone(), ..read },
            scenario,
            "{text}"
        );
    }
}

#[test]
fn a_wrong_word_is_compared_with_all_allowed_words() {
    let of = |instead: &str| mistake(LATE_CLOSE, "exit  = 7", instead);
    assert_eq!(
        of("exit = \"nevr\""),
        "f.toml:12:8: `nevr` is not a value of `exit`; did you mean `never`?"
    );
    assert_eq!(
        of("stdin = \"ech\""),
        "f.toml:12:9: `ech` is not a value of `stdin`; did you mean `echo`?"
    );
    assert_eq!(of("exit = 256"), "f.toml:12:8: `exit` is at most 255, not 256");
}

#[test]
fn a_range_has_the_type_that_the_table_wants() {
    let of = |part: &str, instead: &str| mistake(TIGHT_LIMITS, part, instead);
    assert_eq!(
        of("\"0ms..200ms\"", "\"0..200\""),
        "f.toml:26:37: `0` is not a duration; write a whole number and a unit, like `25s`, `50ms`, `3m` or `1h`"
    );
    assert_eq!(of("\"0..400\"", "\"0ms..400ms\""), "f.toml:26:19: `0ms` is not a whole number");
    assert_eq!(of("\"never\"]", "\"0..300\"]"), "f.toml:27:26: `exit` is at most 255, not 300");
    assert_eq!(
        of("\"never\"]", "\"9..3\"]"),
        "f.toml:27:26: the range `9..3` is in descending order; write `3..9`"
    );
    assert_eq!(
        of("processes = ", "process = "),
        "f.toml:16:1: `process` is not a key of `hosts`; did you mean `processes`?"
    );
}

#[test]
fn a_list_is_a_value_if_the_schema_wants_a_list() {
    let template = |ignores: &str| {
        let text = TIGHT_LIMITS.replacen(
            "[swarm.operations]",
            &format!("ignores = {ignores}\n[swarm.operations]"),
            1,
        );
        let Body::Swarm(profile) = parse(&text).unwrap().body else { panic!("a swarm") };
        let Template::Table(fields) = &profile.setup["process"].template else { panic!("a table") };
        fields["ignores"].clone()
    };
    let fixed = |signals: &[u8]| Template::Fixed(signals.into());
    assert_eq!(template("[1, 15]"), fixed(&[1, 15]));
    assert_eq!(template("[]"), fixed(&[]));
    assert_eq!(template("[[], [1, 15]]"), Template::OneOf(vec![fixed(&[]), fixed(&[1, 15])]));
}

#[test]
fn the_reference_lists_all_keys_of_a_table() {
    let text = reference(&[exec()]);
    for row in [
        "| `exit` | a whole number or one of `\"signal\"`, `\"never\"` |",
        "| `stdin` | one of `\"read\"`, `\"echo\"`, `\"ignore\"` |",
    ] {
        assert!(text.contains(row), "{row}");
    }
    assert!(text.contains("| `late-output` | a table of `after`, `detached` |"));
}

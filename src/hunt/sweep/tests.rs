//! Sweeps of small schedules.

use std::sync::LazyLock;

use super::*;
use crate::history::Answer;
use crate::property::scripted::{ScriptedRun, history};
use crate::report::position::trial as name;
use crate::scenario::ScenarioFile;
use crate::schedule::{Action, Conn, Fault, Learns, Limits, When, faults};

fn subject(name: &str) -> Arc<dyn DynSubject> {
    crate::subjects::built_in().into_iter().find(|subject| subject.name() == name).unwrap()
}

fn plan(text: &str) -> (Arc<dyn DynSubject>, Plan) {
    let scenario = ScenarioFile::parse(text, "swept.toml", &crate::subjects::built_in()).unwrap();
    (subject(&scenario.subject), scenario.plans().remove(0))
}

/// A stream of three numbers, and a client that gives up after 5 s.
fn numbers() -> (Arc<dyn DynSubject>, Plan) {
    plan(
        r#"
        format = 1
        subject = "counter"
        title = "Three numbers"
        horizon = "5s"
        [limits]
        "client.recovery-deadline" = "5s"
        [stream.s1]
        numbers = 3
        every = "500ms"
        [[step]]
        at = "1s"
        watch = { stream = "s1" }
        "#,
    )
}

fn with_defect(
    (subject, mut plan): (Arc<dyn DynSubject>, Plan),
    defect: &str,
) -> (Arc<dyn DynSubject>, Plan) {
    plan.defects.push(defect.into());
    (subject, plan)
}

/// Runs a sweep that stops after `most` trials. Returns it and its failed runs.
fn sweep_of(
    (subject, plan): &(Arc<dyn DynSubject>, Plan),
    jobs: usize,
    most: usize,
) -> (SweepProgress, Vec<FailedTrial>) {
    let mut found = Vec::new();
    let pool = Pool { jobs, ..Pool::default() };
    let swept = sweep(subject, plan, &Checks::default(), &pool, |swept, failed_trial| {
        found.extend(failed_trial);
        if swept.done == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    (swept.unwrap(), found)
}

/// The whole sweep of three numbers.
static WHOLE: LazyLock<SweepProgress> = LazyLock::new(|| sweep_of(&numbers(), 2, usize::MAX).0);

#[test]
fn a_correct_subject_survives_every_fault_at_every_position() {
    let swept = &*WHOLE;
    let broken: Vec<_> = swept
        .trials
        .iter()
        .filter(|it| !it.broken.is_empty())
        .map(|it| (name(swept, it), &it.broken))
        .collect();
    assert!(broken.is_empty(), "{broken:?}");
    let idle: Vec<_> = swept
        .trials
        .iter()
        .filter_map(|trial| Some((name(swept, trial), trial.idle.as_ref()?)))
        .collect();
    assert!(idle.is_empty(), "{idle:?}");
    assert_eq!((swept.done, swept.tally.runs), (swept.trials.len(), swept.trials.len() as u64 + 1));
    for (kind, name) in PositionKind::NAMES {
        assert!(
            swept.positions.iter().any(|position| position.kind() == kind),
            "there is no {name}"
        );
    }
    for outcome in [FaultOutcome::Untouched, FaultOutcome::Recovered, FaultOutcome::Failed] {
        assert!(
            swept.trials.iter().any(|trial| trial.outcome == Some(outcome)),
            "none {}",
            outcome.name()
        );
    }
    // One fault (a delayed close) is never tried: nothing is closed before the file's horizon.
    let tried = FAULTS
        .iter()
        .filter(|fault| swept.trials.iter().any(|trial| trial.fault.name == fault.name));
    assert_eq!(tried.count(), FAULTS.len() - 1);
}

#[test]
fn a_sweep_is_the_same_on_any_number_of_threads() {
    let broken = with_defect(numbers(), "resumes-one-too-late");
    let results = |jobs| {
        let (swept, found) = sweep_of(&broken, jobs, 150);
        let outcomes: Vec<_> =
            swept.trials.iter().map(|trial| (trial.outcome, trial.broken.clone())).collect();
        let found: Vec<_> = found
            .into_iter()
            .map(|failed_trial| (failed_trial.trial, failed_trial.failed.broken))
            .collect();
        (swept.tally.digest, swept.broke, outcomes, found)
    };
    let alone = results(1);
    assert!(alone.1 > 0, "a broken subject is found out");
    assert_eq!(alone, results(3));
}

#[test]
fn a_violation_at_a_position_is_an_ordinary_plan_with_one_extra_step() {
    let broken = with_defect(numbers(), "resumes-one-too-late");
    let (swept, found) = sweep_of(&broken, 2, 150);
    let FailedTrial { trial, failed } = &found[0];
    let trial = &swept.trials[trial.expect("it holds without a fault")];
    assert_eq!(
        (trial.outcome, trial.broken.first()),
        (Some(FaultOutcome::Broken), Some(&"gap_free"))
    );
    assert_eq!(failed.plan, swept.plan_of(trial));
    assert_eq!(failed.plan.steps.len(), broken.1.steps.len() + 1);
    assert_eq!(swept.worst(&swept.positions[trial.position]), Some(FaultOutcome::Broken));
}

#[test]
fn a_file_can_express_every_step_of_a_sweep() {
    let swept = &*WHOLE;
    for trial in &swept.trials {
        let plan = swept.plan_of(trial);
        let file = ScenarioFile::of_plan(plan.clone(), "swept").to_toml();
        let read = ScenarioFile::parse(&file, "-", &crate::subjects::built_in())
            .unwrap_or_else(|why| panic!("{why}: {file}"));
        assert_eq!(read.plans(), [plan], "{}", name(swept, trial));
    }
}

#[test]
fn a_failing_plain_run_is_the_only_run() {
    let (swept, found) = sweep_of(&with_defect(cut_short(), "resumes-one-too-late"), 1, usize::MAX);
    assert_eq!(
        (swept.positions.len(), swept.trials.len(), swept.tally.runs, swept.broke),
        (0, 0, 1, 1)
    );
    let found: Vec<_> = found
        .iter()
        .map(|failed_trial| (failed_trial.trial, failed_trial.failed.broken[0].property))
        .collect();
    assert_eq!(found, [(None, "gap_free")]);
}

#[test]
fn a_stopped_sweep_returns_the_trials_so_far() {
    let (swept, _) = sweep_of(&numbers(), 2, 7);
    assert_eq!((swept.done, swept.tally.runs), (7, 8));
    assert!(swept.trials.iter().enumerate().all(|(n, trial)| trial.outcome.is_some() == (n < 7)));
}

#[test]
fn packets_in_the_same_millisecond_share_one_trial() {
    let swept = &*WHOLE;
    let shared = swept.positions.iter().enumerate().filter(|(number, position)| {
        position.trials.iter().any(|trial| swept.trials[*trial].position < *number)
    });
    assert!(shared.count() > 0, "an answer leaves together with what it acknowledges");
    for (number, trial) in swept.trials.iter().enumerate() {
        assert!(
            swept.trials[..number].iter().all(|other| other.step != trial.step),
            "{}",
            name(swept, trial)
        );
    }
}

#[test]
fn the_healed_tail_keeps_its_start_and_has_no_trials() {
    let (subject, mut plan) = numbers();
    plan.heal = Duration::from_secs(3);
    let (swept, _) = sweep_of(&(subject, plan), 2, 0);
    assert_eq!(swept.plan.horizon - swept.plan.heal, Duration::from_secs(2));
    assert!(swept.positions.iter().all(|position| position.at < Time(2_000)));
    assert!(!swept.trials.is_empty());
}

#[test]
fn a_closed_connection_gets_no_connection_faults() {
    let (swept, _) = sweep_of(&cut_short(), 2, 0);
    let first = |position: &&Position| {
        position.conn.as_ref().is_some_and(|site| site.conn.to_string() == "client#1")
    };
    let after = swept.positions.iter().filter(first).filter(|position| position.at > Time(1_600));
    assert!(after.clone().count() > 0, "its server learns late");
    assert!(after.clone().all(|position| position.open().is_none()));
}

/// The same numbers, and a cut between two of them.
fn cut_short() -> (Arc<dyn DynSubject>, Plan) {
    let (subject, mut plan) = numbers();
    let learns = [("server".into(), Learns::After(Duration::from_secs(2)))];
    let cut = Fault::Cut(faults::Cut { conn: Conn::number("client", 1), learns: learns.into() });
    plan = plan.step(When::At(Duration::from_millis(1_600)), Action::Fault(cut));
    (subject, plan)
}

fn record(run: &ScriptedRun) -> UserView {
    run.with(|cx| UserView::of(cx.history))
}

#[test]
fn times_and_item_boundaries_do_not_change_the_user_view() {
    let early =
        history().opened("s1", 1, 0).delivered("s1", 10, "ab").completed("s1", 20, "total 2");
    let late = history()
        .opened("s1", 1, 5)
        .delivered("s1", 500, "a")
        .delivered("s1", 600, "b")
        .completed("s1", 700, "total 2");
    assert_eq!(record(&early), record(&late));
    assert_ne!(record(&early), record(&late.clone().by("client2").opened("s1", 2, 900)));
}

#[test]
fn a_user_view_covers_another_if_nothing_came_out_worse() {
    let completed = record(
        &history().opened("s1", 1, 0).delivered("s1", 10, "a").completed("s1", 20, "total 1"),
    );
    let failed = record(&history().opened("s1", 1, 0).failed_stream("s1", 20, "lost"));
    let open = record(&history().opened("s1", 1, 0));
    assert!(completed.has_all_of(&failed) && completed.has_all_of(&open) && open.has_all_of(&open));
    assert!(
        !failed.has_all_of(&completed) && !open.has_all_of(&completed) && !failed.has_all_of(&open)
    );
    let call = |answer: Answer| record(&history().asked(1, 0).answered(1, 10, answer));
    let (answered, refused) = (call("3".into()), call(Answer::refused("no such counter")));
    let (lost, never) =
        (record(&history().asked(1, 0).failed(1, 10, "lost")), record(&history().asked(1, 0)));
    assert!(
        answered.has_all_of(&refused) && refused.has_all_of(&refused) && refused.has_all_of(&lost)
    );
    assert!(
        !refused.has_all_of(&answered)
            && !lost.has_all_of(&refused)
            && !never.has_all_of(&answered)
    );
    assert!(!record(&history()).has_all_of(&never), "it was not even asked");
}

#[test]
fn the_table_names_each_fault_once_and_gives_it_a_position() {
    let mut names: Vec<_> = FAULTS.iter().map(|fault| fault.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), FAULTS.len());
    assert!(FAULTS.iter().all(|fault| !fault.kinds.is_empty()));
}

#[test]
fn there_is_time_to_recover_after_the_last_position() {
    let (subject, plan) = numbers();
    let guarantees = subject.guarantees(&plan.limits.over(subject.limits()));
    let needs = guarantees.detection * 2 + guarantees.recovery + guarantees.attempt;
    assert!(extend_horizon(&subject, &plan).horizon >= plan.horizon + needs);
    assert_ne!(plan.limits, Limits::default(), "under the limits of the plan");
}

/// Returns the generated part of the documentation page on sweeps.
fn drawn() -> String {
    let kinds = |fault: &SweepFault| {
        let named = fault.kinds.iter().map(|kind| kind.name());
        if fault.kinds.len() == PositionKind::NAMES.len() {
            "any position".to_owned()
        } else {
            named.collect::<Vec<_>>().join(", ")
        }
    };
    let faults = FAULTS
        .iter()
        .map(|fault| format!("| {} | {} | {} |\n", fault.name, kinds(fault), fault.does));
    let outcomes =
        FaultOutcome::ALL.iter().map(|(_, name, means)| format!("| {name} | {means} |\n"));
    let (faults, outcomes) = (faults.collect::<String>(), outcomes.collect::<String>());
    format!(
        "| fault | at | what it does |\n|---|---|---|\n{faults}\n{BETWEEN}\n| outcome | what it means |\n|---|---|\n{outcomes}"
    )
}

const BETWEEN: &str = "\
The outcome is `broken` if a property was violated, otherwise the first of the other outcomes that applies. Each run is compared\n\
with the same run without the fault.
";

#[test]
fn the_table_in_the_docs_is_up_to_date() {
    const MARKS: (&str, &str) =
        ("<!-- drawn: REKNIT_BLESS=1 cargo test --lib hunt::sweep -->\n", "<!-- end -->\n");
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/sweeps.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(MARKS.0).unwrap();
    let (there, after) = rest.split_once(MARKS.1).unwrap();
    if std::env::var_os("REKNIT_BLESS").is_some() {
        std::fs::write(&path, format!("{before}{}{}{}{after}", MARKS.0, drawn(), MARKS.1)).unwrap();
    } else {
        assert_eq!(there, drawn(), "REKNIT_BLESS=1 cargo test --lib hunt::sweep writes it anew");
    }
}

//! The result of a command or a suite, case by case, for CI servers.
//!
//! It is plain text and data. `junit` and [`github`](super::github) convert it to their formats.

use std::time::Duration;

use crate::hunt::{MainProblem, ScenarioTally};
use crate::property::{About, Violation, ViolationValue};
use crate::scenario::expect::{EXPECT, TABLE};

use super::sentence;

/// The results of a command or a suite.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CiReport {
    /// The command that ran: `reknit hunt exec`.
    pub title: String,
    /// The cases, grouped by subject or by file.
    pub groups: Vec<Group>,
    /// The totals, as text for people.
    pub totals: String,
    /// The elapsed real time.
    pub wall: Duration,
}

/// A group of related cases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// The subject, or the file that was swept.
    pub name: String,
    /// The cases of the group.
    pub cases: Vec<CiCase>,
}

/// One test case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CiCase {
    /// The name of a scenario file, a seed or a test.
    pub name: String,
    /// The amount of work: `20 runs, 20 min of virtual time`.
    pub about: String,
    /// The result.
    pub result: CaseResult,
}

/// The result of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaseResult {
    /// The case passed.
    Passed,
    /// The case failed.
    Failed(Box<CaseFailure>),
    /// The case could not run, for this reason.
    NotRun(String),
}

/// A failure of a case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaseFailure {
    /// The violated property: `gap_free`; `expect` for an expectation of a file.
    pub property: String,
    /// The violation, in one sentence.
    pub sentence: String,
    /// The story of the failure, without colours. It may be empty.
    pub story: String,
    /// The command that replays the failure; empty if there is none.
    pub replay: String,
    /// The file and line to look at.
    pub place: Option<SourceLine>,
}

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLine {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
}

impl CiReport {
    /// Returns all cases, in order.
    pub fn cases(&self) -> impl Iterator<Item = &CiCase> {
        self.groups.iter().flat_map(|group| &group.cases)
    }

    /// Returns all failures, each with its case.
    pub fn failures(&self) -> impl Iterator<Item = (&CiCase, &CaseFailure)> {
        self.cases().filter_map(|case| match &case.result {
            CaseResult::Failed(it) => Some((case, &**it)),
            CaseResult::Passed | CaseResult::NotRun(_) => None,
        })
    }

    /// Returns the group with this name, and creates it if necessary.
    pub fn group(&mut self, name: &str) -> &mut Group {
        let at = self.groups.iter().position(|group| group.name == name).unwrap_or_else(|| {
            self.groups.push(Group { name: name.to_owned(), cases: Vec::new() });
            self.groups.len() - 1
        });
        &mut self.groups[at]
    }
}

impl CaseFailure {
    /// Returns the story and the replay command. The command is not repeated if the story already
    /// contains it.
    pub fn body(&self) -> String {
        let Self { story, replay, .. } = self;
        let is_included = replay.is_empty() || story.contains(replay.as_str());
        if is_included {
            story.clone()
        } else {
            format!("{story}{}  replay   {replay}\n", if story.is_empty() { "" } else { "\n" })
        }
    }
}

impl SourceLine {
    /// Returns the position of the expectation that was not met: the table of the stream, call or
    /// process that the violation is about, the line of the step or milestone, or else `[expect]`.
    /// Returns the first line for a violation of any other property, and if there is no such
    /// position.
    pub fn of(file: impl Into<String>, text: &str, broken: Option<&Violation>) -> Self {
        let expected = broken.is_none_or(|broken| broken.property == EXPECT);
        Self { file: file.into(), line: if expected { line(text, broken).unwrap_or(1) } else { 1 } }
    }
}

fn line(text: &str, broken: Option<&Violation>) -> Option<usize> {
    let lines = || text.lines().enumerate().map(|(n, line)| (n + 1, line.trim()));
    let first = |is: &dyn Fn(&str) -> bool| lines().find(|(_, line)| is(line)).map(|(n, _)| n);
    let expect = first(&|line| line == "[expect]");
    let found = match broken.map(|broken| (&broken.subject, broken.data.get(TABLE))) {
        Some((About::Step(_, line), _)) => *line,
        Some((About::Mark(name, _), _)) => {
            let quoted = format!("\"{name}\"");
            lines()
                .skip(expect.unwrap_or(0))
                .find(|(_, line)| line.contains(&quoted))
                .map(|(n, _)| n)
        }
        Some((_, Some(ViolationValue::Text(table)))) => first(&|line| {
            let head = line.strip_prefix("[expect.").and_then(|line| line.split(']').next());
            head.is_some_and(|head| head.replace('"', "") == *table)
        }),
        _ => None,
    };
    found.or(expect)
}

/// Returns the main failure in the runs of a scenario: the property and a sentence. `breaks` is the
/// property that a canary must violate.
pub fn main_sentence(tally: &ScenarioTally, breaks: Option<&str>) -> (String, String) {
    match tally.main(breaks) {
        MainProblem::DidNotBreak(property) => (
            property.to_owned(),
            format!("expected violation not detected: {property} held in all runs"),
        ),
        MainProblem::Broke(main) => (main.property.to_owned(), sentence(main)),
        MainProblem::Unmet(unmet) => (unmet.property.to_owned(), sentence(unmet)),
        MainProblem::Nothing => (EXPECT.to_owned(), String::new()),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::history::{Call, Time};
    use crate::property::violation::sample_violation;

    /// The report of two files, of which one failed, and of a third file that could not run.
    pub(crate) fn some_ci_report() -> CiReport {
        let case = |name: &str, result| CiCase {
            name: name.into(),
            about: "20 runs, 20 min of virtual time".into(),
            result,
        };
        let it = CaseFailure {
            property: "gap_free".into(),
            sentence: "s1: item 20 was delivered after item 18; 19 < 20 never was".into(),
            story: "FAIL  counter  gap_free\n\n  replay   reknit replay scenarios/counter/cut.toml --seed 1\n".into(),
            replay: "reknit replay scenarios/counter/cut.toml --seed 1".into(),
            place: Some(SourceLine { file: "scenarios/counter/cut.toml".into(), line: 12 }),
        };
        let cases = vec![
            case("scenarios/counter/cut.toml", CaseResult::Failed(Box::new(it))),
            case("scenarios/counter/plain.toml", CaseResult::Passed),
            case("scenarios/counter/slow.toml", CaseResult::NotRun("not on turmoil: slow".into())),
        ];
        let groups = vec![Group { name: "counter".into(), cases }];
        let totals = "40 schedules, 40 min of virtual time\n".into();
        CiReport { title: "reknit run".into(), groups, totals, wall: Duration::from_millis(1500) }
    }

    const FILE: &str = "format = 1\n[[step]]\nwatch = { stream = \"s1\" }\n[expect]\nreaches = [\"a.gap\"]\n\n[expect.stream.s1]\n\
                        ends = \"completed\"\n[expect.stream.\"client2/s1\"]\n[expect.call.2]\n";

    fn line_of(property: &'static str, subject: About, table: Option<&str>) -> usize {
        let broken = sample_violation(property, subject, Time(1), "it did not come");
        let broken = Violation { data: broken.data.with(TABLE, table), ..broken };
        SourceLine::of("a.toml", FILE, Some(&broken)).line
    }

    fn mark(name: &str) -> About {
        About::Mark(name.into(), format!("{name} (generation 2)"))
    }

    #[test]
    fn an_unmet_expectation_points_to_its_line() {
        assert_eq!(line_of("expect", About::Stream("s1".into()), Some("stream.s1")), 7);
        assert_eq!(
            line_of("expect", About::Stream("client2/s1".into()), Some("stream.client2/s1")),
            9
        );
        assert_eq!(line_of("expect", Call(2).into(), Some("call.2")), 10);
        assert_eq!(line_of("expect", mark("a.gap"), None), 5);
        assert_eq!(line_of("expect", mark("a.other"), None), 4);
        assert_eq!(line_of("gap_free", About::Stream("s1".into()), None), 1);
    }

    #[test]
    fn a_violation_over_all_runs_points_to_its_line() {
        assert_eq!(line_of("expect", About::Step(0, Some(2)), None), 2);
        assert_eq!(SourceLine::of("a.toml", FILE, None).line, 4);
        assert_eq!(SourceLine::of("a.toml", "", None).line, 1);
    }
}

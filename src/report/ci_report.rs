//! An account of what a command or a suite did, case by case, for whoever does not read stories: a CI server.
//!
//! It is plain text and data; `junit` and [`github`](super::github) say it in their words.

use std::time::Duration;

use crate::hunt::{Main, ScenarioTally};
use crate::property::{About, Violation, ViolationValue};
use crate::scenario::expect::{EXPECT, TABLE};

use super::sentence;

/// All that was run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CiReport {
    /// What ran: `reknit hunt exec`.
    pub title: String,
    /// The cases, by subject or by file.
    pub groups: Vec<Group>,
    /// The totals, as a person reads them.
    pub totals: String,
    /// Real time.
    pub wall: Duration,
}

/// Cases that belong together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// A subject, or what was swept.
    pub name: String,
    /// What was run of it.
    pub cases: Vec<CiCase>,
}

/// Something that holds or breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CiCase {
    /// A scenario file, a seed, a test.
    pub name: String,
    /// How much was run: `20 runs, 20 min of virtual time`.
    pub about: String,
    /// What came of it.
    pub came: Came,
}

/// What came of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Came {
    /// All is as it should be.
    Good,
    /// Something is not.
    Broke(Box<Break>),
    /// It could not be run, for this reason.
    NotRun(String),
}

/// What is not as it should be in a case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Break {
    /// The property: `gap_free`; `expect` for what a file expects.
    pub property: String,
    /// How it broke, in a sentence.
    pub sentence: String,
    /// How it came to that, without colours; it may be empty.
    pub story: String,
    /// The command that shows it again; empty where there is none.
    pub replay: String,
    /// The file to look at, and the line in it.
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
    /// All cases, in order.
    pub fn cases(&self) -> impl Iterator<Item = &CiCase> {
        self.groups.iter().flat_map(|group| &group.cases)
    }

    /// What broke, each with its case.
    pub fn breaks(&self) -> impl Iterator<Item = (&CiCase, &Break)> {
        self.cases().filter_map(|case| match &case.came {
            Came::Broke(it) => Some((case, &**it)),
            Came::Good | Came::NotRun(_) => None,
        })
    }

    /// The group of this name; a new one where there is none.
    pub fn group(&mut self, name: &str) -> &mut Group {
        let at = self.groups.iter().position(|group| group.name == name).unwrap_or_else(|| {
            self.groups.push(Group { name: name.to_owned(), cases: Vec::new() });
            self.groups.len() - 1
        });
        &mut self.groups[at]
    }
}

impl Break {
    /// The story, and the command, unless the story ends with it.
    pub fn body(&self) -> String {
        let Self { story, replay, .. } = self;
        let rendered = replay.is_empty() || story.contains(replay.as_str());
        if rendered {
            story.clone()
        } else {
            format!("{story}{}  replay   {replay}\n", if story.is_empty() { "" } else { "\n" })
        }
    }
}

impl SourceLine {
    /// Where a scenario file expected what did not come: the table of the stream, the call or the process that the violation is
    /// about, the line of a step or milestone, or else `[expect]`. Of any other property, and of what cannot be found, it is the first
    /// line.
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

/// What is not as it should be in the runs of a scenario, in short: the property and a sentence. `breaks` is what a canary must break.
pub fn main_sentence(tally: &ScenarioTally, breaks: Option<&str>) -> (String, String) {
    match tally.main(breaks) {
        Main::DidNotBreak(property) => (
            property.to_owned(),
            format!("expected violation not detected: {property} held in all runs"),
        ),
        Main::Broke(main) => (main.property.to_owned(), sentence(main)),
        Main::Unmet(unmet) => (EXPECT.to_owned(), sentence(unmet)),
        Main::Nothing => (EXPECT.to_owned(), String::new()),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::history::{Call, Time};
    use crate::property::violation::sample_violation;

    /// What came of two files, of which one broke, and a third that could not be run.
    pub(crate) fn some_ci_report() -> CiReport {
        let case = |name: &str, came| CiCase {
            name: name.into(),
            about: "20 runs, 20 min of virtual time".into(),
            came,
        };
        let it = Break {
            property: "gap_free".into(),
            sentence: "s1: item 20 was delivered after item 18; 19 < 20 never was".into(),
            story: "FAIL  counter  gap_free\n\n  replay   reknit replay scenarios/counter/cut.toml --seed 1\n".into(),
            replay: "reknit replay scenarios/counter/cut.toml --seed 1".into(),
            place: Some(SourceLine { file: "scenarios/counter/cut.toml".into(), line: 12 }),
        };
        let cases = vec![
            case("scenarios/counter/cut.toml", Came::Broke(Box::new(it))),
            case("scenarios/counter/plain.toml", Came::Good),
            case("scenarios/counter/slow.toml", Came::NotRun("not on turmoil: slow".into())),
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
    fn what_a_file_expects_has_the_line_of_the_expectation() {
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
    fn what_no_run_showed_has_its_line_too() {
        assert_eq!(line_of("expect", About::Step(0, Some(2)), None), 2);
        assert_eq!(SourceLine::of("a.toml", FILE, None).line, 4);
        assert_eq!(SourceLine::of("a.toml", "", None).line, 1);
    }
}

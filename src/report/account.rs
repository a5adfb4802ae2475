//! An account of what a command or a suite did, case by case, for whoever does not read stories: a CI server.
//!
//! It is plain text and data; `junit` and [`github`](super::github) say it in their words.

use std::time::Duration;

use crate::property::Broken;

/// All that was run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
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
    pub cases: Vec<Case>,
}

/// Something that holds or breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
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
    pub place: Option<Place>,
}

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
}

impl Account {
    /// All cases, in order.
    pub fn cases(&self) -> impl Iterator<Item = &Case> {
        self.groups.iter().flat_map(|group| &group.cases)
    }

    /// What broke, each with its case.
    pub fn breaks(&self) -> impl Iterator<Item = (&Case, &Break)> {
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
        let told = replay.is_empty() || story.contains(replay.as_str());
        if told { story.clone() } else { format!("{story}{}  replay   {replay}\n", if story.is_empty() { "" } else { "\n" }) }
    }
}

impl Place {
    /// Where a scenario file expected what did not come: the table of the stream, the call or the process that the sentence is
    /// about, the line of a milestone, or else `[expect]`. Of any other property, and of what cannot be found, it is the first line.
    pub fn of(file: impl Into<String>, text: &str, broken: Option<&Broken>, sentence: &str) -> Self {
        let expected = broken.is_none_or(|broken| broken.property == "expect");
        Self { file: file.into(), line: if expected { line(text, broken, sentence).unwrap_or(1) } else { 1 } }
    }
}

fn line(text: &str, broken: Option<&Broken>, sentence: &str) -> Option<usize> {
    let lines = || text.lines().enumerate().map(|(n, line)| (n + 1, line.trim()));
    let first = |is: &dyn Fn(&str) -> bool| lines().find(|(_, line)| is(line)).map(|(n, _)| n);
    // A step that did nothing says where it stands.
    if let Some((_, rest)) = sentence.split_once(" in line ") {
        return rest.split(|c: char| !c.is_ascii_digit()).next().and_then(|digits| digits.parse().ok());
    }
    let stream = broken.and_then(|broken| broken.stream.as_ref()).map(ToString::to_string);
    let call = sentence.strip_prefix("call ").and_then(|rest| rest.split(':').next());
    let named = stream.as_deref().or(call).and_then(|name| {
        first(&|line| {
            let of =
                line.strip_prefix("[expect.").and_then(|line| line.split(']').next()).and_then(|table| table.split_once('.'));
            of.is_some_and(|(_, of)| of.trim_matches('"') == name)
        })
    });
    let expect = first(&|line| line == "[expect]");
    let word = sentence.split_whitespace().next().unwrap_or_default();
    let sight = lines().skip(expect.unwrap_or(0)).find(|(_, line)| line.contains(&format!("\"{word}\""))).map(|(n, _)| n);
    named.or(sight).or(expect)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::history::Time;

    /// What came of two files, of which one broke, and a third that could not be run.
    pub(crate) fn some_account() -> Account {
        let case = |name: &str, came| Case { name: name.into(), about: "20 runs, 20 min of virtual time".into(), came };
        let it = Break {
            property: "gap_free".into(),
            sentence: "s1: item 20 was delivered after item 18; 19 < 20 never was".into(),
            story: "FAIL  counter  gap_free\n\n  replay   reknit replay scenarios/counter/cut.toml --seed 1\n".into(),
            replay: "reknit replay scenarios/counter/cut.toml --seed 1".into(),
            place: Some(Place { file: "scenarios/counter/cut.toml".into(), line: 12 }),
        };
        let cases = vec![
            case("scenarios/counter/cut.toml", Came::Broke(Box::new(it))),
            case("scenarios/counter/plain.toml", Came::Good),
            case("scenarios/counter/slow.toml", Came::NotRun("not on turmoil: slow".into())),
        ];
        let groups = vec![Group { name: "counter".into(), cases }];
        let totals = "40 schedules, 40 min of virtual time\n".into();
        Account { title: "reknit run".into(), groups, totals, wall: Duration::from_millis(1500) }
    }

    const FILE: &str = "format = 1\n[[step]]\nwatch = { stream = \"s1\" }\n[expect]\nreaches = [\"a.gap\"]\n\n[expect.stream.s1]\n\
                        ends = \"completed\"\n[expect.stream.\"client2/s1\"]\n[expect.call.2]\n";

    fn line_of(property: &'static str, stream: Option<&str>, sentence: &str) -> usize {
        let broken = Broken { property, at: Time(1), stream: stream.map(Into::into), sentence: sentence.into() };
        Place::of("a.toml", FILE, Some(&broken), sentence).line
    }

    #[test]
    fn what_a_file_expects_has_the_line_of_the_expectation() {
        assert_eq!(line_of("expect", Some("s1"), "s1: it is still open"), 7);
        assert_eq!(line_of("expect", Some("client2/s1"), "client2/s1: it is still open"), 9);
        assert_eq!(line_of("expect", None, "call 2: it was never asked for"), 10);
        assert_eq!(line_of("expect", None, "a.gap was not reached"), 5);
        assert_eq!(line_of("expect", None, "something else"), 4);
        assert_eq!(line_of("gap_free", Some("s1"), "s1: item 2 never came"), 1);
    }

    #[test]
    fn what_no_run_showed_has_its_line_too() {
        assert_eq!(Place::of("a.toml", FILE, None, "a.gap was reached in none of 3 runs").line, 5);
        assert_eq!(Place::of("a.toml", FILE, None, "step 1 in line 2, `watch`, did nothing").line, 2);
        assert_eq!(Place::of("a.toml", "", None, "a.gap was reached in none of 3 runs").line, 1);
    }
}

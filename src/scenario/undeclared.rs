//! Names in operations and expectations that no table of the file declares. Such a name is allowed,
//! because a client may ask for something that does not exist. Mostly it is a typing error.
//!
//! A subject gives names to some streams itself. So only these expectations are checked: those for
//! processes and their parts, and those for streams if the subject has a table of streams.

use crate::schedule::{Action, Plan};
use crate::subject::DynSubject;
use crate::world::process;

use super::{Body, Expect, ScenarioFile};

/// The table of streams, if a subject has one.
const STREAM: &str = "stream";

/// The parts of a process, each of which is a stream: `p1/stdout`.
const PARTS: [&str; 3] = ["stdout", "stderr", "pty"];

/// An operation or an expectation that names an entry of a table, which the file does not contain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undeclared<'a> {
    /// The line of the step; `None` if the scenario was not read from a file, and for an expectation.
    pub line: Option<usize>,
    /// The table of the expectation: `[expect.stream.s1]`; `None` for an operation.
    pub expectation: Option<String>,
    /// The table, which is also the field of the operation: `process`.
    pub table: &'static str,
    /// The name.
    pub name: &'a str,
}

/// Returns the undeclared names of a schedule: those of its steps in order, then those of its
/// expectations. A puppet needs no tables, so
/// a schedule with a puppet as a server has none.
pub fn undeclared<'a>(scenario: &'a ScenarioFile, subject: &dyn DynSubject) -> Vec<Undeclared<'a>> {
    let Body::Schedule(plan) = &scenario.body else { return Vec::new() };
    if plan.has_puppet(subject.servers()) {
        return Vec::new();
    }
    let tables = subject.setup();
    let mut found = Vec::new();
    for (n, step) in plan.steps.iter().enumerate() {
        let Action::Operation(operation) = &step.action else { continue };
        for (table, _) in &tables {
            let name = operation.fields.get(*table).and_then(|name| name.as_str());
            let is_missing = |name: &&str| !plan.entries(table).any(|(known, _)| known == *name);
            if let Some(name) = name.filter(is_missing) {
                let line = scenario.step_lines.get(n).copied();
                found.push(Undeclared { line, expectation: None, table, name });
            }
        }
    }
    let has = |table: &str| tables.iter().any(|(known, _)| *known == table);
    found.extend(expected(&scenario.expect, plan, &has));
    found
}

/// Returns the undeclared names of expectations.
fn expected<'a>(
    expect: &'a Expect,
    plan: &Plan,
    has: &dyn Fn(&str) -> bool,
) -> Vec<Undeclared<'a>> {
    let of_process = |name: &'a str| {
        let (whole, part) = name.rsplit_once('/')?;
        PARTS.contains(&part).then_some((process::TABLE, whole))
    };
    let of_stream =
        |name: &'a str| if has(STREAM) { Some((STREAM, name)) } else { of_process(name) };
    let streams = expect.streams.keys().map(|key| ("stream", key, of_stream(key.as_str())));
    let processes =
        expect.processes.keys().map(|key| ("process", key, Some((process::TABLE, key.as_str()))));
    let named = streams.chain(processes).filter_map(|(kind, key, named)| {
        let (table, name) = named.filter(|&(table, _)| has(table))?;
        let own = own_name(name);
        let is_declared = plan.entries(table).any(|(known, _)| known == own || known == name);
        let quoted = if key.contains(['.', '/']) { format!("\"{key}\"") } else { key.clone() };
        let expectation = Some(format!("[expect.{kind}.{quoted}]"));
        (!is_declared).then_some(Undeclared { line: None, expectation, table, name: own })
    });
    named.collect()
}

/// Returns a name without its client and its number: `s1` for `client2/s1.3`.
fn own_name(name: &str) -> &str {
    let own = name.rsplit_once('/').map_or(name, |(_, own)| own);
    match own.rsplit_once(['.', '~']) {
        Some((before, number)) if number.parse::<u64>().is_ok() => before,
        _ => own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(puppet: &str, stream: &str) -> Vec<(Option<usize>, String)> {
        let subject = crate::subjects::counter();
        let file = format!(
            "format = 1\nsubject = \"counter\"\ntitle = \"t\"\n{puppet}\n[stream.s1]\nnumbers = 3\n\n[[step]]\nat = \"1s\"\nwatch = {{ stream = \"{stream}\" }}\n[expect.stream.s1]\nends = \"completed\"\n"
        );
        let scenario = ScenarioFile::parse(&file, "-", std::slice::from_ref(&subject)).unwrap();
        let names = undeclared(&scenario, &*subject).into_iter();
        names.map(|it| (it.line, format!("{}.{}", it.table, it.name))).collect()
    }

    #[test]
    fn a_name_that_no_table_declares_is_found() {
        assert_eq!(found("", "s1"), []);
        assert_eq!(found("", "s2"), [(Some(8), "stream.s2".to_owned())]);
    }

    #[test]
    fn a_name_in_an_expectation_may_have_a_client_and_a_number() {
        let names = ["s1", "client2/s1", "s1.2", "client2/s1.12", "client-session/s1"];
        assert_eq!(names.map(own_name), ["s1"; 5]);
        assert_eq!(own_name("s1.b"), "s1.b");
    }

    #[test]
    fn a_puppet_needs_no_tables() {
        assert_eq!(found("[puppet.server]\nscript = []\n", "s2"), []);
    }
}

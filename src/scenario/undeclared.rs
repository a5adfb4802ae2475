//! Names in operations that no table of the file declares. Such a name is allowed, because a client
//! may ask for something that does not exist. Mostly it is a typing error.

use crate::schedule::Action;
use crate::subject::DynSubject;

use super::{Body, ScenarioFile};

/// An operation that names an entry of a table, which the file does not contain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undeclared<'a> {
    /// The line of the step; `None` if the scenario was not read from a file.
    pub line: Option<usize>,
    /// The table, which is also the field of the operation: `process`.
    pub table: &'static str,
    /// The name.
    pub name: &'a str,
}

/// Returns the undeclared names of a schedule, in the order of its steps. A puppet needs no tables, so
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
                found.push(Undeclared { line: scenario.step_lines.get(n).copied(), table, name });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(puppet: &str, stream: &str) -> Vec<(Option<usize>, String)> {
        let subject = crate::subjects::counter();
        let file = format!(
            "format = 1\nsubject = \"counter\"\ntitle = \"t\"\n{puppet}\n[stream.s1]\nnumbers = 3\n\n[[step]]\nat = \"1s\"\nwatch = {{ stream = \"{stream}\" }}\n"
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
    fn a_puppet_needs_no_tables() {
        assert_eq!(found("[puppet.server]\nscript = []\n", "s2"), []);
    }
}

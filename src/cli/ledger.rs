//! The ledger of a subject: its rules, each with the scenario files that show it and the defects that
//! these files detect.

use std::path::Path;
use std::sync::Arc;

use crate::scenario::ScenarioFile;
use crate::subject::{DynSubject, Rule};

use super::files;

/// Reads the scenario files of a subject in the default folder. Leaves out files with mistakes:
/// `check` reports them.
pub fn scenarios(subject: &Arc<dyn DynSubject>) -> Vec<ScenarioFile> {
    let folder = Path::new(files::FOLDER);
    if !folder.is_dir() {
        return Vec::new();
    }
    let found = files::find(&[]).unwrap_or_default();
    let loaded = found
        .iter()
        .filter_map(|found| ScenarioFile::load(&found.path, std::slice::from_ref(subject)).ok());
    loaded.collect()
}

/// Returns a line for each scenario that shows a rule.
pub fn links<'a>(
    rule: &'a Rule,
    scenarios: &'a [ScenarioFile],
) -> impl Iterator<Item = String> + 'a {
    let shows = |scenario: &&ScenarioFile| scenario.source.iter().any(|id| id == rule.id);
    scenarios.iter().filter(shows).map(|scenario| {
        let file = scenario.path.display();
        match scenario.kills.as_slice() {
            [] => format!("· {file}"),
            kills => format!("· {file}, detects {}", kills.join(", ")),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_lists_its_scenarios_and_the_defects_that_they_detect() {
        let subject = crate::subjects::counter();
        let scenarios = scenarios(&subject);
        let rule =
            subject.rules().iter().find(|rule| rule.id == "counter.session-lifetime").unwrap();
        let lines: Vec<_> = links(rule, &scenarios).collect();
        assert!(!lines.is_empty());
        assert!(lines.iter().all(|line| line.starts_with("· scenarios/counter/")), "{lines:?}");
        assert!(lines.iter().any(|line| line.contains(", detects ")), "{lines:?}");
    }
}

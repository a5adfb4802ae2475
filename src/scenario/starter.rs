//! The file that `reknit new SUBJECT` prints: a scenario that runs, with comments on further
//! options.

use std::sync::Arc;
use std::time::Duration;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use super::ScenarioFile;
use super::verbs::verbs;
use crate::schedule::keyed::keyed;
use crate::schedule::profile::Template;
use crate::schedule::{Action, Conn, Fault, Learns, Operation, Plan, When, faults};
use crate::subject::DynSubject;

/// Returns a commented starter file: the subject's own tables with values from their schemas, its
/// first operation, and a cut.
pub fn starter(subject: &Arc<dyn DynSubject>) -> String {
    let mut plan = Plan::new(subject.name());
    for (key, schema) in subject.setup() {
        let template = Template::of_schema(schema.as_value());
        let entry =
            template.draw(&mut keyed(1, "starter", &[])).unwrap_or_else(|| serde_json::json!({}));
        let name = format!("{}1", key.chars().next().unwrap_or('x'));
        plan.setup.insert(key.to_owned(), serde_json::json!({ name: entry }));
    }
    if let Some(operation) = first_operation(&**subject, &plan) {
        plan = plan.step(When::At(Duration::from_secs(1)), Action::Operation(operation));
    }
    let servers = subject
        .servers()
        .first()
        .map(|server| ((*server).into(), Learns::After(Duration::from_millis(400))));
    let learns =
        [("client".into(), Learns::After(Duration::ZERO))].into_iter().chain(servers).collect();
    let cut = Fault::Cut(faults::Cut { conn: Conn::number("client", 1), learns });
    plan = plan.step(When::At(Duration::from_secs(3)), Action::Fault(cut));
    commented(
        &ScenarioFile::of_plan(plan, "The client resumes after a short cut").to_toml(),
        &**subject,
    )
}

/// Returns an operation that the subject accepts: a drawn one, with the first verb of the operation
/// type.
fn first_operation(subject: &dyn DynSubject, plan: &Plan) -> Option<Operation> {
    let verbs = verbs(subject);
    let position =
        |operation: &Operation| verbs.iter().position(|verb| verb.name == operation.verb);
    let mut runner = TestRunner::deterministic();
    let strategy = subject.strategy(plan);
    let drawn =
        (0..64).filter_map(|_| strategy.new_tree(&mut runner).ok()).map(|tree| tree.current());
    drawn.filter(|operation| subject.check(operation).is_ok()).min_by_key(position)
}

/// Adds a comment before the first section of each kind.
fn commented(file: &str, subject: &dyn DynSubject) -> String {
    let name = subject.name();
    let own: Vec<_> = subject.setup().iter().map(|(key, _)| format!("[{key}.")).collect();
    let mut comments = Vec::new();
    let mut text = format!("# {name}: {}.\n\n", subject.description());
    for section in file.split("\n\n") {
        let comment = if own.iter().any(|own| section.starts_with(own)) {
            "# The data that the server really has."
        } else if section.starts_with("[[step]]") && section.contains("\ncut ") {
            "# The client learns of the cut of its first connection at once, the server 400 ms later."
        } else if section.starts_with("[[step]]") {
            "# The steps, in order: a time or a trigger, and one verb."
        } else {
            ""
        };
        if !comment.is_empty() && !comments.contains(&comment) {
            text += &format!("{comment}\n");
            comments.push(comment);
        }
        text += &format!("{}\n\n", section.trim_end());
        if section.starts_with("format") {
            text += &limits(subject);
        }
    }
    text + &expectation(subject)
}

/// Returns the subject's limits with their defaults, commented out.
fn limits(subject: &dyn DynSubject) -> String {
    if subject.limits().is_empty() {
        return String::new();
    }
    let value = |limit: &crate::schedule::Limit| super::write::limit(limit.default);
    let lines =
        subject.limits().iter().map(|limit| format!("# \"{}\" = {}\n", limit.name, value(limit)));
    format!(
        "# Sizes, windows, deadlines and budgets, with their defaults.\n# [limits]\n{}\n",
        lines.collect::<String>()
    )
}

/// Returns possible expectations, commented out.
fn expectation(subject: &dyn DynSubject) -> String {
    let milestone = subject
        .generation_milestone()
        .or_else(|| subject.milestones().first().map(|milestone| milestone.name));
    let reaches = milestone.map(|name| format!("# reaches = [\"{name}\"]\n")).unwrap_or_default();
    format!("# Expectations in addition to the properties.\n# [expect]\n{reaches}")
}

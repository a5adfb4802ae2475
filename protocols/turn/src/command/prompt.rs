//! The texts for the agent.

use reknit_seams::defect;
use serde_json::{Value, json};

use crate::wire::ReviewTarget;

/// The longest name of a thread, in characters.
const LONGEST_NAME: usize = 60;

/// The prompt of a resumed task without a prompt.
pub(super) const CONTINUE: &str = "Continue the work of this thread. Look at the current state of the \
files first: they may have changed. Choose the next step that brings the task closer to its end, and \
do it. When the task is done, say what changed and how you checked it.";

/// Returns the name of the thread of a task: the begin of its prompt, on one line.
pub(super) fn name(prompt: &str) -> String {
    let line = prompt.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= LONGEST_NAME {
        return format!("Task: {line}");
    }
    let begin: String =
        line.chars().take(LONGEST_NAME - usize::from(!defect!(NamesAreOneLonger))).collect();
    format!("Task: {}…", begin.trim_end())
}

/// Returns one line that says which changes a review looks at.
pub(super) fn subject(target: &ReviewTarget) -> String {
    match target {
        ReviewTarget::UncommittedChanges => "Review: uncommitted changes".to_owned(),
        ReviewTarget::BaseBranch { branch } => format!("Review: changes since {branch}"),
        ReviewTarget::Commit { sha, .. } => format!("Review: commit {sha}"),
        ReviewTarget::Custom { instructions } => name(instructions).replacen("Task", "Review", 1),
    }
}

/// Returns the prompt of an adversarial review.
pub(super) fn adversarial_review(target: &ReviewTarget, focus: Option<&str>) -> String {
    let changes = match target {
        ReviewTarget::UncommittedChanges => {
            "the changes that are not committed: staged, unstaged and untracked files. \
             `git status` and `git diff HEAD` show them"
                .to_owned()
        }
        ReviewTarget::BaseBranch { branch } => format!(
            "the changes of this branch since it left `{branch}`. `git diff {branch}...HEAD` shows them"
        ),
        ReviewTarget::Commit { sha, .. } => {
            format!("the changes of the commit {sha}. `git show {sha}` shows them")
        }
        ReviewTarget::Custom { instructions } => instructions.clone(),
    };
    let focus = focus.map_or_else(String::new, |focus| {
        format!("\nThe user asks you to look at this first, but not only at this:\n{focus}\n")
    });
    format!(
        "Review these changes: {changes}.\n\
         \n\
         Assume that the changes are wrong, and try to prove it. Ask for each of them: which input, which \
         order of events, which failure of another part makes it do harm? Look for lost or damaged data, \
         races, missing rollbacks, unchecked input, wrong permissions, broken compatibility, and work that \
         never ends. Also ask whether the design fits the problem, and whether a simpler one exists.\n\
         {focus}\n\
         Read the code around the changes before you judge. Do not change any file. Report only a finding \
         that you can trace to lines of the code and explain with a concrete example. Leave out style, \
         names, and guesses. If you find nothing of this kind, say so: an empty list is a good answer.\n\
         \n\
         Answer with JSON that matches the given schema."
    )
}

/// Returns the JSON schema of the answer of an adversarial review.
pub fn findings_schema() -> Value {
    let text = json!({ "type": "string" });
    let line = json!({ "type": "integer", "minimum": 1 });
    let finding = object(json!({
        "severity": { "type": "string", "enum": ["critical", "high", "medium", "low"] },
        "title": text,
        "explanation": text,
        "file": text,
        "first_line": line,
        "last_line": line,
        "confidence": { "type": "number", "minimum": 0, "maximum": 1 },
        "remedy": text,
    }));
    object(json!({
        "verdict": { "type": "string", "enum": ["approve", "needs-attention"] },
        "summary": text,
        "findings": { "type": "array", "items": finding },
    }))
}

/// An object with exactly these properties, as providers of models require it.
fn object(properties: Value) -> Value {
    let required: Vec<_> = properties.as_object().into_iter().flat_map(|map| map.keys()).collect();
    json!({
        "type": "object", "additionalProperties": false, "required": required, "properties": properties,
    })
}

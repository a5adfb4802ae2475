//! The permissions of a request for files, from its `sandbox`.
//!
//! [`reknit_seams::files`] asks the policy about the real path of each file. So the paths of the
//! rules are resolved first. A rule that grants less also protects its own name: a link there
//! cannot be replaced. A rule counts even if its path does not exist; codex can skip such a rule.

use std::io;
use std::path::Path;
use std::sync::Arc;

use reknit_seams::env::Machine;
use reknit_seams::files::{Access, Files, PathPolicy};
use reknit_seams::process::{PathAccess, PathRules};
use serde_json::Value;

use super::super::request_error::RequestError;
use super::super::{policy, restrictions};
use super::tree::resolved;

/// The rules of a sandbox, for paths without links.
struct Rules(PathRules);

impl PathPolicy for Rules {
    fn access(&self, path: &Path) -> Access {
        match self.0.access(path) {
            PathAccess::Nothing => Access::None,
            PathAccess::Read => Access::Read,
            PathAccess::Write => Access::Write,
        }
    }
}

/// Returns the policy of a sandbox, or `None` if it permits all files.
///
/// # Errors
/// [`RequestError::Params`] if the sandbox is malformed, or has a rule that the server cannot
/// enforce.
pub(super) async fn of(
    files: &dyn Files,
    machine: &Machine,
    sandbox: &Value,
) -> Result<Option<Arc<dyn PathPolicy>>, RequestError> {
    let sandbox = restrictions::read(sandbox)?;
    let temporary = machine.variables.get("TMPDIR").map(String::as_str);
    let around = policy::Surroundings { directory: None, temporary, command: false };
    let rules = policy::rules(&sandbox, around).map_err(|why| {
        RequestError::Params(format!("this server cannot enforce `sandbox`: {why}"))
    })?;
    let Some(rules) = rules else { return Ok(None) };
    Ok(Some(Arc::new(Rules(without_links(files, &rules).await?))))
}

/// Resolves the paths of rules. A rule that grants less than write access keeps its name, too.
async fn without_links(files: &dyn Files, rules: &PathRules) -> io::Result<PathRules> {
    let mut real = PathRules::default();
    for (path, access) in rules.iter() {
        let (parent, name) = (path.parent(), path.file_name());
        if let (true, Some(parent), Some(name)) = (access != PathAccess::Write, parent, name) {
            real.add(resolved(files, parent).await?.join(name), access);
        }
        match resolved(files, path).await {
            Ok(path) => real.add(path, access),
            // In a loop of links there is nothing to grant.
            Err(_) if access == PathAccess::Write => {}
            Err(error) => return Err(error),
        }
    }
    Ok(real)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::wire::sandbox::samples::{path, restricted, special};
    use reknit_seams::files::Memory;

    async fn policy(entries: Value) -> Result<Arc<dyn PathPolicy>, RequestError> {
        let files = Memory::default();
        for directory in ["/w", "/real", "/w/git"] {
            files.create_directory(Path::new(directory)).await.unwrap();
        }
        files.create_link(Path::new("/real"), Path::new("/link")).await.unwrap();
        files.create_link(Path::new("git"), Path::new("/w/.git")).await.unwrap();
        let mut sandbox = restricted(entries);
        sandbox["cwd"] = json!("file:///w");
        sandbox["workspaceRoots"] = json!(["file:///w", "file:///link"]);
        let variables = [("TMPDIR".to_owned(), "/t".to_owned())].into();
        let machine = Machine { variables, ..Machine::default() };
        Ok(of(&files, &machine, &sandbox).await?.expect("it is restricted"))
    }

    fn access(policy: &Arc<dyn PathPolicy>, path: &str) -> Access {
        policy.access(Path::new(path))
    }

    #[tokio::test]
    async fn the_workspace_is_writable_but_not_its_metadata() {
        let entries = json!([special("root", "read"), special("project_roots", "write")]);
        let policy = policy(entries).await.unwrap();
        for (path, granted) in [
            ("/etc/passwd", Access::Read),
            ("/w", Access::Write),
            ("/w/a/b", Access::Write),
            ("/ww", Access::Read),
            ("/real/x", Access::Write),
            ("/link", Access::Read), // the link itself
            ("/w/.git", Access::Read),
            ("/w/git/config", Access::Read), // where the link `.git` leads
            ("/w/.codex/x", Access::Read),
            ("/real/.git/x", Access::Read),
        ] {
            assert_eq!(access(&policy, path), granted, "{path}");
        }
    }

    #[tokio::test]
    async fn the_most_specific_rule_decides_and_a_denial_precedes() {
        let entries = json!([
            path("file:///w", "write"),
            path("file:///w/secret", "none"),
            path("file:///w/secret/open", "read"),
            path("file:///w/both", "write"),
            path("file:///w/both", "deny"),
            path("file:///w/more", "read"),
            path("file:///w/more", "write"),
            path("file:///w/.git", "write"),
            special("tmpdir", "write"),
            special("slash_tmp", "read"),
            special("minimal", "read"),
            special("current_working_directory", "read"),
        ]);
        let policy = policy(entries).await.unwrap();
        for (path, granted) in [
            ("/", Access::None),
            ("/etc/x", Access::Read),
            ("/w/a", Access::Write),
            ("/w/secret/x", Access::None),
            ("/w/secret/open/x", Access::Read),
            ("/w/both", Access::None),
            ("/w/more", Access::Write),
            ("/w/.git/x", Access::Write),
            ("/t/x", Access::Write),
            ("/tmp/x", Access::Read),
        ] {
            assert_eq!(access(&policy, path), granted, "{path}");
        }
    }

    #[tokio::test]
    async fn a_policy_that_cannot_be_enforced_is_refused() {
        let glob =
            json!([{ "path": { "type": "glob_pattern", "pattern": "**/x" }, "access": "deny" }]);
        for entries in [glob, json!([special("nonsense", "read")])] {
            assert!(matches!(policy(entries).await.err(), Some(RequestError::Params(_))));
        }
    }
}

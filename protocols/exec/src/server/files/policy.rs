//! The permissions of a request for files, from its `sandbox`.
//!
//! [`reknit_seams::files`] asks the policy about the real path of each file. So the paths of the
//! rules are resolved first. A rule that grants less also protects its own name: a link there
//! cannot be replaced.
//!
//! As in codex 0.169.0, `.git`, `.agents` and `.codex` directly in a writable path are only
//! readable, unless a rule says otherwise. A rule counts even if its path does not exist; codex can
//! skip such a rule.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use reknit_seams::env::Machine;
use reknit_seams::files::{Access, Files, PathPolicy};
use serde::Deserialize;
use serde_json::Value;

use super::super::request_error::RequestError;
use super::tree::resolved;
use crate::wire::sandbox::{
    FileAccess, FileRule, FileSystem, Permissions, RulePath, Sandbox, Special,
};

/// The read-only parts of a writable path.
const PROTECTED: [&str; 3] = [".git", ".agents", ".codex"];

/// The directories of the operating system.
const MINIMAL: [&str; 7] = ["/bin", "/etc", "/lib", "/lib64", "/nix/store", "/sbin", "/usr"];

/// The rules of a sandbox: paths without links, with what they grant.
struct Rules(Vec<(PathBuf, Access)>);

impl PathPolicy for Rules {
    fn access(&self, path: &Path) -> Access {
        let about = self.0.iter().filter(|(rule, _)| path.starts_with(rule));
        let depth = |rule: &Path| rule.components().count();
        let deepest = about.clone().map(|(rule, _)| depth(rule)).max();
        let decisive = about.filter(|(rule, _)| Some(depth(rule)) == deepest);
        let granted: Vec<Access> = decisive.map(|(_, access)| *access).collect();
        match granted.contains(&Access::None) {
            true => Access::None,
            false => granted.into_iter().max().unwrap_or(Access::None),
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
    let sandbox = Sandbox::deserialize(sandbox)
        .map_err(|error| RequestError::Params(format!("sandbox: {error}")))?;
    let Permissions::Managed { file_system: FileSystem::Restricted { entries, .. }, .. } =
        &sandbox.permissions
    else {
        return Ok(None);
    };
    let mut rules = Vec::new();
    for rule in entries {
        let access = match rule.access {
            FileAccess::Deny => Access::None,
            FileAccess::Read => Access::Read,
            FileAccess::Write => Access::Write,
        };
        rules.extend(paths(rule, &sandbox, machine)?.into_iter().map(|path| (path, access)));
    }
    let named: Vec<PathBuf> = rules.iter().map(|(path, _)| path.clone()).collect();
    let writable = rules.clone().into_iter().filter(|(_, access)| *access == Access::Write);
    let protected = writable.flat_map(|(path, _)| PROTECTED.map(|name| path.join(name)));
    rules.extend(protected.filter(|path| !named.contains(path)).map(|path| (path, Access::Read)));
    Ok(Some(Arc::new(Rules(without_links(files, rules).await?))))
}

/// Returns the paths that a rule is about.
fn paths(
    rule: &FileRule,
    sandbox: &Sandbox,
    machine: &Machine,
) -> Result<Vec<PathBuf>, RequestError> {
    let needs_directory = || {
        let why = "file system sandbox context with dynamic permissions requires cwd";
        RequestError::Params(why.to_owned())
    };
    Ok(match &rule.path {
        RulePath::Path { path } => vec![path.path().into()],
        RulePath::GlobPattern { .. } => {
            let why = "sandbox: this server cannot enforce a glob_pattern";
            return Err(RequestError::Params(why.to_owned()));
        }
        RulePath::Special { value } => match value {
            Special::Root => vec!["/".into()],
            Special::Minimal => MINIMAL.map(PathBuf::from).to_vec(),
            Special::CurrentWorkingDirectory => {
                let cwd = sandbox.cwd.as_ref().ok_or_else(needs_directory)?;
                vec![cwd.path().into()]
            }
            Special::ProjectRoots { subpath } => {
                sandbox.cwd.as_ref().ok_or_else(needs_directory)?;
                let inside = |root: &Path| match subpath {
                    Some(subpath) => root.join(subpath),
                    None => root.to_owned(),
                };
                let roots = sandbox.workspace_roots.iter();
                roots.map(|root| inside(Path::new(root.path()))).collect()
            }
            Special::Tmpdir => {
                let variable = machine.variables.get("TMPDIR").map(PathBuf::from);
                variable.filter(|path| path.is_absolute()).into_iter().collect()
            }
            Special::SlashTmp => vec!["/tmp".into()],
            Special::Unknown { .. } => Vec::new(),
        },
    })
}

/// Resolves the paths of rules. A rule that grants less than write access keeps its name, too.
async fn without_links(
    files: &dyn Files,
    rules: Vec<(PathBuf, Access)>,
) -> io::Result<Vec<(PathBuf, Access)>> {
    let mut real = Vec::new();
    for (path, access) in rules {
        let (parent, name) = (path.parent(), path.file_name());
        if let (true, Some(parent), Some(name)) = (access != Access::Write, parent, name) {
            match resolved(files, parent).await {
                Ok(parent) => real.push((parent.join(name), access)),
                Err(error) => return Err(error),
            }
        }
        match resolved(files, &path).await {
            Ok(path) => real.push((path, access)),
            // A path below a file, or in a loop of links: there is nothing to grant or to protect.
            Err(_) if access == Access::Write => {}
            Err(error) => return Err(error),
        }
    }
    Ok(real)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use reknit_seams::files::Memory;

    async fn policy(entries: Value) -> Result<Arc<dyn PathPolicy>, RequestError> {
        let files = Memory::default();
        for directory in ["/w", "/real", "/w/git"] {
            files.create_directory(Path::new(directory)).await.unwrap();
        }
        files.create_link(Path::new("/real"), Path::new("/link")).await.unwrap();
        files.create_link(Path::new("git"), Path::new("/w/.git")).await.unwrap();
        let sandbox = json!({
            "permissions": {
                "type": "managed",
                "file_system": { "type": "restricted", "entries": entries },
                "network": "restricted",
            },
            "cwd": "file:///w",
            "workspaceRoots": ["file:///w", "file:///link"],
            "windowsSandboxLevel": "disabled",
        });
        let variables = [("TMPDIR".to_owned(), "/t".to_owned())].into();
        let machine = Machine { variables, ..Machine::default() };
        Ok(of(&files, &machine, &sandbox).await?.expect("it is restricted"))
    }

    fn special(kind: &str, access: &str) -> Value {
        json!({ "path": { "type": "special", "value": { "kind": kind } }, "access": access })
    }

    fn path(path: &str, access: &str) -> Value {
        json!({ "path": { "type": "path", "path": path }, "access": access })
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

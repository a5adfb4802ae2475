//! Translates the sandbox policy of a client to a [`Confinement`], whose rules name paths.
//!
//! Lines with (c) follow codex 0.169.0 on Linux, as measured on 24 November 2026.
//!
//! | part of the policy | |
//! |---|---|
//! | type `disabled`; all files and network `enabled` | no confinement (c) |
//! | network `restricted` | enforced: no network, see [`NetworkScope::None`] (c) |
//! | `path`, `root`, `slash_tmp` | enforced (c) |
//! | `current_working_directory` | enforced: the `cwd` of the sandbox, or else of the command (c) |
//! | `project_roots` | enforced for each workspace root, with its subpath; without roots, it grants nothing (c); a subpath that leaves its root is refused |
//! | `tmpdir` | enforced: the `TMPDIR` of the command, if that is an absolute path (c) |
//! | `minimal` | enforced: [`MINIMAL`], as far as they exist (c) |
//! | `.git`, `.agents`, `.codex` in a writable root | read-only unless a rule names them (c); not in `/` (c) and temporary directories |
//! | the most specific rule; of equal ones, `deny` before `write` before `read` | enforced (c) |
//! | a writable path that does not exist | grants nothing (c) |
//! | a protected path that does not exist | cannot be created (c) |
//! | a permitted path in a denied one | refused; codex denies some and grants others |
//! | a protected path behind a writable symbolic link | refused |
//! | `glob_pattern` | refused; codex denies the files that match at the start |
//! | a special path of another kind | grants nothing (c); refused if it is not for `write`, because it may protect something |
//! | `enforceManagedNetwork`, `managedNetwork`, `networkProxy`, `credentialProviders` | refused ([`super::restrictions`]) |
//! | `windows…`, `useLegacyLandlock` | no effect; the latter asks codex for a weaker mechanism |

use std::path::{Component, Path, PathBuf};

use reknit_seams::process::{Confinement, FilesScope, NetworkScope, PathAccess, PathRules};

use crate::wire::Directory;
use crate::wire::sandbox::{
    FileAccess, FileRule, FileSystem, Network, Permissions, RulePath, Sandbox, Special,
};

/// The directories that programs need to run.
const MINIMAL: &[&str] = &[
    "/bin",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/proc",
    "/run/current-system/sw",
    "/sbin",
    "/usr",
];

/// The directories of a writable root whose files make other programs run commands.
const PROTECTED: &[&str] = &[".agents", ".codex", ".git"];

/// The properties of a command that give meaning to special paths.
#[derive(Clone, Copy, Debug)]
pub(super) struct Surroundings<'a> {
    /// The working directory of the command.
    pub(super) directory: &'a str,
    /// The variable `TMPDIR` of the command.
    pub(super) temporary: Option<&'a str>,
}

/// Translates a policy. Returns `None` if the policy restricts nothing.
///
/// # Errors
/// The reason if the policy cannot be enforced.
pub(super) fn confinement(
    sandbox: &Sandbox,
    around: Surroundings<'_>,
) -> Result<Option<Confinement>, String> {
    let (files, network) = match &sandbox.permissions {
        Permissions::Disabled => return Ok(None),
        Permissions::External { network }
        | Permissions::Managed { file_system: FileSystem::Unrestricted, network } => {
            (FilesScope::All, *network)
        }
        Permissions::Managed { file_system: FileSystem::Restricted { entries, .. }, network } => {
            (FilesScope::Rules(rules(sandbox, entries, around)?), *network)
        }
    };
    let network = match network {
        Network::Enabled => NetworkScope::All,
        Network::Restricted => NetworkScope::None,
    };
    let restricts = files != FilesScope::All || network != NetworkScope::All;
    Ok(restricts.then_some(Confinement { files, network }))
}

fn rules(
    sandbox: &Sandbox,
    entries: &[FileRule],
    around: Surroundings<'_>,
) -> Result<PathRules, String> {
    let mut rules = PathRules::default();
    for entry in entries {
        let access = match entry.access {
            FileAccess::Read => PathAccess::Read,
            FileAccess::Write => PathAccess::Write,
            FileAccess::Deny => PathAccess::Nothing,
        };
        for path in paths(entry, sandbox, around)? {
            rules.add(path, access);
        }
    }
    protect(&mut rules, around);
    Ok(rules)
}

/// Returns the paths that a rule is about.
fn paths(
    rule: &FileRule,
    sandbox: &Sandbox,
    around: Surroundings<'_>,
) -> Result<Vec<PathBuf>, String> {
    let special = match &rule.path {
        RulePath::Path { path } => return Ok(vec![plain(Path::new(path.path()))?]),
        RulePath::GlobPattern { .. } => return Err("a rule has a `glob_pattern`".to_owned()),
        RulePath::Special { value } => value,
    };
    Ok(match special {
        Special::Root => vec!["/".into()],
        Special::SlashTmp => vec!["/tmp".into()],
        Special::Minimal => MINIMAL.iter().map(PathBuf::from).collect(),
        Special::Tmpdir => around
            .temporary
            .map(Path::new)
            .filter(|path| path.is_absolute())
            .map(plain)
            .transpose()?
            .into_iter()
            .collect(),
        Special::CurrentWorkingDirectory => {
            let cwd = sandbox.cwd.as_ref().map_or(around.directory, Directory::path);
            vec![plain(Path::new(cwd))?]
        }
        Special::ProjectRoots { subpath } => {
            let subpath = Path::new(subpath.as_deref().unwrap_or_default());
            if !subpath
                .components()
                .all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
            {
                return Err("a `subpath` leaves its root".to_owned());
            }
            let roots = sandbox.workspace_roots.iter();
            roots
                .map(|root| plain(&Path::new(root.path()).join(subpath)))
                .collect::<Result<_, _>>()?
        }
        Special::Unknown { .. } if rule.access == FileAccess::Write => Vec::new(),
        Special::Unknown { .. } => return Err("a special path is unknown".to_owned()),
    })
}

/// Returns an absolute path without `.` and repeated separators. A `..` is refused: with symbolic
/// links, it does not mean the path before it.
fn plain(path: &Path) -> Result<PathBuf, String> {
    if path.components().any(|part| part == Component::ParentDir) {
        return Err("a path contains `..`".to_owned());
    }
    Ok(path.components().collect())
}

/// Adds the rules that protect directories of writable roots.
fn protect(rules: &mut PathRules, around: Surroundings<'_>) {
    let open = |path: &Path| {
        path == Path::new("/")
            || path == Path::new("/tmp")
            || around.temporary.map(Path::new) == Some(path)
    };
    let named: Vec<_> = rules.iter().map(|(path, _)| path.to_owned()).collect();
    let is_protected = |path: &Path| PROTECTED.iter().any(|name| path.ends_with(name));
    let roots = rules.iter().filter(|(path, access)| {
        *access == PathAccess::Write && !open(path) && !is_protected(path)
    });
    let protected: Vec<_> = roots
        .flat_map(|(root, _)| PROTECTED.iter().map(|name| root.join(name)))
        .filter(|path| !named.contains(path))
        .collect();
    protected.into_iter().for_each(|path| rules.add(path, PathAccess::Read));
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const AROUND: Surroundings<'_> = Surroundings { directory: "/d", temporary: Some("/var/t") };

    fn translated(entries: Value) -> Result<Vec<String>, String> {
        let policy = json!({
            "permissions": {
                "type": "managed",
                "file_system": { "type": "restricted", "entries": entries },
                "network": "restricted",
            },
            "cwd": "file:///w/a",
            "workspaceRoots": ["file:///w", "/v/"],
            "windowsSandboxLevel": "disabled",
        });
        let sandbox = serde_json::from_value(policy).unwrap();
        let confinement = confinement(&sandbox, AROUND)?.unwrap();
        assert_eq!(confinement.network, NetworkScope::None);
        let FilesScope::Rules(rules) = confinement.files else { panic!("files are restricted") };
        Ok(rules.iter().map(|(path, access)| format!("{} {access:?}", path.display())).collect())
    }

    fn special(kind: &str, access: &str) -> Value {
        json!({ "path": { "type": "special", "value": { "kind": kind } }, "access": access })
    }

    fn roots(subpath: &str, access: &str) -> Value {
        let value = json!({ "kind": "project_roots", "subpath": subpath });
        json!({ "path": { "type": "special", "value": value }, "access": access })
    }

    fn path(path: &str, access: &str) -> Value {
        json!({ "path": { "type": "path", "path": path }, "access": access })
    }

    #[test]
    fn special_paths_become_paths() {
        for (kind, paths) in [
            ("root", vec!["/ Read"]),
            ("slash_tmp", vec!["/tmp Read"]),
            ("tmpdir", vec!["/var/t Read"]),
            ("current_working_directory", vec!["/w/a Read"]),
            ("project_roots", vec!["/v Read", "/w Read"]),
        ] {
            assert_eq!(translated(json!([special(kind, "read")])).unwrap(), paths);
        }
        let minimal = translated(json!([special("minimal", "read")])).unwrap();
        assert!(
            minimal.contains(&"/usr Read".to_owned()) && !minimal.contains(&"/ Read".to_owned())
        );
        assert_eq!(
            translated(json!([roots("x/y", "none")])).unwrap(),
            ["/v/x/y Nothing", "/w/x/y Nothing"]
        );
    }

    #[test]
    fn a_writable_root_has_protected_directories_unless_a_rule_names_them() {
        let rules =
            translated(json!([path("file:///w", "write"), path("/w/.git", "write")])).unwrap();
        let all = ["/w Write", "/w/.agents Read", "/w/.codex Read", "/w/.git Write"];
        assert_eq!(rules, all);
        for open in ["root", "slash_tmp", "tmpdir"] {
            assert_eq!(translated(json!([special(open, "write")])).unwrap().len(), 1);
        }
    }

    #[test]
    fn what_cannot_be_enforced_is_refused() {
        let glob = json!({ "path": { "type": "glob_pattern", "pattern": "*" }, "access": "deny" });
        let unknown = |access| json!({ "path": { "type": "special", "value": { "kind": "unknown", "path": ":x" } }, "access": access });
        for refused in [
            glob,
            unknown("deny"),
            unknown("read"),
            roots("../x", "read"),
            roots("/x", "write"),
            path("/a/../b", "write"),
        ] {
            translated(json!([refused])).unwrap_err();
        }
        assert_eq!(translated(json!([unknown("write")])).unwrap().len(), 0);
    }

    #[test]
    fn a_policy_that_permits_everything_confines_nothing() {
        for (permissions, network) in [
            (json!({ "type": "disabled" }), None),
            (json!({ "type": "external", "network": "enabled" }), None),
            (json!({ "type": "external", "network": "restricted" }), Some(NetworkScope::None)),
            (
                json!({ "type": "managed", "file_system": { "type": "unrestricted" }, "network": "enabled" }),
                None,
            ),
            (
                json!({ "type": "managed", "file_system": { "type": "unrestricted" }, "network": "restricted" }),
                Some(NetworkScope::None),
            ),
        ] {
            let policy = json!({ "permissions": permissions, "windowsSandboxLevel": "disabled" });
            let translated = confinement(&serde_json::from_value(policy).unwrap(), AROUND).unwrap();
            let wanted = network.map(|network| Confinement { files: FilesScope::All, network });
            assert_eq!(translated, wanted);
        }
    }
}

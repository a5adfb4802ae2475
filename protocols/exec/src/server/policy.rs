//! Translates the sandbox policy of a client to rules that name paths: for the command of a process,
//! and for a request for files.
//!
//! Lines with (c) follow codex 0.169.0 on Linux, as measured on 24 and 25 November 2026.
//!
//! | part of the policy | |
//! |---|---|
//! | type `disabled`; all files and network `enabled` | no confinement (c) |
//! | network `restricted` | enforced for commands: no network, see [`NetworkScope::None`] (c) |
//! | `path`, `root`, `slash_tmp` | enforced (c) |
//! | `current_working_directory` | enforced: the `cwd` of the sandbox, or else of the command (c) |
//! | `project_roots` | enforced for each workspace root, with its subpath; without roots, it grants nothing (c); a subpath that leaves its root is refused |
//! | `tmpdir` | enforced: the `TMPDIR` of the command, or of the server for a request for files, if that is an absolute path (c) |
//! | `minimal` | enforced: [`MINIMAL`], as far as they exist (c); and [`PROC`] for commands only |
//! | [`PROTECTED`] directories in a writable path | read-only unless a rule names them (c); not in `/` (c), and not in one another |
//! | the most specific rule; of equal ones, `deny` before `write` before `read` | enforced (c) |
//! | a writable path that does not exist | grants nothing to a command (c) |
//! | a protected path that does not exist | cannot be created (c) |
//! | a permitted path in a denied one | refused for commands; codex denies some and grants others |
//! | a protected path behind a writable symbolic link | refused for commands |
//! | `glob_pattern` | refused; codex denies the files that match at the start |
//! | a special path of another kind | grants nothing (c); refused if it is not for `write`, because it may protect something |
//! | `enforceManagedNetwork`, `managedNetwork`, `networkProxy`, `credentialProviders` | refused ([`super::restrictions`]) |
//! | `windows…`, `useLegacyLandlock` | no effect; the latter asks codex for a weaker mechanism |

use std::path::{Component, Path, PathBuf};

use reknit_seams::defect;
use reknit_seams::process::{Confinement, FilesScope, NetworkScope, PathAccess, PathRules};

use crate::wire::Directory;
use crate::wire::sandbox::{
    FileAccess, FileRule, FileSystem, Network, Permissions, RulePath, Sandbox, Special,
};

/// The directories that programs need to run.
const MINIMAL: &[&str] =
    &["/bin", "/etc", "/lib", "/lib64", "/nix/store", "/run/current-system/sw", "/sbin", "/usr"];

/// The files of the kernel, which programs need, too. To a request for files they would describe
/// the server.
const PROC: &str = "/proc";

/// The directories of a writable path whose files make other programs run commands.
const PROTECTED: &[&str] = &[".agents", ".aws", ".codex", ".git"];

/// The meaning of special paths.
#[derive(Clone, Copy, Debug)]
pub(super) struct Surroundings<'a> {
    /// The working directory, if the sandbox has none.
    pub(super) directory: Option<&'a str>,
    /// The variable `TMPDIR`.
    pub(super) temporary: Option<&'a str>,
    /// Whether the rules are for a command.
    pub(super) command: bool,
}

/// Translates a policy. Returns `None` if the policy restricts nothing.
///
/// # Errors
/// The reason if the policy cannot be enforced.
pub(super) fn confinement(
    sandbox: &Sandbox,
    around: Surroundings<'_>,
) -> Result<Option<Confinement>, String> {
    let files = rules(sandbox, around)?.map_or(FilesScope::All, FilesScope::Rules);
    let network = match &sandbox.permissions {
        Permissions::Disabled => NetworkScope::All,
        Permissions::Managed { network, .. } | Permissions::External { network } => match network {
            Network::Enabled => NetworkScope::All,
            Network::Restricted => NetworkScope::None,
        },
    };
    let restricts = files != FilesScope::All || network != NetworkScope::All;
    Ok(restricts.then_some(Confinement { files, network }))
}

/// Translates the part of a policy that is about files. Returns `None` if it permits all files.
///
/// # Errors
/// The reason if the policy cannot be enforced.
pub(super) fn rules(
    sandbox: &Sandbox,
    around: Surroundings<'_>,
) -> Result<Option<PathRules>, String> {
    let Permissions::Managed { file_system: FileSystem::Restricted { entries, .. }, .. } =
        &sandbox.permissions
    else {
        return Ok(None);
    };
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
    protect(&mut rules);
    Ok(Some(rules))
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
    let directory = || {
        let directory = sandbox.cwd.as_ref().map(Directory::path).or(around.directory);
        directory.ok_or_else(|| "a rule depends on `cwd`, which is missing".to_owned())
    };
    Ok(match special {
        Special::Root => vec!["/".into()],
        Special::SlashTmp => vec!["/tmp".into()],
        Special::Minimal => {
            let all = MINIMAL.iter().chain(around.command.then_some(&PROC));
            all.map(PathBuf::from).collect()
        }
        Special::Tmpdir => around
            .temporary
            .map(Path::new)
            .filter(|path| path.is_absolute())
            .map(plain)
            .transpose()?
            .into_iter()
            .collect(),
        Special::CurrentWorkingDirectory => vec![plain(Path::new(directory()?))?],
        Special::ProjectRoots { subpath } => {
            directory()?; // codex 0.169.0 wants it, too
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
/// links, it does not mean the path before it. (A URI has none: see [`Directory`].)
fn plain(path: &Path) -> Result<PathBuf, String> {
    if path.components().any(|part| part == Component::ParentDir) && !defect!(ParentsInRules) {
        return Err("a path contains `..`".to_owned());
    }
    Ok(path.components().collect())
}

/// Adds the rules that protect directories of writable paths.
fn protect(rules: &mut PathRules) {
    let named: Vec<_> = rules.iter().map(|(path, _)| path.to_owned()).collect();
    let is_protected = |path: &Path| PROTECTED.iter().any(|name| path.ends_with(name));
    let roots = rules.iter().filter(|(path, access)| {
        *access == PathAccess::Write && *path != Path::new("/") && !is_protected(path)
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
    use crate::wire::sandbox::samples::{path, restricted, special};

    const AROUND: Surroundings<'_> =
        Surroundings { directory: Some("/d"), temporary: Some("/var/t"), command: true };

    fn translated(entries: Value) -> Result<Vec<String>, String> {
        let mut policy = restricted(entries);
        policy["cwd"] = json!("file:///w/a");
        policy["workspaceRoots"] = json!(["file:///w", "/v/"]);
        let sandbox = serde_json::from_value(policy).unwrap();
        let confinement = confinement(&sandbox, AROUND)?.unwrap();
        assert_eq!(confinement.network, NetworkScope::None);
        let FilesScope::Rules(rules) = confinement.files else { panic!("files are restricted") };
        Ok(rules.iter().map(|(path, access)| format!("{} {access:?}", path.display())).collect())
    }

    fn roots(subpath: &str, access: &str) -> Value {
        let value = json!({ "kind": "project_roots", "subpath": subpath });
        json!({ "path": { "type": "special", "value": value }, "access": access })
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
        assert!(minimal.contains(&"/proc Read".to_owned()));
        assert_eq!(
            translated(json!([roots("x/y", "none")])).unwrap(),
            ["/v/x/y Nothing", "/w/x/y Nothing"]
        );
    }

    #[test]
    fn a_writable_root_has_protected_directories_unless_a_rule_names_them() {
        let rules =
            translated(json!([path("file:///w", "write"), path("/w/.git", "write")])).unwrap();
        let all =
            ["/w Write", "/w/.agents Read", "/w/.aws Read", "/w/.codex Read", "/w/.git Write"];
        assert_eq!(rules, all);
        for (special_path, count) in [("root", 1), ("slash_tmp", 5), ("tmpdir", 5)] {
            let rules = translated(json!([special(special_path, "write")])).unwrap();
            assert_eq!(rules.len(), count, "{special_path}");
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
    fn a_request_for_files_has_its_own_surroundings() {
        let around = Surroundings { directory: None, temporary: None, command: false };
        let translated = |kind: &str, cwd: Value| {
            let mut policy = restricted(json!([special(kind, "read")]));
            policy["cwd"] = cwd;
            rules(&serde_json::from_value(policy).unwrap(), around).map(Option::unwrap)
        };
        let minimal = translated("minimal", json!(null)).unwrap();
        assert_eq!(minimal.access(Path::new("/usr/bin")), PathAccess::Read);
        assert_eq!(minimal.access(Path::new("/proc/self/environ")), PathAccess::Nothing);
        for kind in ["current_working_directory", "project_roots"] {
            translated(kind, json!(null)).unwrap_err();
            translated(kind, json!("file:///w")).unwrap();
        }
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

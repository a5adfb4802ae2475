//! The fields of a request that restrict what it may do: those of `process/start`, and `sandbox` in
//! the requests of the family `fs/`.
//!
//! Their form was measured on codex 0.169.0 on 24 November 2026. A [`FileRule`] grants or denies
//! one path and everything beneath it. The most specific rule decides; of two rules for one path,
//! the one that grants more decides, but a denial precedes both.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Directory;

/// The restrictions of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Restrictions {
    /// The policy for files and the network: a [`Sandbox`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Value>,
    /// Whether the command may reach the network only through a proxy of the server.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub enforce_managed_network: bool,
    /// The part of the network that the command may reach.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed_network: Option<Value>,
    /// The proxy between the command and the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_proxy: Option<Value>,
    /// The credentials that the proxy hides from the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential_providers: Option<Value>,
}

/// The content of `sandbox`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sandbox {
    /// The policy.
    pub permissions: Permissions,
    /// The directory that [`Special::CurrentWorkingDirectory`] means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<Directory>,
    /// The directories that [`Special::ProjectRoots`] means.
    #[serde(default)]
    pub workspace_roots: Vec<Directory>,
    /// Required, although it has a meaning on Windows only.
    pub windows_sandbox_level: WindowsLevel,
    /// Has a meaning on Windows only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows_sandbox_proxy_settings_mode: Option<WindowsProxySettings>,
    /// Whether the client asks for the older mechanism of codex. Codex 0.169.0 itself refuses it
    /// for restricted files.
    #[serde(default)]
    pub use_legacy_landlock: bool,
}

/// The rights that a sandbox grants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Permissions {
    /// Everything.
    Disabled,
    /// Limited rights: the server must enforce the limits.
    Managed {
        /// The permitted files.
        file_system: FileSystem,
        /// The permitted network.
        network: Network,
    },
    /// All files, because something else confines the server; the server must enforce the rest.
    External {
        /// The permitted network.
        network: Network,
    },
}

/// The permitted files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum FileSystem {
    /// All.
    Unrestricted,
    /// Those of the rules.
    Restricted {
        /// The rules. A path without a rule is denied.
        entries: Vec<FileRule>,
        /// How many levels of directories a search for [`RulePath::GlobPattern`] visits.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        glob_scan_max_depth: Option<u64>,
    },
}

/// One rule for files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRule {
    /// The path of the rule; the rule covers everything beneath it.
    pub path: RulePath,
    /// The access that it grants.
    pub access: FileAccess,
    /// The meaning of the rule if its path does not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing_path_behavior: Option<MissingPath>,
}

/// The path of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum RulePath {
    /// A path.
    Path {
        /// The path. On the wire it is a `file:` URI.
        path: Directory,
    },
    /// The paths that match a pattern.
    GlobPattern {
        /// The pattern.
        pattern: String,
    },
    /// A path that depends on the machine or the request.
    Special {
        /// Which one.
        value: Special,
    },
}

/// A path that depends on the machine or the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Special {
    /// The whole file system.
    Root,
    /// The directories of the operating system, which programs need to run.
    Minimal,
    /// [`Sandbox::cwd`].
    CurrentWorkingDirectory,
    /// Each of [`Sandbox::workspace_roots`].
    ProjectRoots {
        /// A path in the root, instead of the root itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        subpath: Option<String>,
    },
    /// The directory of the variable `TMPDIR`.
    Tmpdir,
    /// `/tmp`.
    SlashTmp,
    /// A path that this version does not know. It grants and denies nothing.
    Unknown {
        /// Its name.
        path: String,
        /// A path in it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        subpath: Option<String>,
    },
}

/// The access that a rule grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileAccess {
    /// To read and to execute.
    Read,
    /// To read, to execute, and to change.
    Write,
    /// Nothing.
    #[serde(alias = "none")]
    Deny,
}

/// The meaning of a rule whose path does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MissingPath {
    /// Nothing.
    Skip,
}

/// The permitted network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    /// All.
    Enabled,
    /// None.
    Restricted,
}

/// The strength of a sandbox on Windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)] // this server runs on Unix only
pub enum WindowsLevel {
    Disabled,
    RestrictedToken,
    Elevated,
    Mxc,
}

/// How a sandbox on Windows treats the settings of a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)] // this server runs on Unix only
pub enum WindowsProxySettings {
    Reconcile,
    Preserve,
}

/// The kind of sandbox that a command runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SandboxType {
    /// The start has no policy.
    None,
    /// The start has a policy, even if that policy permits everything: codex 0.169.0 on Linux answers
    /// this, and confines such a command no more than without a policy.
    LinuxSeccomp,
    /// A kind that this version does not know.
    #[serde(other)]
    Unknown,
}

impl SandboxType {
    /// Returns the kind for a policy.
    pub fn of(policy: Option<&Sandbox>) -> Self {
        if policy.is_some() { Self::LinuxSeccomp } else { Self::None }
    }
}

/// Policies for tests, as JSON.
#[cfg(test)]
pub(crate) mod samples {
    use serde_json::{Value, json};

    /// A sandbox with rules for files, and without a network.
    pub(crate) fn restricted(entries: Value) -> Value {
        json!({
            "permissions": {
                "type": "managed",
                "file_system": { "type": "restricted", "entries": entries },
                "network": "restricted",
            },
            "windowsSandboxLevel": "disabled",
        })
    }

    /// A rule for a special path.
    pub(crate) fn special(kind: &str, access: &str) -> Value {
        json!({ "path": { "type": "special", "value": { "kind": kind } }, "access": access })
    }

    /// A rule for a path.
    pub(crate) fn path(path: &str, access: &str) -> Value {
        json!({ "path": { "type": "path", "path": path }, "access": access })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The policy that codex 0.169.0 sends for `-s workspace-write`, shortened.
    fn workspace_write() -> Value {
        json!({
            "permissions": {
                "type": "managed",
                "file_system": { "type": "restricted", "entries": [
                    { "path": { "type": "special", "value": { "kind": "root" } }, "access": "read" },
                    { "path": { "type": "special", "value": { "kind": "project_roots" } }, "access": "write" },
                    { "path": { "type": "special", "value": { "kind": "project_roots", "subpath": ".git" } }, "access": "read", "missing_path_behavior": "skip" },
                    { "path": { "type": "path", "path": "file:///srv/a%20b" }, "access": "deny" },
                    { "path": { "type": "glob_pattern", "pattern": "**/*.env" }, "access": "deny" },
                ] },
                "network": "restricted",
            },
            "cwd": "file:///w",
            "workspaceRoots": ["file:///w"],
            "windowsSandboxLevel": "disabled",
            "windowsSandboxProxySettingsMode": "reconcile",
            "useLegacyLandlock": false,
        })
    }

    #[test]
    fn the_policy_of_the_real_client_is_read_and_written() {
        let sandbox: Sandbox = serde_json::from_value(workspace_write()).unwrap();
        assert_eq!(serde_json::to_value(&sandbox).unwrap(), workspace_write());
        let Permissions::Managed { file_system: FileSystem::Restricted { entries, .. }, .. } =
            sandbox.permissions
        else {
            panic!("it is restricted")
        };
        let RulePath::Path { path } = &entries[3].path else { panic!("it is a path") };
        assert_eq!((path.path(), entries[3].access), ("/srv/a b", FileAccess::Deny));
        let git = Special::ProjectRoots { subpath: Some(".git".into()) };
        assert_eq!(entries[2].path, RulePath::Special { value: git });
    }

    #[test]
    fn only_the_permissions_and_the_level_are_required() {
        let least = json!({ "permissions": { "type": "disabled" }, "windowsSandboxLevel": "mxc" });
        let sandbox: Sandbox = serde_json::from_value(least).unwrap();
        assert_eq!((sandbox.cwd, sandbox.workspace_roots.len()), (None, 0));
        let none = json!({ "path": { "type": "special", "value": { "kind": "minimal" } }, "access": "none" });
        assert_eq!(serde_json::from_value::<FileRule>(none).unwrap().access, FileAccess::Deny);
    }
}

//! The environment family: the description of the server's machine, and the policy by which a
//! client chooses among the server's variables for a process.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Directory;

/// The result of `environment/info`, which is also `environmentInfo` in the result of `initialize`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentInfo {
    /// The shell of the server's user.
    pub shell: Shell,
    /// The version of the server.
    pub executor_version: String,
    /// The server's working directory.
    pub cwd: Directory,
    /// The home directory of the server's user; `null` if it is unknown.
    #[serde(default)]
    pub user_home_dir: Option<Directory>,
    /// The operating system, such as `linux`.
    pub platform_os: String,
    /// Directories that a client puts first in the `PATH` of its commands.
    #[serde(default)]
    pub prepend_path_dirs: Vec<Directory>,
    /// All directories for temporary files.
    #[serde(default)]
    pub temporary_directories: Vec<Directory>,
    /// The directory for temporary files.
    #[serde(default)]
    pub temp_dir: Option<Directory>,
    /// Which optional parts of the protocol the server supports.
    #[serde(default)]
    pub capabilities: BTreeMap<String, bool>,
}

/// A shell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shell {
    /// Its name, such as `bash`.
    pub name: String,
    /// Its program: a path, not a URI.
    pub path: String,
}

/// The optional parts of the protocol that codex 0.169.0 names.
pub const CAPABILITIES: [&str; 15] = [
    "networkProxyLaunch",
    "networkProxyReviewDomains",
    "credentialMasking",
    "credentialMaskingCustomProviders",
    "capabilityDiscoverySandbox",
    "fsWatchMissing",
    "capabilityDiscoveryV2",
    "environmentConfigRead",
    "httpHeaderEnvVars",
    "sandboxedFileStreaming",
    "fileWriteStreaming",
    "shellSnapshotV2",
    "windowsMxc",
    "linuxRootWritePreservesDevices",
    "linuxApprovedRootWritePreservesRestrictions",
];

/// The result of `environment/status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvironmentStatusResult {
    /// Whether the server can run commands.
    pub status: EnvironmentStatus,
}

/// Whether a server can run commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EnvironmentStatus {
    /// It can.
    Ready,
    /// A status that this version does not know.
    #[serde(other)]
    Unknown,
}

/// How the environment of a process is built from the server's own variables, in this order:
/// inherit, exclude, set, include. The `env` of the start is then laid over the result.
///
/// All fields are required, as in codex 0.169.0. A pattern matches a whole name and ignores case; in
/// it, `*` matches any characters and `?` matches one character.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvPolicy {
    /// Which of the server's variables the process inherits.
    pub inherit: Inherit,
    /// Whether to keep inherited variables that look like secrets: those with KEY, SECRET or TOKEN in
    /// their name.
    pub ignore_default_excludes: bool,
    /// Patterns of inherited variables to remove.
    pub exclude: Vec<String>,
    /// Variables to set, also excluded ones.
    pub set: BTreeMap<String, String>,
    /// Patterns of variables to keep, also among those in `set`. If there is no pattern, all are
    /// kept.
    pub include_only: Vec<String>,
}

/// Which of the server's variables a process inherits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Inherit {
    /// Those that most programs need, such as `HOME` and `PATH`.
    Core,
    /// All.
    All,
    /// None.
    None,
}

impl EnvPolicy {
    /// Returns the policy that inherits these variables and changes nothing else.
    pub fn inherit(inherit: Inherit) -> Self {
        Self {
            inherit,
            ignore_default_excludes: true,
            exclude: Vec::new(),
            set: BTreeMap::new(),
            include_only: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_on_the_wire_match_upstream() {
        let text = r#"{"inherit":"core","ignoreDefaultExcludes":true,"exclude":[],"set":{},"includeOnly":[]}"#;
        let policy = EnvPolicy::inherit(Inherit::Core);
        assert_eq!(serde_json::to_string(&policy).unwrap(), text);
        assert_eq!(serde_json::from_str::<EnvPolicy>(text).unwrap(), policy);
        for wrong in [
            r#"{"inherit":"core"}"#,
            r#"{"inherit":"All","ignoreDefaultExcludes":true,"exclude":[],"set":{},"includeOnly":[]}"#,
            r#"{"inherit":"all","ignoreDefaultExcludes":true,"exclude":null,"set":{},"includeOnly":[]}"#,
        ] {
            assert!(serde_json::from_str::<EnvPolicy>(wrong).is_err(), "{wrong}");
        }
    }
}

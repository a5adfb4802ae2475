//! The command of a start, beyond the name of its process.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use reknit_exec::wire::environment::{EnvPolicy, Inherit};
use reknit_exec::wire::process::StartParams;
use reknit_seams::env::Machine;

/// The command of a start. A process shows it with `shows-command`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct CommandOptions {
    /// The arguments, after the name of the process.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// The name of the program as the process sees it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub named: Option<String>,
    /// The working directory, an absolute path; default: the root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// Its variables.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, String>,
    /// Which of the server's variables it inherits; default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<VariablePolicy>,
    /// Its restrictions: the content of `sandbox` in the protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Value>,
    /// Whether it has no standard input.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub without_input: bool,
}

/// Which of the server's variables a process inherits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct VariablePolicy {
    /// From which variables it chooses.
    pub inherits: Inherited,
    /// Whether variables with names that look like secrets are left out.
    #[serde(default)]
    pub without_secrets: bool,
    /// Patterns of names that are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub excludes: Vec<String>,
    /// Variables that are set then.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sets: BTreeMap<String, String>,
    /// Patterns of the names that remain, if there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub includes_only: Vec<String>,
}

/// The variables from which a process chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Inherited {
    /// Those that most programs need.
    Core,
    /// All.
    All,
    /// None.
    None,
}

/// The machine of each exec server.
pub(super) fn machine() -> Machine {
    let variables = [
        ("API_KEY", "k1"),
        ("EDITOR", "vi"),
        ("HOME", "/home/user"),
        ("EMPTY", ""),
        ("LANG", "C"),
        ("LC_ALL", "C"),
        ("LC_CTYPE", "C"),
        ("LOGNAME", "user"),
        ("MY_SECRET", "s1"),
        ("PATH", "/bin"),
        ("SHELL", "/bin/bash"),
        ("TEMP", "/temp"),
        ("TMP", "/tmp"),
        ("TMPDIR", "/scratch"),
        ("USER", "user"),
        ("git_token", "t1"),
    ];
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    Machine { variables: variables.map(owned).into(), directory: "/srv/a b".to_owned() }
}

impl CommandOptions {
    /// Adds the command to the parameters of a start.
    pub(super) fn add_to(self, start: &mut StartParams) {
        start.argv.extend(self.arguments);
        start.arg0 = self.named;
        if let Some(directory) = self.directory.and_then(|directory| directory.parse().ok()) {
            start.cwd = directory;
        }
        start.env.extend(self.variables);
        start.env_policy = self.policy.map(EnvPolicy::from);
        start.restrictions.sandbox = self.sandbox;
        start.pipe_stdin = !self.without_input;
    }
}

impl From<VariablePolicy> for EnvPolicy {
    fn from(policy: VariablePolicy) -> Self {
        Self {
            inherit: match policy.inherits {
                Inherited::Core => Inherit::Core,
                Inherited::All => Inherit::All,
                Inherited::None => Inherit::None,
            },
            ignore_default_excludes: !policy.without_secrets,
            exclude: policy.excludes,
            set: policy.sets,
            include_only: policy.includes_only,
        }
    }
}

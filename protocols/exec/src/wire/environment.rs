//! The environment variables of a process: the policy by which a client chooses among those of the
//! server.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How the environment of a process is built from the server's own variables, in this order:
/// inherit, exclude, set, include. The `env` of the start is then laid over the result.
///
/// All fields are required, as in codex 0.169.0. A pattern matches a whole name and ignores case; in
/// it, `*` stands for any characters and `?` for one character.
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

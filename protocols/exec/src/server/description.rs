//! The description of the server's machine, for `initialize` and `environment/info`.

use std::collections::BTreeMap;

use reknit_seams::env::Machine;

use crate::wire::environment::{CAPABILITIES, EnvironmentInfo, Shell};
use crate::wire::{Directory, DirectoryForm};

/// The shell and the temporary directory of a machine that names none.
const DEFAULT_SHELL: &str = "/bin/sh";
const DEFAULT_TEMP_DIR: &str = "/tmp";

/// The optional parts of the protocol that the server supports.
const SUPPORTED: [&str; 4] =
    ["fsWatchMissing", "sandboxedFileStreaming", "fileWriteStreaming", "httpHeaderEnvVars"];

/// Describes a machine. The server says of each optional part of the protocol whether it supports
/// it.
pub(super) fn describe(machine: &Machine) -> EnvironmentInfo {
    let variable = |name: &str| machine.variables.get(name).map(String::as_str);
    let shell = shell(&machine.variables);
    let temp_dir = variable("TMPDIR").and_then(uri);
    EnvironmentInfo {
        shell: Shell {
            name: shell.rsplit('/').next().unwrap_or(shell).to_owned(),
            path: shell.to_owned(),
        },
        executor_version: env!("CARGO_PKG_VERSION").to_owned(),
        cwd: uri(&machine.directory)
            .unwrap_or_else(|| Directory::root().in_form(DirectoryForm::Uri)),
        user_home_dir: variable("HOME").and_then(uri),
        platform_os: std::env::consts::OS.to_owned(),
        prepend_path_dirs: Vec::new(),
        // As in codex 0.169.0, without the default.
        temporary_directories: temp_dir.clone().into_iter().collect(),
        temp_dir: temp_dir.or_else(|| uri(DEFAULT_TEMP_DIR)),
        capabilities: CAPABILITIES
            .iter()
            .map(|name| ((*name).to_owned(), SUPPORTED.contains(name)))
            .collect(),
    }
}

/// Returns the shell of a machine with these variables.
pub(super) fn shell(variables: &BTreeMap<String, String>) -> &str {
    let named = variables.get("SHELL").filter(|shell| shell.starts_with('/'));
    named.map_or(DEFAULT_SHELL, String::as_str)
}

/// Returns an absolute path as a URI.
fn uri(path: &str) -> Option<Directory> {
    let path = path.starts_with('/').then_some(path)?;
    Some(path.parse::<Directory>().ok()?.in_form(DirectoryForm::Uri))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn described(variables: &[(&str, &str)]) -> serde_json::Value {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let variables = variables.iter().map(owned).collect();
        let machine = Machine { variables, directory: "/srv/a b".to_owned() };
        serde_json::to_value(describe(&machine)).unwrap()
    }

    #[test]
    fn directories_are_uris_and_the_shell_is_a_path() {
        let info = described(&[("HOME", "/home/u"), ("SHELL", "/bin/zsh"), ("TMPDIR", "/var/tmp")]);
        assert_eq!(info["cwd"], "file:///srv/a%20b");
        assert_eq!(info["userHomeDir"], "file:///home/u");
        assert_eq!(info["tempDir"], "file:///var/tmp");
        assert_eq!(info["temporaryDirectories"], json!(["file:///var/tmp"]));
        assert_eq!(info["shell"], json!({"name": "zsh", "path": "/bin/zsh"}));
        assert_eq!(info["capabilities"]["shellSnapshotV2"], false);
        assert_eq!(info["capabilities"]["fsWatchMissing"], true);
        assert_eq!(info["capabilities"]["httpHeaderEnvVars"], true);
    }

    #[test]
    fn a_machine_without_variables_has_defaults() {
        for variables in [&[][..], &[("HOME", ""), ("SHELL", "zsh"), ("TMPDIR", "tmp")]] {
            let info = described(variables);
            assert_eq!(info["userHomeDir"], serde_json::Value::Null);
            assert_eq!(info["tempDir"], "file:///tmp");
            assert_eq!(info["temporaryDirectories"], json!([]));
            assert_eq!(info["shell"], json!({"name": "sh", "path": "/bin/sh"}));
        }
    }
}

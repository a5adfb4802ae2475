//! The parameters of `process/start`, and the command that they describe.

use std::collections::BTreeMap;

use reknit_seams::process::{Command, Size, Stdio};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::request_error::RequestError;
use super::variables;
use super::{description, policy};
use crate::wire::process::StartParams;
use crate::wire::sandbox::Sandbox;
use crate::wire::{DirectoryForm, read};

/// Fields that codex 0.169.0 requires. Clients of June 2026 may omit them.
#[derive(Deserialize)]
struct RequiredFields {
    #[serde(rename = "env")]
    _env: IgnoredAny,
    #[serde(rename = "tty")]
    _tty: IgnoredAny,
}

/// Reads the parameters of a start. A client that writes the directory as a URI speaks the protocol
/// of codex 0.169.0, so the fields that this version requires must be present.
pub(super) fn read_params(params: Option<&RawValue>) -> Result<StartParams, RequestError> {
    let start: StartParams = read(params)?;
    if start.argv.is_empty() {
        return Err(RequestError::Params("argv must not be empty".into()));
    }
    if start.cwd.form() == DirectoryForm::Uri {
        read::<RequiredFields>(params)?;
    }
    Ok(start)
}

/// Returns the command to launch, confined to a sandbox. `own` are the server's variables.
pub(super) fn command(
    own: &BTreeMap<String, String>,
    sandbox: Option<&Sandbox>,
    params: StartParams,
) -> Result<Command, RequestError> {
    let stdio = if params.tty {
        Stdio::Terminal(Size::default())
    } else {
        Stdio::Pipes { stdin: params.pipe_stdin }
    };
    let mut env = variables::build(own, params.env_policy, params.env)?;
    if params.tty {
        // As with codex 0.169.0, a command with a terminal knows its shell.
        env.entry("SHELL".to_owned()).or_insert_with(|| description::shell(own).to_owned());
    }
    let around = policy::Surroundings {
        directory: Some(params.cwd.path()),
        temporary: env.get("TMPDIR").map(String::as_str),
        command: true,
    };
    let confinement = sandbox.map(|sandbox| policy::confinement(sandbox, around)).transpose();
    let confinement = confinement.map_err(RequestError::CannotConfine)?.flatten();
    Ok(Command {
        argv: params.argv,
        arg0: params.arg0,
        cwd: Some(params.cwd.path().to_owned()),
        env: env.into_iter().collect(),
        stdio,
        confinement,
    })
}

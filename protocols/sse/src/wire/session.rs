//! The bodies of requests for shell sessions.
//!
//! A shell session carries the exported variables and the working directory from one command to the
//! next. Its commands belong to their connections: they cannot be resumed.

use serde::{Deserialize, Serialize};

use super::{InvalidRequest, RunCommand};

/// The body of `POST /session`. It may be missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateSession {
    /// The first working directory; by default that of the server. It is created if it does not
    /// exist.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cwd: String,
}

/// The answer to `POST /session`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionCreated {
    /// The id of the session.
    pub session_id: String,
}

/// The body of `POST /session/{id}/run`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunInSession {
    /// A command line for the shell.
    pub command: String,
    /// The working directory; by default the one in which the last command of the session ended.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cwd: String,
    /// How long the command may run, in milliseconds; without a limit by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<i64>,
}

impl CreateSession {
    /// Parses and checks a body.
    ///
    /// # Errors
    /// [`InvalidRequest`].
    pub fn from_json(body: &[u8]) -> Result<Self, InvalidRequest> {
        if body.trim_ascii().is_empty() {
            return Ok(Self::default());
        }
        let request: Self = super::request::object(body)?;
        if request.cwd.contains('\0') { Err(InvalidRequest::Zero("cwd")) } else { Ok(request) }
    }
}

impl RunInSession {
    /// Parses and checks a body. Returns it as the request for a command.
    ///
    /// # Errors
    /// [`InvalidRequest`].
    pub fn from_json(body: &[u8]) -> Result<RunCommand, InvalidRequest> {
        let Self { command, cwd, timeout } = super::request::object(body)?;
        let request = RunCommand { command, cwd, timeout, ..RunCommand::default() };
        request.check()?;
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_of_a_session_may_be_missing() {
        for (body, cwd) in [("", ""), (" \n", ""), ("{}", ""), (r#"{"cwd":"/w"}"#, "/w")] {
            let parsed = CreateSession::from_json(body.as_bytes());
            assert_eq!(parsed, Ok(CreateSession { cwd: cwd.into() }), "{body:?}");
        }
        assert!(CreateSession::from_json(b"[]").is_err());
        let zero = CreateSession::from_json(br#"{"cwd":"\u0000"}"#);
        assert_eq!(zero, Err(InvalidRequest::Zero("cwd")));
    }

    #[test]
    fn a_run_needs_a_command() {
        let run = RunInSession::from_json(br#"{"command":"ls","cwd":"/w","timeout":5}"#).unwrap();
        assert_eq!((run.command.as_str(), run.cwd.as_str(), run.timeout), ("ls", "/w", Some(5)));
        assert_eq!(RunInSession::from_json(br#"{"command":""}"#), Err(InvalidRequest::NoCommand));
        assert!(matches!(RunInSession::from_json(b"{}"), Err(InvalidRequest::Json(_))));
    }
}

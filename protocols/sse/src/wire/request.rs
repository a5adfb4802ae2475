//! The body of a start, and the ids of commands.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use reknit_seams::defect;
use serde::{Deserialize, Serialize};

/// The id of a command: 1 to 128 letters, digits, `.`, `-` or `_`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId(String);

/// The reason why a request is wrong in itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRequest {
    /// The body is not JSON, or its fields have wrong types.
    #[error("the body is not valid: {0}")]
    Json(String),
    /// There is nothing to run.
    #[error("exactly one of command and argv is required, and it must not be empty")]
    NoCommand,
    /// A text contains a zero byte, which no program can receive.
    #[error("{0} must not contain a zero byte")]
    Zero(&'static str),
    /// The name of an environment variable is wrong.
    #[error("an environment variable needs a name without `=`")]
    VariableName,
    /// The time limit is zero or negative.
    #[error("timeout is a positive number of milliseconds")]
    Timeout,
    /// The id is wrong.
    #[error("an id is 1 to {LONGEST} letters, digits, `.`, `-` or `_`")]
    Id,
}

/// Parses a JSON object.
pub(super) fn object<T: serde::de::DeserializeOwned>(body: &[u8]) -> Result<T, InvalidRequest> {
    // serde also reads the fields of a structure from a list.
    if body.trim_ascii_start().first() != Some(&b'{') && !defect!(ListsAreObjects) {
        return Err(InvalidRequest::Json("it is not a JSON object".to_owned()));
    }
    serde_json::from_slice(body).map_err(|error| InvalidRequest::Json(error.to_string()))
}

/// The maximum length of an id.
const LONGEST: usize = 128;

/// A request to run a command: the body of `POST /command`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunCommand {
    /// An extension: the id that the command shall have. A repeated start with the same id and the
    /// same content does not run the command again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_id: Option<String>,
    /// A command line for the shell.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub command: String,
    /// A program and its arguments, instead of a command line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argv: Option<Vec<String>>,
    /// The working directory; by default that of the server.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cwd: String,
    /// Whether the answer only reports the start, and the output is read later.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub background: bool,
    /// How long the command may run, in milliseconds; without a limit by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<i64>,
    /// The user that the command shall run as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// The group that the command shall run as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gid: Option<u32>,
    /// Environment variables in addition to those of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub envs: Option<BTreeMap<String, String>>,
}

impl RunCommand {
    /// Returns a request to run a command line in the foreground.
    pub fn shell(command: impl Into<String>) -> Self {
        Self { command: command.into(), ..Self::default() }
    }

    /// Parses and checks a body.
    ///
    /// # Errors
    /// [`InvalidRequest`].
    pub fn from_json(body: &[u8]) -> Result<Self, InvalidRequest> {
        let request: Self = object(body)?;
        request.check()?;
        Ok(request)
    }

    /// Checks the values of the fields.
    pub(crate) fn check(&self) -> Result<(), InvalidRequest> {
        let runs = match &self.argv {
            None => !self.command.is_empty(),
            Some(argv) => {
                self.command.is_empty() && argv.first().is_some_and(|program| !program.is_empty())
            }
        };
        if !runs {
            return Err(InvalidRequest::NoCommand);
        }
        let envs = || self.envs.iter().flatten();
        let has_zero = |text: &String| text.contains('\0');
        for (name, found) in [
            ("command", has_zero(&self.command)),
            ("argv", self.argv.iter().flatten().any(has_zero)),
            ("cwd", has_zero(&self.cwd)),
            ("envs", envs().any(|(name, value)| has_zero(name) || has_zero(value))),
        ] {
            if found && !defect!(ZerosAreText) {
                return Err(InvalidRequest::Zero(name));
            }
        }
        if envs()
            .any(|(name, _)| name.is_empty() || name.contains('=') && !defect!(AnyNameIsAVariable))
        {
            return Err(InvalidRequest::VariableName);
        }
        if self.timeout.is_some_and(|timeout| timeout < 0 && !defect!(NegativeLimitIsNone)) {
            return Err(InvalidRequest::Timeout);
        }
        self.id().map(drop)
    }

    /// Returns the id that the client chose.
    ///
    /// # Errors
    /// If it is not an id.
    pub fn id(&self) -> Result<Option<CommandId>, InvalidRequest> {
        let chosen = self.operation_id.as_deref();
        let chosen = chosen.filter(|id| !id.is_empty() || defect!(EmptyIdIsChosen));
        chosen.map(CommandId::from_str).transpose()
    }

    /// Returns how long the command may run. execd takes 0 for "no limit".
    pub fn time_limit(&self) -> Option<Duration> {
        let positive = self.timeout.and_then(|timeout| u64::try_from(timeout).ok());
        positive.filter(|timeout| *timeout > 0 || defect!(ZeroIsALimit)).map(Duration::from_millis)
    }

    /// Returns how many bytes its texts have.
    pub fn size(&self) -> usize {
        let argv = self.argv.iter().flatten().map(String::len).sum::<usize>();
        let envs = self.envs.iter().flatten().map(|(name, value)| name.len() + value.len());
        self.command.len() + self.cwd.len() + argv + envs.sum::<usize>()
    }

    /// Returns the command as a person would write it, for a status.
    pub fn content(&self) -> String {
        self.argv.as_ref().map_or_else(|| self.command.clone(), |argv| argv.join(" "))
    }
}

impl CommandId {
    /// Returns an id from a random number.
    pub fn random(number: u128) -> Self {
        Self(format!("{number:032x}"))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CommandId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for CommandId {
    type Err = InvalidRequest;

    fn from_str(text: &str) -> Result<Self, InvalidRequest> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        // A path segment of dots only has another meaning in a URL.
        let is_id = (1..=LONGEST).contains(&text.len())
            && text.bytes().all(is_plain)
            && text.bytes().any(|byte| byte != b'.');
        is_id.then(|| Self(text.to_owned())).ok_or(InvalidRequest::Id)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(body: &str) -> Result<RunCommand, InvalidRequest> {
        RunCommand::from_json(body.as_bytes())
    }

    #[test]
    fn a_start_counts_as_large_as_its_texts_are() {
        let request = parse(r#"{"command":"ls -l","cwd":"/w","envs":{"A":"bcd"}}"#).unwrap();
        assert_eq!(request.size(), 5 + 2 + 4);
        let request = parse(r#"{"argv":["ls","-la"]}"#).unwrap();
        assert_eq!(request.size(), 5);
    }

    #[test]
    fn a_request_of_execd_is_understood() {
        let request = parse(
            r#"{"command":"ls","cwd":"/w","background":true,"timeout":30,"uid":1,"gid":2,"envs":{"A":"b"},"new":1}"#,
        )
        .unwrap();
        assert_eq!((request.command.as_str(), request.cwd.as_str()), ("ls", "/w"));
        assert_eq!(request.time_limit(), Some(Duration::from_millis(30)));
        assert_eq!((request.background, request.uid, request.gid), (true, Some(1), Some(2)));
        assert_eq!(request.envs, Some(BTreeMap::from([("A".into(), "b".into())])));
        assert_eq!(parse(r#"{"command":"ls","timeout":0}"#).unwrap().time_limit(), None);
    }

    #[test]
    fn a_request_runs_either_a_command_line_or_a_program() {
        assert_eq!(parse(r#"{"argv":["ls","-l"]}"#).unwrap().content(), "ls -l");
        for body in [
            "{}",
            r#"{"command":""}"#,
            r#"{"argv":[]}"#,
            r#"{"argv":[""]}"#,
            r#"{"command":"a","argv":["b"]}"#,
        ] {
            assert_eq!(parse(body), Err(InvalidRequest::NoCommand), "{body}");
        }
    }

    #[test]
    fn values_that_no_program_can_receive_are_refused() {
        for (body, why) in [
            (r#"{"command":"a\u0000"}"#, InvalidRequest::Zero("command")),
            (r#"{"argv":["a","\u0000"]}"#, InvalidRequest::Zero("argv")),
            (r#"{"command":"a","cwd":"\u0000"}"#, InvalidRequest::Zero("cwd")),
            (r#"{"command":"a","envs":{"A":"\u0000"}}"#, InvalidRequest::Zero("envs")),
            (r#"{"command":"a","envs":{"A=B":"c"}}"#, InvalidRequest::VariableName),
            (r#"{"command":"a","envs":{"":"c"}}"#, InvalidRequest::VariableName),
            (r#"{"command":"a","timeout":-1}"#, InvalidRequest::Timeout),
            (r#"{"command":"a","operation_id":"a b"}"#, InvalidRequest::Id),
        ] {
            assert_eq!(parse(body), Err(why), "{body}");
        }
        for body in ["", "[]", r#"{"command":1}"#, r#"{"command":"a","timeout":"1"}"#] {
            assert!(matches!(parse(body), Err(InvalidRequest::Json(_))), "{body}");
        }
    }

    #[test]
    fn an_id_fits_into_a_path() {
        for text in ["a", "cmd-1_x.y", "...a", &"a".repeat(LONGEST)] {
            assert!(text.parse::<CommandId>().is_ok(), "{text}");
        }
        for text in ["", ".", "..", "a/b", "a b", "ä", "%61", &"a".repeat(LONGEST + 1)] {
            assert_eq!(text.parse::<CommandId>(), Err(InvalidRequest::Id), "{text}");
        }
        let random = CommandId::random(1);
        assert_eq!(random.as_str().parse(), Ok(random));
    }

    proptest! {
        #[test]
        fn a_written_request_is_read_back(
            command in "[^\0]{1,9}",
            operation_id in prop::option::of("[a-z0-9._-]{0,8}a"),
            cwd in "[^\0]{0,9}",
            background: bool,
            timeout in prop::option::of(0..i64::MAX),
            envs in prop::option::of(prop::collection::btree_map("[A-Z]{1,3}", "[^\0]{0,5}", 0..3)),
        ) {
            let request = RunCommand {
                operation_id, command, cwd, background, timeout, envs, ..RunCommand::default()
            };
            let body = serde_json::to_vec(&request).unwrap();
            prop_assert_eq!(RunCommand::from_json(&body), Ok(request));
        }

        #[test]
        fn no_body_makes_the_parser_panic(body: Vec<u8>) {
            let _ = RunCommand::from_json(&body);
        }
    }
}

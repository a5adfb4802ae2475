//! The answer to a status request.

use std::time::{Duration, UNIX_EPOCH};

use reknit_seams::defect;
use serde::{Deserialize, Serialize};

use super::Ending;

/// The state of a command: the body of the answer to `GET /command/status/{id}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandStatus {
    /// The id of the command.
    pub id: String,
    /// The command as its request has it. A server that forgot the output may leave it out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub content: String,
    /// Whether its ending is not in the log yet.
    pub running: bool,
    /// The exit code, if it has ended. A command without an exit code has -1 if it was killed, and
    /// 255 if it did not start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Why it did not succeed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// When it was started, in RFC 3339.
    pub started_at: String,
    /// When it ended, in RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<String>,
    /// An extension: how it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<Ending>,
    /// An extension: the position of its last event; 0 if there is none.
    #[serde(default)]
    pub last: u64,
}

impl CommandStatus {
    /// Returns the state of a running command that started at `started`, in milliseconds since 1970.
    pub fn running(id: &str, content: String, started: u64, last: u64) -> Self {
        Self {
            id: id.to_owned(),
            content,
            running: true,
            exit_code: None,
            error: String::new(),
            started_at: rfc3339(started),
            finished_at: None,
            ending: None,
            last,
        }
    }

    /// Returns the state after the command has ended at `finished`.
    #[must_use]
    pub fn ended(self, ending: &Ending, finished: u64) -> Self {
        let (code, error) = match ending {
            Ending::Exited(0) => (0, String::new()),
            Ending::Exited(code) => (*code, format!("exit status {code}")),
            Ending::Killed(signal) => (-1, format!("signal {signal}")),
            Ending::TimedOut => (-1, "the command timed out".to_owned()),
            Ending::NotStarted(why) | Ending::Lost(why) => (255, why.clone()),
        };
        // The bug: the state of a command without an exit code has none.
        let has_code = matches!(ending, Ending::Exited(_)) || !defect!(KilledHasNoCode);
        Self {
            running: false,
            exit_code: has_code.then_some(code),
            error,
            finished_at: Some(rfc3339(finished)),
            ending: Some(ending.clone()),
            ..self
        }
    }
}

/// The last millisecond of the year 9999: RFC 3339 has no later one.
const LATEST: u64 = 253_402_300_799_999;

fn rfc3339(milliseconds: u64) -> String {
    let time = UNIX_EPOCH + Duration::from_millis(milliseconds.min(LATEST));
    humantime::format_rfc3339_millis(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_command_has_neither_a_code_nor_an_end() {
        let status = CommandStatus::running("c1", "ls".into(), 1_767_225_600_123, 4);
        assert_eq!(
            serde_json::to_string(&status).unwrap(),
            r#"{"id":"c1","content":"ls","running":true,"started_at":"2026-01-01T00:00:00.123Z","last":4}"#
        );
    }

    #[test]
    fn an_ended_command_has_both() {
        let status = CommandStatus::running("c1", String::new(), 0, 4).ended(&Ending::Exited(3), 9);
        assert_eq!(
            serde_json::to_string(&status).unwrap(),
            r#"{"id":"c1","running":false,"exit_code":3,"error":"exit status 3","started_at":"1970-01-01T00:00:00.000Z","finished_at":"1970-01-01T00:00:00.009Z","ending":{"exited":3},"last":4}"#
        );
    }

    #[test]
    fn every_ending_has_a_code_that_is_not_a_success() {
        for ending in [
            Ending::Exited(1),
            Ending::Killed(9),
            Ending::TimedOut,
            Ending::NotStarted("why".into()),
            Ending::Lost("why".into()),
        ] {
            let status = CommandStatus::running("c1", String::new(), 0, 0).ended(&ending, u64::MAX);
            assert!(status.exit_code != Some(0) && !status.error.is_empty(), "{ending:?}");
            let json = serde_json::to_string(&status).unwrap();
            assert_eq!(serde_json::from_str::<CommandStatus>(&json).unwrap(), status);
        }
    }
}

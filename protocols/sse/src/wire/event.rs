//! The events of a stream, and their JSON.
//!
//! The fields are those of execd: `eid`, `type`, `text`, `execution_time`, `error`, `timestamp`. A
//! field with the value zero, or with no value, is left out. execd writes one event for one line of
//! output, and leaves out the end of the line. Here the exact bytes matter, so:
//!
//! - a line that ends with `\n` is written as execd does it, without its end;
//! - another end (`\r`, `\r\n`, or none) is in the field `eol`;
//! - an empty line has its end as its text, because SDKs drop an event without a text;
//! - output that is not UTF-8 is also in `bytes`, in base64.
//!
//! Only output and the ending of a command have positions (`eid`). They are the log of the command,
//! and a stream can continue after any of them. All other events belong to one connection.

use std::borrow::Cow;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use reknit_seams::defect;
use serde::{Deserialize, Serialize};

use super::Epoch;

/// One event of a stream, with what execd writes about every event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The position in the log of the command, from 1; `None` for an event that is not in the log.
    pub position: Option<u64>,
    /// When the server created it, in milliseconds since 1970; 0 if unknown.
    pub timestamp: u64,
    /// The event.
    pub event: Event,
}

/// The content of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The first event of a start.
    Init {
        /// The id of the command.
        command: String,
        /// The run that the positions count; an original execd has none.
        epoch: Option<Epoch>,
    },
    /// A message about the command.
    Status(String),
    /// Output of the command: at most one line.
    Output(OutputStream, Bytes),
    /// The end of the command. Nothing follows.
    Ended {
        /// How it ended.
        ending: Ending,
        /// How long the command ran, in milliseconds.
        took: u64,
    },
    /// The start of a background command is complete. execd says it with an `execution_complete`
    /// that is not in the log. (An execd without resumption writes the same event at the end of a
    /// command in the foreground. The client knows which of the two it asked for.)
    Detached,
    /// The stream is alive.
    Ping,
    /// Events that the server no longer has. Comes before the event that follows them.
    Gap(Gap),
    /// An event that this crate does not know, or that only notebooks send. Contains its type.
    Other(String),
}

/// The pipe that output comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutputStream {
    /// The standard output.
    Stdout,
    /// The standard error.
    Stderr,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// It exited with this code.
    Exited(i32),
    /// A signal with this number killed it.
    Killed(i32),
    /// It ran longer than its request allows, and was killed.
    TimedOut,
    /// It could not be started, for this reason.
    NotStarted(String),
    /// The server lost track of it, for this reason.
    Lost(String),
}

/// A range of lost events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// The position of the first lost event.
    pub first: u64,
    /// The position of the last lost event.
    pub last: u64,
}

/// The reason why a JSON text is not an event.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// It is not a JSON object.
    #[error("an event must be a JSON object")]
    NotAnObject,
    /// It is not JSON, or its fields have wrong types.
    #[error("not an event: {0}")]
    Json(#[from] serde_json::Error),
    /// A field has a value that it cannot have.
    #[error("an event with a wrong {0}")]
    Field(&'static str),
}

/// The `ename` of a command that did not succeed.
const FAILED: &str = "CommandExecError";
/// The `ename` of a gap.
const GAP: &str = "OutputGap";
/// The `evalue` of a command that has no exit code, as execd has it.
const NO_CODE: &str = "-1";

/// The fields of an event on the wire.
#[derive(Default, Serialize, Deserialize)]
struct Fields<'a> {
    #[serde(default, skip_serializing_if = "is_zero")]
    eid: u64,
    #[serde(rename = "type", default, borrow)]
    kind: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "str::is_empty", borrow)]
    text: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "is_zero")]
    execution_time: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<ErrorFields>,
    #[serde(default, skip_serializing_if = "is_zero")]
    timestamp: u64,
    #[serde(default, skip_serializing_if = "Option::is_none", borrow)]
    eol: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bytes: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ending: Option<Ending>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gap: Option<Gap>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    epoch: Option<String>,
}

#[derive(Default, Serialize, Deserialize)]
struct ErrorFields {
    #[serde(default)]
    ename: String,
    #[serde(default)]
    evalue: String,
    #[serde(default, deserialize_with = "null_is_empty")]
    traceback: Vec<String>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Go writes an empty list as `null`.
fn null_is_empty<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

impl Record {
    /// Returns an event that is not in the log.
    pub fn unlogged(timestamp: u64, event: Event) -> Self {
        Self { position: None, timestamp, event }
    }

    /// Returns the JSON of the event: one line, without its end.
    pub fn to_json(&self) -> String {
        let mut fields = Fields {
            eid: self.position.unwrap_or(0),
            timestamp: self.timestamp,
            ..Fields::of(&self.event)
        };
        fields.kind = kind(&self.event).into();
        serde_json::to_string(&fields).expect("the fields are plain data")
    }

    /// Parses the JSON of an event. Unknown fields are ignored.
    ///
    /// # Errors
    /// [`RecordError`].
    pub fn from_json(json: &str) -> Result<Self, RecordError> {
        // serde also reads the fields of a structure from a list.
        if !json.trim_start().starts_with('{') {
            return Err(RecordError::NotAnObject);
        }
        let fields: Fields<'_> = serde_json::from_str(json)?;
        let (eid, timestamp) = (fields.eid, fields.timestamp);
        let event = fields.into_event()?;
        Ok(Self { position: (eid != 0).then_some(eid), timestamp, event })
    }
}

/// Returns the `type` of an event.
fn kind(event: &Event) -> &str {
    match event {
        Event::Init { .. } => "init",
        Event::Status(_) => "status",
        Event::Output(OutputStream::Stdout, _) => "stdout",
        Event::Output(OutputStream::Stderr, _) => "stderr",
        Event::Ended { ending: Ending::Exited(0), .. } | Event::Detached => "execution_complete",
        Event::Ended { .. } | Event::Gap(_) => "error",
        Event::Ping => "ping",
        Event::Other(kind) => kind,
    }
}

impl<'a> Fields<'a> {
    /// Returns the fields of an event that depend on its kind.
    fn of(event: &'a Event) -> Self {
        match event {
            Event::Init { command, epoch } => Self {
                text: command.into(),
                epoch: epoch.map(|epoch| epoch.to_string()),
                ..Self::default()
            },
            Event::Status(text) => Self { text: text.into(), ..Self::default() },
            Event::Output(_, bytes) => Self::of_output(bytes),
            Event::Ended { ending, took } => Self::of_ending(ending, *took),
            Event::Ping => Self { text: "pong".into(), ..Self::default() },
            Event::Gap(gap) => Self {
                error: Some(ErrorFields {
                    ename: GAP.to_owned(),
                    evalue: gap.to_string(),
                    traceback: Vec::new(),
                }),
                gap: Some(*gap),
                ..Self::default()
            },
            Event::Detached | Event::Other(_) => Self::default(),
        }
    }

    fn of_output(bytes: &'a [u8]) -> Self {
        let Ok(line) = std::str::from_utf8(bytes) else {
            return Self {
                text: String::from_utf8_lossy(bytes),
                bytes: Some(BASE64_STANDARD.encode(bytes)),
                ..Self::default()
            };
        };
        let (text, eol) = split_end(line);
        Self { text: text.into(), eol: eol.map(Cow::from), ..Self::default() }
    }

    fn of_ending(ending: &Ending, took: u64) -> Self {
        if *ending == Ending::Exited(0) {
            return Self { execution_time: took, ..Self::default() };
        }
        let (evalue, why) = match ending {
            Ending::Exited(code) => (code.to_string(), format!("exit status {code}")),
            Ending::Killed(signal) => (NO_CODE.to_owned(), format!("signal {signal}")),
            Ending::TimedOut => (NO_CODE.to_owned(), "the command timed out".to_owned()),
            Ending::NotStarted(why) | Ending::Lost(why) => (why.clone(), why.clone()),
        };
        let error = ErrorFields { ename: FAILED.to_owned(), evalue, traceback: vec![why] };
        Self {
            execution_time: took,
            error: Some(error),
            ending: Some(ending.clone()),
            ..Self::default()
        }
    }

    fn into_event(self) -> Result<Event, RecordError> {
        if let Some(gap) = self.gap {
            let is_range = (0 < gap.first || defect!(GapsBeginAnywhere)) && gap.first <= gap.last;
            return is_range.then_some(Event::Gap(gap)).ok_or(RecordError::Field("gap"));
        }
        Ok(match &*self.kind {
            "init" => Event::Init { command: self.text.into_owned(), epoch: epoch(self.epoch)? },
            "status" => Event::Status(self.text.into_owned()),
            "stdout" => Event::Output(OutputStream::Stdout, self.output()?),
            "stderr" => Event::Output(OutputStream::Stderr, self.output()?),
            "execution_complete" if self.eid == 0 => Event::Detached,
            "execution_complete" => {
                Event::Ended { ending: Ending::Exited(0), took: self.execution_time }
            }
            "execution_error" if defect!(ErrorsHaveOneName) => Event::Other(self.kind.into_owned()),
            // The API description of execd has another name than its code.
            "error" | "execution_error" => {
                let error = self.error.unwrap_or_default();
                let ending = self.ending.unwrap_or_else(|| error.ending());
                Event::Ended { ending, took: self.execution_time }
            }
            "ping" => Event::Ping,
            _ => Event::Other(self.kind.into_owned()),
        })
    }

    fn output(&self) -> Result<Bytes, RecordError> {
        if let Some(bytes) = &self.bytes {
            let decoded = BASE64_STANDARD.decode(bytes);
            return decoded.map(Bytes::from).map_err(|_| RecordError::Field("bytes"));
        }
        let end = match self.eol.as_deref() {
            Some(end @ ("" | "\n" | "\r" | "\r\n")) => end,
            Some(_) => return Err(RecordError::Field("eol")),
            None if self.text == "\n" => "",
            None => "\n",
        };
        Ok(Bytes::from([self.text.as_bytes(), end.as_bytes()].concat()))
    }
}

/// Splits a line into its text and the field `eol`. The text is not empty unless the line is.
fn split_end(line: &str) -> (&str, Option<&'static str>) {
    let ends = [("\r\n", Some("\r\n")), ("\n", None), ("\r", Some("\r"))];
    let found = ends.iter().find_map(|(end, eol)| Some((line.strip_suffix(end)?, *eol)));
    match found {
        // The text "\n" without an end is an empty line, so it cannot be the text of another line.
        Some((text, eol)) if !text.is_empty() && text != "\n" => (text, eol),
        _ => (line, (line != "\n").then_some("")),
    }
}

fn epoch(text: Option<String>) -> Result<Option<Epoch>, RecordError> {
    text.map(|text| text.parse().map_err(|_| RecordError::Field("epoch"))).transpose()
}

impl ErrorFields {
    /// Returns the ending that an original execd describes.
    fn ending(self) -> Ending {
        match self.evalue.parse() {
            Ok(code) => Ending::Exited(code),
            Err(_) => Ending::NotStarted(self.evalue),
        }
    }
}

impl std::fmt::Display for Gap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "events {} to {} are no longer available", self.first, self.last)
    }
}

#[cfg(test)]
#[path = "tests/event.rs"]
pub(super) mod tests;

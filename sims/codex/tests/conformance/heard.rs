//! The messages that a connection received, and their normal form: the same for every run of the same server.
//!
//! Answers are listed by id. The output of a process is joined for each stream, because its pieces
//! depend on the time. Bytes are decoded. The normal form omits the text of an error, except the
//! field that the text names.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::script::Event;

/// The fields with bytes.
const BYTES: [&str; 4] = ["chunk", "dataBase64", "bodyBase64", "deltaBase64"];

/// The fields with times, versions, names of the machine and its user, and the description of the
/// machine in the handshake, which the family `environment` compares.
const CHANCE: [&str; 8] = [
    "createdAtMs",
    "environmentInfo",
    "executorVersion",
    "hostname",
    "modifiedAtMs",
    "providerId",
    "sessionId",
    "shell",
];

#[derive(Default)]
pub struct Heard {
    /// The ids of the requests.
    pub asked: BTreeSet<String>,
    /// The answers to each id.
    pub answers: BTreeMap<String, Vec<Value>>,
    /// The requests that start each process.
    starts: BTreeMap<String, Vec<String>>,
    /// The events of each process.
    processes: BTreeMap<String, Vec<Value>>,
    /// The processes whose events are compared.
    compared: BTreeSet<String>,
    /// The pieces of each HTTP body.
    bodies: BTreeMap<String, Vec<Value>>,
    /// Everything else.
    pub others: Vec<Value>,
    /// The end of the connection, and the code of its Close frame.
    pub end: Option<Option<u16>>,
    /// Whether the last request was not answered.
    pub stuck: bool,
}

impl Heard {
    /// Sorts a frame in.
    pub fn text(&mut self, text: &str) {
        let Ok(message) = serde_json::from_str::<Value>(text) else {
            return self.others.push(text.into());
        };
        let params = &message["params"];
        let name = |field: &str| params[field].as_str().unwrap_or_default().to_owned();
        match message["method"].as_str() {
            None => self.answers.entry(message["id"].to_string()).or_default().push(message),
            Some("process/output" | "process/exited" | "process/closed") => {
                self.processes.entry(name("processId")).or_default().push(message)
            }
            Some("http/request/bodyDelta") => {
                self.bodies.entry(name("requestId")).or_default().push(message)
            }
            Some(_) => self.others.push(message),
        }
    }

    /// Notes a request that starts a process.
    pub fn starts(&mut self, params: &str, request: &str) {
        let params: Value = serde_json::from_str(params).unwrap_or_default();
        if let Some(process) = params["processId"].as_str() {
            self.starts.entry(process.to_owned()).or_default().push(request.to_owned());
        }
    }

    /// Whether a process has no events, because each of its starts was refused.
    pub fn is_refused(&self, process: &str) -> bool {
        let is_refused = |request: &String| {
            let answers = self.answers.get(request).into_iter().flatten();
            answers.into_iter().any(|answer| answer.get("error").is_some())
        };
        self.starts.get(process).is_some_and(|starts| starts.iter().all(is_refused))
    }

    /// Whether an event was received.
    pub fn happened(&self, event: Event, of: &str) -> bool {
        let is = |wanted: &str| {
            let events = self.processes.get(of).into_iter().flatten();
            events.into_iter().any(|event| event["method"] == wanted)
        };
        match event {
            Event::Output => is("process/output"),
            Event::Exited => is("process/exited"),
            Event::Closed => is("process/closed"),
            Event::Body => self
                .bodies
                .get(of)
                .into_iter()
                .flatten()
                .any(|piece| piece["params"]["done"] == true),
            Event::Missing => self.others.iter().any(|other| {
                other["method"] == "fs/missingChanged"
                    && other["params"]["watchId"].as_u64() == of.parse().ok()
            }),
        }
    }

    /// Compares the events of a process. Without this call they depend on the time.
    pub fn compares(&mut self, process: &str) {
        self.compared.insert(process.to_owned());
    }

    /// Returns the ids of requests without an answer.
    pub fn unanswered(&self) -> impl Iterator<Item = &String> {
        self.asked.iter().filter(|id| !self.answers.contains_key(*id))
    }

    /// Returns the normal form.
    pub fn normal(&self) -> Value {
        let mut normal = Map::new();
        for (id, answers) in &self.answers {
            let answers: Vec<_> = answers.iter().map(answer).collect();
            let one = answers.len() == 1;
            normal.insert(
                format!("answer {id}"),
                if one { answers[0].clone() } else { answers.into() },
            );
        }
        for id in self.unanswered() {
            normal.insert(format!("answer {id}"), "none".into());
        }
        for process in &self.compared {
            let events = self.processes.get(process).map_or(&[][..], Vec::as_slice);
            normal.insert(format!("process {process}"), life(events));
        }
        for (request, pieces) in &self.bodies {
            normal.insert(format!("body {request}"), body(pieces));
        }
        if !self.others.is_empty() {
            normal.insert("others".into(), self.others.iter().cloned().map(plain).collect());
        }
        if self.stuck {
            normal.insert("end".into(), "the connection does not answer any more".into());
        }
        if let Some(code) = self.end {
            let code =
                code.map_or("without a Close frame".to_owned(), |code| format!("with code {code}"));
            normal.insert("end".into(), format!("closed {code}").into());
        }
        Value::Object(normal)
    }
}

/// The normal form of an answer.
fn answer(answer: &Value) -> Value {
    let Some(error) = answer.get("error") else { return plain(answer.clone()) };
    let mut normal = json!({"code": error["code"]});
    if let Some(part) = error["message"].as_str().and_then(stable) {
        normal["about"] = part.into();
    }
    if let Some(data) = error.get("data") {
        normal["data"] = data.clone();
    }
    json!({"error": normal})
}

/// The part of an error's text that does not depend on the server: the field that a decoder names.
fn stable(message: &str) -> Option<String> {
    ["missing field `", "duplicate field `", "unknown variant `"].iter().find_map(|start| {
        let rest = &message[message.find(start)?..];
        Some(rest[..start.len() + rest[start.len()..].find('`')? + 1].to_owned())
    })
}

/// Decodes bytes, and hides times and versions.
fn plain(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(plain).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(name, value)| field(name, value)).collect()
        }
        other => other,
    }
}

fn field(name: String, value: Value) -> (String, Value) {
    let value = match value {
        Value::String(text) if BYTES.contains(&&*name) => decoded(&text).into(),
        Value::Null => Value::Null,
        _ if CHANCE.contains(&&*name) => "…".into(),
        other => plain(other),
    };
    (name, value)
}

fn decoded(text: &str) -> String {
    let Ok(bytes) = STANDARD.decode(text) else { return format!("not base64: {text}") };
    String::from_utf8(bytes).unwrap_or_else(|error| format!("{:02x?}", error.as_bytes()))
}

/// The life of a process.
fn life(events: &[Value]) -> Value {
    let mut events: Vec<_> = events.iter().collect();
    events.sort_by_key(|event| event["params"]["seq"].as_u64());
    let mut normal = Map::new();
    let expected = events.iter().zip(1..).all(|(event, seq)| event["params"]["seq"] == seq);
    normal.insert(
        "sequence".into(),
        if expected { "from 1, without a gap" } else { "broken" }.into(),
    );
    for event in &events {
        let Value::Object(mut params) = event["params"].clone() else { continue };
        params.shift_remove("processId");
        params.shift_remove("seq");
        let kind = event["method"].as_str().unwrap_or_default();
        if kind == "process/output" {
            let stream = params.shift_remove("stream").unwrap_or_default();
            let text = decoded(
                params.shift_remove("chunk").unwrap_or_default().as_str().unwrap_or_default(),
            );
            let all = normal.entry(stream.as_str().unwrap_or_default()).or_insert("".into());
            *all = format!("{}{text}", all.as_str().unwrap_or_default()).into();
            normal.extend(params);
        } else {
            normal.insert(kind.into(), Value::Object(params));
        }
    }
    let last = events.last().map(|event| event["method"].clone());
    normal.insert("last".into(), last.unwrap_or_default());
    normal.sort_keys();
    Value::Object(normal)
}

/// A streamed body.
fn body(pieces: &[Value]) -> Value {
    let expected = pieces.iter().zip(1..).all(|(piece, seq)| piece["params"]["seq"] == seq);
    let text: String = pieces
        .iter()
        .map(|piece| decoded(piece["params"]["deltaBase64"].as_str().unwrap_or_default()))
        .collect();
    let last = pieces.last().map(|piece| &piece["params"]);
    let error = last.and_then(|last| last.get("error"));
    json!({
        "sequence": if expected { "from 1, without a gap" } else { "broken" },
        "text": text,
        "done": last.map(|last| &last["done"]),
        "error": error.map(|error| if error.is_null() { "null" } else { "some text" }),
    })
}

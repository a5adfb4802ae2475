//! A scripted model: a server for the Responses API that asks codex to run commands.
//!
//! It answers the first request with the calls of the script's first turn, the next one with those
//! of the second turn, and so on. Then it waits for the end of every command that still runs, and
//! says `done`. A turn can also contain messages, and can leave its response without an end.

use std::collections::{BTreeSet, VecDeque};
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};

use http_body_util::BodyExt;
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// How long a call waits for the end of its command, in milliseconds: the longest that codex allows
/// for a new command, and for one that runs.
const FIRST_WAIT: u64 = 30_000;
const NEXT_WAIT: u64 = 300_000;

/// A part of a response: a call of a tool of codex, or a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Runs a command in a shell, behind pipes or on a terminal.
    Run {
        /// The command.
        command: String,
        /// Whether it gets a terminal.
        tty: bool,
        /// How long codex waits for its end before it answers, in milliseconds.
        wait: u64,
    },
    /// Types into the command that runs.
    Type(String),
    /// Says a text, in a phase of the answer.
    Say {
        /// The text.
        text: String,
        /// The phase: `commentary` or `final_answer`.
        phase: &'static str,
    },
    /// Does not end the response.
    Hold,
    /// Refuses the request, in the place of a whole response.
    Refuse,
}

impl Call {
    /// Runs a command behind pipes, and waits for its end.
    pub fn run(command: impl Into<String>) -> Self {
        Self::Run { command: command.into(), tty: false, wait: FIRST_WAIT }
    }

    /// Says the final answer.
    pub fn answer(text: impl Into<String>) -> Self {
        Self::Say { text: text.into(), phase: "final_answer" }
    }

    /// Says something on the way to the answer.
    pub fn comment(text: impl Into<String>) -> Self {
        Self::Say { text: text.into(), phase: "commentary" }
    }
}

/// A running model.
pub struct Model {
    address: SocketAddr,
    talk: Arc<Mutex<Talk>>,
    task: JoinSet<()>,
}

#[derive(Default)]
struct Talk {
    turns: VecDeque<Vec<Call>>,
    requests: usize,
    calls: usize,
    /// The commands that codex reported as running, by its number for them.
    running: BTreeSet<u64>,
    heard: BTreeSet<String>,
    outputs: Vec<String>,
    tools: Vec<String>,
}

impl Model {
    /// Starts a model that asks for these calls, one turn after the other.
    ///
    /// # Panics
    /// If no port of the address is free.
    pub async fn start(at: IpAddr, turns: impl IntoIterator<Item = Vec<Call>>) -> Self {
        let listener = TcpListener::bind((at, 0)).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let turns = turns.into_iter().collect();
        let talk = Arc::new(Mutex::new(Talk { turns, ..Talk::default() }));
        let mut task = JoinSet::new();
        task.spawn(serve(listener, talk.clone()));
        Self { address, talk, task }
    }

    /// Returns the URL for the configuration of codex.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Returns the answers of the tools so far, as codex reported them to the model.
    pub fn outputs(&self) -> Vec<String> {
        lock(&self.talk).outputs.clone()
    }

    /// Returns how often codex asked.
    pub fn requests(&self) -> usize {
        lock(&self.talk).requests
    }

    /// Ends the model: codex cannot reach it any more.
    pub async fn stop(&mut self) {
        self.task.shutdown().await;
    }

    /// Returns the names of the tools that codex offers.
    pub fn tools(&self) -> Vec<String> {
        lock(&self.talk).tools.clone()
    }
}

async fn serve(listener: TcpListener, talk: Arc<Mutex<Talk>>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Some(_) = connections.join_next() => {}
            Ok((stream, _)) = listener.accept() => drop(connections.spawn(converse(stream, talk.clone()))),
        }
    }
}

async fn converse(stream: TcpStream, talk: Arc<Mutex<Talk>>) {
    let service = service_fn(|request| {
        let talk = talk.clone();
        async move { Ok::<_, Infallible>(answer(request, &talk).await) }
    });
    // The client may close the connection at any time.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

/// A body of text that may have no end.
#[derive(Default)]
struct Text {
    bytes: Option<Bytes>,
    holds: bool,
}

impl Body for Text {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.bytes.take() {
            Some(bytes) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            None if self.holds => Poll::Pending,
            None => Poll::Ready(None),
        }
    }
}

async fn answer(request: Request<Incoming>, talk: &Mutex<Talk>) -> Response<Text> {
    let asked = request.method() == Method::POST && request.uri().path().ends_with("/responses");
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let Some(question) = serde_json::from_slice::<Value>(&body).ok().filter(|_| asked) else {
        let mut response = Response::new(Text::default());
        *response.status_mut() = StatusCode::NOT_FOUND;
        return response;
    };
    let Some((events, holds)) = lock(talk).respond(&question) else {
        let mut response = Response::new(Text::default());
        *response.status_mut() = StatusCode::BAD_REQUEST;
        return response;
    };
    let mut text = String::new();
    for event in events {
        let name = event["type"].as_str().unwrap_or_default();
        text += &format!("event: {name}\ndata: {event}\n\n");
    }
    let mut response = Response::new(Text { bytes: Some(text.into()), holds });
    response.headers_mut().insert(CONTENT_TYPE, "text/event-stream".parse().expect("a value"));
    response
}

impl Talk {
    /// Returns the events of the next response, and whether it has no end. `None` is a refusal.
    fn respond(&mut self, question: &Value) -> Option<(Vec<Value>, bool)> {
        self.hear(question);
        self.requests += 1;
        let mut turn = self.turns.pop_front();
        if turn.as_ref().is_some_and(|calls| calls.contains(&Call::Refuse)) {
            return None;
        }
        let holds = turn.as_ref().is_some_and(|calls| calls.contains(&Call::Hold));
        turn.iter_mut().for_each(|calls| calls.retain(|call| *call != Call::Hold));
        let items: Vec<_> = match turn {
            Some(calls) => calls.into_iter().map(|call| self.ask(call)).collect(),
            None if self.running.is_empty() => vec![json!({
                "type": "message", "role": "assistant", "id": "end",
                "content": [{"type": "output_text", "text": "done"}],
            })],
            None => {
                let running = self.running.clone();
                running.into_iter().map(|session| self.wait(session, "", NEXT_WAIT)).collect()
            }
        };
        let id = format!("response-{}", self.calls);
        let mut events = vec![json!({"type": "response.created", "response": {"id": id}})];
        for item in items {
            events.push(json!({"type": "response.output_item.done", "item": item}));
        }
        if holds {
            return Some((events, true));
        }
        let usage = json!({"input_tokens": 1, "output_tokens": 1, "total_tokens": 2});
        let response = json!({"id": id, "usage": usage});
        events.push(json!({"type": "response.completed", "response": response}));
        Some((events, false))
    }

    /// Takes the new answers of the tools.
    fn hear(&mut self, question: &Value) {
        let names = question["tools"].as_array().into_iter().flatten();
        self.tools = names.filter_map(|tool| tool["name"].as_str()).map(str::to_owned).collect();
        for item in question["input"].as_array().into_iter().flatten() {
            let Some(id) = item["call_id"].as_str() else { continue };
            let output = &item["output"];
            if output.is_null() || !self.heard.insert(id.to_owned()) {
                continue;
            }
            let text = output.as_str().map_or_else(|| output.to_string(), str::to_owned);
            if let Some(session) = session(&text) {
                self.running.insert(session);
            } else if let Some(session) = id.strip_prefix("session-") {
                let number = session.split('-').next().and_then(|number| number.parse().ok());
                self.running.retain(|session| Some(*session) != number);
            }
            self.outputs.push(text);
        }
    }

    fn ask(&mut self, call: Call) -> Value {
        match call {
            Call::Run { command, tty, wait } => {
                // A login shell would run the profile of the user.
                let arguments =
                    json!({"cmd": command, "tty": tty, "login": false, "yield_time_ms": wait});
                self.call("call", "exec_command", arguments)
            }
            Call::Type(text) => {
                let session = self.running.last().copied().unwrap_or_default();
                self.wait(session, &text, FIRST_WAIT)
            }
            Call::Say { text, phase } => {
                self.calls += 1;
                json!({
                    "type": "message", "role": "assistant", "id": format!("message-{}", self.calls),
                    "phase": phase, "content": [{"type": "output_text", "text": text}],
                })
            }
            Call::Hold | Call::Refuse => Value::Null,
        }
    }

    /// Types into a command, or only waits for more output of it.
    fn wait(&mut self, session: u64, typed: &str, time: u64) -> Value {
        let arguments = json!({"session_id": session, "chars": typed, "yield_time_ms": time});
        self.call(&format!("session-{session}"), "write_stdin", arguments)
    }

    fn call(&mut self, id: &str, name: &str, arguments: Value) -> Value {
        self.calls += 1;
        json!({
            "type": "function_call", "call_id": format!("{id}-{}", self.calls),
            "name": name, "arguments": arguments.to_string(),
        })
    }
}

/// Returns codex's number for a command that still runs.
fn session(output: &str) -> Option<u64> {
    let head = output.split("Output:").next()?;
    let (_, rest) = head.split_once("running with session ID ")?;
    rest.split_whitespace().next()?.parse().ok()
}

fn lock(talk: &Mutex<Talk>) -> MutexGuard<'_, Talk> {
    talk.lock().expect("nothing panics under the lock")
}

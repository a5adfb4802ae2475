//! A real client, its user, and a hostile server.
//!
//! These invariants hold for all messages of the hostile server:
//! - no code panics, and everything that the client sends is a valid message;
//! - the client stays within its limits at every step;
//! - each process delivers its events in order, without a gap, and delivers none after its end;
//! - when no server is reachable any more, the client gives up within `PATIENCE`, and then every
//!   pending operation of its user ends.

use std::sync::Arc;
use std::time::Duration;

use arbitrary::Arbitrary;
use reknit_exec::client::{Client, ClientResources, State};
use reknit_exec::limits::{ClientLimits, WireLimits};
use reknit_seams::net::Endpoint;
use reknit_seams::process::Unsupported;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::peer::callee::{ClientRequest, Disturbance};
use crate::peer::server::{ConnectionStart, TestServer};
use crate::script::{Bytes, Name, Number, Pause, Rarely, SendOptions, Steps, Times};
use crate::stage::{Memory, env, must, run};

mod user;

use user::{ExecAct, ExecUser};

/// The actions of a hostile server, and of the client's user.
#[derive(Arbitrary, Debug)]
pub struct ExecClientScript {
    /// Whether the client's limits are tight.
    tight: bool,
    /// Whether writes are retried.
    retry_writes: bool,
    /// How the first connection begins.
    start: Rarely<ConnectionStart>,
    /// The steps, in order.
    steps: Steps<Step>,
}

/// A step.
#[derive(Arbitrary, Debug)]
enum Step {
    /// The user acts.
    Acts(ExecAct),
    /// The server answers one of the open requests: which one, and how; usually correctly.
    Answers(Rarely<u8>, Option<Answer>, SendOptions),
    /// The server sends a notification, this many times, with rising numbers.
    Tells(ServerMessage, SendOptions, Times),
    /// The server stays silent for a while.
    Pauses(Pause),
    /// The connection ends. The next one begins in this way, or else correctly.
    Drops(Rarely<ConnectionStart>),
    /// The server sends something that no server sends.
    Disturbs(Rarely<Disturbance>),
}

/// An answer that takes the place of the correct one.
#[derive(Arbitrary, Debug)]
enum Answer {
    /// The answer of a server that has chunks of these sizes, numbered from `from`, with or without
    /// an end.
    Chunks {
        from: Number,
        sizes: Vec<u8>,
        next: Number,
        exited: bool,
        closed: bool,
        failure: Option<Name>,
    },
    /// This status of a write, or of an HTTP response.
    Status(u8),
    /// An error with this code.
    Error(u8, Name),
    /// The correct answer, with the id of a request that was never sent.
    Unasked(Number),
}

/// A notification of a server.
#[derive(Arbitrary, Debug)]
enum ServerMessage {
    /// `process/output`.
    Output(Name, Number, Bytes),
    /// `process/exited`.
    Exited(Name, Number, i32),
    /// `process/closed`.
    Closed(Name, Number),
    /// `http/request/bodyDelta`, of the n-th body.
    Body { body: u8, seq: Number, bytes: Bytes, done: bool, error: Option<Name> },
}

/// The error codes with a meaning, and one without.
const CODES: [i64; 7] = [-32000, -32010, -32600, -32601, -32602, -32603, 7];

/// The results of a write.
const STATUS: [&str; 5] = ["accepted", "unknownProcess", "stdinClosed", "starting", "lost"];

impl Answer {
    fn message(&self, request: &ClientRequest) -> Value {
        let id = &request.id;
        match self {
            Self::Chunks { from, sizes, next, exited, closed, failure } => {
                let chunk = |(n, size): (usize, &u8)| {
                    let seq = from.value().saturating_add(n as u64);
                    json!({"seq": seq, "stream": "stdout", "chunk": Bytes::Many(u16::from(*size)).base64()})
                };
                let chunks: Vec<_> = sizes.iter().enumerate().map(chunk).collect();
                json!({"id": id, "result": {
                    "chunks": chunks, "nextSeq": next.value(), "exited": exited, "exitCode": exited.then_some(0),
                    "closed": closed, "failure": failure.as_ref().map(Name::text),
                }})
            }
            Self::Status(n) => {
                json!({"id": id, "result": {"status": STATUS[usize::from(*n) % STATUS.len()]}})
            }
            Self::Error(n, text) => {
                json!({"id": id, "error": {"code": CODES[usize::from(*n) % CODES.len()], "message": text.text()}})
            }
            Self::Unasked(id) => json!({"id": id.value(), "result": right(request)}),
        }
    }
}

/// Returns the answer of a correct server.
fn right(request: &ClientRequest) -> Value {
    match request.method.as_str() {
        "initialize" => {
            let asked = request.params.get("resumeSessionId").filter(|asked| asked.is_string());
            json!({"sessionId": asked.cloned().unwrap_or_else(|| json!("s"))})
        }
        "process/start" => json!({"processId": request.params["processId"]}),
        "process/read" => {
            let after = request.params["afterSeq"].as_u64().unwrap_or(0);
            json!({"chunks": [], "nextSeq": after.saturating_add(1), "exited": false, "closed": false})
        }
        "process/write" => json!({"status": "accepted"}),
        "process/terminate" => json!({"running": true}),
        "http/request" => json!({"status": 200, "headers": [], "bodyBase64": "aGVsbG8="}),
        _ => json!({}),
    }
}

impl ServerMessage {
    fn message(&self, n: u64) -> Value {
        let (method, params) = match self {
            Self::Output(process, seq, bytes) => {
                let seq = seq.value().saturating_add(n);
                let chunk = bytes.base64();
                (
                    "process/output",
                    json!({"processId": process.text(), "seq": seq, "stream": "stderr", "chunk": chunk}),
                )
            }
            Self::Exited(process, seq, code) => (
                "process/exited",
                json!({"processId": process.text(), "seq": seq.value(), "exitCode": code}),
            ),
            Self::Closed(process, seq) => {
                ("process/closed", json!({"processId": process.text(), "seq": seq.value()}))
            }
            Self::Body { body, seq, bytes, done, error } => {
                let id = format!("http-{}", body % 4);
                let (seq, error) = (seq.value().saturating_add(n), error.as_ref().map(Name::text));
                let delta = bytes.base64();
                let params = json!({"requestId": id, "seq": seq, "deltaBase64": delta, "done": done, "error": error});
                ("http/request/bodyDelta", params)
            }
        };
        json!({"method": method, "params": params})
    }
}

/// The time by which a client without any answer has given up: the recovery deadline is 45 s.
const PATIENCE: Duration = Duration::from_secs(46);

/// How long a server waits for the client to connect.
const COMING: Duration = Duration::from_secs(2);

/// Runs the script, and checks all invariants.
pub fn holds(script: &ExecClientScript) {
    run(async {
        let net = Memory::new();
        let server = TestServer::new(net.clone(), right, COMING, script.start.0.clone());
        let limits = limits(script);
        let client =
            Client::start(&env(net, Arc::new(Unsupported)), Endpoint::tcp("server", 80), limits);
        let user = ExecUser::of(client);
        let mut test = ClientTest { limits, user, server };
        for step in &script.steps.0 {
            test.step(step).await;
            test.is_within_limits();
        }
        test.is_left_alone().await;
    });
}

fn limits(script: &ExecClientScript) -> ClientLimits {
    let wire =
        WireLimits { message_bytes: 16 << 10, outbox_bytes: 32 << 10, ..WireLimits::default() };
    let limits =
        ClientLimits { wire, retry_writes: script.retry_writes, ..ClientLimits::default() };
    if !script.tight {
        return limits;
    }
    ClientLimits {
        event_queue: 2,
        reorder_events: 3,
        reorder_bytes: 20,
        log_events: 4,
        log_bytes: 100,
        calls: 3,
        body_frames: 2,
        body_bytes: 20,
        ..limits
    }
}

/// The client, and the server that it connects to.
struct ClientTest {
    limits: ClientLimits,
    user: ExecUser,
    server: TestServer,
}

impl ClientTest {
    async fn step(&mut self, step: &Step) {
        match step {
            Step::Acts(act) => self.user.does(act),
            Step::Answers(n, answer, manner) => {
                let answer =
                    |request: &ClientRequest| answer.as_ref().map(|answer| answer.message(request));
                self.server.answer(n.0.unwrap_or(0), manner, answer).await;
            }
            Step::Tells(tale, manner, times) => {
                for n in 0..times.count() {
                    self.server.send(manner, tale.message(n)).await;
                }
            }
            Step::Pauses(pause) => sleep(pause.duration()).await,
            Step::Drops(start) => self.server.end(start.0.clone()),
            Step::Disturbs(Rarely(Some(disturbance))) => self.server.disturb(disturbance).await,
            Step::Disturbs(Rarely(None)) => {}
        }
        // By then, both ends have done everything that they can do at once.
        sleep(Duration::from_millis(1)).await;
    }

    fn is_within_limits(&self) {
        let (resources, limits) = (self.user.client().resources(), &self.limits);
        let at_most =
            |what: &str, is: usize, most: usize| assert!(is <= most, "{what}: {is} of {most}");
        at_most("events held back", resources.held_back_events, limits.reorder_events);
        at_most("bytes held back", resources.held_back_bytes, limits.reorder_bytes);
    }

    /// Removes the server, and checks that the client gives up.
    async fn is_left_alone(&mut self) {
        self.server.close();
        let mut state = self.user.client().watch_state();
        must("the client's end", PATIENCE, state.wait_for(|state| *state == State::Failed))
            .await
            .expect("or it was closed");
        must("the end of all that was waited for", Duration::from_secs(1), self.user.is_done())
            .await;
        assert_eq!(self.user.client().resources(), ClientResources::default());
    }
}

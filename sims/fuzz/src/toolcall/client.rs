//! A real client, its user, and a hostile host.
//!
//! These invariants hold for all messages of the hostile host:
//! - no code panics, and everything that the client sends is a valid message;
//! - the client stays within its limits at every step;
//! - no call starts twice, as far as the limits let the client remember its calls;
//! - when no host is reachable any more, every request of the user ends within `PATIENCE`; only
//!   actions on channels keep waiting for a host, and they end when the client is closed.

use std::sync::Arc;
use std::time::Duration;

use arbitrary::Arbitrary;
use reknit_seams::net::Endpoint;
use reknit_seams::process::Unsupported;
use reknit_toolcall::limits::ClientLimits;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::action::{Action, text};
use crate::peer::callee::{ClientRequest, Disturbance};
use crate::peer::server::{ConnectionStart, TestServer};
use crate::script::{Name, Number, Pause, Rarely, SendOptions, Steps, Times};
use crate::stage::{Memory, env, must, run};

mod user;

use user::{OWN, WindowAct, WindowUser};

/// The actions of a hostile host, and of the client's user.
#[derive(Arbitrary, Debug)]
pub struct ToolcallClientScript {
    /// Whether the client's limits are tight.
    tight: bool,
    /// How the first connection begins.
    start: Rarely<ConnectionStart>,
    /// The steps, in order.
    steps: Steps<Step>,
}

/// A step.
#[derive(Arbitrary, Debug)]
enum Step {
    /// The user acts.
    Acts(WindowAct),
    /// The host answers one of the open requests: which one, and how; usually correctly.
    Answers(Rarely<u8>, Option<Answer>, SendOptions),
    /// The host sends an action this many times, with rising numbers.
    SendsAction(HostAction, SendOptions, Times),
    /// The host sends a request this many times.
    Asks(Name, SendOptions, Times),
    /// The host stays silent for a while.
    Pauses(Pause),
    /// The connection ends. The next one begins in this way, or else correctly.
    Drops(Rarely<ConnectionStart>),
    /// The host sends something that no host sends.
    Disturbs(Rarely<Disturbance>),
}

/// An answer that takes the place of the correct one.
#[derive(Arbitrary, Debug)]
enum Answer {
    /// The state of a channel, as of a number.
    State(Name, Number),
    /// The states of several channels, as after `reconnect`.
    States(Vec<Name>, Number),
    /// The missed actions, as after `reconnect`.
    Replay(Vec<HostAction>, Vec<Name>),
    /// An error with this code.
    Error(u8, Name),
    /// The correct answer, with the id of a request that was never sent.
    Unasked(Number),
}

/// An action, as a host sends it.
#[derive(Arbitrary, Debug)]
struct HostAction {
    channel: Name,
    seq: Number,
    /// The number of this client's own action, if it is one.
    own: Option<Number>,
    /// The reason of a rejection.
    refused: Rarely<Name>,
    action: Action,
}

/// The error codes with a meaning, and one without.
const CODES: [i64; 7] = [-32005, -32007, -32008, -32001, -32601, -32602, 7];

impl Answer {
    fn message(&self, request: &ClientRequest) -> Value {
        let id = &request.id;
        match self {
            Self::State(channel, from) => {
                json!({"id": id, "result": {"snapshot": snapshot(&text(channel), from.value())}})
            }
            Self::States(channels, from) => {
                let snapshots: Vec<_> =
                    channels.iter().map(|channel| snapshot(&text(channel), from.value())).collect();
                json!({"id": id, "result": {"type": "snapshot", "snapshots": snapshots}})
            }
            Self::Replay(actions, missing) => {
                let actions: Vec<_> = actions.iter().map(|action| action.envelope(0)).collect();
                let missing: Vec<_> = missing.iter().map(text).collect();
                json!({"id": id, "result": {"type": "replay", "actions": actions, "missing": missing}})
            }
            Self::Error(n, why) => {
                json!({"id": id, "error": {"code": CODES[usize::from(*n) % CODES.len()], "message": text(why)}})
            }
            Self::Unasked(id) => json!({"id": id.value(), "result": right(request)}),
        }
    }
}

/// Returns the answer of a correct host.
fn right(request: &ClientRequest) -> Value {
    let channel = || request.params["channel"].as_str().unwrap_or_default().to_owned();
    match request.method.as_str() {
        "initialize" => {
            let asked =
                request.params["initialSubscriptions"].as_array().cloned().unwrap_or_default();
            let snapshots: Vec<_> = asked
                .iter()
                .filter_map(Value::as_str)
                .map(|channel| snapshot(channel, 1))
                .collect();
            json!({"protocolVersion": "1.0.0", "serverSeq": 1, "snapshots": snapshots, "_meta": {"reknit.epoch": "e"}})
        }
        "reconnect" => json!({"type": "replay", "actions": [], "missing": []}),
        "subscribe" => json!({"snapshot": snapshot(&channel(), 1)}),
        _ => Value::Null,
    }
}

/// Returns a snapshot: a session for an even name, and a chat with a turn in progress for an odd
/// one.
fn snapshot(channel: &str, from: u64) -> Value {
    let chat = json!({
        "resource": channel, "title": "", "status": 1, "modifiedAt": "2026-01-01T00:00:00.000Z", "turns": [],
        "activeTurn": {
            "id": "p1", "startedAt": "2026-01-01T00:00:00.000Z", "responseParts": [],
            "message": {"text": "go", "origin": {"kind": "user"}},
        },
    });
    let session = json!({"provider": "p", "title": "", "status": 1, "lifecycle": "ready", "activeClients": [], "chats": []});
    let is_chat = channel.bytes().last().is_some_and(|last| last % 2 == 1);
    json!({"resource": channel, "fromSeq": from, "state": if is_chat { chat } else { session }})
}

impl HostAction {
    fn envelope(&self, n: u64) -> Value {
        let origin = self.own.map(|seq| json!({"clientId": OWN, "clientSeq": seq.value()}));
        json!({
            "channel": text(&self.channel), "serverSeq": self.seq.value().saturating_add(n), "origin": origin,
            "rejectionReason": self.refused.0.as_ref().map(text), "action": self.action.value(OWN),
        })
    }
}

/// The time by which all requests without an answer have ended: they wait for 60 s.
const PATIENCE: Duration = Duration::from_secs(62);

/// The time by which a loss is noticed.
const SOON: Duration = Duration::from_secs(1);

/// How long a host waits for the client to connect. The host's earlier behaviour may have made the
/// client's pause many seconds long.
const COMING: Duration = Duration::from_secs(31);

/// Runs the script, and checks all invariants.
pub fn holds(script: &ToolcallClientScript) {
    run(async {
        let net = Memory::new();
        let server = TestServer::new(net.clone(), right, COMING, script.start.0.clone());
        let limits = limits(script.tight);
        let user =
            WindowUser::of(&env(net, Arc::new(Unsupported)), Endpoint::tcp("server", 80), limits);
        let mut test = ClientTest { limits, user, server };
        for step in &script.steps.0 {
            test.step(step).await;
            test.is_within_limits();
        }
        test.ends_alone().await;
    });
}

fn limits(tight: bool) -> ClientLimits {
    let mut limits = ClientLimits::default();
    limits.wire.message_bytes = 32 << 10;
    limits.wire.outbox_bytes = 64 << 10;
    if !tight {
        return limits;
    }
    ClientLimits {
        held: 2,
        unconfirmed: 2,
        subscriptions: 2,
        channel_bytes: 600,
        begun_calls: 2,
        running_tools: 1,
        ..limits
    }
}

/// The client, and the host that it connects to.
struct ClientTest {
    limits: ClientLimits,
    user: WindowUser,
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
            Step::SendsAction(action, manner, times) => {
                for n in 0..times.count() {
                    self.server
                        .send(manner, json!({"method": "action", "params": action.envelope(n)}))
                        .await;
                }
            }
            Step::Asks(method, manner, times) => {
                for n in 0..times.count() {
                    self.server.send(manner, json!({"id": n, "method": text(method), "params": {"uri": "file:///x"}})).await;
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
            |what: &str, is: u64, most: usize| assert!(is <= most as u64, "{what}: {is} of {most}");
        at_most("channels", resources.channels, limits.subscriptions);
        at_most(
            "unconfirmed actions",
            resources.unconfirmed,
            limits.unconfirmed + 16 * limits.running_tools,
        );
        at_most("held requests", resources.held, limits.held);
    }

    /// Removes the host, and checks that the client's requests end.
    async fn ends_alone(mut self) {
        self.server.close();
        self.server.close_refused();
        must("the end of all that was asked for", PATIENCE, self.user.is_answered()).await;
        sleep(SOON).await;
        assert_eq!(self.user.client().resources().in_flight, 0);
        self.user.closes().await;
    }
}

//! A real client, its user, and a hostile host.
//!
//! What must hold, whatever the hostile host says:
//! - nothing panics; and what the client says are messages;
//! - the client holds no more than its limits allow, at every step;
//! - no call is begun twice, as far as its limits let it remember;
//! - when nobody is there any more to connect to, all that its user asked for ends within [`PATIENCE`], but what is done to channels,
//!   which waits for a host; and that ends when the client is closed.

use std::sync::Arc;
use std::time::Duration;

use arbitrary::Arbitrary;
use reknit_seams::net::Endpoint;
use reknit_seams::process::Unsupported;
use reknit_toolcall::limits::ClientLimits;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::action::{Action, text};
use crate::peer::callee::{Disturbance, Question};
use crate::peer::place::{Entrance, Place};
use crate::script::{Manner, Name, Number, Pause, Rarely, Steps, Times};
use crate::stage::{Memory, env, must, run};

mod user;

use user::{OWN, WindowAct, WindowUser};

/// What a hostile host does, and the user of the client meanwhile.
#[derive(Arbitrary, Debug)]
pub struct ToolcallClientScript {
    /// Whether the client's limits are tight.
    tight: bool,
    /// How the first connection begins.
    entrance: Rarely<Entrance>,
    /// What happens, in order.
    steps: Steps<Step>,
}

/// Something that happens.
#[derive(Arbitrary, Debug)]
enum Step {
    /// The user does something.
    Acts(WindowAct),
    /// The host answers one of the questions that are open: which one, and how; mostly as it should.
    Answers(Rarely<u8>, Option<Answer>, Manner),
    /// It tells of something that happened, so often, with rising numbers.
    Tells(Tale, Manner, Times),
    /// It asks for something, so often.
    Asks(Name, Manner, Times),
    /// It says nothing for a while.
    Pauses(Pause),
    /// The connection is over. How the next one begins, where not as it should.
    Drops(Rarely<Entrance>),
    /// It does what no host does.
    Disturbs(Rarely<Disturbance>),
}

/// How a question is answered, in the place of what a host would say.
#[derive(Arbitrary, Debug)]
enum Answer {
    /// With the state of a channel, as of a number.
    State(Name, Number),
    /// With the states of several, as after `reconnect`.
    States(Vec<Name>, Number),
    /// With what was missed, as after `reconnect`.
    Replay(Vec<Tale>, Vec<Name>),
    /// With an error of this code.
    Error(u8, Name),
    /// As the right one, to a question that nobody asked.
    Unasked(Number),
}

/// Something that happened, as a host tells it.
#[derive(Arbitrary, Debug)]
struct Tale {
    channel: Name,
    seq: Number,
    /// Whose action it was: of this client, under this number.
    own: Option<Number>,
    /// Why it was refused.
    refused: Rarely<Name>,
    action: Action,
}

/// The codes of errors that mean something, and one that does not.
const CODES: [i64; 7] = [-32005, -32007, -32008, -32001, -32601, -32602, 7];

impl Answer {
    fn message(&self, question: &Question) -> Value {
        let id = &question.id;
        match self {
            Self::State(channel, from) => {
                json!({"id": id, "result": {"snapshot": snapshot(&text(channel), from.value())}})
            }
            Self::States(channels, from) => {
                let snapshots: Vec<_> =
                    channels.iter().map(|channel| snapshot(&text(channel), from.value())).collect();
                json!({"id": id, "result": {"type": "snapshot", "snapshots": snapshots}})
            }
            Self::Replay(tales, missing) => {
                let actions: Vec<_> = tales.iter().map(|tale| tale.envelope(0)).collect();
                let missing: Vec<_> = missing.iter().map(text).collect();
                json!({"id": id, "result": {"type": "replay", "actions": actions, "missing": missing}})
            }
            Self::Error(n, why) => {
                json!({"id": id, "error": {"code": CODES[usize::from(*n) % CODES.len()], "message": text(why)}})
            }
            Self::Unasked(id) => json!({"id": id.value(), "result": right(question)}),
        }
    }
}

/// What a good host answers.
fn right(question: &Question) -> Value {
    let channel = || question.params["channel"].as_str().unwrap_or_default().to_owned();
    match question.method.as_str() {
        "initialize" => {
            let asked =
                question.params["initialSubscriptions"].as_array().cloned().unwrap_or_default();
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

/// A session under an even name, and a chat in which a turn is under way under an odd one.
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

impl Tale {
    fn envelope(&self, n: u64) -> Value {
        let origin = self.own.map(|seq| json!({"clientId": OWN, "clientSeq": seq.value()}));
        json!({
            "channel": text(&self.channel), "serverSeq": self.seq.value().saturating_add(n), "origin": origin,
            "rejectionReason": self.refused.0.as_ref().map(text), "action": self.action.value(OWN),
        })
    }
}

/// When all requests have ended to which nobody answers: they wait for 60 s.
const PATIENCE: Duration = Duration::from_secs(62);

/// When a loss is noticed.
const SOON: Duration = Duration::from_secs(1);

/// How long a host waits for the client to come; after what it was told, its pause may be one of many seconds.
const COMING: Duration = Duration::from_secs(31);

/// Has the script carried out, and everything checked that must hold.
pub fn holds(script: &ToolcallClientScript) {
    run(async {
        let net = Memory::new();
        let place = Place::new(net.clone(), right, COMING, script.entrance.0.clone());
        let limits = limits(script.tight);
        let user =
            WindowUser::of(&env(net, Arc::new(Unsupported)), Endpoint::tcp("server", 80), limits);
        let mut house = House { limits, user, place };
        for step in &script.steps.0 {
            house.step(step).await;
            house.is_within_limits();
        }
        house.ends_alone().await;
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
struct House {
    limits: ClientLimits,
    user: WindowUser,
    place: Place,
}

impl House {
    async fn step(&mut self, step: &Step) {
        match step {
            Step::Acts(act) => self.user.does(act),
            Step::Answers(n, answer, manner) => {
                let answer =
                    |question: &Question| answer.as_ref().map(|answer| answer.message(question));
                self.place.answer(n.0.unwrap_or(0), manner, answer).await;
            }
            Step::Tells(tale, manner, times) => {
                for n in 0..times.count() {
                    self.place
                        .send(manner, json!({"method": "action", "params": tale.envelope(n)}))
                        .await;
                }
            }
            Step::Asks(method, manner, times) => {
                for n in 0..times.count() {
                    self.place.send(manner, json!({"id": n, "method": text(method), "params": {"uri": "file:///x"}})).await;
                }
            }
            Step::Pauses(pause) => sleep(pause.duration()).await,
            Step::Drops(entrance) => self.place.end(entrance.0.clone()),
            Step::Disturbs(Rarely(Some(disturbance))) => self.place.disturb(disturbance).await,
            Step::Disturbs(Rarely(None)) => {}
        }
        // Both ends have done what they can at once.
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

    /// Nobody is there any more.
    async fn ends_alone(mut self) {
        self.place.close();
        self.place.turn_away();
        must("the end of all that was asked for", PATIENCE, self.user.is_answered()).await;
        sleep(SOON).await;
        assert_eq!(self.user.client().resources().in_flight, 0);
        self.user.closes().await;
    }
}

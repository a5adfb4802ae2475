//! The user of the client: he does what the script says, and waits for all that comes of it. What he runs for agents takes no time,
//! or for ever.

use std::collections::BTreeSet;
use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arbitrary::Arbitrary;
use reknit_seams::Env;
use reknit_seams::net::{BoxFuture, Endpoint};
use reknit_toolcall::client::{Client, ClientConfig, Run, Tool, Toolbox, done, named};
use reknit_toolcall::limits::ClientLimits;
use reknit_toolcall::wire::StateAction;
use reknit_toolcall::wire::ahp::state::{ToolCallResult, ToolDefinition};
use tokio::task::JoinSet;

use super::{Action, text};
use crate::script::Name;
use crate::stage::must;

/// What the client is called.
pub const OWN: &str = "own";

/// Something that a user does.
#[derive(Arbitrary, Clone, Debug)]
pub enum WindowAct {
    /// Looks at a channel.
    Subscribes(Name),
    /// Looks away.
    Unsubscribes(Name),
    /// Does something to a channel.
    Dispatches(Name, Action),
    /// Takes part in a session.
    Joins(Name),
    /// Asks for a session.
    CreatesSession(Name),
    /// Asks for a chat.
    CreatesChat(Name, Name),
    /// Hands over a token.
    Authenticates(Name, Name),
    /// Begins a turn.
    StartsTurn(Name, Name),
    /// Says whether a call may run.
    Confirms(Name, Name, u8),
}

/// What a user holds, and waits for.
pub struct WindowUser {
    client: Arc<Client>,
    /// What ends without a host, too.
    asked: JoinSet<()>,
    /// What waits for one.
    done: JoinSet<()>,
}

/// What tells calls apart: the chat, the turn, the call.
type Key = (String, String, String);

/// A tool, and the calls that were begun, where all are remembered.
struct Works(&'static str, Option<Arc<Mutex<BTreeSet<Key>>>>);

impl Tool for Works {
    fn definition(&self) -> ToolDefinition {
        named(self.0)
    }

    fn run(&self, run: Run) -> BoxFuture<'static, ToolCallResult> {
        let is_new = self.1.as_ref().is_none_or(|begun| {
            begun.lock().expect("nothing panics under the lock").insert(run.key())
        });
        assert!(is_new, "no call is begun twice");
        let never = self.0 == "p1";
        Box::pin(async move { if never { pending().await } else { done("1") } })
    }
}

impl WindowUser {
    pub fn of(env: &Env, host: Endpoint, limits: ClientLimits) -> Self {
        // A client that remembers little may begin a call again of which it is told again.
        let remembers = limits.begun_calls >= ClientLimits::default().begun_calls;
        let begun: Arc<Mutex<BTreeSet<Key>>> = Arc::default();
        let tool = |name| Arc::new(Works(name, remembers.then(|| begun.clone()))) as Arc<dyn Tool>;
        let tools = Toolbox::of(["p0", "p1"].map(tool));
        let client = Client::new(
            env,
            host,
            ClientConfig { id: Some(OWN.into()), tools, limits, ..ClientConfig::default() },
        );
        Self { client: Arc::new(client), asked: JoinSet::new(), done: JoinSet::new() }
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Does it, without waiting for what comes of it.
    pub fn does(&mut self, act: &WindowAct) {
        let (client, act) = (self.client.clone(), act.clone());
        // What comes of it is the host's choice; that something does, is not.
        match act {
            WindowAct::Unsubscribes(channel) => client.unsubscribe(&text(&channel)),
            WindowAct::Subscribes(channel) => {
                drop(self.asked.spawn(async move { drop(client.subscribe(&text(&channel)).await) }))
            }
            WindowAct::CreatesSession(session) => {
                self.asked.spawn(async move { drop(client.create_session(&text(&session)).await) });
            }
            WindowAct::CreatesChat(session, chat) => {
                self.asked.spawn(async move {
                    drop(client.create_chat(&text(&session), &text(&chat)).await)
                });
            }
            WindowAct::Authenticates(resource, token) => {
                self.asked.spawn(async move {
                    drop(client.authenticate(&text(&resource), &text(&token)).await)
                });
            }
            WindowAct::Joins(session) => {
                drop(self.done.spawn(async move { drop(client.join(&text(&session)).await) }))
            }
            WindowAct::StartsTurn(chat, turn) => {
                self.done.spawn(async move {
                    drop(client.start_turn(&text(&chat), &text(&turn), "go").await)
                });
            }
            WindowAct::Confirms(chat, turn, n) => {
                let call = format!("call-{}", n % 16);
                self.done.spawn(async move {
                    drop(client.confirm(&text(&chat), &text(&turn), &call, n < 128).await)
                });
            }
            WindowAct::Dispatches(channel, action) => {
                if let Ok(action) = serde_json::from_value::<StateAction>(action.value(OWN)) {
                    self.done
                        .spawn(async move { drop(client.dispatch(&text(&channel), action).await) });
                }
            }
        }
    }

    /// All that he asked for has ended.
    pub async fn is_answered(&mut self) {
        while let Some(ended) = self.asked.join_next().await {
            ended.expect("nothing panics");
        }
    }

    /// He closes the client, and does not wait for the rest.
    pub async fn closes(self) {
        let Self { client, mut done, .. } = self;
        done.shutdown().await;
        let client = Arc::into_inner(client).expect("nobody else holds it");
        must("the client's end", Duration::from_secs(6), client.close()).await;
    }
}

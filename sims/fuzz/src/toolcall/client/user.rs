//! The user of the client. It follows the script, and waits for all results. Its tools either take
//! no time or never complete.

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

/// The id of the client.
pub const OWN: &str = "own";

/// An action of a user.
#[derive(Arbitrary, Clone, Debug)]
pub enum WindowAct {
    /// Subscribes to a channel.
    Subscribes(Name),
    /// Unsubscribes.
    Unsubscribes(Name),
    /// Dispatches an action to a channel.
    Dispatches(Name, Action),
    /// Joins a session.
    Joins(Name),
    /// Creates a session.
    CreatesSession(Name),
    /// Creates a chat.
    CreatesChat(Name, Name),
    /// Sends a token.
    Authenticates(Name, Name),
    /// Starts a turn.
    StartsTurn(Name, Name),
    /// Decides whether a call may run.
    Confirms(Name, Name, u8),
}

/// The client of a user, and its pending operations.
pub struct WindowUser {
    client: Arc<Client>,
    /// The operations that also end without a host.
    asked: JoinSet<()>,
    /// The operations that wait for a host.
    done: JoinSet<()>,
}

/// Identifies a call: the chat, the turn, the call.
type Key = (String, String, String);

/// A tool, and the calls that were started, if the client remembers all of them.
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
        // A client that remembers few calls may start a call again when the host reports it again.
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

    /// Performs an action without waiting for its result.
    pub fn does(&mut self, act: &WindowAct) {
        let (client, act) = (self.client.clone(), act.clone());
        // The host decides the result; the operation must only end.
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

    /// Waits until all operations that end without a host have ended.
    pub async fn is_answered(&mut self) {
        while let Some(ended) = self.asked.join_next().await {
            ended.expect("nothing panics");
        }
    }

    /// Closes the client, and does not wait for the rest.
    pub async fn closes(self) {
        let Self { client, mut done, .. } = self;
        done.shutdown().await;
        let client = Arc::into_inner(client).expect("nobody else holds it");
        must("the client's end", Duration::from_secs(6), client.close()).await;
    }
}

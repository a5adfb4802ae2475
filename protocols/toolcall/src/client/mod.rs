//! The client: one logical client over a sequence of connections.
//!
//! - [`Client`]: the user's handle. Dropping it ends its tasks; [`Client::close`] also closes the
//!   connection gracefully.
//! - [`Tool`]: a tool that the client runs for agents. The client runs the calls of the sessions
//!   that it [joins](Client::join). [`Answers`]: its answers to requests of the host.
//! - [`core`]: every decision, without sockets or tasks. `driver`: the task around it.
//!
//! # What survives a lost connection
//!
//! | | without a connection | in flight when the connection is lost |
//! |---|---|---|
//! | the state of a channel | stays unchanged; then the missed actions are replayed, or the host's snapshot replaces it | |
//! | an action | is applied locally, and waits | is retransmitted, and takes effect once |
//! | a subscription | waits | is requested again |
//! | any other request | waits, at most until its deadline | fails: it is unknown whether the host executed it |
//! | a running tool | runs on | runs on; its result is sent over the next connection |
//!
//! If the connection ended because the host sent a message that is too long or no message at all, each
//! request in flight fails, and no subscription is requested again: that message may be its answer.
//!
//! If the host is silent for 25 s, although it was pinged after 5 s, the connection counts as lost.
//! There is no last attempt: after a network outage of a whole night, a client reconnects in the
//! morning, at most one pause after the network is back.

use std::sync::Arc;

use reknit_seams::Env;
use reknit_seams::defect;
use reknit_seams::env::WallClock;
use reknit_seams::net::Endpoint;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::limits::ClientLimits;
use super::wire::ahp::actions::{
    ChatToolCallConfirmedAction, ChatToolCallResultConfirmedAction, ChatTurnCancelledAction,
    ChatTurnStartedAction,
};
use super::wire::ahp::state::{
    Message as Said, MessageKind, MessageOrigin, ToolCallConfirmationReason,
};
use super::wire::{
    AuthenticateParams, CreateChatParams, CreateSessionParams, ROOT, SnapshotState, StateAction,
    method,
};

pub mod core;
mod driver;
mod failure;
mod tool;

pub use self::core::{ClientResources, Run, State};
pub use failure::Failure;
pub use tool::{Answers, NoAnswers, Tool, Toolbox, done, failed, named};

use self::core::{ClientCore, ClientIdentity};
use driver::{ClientShared, Driver};

/// The configuration of a client.
pub struct ClientConfig {
    /// The client's id at the host; `None` draws a random one. A window that is reloaded is a new
    /// client.
    pub id: Option<String>,
    /// The tools that it runs for agents.
    pub tools: Toolbox,
    /// The answers to requests of the host.
    pub answers: Arc<dyn Answers>,
    /// The limits.
    pub limits: ClientLimits,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            id: None,
            tools: Toolbox::default(),
            answers: Arc::new(NoAnswers),
            limits: ClientLimits::default(),
        }
    }
}

/// A client of an agent host.
pub struct Client {
    shared: Arc<ClientShared>,
    clock: Arc<dyn WallClock>,
    close_request: Option<oneshot::Sender<oneshot::Sender<()>>>,
    _driver: JoinSet<()>,
}

impl Client {
    /// Creates a client of the host at `host`. It starts to connect at once.
    pub fn new(env: &Env, host: Endpoint, config: ClientConfig) -> Self {
        let ClientConfig { id, tools, answers, limits } = config;
        let client = id.unwrap_or_else(|| {
            let mut random = [0; 16];
            env.entropy.fill(&mut random);
            format!("{:032x}", u128::from_le_bytes(random))
        });
        let identity = ClientIdentity { client, tools: tools.definitions() };
        let shared =
            Arc::new(ClientShared::new(ClientCore::new(limits, identity, Instant::now()), limits));
        let (close_request, sent) = oneshot::channel();
        let driver = Driver {
            env: env.clone(),
            host,
            shared: shared.clone(),
            tools,
            answers,
            close_request: sent,
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(driver.run());
        Self {
            shared,
            clock: env.clock.clone(),
            close_request: Some(close_request),
            _driver: tasks,
        }
    }

    /// Returns the client's id at the host.
    pub fn id(&self) -> String {
        self.shared.core().id().to_owned()
    }

    /// Returns the state of the connection to the host.
    pub fn state(&self) -> State {
        self.shared.core().state()
    }

    /// Returns the number of connections opened or attempted so far. The newest connection has this
    /// number.
    pub fn generation(&self) -> u64 {
        self.shared.core().generation()
    }

    /// Returns the resource counts.
    pub fn resources(&self) -> ClientResources {
        self.shared.core().resources()
    }

    /// Returns a receiver that is notified of every change of the connection and of the channels.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.core().changes()
    }

    /// Waits until `so` returns a value. Checks before it waits. Returns `None` if the client ends
    /// first.
    pub async fn until<T>(&self, mut so: impl FnMut(&Self) -> Option<T>) -> Option<T> {
        let mut changes = self.changes();
        loop {
            if let Some(found) = so(self) {
                return Some(found);
            }
            if matches!(self.state(), State::Closed(_)) {
                return None;
            }
            changes.changed().await.ok()?;
        }
    }

    /// Returns the state of a channel that the host confirmed, if it is known.
    pub fn confirmed(&self, channel: &str) -> Option<SnapshotState> {
        self.shared.core().confirmed(channel).cloned()
    }

    /// Returns the same, with the number of the client's copy. If the channel was removed, and another
    /// one of the same name was received, the number is another one, even if both happened in one
    /// moment.
    pub fn confirmed_copy(&self, channel: &str) -> Option<(u64, SnapshotState)> {
        let core = self.shared.core();
        core.confirmed_copy(channel).map(|(number, state)| (number, state.clone()))
    }

    /// Returns the state of a channel including this client's unconfirmed actions.
    pub fn view(&self, channel: &str) -> Option<SnapshotState> {
        if defect!(ViewLacksOwnActions) {
            return self.confirmed(channel);
        }
        self.shared.core().view(channel)
    }

    /// Returns the number of the last action that the client saw.
    pub fn seen(&self) -> u64 {
        self.shared.core().seen()
    }

    /// Subscribes to a channel. Completes when its state is known.
    ///
    /// # Errors
    /// [`Failure`]
    pub async fn subscribe(&self, channel: &str) -> Result<(), Failure> {
        let (to, answered) = oneshot::channel();
        self.shared.core().subscribe(channel, to, Instant::now());
        answered.await.unwrap_or(Err(Failure::Closed))
    }

    /// Unsubscribes from a channel. The client gives up the calls in it that it runs.
    pub fn unsubscribe(&self, channel: &str) {
        self.shared.core().unsubscribe(channel);
    }

    /// Dispatches an action to a channel. It is applied locally at once; the future completes when
    /// the host has confirmed it.
    ///
    /// # Errors
    /// [`Failure`]; the action is then undone locally.
    pub async fn dispatch(&self, channel: &str, action: StateAction) -> Result<(), Failure> {
        let (to, answered) = oneshot::channel();
        self.shared.core().dispatch(channel, action, Some(to));
        answered.await.unwrap_or(Err(Failure::Closed))
    }

    /// Sends a request to the host.
    ///
    /// # Errors
    /// [`Failure`]
    pub async fn request(
        &self,
        method: &str,
        params: &impl Serialize,
    ) -> Result<Box<RawValue>, Failure> {
        let params = serde_json::value::to_raw_value(params)
            .map_err(|error| Failure::Malformed(error.to_string()))?;
        let (to, answered) = oneshot::channel();
        self.shared.core().request(method, params, to, Instant::now());
        answered.await.unwrap_or(Err(Failure::Closed))
    }

    /// Creates a session. The host may refuse requests about the session before this completes,
    /// because it first checks its storage for a session with that name.
    ///
    /// # Errors
    /// [`Failure`]
    pub async fn create_session(&self, session: &str) -> Result<(), Failure> {
        let params = CreateSessionParams {
            channel: session.to_owned(),
            meta: None,
            provider: None,
            working_directories: None,
            config: None,
            active_client: None,
            progress_token: None,
        };
        self.request(method::CREATE_SESSION, &params).await.map(drop)
    }

    /// Creates a chat in a session.
    ///
    /// # Errors
    /// [`Failure`]
    pub async fn create_chat(&self, session: &str, chat: &str) -> Result<(), Failure> {
        let params = CreateChatParams {
            channel: session.to_owned(),
            meta: None,
            chat: chat.to_owned(),
            initial_message: None,
            source: None,
            working_directories: None,
        };
        self.request(method::CREATE_CHAT, &params).await.map(drop)
    }

    /// Sends a token to the host now, and later to every host that does not know this client.
    ///
    /// # Errors
    /// [`Failure`]
    pub async fn authenticate(&self, resource: &str, token: &str) -> Result<(), Failure> {
        let (resource, token) = (resource.to_owned(), token.to_owned());
        let params = AuthenticateParams {
            channel: ROOT.to_owned(),
            meta: None,
            resource,
            token,
            expires_in: None,
            scopes: None,
        };
        self.request(method::AUTHENTICATE, &params).await?;
        self.shared.core().remember(&params.resource, &params.token);
        Ok(())
    }

    /// Joins a session with all tools. Joins again if the session removed the client while it was
    /// disconnected.
    ///
    /// # Errors
    /// [`Failure`]
    pub async fn join(&self, session: &str) -> Result<(), Failure> {
        let (to, answered) = oneshot::channel();
        self.shared.core().join(session, to);
        answered.await.unwrap_or(Err(Failure::Closed))
    }

    /// Starts a turn: the user says something in a chat.
    ///
    /// # Errors
    /// [`Failure`]
    pub async fn start_turn(&self, chat: &str, turn: &str, text: &str) -> Result<(), Failure> {
        let message = Said {
            text: text.to_owned(),
            origin: MessageOrigin { kind: MessageKind::User },
            attachments: None,
            model: None,
            agent: None,
            meta: None,
        };
        let started = ChatTurnStartedAction {
            turn_id: turn.to_owned(),
            started_at: super::host::stamp(self.clock.now()),
            message,
            queued_message_id: None,
            meta: None,
        };
        self.dispatch(chat, StateAction::ChatTurnStarted(started)).await
    }

    /// Cancels a turn.
    ///
    /// # Errors
    /// [`Failure`]
    pub async fn cancel_turn(&self, chat: &str, turn: &str) -> Result<(), Failure> {
        let cancelled =
            ChatTurnCancelledAction { turn_id: turn.to_owned(), duration: 0, meta: None };
        self.dispatch(chat, StateAction::ChatTurnCancelled(cancelled)).await
    }

    /// Sends the user's decision whether a call may run.
    ///
    /// # Errors
    /// [`Failure`]
    pub async fn confirm(
        &self,
        chat: &str,
        turn: &str,
        call: &str,
        approved: bool,
    ) -> Result<(), Failure> {
        let confirmed = ChatToolCallConfirmedAction {
            turn_id: turn.to_owned(),
            tool_call_id: call.to_owned(),
            meta: None,
            approved,
            confirmed: approved.then_some(ToolCallConfirmationReason::UserAction),
            reason: None,
            edited_tool_input: None,
            user_suggestion: None,
            reason_message: None,
            selected_option_id: None,
        };
        self.dispatch(chat, StateAction::ChatToolCallConfirmed(confirmed)).await
    }

    /// Sends the user's decision whether the result of a call counts.
    ///
    /// # Errors
    /// [`Failure`]
    pub async fn confirm_result(
        &self,
        chat: &str,
        turn: &str,
        call: &str,
        approved: bool,
    ) -> Result<(), Failure> {
        let (turn_id, tool_call_id) = (turn.to_owned(), call.to_owned());
        let confirmed =
            ChatToolCallResultConfirmedAction { turn_id, tool_call_id, meta: None, approved };
        self.dispatch(chat, StateAction::ChatToolCallResultConfirmed(confirmed)).await
    }

    /// Closes the connection gracefully. Everything that waits ends with [`Failure::Closed`].
    pub async fn close(mut self) {
        let (done, closed) = oneshot::channel();
        if let Some(close_request) = self.close_request.take()
            && close_request.send(done).is_ok()
        {
            // If the driver has ended, the connection is closed too.
            let _ = closed.await;
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.shared.core().close(&Failure::Closed);
    }
}

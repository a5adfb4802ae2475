//! The client: one logical client over connections that come and go.
//!
//! - [`Client`]: what a user holds. Dropping it ends its tasks; [`Client::close`] ends the connection in order, too.
//! - [`Tool`]: what it runs for agents; it runs the calls of the sessions that it [joins](Client::join). [`Answers`]: what it
//!   answers to the host.
//! - [`core`]: every decision, without socket or task. `driver`: the task around it.
//!
//! # What survives a lost connection
//!
//! | | while there is no connection | in flight when it dies |
//! |---|---|---|
//! | the state of a channel | is as it was; then what was missed is replayed, or it is as the host says | |
//! | an action | is applied here, and waits | is said again, and takes effect once |
//! | a subscription | waits | is asked for again |
//! | any other request | waits, no longer than its deadline | fails: nobody knows whether the host did it |
//! | a tool that runs | runs on | runs on; its result is said when there is a connection |
//!
//! A host that is silent for 25 s, though it was pinged after 5 s, counts as lost.
//! There is no last attempt: a client whose network is away for a night is there again in the morning, at the latest a pause later.

use std::sync::Arc;

use reknit_seams::Env;
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

/// What a client is made of.
pub struct ClientConfig {
    /// What the host knows it by; `None` draws one. A window that is loaded again is another client.
    pub id: Option<String>,
    /// What it runs for agents.
    pub tools: Toolbox,
    /// What it answers to the host.
    pub answers: Arc<dyn Answers>,
    /// Its limits.
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
    farewell: Option<oneshot::Sender<oneshot::Sender<()>>>,
    _driver: JoinSet<()>,
}

impl Client {
    /// A client of the host at `host`, which begins to connect at once.
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
        let (farewell, sent) = oneshot::channel();
        let driver = Driver {
            env: env.clone(),
            host,
            shared: shared.clone(),
            tools,
            answers,
            farewell: sent,
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(driver.run());
        Self { shared, clock: env.clock.clone(), farewell: Some(farewell), _driver: tasks }
    }

    /// What the host knows it by.
    pub fn id(&self) -> String {
        self.shared.core().id().to_owned()
    }

    /// How it stands with its host.
    pub fn state(&self) -> State {
        self.shared.core().state()
    }

    /// How many connections it has opened, or tried to; the newest is the one of this number.
    pub fn generation(&self) -> u64 {
        self.shared.core().generation()
    }

    /// How much of everything it holds.
    pub fn resources(&self) -> ClientResources {
        self.shared.core().resources()
    }

    /// Hears of every change: of the connection, and of what is known of channels.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.core().changes()
    }

    /// Waits until something is so; it looks before it waits. `None` where the client is over before.
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

    /// What the host confirmed of a channel, if it is known.
    pub fn confirmed(&self, channel: &str) -> Option<SnapshotState> {
        self.shared.core().confirmed(channel).cloned()
    }

    /// The same, with what this client did and the host did not confirm yet.
    pub fn view(&self, channel: &str) -> Option<SnapshotState> {
        self.shared.core().view(channel)
    }

    /// The number of the last action that it saw.
    pub fn seen(&self) -> u64 {
        self.shared.core().seen()
    }

    /// Wants to be told of a channel; done when its state is known.
    ///
    /// # Errors
    /// [`Failure`]
    pub async fn subscribe(&self, channel: &str) -> Result<(), Failure> {
        let (to, answered) = oneshot::channel();
        self.shared.core().subscribe(channel, to, Instant::now());
        answered.await.unwrap_or(Err(Failure::Closed))
    }

    /// Wants to hear no more of a channel. Calls in it that this client runs are given up.
    pub fn unsubscribe(&self, channel: &str) {
        self.shared.core().unsubscribe(channel);
    }

    /// Does something to a channel: here at once; done when the host has confirmed it.
    ///
    /// # Errors
    /// [`Failure`]; then it is taken back here.
    pub async fn dispatch(&self, channel: &str, action: StateAction) -> Result<(), Failure> {
        let (to, answered) = oneshot::channel();
        self.shared.core().dispatch(channel, action, Some(to));
        answered.await.unwrap_or(Err(Failure::Closed))
    }

    /// Asks the host for something.
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

    /// Makes a session. What is asked of it before this is answered may be refused: the host has to know first that it keeps none of
    /// that name.
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

    /// Makes a chat in a session.
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

    /// Hands over a token, now and to every host that does not know this client.
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

    /// Is active in a session from now on, with all its tools; and again where the session forgot it while it was away.
    ///
    /// # Errors
    /// [`Failure`]
    pub async fn join(&self, session: &str) -> Result<(), Failure> {
        let (to, answered) = oneshot::channel();
        self.shared.core().join(session, to);
        answered.await.unwrap_or(Err(Failure::Closed))
    }

    /// The user says something in a chat: a turn begins.
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

    /// The user wants no more of a turn.
    ///
    /// # Errors
    /// [`Failure`]
    pub async fn cancel_turn(&self, chat: &str, turn: &str) -> Result<(), Failure> {
        let cancelled =
            ChatTurnCancelledAction { turn_id: turn.to_owned(), duration: 0, meta: None };
        self.dispatch(chat, StateAction::ChatTurnCancelled(cancelled)).await
    }

    /// The user says whether a call may run.
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

    /// The user says whether the result of a call counts.
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

    /// Ends the connection in order. Everything that waits ends with [`Failure::Closed`].
    pub async fn close(mut self) {
        let (sent, heard) = oneshot::channel();
        if let Some(farewell) = self.farewell.take()
            && farewell.send(sent).is_ok()
        {
            // Where the driver is gone, so is the connection.
            let _ = heard.await;
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.shared.core().close(&Failure::Closed);
    }
}

//! The user of a simulated window: performs the operations of the schedule, and records their
//! outcomes.
//!
//! A window starts by itself: it sends its token, watches the session and the first chat, and takes
//! part with its tools. The first window of all starts the first turn. A reloaded window, or the
//! window of a restarted host, is another client; the unanswered operations of the previous client
//! are given up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join;
use tokio::sync::oneshot;
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::answers::{self, Did};
use super::notes::{Became, By, OfCall};
use super::observer::{Observer, WaitingCall};
use super::operations::{Token, ToolcallOperation};
use super::settling::SETTLES;
use super::setup::{self, CHAT, Consent, SESSION, ToolSetup};
use super::{archive, claim, limits, second, silent, tables, tools};
use crate::history::{Answer, Call, Data, Stream};
use crate::net::Endpoint;
use crate::subject::{HostContext, OperationQueue, Recorder};
use crate::subjects::records;
use reknit_toolcall::client::{Client, ClientConfig, Failure};
use reknit_toolcall::wire::StateAction;
use reknit_toolcall::wire::ahp::actions::{
    ChatToolCallStartAction, SessionActiveClientRemovedAction, SessionTitleChangedAction,
};
use reknit_toolcall::wire::ahp::state::{ToolCallClientContributor, ToolCallContributor};
use reknit_toolcall::wire::{DisposeChatParams, DisposeSessionParams, method};

mod direct;

/// The maximum duration of a client's close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// The pause before a window retries a request that it needs at its start.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// The key of the counter of window incarnations on the host's disk.
const LIVES: &str = "lives";

/// The user of one window.
pub(super) struct WindowUser {
    host: HostContext,
    server: Endpoint,
    window: Window,
    /// The number of starts of each turn.
    begun: BTreeMap<String, u64>,
    /// The open second connections, the newest last.
    seconds: Vec<oneshot::Sender<()>>,
    /// The tasks of second connections and claims.
    connected: JoinSet<()>,
}

/// One incarnation of a window: a client, and its observer.
struct Window {
    client: Arc<Client>,
    observer: Arc<Observer>,
    looking: JoinSet<()>,
    asked: PendingCalls,
}

/// The unanswered operations of one incarnation of a window.
struct PendingCalls {
    record: Recorder,
    pending: Arc<Mutex<BTreeSet<Call>>>,
    busy: JoinSet<()>,
}

impl PendingCalls {
    fn new(record: Recorder) -> Self {
        Self { record, pending: Arc::default(), busy: JoinSet::new() }
    }

    /// Records the outcome of a call when it is known.
    fn wait(
        &mut self,
        call: Call,
        outcome: impl Future<Output = Result<Data, Failure>> + Send + 'static,
    ) {
        let (record, pending) = (self.record.clone(), self.pending.clone());
        lock(&pending).insert(call);
        self.busy.spawn(async move {
            let outcome = outcome.await;
            lock(&pending).remove(&call);
            report(&record, call, outcome);
        });
    }

    /// Stops waiting, and records that the user gave up the unanswered calls.
    fn give_up(&mut self) {
        self.busy.abort_all();
        std::mem::take(&mut *lock(&self.pending))
            .into_iter()
            .for_each(|call| self.record.answered(call, Answer::GivenUp));
    }
}

fn lock(pending: &Mutex<BTreeSet<Call>>) -> MutexGuard<'_, BTreeSet<Call>> {
    pending.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Window {
    /// Opens a window. `id` is the id of its client; default: a new one.
    fn open(host: &HostContext, server: &Endpoint, id: Option<String>) -> Self {
        let incarnation = host
            .disk
            .read(LIVES)
            .and_then(|incarnations| incarnations.parse().ok())
            .unwrap_or(0_u64)
            + 1;
        host.disk.write(LIVES, incarnation.to_string());
        let config = ClientConfig {
            id: Some(id.unwrap_or_else(|| records::name_of(host.name.as_str(), incarnation))),
            tools: tools::toolbox(host),
            answers: Arc::new(tools::DelayedAnswers),
            limits: limits::client_limits(&host.limits),
        };
        let client = Arc::new(Client::new(&host.env, server.clone(), config));
        let observer = Arc::new(Observer::new(host.record.clone(), client.id()));
        let watched = setup::watched(&host.plan);
        watched.iter().for_each(|channel| observer.watch(channel));
        let mut looking = JoinSet::new();
        looking.spawn(observe_changes(host.clone(), client.clone(), observer.clone()));
        let begins =
            (incarnation == 1 && is_first(host)).then(|| setup::first_turn(&host.plan)).flatten();
        let begins = begins
            .map(|(turn, setup)| (setup.chat, turn))
            .inspect(|(chat, _)| observer.watch(chat));
        looking.spawn(join_session(client.clone(), observer.clone(), watched, begins));
        Self { client, observer, looking, asked: PendingCalls::new(host.record.clone()) }
    }
}

impl Window {
    /// Stops everything that uses the client, and closes it.
    async fn close(self) {
        let Self { client, mut looking, mut asked, .. } = self;
        looking.shutdown().await;
        asked.busy.shutdown().await;
        // The tasks of the user's replies end when they are scheduled next.
        yield_now().await;
        if let Some(client) = Arc::into_inner(client) {
            client.close().await;
        }
    }
}

/// Returns whether this is the host whose window starts the first turn.
fn is_first(host: &HostContext) -> bool {
    host.name.as_str() == "client"
}

/// Takes part in the session, and starts a turn if `begins` contains one. Leaves out what the user has
/// stopped watching in the meantime.
async fn join_session(
    client: Arc<Client>,
    observer: Arc<Observer>,
    watched: Vec<String>,
    begins: Option<(String, String)>,
) {
    while let Err(Failure::Lost | Failure::Late) =
        client.authenticate(archive::PROVIDER, super::TOKEN).await
    {
        sleep(RETRY_PAUSE).await;
    }
    let first = begins.as_ref().map_or(CHAT, |(chat, _)| chat);
    for channel in [SESSION, CHAT, first] {
        subscribe_to(&client, &observer, channel).await;
    }
    // A user that has left may only watch the session by now.
    if !observer.watches_from_start(SESSION) {
        return;
    }
    let joined = client.join(SESSION).await;
    if let (Ok(()), Some((chat, turn))) = (joined, begins) {
        // The users that watch the chat record whether the turn is active.
        let _ = client.start_turn(&chat, &turn, "at the start").await;
    }
    for channel in watched {
        subscribe_to(&client, &observer, &channel).await;
    }
}

/// Subscribes to a channel that the user watches, unless its state is known. The user watches the
/// channel until the answer, even if an earlier channel of that name is removed at this moment.
async fn subscribe_to(client: &Client, observer: &Observer, channel: &str) {
    while observer.watches(channel) && client.confirmed(channel).is_none() {
        observer.ask(channel, Call::NONE);
        let known = client.subscribe(channel).await;
        observer.answered(channel, Call::NONE);
        if !matches!(known, Err(Failure::Lost | Failure::Late)) {
            return;
        }
        sleep(RETRY_PAUSE).await;
    }
}

/// Observes each change of a client's state, and gives the user's replies to calls that need
/// consent.
async fn observe_changes(host: HostContext, client: Arc<Client>, observer: Arc<Observer>) {
    let (mut changes, mut settles, mut thinking) =
        (client.changes(), None::<Instant>, JoinSet::new());
    loop {
        let (waits, is_changed) = observer.observe_copies(|channel| client.confirmed_copy(channel));
        if is_changed {
            settles = Some(Instant::now() + SETTLES);
        }
        // Otherwise the window shows the confirmed states.
        if client.resources().unconfirmed > 0 {
            let chat_of = |turn: &str| setup::turn(&host.plan, records::declared(turn)).chat;
            observer.read_views(|channel| client.view(channel), chat_of);
        }
        for call in waits.into_iter().filter(|call| call.owner == client.id()) {
            let setup: ToolSetup = host.plan.entry(setup::TOOL, &call.tool).unwrap_or_default();
            thinking.spawn(give_consent(host.record.clone(), client.clone(), call, setup));
        }
        tokio::select! {
            biased;
            changed = changes.changed() => if changed.is_err() { return },
            Some(_) = thinking.join_next() => {}
            () = sleep_until(settles.unwrap_or_else(Instant::now)), if settles.is_some() => {
                settles = None;
                observer.record_digests_as_of(Some(client.seen()));
            }
        }
    }
}

/// Replies to a call that needs consent. A reply that fails for another reason than a refusal has no
/// effect that the user can know.
async fn give_consent(record: Recorder, client: Arc<Client>, call: WaitingCall, setup: ToolSetup) {
    sleep(setup.thinks.0).await;
    if setup.user == Consent::Ignores {
        return;
    }
    let approves = setup.user == Consent::Approves;
    let turn = Stream::from(call.turn.as_str());
    OfCall { by: By::User, call: call.call.clone(), what: Became::Decides(approves) }
        .note(&record, &turn);
    let reply = match client.confirm(&call.chat, &call.turn, &call.call, approves).await {
        Ok(()) => Ok(()),
        Err(Failure::Rejected(why)) => Err(why),
        Err(_) => return,
    };
    OfCall { by: By::User, call: call.call, what: Became::Replies(reply) }.note(&record, &turn);
}

impl WindowUser {
    pub(super) fn new(host: HostContext, server: Endpoint) -> Self {
        let window = Window::open(&host, &server, None);
        let at_start = setup::first_turn(&host.plan).filter(|_| is_first(&host));
        let begun = at_start.map(|(turn, _)| (turn, 1)).into_iter().collect();
        let user =
            Self { host, server, window, begun, seconds: Vec::new(), connected: JoinSet::new() };
        user.count();
        user
    }

    /// Registers the resource counts of the window's current client.
    fn count(&self) {
        let client = Arc::downgrade(&self.window.client);
        let resources = move || client.upgrade().map(|client| client.resources());
        let (levels, gauges) = (tables::CLIENT_LEVELS, tables::CLIENT_RESOURCES);
        self.host.record.resources(levels, gauges, resources);
    }

    /// Performs operations as they arrive, then closes the window.
    pub(super) async fn run(mut self, mut operations: OperationQueue<ToolcallOperation>) {
        loop {
            tokio::select! {
                biased;
                next = operations.next() => match next {
                    Some((call, operation)) => self.perform(call, operation),
                    None => break,
                },
                Some(_) = self.window.asked.busy.join_next() => {}
                Some(_) = self.connected.join_next() => {}
            }
        }
        let Self { window, mut connected, .. } = self;
        connected.shutdown().await;
        if timeout(CLOSE_TIMEOUT, window.close()).await.is_err() {
            tracing::warn!("the client did not close in time");
        }
    }

    fn perform(&mut self, call: Call, operation: ToolcallOperation) {
        let client = self.window.client.clone();
        match operation {
            ToolcallOperation::StartTurn { turn } => self.start_turn(call, &turn),
            ToolcallOperation::CancelTurn { chat } => match self.window.observer.turn_in(&chat) {
                Some(turn) => self.wait(call, async move {
                    client.cancel_turn(&chat, &turn).await.map(|()| "cancelled".into())
                }),
                None => self.host.record.refused(call, "no turn is in progress"),
            },
            ToolcallOperation::Rename { title } => {
                let title = title.unwrap_or_else(|| format!("{} {}", self.host.name, call.0));
                let renamed = StateAction::SessionTitleChanged(SessionTitleChangedAction {
                    title: title.clone(),
                });
                self.wait(call, async move {
                    client.dispatch(SESSION, renamed).await.map(|()| Did::Named(title).into())
                });
            }
            ToolcallOperation::Watch { chat, looks_only } => self.watch(call, chat, !looks_only),
            ToolcallOperation::WatchTwice { chat } => {
                self.window.observer.let_go(&chat, call);
                // The subscription is sent, but its answer is not awaited.
                let _ = client.subscribe(&chat).now_or_never();
                client.unsubscribe(&chat);
                self.watch(call, chat, true);
            }
            ToolcallOperation::Unwatch { channel } => {
                // Chats cannot be watched without the session.
                let all = if channel == SESSION {
                    self.window.observer.channels()
                } else {
                    vec![channel]
                };
                for channel in all {
                    self.window.observer.let_go(&channel, call);
                    client.unsubscribe(&channel);
                }
                self.host.record.answered(call, "unsubscribed");
            }
            ToolcallOperation::Leave {} => {
                let client_id = client.id();
                let leaves = SessionActiveClientRemovedAction { client_id };
                self.wait(call, async move {
                    let leaves = StateAction::SessionActiveClientRemoved(leaves);
                    client.dispatch(SESSION, leaves).await.map(|()| "left".into())
                });
            }
            ToolcallOperation::ReadState { channel, unconfirmed } => {
                self.read_state(call, &channel, unconfirmed)
            }
            ToolcallOperation::ReadConnection {} => self.read_connection(call),
            ToolcallOperation::CreateSession { name } => self.create_session(call, name),
            ToolcallOperation::EndSession { name } => self.end_session(call, name),
            ToolcallOperation::ReportContent { chat } => self.report_content(call, chat),
            ToolcallOperation::ReportResult { chat } => self.report_result(call, chat),
            ToolcallOperation::JudgeResult { chat, approves } => {
                self.judge_result(call, chat, approves)
            }
            ToolcallOperation::NewChat {} => {
                let name = format!("n{}", call.0);
                self.wait(call, async move {
                    client.create_chat(SESSION, &name).await.map(|()| Did::Made(name).into())
                });
            }
            ToolcallOperation::DisposeChat { chat } => {
                let params = DisposeChatParams { channel: chat, meta: None };
                self.wait(call, async move {
                    client
                        .request(method::DISPOSE_CHAT, &params)
                        .await
                        .map(|_| "disposed of".into())
                });
            }
            ToolcallOperation::RemakeChat { chat } => {
                let params = DisposeChatParams { channel: chat.clone(), meta: None };
                self.wait(call, async move {
                    // The second request is sent before the answer to the first one arrives.
                    let disposal = client.request(method::DISPOSE_CHAT, &params);
                    let (disposed, made) = join(disposal, client.create_chat(SESSION, &chat)).await;
                    disposed?;
                    made.map(|()| format!("made {chat} again").into())
                });
            }
            ToolcallOperation::DisposeSession {} => {
                let params = DisposeSessionParams { channel: SESSION.to_owned(), meta: None };
                self.wait(call, async move {
                    client
                        .request(method::DISPOSE_SESSION, &params)
                        .await
                        .map(|_| "disposed of".into())
                });
            }
            ToolcallOperation::NewSession {} => {
                let observer = self.window.observer.clone();
                let is_new = !observer.watches(SESSION);
                observer.ask(SESSION, call);
                self.wait(call, async move {
                    if let Err(failure) = client.create_session(SESSION).await {
                        if is_new {
                            withdraw(&client, &observer, SESSION, call);
                        } else {
                            observer.answered(SESSION, call);
                        }
                        return Err(failure);
                    }
                    if !observer.watches(SESSION) {
                        return Ok(format!("created {SESSION}").into());
                    }
                    see(&client, &observer, SESSION, true, call).await
                });
            }
            ToolcallOperation::Reload { keeps_id, closes } => self.reload(call, keeps_id, closes),
            ToolcallOperation::SendToken { token } => {
                self.wait(call, async move {
                    client
                        .authenticate(archive::PROVIDER, text_of(token))
                        .await
                        .map(|()| "sent".into())
                });
            }
            ToolcallOperation::OpenSilent {} => {
                let (host, server) = (self.host.clone(), self.server.clone());
                self.host.record.queued(call, "opening");
                self.connected.spawn(silent::run(host, server));
            }
            ToolcallOperation::OpenSecond {} => {
                let (close, closed) = oneshot::channel();
                self.seconds.push(close);
                let (host, server, channels) =
                    (self.host.clone(), self.server.clone(), self.window.observer.channels());
                self.host.record.queued(call, "opening");
                self.connected.spawn(second::run(host, server, client.id(), channels, closed));
            }
            ToolcallOperation::CloseSecond {} => match self.seconds.pop() {
                Some(close) => {
                    drop(close);
                    self.host.record.answered(call, "closed");
                }
                None => self.host.record.refused(call, "there is none"),
            },
            ToolcallOperation::Claim { what } => {
                let (host, server) = (self.host.clone(), self.server.clone());
                let name = records::name(self.host.name.as_str(), "claim", call.0);
                let record = host.record.clone();
                self.connected.spawn(async move {
                    record.answered(call, claim::come_back(host, server, name, what).await)
                });
            }
            ToolcallOperation::Forge { chat } => {
                let forged = self.forged(call, &chat);
                self.wait(call, async move {
                    client.dispatch(&chat, forged).await.map(|()| Did::Forged.into())
                });
            }
        }
    }

    fn wait(
        &mut self,
        call: Call,
        outcome: impl Future<Output = Result<Data, Failure>> + Send + 'static,
    ) {
        self.window.asked.wait(call, outcome);
    }

    /// Replaces the window's client by a new one, and discards the state of the previous one.
    fn reload(&mut self, call: Call, keeps_id: bool, closes: bool) {
        self.window
            .observer
            .channels()
            .iter()
            .for_each(|channel| self.window.observer.let_go(channel, call));
        self.window.asked.give_up();
        self.seconds.clear();
        let id = keeps_id.then(|| self.window.client.id());
        let window = Window::open(&self.host, &self.server, id);
        let earlier = closes.then_some(std::mem::replace(&mut self.window, window));
        self.count();
        let (record, loaded) =
            (self.host.record.clone(), format!("loaded as {}", self.window.client.id()));
        match earlier {
            Some(earlier) => drop(self.connected.spawn(async move {
                earlier.close().await;
                record.answered(call, format!("closed, {loaded}"));
            })),
            None => record.answered(call, loaded),
        }
    }

    /// Starts a turn under a unique name. The user's message is the number of the call.
    fn start_turn(&mut self, call: Call, turn: &str) {
        let times = self.begun.entry(turn.to_owned()).or_default();
        *times += 1;
        let name = records::name(self.host.name.as_str(), turn, *times);
        let chat = setup::turn(&self.host.plan, turn).chat;
        let client = self.window.client.clone();
        self.wait(call, async move {
            client
                .start_turn(&chat, &name, &call.0.to_string())
                .await
                .map(|()| Did::Began(name).into())
        });
    }

    fn watch(&mut self, call: Call, chat: String, joins: bool) {
        let (client, observer) = (self.window.client.clone(), self.window.observer.clone());
        observer.ask(&chat, call);
        let seen = async move { see(&client, &observer, &chat, joins, call).await };
        let mut seen = seen.boxed();
        // The first poll sends the request, so that later operations of this moment come after it.
        match (&mut seen).now_or_never() {
            Some(outcome) => report(&self.host.record, call, outcome),
            None => self.wait(call, seen),
        }
    }

    /// An action that only the host may send: the start of a tool call.
    fn forged(&self, call: Call, chat: &str) -> StateAction {
        StateAction::ChatToolCallStart(ChatToolCallStartAction {
            turn_id: self.window.observer.turn_in(chat).unwrap_or_default(),
            tool_call_id: format!("forged-{}", call.0),
            meta: None,
            tool_name: "t1".to_owned(),
            display_name: "t1".to_owned(),
            intention: None,
            contributor: Some(ToolCallContributor::Client(ToolCallClientContributor {
                client_id: self.window.client.id(),
            })),
        })
    }
}

fn text_of(token: Token) -> &'static str {
    match token {
        Token::Right => super::TOKEN,
        Token::Wrong => "another",
        Token::None => "",
    }
}

/// Subscribes to a channel. If that fails, the user stops watching it. If it is the session, and
/// `joins`, the client also takes part in it.
async fn see(
    client: &Client,
    observer: &Observer,
    channel: &str,
    joins: bool,
    call: Call,
) -> Result<Data, Failure> {
    if let Err(failure) = client.subscribe(channel).await {
        withdraw(client, observer, channel, call);
        return Err(failure);
    }
    observer.answered(channel, call);
    if channel == SESSION && joins {
        client.join(channel).await?;
    }
    Ok(format!("sees {channel}").into())
}

/// Handles a subscription that failed: the user stops watching the channel, unless the client still
/// has its state from another subscription.
fn withdraw(client: &Client, observer: &Observer, channel: &str, call: Call) {
    if client.confirmed(channel).is_some() {
        observer.answered(channel, call);
    } else {
        observer.refused(channel, call);
    }
}

/// Records the outcome of a call. A refusal counts as an answer, because the protocol requires an
/// answer.
fn report(record: &Recorder, call: Call, outcome: Result<Data, Failure>) {
    match outcome.map(Answer::Done).or_else(answers::refusal) {
        Ok(answer) => record.answered(call, answer),
        Err(reason) => record.failed(call, reason),
    }
}

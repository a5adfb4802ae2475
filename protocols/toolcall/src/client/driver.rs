//! The task around the core. It passes frames and times to the core, and carries out the core's
//! effects. It makes no decisions.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use reknit_jsonrpc::{Link, LinkError, LinkEvent};
use reknit_seams::Env;
use reknit_seams::net::{BoxFuture, Endpoint};
use reknit_seams::{defect, point};
use serde_json::value::RawValue;
use tokio::sync::{Notify, oneshot};
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};

use super::Failure;
use super::core::{ClientCore, ClientEffect, Key};
use super::tool::{Answers, Toolbox, failed};
use crate::limits::ClientLimits;
use crate::wire::RequestId;
use crate::wire::ahp::state::ToolCallResult;

/// How long a graceful close may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// State that the driver shares with the handles.
pub(super) struct ClientShared {
    core: Mutex<ClientCore>,
    pub(super) limits: ClientLimits,
}

impl ClientShared {
    pub(super) fn new(core: ClientCore, limits: ClientLimits) -> Self {
        Self { core: Mutex::new(core), limits }
    }

    pub(super) fn core(&self) -> MutexGuard<'_, ClientCore> {
        self.core.lock().expect("nothing panics under the lock")
    }
}

/// The connection: being opened, or open.
enum Wire {
    None,
    Opening(u64, BoxFuture<'static, Option<Box<Link>>>),
    Open(u64, Box<Link>),
}

/// An event of the connection.
enum ConnectionEvent {
    Opened(u64, Option<Box<Link>>),
    Received(u64, Result<LinkEvent, LinkError>),
}

/// A yield point between a connection event and the core's handling of it.
enum YieldPoint {
    /// A connection was opened: its generation, and its number in the network.
    Opened(u64, u64),
    /// This connection is over.
    Closed(u64),
    /// Any other event.
    Other,
}

impl ConnectionEvent {
    fn yield_point(&self) -> YieldPoint {
        match self {
            Self::Opened(generation, Some(link)) => YieldPoint::Opened(*generation, link.id()),
            Self::Received(generation, Err(_)) => YieldPoint::Closed(*generation),
            _ => YieldPoint::Other,
        }
    }
}

/// Yields at the points between a connection event and the core's handling of it.
async fn yield_at(yield_point: YieldPoint) {
    match yield_point {
        YieldPoint::Opened(generation, conn) => {
            point!("toolcall.client.opened", generation = generation, conn = conn).await;
        }
        YieldPoint::Closed(generation) => {
            point!("toolcall.client.close.unreported", generation = generation).await;
        }
        YieldPoint::Other => {}
    }
}

/// The result of a task.
enum Done {
    Ran(Key, Box<ToolCallResult>),
    Replied(u64, RequestId, Result<Box<RawValue>, (i64, String)>),
}

pub(super) struct Driver {
    pub(super) env: Env,
    pub(super) host: Endpoint,
    pub(super) shared: Arc<ClientShared>,
    pub(super) tools: Toolbox,
    pub(super) answers: Arc<dyn Answers>,
    pub(super) close_request: oneshot::Receiver<oneshot::Sender<()>>,
}

impl Driver {
    /// Drives the client until it is dropped or the user closes it.
    pub(super) async fn run(self) {
        let Self { env, host, shared, tools, answers, mut close_request } = self;
        let changed = shared.core().changed();
        let (wire, tasks, running) = (Wire::None, JoinSet::new(), BTreeMap::new());
        let mut state = DriverState { env, host, shared, tools, answers, wire, tasks, running };
        let done = loop {
            state.carry_out();
            tokio::select! {
                biased;
                done = &mut close_request => break done,
                () = state.step(&changed) => {}
            }
        };
        state.shared.core().close(&Failure::Closed);
        // The bug: the tools work on until the connection is closed.
        if !defect!(ClosedClientsWorkOn) {
            state.tasks.abort_all();
        }
        if let Wire::Open(_, link) = state.wire {
            link.finish(CLOSE_TIMEOUT).await;
        }
        if let Ok(done) = done {
            // The caller of `close` may have been dropped.
            let _ = done.send(());
        }
    }
}

/// The state of the driver.
struct DriverState {
    env: Env,
    host: Endpoint,
    shared: Arc<ClientShared>,
    tools: Toolbox,
    answers: Arc<dyn Answers>,
    wire: Wire,
    tasks: JoinSet<Done>,
    running: BTreeMap<Key, AbortHandle>,
}

impl DriverState {
    /// Waits for one event, and passes it to the core. Cancellation safe: dropping the future loses
    /// nothing.
    async fn step(&mut self, changed: &Notify) {
        let due = self.shared.core().due();
        tokio::select! {
            biased;
            event = self.wire.next() => self.on_event(event).await,
            Some(done) = self.tasks.join_next() => self.done(done),
            // No wake-up is lost between `due` and this wait: only this task waits, so `Notify` stores
            // the permit of a change that comes before the wait.
            () = changed.notified() => {}
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                let (now, random) = (Instant::now(), self.random());
                let mut core = self.shared.core();
                if let Some(last) = self.wire.part_received() {
                    core.receiving(last, now);
                }
                core.wake(now, random);
            }
        }
    }

    fn random(&self) -> u64 {
        self.env.entropy.below(u64::MAX)
    }

    async fn on_event(&mut self, event: ConnectionEvent) {
        yield_at(event.yield_point()).await;
        let (now, random) = (Instant::now(), self.random());
        match event {
            ConnectionEvent::Opened(generation, Some(link)) => {
                self.shared.core().opened(generation, link.id(), now);
                self.wire = Wire::Open(generation, link);
            }
            ConnectionEvent::Opened(generation, None) => {
                self.wire = Wire::None;
                self.shared.core().lost(generation, now, random);
            }
            ConnectionEvent::Received(_, Ok(LinkEvent::Room | LinkEvent::Reached(_))) => {}
            ConnectionEvent::Received(generation, Ok(LinkEvent::Frame(frame))) => {
                self.shared.core().on_frame(generation, &frame, now, random)
            }
            ConnectionEvent::Received(generation, Err(lost)) => {
                tracing::debug!(%lost, generation, "connection over");
                self.wire = Wire::None;
                let mut core = self.shared.core();
                match lost {
                    LinkError::Malformed | LinkError::TooLong => {
                        core.broken(generation, now, random)
                    }
                    _ => core.lost(generation, now, random),
                }
            }
        }
    }

    /// Handles a finished task. A tool that panicked has failed; the result of a stopped tool is
    /// ignored.
    fn done(&mut self, done: Result<Done, JoinError>) {
        match done {
            Ok(Done::Ran(key, result)) => {
                self.running.remove(&key);
                self.shared.core().finished(&key, *result);
            }
            Ok(Done::Replied(generation, id, reply)) => {
                self.shared.core().reply(generation, id, reply)
            }
            Err(error) => {
                let of = self
                    .running
                    .iter()
                    .find(|(_, handle)| handle.id() == error.id())
                    .map(|(key, _)| key.clone());
                if let Some(key) = of.filter(|_| !defect!(PanicsUnreported)) {
                    self.running.remove(&key);
                    self.shared.core().finished(&key, failed("the tool panicked"));
                }
            }
        }
    }

    fn carry_out(&mut self) {
        loop {
            let effect = self.shared.core().effect();
            match effect {
                None => return,
                Some(ClientEffect::Open(generation)) => {
                    self.wire = Wire::Opening(generation, self.open())
                }
                Some(ClientEffect::Send(generation, message)) => {
                    if let Wire::Open(current, link) = &mut self.wire
                        && *current == generation
                    {
                        link.send_text(message.to_versioned_text());
                    }
                }
                Some(ClientEffect::Close(generation)) => {
                    if self.wire.generation() == Some(generation) {
                        self.wire = Wire::None;
                    }
                }
                Some(ClientEffect::Run(run)) => {
                    let (key, running) = (run.key(), self.tools.clone());
                    let ran = key.clone();
                    // `run` is called inside the task, because it may panic itself before it
                    // returns the future.
                    let task = async move { Done::Ran(ran, Box::new(running.run(run).await)) };
                    self.running.insert(key, self.tasks.spawn(task));
                }
                Some(ClientEffect::Stop(key)) => {
                    self.running.remove(&key).iter().for_each(AbortHandle::abort)
                }
                Some(ClientEffect::AnswerRequest { generation, id, method, params }) => {
                    let answers = self.answers.clone();
                    self.tasks.spawn(async move {
                        Done::Replied(generation, id, answers.answer(method, params).await)
                    });
                }
            }
        }
    }

    /// Opens a connection, within the connect timeout.
    fn open(&self) -> BoxFuture<'static, Option<Box<Link>>> {
        let (env, host, limits) = (self.env.clone(), self.host.clone(), self.shared.limits);
        Box::pin(async move {
            let connecting = env.net.connect(&host);
            let upgrade = |stream| async {
                Link::connect(stream, &host.to_string(), limits.wire).await.ok().map(Box::new)
            };
            if defect!(UpgradeHasNoTimeout) {
                return upgrade(timeout(limits.connect_timeout, connecting).await.ok()?.ok()?)
                    .await;
            }
            let opening = async { upgrade(connecting.await.ok()?).await };
            timeout(limits.connect_timeout, opening).await.ok().flatten()
        })
    }
}

impl Wire {
    fn generation(&self) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Opening(generation, _) | Self::Open(generation, _) => Some(*generation),
        }
    }

    /// When the host last sent something, if a part of a frame has arrived.
    fn part_received(&self) -> Option<Instant> {
        match self {
            Self::Open(_, link) => link.part_received(),
            _ => None,
        }
    }

    /// Waits for the next event of the connection; pends without end if there is no connection.
    async fn next(&mut self) -> ConnectionEvent {
        match self {
            Self::None => std::future::pending().await,
            Self::Opening(generation, opening) => {
                ConnectionEvent::Opened(*generation, opening.await)
            }
            Self::Open(generation, link) => {
                ConnectionEvent::Received(*generation, link.next().await)
            }
        }
    }
}

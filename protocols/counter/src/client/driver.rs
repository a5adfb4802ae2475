//! The client's only task: it establishes connections, keeps them open, and moves lines between
//! them and the [`OpenRequests`].

use std::future::Future;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reknit_seams::Env;
use reknit_seams::net::{Endpoint, Net};
use reknit_seams::{defect, milestone, point};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::command::Command;
use super::outcome::{Failure, Number, State};
use super::requests::OpenRequests;
use crate::limits::{ClientLimits, Liveness};
use crate::link::{Link, LinkError, LinkEvent};
use crate::wire::{Refusal, Reply, Request, SessionId, Ticket};

/// The task behind a [`Client`](super::Client).
pub(super) struct Driver {
    env: Env,
    server: Endpoint,
    limits: ClientLimits,
    commands: mpsc::Receiver<Command>,
    state: Arc<Mutex<State>>,
    requests: OpenRequests,
    session: Option<SessionId>,
    /// The number of installed connections; the next field counts the attempts.
    installed: u64,
    attempts: u64,
    /// The pause before the next attempt.
    pause: Duration,
    /// A connection that the client gave up, but that a defect still reads.
    stale_link: Option<Link>,
}

/// The user closed the client.
struct Closed(Option<tokio::sync::oneshot::Sender<()>>);

/// A connection that the server welcomed.
struct Welcomed {
    link: Link,
    session: SessionId,
    resumed: bool,
}

/// The reason why an attempt to connect failed.
enum Attempt {
    /// A transient failure.
    Transient,
    /// The server refused.
    Refused(Refusal),
    /// The peer does not implement this protocol.
    Protocol,
}

/// The maximum duration of a close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

impl Driver {
    pub(super) fn new(
        env: Env,
        server: Endpoint,
        limits: ClientLimits,
        commands: mpsc::Receiver<Command>,
        state: Arc<Mutex<State>>,
    ) -> Self {
        let requests = OpenRequests::default();
        let pause = Duration::ZERO;
        Self {
            env,
            server,
            limits,
            commands,
            state,
            requests,
            session: None,
            installed: 0,
            attempts: 0,
            pause,
            stale_link: None,
        }
    }

    pub(super) async fn run(mut self) {
        let Err(Closed(done)) = self.run_until_closed().await;
        self.requests.fail_all(&Failure::Closed);
        if let Some(done) = done {
            // The send fails if the user no longer waits for the close.
            let _ = done.send(());
        }
    }

    async fn run_until_closed(&mut self) -> Result<std::convert::Infallible, Closed> {
        loop {
            match self.recover().await? {
                Ok(welcomed) => self.use_connection(welcomed).await?,
                Err(failure) => self.idle(failure).await?,
            }
        }
    }

    fn set(&self, state: State) {
        *self.state.lock().expect("nothing panics under the lock") = state;
    }

    // -- without a connection --------------------------------------------------------------------------------------------

    /// Tries to connect until the recovery deadline.
    async fn recover(&mut self) -> Result<Result<Welcomed, Failure>, Closed> {
        self.set(State::Recovering);
        milestone!("counter.client.recovering", generation = self.installed + 1);
        let deadline = Instant::now() + self.limits.recovery_deadline;
        loop {
            self.back_off(deadline).await?;
            if Instant::now() >= deadline && !defect!(RecoveryNeverGivesUp) {
                milestone!("counter.client.failed-deadline", generation = self.installed + 1);
                return Ok(Err(Failure::RecoveryDeadline));
            }
            match self.attempt(deadline).await? {
                Ok(welcomed) => return Ok(Ok(welcomed)),
                Err(Attempt::Transient) => {}
                Err(Attempt::Protocol) => {
                    self.session = None;
                    return Ok(Err(Failure::Protocol));
                }
                Err(Attempt::Refused(Refusal::UnknownSession)) => {
                    milestone!("counter.client.session-lost", generation = self.installed + 1);
                    self.session = None;
                    self.requests.session_lost(&Failure::SessionLost);
                }
                Err(Attempt::Refused(Refusal::Full | Refusal::StaleTicket)) => {}
                Err(Attempt::Refused(why)) => return Ok(Err(Failure::Refused(why))),
            }
        }
    }

    /// Makes one attempt to connect and to receive the welcome.
    async fn attempt(&mut self, deadline: Instant) -> Result<Result<Welcomed, Attempt>, Closed> {
        self.attempts += 1;
        let ticket = Ticket { generation: self.installed + 1, attempt: self.attempts };
        let hello = Request::Hello { session: self.session, ticket };
        let until = Instant::now() + self.limits.attempt_timeout;
        let until = if defect!(RecoveryNeverGivesUp) { until } else { until.min(deadline) };
        let greeting =
            connect(self.env.net.clone(), self.server.clone(), hello, self.limits.liveness);
        let welcomed = self.serve_while(timeout_at(until, greeting)).await?;
        Ok(welcomed.unwrap_or(Err(Attempt::Transient)))
    }

    /// Waits before an attempt: at first not at all, then twice as long each time, up to a maximum.
    async fn back_off(&mut self, deadline: Instant) -> Result<(), Closed> {
        let pause = self.pause;
        self.pause = (pause * 2).clamp(
            self.limits.back_off_min,
            self.limits.back_off_max.max(self.limits.back_off_min),
        );
        if defect!(NoBackOff) {
            return Ok(());
        }
        let until = (Instant::now() + pause / 2 + self.jitter(pause / 2)).min(deadline);
        if defect!(SpinsWhileWaiting) {
            while Instant::now() < until {
                tokio::task::yield_now().await;
            }
        }
        self.serve_while(sleep_until(until)).await
    }

    fn jitter(&self, most: Duration) -> Duration {
        let most = most.as_millis() as u64;
        if defect!(UnseededJitter) {
            return Duration::from_millis(RandomState::new().build_hasher().finish() % (most + 1));
        }
        Duration::from_millis(self.env.entropy.below(most + 1))
    }

    /// Fails everything, then waits until the user makes a new request.
    async fn idle(&mut self, failure: Failure) -> Result<(), Closed> {
        self.set(State::Failed);
        self.requests.fail_all(&failure);
        self.pause = Duration::ZERO;
        while self.requests.is_empty() {
            let command = self.commands.recv().await;
            self.take(command, None)?;
        }
        Ok(())
    }

    /// Waits for a future, and accepts commands of the user in the meantime.
    async fn serve_while<T>(&mut self, something: impl Future<Output = T>) -> Result<T, Closed> {
        let mut something = pin!(something);
        loop {
            let (late, room) = (self.requests.next_deadline(), self.has_room());
            tokio::select! {
                biased;
                done = &mut something => return Ok(done),
                command = self.commands.recv(), if room => self.take(command, None)?,
                () = sleep_until(late.unwrap_or_else(Instant::now)), if late.is_some() => self.requests.expire(Instant::now()),
            }
        }
    }

    fn has_room(&self) -> bool {
        self.requests.pending_calls() < self.limits.pending_calls
    }

    /// Adds a command to the open requests, and sends the request if there is a link.
    fn take(&mut self, command: Option<Command>, link: Option<&mut Link>) -> Result<(), Closed> {
        let connected = link.is_some();
        let request = match command {
            None => return Err(Closed(None)),
            Some(Command::Close { done }) => return Err(Closed(Some(done))),
            Some(Command::Watch { stream, sender }) => {
                self.requests.watch(stream, sender, connected)
            }
            Some(Command::Unwatch { stream }) => self.requests.unwatch(&stream),
            Some(Command::Call(ask)) => {
                self.requests.call(ask, Instant::now() + self.limits.call_wait, connected)
            }
        };
        if let (Some(request), Some(link)) = (request, link) {
            link.send(&request);
        }
        Ok(())
    }

    // -- with a connection -----------------------------------------------------------------------------------------------

    /// Uses a connection until it is lost.
    async fn use_connection(&mut self, welcomed: Welcomed) -> Result<(), Closed> {
        let Welcomed { mut link, session, resumed } = welcomed;
        point!("counter.client.install", generation = self.installed + 1, conn = link.id()).await;
        self.install(&mut link, session, resumed);
        let since = Instant::now();
        let lost = loop {
            match self.step(&mut link).await {
                Ok(()) => {}
                Err(Over::Lost(lost)) => break lost,
                Err(Over::Closed(closed)) => {
                    link.send(&Request::Bye);
                    link.finish(CLOSE_TIMEOUT).await;
                    return Err(closed);
                }
            }
        };
        self.lost(link, lost);
        if since.elapsed() >= self.limits.back_off_max {
            self.pause = Duration::ZERO;
        }
        Ok(())
    }

    fn install(&mut self, link: &mut Link, session: SessionId, resumed: bool) {
        self.installed += 1;
        self.set(State::Connected);
        let (generation, conn) = (self.installed, link.id());
        milestone!("counter.client.connected", generation, conn);
        if resumed {
            milestone!(
                "counter.client.resumed",
                generation,
                conn,
                streams = self.requests.streams() as u64
            );
        }
        self.session = Some(session);
        self.requests.all_requests().iter().for_each(|request| link.send(request));
    }

    fn lost(&mut self, link: Link, lost: LinkError) {
        let (generation, conn) = (self.installed, link.id());
        milestone!("counter.client.lost", generation, conn, why = %lost);
        if lost == LinkError::Silent {
            milestone!("counter.client.silent", generation, conn);
            if defect!(OldNumbersDelivered) || defect!(StaleCloseDisconnects) {
                let mut stale_link = link;
                stale_link.disable_keepalive();
                self.stale_link = Some(stale_link);
            }
        }
        self.requests.connection_lost();
        match lost {
            LinkError::Malformed => {
                self.session = None;
                self.requests.fail_all(&Failure::Protocol);
            }
            _ if defect!(GivesUpAtFirstReset) => self.requests.fail_all(&Failure::ConnectionLost),
            _ => {}
        }
    }

    async fn step(&mut self, link: &mut Link) -> Result<(), Over> {
        let (late, room) = (self.requests.next_deadline(), self.has_room());
        tokio::select! {
            biased;
            received = link.next() => match received? {
                LinkEvent::Line(line) => self.on_line(&line, link),
                LinkEvent::Room => Ok(()),
            },
            command = self.commands.recv(), if room => Ok(self.take(command, Some(link))?),
            received = next_on_stale_link(&mut self.stale_link) => self.on_stale_line(received),
            () = sleep_until(late.unwrap_or_else(Instant::now)), if late.is_some() => {
                self.requests.expire(Instant::now());
                Ok(())
            }
        }
    }

    fn on_line(&mut self, line: &str, link: &mut Link) -> Result<(), Over> {
        let reply: Reply = line.parse().map_err(|_| LinkError::Malformed)?;
        let answer =
            self.requests.on_reply(reply, self.installed).map_err(|_| LinkError::Malformed)?;
        if let Some(request) = answer {
            link.send(&request);
        }
        Ok(())
    }

    /// Handles data of a connection that the client gave up, as the enabled defects do.
    fn on_stale_line(&mut self, received: Result<LinkEvent, LinkError>) -> Result<(), Over> {
        match received {
            Ok(LinkEvent::Room) => Ok(()),
            Ok(LinkEvent::Line(line)) => {
                if let (true, Ok(Reply::Number { stream, index, value })) =
                    (defect!(OldNumbersDelivered), line.parse())
                {
                    self.requests
                        .deliver(&stream, Number { index, value, generation: self.installed });
                }
                Ok(())
            }
            Err(lost) => {
                self.stale_link = None;
                if defect!(StaleCloseDisconnects) { Err(lost.into()) } else { Ok(()) }
            }
        }
    }
}

/// The reason why a connection is no longer used.
enum Over {
    Lost(LinkError),
    Closed(Closed),
}

impl From<LinkError> for Over {
    fn from(lost: LinkError) -> Self {
        Over::Lost(lost)
    }
}

impl From<Closed> for Over {
    fn from(closed: Closed) -> Self {
        Over::Closed(closed)
    }
}

/// Connects, sends the hello, and waits for the answer.
async fn connect(
    net: Net,
    server: Endpoint,
    hello: Request,
    liveness: Liveness,
) -> Result<Welcomed, Attempt> {
    let stream = net.connect(&server).await.map_err(|_| Attempt::Transient)?;
    let mut link = Link::new(stream, liveness);
    link.send(&hello);
    loop {
        match link.next().await {
            Ok(LinkEvent::Room) => {}
            Ok(LinkEvent::Line(line)) => {
                return match line.parse() {
                    Ok(Reply::Welcome { session, resumed }) => {
                        Ok(Welcomed { link, session, resumed })
                    }
                    Ok(Reply::Refused(why)) => Err(Attempt::Refused(why)),
                    _ => Err(Attempt::Protocol),
                };
            }
            Err(LinkError::Malformed) => return Err(Attempt::Protocol),
            Err(_) => return Err(Attempt::Transient),
        }
    }
}

/// Reads from a connection that the client gave up. Never returns if there is none.
async fn next_on_stale_link(stale_link: &mut Option<Link>) -> Result<LinkEvent, LinkError> {
    match stale_link {
        Some(link) => link.next().await,
        None => std::future::pending().await,
    }
}

//! The client end of a connection to an app-server, or to a broker in front of one.
//!
//! - [`Upstream`]: the connection. It starts the app-server as a process, or uses a stream.
//! - `core`: the connection without streams: requests, deadlines, the steps of the end.
//!   `child`: the process.
//!
//! One task owns an [`Upstream`] and receives answers and notifications as one sequence of events
//! ([`Upstream::next`]), in the order of the lines. So a notification never overtakes the answer
//! that was sent before it, and the end comes last. A request of the app-server is refused with
//! -32601. A line that is no message is an event, and the next one counts. A line that is longer than
//! the limit ends the connection. The process of the app-server always ends with its connection.

use std::collections::VecDeque;
use std::future::{pending, poll_fn};
use std::io;
use std::sync::Arc;
use std::task::Poll;

use reknit_jsonrpc::{LineLimits, Lines};
use reknit_seams::Env;
use reknit_seams::net::Stream;
use reknit_seams::process::{Command, Stdio};
use reknit_seams::{defect, milestone};
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep_until};

use crate::limits::ConnectionLimits;
use crate::wire::{ClientInfo, InitializeAnswer, InitializeParams, method};

mod child;
mod core;
mod defects;
mod end;
#[cfg(test)]
mod tests;

pub use self::core::{NotConnected, RequestFailure, RequestNumber, UpstreamEvent};
pub use end::{EndReason, UpstreamEnd};

use self::core::{Step, UpstreamCore};
use child::ChildProcess;

/// How many events may wait while [`Upstream::call`] waits for an answer.
const MOST_WAITING: usize = 4096;

/// A connection to an app-server. Dropping it kills the process of the app-server, if it is one of
/// this connection.
pub struct Upstream {
    core: UpstreamCore,
    lines: Lines,
    child: Option<ChildProcess>,
    /// Events that arrived while [`Upstream::call`] waited for another one.
    waiting: VecDeque<UpstreamEvent>,
}

impl Upstream {
    /// Starts an app-server and speaks with it over its standard streams. `command` needs no
    /// `stdio`.
    ///
    /// # Errors
    /// The errors of [`Launch::launch`](reknit_seams::process::Launch::launch).
    pub async fn launch(env: &Env, command: Command, limits: ConnectionLimits) -> io::Result<Self> {
        let command = Command { stdio: Stdio::Pipes { stdin: true }, ..command };
        let mut child = env.launch.launch(&command).await?;
        let (Some(stdin), Some(stdout)) = (child.stdin(), child.stdout()) else {
            return Err(io::Error::other("the process has no standard streams"));
        };
        milestone!("turn.upstream.launched", pid = child.pid());
        Ok(Self {
            core: UpstreamCore::new(limits, true),
            lines: Lines::new(stdout, stdin, lines(limits)),
            child: Some(ChildProcess::new(child, limits.stderr_bytes)),
            waiting: VecDeque::new(),
        })
    }

    /// Speaks with an app-server, or with a broker, over a connection.
    pub fn over(stream: Stream, limits: ConnectionLimits) -> Self {
        milestone!("turn.upstream.connected", conn = stream.id().0);
        Self {
            core: UpstreamCore::new(limits, false),
            lines: Lines::of(stream, lines(limits)),
            child: None,
            waiting: VecDeque::new(),
        }
    }

    /// Sends a request. [`UpstreamEvent::Answered`] follows, at the latest after
    /// `limits.request`.
    ///
    /// # Errors
    /// [`NotConnected`] if the connection has ended, or is about to.
    pub fn request(
        &mut self,
        method: &str,
        params: Option<Box<RawValue>>,
    ) -> Result<RequestNumber, NotConnected> {
        self.core.request(method, params, Instant::now())
    }

    /// Sends a notification. After the end of the connection, it is dropped.
    pub fn notify(&mut self, method: &str, params: Option<Box<RawValue>>) {
        self.core.notify(method, params);
    }

    /// Sends a request and waits for its answer. [`Upstream::next`] returns the other events later,
    /// in their order.
    ///
    /// # Errors
    /// [`RequestFailure`].
    pub async fn call(
        &mut self,
        method: &str,
        params: Option<Box<RawValue>>,
    ) -> Result<Box<RawValue>, RequestFailure> {
        let sent = self.request(method, params).ok();
        loop {
            match self.receive().await {
                UpstreamEvent::Answered { number, outcome } if Some(number) == sent => {
                    return outcome;
                }
                UpstreamEvent::Ended(end) => return Err(RequestFailure::Ended(end)),
                event => self.waiting.push_back(event),
            }
            if self.waiting.len() > MOST_WAITING {
                self.core.end(EndReason::Flooded, Instant::now());
            }
        }
    }

    /// Opens the conversation with a server. Must be done once for each connection, before all else.
    ///
    /// # Errors
    /// [`RequestFailure`].
    pub async fn initialize(
        &mut self,
        client: ClientInfo,
    ) -> Result<InitializeAnswer, RequestFailure> {
        let params = serde_json::value::to_raw_value(&InitializeParams::new(client))
            .expect("the parameters are plain data");
        let answer = self.call(method::INITIALIZE, Some(params)).await?;
        self.notify(method::INITIALIZED, None);
        Ok(serde_json::from_str(answer.get()).unwrap_or_default())
    }

    /// Waits for the next event; meanwhile it writes. After [`UpstreamEvent::Ended`], it returns the
    /// same end again. Cancellation safe: dropping the future loses nothing.
    pub async fn next(&mut self) -> UpstreamEvent {
        match self.waiting.pop_front() {
            Some(event) => event,
            None => self.receive().await,
        }
    }

    /// Starts to close the connection: the input of the app-server ends. If it does not end within
    /// `limits.close`, it gets SIGTERM, and after `limits.terminate` SIGKILL.
    /// [`UpstreamEvent::Ended`] follows in any case, after what the app-server still sends.
    pub fn close(&mut self) {
        self.core.end(EndReason::Asked, Instant::now());
    }

    /// Closes the connection and waits for its end, in bounded time.
    pub async fn finish(mut self) -> Arc<UpstreamEnd> {
        self.close();
        loop {
            if let UpstreamEvent::Ended(end) = self.receive().await {
                return end;
            }
        }
    }

    async fn receive(&mut self) -> UpstreamEvent {
        loop {
            self.core.catch_up(Instant::now());
            self.carry_out();
            if self.core.is_over() {
                let stderr = self.child.as_ref().map(ChildProcess::stderr).unwrap_or_default();
                self.core.finish(stderr);
            }
            if let Some(event) = self.core.event() {
                return event;
            }
            if let Some(end) = self.core.ended() {
                return UpstreamEvent::Ended(end);
            }
            self.wait().await;
        }
    }

    /// Writes the core's messages and carries out its steps.
    fn carry_out(&mut self) {
        while let Some(message) = self.core.pull() {
            self.lines.send(&message);
        }
        while let Some(step) = self.core.step() {
            match (step, &mut self.child) {
                (Step::EndInput, _) => self.lines.end_output(),
                (Step::Signal(number), Some(child)) => child.signal(number),
                (Step::Signal(_), None) => {}
            }
        }
    }

    /// Waits for one input of the core.
    async fn wait(&mut self) {
        let Self { core, lines, child, .. } = self;
        if defect!(ExitBeforeTheLastLines) && defects::overtakes(core, child).await {
            return;
        }
        let (reads, due) = (core.reads(), core.due());
        // A process that has ended wrote its last lines before: they can be read without waiting.
        // Later lines come from other processes that hold its output.
        let (has_ended, drains) = (core.has_ended(), child.is_some() && core.has_ended());
        let next = poll_fn(|cx| match lines.poll_next(cx) {
            _ if !reads => Poll::Pending, // only written
            Poll::Pending if drains => Poll::Ready(None),
            polled => polled.map(Some),
        });
        let exit = async {
            match child {
                Some(child) if !has_ended => child.exit().await,
                _ => pending().await,
            }
        };
        tokio::select! {
            biased;
            line = next => match line {
                Some(line) => core.on_line(line, Instant::now()),
                None => core.drained(),
            },
            exit = exit => core.exited(exit, Instant::now()),
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
        }
    }
}

fn lines(limits: ConnectionLimits) -> LineLimits {
    LineLimits {
        line_bytes: limits.line_bytes,
        outbox_bytes: limits.outbox_bytes,
        write_deadline: limits.write,
    }
}

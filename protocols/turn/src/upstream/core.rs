//! The connection to an app-server without streams: requests and their deadlines, the order of what
//! is received, and the steps of the end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use reknit_jsonrpc::{ErrorBody, LineError, LineEvent, Message, RequestId};
use reknit_seams::process::{Exit, KILL, TERMINATE};
use reknit_seams::{defect, milestone};
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::end::{EndReason, UpstreamEnd};
use crate::limits::ConnectionLimits;
use crate::wire::code;

/// How many requests without an answer the connection remembers after their deadline.
const MOST_LATE: usize = 1024;

/// The number of a request on one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestNumber(u64);

#[cfg(test)]
impl RequestNumber {
    pub(crate) fn of(number: u64) -> Self {
        Self(number)
    }
}

/// A request cannot be sent, because the connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the connection to the app-server has ended")]
pub struct NotConnected;

/// The reason why a request has no result.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RequestFailure {
    /// The app-server refused it.
    #[error("{} (code {})", .0.message, .0.code)]
    Refused(ErrorBody),
    /// The app-server did not answer in time.
    #[error("no answer in time")]
    Deadline,
    /// The connection ended first.
    #[error("{0}")]
    Ended(Arc<UpstreamEnd>),
}

/// An event on the connection. Events come in the order in which the app-server sent the lines.
#[derive(Clone, Debug)]
pub enum UpstreamEvent {
    /// A request is over.
    Answered {
        /// The request.
        number: RequestNumber,
        /// Its result.
        outcome: Result<Box<RawValue>, RequestFailure>,
    },
    /// The app-server answered a request after its deadline, with a result.
    Late {
        /// The request.
        number: RequestNumber,
        /// Its result.
        result: Box<RawValue>,
    },
    /// A notification.
    Notification {
        /// The method.
        method: String,
        /// The parameters.
        params: Option<Box<RawValue>>,
    },
    /// A line came that is no message. It may have been any notification, or an answer. A line that is
    /// longer than the limit ends the connection instead.
    Unreadable {
        /// The reason why it is no message.
        why: String,
    },
    /// The connection is over. This is the last event, after everything that was received.
    Ended(Arc<UpstreamEnd>),
}

/// An action of the driver for the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// End the input of the app-server.
    EndInput,
    /// Send a signal to the app-server.
    Signal(i32),
}

/// How far the connection is.
enum State {
    Open,
    /// The connection ends, for this reason. The app-server gets the next signal at `until`.
    Ending {
        reason: EndReason,
        until: Instant,
        next: Option<i32>,
    },
    Ended(Arc<UpstreamEnd>),
}

/// The state machine of a connection to an app-server, or to a broker.
pub struct UpstreamCore {
    limits: ConnectionLimits,
    /// Whether a process of this connection must end, too.
    has_child: bool,
    exit: Option<Exit>,
    /// Whether the input of this end is over.
    read_all: bool,
    state: State,
    last: u64,
    /// The requests without an answer, with their deadlines.
    pending: BTreeMap<u64, Instant>,
    late: BTreeSet<u64>,
    outbox: VecDeque<Message>,
    events: VecDeque<UpstreamEvent>,
    steps: VecDeque<Step>,
}

impl UpstreamCore {
    /// Creates a connection; `has_child` if the app-server is a process of this connection.
    pub(super) fn new(limits: ConnectionLimits, has_child: bool) -> Self {
        Self {
            limits,
            has_child,
            exit: None,
            read_all: false,
            state: State::Open,
            last: 0,
            pending: BTreeMap::new(),
            late: BTreeSet::new(),
            outbox: VecDeque::new(),
            events: VecDeque::new(),
            steps: VecDeque::new(),
        }
    }

    pub(super) fn request(
        &mut self,
        method: &str,
        params: Option<Box<RawValue>>,
        now: Instant,
    ) -> Result<RequestNumber, NotConnected> {
        // The bug: the number of a request that was not answered in time is used again.
        if let Some(late) = self.late.first()
            && defect!(LateNumbersAreUsedAgain)
        {
            self.last = late - 1;
        }
        self.last += 1;
        if !matches!(self.state, State::Open) {
            // The bug: the flag is set by `close` alone, so a request after a crash waits forever.
            let waits = defect!(RequestAfterTheEnd);
            return waits.then_some(RequestNumber(self.last)).ok_or(NotConnected);
        }
        self.pending.insert(self.last, now + self.limits.request);
        self.outbox.push_back(Message::Request {
            id: RequestId::Number(self.last as i64),
            method: method.to_owned(),
            params,
        });
        Ok(RequestNumber(self.last))
    }

    pub(super) fn notify(&mut self, method: &str, params: Option<Box<RawValue>>) {
        if matches!(self.state, State::Open) {
            self.outbox.push_back(Message::Notification { method: method.to_owned(), params });
        }
    }

    /// Starts the end of the connection. Only the first reason counts.
    pub(super) fn end(&mut self, reason: EndReason, now: Instant) {
        if matches!(self.state, State::Open) {
            let next = self.has_child.then_some(TERMINATE);
            // The bug: SIGTERM comes with the end of the input.
            let is_hurried = self.has_child && defect!(InputEndsAreHurried);
            let until = if is_hurried { now } else { now + self.limits.close };
            self.state = State::Ending { reason, until, next };
            self.steps.push_back(Step::EndInput);
        }
    }

    /// Handles what the stream of lines reports.
    pub(super) fn on_line(&mut self, line: Result<LineEvent, LineError>, now: Instant) {
        match line {
            Ok(LineEvent::Message(message)) if self.delivers() => self.on_message(message),
            Ok(LineEvent::Message(_) | LineEvent::Room) => {}
            // The bug: any line that is no message ends the connection.
            Ok(LineEvent::Malformed(malformed)) if !defect!(BadLineLeavesTheChild) => {
                if self.delivers() {
                    self.events.push_back(UpstreamEvent::Unreadable { why: malformed.0 });
                }
            }
            Ok(LineEvent::Malformed(_) | LineEvent::TooLong) => {
                self.end(EndReason::TooLong(self.limits.line_bytes), now);
            }
            Err(LineError::Closed) => {
                self.read_all = true;
                self.end(EndReason::Closed, now);
            }
            // A process that does not read its input any more usually ends in this moment.
            Err(LineError::Broken(_)) if self.has_child => self.end(EndReason::Closed, now),
            Err(LineError::Broken(kind)) => {
                self.read_all = true;
                self.end(EndReason::Broken(kind), now);
            }
            Err(LineError::Stuck) => {
                self.read_all = true;
                self.end(EndReason::Stuck, now);
            }
        }
    }

    /// Whether received messages count: not after a line that was too long.
    fn delivers(&self) -> bool {
        match &self.state {
            State::Open => true,
            State::Ending { reason, .. } => reason.was_readable(),
            State::Ended(_) => false,
        }
    }

    fn on_message(&mut self, message: Message) {
        match message {
            Message::Notification { method, params } => {
                self.events.push_back(UpstreamEvent::Notification { method, params });
            }
            // The bug: the app-server waits for an answer forever.
            Message::Request { .. } if defect!(QuestionsStayOpen) => {}
            Message::Request { id, method, .. } => {
                let why = format!("this client has no method `{}`", shown(&method));
                self.outbox.push_back(Message::error(id, code::UNKNOWN_METHOD, why));
            }
            Message::Response { id, result } => match self.take(&id) {
                Some((number, false)) => {
                    self.events.push_back(UpstreamEvent::Answered { number, outcome: Ok(result) });
                }
                Some((number, true)) => {
                    self.events.push_back(UpstreamEvent::Late { number, result })
                }
                None => tracing::debug!(?id, "an answer without a request"),
            },
            Message::Error { id, error } => match self.take(&id) {
                Some((number, false)) => self.fail(number.0, RequestFailure::Refused(error)),
                _ => tracing::debug!(?id, "a refusal without a request"),
            },
        }
    }

    /// Takes the request with this id, and whether its deadline has passed.
    fn take(&mut self, id: &RequestId) -> Option<(RequestNumber, bool)> {
        let RequestId::Number(number) = id else { return None };
        let number = u64::try_from(*number).ok()?;
        let in_time = self.pending.remove(&number).is_some();
        (in_time || self.late.remove(&number)).then_some((RequestNumber(number), !in_time))
    }

    fn fail(&mut self, number: u64, failure: RequestFailure) {
        let (number, outcome) = (RequestNumber(number), Err(failure));
        self.events.push_back(UpstreamEvent::Answered { number, outcome });
    }

    /// Handles that the process has ended. Its earlier output may still be unread.
    pub(super) fn exited(&mut self, exit: Option<Exit>, now: Instant) {
        self.exit = exit;
        self.has_child = false;
        self.end(EndReason::Closed, now);
    }

    /// Whether everything of the app-server is over, so that [`UpstreamCore::finish`] can be called.
    pub(super) fn is_over(&self) -> bool {
        let State::Ending { reason, .. } = &self.state else { return false };
        // The bug: the exit of the process ends the connection before its last lines are read.
        let undrained = !self.read_all && reason.was_readable() && !defect!(ExitBeforeTheLastLines);
        // The bug: the connection ends at such a line, and the process runs on.
        if !reason.was_readable() && defect!(BadLineLeavesTheChild) {
            return true;
        }
        !undrained && !self.has_child
    }

    /// Whether there may be something to read.
    pub(super) fn reads(&self) -> bool {
        !self.read_all
    }

    /// Whether the process has ended, or there is none.
    pub(super) fn has_ended(&self) -> bool {
        !self.has_child
    }

    /// Handles that nothing is left to read.
    pub(super) fn drained(&mut self) {
        self.read_all = true;
    }

    /// Ends the connection: every request without an answer fails. `stderr` is the last output of
    /// the process.
    pub(super) fn finish(&mut self, stderr: String) {
        let State::Ending { reason, .. } = &self.state else { return };
        let end = Arc::new(UpstreamEnd { reason: reason.clone(), exit: self.exit, stderr });
        milestone!("turn.upstream.ended", why = %end.reason);
        self.state = State::Ended(end.clone());
        for number in std::mem::take(&mut self.pending).into_keys() {
            self.fail(number, RequestFailure::Ended(end.clone()));
        }
        self.outbox.clear();
        self.events.push_back(UpstreamEvent::Ended(end));
    }

    /// Returns the time of the next timeout.
    pub(super) fn due(&self) -> Option<Instant> {
        // The bug: a request waits as long as the app-server likes.
        let requests = self.pending.values().copied().filter(|_| !defect!(RequestWithoutDeadline));
        let step = match &self.state {
            // The bug: the end waits for a process that may never end.
            State::Ending { .. } if defect!(CloseWithoutDeadline) => None,
            State::Ending { until, .. } => Some(*until),
            _ => None,
        };
        requests.chain(step).min()
    }

    /// Handles every timeout that has passed.
    pub(super) fn catch_up(&mut self, now: Instant) {
        let passed = |until: Instant| until <= now && !defect!(RequestWithoutDeadline);
        let over: Vec<u64> =
            self.pending.iter().filter(|(_, until)| passed(**until)).map(|(n, _)| *n).collect();
        for number in over {
            self.pending.remove(&number);
            self.late.insert(number);
            if self.late.len() > MOST_LATE {
                self.late.pop_first();
            }
            self.fail(number, RequestFailure::Deadline);
        }
        self.escalate(now);
    }

    /// Takes the next step towards the end, if it is time.
    fn escalate(&mut self, now: Instant) {
        let State::Ending { until, next, .. } = &mut self.state else { return };
        if *until > now || defect!(CloseWithoutDeadline) {
            return;
        }
        *until = now + self.limits.terminate;
        match *next {
            Some(signal) => {
                milestone!("turn.upstream.signalled", signal);
                self.steps.push_back(Step::Signal(signal));
                *next = (signal == TERMINATE).then_some(KILL);
            }
            // The peer does not end, or the system cannot end the process: the connection is over.
            None => {
                self.has_child = false;
                self.read_all = true;
            }
        }
    }

    /// Returns the next message to write.
    pub(super) fn pull(&mut self) -> Option<Message> {
        self.outbox.pop_front()
    }

    /// Returns the next step of the driver.
    pub(super) fn step(&mut self) -> Option<Step> {
        self.steps.pop_front()
    }

    /// Returns the next event.
    pub(super) fn event(&mut self) -> Option<UpstreamEvent> {
        self.events.pop_front()
    }

    /// Returns how the connection ended, if it has.
    pub(super) fn ended(&self) -> Option<Arc<UpstreamEnd>> {
        match &self.state {
            State::Ended(end) => Some(end.clone()),
            _ => None,
        }
    }
}

/// Shortens a name of the peer for a message.
fn shown(name: &str) -> String {
    name.chars().take(64).collect()
}

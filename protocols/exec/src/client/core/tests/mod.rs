//! Tests that drive the core directly: reports and commands are inputs, effects are outputs, and
//! each test controls the time.

use reknit_jsonrpc::LinkError;
use reknit_seams::Env;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::*;
use crate::client::command::{Key, RetryPolicy};
use crate::client::log::{Event, Log, LogLimits};
use crate::wire::process::ReadParams;
use crate::wire::{RequestId, code};

mod calls;
mod events;
mod flow;
mod merging;
mod pages;
mod recovery;
mod starts;

pub(super) type Answer = oneshot::Receiver<Result<Box<serde_json::value::RawValue>, Failure>>;

/// A core and its environment.
pub(super) struct CoreTest {
    pub(super) core: Core,
    pub(super) now: Instant,
    pub(super) state: watch::Receiver<State>,
    /// The sent messages that the test has not examined yet.
    sent: VecDeque<Message>,
    /// The core's current connection.
    pub(super) wire: Option<Generation>,
    /// How many connections the core has opened.
    pub(super) opened: u64,
    /// Whether a connection is still alive when the core installs it.
    pub(super) alive: bool,
    serials: u64,
}

/// A test's handle of a process.
pub(super) struct ObservedProcess {
    pub(super) key: Key,
    pub(super) log: Arc<Log>,
}

impl ObservedProcess {
    /// Renders its events in short form: `1=a 2=exit(7) 3=closed`.
    pub(super) fn events_text(&self) -> String {
        let events = self.log.events().into_iter().map(|event| match event {
            Event::Output { seq, bytes, .. } => {
                format!("{seq}={}", String::from_utf8_lossy(&bytes))
            }
            Event::Exited { seq, code, .. } => format!("{seq}=exit({code})"),
            Event::Closed { seq, .. } => format!("{seq}=closed"),
            Event::Failed(failure) => format!("failed: {failure}"),
        });
        events.collect::<Vec<_>>().join(" ")
    }
}

pub(super) fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// The recovery deadline of a core with default limits.
pub(super) fn deadline() -> Duration {
    ClientLimits::default().recovery_deadline
}

impl CoreTest {
    pub(super) fn with(limits: ClientLimits) -> Self {
        let (sender, state) = watch::channel(State::Recovering);
        let now = Instant::now();
        let core = Core::new(limits, Env::real().entropy, sender, now);
        let sent = VecDeque::new();
        let mut test =
            Self { core, now, state, sent, wire: None, opened: 0, alive: true, serials: 0 };
        test.carry_out();
        test
    }

    pub(super) fn new() -> Self {
        Self::with(ClientLimits::default())
    }

    /// Creates a core that is connected to the session `s`.
    pub(super) fn connected() -> Self {
        let mut test = Self::new();
        test.complete_handshake();
        test
    }

    /// Creates a connected core with running processes.
    pub(super) fn running<const N: usize>(ids: [&str; N]) -> (Self, [ObservedProcess; N]) {
        let mut test = Self::connected();
        let seen = ids.map(|id| test.started(id));
        (test, seen)
    }

    pub(super) fn carry_out(&mut self) {
        while let Some(effect) = self.core.effect() {
            match effect {
                Effect::Open(generation) => {
                    self.opened += 1;
                    self.wire = Some(generation);
                }
                Effect::Send(generation, message) => {
                    assert_eq!(
                        Some(generation),
                        self.wire,
                        "nothing is sent over an older connection"
                    );
                    self.sent.push_back(message);
                }
                Effect::Close(generation) => {
                    assert_eq!(Some(generation), self.wire.take());
                    self.sent.clear();
                }
                Effect::Install(generation) => self.core.install(generation, self.alive, self.now),
            }
        }
    }

    // -- time -------------------------------------------------------------------------------------

    /// Advances the time, and wakes the core whenever it is due.
    pub(super) fn advance(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(due) = self.core.due().filter(|due| *due <= end) {
            let before = self.now;
            self.now = self.now.max(due);
            self.core.wake(self.now);
            self.carry_out();
            assert!(
                self.now > before || self.core.due() != Some(due),
                "it asks to be woken, and does nothing"
            );
        }
        self.now = end;
    }

    // -- the server -------------------------------------------------------------------------------

    pub(super) fn on_report_from(&mut self, generation: Generation, report: Report) {
        self.core.on_report(generation, report, self.now);
        self.carry_out();
    }

    pub(super) fn on_report(&mut self, report: Report) {
        self.on_report_from(self.wire.expect("there is a connection"), report);
    }

    /// Reports that the connection is open.
    pub(super) fn open(&mut self) {
        self.on_report(Report::Opened { conn: 7 });
    }

    /// Reports the end of the connection after it has lived for a while.
    pub(super) fn cut(&mut self) {
        self.advance(millis(1000));
        self.on_report(Report::Over(CloseReason::FoundDead));
    }

    /// The same, with this error of the connection.
    pub(super) fn cut_by(&mut self, error: LinkError) {
        self.advance(millis(1000));
        self.on_report(Report::Over(CloseReason::Lost(error)));
    }

    /// Takes the next sent message, which must be a request of this method. Returns its id and its
    /// parameters.
    pub(super) fn expect_request(&mut self, method: &str) -> (RequestId, Value) {
        match self.sent.pop_front() {
            Some(Message::Request { id, method: sent, params }) if sent == method => {
                (id, serde_json::from_str(params.expect("it has some").get()).unwrap())
            }
            other => panic!("{method} expected, not {other:?}"),
        }
    }

    /// Whether no sent message is left to examine.
    pub(super) fn nothing_sent(&self) -> bool {
        self.sent.is_empty()
    }

    pub(super) fn reply(&mut self, id: RequestId, result: &Value) {
        self.on_report(Report::Message(Message::response(id, result)));
    }

    pub(super) fn refuse(&mut self, id: RequestId, code: i64, message: &str) {
        self.on_report(Report::Message(Message::error(id, code, message)));
    }

    /// Opens the connection and answers the handshake, but not the catch-up reads.
    pub(super) fn complete_handshake(&mut self) {
        self.complete_handshake_with(&json!({ "sessionId": "s" }));
    }

    /// The same, with this answer.
    pub(super) fn complete_handshake_with(&mut self, answer: &Value) {
        self.open();
        let (id, _) = self.expect_request("initialize");
        self.reply(id, answer);
        let outgoing = self.sent.pop_front();
        assert!(
            matches!(outgoing, Some(Message::Notification { method, .. }) if method == "initialized")
        );
    }

    pub(super) fn notification(note: &str, params: &Value) -> Report {
        Report::Message(Message::notification(note, params))
    }

    pub(super) fn output(id: &str, seq: u64, text: &str) -> Report {
        let chunk = crate::wire::Base64(bytes::Bytes::copy_from_slice(text.as_bytes()));
        Self::notification(
            "process/output",
            &json!({ "processId": id, "seq": seq, "stream": "stdout", "chunk": chunk }),
        )
    }

    pub(super) fn exited(id: &str, seq: u64, code: i32) -> Report {
        Self::notification(
            "process/exited",
            &json!({ "processId": id, "seq": seq, "exitCode": code }),
        )
    }

    pub(super) fn closed(id: &str, seq: u64) -> Report {
        Self::notification("process/closed", &json!({ "processId": id, "seq": seq }))
    }

    /// Takes the next sent message, which must be a read of this process after this event.
    pub(super) fn expect_read(&mut self, process: &str, after: u64) -> RequestId {
        let (id, params) = self.expect_request("process/read");
        assert_eq!(params, json!({ "processId": process, "afterSeq": after }));
        id
    }

    /// Takes the next sent message, which must be a read of a page of this process.
    pub(super) fn expect_page(&mut self, process: &str, after: u64, bytes: u64) -> RequestId {
        let (id, params) = self.expect_request("process/read");
        assert_eq!(params, json!({ "processId": process, "afterSeq": after, "maxBytes": bytes }));
        id
    }

    // -- the user ---------------------------------------------------------------------------------

    pub(super) fn request(
        &mut self,
        kind: RetryPolicy,
        method: &'static str,
        process: Option<&ObservedProcess>,
    ) -> Answer {
        self.request_with(kind, method, process, &json!({ "of": "the user" }))
    }

    /// The same, with these parameters.
    pub(super) fn request_with(
        &mut self,
        kind: RetryPolicy,
        method: &'static str,
        process: Option<&ObservedProcess>,
        params: &impl serde::Serialize,
    ) -> Answer {
        let (answer, answered) = oneshot::channel();
        let params = serde_json::value::to_raw_value(params).unwrap();
        let process = process.map(|seen| (seen.key.clone(), seen.log.clone()));
        let until = self.now + self.core.limits.call_wait;
        let call = Call::new(kind, method, params, process, until, answer);
        self.command(Command::Call(call));
        answered
    }

    /// Makes a read of a process that may wait for `wait`.
    pub(super) fn request_read(&mut self, process: &ObservedProcess, wait: Duration) -> Answer {
        let (answer, answered) = oneshot::channel();
        let params = ReadParams {
            process_id: process.key.id.to_string(),
            wait_ms: u64::try_from(wait.as_millis()).ok(),
            ..ReadParams::default()
        };
        let params = serde_json::value::to_raw_value(&params).unwrap();
        let until = self.now + self.core.limits.call_wait + wait;
        let process = Some((process.key.clone(), process.log.clone()));
        let call = Call::new(RetryPolicy::Read, "process/read", params, process, until, answer);
        self.command(Command::Call(call));
        answered
    }

    pub(super) fn command(&mut self, command: Command) {
        assert!(self.core.on_command(command, self.now).is_none());
        self.carry_out();
    }

    /// Requests the start of a process.
    pub(super) fn start(&mut self, id: &str) -> (ObservedProcess, Answer) {
        self.serials += 1;
        let room =
            LogLimits { events: self.core.limits.log_events, bytes: self.core.limits.log_bytes };
        let seen = ObservedProcess {
            key: Key { id: id.into(), serial: self.serials },
            log: Arc::new(Log::new(room, || {})),
        };
        let answer = self.request(RetryPolicy::Start, "process/start", Some(&seen));
        (seen, answer)
    }

    /// Requests the start of a process and answers the request.
    pub(super) fn started(&mut self, id: &str) -> ObservedProcess {
        let (seen, mut answer) = self.start(id);
        let (request, _) = self.expect_request("process/start");
        self.reply(request, &json!({ "processId": id }));
        assert!(answer.try_recv().unwrap().is_ok());
        seen
    }

    pub(super) fn state(&self) -> State {
        *self.state.borrow()
    }
}

/// Returns the outcome of a call, or `None` if it is pending.
pub(super) fn ended(answer: &mut Answer) -> Option<Result<String, Failure>> {
    answer.try_recv().ok().map(|outcome| outcome.map(|result| result.get().to_owned()))
}

/// Creates the answer to a read, with chunks as `(seq, text)`.
pub(super) fn answer(
    chunks: &[(u64, &str)],
    next_seq: u64,
    exit: Option<i32>,
    closed: bool,
) -> Value {
    let chunk = |&(seq, text): &(u64, &str)| {
        let bytes = crate::wire::Base64(bytes::Bytes::copy_from_slice(text.as_bytes()));
        json!({ "seq": seq, "stream": "stdout", "chunk": bytes })
    };
    let chunks: Vec<Value> = chunks.iter().map(chunk).collect();
    json!({ "chunks": chunks, "nextSeq": next_seq, "exited": exit.is_some(), "exitCode": exit, "closed": closed })
}

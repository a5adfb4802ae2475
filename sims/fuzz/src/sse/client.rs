//! A real client, its user, and a hostile server.
//!
//! These invariants hold for all bytes of the hostile server:
//! - no code panics, and everything that the client sends is a valid request: it continues from what the
//!   user has, with a higher attempt each time, and repeats a start only if that is safe;
//! - the client does not connect too often;
//! - it takes only a bounded number of bytes that do not end;
//! - the user receives only events that the server sent, in order. The only gaps are those that the server
//!   reported; for an execd, also those that it left out;
//! - a follower is complete only after the ending, or if it began there; it gives up only after a refusal
//!   that is final, or without progress for the whole budget; and an end is final;
//! - when the server is of no use any more, the follower ends within its budget, and each short request in
//!   its time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use arbitrary::Arbitrary;
use reknit_seams::net::Endpoint;
use reknit_seams::process::Unsupported;
use reknit_sse::client::{Client, ClientConfig, Dialect, Failure};
use reknit_sse::limits::ClientLimits;
use reknit_sse::wire::{Cursor, RunCommand};
use tokio::time::sleep;

use super::door::Door;
use super::event::{Dress, ID, Line, RUN};
use super::host::{Answer, Host, Ledger};
use super::user::SseUser;
use crate::script::{Number, Pause, Rarely, SendOptions, Steps, Times};
use crate::stage::{Memory, env, must, run};

/// The actions of a hostile server, and of the client's user.
#[derive(Arbitrary, Debug)]
pub struct SseClientScript {
    /// Whether the client's limits are tight.
    tight: bool,
    /// Whether the client takes its server for an execd.
    execd: Rarely<()>,
    /// Whether the user waits for the start before it reads.
    waits_for_start: Rarely<()>,
    /// The stream that the user follows.
    follows: Follows,
    /// The last action of the server.
    end: End,
    /// The steps, in order.
    steps: Steps<Step>,
}

/// The stream that the user follows.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Follows {
    /// A command that it starts; in the background, if `true`.
    Start(Rarely<bool>),
    /// A command that runs, from this position.
    Known { after: Rarely<Number>, run: bool },
}

/// A step. A number of a connection counts from the newest.
#[derive(Arbitrary, Debug)]
enum Step {
    /// The server answers a request; usually correctly.
    Answers(Rarely<u8>, Option<Answer>),
    /// The server sends an event this many times.
    Sends(Rarely<u8>, Line, Dress, SendOptions, Times),
    /// The server sends bytes without an end.
    Floods(Rarely<u8>),
    /// A connection ends; with `true`, properly.
    Ends(Rarely<u8>, bool),
    /// The server refuses connections from now on, or accepts them.
    Refuses(Rarely<()>),
    /// The server stays silent for a while.
    Pauses(Pause),
    /// The user stops or resumes waiting.
    Reads(Rarely<()>),
    /// The user sends a short request.
    Asks(u8),
}

/// The last action of the server.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum End {
    Gone,
    AcceptsAndCloses,
    AnswersAndCloses,
    NeverAnswers,
    /// It leaves all connections open.
    StreamsNothing,
}

/// More than the budget of a follower, plus twice the time in which it notices a dead stream: the current one,
/// and one that begins at the end of the budget.
const PATIENCE: Duration = Duration::from_secs(81);

/// How many bytes a server tries to send without an end.
const FLOOD: usize = 200 << 10;

/// How many of them a client with tight limits takes at most: the body of a refusal has 64 KiB, and the rest
/// is in buffers.
const TAKEN: usize = 100 << 10;

/// Runs the script, and checks all invariants.
pub fn holds(script: &SseClientScript) {
    run(async {
        let mut test = ClientTest::new(script);
        for step in &script.steps.0 {
            test.step(step).await;
            test.requests_are_right();
        }
        test.is_left_alone(script.end).await;
        test.requests_are_right();
        test.judge();
    });
}

/// The client, and the server that it connects to.
struct ClientTest {
    tight: bool,
    dialect: Dialect,
    /// The position from which the user follows.
    from: u64,
    budget: Duration,
    user: SseUser,
    host: Host,
    ledger: Arc<Mutex<Ledger>>,
    /// The requests that were checked.
    checked: usize,
    attempt: u64,
}

impl ClientTest {
    fn new(script: &SseClientScript) -> Self {
        let net = Memory::new();
        let ledger = Arc::<Mutex<Ledger>>::default();
        let host = Host::new(net.clone(), ledger.clone());
        let dialect = if script.execd.0.is_some() { Dialect::Execd } else { Dialect::Reknit };
        let limits = ClientLimits::default();
        let limits = if script.tight {
            ClientLimits { frame_bytes: 300, answer_bytes: 200, read_buffer: 8192, ..limits }
        } else {
            limits
        };
        let config = ClientConfig { dialect, ..ClientConfig::default() };
        let env = env(Door::new(net), Arc::new(Unsupported));
        let client = Client::new(&env, Endpoint::tcp("server", 80), config, limits);
        let follower = match script.follows {
            Follows::Start(background) => {
                let background = background.0 == Some(true);
                let request = RunCommand { background, ..RunCommand::shell("run") };
                client.run(request).expect("the request is valid")
            }
            Follows::Known { after, run } => {
                let after = after.0.map_or(0, Number::value);
                let cursor = Cursor { epoch: run.then_some(RUN), after };
                client.follow(ID.parse().expect("it is an id"), cursor)
            }
        };
        let from = follower.cursor();
        let waits = script.waits_for_start.0.is_some();
        let user = SseUser::new(client, follower, dialect, waits, ledger.clone());
        let (checked, attempt, from) = (0, 0, from.after);
        Self {
            tight: script.tight,
            dialect,
            from,
            budget: limits.budget,
            user,
            host,
            ledger,
            checked,
            attempt,
        }
    }

    async fn step(&mut self, step: &Step) {
        match step {
            Step::Answers(n, answer) => self.host.answer(n, answer.as_ref()).await,
            Step::Sends(n, line, dress, manner, times) => {
                for _ in 0..times.count() {
                    self.host.send(n, line, *dress, manner).await;
                }
            }
            Step::Floods(n) => {
                let taken = self.host.flood(n, FLOOD).await;
                assert!(!self.tight || taken <= TAKEN, "the client took {taken} bytes");
            }
            Step::Ends(n, cleanly) => self.host.end(n, *cleanly).await,
            Step::Refuses(refuses) => self.host.refuse(refuses.0.is_some()),
            Step::Pauses(pause) => sleep(pause.duration()).await,
            Step::Reads(stops) => self.user.read(stops.0.is_none()),
            Step::Asks(kind) => self.user.ask(*kind),
        }
        // By then, both ends have done everything that they can do at once.
        sleep(Duration::from_millis(1)).await;
    }

    /// Checks the requests for streams since the last check.
    fn requests_are_right(&mut self) {
        let ledger = self.ledger.lock().expect("the client is right");
        let first = ledger.asked.iter().find(|request| request.method == "POST");
        for (n, request) in ledger.asked.iter().enumerate().skip(self.checked) {
            if request.method == "POST" {
                let command = RunCommand::from_json(&request.body).expect("a start is valid");
                assert_eq!(Some(&request.body), first.map(|first| &first.body), "another start");
                assert!(self.dialect == Dialect::Reknit || n == 0, "a start that is not safe");
                let has_id = command.operation_id.is_some();
                assert_eq!(has_id, self.dialect == Dialect::Reknit, "the id of a start");
                // The server may have missed the first one.
                let has_age = request.header("x-reknit-repeats").is_some();
                assert!(has_age || n == 0, "a repeated start has an age");
            }
            if self.dialect == Dialect::Execd {
                let is_new = |(name, _): &(String, String)| name.starts_with("x-reknit");
                assert!(!request.headers.iter().any(is_new), "execd does not know this");
                continue;
            }
            let owner = request.header("x-reknit-owner").and_then(|owner| owner.rsplit_once('.'));
            let attempt = owner.and_then(|(_, attempt)| attempt.parse().ok()).expect("an attempt");
            // A server asks for the age of a start again with 425.
            let is_asked = ledger.unknown || ledger.statuses.iter().any(|(sent, _)| *sent == 425);
            let is_again = attempt == self.attempt && request.method == "POST" && is_asked;
            let is_right = attempt > self.attempt || is_again;
            assert!(is_right, "attempt {attempt} follows {}", self.attempt);
            self.attempt = attempt;
        }
        self.checked = ledger.asked.len();
    }

    /// The server is of no use from now on. Checks that the client gives up.
    async fn is_left_alone(&mut self, end: End) {
        // An execd that is silent is not dead.
        let end = if self.dialect == Dialect::Execd { End::Gone } else { end };
        self.user.read(true);
        self.host.refuse(matches!(end, End::Gone));
        if !matches!(end, End::StreamsNothing) {
            self.host.drop_all();
        }
        let Self { host, user, .. } = self;
        let is_done = must("the client's end", PATIENCE, user.is_done());
        let (answers, closes) = match end {
            End::Gone | End::AcceptsAndCloses => (false, true),
            End::AnswersAndCloses => (true, true),
            End::NeverAnswers => (false, false),
            End::StreamsNothing => (true, false),
        };
        tokio::select! {
            () = is_done => {}
            () = host.go_on(answers, closes) => unreachable!("connections arrive"),
        }
    }

    /// Checks how the follower ended.
    fn judge(&self) {
        let held = self.user.held().clone();
        let verdict = held.verdict.expect("it has ended");
        let statuses = self.host.statuses();
        let sent = |status: u16| {
            statuses.as_ref().is_none_or(|all| all.iter().any(|(sent, _)| *sent == status))
        };
        match verdict {
            Ok(()) => {
                let began_there = self.from > 0 && !held.has_items && sent(204);
                assert!(held.has_ending || began_there, "complete without an ending");
            }
            Err(Failure::NotFound | Failure::Expired) => assert!(sent(404), "404 was not sent"),
            Err(Failure::Refused(refused)) => {
                let passes = |status| [408, 425, 502, 503, 504].contains(&status);
                let is_final =
                    |&(status, has_time): &(u16, bool)| status == refused.status && !has_time;
                let is_right = statuses.is_none_or(|all| all.iter().any(is_final));
                assert!(is_right && !passes(refused.status), "{refused} is not final");
            }
            Err(Failure::NoProgress(_)) => {
                let idle = held.verdict_at.duration_since(held.progress);
                assert!(idle >= self.budget, "it gives up after {idle:?}");
            }
            Err(_) => {}
        }
    }
}

//! Every size and deadline, with its default.

use std::time::Duration;

/// The limits of one turn, as its client follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnLimits {
    /// How long the client waits for `turn/completed` after the final answer, once no work is open.
    pub inference: Duration,
    /// How long a turn may be silent before the client interrupts it and reports a failure.
    pub idle: Duration,
    /// How long a turn may take before the client interrupts it and reports a failure.
    pub absolute: Duration,
    /// How long the client waits for something that has to follow: the end of the turn, after an
    /// error that the server does not retry, or the id of the turn, after an answer without one.
    pub follow_up: Duration,
    /// How long the client waits for the end of a turn that it interrupted for the user, or for the
    /// id of a turn that it has to interrupt.
    pub interrupt: Duration,
    /// How many notifications may wait for the answer to the start request. If there are more, the
    /// turn fails.
    pub buffered: usize,
    /// How many bytes of text the client keeps of one turn: answer, review, messages, file changes,
    /// commands, and the notifications that wait for the answer to the start request. It cuts or
    /// leaves out the rest, and reports that. If the notifications are more, the turn fails.
    pub text_bytes: usize,
    /// How many threads one turn may own, its subagents included. If there are more, the client
    /// infers no end: only `turn/completed` completes the turn.
    pub threads: usize,
    /// How many items of the turn may be open at once. If there are more, the client infers no end.
    pub open_items: usize,
    /// How many lines without a readable message the client skips. If there are more, the turn fails.
    pub unreadable: usize,
}

impl Default for TurnLimits {
    fn default() -> Self {
        Self {
            inference: Duration::from_millis(250),
            idle: Duration::from_secs(600),
            absolute: Duration::from_secs(1800),
            follow_up: Duration::from_secs(10),
            interrupt: Duration::from_secs(10),
            buffered: 4096,
            text_bytes: 16 << 20,
            threads: 256,
            open_items: 4096,
            unreadable: 16,
        }
    }
}

/// The limits of a connection to an app-server or to a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// The longest line in bytes. A peer that sends a longer one loses the connection.
    pub line_bytes: usize,
    /// How many bytes may wait to be written to a peer that reads slowly. Beyond that, the
    /// connection ends.
    pub outbox_bytes: usize,
    /// How long a peer may read nothing while something waits to be written. Then the connection
    /// ends.
    pub write: Duration,
    /// How many bytes of an app-server's standard error a client keeps for its messages.
    pub stderr_bytes: usize,
    /// How long a request may wait for its answer. A turn is not a request: its start is answered at
    /// once.
    pub request: Duration,
    /// How long an app-server may take to end after its input has ended, before it gets a signal.
    pub close: Duration,
    /// How long an app-server may take to end after SIGTERM, before it is killed.
    pub terminate: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            line_bytes: 16 << 20,
            outbox_bytes: 32 << 20,
            write: Duration::from_secs(30),
            stderr_bytes: 4096,
            request: Duration::from_secs(60),
            close: Duration::from_millis(50),
            terminate: Duration::from_secs(2),
        }
    }
}

/// The limits of a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokerLimits {
    /// How many clients may be connected. More wait until one leaves.
    pub clients: usize,
    /// How many requests of one client may wait for answers. As many interrupts may wait beside them.
    pub requests: usize,
    /// How many threads the broker remembers, with their owners.
    pub threads: usize,
    /// How long a client that has started a thread may take to start a turn on it, while no other
    /// client is admitted.
    pub reserve: Duration,
    /// How long a client may own one turn. Then the broker interrupts the turn and admits other
    /// clients.
    pub turn: Duration,
    /// How long an interrupted turn may take to end. Then the broker forgets it.
    pub settle: Duration,
    /// How long the broker waits before it repeats an interrupt that was refused.
    pub retry: Duration,
    /// How long a client without a request or a turn may say nothing. Then the broker closes its
    /// connection.
    pub idle: Duration,
    /// How long running turns may take to end when the broker shuts down.
    pub shutdown: Duration,
    /// How long a client may take to read its last messages and to close its end.
    pub linger: Duration,
    /// The limits of the connections to the app-server and to the clients.
    pub connection: ConnectionLimits,
}

/// A turn may take a minute more than a client waits for it.
impl Default for BrokerLimits {
    fn default() -> Self {
        Self {
            clients: 256,
            requests: 64,
            threads: 4096,
            reserve: Duration::from_secs(10),
            turn: TurnLimits::default().absolute + Duration::from_secs(60),
            settle: Duration::from_secs(30),
            retry: Duration::from_secs(1),
            idle: Duration::from_secs(600),
            shutdown: Duration::from_secs(5),
            linger: Duration::from_secs(1),
            connection: ConnectionLimits::default(),
        }
    }
}

/// The limits of a client that looks for a broker, and starts one if there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartLimits {
    /// How long a broker may take to accept a connection and to answer `initialize`.
    pub probe: Duration,
    /// How long the client waits in all: for other clients that start a broker, and for the broker.
    pub start: Duration,
    /// How long the client waits before it looks again.
    pub poll: Duration,
}

impl Default for StartLimits {
    fn default() -> Self {
        Self {
            probe: Duration::from_secs(1),
            start: Duration::from_secs(10),
            poll: Duration::from_millis(50),
        }
    }
}

/// The limits of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientLimits {
    /// The limits of its turn.
    pub turn: TurnLimits,
    /// The limits of its connections.
    pub connection: ConnectionLimits,
    /// How long a connection to a broker, or the start of an app-server, may take, until
    /// `initialize` is answered.
    pub connect: Duration,
    /// How long the client asks a busy broker again for its turn, if it cannot leave the broker: its
    /// thread is there.
    pub busy: Duration,
    /// How long the client waits before it asks a busy broker again.
    pub busy_pause: Duration,
}

impl Default for ClientLimits {
    fn default() -> Self {
        Self {
            turn: TurnLimits::default(),
            connection: ConnectionLimits::default(),
            connect: Duration::from_secs(30),
            busy: Duration::from_secs(60),
            busy_pause: Duration::from_millis(250),
        }
    }
}

/// The limits of the end of a job that its user cancels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CancelLimits {
    /// How long the interrupt of the turn through the broker may take.
    pub interrupt: Duration,
    /// How long the worker may take to interrupt its turn and to end, before it is killed.
    pub grace: Duration,
}

/// A worker needs the time that its client has for the interrupt, and then a few seconds.
impl Default for CancelLimits {
    fn default() -> Self {
        let grace = TurnLimits::default().interrupt + Duration::from_secs(5);
        Self { interrupt: Duration::from_secs(5), grace }
    }
}

/// The limits of the job records of a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobLimits {
    /// How many jobs that are over a prune keeps.
    pub kept: usize,
    /// How long a process waits for the lock of the store.
    pub lock: Duration,
    /// The largest record in bytes. A larger file is not read.
    pub record_bytes: usize,
    /// How many bytes of a title are kept.
    pub title_bytes: usize,
    /// How many bytes of the message of a failure are kept.
    pub message_bytes: usize,
    /// The largest order in bytes, as its record contains it. A job with a larger one is not created.
    pub order_bytes: usize,
    /// How many bytes of a report are kept.
    pub report_bytes: usize,
    /// The largest log in bytes.
    pub log_bytes: usize,
    /// How many entries the directory of the store may have.
    pub entries: usize,
}

/// A record fits even if each byte of its texts is escaped.
impl Default for JobLimits {
    fn default() -> Self {
        Self {
            kept: 50,
            lock: Duration::from_secs(5),
            record_bytes: 16 << 20,
            title_bytes: 1 << 10,
            message_bytes: 64 << 10,
            order_bytes: 1 << 20,
            report_bytes: 2 << 20,
            log_bytes: 1 << 20,
            entries: 10_000,
        }
    }
}

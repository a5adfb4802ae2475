//! The limits of `turn`, and their conversion to those of the product code.

use crate::schedule::{Limit, LimitValue, Limits};
use crate::subject::tables::{limit, millis, secs};
use reknit_turn::limits::{BrokerLimits, ClientLimits, ConnectionLimits, StartLimits, TurnLimits};

use LimitValue::{Bytes, Count};

/// All sizes and deadlines.
#[rustfmt::skip]
pub const LIMITS: &[Limit] = &[
    limit("client.inference", millis(250), millis(1), "how long the client waits for `turn/completed` after the final answer, once no work is open"),
    limit("client.idle", secs(600), millis(100), "how long a turn may be silent before the client interrupts it"),
    limit("client.absolute", secs(1800), millis(100), "how long a turn may take before the client interrupts it"),
    limit("client.follow-up", secs(10), millis(10), "how long the client waits for the end of a turn after an error, or for the id of a turn"),
    limit("client.interrupt", secs(10), millis(10), "how long the client waits for the end of a turn that it interrupted"),
    limit("client.connect", secs(30), millis(10), "how long a connection to a broker, or the start of an app-server, may take"),
    limit("client.busy", secs(60), millis(10), "how long the client asks a busy broker again, if its thread is there"),
    limit("client.buffered", Count(4096), Count(1), "how many notifications may wait for the answer to the start request"),
    limit("client.threads", Count(256), Count(1), "how many threads one turn may own"),
    limit("client.open-items", Count(4096), Count(1), "how many items of a turn may be open at once"),
    limit("client.text-bytes", Bytes(16 << 20), Bytes(6), "how many bytes of text the client keeps of one turn"),
    limit("client.unreadable", Count(16), Count(0), "how many lines without a readable message the client skips"),
    limit("client.busy-pause", millis(250), millis(1), "how long the client waits before it asks a busy broker again"),
    limit("connection.line-bytes", Bytes(16 << 20), Bytes(16 << 10), "how many bytes a line may have"),
    limit("connection.outbox-bytes", Bytes(32 << 20), Bytes(64 << 10), "how many bytes may wait for a peer that reads slowly"),
    limit("connection.stderr-bytes", Bytes(4096), Bytes(1), "how many bytes of the standard error of an app-server a client keeps"),
    limit("connection.request", secs(60), millis(100), "how long a request may wait for its answer"),
    limit("connection.write", secs(30), millis(100), "how long a peer may read nothing while something waits to be written"),
    limit("connection.close", millis(50), millis(1), "how long an app-server may take to end after its input has ended"),
    limit("connection.terminate", secs(2), millis(1), "how long an app-server may take to end after SIGTERM"),
    limit("start.probe", secs(1), millis(1), "how long a broker of the client's machine may take to accept a connection and to answer `initialize`"),
    limit("start.wait", secs(10), millis(10), "how long a client waits for a broker that it or another client of its machine starts"),
    limit("start.poll", millis(50), millis(1), "how long a client waits before it looks for the broker again"),
    limit("broker.clients", Count(256), Count(1), "how many clients may be connected"),
    limit("broker.requests", Count(64), Count(1), "how many requests of one client may wait for answers, and how many interrupts beside them"),
    limit("broker.threads", Count(4096), Count(1), "how many threads the broker remembers"),
    limit("broker.reserve", secs(10), millis(10), "how long a client that has started a thread may take to start a turn on it"),
    limit("broker.turn", secs(1860), millis(100), "how long a client may own one turn"),
    limit("broker.settle", secs(30), millis(10), "how long an interrupted turn may take to end"),
    limit("broker.retry", secs(1), millis(100), "how long the broker waits before it repeats an interrupt that was refused"),
    limit("broker.idle", secs(600), millis(100), "how long a client without a request or a turn may say nothing before the broker closes its connection"),
    limit("broker.shutdown", secs(5), millis(10), "how long running turns may take to end when the broker shuts down"),
    limit("broker.linger", secs(1), millis(10), "how long a client may take to read its last messages"),
];

/// Returns the limits of one turn.
pub fn turn(limits: &Limits) -> TurnLimits {
    TurnLimits {
        inference: limits.duration("client.inference"),
        idle: limits.duration("client.idle"),
        absolute: limits.duration("client.absolute"),
        follow_up: limits.duration("client.follow-up"),
        interrupt: limits.duration("client.interrupt"),
        buffered: limits.count("client.buffered") as usize,
        threads: limits.count("client.threads") as usize,
        open_items: limits.count("client.open-items") as usize,
        text_bytes: limits.count("client.text-bytes") as usize,
        unreadable: limits.count("client.unreadable") as usize,
    }
}

/// Returns the limits of a client.
pub fn client(limits: &Limits) -> ClientLimits {
    ClientLimits {
        turn: turn(limits),
        connection: connection(limits),
        connect: limits.duration("client.connect"),
        busy: limits.duration("client.busy"),
        busy_pause: limits.duration("client.busy-pause"),
    }
}

/// Returns the limits of a connection.
pub fn connection(limits: &Limits) -> ConnectionLimits {
    ConnectionLimits {
        request: limits.duration("connection.request"),
        write: limits.duration("connection.write"),
        close: limits.duration("connection.close"),
        terminate: limits.duration("connection.terminate"),
        line_bytes: limits.count("connection.line-bytes") as usize,
        outbox_bytes: limits.count("connection.outbox-bytes") as usize,
        stderr_bytes: limits.count("connection.stderr-bytes") as usize,
    }
}

/// Returns the limits of the search for a broker.
pub fn start(limits: &Limits) -> StartLimits {
    StartLimits {
        probe: limits.duration("start.probe"),
        start: limits.duration("start.wait"),
        poll: limits.duration("start.poll"),
    }
}

/// Returns the limits of the broker.
pub fn broker(limits: &Limits) -> BrokerLimits {
    BrokerLimits {
        clients: limits.count("broker.clients") as usize,
        requests: limits.count("broker.requests") as usize,
        threads: limits.count("broker.threads") as usize,
        reserve: limits.duration("broker.reserve"),
        turn: limits.duration("broker.turn"),
        settle: limits.duration("broker.settle"),
        idle: limits.duration("broker.idle"),
        shutdown: limits.duration("broker.shutdown"),
        linger: limits.duration("broker.linger"),
        retry: limits.duration("broker.retry"),
        connection: connection(limits),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The defaults of the table are those of the product code.
    #[test]
    fn the_table_has_the_defaults_of_the_product() {
        let limits = Limits::default().over(LIMITS);
        assert_eq!(client(&limits), ClientLimits::default());
        assert_eq!(connection(&limits), ConnectionLimits::default());
        assert_eq!(broker(&limits), BrokerLimits::default());
        assert_eq!(start(&limits), StartLimits::default());
    }
}

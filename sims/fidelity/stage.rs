//! The stage for an exchange: two networks, an endpoint, a clock with ticks, and a record of what
//! each end observes.
//!
//! A script is one future that controls both ends in turn, with a tick between an action of one end
//! and its observation at the other. So the order is deterministic, even over a network with some
//! latency.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reknit::net::{BoxFuture, Endpoint, Listener, Net, Stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// The time for a packet to arrive, and for its answer to return.
pub const TICK: Duration = Duration::from_millis(100);

/// The time of the reset after the start, in an exchange with a reset.
pub const RESET_AT: Duration = Duration::from_millis(500);

/// How long an end waits before it records that nothing happens.
const PATIENCE: Duration = Duration::from_secs(3);

/// An exchange: a script, and the observations on Linux.
#[derive(Clone, Copy)]
pub struct Exchange {
    /// The name.
    pub name: &'static str,
    /// The script.
    pub play: fn(Stage) -> BoxFuture<'static, ()>,
    /// The end that receives an RST at [`RESET_AT`] on its first connection, if any.
    pub reset: Option<Toward>,
    /// The observations of the ends on Linux.
    pub linux: &'static [&'static str],
}

/// The end that receives an RST.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Toward {
    /// The end that opened the connection.
    Client,
    /// The end that accepted it.
    Server,
}

impl Exchange {
    /// Runs the exchange on a stage; returns what the ends observed.
    pub async fn on(&self, stage: Stage) -> Vec<String> {
        let notes = stage.notes.clone();
        (self.play)(stage).await;
        notes.lines()
    }
}

/// Resets a connection from the end that holds this stream: the other end receives an RST, and
/// nothing else. In a world the schedule causes the reset, so this function only drops the stream.
pub type ResetByHand = Arc<dyn Fn(Stream) + Send + Sync>;

/// Waits for a result and describes it: the text of `good` for a success, the kind of an error, or
/// "nothing" after a while.
async fn describe_result<T>(
    of: impl Future<Output = io::Result<T>>,
    good: impl FnOnce(&T) -> String,
) -> (String, Option<T>) {
    match timeout(PATIENCE, of).await {
        Ok(Ok(value)) => (good(&value), Some(value)),
        Ok(Err(error)) => (format!("{:?}", error.kind()), None),
        Err(_) => ("nothing".to_owned(), None),
    }
}

fn ok<T>(_: &T) -> String {
    "ok".to_owned()
}

/// The observations of the ends, in order.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    fn add(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }

    fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// The stage of an exchange.
#[derive(Clone)]
pub struct Stage {
    client: Net,
    server: Net,
    at: Endpoint,
    reset: ResetByHand,
    start: Instant,
    notes: Notes,
}

impl Stage {
    /// Creates a stage that starts now. The server listens at `at`.
    pub fn new(client: Net, server: Net, at: Endpoint, reset: ResetByHand) -> Self {
        Self { client, server, at, reset, start: Instant::now(), notes: Notes::default() }
    }

    /// Starts the server and connects a client; returns (client, server, listener).
    pub async fn pair(&self) -> (End, End, TestListener) {
        let mut door = self.listen("listener").await.expect("the endpoint is free");
        let (client, server) =
            tokio::join!(self.connection("client", door.endpoint()), door.accepted("server"));
        (client.expect("somebody listens"), server.expect("somebody connects"), door)
    }

    /// Starts the server's listener.
    pub async fn listen(&self, who: &'static str) -> Option<TestListener> {
        self.listen_at(who, self.at.clone()).await
    }

    /// Starts a listener at a given endpoint, which may be in use by another listener.
    pub async fn listen_at(&self, who: &'static str, at: Endpoint) -> Option<TestListener> {
        match self.server.listen(&at).await {
            Ok(listener) => Some(TestListener {
                listener,
                host: self.at.host().expect("a stage uses TCP").to_owned(),
                notes: self.notes.clone(),
            }),
            Err(error) => {
                self.notes.add(format!("{who} listens: {:?}", error.kind()));
                None
            }
        }
    }

    /// Connects a client, and records the result.
    pub async fn connect(&self, who: &'static str, to: Endpoint) -> Option<End> {
        let (came, end) = describe_result(self.connection(who, to), ok).await;
        self.notes.add(format!("{who} connects: {came}"));
        end
    }

    async fn connection(&self, who: &'static str, to: Endpoint) -> io::Result<End> {
        let stream = self.client.connect(&to).await?;
        Ok(End { who, stream, notes: self.notes.clone() })
    }

    /// Waits for one tick.
    pub async fn tick(&self) {
        sleep(TICK).await;
    }

    /// Waits until the time of resets, and resets a connection from this end.
    pub async fn reset(&self, end: End) {
        sleep_until(self.start + RESET_AT).await;
        (self.reset)(end.stream);
        self.tick().await;
    }
}

/// A listener.
pub struct TestListener {
    listener: Listener,
    host: String,
    notes: Notes,
}

impl TestListener {
    /// Returns its address.
    pub fn endpoint(&self) -> Endpoint {
        let port = self.listener.endpoint().port().expect("it listens at a port");
        Endpoint::tcp(self.host.clone(), port)
    }

    /// Accepts a connection, and records the result.
    pub async fn accept(&mut self, who: &'static str) -> Option<End> {
        let (came, end) = describe_result(self.accepted(who), ok).await;
        self.notes.add(format!("{who} accepts: {came}"));
        end
    }

    async fn accepted(&mut self, who: &'static str) -> io::Result<End> {
        let stream = self.listener.accept().await?;
        Ok(End { who, stream, notes: self.notes.clone() })
    }

    /// Closes the listener.
    pub fn close(self) {
        self.notes.add("listener closes".to_owned());
    }
}

/// One end of a connection. It records each of its actions with the result.
pub struct End {
    who: &'static str,
    stream: Stream,
    notes: Notes,
}

impl End {
    fn note(&self, what: &str, came: &str) {
        self.notes.add(format!("{} {what}: {came}", self.who));
    }

    /// Writes text with one call.
    pub async fn write(&mut self, text: &str) {
        let all = |count: &usize| {
            if *count == text.len() {
                ok(count)
            } else {
                format!("{count} bytes of {}", text.len())
            }
        };
        let (came, _) = describe_result(self.stream.write(text.as_bytes()), all).await;
        self.note(&format!("writes `{text}`"), &came);
    }

    /// Reads with one call.
    pub async fn read(&mut self) {
        let mut buffer = [0; 4096];
        let (came, read) = describe_result(self.stream.read(&mut buffer), |_| String::new()).await;
        let came = match read {
            Some(0) => "eof".to_owned(),
            Some(count) => format!("`{}`", String::from_utf8_lossy(&buffer[..count])),
            None => came,
        };
        self.note("reads", &came);
    }

    /// Reads into an empty buffer.
    pub async fn read_into_nothing(&mut self) {
        let (came, _) =
            describe_result(self.stream.read(&mut []), |count| format!("{count} bytes")).await;
        self.note("reads into no space", &came);
    }

    /// Shuts the write direction down.
    pub async fn shut(&mut self) {
        let (came, _) = describe_result(self.stream.shutdown(), ok).await;
        self.note("shuts", &came);
    }

    /// Drops the stream.
    pub fn close(self) {
        self.notes.add(format!("{} closes", self.who));
    }

    /// Writes `total` bytes that depend on their positions, and shuts the write direction down.
    pub async fn write_bytes(&mut self, total: usize) {
        let bytes: Vec<u8> = (0..total).map(byte).collect();
        let poured = async {
            self.stream.write_all(&bytes).await?;
            self.stream.shutdown().await
        };
        let came =
            poured.await.map_or_else(|error| format!("{:?}", error.kind()), |()| "ok".to_owned());
        self.note(&format!("pours {total} bytes"), &came);
    }

    /// Reads to the end, at most `size` bytes at a time, and records whether they are the bytes of
    /// `write_bytes`.
    pub async fn read_bytes(&mut self, size: usize) {
        let (mut count, mut right, mut buffer) = (0, true, vec![0; size]);
        let end = loop {
            match describe_result(self.stream.read(&mut buffer), |_| "eof".to_owned()).await {
                (_, Some(read)) if read > 0 => {
                    right &= buffer[..read]
                        .iter()
                        .enumerate()
                        .all(|(at, found)| *found == byte(count + at));
                    count += read;
                }
                (end, _) => break end,
            }
        };
        let which = if right { "the poured ones" } else { "others" };
        self.note(
            &format!("sips {size} at a time"),
            &format!("{count} bytes, {which}, then {end}"),
        );
    }
}

/// Returns the byte of `write_bytes` at a position. Blocks whose size is a power of two all differ.
fn byte(at: usize) -> u8 {
    (at % 251) as u8
}

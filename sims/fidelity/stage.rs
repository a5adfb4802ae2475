//! The stage on which an exchange is played: two networks, an endpoint, a clock that ticks, and somebody who takes down what
//! each end sees.
//!
//! A script is one future that moves both ends, one after the other, with a tick between what one does and what the other
//! sees of it: so the order is certain, also over a network with some latency.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reknit::net::{BoxFuture, Endpoint, Listener, Net, Stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// Time for a packet to go there, and for its answer to come back.
pub const TICK: Duration = Duration::from_millis(100);

/// When a connection is reset in an exchange that has a reset: so long after its start.
pub const RESET_AT: Duration = Duration::from_millis(500);

/// How long an end waits before it says that nothing happens.
const PATIENCE: Duration = Duration::from_secs(3);

/// An exchange: a script, and what Linux says.
#[derive(Clone, Copy)]
pub struct Exchange {
    /// Its name.
    pub name: &'static str,
    /// The script.
    pub play: fn(Stage) -> BoxFuture<'static, ()>,
    /// The end that gets an RST at [`RESET_AT`], where there is one: on its first connection.
    pub reset: Option<Toward>,
    /// What the ends see on Linux.
    pub linux: &'static [&'static str],
}

/// The end that an RST goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Toward {
    /// The one that opened the connection.
    Client,
    /// The one that accepted it.
    Server,
}

impl Exchange {
    /// Plays it on a stage, and returns what the ends saw.
    pub async fn on(&self, stage: Stage) -> Vec<String> {
        let notes = stage.notes.clone();
        (self.play)(stage).await;
        notes.lines()
    }
}

/// Resets a connection from the end that holds this stream: the other end gets an RST, and nothing else. In a world, where
/// the schedule brings the reset, it only has to drop the stream.
pub type ResetByHand = Arc<dyn Fn(Stream) + Send + Sync>;

/// What came of something, as text: what `good` makes of a success, the kind of an error, or that nothing happened for a while.
async fn what_came<T>(
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

/// What ends saw, in order.
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

/// Where an exchange is played.
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
    /// A stage that starts now. The server listens at `at`.
    pub fn new(client: Net, server: Net, at: Endpoint, reset: ResetByHand) -> Self {
        Self { client, server, at, reset, start: Instant::now(), notes: Notes::default() }
    }

    /// The server listens, and a client has a connection to it: (client, server, listener).
    pub async fn pair(&self) -> (End, End, Door) {
        let mut door = self.listen("listener").await.expect("the endpoint is free");
        let (client, server) =
            tokio::join!(self.connection("client", door.endpoint()), door.accepted("server"));
        (client.expect("somebody listens"), server.expect("somebody connects"), door)
    }

    /// The server listens.
    pub async fn listen(&self, who: &'static str) -> Option<Door> {
        self.listen_at(who, self.at.clone()).await
    }

    /// The server listens at the very endpoint that another listener has.
    pub async fn listen_at(&self, who: &'static str, at: Endpoint) -> Option<Door> {
        match self.server.listen(&at).await {
            Ok(listener) => {
                Some(Door { listener, host: self.at.host().to_owned(), notes: self.notes.clone() })
            }
            Err(error) => {
                self.notes.add(format!("{who} listens: {:?}", error.kind()));
                None
            }
        }
    }

    /// A client connects, and says so.
    pub async fn connect(&self, who: &'static str, to: Endpoint) -> Option<End> {
        let (came, end) = what_came(self.connection(who, to), ok).await;
        self.notes.add(format!("{who} connects: {came}"));
        end
    }

    async fn connection(&self, who: &'static str, to: Endpoint) -> io::Result<End> {
        let stream = self.client.connect(&to).await?;
        Ok(End { who, stream, notes: self.notes.clone() })
    }

    /// Lets a tick pass.
    pub async fn tick(&self) {
        sleep(TICK).await;
    }

    /// Waits for the time of resets, and resets a connection from this end.
    pub async fn reset(&self, end: End) {
        sleep_until(self.start + RESET_AT).await;
        (self.reset)(end.stream);
        self.tick().await;
    }
}

/// A listener.
pub struct Door {
    listener: Listener,
    host: String,
    notes: Notes,
}

impl Door {
    /// Where it can be reached.
    pub fn endpoint(&self) -> Endpoint {
        Endpoint::tcp(self.host.clone(), self.listener.endpoint().port())
    }

    /// Accepts a connection, and says so.
    pub async fn accept(&mut self, who: &'static str) -> Option<End> {
        let (came, end) = what_came(self.accepted(who), ok).await;
        self.notes.add(format!("{who} accepts: {came}"));
        end
    }

    async fn accepted(&mut self, who: &'static str) -> io::Result<End> {
        let stream = self.listener.accept().await?;
        Ok(End { who, stream, notes: self.notes.clone() })
    }

    /// Closes it.
    pub fn close(self) {
        self.notes.add("listener closes".to_owned());
    }
}

/// One end of a connection. Whatever it does it says, with what came of it.
pub struct End {
    who: &'static str,
    stream: Stream,
    notes: Notes,
}

impl End {
    fn note(&self, what: &str, came: &str) {
        self.notes.add(format!("{} {what}: {came}", self.who));
    }

    /// Writes text, once.
    pub async fn write(&mut self, text: &str) {
        let all = |count: &usize| {
            if *count == text.len() {
                ok(count)
            } else {
                format!("{count} bytes of {}", text.len())
            }
        };
        let (came, _) = what_came(self.stream.write(text.as_bytes()), all).await;
        self.note(&format!("writes `{text}`"), &came);
    }

    /// Reads, once.
    pub async fn read(&mut self) {
        let mut buffer = [0; 4096];
        let (came, read) = what_came(self.stream.read(&mut buffer), |_| String::new()).await;
        let came = match read {
            Some(0) => "eof".to_owned(),
            Some(count) => format!("`{}`", String::from_utf8_lossy(&buffer[..count])),
            None => came,
        };
        self.note("reads", &came);
    }

    /// Reads into no space at all.
    pub async fn read_into_nothing(&mut self) {
        let (came, _) =
            what_came(self.stream.read(&mut []), |count| format!("{count} bytes")).await;
        self.note("reads into no space", &came);
    }

    /// Says that it sends no more.
    pub async fn shut(&mut self) {
        let (came, _) = what_came(self.stream.shutdown(), ok).await;
        self.note("shuts", &came);
    }

    /// Drops the stream.
    pub fn close(self) {
        self.notes.add(format!("{} closes", self.who));
    }

    /// Writes so many bytes that are a function of their position, and shuts.
    pub async fn pour(&mut self, total: usize) {
        let bytes: Vec<u8> = (0..total).map(byte).collect();
        let poured = async {
            self.stream.write_all(&bytes).await?;
            self.stream.shutdown().await
        };
        let came =
            poured.await.map_or_else(|error| format!("{:?}", error.kind()), |()| "ok".to_owned());
        self.note(&format!("pours {total} bytes"), &came);
    }

    /// Reads to the end, at most so many bytes at a time, and says whether they are the poured ones.
    pub async fn sip(&mut self, size: usize) {
        let (mut count, mut right, mut buffer) = (0, true, vec![0; size]);
        let end = loop {
            match what_came(self.stream.read(&mut buffer), |_| "eof".to_owned()).await {
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

/// The byte at a position of what is poured: no two blocks of a power of two look alike.
fn byte(at: usize) -> u8 {
    (at % 251) as u8
}

//! A real server, hostile clients, and a well-behaved client beside them.
//!
//! These invariants hold for all bytes of the hostile clients:
//! - no code panics, and everything that the server sends is HTTP. Each stream has its events in order,
//!   without a gap that it does not report, and is complete only after the ending of its command;
//! - the server stays within its limits at every step;
//! - a minute after its last byte, a hostile connection is over, or it is a stream with signs of life. If
//!   its client does not read, it is over after `DEAF`;
//! - without the token, nothing is launched;
//! - after the hostile clients have disconnected, only commands that run are left after `FORGOTTEN`;
//! - the well-behaved client receives each line of its command at once, over its first connection, and
//!   in the end its ending. A client that comes again receives what the log retains, and so does one that
//!   repeats the start.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arbitrary::Arbitrary;
use reknit_seams::net::Endpoint;
use reknit_sse::client::{Client, ClientConfig, Failure, Follower, Item};
use reknit_sse::limits::{ClientLimits, ServerLimits};
use reknit_sse::server::{Server, ServerConfig, ServerResources};
use reknit_sse::wire::{CommandId, Cursor, Ending, OutputStream, RunCommand};
use tokio::io::{AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::ask::{Ask, Known};
use super::door::Door;
use super::peer::HostilePeer;
use crate::machine::{Machine, TYPED};
use crate::script::{Bytes, Pause, Rarely, Steps, Times};
use crate::stage::{Memory, env, must, run};

/// The actions of hostile clients.
#[derive(Arbitrary, Debug)]
pub struct SseServerScript {
    /// Whether the server's limits are tight.
    tight: bool,
    /// How long a command waits for its reader, in seconds.
    hold: Rarely<u8>,
    /// Whether the hostile clients do not have the token.
    outside: Rarely<()>,
    /// Whether no hostile client reads in the end.
    is_deaf_in_the_end: Rarely<()>,
    /// The steps, in order.
    steps: Steps<Step>,
}

/// A step. The numbers of connections are those of the four hostile ones.
#[derive(Arbitrary, Debug)]
enum Step {
    /// A client sends a request this many times.
    Asks(u8, Box<Ask>, Times),
    /// A client sends any bytes.
    Disturbs(u8, Rarely<Bytes>),
    /// A client stops or resumes reading.
    Reads(u8, bool),
    /// A connection ends, and another one begins when the client sends something.
    Leaves(u8),
    /// All clients stay silent for a while.
    Pauses(Pause),
}

/// The time limit for results that must be immediate.
const SOON: Duration = Duration::from_secs(1);

const MINUTE: Duration = Duration::from_secs(60);

/// The time in which signs of life fill the buffers of a connection, plus the time that a write may wait.
const DEAF: Duration = Duration::from_secs(900);

/// More than the time between two signs of life.
const SIGN_OF_LIFE: Duration = Duration::from_secs(4);

/// The time by which the server has dropped ended commands: it keeps their logs for 300 s.
const FORGOTTEN: Duration = Duration::from_secs(320);

/// The secret of the server.
const TOKEN: &str = "secret";

/// Runs the script, and checks all invariants.
pub fn holds(script: &SseServerScript) {
    run(async {
        let mut test = ServerTest::open(script).await;
        for step in &script.steps.0 {
            test.step(step).await;
            test.is_within_limits();
            test.well_behaved.hears().await;
        }
        test.connections_end(script.is_deaf_in_the_end.0.is_some()).await;
        test.peers.clear();
        test.well_behaved.hears().await;
        sleep(FORGOTTEN).await;
        test.well_behaved.hears().await;
        test.has_forgotten();
        test.well_behaved.completes(&test.limits).await;
        if script.outside.0.is_some() {
            assert_eq!(test.machine.launched(), 1, "launched without the token");
        }
    });
}

fn limits(script: &SseServerScript) -> ServerLimits {
    let hold = Duration::from_secs(script.hold.0.unwrap_or(0).into());
    let limits = ServerLimits { hold, ..ServerLimits::default() };
    if !script.tight {
        return limits;
    }
    ServerLimits {
        retained_bytes: 500,
        retained_events: 5,
        in_flight: 100,
        running_commands: 3,
        ended_commands: 2,
        ended_bytes: 1000,
        forgotten_commands: 2,
        sessions: 2,
        line_bytes: 16,
        body_bytes: 300,
        connections: 3,
        write_buffer: 8192,
        batch_bytes: 40,
        logs_bytes: 40,
        ..limits
    }
}

/// The server, the well-behaved client, and the connections of the hostile ones.
struct ServerTest {
    limits: ServerLimits,
    resources: ServerResources,
    machine: Arc<Machine>,
    net: Memory,
    well_behaved: WellBehavedClient,
    known: Known,
    peers: BTreeMap<u8, HostilePeer>,
    _server: JoinSet<()>,
}

impl ServerTest {
    async fn open(script: &SseServerScript) -> Self {
        let (net, limits) = (Memory::new(), limits(script));
        let (machine, typed) = Machine::typed();
        let machine = Arc::new(machine);
        let config = ServerConfig {
            access_token: Some(TOKEN.to_owned()),
            shell: Vec::new(),
            ..ServerConfig::default()
        };
        let server = Server::new(&env(net.clone(), machine.clone()), config, limits);
        let resources = server.resources();
        let mut tasks = JoinSet::new();
        tasks.spawn(server.serve(net.listener()));
        let well_behaved = WellBehavedClient::enter(net.clone(), typed).await;
        let token = script.outside.0.is_none().then_some(TOKEN);
        let known = Known { token, own: well_behaved.id.to_string(), ..Known::default() };
        let peers = BTreeMap::new();
        Self { limits, resources, machine, net, well_behaved, known, peers, _server: tasks }
    }

    async fn step(&mut self, step: &Step) {
        match step {
            Step::Asks(n, ask, times) => {
                for _ in 0..times.count() {
                    let (writes, cursor) = (ask.writes(&self.known), ask.cursor(&self.known));
                    self.peer(*n).send(writes, cursor).await;
                }
            }
            Step::Disturbs(n, Rarely(Some(bytes))) => self.peer(*n).disturb(&bytes.bytes()).await,
            Step::Disturbs(_, Rarely(None)) => {}
            Step::Reads(n, reads) => self.peer(*n).read(*reads),
            Step::Leaves(n) => drop(self.peers.remove(&(n % 4))),
            Step::Pauses(pause) => sleep(pause.duration()).await,
        }
        // By then, both ends have done everything that they can do at once.
        sleep(Duration::from_millis(1)).await;
        for (session, epoch) in self.peers.values().map(HostilePeer::heard) {
            self.known.session = session.or(self.known.session.take());
            self.known.epoch = epoch.or(self.known.epoch.take());
        }
    }

    /// Returns a connection. It is opened if there is none, or it is over.
    fn peer(&mut self, n: u8) -> &mut HostilePeer {
        let n = n % 4;
        if self.peers.get(&n).is_none_or(HostilePeer::is_over) {
            let stream = self.net.open(&Endpoint::tcp("server", 80)).expect("it is never refused");
            self.peers.insert(n, HostilePeer::new(stream));
        }
        self.peers.get_mut(&n).expect("inserted above")
    }

    /// The hostile clients send nothing any more, and read, or do not.
    async fn connections_end(&mut self, are_deaf: bool) {
        for peer in self.peers.values_mut() {
            peer.read(!are_deaf);
        }
        if are_deaf {
            sleep(DEAF).await;
            assert_eq!(self.resources.counts().connections, 1, "connections that are read");
            return;
        }
        sleep(MINUTE).await;
        for peer in self.peers.values() {
            assert!(peer.is_over() || peer.streams(SIGN_OF_LIFE), "a connection is kept");
        }
    }

    fn is_within_limits(&self) {
        let (counts, limits) = (self.resources.counts(), &self.limits);
        let at_most =
            |what: &str, is: usize, most: usize| assert!(is <= most, "{what}: {is} of {most}");
        at_most("connections", counts.connections, limits.connections);
        at_most("running commands", counts.running, limits.running_commands);
        let logs = limits.running_commands + limits.ended_commands;
        at_most("commands", counts.commands, logs);
        at_most("streams", counts.streams, counts.connections);
        // The newest event always stays.
        let log = limits.retained_bytes.max(limits.line_bytes + 64);
        at_most("bytes of logs", counts.log_bytes, counts.commands * log);
        let ended = counts.running * log + limits.ended_bytes.max(log);
        at_most("bytes of ended logs", counts.log_bytes, ended);
    }

    /// Checks what is left of the hostile clients.
    fn has_forgotten(&self) {
        let counts = self.resources.counts();
        let left = [counts.connections, counts.streams];
        assert_eq!(left, [1, 1], "connections, streams");
        assert_eq!(counts.commands, counts.running, "an ended command is kept");
        let log = self.limits.retained_bytes.max(self.limits.line_bytes + 64);
        assert!(counts.log_bytes <= counts.running * log, "a forgotten log is kept");
        assert!(counts.running <= self.machine.launched(), "a command runs without a process");
    }
}

/// A client that uses the server as intended.
struct WellBehavedClient {
    client: Client,
    id: CommandId,
    door: Door,
    /// The pipe into which its command prints.
    typed: Option<DuplexStream>,
    /// The items that it receives, each with the position after it.
    items: mpsc::UnboundedReceiver<(Result<Option<Item>, Failure>, u64)>,
    heard: u64,
    follower: JoinSet<()>,
}

impl WellBehavedClient {
    async fn enter(net: Memory, typed: DuplexStream) -> Self {
        let door = Door::new(net);
        let config =
            ClientConfig { access_token: Some(TOKEN.to_owned()), ..ClientConfig::default() };
        let env = env(door.clone(), Arc::new(Machine::default()));
        let server = Endpoint::tcp("server", 80);
        let client = Client::new(&env, server, config, ClientLimits::default());
        let mut follower = client.run(RunCommand::shell(TYPED)).expect("the request is valid");
        must("the well-behaved client's start", SOON, follower.started()).await.expect("it starts");
        let id = follower.id().expect("the client has chosen it");
        let (sender, items) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            loop {
                let item = follower.next().await;
                let goes_on = matches!(item, Ok(Some(_)));
                let sent = sender.send((item, follower.cursor().after));
                if sent.is_err() || !goes_on {
                    return;
                }
            }
        });
        let typed = Some(typed);
        Self { client, id, door, typed, items, heard: 0, follower: tasks }
    }

    /// Its command prints a line, which it receives at once, over its first connection.
    async fn hears(&mut self) {
        self.types().await;
        let next = must("the well-behaved client's line", SOON, self.items.recv()).await;
        assert_eq!(next, Some((Ok(Some(line(self.heard))), self.heard)));
        assert_eq!(self.door.attempts(), 1, "connections of the well-behaved client");
    }

    async fn types(&mut self) {
        self.heard += 1;
        let Item::Output(_, bytes) = line(self.heard) else { unreachable!("a line is output") };
        let typed = self.typed.as_mut().expect("its command runs");
        typed.write_all(&bytes).await.expect("its command runs");
    }

    /// Its connection ends, and then its command. Followers receive what is left.
    async fn completes(&mut self, limits: &ServerLimits) {
        let status = must("a status", SOON, self.client.status(&self.id)).await.expect("it runs");
        assert_eq!((status.running, status.last), (true, self.heard));
        self.follower.abort_all();
        sleep(MINUTE).await;
        let mut typed = self.typed.take().expect("its command runs");
        typed.write_all(LAST.as_bytes()).await.expect("its command runs");
        drop(typed);
        self.heard += 1;
        sleep(SOON).await;
        let from_start = self.client.follow(self.id.clone(), Cursor::START);
        let end = self.all_of(from_start, limits).await;
        let nothing = self.client.follow(self.id.clone(), end).next().await;
        assert_eq!(nothing, Ok(None), "it has the ending");
        sleep(2 * MINUTE).await;
        let again =
            RunCommand { operation_id: Some(self.id.to_string()), ..RunCommand::shell(TYPED) };
        let repeated = self.client.run(again).expect("the request is valid");
        self.all_of(repeated, limits).await;
    }

    /// Reads a follower: it receives a gap if some lines are not retained, all others, and the ending.
    async fn all_of(&self, mut follower: Follower, limits: &ServerLimits) -> Cursor {
        let mut next = 1;
        loop {
            let item = must("the next item", MINUTE, follower.next()).await;
            match item.expect("the log is retained") {
                Some(Item::Gap(gap)) => {
                    assert!(gap.last < self.heard && next == 1, "{gap}");
                    assert!(limits.retained_events <= self.heard as usize, "{gap}");
                    next = gap.last + 1;
                }
                Some(Item::Ended { ending, .. }) => {
                    assert_eq!((ending, next), (Ending::Exited(0), self.heard + 1));
                    next += 1;
                }
                Some(item) => {
                    let is_last = next == self.heard;
                    assert_eq!(item, if is_last { output(LAST) } else { line(next) });
                    next += 1;
                }
                None => {
                    assert_eq!(next, self.heard + 2, "it has all");
                    return follower.cursor();
                }
            }
        }
    }
}

/// The last line of the well-behaved client's command. It has no end.
const LAST: &str = "last";

/// Returns another one of its lines.
fn line(n: u64) -> Item {
    output(&match n % 4 {
        0 => "\n".to_owned(),
        1 => format!("{n}\r\n"),
        _ => format!("{n}\n"),
    })
}

fn output(text: &str) -> Item {
    Item::Output(OutputStream::Stdout, text.to_owned().into())
}

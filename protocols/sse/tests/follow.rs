//! The client follows real processes over loopback, through a proxy that breaks its connections.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use reknit_proxy::{End, Fault, Moment, Proxy, Rule, Script};
use reknit_seams::Env;
use reknit_seams::net::Endpoint;
use reknit_sse::client::{Client, ClientConfig, Dialect, Failure, Follower, Item};
use reknit_sse::limits::{ClientLimits, ServerLimits};
use reknit_sse::server::{Server, ServerConfig, ServerResources};
use reknit_sse::wire::{CommandId, Cursor, Ending, Gap, OutputStream, RunCommand};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// How long a test may take.
const LONG: Duration = Duration::from_secs(120);

/// A server, and a proxy in front of it.
struct World {
    proxy: Proxy,
    server: JoinHandle<()>,
    resources: ServerResources,
}

impl World {
    async fn new(limits: ServerLimits, rules: Vec<Rule>) -> Self {
        let env = Env::real();
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = env.net.listen(&Endpoint::tcp("127.0.0.1", 0)).await.unwrap();
        let at = SocketAddr::new(any.ip(), listener.endpoint().port().unwrap());
        let server = Server::new(&env, ServerConfig::default(), limits);
        let resources = server.resources();
        let server = tokio::spawn(server.serve(listener));
        let proxy = Proxy::start(any, at, Script { rules }).await.unwrap();
        Self { proxy, server, resources }
    }

    fn client(&self, dialect: Dialect) -> Client {
        let limits = ClientLimits {
            silence: Duration::from_secs(1),
            budget: Duration::from_secs(20),
            ..ClientLimits::default()
        };
        let at = Endpoint::tcp("127.0.0.1", self.proxy.address().port());
        let config = ClientConfig { dialect, ..ClientConfig::default() };
        Client::new(&Env::real(), at, config, limits)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// The items of a follower, up to its end.
#[derive(Debug, Default, PartialEq, Eq)]
struct Received {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    gaps: Vec<Gap>,
    end: Option<Result<Ending, Failure>>,
}

impl Received {
    async fn rest(&mut self, follower: &mut Follower) {
        while self.one(follower).await {}
    }

    /// Receives one item. Returns whether more follow.
    async fn one(&mut self, follower: &mut Follower) -> bool {
        match timeout(LONG, follower.next()).await.expect("it makes progress") {
            Ok(Some(Item::Output(OutputStream::Stdout, bytes))) => self.stdout.extend(bytes),
            Ok(Some(Item::Output(OutputStream::Stderr, bytes))) => self.stderr.extend(bytes),
            Ok(Some(Item::Gap(gap))) => self.gaps.push(gap),
            Ok(Some(Item::Ended { ending, .. })) => self.end = Some(Ok(ending)),
            Ok(None) => return false,
            Err(failure) => {
                self.end = Some(Err(failure));
                return false;
            }
        }
        true
    }
}

async fn received(mut follower: Follower) -> Received {
    let mut received = Received::default();
    received.rest(&mut follower).await;
    received
}

/// A fault on a connection, after so many bytes to the client.
fn cut(conn: Option<u32>, count: u64, fault: Fault) -> Rule {
    Rule { conn, times: None, at: Moment::Bytes { toward: End::Client, count }, fault }
}

/// The lines that `seq` prints for a shell.
fn lines(range: RangeInclusive<u64>, width: usize) -> Vec<u8> {
    range.flat_map(|line| format!("{line:0width$}\n").into_bytes()).collect()
}

/// Prints the numbers on both pipes.
const ON_BOTH: &str =
    "for i in $(seq 500); do echo out $i; echo err $i >&2; done; printf end; exit 3";

fn numbered(pipe: &str) -> Vec<u8> {
    (1..=500).flat_map(|line| format!("{pipe} {line}\n").into_bytes()).collect()
}

#[tokio::test]
async fn every_byte_arrives_once_although_every_connection_breaks() {
    // Every connection breaks early, in one of three ways; the first one inside the head of its answer.
    let rules = vec![
        cut(Some(1), 1, Fault::Reset { toward: None }),
        cut(Some(2), 1000, Fault::HalfOpen { toward: None }),
        cut(Some(4), 700, Fault::Close {}),
        cut(None, 3000, Fault::Reset { toward: None }),
    ];
    let limits = ServerLimits { heartbeat: Duration::from_millis(300), ..ServerLimits::default() };
    let world = World::new(limits, rules).await;
    let received =
        received(world.client(Dialect::Reknit).run(RunCommand::shell(ON_BOTH)).unwrap()).await;
    let mut stdout = numbered("out");
    stdout.extend(b"end");
    assert_eq!(String::from_utf8(received.stdout), String::from_utf8(stdout));
    assert_eq!(String::from_utf8(received.stderr), String::from_utf8(numbered("err")));
    assert_eq!((received.gaps, received.end), (vec![], Some(Ok(Ending::Exited(3)))));
    assert!(world.proxy.connections() > 10, "{} connections", world.proxy.connections());
}

#[tokio::test]
async fn a_lost_answer_does_not_run_the_command_twice() {
    let rules = (1..=3).map(|conn| cut(Some(conn), 1, Fault::Reset { toward: None })).collect();
    let world = World::new(ServerLimits::default(), rules).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("runs");
    let command = format!("echo run >> {0}; cat {0}", file.display());
    let received =
        received(world.client(Dialect::Reknit).run(RunCommand::shell(command)).unwrap()).await;
    assert_eq!(String::from_utf8(received.stdout).unwrap(), "run\n");
    assert_eq!(received.end, Some(Ok(Ending::Exited(0))));
    assert_eq!(world.proxy.connections(), 4);
}

/// Follows 20 MB of numbered lines over at most ten cuts. Returns what arrived, and the number of
/// connections.
async fn twenty_megabytes(limits: ServerLimits) -> (Received, u32) {
    let resets = (1..=10).map(|conn| cut(Some(conn), 1_000_000, Fault::Reset { toward: None }));
    let world = World::new(limits, resets.collect()).await;
    let command = RunCommand::shell("seq -f '%01000.0f' 20000");
    let received = received(world.client(Dialect::Reknit).run(command).unwrap()).await;
    assert_eq!(received.end, Some(Ok(Ending::Exited(0))));
    (received, world.proxy.connections())
}

#[tokio::test]
async fn twenty_megabytes_survive_ten_cuts_if_the_log_retains_them() {
    let hold = Duration::from_secs(30);
    let limits = ServerLimits { hold, retained_bytes: 64 << 20, ..ServerLimits::default() };
    let (received, connections) = twenty_megabytes(limits).await;
    assert_eq!((connections, &received.gaps), (11, &Vec::new()));
    assert!(received.stdout == lines(1..=20_000, 1000), "{} bytes", received.stdout.len());
}

#[tokio::test]
async fn what_the_log_does_not_retain_over_a_cut_is_an_exact_gap() {
    let limits = ServerLimits { retained_bytes: 1 << 20, ..ServerLimits::default() };
    let (received, connections) = twenty_megabytes(limits).await;
    // What falls into a gap does not count toward the next cut.
    assert!(connections > 1);
    // One line is one event, so a position is the number of a line.
    let mut expected = Vec::new();
    let mut next = 1;
    for gap in &received.gaps {
        expected.extend(lines(next..=gap.first - 1, 1000));
        next = gap.last + 1;
    }
    expected.extend(lines(next..=20_000, 1000));
    assert!(received.stdout == expected, "{:?}", received.gaps);
}

#[tokio::test]
async fn another_follower_continues_from_the_cursor_of_the_first() {
    let world = World::new(ServerLimits::default(), Vec::new()).await;
    let client = world.client(Dialect::Reknit);
    let mut first = client.run(RunCommand::shell("seq 100")).unwrap();
    let mut received = Received::default();
    for _ in 0..40 {
        received.one(&mut first).await;
    }
    let (id, cursor) = (first.id().unwrap(), first.cursor());
    drop(first);
    received.rest(&mut client.follow(id, cursor)).await;
    assert_eq!(received.stdout, lines(1..=100, 0));
    assert_eq!(received.end, Some(Ok(Ending::Exited(0))));
}

#[tokio::test]
async fn a_background_command_is_followed_like_any_other() {
    let world = World::new(ServerLimits::default(), Vec::new()).await;
    let request = RunCommand { background: true, ..RunCommand::shell("seq 3; exit 1") };
    let received = received(world.client(Dialect::Reknit).run(request).unwrap()).await;
    assert_eq!(received.stdout, lines(1..=3, 0));
    assert_eq!(received.end, Some(Ok(Ending::Exited(1))));
}

#[tokio::test]
async fn an_unknown_command_is_a_failure() {
    let world = World::new(ServerLimits::default(), Vec::new()).await;
    let id: CommandId = "unknown".parse().unwrap();
    let received = received(world.client(Dialect::Reknit).follow(id, Cursor::START)).await;
    assert_eq!(received.end, Some(Err(Failure::NotFound)));
    assert_eq!(world.resources.counts().running, 0);
}

#[tokio::test]
async fn the_dialect_of_execd_resumes_after_a_cut_and_does_not_repeat_a_start() {
    let world = World::new(
        ServerLimits::default(),
        vec![
            cut(Some(1), 5000, Fault::Reset { toward: None }),
            cut(Some(3), 1, Fault::Reset { toward: None }),
        ],
    )
    .await;
    let client = world.client(Dialect::Execd);
    let run = || client.run(RunCommand::shell("seq 1000")).unwrap();
    let complete = received(run()).await;
    assert_eq!((complete.stdout, complete.gaps), (lines(1..=1000, 0), vec![]));
    assert_eq!(complete.end, Some(Ok(Ending::Exited(0))));
    let lost = received(run()).await;
    assert!(matches!(lost.end, Some(Err(Failure::StartUnknown(_)))), "{lost:?}");
}

#[tokio::test]
async fn a_user_who_stops_waiting_again_and_again_loses_nothing() {
    let rules = vec![cut(None, 20_000, Fault::Reset { toward: None })];
    let world = World::new(ServerLimits::default(), rules).await;
    let mut follower = world.client(Dialect::Reknit).run(RunCommand::shell("seq 5000")).unwrap();
    let mut received = Received::default();
    let all = async {
        loop {
            let moment = Duration::from_micros(200);
            match timeout(moment, received.one(&mut follower)).await {
                Ok(false) => return,
                Ok(true) => {}
                Err(_) => tokio::task::yield_now().await,
            }
        }
    };
    timeout(LONG, all).await.expect("it makes progress");
    assert_eq!(received.stdout, lines(1..=5000, 0));
    assert_eq!(received.end, Some(Ok(Ending::Exited(0))));
    assert!(world.proxy.connections() > 5);
}

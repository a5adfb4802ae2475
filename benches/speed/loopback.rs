//! Measures the product as deployed: an exec server and its client over real sockets on 127.0.0.1,
//! with real processes. The baseline is a plain TCP copy of the output of the same command.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use reknit_exec::Server;
use reknit_exec::client::{Client, Event, Process};
use reknit_exec::limits::{ClientLimits, ServerLimits};
use reknit_exec::wire::Directory;
use reknit_exec::wire::process::StartParams;
use reknit_seams::Env;
use reknit_seams::net::Endpoint;
use reknit_seams::process::Command;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy, sink};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::turns::{Meter, Side, print_figure};

/// How many calls are timed per turn.
const CALLS: u32 = 100;

/// A command that prints without end.
const FLOOD: &str = "cat /dev/zero";

pub fn measure(meter: &mut Meter) {
    let runtime = Runtime::new().expect("the system gives threads");
    let stage = runtime.block_on(Stage::new());
    let (bytes, lines) = (meter.size(64_000_000, 1_000_000), meter.size(100_000, 1_000));
    let blocks = format!("head -c {bytes} /dev/zero");
    throughput(meter, &runtime, &stage, "blocks", &blocks);
    let counts = format!("i=0; while [ $i -lt {lines} ]; do echo line $i; i=$((i+1)); done");
    throughput(meter, &runtime, &stage, "lines", &counts);
    latency(meter, &runtime, &stage);
}

/// Prints the throughput of the output of a command, and how much faster a plain copy is.
fn throughput(meter: &mut Meter, runtime: &Runtime, stage: &Stage, what: &str, script: &str) {
    let (bytes, events) = (Cell::new(0), Cell::new(0));
    let sides = [
        Side::new(|| {
            let received = runtime.block_on(async { listen(&stage.start(script).await).await });
            bytes.set(received.bytes);
            events.set(received.events);
        }),
        Side::new(|| {
            assert_eq!(runtime.block_on(plain_copy(script)), bytes.get(), "the same bytes")
        }),
    ];
    let Some([exec, plain]) = meter.turns(&format!("loopback/{what}"), sides) else { return };
    let [rate, plain_rate] = [exec, plain].map(|seconds| bytes.get() as f64 / seconds / 1e6);
    let (events, times) = (events.get() as f64 / exec, exec / plain);
    let figure = format!(
        "{rate:.0} MB/s, {events:.0} events/s; a plain TCP copy {plain_rate:.0} MB/s, {times:.1} times as fast"
    );
    print_figure(&format!("exec over loopback, output in {what}"), figure, "nothing");
}

/// Prints how long a call takes while another process floods the connection, and how long on a
/// quiet connection.
fn latency(meter: &mut Meter, runtime: &Runtime, stage: &Stage) {
    let quiet = runtime.block_on(stage.start("cat"));
    let mut slow = Vec::new();
    let sides = [
        Side::clocked(|| runtime.block_on(calls_beside_a_flood(stage, &quiet, &mut slow))),
        Side::clocked(|| mean(&runtime.block_on(calls(&quiet)))),
        Side::clocked(|| runtime.block_on(plain_echo())),
    ];
    let Some([beside, alone, plain]) = meter.turns("loopback/calls", sides) else { return };
    slow.sort();
    let [beside, alone, plain] =
        [beside, alone, plain].map(|seconds| format!("{:.0} µs", seconds * 1e6));
    let slowest = slow[slow.len() * 99 / 100].as_micros();
    let figure = format!(
        "{beside}, 99 of 100 within {slowest} µs; without the flood {alone}; a plain TCP echo {plain}"
    );
    print_figure("a call over loopback while a process floods", figure, "nothing");
}

/// A client and its server, as deployed.
struct Stage {
    client: Client,
    /// How many processes were started. Each process needs a unique id.
    started: Cell<u64>,
    _server: JoinSet<()>,
}

impl Stage {
    async fn new() -> Self {
        let env = Env::real();
        let listener =
            env.net.listen(&Endpoint::tcp("127.0.0.1", 0)).await.expect("there is a free port");
        let at = listener.endpoint();
        let mut serving = JoinSet::new();
        serving.spawn(Server::new(&env, ServerLimits::default()).serve(listener));
        Self {
            client: Client::start(&env, at, ClientLimits::default()),
            started: Cell::default(),
            _server: serving,
        }
    }

    async fn start(&self, script: &str) -> Process {
        self.started.set(self.started.get() + 1);
        let Command { argv, env, .. } = shell(script);
        let spec = StartParams {
            process_id: self.started.get().to_string(),
            argv,
            cwd: Directory::root(),
            env: BTreeMap::from_iter(env),
            pipe_stdin: true,
            ..StartParams::default()
        };
        self.client.launch(spec).await.expect("it can be started")
    }
}

/// Counts of the bytes and events received from a process.
struct ReceivedOutput {
    bytes: u64,
    events: u64,
}

/// Reads the events of a process until it ends.
async fn listen(process: &Process) -> ReceivedOutput {
    let (mut received, mut events) = (ReceivedOutput { bytes: 0, events: 0 }, process.events());
    while let Some(event) = events.next().await {
        match event {
            Event::Output { bytes, .. } => {
                received.bytes += bytes.len() as u64;
                received.events += 1;
            }
            Event::Failed(failure) => panic!("{failure}"),
            Event::Exited { .. } | Event::Closed { .. } => {}
        }
    }
    received
}

/// Makes [`CALLS`] calls, one after another, and returns the duration of each.
async fn calls(process: &Process) -> Vec<Duration> {
    let mut took = Vec::new();
    for _ in 0..CALLS {
        let start = Instant::now();
        process.read(0, None, Duration::ZERO).await.expect("it is answered");
        took.push(start.elapsed());
    }
    took
}

/// Makes the same calls while another process floods the connection. Returns the mean duration, and
/// appends all durations to `slow`.
async fn calls_beside_a_flood(
    stage: &Stage,
    quiet: &Process,
    slow: &mut Vec<Duration>,
) -> Duration {
    let flood = stage.start(FLOOD).await;
    let mut listening = JoinSet::new();
    let listener = flood.clone();
    listening.spawn(async move { listen(&listener).await });
    flood.wake().changed().await.expect("it floods");
    let took = calls(quiet).await;
    flood.terminate().await.expect("it is ended");
    let received =
        listening.join_next().await.expect("somebody listens").expect("nothing was lost");
    assert!(received.events > 0);
    slow.extend(&took);
    mean(&took)
}

/// Copies the output of a command over a TCP connection, and returns how many bytes arrived.
async fn plain_copy(script: &str) -> u64 {
    let (mut near, mut far) = connection().await;
    let mut child = Env::real().launch.launch(&shell(script)).await.expect("it can be started");
    let mut stdout = child.stdout().expect("it has a pipe");
    let mut copying = JoinSet::new();
    copying.spawn(async move {
        copy(&mut stdout, &mut far).await.expect("somebody reads");
    });
    copy(&mut near, &mut sink()).await.expect("it is read to its end")
}

/// Returns the mean duration of an echo over a TCP connection.
async fn plain_echo() -> Duration {
    let (mut near, mut far) = connection().await;
    let mut echoing = JoinSet::new();
    echoing.spawn(async move {
        let (mut reads, mut writes) = far.split();
        copy(&mut reads, &mut writes).await
    });
    let (start, mut received) = (Instant::now(), [0; 5]);
    for _ in 0..CALLS {
        near.write_all(b"hello").await.expect("somebody reads");
        near.read_exact(&mut received).await.expect("somebody answers");
    }
    start.elapsed() / CALLS
}

/// Opens a TCP connection and returns both ends.
async fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a free port");
    let at = listener.local_addr().expect("it has an address");
    let near = TcpStream::connect(at).await.expect("somebody listens");
    let (far, _) = listener.accept().await.expect("somebody connects");
    for end in [&near, &far] {
        end.set_nodelay(true).expect("it is open");
    }
    (near, far)
}

/// A shell that runs `script`.
fn shell(script: &str) -> Command {
    let argv = ["/bin/sh", "-c", script].map(str::to_owned).into();
    Command { argv, env: vec![("PATH".into(), "/usr/bin:/bin".into())], ..Command::default() }
}

fn mean(times: &[Duration]) -> Duration {
    times.iter().sum::<Duration>() / times.len() as u32
}

//! Much output over many cuts: whether every byte arrives, how much memory it takes, and how long.

use std::io::Write;
use std::process::{Child, Command, Stdio};

use reknit_proxy::Rule;
use reknit_seams::Env;
use reknit_sse::client::{Client, ClientConfig, Item};
use tokio::time::Instant;

use super::*;

/// The wire needs some 75 bytes for each event beside its output.
const LINE: usize = 1000;

/// Prints numbered lines of [`LINE`] bytes.
fn command(count: u64) -> String {
    format!("seq -f '%0{}.0f' {count}", LINE - 1)
}

/// Resets this many connections at even distances. They carry all lines together, and overheads.
fn resets(connections: u32, lines: u64) -> Vec<Rule> {
    let count = LINE as u64 * lines / u64::from(connections);
    let rule = |conn| cut(Some(conn), count, Fault::Reset { toward: None });
    (1..=connections).map(rule).collect()
}

/// Computes the length and the checksum of bytes, with the program of the system.
struct Sum {
    bytes: usize,
    program: Child,
}

impl Sum {
    fn new() -> Self {
        let program =
            Command::new("sha256sum").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        Self { bytes: 0, program: program.expect("the system has sha256sum") }
    }

    fn add(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
        self.program.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    fn text(self) -> String {
        let output = self.program.wait_with_output().unwrap();
        format!("{} bytes, {}", self.bytes, String::from_utf8(output.stdout).unwrap())
    }
}

/// The same for what a command writes without a server.
fn written(command: &str) -> String {
    let line = format!("set -o pipefail; {command} | tee >(wc -c >&2) | sha256sum");
    let output = Command::new("bash").arg("-c").arg(line).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    format!("{} bytes, {}", text(&output.stderr).trim(), text(&output.stdout))
}

/// Follows a command until its end. Returns the length and checksum of its output, and the most bytes
/// that the server's logs held. There are no gaps.
async fn sum(world: &World, client: Client, command: &str) -> (String, usize) {
    let mut follower = client.run(RunCommand::shell(command)).unwrap();
    let (mut sum, mut most) = (Sum::new(), 0);
    let mut count = 0_u64;
    loop {
        match timeout(LONG, follower.next()).await.expect("it makes progress").unwrap() {
            Some(Item::Output(_, bytes)) => sum.add(&bytes),
            Some(Item::Ended { ending, .. }) => assert_eq!(ending, Ending::Exited(0)),
            Some(Item::Gap(gap)) => panic!("{gap}"),
            None => return (sum.text(), most),
        }
        if count.is_multiple_of(100) {
            most = most.max(world.resources.counts().log_bytes);
        }
        count += 1;
    }
}

/// Returns the most memory that this process has used so far, in MiB.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() >> 10
}

/// Downloads the output of a command with curl. Returns how long it took; `None` without curl.
fn curl(url: &str, command: &str) -> Option<Duration> {
    let body = serde_json::to_string(&RunCommand::shell(command)).unwrap();
    let start = Instant::now();
    let done = Command::new("curl").args(["-sSf", "-o", "/dev/null", "-d", &body, url]).status();
    done.ok().map(|status| {
        assert!(status.success());
        start.elapsed()
    })
}

#[tokio::test]
async fn twenty_megabytes_survive_ten_cuts_although_the_log_retains_less() {
    let limits = ServerLimits {
        hold: Duration::from_secs(30),
        retained_bytes: 16 << 20,
        in_flight: 12 << 20,
        ..ServerLimits::default()
    };
    let world = World::new(limits, resets(10, 20_000)).await;
    let command = command(20_000);
    let (seen, most) = sum(&world, world.client(Dialect::Reknit), &command).await;
    assert_eq!(seen, written(&command));
    assert!(most <= limits.retained_bytes, "{most}");
    assert_eq!(world.proxy.connections(), 11);
}

/// The connections and the time are those of the loopback interface. `.ci/nightly pressure` runs it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it moves 200 MB three times"]
async fn two_hundred_megabytes_survive_fifty_cuts() {
    let limits = ServerLimits {
        hold: Duration::from_secs(30),
        retained_bytes: 48 << 20,
        in_flight: 24 << 20,
        ended_bytes: 0, // an ended log goes, so that the runs do not add up
        ..ServerLimits::default()
    };
    let lines = 200_000;
    let world = World::new(limits, resets(50, lines)).await;
    let (command, before) = (command(lines), peak());
    let start = Instant::now();
    let (seen, most) = sum(&world, world.client(Dialect::Reknit), &command).await;
    let cuts = start.elapsed();
    let memory = peak() - before;
    assert_eq!(seen, written(&command));
    assert_eq!(world.proxy.connections(), 51);
    // The client holds one read of its connection, so this is the memory of the server.
    assert!(most <= limits.retained_bytes, "{most}");
    assert!(memory <= 2 * (limits.retained_bytes >> 20), "{memory} MiB");

    let (config, limits) = (ClientConfig::default(), ClientLimits::default());
    let direct = Client::new(&Env::real(), world.server.clone(), config, limits);
    let start = Instant::now();
    assert_eq!(sum(&world, direct, &command).await.0, seen);
    let plain = start.elapsed();
    let url = format!("http://127.0.0.1:{}/command", world.server.port().unwrap());
    let downloaded = curl(&url, &command); // the server runs on other threads
    println!(
        "200 MB: {cuts:.1?} over 50 cuts, {plain:.1?} without, curl {downloaded:.1?}; \
         logs of at most {} MiB, the process grew by {memory} MiB",
        most >> 20,
    );
}

/// Follows 20 MB of numbered lines over at most twenty cuts, with a server that never waits.
#[tokio::test]
async fn what_the_log_does_not_retain_over_a_cut_is_an_exact_gap() {
    let limits = ServerLimits { retained_bytes: 1 << 20, ..ServerLimits::default() };
    let world = World::new(limits, resets(20, 20_000)).await;
    let run = world.client(Dialect::Reknit).run(RunCommand::shell(command(20_000)));
    let received = received(run.unwrap()).await;
    assert_eq!(received.end, Some(Ok(Ending::Exited(0))));
    // Output in a gap does not count toward the next cut.
    assert!(world.proxy.connections() > 1);
    // One line is one event, so a position is the number of a line.
    let mut expected = Vec::new();
    let mut next = 1;
    for gap in &received.gaps {
        expected.extend(lines(next..=gap.first - 1, LINE - 1));
        next = gap.last + 1;
    }
    expected.extend(lines(next..=20_000, LINE - 1));
    assert!(received.stdout == expected, "{:?}", received.gaps);
}

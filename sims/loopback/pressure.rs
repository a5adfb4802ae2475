//! A reader that is slower than its process.

use std::time::Duration;

use bytes::Bytes;
use reknit_exec::client::Event;
use reknit_exec::limits::ClientLimits;
use tokio::time::{sleep, timeout};

use super::stage::{NEVER, Stage};

/// The reader pauses after this many bytes.
const EVERY: usize = 1 << 20;

/// The length of the output of `seq`.
fn length(lines: u64) -> usize {
    (1..=lines).map(|line| line.to_string().len() + 1).sum()
}

/// Checks that pieces are the output of `seq`, one after the other.
#[derive(Default)]
struct Counter {
    /// The last number that ended.
    last: u64,
    /// The digits of the number that has not ended.
    digits: u64,
    bytes: usize,
}

impl Counter {
    fn check(&mut self, piece: &Bytes) {
        self.bytes += piece.len();
        for byte in piece {
            if *byte == b'\n' {
                assert_eq!(self.digits, self.last + 1);
                (self.last, self.digits) = (self.digits, 0);
            } else {
                self.digits = self.digits * 10 + u64::from(byte - b'0');
            }
        }
    }
}

/// Reads the output of `seq` with pauses, while another process is used without pauses, and the
/// connection is reset at even distances.
async fn reads_all_over_cuts(lines: u64, cuts: usize) {
    let patient = |client: &mut ClientLimits| client.retry_writes = true;
    let stage = Stage::with(patient, |_| {}).await;
    let mut other =
        stage.shell("other", "while read word; do echo heard $word; done; exit 3").await;
    let process = stage.launch("fast", &format!("exec seq {lines}"), false).await;
    let (mut events, mut counter) = (process.events(), Counter::default());
    let (length, mut pauses, mut done) = (length(lines), 0, 0);
    loop {
        match timeout(NEVER, events.next()).await.expect("an event").expect("it is not over") {
            Event::Output { bytes, .. } => counter.check(&bytes),
            Event::Exited { code, .. } => assert_eq!(code, 0),
            Event::Closed { .. } => break,
            Event::Failed(failure) => panic!("{failure}, after {} bytes", counter.bytes),
        }
        if counter.bytes >= (done + 1) * length / (cuts + 1) && done < cuts {
            done += 1;
            stage.proxy.cut().await;
        }
        if counter.bytes >= (pauses + 1) * EVERY {
            pauses += 1;
            sleep(Duration::from_millis(20)).await;
            other.type_line(&pauses.to_string()).await;
            assert_eq!(other.line().await, format!("heard {pauses}"));
        }
        let kept = stage.client.resources().kept_bytes;
        assert!(kept <= ClientLimits::default().log_bytes, "the client keeps {kept} bytes");
    }
    assert_eq!((counter.last, done), (lines, cuts));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_reader_slows_only_its_own_process_and_loses_nothing() {
    reads_all_over_cuts(1_000_000, 6).await;
}

/// `.ci/nightly pressure` runs it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it moves 200 MB"]
async fn a_slow_reader_of_much_output_loses_nothing() {
    reads_all_over_cuts(23_000_000, 50).await;
}

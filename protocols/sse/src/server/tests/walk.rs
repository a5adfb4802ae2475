//! Random walks: a client follows one command over connections that end in every way, and must see
//! each line once, in order, or a gap that covers exactly what it misses.

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use reknit_seams::probe;
use reknit_seams::process::Exit;
use tokio::runtime::Builder;

use super::defects::OneBug;
use super::*;
use crate::wire::{Event, Gap, OutputStream};

/// The next event.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The process prints lines on a pipe.
    Prints { pipe: usize, lines: usize },
    /// The client reads some events.
    Reads(usize),
    /// The client closes its connection.
    Closes,
    /// Both ends of the connection learn of a reset.
    Reset,
    /// Nothing passes on the connection any more; no end learns of it.
    Freezes,
    /// Time passes.
    Waits(u64),
    /// A second client tries to take the stream.
    Rival,
    /// The client repeats its start instead of resuming.
    Repeats,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..2_usize, 1..8_usize).prop_map(|(pipe, lines)| Step::Prints { pipe, lines }),
        3 => (1..9_usize).prop_map(Step::Reads),
        1 => Just(Step::Closes),
        1 => Just(Step::Reset),
        1 => Just(Step::Freezes),
        1 => select(vec![1, 5, 11, 40]).prop_map(Step::Waits),
        1 => Just(Step::Rival),
        1 => Just(Step::Repeats),
    ];
    prop::collection::vec(step, 1..40)
}

/// The client, and what it has seen.
struct Follower<'a> {
    world: &'a World,
    attempt: u64,
    /// The number of its connection.
    connection: usize,
    stream: Option<Answer>,
    after: u64,
    /// For each position: the event, or `None` if it was reported as lost.
    seen: Vec<Option<String>>,
    ended: bool,
}

impl Follower<'_> {
    /// Opens the next stream.
    async fn connects(&mut self, repeats: bool) {
        self.attempt += 1;
        self.connection = self.world.net.connections() + 1;
        let owner = format!("me.{}", self.attempt);
        let headers = [("x-reknit-owner", owner.as_str())];
        let answer = if repeats || self.attempt == 1 {
            let body = r#"{"operation_id":"c","command":"run"}"#;
            let id = self.after.to_string();
            let headers = [headers[0], ("last-event-id", if repeats { &id } else { "" })];
            self.world.send("POST /command", &headers, body).await
        } else {
            let request = format!("GET /command/c/resume?after_eid={}", self.after);
            self.world.send(&request, &headers, "").await
        };
        assert_eq!(answer.status, 200, "its own stream does not stop it");
        self.stream = Some(answer);
    }

    /// Reads up to `most` events of the log. A lost stream is resumed.
    async fn reads(&mut self, most: usize) {
        for _ in 0..most {
            let Some(stream) = self.stream.as_mut().filter(|_| !self.ended) else { return };
            match tokio::time::timeout(SECOND / 10, stream.next()).await {
                Err(_) => return,
                Ok(Ok(record)) => self.sees(record.position, &record.event),
                Ok(Err(_)) => self.connects(false).await,
            }
        }
    }

    fn sees(&mut self, position: Option<u64>, event: &Event) {
        let text = match event {
            Event::Output(stream, bytes) => {
                format!("{stream:?} {}", String::from_utf8_lossy(bytes).trim_end())
            }
            Event::Ended { ending, .. } => {
                self.ended = true;
                format!("{ending:?}")
            }
            Event::Gap(Gap { first, last }) => {
                assert_eq!((*first, position), (self.after + 1, None));
                self.seen.extend((*first..=*last).map(|_| None));
                self.after = *last;
                return;
            }
            _ => return,
        };
        assert_eq!(position, Some(self.after + 1), "{text}");
        self.after += 1;
        self.seen.push(Some(text));
    }
}

async fn walk(steps: Vec<Step>, retained: usize) {
    let limits = ServerLimits {
        retained_events: retained,
        batch_bytes: 8,
        write_buffer: 0,
        ..ServerLimits::default()
    };
    let world = World::new(limits).await;
    let mut client = Follower {
        world: &world,
        attempt: 0,
        connection: 0,
        stream: None,
        after: 0,
        seen: Vec::new(),
        ended: false,
    };
    client.connects(false).await;
    sleep(SECOND / 10).await;
    let mut printed = Vec::new();
    for step in steps {
        match step {
            Step::Prints { pipe, lines } => {
                let stream = [OutputStream::Stdout, OutputStream::Stderr][pipe];
                let numbers = printed.len()..printed.len() + lines;
                let text: String = numbers.clone().map(|number| format!("{number}\n")).collect();
                printed.extend(numbers.map(|number| format!("{stream:?} {number}")));
                world.machine.prints_on(0, pipe, text.as_bytes()).await;
            }
            Step::Reads(most) => client.reads(most).await,
            Step::Closes => {
                client.stream.take().unwrap().close();
                client.connects(false).await;
            }
            Step::Reset => world.net.set(client.connection, Fate::Reset),
            Step::Freezes => {
                world.net.set(client.connection, Fate::Frozen);
                client.connects(false).await;
            }
            Step::Waits(seconds) => sleep(SECOND * seconds as u32).await,
            Step::Rival => {
                let rival = world.resume(0, None).await;
                // It has the stream only if the client has lost its own.
                if rival.status == 200 {
                    rival.close();
                    sleep(SECOND / 10).await;
                } else {
                    assert_eq!(rival.code().await, (409, "STREAM_ACTIVE".to_owned()));
                }
            }
            Step::Repeats => client.connects(true).await,
        }
    }
    printed.push("Exited(7)".to_owned());
    world.machine.exits(0, Exit::Code(7)).await;
    for _ in 0..100 {
        client.reads(100).await;
    }
    assert!(client.ended, "the ending never arrives");
    assert_eq!(client.seen.len(), printed.len());
    for (seen, printed) in client.seen.iter().zip(&printed) {
        assert!(seen.as_ref().is_none_or(|seen| seen == printed), "{seen:?} is not {printed}");
    }
    if retained > printed.len() {
        assert!(client.seen.iter().all(Option::is_some), "nothing had to go");
    }
    assert_eq!(world.machine.launches(), 1);
    sleep(100 * SECOND).await;
    let counts = world.resources.counts();
    assert_eq!((counts.connections, counts.streams, counts.running), (0, 0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]
    #[test]
    fn a_client_sees_each_line_once_or_its_exact_gap(
        steps in steps(),
        retained in select(vec![1, 3, 20, 1000]),
    ) {
        let runtime = Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.unwrap().block_on(walk(steps, retained));
    }
}

/// Whether one of 300 walks fails with a bug.
fn is_found(bug: &'static str) -> bool {
    let config = ProptestConfig {
        failure_persistence: None,
        max_shrink_iters: 0,
        ..ProptestConfig::with_cases(300)
    };
    let mut runner =
        TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let walks = (steps(), select(vec![1, 3, 20, 1000]));
    let found = runner.run(&walks, |(steps, retained)| {
        let runtime = Builder::new_current_thread().enable_all().start_paused(true).build();
        let _attached = probe::attach(OneBug::new(bug));
        runtime.unwrap().block_on(walk(steps, retained));
        Ok(())
    });
    found.is_err()
}

#[test]
fn the_walks_find_bugs_that_lose_or_repeat_events() {
    for bug in [
        "IdBeforeLock",
        "SnapshotThenAttach",
        "AttachThenFlush",
        "FinishedBeforeEnding",
        "OverflowIsSilent",
        "StartRunsTwice",
    ] {
        assert!(is_found(bug), "{bug}");
    }
}

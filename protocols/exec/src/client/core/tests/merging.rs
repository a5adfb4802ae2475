//! Tests of the merge of read answers and live events into one sequence.

use reknit_resume::InsertOutcome;

use super::super::process::{ProcessEvent, ProcessState};
use super::*;
use crate::client::log::Via;
use crate::wire::process::{OutputStream, ReadResult};

/// A single process without a core.
struct ProcessTest {
    process: ProcessState,
    seen: ObservedProcess,
    now: Instant,
}

const LIVE: Via = Via { generation: 2, live: true };

impl ProcessTest {
    fn with(items: usize, weight: usize) -> Self {
        let log = Arc::new(Log::new(LogLimits { events: 1000, bytes: 1 << 20 }, || {}));
        let seen = ObservedProcess { key: Key { id: "p1".into(), serial: 1 }, log: log.clone() };
        Self {
            process: ProcessState::new(&seen.key, log, Bounds { items, weight }),
            seen,
            now: Instant::now(),
        }
    }

    fn new() -> Self {
        Self::with(256, 1 << 20)
    }

    fn on_event(&mut self, seq: u64, what: ProcessEvent) -> Result<InsertOutcome, Failure> {
        self.process.on_event(seq, what, LIVE, self.now)
    }

    fn output(&mut self, seq: u64, text: &'static str) -> Result<InsertOutcome, Failure> {
        self.on_event(seq, ProcessEvent::Output(OutputStream::Stdout, text.into()))
    }

    fn merge(
        &mut self,
        chunks: &[(u64, &str)],
        next_seq: u64,
        exit: Option<i32>,
        closed: bool,
    ) -> Result<(), Failure> {
        let answer: ReadResult =
            serde_json::from_value(answer(chunks, next_seq, exit, closed)).unwrap();
        self.process.merge(answer, 2, self.now)
    }

    fn events_text(&self) -> String {
        self.seen.events_text()
    }
}

fn gap(next: u64, last: u64) -> Result<(), Failure> {
    Err(Failure::Gap { next, last })
}

#[tokio::test(start_paused = true)]
async fn exit_and_close_take_the_remaining_numbers() {
    for (chunks, reported) in [
        ([(1, "a"), (2, "b")], "1=a 2=b 3=exit(7) 4=closed"),
        ([(1, "a"), (3, "b")], "1=a 2=exit(7) 3=b 4=closed"),
        ([(2, "a"), (3, "b")], "1=exit(7) 2=a 3=b 4=closed"),
    ] {
        let mut test = ProcessTest::new();
        assert_eq!(test.merge(&chunks, 5, Some(7), true), Ok(()));
        assert_eq!((test.events_text().as_str(), test.process.is_closed()), (reported, true));
    }
}

#[tokio::test(start_paused = true)]
async fn an_exit_without_a_close_takes_the_missing_number() {
    let mut test = ProcessTest::new();
    assert_eq!(test.merge(&[(1, "a")], 3, Some(0), false), Ok(()));
    assert_eq!(test.events_text(), "1=a 2=exit(0)");
    assert_eq!(test.merge(&[(3, "late")], 5, Some(0), true), Ok(()));
    assert_eq!(test.events_text(), "1=a 2=exit(0) 3=late 4=closed");
}

#[tokio::test(start_paused = true)]
async fn a_missing_chunk_is_a_gap_and_no_later_event_is_published() {
    let mut test = ProcessTest::new();
    test.output(1, "a").unwrap();
    assert_eq!(test.merge(&[(3, "c")], 4, None, false), gap(2, 3));
    assert_eq!(test.events_text(), "1=a");
}

#[tokio::test(start_paused = true)]
async fn two_missing_numbers_are_never_taken_for_an_exit() {
    let mut test = ProcessTest::new();
    // 1 and 3 are missing: one of them was output that the server no longer has.
    assert_eq!(test.merge(&[(2, "b")], 5, Some(0), true), gap(1, 4));
    assert_eq!(test.events_text(), "", "no exit before the output that precedes it");
}

#[tokio::test(start_paused = true)]
async fn an_exit_that_arrived_live_fills_no_missing_number() {
    let mut test = ProcessTest::new();
    test.on_event(3, ProcessEvent::Exited(0)).unwrap();
    assert_eq!(test.merge(&[(1, "a")], 4, Some(0), false), gap(2, 3));
    let mut test = ProcessTest::new();
    test.on_event(2, ProcessEvent::Exited(0)).unwrap();
    assert_eq!(test.merge(&[(1, "a")], 4, Some(0), true), Ok(()));
    assert_eq!(test.events_text(), "1=a 2=exit(0) 3=closed");
}

#[tokio::test(start_paused = true)]
async fn an_exit_without_a_remaining_number_is_a_contradiction() {
    let mut test = ProcessTest::new();
    assert_eq!(test.merge(&[(1, "a"), (2, "b")], 3, Some(0), false), Err(Failure::Contradiction));
    assert_eq!(test.events_text(), "");
}

#[tokio::test(start_paused = true)]
async fn an_event_that_arrived_live_and_was_read_is_published_once() {
    let mut test = ProcessTest::new();
    test.output(1, "a").unwrap();
    test.output(3, "c").unwrap();
    assert_eq!(test.merge(&[(1, "a"), (2, "b"), (3, "c")], 4, None, false), Ok(()));
    assert_eq!(test.output(2, "b"), Ok(InsertOutcome::Known));
    assert_eq!(test.events_text(), "1=a 2=b 3=c");
}

#[tokio::test(start_paused = true)]
async fn an_event_newer_than_the_answer_waits_for_the_events_before_it() {
    let mut test = ProcessTest::new();
    test.output(5, "e").unwrap();
    assert_eq!(test.merge(&[(1, "a"), (2, "b")], 3, None, false), Ok(()));
    assert_eq!(
        (test.events_text().as_str(), test.process.behind_since),
        ("1=a 2=b", Some(test.now))
    );
    test.output(4, "d").unwrap();
    test.output(3, "c").unwrap();
    assert_eq!(
        (test.events_text().as_str(), test.process.behind_since),
        ("1=a 2=b 3=c 4=d 5=e", None)
    );
}

#[tokio::test(start_paused = true)]
async fn an_answer_older_than_the_published_events_changes_nothing() {
    let mut test = ProcessTest::new();
    test.output(1, "a").unwrap();
    test.output(2, "b").unwrap();
    assert_eq!(test.merge(&[], 3, None, false), Ok(()));
    assert_eq!(test.merge(&[(9, "x")], 2, None, false), Ok(()), "it is not even looked at");
    assert_eq!(test.events_text(), "1=a 2=b");
}

#[tokio::test(start_paused = true)]
async fn an_early_close_waits_for_all_events_before_it() {
    let mut test = ProcessTest::new();
    test.on_event(4, ProcessEvent::Closed).unwrap();
    test.output(1, "a").unwrap();
    test.on_event(3, ProcessEvent::Exited(0)).unwrap();
    assert_eq!((test.events_text().as_str(), test.process.is_closed()), ("1=a", false));
    test.output(2, "b").unwrap();
    assert_eq!(
        (test.events_text().as_str(), test.process.is_closed()),
        ("1=a 2=b 3=exit(0) 4=closed", true)
    );
}

#[tokio::test(start_paused = true)]
async fn a_mebibyte_of_tiny_chunks_is_merged_with_a_small_buffer() {
    let mut test = ProcessTest::with(2, 2);
    test.seen.log = Arc::new(Log::new(LogLimits { events: 100_000, bytes: 1 << 20 }, || {}));
    test.process =
        ProcessState::new(&test.seen.key, test.seen.log.clone(), Bounds { items: 2, weight: 2 });
    test.output(50_001, "z").unwrap();
    let chunks: Vec<(u64, &str)> = (2..=50_000).map(|seq| (seq, "x")).collect();
    assert_eq!(test.merge(&chunks, 50_001, Some(3), false), Ok(()));
    assert_eq!(test.process.published(), 50_001);
    assert!(test.events_text().starts_with("1=exit(3) 2=x 3=x"));
}

#[tokio::test(start_paused = true)]
async fn inconsistent_events_are_a_contradiction() {
    for heard in [
        vec![(4, ProcessEvent::Closed)],
        vec![(3, ProcessEvent::Exited(0)), (4, ProcessEvent::Closed)],
    ] {
        let mut test = ProcessTest::new();
        for (seq, what) in heard {
            test.on_event(seq, what).unwrap();
        }
        assert_eq!(test.output(5, "x"), Err(Failure::Contradiction), "output behind the close");
    }
    let mut test = ProcessTest::new();
    test.on_event(3, ProcessEvent::Exited(0)).unwrap();
    assert_eq!(test.on_event(2, ProcessEvent::Exited(0)), Err(Failure::Contradiction), "two exits");
    assert_eq!(
        test.on_event(2, ProcessEvent::Closed),
        Err(Failure::Contradiction),
        "a close before the exit"
    );
    assert_eq!(
        test.merge(&[(1, "a"), (2, "b"), (3, "c")], 4, None, false),
        Err(Failure::Contradiction),
        "output for an exit"
    );
    let mut test = ProcessTest::new();
    test.output(1, "a").unwrap();
    assert_eq!(
        test.merge(&[(2, "b")], 3, Some(0), true),
        Err(Failure::Contradiction),
        "output for the close"
    );
    assert_eq!(
        test.merge(&[(4, "b")], 3, None, false),
        Err(Failure::Contradiction),
        "output behind the end of the answer"
    );
    assert_eq!(test.events_text(), "1=a");
    assert_eq!(
        test.on_event(2, ProcessEvent::Closed),
        Err(Failure::Contradiction),
        "a close without an exit"
    );
    let mut test = ProcessTest::new();
    assert_eq!(
        test.merge(&[(1, "a")], 3, None, true),
        Err(Failure::Contradiction),
        "the same, from a read"
    );
    assert_eq!(test.events_text(), "");
}

#[tokio::test(start_paused = true)]
async fn the_greatest_numbers_cause_a_gap_without_overflow() {
    let mut test = ProcessTest::new();
    assert_eq!(test.merge(&[], u64::MAX, None, false), gap(1, u64::MAX - 1));
    assert_eq!(test.output(u64::MAX, "z"), Ok(InsertOutcome::Kept));
    assert_eq!(test.merge(&[], u64::MAX, Some(1), false), gap(1, u64::MAX - 1));
    assert_eq!(
        test.merge(&[], u64::MAX, Some(1), true),
        Err(Failure::Contradiction),
        "a close before what was heard"
    );
}

#[tokio::test(start_paused = true)]
async fn early_events_beyond_the_bounds_are_dropped_highest_number_first() {
    let mut test = ProcessTest::with(2, 100);
    assert_eq!(test.output(2, "b"), Ok(InsertOutcome::Kept));
    assert_eq!(test.output(3, "c"), Ok(InsertOutcome::Kept));
    assert_eq!(test.output(4, "d"), Ok(InsertOutcome::Dropped));
    assert_eq!(test.process.held_back(), (2, 2));
    test.output(1, "a").unwrap();
    assert_eq!(
        (test.events_text().as_str(), test.process.behind_since),
        ("1=a 2=b 3=c", Some(test.now)),
        "4 is not forgotten"
    );
    assert_eq!(test.merge(&[(4, "d")], 5, None, false), Ok(()));
    assert_eq!((test.events_text().as_str(), test.process.behind_since), ("1=a 2=b 3=c 4=d", None));
}

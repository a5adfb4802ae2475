use proptest::prelude::*;

use super::*;
use OutputStream::{Stderr, Stdout};

fn log(items: usize, weight: usize) -> CommandLog {
    CommandLog::new(Epoch(7), Bounds { items, weight })
}

fn wide() -> CommandLog {
    log(usize::MAX, usize::MAX)
}

/// Reads everything after `after`. Renders events as their text, a gap as its range.
fn read_all(log: &CommandLog, mut after: u64) -> Vec<String> {
    let mut seen = Vec::new();
    loop {
        match log.read(after) {
            Following::Gap(gap) => {
                seen.push(format!("{}..={}", gap.first, gap.last));
                after = gap.last;
            }
            Following::Event(record) => {
                after += 1;
                assert_eq!(record.position, Some(after));
                seen.push(match &record.event {
                    Event::Output(_, bytes) => String::from_utf8_lossy(bytes).into_owned(),
                    Event::Ended { ending, .. } => format!("{ending:?}"),
                    other => panic!("{other:?} is not logged"),
                });
            }
            Following::Nothing => return seen,
            Following::End => {
                seen.push("end".to_owned());
                return seen;
            }
        }
    }
}

#[test]
fn positions_count_the_appends_of_both_pipes_and_the_ending() {
    let now = Instant::now();
    let mut log = wide();
    assert_eq!((log.last(), log.oldest(), log.read(0)), (0, 1, Following::Nothing));
    log.output(1, Stdout, "a".into());
    log.output(2, Stderr, "b".into());
    log.end(3, Ending::Exited(0), 9, now);
    assert_eq!(read_all(&log, 0), ["a", "b", "Exited(0)", "end"]);
    assert_eq!(read_all(&log, 2), ["Exited(0)", "end"]);
    assert_eq!((log.last(), log.oldest()), (3, 1));
}

#[test]
fn a_reader_waits_while_the_command_runs_and_ends_with_the_ending() {
    let mut log = wide();
    log.output(1, Stdout, "a".into());
    assert_eq!(log.read(1), Following::Nothing);
    log.end(2, Ending::Killed(9), 0, Instant::now());
    assert!(matches!(log.read(1), Following::Event(_)));
    assert_eq!(log.read(2), Following::End);
}

#[test]
fn nothing_follows_the_ending() {
    let now = Instant::now();
    let mut log = wide();
    log.end(1, Ending::Exited(0), 0, now);
    log.output(2, Stdout, "late".into());
    log.end(3, Ending::Exited(1), 0, now);
    assert_eq!(read_all(&log, 0), ["Exited(0)", "end"]);
    assert_eq!(
        log.ended().map(|ended| (&ended.ending, ended.timestamp)),
        Some((&Ending::Exited(0), 1))
    );
}

#[test]
fn a_reader_learns_the_exact_range_that_it_misses_before_anything_else() {
    let mut log = log(2, usize::MAX);
    let evicted: Vec<_> =
        ["a", "b", "c", "d"].into_iter().map(|text| log.output(0, Stdout, text.into())).collect();
    assert_eq!(evicted, [None, None, Some(1), Some(2)]);
    assert_eq!(read_all(&log, 0), ["1..=2", "c", "d"]);
    assert_eq!(read_all(&log, 1), ["2..=2", "c", "d"]);
    assert_eq!(read_all(&log, 2), ["c", "d"], "a reader at the border misses nothing");
}

#[test]
fn bytes_are_limited_and_the_newest_event_always_stays() {
    let mut log = log(usize::MAX, 2 * OVERHEAD + 10);
    log.output(0, Stdout, "12345".into());
    log.output(0, Stdout, "12345".into());
    assert_eq!(log.output(0, Stdout, "1".into()), Some(1));
    assert_eq!(log.output(0, Stdout, vec![b'x'; 1000].into()), Some(3));
    assert_eq!((log.oldest(), log.weight()), (4, 1000 + OVERHEAD));
    log.end(0, Ending::TimedOut, 0, Instant::now());
    assert_eq!(read_all(&log, 3), ["4..=4", "TimedOut", "end"], "the ending is the newest");
}

#[test]
fn a_cursor_is_checked_against_the_run_and_the_last_event() {
    let mut log = wide();
    log.output(0, Stdout, "a".into());
    let (ours, theirs) = (Epoch(7), Epoch(8));
    assert_eq!(log.check(Cursor::new(ours, 1)), Ok(()));
    assert_eq!(log.check(Cursor::new(ours, 2)), Err(CursorError::Future { after: 2, last: 1 }));
    assert_eq!(log.check(Cursor::new(theirs, 1)), Err(CursorError::Foreign { theirs, ours }));
}

proptest! {
    /// A reader sees each event once, in order, or a gap that covers exactly the events that it
    /// misses. Events are appended and evicted between its reads.
    #[test]
    fn a_reader_sees_or_misses_each_event_exactly_once(
        items in 0..6_usize,
        weight in 0..600_usize,
        steps in prop::collection::vec((any::<bool>(), 0..200_usize), 0..60),
    ) {
        let mut log = log(items, weight);
        let (mut after, mut appended) = (0, 0_u64);
        for (append, size) in steps {
            if append {
                log.output(appended, Stdout, vec![b'x'; size].into());
                appended += 1;
                prop_assert_eq!(log.last(), appended);
                prop_assert!(log.oldest() == appended || log.weight() <= weight);
                continue;
            }
            match log.read(after) {
                Following::Gap(gap) => {
                    prop_assert_eq!((gap.first, gap.last), (after + 1, log.oldest() - 1));
                    after = gap.last;
                }
                Following::Event(record) => {
                    after += 1;
                    prop_assert_eq!((record.position, record.timestamp), (Some(after), after - 1));
                }
                Following::Nothing => prop_assert_eq!(after, appended),
                Following::End => prop_assert!(false, "the command runs"),
            }
        }
    }
}

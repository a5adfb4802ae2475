use reknit_seams::net::ConnId;

use super::*;
use crate::wire::Epoch;
use OutputStream::{Stderr, Stdout};

const SECOND: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(10);
const WIDE: usize = usize::MAX;

/// A command with the id `c`, and the present.
struct Story {
    command: Command,
    now: Instant,
}

fn id() -> CommandId {
    "c".parse().unwrap()
}

impl Story {
    fn new(items: usize) -> Self {
        let bounds = reknit_resume::Bounds { items, weight: WIDE };
        let now = Instant::now();
        Self { command: Command::new(CommandLog::new(Epoch(7), bounds), None, 1000, now), now }
    }

    fn prints(&mut self, lines: &[&'static str]) {
        for line in lines {
            self.command.output(0, Stdout, Bytes::from_static(line.as_bytes()));
        }
    }

    fn link(&self) -> Arc<Link> {
        Arc::new(Link::new(ConnId(1), self.now))
    }

    /// Attaches a stream of `owner` after `after`. The connection takes bytes now.
    fn attach(&mut self, after: u64, owner: Option<&str>) -> Result<Attached, Refusal> {
        let (link, owner) = (self.link(), owner.map(|owner| owner.parse().unwrap()));
        let cursor = Cursor { epoch: None, after };
        self.command.attach(&id(), cursor, owner, link, self.now, PATIENCE)
    }

    fn pull(&mut self, generation: u64, after: u64) -> Pull {
        self.command.pull(generation, after, WIDE, 5)
    }

    fn ends(&mut self) {
        self.command.end(2000, Ending::Exited(0), self.now);
    }
}

/// Renders pulled events: `1 a`, `gap 1..=2`, `3 end`.
fn shown(pull: &Pull) -> Vec<String> {
    let Pull::Events { records, .. } = pull else { panic!("{pull:?}") };
    let show = |record: &Record| match (&record.event, record.position) {
        (Event::Output(_, bytes), Some(at)) => format!("{at} {}", String::from_utf8_lossy(bytes)),
        (Event::Ended { .. }, Some(at)) => format!("{at} end"),
        (Event::Gap(gap), None) => format!("gap {}..={}", gap.first, gap.last),
        other => panic!("{other:?}"),
    };
    records.iter().map(show).collect()
}

#[test]
fn replay_and_live_output_are_one_loop() {
    let mut story = Story::new(WIDE);
    story.prints(&["a", "b"]);
    let generation = story.attach(1, None).unwrap().generation;
    assert_eq!(shown(&story.pull(generation, 1)), ["2 b"]);
    assert_eq!(story.pull(generation, 2), Pull::Nothing);
    story.prints(&["c"]);
    story.ends();
    assert_eq!(shown(&story.pull(generation, 2)), ["3 c", "4 end"]);
    assert_eq!(story.pull(generation, 4), Pull::End);
}

#[test]
fn a_batch_has_about_the_wanted_size_and_at_least_one_event() {
    let mut story = Story::new(WIDE);
    story.prints(&["aa", "bb", "cc"]);
    let generation = story.attach(0, None).unwrap().generation;
    for (most, wanted) in [(0, 1), (4, 2), (5, 2), (6, 3)] {
        assert_eq!(shown(&story.command.pull(generation, 0, most, 5)).len(), wanted, "{most}");
    }
}

#[test]
fn a_gap_comes_before_the_events_that_follow_it() {
    let mut story = Story::new(2);
    story.prints(&["a", "b", "c", "d"]);
    let attached = story.attach(1, None).unwrap();
    assert_eq!((attached.oldest, attached.next), (3, 5));
    assert_eq!(shown(&story.pull(attached.generation, 1)), ["gap 2..=2", "3 c", "4 d"]);
}

#[test]
fn an_active_stream_is_not_replaced() {
    let mut story = Story::new(WIDE);
    let first = story.attach(0, None).unwrap().generation;
    story.now += 4 * SECOND;
    let refused = story.attach(0, None).unwrap_err();
    assert_eq!(refused, Refusal::Active { id: id(), retry: 6 * SECOND });
    assert_eq!(story.pull(first, 0), Pull::Nothing, "the first one goes on");
}

#[test]
fn a_stream_without_progress_is_replaced_exactly_at_the_stated_time() {
    let mut story = Story::new(WIDE);
    let first = story.attach(0, None).unwrap().generation;
    story.now += PATIENCE - Duration::from_millis(1);
    assert!(story.attach(0, None).is_err());
    story.now += Duration::from_millis(1);
    let second = story.attach(0, None).unwrap();
    assert!(second.replaced.is_some());
    assert_eq!(story.pull(first, 0), Pull::Fenced);
    assert_eq!(story.pull(second.generation, 0), Pull::Nothing);
}

#[test]
fn the_same_client_replaces_its_own_stream_at_once_but_only_with_a_later_request() {
    let mut story = Story::new(WIDE);
    story.attach(0, Some("a.2")).unwrap();
    for owner in ["a.1", "a.2"] {
        assert_eq!(story.attach(0, Some(owner)).unwrap_err(), Refusal::Superseded(id()));
    }
    for owner in [Some("b.9"), None] {
        assert!(matches!(story.attach(0, owner), Err(Refusal::Active { .. })));
    }
    assert_eq!(story.attach(0, Some("a.3")).unwrap().generation, 2);
}

#[test]
fn the_late_end_of_an_old_stream_does_not_end_the_new_one() {
    let mut story = Story::new(WIDE);
    let first = story.attach(0, Some("a.1")).unwrap().generation;
    let second = story.attach(0, Some("a.2")).unwrap().generation;
    assert!(!story.command.detach(first));
    assert_eq!(story.pull(second, 0), Pull::Nothing);
    assert!(story.command.detach(second));
    assert!(!story.command.has_stream());
    assert_eq!(story.pull(second, 0), Pull::Fenced);
}

#[test]
fn a_refused_cursor_does_not_touch_the_stream() {
    let mut story = Story::new(WIDE);
    story.prints(&["a"]);
    let first = story.attach(0, Some("a.1")).unwrap().generation;
    let refused = story.attach(2, Some("a.2")).unwrap_err();
    assert_eq!(refused, CursorError::Future { after: 2, last: 1 }.into());
    assert_eq!(shown(&story.pull(first, 0)), ["1 a"]);
}

#[test]
fn a_command_of_a_shell_session_has_one_stream_and_says_why() {
    let mut story = Story::new(WIDE);
    let log = CommandLog::new(Epoch(7), reknit_resume::Bounds { items: WIDE, weight: WIDE });
    story.command = Command::new(log, Some("s".into()), 0, story.now);
    let first = story.attach(0, None).unwrap().generation;
    story.command.detach(first);
    assert_eq!(story.attach(0, None).unwrap_err(), Refusal::NotResumable(id()));
}

#[test]
fn logs_join_the_output_of_both_pipes_and_count_the_ending() {
    let mut story = Story::new(WIDE);
    story.prints(&["a\n"]);
    story.command.output(0, Stderr, "b\n".into());
    story.ends();
    let logs = story.command.logs(Cursor::START, WIDE).unwrap();
    assert_eq!(logs, Logs { gap: None, output: b"a\nb\n".to_vec(), next: 3 });
    let again = story.command.logs(Cursor { epoch: None, after: logs.next }, WIDE).unwrap();
    assert_eq!(again, Logs { gap: None, output: vec![], next: 3 });
}

#[test]
fn logs_stop_between_two_lines_and_report_what_is_lost() {
    let mut story = Story::new(3);
    story.prints(&["a", "bb", "cc", "dd"]);
    let logs = story.command.logs(Cursor::START, 4).unwrap();
    let gap = Gap { first: 1, last: 1 };
    assert_eq!(logs, Logs { gap: Some(gap), output: b"bbcc".to_vec(), next: 3 });
    let mut story = Story::new(WIDE);
    story.prints(&["\n", "abc\n"]);
    let logs = story.command.logs(Cursor::START, 4).unwrap();
    assert_eq!(logs, Logs { gap: None, output: b"\n".to_vec(), next: 1 });
}

#[test]
fn only_a_running_command_is_interrupted() {
    let mut story = Story::new(WIDE);
    assert!(story.command.interrupt() && story.command.interrupted());
    story.ends();
    assert!(!story.command.interrupt());
}

#[test]
fn the_status_follows_from_the_log() {
    let mut story = Story::new(WIDE);
    story.prints(&["a"]);
    let running = story.command.status(&id(), "ls".into());
    assert_eq!((running.running, running.exit_code, running.last), (true, None, 1));
    story.now += 2 * SECOND;
    story.ends();
    let ended = story.command.status(&id(), "ls".into());
    assert_eq!((ended.running, ended.exit_code, ended.last), (false, Some(0), 2));
    let Pull::Events { records, .. } = story.command.read(1, WIDE, 0) else { panic!() };
    assert_eq!(records[0].event, Event::Ended { ending: Ending::Exited(0), took: 2000 });
}

const HOLD: Duration = Duration::from_secs(5);

/// Each entry weighs 64 and its output; these weigh 65.
const ENTRY: usize = 65;

impl Story {
    /// Returns for how long a further line waits. The connection made its last progress now.
    fn waits(&self, in_flight: usize) -> Option<Duration> {
        self.command.waits(1, HOLD, in_flight).map(|until| until - self.now)
    }
}

#[test]
fn output_waits_only_for_events_that_would_have_to_go() {
    let mut story = Story::new(4);
    story.attach(0, None).unwrap();
    story.prints(&["a", "b"]);
    assert_eq!(story.waits(0), None);
    story.prints(&["c"]);
    assert_eq!(story.waits(0), Some(HOLD));
    story.ends();
    assert_eq!(story.waits(0), None);
}

/// The ending does not wait.
#[test]
fn output_leaves_room_for_the_ending() {
    let mut story = Story::new(3);
    story.attach(0, None).unwrap();
    story.prints(&["a"]);
    assert_eq!(story.waits(0), None);
    story.prints(&["b"]);
    assert_eq!(story.waits(0), Some(HOLD));
    story.ends();
    assert_eq!(story.command.log.oldest(), 1);
}

/// The newest event always stays, so a log of one event has no room for output and the ending.
#[test]
fn the_last_output_goes_for_the_ending_if_the_log_is_too_small() {
    let mut story = Story::new(1);
    story.attach(0, None).unwrap();
    assert_eq!(story.waits(0), None);
    story.prints(&["a"]);
    assert_eq!(story.waits(0), Some(HOLD));
    story.ends();
    assert_eq!(story.command.log.oldest(), 2);
}

#[test]
fn a_stream_that_has_taken_everything_delays_nothing() {
    let mut story = Story::new(3);
    let generation = story.attach(0, None).unwrap().generation;
    story.prints(&["a", "b", "c"]);
    story.pull(generation, 0);
    assert_eq!(story.waits(usize::MAX), None);
    story.prints(&["d"]);
    assert_eq!(story.waits(usize::MAX), Some(HOLD));
}

#[test]
fn an_event_counts_as_received_when_enough_bytes_were_taken_behind_it() {
    let mut story = Story::new(5);
    let generation = story.attach(0, None).unwrap().generation;
    story.prints(&["a", "b", "c"]);
    story.pull(generation, 0);
    story.prints(&["d"]);
    // The first event would have to go. Two were taken behind it.
    assert_eq!(story.waits(2 * ENTRY), None);
    assert_eq!(story.waits(2 * ENTRY + 1), Some(HOLD));
}

#[test]
fn output_waits_for_the_next_stream_after_a_loss() {
    let mut story = Story::new(4);
    story.prints(&["a", "b", "c"]);
    assert_eq!(story.waits(0), None, "there was no stream yet");
    let first = story.attach(0, None).unwrap().generation;
    story.pull(first, 0);
    story.command.detach(first);
    assert_eq!(story.waits(2 * ENTRY), None);
    assert_eq!(story.waits(2 * ENTRY + 1), Some(HOLD));
    // The cursor of the client counts, not the bytes that its old connection took.
    story.attach(1, None).unwrap();
    assert_eq!(story.waits(usize::MAX), None);
    story.prints(&["d"]);
    assert_eq!(story.waits(usize::MAX), Some(HOLD));
}

#[test]
fn the_late_end_of_an_old_stream_is_not_the_loss_that_output_waits_for() {
    let mut story = Story::new(4);
    let first = story.attach(0, Some("a.1")).unwrap().generation;
    let second = story.attach(0, Some("a.2")).unwrap().generation;
    story.prints(&["a", "b", "c"]);
    story.pull(second, 0);
    story.command.detach(second);
    story.command.detach(first);
    assert_eq!(story.waits(2 * ENTRY), None);
}

//! Tests that drive a session directly: the test attaches and detaches connections, produces
//! events, and controls the time.

use std::io;
use std::time::Duration;

use reknit_seams::process::{Exit, KILL};

use super::super::log::{CHUNK, EntryKind, LogEntry};
use super::super::process::Run;
use super::*;
use crate::wire::process::{OutputStream, ReadResult, WriteStatus};
use crate::wire::sandbox::SandboxType;
use OutputStream::{Stderr, Stdout};

const ONE: ConnId = ConnId(1);
const TWO: ConnId = ConnId(2);
const MS: Duration = Duration::from_millis(1);
const ALL: Reading = Reading { after: 0, max: None, may_wait: false };

/// A clock, and a session that connection 1 opened.
struct Scene {
    session: Session,
    line: ClientConnection,
    signs: watch::Sender<Instant>,
    now: Instant,
}

impl Scene {
    fn with(limits: ServerLimits) -> Self {
        let now = Instant::now();
        let signs = watch::Sender::new(now);
        let line =
            ClientConnection { wake: Arc::default(), signs: signs.subscribe(), window: None };
        Self { session: Session::new(ONE, line.clone(), limits, now), line, signs, now }
    }

    fn new() -> Self {
        Self::with(ServerLimits::default())
    }

    /// Starts a process with both output pipes and an input.
    fn running(&mut self, id: &str) -> Run {
        let by = self.session.attached_by().unwrap();
        let run = self.session.start(by, &id.into(), SandboxType::None, self.now).unwrap();
        self.session.started(&run, 2, true).unwrap();
        assert_eq!(self.session.outcome(&run), Some(Ok(())));
        run
    }

    /// Starts and closes a process.
    fn closed(&mut self, id: &str) -> Run {
        let run = self.running(id);
        self.end(&run);
        run
    }

    fn end(&mut self, run: &Run) {
        self.session.stream_ended(run, self.now);
        self.session.stream_ended(run, self.now);
        self.session.exited(run, Ok(Exit::Code(0)), self.now);
    }

    fn prints(&mut self, run: &Run, text: &str) {
        self.session.produced(run, Stdout, text.to_owned().into());
    }

    /// Advances the time; the client gives a sign of life.
    fn later(&mut self, by: Duration) {
        self.now += by;
        self.signs.send_replace(self.now);
    }

    /// Advances the time; the client is silent.
    fn silently(&mut self, by: Duration) {
        self.now += by;
    }

    fn detach(&mut self) {
        let by = self.session.attached_by().unwrap();
        assert!(self.session.detach(by, self.now));
    }

    fn attach(&mut self, by: ConnId) {
        self.session.attach(by, self.line.clone(), self.now).unwrap();
    }

    /// Sends all pending events and returns them in order: `p1:1`.
    fn sent(&mut self) -> Vec<String> {
        let by = self.session.attached_by().unwrap();
        let next = || {
            self.session
                .pull(by)
                .unwrap()
                .map(|(process, event)| format!("{process}:{}", event.seq))
        };
        std::iter::from_fn(next).collect()
    }

    fn read(&mut self, id: &str) -> Result<ReadResult, RequestError> {
        let by = self.session.attached_by().unwrap();
        self.session.read(by, &id.into(), ALL).map(|result| result.expect("it does not wait"))
    }

    fn room(&mut self, run: &Run) -> Room {
        self.session.room(run, self.now)
    }
}

fn seqs(result: &ReadResult) -> Vec<u64> {
    result.chunks.iter().map(|chunk| chunk.seq).collect()
}

// -- events ---------------------------------------------------------------------------------------

#[test]
fn events_are_sent_alternating_between_processes() {
    let mut scene = Scene::new();
    let (p1, p2) = (scene.running("p1"), scene.running("p2"));
    (0..3).for_each(|_| scene.prints(&p1, "x"));
    scene.prints(&p2, "y");
    scene.end(&p2);
    assert_eq!(scene.sent(), ["p1:1", "p2:1", "p1:2", "p2:2", "p1:3", "p2:3"]);
    scene.prints(&p1, "x");
    assert_eq!(scene.sent(), ["p1:4"]);
}

#[test]
fn earlier_events_are_read_and_events_after_a_resume_are_sent() {
    let mut scene = Scene::new();
    let p1 = scene.running("p1");
    scene.prints(&p1, "seen");
    assert_eq!(scene.sent(), ["p1:1"]);
    scene.detach();
    scene.prints(&p1, "missed");
    scene.attach(TWO);
    scene.prints(&p1, "live");
    assert_eq!(scene.sent(), ["p1:3"]);
    let read = scene.read("p1").unwrap();
    assert_eq!((seqs(&read), read.next_seq), (vec![1, 2, 3], 4));
}

#[tokio::test(start_paused = true)]
async fn an_event_between_a_check_and_a_wait_is_not_missed() {
    let mut scene = Scene::new();
    let p1 = scene.running("p1");
    assert_eq!(scene.sent(), Vec::<String>::new());
    scene.line.wake.notified().await; // the permit of the start
    scene.prints(&p1, "x");
    scene.line.wake.notified().await;
}

#[test]
fn a_process_that_closed_before_a_resume_is_not_sent_again() {
    let mut scene = Scene::new();
    scene.closed("p1");
    scene.detach();
    scene.attach(TWO);
    assert_eq!(scene.sent(), Vec::<String>::new());
    assert!(scene.read("p1").unwrap().closed);
}

// -- back-pressure --------------------------------------------------------------------------------

#[test]
fn the_output_of_a_process_is_not_read_while_too_many_of_its_events_wait() {
    let mut scene = Scene::with(ServerLimits { outbound_queue: 2, ..ServerLimits::default() });
    let (p1, p2) = (scene.running("p1"), scene.running("p2"));
    scene.prints(&p1, "x");
    assert_eq!(scene.room(&p1), Room::Yes);
    scene.prints(&p1, "x");
    assert_eq!((scene.room(&p1), scene.room(&p2)), (Room::NotYet(None), Room::Yes));
    scene.session.pull(ONE).unwrap();
    assert_eq!(scene.room(&p1), Room::Yes);
}

#[test]
fn an_unsent_event_is_not_evicted() {
    let mut scene = Scene::with(ServerLimits { retained_bytes: 1, ..ServerLimits::default() });
    let p1 = scene.running("p1");
    scene.prints(&p1, "one");
    assert_eq!(scene.room(&p1), Room::NotYet(None));
    assert_eq!(scene.sent(), ["p1:1"]);
    assert_eq!(scene.room(&p1), Room::Yes);
    scene.prints(&p1, "two");
    assert_eq!(scene.sent(), ["p1:2"]);
}

#[test]
fn a_detach_resumes_a_paused_process() {
    let mut scene = Scene::with(ServerLimits { outbound_queue: 1, ..ServerLimits::default() });
    let run = scene.session.start(ONE, &"p1".into(), SandboxType::None, scene.now).unwrap();
    let mut wake = scene.session.started(&run, 2, true).unwrap();
    scene.prints(&run, "x");
    assert_eq!(scene.room(&run), Room::NotYet(None));
    wake.mark_unchanged();
    scene.detach();
    assert!(wake.has_changed().unwrap());
    assert_eq!(scene.room(&run), Room::Yes);
}

#[test]
fn output_retained_during_an_outage_is_held_until_it_is_read() {
    let mut scene = Scene::with(ServerLimits { retained_bytes: 10, ..ServerLimits::default() });
    let p1 = scene.running("p1");
    scene.detach();
    scene.prints(&p1, "missed");
    scene.attach(TWO);
    let grace = scene.now + ServerLimits::default().catch_up_grace;
    assert_eq!(scene.room(&p1), Room::NotYet(Some(grace)));
    assert_eq!(seqs(&scene.read("p1").unwrap()), [1]);
    assert_eq!(scene.room(&p1), Room::Yes);
}

#[test]
fn unread_output_is_held_no_longer_than_the_grace_period() {
    let mut scene = Scene::with(ServerLimits { retained_bytes: 10, ..ServerLimits::default() });
    let p1 = scene.running("p1");
    scene.detach();
    scene.prints(&p1, "missed");
    scene.attach(TWO);
    scene.later(ServerLimits::default().catch_up_grace - MS);
    assert!(matches!(scene.room(&p1), Room::NotYet(Some(_))));
    scene.later(MS);
    assert_eq!(scene.room(&p1), Room::Yes);
}

// -- attaching ------------------------------------------------------------------------------------

#[test]
fn requests_of_an_older_connection_are_refused_after_a_resume() {
    let mut scene = Scene::new();
    scene.running("p1");
    scene.detach();
    scene.attach(TWO);
    let p1 = ProcessId::from("p1");
    assert_eq!(
        scene.session.write(ONE, &p1, None, &"x".into(), scene.now),
        Err(RequestError::Resumed)
    );
    assert_eq!(scene.session.read(ONE, &p1, ALL), Err(RequestError::Resumed));
    assert_eq!(scene.session.terminate(ONE, &p1), Err(RequestError::Resumed));
    assert_eq!(scene.session.signal(ONE, &p1, 2), Err(RequestError::Resumed));
    assert_eq!(
        scene.session.start(ONE, &"p2".into(), SandboxType::None, scene.now),
        Err(RequestError::Resumed)
    );
    assert_eq!(scene.session.pull(ONE), Err(RequestError::Resumed));
    assert!(!scene.session.detach(ONE, scene.now));
    assert_eq!(scene.session.attached_by(), Some(TWO));
}

#[test]
fn a_session_expires_after_its_detached_lifetime_and_not_before() {
    let mut scene = Scene::new();
    let lifetime = ServerLimits::default().detached_lifetime;
    scene.detach();
    scene.later(lifetime - MS);
    assert!(!scene.session.expired(scene.now));
    scene.attach(TWO);
    scene.later(lifetime);
    assert!(!scene.session.expired(scene.now), "the first timer finds it attached");
    scene.detach();
    assert_eq!(scene.session.due(scene.now), Some(scene.now + lifetime));
    scene.later(lifetime);
    assert!(scene.session.expired(scene.now));
    assert_eq!(scene.session.attach(ONE, scene.line.clone(), scene.now), Err(Refused::Expired));
}

// -- starts ---------------------------------------------------------------------------------------

#[test]
fn an_id_is_taken_from_the_moment_of_the_start() {
    let mut scene = Scene::new();
    let p1 = ProcessId::from("p1");
    let run = scene.session.start(ONE, &p1, SandboxType::None, scene.now).unwrap();
    assert_eq!(
        scene.session.start(ONE, &p1, SandboxType::None, scene.now),
        Err(RequestError::Duplicate(p1.clone()))
    );
    assert_eq!(scene.session.outcome(&run), None);
    assert_eq!(scene.read("p1"), Err(RequestError::Starting(p1.clone())));
    assert_eq!(
        scene.session.write(ONE, &p1, None, &"x".into(), scene.now),
        Ok(Some(WriteStatus::Starting))
    );
    scene.session.start_failed(&run, "no such program".into());
    assert_eq!(
        scene.session.outcome(&run),
        Some(Err(RequestError::StartFailed("no such program".into())))
    );
    assert_eq!(scene.read("p1"), Err(RequestError::UnknownProcess(p1.clone())));
    scene.running("p1");
}

#[test]
fn a_cancelled_start_does_not_affect_a_newer_process_with_the_same_id() {
    let mut scene = Scene::new();
    let p1 = ProcessId::from("p1");
    let first = scene.session.start(ONE, &p1, SandboxType::None, scene.now).unwrap();
    assert_eq!(scene.session.terminate(ONE, &p1), Ok(true));
    assert_eq!(scene.session.outcome(&first), Some(Err(RequestError::StartCancelled)));
    let second = scene.running("p1");
    assert!(scene.session.started(&first, 2, true).is_none(), "whoever launched it has to kill it");
    scene.session.start_failed(&first, "late".into());
    scene.session.exited(&first, Ok(Exit::Code(9)), scene.now);
    scene.prints(&first, "late");
    assert_eq!(scene.room(&first), Room::Gone);
    scene.prints(&second, "mine");
    let event = scene.session.pull(ONE).unwrap().unwrap().1;
    assert_eq!(event, LogEntry { seq: 1, what: EntryKind::Output(Stdout, "mine".into()) });
}

#[test]
fn a_launch_continues_without_a_connection() {
    let mut scene = Scene::new();
    let run = scene.session.start(ONE, &"p1".into(), SandboxType::None, scene.now).unwrap();
    scene.detach();
    scene.session.started(&run, 2, false).unwrap();
    scene.attach(TWO);
    assert_eq!(scene.session.outcome(&run), None, "who asked for it has gone");
    scene.prints(&run, "x");
    assert_eq!(scene.sent(), ["p1:1"]);
}

#[test]
fn events_of_a_process_are_sent_after_the_answer_to_its_start() {
    let mut scene = Scene::new();
    let run = scene.session.start(ONE, &"p1".into(), SandboxType::None, scene.now).unwrap();
    scene.session.started(&run, 2, true).unwrap();
    scene.prints(&run, "x");
    scene.end(&run);
    assert!(scene.sent().is_empty());
    assert_eq!(scene.session.outcome(&run), Some(Ok(())));
    assert_eq!(scene.sent(), ["p1:1", "p1:2", "p1:3"]);
}

#[test]
fn a_start_in_a_full_session_replaces_only_a_process_past_its_retention() {
    let mut scene = Scene::with(ServerLimits { processes: 2, ..ServerLimits::default() });
    scene.closed("p1");
    scene.running("p2");
    let p3 = ProcessId::from("p3");
    assert_eq!(
        scene.session.start(ONE, &p3, SandboxType::None, scene.now),
        Err(RequestError::TooMany("processes"))
    );
    scene.later(ServerLimits::default().closed_retention);
    assert_eq!(
        scene.session.start(ONE, &p3, SandboxType::None, scene.now),
        Err(RequestError::TooMany("processes")),
        "its close was not sent"
    );
    scene.sent();
    scene.session.start(ONE, &p3, SandboxType::None, scene.now).unwrap();
    assert_eq!(scene.read("p1"), Err(RequestError::UnknownProcess("p1".into())));
}

#[test]
fn a_closed_process_is_read_after_its_close_was_sent() {
    let mut scene = Scene::new();
    scene.closed("p1");
    assert_eq!(scene.sent(), ["p1:1", "p1:2"]);
    assert!(scene.read("p1").unwrap().closed);
}

#[test]
fn an_eviction_takes_nothing_from_another_process() {
    let mut scene = Scene::with(ServerLimits { retained_chunks: 1, ..ServerLimits::default() });
    let (p1, p2) = (scene.running("p1"), scene.running("p2"));
    scene.detach();
    scene.prints(&p1, "x");
    scene.prints(&p1, "x");
    scene.prints(&p2, "y");
    scene.attach(TWO);
    assert_eq!(seqs(&scene.read("p2").unwrap()), [1]);
}

// -- writes, signals, terminations ----------------------------------------------------------------

#[test]
fn a_repeated_write_is_accepted_and_written_once_even_after_a_resume() {
    let mut scene = Scene::new();
    let run = scene.running("p1");
    assert_eq!(
        scene.session.write(ONE, &run.id, Some("w-1"), &"x".into(), scene.now),
        Ok(Some(WriteStatus::Accepted))
    );
    scene.detach();
    scene.attach(TWO);
    assert_eq!(
        scene.session.write(TWO, &run.id, Some("w-1"), &"x".into(), scene.now),
        Ok(Some(WriteStatus::Accepted))
    );
    assert_eq!(scene.session.next_input(&run), Some("x".into()));
    scene.session.input_written(&run, 1);
    assert_eq!(scene.session.next_input(&run), None);
    assert_eq!(
        scene.session.write(TWO, &"p9".into(), None, &"x".into(), scene.now),
        Ok(Some(WriteStatus::UnknownProcess))
    );
}

#[test]
fn terminate_returns_whether_the_process_was_running() {
    let mut scene = Scene::new();
    let run = scene.running("p1");
    assert_eq!(scene.session.terminate(ONE, &"p9".into()), Ok(false));
    assert_eq!(scene.session.terminate(ONE, &run.id), Ok(true));
    assert_eq!(scene.session.next_signal(&run), Some(KILL));
    scene.session.exited(&run, Ok(Exit::Signal(KILL)), scene.now);
    assert_eq!(scene.session.terminate(ONE, &run.id), Ok(false));
    assert_eq!(scene.session.next_signal(&run), None);
    assert!(scene.session.over(&run));
    assert_eq!(scene.read("p1").unwrap().exit_code, Some(128 + KILL));
}

#[test]
fn a_process_that_cannot_be_waited_for_reports_a_failure() {
    let mut scene = Scene::new();
    let run = scene.running("p1");
    scene.session.produced(&run, Stderr, "oh".into());
    scene.session.exited(&run, Err(io::Error::other("gone")), scene.now);
    let read = scene.read("p1").unwrap();
    assert_eq!((read.exit_code, read.failure.is_some()), (Some(-1), true));
}

#[test]
fn unread_output_of_an_older_process_does_not_pause_a_newer_one() {
    let mut scene = Scene::with(ServerLimits {
        retained_chunks: 1,
        closed_retention: MS,
        ..ServerLimits::default()
    });
    let older = scene.running("p1");
    scene.detach();
    scene.attach(TWO);
    scene.end(&older);
    scene.sent();
    scene.later(MS);
    assert_eq!(scene.session.forget(scene.now).len(), 1);
    let newer = scene.running("p1");
    scene.prints(&newer, "x");
    scene.sent();
    assert_eq!(scene.room(&newer), Room::Yes);
}

// -- retention of closed processes ----------------------------------------------------------------

const RETENTION: Duration = Duration::from_secs(80);

#[test]
fn a_closed_process_is_kept_for_its_retention_after_its_close_was_sent() {
    let mut scene = Scene::new();
    scene.closed("p1");
    scene.later(9 * RETENTION);
    assert_eq!(
        (scene.session.due(scene.now), scene.session.forget(scene.now).len()),
        (None, 0),
        "its close was not sent"
    );

    let mut scene = Scene::new();
    scene.closed("p1");
    scene.sent();
    assert_eq!(scene.session.due(scene.now), Some(scene.now + RETENTION));
    scene.later(RETENTION - MS);
    assert_eq!(scene.session.forget(scene.now).len(), 0);
    scene.later(MS);
    assert_eq!(scene.session.forget(scene.now).len(), 1);
    assert_eq!(scene.read("p1"), Err(RequestError::UnknownProcess("p1".into())));
}

/// The process closes at 1 s, during a cut that both ends notice after 16 s. The client reconnects
/// 45 s later.
#[test]
fn a_client_that_noticed_the_cut_late_still_finds_it() {
    let mut scene = Scene::new();
    scene.later(Duration::from_secs(1));
    scene.closed("p1");
    scene.sent();
    scene.later(Duration::from_secs(15));
    scene.detach();
    scene.later(Duration::from_secs(45));
    assert_eq!(scene.session.forget(scene.now).len(), 0);
    scene.attach(TWO);
    scene.later(RETENTION - MS);
    assert_eq!(scene.session.forget(scene.now).len(), 0);
    assert!(scene.read("p1").unwrap().closed);
    scene.later(MS);
    assert_eq!(scene.session.forget(scene.now).len(), 1);
}

#[test]
fn a_client_that_is_refused_until_the_server_notices_the_cut_still_finds_it() {
    let mut scene = Scene::new();
    scene.closed("p1");
    scene.sent();
    for _ in 0..3 {
        scene.later(RETENTION - MS);
        assert_eq!(scene.session.forget(scene.now).len(), 0);
        assert_eq!(
            scene.session.attach(TWO, scene.line.clone(), scene.now),
            Err(Refused::StillAttached(ONE))
        );
    }
    scene.detach();
    scene.attach(TWO);
    assert!(scene.read("p1").unwrap().closed);
}

/// The process closes at 0 s. From then on the client hears nothing. It gives up after 16 s, and
/// cannot reconnect before 31 s.
#[test]
fn nothing_is_forgotten_over_a_connection_that_is_silent() {
    let doubtful = || {
        let mut scene = Scene::new();
        scene.closed("p1");
        scene.sent();
        scene.later(Duration::from_secs(16));
        assert_eq!(
            scene.session.due(scene.now),
            Some(scene.now + RETENTION - Duration::from_secs(16))
        );
        scene.silently(RETENTION - Duration::from_secs(16));
        assert_eq!(scene.session.forget(scene.now).len(), 0);
        assert_eq!(
            scene.session.due(scene.now),
            Some(scene.now + Duration::from_secs(8)),
            "it is looked at again"
        );
        scene
    };
    let mut dead = doubtful();
    dead.silently(Duration::from_secs(2));
    assert_eq!(dead.session.forget(dead.now).len(), 0);
    dead.detach();
    dead.attach(TWO);
    assert!(dead.read("p1").unwrap().closed);
    let mut alive = doubtful();
    alive.later(Duration::from_secs(1));
    assert_eq!(alive.session.forget(alive.now).len(), 1);
}

#[test]
fn an_exited_process_is_kept_while_its_output_is_open() {
    let mut scene = Scene::new();
    let run = scene.running("p1");
    scene.session.exited(&run, Ok(Exit::Code(0)), scene.now);
    scene.sent();
    scene.later(9 * RETENTION);
    assert_eq!(scene.session.forget(scene.now).len(), 0);
    scene.prints(&run, "late");
    assert_eq!(scene.sent(), ["p1:2"]);
}

// -- flow control ---------------------------------------------------------------------------------

/// A session with flow control, whose window holds eight chunks.
fn controlled() -> Scene {
    let window = FlowWindow { window_bytes: 8 * CHUNK as u64, window_chunks: 256 };
    let limits = ServerLimits { outbound_queue: 1000, ..ServerLimits::default() };
    let mut scene = Scene::with(limits);
    scene.line.window = Some(window);
    scene.session = Session::new(ONE, scene.line.clone(), limits, scene.now);
    scene
}

/// Prints chunks while there is room, at most 100, and returns how many.
fn prints_while_there_is_room(scene: &mut Scene, run: &Run) -> usize {
    let prints = |_: &usize| {
        let room = scene.room(run) == Room::Yes;
        if room {
            scene.prints(run, &"x".repeat(CHUNK));
        }
        room
    };
    (0..100).take_while(prints).count()
}

fn consumes(scene: &mut Scene, seq: Option<u64>) {
    let by = scene.session.attached_by().unwrap();
    scene.session.consumed(by, &"p1".into(), seq).unwrap();
}

#[test]
fn a_process_is_held_until_its_client_has_consumed_half_of_the_window() {
    let mut scene = controlled();
    let p1 = scene.running("p1");
    assert_eq!(prints_while_there_is_room(&mut scene, &p1), 7, "each stream has room for a chunk");
    scene.sent();
    assert_eq!(scene.room(&p1), Room::NotYet(None), "it does not matter what was sent");
    consumes(&mut scene, Some(2));
    assert_eq!(scene.room(&p1), Room::NotYet(None));
    consumes(&mut scene, Some(3));
    assert_eq!(prints_while_there_is_room(&mut scene, &p1), 3);
    let p2 = scene.running("p2");
    assert_eq!(scene.room(&p2), Room::Yes, "the other process has its own window");
}

#[test]
fn a_detached_session_keeps_what_was_not_consumed() {
    let mut scene = controlled();
    let p1 = scene.running("p1");
    scene.detach();
    assert_eq!(prints_while_there_is_room(&mut scene, &p1), 7);
    scene.attach(TWO);
    scene.later(10 * 1000 * MS);
    assert_eq!(scene.room(&p1), Room::NotYet(None), "it has no grace period");
    assert_eq!(seqs(&scene.read("p1").unwrap()), [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(scene.room(&p1), Room::NotYet(None), "what is read is not consumed");
    consumes(&mut scene, Some(7));
    assert_eq!(scene.room(&p1), Room::Yes);
}

#[test]
fn a_released_process_and_the_processes_of_another_kind_of_client_are_not_held() {
    let mut scene = controlled();
    let p1 = scene.running("p1");
    prints_while_there_is_room(&mut scene, &p1);
    consumes(&mut scene, None);
    scene.sent();
    assert_eq!(prints_while_there_is_room(&mut scene, &p1), 100);

    let mut scene = controlled();
    let p1 = scene.running("p1");
    prints_while_there_is_room(&mut scene, &p1);
    scene.detach();
    assert_eq!(scene.room(&p1), Room::NotYet(None));
    scene.line.window = None;
    scene.attach(TWO);
    scene.read("p1").unwrap();
    assert_eq!(prints_while_there_is_room(&mut scene, &p1), 100);
}

//! Tests of the properties of `sse`, over hand-written runs.

use std::time::Duration;

use super::{asked, gaps, refusals, server};
use crate::history::{
    Answer, Call, Class, ConnEnd, ConnIndex, EventKind, Nature, ProcessOutcome, Side,
};
use crate::property::Violation;
use crate::property::scripted::{ScriptedRun, history};
use crate::report::sentence;
use crate::schedule::{Fault, Host, LimitValue, MilestoneValue, faults};
use crate::subject::Subject;
use crate::subjects::sse::Sse;
use crate::subjects::sse::limits::LIMITS;
use crate::subjects::sse::notes::{SeenEvents, SeenRefusal, SeenStatus, SseFailure, SseNote};
use crate::subjects::sse::story::Story;
use reknit_sse::client::{Failure, Loss, Refused};
use reknit_sse::wire::{CommandStatus, Ending, Gap};

mod deadlines;
mod delivery;
mod gone;
mod held;
mod logs;
mod readers;
mod sessions;
mod streams;

type Property = fn(&Story<'_>) -> Vec<Violation>;

fn violations(scripted: &ScriptedRun, property: Property) -> Vec<String> {
    scripted.with_limits(LIMITS, |cx| property(&Story::of(cx)).iter().map(sentence).collect())
}

fn holds(scripted: &ScriptedRun, property: Property) {
    assert_eq!(violations(scripted, property), Vec::<String>::new());
}

/// The run has one violation, and its sentence contains this.
fn breaks(scripted: &ScriptedRun, property: Property, part: &str) {
    let found = violations(scripted, property);
    assert!(found.len() == 1 && found[0].contains(part), "{found:?}");
}

/// A run in which call 1 starts `p1`, which prints a line at 1 s.
fn started() -> ScriptedRun {
    history()
        .asked_as(1, 100, Class::Durable, "run", r#"{"process":"p1"}"#)
        .effect(1, 110, "p1")
        .opens("p1", 1, 120)
        .produced("p1/stdout", 1_000, "a\n")
}

/// The same, and `p1` exits at 1.5 s.
fn exited() -> ScriptedRun {
    started().ended("p1", 1_500, ProcessOutcome::Exit(0))
}

/// Call 2 of the user about `p1`.
fn asks(scripted: ScriptedRun, ms: u64, verb: &str) -> ScriptedRun {
    scripted.asked_as(2, ms, Class::InFlight, verb, r#"{"process":"p1"}"#)
}

fn notes(scripted: ScriptedRun, ms: u64, note: SseNote) -> ScriptedRun {
    scripted.user(ms, EventKind::Observed { stream: "p1".into(), saw: note.into() })
}

fn milestone(
    scripted: ScriptedRun,
    ms: u64,
    name: &'static str,
    fields: &[(&'static str, u64)],
) -> ScriptedRun {
    let fields = fields.iter().map(|(field, value)| (*field, MilestoneValue::Number(*value)));
    let fields: Vec<_> = fields.collect();
    scripted.user(ms, EventKind::Milestone { name, fields: fields.into() })
}

fn refused(status: u16, code: &str) -> SseFailure {
    let refused =
        Refused { status, code: code.to_owned(), message: String::new(), no_effect: true };
    SseFailure(Failure::NoProgress(Loss::Refused(refused)))
}

#[test]
fn a_gap_is_exact() {
    let gap = |first, last| {
        let gap = Gap { first, last };
        notes(started(), 1_200, SseNote::Gap { after: 0, gap })
    };
    breaks(&gap(2, 2), gaps::gap_is_exact, "a gap from event 2, but");
    breaks(&gap(1, 1), gaps::gap_is_exact, "still had to have that event");
    breaks(&gap(1, 9), gaps::gap_is_exact, "there were only 1 events");
    holds(&started(), gaps::gap_is_exact);
}

#[test]
fn a_command_that_may_wait_loses_nothing() {
    let gap = |scripted: ScriptedRun, ms| {
        notes(scripted, ms, SseNote::Gap { after: 1, gap: Gap { first: 2, last: 3 } })
    };
    let limited = |seconds, in_flight| {
        let mut scripted = started().delivered("p1/stdout", 1_100, "a\n");
        let limits = &mut scripted.plan.limits;
        limits.set("server.hold", LimitValue::Duration(Duration::from_secs(seconds)));
        limits.set("server.in-flight", LimitValue::Bytes(in_flight));
        scripted
    };
    let waits = |seconds| limited(seconds, 512 << 10);
    breaks(&gap(waits(20), 9_000), gaps::hold_is_lossless, "saw a gap, although");
    holds(&gap(waits(20), 30_000), gaps::hold_is_lossless);
    holds(&gap(waits(0), 9_000), gaps::hold_is_lossless);
    let restarted = waits(20).died("server", 2_000).started("server", 2_100);
    holds(&gap(restarted, 9_000), gaps::hold_is_lossless);
    let buffers_are_larger = limited(20, 1 << 10);
    holds(&gap(buffers_are_larger, 9_000), gaps::hold_is_lossless);
}

#[test]
fn events_follow_each_other() {
    let next = |after, position| notes(started(), 1_200, SseNote::NotNext { after, position });
    breaks(&next(1, 3), gaps::positions_follow, "received event 3 after event 1, without a gap");
    breaks(&next(1, 1), gaps::positions_follow, "its cursor went from event 1 to event 1");
    let gap = SseNote::Gap { after: 0, gap: Gap { first: 1, last: 3 } };
    holds(&notes(started(), 1_200, gap), gaps::positions_follow);
    breaks(&next(0, 0), gaps::positions_follow, "its cursor went from event 0 to event 0");
    let execd = Sse.variants().iter().find(|variant| variant.name == "execd").unwrap();
    let mut of_execd = next(0, 0);
    of_execd.plan.defects.extend(execd.defects.iter().map(|bug| (*bug).to_owned()));
    holds(&of_execd, gaps::positions_follow);
}

#[test]
fn a_client_finds_nothing_wrong_in_a_stream() {
    let hole = milestone(started(), 1_200, "sse.client.hole", &[]);
    breaks(&hole, server::server_keeps_the_protocol, "found a hole");
    let protocol = SseFailure(Failure::Protocol("lies"));
    let failed = started().failed_stream("p1", 1_200, protocol);
    breaks(&failed, server::server_keeps_the_protocol, "because of its server");
    let lost = started().failed_stream("p1", 1_200, SseFailure(Failure::NoProgress(Loss::Broken)));
    holds(&lost, server::server_keeps_the_protocol);
}

#[test]
fn a_user_learns_how_a_command_ended() {
    let somehow = notes(exited(), 1_600, SseNote::EndedSomehow);
    breaks(&somehow, asked::success_has_an_ending, "but not how");
    let more = notes(exited(), 1_600, SseNote::AfterTheEnding("x".to_owned()));
    breaks(&more, asked::success_has_an_ending, "continued after the ending");
    holds(&exited(), asked::success_has_an_ending);
}

#[test]
fn a_follower_says_the_same_when_it_is_asked_again() {
    let (first, then) = ("Err(Expired)".to_owned(), "Ok(None)".to_owned());
    let another = notes(exited(), 1_600, SseNote::SaidAnother { first, then });
    breaks(&another, asked::outcomes_stay, "said Err(Expired), and Ok(None) when its user asked");
    holds(&exited(), asked::outcomes_stay);
}

#[test]
fn a_conflict_has_another_reader() {
    let conflict =
        |scripted: ScriptedRun| scripted.failed_stream("p1", 70_000, refused(409, "STREAM_ACTIVE"));
    breaks(&conflict(started()), server::conflict_is_true, "there was none since");
    let other = started().by("client2").opens("p1", 3, 30_000).by("client");
    holds(&conflict(other), server::conflict_is_true);
}

#[test]
fn a_late_close_ends_no_other_stream() {
    // Connection 2 replaces connection 1, whose end the server learns at 3 s.
    let late = || {
        let conns = started().conn(1, 100, None).conn(2, 1_500, None);
        let first = milestone(conns, 110, "sse.server.attached", &[("conn", 1)]);
        let second = milestone(first, 1_600, "sse.server.attached", &[("conn", 2)]);
        let fenced = milestone(second, 1_600, "sse.server.fenced", &[("conn", 2), ("old", 1)]);
        milestone(fenced, 3_000, "sse.server.late-close", &[("conn", 1)])
    };
    let over = |scripted: ScriptedRun, ms, side| {
        let what = EventKind::ConnOver { conn: ConnIndex(1), side, how: ConnEnd::Closed };
        scripted.user(ms, what)
    };
    let ended = |ms| over(late(), ms, Side::Server);
    breaks(&ended(3_050), server::stale_close_is_inert, "after the late end of an older one at 3");
    holds(&ended(2_900), server::stale_close_is_inert);
    holds(&ended(4_000), server::stale_close_is_inert);
    holds(&over(ended(3_050), 3_040, Side::Client), server::stale_close_is_inert);
    let stuck = milestone(ended(3_050), 3_040, "sse.server.stuck", &[("conn", 2)]);
    holds(&stuck, server::stale_close_is_inert);
    let complete = ended(3_050).ended("p1", 3_020, ProcessOutcome::Exit(0));
    holds(&complete, server::stale_close_is_inert);
}

#[test]
fn a_reader_delays_no_process() {
    breaks(&started(), server::producer_is_not_delayed, "it had not ended");
    holds(&started().ended("p1", 1_100, ProcessOutcome::Exit(0)), server::producer_is_not_delayed);
}

#[test]
fn a_command_ends_by_itself_or_for_a_user() {
    let killed = |scripted: ScriptedRun, ms, signal| {
        scripted.ended("p1", ms, ProcessOutcome::Signal(signal))
    };
    let asked = || asks(started(), 1_200, "interrupt");
    breaks(&killed(started(), 1_500, 9), server::command_lives_on, "signal 9 ended the process");
    holds(&killed(asked(), 1_500, 15), server::command_lives_on);
    // The grace is 3 s.
    breaks(&killed(asked(), 4_199, 9), server::command_lives_on, "signal 9 ended the process");
    holds(&killed(asked(), 4_200, 9), server::command_lives_on);
    holds(&exited(), server::command_lives_on);
}

/// The server refuses the start of `p1` over the first connection for lack of room.
fn busy(scripted: ScriptedRun, ms: u64) -> ScriptedRun {
    milestone(scripted, ms, "sse.server.refused-busy", &[("conn", 1)])
}

#[test]
fn a_repeated_start_needs_no_room() {
    let judged = server::commands_are_bounded;
    let asked = || history().asked_as(1, 100, Class::Durable, "run", r#"{"process":"p1"}"#);
    let launched = |ms| busy(asked().conn(1, 1_100, None).effect(1, ms, "p1"), 1_200);
    breaks(&launched(1_199), judged, "it had launched the command at 1.199 s");
    // An earlier attempt may arrive, and run the command, after the refusal.
    holds(&launched(1_200), judged);
    holds(&launched(1_100).died("server", 1_150).started("server", 1_160), judged);
    // The start of another command may have this connection.
    let other = launched(1_100).asked_as(2, 1_000, Class::Durable, "run", r#"{"process":"p2"}"#);
    holds(&other, judged);
    // A follower whose start is confirmed starts nothing more.
    holds(&launched(500).opens("p1", 1, 600), judged);
    // A single request has a label.
    let labelled = asked().effect(1, 500, "p1").conn_labelled("request", 1, 1_100, None);
    holds(&busy(labelled, 1_200), judged);
}

#[test]
fn a_server_that_has_room_refuses_no_command() {
    let busy = Answer::Refused(refused(503, "SERVICE_UNAVAILABLE").into());
    let busy = asks(started(), 1_200, "run").answered(2, 1_300, busy);
    breaks(&busy, server::commands_are_bounded, "at most 1 of 64 ran");
    let many = (0..65).fold(started(), |scripted, n| scripted.effect(n, 1_100, &format!("q{n}")));
    breaks(&many, server::commands_are_bounded, "65 commands ran");
    holds(&started(), server::commands_are_bounded);
}

#[test]
fn a_command_that_ends_in_the_millisecond_of_its_launch_takes_room() {
    let ran = |ms| {
        let other = history().effect(1, ms, "q1").ended("q1", ms, ProcessOutcome::Exit(0));
        let busy = Answer::Refused(refused(503, "SERVICE_UNAVAILABLE").into());
        let mut scripted = asks(other, 1_200, "run").answered(2, 1_300, busy);
        scripted.plan.limits.set("server.running-commands", LimitValue::Count(1));
        scripted
    };
    holds(&ran(1_250), server::commands_are_bounded);
    breaks(&ran(100), server::commands_are_bounded, "at most 0 of 1 ran since 1.200 s");
}

#[test]
fn a_wrong_cursor_is_refused_for_its_reason() {
    let asked = |answer: Answer| {
        let fields = r#"{"process":"p1","cursor":"99999"}"#;
        let scripted = started().asked_as(2, 1_200, Class::InFlight, "ask", fields);
        let cursor = "99999".to_owned();
        let note = SseNote::Asks { call: Call(2), cursor, knows_run: false };
        notes(scripted, 1_200, note).answered(2, 1_300, answer)
    };
    let refused =
        |code: &str| Answer::Refused(SeenRefusal { status: 400, code: code.to_owned() }.into());
    breaks(&asked(Answer::queued("a stream")), asked::cursor_is_checked, "was accepted");
    breaks(&asked(refused("CURSOR_MALFORMED")), asked::cursor_is_checked, "CURSOR_FUTURE");
    holds(&asked(refused("CURSOR_FUTURE")), asked::cursor_is_checked);
}

#[test]
fn the_state_of_a_command_is_the_real_one() {
    // The command started 5 ms after its user asked for it.
    let start = asked::CLOCK + 105;
    let started_at = |ms| CommandStatus::running("p1", "p1".to_owned(), ms, 1);
    let running = || started_at(start);
    let seen = |scripted: ScriptedRun, status: CommandStatus| {
        asks(scripted, 3_000, "status").answered(2, 3_100, Answer::Done(SeenStatus(status).into()))
    };
    let ended = |code| running().ended(&Ending::Exited(code), asked::CLOCK + 1_500);
    let at_once = running().ended(&Ending::Exited(0), start);
    let empty = CommandStatus::running("p1", "p1".to_owned(), start, 0);
    let at_2_s = asks(started(), 2_000, "status");
    let at_2_s = at_2_s.answered(2, 2_100, Answer::Done(SeenStatus(empty.clone()).into()));
    holds(&at_2_s, asked::status_is_true);
    let other_start = "reported that the command started at 0.112 s of its clock, but it was asked";
    breaks(&seen(started(), started_at(asked::CLOCK + 112)), asked::status_is_true, other_start);
    holds(&seen(started(), started_at(asked::CLOCK + 111)), asked::status_is_true);
    holds(&seen(started(), started_at(asked::CLOCK + 99)), asked::status_is_true);
    breaks(&seen(started(), started_at(98)), asked::status_is_true, "started at 0.000 s of its");
    let no_code = CommandStatus { exit_code: None, ..ended(0) };
    breaks(&seen(exited(), no_code), asked::status_is_true, "whose exit_code does not fit");
    let runs = CommandStatus { running: true, ..ended(0) };
    breaks(&seen(exited(), runs), asked::status_is_true, "whose running does not fit");
    let few = "reported event 0, but the process had printed 1 lines before 3.000 s";
    breaks(&seen(started(), empty.clone()), asked::status_is_true, few);
    let mut waits = seen(started(), empty.clone());
    waits.plan.limits.set("server.hold", LimitValue::Duration(Duration::from_secs(1)));
    holds(&waits, asked::status_is_true);
    holds(&seen(started().slows(500, 2_500), empty), asked::status_is_true);
    breaks(&seen(exited(), at_once), asked::status_is_true, "ran for 0 ms, but");
    breaks(&seen(exited(), running()), asked::status_is_true, "that the command runs");
    breaks(&seen(started(), ended(0)), asked::status_is_true, "that the command ended");
    breaks(&seen(exited(), ended(7)), asked::status_is_true, "the true one is exit 0");
    holds(&seen(exited(), ended(0)), asked::status_is_true);
    holds(&seen(started(), running()), asked::status_is_true);
}

/// In the session of `client-session/p1`, which ends at 1.5 s if it does, call 2 of the user asks to
/// interrupt the session.
fn interrupts_session(ends: bool, answer: Answer) -> ScriptedRun {
    let (record, session) = ("client-session/p1", "/session/1".to_owned());
    let runs = SseNote::RunsIn { call: Call(1), session: session.clone() };
    let interrupts = SseNote::Interrupts { call: Call(2), session };
    let observed = |saw: SseNote| EventKind::Observed { stream: record.into(), saw: saw.into() };
    let run = history()
        .asked_as(1, 100, Class::Bound, "session", r#"{"process":"p1"}"#)
        .user(110, observed(runs))
        .effect(1, 120, record);
    let run = if ends { run.ended(record, 1_500, ProcessOutcome::Exit(0)) } else { run };
    run.asked_as(2, 9_000, Class::InFlight, "interrupt-session", r#"{"process":"p1"}"#)
        .user(9_000, observed(interrupts))
        .answered(2, 9_100, answer)
}

#[test]
fn a_session_exists_until_it_is_deleted() {
    let refused =
        |status, code: &str| Answer::Refused(SeenRefusal { status, code: code.to_owned() }.into());
    let judged = refusals::refusals_are_true;
    let unknown = || refused(404, "COMMAND_NOT_FOUND");
    breaks(&interrupts_session(true, unknown()), judged, "did not know the shell session");
    breaks(&interrupts_session(false, refused(409, "NOT_RUNNING")), judged, "but its process ran");
    let accepted = interrupts_session(true, Answer::queued("interrupted"));
    breaks(&accepted, judged, "its last process had ended at 1.500 s");
    holds(&interrupts_session(true, refused(409, "NOT_RUNNING")), judged);
    holds(&interrupts_session(false, Answer::queued("interrupted")), judged);
    let over = SseNote::Took(1_400);
    let over = EventKind::Observed { stream: "client-session/p1".into(), saw: over.into() };
    holds(&interrupts_session(true, unknown()).user(2_000, over), judged);
}

/// Call `call` of the user runs `record` in the one session of a run.
fn runs_in_session(run: ScriptedRun, call: u64, ms: u64, record: &str) -> ScriptedRun {
    let runs = SseNote::RunsIn { call: Call(call), session: "/session/1".to_owned() };
    let runs = EventKind::Observed { stream: record.into(), saw: runs.into() };
    let run = run.asked_as(call, ms, Class::Bound, "session", r#"{"process":"p1"}"#);
    run.user(ms + 10, runs).effect(call, ms + 20, record)
}

#[test]
fn only_what_may_run_then_is_interrupted_with_its_session() {
    let asks = |run: ScriptedRun, answer: Answer| {
        let session = "/session/1".to_owned();
        let note = SseNote::Interrupts { call: Call(2), session };
        let note = EventKind::Observed { stream: "client-session/p1".into(), saw: note.into() };
        let fields = r#"{"process":"p1"}"#;
        let run = run.asked_as(2, 2_000, Class::InFlight, "interrupt-session", fields);
        run.user(2_000, note).answered(2, 2_100, answer)
    };
    let first = || runs_in_session(history(), 1, 100, "client-session/p1");
    let killed = |run: ScriptedRun, of: &str| run.ended(of, 5_000, ProcessOutcome::Signal(15));
    let judged = server::command_lives_on;
    let accepted = || Answer::queued("interrupted");
    holds(&killed(asks(first(), accepted()), "client-session/p1"), judged);
    let refused = SeenRefusal { status: 409, code: "NOT_RUNNING".to_owned() };
    let refused = asks(first(), Answer::Refused(refused.into()));
    breaks(&killed(refused, "client-session/p1"), judged, "signal 15 ended the process");
    let over = asks(first().ended("client-session/p1", 1_500, ProcessOutcome::Exit(0)), accepted());
    let second = runs_in_session(over, 3, 3_000, "client-session/p1.2");
    breaks(&killed(second, "client-session/p1.2"), judged, "signal 15 ended the process");
}

#[test]
fn a_deleted_session_ends_its_command() {
    let run = || runs_in_session(history(), 1, 100, "client-session/p1");
    let killed =
        |run: ScriptedRun| run.ended("client-session/p1", 5_000, ProcessOutcome::Signal(15));
    let deletes = |session: &str| {
        let note = SseNote::Deletes { call: Call(2), session: session.to_owned() };
        let note = EventKind::Observed { stream: "client-session/p1".into(), saw: note.into() };
        let fields = r#"{"process":"p1"}"#;
        run().asked_as(2, 2_000, Class::InFlight, "delete-session", fields).user(2_000, note)
    };
    holds(&killed(deletes("/session/1")), server::command_lives_on);
    let other = killed(deletes("/session/2"));
    breaks(&other, server::command_lives_on, "signal 15 ended the process");
    let accepted = |session| deletes(session).answered(2, 2_100, Answer::queued("deleted"));
    let runs_on = |session| accepted(session).end(60_000);
    breaks(&runs_on("/session/1"), server::ends_when_asked, "to delete the session");
    holds(&runs_on("/session/2"), server::ends_when_asked);
    breaks(&killed(run()), server::command_lives_on, "signal 15 ended the process");
    // The user of the first command deletes the session at its end, whatever runs there then.
    let second = |noted| {
        let over = SseNote::Took(1_400);
        let over = EventKind::Observed { stream: "client-session/p1".into(), saw: over.into() };
        let run = run().ended("client-session/p1", 1_500, ProcessOutcome::Exit(0));
        let run = run.user(noted, over);
        let run =
            run.asked_as(3, 2_000, Class::Bound, "session", r#"{"process":"p2","with":"p1"}"#);
        let runs = SseNote::RunsIn { call: Call(3), session: "/session/1".to_owned() };
        let stream = "client-session/p2";
        let runs = EventKind::Observed { stream: stream.into(), saw: runs.into() };
        let run = run.user(2_010, runs).effect(3, 2_020, stream);
        run.ended(stream, 5_000, ProcessOutcome::Signal(15))
    };
    holds(&second(4_900), server::command_lives_on);
    breaks(&second(5_100), server::command_lives_on, "signal 15 ended the process");
    let given_up = run().failed_stream("client-session/p1", 4_000, "the connection ended");
    holds(&killed(given_up), server::command_lives_on);
}

#[test]
fn a_command_is_timed_out_only_by_its_time_limit() {
    let killed = |started: ScriptedRun, timed_out| {
        let ended = started.ended("p1", 3_000, ProcessOutcome::Signal(9));
        notes(ended, 3_100, SseNote::Killed { timed_out })
    };
    let limited = || {
        let run = r#"{"process":"p1","time-limit":"2s"}"#;
        history().asked_as(1, 100, Class::Durable, "run", run).effect(1, 110, "p1")
    };
    breaks(&killed(started(), true), asked::endings_are_true, "no limit had passed");
    holds(&killed(limited(), true), asked::endings_are_true);
}

#[test]
fn an_interrupt_during_a_delay_is_due_after_it() {
    let interrupted = || {
        let asked = asks(started(), 2_000, "interrupt");
        asked.answered(2, 2_100, Answer::queued("interrupted")).end(60_000)
    };
    breaks(&interrupted(), server::ends_when_asked, "had not ended (at 3.100 s)");
    let ended = |ms| interrupted().ended("p1", ms, ProcessOutcome::Signal(15));
    holds(&ended(3_100), server::ends_when_asked);
    let hold =
        Fault::StopChildren(faults::StopChildren { host: Host::from("server"), lasts: None });
    let held = |ms| ended(ms).fault(2_500, Some(5_000), Nature::Slows, hold.clone());
    holds(&held(6_000), server::ends_when_asked);
    breaks(&held(6_001), server::ends_when_asked, "had not ended (at 6.000 s)");
}

#[test]
fn a_command_took_as_long_as_its_process_lived() {
    let took = |ms| notes(exited(), 1_700, SseNote::Took(ms));
    holds(&took(1_390), asked::endings_are_true);
    holds(&took(1_600), asked::endings_are_true);
    breaks(&took(1), asked::endings_are_true, "took 1 ms, but it took 1389 to 1601 ms");
    breaks(&took(1_700), asked::endings_are_true, "took 1700 ms");
}

#[test]
fn the_id_of_each_event_is_its_position() {
    let read = |ids: [u64; 2]| {
        let event = |position, id: u64| {
            format!(
                "id: 0000000000000001-{id}\ndata: {{\"eid\":{position},\"type\":\"stdout\"}}\n\n"
            )
        };
        let text = format!("retry: 1000\n{}{}", event(1, ids[0]), event(2, ids[1]));
        let answer = Answer::Done(SeenEvents(text).into());
        asks(exited(), 3_000, "status").answered(2, 3_100, answer)
    };
    holds(&read([1, 2]), gaps::positions_follow);
    breaks(&read([2, 2]), gaps::positions_follow, "event 1 with the id of event 2");
}

#[test]
fn only_another_reader_is_in_the_way_of_a_follower() {
    let superseded = |code: &str| {
        let (code, message) = (code.to_owned(), String::new());
        let refused = Refused { status: 409, code, message, no_effect: false };
        SseFailure(Failure::Refused(refused))
    };
    let judged = refusals::refusals_are_true;
    let call = |code| {
        let fields = r#"{"process":"p1","of":"client"}"#;
        let run = started().asked_as(2, 2_000, Class::Durable, "follow", fields);
        run.answered(2, 2_100, Answer::Refused(superseded(code).into()))
    };
    breaks(&call("STREAM_SUPERSEDED"), judged, "the server refused the request: 409 STREAM_SUP");
    holds(&call("STREAM_ACTIVE"), judged);
    holds(&call("STREAM_SUPERSEDED").puppet("server"), judged);
    let stream = |code| started().failed_stream("p1", 2_100, superseded(code));
    breaks(&stream("STREAM_SUPERSEDED"), judged, "the server refused the request: 409 STREAM_SUP");
    holds(&stream("STREAM_ACTIVE"), judged);
    holds(&stream("STREAM_SUPERSEDED").puppet("server"), judged);
}

#[test]
fn a_refusal_that_ends_a_follower_has_a_name() {
    let judged = refusals::refusals_are_true;
    let nameless = || {
        let (code, message) = (String::new(), String::new());
        SseFailure(Failure::Refused(Refused { status: 409, code, message, no_effect: false }))
    };
    let stream = || started().failed_stream("p1", 2_100, nameless());
    breaks(&stream(), judged, "the server refused the request");
    holds(&stream().puppet("server"), judged);
    let after_a_gap = notes(started(), 2_100, SseNote::Failed(nameless()));
    breaks(&after_a_gap, judged, "the server refused the request");
    let single = |code: &str| {
        let seen = SeenRefusal { status: 404, code: code.to_owned() };
        asks(started(), 2_000, "status").answered(2, 2_100, Answer::Refused(seen.into()))
    };
    breaks(&single(""), judged, "the server refused the request");
    holds(&single("COMMAND_NOT_FOUND"), judged);
}

#[test]
fn a_start_that_found_no_room_is_new_to_each_server() {
    let judged = refusals::refusals_are_true;
    let asked = || history().asked_as(1, 100, Class::Durable, "run", r#"{"process":"p1"}"#);
    let lost = |run: ScriptedRun, ms, why: &str| {
        let fields = [("why", MilestoneValue::Text(why.to_owned()))];
        run.user(ms, EventKind::Milestone { name: "sse.client.lost", fields: fields.into() })
    };
    let full = "refused: 503 SERVICE_UNAVAILABLE: the server has too many running commands";
    let refused = || lost(asked(), 200, full);
    let age = |run: ScriptedRun| {
        let code = MilestoneValue::Text("START_TOO_EARLY".to_owned());
        let fields = [("conn", MilestoneValue::Number(1)), ("code", code)];
        let name = "sse.server.refused";
        run.conn(1, 300, None).user(310, EventKind::Milestone { name, fields: fields.into() })
    };
    breaks(&age(refused()), judged, "the server asked for the age of a start");
    breaks(&age(lost(refused(), 250, "no connection")), judged, "asked for the age");
    // The start may have arrived, or the end of the refusal is lost.
    holds(&age(lost(refused(), 250, "no answer")), judged);
    holds(&age(lost(refused(), 250, "the connection broke")), judged);
    holds(&age(refused()).puppet("server"), judged);
    // A puppet may tell any age.
    holds(&age(asked()), judged);
    let unknown = |run: ScriptedRun| {
        let restarted = run.died("server", 400).started("server", 450);
        let failed = SseNote::Failed(SseFailure(Failure::NotFound));
        notes(restarted, 600, failed).answered(1, 600, Answer::GivenUp)
    };
    breaks(&unknown(refused()), judged, "did not know the command of a start, but each attempt");
    holds(&unknown(lost(refused(), 250, "no answer in time")), judged);
    holds(&unknown(asked()), judged);
}

#[test]
fn a_follower_is_not_in_its_own_way() {
    let judged = server::conflict_is_true;
    let refused = |run: ScriptedRun| {
        milestone(run.conn(2, 2_000, None), 2_100, "sse.server.refused-active", &[("conn", 1)])
    };
    breaks(&refused(started()), judged, "but no other reader asked for the command");
    breaks(&refused(started().kills(1_500, 1_600)), judged, "but no other reader asked");
    let fields = r#"{"process":"p1","wait":"2s"}"#;
    let stuck = started().asked_as(2, 1_500, Class::InFlight, "stick", fields);
    holds(&refused(stuck), judged);
    holds(&refused(asks(started(), 1_500, "follow")), judged);
    breaks(&refused(asks(started(), 1_500, "status")), judged, "but no other reader asked");
    holds(&refused(started()).puppet("client2"), judged);
}

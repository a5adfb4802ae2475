//! Tests of `sessions_run_one`, `deleted_is_gone` and `sessions_are_bounded`.

use super::super::sessions::{deleted_is_gone, sessions_are_bounded, sessions_run_one};
use super::*;

const RECORD: &str = "client-session/p1";
const FIELDS: &str = r#"{"process":"p1"}"#;

fn observed(run: ScriptedRun, ms: u64, note: SseNote) -> ScriptedRun {
    run.user(ms, EventKind::Observed { stream: RECORD.into(), saw: note.into() })
}

/// Call 2 deletes the session, in which the user runs `p1`, and the user learns that at 2.1 s.
fn deleted() -> ScriptedRun {
    let run = runs_in_session(history(), 1, 100, RECORD);
    let run = run.asked_as(2, 2_000, Class::InFlight, "delete-session", FIELDS);
    let note = SseNote::Deletes { call: Call(2), session: "/session/1".to_owned() };
    observed(run, 2_000, note).answered(2, 2_100, Answer::queued("deleted"))
}

/// Call 3 is about the session.
fn asks_again(ms: u64, verb: &str, answer: Answer) -> ScriptedRun {
    let run = deleted().asked_as(3, ms, Class::InFlight, verb, FIELDS);
    let session = "/session/1".to_owned();
    let note = SseNote::Interrupts { call: Call(3), session };
    observed(run, ms, note).answered(3, ms + 100, answer)
}

fn refusal(code: &str) -> Answer {
    Answer::Refused(SeenRefusal { status: 409, code: code.to_owned() }.into())
}

#[test]
fn a_deleted_session_takes_no_more_requests() {
    let deletes = |ms| asks_again(ms, "delete-session", Answer::queued("deleted"));
    breaks(&deletes(2_101), deleted_is_gone, "answered a success to a request");
    // The deletion may still be on its way.
    holds(&deletes(2_100), deleted_is_gone);
    let interrupts = |code| asks_again(2_101, "interrupt-session", refusal(code));
    breaks(&interrupts("NOT_RUNNING"), deleted_is_gone, "answered 409 NOT_RUNNING to a request");
    holds(&interrupts("COMMAND_NOT_FOUND"), deleted_is_gone);
    let runs = |ms| runs_in_session(deleted(), 3, ms, "client-session/p1.2");
    breaks(&runs(2_101), deleted_is_gone, "that it had deleted at 2.100 s");
    holds(&runs(2_100), deleted_is_gone);
}

#[test]
fn a_user_finds_no_session_that_was_deleted() {
    let again = SseNote::DeletedAgain { session: "/session/1".to_owned() };
    let again = observed(deleted(), 2_200, again);
    breaks(&again, deleted_is_gone, "deleted /session/1, although it had deleted it before");
    holds(&deleted(), deleted_is_gone);
}

/// The server has room for one session.
fn of_one(mut run: ScriptedRun) -> ScriptedRun {
    run.plan.limits.set("server.sessions", LimitValue::Count(1));
    run
}

/// Call 3 asks for another session, and the server has no room.
fn refuses(run: ScriptedRun, ms: u64) -> ScriptedRun {
    let run = run.asked_as(3, ms, Class::Bound, "session", FIELDS);
    of_one(run.answered(3, ms + 100, refusal("SERVICE_UNAVAILABLE")))
}

#[test]
fn a_session_that_was_deleted_gives_its_place_back() {
    let full = "but at most 0 of 1 existed since 2.101 s";
    breaks(&refuses(deleted(), 2_101), sessions_are_bounded, full);
    holds(&refuses(deleted(), 2_100), sessions_are_bounded);
    let first = || runs_in_session(history(), 1, 100, RECORD);
    holds(&refuses(first(), 9_000), sessions_are_bounded);
    // Its user deletes it when its command has ended.
    let over = || observed(first(), 1_500, SseNote::Took(1_400));
    breaks(&refuses(over(), 2_501), sessions_are_bounded, "but at most 0 of 1 existed");
    holds(&refuses(over(), 2_500), sessions_are_bounded);
    holds(&refuses(over().kills(2_500, 2_600), 9_000), sessions_are_bounded);
}

#[test]
fn no_more_sessions_exist_than_the_limit_says() {
    let first = || runs_in_session(history(), 1, 100, RECORD);
    let second = |run: ScriptedRun| {
        let session = "/session/2".to_owned();
        let runs = SseNote::RunsIn { call: Call(3), session };
        let stream = "client-session/p1.2";
        let runs = EventKind::Observed { stream: stream.into(), saw: runs.into() };
        let run = run.asked_as(3, 3_000, Class::Bound, "session", FIELDS).user(3_010, runs);
        of_one(run.effect(3, 3_020, stream))
    };
    breaks(&second(first()), sessions_are_bounded, "beside 1 others, but at most 1 may exist");
    holds(&second(deleted()), sessions_are_bounded);
    holds(&second(observed(first(), 3_020, SseNote::Took(1_400))), sessions_are_bounded);
    let restarted = first().died("server", 1_000).started("server", 1_100);
    holds(&second(restarted), sessions_are_bounded);
}

#[test]
fn a_session_command_ends_with_the_connection_of_its_request() {
    let connects = || {
        let opened = EventKind::ConnOpened { conn: ConnIndex(0) };
        history().conn_labelled("request", 1, 50, None).user(50, opened)
    };
    let run = || runs_in_session(connects(), 1, 100, RECORD);
    // The command has printed nothing.
    let loses = |run: ScriptedRun| {
        let (conn, side, how) = (ConnIndex(0), Side::Server, ConnEnd::Closed);
        run.user(2_000, EventKind::ConnOver { conn, side, how })
    };
    let lost = || loses(run());
    let ended = |ms| lost().ended(RECORD, ms, ProcessOutcome::Signal(15)).end(60_000);
    let judged = server::ends_when_asked;
    let late = "was over at 2.000 s, but its process had not ended (at 3.000 s)";
    breaks(&lost().end(60_000), judged, late);
    breaks(&ended(3_001), judged, late);
    holds(&ended(3_000), judged);
    holds(&run().end(60_000), judged);
    // A later server does not know the command.
    holds(&loses(run().died("server", 1_500)).end(60_000), judged);
    breaks(&loses(run().died("client2", 1_500)).end(60_000), judged, late);
    // A follower of its host has another connection.
    let beside = runs_in_session(connects().attempt(1, 90), 1, 100, RECORD);
    breaks(&loses(beside).end(60_000), judged, late);
    // A time limit ends it, too: what is due first counts.
    let limited = |limit: &str| {
        let fields = format!(r#"{{"process":"p1","time-limit":"{limit}"}}"#);
        let run = connects().asked_as(1, 100, Class::Bound, "session", &fields);
        let runs = SseNote::RunsIn { call: Call(1), session: "/session/1".to_owned() };
        loses(observed(run, 110, runs).effect(1, 120, RECORD)).end(60_000)
    };
    breaks(&limited("20s"), judged, late);
    breaks(&limited("1s"), judged, "its time limit had passed, but it had not ended");
}

#[test]
fn a_session_runs_one_command_whichever_was_asked_for_first() {
    let second = "client-session/p1.2";
    // The request of call 1 is long on its way.
    let launched = |ms| {
        let run = history().asked_as(1, 100, Class::Bound, "session", FIELDS);
        let session = "/session/1".to_owned();
        let run = observed(run, 110, SseNote::RunsIn { call: Call(1), session });
        runs_in_session(run, 2, 1_000, second).effect(1, ms, RECORD)
    };
    let over = |run: ScriptedRun, ms| run.ended(second, ms, ProcessOutcome::Exit(0));
    breaks(&launched(3_000), sessions_run_one, "while client-session/p1.2 ran in the same");
    breaks(&over(launched(3_000), 3_001), sessions_run_one, "while client-session/p1.2 ran");
    holds(&over(launched(3_000), 3_000), sessions_run_one);
    // Both are launched in the same millisecond.
    breaks(&launched(1_020), sessions_run_one, "while client-session/p1 ran in the same");
    holds(&over(launched(1_020), 1_020), sessions_run_one);
}

//! Tests of `output_is_prompt` and `output_is_whole`.

use super::super::delivery::{output_is_prompt, output_is_whole};
use super::*;

/// The user received the line of 1 s at this time.
fn received(ms: u64) -> ScriptedRun {
    let mut run = started().conn(1, 115, None).delivered("p1/stdout", ms, "a\n");
    run.plan.latency = (Duration::from_millis(5), Duration::from_millis(5));
    run
}

#[test]
fn output_reaches_its_reader_at_once() {
    holds(&received(1_240), output_is_prompt);
    let late = "client received line 1, which was printed at 1.000 s";
    breaks(&received(1_241), output_is_prompt, late);
    breaks(&received(1_241).kills(1_242, 2_000), output_is_prompt, late);
}

#[test]
fn output_that_has_something_in_its_way_may_be_late() {
    holds(&received(2_000).kills(1_500, 1_600), output_is_prompt);
    holds(&received(2_000).conn(2, 900, None), output_is_prompt);
    let follow = r#"{"process":"p1","of":"client"}"#;
    let other = received(2_000).by("client2");
    let other = other.asked_as(2, 500, Class::Durable, "follow", follow).by("client");
    holds(&other, output_is_prompt);
    let fields = r#"{"process":"p1","wait":"1s"}"#;
    let stuck = received(2_000).asked_as(2, 500, Class::InFlight, "stick", fields);
    holds(&stuck, output_is_prompt);
    let mut waits = received(2_000);
    waits.plan.limits.set("server.hold", LimitValue::Duration(Duration::from_secs(5)));
    holds(&waits, output_is_prompt);
    let much = "x".repeat(32 << 10) + "\n";
    holds(&received(2_000).produced("p1/stdout", 1_001, &much), output_is_prompt);
}

/// `p1` prints a line at 1 s and exits at 1.5 s, and its user learns of the end at 1.6 s.
fn completed(run: ScriptedRun) -> ScriptedRun {
    run.completed("p1", 1_600, ProcessOutcome::Exit(0))
}

#[test]
fn a_user_has_all_output_of_a_command_that_has_ended() {
    let had = |output| completed(exited().delivered("p1/stdout", 1_100, output));
    let lost =
        "client followed it from its start to its end, and received 0 of 2 bytes of pipe stdout";
    holds(&had("a\n"), output_is_whole);
    breaks(&completed(exited()), output_is_whole, lost);
    let both = |run: ScriptedRun| run.produced("p1/stderr", 1_500, "b");
    breaks(&both(had("a\n")), output_is_whole, "received 0 of 1 bytes of pipe stderr");
    // A process that is left behind prints later.
    holds(&had("a\n").produced("p1/stdout", 1_501, "b\n"), output_is_whole);
}

#[test]
fn a_user_may_lack_output_that_it_did_not_ask_for() {
    let run = || completed(exited());
    let fields = r#"{"process":"p1","from":"last"}"#;
    let again = run().asked_as(2, 1_550, Class::Durable, "follow", fields);
    holds(&again, output_is_whole);
    // A fault may have closed the pipe.
    holds(&run().slows(1_200, 1_300), output_is_whole);
    let failed = exited().failed_stream("p1", 1_600, SseFailure(Failure::Expired));
    holds(&failed, output_is_whole);
}

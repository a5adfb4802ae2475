//! Tests of `refusal_is_true`.

use super::*;

#[test]
fn a_server_has_the_commands_that_it_started() {
    let failed =
        |scripted: ScriptedRun, ms, failure| scripted.failed_stream("p1", ms, SseFailure(failure));
    let unknown = failed(started(), 1_200, Failure::NotFound);
    breaks(&unknown, asked::refusal_is_true, "did not know the command");
    let running = failed(started(), 1_200, Failure::Expired);
    breaks(&running, asked::refusal_is_true, "of a command that runs");
    let early = failed(exited(), 2_000, Failure::Expired);
    breaks(&early, asked::refusal_is_true, "had ended only at 1.500 s");
    holds(&failed(exited(), 302_000, Failure::Expired), asked::refusal_is_true);
    let start = notes(started(), 1_200, SseNote::Failed(SseFailure(Failure::NotFound)));
    breaks(&start, asked::refusal_is_true, "did not know the command");
    let restarted = started().died("server", 1_100).started("server", 1_150);
    holds(&failed(restarted, 1_200, Failure::NotFound), asked::refusal_is_true);
}

/// The server does not know the command that the follower of the first connection names.
fn unknown(scripted: ScriptedRun, ms: u64, id: &str) -> ScriptedRun {
    let fields =
        [("conn", MilestoneValue::Number(1)), ("command", MilestoneValue::Text(id.to_owned()))];
    let name = "sse.server.refused-unknown";
    scripted.user(ms, EventKind::Milestone { name, fields: fields.into() })
}

#[test]
fn a_command_may_begin_while_the_refusal_of_its_repetition_is_on_its_way() {
    let refused = |launched, other: Option<u64>| {
        let asked = history().asked_as(1, 100, Class::Durable, "run", r#"{"process":"p1"}"#);
        let run = asked.conn(1, 110, None).effect(1, launched, "p1");
        let run = other.into_iter().fold(run, |run, ms| unknown(run, ms, "p9"));
        let run = unknown(run, 1_200, "p1");
        notes(run, 1_210, SseNote::Failed(SseFailure(Failure::NotFound)))
    };
    holds(&refused(1_200, None), asked::refusal_is_true);
    breaks(&refused(1_100, None), asked::refusal_is_true, "had launched it at 1.100 s");
    // An earlier refusal of another command excuses nothing.
    breaks(&refused(1_100, Some(1_050)), asked::refusal_is_true, "had launched it at 1.100 s");
}

#[test]
fn the_log_of_the_command_that_ended_first_goes_first() {
    // The server has room for the log of one command.
    let gone = |of: &str, p2_ends| {
        let run = exited().asked_as(2, 200, Class::Durable, "run", r#"{"process":"p2"}"#);
        let run = run.effect(2, 210, "p2").ended("p2", p2_ends, ProcessOutcome::Exit(0));
        let mut run = run.failed_stream(of, 9_000, SseFailure(Failure::Expired));
        run.plan.limits.set("server.ended-commands", LimitValue::Count(1));
        run
    };
    holds(&gone("p1", 5_000), asked::refusal_is_true);
    breaks(&gone("p2", 5_000), asked::refusal_is_true, "had ended only at 5.000 s");
    // The server may learn of both ends at the same time.
    holds(&gone("p2", 2_400), asked::refusal_is_true);
    // A task that is held may learn of them in another order.
    holds(&gone("p2", 5_000).slows(8_000, 8_500), asked::refusal_is_true);
    // A command that did not start has ended, too.
    let fields = r#"{"process":"p3"}"#;
    let missing = gone("p2", 5_000).asked_as(3, 300, Class::Durable, "run", fields);
    holds(&missing, asked::refusal_is_true);
}

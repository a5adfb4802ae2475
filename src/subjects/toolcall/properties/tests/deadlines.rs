//! Tests of `requests_end_in_time`, and of the sums that `silence_is_noticed` prints.

use super::super::deadlines::{requests_end_in_time, silence_is_noticed};
use super::*;
use crate::subjects::toolcall::answers::ToolcallFailure;
use reknit_toolcall::client::Failure;

#[test]
fn only_a_request_is_lost_with_its_connection() {
    let lost = |over, verb: &str, fields: &str| {
        let run = here_until(Some(over)).asked_as(2, 4_000, Class::InFlight, verb, fields);
        let why = Data::of(ToolcallFailure(Failure::Lost));
        violations(&run.failed(2, 5_000, why), requests_end_in_time)
    };
    assert_eq!(lost(5_000, "new-chat", "{}").len(), 0);
    assert_eq!(lost(3_000, "new-chat", "{}").len(), 1);
    assert_eq!(
        lost(5_000, "watch", r#"{"chat":"c2"}"#),
        [
            "call 2: its client failed it as lost, although a client repeats it over its next connection (at 5.000 s)"
        ]
    );
    assert_eq!(lost(5_000, "rename", "{}").len(), 1);
    assert_eq!(lost(5_000, "new-session", "{}").len(), 0, "it begins with a request");
    assert_eq!(lost(5_000, "report-content", r#"{"chat":"c1"}"#).len(), 0, "it is about a call");
}

#[test]
fn a_request_ends_with_the_connection_that_carries_it() {
    let run = |verb: &str, asked, answered| {
        let fields = [("generation", "1")];
        let run =
            milestone(here_until(Some(5_000)), 40, "client", "toolcall.client.connected", &fields);
        let run = milestone(run, 5_000, "client", "toolcall.client.lost", &fields);
        let fields = if verb == "send-token" { r#"{"token":"right"}"# } else { r#"{"chat":"c2"}"# };
        run.asked_as(2, asked, Class::InFlight, verb, fields).answered(2, answered, "done")
    };
    let found = |run: ScriptedRun| violations(&run, requests_end_in_time);
    assert_eq!(found(run("send-token", 4_000, 5_001)).len(), 0);
    assert_eq!(
        found(run("send-token", 4_000, 5_002)),
        [
            "call 2: it had no outcome by 5.001 s, although the connection that carried it was lost at 5.000 s"
        ]
    );
    assert_eq!(found(run("dispose-chat", 4_000, 6_000)).len(), 1);
    assert_eq!(found(run("watch", 4_000, 6_000)).len(), 0, "a subscription is repeated");
    assert_eq!(found(run("send-token", 5_000, 6_000)).len(), 0, "it waits for a connection");
    assert_eq!(found(run("send-token", 40, 6_000)).len(), 0, "it may have waited for this one");
    let reloaded =
        run("send-token", 4_000, 6_000).asked_as(3, 3_000, Class::Durable, "reload", "{}");
    assert_eq!(found(reloaded).len(), 0, "another window lost its connection");
}

#[test]
fn a_request_that_waits_is_given_up_at_its_deadline() {
    let run = |answered| {
        let run = history().asked_as(2, 4_000, Class::InFlight, "new-chat", "{}");
        violations(&run.answered(2, answered, "made"), requests_end_in_time)
    };
    assert_eq!(run(64_050).len(), 0);
    assert_eq!(
        run(64_051),
        ["call 2: it had no outcome by 64.050 s, although its deadline was 64.000 s"]
    );
}

#[test]
fn an_action_takes_no_longer_than_its_way_to_the_host_and_back() {
    let bound = 5_000 + 2 * MOMENT;
    let asks = |run: ScriptedRun, verb: &str, answered| {
        let run = run.asked_as(2, 5_000, Class::Durable, verb, r#"{"chat":"c1"}"#);
        violations(&run.answered(2, answered, "done"), requests_end_in_time)
    };
    assert_eq!(asks(here_until(None), "rename", bound).len(), 0);
    assert_eq!(
        asks(here_until(None), "rename", bound + 1),
        [
            "call 2: it had no outcome by 6.240 s, although its client was connected, and no fault was near since 3.760 s"
        ]
    );
    assert_eq!(asks(here_until(None), "watch", bound + 1).len(), 0, "a restore takes its time");
    assert_eq!(asks(here_until(Some(6_000)), "rename", bound + 1).len(), 0);
    assert_eq!(asks(here_until(None).kills(3_800, 3_900), "rename", bound + 1).len(), 0);
    let before = here_until(None).kills(1_000, 2_500);
    assert_eq!(asks(before, "rename", bound + 1).len(), 0, "data may be on its way until then");
    let new = accepted(history().conn(1, 10, None), 3_760, "1");
    assert_eq!(asks(new, "rename", bound + 1).len(), 0, "its handshake may not be complete");
}

#[test]
fn the_bound_of_a_silence_is_explained() {
    let silent = accepted(history().conn(1, 10, None).received(5_000), 20, "1").horizon(60_000);
    assert_eq!(
        violations(&silent, silence_is_noticed),
        [
            "client#1: its host had received nothing since 5.000 s, but had not closed it by 30.500 s: 5.000 s + 5s ping + 20s pong + 500ms"
        ]
    );
    let attempt = history().conn(1, 10, None).horizon(120_000);
    assert_eq!(
        violations(&attempt, silence_is_noticed),
        [
            "client#1: its client had not given up the attempt by 70.510 s: 0.010 s + 10s connect + 1m handshake + 500ms"
        ]
    );
}

//! Tests of `forgotten_in_time`, of `tools_begin_once`, and of owners whose calls fail on any path.

use super::super::calls::tools_begin_once;
use super::super::memory::forgotten_in_time;
use super::super::presence::{no_live_client_failed, returning_keeps};
use super::*;

/// The default retention of a client.
const RETENTION: u64 = 300_000;

fn forgotten(scripted: ScriptedRun, ms: u64) -> ScriptedRun {
    milestone(scripted, ms, "server", "toolcall.host.forgotten", &[("client", "client")])
}

#[test]
fn a_client_is_forgotten_at_the_end_of_its_retention() {
    let at = |ms| forgotten(here_until(Some(10_000)), ms);
    holds(&at(10_000 + RETENTION), forgotten_in_time);
    assert_eq!(
        violations(&at(9_999 + RETENTION), forgotten_in_time),
        ["client: the host forgot it at 309.999 s, although it was connected until 10.000 s"]
    );
    assert_eq!(
        violations(&forgotten(here_until(None), 20_000), forgotten_in_time),
        ["client: the host forgot it at 20.000 s, although it was connected"]
    );
}

#[test]
fn a_client_that_returns_after_its_retention_is_unknown() {
    let back = |ms: u64| {
        let run = here_until(Some(10_000)).conn(2, ms, None);
        let fields = [("conn", "2"), ("client", "client")];
        let run = milestone(run, ms, "server", "toolcall.host.arriving", &fields);
        let run = milestone(run, ms, "server", "toolcall.host.replayed", &fields);
        milestone(run, ms, "client", "toolcall.client.replayed", &[])
    };
    holds(&back(10_000 + RETENTION + MOMENT), forgotten_in_time);
    assert_eq!(
        violations(&back(10_001 + RETENTION + MOMENT), forgotten_in_time),
        ["client: the host still knew it at 310.621 s, although it was absent since 10.000 s"]
    );
}

#[test]
fn a_tool_begins_once() {
    let begins = |scripted, ms| saw(scripted, ms, "client", "t1", "tool: call-1 begins");
    let once = || begins(calls(here_until(None), 1_000, "call-1", "client"), 1_100);
    holds(&once(), tools_begin_once);
    holds(&begins(calls(once(), 2_000, "call-1", "client"), 2_100), tools_begin_once);
    assert_eq!(
        violations(&begins(once(), 5_000), tools_begin_once),
        ["t1: the tool of call-1 began again on client, although it began at 1.100 s (at 5.000 s)"]
    );
}

#[test]
fn a_call_fails_only_with_its_tool_or_for_want_of_its_owner() {
    let ends = |scripted| over(scripted, 5_000, "failed (gone)");
    let call = |over| calls(here_until(over), 1_000, "call-1", "client");
    assert_eq!(
        violations(&ends(call(None)), no_live_client_failed),
        [
            "t1: call-1 failed (gone), although its owner client was connected and subscribed to c1, and its tool had not ended (at 5.000 s)"
        ]
    );
    holds(&ends(call(Some(4_000))), no_live_client_failed);
    let ended = saw(call(None), 4_900, "client", "t1", "tool: call-1 ends");
    holds(&ends(ended), no_live_client_failed);
    let unwatched = saw(call(None), 4_900, "client", "c1", "unsubscribed");
    holds(&ends(unwatched), no_live_client_failed);
    let stranger = calls(here_until(None), 1_000, "call-1", "stranger");
    assert_eq!(violations(&ends(stranger), no_live_client_failed).len(), 1);
}

#[test]
fn a_returning_client_keeps_the_channels_that_it_names() {
    let returns = |opened: &str| {
        let call = calls(here_until(Some(4_000)), 1_000, "call-1", "client");
        let run = call.conn(2, opened.parse().unwrap(), None);
        let fields = [("conn", "2"), ("client", "client")];
        let run = milestone(run, 5_000, "server", "toolcall.host.replayed", &fields);
        let fields = [("chat", "c1"), ("call", "call-1"), ("owner", "client"), ("away", "0")];
        milestone(run, 5_000, "server", "toolcall.host.call-failed", &fields)
    };
    assert_eq!(
        violations(&returns("4900"), returning_keeps),
        ["call-1: the host failed it as its owner client returned and named c1 (at 5.000 s)"]
    );
    let unwatched = saw(returns("4900"), 4_500, "client", "c1", "unsubscribed");
    holds(&unwatched, returning_keeps);
}

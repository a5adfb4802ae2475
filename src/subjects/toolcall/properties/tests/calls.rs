//! Tests of calls: their ends, their tools, and the clients that can run them.

use super::super::calls::{
    no_work_for_what_is_over, one_outcome, owner_can_run, results_count, tools_begin_once,
};
use super::*;
use crate::schedule::LimitValue;

#[test]
fn a_call_ends_once_and_in_one_way() {
    let scripted = || over(calls(here_until(None), 1_000, "call-1", "client"), 3_000, "completed");
    let user =
        |ms, what: &str| saw(scripted(), ms, "client", "t1", &format!("user: call-1 is {what}"));
    holds(&user(3_010, "completed"), one_outcome);
    assert_eq!(
        violations(&user(3_010, "failed"), one_outcome),
        ["t1: call-1 is failed for client at 3.010 s, but completed for others at 3.000 s"]
    );
    holds(&user(3_010, "running"), one_outcome);
    let again = saw(user(3_010, "completed"), 3_020, "client", "t1", "user: call-1 is running");
    assert_eq!(violations(&again, one_outcome).len(), 1);
}

#[test]
fn a_tool_works_for_its_own_windows_calls_when_they_may_run() {
    let call = |owner| calls(here_until(None), 1_000, "call-1", owner);
    let ready = |scripted| saw(scripted, 1_500, "server", "t1", "agent: call-1 is ready");
    let begins = |scripted, ms| saw(scripted, ms, "client", "t1", "tool: call-1 begins");
    holds(&begins(ready(call("client")), 1_510), no_work_for_what_is_over);
    assert_eq!(
        violations(&begins(ready(call("client2")), 1_510), no_work_for_what_is_over),
        [
            "t1: the tool of call-1 begins on client, although the call belongs to client2 (at 1.510 s)"
        ]
    );
    let late = |ms| begins(over(ready(call("client")), 2_000, "failed (gone)"), ms);
    holds(&late(2_010), no_work_for_what_is_over);
    assert_eq!(violations(&late(2_001 + MOMENT), no_work_for_what_is_over).len(), 1);
    // The host accepts another connection after the end of the call.
    let accepted_late = |gone| {
        let ended = over(ready(call("client")), 2_000, "failed (gone)");
        let run = accepted(ended.conn(2, 1_200, gone), 2_005, "2");
        violations(&begins(run, 2_010), no_work_for_what_is_over).len()
    };
    assert_eq!(accepted_late(None), 1);
    assert_eq!(accepted_late(Some(2_010)), 1, "it lived until then");
    assert_eq!(accepted_late(Some(1_300)), 0, "the window had given it up");
    let flash = |ms| {
        milestone(
            over(ready(call("client")), 2_000, "failed (gone)"),
            ms,
            "client",
            "toolcall.client.runs",
            &[("call", "call-1")],
        )
    };
    holds(&flash(2_010), no_work_for_what_is_over);
    assert_eq!(
        violations(&flash(2_001 + MOMENT), no_work_for_what_is_over).len(),
        1,
        "though no tool did anything"
    );
    let early = saw(call("client"), 1_200, "client2", "t1", "user: call-1 is running");
    assert_eq!(violations(&early, no_work_for_what_is_over).len(), 1);
    let flash = saw(call("client"), 1_200, "client2", "t1", "second: call-1 is running");
    assert_eq!(violations(&flash, no_work_for_what_is_over).len(), 1);
    let known =
        saw(begins(ready(call("client")), 1_510), 2_000, "client", "t1", "user: call-1 is failed");
    assert_eq!(
        violations(
            &saw(known, 3_000, "client", "t1", "tool: call-1 ends"),
            no_work_for_what_is_over
        )
        .len(),
        1
    );
}

#[test]
fn a_result_ends_its_call_as_soon_as_it_can_be_reported() {
    let scripted = || {
        saw(
            calls(here_until(None), 1_000, "call-1", "client"),
            5_000,
            "client",
            "t1",
            "tool: call-1 ends",
        )
    };
    holds(&over(scripted(), 5_000 + 2 * MOMENT, "completed"), results_count);
    assert_eq!(
        violations(&over(scripted(), 5_001 + 2 * MOMENT, "completed"), results_count),
        ["t1: call-1 had not ended by 6.240 s, although its tool ended on client at 5.000 s"]
    );
    // The agent does not note the end of a call that it gave up.
    let given_up =
        |ms| saw(scripted(), ms, "server", "t1", "agent: call-1 is abandoned by its agent");
    holds(&given_up(5_000 + 2 * MOMENT), results_count);
    assert_eq!(violations(&given_up(5_001 + 2 * MOMENT), results_count).len(), 1);
    let cut = scripted().kills(5_100, 9_000);
    holds(&over(cut.clone(), 9_000 + BACK, "completed"), results_count);
    assert_eq!(violations(&over(cut, 9_001 + BACK, "completed"), results_count).len(), 1);
    // A second connection carries no actions of the client.
    let seconds = |main| {
        let scripted = calls(
            here_until(main).conn_labelled("second", 1, 100, None),
            1_000,
            "call-1",
            "client",
        );
        saw(accepted(scripted, 200, "2"), 5_000, "client", "t1", "tool: call-1 ends")
    };
    let late =
        |main| violations(&over(seconds(main), 5_000 + BACK, "completed"), results_count).len();
    assert_eq!((late(Some(3_000)), late(None)), (0, 1));
    // A result that its user reported waits for consent.
    let reported = |chat| {
        let run = scripted().asked_as(2, 4_000, Class::Durable, "report-result", chat);
        violations(&over(run, 9_000, "completed"), results_count).len()
    };
    let chats = [r#"{"chat":"c1"}"#, r#"{"chat":"c2"}"#];
    assert_eq!(chats.map(reported), [0, 1]);
}

#[test]
fn a_stopped_tool_fails_its_call_when_its_user_watches_again() {
    let work = |run, ms, what: &str| saw(run, ms, "client", "t1", &format!("tool: call-1 {what}"));
    let stopped = || {
        let call = calls(here_until(None), 1_000, "call-1", "client");
        let run = work(work(call, 1_500, "begins"), 3_000, "is stopped");
        saw(run, 3_000, "client", "c1", "unsubscribed")
    };
    let again = || saw(stopped(), 5_000, "client", "c1", "state received");
    holds(&stopped(), results_count);
    holds(&over(again(), 5_000 + 2 * MOMENT, "failed (gone)"), results_count);
    assert_eq!(
        violations(&over(again(), 5_001 + 2 * MOMENT, "failed (gone)"), results_count),
        [
            "t1: call-1 had not ended by 6.240 s, although its tool was stopped on client at 3.000 s, and its user watches it again since 5.000 s"
        ]
    );
    holds(&work(again(), 5_100, "begins"), results_count);
    let given_up = |ms| saw(again(), ms, "server", "t1", "agent: call-1 is abandoned by its agent");
    holds(&given_up(5_000 + 2 * MOMENT), results_count);
    assert_eq!(violations(&given_up(5_001 + 2 * MOMENT), results_count).len(), 1);
}

#[test]
fn a_call_that_may_run_begins_its_tool() {
    let ready = |scripted, ms| saw(scripted, ms, "server", "t1", "agent: call-1 is ready");
    let call = || ready(calls(here_until(None), 1_000, "call-1", "client"), 5_000);
    let begins = |scripted, ms| saw(scripted, ms, "client", "t1", "tool: call-1 begins");
    let late = |scripted| violations(&scripted, tools_begin_once);
    holds(&begins(call(), 5_000 + 2 * MOMENT), tools_begin_once);
    assert_eq!(
        late(begins(call(), 5_001 + 2 * MOMENT)),
        [
            "t1: the tool of call-1 had not begun on client by 6.240 s, although it could since 5.000 s"
        ]
    );
    assert_eq!(late(over(call(), 5_001 + 2 * MOMENT, "failed (gone)")).len(), 1);
    holds(&over(call(), 5_000 + 2 * MOMENT, "failed (gone)"), tools_begin_once);
    let given_up = saw(call(), 5_500, "server", "t1", "agent: call-1 is abandoned by its agent");
    holds(&given_up, tools_begin_once);
    let away = || call().kills(4_900, 9_000);
    holds(&begins(away(), 9_000 + BACK), tools_begin_once);
    assert_eq!(late(begins(away(), 9_001 + BACK)).len(), 1);
    let unwatched = saw(call(), 6_000, "client", "c1", "unsubscribed");
    holds(&unwatched, tools_begin_once);
    let again = saw(unwatched, 8_000, "client", "c1", "state received");
    holds(&begins(again.clone(), 8_000 + 2 * MOMENT), tools_begin_once);
    assert_eq!(late(begins(again, 8_001 + 2 * MOMENT)).len(), 1);
    let keeps_id = r#"{"keeps-id":true}"#;
    holds(&call().asked_as(2, 3_000, Class::Durable, "reload", keeps_id), tools_begin_once);
}

#[test]
fn a_call_begins_when_it_may_run_and_its_window_has_room() {
    let begins = |scripted, ms| saw(scripted, ms, "client", "t1", "tool: call-1 begins");
    let late = |scripted| violations(&scripted, tools_begin_once).len();
    // Another call takes the only place.
    let waits = |limit, others: &[&str]| {
        let call = calls(here_until(None), 1_000, "call-1", "client");
        let call = saw(call, 5_000, "server", "t1", "agent: call-1 is ready");
        let mut both = others.iter().fold(call, |run, other| calls(run, 900, other, "client"));
        both.plan.limits.set("client.running-tools", LimitValue::Count(limit));
        saw(both, 20_000, "server", "t1", "agent: call-2 is over: completed")
    };
    holds(&begins(waits(1, &["call-2"]), 20_000 + 2 * MOMENT), tools_begin_once);
    assert_eq!(late(begins(waits(1, &["call-2"]), 20_001 + 2 * MOMENT)), 1);
    assert_eq!(late(begins(waits(2, &["call-2"]), 5_001 + 2 * MOMENT)), 1);
    holds(&waits(1, &["call-2", "call-3"]), tools_begin_once);
    // A user must consent, and the reply must be accepted.
    let asks = || {
        let call = calls(here_until(None), 1_000, "call-1", "client");
        let asks = saw(call, 2_000, "server", "t1", "agent: call-1 is ready and needs consent");
        saw(asks, 4_900, "client", "t1", "user: call-1 is approved by its user")
    };
    let replies = |reply: Result<(), String>| {
        let (by, call) = (By::User, "call-1".to_owned());
        let saw = Data::of(OfCall { by, call, what: Became::Replies(reply) });
        let stream = "t1".into();
        asks().entry(5_000, Some("client"), EventKind::Observed { stream, saw })
    };
    holds(&asks(), tools_begin_once);
    holds(&replies(Err("no".to_owned())), tools_begin_once);
    holds(&begins(replies(Ok(())), 5_000 + 2 * MOMENT), tools_begin_once);
    assert_eq!(late(begins(replies(Ok(())), 5_001 + 2 * MOMENT)), 1);
}

/// The next host gives another call the same name. It has accepted the window, which does not know yet.
#[test]
fn the_end_of_a_tool_counts_for_the_call_for_which_it_began() {
    let ends = |begun: Option<u64>| {
        let run = here_until(Some(3_000)).conn(2, 5_600, None).by("client2").conn(1, 4_000, None);
        let fields = [("conn", "3"), ("client", "client2")];
        let run = milestone(run, 4_100, "server", "toolcall.host.initialized", &fields);
        let run = calls(run, 1_000, "call-1", "client");
        let run = match begun {
            Some(ms) => saw(run, ms, "client", "t1", "tool: call-1 begins"),
            None => run,
        };
        let run = run.died("server", 3_000).started("server", 3_100);
        let run = accepted(calls(run, 5_000, "call-1", "client2"), 6_000, "2");
        saw(run, 6_100, "client", "t1", "tool: call-1 ends")
    };
    holds(&ends(Some(2_000)), results_count);
    assert_eq!(
        violations(&ends(Some(6_050)), results_count),
        ["t1: call-1 had not ended by 7.340 s, although its tool ended on client at 6.100 s"]
    );
    assert_eq!(violations(&ends(None), results_count).len(), 1);
    // The tool of the first call ends only once.
    let stopped = saw(ends(Some(2_000)), 2_500, "client", "t1", "tool: call-1 is stopped");
    assert_eq!(violations(&stopped, results_count).len(), 1);
}

#[test]
fn a_call_is_assigned_to_a_client_that_can_run_it() {
    let gone_at = |ms| {
        let two = here_until(Some(ms)).by("client2").conn(1, 10, None);
        let two = milestone(
            two,
            20,
            "server",
            "toolcall.host.initialized",
            &[("conn", "2"), ("client", "client2")],
        );
        looks(two, 30, "client2")
    };
    let two = gone_at(2_000);
    holds(&calls(gone_at(9_000), 9_000, "call-1", "client"), owner_can_run); // it goes in the very moment
    assert_eq!(
        violations(&calls(two.clone(), 9_000, "call-1", "client"), owner_can_run),
        [
            "t1: call-1 was assigned to client, although client2 was connected and could run it (at 9.000 s)"
        ]
    );
    holds(&calls(two.clone(), 9_000, "call-1", "client2"), owner_can_run);
    holds(&calls(two.clone(), 1_100, "call-1", "client"), owner_can_run);
    // The host may know that a user leaves before the user sees it.
    let leaves = |ms| two.clone().asked_as(2, ms, Class::Durable, "leave", "{}");
    holds(&calls(leaves(8_995), 9_000, "call-1", "client"), owner_can_run);
    let later = calls(leaves(9_001), 9_000, "call-1", "client");
    assert_eq!(violations(&later, owner_can_run).len(), 1);
    // The owner returns in the millisecond in which the host assigns the call: only the order of the
    // two shows whether the host knew.
    let returns = |scripted: ScriptedRun| accepted(scripted.conn(2, 8_990, None), 9_000, "3");
    let first = calls(returns(two.clone().by("client")), 9_000, "call-1", "client");
    holds(&first, owner_can_run);
    let second = returns(calls(two.clone().by("client"), 9_000, "call-1", "client"));
    assert_eq!(violations(&second, owner_can_run).len(), 1);
    let given = |scripted: ScriptedRun| {
        violations(&calls(scripted, 9_000, "call-1", "client"), owner_can_run).len()
    };
    assert_eq!(
        given(two.clone().by("client").kills(8_000, 9_500)),
        1,
        "what keeps the one away does not disturb the other"
    );
    assert_eq!(given(two.kills(8_000, 9_500)), 0);
    // A client that has only a second connection may have lost its place, and its user does not see
    // that over the second connection.
    let with_second = |main| {
        let two = here_until(Some(2_000))
            .by("client2")
            .conn(1, 10, main)
            .conn_labelled("second", 1, 100, None);
        let fields = |conn| [("conn", conn), ("client", "client2")];
        let two = milestone(two, 20, "server", "toolcall.host.initialized", &fields("2"));
        looks(
            milestone(two, 200, "server", "toolcall.host.initialized", &fields("3")),
            210,
            "client2",
        )
    };
    assert_eq!((given(with_second(Some(5_000))), given(with_second(None))), (0, 1));
    let hint = over(
        calls(here_until(None), 1_000, "call-1", "client"),
        2_000,
        "failed (another one offers it: try again)",
    );
    assert_eq!(violations(&hint, owner_can_run).len(), 1);
    // A host with a held task may not have noticed the end of the other client's connection.
    let other_gone = |scripted: ScriptedRun| {
        let scripted = scripted.by("client2").conn(1, 10, Some(1_500)).by("client");
        let fields = [("conn", "2"), ("client", "client2")];
        let scripted = milestone(scripted, 20, "server", "toolcall.host.initialized", &fields);
        let scripted = calls(scripted, 1_000, "call-1", "client");
        over(scripted, 2_000, "failed (another one offers it: try again)")
    };
    assert_eq!(violations(&other_gone(here_until(None)), owner_can_run).len(), 1);
    holds(&other_gone(here_until(None).holds_for_ever(1_400)), owner_can_run);
}

/// The only connection of the owner has been there for a while, and its user does not watch the chat.
#[test]
fn a_call_is_not_assigned_to_a_client_that_is_not_subscribed() {
    let given = |scripted: ScriptedRun| {
        violations(&calls(scripted, 9_000, "call-1", "client"), owner_can_run)
    };
    let leaves = |ms| saw(here_until(None), ms, "client", "c1", "unsubscribed");
    assert_eq!(
        given(leaves(5_000)),
        ["t1: call-1 was assigned to client, although its user does not watch c1 (at 9.000 s)"]
    );
    assert_eq!(given(here_until(None)).len(), 0);
    assert_eq!(given(leaves(8_500)).len(), 0, "it may be too early");
    let asks = |ms| leaves(5_000).asked_as(2, ms, Class::InFlight, "watch", r#"{"chat":"c1"}"#);
    assert_eq!(given(asks(6_000)).len(), 0, "it may be subscribed already");
    let fails = |ms| asks(6_000).answered(2, ms, rejected("no"));
    assert_eq!((given(fails(7_000)).len(), given(fails(8_500)).len()), (1, 0));
    let older = leaves(5_000).conn(2, 20, None);
    assert_eq!(given(accepted(older, 30, "2")).len(), 0, "another connection holds it");
}

/// After an outage, the host learns of a dead client when it retransmits, after at most as long again.
#[test]
fn an_owner_counts_as_present_until_the_host_has_retransmitted() {
    let given_at = |at: u64| {
        let here = accepted(history().conn_half_over(1, 10, 2_000), 20, "1");
        let here = looks(here, 30, "client").kills(2_000, 5_000);
        let two = here.by("client2").conn(1, 10, None);
        let fields = [("conn", "2"), ("client", "client2")];
        let two = milestone(two, 20, "server", "toolcall.host.initialized", &fields);
        let two = looks(two, 30, "client2");
        violations(&calls(two, at, "call-1", "client"), owner_can_run).len()
    };
    assert_eq!((given_at(8_000 + MOMENT), given_at(8_001 + MOMENT)), (0, 1));
}

/// The host does not know the window's tools before the window has joined the session, which takes
/// as long as the restore of a chat.
#[test]
fn a_window_that_does_not_take_part_offers_no_tools() {
    let scripted = |part: Option<u64>| {
        let two = here_until(Some(2_000)).by("client2").conn(1, 10, None);
        let two = milestone(
            two,
            20,
            "server",
            "toolcall.host.initialized",
            &[("conn", "2"), ("client", "client2")],
        );
        let two = saw(
            saw(two, 30, "client2", "s1", "state received"),
            30,
            "client2",
            "c1",
            "state received",
        );
        let two = part.into_iter().fold(two, |two, ms| saw(two, ms, "client2", "s1", "joined"));
        calls(two, 9_000, "call-1", "client")
    };
    holds(&scripted(None), owner_can_run);
    holds(&scripted(Some(9_000 - 2 * MOMENT + 1)), owner_can_run);
    assert_eq!(violations(&scripted(Some(9_000 - 2 * MOMENT)), owner_can_run).len(), 1);
    let parted = |part| {
        saw(
            saw(scripted(Some(100)), 7_000, "client2", "s1", part),
            8_990,
            "client2",
            "s1",
            "joined",
        )
    };
    assert_eq!(violations(&parted("state changed"), owner_can_run).len(), 1);
    holds(&parted("left"), owner_can_run);
}

#[test]
fn a_tool_stops_when_its_user_stops_watching() {
    let work = |run, ms, what: &str| saw(run, ms, "client", "t1", &format!("tool: call-1 {what}"));
    let ready = |run| saw(run, 1_400, "server", "t1", "agent: call-1 is ready");
    let run = |unwatched| {
        let call = ready(calls(here_until(None), 1_000, "call-1", "client"));
        saw(work(call, 1_500, "begins"), unwatched, "client", "c1", "unsubscribed")
    };
    assert_eq!(
        violations(&work(run(3_000), 3_002, "ends"), no_work_for_what_is_over),
        [
            "t1: the tool of call-1 ends on client, although its user had not watched c1 since 3.000 s (at 3.002 s)"
        ]
    );
    holds(&work(run(3_000), 3_001, "ends"), no_work_for_what_is_over);
    holds(&work(run(3_000), 4_000, "is stopped"), no_work_for_what_is_over);
    holds(&work(run(1_500), 4_000, "ends"), no_work_for_what_is_over); // the tool began later
    let again = saw(run(3_000), 3_500, "client", "c1", "state received");
    assert_eq!(violations(&work(again, 4_000, "ends"), no_work_for_what_is_over).len(), 1);
    let reloaded = run(3_000).asked_as(2, 2_500, Class::Durable, "reload", "{}");
    holds(&work(reloaded, 4_000, "ends"), no_work_for_what_is_over);
}

//! Tests of a client that has no connection yet, and of one that has failed for good.

use super::super::{no_call_before_install, one_reason};
use super::{milestone, violations};
use crate::history::{Class, EventKind};
use crate::property::scripted::{ScriptedRun, history};
use crate::schedule::MilestoneValue;

/// Adds a milestone about generation 1 on a connection.
fn first(run: ScriptedRun, ms: u64, name: &'static str, conn: u64) -> ScriptedRun {
    let fields =
        [("generation", MilestoneValue::Number(1)), ("conn", MilestoneValue::Number(conn))];
    run.user(ms, EventKind::Milestone { name, fields: fields.into() })
}

#[test]
fn a_generation_is_installed_once_and_before_its_calls() {
    let connected = |run, conn| first(run, 200, "exec.client.connected", conn);
    let sent = |run, conn| first(run, 200, "exec.client.sent", conn);
    let found = |run: ScriptedRun| violations(&run, no_call_before_install);
    let installed = || first(history(), 100, "exec.client.connected", 1);
    assert_eq!(found(sent(installed(), 1)), [""; 0]);
    assert_eq!(
        found(sent(installed(), 2)),
        ["generation 1 carried a call before it was installed (at 0.200 s)"]
    );
    assert_eq!(
        found(connected(installed(), 1)),
        ["generation 1 was installed a second time (at 0.200 s)"]
    );
    let restarted = || installed().died("client", 150);
    assert_eq!(found(connected(restarted(), 1)), [""; 0]);
    assert_eq!(found(sent(restarted(), 1)).len(), 1);
}

#[test]
fn a_call_to_a_failed_client_takes_no_effect() {
    let found = |failed: u64, died: u64| {
        let why = [("why", "refused")];
        let failed = milestone(history(), failed, "exec.client.failed-permanent", &why);
        let asked = failed.died("client", died).asked_as(
            2,
            1_000,
            Class::InFlight,
            "start",
            r#"{"process":"p1"}"#,
        );
        violations(&asked.effect(2, 1_500, "p1"), one_reason)
    };
    assert_eq!(
        found(999, 5_000),
        [
            "call 2: it took effect, although its client had failed before the call (refused) (at 1.500 s)"
        ]
    );
    assert_eq!(found(1_001, 5_000), [""; 0], "the call came first");
    assert_eq!(found(800, 900), [""; 0], "the client is another one");
}

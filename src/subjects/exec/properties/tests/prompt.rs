//! Tests of answers that wait for nothing.

use super::super::prompt::answers_are_prompt;
use super::{milestone, started, violations};
use crate::history::{Answer, Class};
use crate::property::scripted::ScriptedRun;

/// A connected client whose user wants to end its process at 2 s.
fn terminating() -> ScriptedRun {
    milestone(started(), 300, "exec.client.connected", &[]).asked_as(
        2,
        2_000,
        Class::InFlight,
        "terminate",
        r#"{"process":"p1"}"#,
    )
}

#[test]
fn a_request_is_answered_at_once() {
    let late = [
        "call 2: the request of 2.000 s was not answered by 3.080 s, although no fault and no other data delayed it",
    ];
    let answered = |ms| terminating().answered(2, ms, Answer::from("running: true"));
    assert!(violations(&answered(3_000), answers_are_prompt).is_empty());
    assert_eq!(violations(&answered(6_000), answers_are_prompt), late);
    assert_eq!(violations(&terminating(), answers_are_prompt), late, "it never is");
    let lost = milestone(terminating(), 2_100, "exec.client.lost", &[]);
    assert!(violations(&lost, answers_are_prompt).is_empty());
    let unconnected =
        started().asked_as(2, 2_000, Class::InFlight, "terminate", r#"{"process":"p1"}"#);
    assert!(violations(&unconnected, answers_are_prompt).is_empty());
}

//! Tests of answers that wait for nothing.

use serde_json::json;

use super::super::prompt::answers_are_prompt;
use super::{milestone, started, violations};
use crate::history::{Answer, Call, Class, EventKind, ProcessOutcome};
use crate::property::scripted::ScriptedRun;
use crate::schedule::LimitValue;

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
fn a_request_of_an_outage_is_answered_when_it_is_over() {
    let lost = || milestone(started(), 300, "exec.client.lost", &[]);
    let asked = |run: ScriptedRun, verb: &str, fields: &str| {
        run.asked_as(2, 2_000, Class::InFlight, verb, fields)
    };
    let back = |run: ScriptedRun| milestone(run, 5_000, "exec.client.connected", &[]);
    let p1 = r#"{"process":"p1"}"#;
    let answered = |ms| back(asked(lost(), "terminate", p1)).answered(2, ms, "running: true");
    assert_eq!(violations(&answered(6_080), answers_are_prompt), [""; 0]);
    assert_eq!(
        violations(&answered(6_081), answers_are_prompt),
        [
            "call 2: the request of 5.000 s was not answered by 6.080 s, although no fault and no other data delayed it"
        ]
    );
    let faulty = back(asked(lost(), "terminate", p1).partition(4_000, Some(5_000)));
    assert_eq!(violations(&faulty, answers_are_prompt), [""; 0], "packets may be on their way");
    let start = back(asked(lost(), "start", r#"{"process":"p2"}"#));
    assert_eq!(violations(&start, answers_are_prompt).len(), 1);
    let twice = asked(lost(), "start", p1).asked_as(3, 2_100, Class::InFlight, "terminate", p1);
    let found = violations(&back(twice), answers_are_prompt);
    assert_eq!(found.len(), 1, "only the start, whose handle the terminate needs: {found:?}");
}

#[test]
fn a_write_that_has_room_is_answered_at_once() {
    let found_of = |stdin: &str, bytes: u64, room: u64| {
        let mut run = milestone(started(), 300, "exec.client.connected", &[]);
        run.plan.limits.set("server.stdin-bytes", LimitValue::Bytes(room));
        run.plan.setup.insert("process".into(), json!({ "p1": { "stdin": stdin } }));
        let write = |run: ScriptedRun, call, ms, bytes: u64| {
            let fields = json!({ "process": "p1", "bytes": format!("{bytes}B") }).to_string();
            run.asked_as(call, ms, Class::InFlight, "write", &fields)
        };
        let first = write(run, 2, 1_500, 1_000).answered(2, 1_520, Answer::queued("accepted"));
        violations(&write(first, 3, 2_000, bytes), answers_are_prompt)
    };
    let found = |bytes, room| found_of("ignore", bytes, room);
    assert_eq!(
        found(500, 1_500),
        [
            "call 3: the request of 2.000 s was not answered by 3.080 s, although no fault and no other data delayed it"
        ]
    );
    assert_eq!(found(501, 1_500), [""; 0], "it may wait for room");
    assert_eq!([found(1, 1_040).len(), found(1, 1_039).len()], [1, 0], "a line has its number");
    assert_eq!(found_of("echo", 501, 1_500), [""; 0]);
    assert_eq!(found_of("read", 501, 1_500).len(), 1, "the process reads it");
}

#[test]
fn a_write_is_refused_when_its_process_has_ended() {
    let mut run = milestone(started(), 300, "exec.client.connected", &[]);
    run.plan.limits.set("server.stdin-bytes", LimitValue::Bytes(1));
    run.plan.setup.insert("process".into(), json!({ "p1": { "stdin": "ignore" } }));
    let run = run.asked_as(2, 2_000, Class::InFlight, "write", r#"{"process":"p1"}"#);
    assert_eq!(violations(&run, answers_are_prompt), [""; 0], "it waits for room");
    let ended = run.ended("p1", 5_000, ProcessOutcome::Exit(0));
    assert_eq!(
        violations(&ended, answers_are_prompt),
        [
            "call 2: the request of 5.000 s was not answered by 6.080 s, although no fault and no other data delayed it"
        ]
    );
    let cut = milestone(ended.clone(), 4_000, "exec.client.lost", &[]);
    assert_eq!(violations(&cut, answers_are_prompt), [""; 0]);
    let refused = ended.clone().answered(2, 6_000, Answer::refused("closed"));
    assert_eq!(violations(&refused, answers_are_prompt), [""; 0]);
    let half_open = ended.clone().conn_closed(1, 50, 4_000, Some(9_000));
    assert_eq!(violations(&half_open, answers_are_prompt), [""; 0], "its client does not know it");
    let open = ended.clone().conn_closed(1, 50, 5_001, Some(9_000));
    assert_eq!(violations(&open, answers_are_prompt).len(), 1);
    let died = ended.clone().died("server", 4_000);
    assert_eq!(violations(&died, answers_are_prompt), [""; 0]);
    let start = r#"{"process":"p1"}"#;
    let again = ended.asked_as(3, 1_900, Class::InFlight, "start", start);
    let found = violations(&again, answers_are_prompt);
    let of_the_write = found.iter().filter(|found| found.starts_with("call 2:"));
    assert_eq!(of_the_write.count(), 0, "it may wait for another handle: {found:?}");
}

#[test]
fn a_call_of_a_client_that_died_gets_no_answer() {
    let found = |host: &str| {
        let asks = milestone(started(), 300, "exec.client.connected", &[]);
        let asks = asks.asked_as(2, 1_000, Class::InFlight, "read", r#"{"process":"p1"}"#);
        let died = asks.died(host, 1_010).by("client");
        violations(&milestone(died, 1_500, "exec.client.connected", &[]), answers_are_prompt).len()
    };
    assert_eq!([found("client"), found("client2")], [0, 1]);
}

#[test]
fn a_write_of_a_restarted_client_is_not_about_its_earlier_process() {
    let own = r#"{"process":"p1"}"#;
    let found = |host: &str| {
        let mut run = started();
        run.plan.limits.set("server.stdin-bytes", LimitValue::Bytes(1));
        run.plan.setup.insert("process".into(), json!({ "p1": { "stdin": "ignore" } }));
        let died = run.died(host, 1_500).by("client");
        let back = milestone(died, 1_700, "exec.client.connected", &[]);
        let starts = back.asked_as(2, 2_000, Class::InFlight, "start", own);
        let writes = starts.asked_as(3, 2_010, Class::InFlight, "write", own);
        let opened = EventKind::Opened { stream: "p1.2".into(), call: Call(2) };
        let run = writes.user(2_040, opened).ended("p1", 5_000, ProcessOutcome::Exit(0));
        violations(&run, answers_are_prompt).len()
    };
    assert_eq!([found("client"), found("client2")], [0, 1]);
}

#[test]
fn a_request_for_a_file_is_answered_at_once() {
    let connected = || milestone(started(), 300, "exec.client.connected", &[]);
    let asked = |run: ScriptedRun, verb: &str| {
        violations(
            &run.asked_as(2, 2_000, Class::InFlight, verb, r#"{"file":"f1"}"#),
            answers_are_prompt,
        )
    };
    for verb in ["write-file", "read-file", "remove-file"] {
        assert_eq!(asked(connected(), verb).len(), 1);
    }
    assert_eq!(asked(connected(), "watch-file"), [""; 0]);
    let tasks = connected().asked_as(3, 1_900, Class::InFlight, "use-files", "{}");
    assert_eq!(asked(tasks, "read-file"), [""; 0], "its tasks may come before");
    let mut hangs = connected();
    hangs.plan.setup.insert("file".into(), json!({ "f1": { "hangs": "3s" } }));
    assert_eq!(asked(hangs, "read-file"), [""; 0]);
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

//! Commands in the foreground.

use std::process::Stdio;

use crate::machine::{Machine, Running, is_alive, kill, pause};

#[test]
fn clients_of_a_directory_share_a_broker_and_record_jobs() {
    let machine = Machine::new();
    for nth in 1..3 {
        let output = machine.run(&["task", "go"]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "the answer\n");
        assert!(
            String::from_utf8_lossy(&output.stderr).contains("through the broker"),
            "{output:?}"
        );
        assert_eq!(machine.notes().len(), nth, "one turn a command, and no app-server ended");
    }
    let jobs = machine.json(&["status"]);
    assert_eq!(jobs["jobs"].as_array().unwrap().len(), 2);
    let job = &jobs["jobs"][0];
    assert_eq!((&job["state"], &job["exitStatus"]), (&"completed".into(), &0.into()), "{job}");
    assert!(job["turn"].as_str().unwrap().starts_with('u'), "{job}");
    assert_eq!(job["report"], "the answer\n");
    let broker = machine.broker().unwrap();
    kill("TERM", broker);
    machine.until_noted(&["start", "start", "end"]);
}

#[test]
fn clients_that_start_at_once_start_one_broker_and_none_waits_for_another() {
    let machine = Machine::new();
    let start = || machine.client(&["task", "go"]).stdout(Stdio::piped()).spawn().unwrap();
    let clients: Vec<_> = (0..4).map(|_| start()).collect();
    for client in clients {
        let output = client.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "the answer\n");
    }
    let starts = machine.notes().iter().filter(|note| *note == "start").count();
    assert_eq!(starts, 4, "each turn ran once: {:?}", machine.notes());
    assert_eq!(machine.json(&["status"])["jobs"].as_array().unwrap().len(), 4);
    let log = std::fs::read_to_string(machine.state().join("broker.log")).unwrap();
    assert_eq!(log.lines().count(), 1, "one broker started: {log}");
}

#[test]
fn a_busy_broker_and_a_broker_that_cannot_start_leave_the_own_app_server() {
    let machine = Machine::new();
    let busy = machine.background("hang");
    machine.until(&busy, |job| job["turn"].is_string());
    let output = machine.run(&["task", "go"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("starting an app-server"));
    machine.until_noted(&["start", "start", "end"]);
    assert_eq!(machine.run(&["cancel", &busy]).status.code(), Some(0));

    let machine = Machine::new();
    let output = machine.client(&["task", "go"]).env("TURN_BROKER", "/bin/false").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("the broker did not start"),
        "{output:?}"
    );
    assert_eq!(machine.broker(), None);
}

#[test]
fn sigterm_cancels_the_command_and_its_job() {
    let machine = Machine::new();
    let client = machine.client(&["task", "hang"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut client = Running(client);
    machine.until_noted(&["start"]);
    pause();
    kill("TERM", client.0.id());
    assert_eq!(client.0.wait().unwrap().code(), Some(130));
    let job = &machine.json(&["status"])["jobs"][0];
    assert_eq!((&job["state"], &job["exitStatus"]), (&"cancelled".into(), &130.into()), "{job}");
    machine.until_noted(&["start", "interrupt"]);
    assert!(is_alive(machine.broker().unwrap()));
}

#[test]
fn a_report_is_available_as_json() {
    let machine = Machine::new();
    let output = machine.program().args(["--json", "task", "go"]).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let seen = [&report["verdict"], &report["answer"], &report["summary"]];
    assert_eq!(seen, ["completed", "the answer", "The turn completed."]);
}

#[test]
fn wrong_input_gets_one_line_and_the_status_2() {
    let machine = Machine::new();
    for words in [
        &[][..],
        &["dance"],
        &["task"],
        &["task", "--background"],
        &["resume"],
        &["review", "a", "b"],
        &["--broker", "nowhere", "task", "go"],
        &["status"],
        &["task", "--background", "go"],
    ] {
        let output = machine.program().args(words).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            (output.status.code(), stderr.lines().count()),
            (Some(2), 1),
            "{words:?}: {stderr}"
        );
        assert!(output.stdout.is_empty());
    }
    for words in [&["result", "task-0"][..], &["cancel", ""], &["end-session"]] {
        let output = machine.run(words);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            (output.status.code(), stderr.lines().count()),
            (Some(2), 1),
            "{words:?}: {stderr}"
        );
    }
}

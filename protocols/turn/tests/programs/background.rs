//! Jobs in the background: their workers, and the processes that show, await and cancel them.

use std::process::Stdio;

use serde_json::Value;

use crate::machine::{Machine, is_alive, kill, pause};

fn pid(job: &Value) -> u32 {
    job["pid"].as_u64().unwrap_or_else(|| panic!("{job}")) as u32
}

fn until_dead(process: u32) {
    for _ in 0..600 {
        if !is_alive(process) {
            return;
        }
        pause();
    }
    panic!("process {process} lives on");
}

#[test]
fn a_job_runs_to_its_end_and_its_result_stays() {
    let machine = Machine::new();
    let id = machine.background("go");
    let output = machine.run(&["wait", &id]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "the answer\n");
    let job = machine.job(&id);
    assert_eq!([&job["state"], &job["title"]], ["completed", "Task: go"], "{job}");
    assert!(job["phase"].is_null() && job["turn"].is_string(), "{job}");
    let log = job["log"].to_string();
    assert!(log.contains("done: agentMessage"), "{log}");
    // The start of an id is enough.
    let output = machine.run(&["result", &id[..id.len() - 2]]);
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(0), &b"the answer\n"[..]));
    let late = machine.run(&["cancel", &id]);
    assert_eq!(late.status.code(), Some(1), "a job that is over stays so: {late:?}");
    assert_eq!(machine.job(&id)["state"], "completed");
}

#[test]
fn a_job_that_is_not_over_has_no_result_yet() {
    let machine = Machine::new();
    let id = machine.background("hang");
    machine.until(&id, |job| job["turn"].is_string());
    let output = machine.run(&["result", &id]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains("still running"), "{output:?}");
    let status = machine.run(&["status"]);
    assert!(String::from_utf8_lossy(&status.stdout).contains("running ("), "{status:?}");
    machine.run(&["cancel", &id]);
}

#[test]
fn a_running_job_is_cancelled_and_its_turn_interrupted() {
    let machine = Machine::new();
    let id = machine.background("hang");
    let worker = pid(&machine.until(&id, |job| job["turn"].is_string()));
    let output = machine.run(&["cancel", &id]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(!is_alive(worker), "the worker has ended");
    assert_eq!(machine.job(&id)["state"], "cancelled");
    assert_eq!(machine.run(&["wait", &id]).status.code(), Some(130));
    assert_eq!(machine.notes()[..2], ["start", "interrupt"]);
    assert!(is_alive(machine.broker().unwrap()), "the broker works for others");
    assert_eq!(machine.run(&["task", "go"]).status.code(), Some(0));
    assert!(!machine.notes().contains(&"end".into()), "and is not busy");
}

#[test]
fn a_job_on_an_app_server_of_its_worker_is_cancelled() {
    let machine = Machine::new();
    let launch =
        machine.client(&["task", "--background", "hang"]).env("TURN_BROKER", "/bin/false").output();
    let id = String::from_utf8(launch.unwrap().stdout).unwrap().trim().to_owned();
    let worker = pid(&machine.until(&id, |job| job["turn"].is_string()));
    assert_eq!(machine.run(&["cancel", &id]).status.code(), Some(0));
    assert!(!is_alive(worker));
    assert_eq!(machine.job(&id)["state"], "cancelled");
    assert_eq!(machine.notes()[0], "start");
}

/// The worker waits for a file before it claims its job.
#[test]
fn a_job_that_is_cancelled_before_its_worker_claims_it_runs_no_turn() {
    let machine = Machine::new();
    let id = machine.launch_held("go", "claim");
    let job = machine.job(&id);
    assert_eq!(job["state"], "queued");
    assert_eq!(machine.run(&["cancel", &id]).status.code(), Some(0));
    assert!(is_alive(pid(&job)), "it ends by itself");
    machine.release("claim");
    until_dead(pid(&job));
    assert_eq!(machine.job(&id)["state"], "cancelled");
    assert_eq!(machine.notes(), [""; 0]);
}

#[test]
fn a_job_that_was_queued_for_long_runs() {
    let machine = Machine::new();
    let id = machine.launch_held("go", "claim");
    machine.release("claim");
    assert_eq!(machine.run(&["wait", &id]).status.code(), Some(0));
}

#[test]
fn a_job_whose_worker_dies_before_it_claims_it_has_failed() {
    let machine = Machine::new();
    let id = machine.launch_held("go", "claim");
    let worker = pid(&machine.job(&id));
    kill("KILL", worker);
    until_dead(worker);
    let job = machine.job(&id);
    assert_eq!(job["state"], "failed");
    assert_eq!(job["error"], "the job's process died before the job started");
}

#[test]
fn a_job_whose_turn_has_no_id_yet_is_cancelled_and_the_turn_interrupted() {
    let machine = Machine::new();
    let id = machine.background("mute");
    machine.until_noted(&["start"]);
    let job = machine.until(&id, |job| job["thread"].is_string());
    assert!(job["turn"].is_null(), "{job}");
    assert_eq!(machine.run(&["cancel", &id]).status.code(), Some(0));
    assert!(!is_alive(pid(&job)));
    assert_eq!(machine.job(&id)["state"], "cancelled");
    assert_eq!(machine.notes()[..2], ["start", "interrupt"]);
    assert_eq!(machine.run(&["task", "go"]).status.code(), Some(0));
}

#[test]
fn a_worker_that_is_killed_has_failed_and_its_turn_is_interrupted() {
    let machine = Machine::new();
    let id = machine.background("hang");
    let worker = pid(&machine.until(&id, |job| job["turn"].is_string()));
    kill("KILL", worker);
    until_dead(worker);
    let job = machine.job(&id);
    assert_eq!([&job["state"], &job["error"]], ["failed", "the worker of the job died"], "{job}");
    assert_eq!(machine.run(&["result", &id]).status.code(), Some(1));
    machine.until_noted(&["start", "interrupt"]);
    assert_eq!(machine.run(&["task", "go"]).status.code(), Some(0));
}

#[test]
fn of_two_cancels_one_cancels_the_job() {
    let machine = Machine::new();
    let id = machine.background("hang");
    machine.until(&id, |job| job["turn"].is_string());
    let cancel = || machine.client(&["cancel", &id]).stderr(Stdio::piped()).spawn().unwrap();
    let cancels = [cancel(), cancel()];
    let mut codes: Vec<_> =
        cancels.map(|cancel| cancel.wait_with_output().unwrap().status.code()).to_vec();
    codes.sort();
    assert_eq!(codes, [Some(0), Some(1)], "the second finds it cancelled");
    assert_eq!(machine.job(&id)["state"], "cancelled");
}

/// The cancel comes about when the turn completes by itself. Either wins, and the record never changes
/// afterwards.
#[test]
fn a_cancel_at_the_natural_end_leaves_one_end() {
    let machine = Machine::new();
    let mut ends = std::collections::BTreeMap::new();
    for nth in 0..8 {
        let launch = machine.client(&["task", "--background", "go"]).env("WORK", "0.2").output();
        let id = String::from_utf8(launch.unwrap().stdout).unwrap().trim().to_owned();
        for _ in 0..nth {
            pause();
        }
        let cancelled = machine.run(&["cancel", &id]).status.code();
        let job = machine.until(&id, |job| !job["exitStatus"].is_null());
        let expected = if cancelled == Some(0) { "cancelled" } else { "completed" };
        assert_eq!((&job["state"], cancelled.is_some()), (&expected.into(), true), "{job}");
        pause();
        assert_eq!(machine.job(&id)["state"], expected);
        *ends.entry(expected).or_insert(0) += 1;
    }
    assert_eq!(ends.values().sum::<i32>(), 8);
}

#[test]
fn the_end_of_a_session_cancels_its_jobs_and_no_others() {
    let machine = Machine::new();
    let of = |session: &str| {
        let mut command = machine.client(&["task", "--background", "hang"]);
        let output = command.env("TURN_SESSION", session).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let (ours, theirs) = (of("one"), of("two"));
    for id in [&ours, &theirs] {
        machine.until(id, |job| job["turn"].is_string());
    }
    let listed = machine.client(&["--json", "status"]).env("TURN_SESSION", "one").output().unwrap();
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(
        (listed["jobs"].as_array().unwrap().len(), &listed["jobs"][0]["id"]),
        (1, &Value::from(ours.as_str()))
    );
    let end = machine.client(&["end-session"]).env("TURN_SESSION", "one").output().unwrap();
    assert_eq!((end.status.code(), &end.stdout[..]), (Some(0), &b"1 jobs are cancelled\n"[..]));
    assert_eq!(machine.job(&ours)["state"], "cancelled");
    let job = machine.job(&theirs);
    assert_eq!(job["state"], "running");
    assert!(is_alive(pid(&job)) && is_alive(machine.broker().unwrap()));
    assert_eq!(machine.run(&["cancel", &theirs]).status.code(), Some(0));
}

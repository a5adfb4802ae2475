//! Hostile lines at the socket of a broker, and damaged files in its state directory.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::machine::{Machine, Running, is_alive, kill, pause};

/// The length of a line that is longer than every limit.
const LONG: usize = 100 << 20;

/// The memory that a broker may use at most, in KiB: a few lines of 16 MiB.
const MOST_MEMORY: u64 = 100 << 10;

fn works(machine: &Machine) {
    let output = machine.run(&["task", "go"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "the answer\n");
}

/// Starts a broker, and returns its process id.
fn start(machine: &Machine) -> u32 {
    works(machine);
    machine.broker().expect("the broker has a record")
}

fn connect(machine: &Machine) -> UnixStream {
    UnixStream::connect(machine.state().join("broker/broker.sock")).unwrap()
}

/// A process that has nothing to do with the jobs.
fn stranger() -> Running {
    Running(Command::new("/bin/sleep").arg("600").stdin(Stdio::null()).spawn().unwrap())
}

/// Returns the largest memory of a process so far, in KiB.
fn memory(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn change(path: &std::path::Path, key: &str, value: &Value) {
    let mut record: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let (parent, field) = key.rsplit_once('/').unwrap();
    record.pointer_mut(parent).unwrap()[field] = value.clone();
    fs::write(path, record.to_string()).unwrap();
}

/// Cuts a file in half, as a process does that dies while it writes.
fn halve(path: &std::path::Path) -> Vec<u8> {
    let whole = fs::read(path).unwrap();
    let half = whole[..whole.len() / 2].to_vec();
    fs::write(path, &half).unwrap();
    half
}

#[test]
fn garbage_is_refused_line_by_line_and_the_next_line_counts() {
    let machine = Machine::new();
    let broker = start(&machine);
    let mut stream = connect(&machine);
    stream
        .write_all(b"GET / HTTP/1.1\r\n\xff\xfe\n[]\n{\"id\":7,\"method\":\"initialize\"}\n")
        .unwrap();
    let mut lines = BufReader::new(&stream).lines().map(|line| {
        serde_json::from_str::<Value>(&line.unwrap()).expect("the broker sends messages")
    });
    for _ in 0..3 {
        let refusal = lines.next().unwrap();
        assert_eq!((&refusal["id"], &refusal["error"]["code"]), (&Value::Null, &(-32700).into()));
    }
    assert_eq!(lines.next().unwrap()["id"], 7);
    works(&machine);
    assert_eq!(machine.broker(), Some(broker));
}

#[test]
fn a_line_of_100_mb_ends_its_connection_and_costs_little_memory() {
    let machine = Machine::new();
    let broker = start(&machine);
    let mut stream = connect(&machine);
    let chunk = vec![b'x'; 1 << 20];
    // For a second, the broker skips the rest, so that the client can read the refusal. Then it closes
    // the connection.
    let written = (0..LONG / chunk.len()).take_while(|_| stream.write_all(&chunk).is_ok()).count();
    assert!(written >= 16, "the broker refuses a line only if it is too long: {written} MiB");
    let mut received = Vec::new();
    let end = stream.read_to_end(&mut received); // perhaps a reset, which drops the refusal
    let refusal: Value = serde_json::from_slice(&received).unwrap_or_default();
    assert!(end.is_err() || refusal["error"]["code"] == -32700, "{refusal}");
    works(&machine);
    assert_eq!(machine.broker(), Some(broker), "the broker runs on");
    assert!(memory(broker) < MOST_MEMORY, "{} KiB", memory(broker));
}

#[test]
fn a_half_written_record_of_a_running_broker_is_kept_and_clients_say_so() {
    let machine = Machine::new();
    let broker = start(&machine);
    let path = machine.state().join("broker/broker.json");
    let whole = fs::read(&path).unwrap();
    let half = halve(&path);
    let output = machine.run(&["task", "go"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        (output.status.code(), &*output.stdout),
        (Some(0), &b"the answer\n"[..]),
        "{stderr}"
    );
    assert!(stderr.contains("broker.json cannot be read"), "{stderr}");
    assert_eq!(fs::read(&path).unwrap(), half, "the record is kept");
    assert!(is_alive(broker));
    fs::write(&path, whole).unwrap();
    works(&machine);
    assert_eq!(machine.broker(), Some(broker));
}

#[test]
fn a_half_written_record_of_a_dead_broker_is_replaced() {
    let machine = Machine::new();
    let broker = start(&machine);
    kill("KILL", broker);
    while is_alive(broker) {
        pause();
    }
    halve(&machine.state().join("broker/broker.json"));
    assert_ne!(start(&machine), broker);
}

#[test]
fn a_half_written_record_of_a_job_is_an_error_for_that_job_only_and_is_kept() {
    let machine = Machine::new();
    let [damaged, other] = ["one", "two"].map(|prompt| machine.background(prompt));
    for job in [&damaged, &other] {
        machine.until(job, |job| job["state"] == "completed");
    }
    let path = machine.state().join("jobs").join(format!("{damaged}.json"));
    let half = halve(&path);
    let list = machine.run(&["status"]);
    let text = String::from_utf8_lossy(&list.stdout);
    assert!(
        list.status.success() && text.contains(&other) && text.contains("not usable"),
        "{text}"
    );
    for words in [["status", &damaged], ["result", &damaged], ["cancel", &damaged]] {
        let output = machine.run(&words);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && stderr.lines().count() == 1, "{words:?}: {stderr}");
        assert!(
            stderr.contains("not usable") && stderr.contains(path.to_str().unwrap()),
            "{stderr}"
        );
    }
    assert_eq!(machine.run(&["result", &other]).stdout, b"the answer\n");
    works(&machine);
    assert_eq!(fs::read(&path).unwrap(), half, "the record is kept");
}

#[test]
fn a_stranger_with_the_process_id_of_a_dead_broker_is_not_touched() {
    let machine = Machine::new();
    let broker = start(&machine);
    kill("KILL", broker);
    while is_alive(broker) {
        pause();
    }
    let stranger = stranger();
    let path = machine.state().join("broker/broker.json");
    change(&path, "/pid", &stranger.0.id().into());
    let next = start(&machine);
    assert!(next != broker && next != stranger.0.id());
    assert!(is_alive(stranger.0.id()));
}

#[test]
fn a_stranger_with_the_process_id_of_a_dead_worker_is_not_touched() {
    let machine = Machine::new();
    let id = machine.background("hang");
    let job = machine.until(&id, |job| job["turn"].is_string());
    let worker = job["pid"].as_u64().unwrap() as u32;
    kill("KILL", worker);
    while is_alive(worker) {
        pause();
    }
    let stranger = stranger();
    let path = machine.state().join("jobs").join(format!("{id}.json"));
    change(&path, "/process/pid", &stranger.0.id().into());
    let output = machine.run(&["cancel", &id]);
    assert!(!output.status.success(), "{output:?}");
    assert_eq!(machine.job(&id)["state"], "failed");
    assert!(is_alive(stranger.0.id()));
    works(&machine);
}

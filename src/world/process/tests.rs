//! Tests how a server sees a simulated process, and what the history records of it.

use std::num::NonZeroU64;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::*;
use crate::history::EventKind;
use crate::process::{Size, Stdio};
use crate::schedule::Host;
use crate::subject::{Gauges, Journal};

/// The history of one machine: the events with their times in milliseconds.
#[derive(Default)]
struct Notes(Mutex<Vec<(u64, EventKind)>>, Option<Instant>);

impl Journal for Notes {
    fn write(&self, _: &Host, what: EventKind) {
        let at = self.1.expect("the notes have a beginning").elapsed().as_millis() as u64;
        self.0.lock().unwrap().push((at, what));
    }

    fn gauges(&self, _: &Host, _: Gauges) {}
}

struct Machine {
    processes: Processes,
    notes: Arc<Notes>,
    host: JoinHandle<()>,
}

impl Machine {
    /// Creates a machine with one script, `p1`.
    fn with(script: Script) -> Self {
        Self::with_faults(script, ChildFaults::default())
    }

    fn with_faults(script: Script, faults: ChildFaults) -> Self {
        let notes = Arc::new(Notes(Mutex::default(), Some(Instant::now())));
        let record = Recorder::new("server".into(), notes.clone());
        let scripts = BTreeMap::from([("p1".to_owned(), script)]);
        let software = Software { scripts, faults, ..Software::default() };
        let (processes, host) = Processes::new(software, record);
        Self { processes, notes, host: tokio::spawn(host) }
    }

    async fn launch(&self) -> Box<dyn Child> {
        self.processes.launch(&run("p1")).await.unwrap()
    }

    /// Returns the bytes that were recorded as written to a pipe.
    fn produced(&self, pipe: &str) -> Vec<u8> {
        let bytes = |what: &EventKind| match what {
            EventKind::Produced { stream, bytes } if *stream == pipe.into() => {
                bytes.whole().into_owned()
            }
            _ => Vec::new(),
        };
        self.notes.0.lock().unwrap().iter().flat_map(|(_, what)| bytes(what)).collect()
    }

    /// Returns the calls that took effect, with the stream of each.
    fn effects(&self) -> Vec<String> {
        let line = |what: &EventKind| match what {
            EventKind::Effect { call, target } => Some(format!("{call} on {target}")),
            _ => None,
        };
        self.notes.0.lock().unwrap().iter().filter_map(|(_, what)| line(what)).collect()
    }

    /// Returns the recorded ends: the stream, the time, and the outcome.
    fn endings(&self) -> Vec<String> {
        let line = |(at, what): &(u64, EventKind)| match what {
            EventKind::Ended { stream, outcome } => Some(format!("{at} {stream}: {outcome}")),
            _ => None,
        };
        self.notes.0.lock().unwrap().iter().filter_map(line).collect()
    }
}

fn run(program: &str) -> Command {
    Command {
        argv: vec![program.to_owned()],
        stdio: Stdio::Pipes { stdin: true },
        ..Command::default()
    }
}

fn lines(count: u64, every: u64) -> Print {
    Print { lines: count, every: ms(every), ..Print::default() }
}

fn late(after: u64) -> LateOutput {
    LateOutput { after: ms(after), is_detached: false }
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

async fn all(mut pipe: Output) -> String {
    let mut text = String::new();
    pipe.read_to_string(&mut text).await.unwrap();
    text
}

#[tokio::test(start_paused = true)]
async fn printed_lines_arrive_and_are_recorded() {
    let machine = Machine::with(Script {
        stdout: lines(3, 50),
        stderr: lines(1, 70),
        end: ProcessEnd::Code(7),
        ..Script::default()
    });
    let mut child = machine.launch().await;
    let (out, err) = (child.stdout().unwrap(), child.stderr().unwrap());
    let (out, err, exit) = tokio::join!(all(out), all(err), child.wait());
    assert_eq!(out, "1 p1/stdout\n2 p1/stdout\n3 p1/stdout\n");
    assert_eq!(err, "1 p1/stderr\n");
    assert_eq!(exit.unwrap(), Exit::Code(7));
    assert_eq!(machine.produced("p1/stdout"), out.as_bytes());
    assert_eq!(machine.produced("p1/stderr"), err.as_bytes());
    assert_eq!(
        machine.endings(),
        ["150 p1: exit 7", "150 p1/stdout: closed", "150 p1/stderr: closed"]
    );
}

#[tokio::test(start_paused = true)]
async fn the_end_is_the_same_however_often_it_is_asked_for() {
    let machine = Machine::with(Script {
        stdout: lines(1, 50),
        end: ProcessEnd::Signal(11),
        ..Script::default()
    });
    let mut child = machine.launch().await;
    assert!(
        timeout(ms(20), child.wait()).await.is_err(),
        "it was waited for in vain, and nothing is forgotten by that"
    );
    assert_eq!(child.wait().await.unwrap(), Exit::Signal(11));
    assert_eq!(child.wait().await.unwrap(), Exit::Signal(11));
}

#[tokio::test(start_paused = true)]
async fn pids_are_the_same_in_every_run_and_a_second_launch_has_its_own_name() {
    let machine = Machine::with(Script { stdout: lines(1, 50), ..Script::default() });
    let (mut first, mut second) = (machine.launch().await, machine.launch().await);
    assert_eq!((first.pid(), second.pid()), (1000, 1001));
    tokio::join!(first.wait(), second.wait()).1.unwrap();
    assert_eq!(machine.produced("p1~2/stdout"), b"1 p1~2/stdout\n");
}

#[tokio::test(start_paused = true)]
async fn glue_can_set_the_name_and_the_calls_of_a_process() {
    let script = Script { stdin: Stdin::Reads, end: ProcessEnd::Never, ..Script::default() };
    let machine = Machine::with(script);
    let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let env = vec![variable(calls::NAME, "client2/p1"), variable(calls::CALL, "7")];
    let mut child = machine.processes.launch(&Command { env, ..run("p1") }).await.unwrap();
    let mut stdin = child.stdin().unwrap();
    stdin.write_all(&calls::line(Call(8), 100)[..50]).await.unwrap();
    tokio::time::sleep(ms(1)).await;
    assert_eq!(machine.effects(), ["call 7 on client2/p1"], "half a line is not an effect");
    stdin.write_all(&calls::line(Call(8), 100)[50..]).await.unwrap();
    tokio::time::sleep(ms(1)).await;
    assert_eq!(machine.effects(), ["call 7 on client2/p1", "call 8 on client2/p1/stdin"]);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_program_is_not_found() {
    let machine = Machine::with(Script::default());
    let error =
        async |command| machine.processes.launch(&command).await.map(|_| ()).unwrap_err().kind();
    assert_eq!(error(run("p2")).await, io::ErrorKind::NotFound);
    assert_eq!(error(Command::default()).await, io::ErrorKind::InvalidInput);
    assert_eq!(machine.processes.alive(), 0);
}

#[tokio::test(start_paused = true)]
async fn standard_input_is_recorded_and_echoed() {
    let machine = Machine::with(Script { stdin: Stdin::Echoes, ..Script::default() });
    let mut child = machine.launch().await;
    let mut stdin = child.stdin().unwrap();
    stdin.write_all(b"hello").await.unwrap();
    sleep(ms(10)).await;
    assert_eq!(machine.produced("p1/stdin"), b"hello");
    assert_eq!(machine.processes.alive(), 1, "its input has not ended");
    drop(stdin);
    assert_eq!(child.wait().await.unwrap(), Exit::Code(0));
    assert_eq!(all(child.stdout().unwrap()).await, "hello");
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_takes_one_piece_after_each_pause() {
    let machine = Machine::with(Script {
        stdin: Stdin::Reads,
        reads_every: ms(1_000),
        end: ProcessEnd::Never,
        ..Script::default()
    });
    let mut child = machine.launch().await;
    let mut stdin = child.stdin().unwrap();
    stdin.write_all(&[b'x'; 10_000]).await.unwrap();
    sleep(ms(500)).await;
    for wanted in [0, 4096, 8192, 10_000, 10_000] {
        assert_eq!(machine.produced("p1/stdin").len(), wanted);
        sleep(ms(1_000)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_begins_after_its_launch_and_never_if_its_launcher_stops_waiting() {
    let machine =
        Machine::with(Script { launch_takes: ms(500), stdout: lines(1, 50), ..Script::default() });
    assert!(timeout(ms(499), machine.processes.launch(&run("p1"))).await.is_err());
    sleep(ms(101)).await;
    assert_eq!((machine.endings().len(), machine.processes.alive()), (0, 0));
    let mut child = machine.launch().await;
    assert_eq!(child.wait().await.unwrap(), Exit::Code(0));
    assert_eq!(machine.endings()[0], "1150 p1: exit 0");
}

#[tokio::test(start_paused = true)]
async fn a_failed_wait_hides_the_end_once() {
    let end = ProcessEnd::Code(7);
    let machine = Machine::with(Script { wait_fails: true, end, ..Script::default() });
    let mut child = machine.launch().await;
    assert!(child.wait().await.is_err());
    assert_eq!(child.wait().await.unwrap(), Exit::Code(7));
    assert_eq!(machine.endings()[0], "0 p1: exit -1");
}

#[tokio::test(start_paused = true)]
async fn a_process_that_never_reads_makes_its_writer_wait() {
    let machine = Machine::with(Script {
        stdin: Stdin::Ignores,
        end: ProcessEnd::Never,
        ..Script::default()
    });
    let mut child = machine.launch().await;
    let mut stdin = child.stdin().unwrap();
    stdin.write_all(&[0; PIPE]).await.unwrap();
    assert!(timeout(ms(60_000), stdin.write_all(b"x")).await.is_err());
    assert_eq!(machine.produced("p1/stdin"), b"");
}

#[tokio::test(start_paused = true)]
async fn a_full_pipe_blocks_the_process_and_only_accepted_bytes_are_recorded() {
    let size = 100_000;
    let machine = Machine::with(Script {
        stdout: Print { lines: 1, bytes: Some(size), ..Print::default() },
        ..Script::default()
    });
    let mut child = machine.launch().await;
    sleep(ms(1000)).await;
    assert_eq!((machine.produced("p1/stdout").len(), machine.processes.alive()), (PIPE, 1));
    let out = all(child.stdout().unwrap()).await;
    assert_eq!((out.len() as u64, out.as_bytes()), (size, &machine.produced("p1/stdout")[..]));
}

#[tokio::test(start_paused = true)]
async fn a_pipe_that_its_reader_dropped_kills_the_writer() {
    let machine = Machine::with(Script { stdout: lines(9, 10), ..Script::default() });
    let mut child = machine.launch().await;
    drop(child.stdout());
    assert_eq!(child.wait().await.unwrap(), Exit::Signal(13));
}

#[tokio::test(start_paused = true)]
async fn a_grandchild_keeps_the_pipe_open_and_prints_the_last_line() {
    let script = Script {
        stdout: lines(1, 50),
        late_output: Some(late(4000)),
        end: ProcessEnd::Code(3),
        ..Script::default()
    };
    let machine = Machine::with(script);
    let mut child = machine.launch().await;
    assert_eq!(child.wait().await.unwrap(), Exit::Code(3));
    assert_eq!(machine.processes.alive(), 1);
    assert_eq!(all(child.stdout().unwrap()).await, "1 p1/stdout\n2 p1/stdout\n");
    assert_eq!(
        machine.endings(),
        ["50 p1: exit 3", "4050 p1/stdout: closed", "4050 p1/stderr: closed"]
    );
    sleep(ms(1)).await;
    assert_eq!(machine.processes.alive(), 0);
}

/// Reads the bytes that are there when the exit is known.
async fn read_at_the_exit(output_delay: Duration) -> usize {
    let script = Script {
        stdout: Print { lines: 30, bytes: Some(2000), ..Print::default() },
        ..Script::default()
    };
    let conditions = Conditions { output_delay, ..Conditions::default() };
    let faults = ChildFaults { conditions: Some(watch::channel(conditions).0), relays: true };
    let machine = Machine::with_faults(script, faults);
    let mut child = machine.launch().await;
    let mut stdout = child.stdout().unwrap();
    child.wait().await.unwrap();
    let mut bytes = Vec::new();
    loop {
        tokio::select! {
            biased;
            count = stdout.read_buf(&mut bytes) => if count.unwrap() == 0 { break },
            () = std::future::ready(()) => break,
        }
    }
    bytes.len()
}

#[tokio::test(start_paused = true)]
async fn an_exit_overtakes_output_only_if_a_fault_delays_the_output() {
    assert_eq!(read_at_the_exit(ms(0)).await, 60_000);
    assert_eq!(read_at_the_exit(ms(1)).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_signal_ends_a_process_and_its_children() {
    let machine = Machine::with(Script {
        end: ProcessEnd::Never,
        late_output: Some(late(9000)),
        ..Script::default()
    });
    let mut child = machine.launch().await;
    sleep(ms(100)).await;
    child.signal(0).unwrap();
    sleep(ms(100)).await;
    child.signal(15).unwrap();
    assert_eq!(child.wait().await.unwrap(), Exit::Signal(15));
    assert_eq!(
        machine.endings(),
        ["200 p1: signal 15", "200 p1/stdout: closed", "200 p1/stderr: closed"]
    );
    sleep(ms(1)).await;
    assert_eq!(child.signal(9).unwrap_err().kind(), io::ErrorKind::NotFound);
}

#[tokio::test(start_paused = true)]
async fn a_process_can_ignore_signal_15_but_not_signal_9() {
    let machine =
        Machine::with(Script { end: ProcessEnd::Never, ignores: vec![15, 9], ..Script::default() });
    let mut child = machine.launch().await;
    child.signal(15).unwrap();
    assert!(timeout(ms(1000), child.wait()).await.is_err());
    child.signal(9).unwrap();
    assert_eq!(child.wait().await.unwrap(), Exit::Signal(9));
}

#[tokio::test(start_paused = true)]
async fn dropping_a_child_kills_it_unless_the_host_dies() {
    let machine = Machine::with(Script { end: ProcessEnd::Never, ..Script::default() });
    drop(machine.launch().await);
    sleep(ms(1)).await;
    assert_eq!(machine.processes.alive(), 0);

    let child = machine.launch().await;
    machine.processes.on_host_down();
    drop(child);
    sleep(ms(1)).await;
    assert_eq!(machine.processes.alive(), 1);
    assert!(
        machine.processes.launch(&run("p1")).await.is_err(),
        "a host that is down launches nothing"
    );

    machine.processes.kill_all();
    sleep(ms(1)).await;
    assert_eq!(machine.processes.alive(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_restarted_host_does_not_count_surviving_processes() {
    let machine = Machine::with(Script { end: ProcessEnd::Never, ..Script::default() });
    let mut survivor = machine.launch().await;
    machine.processes.on_host_down();
    machine.processes.on_host_up();
    assert_eq!(machine.processes.alive(), 0);
    assert_eq!(survivor.signal(9).unwrap_err().kind(), io::ErrorKind::NotFound);

    let second = machine.launch().await;
    sleep(ms(1)).await;
    assert_eq!((second.pid(), machine.processes.alive()), (1000, 1));
    drop(second);
    sleep(ms(1)).await;
    assert_eq!(machine.endings()[0], "1 p1~2: signal 9", "names are not used twice either");
    assert!(timeout(ms(10), survivor.wait()).await.is_err(), "the survivor lives on");
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_down_launches_nothing_and_ends_every_wait() {
    let machine = Machine::with(Script { end: ProcessEnd::Never, ..Script::default() });
    let mut child = machine.launch().await;
    sleep(ms(1)).await;
    machine.host.abort();
    assert!(child.wait().await.is_err());
    assert!(machine.processes.launch(&run("p1")).await.is_err());
    assert_eq!(machine.processes.alive(), 0);
}

impl Machine {
    async fn launch_on_a_terminal(&self) -> Box<dyn Child> {
        let command = Command { stdio: Stdio::Terminal(Size::default()), ..run("p1") };
        self.processes.launch(&command).await.unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn a_standard_input_that_was_not_requested_is_empty() {
    let machine = Machine::with(Script { stdin: Stdin::Echoes, ..Script::default() });
    let command = Command { stdio: Stdio::Pipes { stdin: false }, ..run("p1") };
    let mut child = machine.processes.launch(&command).await.unwrap();
    assert!(child.stdin().is_none());
    assert_eq!(child.wait().await.unwrap(), Exit::Code(0));
}

#[tokio::test(start_paused = true)]
async fn on_a_terminal_all_that_is_printed_is_one_stream() {
    let machine =
        Machine::with(Script { stdout: lines(2, 50), stderr: lines(1, 70), ..Script::default() });
    let mut child = machine.launch_on_a_terminal().await;
    assert!(child.stderr().is_none());
    let printed = all(child.stdout().unwrap()).await;
    assert_eq!(printed, "1 p1/stdout\n1 p1/stderr\n2 p1/stdout\n");
    assert_eq!(machine.produced("p1/pty"), printed.as_bytes());
    assert_eq!(machine.endings(), ["100 p1: exit 0", "100 p1/pty: closed"]);
}

#[tokio::test(start_paused = true)]
async fn the_input_of_a_terminal_ends_with_ctrl_d_and_not_before() {
    let machine = Machine::with(Script { stdin: Stdin::Echoes, ..Script::default() });
    let mut child = machine.launch_on_a_terminal().await;
    let mut stdin = child.stdin().unwrap();
    stdin.write_all(b"one\n").await.unwrap();
    assert!(timeout(ms(1000), child.wait()).await.is_err());
    stdin.write_all(b"two\n\x04three\n").await.unwrap();
    assert_eq!(child.wait().await.unwrap(), Exit::Code(0));
    assert_eq!(machine.produced("p1/stdin"), b"one\ntwo\n");
    assert_eq!(all(child.stdout().unwrap()).await, "one\ntwo\n");

    let mut another = machine.launch_on_a_terminal().await;
    drop(another.stdin());
    assert!(
        timeout(ms(60_000), another.wait()).await.is_err(),
        "a terminal does not end by being let go"
    );
}

#[tokio::test(start_paused = true)]
async fn a_child_that_left_the_group_survives_signals_but_not_the_machine() {
    let detached = LateOutput { after: ms(4000), is_detached: true };
    let script =
        Script { end: ProcessEnd::Never, late_output: Some(detached), ..Script::default() };
    let machine = Machine::with(script);
    let mut child = machine.launch().await;
    child.signal(9).unwrap();
    assert_eq!(child.wait().await.unwrap(), Exit::Signal(9));
    child.signal(9).unwrap();
    let begun = Instant::now();
    assert_eq!(all(child.stdout().unwrap()).await, "");
    assert_eq!(begun.elapsed(), ms(4000), "the child holds the pipe");
    assert_eq!(machine.endings(), ["0 p1: signal 9", "0 p1/stdout: closed", "0 p1/stderr: closed"]);
    let mut another = machine.launch().await;
    another.signal(9).unwrap();
    another.wait().await.unwrap();
    machine.processes.kill_all();
    assert_eq!(all(another.stdout().unwrap()).await, "");
    assert_eq!(begun.elapsed(), ms(4000));
}

#[tokio::test(start_paused = true)]
async fn a_script_shows_its_command_and_only_then_can_be_confined() {
    let confinement = crate::process::Confinement {
        files: crate::process::FilesScope::All,
        network: crate::process::NetworkScope::None,
    };
    let confined = Command { confinement: Some(confinement), ..run("p1") };
    let silent = Machine::with(Script::default());
    let refused = silent.processes.launch(&confined).await.err().unwrap();
    assert_eq!(refused.kind(), io::ErrorKind::Unsupported);
    let shows =
        Machine::with(Script { shows_command: true, stdout: lines(1, 0), ..Script::default() });
    let mut child = shows.processes.launch(&confined).await.unwrap();
    assert_eq!(
        all(child.stdout().unwrap()).await,
        "arguments p1\nwith an input\nmay not use the network\nmay use all files\n1 p1/stdout\n"
    );
}

#[tokio::test(start_paused = true)]
async fn a_terminal_without_a_reader_hangs_up() {
    let machine = Machine::with(Script { stdout: lines(9, 10), ..Script::default() });
    let mut child = machine.launch_on_a_terminal().await;
    drop(child.stdout());
    assert_eq!(child.wait().await.unwrap(), Exit::Signal(1));
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_process_hangs_up_its_children_on_the_terminal_unless_they_ignore_it() {
    let script = Script { late_output: Some(late(4000)), ..Script::default() };
    let machine = Machine::with(script.clone());
    assert_eq!(all(machine.launch_on_a_terminal().await.stdout().unwrap()).await, "");

    let machine = Machine::with(Script { ignores: vec![1], ..script });
    let mut child = machine.launch_on_a_terminal().await;
    assert_eq!(all(child.stdout().unwrap()).await, "1 p1/stdout\n");
}

#[tokio::test(start_paused = true)]
async fn a_process_that_does_not_end_within_the_grace_period_is_killed() {
    let machine =
        Machine::with(Script { end: ProcessEnd::Never, ignores: vec![15], ..Script::default() });
    let mut child = machine.launch().await;
    assert_eq!(child.terminate(ms(3000)).await.unwrap(), Exit::Signal(9));
    assert_eq!(machine.endings()[0], "3000 p1: signal 9");
    assert_eq!(child.terminate(ms(3000)).await.unwrap(), Exit::Signal(9), "asked again");
}

#[test]
fn a_line_has_the_requested_length_and_names_its_pipe() {
    let line = |bytes, n| Print { bytes, ..Print::default() }.line("p1/stdout", n);
    assert_eq!(line(None, 12), "12 p1/stdout\n");
    assert_eq!(line(Some(20), 12), "12 p1/stdout.......\n");
    assert_eq!(line(Some(13), 12), "12 p1/stdout\n");
    assert_eq!(line(Some(0), 12), "");
    assert_eq!(line(Some(65_536), 12).len(), 65_536);
    let short: Vec<_> = (0..8).map(|n| line(Some(4), n)).collect();
    assert!(short.windows(2).all(|pair| pair[0] != pair[1] && pair[0].len() == 4), "{short:?}");
}

#[test]
fn each_nth_line_can_be_blank() {
    let print = Print { blank_every: NonZeroU64::new(2), bytes: Some(20), ..Print::default() };
    let lines = [1, 2, 3, 4].map(|n| print.line("p1", n));
    assert_eq!(lines.map(|line| line.len()), [20, 1, 20, 1]);
    assert_eq!(print.line("p1", 2), "\n");
}

#[test]
fn a_wide_line_has_its_length_and_whole_characters() {
    for bytes in 20..30 {
        let print = Print { bytes: Some(bytes), wide: true, ..Print::default() };
        let line = print.line("p1/stdout", 1);
        let text = std::str::from_utf8(&line).unwrap();
        assert_eq!(line.len() as u64, bytes);
        assert!(text.contains('€') && text.ends_with('\n'), "{text}");
    }
}

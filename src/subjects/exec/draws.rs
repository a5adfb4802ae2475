//! The operations that random schedules draw.

use std::time::Duration;

use proptest::prelude::{BoxedStrategy, Just, Strategy, any, prop_oneof};
use proptest::sample::select;
use proptest::strategy::Union;

use super::operations::{After, ClientState, ExecOperation, Word};
use super::{task_draws, web};
use crate::history::Class;
use crate::schedule::Plan;
use crate::schedule::units::{Size, WrittenDuration};
use crate::subject::Operations;
use crate::subjects::pace::ReadingPace;
use crate::world::process::{Setup, TABLE};

/// The files that random schedules use.
const FILES: [&str; 2] = ["f1", "f2"];

impl Operations for ExecOperation {
    fn class(&self) -> Class {
        match self {
            Self::Read { .. }
            | Self::ReadAll { .. }
            | Self::Pipeline { .. }
            | Self::ReadFile { .. }
            | Self::Unfollow { .. }
            | Self::ReadEvents { .. }
            | Self::ReadStream { .. }
            | Self::AwaitState { .. }
            | Self::DropHandle { .. } => Class::Durable,
            Self::HttpStream { .. } | Self::WatchFile { .. } => Class::Bound,
            _ => Class::InFlight,
        }
    }

    fn strategy(plan: &Plan) -> BoxedStrategy<Self> {
        Union::new_weighted(
            verb_draws(plan).into_iter().map(|draw| (draw.weight, draw.strategy)).collect(),
        )
        .boxed()
    }

    fn verb_strategies(plan: &Plan) -> Vec<(&'static str, BoxedStrategy<Self>)> {
        verb_draws(plan).into_iter().map(|draw| (draw.verb, draw.strategy)).collect()
    }
}

/// The strategy and the weight of a verb.
struct VerbDraw {
    /// The weight if the profile has no weights. It is the same in the default swarm.
    weight: u32,
    verb: &'static str,
    strategy: BoxedStrategy<ExecOperation>,
}

impl VerbDraw {
    fn new(
        weight: u32,
        verb: &'static str,
        strategy: impl Strategy<Value = ExecOperation> + 'static,
    ) -> Self {
        Self { weight, verb, strategy: strategy.boxed() }
    }
}

/// Returns the verbs with their strategies.
fn verb_draws(plan: &Plan) -> Vec<VerbDraw> {
    let processes = declared(plan, "process", "p1");
    let process = select(processes.clone()).boxed();
    let looks_after = prop_oneof![6 => Just(0), 1 => Just(3_000)]
        .prop_map(|ms| WrittenDuration(Duration::from_millis(ms)));
    let wait = select(vec![0, 100, 5_000, 20_000])
        .prop_map(|ms| WrittenDuration(Duration::from_millis(ms)));
    let max_bytes = prop_oneof![2 => Just(None), 1 => select(vec![1, 80, 4096]).prop_map(|bytes| Some(Size(bytes)))];
    let page = select(vec![1, 500, 65_536]).prop_map(Size);
    // The header of a frame is longer from 126 bytes of payload on, and again from 65,536 on. The
    // shortest writes have a few bytes more than 126, and these long ones 65,535 to 65,541.
    let boundary = prop_oneof![1_u64..8, 49_060_u64..49_064];
    let bytes = prop_oneof![
        2 => Just(None),
        1 => boundary.prop_map(|bytes| Some(Size(bytes))),
        1 => select(vec![100, 4096, 100_000]).prop_map(|bytes| Some(Size(bytes))),
    ];
    // Some users stop waiting during an outage.
    let waits = prop_oneof![4 => Just(None), 1 => select(vec![300, 2_000]).prop_map(|ms| Some(WrittenDuration(Duration::from_millis(ms))))];
    let patience = prop_oneof![5 => Just(None), 1 => select(vec![0, 10, 1_000]).prop_map(|ms| Some(WrittenDuration(Duration::from_millis(ms))))];
    // The slowest reader needs some seconds for the output of most processes.
    let reads = prop_oneof![3 => Just(None), 1 => (select(vec![50, 300, 2_000]), select(vec![64, 4_096, 65_536]))
        .prop_map(|(ms, bytes)| Some(ReadingPace { pause: WrittenDuration(Duration::from_millis(ms)), every: Size(bytes) }))];
    // Occasionally selects a process that no table declares, so that the launch fails.
    let launched = prop_oneof![24 => process.clone(), 1 => Just("nobody".to_owned())];
    let start =
        (launched, prop_oneof![5 => Just(false), 1 => Just(true)], looks_after, patience, reads);
    let after = prop_oneof![
        1 => Just(After::Event(0)), 1 => (0..50_u64).prop_map(After::Event), 4 => Just(After::LastReceived(Word::LastReceived)),
    ];
    // The process of an older handle has mostly ended, or is followed no more. Then nothing happens.
    let older = prop_oneof![7 => Just(false), 1 => Just(true)];
    // Some readers give up, also during an outage, while others wait on.
    let reader_waits = prop_oneof![3 => Just(None), 1 => select(vec![10, 50, 1_000]).prop_map(|ms| Some(WrittenDuration(Duration::from_millis(ms))))];
    let read = (process.clone(), after, max_bytes, wait, reader_waits, older.clone());
    let subscribed = select(vec![20_000, 20_000, 50, 1_000])
        .prop_map(|ms| WrittenDuration(Duration::from_millis(ms)));
    let body = select(declared(plan, web::TABLE, "b1")).boxed();
    let drops_after = prop_oneof![4 => Just(None), 1 => (1..10_u64).prop_map(Some)];
    // The pauses are short, so that a reader finishes soon after the body ends. A much slower
    // reader could finish after the end of the connection.
    let pause = prop_oneof![2 => Just(0), 1 => Just(20)]
        .prop_map(|ms| WrittenDuration(Duration::from_millis(ms)));
    let http_wait = prop_oneof![1 => Just(0), 2 => Just(20_000)]
        .prop_map(|ms| WrittenDuration(Duration::from_millis(ms)));
    let streamed = (body.clone(), pause, drops_after);
    let without_reader: Vec<String> = plan
        .entries("process")
        .filter(|(_, entry)| entry.get("stdin").is_some_and(|stdin| stdin == "ignore"))
        .map(|(name, _)| name.to_owned())
        .collect();
    let mut with_reader = processes.clone();
    with_reader.retain(|name| !without_reader.contains(name));
    let slow = plan.entries("process").filter(|(_, entry)| entry.get("reads-every").is_some());
    let slow = slow.map(|(name, _)| name.to_owned());
    let slow_or_no_reader: Vec<String> = without_reader.into_iter().chain(slow).collect();
    // Many large chunks would take too long.
    let large: Vec<String> = plan
        .entries("process")
        .filter(|(name, _)| longest_line(plan, name) > 500)
        .map(|(name, _)| name.to_owned())
        .collect();
    let requests = select(vec![20, 150, 300]);
    let file = select(FILES.as_slice()).prop_map(str::to_owned);
    let content = prop_oneof![4 => Just(None), 1 => Just(Some(Size(4096)))];
    // A state that never comes is awaited in vain: the answer is then the state at the end.
    let states = vec![ClientState::Connected, ClientState::Recovering, ClientState::Failed];
    let waits_for =
        select(vec![0, 2_000, 20_000]).prop_map(|ms| WrittenDuration(Duration::from_millis(ms)));
    let state = (select(states), waits_for);
    let mut all = vec![
        VerbDraw::new(
            10,
            "start",
            start.prop_map(|(process, tty, looks_after, patience, reads)| ExecOperation::Start {
                process,
                tty,
                looks_after,
                patience,
                reads,
                command: None,
            }),
        ),
        VerbDraw::new(
            7,
            "write",
            (process.clone(), bytes, waits, older.clone()).prop_map(
                move |(process, bytes, waits, older)| {
                    let patience =
                        waits.or(slow_or_no_reader.contains(&process).then_some(NO_READER));
                    ExecOperation::Write { process, bytes, patience, older }
                },
            ),
        ),
        VerbDraw::new(
            7,
            "read",
            read.prop_map(|(process, after, max_bytes, wait, patience, older)| {
                ExecOperation::Read { process, after, max_bytes, wait, patience, older }
            }),
        ),
        VerbDraw::new(
            4,
            "watch-file",
            file.clone().prop_map(|file| ExecOperation::WatchFile { file }),
        ),
        VerbDraw::new(
            5,
            "drop-handle",
            process.clone().prop_map(|process| ExecOperation::DropHandle { process }),
        ),
        VerbDraw::new(
            5,
            "unfollow",
            process.clone().prop_map(|process| ExecOperation::Unfollow { process }),
        ),
        VerbDraw::new(
            3,
            "read-events",
            (process.clone(), subscribed.clone()).prop_map(|(process, wait)| {
                ExecOperation::ReadEvents { process, wait, reads: None }
            }),
        ),
        VerbDraw::new(
            3,
            "write-file",
            (file.clone(), content)
                .prop_map(|(file, bytes)| ExecOperation::WriteFile { file, bytes }),
        ),
        VerbDraw::new(
            2,
            "read-file",
            file.clone().prop_map(|file| ExecOperation::ReadFile { file }),
        ),
        VerbDraw::new(
            2,
            "read-blocks",
            file.clone().prop_map(|file| ExecOperation::ReadBlocks { file }),
        ),
        VerbDraw::new(
            2,
            "terminate",
            (process.clone(), older.clone())
                .prop_map(|(process, older)| ExecOperation::Terminate { process, older }),
        ),
        VerbDraw::new(
            3,
            "http-stream",
            streamed.prop_map(|(body, pause, drops_after)| ExecOperation::HttpStream {
                body,
                pause,
                drops_after,
            }),
        ),
        VerbDraw::new(
            2,
            "read-all",
            (process.clone(), page).prop_map(|(process, page)| ExecOperation::ReadAll {
                process,
                page,
                wait: WrittenDuration(Duration::from_secs(20)),
            }),
        ),
        VerbDraw::new(
            1,
            "pipeline",
            (process.clone(), requests).prop_map(move |(process, requests)| {
                let requests = if large.contains(&process) { 20 } else { requests };
                ExecOperation::Pipeline { process, requests }
            }),
        ),
        VerbDraw::new(
            2,
            "interrupt",
            (process.clone(), older)
                .prop_map(|(process, older)| ExecOperation::Interrupt { process, older }),
        ),
        VerbDraw::new(
            1,
            "read-stream",
            (process, subscribed)
                .prop_map(|(process, wait)| ExecOperation::ReadStream { process, wait }),
        ),
        VerbDraw::new(1, "remove-file", file.prop_map(|file| ExecOperation::RemoveFile { file })),
        VerbDraw::new(1, "use-files", any::<u8>().prop_map(task_draws::operation)),
        VerbDraw::new(
            3,
            "http",
            (body, http_wait).prop_map(|(body, wait)| ExecOperation::Http {
                body,
                wait,
                head: None,
            }),
        ),
        VerbDraw::new(
            2,
            "await-state",
            state.prop_map(|(state, wait)| ExecOperation::AwaitState { state, wait }),
        ),
    ];
    if !with_reader.is_empty() {
        let written = (select(with_reader), any::<bool>()).prop_map(|(process, shuts_down)| {
            ExecOperation::WriteStream { process, bytes: None, shuts_down }
        });
        all.push(VerbDraw::new(1, "write-stream", written));
    }
    all
}

/// The length of the longest line that a process prints, or 0 if its lines have no declared length.
fn longest_line(plan: &Plan, process: &str) -> u64 {
    let setup: Setup = plan.entry(TABLE, process).unwrap_or_default();
    let lines = [setup.print, setup.stderr].into_iter().flatten();
    lines.filter_map(|lines| lines.bytes).map(|bytes| bytes.0).max().unwrap_or(0)
}

/// How long a user waits for a process that reads its standard input slowly, or never, to accept a line.
const NO_READER: WrittenDuration = WrittenDuration(Duration::from_secs(8));

/// The names that a table of the plan declares. If it declares none, a name for which every world
/// has a default.
fn declared(plan: &Plan, table: &str, otherwise: &str) -> Vec<String> {
    let names: Vec<String> = plan.entries(table).map(|(name, _)| name.to_owned()).collect();
    if names.is_empty() { vec![otherwise.to_owned()] } else { names }
}

#[cfg(test)]
mod tests {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    use schemars::schema_for;
    use serde_json::{Map, Value, json};

    use super::*;

    fn drawn() -> Vec<ExecOperation> {
        let strategy = ExecOperation::strategy(&Plan::new("exec"));
        let mut runner = TestRunner::deterministic();
        let mut draw = || strategy.new_tree(&mut runner).expect("it rejects nothing").current();
        (0..10_000).map(|_| draw()).collect()
    }

    /// A plan with processes whose `stdin` has these values.
    fn plan(stdin: &[&str]) -> Plan {
        let entry = |(n, stdin): (usize, &&str)| (format!("p{n}"), json!({ "stdin": stdin }));
        let processes: Map<String, Value> = (1..).zip(stdin).map(entry).collect();
        let setup = Map::from_iter([("process".to_owned(), processes.into())]);
        Plan { setup, ..Plan::new("exec") }
    }

    #[test]
    fn each_strategy_draws_its_verb() {
        let mut runner = TestRunner::deterministic();
        for plan in [plan(&[]), plan(&["ignore", "read"]), plan(&["ignore"])] {
            for VerbDraw { verb, strategy, .. } in verb_draws(&plan) {
                for _ in 0..100 {
                    let tree = strategy.new_tree(&mut runner).expect("it rejects nothing");
                    let written = serde_json::to_value(tree.current()).expect("it is plain data");
                    assert!(written.get(verb).is_some(), "{verb}: {written}");
                }
            }
        }
    }

    #[test]
    fn each_verb_has_a_strategy() {
        let mut drawn: Vec<&str> = verb_draws(&plan(&[])).iter().map(|draw| draw.verb).collect();
        drawn.push("close-client"); // only scenario files ask for it
        drawn.sort_unstable();
        let schema = serde_json::to_value(schema_for!(ExecOperation)).expect("a schema is JSON");
        let kinds = schema["oneOf"].as_array().expect("an enum has alternatives").iter();
        let mut verbs: Vec<&str> = kinds
            .flat_map(|kind| kind["required"].as_array())
            .flatten()
            .flat_map(Value::as_str)
            .collect();
        verbs.sort_unstable();
        assert_eq!(drawn, verbs);
    }

    #[test]
    fn only_processes_that_read_get_a_stream() {
        let draws = verb_draws(&plan(&["ignore", "read"]));
        let draw =
            draws.iter().find(|draw| draw.verb == "write-stream").expect("one process reads");
        let mut runner = TestRunner::deterministic();
        for _ in 0..100 {
            let drawn = draw.strategy.new_tree(&mut runner).expect("it rejects nothing").current();
            assert!(matches!(drawn, ExecOperation::WriteStream { process, .. } if process == "p2"));
        }
        let none = verb_draws(&plan(&["ignore"]));
        assert!(none.iter().all(|draw| draw.verb != "write-stream"));
    }

    #[test]
    fn readers_give_up_in_a_share_of_the_reads() {
        let (mut reads, mut given_up, mut subscriptions, mut short) = (0, 0, 0, 0);
        for operation in drawn() {
            match operation {
                ExecOperation::Read { patience, .. } => {
                    reads += 1;
                    given_up += u64::from(patience.is_some());
                }
                ExecOperation::ReadEvents { wait, .. } | ExecOperation::ReadStream { wait, .. } => {
                    subscriptions += 1;
                    short += u64::from(wait.0 < Duration::from_secs(20));
                }
                _ => {}
            }
        }
        let percent = [given_up * 100 / reads, short * 100 / subscriptions];
        assert!((18..32).contains(&percent[0]) && (35..65).contains(&percent[1]), "{percent:?}");
    }

    #[test]
    fn states_are_awaited_and_older_handles_are_used() {
        let drawn = drawn();
        let wanted: [fn(&ExecOperation) -> bool; 8] = [
            |it| matches!(it, ExecOperation::Read { older: true, .. }),
            |it| matches!(it, ExecOperation::Write { older: true, .. }),
            |it| matches!(it, ExecOperation::Interrupt { older: true, .. }),
            |it| matches!(it, ExecOperation::Terminate { older: true, .. }),
            |it| matches!(it, ExecOperation::Terminate { older: false, .. }),
            |it| matches!(it, ExecOperation::AwaitState { state: ClientState::Connected, .. }),
            |it| matches!(it, ExecOperation::AwaitState { state: ClientState::Recovering, .. }),
            |it| matches!(it, ExecOperation::AwaitState { state: ClientState::Failed, .. }),
        ];
        let missing: Vec<usize> =
            (0..wanted.len()).filter(|which| !drawn.iter().any(wanted[*which])).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}

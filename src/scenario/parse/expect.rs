//! `[expect]`: the expectations.

use std::collections::BTreeSet;
use std::time::Duration;

use super::names::Names;
use super::trigger::{Delay, trigger};
use super::values::{one_of, span};
use crate::scenario::expect::{
    CALL_ENDS, CallEnds, EXITS, Expect, ExpectCall, ExpectProcess, ExpectStream, ExpectedOutput,
    OUTPUTS, PROCESS_ENDS, ProcessExit, STREAM_ENDS, StreamEnds,
};
use crate::scenario::file::Body;
use crate::scenario::keys;
use crate::scenario::mistake::{MistakeAt, Parsed};
use crate::scenario::reader::{Node, Table};
use crate::schedule::{Trigger, TriggerMark};

/// Returns the expectations for this body.
pub fn expect(node: Option<Node<'_>>, body: &Body, names: &Names<'_>) -> Parsed<Expect> {
    let Some(node) = node else { return Ok(Expect::default()) };
    let table = node.table(keys::EXPECT.names())?;
    fits(&table, body)?;
    Ok(Expect {
        reaches: marks(&table, "reaches", names)?,
        never: marks(&table, "never", names)?,
        breaks: table.get("breaks").map(|node| names.property(&node)).transpose()?,
        at_least: table.get("at-least").map_or(Ok(Vec::new()), |node| shares(&node, names))?,
        streams: (named(&table, "stream")?.iter())
            .map(|entry| Ok((entry.label.to_owned(), stream(entry)?)))
            .collect::<Parsed<_>>()?,
        processes: (named(&table, "process")?.iter())
            .map(|entry| Ok((entry.label.to_owned(), process(entry)?)))
            .collect::<Parsed<_>>()?,
        may_miss: BTreeSet::new(), // set from the steps
        calls: named(&table, "call")?
            .iter()
            .map(|entry| Ok((number(entry)?, call(entry)?)))
            .collect::<Parsed<_>>()?,
    })
}

/// Checks that the keys fit the body: some keys are only for schedules, others only for swarms.
fn fits(table: &Table<'_>, body: &Body) -> Parsed<()> {
    let (strays, message): (&[&str], _) = match body {
        Body::Schedule(_) => {
            (&["at-least"], "is only for a swarm; write `reaches`, which each seed must meet")
        }
        Body::Swarm(_) => (
            &["stream", "process", "call", "breaks"],
            "is only for a schedule: a swarm draws its streams, processes and calls",
        ),
    };
    match strays.iter().find_map(|key| table.get(key)) {
        Some(stray) => {
            Err(MistakeAt { at: stray.key_at, message: format!("`{}` {message}", stray.label) })
        }
        None => Ok(()),
    }
}

fn marks(table: &Table<'_>, key: &str, names: &Names<'_>) -> Parsed<Vec<Trigger>> {
    let Some(node) = table.get(key) else { return Ok(Vec::new()) };
    let list = node.list("a list of milestone names or tables")?;
    list.iter().map(|entry| trigger(entry, names, Delay::Not("leave it out"))).collect()
}

fn shares(node: &Node<'_>, names: &Names<'_>) -> Parsed<Vec<(TriggerMark, f64)>> {
    let share =
        |entry: Node<'_>| Ok((names.mark_called(entry.key_at, entry.label)?, entry.share()?));
    node.free_table()?.entries().map(share).collect()
}

/// Returns the entries of a table whose keys are names.
fn named<'a>(table: &Table<'a>, key: &str) -> Parsed<Vec<Node<'a>>> {
    table.get(key).map_or(Ok(Vec::new()), |node| Ok(node.free_table()?.entries().collect()))
}

fn number(entry: &Node<'_>) -> Parsed<u64> {
    let message = || {
        format!(
            "`{}` is not a call; calls are numbered from 1, in the order of their requests",
            entry.label
        )
    };
    entry
        .label
        .parse()
        .ok()
        .filter(|number| *number > 0)
        .ok_or_else(|| MistakeAt { at: entry.key_at, message: message() })
}

fn stream(node: &Node<'_>) -> Parsed<ExpectStream> {
    let table = node.table(keys::EXPECT_STREAM.names())?;
    let ends = table.get("ends").map(|node| one_of(&node, &STREAM_ENDS)).transpose()?;
    goes_with(&table, "outcome", ends == Some(StreamEnds::Completed), "completed")?;
    goes_with(&table, "reason", ends == Some(StreamEnds::Failed), "failed")?;
    Ok(ExpectStream {
        ends,
        outcome: text(&table, "outcome")?,
        reason: text(&table, "reason")?,
        output: output(&table)?,
        says: text(&table, "says")?,
        shows: texts(&table, "shows")?,
        within: within(&table, ends, "a stream")?,
        live_from: live_from(&table)?,
    })
}

fn process(node: &Node<'_>) -> Parsed<ExpectProcess> {
    let table = node.table(keys::EXPECT_PROCESS.names())?;
    let ends = table.get("ends").map(|node| one_of(&node, &PROCESS_ENDS)).transpose()?;
    goes_with(&table, "exit", ends == Some(StreamEnds::Completed), "closed")?;
    goes_with(&table, "reason", ends == Some(StreamEnds::Failed), "failed")?;
    Ok(ExpectProcess {
        ends,
        exit: table.get("exit").map(|node| exit(&node)).transpose()?,
        reason: text(&table, "reason")?,
        output: output(&table)?,
        within: within(&table, ends, "a process")?,
        live_from: live_from(&table)?,
        really_ends: times(&table, "really-ends")?,
    })
}

/// Returns an exit: a code, or one of the words for an exit without a code.
fn exit(node: &Node<'_>) -> Parsed<ProcessExit> {
    if node.is_text() {
        return one_of(node, &EXITS);
    }
    let code = node.number(0)?;
    let most = u8::MAX;
    u8::try_from(code)
        .map(ProcessExit::Code)
        .or_else(|_| node.wrong(format!("`{}` is at most {most}, not {code}", node.label)))
}

fn output(table: &Table<'_>) -> Parsed<Option<ExpectedOutput>> {
    table.get("output").map(|node| one_of(&node, &OUTPUTS)).transpose()
}

fn within(table: &Table<'_>, ends: Option<StreamEnds>, whose: &str) -> Parsed<Option<Duration>> {
    match table.get("within") {
        Some(node) if ends == Some(StreamEnds::Open) => {
            let message =
                format!("`within` limits the end of {whose}; leave it out if it stays open");
            Err(MistakeAt { at: node.key_at, message })
        }
        node => node.map(|node| node.duration()).transpose(),
    }
}

fn live_from(table: &Table<'_>) -> Parsed<Option<u64>> {
    table.get("live-from").map(|node| node.number(1)).transpose()
}

fn call(node: &Node<'_>) -> Parsed<ExpectCall> {
    let table = node.table(keys::EXPECT_CALL.names())?;
    let ends = table.get("ends").map(|node| one_of(&node, &CALL_ENDS)).transpose()?;
    goes_with(&table, "result", ends == Some(CallEnds::Answered), "answered")?;
    goes_with(&table, "reason", ends == Some(CallEnds::Failed), "failed")?;
    goes_with(&table, "says", ends == Some(CallEnds::Answered), "answered")?;
    let (result, says, reason) =
        (text(&table, "result")?, text(&table, "says")?, text(&table, "reason")?);
    Ok(ExpectCall { ends, result, says, reason, takes: times(&table, "takes")? })
}

/// Returns a range of durations.
fn times(table: &Table<'_>, key: &str) -> Parsed<Option<(Duration, Duration)>> {
    table.get(key).map(|node| span(&node)).transpose()
}

fn goes_with(table: &Table<'_>, key: &str, fits: bool, ends: &str) -> Parsed<()> {
    match table.get(key) {
        Some(node) if !fits => Err(MistakeAt {
            at: node.key_at,
            message: format!("`{key}` goes with `ends = \"{ends}\"` only"),
        }),
        _ => Ok(()),
    }
}

fn texts(table: &Table<'_>, key: &str) -> Parsed<Vec<String>> {
    let Some(list) = table.get(key) else { return Ok(Vec::new()) };
    list.texts()?.iter().map(|entry| entry.text().map(str::to_owned)).collect()
}

fn text(table: &Table<'_>, key: &str) -> Parsed<Option<String>> {
    table.get(key).map(|node| node.text().map(str::to_owned)).transpose()
}

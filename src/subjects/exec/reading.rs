//! What a user reads who does not subscribe: pages, and what they come to.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::follow::part;
use super::sum::Sum;
use crate::history::Stream;
use reknit_exec::client::{Failure, Process};
use reknit_exec::wire::process::{OutputStream, ReadResult};

/// How long one read of many waits, at most.
const WAIT: Duration = Duration::from_secs(5);

/// What stands before the answer to a read after the last event that its user was told of, and that event's number.
pub(super) fn after(event: u64) -> (u64, String) {
    (event, format!("{AFTER}{event}: "))
}

const AFTER: &str = "after ";

/// The number in front of an answer, if there is one, and the answer.
pub(super) fn answer(result: &str) -> (Option<u64>, &str) {
    let split = result.strip_prefix(AFTER).and_then(|rest| rest.split_once(": "));
    match split.and_then(|(event, answer)| Some((event.parse().ok()?, answer))) {
        Some((event, answer)) => (Some(event), answer),
        None => (None, result),
    }
}

/// An answer in one line: `chunks 3 to 7, next 9, exit 0, closed`.
pub(super) fn told(read: &ReadResult) -> String {
    let mut told = match (read.chunks.first(), read.chunks.last()) {
        (Some(first), Some(last)) => format!("chunks {} to {}", first.seq, last.seq),
        _ => "nothing".to_owned(),
    };
    told.push_str(&format!(", next {}", read.next_seq));
    if let Some(code) = read.exit_code.filter(|_| read.exited) {
        told.push_str(&format!(", exit {code}"));
    }
    if read.closed {
        told.push_str(", closed");
    }
    told
}

/// Reads page after page until the process is closed, or until `wait` has passed. Says what came to how much:
/// `closed: p1/stdout 340 bytes 0f3a…, p1/stderr 0 bytes …`.
pub(super) async fn all(process: Process, name: Stream, page: u64, wait: Duration) -> Result<String, Failure> {
    let until = Instant::now() + wait;
    let mut read: BTreeMap<OutputStream, Sum> = BTreeMap::new();
    let (mut last, mut chunk, mut skipped) = (0, 0, 0);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let (asked, may_wait) = (Instant::now(), left.min(WAIT));
        let answer = process.read(last, Some(page), may_wait).await?;
        if says_nothing_new(&answer, last) && asked.elapsed() < may_wait {
            return Ok(format!("wrong: a read after event {last} that may wait was answered at once, with nothing new"));
        }
        for found in &answer.chunks {
            if found.seq <= last {
                return Ok(format!("wrong: event {} after event {last}", found.seq));
            }
            skipped += found.seq - chunk - 1;
            (last, chunk) = (found.seq, found.seq);
            read.entry(found.stream).or_default().put(&found.chunk.0[..]);
        }
        if answer.closed {
            // Behind the last chunk come exit and close, or the close alone: then the exit is one of those that were skipped.
            let exit_before = answer.next_seq <= chunk + 2;
            return Ok(match skipped.saturating_sub(u64::from(exit_before)) {
                0 => format!("closed: {}", sums(&name, &read)),
                gone => format!("refused: {gone} chunks are no longer there"),
            });
        }
        // Exit and close have numbers, too.
        last = last.max(answer.next_seq.saturating_sub(1));
        if left.is_zero() {
            return Ok("open".to_owned());
        }
    }
}

/// Whether an answer tells of no event after this one.
fn says_nothing_new(answer: &ReadResult, after: u64) -> bool {
    answer.chunks.is_empty() && !answer.closed && answer.next_seq <= after + 1
}

fn sums(name: &Stream, read: &BTreeMap<OutputStream, Sum>) -> String {
    let told = |(stream, sum): (&OutputStream, &Sum)| sum.told(&part(&name.0, *stream));
    read.iter().map(told).collect::<Vec<_>>().join(", ")
}

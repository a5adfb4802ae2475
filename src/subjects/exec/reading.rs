//! Reads the output of a process and sums it: page by page, without a subscription, or by a further
//! subscription.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::answers::{NotRetained, Read, StreamTotals, WrongAnswer};
use super::follow::{Parts, part};
use super::operations::ReadingPace;
use super::sum::Sum;
use crate::history::{Answer, Stream};
use reknit_exec::client::{Event, Failure, Process};
use reknit_exec::wire::process::OutputStream;

/// The maximum wait of a single read.
const WAIT: Duration = Duration::from_secs(5);

/// Reads page after page until the process is closed, or until `wait` has passed. Returns the
/// totals by stream.
pub(super) async fn all(
    process: Process,
    parts: Parts,
    page: u64,
    wait: Duration,
) -> Result<Answer, Failure> {
    let until = Instant::now() + wait;
    let mut read: BTreeMap<OutputStream, Sum> = BTreeMap::new();
    let (mut last, mut chunks) = (0, 0);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let (asked, may_wait) = (Instant::now(), left.min(WAIT));
        let answer = process.read(last, Some(page), may_wait).await?;
        if let Some(wrong) = parts.seen.changed(&answer) {
            return Ok(wrong.into());
        }
        if Read::of(None, &answer).says_nothing_new(last) && asked.elapsed() < may_wait {
            return Ok(WrongAnswer::NothingNew { after: last }.into());
        }
        for found in &answer.chunks {
            if found.seq <= last {
                return Ok(WrongAnswer::Backward { event: found.seq, after: last }.into());
            }
            (last, chunks) = (found.seq, chunks + 1);
            read.entry(found.stream).or_default().put(&found.chunk.0[..]);
        }
        if answer.closed {
            // Two events are no chunks: the exit and the close. The next number is not used.
            return Ok(match answer.next_seq.saturating_sub(chunks + 3) {
                0 => totals(parts.whole(), &read).into(),
                gone => Answer::refused(NotRetained(gone)),
            });
        }
        // Exit and close have numbers as well.
        last = last.max(answer.next_seq.saturating_sub(1));
        if left.is_zero() {
            return Ok("open".into());
        }
    }
}

/// Subscribes to the events of a process, and reads them up to the last one, or until `wait` has
/// passed. Returns the totals by stream.
pub(super) async fn events(
    process: Process,
    parts: Parts,
    wait: Duration,
    pace: Option<ReadingPace>,
) -> Result<Answer, Failure> {
    parts.again.store(true, Ordering::Relaxed);
    let mut events = process.events();
    let mut read: BTreeMap<OutputStream, Sum> = BTreeMap::new();
    let (mut last, mut unpaused) = (0, 0);
    let reading = async {
        while let Some(event) = events.next().await {
            match event {
                Event::Output { seq, stream, bytes, .. } => {
                    last = seq;
                    unpaused += bytes.len() as u64;
                    if !parts.seen.put(seq, stream, &bytes) {
                        return Ok(WrongAnswer::Changed { event: seq }.into());
                    }
                    read.entry(stream).or_default().put(bytes);
                    if let Some(pace) = pace.filter(|pace| unpaused >= pace.every.0) {
                        unpaused = 0;
                        sleep(pace.pause.0).await;
                    }
                }
                Event::Exited { .. } => {}
                Event::Closed { .. } => return Ok(totals(parts.whole(), &read).into()),
                Event::Failed(Failure::NotKept) if last > 0 => {
                    return Ok(WrongAnswer::NotKept { after: last }.into());
                }
                Event::Failed(failure) => return Err(failure),
            }
        }
        Ok("nothing more".into())
    };
    timeout(wait, reading).await.unwrap_or_else(|_| Ok("open".into()))
}

fn totals(name: &Stream, read: &BTreeMap<OutputStream, Sum>) -> StreamTotals {
    StreamTotals(read.iter().map(|(stream, sum)| (part(&name.0, *stream), sum.total())).collect())
}

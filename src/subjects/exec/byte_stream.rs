//! A process as a byte stream: [`Stdio`].

use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, sink, split};
use tokio::time::timeout;

use super::answers::{StreamTotals, WrongAnswer};
use super::follow::Parts;
use super::sum::Sum;
use crate::history::Answer;
use reknit_exec::client::{Failure, Process, Stdio};

/// How many bytes one read takes at most.
const PIECE: usize = 1000;

/// Reads the output of a process to its end, or until `wait` has passed. Returns its total.
pub(super) async fn read(
    process: Process,
    parts: Parts,
    wait: Duration,
) -> Result<Answer, Failure> {
    parts.again.store(true, Ordering::Relaxed);
    let mut stream = Stdio::new(process.clone());
    let mut sum = Sum::default();
    let reading = async {
        let mut piece = [0; PIECE];
        loop {
            let count = stream.read(&mut piece).await?;
            if count == 0 {
                return io::Result::Ok(());
            }
            sum.put(&piece[..count]);
        }
    };
    match timeout(wait, reading).await {
        Err(_) => Ok("open".into()),
        Ok(Err(error)) => Err(failure(error)),
        Ok(Ok(())) if process.failure().is_some() => Ok(WrongAnswer::EndOfFailed.into()),
        Ok(Ok(())) => Ok(StreamTotals(vec![(parts.standard_output().clone(), sum.total())]).into()),
    }
}

/// Writes bytes to a process, flushes the stream or shuts it down, and drops it at once.
pub(super) async fn write(
    process: Process,
    parts: Parts,
    bytes: Vec<u8>,
    shuts_down: bool,
) -> Result<Answer, Failure> {
    parts.again.store(true, Ordering::Relaxed);
    let (mut from, mut to) = split(Stdio::new(process));
    let writing = async {
        let written = match to.write_all(&bytes).await {
            Ok(()) if shuts_down => to.shutdown().await,
            Ok(()) => to.flush().await,
            failed => failed,
        };
        let Err(error) = written else { return Ok(Answer::queued("accepted")) };
        // Nothing may follow a missing piece.
        Ok(match to.write_all(b"more").await {
            Ok(()) => WrongAnswer::WrittenBehindMissing.into(),
            Err(again) if again.kind() != error.kind() => WrongAnswer::OtherError.into(),
            Err(_) if error.kind() != kind_of(&error) => WrongAnswer::OtherError.into(),
            Err(_) => return Err(failure(error)),
        })
    };
    // An unread stream would hold the process.
    let discarding = async {
        let _ = tokio::io::copy(&mut from, &mut sink()).await; // its failure fails the writing, too
        std::future::pending().await
    };
    tokio::select! {
        biased;
        written = writing => written,
        never = discarding => never,
    }
}

/// Returns the kind that the failure in an error demands.
fn kind_of(error: &io::Error) -> io::ErrorKind {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Failure>());
    match inner {
        Some(Failure::NotWritten(_)) => io::ErrorKind::BrokenPipe,
        _ => io::ErrorKind::Other,
    }
}

/// Returns the failure that an error carries.
fn failure(error: io::Error) -> Failure {
    let text = error.to_string();
    let inner = error.into_inner().and_then(|inner| inner.downcast::<Failure>().ok());
    inner.map_or(Failure::Malformed(text), |failure| *failure)
}

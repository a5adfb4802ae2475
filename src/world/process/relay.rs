//! A relay in a pipe between a process and its launcher: it delays the output, and closes the pipe.
//!
//! Only runs whose plan has a `delay-output` or a `close-pipe` have relays. A relay holds at most as
//! many bytes as the pipe itself.

use std::collections::VecDeque;
use std::future::{pending, poll_fn};
use std::io;
use std::pin::Pin;
use std::task::Poll;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWriteExt, DuplexStream, ReadBuf, duplex};
use tokio::time::{Instant, sleep_until};

use super::PIPE;
use super::conditions::Followed;
use crate::schedule::Pipe;

/// The bytes that a relay reads at once.
const CHUNK: usize = 4096;

/// Puts a relay before `near`, the launcher's end of a pipe. Returns the new end of the launcher, and
/// the relay.
pub(super) fn relayed(
    near: DuplexStream,
    pipe: Pipe,
    conditions: Followed,
) -> (DuplexStream, impl Future<Output = ()> + Send + use<>) {
    let (launcher, far) = duplex(PIPE);
    let relay = async move {
        match pipe {
            Pipe::Stdin => run(far, near, pipe, conditions).await,
            Pipe::Stdout | Pipe::Stderr => run(near, far, pipe, conditions).await,
        }
    };
    (launcher, relay)
}

/// Relays data from one end to the other, until either end is closed and everything was relayed.
async fn run(from: DuplexStream, mut to: DuplexStream, pipe: Pipe, mut conditions: Followed) {
    let closed_before = closings(&mut conditions, pipe);
    let mut from = Some(from);
    let mut waiting: VecDeque<(Instant, Bytes)> = VecDeque::new();
    let mut held = 0;
    loop {
        let now = conditions.now();
        let is_closed = now.closed.iter().filter(|closed| **closed == pipe).count() > closed_before;
        if is_closed && let Some(mut from) = from.take() {
            while let Some(bytes) = read_now(&mut from).await {
                waiting.push_back((Instant::now() + now.output_delay, bytes));
            }
        }
        if from.is_none() && waiting.is_empty() {
            return;
        }
        let delay = if pipe == Pipe::Stdin { Default::default() } else { now.output_delay };
        let due = waiting.front().map(|(due, _)| *due);
        tokio::select! {
            biased;
            () = conditions.changed() => {}
            () = until(due) => {
                let (_, bytes) = waiting.pop_front().unwrap_or((Instant::now(), Bytes::new()));
                held -= bytes.len();
                if to.write_all(&bytes).await.is_err() {
                    return;
                }
            }
            read = read(from.as_mut(), held) => match read {
                Ok(bytes) if !bytes.is_empty() => {
                    held += bytes.len();
                    waiting.push_back((Instant::now() + delay, bytes));
                }
                _ => from = None,
            }
        }
    }
}

fn closings(conditions: &mut Followed, pipe: Pipe) -> usize {
    conditions.now().closed.iter().filter(|closed| **closed == pipe).count()
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => pending().await,
    }
}

/// Reads once, if there is an end to read from and room for more.
async fn read(from: Option<&mut DuplexStream>, held: usize) -> io::Result<Bytes> {
    let Some(from) = from.filter(|_| held < PIPE) else { return pending().await };
    let mut buffer = [0; CHUNK];
    let mut filled = ReadBuf::new(&mut buffer);
    poll_fn(|cx| Pin::new(&mut *from).poll_read(cx, &mut filled)).await?;
    Ok(Bytes::copy_from_slice(filled.filled()))
}

/// Reads what is there already. Returns `None` if there is nothing, or an end.
async fn read_now(from: &mut DuplexStream) -> Option<Bytes> {
    let mut buffer = [0; CHUNK];
    let mut filled = ReadBuf::new(&mut buffer);
    let read = poll_fn(|cx| Poll::Ready(Pin::new(&mut *from).poll_read(cx, &mut filled))).await;
    let bytes = Bytes::copy_from_slice(filled.filled());
    (read.is_ready() && !bytes.is_empty()).then_some(bytes)
}

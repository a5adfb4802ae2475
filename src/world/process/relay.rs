//! A relay in a pipe between a process and its launcher: it delays the output, and closes the pipe.
//!
//! Only runs whose plan has a `delay-output` or a `close-pipe` have relays. A relay holds at most as
//! many bytes as the pipe itself.

use std::collections::VecDeque;
use std::future::{pending, poll_fn};
use std::io;
use std::pin::Pin;
use std::task::Poll;

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWriteExt, DuplexStream, ReadBuf, duplex};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use super::conditions::Followed;
use super::ends::PIPE;
use crate::schedule::Pipe;

/// The bytes that a relay reads at once.
const CHUNK: usize = 4096;

/// Puts a relay before `near`, the launcher's end of a pipe. Returns the new end of the launcher, the
/// relay, and the launcher's way to wait for it.
pub(super) fn relayed(
    near: DuplexStream,
    pipe: Pipe,
    conditions: Followed,
) -> (DuplexStream, impl Future<Output = ()> + Send + use<>, Relayed) {
    let (launcher, far) = duplex(PIPE);
    let (asks, asked) = mpsc::unbounded_channel();
    let relay = async move {
        match pipe {
            Pipe::Stdin => run(far, near, pipe, conditions, asked).await,
            Pipe::Stdout | Pipe::Stderr => run(near, far, pipe, conditions, asked).await,
        }
    };
    (launcher, relay, Relayed(asks))
}

/// A running relay.
pub(super) struct Relayed(mpsc::UnboundedSender<oneshot::Sender<()>>);

impl Relayed {
    /// Waits until the relay has passed on all bytes that are due, or the receiving end is full.
    ///
    /// On a real machine, output without a delay can be read as soon as its process has exited.
    pub(super) async fn passed_on(&self) {
        let (done, passed) = oneshot::channel();
        if self.0.send(done).is_ok() {
            let _ = passed.await; // an error means that the relay has ended, with nothing left
        }
    }
}

/// Relays data from one end to the other, until either end is closed and everything was relayed.
async fn run(
    from: DuplexStream,
    mut to: DuplexStream,
    pipe: Pipe,
    mut conditions: Followed,
    mut asked: mpsc::UnboundedReceiver<oneshot::Sender<()>>,
) {
    let closed_before = closings(&mut conditions, pipe);
    let mut from = Some(from);
    let mut waiting: VecDeque<(Instant, Bytes)> = VecDeque::new();
    let mut held = 0;
    loop {
        let now = conditions.now();
        let is_closed = now.closed.iter().filter(|closed| **closed == pipe).count() > closed_before;
        if is_closed && let Some(mut from) = from.take() {
            while let Some(bytes) = read_now(&mut from).await {
                held += bytes.len();
                waiting.push_back((Instant::now() + now.output_delay, bytes));
            }
        }
        if from.is_none() && waiting.is_empty() {
            return;
        }
        let delay = if pipe == Pipe::Stdin { Default::default() } else { now.output_delay };
        tokio::select! {
            biased;
            () = conditions.changed() => {}
            written = write(&mut to, waiting.front()) => match written {
                Ok(count) => {
                    held -= count;
                    pass(&mut waiting, count);
                }
                Err(_) => return,
            },
            read = read(from.as_mut(), held) => match read {
                Ok(bytes) if !bytes.is_empty() => {
                    held += bytes.len();
                    waiting.push_back((Instant::now() + delay, bytes));
                }
                _ => from = None,
            },
            // The last branch runs only when no other can.
            Some(done) = asked.recv() => {
                let _ = done.send(()); // an error means that the launcher waits no longer
            }
        }
    }
}

/// Removes bytes from the front.
fn pass(waiting: &mut VecDeque<(Instant, Bytes)>, count: usize) {
    if let Some((_, bytes)) = waiting.front_mut() {
        bytes.advance(count);
        if bytes.is_empty() {
            waiting.pop_front();
        }
    }
}

fn closings(conditions: &mut Followed, pipe: Pipe) -> usize {
    conditions.now().closed.iter().filter(|closed| **closed == pipe).count()
}

/// Writes bytes once they are due.
async fn write(to: &mut DuplexStream, first: Option<&(Instant, Bytes)>) -> io::Result<usize> {
    let Some((due, bytes)) = first else { return pending().await };
    if *due > Instant::now() {
        sleep_until(*due).await;
    }
    to.write(bytes).await
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

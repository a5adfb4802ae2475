//! A chat log that clients follow across reconnects, in plain tokio. [`subject`] runs it in a
//! world.
//!
//! A client requests a line by its number, from 0. The server answers with the id of its log, and
//! with the line if it is written within a second.
use reknit_seams::net::{Endpoint, Net, Stream};
use std::{convert::Infallible, io, time::Duration};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::{sync::watch, task::JoinSet, time::Instant, time::sleep, time::timeout};
#[cfg(feature = "sim")]
pub mod subject;
const SILENCE: Duration = Duration::from_secs(3); // after which the peer counts as dead
const PAUSE: Duration = Duration::from_millis(250); // between two connections
const PATIENCE: Duration = Duration::from_secs(20); // after which a client without an answer gives up

/// The lines written so far, with an id that no other log has.
pub struct Log {
    pub id: u64,
    pub lines: Vec<String>,
}

/// Serves a log until the future is dropped.
pub async fn serve(net: &Net, at: &Endpoint, log: watch::Receiver<Log>) -> io::Result<Infallible> {
    let (mut listener, mut followers) = (net.listen(at).await?, JoinSet::new());
    loop {
        followers.spawn(attend(listener.accept().await?, log.clone()));
        while followers.try_join_next().is_some() {}
    }
}

async fn attend(stream: Stream, mut log: watch::Receiver<Log>) -> io::Result<Infallible> {
    let (mut stream, mut answer) = (BufReader::new(stream), String::new());
    loop {
        let next: usize = exchange(&mut stream, answer).await?.parse().map_err(io::Error::other)?;
        timeout(SILENCE / 3, log.wait_for(|log| next < log.lines.len())).await.ok();
        let line = log.borrow().lines.get(next).map_or(String::new(), |line| format!(" {line}"));
        answer = format!("{}{line}\n", log.borrow().id);
    }
}

/// Follows a log until that is no longer possible. Calls `on_line` with the number of connections
/// so far and each line.
pub async fn follow(
    net: &Net,
    server: &Endpoint,
    mut on_line: impl FnMut(u64, &str),
) -> io::Result<Infallible> {
    let (mut log, mut next, mut generation, mut answered) = (None, 0, 0, Instant::now());
    while answered.elapsed() < PATIENCE {
        if let Ok(Ok(stream)) = timeout(SILENCE, net.connect(server)).await {
            generation += 1;
            reknit_seams::milestone!("chat.client.connected", generation, conn = stream.id().0);
            let mut stream = BufReader::new(stream);
            while let Ok(answer) = exchange(&mut stream, format!("{next}\n")).await {
                let (id, line) =
                    answer.split_once(' ').map_or((&*answer, None), |(id, line)| (id, Some(line)));
                if log.get_or_insert(id.to_owned()) != id {
                    return Err(io::Error::other("the server has another log now"));
                }
                line.inspect(|line| on_line(generation, line));
                next += line.iter().count();
                answered = Instant::now();
            }
            next += usize::from(cfg!(feature = "bug")); // treats a line in flight as received
        }
        sleep(PAUSE).await;
    }
    Err(io::ErrorKind::TimedOut.into())
}

/// Sends a line, unless it is empty, and reads one. A line without a line end was cut off.
async fn exchange(stream: &mut BufReader<Stream>, line: String) -> io::Result<String> {
    stream.write_all(line.as_bytes()).await?;
    let mut received = String::new();
    timeout(SILENCE, stream.read_line(&mut received)).await??;
    received.strip_suffix('\n').map(str::to_owned).ok_or(io::ErrorKind::UnexpectedEof.into())
}

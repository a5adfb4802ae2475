//! A ticker whose clients follow it across reconnects. It is written only for `turmoil::net`:
//! `tests/plain.rs` runs it in a `turmoil::Sim`. [`subject`] runs the same code, unchanged, under
//! reknit's faults and properties.
//!
//! A client requests a number. The server answers with the name of its count, and with all numbers
//! from that one on, if there is one within a second.
use std::{convert::Infallible, io, time::Duration};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::{sync::watch, task::JoinSet, time::Instant, time::sleep, time::timeout};
use turmoil::net::{TcpListener, TcpStream};
pub mod subject;

const PORT: u16 = 80;
const SILENCE: Duration = Duration::from_secs(3); // after which the peer counts as dead
const PAUSE: Duration = Duration::from_millis(250); // between two connections
const PATIENCE: Duration = Duration::from_secs(20); // after which a client without an answer gives up

/// The progress of a count, with a name that no other count has.
pub struct Count {
    pub name: u64,
    pub reached: u64,
}

/// Serves a count until the future is dropped.
pub async fn serve(count: watch::Receiver<Count>) -> io::Result<Infallible> {
    let (listener, mut followers) = (TcpListener::bind(("0.0.0.0", PORT)).await?, JoinSet::new());
    loop {
        let (stream, _) = listener.accept().await?;
        followers.spawn(send_counts(stream, count.clone()));
        while followers.try_join_next().is_some() {}
    }
}

async fn send_counts(
    stream: TcpStream,
    mut count: watch::Receiver<Count>,
) -> io::Result<Infallible> {
    let (mut stream, mut answer) = (BufReader::new(stream), String::new());
    loop {
        let next: u64 = exchange(&mut stream, answer).await?.parse().map_err(io::Error::other)?;
        timeout(SILENCE / 3, count.wait_for(|count| next <= count.reached)).await.ok();
        let (name, reached) = (count.borrow().name, count.borrow().reached);
        let numbers: String = (next..=reached).map(|n| format!(" {n}")).collect();
        answer = format!("{name}{numbers}\n");
    }
}

/// Follows a count until that is no longer possible. Calls `on_number` with the name of the count,
/// the number of connections so far, and each number. A `hasty` client treats a number that was in
/// flight when a connection broke as received.
pub async fn follow(
    server: &str,
    hasty: bool,
    mut on_number: impl FnMut(&str, u64, u64),
) -> io::Result<Infallible> {
    let (mut name, mut next, mut connections, mut answered) = (None, 1, 0, Instant::now());
    while answered.elapsed() < PATIENCE {
        if let Ok(Ok(stream)) = timeout(SILENCE, TcpStream::connect((server, PORT))).await {
            connections += 1;
            let mut stream = BufReader::new(stream);
            while let Ok(answer) = exchange(&mut stream, format!("{next}\n")).await {
                let (its, numbers) = answer.split_once(' ').unwrap_or((&answer, ""));
                if name.get_or_insert(its.to_owned()) != its {
                    return Err(io::Error::other("the server has another count now"));
                }
                for number in numbers.split_whitespace().map_while(|word| word.parse().ok()) {
                    on_number(its, connections, number);
                    next = number + 1;
                }
                answered = Instant::now();
            }
            next += u64::from(hasty);
        }
        sleep(PAUSE).await;
    }
    Err(io::ErrorKind::TimedOut.into())
}

/// Sends a line, unless it is empty, and reads one. A line without a line end was cut off.
async fn exchange(stream: &mut BufReader<TcpStream>, line: String) -> io::Result<String> {
    stream.write_all(line.as_bytes()).await?;
    let mut received = String::new();
    timeout(SILENCE, stream.read_line(&mut received)).await??;
    received.strip_suffix('\n').map(str::to_owned).ok_or(io::ErrorKind::UnexpectedEof.into())
}

//! A chat log that clients follow across reconnects, in plain tokio; [`subject`] puts it into a world.
//!
//! A client says which line it wants, counted from 0. The server answers as soon as there is one, with the number of its log and
//! `line TEXT`; while there is none, it says `wait` every second.
use std::convert::Infallible;
use std::{io, time::Duration};

use reknit::net::{Endpoint, Net, Stream};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::time::{Instant, sleep, timeout};
use tokio::{sync::watch, task::JoinSet};

pub mod subject;

const BEAT: Duration = Duration::from_secs(1);
const SILENCE: Duration = Duration::from_secs(3); // after which the other end is taken for dead
const PAUSE: Duration = Duration::from_millis(250); // between two connections
const PATIENCE: Duration = Duration::from_secs(20); // for which a client does without an answer

/// What was said so far, under a number that no other log has.
pub struct Log {
    pub id: u64,
    pub lines: Vec<String>,
}

/// Serves a log until it is dropped.
pub async fn serve(net: &Net, at: &Endpoint, log: watch::Receiver<Log>) -> io::Result<Infallible> {
    let (mut listener, mut followers) = (net.listen(at).await?, JoinSet::new());
    loop {
        followers.spawn(attend(listener.accept().await?, log.clone()));
        while followers.try_join_next().is_some() {}
    }
}

async fn attend(stream: Stream, mut log: watch::Receiver<Log>) -> io::Result<Infallible> {
    let mut stream = BufReader::new(stream);
    loop {
        let next: usize = hear(&mut stream).await?.parse().map_err(io::Error::other)?;
        timeout(BEAT, log.wait_for(|log| next < log.lines.len())).await.ok();
        let line = log.borrow().lines.get(next).map_or("wait".into(), |line| format!("line {line}"));
        let answer = format!("{} {line}\n", log.borrow().id);
        stream.write_all(answer.as_bytes()).await?;
    }
}

/// Follows a log until it cannot be any longer. `told` gets each line, with the count of connections so far.
pub async fn follow(net: &Net, server: &Endpoint, mut told: impl FnMut(u64, &str)) -> io::Result<Infallible> {
    let (mut log, mut next, mut generation, mut answered) = (None, 0, 0, Instant::now());
    while answered.elapsed() < PATIENCE {
        if let Ok(Ok(stream)) = timeout(SILENCE, net.connect(server)).await {
            generation += 1;
            reknit::milestone!("chat.client.connected", generation, conn = stream.id().0);
            let mut stream = BufReader::new(stream);
            while let Ok((id, text)) = ask(&mut stream, next).await {
                if *log.get_or_insert(id) != id {
                    return Err(io::Error::other("the server has another log now"));
                }
                text.strip_prefix("line ").inspect(|line| told(generation, line)).inspect(|_| next += 1);
                answered = Instant::now();
            }
            next += usize::from(cfg!(feature = "bug")); // takes the line that was on its way for read
        }
        sleep(PAUSE).await;
    }
    Err(io::ErrorKind::TimedOut.into())
}

async fn ask(stream: &mut BufReader<Stream>, next: usize) -> io::Result<(u64, String)> {
    stream.write_all(format!("{next}\n").as_bytes()).await?;
    let answer = hear(stream).await?;
    let (id, text) = answer.split_once(' ').ok_or(io::ErrorKind::InvalidData)?;
    Ok((id.parse().map_err(io::Error::other)?, text.to_owned()))
}

/// The next line from the other end. What has no end of line was cut off.
async fn hear(stream: &mut BufReader<Stream>) -> io::Result<String> {
    let mut line = String::new();
    timeout(SILENCE, stream.read_line(&mut line)).await??;
    line.strip_suffix('\n').map(str::to_owned).ok_or(io::ErrorKind::UnexpectedEof.into())
}

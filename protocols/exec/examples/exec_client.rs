//! An exec client: it runs a command on another machine as if that were here, and neither is lost when the connection is.
//!
//! ```console
//! $ cargo run --example exec_client -- ws://127.0.0.1:7777 -- sh -c 'for n in 1 2 3; do echo $n; sleep 5; done'
//! ```
//!
//! What the command prints is printed, what is typed is its input, Ctrl-C interrupts it, and its exit status is that of this
//! program: 255 where it cannot be told, 2 where the arguments make no sense. A lost connection, and its return, are told on
//! standard error. Where it does not return within 25 s, that is the end.
//!
//! The command starts in `/`, with nothing but a `PATH` in its environment. The protocol has no word for the end of an input:
//! a command that reads to the end goes on until it is interrupted.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::error::Error;
use std::future::pending;
use std::io;

use reknit_exec::client::{Client, Event, Events, Process, State};
use reknit_exec::limits::ClientLimits;
use reknit_exec::wire::process::{OutputStream, Signal, StartParams};
use reknit_seams::Env;
use reknit_seams::net::Endpoint;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt, stderr, stdin, stdout};
use tokio::signal::ctrl_c;
use tokio::sync::watch;

const USAGE: &str = "usage: exec_client ws://HOST:PORT -- COMMAND [ARGS…]";

#[tokio::main]
async fn main() {
    let status = match arguments(std::env::args().skip(1)) {
        Some((server, argv)) => run(server, argv).await.unwrap_or_else(|error| {
            eprintln!("exec_client: {error}");
            255
        }),
        None => {
            eprintln!("{USAGE}");
            2
        }
    };
    // Not by `return`: a read from a terminal cannot be taken back, and would be waited for.
    std::process::exit(status);
}

/// The server and the command that the arguments name; `None` where they make no sense.
fn arguments(mut args: impl Iterator<Item = String>) -> Option<(Endpoint, Vec<String>)> {
    let url = args.next()?;
    let (host, port) = url.strip_prefix("ws://")?.trim_end_matches('/').rsplit_once(':')?;
    let server = Endpoint::tcp(host, port.parse().ok()?);
    let dashes = args.next()? == "--";
    let argv: Vec<_> = args.collect();
    (dashes && !host.is_empty() && !argv.is_empty()).then_some((server, argv))
}

/// Runs a command; answers its exit status.
async fn run(server: Endpoint, argv: Vec<String>) -> Result<i32, Box<dyn Error>> {
    // What is typed arrives once, though the connection dies in the middle of it.
    let limits = ClientLimits { retry_writes: true, ..ClientLimits::default() };
    let client = Client::start(&Env::real(), server, limits);
    let env = BTreeMap::from([("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())]);
    let command = StartParams {
        process_id: "1".into(),
        argv,
        cwd: "/".into(),
        env,
        pipe_stdin: true,
        ..StartParams::default()
    };
    let process = client.launch(command).await?;
    let status = tokio::select! {
        status = print(process.events()) => status?,
        never = notify(client.watch_state()) => match never {},
        never = feed(&process) => match never {},
        never = interrupt(&process) => match never {},
    };
    client.close().await;
    Ok(status)
}

/// Prints what the command prints, until there is no more; answers its exit status.
async fn print(mut events: Events) -> Result<i32, Box<dyn Error>> {
    let mut status = 255;
    while let Some(event) = events.next().await {
        match event {
            Event::Output { stream: OutputStream::Stderr, bytes, .. } => {
                show(stderr(), &bytes).await?
            }
            Event::Output { bytes, .. } => show(stdout(), &bytes).await?,
            Event::Exited { code, .. } => status = code,
            Event::Closed { .. } => break,
            Event::Failed(failure) => return Err(failure.into()),
        }
    }
    Ok(status)
}

async fn show(mut out: impl AsyncWrite + Unpin, bytes: &[u8]) -> io::Result<()> {
    out.write_all(bytes).await?;
    out.flush().await
}

/// Says when the connection is lost, and when it is back. There was one.
async fn notify(mut state: watch::Receiver<State>) -> Infallible {
    let mut before = State::Connected;
    loop {
        let now = *state.borrow_and_update();
        match (before, now) {
            (State::Connected, State::Recovering) => {
                eprintln!("exec_client: the connection is lost; trying to get it back")
            }
            (State::Recovering, State::Connected) => {
                eprintln!("exec_client: the connection is back")
            }
            _ => {}
        }
        before = now;
        if state.changed().await.is_err() {
            return pending().await;
        }
    }
}

/// Gives the command what is typed here, as long as it reads.
async fn feed(process: &Process) -> Infallible {
    let (mut typed, mut piece) = (stdin(), vec![0; 8 * 1024]);
    let fed: io::Result<()> = async {
        loop {
            match typed.read(&mut piece).await? {
                0 => return Ok(()),
                count => process.write(piece[..count].to_vec()).await.map_err(io::Error::other)?,
            }
        }
    }
    .await;
    // Why nobody reads any more, the events tell.
    drop(fed);
    pending().await
}

/// Hands Ctrl-C on.
async fn interrupt(process: &Process) -> Infallible {
    while ctrl_c().await.is_ok() {
        if let Err(failure) = process.signal(Signal::Interrupt).await {
            eprintln!("exec_client: not interrupted: {failure}");
        }
    }
    pending().await
}

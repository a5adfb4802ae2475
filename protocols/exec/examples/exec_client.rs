//! An exec client: it runs a command on another machine as if the command were local. A lost
//! connection loses neither the command nor its output.
//!
//! ```console
//! $ cargo run --example exec_client -- ws://127.0.0.1:7777 -- sh -c 'for n in 1 2 3; do echo $n; sleep 5; done'
//! ```
//!
//! The client prints the command's output, sends typed text to its standard input, and interrupts
//! it on Ctrl-C. The client exits with the command's exit status, with 255 if that status is
//! unknown, and with 2 if its own arguments are invalid. It reports a lost connection, and the
//! reconnect, on standard error. It gives up if it cannot reconnect within 45 s.
//!
//! A reader of the output that pauses (`| less`) makes the command wait, if the server supports it;
//! otherwise the client fails when the server has dropped output that the reader still needs. When
//! the reader closes the output (`| head`), the client kills the command and exits with 141.
//!
//! The command starts in `/`, and its environment contains only a `PATH`. The protocol cannot
//! signal the end of an input: a command that reads to the end of its input runs until it is
//! interrupted.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::error::Error;
use std::future::pending;
use std::io;

use reknit_exec::client::{Client, Event, Events, Process, State};
use reknit_exec::limits::ClientLimits;
use reknit_exec::wire::Directory;
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
    // Not a `return`: a pending read from the terminal cannot be cancelled, and the runtime would
    // wait for it.
    std::process::exit(status);
}

/// Returns the server and the command from the arguments, or `None` if they are invalid.
fn arguments(mut args: impl Iterator<Item = String>) -> Option<(Endpoint, Vec<String>)> {
    let url = args.next()?;
    let (host, port) = url.strip_prefix("ws://")?.trim_end_matches('/').rsplit_once(':')?;
    let server = Endpoint::tcp(host, port.parse().ok()?);
    let dashes = args.next()? == "--";
    let argv: Vec<_> = args.collect();
    (dashes && !host.is_empty() && !argv.is_empty()).then_some((server, argv))
}

/// Runs a command and returns its exit status.
async fn run(server: Endpoint, argv: Vec<String>) -> Result<i32, Box<dyn Error>> {
    // Typed text arrives exactly once, even if the connection dies during a write.
    let limits = ClientLimits { retry_writes: true, ..ClientLimits::default() };
    let client = Client::start(&Env::real(), server, limits);
    let env = BTreeMap::from([("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())]);
    let command = StartParams {
        process_id: "1".into(),
        argv,
        cwd: Directory::root(),
        env,
        pipe_stdin: true,
        ..StartParams::default()
    };
    let process = client.launch(command).await?;
    let status = tokio::select! {
        status = print(process.events()) => match status? {
            Printed::All(status) => status,
            Printed::ReaderClosed => {
                // No one reads the rest. The command may have ended already, or the connection is lost.
                let _ = process.terminate().await;
                BROKEN_PIPE
            }
        },
        never = notify(client.watch_state()) => match never {},
        never = feed(&process) => match never {},
        never = interrupt(&process) => match never {},
    };
    client.close().await;
    Ok(status)
}

/// The exit status of a command that a closed output has killed, as shells report it.
const BROKEN_PIPE: i32 = 128 + 13;

/// How the printing of the output ended.
enum Printed {
    /// Everything was printed; the exit status of the command.
    All(i32),
    /// The reader closed the output.
    ReaderClosed,
}

/// Prints the command's output until the output or its reader ends. It requests the next output
/// only after the reader has taken the output before.
async fn print(mut events: Events) -> Result<Printed, Box<dyn Error>> {
    let mut status = 255;
    while let Some(event) = events.next().await {
        let shown = match event {
            Event::Output { stream: OutputStream::Stderr, bytes, .. } => {
                show(stderr(), &bytes).await
            }
            Event::Output { bytes, .. } => show(stdout(), &bytes).await,
            Event::Exited { code, .. } => {
                status = code;
                Ok(())
            }
            Event::Closed { .. } => break,
            Event::Failed(failure) => return Err(failure.into()),
        };
        match shown {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                return Ok(Printed::ReaderClosed);
            }
            shown => shown?,
        }
    }
    Ok(Printed::All(status))
}

async fn show(mut out: impl AsyncWrite + Unpin, bytes: &[u8]) -> io::Result<()> {
    out.write_all(bytes).await?;
    out.flush().await
}

/// Reports when the connection is lost and when it is restored. The client has been connected once
/// before this runs.
async fn notify(mut state: watch::Receiver<State>) -> Infallible {
    let mut before = State::Connected;
    loop {
        let now = *state.borrow_and_update();
        match (before, now) {
            (State::Connected, State::Recovering) => {
                eprintln!("exec_client: connection lost; reconnecting")
            }
            (State::Recovering, State::Connected) => {
                eprintln!("exec_client: reconnected")
            }
            _ => {}
        }
        before = now;
        if state.changed().await.is_err() {
            return pending().await;
        }
    }
}

/// Sends typed text to the command while the command reads its input.
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
    // The events report why the command no longer reads.
    drop(fed);
    pending().await
}

/// Forwards Ctrl-C to the command.
async fn interrupt(process: &Process) -> Infallible {
    while ctrl_c().await.is_ok() {
        if let Err(failure) = process.signal(Signal::Interrupt).await {
            eprintln!("exec_client: the interrupt was not sent: {failure}");
        }
    }
    pending().await
}

//! Runs a command on a server, or follows one, and prints its output, whatever happens to the connection.
//!
//! ```console
//! $ cargo run --example sse_client -- http://127.0.0.1:44772 run 'make test'
//! $ cargo run --example sse_client -- http://127.0.0.1:44772 follow c1
//! ```
//!
//! It ends with the exit status of the command, or with 128 and the number of the signal that killed it.
//! Lost output is reported on the standard error. If the ending is unknown, the status is 1, and a line
//! says why. Ctrl-C interrupts the command of `run`. If the environment has `EXECD_ACCESS_TOKEN`, the
//! requests carry this token.

use std::io::{self, Write};
use std::process::ExitCode;

use reknit_seams::Env;
use reknit_seams::net::Endpoint;
use reknit_sse::client::{Client, ClientConfig, Follower, Item};
use reknit_sse::limits::ClientLimits;
use reknit_sse::wire::{Cursor, Ending, OutputStream, RunCommand};
use tokio::signal::unix::{SignalKind, signal};

const USAGE: &str = "usage: sse_client http://HOST:PORT (run COMMAND | follow ID)";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let Some((client, mut follower, is_own)) = options(&args) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match print(&client, &mut follower, is_own).await {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            eprintln!("sse_client: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns a client, the follower of a command, and whether this program starts the command; `None` if an
/// argument is invalid.
fn options(args: &[String]) -> Option<(Client, Follower, bool)> {
    let [url, action, what] = args else { return None };
    let (host, port) = url.strip_prefix("http://")?.trim_end_matches('/').rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let server = Endpoint::tcp(host, port.parse().ok()?);
    let access_token = std::env::var("EXECD_ACCESS_TOKEN").ok().filter(|token| !token.is_empty());
    let config = ClientConfig { access_token, ..ClientConfig::default() };
    let client = Client::new(&Env::real(), server, config, ClientLimits::default());
    let follower = match action.as_str() {
        "run" => client.run(RunCommand::shell(what)).ok()?,
        "follow" => client.follow(what.parse().ok()?, Cursor::START),
        _ => return None,
    };
    Some((client, follower, action == "run"))
}

/// Prints a command until its end. Returns its exit status.
async fn print(
    client: &Client,
    follower: &mut Follower,
    is_own: bool,
) -> Result<u8, Box<dyn std::error::Error>> {
    let mut interrupted = signal(SignalKind::interrupt())?;
    loop {
        let item = tokio::select! {
            item = follower.next() => item?,
            _ = interrupted.recv() => match follower.id().filter(|_| is_own) {
                Some(id) => {
                    client.interrupt(&id).await?;
                    continue;
                }
                None => return Ok(130),
            },
        };
        match item {
            Some(Item::Output(OutputStream::Stdout, bytes)) => io::stdout().write_all(&bytes)?,
            Some(Item::Output(OutputStream::Stderr, bytes)) => io::stderr().write_all(&bytes)?,
            Some(Item::Gap(gap)) => eprintln!("sse_client: lost: {gap}"),
            Some(Item::Ended { ending, .. }) => {
                io::stdout().flush()?;
                return status(&ending);
            }
            None => return Err("the command has ended before".into()),
        }
    }
}

fn status(ending: &Ending) -> Result<u8, Box<dyn std::error::Error>> {
    match ending {
        Ending::Exited(code) => Ok((code & 0xff) as u8),
        Ending::Killed(signal) => Ok(128_u8.wrapping_add(*signal as u8)),
        Ending::TimedOut => Err("the command ran for too long".into()),
        Ending::NotStarted(why) => Err(format!("the command did not start: {why}").into()),
        Ending::Lost(why) => Err(format!("the ending is unknown: {why}").into()),
    }
}

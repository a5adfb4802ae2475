//! An agent host: its agent repeats the user's text, and lets clients run tools for it.
//!
//! ```console
//! $ cargo run --features toolcall --example toolcall_server -- --listen ws://127.0.0.1:7778
//! ws://127.0.0.1:7778
//! ```
//!
//! The first line of the output is the URL of the server; port 0, the default, selects any free
//! port. Ctrl-C and SIGTERM end the server. It answers each text in a chat with the same text. `run
//! TOOL WORDS…` lets a client run a tool with these words, after the user has confirmed it.
//!
//! The server does not authenticate clients. Keep it on loopback, or put a proxy that authenticates
//! in front of it.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use reknit_seams::Env;
use reknit_seams::net::{BoxFuture, Endpoint};
use reknit_toolcall::host::{Agent, Ended, Host, HostConfig, MemoryArchive, Refused, Turn};
use reknit_toolcall::limits::HostLimits;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

const USAGE: &str = "usage: toolcall_server [--listen ws://IP:PORT]";

#[tokio::main]
async fn main() -> ExitCode {
    let Some(at) = address(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match serve(at).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("toolcall_server: {at}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Parses the arguments and returns the address to listen at; `None` if they are invalid.
fn address(mut args: impl Iterator<Item = String>) -> Option<SocketAddr> {
    let url = match args.next() {
        None => "ws://127.0.0.1:0".to_owned(),
        Some(flag) if flag == "--listen" => args.next()?,
        Some(_) => return None,
    };
    let address = url.strip_prefix("ws://")?.trim_end_matches('/').parse().ok()?;
    args.next().is_none().then_some(address)
}

/// Serves until a signal asks it to end.
async fn serve(at: SocketAddr) -> io::Result<()> {
    let env = Env::real();
    let (mut interrupted, mut terminated) =
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let listener = env.net.listen(&Endpoint::tcp(at.ip().to_string(), at.port())).await?;
    let bound = SocketAddr::new(at.ip(), listener.endpoint().port().unwrap_or(at.port()));
    writeln!(io::stdout(), "ws://{bound}")?;
    let config = HostConfig {
        provider: "parrot".to_owned(),
        tokens: BTreeMap::new(),
        agent: Arc::new(Parrot),
        archive: Arc::new(MemoryArchive::default()),
        limits: HostLimits::default(),
    };
    tokio::select! {
        biased;
        _ = interrupted.recv() => {}
        _ = terminated.recv() => {}
        () = Host::new(&env, config).serve(listener) => {}
    }
    Ok(())
}

/// Repeats the user's text.
struct Parrot;

impl Agent for Parrot {
    fn turn(&self, turn: Turn) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            if let Err(Refused(why)) = answer(&turn).await {
                eprintln!("toolcall_server: {}: {why}", turn.chat);
            }
        })
    }
}

async fn answer(turn: &Turn) -> Result<(), Refused> {
    let Some(order) = turn.text.strip_prefix("run ") else {
        return turn.send(&turn.text).map(drop);
    };
    let (tool, words) = order.split_once(' ').unwrap_or((order, ""));
    let ended = turn.call(tool, &json!({ "words": words }), true).await?;
    let reply = match ended {
        Ended::Completed(result) if result.success => {
            format!("{tool} ran: {}", json!(result.content))
        }
        Ended::Completed(result) => {
            format!("{tool} failed: {}", result.past_tense_message.as_text())
        }
        Ended::Cancelled => format!("{tool} was not run"),
    };
    turn.send(&reply).map(drop)
}

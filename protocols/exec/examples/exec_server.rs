//! An exec server: it runs commands for whoever connects, and keeps them running for 30 s where a connection is lost.
//!
//! ```console
//! $ cargo run --example exec_server -- --listen ws://127.0.0.1:7777
//! ws://127.0.0.1:7777
//! ```
//!
//! The first line tells the URL that it listens at; port 0, the default, asks for any free one. Ctrl-C and SIGTERM end it, and
//! every command with it.
//!
//! It asks nobody who they are: whoever reaches the port may run anything that its user may. Leave it on loopback, or put
//! something before it that asks.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::process::ExitCode;

use reknit_exec::Server;
use reknit_exec::limits::ServerLimits;
use reknit_seams::Env;
use reknit_seams::net::Endpoint;
use tokio::signal::unix::{SignalKind, signal};

const USAGE: &str = "usage: exec_server [--listen ws://IP:PORT]";

#[tokio::main]
async fn main() -> ExitCode {
    let Some(at) = address(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match serve(at).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("exec_server: {at}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Where the arguments say that it listens; `None` where they make no sense.
fn address(mut args: impl Iterator<Item = String>) -> Option<SocketAddr> {
    let url = match args.next() {
        None => "ws://127.0.0.1:0".to_owned(),
        Some(flag) if flag == "--listen" => args.next()?,
        Some(_) => return None,
    };
    let address = url.strip_prefix("ws://")?.trim_end_matches('/').parse().ok()?;
    args.next().is_none().then_some(address)
}

/// Serves until somebody asks for an end. What is dropped then kills every command.
async fn serve(at: SocketAddr) -> io::Result<()> {
    let env = Env::real();
    let (mut interrupted, mut terminated) =
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let listener = env.net.listen(&Endpoint::tcp(at.ip().to_string(), at.port())).await?;
    let bound = SocketAddr::new(at.ip(), listener.endpoint().port());
    writeln!(io::stdout(), "ws://{bound}")?;
    tokio::select! {
        biased;
        _ = interrupted.recv() => {}
        _ = terminated.recv() => {}
        () = Server::new(&env, ServerLimits::default()).serve(listener) => {}
    }
    Ok(())
}

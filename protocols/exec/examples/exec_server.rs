//! An exec server: it runs commands for its clients, and keeps them running for 80 s after a lost
//! connection.
//!
//! ```console
//! $ cargo run --example exec_server -- --listen ws://127.0.0.1:7777
//! ws://127.0.0.1:7777
//! ```
//!
//! The first output line is the URL that the server listens on. Port 0, the default, selects any
//! free port. Ctrl-C and SIGTERM end the server and all its commands.
//!
//! The server does not authenticate clients: anyone who can reach the port can run any command that
//! the server's user may run. Bind it to loopback, or put an authenticating proxy in front of it.

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

/// Returns the listen address from the arguments, or `None` if they are invalid.
fn address(mut args: impl Iterator<Item = String>) -> Option<SocketAddr> {
    let url = match args.next() {
        None => "ws://127.0.0.1:0".to_owned(),
        Some(flag) if flag == "--listen" => args.next()?,
        Some(_) => return None,
    };
    let address = url.strip_prefix("ws://")?.trim_end_matches('/').parse().ok()?;
    args.next().is_none().then_some(address)
}

/// Serves until a signal requests the shutdown. Dropping the server then kills every command.
async fn serve(at: SocketAddr) -> io::Result<()> {
    let env = Env::real();
    let (mut interrupted, mut terminated) =
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let listener = env.net.listen(&Endpoint::tcp(at.ip().to_string(), at.port())).await?;
    let bound = SocketAddr::new(at.ip(), listener.endpoint().port().unwrap_or(at.port()));
    writeln!(io::stdout(), "ws://{bound}")?;
    tokio::select! {
        biased;
        _ = interrupted.recv() => {}
        _ = terminated.recv() => {}
        () = Server::new(&env, ServerLimits::default()).serve(listener) => {}
    }
    Ok(())
}

//! A server that runs commands and streams their output, like OpenSandbox execd.
//!
//! ```console
//! $ cargo run --example sse_server -- --listen 127.0.0.1:44772 --hold 10s
//! http://127.0.0.1:44772
//! $ curl -N http://127.0.0.1:44772/command -d '{"operation_id":"c1","command":"seq 3; sleep 60"}'
//! $ curl -N 'http://127.0.0.1:44772/command/c1/resume?after_eid=2'
//! ```
//!
//! The first output line is the URL that the server listens on. Port 0, the default, selects any free
//! port. If the environment has `EXECD_ACCESS_TOKEN`, every request must carry this token. `--hold`
//! lets a command wait for a slow client (by default it does not wait, and the client receives a gap).
//! `--framing execd` ignores what a client accepts. Ctrl-C and SIGTERM end the server and all its
//! commands.
//!
//! Without a token, anyone who can reach the port can run any command that the server's user may run.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::process::ExitCode;

use reknit_seams::Env;
use reknit_seams::net::Endpoint;
use reknit_sse::limits::ServerLimits;
use reknit_sse::server::{Server, ServerConfig};
use reknit_sse::wire::Framing;
use tokio::signal::unix::{SignalKind, signal};

const USAGE: &str =
    "usage: sse_server [--listen IP:PORT] [--hold DURATION] [--framing execd|standard]";

#[tokio::main]
async fn main() -> ExitCode {
    let Some((at, config, limits)) = options(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match serve(at, config, limits).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sse_server: {at}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the address, the configuration and the limits, or `None` if an argument is invalid.
fn options(
    mut args: impl Iterator<Item = String>,
) -> Option<(SocketAddr, ServerConfig, ServerLimits)> {
    let mut at = SocketAddr::from(([127, 0, 0, 1], 0));
    let token = std::env::var("EXECD_ACCESS_TOKEN").ok().filter(|token| !token.is_empty());
    let mut config = ServerConfig { access_token: token, ..ServerConfig::default() };
    let mut limits = ServerLimits::default();
    while let Some(option) = args.next() {
        let value = args.next()?;
        match option.as_str() {
            "--listen" => at = value.parse().ok()?,
            "--hold" => limits.hold = humantime::parse_duration(&value).ok()?,
            "--framing" if value == "execd" => config.framing = Some(Framing::Execd),
            "--framing" if value == "standard" => config.framing = Some(Framing::Standard),
            _ => return None,
        }
    }
    Some((at, config, limits))
}

/// Serves until a signal requests the shutdown. Dropping the server then kills every command.
async fn serve(at: SocketAddr, config: ServerConfig, limits: ServerLimits) -> io::Result<()> {
    let env = Env::real();
    let (mut interrupted, mut terminated) =
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let listener = env.net.listen(&Endpoint::tcp(at.ip().to_string(), at.port())).await?;
    let bound = SocketAddr::new(at.ip(), listener.endpoint().port().unwrap_or(at.port()));
    writeln!(io::stdout(), "http://{bound}")?;
    tokio::select! {
        biased;
        _ = interrupted.recv() => {}
        _ = terminated.recv() => {}
        () = Server::new(&env, config, limits).serve(listener) => {}
    }
    Ok(())
}

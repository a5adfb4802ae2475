//! The bugs of codex 0.169.0 that `docs/found-in-the-wild.md` describes. A test per bug runs the same
//! frames against codex and against our server. It fails if codex no longer has the bug, and if our
//! server has it.
//!
//! The slow ones are ignored, and run at night: `cargo test -p codex_peer --test wild -- --ignored`.

use std::path::Path;

use codex_peer::install;
use codex_peer::servers::Server;
use reknit_exec::limits::ServerLimits;

mod ends;
mod http;
mod order;
mod peer;
mod reorder;
mod silence;

/// The behaviour of a server.
struct Seen {
    /// Whether it has the bug.
    bug: bool,
    /// A description of what the client saw.
    what: String,
}

/// Compares codex, started with these further arguments, with our server.
///
/// # Panics
/// If codex does not have the bug, or if our server has it.
async fn compare(bug: u32, arguments: &[&str], scenario: impl AsyncFn(&Server) -> Seen) {
    reproduce(bug, arguments, &scenario).await;
    let seen = scenario(&Server::here(ServerLimits::default()).await).await;
    println!("bug {bug}, ours: {}", seen.what);
    assert!(!seen.bug, "our server has bug {bug}: {}", seen.what);
}

/// Runs only codex.
///
/// # Panics
/// If it does not have the bug.
async fn reproduce(bug: u32, arguments: &[&str], scenario: impl AsyncFn(&Server) -> Seen) {
    let Some(program) = install::codex() else { return };
    let seen = scenario(&codex(&program, arguments).await).await;
    println!("bug {bug}, codex {}: {}", install::VERSION, seen.what);
    let what = seen.what;
    assert!(seen.bug, "codex has mended bug {bug}: {what}. Change docs/found-in-the-wild.md");
}

async fn codex(program: &Path, arguments: &[&str]) -> Server {
    let first: Vec<&str> = ["exec-server"].iter().chain(arguments).copied().collect();
    Server::launch(program, &first, &[]).await
}

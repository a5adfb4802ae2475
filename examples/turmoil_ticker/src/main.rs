//! The whole command line tool for this code: `cargo run -- run --engine turmoil`.
fn main() -> std::process::ExitCode {
    reknit::cli::main(vec![std::sync::Arc::new(turmoil_ticker::subject::Ticker::default())])
}

//! The whole command line tool for this protocol: `cargo run --features cli -- run`.
fn main() -> std::process::ExitCode {
    reknit::cli::main(vec![std::sync::Arc::new(own_protocol::subject::Chat)])
}

//! The command `reknit`, for the built-in subjects.

#[cfg(tokio_unstable)]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[cfg(tokio_unstable)]
fn main() -> std::process::ExitCode {
    reknit::cli::main(reknit::subjects::built_in())
}

#[cfg(not(tokio_unstable))]
fn main() -> std::process::ExitCode {
    eprintln!("reknit was built without its simulator; build it with the feature `sim`");
    std::process::ExitCode::from(2)
}

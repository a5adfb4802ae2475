//! The command `reknit`, for the built-in subjects.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    reknit::cli::main(reknit::subjects::built_in())
}

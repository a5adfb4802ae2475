//! Benchmarks of reknit. Run all with `cargo bench --bench speed`, or select some by name after
//! `--`: `cargo bench --bench speed -- echo`. BENCHMARKS.md records the results.
//!
//! The sides of a comparison are measured in turns, so that a noisy machine affects all sides
//! equally. Each comparison prints one line: the result and its target. No benchmark asserts a
//! time. Under `cargo test` (or with `--test`) each benchmark runs once, at a smaller size, without
//! timing.
//!
//! - `turns`: takes the measurements. `plans`: the subjects and plans that are run.
//! - `worlds`, `echo`, `engines`: the cost of a world, of an echo in a world, and of both on stock
//!   turmoil. `idle`: a day in which nothing happens. `scale`: the cost of an event among many
//!   clients or processes. `shortcuts`: the gain of each shortcut of the world.
//! - `hunts`: random schedules, on one thread and on two, and the cost of their self-check.
//!   `memory`: whether a long hunt needs more memory than a short one. It takes minutes, so it runs
//!   only if it is named.
//! - `loopback`: the product alone, over real sockets.

#![allow(clippy::disallowed_methods)] // real time is what is measured

mod echo;
mod engines;
mod hunts;
mod idle;
#[cfg(unix)]
mod loopback;
mod memory;
mod plans;
mod scale;
mod shortcuts;
mod turns;
mod worlds;

/// The same allocator as the `reknit` command.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let mut meter = turns::Meter::from_args();
    worlds::measure(&mut meter);
    echo::measure(&mut meter);
    engines::measure(&mut meter);
    idle::measure(&mut meter);
    scale::measure(&mut meter);
    shortcuts::measure(&mut meter);
    hunts::measure(&mut meter);
    memory::measure(&mut meter);
    #[cfg(unix)]
    loopback::measure(&mut meter);
}

//! What reknit costs: `cargo bench --bench speed`, or with words after `--` only what they name: `cargo bench --bench speed -- echo`.
//! BENCHMARKS.md holds the figures.
//!
//! What is compared is measured in turns, so that a noisy machine is as noisy for both, and each comparison ends in one line: the
//! figure, and what it is held to. Nothing is asserted of a time. Under `cargo test` (or with `--test`) each is carried out once,
//! smaller, and not timed.
//!
//! - `turns`: the measuring. `plans`: what is run.
//! - `worlds`, `echo`, `engines`: what a world costs, and an echo in one, and either on stock turmoil. `idle`: a day in which nothing
//!   happens. `scale`: an event among many.
//! - `hunts`: random schedules, on one thread and on two, and what their self-check costs. `memory`: whether many of them need more
//!   than few; takes minutes, so that it runs where it is named alone.
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
mod turns;
mod worlds;

/// That of the command.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let mut meter = turns::Meter::from_args();
    worlds::measure(&mut meter);
    echo::measure(&mut meter);
    engines::measure(&mut meter);
    idle::measure(&mut meter);
    scale::measure(&mut meter);
    hunts::measure(&mut meter);
    memory::measure(&mut meter);
    #[cfg(unix)]
    loopback::measure(&mut meter);
}

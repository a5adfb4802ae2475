//! reknit: a deterministic simulation test harness for protocols that must survive a dropped connection.
//!
//! It runs the full client and server of such a protocol inside a simulated network, injects the faults that break them, and
//! checks that every byte was delivered exactly once and in order, or that its stream failed explicitly, for a reason that the
//! faults justify, and in bounded time. The README tells how it is used; this page is the map of the code.
//!
//! Product code needs the crate `reknit-seams` only, which is here, too:
//! - [`net`]: connections. [`process`]: launching processes. [`env`](mod@env): both, and clock and randomness, in one bundle.
//! - [`probe`]: milestones, points, defects; the last two are nothing without the simulator.
//!
//! The protocols that reknit ships are crates of their own; each has a feature here, which is the glue of its subject.
//!
//! The modules, from the ground up. Each imports only those that stand before it:
//! - [`digest`]: the chained digest by which two runs are compared.
//! - [`schedule`]: steps, faults, triggers, limits: all that determines a run.
//! - [`history`]: the record of a run.
//! - [`property`]: what must hold over it.
//! - [`subject`]: [`Subject`](subject::Subject), the trait that a protocol under test implements. Start there.
//! - [`world`]: clock, hosts, links, the engines; the world's side of net, process, wall clock and randomness.
//! - [`subjects`]: how each protocol is put into a world.
//! - [`scenario`]: TOML file ↔ schedule.
//! - [`hunt`]: many runs.
//! - [`report`]: what a person reads.
//! - `frontend`: what the next two share. [`suite`]: a subject's tests.
//! - `cli`: the command line, behind the feature of that name.
#![deny(missing_docs)]
#![warn(clippy::unwrap_used)]

#[cfg(not(tokio_unstable))]
compile_error!(
    "reknit's simulator needs tokio's hooks: put `[build]` and `rustflags = [\"--cfg\", \"tokio_unstable\"]` into .cargo/config.toml \
     of your workspace; where the environment sets RUSTFLAGS (most CI does), that replaces the file: add `--cfg tokio_unstable` there, too"
);

pub use reknit_seams::{Env, defect, env, milestone, net, point, probe, process};

#[cfg(all(feature = "cli", tokio_unstable))]
pub mod cli;
#[cfg(tokio_unstable)]
pub mod digest;
#[cfg(tokio_unstable)]
mod frontend;
#[cfg(tokio_unstable)]
pub mod history;
#[cfg(tokio_unstable)]
pub mod hunt;
#[cfg(tokio_unstable)]
pub mod property;
#[cfg(tokio_unstable)]
pub mod report;
#[cfg(tokio_unstable)]
pub mod scenario;
#[cfg(tokio_unstable)]
pub mod schedule;
#[cfg(tokio_unstable)]
pub mod subject;
#[cfg(tokio_unstable)]
pub mod subjects;
#[cfg(tokio_unstable)]
pub mod suite;
#[cfg(tokio_unstable)]
pub mod world;

/// A page for readers, whose snippets are compiled with the other examples in the docs.
#[cfg(doctest)]
#[doc = include_str!("../docs/from-tokio-net.md")]
mod from_tokio_net {}

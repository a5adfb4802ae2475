//! reknit: a deterministic simulation test harness for protocols that must survive a dropped
//! connection.
//!
//! It runs the full client and server of such a protocol inside a simulated network, injects
//! network and host faults, and checks each stream: either every byte was delivered exactly once
//! and in order, or the stream failed explicitly, for a reason that the faults justify, and in
//! bounded time. The README explains how to use reknit; this page is the map of the code.
//!
//! Product code needs only the crate `reknit-seams`, which is re-exported here:
//! - [`net`]: connections. [`process`]: launching processes. [`env`](mod@env): both, with clock and
//!   randomness, in one bundle.
//! - [`probe`]: milestones, points, defects. Points and defects do nothing outside the simulator.
//!
//! The protocols that reknit ships are separate crates. Each has a feature here that enables the
//! adapter of its subject.
//!
//! The modules, from the bottom up. Each imports only modules listed before it:
//! - [`digest`]: the chained digest that compares two runs.
//! - [`schedule`]: steps, faults, triggers, limits: everything that determines a run.
//! - [`history`]: the record of a run.
//! - [`property`]: the conditions that the record must satisfy.
//! - [`subject`]: [`Subject`](subject::Subject), the trait that a protocol under test implements.
//!   Start there.
//! - [`world`]: clock, hosts, links, the engines, and the simulated network, processes, wall clock
//!   and randomness.
//! - [`subjects`]: the adapters that run each shipped protocol in a world.
//! - [`scenario`]: TOML file ↔ schedule.
//! - [`hunt`]: many runs.
//! - [`report`]: output for people.
//! - `frontend`: code shared by the next two modules. [`suite`]: a subject's tests.
//! - `cli`: the command line, behind the feature `cli`.
#![deny(missing_docs)]
#![warn(clippy::unwrap_used)]

#[cfg(not(tokio_unstable))]
compile_error!(
    "reknit's simulator needs tokio's hooks: put `[build]` and `rustflags = [\"--cfg\", \"tokio_unstable\"]` into .cargo/config.toml \
     of your workspace; where the environment sets RUSTFLAGS (most CI does), that replaces the file: add `--cfg tokio_unstable` there, too"
);

pub use reknit_seams::{Env, defect, env, files, milestone, net, point, probe, process};

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

/// A documentation page, included here so that doc tests compile its examples.
#[cfg(doctest)]
#[doc = include_str!("../docs/from-tokio-net.md")]
mod from_tokio_net {}

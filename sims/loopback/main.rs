//! The exec protocol outside any world: real sockets on 127.0.0.1, real processes, real threads,
//! and a proxy that breaks connections.
//!
//! These tests show that the results from worlds also hold here, which means that the seams to the
//! operating system are correct. The question which faults break the protocol belongs to worlds
//! (`sims/exec.rs`), where every run is repeatable. No test here depends on the speed of the
//! machine, and no test measures time.
//!
//! - `stage`: a client, a server, a proxy between them, and the steps of a test.
//! - `cuts`, `pressure`, `processes`, `stdio`, `door`: the tests. `programs`: tests of the
//!   examples, started as a user starts them.
#![cfg(unix)]

mod cuts;
mod door;
mod pressure;
mod processes;
mod programs;
mod stage;
mod stdio;

//! The exec protocol outside any world: real sockets on 127.0.0.1, real processes, threads that race, through a proxy that
//! breaks connections.
//!
//! It shows that what holds in a world holds here, too: that the seams to the operating system are right. Which faults break
//! the protocol is asked in worlds (`sims/exec.rs`), where every run can be repeated; nothing here depends on how fast the
//! machine is, and nothing is timed.
//!
//! - `proxy`: what stands between client and server. `stage`: both, and what a test says about them.
//! - `cuts`, `processes`, `stdio`, `door`: what is shown with it. `programs`: the examples, as their users start them.
#![cfg(unix)]

mod cuts;
mod door;
mod processes;
mod programs;
mod proxy;
mod stage;
mod stdio;

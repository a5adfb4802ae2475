//! Runs the stored scripts, and scripts generated from fixed seeds, so that libFuzzer's findings
//! are tested without libFuzzer.
//!
//! With `REKNIT_FUZZ_SECONDS`, each target runs further generated scripts for that long, from the seed
//! `REKNIT_FUZZ_SEED` on. `.ci/nightly fuzz` sets both.

use std::time::{Duration, Instant};

use arbitrary::{Arbitrary, Unstructured};
use peers_fuzz::{exec, sse, toolcall, turn};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

mod kept;

use kept::kept;

/// The number of generated scripts per end.
const DRAWN: u64 = 200;

/// The maximum number of bytes for a generated script.
const LONGEST: usize = 1024;

/// Returns the script that libFuzzer would generate from `bytes`.
fn script<'a, T: Arbitrary<'a>>(bytes: &'a [u8]) -> T {
    T::arbitrary_take_rest(Unstructured::new(bytes)).expect("any bytes are a script")
}

/// Returns random bytes, always the same for a seed.
fn drawn(seed: u64) -> Vec<u8> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut bytes = vec![0; rng.random_range(0..LONGEST)];
    rng.fill(&mut bytes[..]);
    bytes
}

fn holds_under_drawn_scripts<T: for<'a> Arbitrary<'a>>(holds: fn(&T)) {
    for seed in seeds() {
        let _running = Running(seed);
        holds(&script(&drawn(seed)));
    }
}

/// The script that runs. If it fails, its seed is printed.
struct Running(u64);

impl Drop for Running {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self(seed) = self;
            eprintln!("REKNIT_FUZZ_SECONDS=1 REKNIT_FUZZ_SEED={seed} repeats this script");
        }
    }
}

/// Returns the seeds to run: a fixed number of them, or as many as fit into the time.
#[allow(clippy::disallowed_methods)] // the time is real
fn seeds() -> Box<dyn Iterator<Item = u64>> {
    let Some(seconds) = number("REKNIT_FUZZ_SECONDS") else { return Box::new(0..DRAWN) };
    let until = Instant::now() + Duration::from_secs(seconds);
    let first = number("REKNIT_FUZZ_SEED").unwrap_or(DRAWN);
    Box::new((first..=u64::MAX).take_while(move |_| Instant::now() < until))
}

/// Returns the number in a variable of the environment, if it is set.
fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text}: write a whole number")))
}

fn holds_under_kept_scripts<T: for<'a> Arbitrary<'a>>(target: &str, holds: fn(&T)) {
    let scripts = kept(target);
    assert!(!scripts.is_empty());
    scripts.iter().for_each(|(_, bytes)| holds(&script(bytes)));
}

#[test]
fn the_invariants_of_an_exec_server_hold() {
    holds_under_drawn_scripts(exec::server::holds);
    holds_under_kept_scripts("exec_server", exec::server::holds);
}

#[test]
fn the_invariants_of_an_exec_server_with_files_hold() {
    holds_under_drawn_scripts(exec::file_server::holds);
    holds_under_kept_scripts("exec_files", exec::file_server::holds);
}

#[test]
fn the_invariants_of_an_exec_client_hold() {
    holds_under_drawn_scripts(exec::client::holds);
    holds_under_kept_scripts("exec_client", exec::client::holds);
}

#[test]
fn the_invariants_of_a_toolcall_host_hold() {
    holds_under_drawn_scripts(toolcall::host::holds);
    holds_under_kept_scripts("toolcall_host", toolcall::host::holds);
}

#[test]
fn the_invariants_of_a_toolcall_client_hold() {
    holds_under_drawn_scripts(toolcall::client::holds);
    holds_under_kept_scripts("toolcall_client", toolcall::client::holds);
}

#[test]
fn the_invariants_of_a_turn_broker_hold() {
    holds_under_drawn_scripts(turn::broker::holds);
    holds_under_kept_scripts("turn_broker", turn::broker::holds);
}

#[test]
fn the_invariants_of_the_lines_of_turn_hold() {
    holds_under_drawn_scripts(turn::wire::holds);
    holds_under_kept_scripts("turn_wire", turn::wire::holds);
}

#[test]
fn the_invariants_of_an_sse_server_hold() {
    holds_under_drawn_scripts(sse::server::holds);
    holds_under_kept_scripts("sse_server", sse::server::holds);
}

#[test]
fn the_invariants_of_an_sse_client_hold() {
    holds_under_drawn_scripts(sse::client::holds);
    holds_under_kept_scripts("sse_client", sse::client::holds);
}

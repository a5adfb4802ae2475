//! Runs the stored scripts, and scripts generated from fixed seeds, so that libFuzzer's findings
//! are tested without libFuzzer.

use std::fs;
use std::path::Path;

use arbitrary::{Arbitrary, Unstructured};
use peers_fuzz::{exec, toolcall, turn};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The number of generated scripts per end.
const DRAWN: u64 = 200;

/// The maximum number of bytes for a generated script.
const LONGEST: usize = 1024;

/// Returns the script that libFuzzer would generate from `bytes`.
fn script<'a, T: Arbitrary<'a>>(bytes: &'a [u8]) -> T {
    T::arbitrary_take_rest(Unstructured::new(bytes)).expect("any bytes are a script")
}

fn drawn(seed: u64) -> Vec<u8> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut bytes = vec![0; rng.random_range(0..LONGEST)];
    rng.fill(&mut bytes[..]);
    bytes
}

/// Returns the scripts in `fuzz/seeds`: some that libFuzzer found to have high coverage, and those
/// that once found a bug.
fn kept(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let files = fs::read_dir(folder).expect("there are seeds");
    let scripts: Vec<_> = files.map(|file| fs::read(file.unwrap().path()).unwrap()).collect();
    assert!(!scripts.is_empty());
    scripts
}

fn holds_under_drawn_scripts<T: for<'a> Arbitrary<'a>>(holds: fn(&T)) {
    (0..DRAWN).for_each(|seed| holds(&script(&drawn(seed))));
}

fn holds_under_kept_scripts<T: for<'a> Arbitrary<'a>>(target: &str, holds: fn(&T)) {
    kept(target).iter().for_each(|bytes| holds(&script(bytes)));
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

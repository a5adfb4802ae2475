//! The scripts that are kept, and two thousand under fixed seeds: what libFuzzer runs lives on without it.

use std::fs;
use std::path::Path;

use arbitrary::{Arbitrary, Unstructured};
use peers_fuzz::{exec, toolcall};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// How many scripts are drawn for each end.
const DRAWN: u64 = 200;

/// How many bytes one is drawn out of, at most.
const LONGEST: usize = 1024;

/// The script that libFuzzer would make of `bytes`.
fn script<'a, T: Arbitrary<'a>>(bytes: &'a [u8]) -> T {
    T::arbitrary_take_rest(Unstructured::new(bytes)).expect("any bytes are a script")
}

fn drawn(seed: u64) -> Vec<u8> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut bytes = vec![0; rng.random_range(0..LONGEST)];
    rng.fill(&mut bytes[..]);
    bytes
}

/// The scripts in `fuzz/seeds`: some that libFuzzer found to reach far, and those that once found a bug.
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
fn a_server_of_exec_holds() {
    holds_under_drawn_scripts(exec::server::holds);
    holds_under_kept_scripts("exec_server", exec::server::holds);
}

#[test]
fn a_client_of_exec_holds() {
    holds_under_drawn_scripts(exec::client::holds);
    holds_under_kept_scripts("exec_client", exec::client::holds);
}

#[test]
fn a_host_of_toolcall_holds() {
    holds_under_drawn_scripts(toolcall::host::holds);
    holds_under_kept_scripts("toolcall_host", toolcall::host::holds);
}

#[test]
fn a_client_of_toolcall_holds() {
    holds_under_drawn_scripts(toolcall::client::holds);
    holds_under_kept_scripts("toolcall_client", toolcall::client::holds);
}

//! The scripts that are kept, and two thousand under fixed seeds: what libFuzzer runs lives on without it.

use std::fs;
use std::path::Path;

use arbitrary::{Arbitrary, Unstructured};
use exec_fuzz::{client, server};
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

#[test]
fn a_server_holds_under_drawn_scripts() {
    (0..DRAWN).for_each(|seed| server::holds(&script(&drawn(seed))));
}

#[test]
fn a_client_holds_under_drawn_scripts() {
    (0..DRAWN).for_each(|seed| client::holds(&script(&drawn(seed))));
}

#[test]
fn a_server_holds_under_kept_scripts() {
    kept("exec_server").iter().for_each(|bytes| server::holds(&script(bytes)));
}

#[test]
fn a_client_holds_under_kept_scripts() {
    kept("exec_client").iter().for_each(|bytes| client::holds(&script(bytes)));
}

//! The stored scripts.

use std::fs;
use std::path::Path;

/// Returns the scripts in `fuzz/seeds`: some that libFuzzer found to have high coverage, and those
/// that once found a bug. Each with its name.
pub fn kept(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let files = fs::read_dir(folder).expect("there are seeds").map(|file| file.unwrap().path());
    let mut scripts: Vec<_> = files
        .map(|path| {
            (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(path).unwrap())
        })
        .collect();
    scripts.sort();
    scripts
}

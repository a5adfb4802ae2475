//! The real SDK: it comes from PyPI, once for all tests, and stays in `target/opensandbox`.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version that is tested.
pub const VERSION: &str = "1.1.1";

/// The environment variable that makes a machine without the SDK an error, with the value `required`.
pub const VARIABLE: &str = "REKNIT_OPENSANDBOX";

/// Returns the folder of the SDK, and installs it first if necessary. Without Python 3.10 or pip, it prints
/// the reason and returns `None`.
///
/// # Panics
/// If pip fails, and if the SDK is required but this machine cannot have it.
pub fn opensandbox() -> Option<PathBuf> {
    if let Err(reason) = can_install() {
        let required = std::env::var_os(VARIABLE).is_some_and(|wish| wish == "required");
        assert!(!required, "{reason}");
        eprintln!("skipped, nothing was tested with the SDK of OpenSandbox: {reason}");
        return None;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/opensandbox");
    fs::create_dir_all(&folder).expect("the target folder is writable");
    let lock = File::create(folder.join("lock")).expect("the target folder is writable");
    lock.lock().expect("a lock on a file"); // it ends with the file
    let complete = folder.join(VERSION);
    if !complete.exists() {
        let partial = folder.join(format!("{VERSION}.partial"));
        install(&partial);
        fs::rename(&partial, &complete).expect("the target folder is writable");
    }
    Some(complete)
}

/// Checks that this machine has what the SDK needs.
fn can_install() -> Result<(), String> {
    let check = "import sys, pip; sys.exit(sys.version_info < (3, 10))";
    match Command::new("python3").args(["-c", check]).output() {
        Ok(done) if done.status.success() => Ok(()),
        _ => Err("it needs python3, at least 3.10, with pip".into()),
    }
}

/// Runs pip. An installation that was interrupted starts again.
fn install(into: &Path) {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--upgrade", "--target"]);
    pip.arg(into).arg(format!("opensandbox=={VERSION}"));
    let done = pip.output().expect("python3 was there before");
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "pip could not install opensandbox {VERSION}:\n{errors}");
}

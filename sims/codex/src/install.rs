//! The real program: it comes from npm, once for all tests, and stays in `target/codex`.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version that our server and client are compared with.
pub const VERSION: &str = "0.169.0";

/// The environment variable with the path of an installed `codex`. With the value `required`, a
/// machine that cannot have codex is an error.
pub const VARIABLE: &str = "REKNIT_CODEX";

/// The path of the program in a folder that npm installed it to.
const PROGRAM: &str =
    "node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex";

/// Returns the path of codex, and installs it first if necessary. Without npm, or on another
/// platform than Linux on x86-64, it prints the reason and returns `None`.
///
/// # Panics
/// If npm fails, and if codex is required but this machine cannot have it.
pub fn codex() -> Option<PathBuf> {
    let wish = std::env::var_os(VARIABLE).filter(|wish| !wish.is_empty());
    let required = wish.as_ref().is_some_and(|wish| wish == "required");
    if let Some(path) = wish.filter(|_| !required).map(PathBuf::from) {
        assert!(path.is_file(), "{VARIABLE}: {} is not a file", path.display());
        return Some(path);
    }
    match installed() {
        Ok(path) => Some(path),
        Err(reason) => {
            assert!(!required, "{reason}");
            eprintln!("skipped, nothing was compared with codex: {reason}");
            None
        }
    }
}

/// Returns the folder for codex and for what its servers write.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/codex")
}

fn installed() -> Result<PathBuf, String> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Err(format!("codex {VERSION} is compared on Linux on x86-64 only"));
    }
    let folder = folder();
    fs::create_dir_all(&folder).expect("the target folder is writable");
    let lock = File::create(folder.join("lock")).expect("the target folder is writable");
    lock.lock().expect("a lock on a file"); // it ends with the file
    let complete = folder.join(VERSION);
    if !complete.exists() {
        let partial = folder.join(format!("{VERSION}.partial"));
        install(&partial)?;
        fs::rename(&partial, &complete).expect("the target folder is writable");
    }
    let program = complete.join(PROGRAM);
    assert!(program.is_file(), "npm installed no {}", program.display());
    Ok(program)
}

/// Runs npm. An installation that was interrupted continues.
fn install(into: &Path) -> Result<(), String> {
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-save", "--no-package-lock", "--no-audit", "--no-fund"]);
    npm.args(["--ignore-scripts", "--prefer-offline", "--loglevel=error"]);
    npm.arg("--prefix").arg(into).arg(format!("@openai/codex@{VERSION}"));
    fs::create_dir_all(into).expect("the target folder is writable");
    match npm.output() {
        Ok(done) if done.status.success() => Ok(()),
        Ok(done) => panic!(
            "npm could not install codex {VERSION}; {VARIABLE}=/path/to/codex names another copy:\n{}",
            String::from_utf8_lossy(&done.stderr)
        ),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err("npm is not installed; `apt-get install npm` brings it".into())
        }
        Err(error) => panic!("npm does not start: {error}"),
    }
}

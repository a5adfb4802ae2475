//! Directories that exist only so that a confined command cannot create them: something can be mounted
//! only on what exists.
//!
//! They are created before the start, and removed at the exit of the command, if they are empty.
//! Their removal ends their protection, so they stay while a process lives in the command's mount
//! namespace, and while another command of this program needs them.
//!
//! Limits: this module does not see a descendant that has made its own mount namespace. If the launcher
//! is not root, it does not see a descendant that hides its memory from debuggers. Another program
//! that confines commands in the same directory may remove the directories. If the launcher is
//! killed, they remain.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many commands of this program need each directory.
fn needed() -> MutexGuard<'static, BTreeMap<PathBuf, usize>> {
    static NEEDED: Mutex<BTreeMap<PathBuf, usize>> = Mutex::new(BTreeMap::new());
    NEEDED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether this is a placeholder of a command of this program.
pub(super) fn exist_at(path: &Path) -> bool {
    needed().contains_key(path)
}

/// The placeholders of one command. Dropping it removes them.
#[derive(Debug, Default)]
pub(super) struct Placeholders {
    paths: Vec<PathBuf>,
    /// The number of the command's mount namespace.
    namespace: Option<u64>,
}

impl Placeholders {
    /// Creates the directories.
    pub(super) fn create(paths: Vec<PathBuf>) -> io::Result<Self> {
        let mut created = Self::default();
        for path in paths {
            let mut needed = needed();
            match fs::create_dir(&path) {
                // Another program has just created it. It is protected, and stays.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    if !needed.contains_key(&path) {
                        continue;
                    }
                }
                made => made?,
            }
            *needed.entry(path.clone()).or_default() += 1;
            drop(needed);
            created.paths.push(path);
        }
        Ok(created)
    }

    /// Reads the number of the namespace, which the started command has reported.
    pub(super) fn started(&mut self, mut report: impl Read) -> io::Result<()> {
        let mut number = [0; size_of::<u64>()];
        report.read_exact(&mut number)?;
        self.namespace = Some(u64::from_ne_bytes(number));
        Ok(())
    }

    /// Removes them, unless a process is in the namespace. Called after the exit of the command.
    pub(super) fn remove_unused(&mut self) {
        if self.paths.is_empty() || self.namespace.is_some_and(is_inhabited) {
            return;
        }
        for path in self.paths.drain(..) {
            let mut needed = needed();
            let Some(count) = needed.get_mut(&path) else { continue };
            *count -= 1;
            if *count == 0 {
                needed.remove(&path);
                let _ = fs::remove_dir(&path); // fails if it is not empty
            }
        }
    }
}

impl Drop for Placeholders {
    fn drop(&mut self) {
        self.remove_unused();
    }
}

/// Whether a process is in this mount namespace.
fn is_inhabited(namespace: u64) -> bool {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|process| fs::metadata(process.path().join("ns/mnt")).ok())
        .any(|mounts| mounts.ino() == namespace)
}

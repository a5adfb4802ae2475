//! The open files of one connection.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use reknit_resume::Counted;
use reknit_seams::defect;
use reknit_seams::files::File;

use super::super::request_error::RequestError;
use crate::wire::code;
use crate::wire::files::{LONGEST_HANDLE_ID, OpenMode};

/// The open files of one connection, by the ids that the client chose.
pub(super) struct Handles {
    open: Mutex<BTreeMap<String, Arc<Handle>>>,
    most: usize,
    /// Counts the handles of all connections.
    counter: Arc<AtomicU64>,
}

/// An open file.
pub(super) struct Handle {
    pub(super) file: Box<dyn File>,
    /// The path that it was opened with.
    path: PathBuf,
    mode: OpenMode,
    _counted: Counted,
}

impl Handles {
    pub(super) fn new(most: usize, counter: &Arc<AtomicU64>) -> Self {
        Self { open: Mutex::default(), most, counter: counter.clone() }
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Handle>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how many handles count for the limit.
    fn count(&self) -> usize {
        if defect!(HandlesOfAllCount) {
            return self.counter.load(Ordering::Relaxed) as usize;
        }
        self.open().len()
    }

    /// Checks that a handle may be opened under an id.
    pub(super) fn check_new(&self, id: &str) -> Result<(), RequestError> {
        check_id(id)?;
        let refused = if self.open().contains_key(id) {
            format!("file handle `{id}` already exists")
        } else if self.count() >= self.most {
            format!("at most {} file handles may be open per connection", self.most)
        } else {
            return Ok(());
        };
        Err(RequestError::invalid_file_request(refused))
    }

    /// Adds an open file.
    pub(super) fn insert(
        &self,
        id: &str,
        file: Box<dyn File>,
        path: &Path,
        mode: OpenMode,
    ) -> Result<(), RequestError> {
        if !defect!(HandlesCheckedEarly) {
            self.check_new(id)?; // others may have been opened meanwhile
        }
        let path = path.to_owned();
        let handle = Handle { file, path, mode, _counted: Counted::new(&self.counter) };
        self.open().insert(id.to_owned(), Arc::new(handle));
        Ok(())
    }

    /// Returns the handle with an id, to use it as `mode` says.
    pub(super) fn get(&self, id: &str, mode: OpenMode) -> Result<Arc<Handle>, RequestError> {
        let id = id.chars().take(LONGEST_HANDLE_ID).collect::<String>();
        match self.open().get(&id) {
            None => Err(RequestError::File(code::NOT_FOUND, format!("unknown file handle `{id}`"))),
            Some(handle) if handle.mode == mode => Ok(handle.clone()),
            Some(_) => {
                let why = format!("file handle `{id}` is not open for this");
                Err(RequestError::File(code::INTERNAL, why))
            }
        }
    }

    /// Returns the path of an open file, and whether the handle changes it.
    pub(super) fn path(&self, id: &str) -> Option<(PathBuf, bool)> {
        let open = self.open();
        let handle = open.get(id)?;
        Some((handle.path.clone(), handle.mode == OpenMode::Replace))
    }

    /// Closes a handle, if there is one with this id.
    pub(super) fn close(&self, id: &str) {
        self.open().remove(id);
    }

    /// Closes all handles.
    pub(super) fn close_all(&self) {
        let all = std::mem::take(&mut *self.open());
        drop(all);
    }
}

/// Checks the length of an id.
pub(super) fn check_id(id: &str) -> Result<(), RequestError> {
    if id.len() <= LONGEST_HANDLE_ID {
        return Ok(());
    }
    let why = format!("file handle ID must not exceed {LONGEST_HANDLE_ID} bytes");
    Err(RequestError::invalid_file_request(why))
}

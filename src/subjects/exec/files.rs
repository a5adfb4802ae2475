//! The files of the exec server in a world.
//!
//! The user writes files whose content names its call, like a line to a process. `Recorded` wraps
//! the files of the server and records each written content as the effect of its call, and each
//! removal as an effect without a call. A read answers a `FileContent`, which names the call that
//! wrote it.
//!
//! `[file.NAME]` declares how long the first write to the file and its first read take ([`FileSetup`]).

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use super::answers::WrongBlock;
use crate::files::{Entry, File, Files, Links, Metadata, Open, PathPolicy};
use crate::history::content::PADDING;
use crate::history::{Answer, Call};
use crate::net::BoxFuture;
use crate::schedule::units::WrittenDuration;
use crate::schedule::{Operation, Plan};
use crate::subject::Recorder;
use reknit_exec::client::{Client, Failure};
use reknit_exec::wire::files::{BLOCK, OpenMode};

/// The key of the table of files: `file`, as in `[file.f1]`.
pub const TABLE: &str = "file";

/// A file of the server: an entry of `[file.NAME]`. It does not exist before its first write.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct FileSetup {
    /// How long the first write takes, because the disk hangs. The content changes at its end.
    pub hangs: WrittenDuration,
    /// How long the first read takes, because the disk hangs. It returns the content at its end.
    #[serde(skip_serializing_if = "WrittenDuration::is_zero")]
    pub reads_hang: WrittenDuration,
    /// The target of a symbolic link that exists with this name from the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub links_to: Option<PathBuf>,
}

/// Creates the links that a plan declares. They may exist since an earlier start of the host.
pub(super) async fn create_links(files: &dyn Files, plan: &Plan) {
    for (name, _) in plan.entries(TABLE) {
        let setup: FileSetup = plan.entry(TABLE, name).unwrap_or_default();
        if let Some(target) = setup.links_to {
            let _ = files.create_link(&target, &path(name)).await;
        }
    }
}

/// Returns how long the first write to the file of an operation and its first read take together.
pub(super) fn hangs(plan: &Plan, operation: &Operation) -> Duration {
    let setup = declared(plan, operation);
    setup.hangs.0 + setup.reads_hang.0
}

/// Returns how long the first write to the file of an operation takes.
pub(super) fn first_write(plan: &Plan, operation: &Operation) -> Duration {
    declared(plan, operation).hangs.0
}

fn declared(plan: &Plan, operation: &Operation) -> FileSetup {
    let file = operation.fields.get("file").and_then(|file| file.as_str());
    file.and_then(|file| plan.entry(TABLE, file)).unwrap_or_default()
}

/// The answer to a watch when its file has appeared.
pub(super) const APPEARED: &str = "it appeared";

/// The answer to a watch of a file that exists.
pub(super) const IS_THERE: &str = "it is not missing";

/// Returns the path of a file that an operation names.
pub(super) fn path(file: &str) -> PathBuf {
    Path::new("/").join(file)
}

/// The start of the target of each effect on a file.
pub(super) const TARGET: &str = "file ";

/// Returns the target of the effects on a path.
pub(super) fn target(path: &Path) -> String {
    format!("{TARGET}{}", path.display())
}

/// The content that the user read from a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct FileContent {
    /// The call that wrote it, as far as the content names one.
    pub(super) written_by: Option<u64>,
    /// Its length.
    pub(super) bytes: u64,
    /// Whether it is complete: nothing is missing, and nothing else follows.
    pub(super) whole: bool,
}

impl FileContent {
    /// Reads a content that [`calls::line`](crate::world::process::calls::line) wrote.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let digits = bytes.strip_prefix(b"#").unwrap_or_default();
        let end = digits.iter().position(|byte| *byte == b' ');
        let (number, rest) = digits.split_at(end.unwrap_or(0));
        let number = std::str::from_utf8(number).ok().and_then(|number| number.parse().ok());
        let whole =
            rest.split_last().zip(rest.split_first()).is_some_and(|((last, _), (_, padding))| {
                *last == b'\n' && padding[..padding.len() - 1].iter().all(|byte| *byte == PADDING)
            });
        Self { written_by: number, bytes: bytes.len() as u64, whole: whole && number.is_some() }
    }
}

impl fmt::Display for FileContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = if self.whole { "the content" } else { "a part" };
        match self.written_by {
            Some(call) => write!(f, "{part} of call {call}, {} bytes", self.bytes),
            None => write!(f, "{} bytes of no call", self.bytes),
        }
    }
}

/// Reads a file through a handle, which is then closed. Checks that each block says whether it is the
/// last one.
pub(super) async fn read_blocks(client: &Client, path: &Path) -> Result<Answer, Failure> {
    let file = client.files().open(path, OpenMode::Read).await?;
    let mut content = Vec::new();
    loop {
        let offset = content.len() as u64;
        let block = file.read_block(offset, BLOCK).await?;
        content.extend_from_slice(&block.chunk.0);
        if block.eof != (block.chunk.0.len() < BLOCK) {
            return Ok(WrongBlock(offset).into());
        }
        if block.eof {
            break;
        }
    }
    file.close().await?;
    Ok(FileContent::of(&content).into())
}

/// Files whose changes are recorded.
pub(super) struct Recorded {
    files: Arc<dyn Files>,
    record: Recorder,
    plan: Arc<Plan>,
    /// The files that were written (`false`) and those that were read (`true`).
    used: Arc<Mutex<BTreeSet<(PathBuf, bool)>>>,
}

impl Recorded {
    pub(super) fn new(files: Arc<dyn Files>, record: Recorder, plan: Arc<Plan>) -> Self {
        Self { files, record, plan, used: Arc::default() }
    }

    /// Waits as long as the next read of a file, or the next write to it, takes.
    async fn hang(&self, file: &Path, is_read: bool) {
        let takes = self.takes(file, is_read);
        if !takes.is_zero() {
            sleep(takes).await;
        }
    }

    /// Returns how long the next read of a file, or the next write to it, takes.
    fn takes(&self, file: &Path, is_read: bool) -> Duration {
        let name = file.file_name().and_then(|name| name.to_str());
        let name = name.filter(|name| path(name) == file);
        let setup: Option<FileSetup> = name.and_then(|name| self.plan.entry(TABLE, name));
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = used.insert((file.to_owned(), is_read));
        let first = |setup: FileSetup| if is_read { setup.reads_hang.0 } else { setup.hangs.0 };
        setup.filter(|_| is_first).map_or(Duration::ZERO, first)
    }
}

impl Files for Recorded {
    fn restricted(&self, links: Links, policy: Option<Arc<dyn PathPolicy>>) -> Arc<dyn Files> {
        Arc::new(Self {
            files: self.files.restricted(links, policy),
            record: self.record.clone(),
            plan: self.plan.clone(),
            used: self.used.clone(),
        })
    }

    fn open<'a>(&'a self, path: &'a Path, how: Open) -> BoxFuture<'a, io::Result<Box<dyn File>>> {
        Box::pin(async move {
            let is_read = how == Open::Read;
            // Before the file is emptied: the users of other sessions may read it meanwhile.
            if !is_read {
                self.hang(path, is_read).await;
            }
            let file = self.files.open(path, how).await?;
            // Only a file that is there hangs: a read that finds none is not the first one.
            if is_read {
                self.hang(path, is_read).await;
            }
            let (target, record) = (target(path), self.record.clone());
            Ok(Box::new(RecordedFile { file, target, record }) as Box<dyn File>)
        })
    }

    fn metadata<'a>(&'a self, path: &'a Path, follow: bool) -> BoxFuture<'a, io::Result<Metadata>> {
        self.files.metadata(path, follow)
    }

    fn canonicalize<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, io::Result<PathBuf>> {
        self.files.canonicalize(path)
    }

    fn entries<'a>(&'a self, path: &'a Path, most: usize) -> BoxFuture<'a, io::Result<Vec<Entry>>> {
        self.files.entries(path, most)
    }

    fn create_directory<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, io::Result<()>> {
        self.files.create_directory(path)
    }

    fn remove_file<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, io::Result<()>> {
        Box::pin(async move {
            self.files.remove_file(path).await?;
            self.record.effect(Call::NONE, target(path));
            Ok(())
        })
    }

    fn remove_directory<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, io::Result<()>> {
        self.files.remove_directory(path)
    }

    fn rename<'a>(&'a self, from: &'a Path, to: &'a Path) -> BoxFuture<'a, io::Result<()>> {
        self.files.rename(from, to)
    }

    fn create_link<'a>(
        &'a self,
        target: &'a Path,
        path: &'a Path,
    ) -> BoxFuture<'a, io::Result<()>> {
        self.files.create_link(target, path)
    }

    fn read_link<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, io::Result<PathBuf>> {
        self.files.read_link(path)
    }

    fn sync_directory<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, io::Result<()>> {
        self.files.sync_directory(path)
    }
}

/// An open file whose changes are recorded.
struct RecordedFile {
    file: Box<dyn File>,
    target: String,
    record: Recorder,
}

impl File for RecordedFile {
    fn metadata(&self) -> BoxFuture<'_, io::Result<Metadata>> {
        self.file.metadata()
    }

    fn read_at(&self, offset: u64, len: usize) -> BoxFuture<'_, io::Result<Vec<u8>>> {
        self.file.read_at(offset, len)
    }

    fn write_at(&self, offset: u64, bytes: Vec<u8>) -> BoxFuture<'_, io::Result<()>> {
        Box::pin(async move {
            let call = FileContent::of(&bytes).written_by.map_or(Call::NONE, Call);
            self.file.write_at(offset, bytes).await?;
            self.record.effect(call, &*self.target);
            Ok(())
        })
    }

    fn set_mode(&self, mode: u32) -> BoxFuture<'_, io::Result<()>> {
        self.file.set_mode(mode)
    }

    fn sync(&self) -> BoxFuture<'_, io::Result<()>> {
        self.file.sync()
    }

    fn try_lock(&self) -> BoxFuture<'_, io::Result<bool>> {
        self.file.try_lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::process::calls;

    #[test]
    fn a_content_names_its_call() {
        for bytes in [0, 5, 4096] {
            let line = calls::line(Call(12), bytes);
            let content = FileContent::of(&line);
            assert_eq!((content.written_by, content.whole), (Some(12), true), "{bytes}");
            for torn in [&line[..line.len() - 1], &line[1..], &[&*line, b"x"].concat()] {
                assert!(!FileContent::of(torn).whole, "{bytes}");
            }
        }
        let none = FileContent { written_by: None, bytes: 0, whole: false };
        assert_eq!(FileContent::of(b""), none);
    }
}

//! `use-files`: what a user does with the files of the server, one task after the other.
//!
//! Each task is one call of [`RemoteFiles`], or the calls about one open file. Its answer is a text that
//! contains all that the server said.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::answers::WrongTask;
use crate::history::{Answer, Call};
use crate::schedule::units::WrittenDuration;
use reknit_exec::client::{Client, Failure, RemoteFile, RemoteFiles};
use reknit_exec::wire::files::{MetadataResult, OpenMode, WalkEntryKind, WalkOptions, WalkResult};

/// One task with files. Paths are absolute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum FileTask {
    /// Creates a directory.
    #[serde(rename_all = "kebab-case")]
    CreateDirectory {
        /// Its path.
        path: PathBuf,
        /// Whether missing parents are created, too, and an existing directory is no error.
        #[serde(default)]
        parents: bool,
    },
    /// Writes a whole file.
    #[serde(rename_all = "kebab-case")]
    Write {
        /// Its path.
        path: PathBuf,
        /// Its content.
        text: String,
    },
    /// Reads a whole file.
    #[serde(rename_all = "kebab-case")]
    Read {
        /// Its path.
        path: PathBuf,
    },
    /// Opens a file, writes blocks, and closes it.
    #[serde(rename_all = "kebab-case")]
    WriteBlocks {
        /// Its path.
        path: PathBuf,
        /// The blocks: where each begins, and its text.
        blocks: Vec<(u64, String)>,
    },
    /// Opens a file, reads blocks, and closes it.
    #[serde(rename_all = "kebab-case")]
    ReadBlocks {
        /// Its path.
        path: PathBuf,
        /// The blocks: where each begins, and its length in bytes.
        blocks: Vec<(u64, usize)>,
    },
    /// Opens a file, and keeps it open until all tasks are done.
    #[serde(rename_all = "kebab-case")]
    Hold {
        /// Its path.
        path: PathBuf,
        /// Whether it is opened to be written.
        #[serde(default)]
        writes: bool,
    },
    /// Describes what is at a path.
    #[serde(rename_all = "kebab-case")]
    Describe {
        /// The path.
        path: PathBuf,
        /// Whether the answer contains its times.
        #[serde(default)]
        times: bool,
    },
    /// Returns a path without links.
    #[serde(rename_all = "kebab-case")]
    Resolve {
        /// The path.
        path: PathBuf,
    },
    /// Lists a directory.
    #[serde(rename_all = "kebab-case")]
    List {
        /// Its path.
        path: PathBuf,
    },
    /// Lists a directory and the directories in it.
    #[serde(rename_all = "kebab-case")]
    Walk {
        /// Its path.
        path: PathBuf,
        /// How many levels of directories are listed below the first.
        #[serde(default = "many")]
        depth: u64,
        /// How many directories are listed.
        #[serde(default = "many")]
        directories: u64,
        /// How many entries are returned.
        #[serde(default = "many")]
        entries: u64,
        /// Whether links to directories are returned, and followed.
        #[serde(default)]
        follows: bool,
        /// Whether directories with a name that begins with `.` are not listed.
        #[serde(default)]
        prunes: bool,
    },
    /// Copies a file, a link or a directory.
    #[serde(rename_all = "kebab-case")]
    Copy {
        /// The source.
        path: PathBuf,
        /// The path of the copy.
        to: PathBuf,
        /// Whether a directory may be copied.
        #[serde(default)]
        recursive: bool,
    },
    /// Removes a file, a link or a directory.
    #[serde(rename_all = "kebab-case")]
    Remove {
        /// Its path.
        path: PathBuf,
        /// Whether a directory is removed with its content.
        #[serde(default)]
        recursive: bool,
        /// Whether a missing path is no error.
        #[serde(default)]
        force: bool,
    },
    /// Waits until a missing path appears, or a present one disappears.
    #[serde(rename_all = "kebab-case")]
    Watch {
        /// The missing paths.
        missing: Vec<PathBuf>,
        /// The present path.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        present: Option<PathBuf>,
        /// How long the user waits.
        wait: WrittenDuration,
    },
}

fn many() -> u64 {
    64
}

/// The user of the tasks: the call, and what they may do.
pub(super) struct TaskUser {
    files: RemoteFiles,
    /// The directory of the tasks, without a slash at its end.
    root: String,
    held: Vec<RemoteFile>,
    /// The last refusal of a block.
    refused: Option<Failure>,
}

impl TaskUser {
    /// Creates the user of a call. With `apart`, the tasks have a directory of their own: their paths
    /// begin there.
    pub(super) fn new(client: &Client, call: Call, apart: bool, sandbox: Option<Value>) -> Self {
        let files = client.files();
        let files = match sandbox {
            Some(sandbox) => files.restricted(sandbox),
            None => files,
        };
        let root = if apart { format!("/of-call-{}", call.0) } else { String::new() };
        Self { files, root, held: Vec::new(), refused: None }
    }

    /// Does the tasks in their order, with a pause before each. Returns all answers, or the first one
    /// that is not as it must be. A refusal is an answer, too, if the scenario does not demand another.
    pub(super) async fn perform_all(
        mut self,
        tasks: &[FileTask],
        says: &[String],
        every: Duration,
    ) -> Result<Answer, Failure> {
        self.begin().await?;
        let mut answers = Vec::new();
        for (n, task) in tasks.iter().enumerate() {
            sleep(every).await;
            let outcome = self.answer(task).await;
            let said = match &outcome {
                Ok(said) => said.clone(),
                Err(Failure::Refused { code, message }) => {
                    format!("refused: {} ({code})", self.shown(message))
                }
                Err(failure) => return Err(failure.clone()),
            };
            if let Some(wanted) = says.get(n).filter(|wanted| **wanted != said) {
                let wanted = wanted.clone();
                if let Some(refusal) = self.refused.take() {
                    return Err(refusal);
                }
                return outcome.map(|_| WrongTask { task: n as u64 + 1, said, wanted }.into());
            }
            answers.push(said);
        }
        self.end().await?;
        Ok(answers.join("; ").into())
    }

    /// Creates the directory of the tasks.
    async fn begin(&self) -> Result<(), Failure> {
        if self.root.is_empty() {
            return Ok(());
        }
        self.files.create_directory(&self.root, true).await
    }

    /// Closes the files that are still open.
    async fn end(self) -> Result<(), Failure> {
        for file in self.held {
            file.close().await?;
        }
        Ok(())
    }

    /// Does one task.
    async fn answer(&mut self, task: &FileTask) -> Result<String, Failure> {
        let files = &self.files;
        let mut refused = None;
        Ok(match task {
            FileTask::CreateDirectory { path, parents } => {
                files.create_directory(self.at(path), *parents).await?;
                "created".into()
            }
            FileTask::Write { path, text } => {
                files.write_file(self.at(path), Bytes::from(text.clone())).await?;
                "written".into()
            }
            FileTask::Read { path } => text(&files.read_file(self.at(path)).await?),
            FileTask::WriteBlocks { path, blocks } => {
                let file = files.open(self.at(path), OpenMode::Replace).await?;
                let mut answers = Vec::new();
                for (offset, text) in blocks {
                    let written = file.write_block(*offset, Bytes::from(text.clone())).await;
                    answers.push(block_answer(written.map(|()| "written".into()), &mut refused)?);
                }
                file.close().await?;
                self.refused = refused;
                answers.join(", ")
            }
            FileTask::ReadBlocks { path, blocks } => {
                let file = files.open(self.at(path), OpenMode::Read).await?;
                let mut answers = Vec::new();
                for (offset, bytes) in blocks {
                    let read = file.read_block(*offset, *bytes).await.map(|block| {
                        let end = if block.eof { " and the end" } else { "" };
                        format!("{}{end}", text(&block.chunk.0))
                    });
                    answers.push(block_answer(read, &mut refused)?);
                }
                file.close().await?;
                self.refused = refused;
                answers.join(", ")
            }
            FileTask::Hold { path, writes } => {
                let mode = if *writes { OpenMode::Replace } else { OpenMode::Read };
                let file = files.open(self.at(path), mode).await?;
                self.held.push(file);
                "opened".into()
            }
            FileTask::Describe { path, times } => {
                described(&files.metadata(self.at(path)).await?, *times)
            }
            FileTask::Resolve { path } => {
                self.shown(&files.canonicalize(self.at(path)).await?.to_string())
            }
            FileTask::List { path } => {
                let mut entries = files.read_directory(self.at(path)).await?;
                entries.sort_by(|one, other| one.file_name.cmp(&other.file_name));
                let entry = |entry: &reknit_exec::wire::files::DirectoryEntry| {
                    format!("{} {}", kind(entry.is_file, entry.is_directory), entry.file_name)
                };
                listed(entries.iter().map(entry))
            }
            FileTask::Walk { path, depth, directories, entries, follows, prunes } => {
                let options = WalkOptions {
                    max_depth: *depth,
                    max_directories: *directories,
                    max_entries: *entries,
                    follow_directory_symlinks: *follows,
                    prune_hidden_directories: *prunes,
                };
                self.shown(&walked(&files.walk(self.at(path), options).await?))
            }
            FileTask::Copy { path, to, recursive } => {
                files.copy(self.at(path), self.at(to), *recursive).await?;
                "copied".into()
            }
            FileTask::Remove { path, recursive, force } => {
                files.remove(self.at(path), *recursive, *force).await?;
                "removed".into()
            }
            FileTask::Watch { missing, present, wait } => {
                let missing: Vec<PathBuf> = missing.iter().map(|path| self.at(path)).collect();
                let missing: Vec<&Path> = missing.iter().map(PathBuf::as_path).collect();
                let present = present.as_ref().map(|path| self.at(path));
                match files.watch_missing(&missing, present.as_deref()).await? {
                    None => "not watched".into(),
                    Some(watch) => match timeout(wait.0, watch.changed()).await {
                        Ok(changed) => changed.map(|()| "changed".into())?,
                        Err(_) => "unchanged".into(),
                    },
                }
            }
        })
    }

    /// Returns the path of a task on the server.
    fn at(&self, path: &Path) -> PathBuf {
        Path::new(&format!("{}{}", self.root, path.display())).to_owned()
    }

    /// Returns a text of the server, with the paths as the tasks name them.
    fn shown(&self, text: &str) -> String {
        if self.root.is_empty() { text.to_owned() } else { text.replace(&self.root, "") }
    }
}

/// The answer for one block. A refusal is an answer, too, and is kept in `refused`.
fn block_answer(
    answer: Result<String, Failure>,
    refused: &mut Option<Failure>,
) -> Result<String, Failure> {
    match answer {
        Err(Failure::Refused { code, message }) => {
            let said = format!("refused: {message} ({code})");
            *refused = Some(Failure::Refused { code, message });
            Ok(said)
        }
        answer => answer,
    }
}

/// Returns bytes as a text in quotes.
fn text(bytes: &[u8]) -> String {
    format!("{:?}", String::from_utf8_lossy(bytes))
}

fn kind(is_file: bool, is_directory: bool) -> &'static str {
    match (is_file, is_directory) {
        (true, false) => "file",
        (false, true) => "directory",
        (false, false) => "nothing known",
        (true, true) => "file and directory",
    }
}

fn described(found: &MetadataResult, times: bool) -> String {
    let link = if found.is_symlink { "link to a " } else { "" };
    let kind = kind(found.is_file, found.is_directory);
    // The size of a directory has no meaning.
    let size = if found.is_file { format!(" of {} bytes", found.size) } else { String::new() };
    let times = if times {
        format!(", created at {} ms, changed at {} ms", found.created_at_ms, found.modified_at_ms)
    } else {
        String::new()
    };
    format!("{link}{kind}{size}{times}")
}

fn walked(found: &WalkResult) -> String {
    let entry = |entry: &reknit_exec::wire::files::WalkEntry| {
        let kind = if entry.kind == WalkEntryKind::File { "file" } else { "directory" };
        format!("{kind} {}", entry.path)
    };
    let error = |error: &reknit_exec::wire::files::WalkError| {
        format!("error at {}: {}", error.path, error.message)
    };
    let more = found.truncated.then(|| "and more".to_owned());
    listed(found.entries.iter().map(entry).chain(found.errors.iter().map(error)).chain(more))
}

/// Joins the entries of a list.
fn listed(entries: impl Iterator<Item = String>) -> String {
    let entries: Vec<String> = entries.collect();
    if entries.is_empty() { "nothing".into() } else { entries.join(", ") }
}

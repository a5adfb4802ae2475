//! Files on the server's machine.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use reknit_seams::defect;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::command::RetryPolicy;
use super::line::CommandChannel;
use super::missing_watch::{MissingWatch, missing_watch};
use super::{Client, Failure};
use crate::wire::files::{
    CanonicalizeResult, CloseParams, CopyParams, CreateDirectoryParams, DirectoryEntry, Done,
    FileParams, MetadataResult, OpenMode, OpenParams, OpenResult, PathParams, ReadBlockParams,
    ReadBlockResult, ReadDirectoryResult, ReadFileResult, RemoveParams, WalkOptions, WalkParams,
    WalkResult, WatchMissingParams, WatchMissingResult, WriteBlockParams, WriteFileParams,
};
use crate::wire::{Base64, FilePath, method};

/// The files on the server's machine. Paths are absolute.
///
/// # Errors
/// Each call fails with [`Failure::Refused`] if the server could not do it: with the code
/// [`NOT_FOUND`](crate::wire::code::NOT_FOUND) if there is no such file, and
/// [`INVALID_REQUEST`](crate::wire::code::INVALID_REQUEST) if it is no regular file or not
/// permitted. It also fails with the errors of every call. A call that changes files, or uses an
/// open file, fails with [`Failure::ConnectionLost`] if the connection died before the answer:
/// whether it took effect is unknown.
#[derive(Clone)]
pub struct RemoteFiles {
    line: CommandChannel,
    sandbox: Option<Value>,
}

impl Client {
    /// Returns the files on the server's machine.
    pub fn files(&self) -> RemoteFiles {
        RemoteFiles { line: self.line.clone(), sandbox: None }
    }
}

impl RemoteFiles {
    /// Returns the same files with a restriction of what each further call may do: the content of
    /// a [`Sandbox`](crate::wire::sandbox::Sandbox).
    #[must_use]
    pub fn restricted(self, sandbox: Value) -> Self {
        Self { sandbox: Some(sandbox), ..self }
    }

    /// A call without effects: it is repeated on the next connection.
    async fn ask<R: DeserializeOwned>(
        &self,
        method: &'static str,
        params: &impl Serialize,
    ) -> Result<R, Failure> {
        self.line.call(RetryPolicy::Read, method, params, None, Duration::ZERO).await
    }

    /// A call with effects: it is never repeated.
    async fn change(&self, method: &'static str, params: &impl Serialize) -> Result<(), Failure> {
        let kind = if defect!(FileChangeReplayed) { RetryPolicy::Read } else { RetryPolicy::Other };
        let Done {} = self.line.call(kind, method, params, None, Duration::ZERO).await?;
        Ok(())
    }

    fn path_params(&self, path: &Path) -> PathParams {
        PathParams { path: FilePath::new(path), sandbox: self.sandbox.clone() }
    }

    fn file_params(&self, path: &Path) -> FileParams {
        let (path, sandbox) = (FilePath::new(path), self.sandbox.clone());
        FileParams { path, follow_symlinks: None, sandbox }
    }

    /// Reads a whole file. Its size is limited by the server, and by the largest message that
    /// this client accepts: see [`Failure::AnswerTooLong`].
    pub async fn read_file(&self, path: impl AsRef<Path>) -> Result<Bytes, Failure> {
        let params = self.file_params(path.as_ref());
        let result: ReadFileResult = self.ask(method::READ_FILE, &params).await?;
        Ok(result.data_base64.0)
    }

    /// Writes a whole file. It is created if it does not exist, and replaced in place otherwise.
    pub async fn write_file(&self, path: impl AsRef<Path>, content: Bytes) -> Result<(), Failure> {
        let encoded = serde_json::to_value(Base64(content))
            .map_err(|error| Failure::Malformed(error.to_string()))?;
        let params = WriteFileParams {
            path: FilePath::new(path),
            data_base64: encoded.as_str().unwrap_or_default().to_owned(),
            follow_symlinks: None,
            sandbox: self.sandbox.clone(),
        };
        self.change(method::WRITE_FILE, &params).await
    }

    /// Creates a directory. With `recursive`, missing parents are created, too, and an existing
    /// directory is no error.
    pub async fn create_directory(
        &self,
        path: impl AsRef<Path>,
        recursive: bool,
    ) -> Result<(), Failure> {
        let params = CreateDirectoryParams {
            path: FilePath::new(path),
            recursive: Some(recursive),
            follow_symlinks: None,
            sandbox: self.sandbox.clone(),
        };
        self.change(method::CREATE_DIRECTORY, &params).await
    }

    /// Describes what is at a path.
    pub async fn metadata(&self, path: impl AsRef<Path>) -> Result<MetadataResult, Failure> {
        self.ask(method::GET_METADATA, &self.file_params(path.as_ref())).await
    }

    /// Returns a path without links.
    pub async fn canonicalize(&self, path: impl AsRef<Path>) -> Result<FilePath, Failure> {
        let params = self.path_params(path.as_ref());
        let result: CanonicalizeResult = self.ask(method::CANONICALIZE, &params).await?;
        Ok(result.path)
    }

    /// Lists a directory.
    pub async fn read_directory(
        &self,
        path: impl AsRef<Path>,
    ) -> Result<Vec<DirectoryEntry>, Failure> {
        let params = self.path_params(path.as_ref());
        let result: ReadDirectoryResult = self.ask(method::READ_DIRECTORY, &params).await?;
        Ok(result.entries)
    }

    /// Lists a directory and the directories in it.
    pub async fn walk(
        &self,
        path: impl AsRef<Path>,
        options: WalkOptions,
    ) -> Result<WalkResult, Failure> {
        let params =
            WalkParams { path: FilePath::new(path), options, sandbox: self.sandbox.clone() };
        self.ask(method::WALK, &params).await
    }

    /// Removes a file, a link or a directory. With `recursive`, a directory is removed with its
    /// content; with `force`, a missing path is no error.
    pub async fn remove(
        &self,
        path: impl AsRef<Path>,
        recursive: bool,
        force: bool,
    ) -> Result<(), Failure> {
        let params = RemoveParams {
            path: FilePath::new(path),
            recursive: Some(recursive),
            force: Some(force),
            follow_symlinks: None,
            sandbox: self.sandbox.clone(),
        };
        self.change(method::REMOVE, &params).await
    }

    /// Copies a file, a link, or, with `recursive`, a directory.
    pub async fn copy(
        &self,
        from: impl AsRef<Path>,
        to: impl AsRef<Path>,
        recursive: bool,
    ) -> Result<(), Failure> {
        let params = CopyParams {
            source_path: FilePath::new(from),
            destination_path: FilePath::new(to),
            recursive,
            sandbox: self.sandbox.clone(),
        };
        self.change(method::COPY, &params).await
    }

    /// Opens a file. The open file belongs to the connection, and ends with it.
    pub async fn open(
        &self,
        path: impl AsRef<Path>,
        mode: OpenMode,
    ) -> Result<RemoteFile, Failure> {
        let id = self.line.handle_id();
        let params = OpenParams {
            handle_id: id.clone(),
            path: FilePath::new(path),
            mode,
            sandbox: self.sandbox.clone(),
        };
        let _: OpenResult =
            self.line.call(RetryPolicy::Other, method::OPEN, &params, None, Duration::ZERO).await?;
        Ok(RemoteFile { line: self.line.clone(), id })
    }

    /// Watches for files to appear: paths that do not exist, and one that exists. Returns `None` if
    /// the server does not watch them, for example because one of the paths does not have the
    /// stated state.
    pub async fn watch_missing(
        &self,
        missing: &[&Path],
        present: Option<&Path>,
    ) -> Result<Option<MissingWatch>, Failure> {
        let watch_id = self.line.watch_number();
        let (sender, watch) = missing_watch(watch_id);
        let params = WatchMissingParams {
            watch_id,
            missing: missing.iter().map(FilePath::new).collect(),
            present: present.map(FilePath::new),
        };
        let result: WatchMissingResult = self
            .line
            .call(RetryPolicy::Watch(sender), method::WATCH_MISSING, &params, None, Duration::ZERO)
            .await?;
        Ok(result.watching.then_some(watch))
    }
}

/// An open file on the server's machine. It belongs to the connection that opened it: after a lost
/// connection, each call is refused, because the server does not know the handle.
///
/// Dropping it does not close it: only [`close`](RemoteFile::close) and the end of the connection
/// do.
pub struct RemoteFile {
    line: CommandChannel,
    id: String,
}

impl RemoteFile {
    async fn call<R: DeserializeOwned>(
        &self,
        method: &'static str,
        params: &impl Serialize,
    ) -> Result<R, Failure> {
        self.line.call(RetryPolicy::Other, method, params, None, Duration::ZERO).await
    }

    /// Reads a block of 1 to [`BLOCK`](crate::wire::files::BLOCK) bytes.
    ///
    /// # Errors
    /// As in [`RemoteFiles`].
    pub async fn read_block(&self, offset: u64, len: usize) -> Result<ReadBlockResult, Failure> {
        let params = ReadBlockParams { handle_id: self.id.clone(), offset, len: len as u64 };
        self.call(method::READ_BLOCK, &params).await
    }

    /// Writes a block of 1 to [`BLOCK`](crate::wire::files::BLOCK) bytes.
    ///
    /// # Errors
    /// As in [`RemoteFiles`].
    pub async fn write_block(&self, offset: u64, bytes: Bytes) -> Result<(), Failure> {
        let params = WriteBlockParams { handle_id: self.id.clone(), offset, chunk: bytes.into() };
        let Done {} = self.call(method::WRITE_BLOCK, &params).await?;
        Ok(())
    }

    /// Closes the file.
    ///
    /// # Errors
    /// As in [`RemoteFiles`].
    pub async fn close(self) -> Result<(), Failure> {
        let params = CloseParams { handle_id: self.id.clone() };
        let Done {} = self.call(method::CLOSE, &params).await?;
        Ok(())
    }
}

//! One request.

use std::io;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use reknit_seams::env::Machine;
use reknit_seams::files::{Files, Kind, Links, Open};
use reknit_seams::{defect, milestone};
use serde::Serialize;
use serde_json::Value;

use super::super::registry::Shared;
use super::super::request_error::RequestError;
use super::handles::{Handles, check_id};
use super::request::{FileRequest, local};
use super::{policy, tree};
use crate::limits::ServerLimits;
use crate::wire::files::{
    BLOCK, CanonicalizeResult, CopyParams, CreateDirectoryParams, DirectoryEntry, Done, FileParams,
    MetadataResult, OpenMode, OpenParams, OpenResult, PathParams, ReadBlockParams, ReadBlockResult,
    ReadDirectoryResult, ReadFileResult, RemoveParams, WalkParams, WriteBlockParams,
    WriteFileParams,
};
use crate::wire::{FilePath, RequestId, method, response_text};

/// Performs one request.
pub(super) struct Performer {
    files: Arc<dyn Files>,
    machine: Arc<Machine>,
    limits: ServerLimits,
    handles: Arc<Handles>,
    id: RequestId,
}

impl Performer {
    pub(super) fn new(shared: &Shared, handles: &Arc<Handles>, id: RequestId) -> Self {
        Self {
            files: shared.env.files.clone(),
            machine: shared.env.machine.clone(),
            limits: shared.limits,
            handles: handles.clone(),
            id,
        }
    }

    /// Returns the files as the request may use them.
    async fn permitted(
        &self,
        follows: Option<bool>,
        sandbox: Option<&Value>,
    ) -> Result<Arc<dyn Files>, RequestError> {
        let links = if follows.unwrap_or(true) { Links::Follow } else { Links::Refuse };
        let policy = match sandbox {
            None => None,
            Some(sandbox) => policy::of(&*self.files, &self.machine, sandbox).await?,
        };
        Ok(self.files.restricted(links, policy))
    }

    /// Performs a request, and returns the rendered answer.
    pub(super) async fn perform(&self, request: FileRequest) -> Result<String, RequestError> {
        match request {
            FileRequest::ReadFile(params) => self.read_file(params).await,
            FileRequest::WriteFile(params) => self.write_file(params).await,
            FileRequest::CreateDirectory(params) => self.create_directory(params).await,
            FileRequest::GetMetadata(params) => self.metadata(params).await,
            FileRequest::Canonicalize(params) => self.canonicalize(params).await,
            FileRequest::ReadDirectory(params) => self.read_directory(params).await,
            FileRequest::Walk(params) => self.walk(params).await,
            FileRequest::Remove(params) => self.remove(params).await,
            FileRequest::Copy(params) => self.copy(params).await,
            FileRequest::Open(params) => self.open(params).await,
            FileRequest::ReadBlock(params) => self.read_block(params).await,
            FileRequest::WriteBlock(params) => self.write_block(params).await,
            FileRequest::Close(params) => {
                check_id(&params.handle_id)?;
                self.handles.close(&params.handle_id);
                Ok(self.answer(&Done {}))
            }
            FileRequest::Watch(_) => Ok(self.answer(&Done {})), // a watch is not performed here
        }
    }

    fn answer(&self, result: &impl Serialize) -> String {
        response_text(&self.id, result)
    }

    async fn read_file(&self, params: FileParams) -> Result<String, RequestError> {
        let files = self.permitted(params.follow_symlinks, params.sandbox.as_ref()).await?;
        let file = files.open(local(&params.path)?, Open::Read).await?;
        let most = self.limits.file_bytes;
        // The size of some files, as in /proc, is not known before they are read.
        let is_longer = file.metadata().await?.size > most as u64;
        let bytes = if is_longer { Vec::new() } else { file.read_at(0, most + 1).await? };
        if is_longer || bytes.len() > most {
            let why = format!("file is too large to read: limit is {most} bytes");
            return Err(RequestError::invalid_file_request(why));
        }
        Ok(self.answer(&ReadFileResult { data_base64: Bytes::from(bytes).into() }))
    }

    async fn write_file(&self, params: WriteFileParams) -> Result<String, RequestError> {
        let bytes = STANDARD.decode(&params.data_base64).map_err(|error| {
            let why = format!("{} requires valid base64 dataBase64: {error}", method::WRITE_FILE);
            RequestError::invalid_file_request(why)
        })?;
        let files = self.permitted(params.follow_symlinks, params.sandbox.as_ref()).await?;
        let path = local(&params.path)?;
        let file = files.open(path, Open::Replace).await?;
        if defect!(FileWriteTruncated) {
            let half = bytes[..bytes.len() / 2].to_vec();
            file.write_at(0, half).await?;
        } else {
            file.write_at(0, bytes).await?;
        }
        milestone!("exec.file.written", path = %path.display());
        Ok(self.answer(&Done {}))
    }

    async fn create_directory(
        &self,
        params: CreateDirectoryParams,
    ) -> Result<String, RequestError> {
        let files = self.permitted(params.follow_symlinks, params.sandbox.as_ref()).await?;
        let path = local(&params.path)?;
        if params.recursive.unwrap_or(true) {
            tree::create_directories(&*files, path).await?;
        } else {
            files.create_directory(path).await?;
        }
        Ok(self.answer(&Done {}))
    }

    async fn metadata(&self, params: FileParams) -> Result<String, RequestError> {
        let files = self.permitted(params.follow_symlinks, params.sandbox.as_ref()).await?;
        let path = local(&params.path)?;
        let own = files.metadata(path, false).await?;
        let is_symlink = own.kind == Kind::Link;
        if is_symlink && params.follow_symlinks == Some(false) {
            return Err(RequestError::invalid_file_request("the path is a symbolic link"));
        }
        let target = files.metadata(path, true).await?;
        Ok(self.answer(&MetadataResult {
            is_directory: target.kind == Kind::Directory,
            is_file: target.kind == Kind::File,
            is_symlink,
            size: if defect!(LinkHasItsOwnSize) { own.size } else { target.size },
            created_at_ms: millis(target.created),
            modified_at_ms: millis(if defect!(ChangedWhenCreated) {
                target.created
            } else {
                target.modified
            }),
        }))
    }

    async fn canonicalize(&self, params: PathParams) -> Result<String, RequestError> {
        let files = self.permitted(None, params.sandbox.as_ref()).await?;
        let real = files.canonicalize(local(&params.path)?).await?;
        Ok(self.answer(&CanonicalizeResult { path: FilePath::new(real) }))
    }

    async fn read_directory(&self, params: PathParams) -> Result<String, RequestError> {
        let files = self.permitted(None, params.sandbox.as_ref()).await?;
        let path = local(&params.path)?;
        let mut entries = Vec::new();
        for entry in files.entries(path, self.limits.directory_entries).await? {
            let kind = match entry.kind {
                Kind::Link => match files.metadata(&path.join(&entry.name), true).await {
                    Ok(target) => target.kind,
                    Err(_) => continue,
                },
                kind => kind,
            };
            entries.push(DirectoryEntry {
                file_name: entry.name.to_string_lossy().into_owned(),
                is_directory: kind == Kind::Directory,
                is_file: kind == Kind::File,
            });
        }
        Ok(self.answer(&ReadDirectoryResult { entries }))
    }

    async fn walk(&self, params: WalkParams) -> Result<String, RequestError> {
        tree::check(&params.options)?;
        let files = self.permitted(None, params.sandbox.as_ref()).await?;
        let found = tree::walk(&*files, local(&params.path)?, &params.options).await?;
        Ok(self.answer(&found))
    }

    async fn remove(&self, params: RemoveParams) -> Result<String, RequestError> {
        let files = self.permitted(params.follow_symlinks, params.sandbox.as_ref()).await?;
        let path = local(&params.path)?;
        match files.metadata(path, false).await {
            Err(error)
                if error.kind() == io::ErrorKind::NotFound && params.force.unwrap_or(true) => {}
            Err(error) => return Err(error.into()),
            Ok(it) if it.kind != Kind::Directory => files.remove_file(path).await?,
            Ok(_) if params.recursive.unwrap_or(true) => tree::remove(&*files, path).await?,
            Ok(_) => files.remove_directory(path).await?,
        }
        Ok(self.answer(&Done {}))
    }

    async fn copy(&self, params: CopyParams) -> Result<String, RequestError> {
        let files = self.permitted(None, params.sandbox.as_ref()).await?;
        let (from, to) = (local(&params.source_path)?, local(&params.destination_path)?);
        tree::copy(&*files, from, to, params.recursive).await?;
        Ok(self.answer(&Done {}))
    }

    async fn open(&self, params: OpenParams) -> Result<String, RequestError> {
        self.handles.check_new(&params.handle_id)?;
        let files = self.permitted(None, params.sandbox.as_ref()).await?;
        let how = match params.mode {
            OpenMode::Read => Open::Read,
            OpenMode::Replace => Open::Replace,
        };
        let path = local(&params.path)?;
        let file = files.open(path, how).await?;
        self.handles.insert(&params.handle_id, file, path, params.mode)?;
        milestone!("exec.file.opened", handle = params.handle_id.as_str());
        Ok(self.answer(&OpenResult { handle_id: params.handle_id }))
    }

    /// A handle whose read failed is closed; a handle whose write failed stays open. Codex 0.169.0
    /// does so, too.
    async fn read_block(&self, params: ReadBlockParams) -> Result<String, RequestError> {
        let len = usize::try_from(params.len).unwrap_or(usize::MAX);
        check_block("read", len)?;
        let offset = params.offset + u64::from(defect!(FileBlockShifted));
        let read = async {
            let handle = self.handles.get(&params.handle_id, OpenMode::Read)?;
            Ok::<_, RequestError>(handle.file.read_at(offset, len).await?)
        };
        let bytes = read.await.inspect_err(|_| self.handles.close(&params.handle_id))?;
        let eof = if defect!(EndOnlyBehindFile) { bytes.is_empty() } else { bytes.len() < len };
        Ok(self.answer(&ReadBlockResult { chunk: Bytes::from(bytes).into(), eof }))
    }

    async fn write_block(&self, params: WriteBlockParams) -> Result<String, RequestError> {
        let bytes = params.chunk.0;
        check_block("write", bytes.len())?;
        let end = params.offset.checked_add(bytes.len() as u64);
        if end.is_none_or(|end| i64::try_from(end).is_err()) {
            let why = "file write range exceeds the signed 64-bit file offset limit";
            return Err(RequestError::invalid_file_request(why));
        }
        let handle = self.handles.get(&params.handle_id, OpenMode::Replace);
        if handle.is_err() && defect!(WriteErrorClosesHandle) {
            self.handles.close(&params.handle_id);
        }
        handle?.file.write_at(params.offset, bytes.into()).await?;
        Ok(self.answer(&Done {}))
    }
}

fn check_block(use_: &str, len: usize) -> Result<(), RequestError> {
    if (1..=BLOCK).contains(&len) {
        return Ok(());
    }
    let why = format!("file {use_} block length must be between 1 and {BLOCK}");
    Err(RequestError::invalid_file_request(why))
}

fn millis(time: Option<SystemTime>) -> i64 {
    let since = time.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.and_then(|since| i64::try_from(since.as_millis()).ok()).unwrap_or(0)
}

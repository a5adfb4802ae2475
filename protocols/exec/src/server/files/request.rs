//! The requests of a client, and the paths that they use.

use std::path::{Path, PathBuf};

use reknit_seams::defect;
use serde_json::value::RawValue;

use super::super::request_error::RequestError;
use crate::wire::files::{
    CloseParams, CopyParams, CreateDirectoryParams, FileParams, OpenMode, OpenParams, PathParams,
    ReadBlockParams, RemoveParams, WalkParams, WatchMissingParams, WriteBlockParams,
    WriteFileParams,
};
use crate::wire::{FilePath, code, method, read};

/// The longest path in bytes, as in Linux.
const LONGEST_PATH: usize = 4096;

/// A request for files.
pub(in super::super) enum FileRequest {
    ReadFile(FileParams),
    WriteFile(WriteFileParams),
    CreateDirectory(CreateDirectoryParams),
    GetMetadata(FileParams),
    Canonicalize(PathParams),
    ReadDirectory(PathParams),
    Walk(WalkParams),
    Remove(RemoveParams),
    Copy(CopyParams),
    Open(OpenParams),
    ReadBlock(ReadBlockParams),
    WriteBlock(WriteBlockParams),
    Close(CloseParams),
    Watch(WatchMissingParams),
}

impl FileRequest {
    /// Reads a request; returns `None` if the method is none for files.
    pub(in super::super) fn read(
        method: &str,
        params: Option<&RawValue>,
    ) -> Result<Option<Self>, RequestError> {
        Ok(Some(match method {
            method::READ_FILE => Self::ReadFile(read(params)?),
            method::WRITE_FILE => Self::WriteFile(read(params)?),
            method::CREATE_DIRECTORY => Self::CreateDirectory(read(params)?),
            method::GET_METADATA => Self::GetMetadata(read(params)?),
            method::CANONICALIZE => Self::Canonicalize(read(params)?),
            method::READ_DIRECTORY => Self::ReadDirectory(read(params)?),
            method::WALK => Self::Walk(read(params)?),
            method::REMOVE if !defect!(RemoveUnknown) => Self::Remove(read(params)?),
            method::COPY => Self::Copy(read(params)?),
            method::OPEN => Self::Open(read(params)?),
            method::READ_BLOCK => Self::ReadBlock(read(params)?),
            method::WRITE_BLOCK => Self::WriteBlock(read(params)?),
            method::CLOSE => Self::Close(read(params)?),
            method::WATCH_MISSING => Self::Watch(read(params)?),
            _ => return Ok(None),
        }))
    }

    /// Returns what the request touches.
    pub(super) fn footprint(&self) -> Result<Footprint, RequestError> {
        let one = |path: &FilePath, writes| -> Result<Footprint, RequestError> {
            Ok(Footprint { paths: vec![(local(path)?.to_owned(), writes)], handle: None })
        };
        let handle = |id: &str| Footprint { paths: Vec::new(), handle: Some(id.to_owned()) };
        Ok(match self {
            Self::ReadFile(FileParams { path, .. })
            | Self::GetMetadata(FileParams { path, .. })
            | Self::Canonicalize(PathParams { path, .. })
            | Self::ReadDirectory(PathParams { path, .. })
            | Self::Walk(WalkParams { path, .. }) => one(path, false)?,
            Self::WriteFile(WriteFileParams { path, .. })
            | Self::CreateDirectory(CreateDirectoryParams { path, .. })
            | Self::Remove(RemoveParams { path, .. }) => one(path, true)?,
            Self::Copy(params) => {
                let mut both = one(&params.source_path, false)?;
                let target = local(&params.destination_path)?.to_owned();
                both.paths.push((target, !defect!(CopyTargetForgotten)));
                both
            }
            Self::Open(params) => Footprint {
                handle: Some(params.handle_id.clone()),
                ..one(
                    &params.path,
                    params.mode == OpenMode::Replace && !defect!(OpeningChangesNothing),
                )?
            },
            Self::ReadBlock(params) => handle(&params.handle_id),
            Self::WriteBlock(params) => handle(&params.handle_id),
            Self::Close(params) => handle(&params.handle_id),
            Self::Watch(_) => Footprint { paths: Vec::new(), handle: None },
        })
    }
}

/// Returns a path on this machine.
///
/// # Errors
/// If the path is on another machine, or too long.
pub(super) fn local(path: &FilePath) -> Result<&Path, RequestError> {
    let local =
        path.local().map_err(|error| RequestError::invalid_file_request(error.to_string()))?;
    if local.as_os_str().len() > LONGEST_PATH {
        return Err(RequestError::File(code::INTERNAL, "File name too long".to_owned()));
    }
    Ok(local)
}

/// The paths that a request uses.
#[derive(Clone, Debug, Default)]
pub(super) struct Footprint {
    /// The paths, and whether each is changed.
    pub(super) paths: Vec<(PathBuf, bool)>,
    pub(super) handle: Option<String>,
}

impl Footprint {
    /// Whether this request opens the handle.
    pub(super) fn opens(&self, handle: &str) -> bool {
        self.handle.as_deref() == Some(handle) && !self.paths.is_empty()
    }

    /// Whether the request changes something.
    pub(super) fn changes(&self) -> bool {
        self.paths.iter().any(|(_, writes)| *writes)
    }

    /// Whether two requests must be done in their order.
    pub(super) fn conflicts(&self, other: &Self) -> bool {
        let same_handle = self.handle.is_some() && self.handle == other.handle;
        same_handle
            || self.paths.iter().any(|(path, writes)| {
                other.paths.iter().any(|(other, other_writes)| {
                    (*writes || *other_writes)
                        && if defect!(OnlySamePathConflicts) {
                            path == other
                        } else {
                            path.starts_with(other) || other.starts_with(path)
                        }
                })
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn footprint(method: &str, params: serde_json::Value) -> Footprint {
        let params = serde_json::value::to_raw_value(&params).unwrap();
        FileRequest::read(method, Some(&params)).unwrap().unwrap().footprint().unwrap()
    }

    #[test]
    fn requests_conflict_if_one_changes_what_the_other_uses() {
        use serde_json::json;
        let reads = |path: &str| footprint(method::READ_FILE, json!({ "path": path }));
        let writes =
            |path: &str| footprint(method::WRITE_FILE, json!({ "path": path, "dataBase64": "" }));
        let removes = |path: &str| footprint(method::REMOVE, json!({ "path": path }));
        let block = |id: &str| {
            footprint(method::READ_BLOCK, json!({ "handleId": id, "offset": 0, "len": 1 }))
        };
        let (a, b, below) = ("file:///a", "file:///b", "file:///a/c");
        assert!(writes(a).conflicts(&reads(a)) && reads(a).conflicts(&writes(a)));
        assert!(removes(a).conflicts(&reads(below)) && reads(a).conflicts(&removes(below)));
        assert!(!reads(a).conflicts(&reads(a)) && !writes(a).conflicts(&writes(b)));
        assert!(!writes("file:///ab").conflicts(&writes(a)));
        assert!(block("h").conflicts(&block("h")) && !block("h").conflicts(&block("i")));
    }
}

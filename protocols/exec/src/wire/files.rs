//! The family of files, `fs/*`, as codex 0.169.0 has it. All paths are [`FilePath`]s.
//!
//! `sandbox` is the content of [`Sandbox`](super::sandbox::Sandbox); without it, or if it is
//! `null`, the request may do what the server may do. `followSymlinks` is `true` by default.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Base64, FilePath};

/// The parameters of `fs/canonicalize` and `fs/readDirectory`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathParams {
    /// The path.
    pub path: FilePath,
    /// The permissions of the request.
    #[serde(default)]
    pub sandbox: Option<Value>,
}

/// The parameters of `fs/readFile` and `fs/getMetadata`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileParams {
    /// The path.
    pub path: FilePath,
    /// Whether links are followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follow_symlinks: Option<bool>,
    /// The permissions of the request.
    #[serde(default)]
    pub sandbox: Option<Value>,
}

/// The result of `fs/readFile`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadFileResult {
    /// The whole content.
    pub data_base64: Base64,
}

/// The parameters of `fs/writeFile`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WriteFileParams {
    /// The path. The file is created if it does not exist, and replaced in place otherwise.
    pub path: FilePath,
    /// The whole content. It is a text here, because invalid base64 has a separate error code.
    pub data_base64: String,
    /// Whether links are followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follow_symlinks: Option<bool>,
    /// The permissions of the request.
    #[serde(default)]
    pub sandbox: Option<Value>,
}

/// The result of `fs/writeFile`, `createDirectory`, `remove`, `copy`, `writeBlock` and `close`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {}

/// The parameters of `fs/createDirectory`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateDirectoryParams {
    /// The path.
    pub path: FilePath,
    /// Whether missing parents are created, too, and an existing directory is no error; by default
    /// `true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recursive: Option<bool>,
    /// Whether links are followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follow_symlinks: Option<bool>,
    /// The permissions of the request.
    #[serde(default)]
    pub sandbox: Option<Value>,
}

/// The result of `fs/getMetadata`. If the path is a link, it describes the target, except
/// `is_symlink`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MetadataResult {
    /// Whether it is a directory.
    pub is_directory: bool,
    /// Whether it is a regular file.
    pub is_file: bool,
    /// Whether the path is a link.
    pub is_symlink: bool,
    /// The length in bytes.
    pub size: u64,
    /// When it was created, in milliseconds since 1970; 0 if that is unknown.
    pub created_at_ms: i64,
    /// When its content last changed, in milliseconds since 1970; 0 if that is unknown.
    pub modified_at_ms: i64,
}

/// The result of `fs/canonicalize`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CanonicalizeResult {
    /// The path without links.
    pub path: FilePath,
}

/// The result of `fs/readDirectory`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadDirectoryResult {
    /// The entries, in no particular order. A link to nothing is left out.
    pub entries: Vec<DirectoryEntry>,
}

/// An entry of a directory. Links are followed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DirectoryEntry {
    /// Its name. Bytes that are not UTF-8 are replaced.
    pub file_name: String,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// Whether it is a regular file.
    pub is_file: bool,
}

/// The parameters of `fs/walk`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WalkParams {
    /// Where the walk begins. The walk of a file is empty.
    pub path: FilePath,
    /// The entries that the walk visits.
    pub options: WalkOptions,
    /// The permissions of the request.
    #[serde(default)]
    pub sandbox: Option<Value>,
}

/// The entries that a walk visits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WalkOptions {
    /// How many levels of directories are listed below the first.
    pub max_depth: u64,
    /// How many directories are listed.
    pub max_directories: u64,
    /// How many entries are returned.
    pub max_entries: u64,
    /// Whether links to directories are returned, and followed. No directory is listed twice.
    pub follow_directory_symlinks: bool,
    /// Whether directories with a name that begins with `.` are returned, but not listed.
    #[serde(default)]
    pub prune_hidden_directories: bool,
}

/// The result of `fs/walk`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WalkResult {
    /// The files and directories, level by level; those of one directory in the order of their
    /// names.
    pub entries: Vec<WalkEntry>,
    /// The entry that could not be visited.
    pub errors: Vec<WalkError>,
    /// Whether a limit ended the walk.
    pub truncated: bool,
}

/// The result of a walk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WalkEntry {
    /// Its path.
    pub path: FilePath,
    /// Its kind.
    pub kind: WalkEntryKind,
}

/// The result of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WalkEntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
}

/// An entry that a walk could not visit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WalkError {
    /// Its path.
    pub path: FilePath,
    /// The reason.
    pub message: String,
}

/// The parameters of `fs/remove`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RemoveParams {
    /// The path. A link is removed itself, not its target.
    pub path: FilePath,
    /// Whether a directory is removed with its content; by default `true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recursive: Option<bool>,
    /// Whether a missing path is no error; by default `true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
    /// Whether links to directories are followed on the way to the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follow_symlinks: Option<bool>,
    /// The permissions of the request.
    #[serde(default)]
    pub sandbox: Option<Value>,
}

/// The parameters of `fs/copy`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CopyParams {
    /// The source: a file, a link itself, or a directory.
    pub source_path: FilePath,
    /// The path of the copy. A file is replaced; a directory is merged into an existing one.
    pub destination_path: FilePath,
    /// Whether a directory may be copied.
    pub recursive: bool,
    /// The permissions of the request.
    #[serde(default)]
    pub sandbox: Option<Value>,
}

/// The parameters of `fs/open`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenParams {
    /// The id that the client chooses for the handle; it must be unused on the connection.
    pub handle_id: String,
    /// The path.
    pub path: FilePath,
    /// The use of the handle.
    #[serde(default)]
    pub mode: OpenMode,
    /// The permissions of the request.
    #[serde(default)]
    pub sandbox: Option<Value>,
}

/// The use of a handle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OpenMode {
    /// To read the file.
    #[default]
    Read,
    /// To write the file. It is emptied, or created, when it is opened: a reader can see it while
    /// it is incomplete.
    Replace,
}

/// The result of `fs/open`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenResult {
    /// The id of the handle.
    pub handle_id: String,
}

/// The parameters of `fs/readBlock`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadBlockParams {
    /// The handle.
    pub handle_id: String,
    /// Where the block begins.
    pub offset: u64,
    /// The length of the block in bytes, from 1 to [`BLOCK`].
    pub len: u64,
}

/// The result of `fs/readBlock`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadBlockResult {
    /// The bytes: fewer than requested only at the end of the file.
    pub chunk: Base64,
    /// Whether the block is shorter than requested.
    pub eof: bool,
}

/// The parameters of `fs/writeBlock`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WriteBlockParams {
    /// The handle.
    pub handle_id: String,
    /// Where the block begins.
    pub offset: u64,
    /// The bytes, from 1 to [`BLOCK`].
    pub chunk: Base64,
}

/// The parameters of `fs/close`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CloseParams {
    /// The handle. An unknown handle is no error.
    pub handle_id: String,
}

/// The parameters of `fs/watchMissing`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WatchMissingParams {
    /// The id that the client chooses for the watch: higher than 0, and than every earlier one of
    /// the connection.
    pub watch_id: u64,
    /// Paths that do not exist.
    pub missing: Vec<FilePath>,
    /// A path that exists, and is no link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub present: Option<FilePath>,
}

/// The result of `fs/watchMissing`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchMissingResult {
    /// Whether the server watches the paths. Otherwise the state of the paths is not as the client
    /// says, or there are too many.
    pub watching: bool,
}

/// The parameters of `fs/missingChanged`: one of the paths of a watch appeared, or the present one
/// disappeared. The watch is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MissingChanged {
    /// The watch.
    pub watch_id: u64,
}

/// The largest block in bytes.
pub const BLOCK: usize = 1 << 20;

/// The longest id of a handle in bytes.
pub const LONGEST_HANDLE_ID: usize = 32;

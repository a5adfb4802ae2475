//! The requests that visit many files: create directories, walk, remove, copy.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};

use reknit_seams::defect;
use reknit_seams::files::{Entry, Files, Kind, Links, Open};

use super::super::request_error::RequestError;
use crate::wire::FilePath;
use crate::wire::files::{BLOCK, WalkEntry, WalkEntryKind, WalkError, WalkOptions, WalkResult};

/// The largest limits of a walk, as in codex 0.169.0.
const DEPTH: u64 = 64;
const DIRECTORIES: u64 = 10_000;
const ENTRIES: u64 = 50_000;

/// How many bytes of paths a walk returns.
const WALK_BYTES: usize = 4 << 20;

/// How many entries one directory may have that is walked, removed or copied.
const LARGEST_DIRECTORY: usize = 1 << 20;

/// How many directories deep a tree may be that is removed or copied.
const DEEPEST: usize = 1024;

fn invalid(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why.into())
}

/// Creates a directory and its missing parents. An existing directory is no error.
pub(super) async fn create_directories(files: &dyn Files, path: &Path) -> io::Result<()> {
    let mut missing: Vec<&Path> = Vec::new();
    for ancestor in path.ancestors() {
        match files.metadata(ancestor, true).await {
            Ok(it) if it.kind == Kind::Directory => break,
            Ok(_) if defect!(FileTakenForDirectory) => break,
            Ok(_) if missing.is_empty() => return Err(io::ErrorKind::AlreadyExists.into()),
            Ok(_) => return Err(io::ErrorKind::NotADirectory.into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => missing.push(ancestor),
            Err(error) => return Err(error),
        }
    }
    for path in missing.into_iter().rev() {
        match files.create_directory(path).await {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // Another program was faster, or it is a link to nothing.
                if files.metadata(path, true).await.ok().map(|it| it.kind) != Some(Kind::Directory)
                {
                    return Err(error);
                }
            }
            created => created?,
        }
    }
    Ok(())
}

/// Checks the limits of a walk.
pub(super) fn check(options: &WalkOptions) -> Result<(), RequestError> {
    let WalkOptions { max_depth, max_directories, max_entries, .. } = *options;
    if max_directories == 0 || max_entries == 0 {
        let why = "filesystem walk limits must be greater than zero";
        return Err(RequestError::invalid_file_request(why));
    }
    if max_depth > DEPTH || max_directories > DIRECTORIES || max_entries > ENTRIES {
        return Err(RequestError::invalid_file_request(format!(
            "filesystem walk limits exceed maximums: depth={DEPTH}, directories={DIRECTORIES}, entries={ENTRIES}"
        )));
    }
    Ok(())
}

/// Lists a directory and the directories in it, level by level.
pub(super) async fn walk(
    files: &dyn Files,
    root: &Path,
    options: &WalkOptions,
) -> io::Result<WalkResult> {
    let mut result = WalkResult::default();
    let start = files.metadata(root, true).await?;
    let is_link = files.metadata(root, false).await?.kind == Kind::Link;
    if start.kind != Kind::Directory || is_link && !options.follow_directory_symlinks {
        return Ok(result);
    }
    let mut walk = Walk { options, files, bytes: 0, seen: BTreeSet::from([start.id]) };
    let mut queue = VecDeque::from([(root.to_owned(), 0)]);
    let mut listed = 0;
    while let Some((directory, depth)) = queue.pop_front() {
        if listed == options.max_directories {
            result.truncated = true;
            break;
        }
        listed += 1;
        let deeper = depth < options.max_depth;
        let found = match files.entries(&directory, LARGEST_DIRECTORY).await {
            Ok(found) => found,
            Err(error) if depth == 0 => return Err(error),
            Err(error) => {
                walk.report(&mut result, directory, &error);
                continue;
            }
        };
        let below = walk.list(&directory, found, &mut result).await;
        if result.truncated {
            break;
        }
        if deeper {
            queue.extend(below.into_iter().map(|path| (path, depth + 1)));
        }
    }
    Ok(result)
}

struct Walk<'a> {
    options: &'a WalkOptions,
    files: &'a dyn Files,
    /// The bytes of the paths so far.
    bytes: usize,
    /// The directories that were found.
    seen: BTreeSet<(u64, u64)>,
}

impl Walk<'_> {
    /// Adds the entries of one directory to the result. Returns the directories to list.
    async fn list(
        &mut self,
        directory: &Path,
        mut found: Vec<Entry>,
        result: &mut WalkResult,
    ) -> Vec<PathBuf> {
        let mut below = Vec::new();
        found.sort();
        for entry in found {
            let path = directory.join(&entry.name);
            let kind = match entry.kind {
                Kind::File => WalkEntryKind::File,
                Kind::Other => continue,
                Kind::Link if !self.options.follow_directory_symlinks => continue,
                Kind::Directory | Kind::Link => WalkEntryKind::Directory,
            };
            let mut listed = false;
            if kind == WalkEntryKind::Directory {
                match self.files.metadata(&path, true).await {
                    Ok(it) if it.kind == Kind::Directory => {
                        listed = self.seen.insert(it.id) || defect!(WalkEntersLoop)
                    }
                    Err(error) if entry.kind == Kind::Directory => {
                        self.report(result, path, &error);
                        continue;
                    }
                    _ => continue, // a link to a file, or to nothing
                }
            }
            self.bytes += path.as_os_str().len();
            let full = result.entries.len() as u64 == self.options.max_entries;
            if full || self.bytes > WALK_BYTES {
                result.truncated = true;
                return below;
            }
            result.entries.push(WalkEntry { path: FilePath::new(&path), kind });
            let is_last = result.entries.len() as u64 == self.options.max_entries;
            if is_last && defect!(FullWalkIsTruncated) {
                result.truncated = true;
                return below;
            }
            let hidden = entry.name.as_encoded_bytes().starts_with(b".");
            if listed && !(hidden && self.options.prune_hidden_directories) {
                below.push(path);
            }
        }
        below
    }

    fn report(&mut self, result: &mut WalkResult, path: PathBuf, error: &io::Error) {
        self.bytes += path.as_os_str().len();
        if self.bytes > WALK_BYTES {
            result.truncated = true;
        } else {
            let message = error.to_string();
            result.errors.push(WalkError { path: FilePath::new(path), message });
        }
    }
}

/// Removes a directory with its content. A directory that becomes a link meanwhile is not entered. A
/// directory that may not be removed keeps its content.
pub(super) async fn remove(files: &dyn Files, path: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::ResourceBusy.into());
    };
    let root = files.canonicalize(parent).await?.join(name);
    let files = files.restricted(Links::Refuse, None);
    match files.remove_directory(&root).await {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
        removed => return removed,
    }
    let mut open = vec![(root, false)];
    while let Some((path, emptied)) = open.pop() {
        if emptied {
            files.remove_directory(&path).await?;
            continue;
        }
        let entries = files.entries(&path, LARGEST_DIRECTORY).await?;
        open.push((path.clone(), true));
        if open.iter().filter(|(_, emptied)| *emptied).count() > DEEPEST {
            return Err(invalid("the directory is too deep"));
        }
        for entry in entries {
            let path = path.join(&entry.name);
            if entry.kind == Kind::Directory {
                open.push((path, false));
            } else {
                files.remove_file(&path).await?;
            }
        }
    }
    Ok(())
}

/// Copies a file, a link itself, or a directory with its content.
pub(super) async fn copy(
    files: &dyn Files,
    from: &Path,
    to: &Path,
    recursive: bool,
) -> io::Result<()> {
    match files.metadata(from, false).await?.kind {
        Kind::Directory if !recursive => {
            Err(invalid("fs/copy requires recursive: true when sourcePath is a directory"))
        }
        Kind::Directory => {
            let (source, target) = (files.canonicalize(from).await?, resolved(files, to).await?);
            if target.starts_with(&source) && !defect!(CopiedIntoItself) {
                let why = "fs/copy cannot copy a directory to itself or one of its descendants";
                return Err(invalid(why));
            }
            copy_directory(files, source, target).await
        }
        kind => copy_one(files, from, to, kind).await,
    }
}

async fn copy_directory(files: &dyn Files, from: PathBuf, to: PathBuf) -> io::Result<()> {
    let mut open = vec![(from, to, 0)];
    while let Some((from, to, depth)) = open.pop() {
        if depth > DEEPEST {
            return Err(invalid("the directory is too deep"));
        }
        create_directories(files, &to).await?;
        for entry in files.entries(&from, LARGEST_DIRECTORY).await? {
            let (from, to) = (from.join(&entry.name), to.join(&entry.name));
            match entry.kind {
                Kind::Directory => open.push((from, to, depth + 1)),
                Kind::Other => {}
                kind => copy_one(files, &from, &to, kind).await?,
            }
        }
    }
    Ok(())
}

/// Copies a file or a link.
async fn copy_one(files: &dyn Files, from: &Path, to: &Path, kind: Kind) -> io::Result<()> {
    match kind {
        Kind::Link => files.create_link(&files.read_link(from).await?, to).await,
        Kind::File => copy_file(files, from, to).await,
        Kind::Directory | Kind::Other => {
            Err(invalid("fs/copy only supports regular files, directories, and symlinks"))
        }
    }
}

async fn copy_file(files: &dyn Files, from: &Path, to: &Path) -> io::Result<()> {
    let source = files.open(from, Open::Read).await?;
    let described = source.metadata().await?;
    if files.metadata(to, true).await.is_ok_and(|target| target.id == described.id)
        && !defect!(CopyEmptiesItself)
    {
        return Ok(()); // to empty the target would empty the source
    }
    let target = files.open(to, Open::Replace).await?;
    let mut offset = 0;
    loop {
        let bytes = source.read_at(offset, BLOCK).await?;
        if bytes.is_empty() {
            return target.set_mode(described.mode).await;
        }
        let read = bytes.len() as u64;
        target.write_at(offset, bytes).await?;
        offset += read;
    }
}

/// Returns a path without links, of which the end need not exist.
pub(super) async fn resolved(files: &dyn Files, path: &Path) -> io::Result<PathBuf> {
    for ancestor in path.ancestors() {
        match files.canonicalize(ancestor).await {
            Ok(real) => {
                let rest = path.strip_prefix(ancestor).unwrap_or(Path::new(""));
                return Ok(if rest.as_os_str().is_empty() { real } else { real.join(rest) });
            }
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(path.to_owned())
}

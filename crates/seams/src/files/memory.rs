//! [`Memory`]: files in memory, for simulations and unit tests.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use super::{Access, Entry, File, Files, Kind, Links, Metadata, Open, PathPolicy, Restrictions};
use crate::env::WallClock;
use crate::net::BoxFuture;

mod socket;

/// How many links one path may follow, as in Linux.
const MOST_LINKS: usize = 40;

/// Files in memory. A clone has the same files. Each call completes at once, in one step. Nothing is
/// lost when the program that uses the files crashes. If the files
/// [track what is synced](Self::tracking_syncs), a [loss of power](Self::lose_unsynced) can lose the
/// rest.
///
/// Permission bits are kept, but do not restrict anything.
#[derive(Clone)]
pub struct Memory {
    tree: Arc<Mutex<Tree>>,
    clock: Arc<dyn WallClock>,
    restrictions: Restrictions,
}

struct Tree {
    root: Node,
    /// The identity of the newest node.
    newest: u64,
    /// Whether the nodes track what is synced.
    tracks: bool,
}

#[derive(Clone)]
enum Node {
    File(Arc<Mutex<Content>>),
    Directory(Directory),
    Link {
        target: PathBuf,
        id: u64,
    },
    /// The file of a unix socket.
    Socket {
        id: u64,
        modified: SystemTime,
    },
}

#[derive(Clone)]
struct Directory {
    entries: BTreeMap<OsString, Node>,
    /// The entries at the last sync, if they are tracked.
    synced: Option<BTreeMap<OsString, Node>>,
    id: u64,
    modified: SystemTime,
}

struct Content {
    bytes: Vec<u8>,
    /// The bytes at the last sync, if they are tracked.
    synced: Option<Vec<u8>>,
    mode: u32,
    id: u64,
    created: SystemTime,
    modified: SystemTime,
    locked: bool,
}

/// Where a path leads, without links.
enum Resolved {
    Found(PathBuf),
    /// Its directory exists, but the last name does not.
    Missing(PathBuf),
    /// Its directory does not exist, or is none.
    Nowhere(PathBuf, io::ErrorKind),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn error(kind: io::ErrorKind) -> io::Error {
    kind.into()
}

fn too_many_links() -> io::Error {
    io::Error::other("too many links")
}

impl Tree {
    fn new_id(&mut self) -> u64 {
        self.newest += 1;
        self.newest
    }

    /// Returns the node at a path without links.
    fn node(&self, real: &Path) -> io::Result<&Node> {
        let mut node = &self.root;
        for name in names(real) {
            let Node::Directory(directory) = node else {
                return Err(error(io::ErrorKind::NotADirectory));
            };
            node = directory.entries.get(name).ok_or(io::ErrorKind::NotFound)?;
        }
        Ok(node)
    }

    /// Returns the node at a path without links, to change it.
    fn node_mut(&mut self, real: &Path) -> io::Result<&mut Node> {
        let mut node = &mut self.root;
        for name in names(real) {
            let Node::Directory(directory) = node else {
                return Err(error(io::ErrorKind::NotADirectory));
            };
            node = directory.entries.get_mut(name).ok_or(io::ErrorKind::NotFound)?;
        }
        Ok(node)
    }

    /// Returns the entries of a directory at a path without links, to change them.
    fn entries(
        &mut self,
        real: &Path,
        now: SystemTime,
    ) -> io::Result<&mut BTreeMap<OsString, Node>> {
        let Node::Directory(directory) = self.node_mut(real)? else {
            return Err(error(io::ErrorKind::NotADirectory));
        };
        directory.modified = now;
        Ok(&mut directory.entries)
    }

    fn resolve(&self, path: &Path, follow: bool, links: Links) -> io::Result<Resolved> {
        let mut rest: VecDeque<OsString> = pieces(path)?;
        let (mut real, mut followed) = (PathBuf::from("/"), 0);
        while let Some(name) = rest.pop_front() {
            if name == ".." {
                real.pop();
                continue;
            }
            let nowhere = |name, why| {
                let real = rest.iter().fold(real.join(name), |path, name| path.join(name));
                Ok(Resolved::Nowhere(real, why))
            };
            let Node::Directory(directory) = self.node(&real)? else {
                return nowhere(name, io::ErrorKind::NotADirectory);
            };
            match directory.entries.get(&name) {
                None if rest.is_empty() => return Ok(Resolved::Missing(real.join(name))),
                None => return nowhere(name, io::ErrorKind::NotFound),
                Some(Node::Link { target, .. }) if follow || !rest.is_empty() => {
                    followed += 1;
                    if links == Links::Refuse || followed > MOST_LINKS {
                        return Err(too_many_links());
                    }
                    if target.is_absolute() {
                        real = PathBuf::from("/");
                    }
                    pieces(target)?.into_iter().rev().for_each(|name| rest.push_front(name));
                }
                Some(_) => real.push(name),
            }
        }
        Ok(Resolved::Found(real))
    }
}

/// The names of a path without links.
fn names(real: &Path) -> impl Iterator<Item = &OsStr> {
    real.components().filter_map(|piece| match piece {
        Component::Normal(name) => Some(name),
        _ => None,
    })
}

/// The names of a path, and `..` for each step back.
fn pieces(path: &Path) -> io::Result<VecDeque<OsString>> {
    path.components()
        .filter(|piece| !matches!(piece, Component::RootDir | Component::CurDir))
        .map(|piece| match piece {
            Component::Normal(name) => Ok(name.to_owned()),
            Component::ParentDir => Ok("..".into()),
            _ => Err(error(io::ErrorKind::InvalidInput)),
        })
        .collect()
}

fn kind_of(node: &Node) -> Kind {
    match node {
        Node::File(_) => Kind::File,
        Node::Directory(_) => Kind::Directory,
        Node::Link { .. } => Kind::Link,
        Node::Socket { .. } => Kind::Other,
    }
}

fn metadata_of(node: &Node) -> Metadata {
    let plain = |kind, size, modified, id| Metadata {
        kind,
        size,
        created: None,
        modified,
        mode: 0o777,
        id: (0, id),
    };
    match node {
        Node::File(content) => lock(content).metadata(),
        Node::Directory(Directory { id, modified, .. }) => {
            plain(Kind::Directory, 0, Some(*modified), *id)
        }
        Node::Link { target, id } => plain(Kind::Link, target.as_os_str().len() as u64, None, *id),
        Node::Socket { id, modified } => {
            Metadata { mode: 0o600, ..plain(Kind::Other, 0, Some(*modified), *id) }
        }
    }
}

impl Content {
    fn metadata(&self) -> Metadata {
        Metadata {
            kind: Kind::File,
            size: self.bytes.len() as u64,
            created: Some(self.created),
            modified: Some(self.modified),
            mode: self.mode,
            id: (0, self.id),
        }
    }
}

impl Content {
    fn sync(&mut self) {
        if let Some(synced) = &mut self.synced {
            synced.clone_from(&self.bytes);
        }
    }

    /// Keeps the synced bytes, or all bytes, or the beginning of the new bytes over the synced ones.
    fn lose_unsynced(&mut self, draw: &mut dyn FnMut(u64) -> u64) {
        let Some(synced) = &self.synced else { return };
        if *synced != self.bytes {
            match draw(3) {
                0 => self.bytes.clone_from(synced),
                1 => {}
                _ => {
                    let written = draw(self.bytes.len() as u64 + 1) as usize;
                    self.bytes.truncate(written);
                    self.bytes.extend(synced.iter().skip(written));
                }
            }
        }
        self.sync();
    }
}

impl Directory {
    fn new(id: u64, modified: SystemTime, tracks: bool) -> Self {
        Self { entries: BTreeMap::new(), synced: tracks.then(BTreeMap::new), id, modified }
    }

    fn sync(&mut self) {
        if self.synced.is_some() {
            self.synced = Some(self.entries.clone());
        }
    }

    /// Keeps the synced entries, or all entries. The nodes in them can lose unsynced data, too.
    fn lose_unsynced(&mut self, draw: &mut dyn FnMut(u64) -> u64) {
        let Some(synced) = &self.synced else { return };
        if !same_entries(synced, &self.entries) && draw(2) == 0 {
            let mut current = std::mem::replace(&mut self.entries, synced.clone());
            // A directory that is still there has its present content.
            for (name, node) in &mut self.entries {
                if let Some(same) = current.remove(name).filter(|other| is_same(node, other)) {
                    *node = same;
                }
            }
        }
        for node in self.entries.values_mut() {
            match node {
                Node::File(content) => lock(content).lose_unsynced(draw),
                Node::Directory(directory) => directory.lose_unsynced(draw),
                Node::Link { .. } | Node::Socket { .. } => {}
            }
        }
        self.sync();
    }
}

/// Returns whether two nodes are the same file, directory or link.
fn is_same(one: &Node, other: &Node) -> bool {
    match (one, other) {
        (Node::File(one), Node::File(other)) => Arc::ptr_eq(one, other),
        (Node::Directory(one), Node::Directory(other)) => one.id == other.id,
        (Node::Link { id: one, .. }, Node::Link { id: other, .. })
        | (Node::Socket { id: one, .. }, Node::Socket { id: other, .. }) => one == other,
        _ => false,
    }
}

fn same_entries(one: &BTreeMap<OsString, Node>, other: &BTreeMap<OsString, Node>) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).all(|(one, other)| one.0 == other.0 && is_same(one.1, other.1))
}

/// A clock that stands still at the start of 1970.
struct Epoch;

impl WallClock for Epoch {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH
    }
}

/// An empty file system: a root directory. Its files are stamped with the start of 1970.
impl Default for Memory {
    fn default() -> Self {
        let root = Node::Directory(Directory::new(0, SystemTime::UNIX_EPOCH, false));
        Self {
            tree: Arc::new(Mutex::new(Tree { root, newest: 0, tracks: false })),
            clock: Arc::new(Epoch),
            restrictions: Restrictions::default(),
        }
    }
}

impl Memory {
    /// Returns the same files, stamped by a clock.
    #[must_use]
    pub fn with_clock(&self, clock: Arc<dyn WallClock>) -> Self {
        Self { clock, ..self.clone() }
    }

    /// Creates empty files that track what is synced.
    pub fn tracking_syncs() -> Self {
        let files = Self::default();
        {
            let mut tree = lock(&files.tree);
            tree.tracks = true;
            tree.root = Node::Directory(Directory::new(0, SystemTime::UNIX_EPOCH, true));
        }
        files
    }

    /// Lets the machine lose power. Each file keeps its synced content, or all of it, or the beginning
    /// of what was written over the synced content. Each directory keeps its synced entries, or all
    /// of them. `draw` returns a number below its argument. No effect if the files do not
    /// [track what is synced](Self::tracking_syncs).
    pub fn lose_unsynced(&self, mut draw: impl FnMut(u64) -> u64) {
        if let Node::Directory(root) = &mut lock(&self.tree).root {
            root.lose_unsynced(&mut draw);
        }
    }

    fn found(&self, tree: &Tree, path: &Path, follow: bool) -> io::Result<PathBuf> {
        let resolved = tree.resolve(path, follow, self.restrictions.links)?;
        self.existing(resolved)
    }

    /// Returns the path of a file that exists and may be read. A denial precedes any other error: the
    /// answer must not reveal which names exist where the policy denies everything.
    fn existing(&self, resolved: Resolved) -> io::Result<PathBuf> {
        let (real, missing) = match resolved {
            Resolved::Found(real) => (real, None),
            Resolved::Missing(real) => (real, Some(io::ErrorKind::NotFound)),
            Resolved::Nowhere(real, why) => (real, Some(why)),
        };
        self.restrictions.permit(&real, Access::Read)?;
        missing.map_or(Ok(real), |why| Err(error(why)))
    }

    /// Returns the real path of an entry that the caller wants to change, and its directory and
    /// name.
    fn place(&self, tree: &Tree, path: &Path) -> io::Result<(PathBuf, OsString)> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(error(io::ErrorKind::ResourceBusy));
        };
        let real = match tree.resolve(parent, true, self.restrictions.links)? {
            Resolved::Found(real) => real,
            missing => self.existing(missing)?,
        };
        self.restrictions.permit_change(&real.join(name))?;
        Ok((real, name.to_owned()))
    }

    fn open_now(&self, path: &Path, how: Open) -> io::Result<Box<dyn File>> {
        let (mut tree, now) = (lock(&self.tree), self.clock.now());
        let content = match tree.resolve(path, how != Open::New, self.restrictions.links)? {
            Resolved::Missing(real) if how != Open::Read => {
                self.restrictions.permit_change(&real)?;
                let id = tree.new_id();
                let (parent, name) = (real.parent(), real.file_name());
                let (parent, name) = parent.zip(name).ok_or(io::ErrorKind::InvalidInput)?;
                let content = Arc::new(Mutex::new(Content {
                    bytes: Vec::new(),
                    synced: tree.tracks.then(Vec::new),
                    mode: 0o644,
                    id,
                    created: now,
                    modified: now,
                    locked: false,
                }));
                let node = Node::File(content.clone());
                tree.entries(parent, now)?.insert(name.to_owned(), node);
                content
            }
            other => self.open_found(&tree, path, &self.existing(other)?, how, now)?,
        };
        let clock = self.clock.clone();
        Ok(Box::new(Opened { content, clock, writes: how != Open::Read, locks: Mutex::default() }))
    }

    fn open_found(
        &self,
        tree: &Tree,
        path: &Path,
        real: &Path,
        how: Open,
        now: SystemTime,
    ) -> io::Result<Arc<Mutex<Content>>> {
        let wanted = if how == Open::Read { Access::Read } else { Access::Write };
        self.restrictions.permit(real, wanted)?;
        match tree.node(real)? {
            _ if how == Open::New => Err(error(io::ErrorKind::AlreadyExists)),
            Node::File(content) => {
                if how == Open::Replace {
                    let mut content = lock(content);
                    content.bytes.clear();
                    content.modified = now;
                }
                Ok(content.clone())
            }
            Node::Socket { .. } => Err(super::not_a_file(path)),
            _ if how == Open::Read => Err(super::not_a_file(path)),
            _ => Err(error(io::ErrorKind::IsADirectory)),
        }
    }

    fn insert(
        &self,
        path: &Path,
        node: impl FnOnce(u64, SystemTime, bool) -> Node,
    ) -> io::Result<()> {
        let (mut tree, now) = (lock(&self.tree), self.clock.now());
        if path == Path::new("/") {
            return Err(error(io::ErrorKind::AlreadyExists));
        }
        let (parent, name) = self.place(&tree, path)?;
        let node = node(tree.new_id(), now, tree.tracks);
        let entries = tree.entries(&parent, now)?;
        if entries.contains_key(&name) {
            return Err(error(io::ErrorKind::AlreadyExists));
        }
        entries.insert(name, node);
        Ok(())
    }

    fn remove(&self, path: &Path, directory: bool) -> io::Result<()> {
        let (mut tree, now) = (lock(&self.tree), self.clock.now());
        let (parent, name) = self.place(&tree, path)?;
        let entries = tree.entries(&parent, now)?;
        match entries.get(&name).ok_or(io::ErrorKind::NotFound)? {
            Node::Directory(Directory { entries, .. }) if directory && !entries.is_empty() => {
                return Err(error(io::ErrorKind::DirectoryNotEmpty));
            }
            Node::Directory(_) if !directory => return Err(error(io::ErrorKind::IsADirectory)),
            Node::Directory(_) => {}
            _ if directory => return Err(error(io::ErrorKind::NotADirectory)),
            _ => {}
        }
        entries.remove(&name);
        Ok(())
    }

    fn rename_now(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (mut tree, now) = (lock(&self.tree), self.clock.now());
        let (old, new) = (self.place(&tree, from)?, self.place(&tree, to)?);
        let is_directory = matches!(tree.node(&old.0.join(&old.1))?, Node::Directory(_));
        if is_directory && self.restrictions.has_policy() {
            return Err(error(io::ErrorKind::PermissionDenied));
        }
        if is_directory && new.0.starts_with(old.0.join(&old.1)) {
            return Err(error(io::ErrorKind::InvalidInput));
        }
        match tree.node(&new.0.join(&new.1)) {
            Ok(Node::Directory(Directory { entries, .. })) if !entries.is_empty() => {
                return Err(error(io::ErrorKind::DirectoryNotEmpty));
            }
            Ok(Node::Directory(_)) if !is_directory => {
                return Err(error(io::ErrorKind::IsADirectory));
            }
            Ok(_) if is_directory => return Err(error(io::ErrorKind::NotADirectory)),
            _ => {}
        }
        let moved = tree.entries(&old.0, now)?.remove(&old.1).ok_or(io::ErrorKind::NotFound)?;
        tree.entries(&new.0, now)?.insert(new.1, moved);
        Ok(())
    }
}

impl Files for Memory {
    fn restricted(&self, links: Links, policy: Option<Arc<dyn PathPolicy>>) -> Arc<dyn Files> {
        Arc::new(Self { restrictions: self.restrictions.with(links, policy), ..self.clone() })
    }

    fn open<'a>(&'a self, path: &'a Path, how: Open) -> BoxFuture<'a, io::Result<Box<dyn File>>> {
        Box::pin(async move { self.open_now(path, how) })
    }

    fn metadata<'a>(&'a self, path: &'a Path, follow: bool) -> BoxFuture<'a, io::Result<Metadata>> {
        Box::pin(async move {
            let tree = lock(&self.tree);
            Ok(metadata_of(tree.node(&self.found(&tree, path, follow)?)?))
        })
    }

    fn canonicalize<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, io::Result<PathBuf>> {
        Box::pin(async move { self.found(&lock(&self.tree), path, true) })
    }

    fn entries<'a>(&'a self, path: &'a Path, most: usize) -> BoxFuture<'a, io::Result<Vec<Entry>>> {
        Box::pin(async move {
            let tree = lock(&self.tree);
            let Node::Directory(Directory { entries, .. }) =
                tree.node(&self.found(&tree, path, true)?)?
            else {
                return Err(error(io::ErrorKind::NotADirectory));
            };
            if entries.len() > most {
                return Err(super::too_many_entries(most));
            }
            let entry = |(name, node): (&OsString, &Node)| Entry {
                name: name.clone(),
                kind: kind_of(node),
            };
            Ok(entries.iter().map(entry).collect())
        })
    }

    fn create_directory<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, io::Result<()>> {
        Box::pin(async move {
            self.insert(path, |id, modified, tracks| {
                Node::Directory(Directory::new(id, modified, tracks))
            })
        })
    }

    fn remove_file<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, io::Result<()>> {
        Box::pin(async move { self.remove(path, false) })
    }

    fn remove_directory<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, io::Result<()>> {
        Box::pin(async move { self.remove(path, true) })
    }

    fn rename<'a>(&'a self, from: &'a Path, to: &'a Path) -> BoxFuture<'a, io::Result<()>> {
        Box::pin(async move { self.rename_now(from, to) })
    }

    fn create_link<'a>(
        &'a self,
        target: &'a Path,
        path: &'a Path,
    ) -> BoxFuture<'a, io::Result<()>> {
        Box::pin(async move {
            self.insert(path, |id, _, _| Node::Link { target: target.to_owned(), id })
        })
    }

    fn read_link<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, io::Result<PathBuf>> {
        Box::pin(async move {
            let tree = lock(&self.tree);
            match tree.node(&self.found(&tree, path, false)?)? {
                Node::Link { target, .. } => Ok(target.clone()),
                _ => Err(error(io::ErrorKind::InvalidInput)),
            }
        })
    }

    fn sync_directory<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, io::Result<()>> {
        Box::pin(async move {
            let mut tree = lock(&self.tree);
            let real = self.found(&tree, path, true)?;
            match tree.node_mut(&real)? {
                Node::Directory(directory) => {
                    directory.sync();
                    Ok(())
                }
                _ => Err(error(io::ErrorKind::NotADirectory)),
            }
        })
    }
}

/// An open file.
struct Opened {
    content: Arc<Mutex<Content>>,
    clock: Arc<dyn WallClock>,
    writes: bool,
    /// Whether this handle holds the lock.
    locks: Mutex<bool>,
}

impl Drop for Opened {
    fn drop(&mut self) {
        if *lock(&self.locks) {
            lock(&self.content).locked = false;
        }
    }
}

impl File for Opened {
    fn metadata(&self) -> BoxFuture<'_, io::Result<Metadata>> {
        Box::pin(async { Ok(lock(&self.content).metadata()) })
    }

    fn read_at(&self, offset: u64, len: usize) -> BoxFuture<'_, io::Result<Vec<u8>>> {
        Box::pin(async move {
            if i64::try_from(offset).is_err() {
                return Err(error(io::ErrorKind::InvalidInput));
            }
            let content = lock(&self.content);
            let start = usize::try_from(offset).unwrap_or(usize::MAX).min(content.bytes.len());
            let end = start.saturating_add(len).min(content.bytes.len());
            Ok(content.bytes[start..end].to_vec())
        })
    }

    fn write_at(&self, offset: u64, bytes: Vec<u8>) -> BoxFuture<'_, io::Result<()>> {
        Box::pin(async move {
            if !self.writes {
                return Err(io::Error::other("the file is not open for writing"));
            }
            let end = usize::try_from(offset).ok().and_then(|at| at.checked_add(bytes.len()));
            let end = end.filter(|end| *end <= LARGEST).ok_or(io::ErrorKind::FileTooLarge)?;
            let mut content = lock(&self.content);
            let length = content.bytes.len().max(end);
            content.bytes.resize(length, 0);
            content.bytes[end - bytes.len()..end].copy_from_slice(&bytes);
            content.modified = self.clock.now();
            Ok(())
        })
    }

    fn set_mode(&self, mode: u32) -> BoxFuture<'_, io::Result<()>> {
        Box::pin(async move {
            lock(&self.content).mode = mode & 0o7777;
            Ok(())
        })
    }

    fn sync(&self) -> BoxFuture<'_, io::Result<()>> {
        Box::pin(async {
            lock(&self.content).sync();
            Ok(())
        })
    }

    fn try_lock(&self) -> BoxFuture<'_, io::Result<bool>> {
        Box::pin(async {
            let (mut content, mut locks) = (lock(&self.content), lock(&self.locks));
            *locks |= !std::mem::replace(&mut content.locked, true);
            Ok(*locks)
        })
    }
}

/// The largest file in bytes: a gap in a file takes memory here.
const LARGEST: usize = 64 << 20;

//! The operating system's implementation of [`files`](super), on Linux. Each call runs on a thread
//! for blocking work, so a slow file system delays only the calls that need it, as long as the
//! runtime has such threads left (512 by default).
//!
//! **A file is found before it is opened.** `O_PATH` yields a descriptor that names a file without
//! opening it, whatever the file is. The kernel reports the path of that descriptor, in which no
//! link is left (`/proc/self/fd`). The policy and the type of the file are checked on the
//! descriptor, and the descriptor is then opened. So a link that changes meanwhile changes nothing.
//!
//! **An entry is changed through its directory**, found in the same way: the kernel creates, renames
//! or removes a name in that directory, and follows no link.

use std::ffi::OsStr;
use std::fs::{self, TryLockError};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::{Access, Entry, File, Files, Kind, Links, Metadata, Open, PathPolicy, Restrictions};
use crate::net::BoxFuture;

/// How many links in a row a file to create may have, as in the kernel.
const MOST_LINKS: usize = 40;

/// Files of the operating system. They need a runtime, and `/proc`.
#[derive(Clone, Default)]
pub struct System {
    restrictions: Restrictions,
}

/// Runs `act` on a thread for blocking work. If the future is dropped, `act` runs to its end.
#[allow(clippy::disallowed_methods)] // the one place where a thread is meant
fn blocking<'a, T: Send + 'static>(
    act: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> BoxFuture<'a, io::Result<T>> {
    Box::pin(async move { tokio::task::spawn_blocking(act).await.map_err(io::Error::other)? })
}

/// The entry at a path.
struct Found {
    /// Names it; not open.
    fd: OwnedFd,
    /// Its path without links.
    real: PathBuf,
}

/// An entry of a directory, which need not exist.
struct Place {
    directory: OwnedFd,
    /// The path of the entry. Only its last name may be a link.
    real: PathBuf,
}

impl Place {
    fn name(&self) -> &OsStr {
        self.real.file_name().unwrap_or_default()
    }
}

/// Returns the path of a descriptor.
fn path_of(fd: impl AsFd) -> io::Result<PathBuf> {
    fs::read_link(in_proc(fd))
}

fn in_proc(fd: impl AsFd) -> PathBuf {
    format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd()).into()
}

/// Returns the path without links that a file at `path` would have.
fn where_missing(path: &Path) -> Option<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        let (existing, real) = path
            .ancestors()
            .find_map(|ancestor| Some((ancestor, fs::canonicalize(ancestor).ok()?)))?;
        let mut rest = path.strip_prefix(existing).ok()?.components();
        let Some(name) = rest.next() else { return Some(real) };
        let Ok(target) = fs::read_link(real.join(name)) else {
            return Some(real.join(name).join(rest.as_path()));
        };
        path = real.join(target).join(rest.as_path());
    }
    None
}

/// Opens the file that a descriptor names.
fn reopen(fd: &OwnedFd, flags: OFlags) -> io::Result<fs::File> {
    let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(in_proc(fd), flags, Mode::empty())?.into())
}

impl System {
    /// Checks that a path has no links, if links are refused.
    fn check_links(&self, path: &Path, real: &Path) -> io::Result<()> {
        // Compared by components: a repeated or trailing slash is no difference.
        let refused = self.restrictions.links == Links::Refuse && path != real;
        if refused { Err(Errno::LOOP.into()) } else { Ok(()) }
    }

    fn find(&self, path: &Path, follow: bool) -> io::Result<Found> {
        let last = if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
        let fd = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC | last, Mode::empty())
            .map_err(|error| self.or_refusal(error, path, follow))?;
        let real = path_of(&fd)?;
        self.check_links(path, &real)?;
        self.restrictions.permit(&real, Access::Read)?;
        Ok(Found { fd, real })
    }

    /// Returns the error of a call that found nothing. A refused link and a denied path precede it: the
    /// answer must not reveal which names exist where the policy denies everything.
    fn or_refusal(&self, error: Errno, path: &Path, follow: bool) -> io::Error {
        let mut followed = path.ancestors().skip(usize::from(!follow));
        if self.restrictions.links == Links::Refuse && followed.any(Path::is_symlink) {
            return Errno::LOOP.into();
        }
        let real = if self.restrictions.has_policy() { where_missing(path) } else { None };
        match real.map(|real| self.restrictions.permit(&real, Access::Read)) {
            Some(Err(denied)) => denied,
            _ => error.into(),
        }
    }

    /// Finds the directory of an entry.
    fn place(&self, path: &Path) -> io::Result<Place> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Errno::BUSY.into()); // the root, which cannot be changed
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(parent, flags, Mode::empty())
            .map_err(|error| self.or_refusal(error, parent, true))?;
        let real = path_of(&directory)?;
        self.check_links(parent, &real)?;
        Ok(Place { directory, real: real.join(name) })
    }

    fn open_now(&self, path: &Path, how: Open) -> io::Result<fs::File> {
        let mut path = path.to_owned();
        for _ in 0..MOST_LINKS {
            match self.find(&path, how != Open::New) {
                Ok(found) => return self.open_found(&path, &found, how),
                Err(error) if error.kind() == io::ErrorKind::NotFound && how != Open::Read => {}
                Err(error) => return Err(error),
            }
            let place = self.place(&path)?;
            self.restrictions.permit_change(&place.real)?;
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
            let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK;
            let new = Mode::from_raw_mode(0o666);
            match rustix::fs::openat(&place.directory, place.name(), flags, new) {
                Ok(fd) => return Ok(fd.into()),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            // A link to nothing: the file is created at its target. Or another program was faster.
            match rustix::fs::readlinkat(&place.directory, place.name(), Vec::new()) {
                Ok(_) if how == Open::New => return Err(Errno::EXIST.into()),
                Ok(_) if self.restrictions.links == Links::Refuse => return Err(Errno::LOOP.into()),
                Ok(target) => {
                    let target = std::ffi::OsString::from_vec(target.into_bytes());
                    path = place.real.with_file_name("").join(target);
                }
                Err(_) => {}
            }
        }
        Err(Errno::LOOP.into())
    }

    fn open_found(&self, path: &Path, found: &Found, how: Open) -> io::Result<fs::File> {
        if how == Open::New {
            return Err(Errno::EXIST.into());
        }
        if how != Open::Read {
            self.restrictions.permit(&found.real, Access::Write)?;
        }
        match described(&found.fd)?.kind {
            Kind::File => {}
            Kind::Directory if how != Open::Read => return Err(Errno::ISDIR.into()),
            _ => return Err(super::not_a_file(path)),
        }
        reopen(
            &found.fd,
            match how {
                Open::Read => OFlags::RDONLY,
                Open::Replace => OFlags::RDWR | OFlags::TRUNC,
                Open::Write | Open::New => OFlags::RDWR,
            },
        )
    }

    fn entries_now(&self, path: &Path, most: usize) -> io::Result<Vec<Entry>> {
        let found = self.find(path, true)?;
        let mut entries = Vec::new();
        for entry in fs::read_dir(in_proc(&found.fd))? {
            if entries.len() >= most {
                return Err(super::too_many_entries(most));
            }
            let entry = entry?;
            // An entry that was removed meanwhile is left out.
            let Ok(kind) = entry.file_type() else { continue };
            entries.push(Entry { name: entry.file_name(), kind: kind_of(kind) });
        }
        Ok(entries)
    }

    fn rename_now(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (self.place(from)?, self.place(to)?);
        self.restrictions.permit_change(&from.real)?;
        self.restrictions.permit_change(&to.real)?;
        if self.restrictions.has_policy() {
            let status =
                rustix::fs::statat(&from.directory, from.name(), AtFlags::SYMLINK_NOFOLLOW)?;
            if rustix::fs::FileType::from_raw_mode(status.st_mode).is_dir() {
                return Err(Errno::PERM.into());
            }
        }
        Ok(rustix::fs::renameat(&from.directory, from.name(), &to.directory, to.name())?)
    }

    fn remove_now(&self, path: &Path, flags: AtFlags) -> io::Result<()> {
        let place = self.place(path)?;
        self.restrictions.permit_change(&place.real)?;
        Ok(rustix::fs::unlinkat(&place.directory, place.name(), flags)?)
    }
}

fn kind_of(kind: fs::FileType) -> Kind {
    match kind {
        _ if kind.is_file() => Kind::File,
        _ if kind.is_dir() => Kind::Directory,
        _ if kind.is_symlink() => Kind::Link,
        _ => Kind::Other,
    }
}

fn described(fd: &OwnedFd) -> io::Result<Metadata> {
    Ok(metadata_of(&fs::File::from(fd.try_clone()?).metadata()?))
}

fn metadata_of(metadata: &fs::Metadata) -> Metadata {
    Metadata {
        kind: kind_of(metadata.file_type()),
        size: metadata.len(),
        created: metadata.created().ok(),
        modified: metadata.modified().ok(),
        mode: metadata.mode() & 0o7777,
        id: (metadata.dev(), metadata.ino()),
    }
}

impl Files for System {
    fn restricted(&self, links: Links, policy: Option<Arc<dyn PathPolicy>>) -> Arc<dyn Files> {
        Arc::new(Self { restrictions: self.restrictions.with(links, policy) })
    }

    fn open<'a>(&'a self, path: &'a Path, how: Open) -> BoxFuture<'a, io::Result<Box<dyn File>>> {
        let (files, path) = (self.clone(), path.to_owned());
        blocking(move || {
            let file = Arc::new(files.open_now(&path, how)?);
            Ok(Box::new(Opened(Some(file))) as Box<dyn File>)
        })
    }

    fn metadata<'a>(&'a self, path: &'a Path, follow: bool) -> BoxFuture<'a, io::Result<Metadata>> {
        let (files, path) = (self.clone(), path.to_owned());
        blocking(move || described(&files.find(&path, follow)?.fd))
    }

    fn canonicalize<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, io::Result<PathBuf>> {
        let (files, path) = (self.clone(), path.to_owned());
        blocking(move || Ok(files.find(&path, true)?.real))
    }

    fn entries<'a>(&'a self, path: &'a Path, most: usize) -> BoxFuture<'a, io::Result<Vec<Entry>>> {
        let (files, path) = (self.clone(), path.to_owned());
        blocking(move || files.entries_now(&path, most))
    }

    fn create_directory<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, io::Result<()>> {
        let (files, path) = (self.clone(), path.to_owned());
        blocking(move || {
            if path == Path::new("/") {
                return Err(Errno::EXIST.into());
            }
            let place = files.place(&path)?;
            if rustix::fs::statat(&place.directory, place.name(), AtFlags::SYMLINK_NOFOLLOW).is_ok()
            {
                return Err(Errno::EXIST.into());
            }
            files.restrictions.permit_change(&place.real)?;
            let mode = Mode::from_raw_mode(0o777);
            Ok(rustix::fs::mkdirat(&place.directory, place.name(), mode)?)
        })
    }

    fn remove_file<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, io::Result<()>> {
        let (files, path) = (self.clone(), path.to_owned());
        blocking(move || files.remove_now(&path, AtFlags::empty()))
    }

    fn remove_directory<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, io::Result<()>> {
        let (files, path) = (self.clone(), path.to_owned());
        blocking(move || files.remove_now(&path, AtFlags::REMOVEDIR))
    }

    fn rename<'a>(&'a self, from: &'a Path, to: &'a Path) -> BoxFuture<'a, io::Result<()>> {
        let (files, from, to) = (self.clone(), from.to_owned(), to.to_owned());
        blocking(move || files.rename_now(&from, &to))
    }

    fn create_link<'a>(
        &'a self,
        target: &'a Path,
        path: &'a Path,
    ) -> BoxFuture<'a, io::Result<()>> {
        let (files, target, path) = (self.clone(), target.to_owned(), path.to_owned());
        blocking(move || {
            let place = files.place(&path)?;
            files.restrictions.permit_change(&place.real)?;
            Ok(rustix::fs::symlinkat(&target, &place.directory, place.name())?)
        })
    }

    fn read_link<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, io::Result<PathBuf>> {
        let (files, path) = (self.clone(), path.to_owned());
        blocking(move || {
            let found = files.find(&path, false)?;
            let target = rustix::fs::readlinkat(&found.fd, "", Vec::new())?;
            Ok(std::ffi::OsString::from_vec(target.into_bytes()).into())
        })
    }

    fn sync_directory<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, io::Result<()>> {
        let (files, path) = (self.clone(), path.to_owned());
        blocking(move || {
            let found = files.find(&path, true)?;
            reopen(&found.fd, OFlags::RDONLY | OFlags::DIRECTORY)?.sync_all()
        })
    }
}

/// An open file; `None` only while it is being dropped.
struct Opened(Option<Arc<fs::File>>);

impl Opened {
    fn with<T: Send + 'static>(
        &self,
        act: impl FnOnce(&fs::File) -> io::Result<T> + Send + 'static,
    ) -> BoxFuture<'static, io::Result<T>> {
        match self.0.clone() {
            Some(file) => blocking(move || act(&file)),
            None => Box::pin(async { Err(Errno::BADF.into()) }),
        }
    }
}

/// Closes the file on a thread for blocking work, because a close can wait for a slow file system.
impl Drop for Opened {
    fn drop(&mut self) {
        let file = self.0.take();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn_blocking(move || drop(file));
        }
    }
}

impl File for Opened {
    fn metadata(&self) -> BoxFuture<'_, io::Result<Metadata>> {
        self.with(|file| Ok(metadata_of(&file.metadata()?)))
    }

    fn read_at(&self, offset: u64, len: usize) -> BoxFuture<'_, io::Result<Vec<u8>>> {
        self.with(move |file| {
            let mut bytes = Vec::new();
            let mut piece = vec![0; len.min(64 << 10)];
            while bytes.len() < len {
                let most = piece.len().min(len - bytes.len());
                match file.read_at(&mut piece[..most], offset.saturating_add(bytes.len() as u64)) {
                    Ok(0) => break,
                    Ok(read) => bytes.extend_from_slice(&piece[..read]),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(bytes)
        })
    }

    fn write_at(&self, offset: u64, bytes: Vec<u8>) -> BoxFuture<'_, io::Result<()>> {
        self.with(move |file| file.write_all_at(&bytes, offset))
    }

    fn set_mode(&self, mode: u32) -> BoxFuture<'_, io::Result<()>> {
        self.with(move |file| file.set_permissions(fs::Permissions::from_mode(mode)))
    }

    fn sync(&self) -> BoxFuture<'_, io::Result<()>> {
        self.with(|file| file.sync_all())
    }

    fn try_lock(&self) -> BoxFuture<'_, io::Result<bool>> {
        self.with(|file| match file.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(error),
        })
    }
}

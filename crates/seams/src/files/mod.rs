//! Files: the replacement of `tokio::fs` for product code.
//!
//! A server receives [`Files`]: a few primitives on absolute paths, each one step. Larger
//! operations are composed of them. To replace a file atomically, write to a [`Open::New`] beside
//! it, [`sync`](File::sync) it, [`rename`](Files::rename) it over the old one, and
//! [`sync_directory`](Files::sync_directory). To keep other programs out meanwhile, hold a
//! [`try_lock`](File::try_lock) on a third file.
//!
//! - [`System`]: the operating system's files. On systems other than Linux, it is [`Unsupported`].
//! - [`Unsupported`]: has no files: each call fails.
//! - `Memory`: files in memory, for simulations (feature `sim`) and unit tests (feature `memory`).
//!
//! Only regular files are opened. A pipe, a socket or a device is never opened, so no call waits
//! for one. [`Files::restricted`] returns the same files with a [`PathPolicy`]: each call then
//! checks the path that the file really has, after all symbolic links.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use crate::net::BoxFuture;

#[cfg(any(feature = "memory", feature = "sim"))]
mod memory;
#[cfg(target_os = "linux")]
mod system;
#[cfg(all(target_os = "linux", feature = "memory"))]
#[cfg(test)]
mod tests;

#[cfg(not(target_os = "linux"))]
pub use Unsupported as System;
#[cfg(any(feature = "memory", feature = "sim"))]
pub use memory::Memory;
#[cfg(target_os = "linux")]
pub use system::System;

/// The kind of a directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A pipe, a socket or a device.
    Other,
}

/// The properties of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// Its kind.
    pub kind: Kind,
    /// Its length in bytes.
    pub size: u64,
    /// When it was created, if the file system knows it.
    pub created: Option<SystemTime>,
    /// When its content last changed.
    pub modified: Option<SystemTime>,
    /// Its permission bits.
    pub mode: u32,
    /// Its identity: no other file of the machine has the same one at the same time.
    pub id: (u64, u64),
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Its name.
    pub name: OsString,
    /// Its kind. A link is not followed.
    pub kind: Kind,
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// To read it. It must exist.
    Read,
    /// To write it. It is created if it does not exist, and keeps its content otherwise.
    Write,
    /// To write it. It is created if it does not exist, and emptied otherwise.
    Replace,
    /// To write a file that does not exist, and not as a link either.
    New,
}

/// Whether calls follow symbolic links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Links {
    /// They do.
    #[default]
    Follow,
    /// A path with a link in it is an error, as if it had too many links. The last name may be a
    /// link for the calls that do not follow it.
    Refuse,
}

/// The access that a [`PathPolicy`] grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// None.
    None,
    /// To read.
    Read,
    /// To read and to change.
    Write,
}

/// Grants access to paths.
pub trait PathPolicy: Send + Sync {
    /// Returns the access to an absolute path without links.
    fn access(&self, path: &Path) -> Access;
}

/// The accesses that a view of files refuses.
#[derive(Clone, Default)]
struct Restrictions {
    links: Links,
    policies: Vec<Arc<dyn PathPolicy>>,
}

impl Restrictions {
    fn with(&self, links: Links, policy: Option<Arc<dyn PathPolicy>>) -> Self {
        let mut restrictions = self.clone();
        restrictions.policies.extend(policy);
        if links == Links::Refuse {
            restrictions.links = links;
        }
        restrictions
    }

    fn has_policy(&self) -> bool {
        !self.policies.is_empty()
    }

    /// Checks the access to a path without links.
    fn permit(&self, real: &Path, wanted: Access) -> io::Result<()> {
        let granted = self.policies.iter().map(|policy| policy.access(real)).min();
        match granted.unwrap_or(Access::Write) {
            granted if granted >= wanted => Ok(()),
            Access::None => Err(io::ErrorKind::PermissionDenied.into()),
            _ => Err(io::ErrorKind::ReadOnlyFilesystem.into()),
        }
    }

    /// Checks that an entry may be created, renamed or removed.
    fn permit_change(&self, real: &Path) -> io::Result<()> {
        self.permit(real, Access::Write)?;
        self.permit(real.parent().unwrap_or(real), Access::Write)
    }
}

fn not_a_file(path: &Path) -> io::Error {
    let why = format!("path `{}` is not a file", path.display());
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

fn too_many_entries(most: usize) -> io::Error {
    let why = format!("the directory has more than {most} entries");
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

/// The files of a machine. Each path is absolute.
///
/// # Errors
/// The kinds and codes of the operating system's errors. Also `InvalidInput` if a path ends in no
/// name where one is needed, or if a file to open is not a regular one, and `PermissionDenied` or
/// `ReadOnlyFilesystem` if a policy refuses the access.
pub trait Files: Send + Sync {
    /// Returns the same files with further restrictions: a call is refused if an earlier or the new
    /// restriction refuses it.
    ///
    /// A call that creates, renames or removes an entry needs write access to the entry and to its
    /// directory. Under a policy, directories cannot be renamed, because the policy may
    /// distinguish between paths in them.
    fn restricted(&self, links: Links, policy: Option<Arc<dyn PathPolicy>>) -> Arc<dyn Files>;

    /// Opens a regular file.
    fn open<'a>(&'a self, path: &'a Path, how: Open) -> BoxFuture<'a, io::Result<Box<dyn File>>>;

    /// Describes what is at the path. If it is a link, `follow` chooses between its target and the
    /// link itself.
    fn metadata<'a>(&'a self, path: &'a Path, follow: bool) -> BoxFuture<'a, io::Result<Metadata>>;

    /// Returns the path without links.
    fn canonicalize<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, io::Result<PathBuf>>;

    /// Lists a directory, in no particular order. Fails if it has more than `most` entries.
    fn entries<'a>(&'a self, path: &'a Path, most: usize) -> BoxFuture<'a, io::Result<Vec<Entry>>>;

    /// Creates a directory. Its parent must exist, and nothing must be at the path.
    fn create_directory<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, io::Result<()>>;

    /// Removes a name that is not a directory; a link itself, not its target.
    fn remove_file<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, io::Result<()>>;

    /// Removes an empty directory.
    fn remove_directory<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, io::Result<()>>;

    /// Renames `from` to `to`, and atomically replaces a file there.
    fn rename<'a>(&'a self, from: &'a Path, to: &'a Path) -> BoxFuture<'a, io::Result<()>>;

    /// Creates a symbolic link at `path`.
    fn create_link<'a>(&'a self, target: &'a Path, path: &'a Path)
    -> BoxFuture<'a, io::Result<()>>;

    /// Returns the target of a link, exactly as the link contains it.
    fn read_link<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, io::Result<PathBuf>>;

    /// Makes the entries of a directory durable: a created, renamed or removed entry survives a
    /// loss of power.
    fn sync_directory<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, io::Result<()>>;
}

/// An open file. It stays usable after its path is removed. Dropping it closes it and releases its
/// lock; a call in progress continues to its end.
pub trait File: Send + Sync {
    /// Describes the file.
    fn metadata(&self) -> BoxFuture<'_, io::Result<Metadata>>;

    /// Reads up to `len` bytes from `offset`: fewer only at the end of the file.
    fn read_at(&self, offset: u64, len: usize) -> BoxFuture<'_, io::Result<Vec<u8>>>;

    /// Writes all bytes at `offset`. A gap before it is filled with zeros.
    fn write_at(&self, offset: u64, bytes: Vec<u8>) -> BoxFuture<'_, io::Result<()>>;

    /// Sets the permission bits.
    fn set_mode(&self, mode: u32) -> BoxFuture<'_, io::Result<()>>;

    /// Makes the content durable: it survives a loss of power.
    fn sync(&self) -> BoxFuture<'_, io::Result<()>>;

    /// Takes the file's only lock; returns whether it was free. The lock binds only those who ask
    /// for it.
    fn try_lock(&self) -> BoxFuture<'_, io::Result<bool>>;
}

/// No files: each call fails with `Unsupported`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unsupported;

fn unsupported<'a, T: Send + 'a>() -> BoxFuture<'a, io::Result<T>> {
    Box::pin(async { Err(io::ErrorKind::Unsupported.into()) })
}

impl Files for Unsupported {
    fn restricted(&self, _: Links, _: Option<Arc<dyn PathPolicy>>) -> Arc<dyn Files> {
        Arc::new(Self)
    }
    fn open<'a>(&'a self, _: &'a Path, _: Open) -> BoxFuture<'a, io::Result<Box<dyn File>>> {
        unsupported()
    }
    fn metadata<'a>(&'a self, _: &'a Path, _: bool) -> BoxFuture<'a, io::Result<Metadata>> {
        unsupported()
    }
    fn canonicalize<'a>(&'a self, _: &'a Path) -> BoxFuture<'a, io::Result<PathBuf>> {
        unsupported()
    }
    fn entries<'a>(&'a self, _: &'a Path, _: usize) -> BoxFuture<'a, io::Result<Vec<Entry>>> {
        unsupported()
    }
    fn create_directory<'a>(&'a self, _: &'a Path) -> BoxFuture<'a, io::Result<()>> {
        unsupported()
    }
    fn remove_file<'a>(&'a self, _: &'a Path) -> BoxFuture<'a, io::Result<()>> {
        unsupported()
    }
    fn remove_directory<'a>(&'a self, _: &'a Path) -> BoxFuture<'a, io::Result<()>> {
        unsupported()
    }
    fn rename<'a>(&'a self, _: &'a Path, _: &'a Path) -> BoxFuture<'a, io::Result<()>> {
        unsupported()
    }
    fn create_link<'a>(&'a self, _: &'a Path, _: &'a Path) -> BoxFuture<'a, io::Result<()>> {
        unsupported()
    }
    fn read_link<'a>(&'a self, _: &'a Path) -> BoxFuture<'a, io::Result<PathBuf>> {
        unsupported()
    }
    fn sync_directory<'a>(&'a self, _: &'a Path) -> BoxFuture<'a, io::Result<()>> {
        unsupported()
    }
}

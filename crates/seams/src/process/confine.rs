//! Compiles a [`Confinement`] to what the kernel enforces (Linux). [`super::launcher`] applies it in
//! the new process.
//!
//! | what | how |
//! |---|---|
//! | to change a path | a mount namespace in which all mounts are read-only, except those of writable paths |
//! | a read-only path in a writable one | a read-only mount over it |
//! | a denied path in a readable one | an empty, inaccessible mount over it |
//! | to read, execute or list a path | Landlock; it also enforces what the mounts do, except the places above |
//! | device files | Landlock: only [`DEVICES`] |
//! | shared memory | a private directory in the place of `/dev/shm` |
//! | to change a mount, to trace or signal other processes, abstract Unix sockets | Landlock forbids all of them |
//! | the network, io_uring | seccomp ([`super::filter`]) |
//! | privileges | a user namespace without capabilities, and no new privileges |
//!
//! Landlock alone cannot take a right back beneath a path, and does not see changes of modes, owners
//! and times. Mounts alone cannot deny reading by default.
//!
//! Not restricted: to see that a path exists, and its size, mode and times; to read the names and
//! command lines of other processes in `/proc`; without a network restriction, to connect to a Unix
//! socket in the file system. A new file directly in `/` is never writable. [`super::placeholders`] has
//! the limits of protected paths that do not exist.

use std::ffi::CString;
use std::fmt::Display;
use std::io::PipeReader;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
};
use rustix::process::{getgid, getuid};
use seccompiler::BpfProgram;

use super::confinement::{Confinement, FilesScope, PathAccess, PathRules};
use super::{filter, placeholders};

/// The device files that every confined command may use.
pub(super) const DEVICES: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
];

/// The version of Landlock with all rights for files. Later versions add signals, abstract
/// sockets and device calls; where the kernel has them, it enforces them, too.
const LEAST_ABI: ABI = ABI::V3;

/// The directory of device files. Reading the root does not include it.
const DEVICE_DIRECTORY: &str = "/dev";

/// Where programs share memory. A confined command has its own, unless a rule names it.
const SHARED_MEMORY: &str = "/dev/shm";

/// The data with which a new process confines itself.
pub(super) struct Confined {
    pub(super) mounts: Option<Mounts>,
    pub(super) ruleset: OwnedFd,
    pub(super) filter: BpfProgram,
}

/// The view of the file system of a confined process.
pub(super) struct Mounts {
    /// The files in `/proc` that map the process's user and group into its namespace.
    pub(super) users: Vec<(CString, Vec<u8>)>,
    /// The flags of all mounts that are not in `places`.
    pub(super) flags: u64,
    /// The mounts with other flags, each before those in it.
    pub(super) places: Vec<Mount>,
    /// Room for their copies.
    pub(super) copies: Vec<Option<OwnedFd>>,
    /// The working directory, which is entered again: the old one is in the old view.
    pub(super) directory: CString,
    /// Where the process reports the number of its namespace.
    pub(super) report: OwnedFd,
}

/// A mount that replaces what is at its path.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mount {
    pub(super) path: CString,
    pub(super) source: Source,
    pub(super) flags: u64,
}

/// The content of a mount.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The entry at its path.
    Itself,
    /// The entry at another path.
    Other(CString),
    /// A directory that the process cannot open.
    EmptyDirectory,
    /// A directory in memory that only the process and its descendants see, with these rights of
    /// Landlock.
    Private(u64),
}

/// The flags of every mount. A device file in it cannot be opened.
const CONFINED: u64 = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
const READ_ONLY: u64 = CONFINED | libc::MOUNT_ATTR_RDONLY;
/// The flags of the device directory.
const OF_DEVICES: u64 = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_RDONLY;

/// A compiled confinement.
pub(super) struct Plan {
    pub(super) confined: Confined,
    /// The directories that must be created before the start, so that something can be mounted
    /// there.
    pub(super) missing: Vec<PathBuf>,
    /// The other end of [`Mounts::report`].
    pub(super) namespace: Option<PipeReader>,
}

/// Compiles a confinement for a command in this directory.
///
/// # Errors
/// A message if the kernel cannot enforce it.
pub(super) fn compile(confinement: &Confinement, directory: &Path) -> Result<Plan, String> {
    let filter = filter::compile(confinement.network).map_err(text)?;
    let ruleset =
        ruleset().map_err(|error| format!("the kernel has no suitable Landlock: {error}"))?;
    let (mut mounts, mut namespace, mut missing) = (None, None, Vec::new());
    let ruleset = match &confinement.files {
        FilesScope::All => permit_all(ruleset),
        FilesScope::Rules(rules) => {
            let resolved = Resolved::of(rules)?;
            let (reader, report) = std::io::pipe().map_err(text)?;
            mounts = Some(resolved.mounts(directory, report.into())?);
            namespace = Some(reader);
            let ruleset = permit(ruleset, &resolved.rules);
            missing = resolved.missing;
            ruleset
        }
    }
    .map_err(text)?;
    let ruleset: Option<OwnedFd> = ruleset.into();
    let ruleset = ruleset.ok_or("the kernel has no Landlock")?;
    Ok(Plan { confined: Confined { mounts, ruleset, filter }, missing, namespace })
}

fn text(error: impl Display) -> String {
    error.to_string()
}

fn c_string(path: &Path) -> Result<CString, String> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| "a path contains a NUL byte".to_owned())
}

/// Rules whose paths exist and contain no symbolic links.
struct Resolved {
    rules: PathRules,
    /// The paths that do not exist and must not be created by the command.
    missing: Vec<PathBuf>,
}

impl Resolved {
    fn of(written: &PathRules) -> Result<Self, String> {
        let mut resolved = Self { rules: PathRules::default(), missing: Vec::new() };
        for (path, access) in written.iter() {
            if let Ok(real) = path.canonicalize() {
                resolved.rules.add(real, access);
            }
        }
        // Now the writable paths are known, so the rules that protect something in them follow.
        for (path, access) in written.iter().filter(|(_, access)| *access != PathAccess::Write) {
            match path.canonicalize() {
                Ok(real) => {
                    resolved.check_links(path)?;
                    if placeholders::exist_at(&real) {
                        resolved.missing.push(real);
                    }
                }
                Err(_) => resolved.protect_missing(path, access)?,
            }
        }
        Ok(resolved)
    }

    /// Refuses a protected path that a writable symbolic link leads to: the command could replace
    /// the link.
    fn check_links(&self, path: &Path) -> Result<(), String> {
        for prefix in path.ancestors() {
            let Some((parent, name)) = prefix.parent().zip(prefix.file_name()) else { continue };
            let Ok(place) = parent.canonicalize().map(|parent| parent.join(name)) else { continue };
            if place.is_symlink() && self.rules.access_around(&place) == PathAccess::Write {
                return Err(format!(
                    "`{}` is a symbolic link in a writable directory, so what it leads to cannot be protected",
                    place.display()
                ));
            }
        }
        Ok(())
    }

    /// Protects a path that does not exist, if the command could create it: the first directory of
    /// the path that is missing.
    fn protect_missing(&mut self, path: &Path, access: PathAccess) -> Result<(), String> {
        let Some((parent, first)) =
            path.ancestors().zip(path.ancestors().skip(1)).find_map(|(missing, parent)| {
                Some((parent.canonicalize().ok()?, missing.file_name()?))
            })
        else {
            return Ok(());
        };
        self.check_links(path)?;
        let place = parent.join(first);
        if place.is_symlink() {
            return Err(format!("`{}` is a broken symbolic link", place.display()));
        }
        // In a file, nothing can be created.
        if parent.is_dir() && self.rules.access(&place) == PathAccess::Write {
            self.rules.add(&place, access);
            self.missing.push(place);
        }
        Ok(())
    }

    fn mounts(&self, directory: &Path, report: OwnedFd) -> Result<Mounts, String> {
        let mut places = vec![Mount {
            path: c_string(Path::new(DEVICE_DIRECTORY))?,
            source: Source::Itself,
            flags: OF_DEVICES,
        }];
        let shared = Path::new(SHARED_MEMORY);
        let exists = shared.is_dir() && !shared.is_symlink();
        if exists && !self.rules.iter().any(|(path, _)| path.starts_with(shared)) {
            places.push(Mount {
                path: c_string(shared)?,
                source: Source::Private(writable().bits()),
                flags: CONFINED,
            });
        }
        for (path, access) in self.rules.iter().filter(|(path, _)| *path != Path::new("/")) {
            places.extend(self.mount(path, access)?);
        }
        let root = self.rules.access(Path::new("/"));
        let (user, group) = (getuid().as_raw(), getgid().as_raw());
        Ok(Mounts {
            users: vec![
                (c"/proc/self/setgroups".to_owned(), b"deny".to_vec()),
                (c"/proc/self/uid_map".to_owned(), format!("{user} {user} 1\n").into_bytes()),
                (c"/proc/self/gid_map".to_owned(), format!("{group} {group} 1\n").into_bytes()),
            ],
            flags: if root == PathAccess::Write { CONFINED } else { READ_ONLY },
            copies: places.iter().map(|_| None).collect(),
            places,
            directory: c_string(directory)?,
            report,
        })
    }

    /// Returns the mount that enforces a rule, if it needs one. Landlock denies each path that no rule
    /// permits.
    fn mount(&self, path: &Path, access: PathAccess) -> Result<Option<Mount>, String> {
        use PathAccess::{Nothing, Read, Write};
        let around = self.rules.access_around(path);
        if around == Nothing && access != Nothing && self.is_hidden(path) {
            return Err(format!("`{}` is permitted, but is in a denied directory", path.display()));
        }
        let (source, flags) = match (around, access) {
            (_, Write) => (Source::Itself, CONFINED),
            (Write, Read) => (Source::Itself, READ_ONLY),
            // The file of a rule that is missing becomes a directory.
            (Read | Write, Nothing) if path.is_dir() || !path.exists() => {
                (Source::EmptyDirectory, READ_ONLY)
            }
            // A device file on a mount without devices cannot be opened.
            (Read | Write, Nothing) => (Source::Other(c"/dev/null".to_owned()), READ_ONLY),
            (Nothing, Nothing) | (Nothing | Read, Read) => return Ok(None),
        };
        Ok(Some(Mount { path: c_string(path)?, source, flags }))
    }

    /// Whether an inaccessible mount hides the path.
    fn is_hidden(&self, path: &Path) -> bool {
        path.ancestors().skip(1).any(|above| {
            self.rules.access(above) == PathAccess::Nothing
                && self.rules.access_around(above).reads()
        })
    }
}

fn ruleset() -> Result<RulesetCreated, RulesetError> {
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(LEAST_ABI))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::IoctlDev)?
        .scope(Scope::AbstractUnixSocket | Scope::Signal)?
        .create()
}

/// Permits all files, and yet forbids what every Landlock ruleset forbids.
fn permit_all(ruleset: RulesetCreated) -> Result<RulesetCreated, RulesetError> {
    let everything = AccessFs::from_all(LEAST_ABI) | AccessFs::IoctlDev;
    allow(ruleset, Path::new("/"), everything)
}

/// The rights to a writable path: all but to create device files.
fn writable() -> BitFlags<AccessFs> {
    AccessFs::from_all(LEAST_ABI) & !(AccessFs::MakeChar | AccessFs::MakeBlock)
}

fn permit(mut ruleset: RulesetCreated, rules: &PathRules) -> Result<RulesetCreated, RulesetError> {
    for (path, access) in rules.iter() {
        let rights = match access {
            PathAccess::Nothing => continue,
            PathAccess::Read => AccessFs::from_read(LEAST_ABI),
            PathAccess::Write => writable(),
        };
        if path != Path::new("/") {
            ruleset = allow(ruleset, path, rights)?;
            continue;
        }
        // All of the root, except that device files can only be listed.
        ruleset = allow(ruleset, path, AccessFs::ReadDir.into())?;
        for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
            if entry.path() != Path::new(DEVICE_DIRECTORY) {
                ruleset = allow(ruleset, &entry.path(), rights)?;
            }
        }
    }
    let device = AccessFs::ReadFile
        | AccessFs::ReadDir
        | AccessFs::WriteFile
        | AccessFs::Truncate
        | AccessFs::IoctlDev;
    for path in DEVICES {
        ruleset = allow(ruleset, Path::new(path), device)?;
    }
    Ok(ruleset)
}

/// Adds a rule. A path that does not exist needs none.
fn allow(
    ruleset: RulesetCreated,
    path: &Path,
    rights: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    let Ok(opened) = PathFd::new(path) else { return Ok(ruleset) };
    let rights = if path.is_dir() { rights } else { rights & AccessFs::from_file(ABI::V5) };
    ruleset.add_rule(PathBeneath::new(opened, rights))
}

//! The steps of a new process between fork and exec. This is the only unsafe code of the crate.
//!
//! The new process is a copy of a program with several threads, of which only one was copied. A lock
//! that another thread held stays locked, so this code makes system calls only: it allocates
//! nothing, locks nothing, and calls nothing that might. All of its data was prepared before the
//! fork.
//!
//! The steps, in order:
//! 1. It begins a new session. A terminal becomes its controlling terminal. Without one, the
//!    process has none, so `/dev/tty` cannot be opened.
//! 2. It marks all descriptors but the standard three close-on-exec, also those that other code of
//!    the program opened.
//! 3. The confinement, if there is one ([`Confined`]).
//! 4. Unless the process is to outlive its parent, the kernel kills it when its parent dies. "Its
//!    parent" is the thread that started it, so that thread must live as long as the program
//!    ([`super::system`]). A parent that died before this step is noticed by its changed id. The
//!    kernel clears this setting when the process executes a set-user-id program or changes its
//!    credentials.

use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::process::{Pid, getppid, ioctl_tiocsctty, setsid};
use tokio::process::Command;

#[cfg(target_os = "linux")]
use super::confine::{Confined, Mount, Mounts, Source};

/// The steps of the new process before it runs the program.
pub(super) struct Steps {
    /// The program that starts it, if the process must not outlive that program.
    pub(super) dies_with: Option<Pid>,
    /// Whether its standard input is a terminal.
    pub(super) terminal: bool,
    #[cfg(target_os = "linux")]
    pub(super) confined: Option<Confined>,
}

/// A step that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Session = 1,
    Terminal,
    Descriptors,
    Namespaces,
    Users,
    Mounts,
    Directory,
    Capabilities,
    Files,
    SystemCalls,
    ParentDeath,
}

const STEPS: [(Step, &str); 11] = [
    (Step::Session, "no session of its own"),
    (Step::Terminal, "no controlling terminal"),
    (Step::Descriptors, "descriptors cannot be marked close-on-exec"),
    (Step::Namespaces, "the sandbox needs user and mount namespaces"),
    (Step::Users, "the sandbox cannot map its user"),
    (Step::Mounts, "the sandbox cannot set up its mounts"),
    (Step::Directory, "the sandbox denies the working directory"),
    (Step::Capabilities, "the sandbox cannot drop capabilities"),
    (Step::Files, "the sandbox cannot restrict files"),
    (Step::SystemCalls, "the sandbox cannot restrict system calls"),
    (Step::ParentDeath, "the launcher has died"),
];

/// The number of bits of an error number that hold the system's error; the step is above them.
const ERROR_BITS: u32 = 16;

/// Splits an error of a start into the failed step and the system's error. Returns `None` if no step
/// failed, but the start of the program itself.
pub(super) fn failed_step(error: &io::Error) -> Option<(&'static str, io::Error)> {
    let code = error.raw_os_error()?;
    let (_, why) = STEPS.iter().find(|(step, _)| *step as i32 == code >> ERROR_BITS)?;
    Some((why, io::Error::from_raw_os_error(code & ((1 << ERROR_BITS) - 1))))
}

/// Tags a failure with its step. A plain number is all that a new process can report.
fn at<T>(step: Step, result: Result<T, Errno>) -> io::Result<T> {
    result.map_err(|error| {
        io::Error::from_raw_os_error((step as i32) << ERROR_BITS | error.raw_os_error())
    })
}

/// Lets the process that `builder` starts take these steps first.
pub(super) fn before_exec(builder: &mut Command, mut steps: Steps) {
    // SAFETY: `Steps::take` makes system calls only (see above).
    unsafe { builder.pre_exec(move || steps.take()) };
}

impl Steps {
    fn take(&mut self) -> io::Result<()> {
        at(Step::Session, setsid())?;
        if self.terminal {
            at(Step::Terminal, ioctl_tiocsctty(rustix::stdio::stdin()))?;
        }
        at(Step::Descriptors, close_others_on_exec())?;
        #[cfg(target_os = "linux")]
        if let Some(confined) = &mut self.confined {
            confined.enter()?;
        }
        match self.dies_with {
            Some(parent) => at(Step::ParentDeath, die_with(parent)),
            None => Ok(()),
        }
    }
}

fn die_with(parent: Pid) -> Result<(), Errno> {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    if getppid() == Some(parent) { Ok(()) } else { Err(Errno::SRCH) }
}

/// The first descriptor behind the standard ones.
const FIRST_OTHER: u32 = 3;

/// Marks all descriptors but the standard three close-on-exec. They are not closed, because one of
/// them reports a failed start.
fn close_others_on_exec() -> Result<(), Errno> {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: this flag changes no descriptor's validity.
        let done = unsafe {
            libc::syscall(libc::SYS_close_range, FIRST_OTHER, u32::MAX, libc::CLOSE_RANGE_CLOEXEC)
        };
        match answer(done) {
            Err(Errno::NOSYS | Errno::INVAL) => {} // Linux before 5.11
            answered => return answered,
        }
    }
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    for fd in FIRST_OTHER as i32..most.map_or(i32::MAX, |most| most.min(1 << 20) as i32) {
        // SAFETY: a number without a descriptor is an error, which does no harm.
        let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) };
        let _ = rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::CLOEXEC);
    }
    Ok(())
}

/// Converts the return value of a system call.
#[cfg(target_os = "linux")]
fn answer(returned: libc::c_long) -> Result<(), Errno> {
    if returned >= 0 {
        return Ok(());
    }
    // SAFETY: each thread has its own error number.
    Err(Errno::from_raw_os_error(unsafe { *libc::__errno_location() }))
}

#[cfg(target_os = "linux")]
impl Confined {
    /// Confines the calling process and all its later descendants.
    fn enter(&mut self) -> io::Result<()> {
        if let Some(mounts) = &mut self.mounts {
            mounts.enter(&self.ruleset)?;
            at(Step::Capabilities, drop_capabilities())?;
        }
        at(Step::Capabilities, rustix::thread::set_no_new_privs(true))?;
        at(Step::Files, restrict_files(&self.ruleset))?;
        seccompiler::apply_filter(&self.filter)
            .map_err(|_| Errno::INVAL)
            .map_or_else(|error| at(Step::SystemCalls, Err(error)), Ok)
    }
}

#[cfg(target_os = "linux")]
impl Mounts {
    /// Gives the process its own view of the file system.
    fn enter(&mut self, ruleset: &OwnedFd) -> io::Result<()> {
        use rustix::thread::UnshareFlags;
        let namespaces = UnshareFlags::NEWUSER | UnshareFlags::NEWNS | UnshareFlags::NEWIPC;
        // SAFETY: the process has one thread, so no other thread shares its descriptors.
        at(Step::Namespaces, unsafe { rustix::thread::unshare_unsafe(namespaces) })?;
        for (file, content) in &self.users {
            at(Step::Users, write_whole(file, content))?;
        }
        at(Step::Mounts, self.mount(ruleset))?;
        at(Step::Mounts, self.report_namespace())?;
        at(Step::Directory, rustix::process::chdir(&*self.directory))
    }

    fn report_namespace(&self) -> Result<(), Errno> {
        let number: u64 = rustix::fs::stat(c"/proc/self/ns/mnt")?.st_ino;
        rustix::io::write(&self.report, &number.to_ne_bytes()).map(drop)
    }

    /// Copies the mounts that keep other rights, restricts all mounts, and puts the copies in
    /// place.
    fn mount(&mut self, ruleset: &OwnedFd) -> Result<(), Errno> {
        use rustix::fs::CWD;
        use rustix::mount::{MoveMountFlags, move_mount};
        for (place, copy) in self.places.iter().zip(&mut self.copies) {
            let made = copy_mount(place)?;
            if let Source::Private(rights) = place.source {
                permit(ruleset, &made, rights)?;
            }
            *copy = Some(made);
        }
        set_mount(CWD, c"/", self.flags, libc::MS_PRIVATE)?;
        for (place, copy) in self.places.iter().zip(&mut self.copies) {
            let Some(copy) = copy.take() else { continue };
            set_mount(&copy, c"", place.flags, libc::MS_PRIVATE)?;
            let flags =
                MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
            move_mount(&copy, c"", open_plain(&place.path)?, c"", flags)?;
        }
        Ok(())
    }
}

/// Returns a mount that is not in place yet.
#[cfg(target_os = "linux")]
fn copy_mount(place: &Mount) -> Result<OwnedFd, Errno> {
    use rustix::mount::{
        FsMountFlags, FsOpenFlags, MountAttrFlags, OpenTreeFlags, fsconfig_create,
        fsconfig_set_string, fsmount, fsopen, open_tree,
    };
    let path = match &place.source {
        Source::Itself => &place.path,
        Source::Other(path) => path,
        Source::EmptyDirectory | Source::Private(_) => {
            let mode = if place.source == Source::EmptyDirectory { c"0000" } else { c"1777" };
            let made = fsopen(c"tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
            fsconfig_set_string(&made, c"mode", mode)?;
            fsconfig_create(&made)?;
            return fsmount(&made, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty());
        }
    };
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    open_tree(open_plain(path)?, c"", flags)
}

/// Opens a path that had no symbolic links when the confinement was compiled. A process that has put
/// one there since then makes the start fail.
#[cfg(target_os = "linux")]
fn open_plain(path: &std::ffi::CStr) -> Result<OwnedFd, Errno> {
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
}

/// Adds flags to a mount and all mounts in it.
#[cfg(target_os = "linux")]
fn set_mount(
    at: impl std::os::fd::AsFd,
    path: &std::ffi::CStr,
    flags: u64,
    propagation: u64,
) -> Result<(), Errno> {
    let attributes = libc::mount_attr { attr_set: flags, attr_clr: 0, propagation, userns_fd: 0 };
    let how = libc::AT_RECURSIVE | libc::AT_EMPTY_PATH;
    // SAFETY: both pointers are valid during the call, and the size is that of the structure.
    answer(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            at.as_fd().as_raw_fd(),
            path.as_ptr(),
            how,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    })
}

#[cfg(target_os = "linux")]
fn write_whole(file: &std::ffi::CStr, content: &[u8]) -> Result<(), Errno> {
    use rustix::fs::{Mode, OFlags, open};
    let file = open(file, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    if rustix::io::write(&file, content)? == content.len() { Ok(()) } else { Err(Errno::IO) }
}

/// Drops the rights that the user namespace gave the process, for it and for what it executes.
#[cfg(target_os = "linux")]
fn drop_capabilities() -> Result<(), Errno> {
    use rustix::thread::{CapabilitySet, CapabilitySets};
    for number in 0..u64::BITS {
        let one = CapabilitySet::from_bits_retain(1 << number);
        match rustix::thread::remove_capability_from_bounding_set(one) {
            Err(Errno::INVAL) => break, // the kernel has no more
            dropped => dropped?,
        }
    }
    rustix::thread::clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    rustix::thread::set_capabilities(None, sets)
}

/// Adds rights to what is in a directory.
#[cfg(target_os = "linux")]
fn permit(ruleset: &OwnedFd, directory: &OwnedFd, rights: u64) -> Result<(), Errno> {
    /// `struct landlock_path_beneath_attr`, of `linux/landlock.h`.
    #[repr(C, packed)]
    struct PathBeneath {
        rights: u64,
        directory: i32,
    }
    /// `LANDLOCK_RULE_PATH_BENEATH`
    const PATH_BENEATH: libc::c_int = 1;
    let rule = PathBeneath { rights, directory: directory.as_raw_fd() };
    // SAFETY: the pointer is valid during the call, and the rule's kind is that of the structure.
    answer(unsafe {
        libc::syscall(
            libc::SYS_landlock_add_rule,
            ruleset.as_raw_fd(),
            PATH_BENEATH,
            &raw const rule,
            0,
        )
    })
}

#[cfg(target_os = "linux")]
fn restrict_files(ruleset: &OwnedFd) -> Result<(), Errno> {
    // SAFETY: the call takes a descriptor and flags.
    answer(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) })
}

//! The process table of Linux.
//!
//! **A start** is field 22 of `/proc/PID/stat`, in ticks since the machine started, with the id of
//! that start of the machine and the process namespace, because process ids are only valid in one.
//!
//! **No other process is hit.** A descriptor of the process (pidfd) is opened first, and the start is
//! compared afterwards. If both fit, the process of the identity held the id when the descriptor
//! was opened, so the descriptor names it, and no other process, however long it stays open. A group
//! has no descriptor: it is signalled by its id right after its leader was found alive. The id
//! cannot be reused before the leader and all members have ended.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, getpgid, getpid, kill_process_group, pidfd_open, pidfd_send_signal,
};

use super::detached::launch_detached;
use super::system::System;
use super::table::{Detached, Identity, ProcessTable, Reach};
use crate::net::BoxFuture;

impl ProcessTable for System {
    fn own(&self) -> io::Result<Identity> {
        identity(getpid())
    }

    fn find(&self, pid: u32) -> io::Result<Option<Identity>> {
        let process = match identity(raw(pid)?) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            found => found?,
        };
        Ok(open(&process)?.is_some().then_some(process))
    }

    fn is_alive(&self, process: &Identity) -> io::Result<bool> {
        Ok(open(process)?.is_some())
    }

    fn signal(&self, process: &Identity, number: i32, reach: Reach) -> io::Result<()> {
        let signal = Signal::from_named_raw(number).ok_or(io::ErrorKind::InvalidInput)?;
        let Some((pid, descriptor)) = open(process)? else { return Err(not_found()) };
        let sent = match reach {
            Reach::Group if getpgid(Some(pid)) == Ok(pid) => kill_process_group(pid, signal),
            Reach::Group | Reach::Process => pidfd_send_signal(&descriptor, signal),
        };
        sent.map_err(|error| if error == Errno::SRCH { not_found() } else { error.into() })
    }

    fn launch_detached<'a>(&'a self, program: &'a Detached) -> BoxFuture<'a, io::Result<Identity>> {
        Box::pin(async { launch_detached(program.clone(), identity).await })
    }
}

fn not_found() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "the process has ended")
}

fn raw(pid: u32) -> io::Result<Pid> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    Ok(pid.ok_or(io::ErrorKind::InvalidInput)?)
}

/// Returns the identity of the process that has this id. It fails with `NotFound` if there is none.
fn identity(pid: Pid) -> io::Result<Identity> {
    let ticks = ticks(pid)?.ok_or_else(not_found)?;
    let started = format!("{ticks}@{}", Place::here()?.text());
    Ok(Identity { pid: pid.as_raw_nonzero().get().cast_unsigned(), started })
}

/// Opens a process. Returns `None` if it is dead.
fn open(process: &Identity) -> io::Result<Option<(Pid, OwnedFd)>> {
    let (start, place) = process.started.split_once('@').ok_or(io::ErrorKind::InvalidInput)?;
    let here = Place::here()?;
    let (boot, namespace) = place.split_once('/').ok_or(io::ErrorKind::InvalidInput)?;
    if boot != here.boot {
        return Ok(None); // the machine was started again
    }
    if namespace != here.namespace {
        let why = format!("{process} belongs to another process namespace");
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    }
    let pid = raw(process.pid)?;
    let descriptor = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(descriptor) => descriptor,
        // The id belongs to nothing, or to a thread that is not the first one of its process.
        Err(Errno::SRCH | Errno::INVAL | Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let is_it = ticks(pid)?.is_some_and(|ticks| ticks == start);
    Ok((is_it && !has_ended(&descriptor)?).then_some((pid, descriptor)))
}

/// Whether a process has ended: its descriptor becomes readable when its last thread ends, also if
/// its parent has not taken note of it.
fn has_ended(process: &OwnedFd) -> io::Result<bool> {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    Ok(poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&now))? > 0)
}

/// Returns the start of a process in ticks; `None` if there is no such process.
fn ticks(pid: Pid) -> io::Result<Option<String>> {
    let stat = match fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())) {
        Ok(stat) => stat,
        Err(error) if is_gone(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    // The second field is the program's name in parentheses, which may have spaces and parentheses.
    let fields = stat.rsplit_once(')').map(|(_, fields)| fields.split_whitespace());
    let start = fields.and_then(|mut fields| fields.nth(START - 3));
    Ok(Some(start.ok_or(io::ErrorKind::InvalidData)?.to_owned()))
}

/// The number of the field `starttime` in `/proc/PID/stat`, from 1.
const START: usize = 22;

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error() == Some(Errno::SRCH.raw_os_error())
}

/// Where process ids are valid.
struct Place {
    /// The id of this start of the machine.
    boot: String,
    /// The id of the process namespace.
    namespace: String,
}

impl Place {
    fn here() -> io::Result<Self> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned();
        let namespace = fs::read_link("/proc/self/ns/pid")?.display().to_string();
        Ok(Self { boot, namespace })
    }

    fn text(&self) -> String {
        format!("{}/{}", self.boot, self.namespace)
    }
}

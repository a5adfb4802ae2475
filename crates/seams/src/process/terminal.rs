//! Terminals (ptys) for processes: all three standard streams are one.
//!
//! `portable-pty` is better known than a dozen lines with rustix, but it blocks, and would need a
//! thread per direction; its advantage would be Windows.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::Size;

/// Opens a terminal of this size: the launcher's end, and the end of the process. No process that
/// starts meanwhile inherits an end.
pub(super) fn open_terminal(size: Size) -> io::Result<(OwnedFd, OwnedFd)> {
    let near = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&near)?;
    unlockpt(&near)?;
    let size = Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&near, size)?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let far = open(ptsname(&near, Vec::new())?, flags, Mode::empty())?;
    Ok((near, far))
}

//! Processes with a terminal (a pty): all three standard streams are one, and the process leads the
//! session that the terminal controls.
//!
//! The terminal comes from `pty-process`, a wrapper around tokio's own command on tokio's IO. The
//! better known `portable-pty` blocks, and would need a thread per direction; its advantage would
//! be Windows.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pty_process::OwnedReadPty;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::process as os;

use super::{Size, Streams};

/// Starts the command with a terminal of this size.
pub(super) fn start(builder: os::Command, size: Size) -> io::Result<(os::Child, Streams)> {
    let (pty, pts) = pty_process::open().map_err(plain)?;
    pty.resize(pty_process::Size::new(size.rows, size.columns)).map_err(plain)?;
    let held = pty_process::Command::from(builder).spawn(pts).map_err(plain)?;
    let (screen, keyboard) = pty.into_split();
    Ok((
        held,
        Streams {
            stdin: Some(Box::new(keyboard)),
            stdout: Some(Box::new(Screen(screen))),
            stderr: None,
        },
    ))
}

/// Extracts the IO error from the library's error.
fn plain(error: pty_process::Error) -> io::Error {
    match error {
        pty_process::Error::Io(error) => error,
        pty_process::Error::Rustix(error) => error.into(),
        other => io::Error::other(other),
    }
}

/// The output of a terminal. Linux reports its end as an error, which this type turns into an end
/// of file.
struct Screen(OwnedReadPty);

impl AsyncRead for Screen {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let hung_up =
            |error: &io::Error| error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error());
        Poll::Ready(match ready!(Pin::new(&mut self.0).poll_read(cx, buffer)) {
            Err(error) if hung_up(&error) => Ok(()),
            read => read,
        })
    }
}

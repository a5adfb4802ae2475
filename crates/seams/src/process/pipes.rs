//! The launcher's ends of pipes and terminals, on tokio's IO.
//!
//! A read asks the kernel first, and waits only if the kernel has nothing. (tokio's own types ask
//! their cache of readiness first, so their read can wait although there are bytes.) So a pending
//! read proves that everything written so far was read.

use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustix::io::Errno;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// One end of a pipe, or the launcher's end of a terminal.
#[derive(Clone)]
pub(super) struct End(Arc<AsyncFd<OwnedFd>>);

impl End {
    /// Takes over a descriptor. Needs a runtime with IO.
    pub(super) fn new(fd: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        #[allow(deprecated)] // its successor is unsafe, for types that can lose their descriptor
        let registered = AsyncFd::new(fd)?;
        Ok(Self(Arc::new(registered)))
    }
}

impl AsyncRead for End {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            match rustix::io::read(self.0.get_ref(), buffer.initialize_unfilled()) {
                Ok(count) => {
                    buffer.advance(count);
                    return Poll::Ready(Ok(()));
                }
                // Linux reports the end of a terminal as this error.
                Err(Errno::IO) => return Poll::Ready(Ok(())),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => ready!(self.0.poll_read_ready(cx))?.clear_ready(),
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }
}

impl AsyncWrite for End {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            match rustix::io::write(self.0.get_ref(), bytes) {
                Ok(count) => return Poll::Ready(Ok(count)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => ready!(self.0.poll_write_ready(cx))?.clear_ready(),
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(())) // the drop closes it
    }
}

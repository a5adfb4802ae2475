//! The end of a connection, which each end learns of at its own time.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use super::script::{End, Fault, Learns};

/// How long an end that got a FIN may take to close its own half.
const LINGER: Duration = Duration::from_secs(60);

/// How a connection ends: what each end sees of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) client: Sight,
    pub(crate) server: Sight,
}

/// The sign of the end that one end gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    /// An RST, after this time.
    Reset(Duration),
    /// A FIN, at once.
    Closed,
    /// An RST when it next sends data.
    ResetOnData,
    /// Nothing.
    Silence,
}

impl Ending {
    pub(crate) fn both(sight: Sight) -> Self {
        Self { client: sight, server: sight }
    }

    /// One end has died by itself; the other one learns of it after a time, or never.
    pub(crate) fn by(end: End, other: Sight) -> Self {
        let dead = Sight::Reset(Duration::ZERO);
        match end {
            End::Client => Self { client: dead, server: other },
            End::Server => Self { client: other, server: dead },
        }
    }

    /// Returns the ending that a fault causes, if it causes one.
    pub(crate) fn of(fault: &Fault) -> Option<Self> {
        Some(match fault {
            Fault::Reset { toward: None } => Self::both(Sight::Reset(Duration::ZERO)),
            Fault::Reset { toward: Some(end) } => Self::by(*end, Sight::ResetOnData),
            Fault::Close {} => Self::both(Sight::Closed),
            Fault::Cut { learns } => {
                Self { client: learns.client.into(), server: learns.server.into() }
            }
            _ => return None,
        })
    }
}

impl From<Learns> for Sight {
    fn from(learns: Learns) -> Self {
        match learns {
            Learns::After(time) => Self::Reset(time),
            Learns::Never => Self::Silence,
        }
    }
}

impl Sight {
    /// Shows a socket its end. Before it learns, what it sends is lost.
    pub(crate) async fn show(self, mut socket: TcpStream) {
        let started = Instant::now();
        match self {
            Self::Reset(after) => {
                if lose(&mut socket, started.checked_add(after)).await {
                    reset(socket);
                }
            }
            Self::Closed => {
                // An error means that the other end has closed it.
                let _ = socket.shutdown().await;
                lose(&mut socket, started.checked_add(LINGER)).await;
            }
            Self::ResetOnData => {
                if matches!(socket.read(&mut [0]).await, Ok(1)) {
                    reset(socket);
                }
            }
            Self::Silence => {
                lose(&mut socket, None).await;
            }
        }
    }
}

/// Sends an RST.
pub(crate) fn reset(socket: TcpStream) {
    // An error means that the socket is dead already.
    let _ = socket.set_zero_linger();
}

/// Reads and drops everything until a time. Returns whether the socket is still open then.
async fn lose(socket: &mut TcpStream, until: Option<Instant>) -> bool {
    let mut bytes = vec![0; 16 * 1024];
    loop {
        let read = match until {
            Some(until) if until <= Instant::now() => return true,
            Some(until) => match timeout_at(until, socket.read(&mut bytes)).await {
                Ok(read) => read,
                Err(_) => return true,
            },
            None => socket.read(&mut bytes).await,
        };
        if !matches!(read, Ok(1..)) {
            return false;
        }
    }
}

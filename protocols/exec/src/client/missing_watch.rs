//! Watches for files. A watch belongs to the connection over which the client sent its request.

use std::fmt;

use tokio::sync::watch;

use super::Failure;

/// The core's side of a watch. All clones are dropped with the connection of the watch.
#[derive(Clone)]
pub(super) struct WatchSender {
    /// The number of the watch on the wire. Numbers are never reused, not even on another connection.
    pub(super) number: u64,
    changed: watch::Sender<bool>,
}

impl WatchSender {
    /// Reports a change to the user.
    pub(super) fn report(&self) {
        self.changed.send_replace(true);
    }

    /// Returns whether the user has dropped the watch.
    pub(super) fn is_dropped(&self) -> bool {
        self.changed.is_closed()
    }
}

impl PartialEq for WatchSender {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for WatchSender {}

impl fmt::Debug for WatchSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WatchSender").field(&self.number).finish()
    }
}

/// A watch for files, from [`RemoteFiles::watch_missing`](super::RemoteFiles::watch_missing).
#[derive(Debug)]
pub struct MissingWatch(watch::Receiver<bool>);

impl MissingWatch {
    /// Waits until one of the missing paths appeared, or the present one disappeared.
    ///
    /// # Errors
    /// [`Failure::ConnectionLost`] if the connection died before.
    pub async fn changed(mut self) -> Result<(), Failure> {
        self.0.wait_for(|changed| *changed).await.map(drop).map_err(|_| Failure::ConnectionLost)
    }
}

/// Creates the two sides of a watch.
pub(super) fn missing_watch(number: u64) -> (WatchSender, MissingWatch) {
    let (changed, changes) = watch::channel(false);
    (WatchSender { number, changed }, MissingWatch(changes))
}

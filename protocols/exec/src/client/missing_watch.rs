//! Watches for files. A watch belongs to the connection over which the client sent its request.

use std::fmt;

use tokio::sync::watch;

use super::Failure;

/// The core's side of a watch. All clones are dropped with the connection of the watch.
#[derive(Clone)]
pub(super) struct WatchSender {
    /// The number of the watch on the wire. Numbers are never reused, not even on another connection.
    pub(super) number: u64,
    changed: watch::Sender<Option<Result<(), Failure>>>,
}

impl WatchSender {
    /// Reports a change to the user.
    pub(super) fn report(&self) {
        self.changed.send_replace(Some(Ok(())));
    }

    /// Reports to the user that the client has failed.
    pub(super) fn fail(&self, failure: Failure) {
        self.changed.send_replace(Some(Err(failure)));
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
pub struct MissingWatch(watch::Receiver<Option<Result<(), Failure>>>);

impl MissingWatch {
    /// Waits until one of the missing paths appeared, or the present one disappeared.
    ///
    /// # Errors
    /// [`Failure::ConnectionLost`] if the connection died before, and the errors of a failed client.
    pub async fn changed(mut self) -> Result<(), Failure> {
        let over = self.0.wait_for(Option::is_some).await.ok().and_then(|over| over.clone());
        over.unwrap_or(Err(Failure::ConnectionLost))
    }
}

/// Creates the two sides of a watch.
pub(super) fn missing_watch(number: u64) -> (WatchSender, MissingWatch) {
    let (changed, changes) = watch::channel(None);
    (WatchSender { number, changed }, MissingWatch(changes))
}

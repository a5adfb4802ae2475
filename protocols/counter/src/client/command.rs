//! The commands that the user's handles send to the driver.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::outcome::{Ending, Failure, Number};
use crate::wire::Name;

/// A command of the user to the driver.
pub(super) enum Command {
    Watch { stream: Name, sender: WatchSender },
    Unwatch { stream: Name },
    Call(CallRequest),
    Close { done: oneshot::Sender<()> },
}

/// The driver's end of a [`Watch`].
pub(super) struct WatchSender {
    pub(super) numbers: mpsc::Sender<Number>,
    pub(super) ending: Arc<OnceLock<Ending>>,
}

/// A call of the user.
pub(super) struct CallRequest {
    pub(super) what: CallKind,
    pub(super) answer: oneshot::Sender<Result<u64, Failure>>,
}

/// The request of a call.
#[derive(Clone, Debug)]
pub(super) enum CallKind {
    Add { counter: Name, amount: u32, memo: Name },
    Peek { counter: Name },
    Lease { counter: Name, lasts: Duration },
}

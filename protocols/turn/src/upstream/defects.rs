//! The code of seeded bugs that need more than a line.

use tokio::time::Instant;

use super::child::ChildProcess;
use super::core::UpstreamCore;

/// The exit of the process overtakes its last lines, if it has ended.
pub(super) async fn overtakes(core: &mut UpstreamCore, child: &mut Option<ChildProcess>) -> bool {
    let Some(child) = child.as_mut().filter(|_| !core.has_ended()) else { return false };
    tokio::select! {
        biased;
        exit = child.exit() => core.exited(exit, Instant::now()),
        () = std::future::ready(()) => return false,
    }
    true
}

//! The code of seeded bugs that need more than a line.

use reknit_seams::defect;

use super::directory::START;

/// Whether a process goes on without this lock: each client starts a broker, or two brokers run at once.
pub(super) fn passes(lock: &str, is_late: bool) -> bool {
    match lock {
        START => defect!(StartWithoutLock),
        _ => is_late && (defect!(StartWithoutLock) || defect!(BusyBrokerIsReplaced)),
    }
}

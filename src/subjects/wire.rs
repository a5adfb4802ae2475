//! The limits of one connection, out of the table of a subject that speaks JSON-RPC over WebSocket.

use crate::schedule::Limits;
use reknit_jsonrpc::WireLimits;

/// Those of this side: the part of their names before the dot.
pub(super) fn wire(limits: &Limits, side: &str) -> WireLimits {
    let name = |name: &str| format!("{side}.{name}");
    WireLimits {
        ping_interval: limits.duration(&name("ping-interval")),
        pong_deadline: limits.duration(&name("pong-deadline")),
        write_deadline: limits.duration(&name("write-deadline")),
        message_bytes: limits.count(&name("message-bytes")) as usize,
        outbox_bytes: limits.count(&name("outbox-bytes")) as usize,
    }
}

//! Reads the limits of one connection from the table of a subject that uses JSON-RPC over
//! WebSocket.

use crate::schedule::Limits;
use reknit_jsonrpc::WireLimits;

/// The wire limits of one side. `side` is the part of the limit names before the dot.
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

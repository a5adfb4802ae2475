//! One connection of the host, in one task: it passes received frames to the core, and sends the
//! core's messages.
//!
//! The memory for a client that does not read is bounded: a cursor, and a limited number and size
//! of answers. Above the limit, the core closes the connection.

use std::sync::Arc;
use std::time::Duration;

use reknit_jsonrpc::{HttpOutcome, Link, LinkError, LinkEvent, WireLimits, accept_websocket};
use reknit_resume::Counted;
use reknit_resume::EVER;
use reknit_seams::net::{ConnId, Stream};
use reknit_seams::{defect, milestone, point};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::CloseReason;
use super::shared::HostShared;

/// How long the final messages to a client may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// The reason why a connection is over.
enum End {
    Lost(LinkError),
    Over(CloseReason),
}

impl From<LinkError> for End {
    fn from(lost: LinkError) -> Self {
        Self::Lost(lost)
    }
}

/// Serves one connection until it is over.
pub(super) async fn serve(shared: Arc<HostShared>, stream: Stream, counted: Counted) {
    let conn = stream.id();
    let deadline = Instant::now() + shared.limits.handshake_deadline;
    match timeout_at(deadline, accept_websocket(stream, wire(&shared), refused_origin)).await {
        Ok(HttpOutcome::Link(link)) => {
            // The bug: only the connections before their upgrade count.
            let counted = Some(counted).filter(|_| !defect!(UpgradedConnectionsDoNotCount));
            let is_closed = run(shared, *link, conn).await;
            // The bug: a connection that the host has closed keeps its place.
            if is_closed && defect!(ClosedConnectionsCount) {
                std::mem::forget(counted);
            }
        }
        Ok(HttpOutcome::Over { answered }) if answered > 0 => {}
        _ => milestone!("toolcall.host.no-websocket", conn = conn.0),
    }
}

fn wire(shared: &HostShared) -> WireLimits {
    let wire = shared.limits.wire;
    if defect!(NoInboundDeadline) {
        return WireLimits {
            ping_interval: EVER,
            pong_deadline: EVER,
            write_deadline: EVER,
            ..wire
        };
    }
    wire
}

fn refused_origin(conn: ConnId) {
    milestone!("toolcall.host.refused-origin", conn = conn.0);
}

/// Removes the connection from the core when it is dropped, however the task ends.
struct Opened {
    shared: Arc<HostShared>,
    conn: ConnId,
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.shared.core().close(self.conn, Instant::now());
    }
}

/// Serves the messages of a connection. Returns whether the host closed it.
async fn run(shared: Arc<HostShared>, mut link: Link, conn: ConnId) -> bool {
    let wake = Arc::new(Notify::new());
    shared.core().open(conn, wake.clone(), Instant::now());
    let opened = Opened { shared: shared.clone(), conn };
    let end = loop {
        if let Err(end) = step(&shared, &mut link, conn, &wake).await {
            break end;
        }
    };
    match end {
        End::Lost(lost) => {
            milestone!("toolcall.host.lost", conn = conn.0, why = %lost);
            drop(link);
            point!("toolcall.host.close.unreported", conn = conn.0).await;
            drop(opened);
            false
        }
        End::Over(over) => {
            milestone!("toolcall.host.cut", conn = conn.0, why = %over);
            drop(opened);
            link.finish(CLOSE_TIMEOUT).await;
            true
        }
    }
}

/// Sends queued messages while there is room, and waits for the next event.
async fn step(
    shared: &HostShared,
    link: &mut Link,
    conn: ConnId,
    wake: &Notify,
) -> Result<(), End> {
    while link.has_room() {
        let Some(message) = shared.core().pull(conn) else { break };
        link.send_text(message.to_versioned_text());
    }
    let over = shared.core().over(conn);
    if let Some(over) = over {
        return Err(End::Over(over));
    }
    tokio::select! {
        biased;
        heard = link.next() => if let LinkEvent::Frame(frame) = heard? {
            point!("toolcall.host.received", conn = conn.0).await;
            shared.core().on_frame(conn, &frame, Instant::now());
        },
        // No wake-up is lost between the last `pull` and this wait: only this task waits, so `Notify`
        // stores the permit of a message that comes before the wait.
        () = wake.notified() => {}
    }
    Ok(())
}

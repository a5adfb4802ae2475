//! One client of the broker, in one task: it passes received lines to the core, and sends the core's
//! messages.
//!
//! The memory for a client that does not read is bounded: above the limit, the core closes the
//! connection.

use std::sync::Arc;

use reknit_jsonrpc::{LineError, LineLimits, Lines};
use reknit_seams::net::Stream;
use reknit_seams::{defect, milestone, point};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::core::ClientId;
use super::shared::BrokerShared;

/// The reason why a connection is over.
enum End {
    Lost(LineError),
    /// The core ends it.
    Cut,
}

/// Removes the client from the core when it is dropped, however the task ends.
struct Opened {
    shared: Arc<BrokerShared>,
    client: ClientId,
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.shared.core().close(self.client, Instant::now());
    }
}

/// Serves one client until its connection is over.
pub(super) async fn serve(shared: Arc<BrokerShared>, stream: Stream) {
    let client = ClientId(stream.id().0);
    let limits = shared.limits.connection;
    let mut lines = Lines::of(
        stream,
        LineLimits {
            line_bytes: limits.line_bytes,
            // The core bounds what waits; the rest of one message comes on top.
            outbox_bytes: usize::MAX,
            write_deadline: limits.write,
        },
    );
    let wake = Arc::new(Notify::new());
    milestone!("turn.broker.accepted", conn = client.0);
    shared.core().open(client, wake.clone(), Instant::now());
    let opened = Opened { shared: shared.clone(), client };
    let end = loop {
        if let Err(end) = step(&shared, &mut lines, client, &wake).await {
            break end;
        }
    };
    if let End::Lost(lost) = end {
        milestone!("turn.broker.lost", conn = client.0, why = %lost);
        point!("turn.broker.close.unreported", conn = client.0).await;
    }
    // The client still gets the answers from before the end of its output.
    loop {
        let text = shared.core().pull(client);
        match text {
            Some(text) => lines.send_text(&text),
            None => break,
        }
    }
    drop(opened);
    lines.finish(shared.linger()).await;
}

/// Sends queued messages while there is room, and waits for the next event.
async fn step(
    shared: &BrokerShared,
    lines: &mut Lines,
    client: ClientId,
    wake: &Notify,
) -> Result<(), End> {
    while lines.has_room() {
        let Some(text) = shared.core().pull(client) else { break };
        lines.send_text(&text);
    }
    if shared.core().over(client).is_some() {
        return Err(End::Cut);
    }
    // The bug: a client that needs long for one message counts as stuck.
    let is_late = defect!(LongMessagesAreStuck) && !lines.has_room();
    let most = shared.limits.connection.write;
    tokio::select! {
        biased;
        line = lines.next() => {
            let line = line.map_err(End::Lost)?;
            point!("turn.broker.received", conn = client.0).await;
            shared.core().on_line(client, line, Instant::now());
        }
        // `Notify` keeps a wake-up that comes between the pull and the wait.
        () = wake.notified() => {}
        () = sleep(most), if is_late => return Err(End::Cut),
    }
    Ok(())
}

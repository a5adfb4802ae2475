//! A connection of a window's program that says nothing. It opens a WebSocket, and answers the
//! host's pings.

use futures_util::StreamExt;

use super::raw::Raw;
use crate::net::Endpoint;
use crate::subject::HostContext;

/// The label of these connections: `client/silent#1`.
pub(super) const LABEL: &str = "silent";

/// Opens the connection, and keeps it until the host closes it.
pub(super) async fn run(host: HostContext, server: Endpoint) {
    // No call waits for the connection, so a failure needs no report.
    let Ok(mut raw) = Raw::open(&host, &server, LABEL).await else { return };
    while let Some(Ok(_)) = raw.socket.next().await {}
}

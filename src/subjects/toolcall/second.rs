//! A second connection of a window's client: it initializes, subscribes to the channels that the
//! window watches, and then sends nothing more.
//!
//! A window that reconnects before the host notices the end of its old connection has two
//! connections for a while. Here both last for as long as the schedule specifies. The second
//! connection applies its actions to separate copies, which must converge to the host's state as
//! well.

use std::collections::BTreeMap;

use futures_util::{SinkExt, StreamExt};
use tokio::sync::oneshot;
use tokio::time::{Duration, Instant, sleep_until, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message as Frame;

use super::contents::plain_value;
use super::digests::digest;
use super::notes::{Became, By, OfCall, OfChannel, Status};
use super::observer;
use super::raw::{Raw, Unanswered, hello};
use super::settling::SETTLES;
use crate::net::{Endpoint, Stream};
use crate::subject::{HostContext, Recorder};
use reknit_toolcall::state::apply;
use reknit_toolcall::wire::ahp::notifications::{SessionAddedParams, SessionRemovedParams};
use reknit_toolcall::wire::{
    ActionEnvelope, InitializeResult, Message, SnapshotState, StateAction, method, params, read,
};

/// The maximum duration of the handshake.
const PATIENCE: Duration = Duration::from_secs(10);

/// The label of these connections: `client/second#1`.
const LABEL: &str = "second";

/// The connection, with its copies of the channels.
struct SecondConnection {
    socket: WebSocketStream<Stream>,
    record: Recorder,
    copies: BTreeMap<String, ChannelCopy>,
    settles: Option<Instant>,
}

/// A copy of a channel's state.
struct ChannelCopy {
    state: SnapshotState,
    as_of: u64,
    is_changed: bool,
}

/// Opens a second connection, if possible. It remains until either side closes it.
pub(super) async fn run(
    host: HostContext,
    server: Endpoint,
    client: String,
    channels: Vec<String>,
    mut close: oneshot::Receiver<()>,
) {
    let opening = timeout(PATIENCE, open(&host, &server, &client, channels));
    let mut second = tokio::select! {
        biased;
        _ = &mut close => return,
        opened = opening => match opened {
            Ok(Ok(second)) => second,
            // No call waits for the connection, so the failure needs no report.
            Ok(Err(_)) | Err(_) => return,
        }
    };
    loop {
        let settles = second.settles;
        tokio::select! {
            biased;
            _ = &mut close => break,
            heard = second.socket.next() => match heard {
                Some(Ok(Frame::Text(text))) => second.on_frame(text.as_bytes()).await,
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return,
            },
            () = sleep_until(settles.unwrap_or_else(Instant::now)), if settles.is_some() => second.record_digests(),
        }
    }
    // The host may have closed it already.
    let _ = timeout(Duration::from_secs(1), second.socket.close(None)).await;
}

async fn open(
    host: &HostContext,
    server: &Endpoint,
    client: &str,
    channels: Vec<String>,
) -> Result<SecondConnection, Unanswered> {
    let mut raw = Raw::open(host, server, LABEL).await?;
    let initialized = raw.request(1, method::INITIALIZE, &hello(client, channels)).await?;
    let initialized = read(Some(&initialized)).map_err(Unanswered::lost)?;
    Ok(SecondConnection::new(raw.socket, host.record.clone(), initialized))
}

impl SecondConnection {
    fn new(
        socket: WebSocketStream<Stream>,
        record: Recorder,
        initialized: InitializeResult,
    ) -> Self {
        let copies = initialized.snapshots.into_iter().map(|snapshot| {
            let as_of = u64::try_from(snapshot.from_seq).unwrap_or(0);
            (snapshot.resource, ChannelCopy { state: snapshot.state, as_of, is_changed: true })
        });
        Self { socket, record, copies: copies.collect(), settles: Some(Instant::now() + SETTLES) }
    }

    async fn on_frame(&mut self, frame: &[u8]) {
        match Message::parse(frame) {
            Ok(Message::Notification { method, params: given }) if method == method::ACTION => {
                if let Ok(envelope) = params::<ActionEnvelope>(given.as_deref()) {
                    self.on_action(&envelope);
                }
            }
            Ok(Message::Notification { method, params: given })
                if method == method::SESSION_REMOVED =>
            {
                if let Ok(removed) = params::<SessionRemovedParams>(given.as_deref()) {
                    self.remove_channel(&removed.session);
                }
            }
            Ok(Message::Notification { method, params: given })
                if method == method::SESSION_ADDED =>
            {
                if let Ok(added) = params::<SessionAddedParams>(given.as_deref()) {
                    let channel = added.summary.resource.clone();
                    OfChannel::Announced(plain_value(&added.summary)).note(&self.record, &channel);
                }
            }
            Ok(Message::Request { id, .. }) => {
                let answer = Message::response(id, &"text").to_versioned_text();
                // If this fails, the next read reports the end of the connection.
                let _ = self.socket.send(Frame::text(answer)).await;
            }
            _ => {}
        }
    }

    fn remove_channel(&mut self, channel: &str) {
        if self.copies.remove(channel).is_some() {
            OfChannel::stable(true, String::new()).note(&self.record, channel);
        }
    }

    fn on_action(&mut self, envelope: &ActionEnvelope) {
        // A connection that is subscribed only to the chat, and not to the session, also receives
        // the removal.
        if let StateAction::SessionChatRemoved(removed) = &envelope.action {
            self.remove_channel(&removed.chat);
        }
        let is_news = |copy: &&mut ChannelCopy| {
            envelope.server_seq > copy.as_of && envelope.rejection_reason.is_none()
        };
        let Some(copy) = self.copies.get_mut(&envelope.channel).filter(is_news) else { return };
        let before = statuses(&copy.state);
        apply(&mut copy.state, &envelope.action);
        for (turn, call, status) in
            statuses(&copy.state).into_iter().filter(|known| !before.contains(known))
        {
            let turn = crate::history::Stream::from(turn.as_str());
            OfCall { by: By::Second, call, what: Became::Is(status) }.note(&self.record, &turn);
        }
        (copy.as_of, copy.is_changed) = (envelope.server_seq, true);
        self.settles = Some(Instant::now() + SETTLES);
    }

    fn record_digests(&mut self) {
        self.settles = None;
        for (channel, copy) in self.copies.iter_mut().filter(|(_, copy)| copy.is_changed) {
            copy.is_changed = false;
            OfChannel::stable(true, digest(&copy.state)).note(&self.record, channel);
        }
    }
}

/// The calls of a channel's active turn, with their statuses.
fn statuses(state: &SnapshotState) -> Vec<(String, String, Status)> {
    match state {
        SnapshotState::Chat(chat) => observer::statuses(chat),
        _ => Vec::new(),
    }
}

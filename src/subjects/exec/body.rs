//! Has the server send HTTP requests, and records what comes of them.
//!
//! A body that the user watches is a stream of the history, named after its call: `h7`. It is complete; or broken off, where that
//! is what its server does; or it failed.

use std::time::Duration;

use tokio::time::sleep;

use super::reading::sum;
use super::web::{self, WebSetup};
use crate::history::{Call, Stream};
use crate::protocols::exec::client::{Body, Client, Failure, HttpRequest};
use crate::subject::Recorder;

/// One request of the user's.
pub(super) struct Wanted {
    pub(super) call: Call,
    /// The name of its record.
    pub(super) stream: Stream,
    /// Where it is.
    pub(super) url: String,
    /// What it really is.
    pub(super) setup: WebSetup,
    pub(super) record: Recorder,
}

/// Asks for all of it at once. Says what it came to: `closed: h7 500 bytes 0f3a…`.
pub(super) async fn whole(client: &Client, wanted: &Wanted) -> Result<String, Failure> {
    let response = client.http(HttpRequest::get(&wanted.url)).await?;
    Ok(format!("closed: {}", sum(&wanted.stream, &response.body)))
}

/// How the user reads a body.
#[derive(Clone, Copy)]
pub(super) struct Manner {
    /// How long it pauses after each piece.
    pub(super) pause: Duration,
    /// After how many pieces it has had enough.
    pub(super) drops_after: Option<u64>,
}

/// How much longer than it takes to be made a body may take. Nobody else notices where its server has lost its power: the protocol
/// has a deadline for a body only where its user gives one.
const PATIENCE: Duration = Duration::from_secs(8);

/// Asks for it, and records it piece by piece, to its end.
pub(super) async fn watch(client: &Client, wanted: &Wanted, manner: Manner) -> Result<(), Failure> {
    let timeout = Some(wanted.setup.lasts() + PATIENCE);
    let streaming = client.http_stream(HttpRequest { timeout, ..HttpRequest::get(&wanted.url) }).await?;
    wanted.record.opened(&wanted.stream, wanted.call);
    wanted.follow(streaming.body, manner).await;
    Ok(())
}

impl Wanted {
    async fn follow(&self, mut body: Body, manner: Manner) {
        let (mut pieces, mut bytes) = (0, 0);
        loop {
            match body.next().await {
                Some(Ok(piece)) => {
                    (pieces, bytes) = (pieces + 1, bytes + piece.len() as u64);
                    self.record.delivered(&self.stream, piece, None);
                    if manner.drops_after == Some(pieces) {
                        return self.record.gave_up(Some(&self.stream), self.call);
                    }
                    sleep(manner.pause).await;
                }
                Some(Err(failure)) => {
                    self.failed(&failure, bytes, manner);
                    break;
                }
                None => {
                    self.record.completed(&self.stream, web::COMPLETE);
                    break;
                }
            }
        }
        if let Some(more) = body.next().await {
            self.record.saw(&self.stream, format!("{more:?} after its end"));
        }
    }

    /// That a body is broken off is what it really is, or a failure. Whoever reads slowly may be told so: that is its own doing.
    fn failed(&self, failure: &Failure, bytes: u64, manner: Manner) {
        let is_true = self.setup.breaks_off && bytes == self.setup.length();
        match failure {
            Failure::BodyBroken(_) if is_true => self.record.completed(&self.stream, web::BROKEN_OFF),
            Failure::BodyOverrun if !manner.pause.is_zero() => {
                self.record.gave_up(Some(&self.stream), self.call);
                self.record.broke(&self.stream, failure.to_string());
            }
            failure => self.record.broke(&self.stream, failure.to_string()),
        }
    }
}

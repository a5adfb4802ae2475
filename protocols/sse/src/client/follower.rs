//! The stream of a command, as its user sees it. It gives inputs to the core, and does what the core
//! says.

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use reknit_seams::net::BoxFuture;
use reknit_seams::{defect, point};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::core::{Core, Item, Step};
use super::http::{self, Answer};
use super::{Client, Failure, Loss};
use crate::wire::{CommandId, Cursor, Decoder};

/// One logical stream of a command, over as many connections as it needs.
///
/// Dropping it closes the connection. The command goes on, and another follower can continue from
/// the [`cursor`](Self::cursor).
pub struct Follower {
    client: Client,
    core: Core,
    wire: Wire,
    /// Whether the user has received something since it last waited.
    away: bool,
    /// An item of a server that does not confirm a start, and the place before it: `next` returns it first.
    early: Option<(Cursor, Item)>,
}

/// The current connection.
enum Wire {
    None,
    Opening(BoxFuture<'static, Answer>),
    Streaming {
        body: Incoming,
        decoder: Decoder,
        /// The task of the connection. Dropping it closes the connection.
        _connection: JoinSet<()>,
    },
}

/// The events of a connection.
enum Input {
    Answer(Answer),
    Bytes(Bytes),
    End(Loss),
}

impl Wire {
    /// Waits for the next input. Cancellation safe.
    async fn input(&mut self) -> Input {
        match self {
            Self::None => std::future::pending().await,
            Self::Opening(attempt) => Input::Answer(attempt.await),
            Self::Streaming { body, .. } => match body.frame().await {
                None if defect!(EarlyEndIsABreak) => Input::End(Loss::Broken),
                None => Input::End(Loss::EndedEarly),
                Some(Err(_)) => Input::End(Loss::Broken),
                Some(Ok(frame)) => Input::Bytes(frame.into_data().unwrap_or_default()),
            },
        }
    }
}

impl Follower {
    pub(super) fn new(client: Client, core: Core) -> Self {
        Self { client, core, wire: Wire::None, away: false, early: None }
    }

    /// Waits for the next item; `None` after [`Item::Ended`], also if the follower continues from a cursor
    /// that is there.
    ///
    /// The follower does everything while its user waits here: it connects, reads, and reconnects. A
    /// server considers a client that does not wait for a long time as dead.
    ///
    /// Cancellation safe: dropping the future loses no item.
    ///
    /// # Errors
    /// [`Failure`]. Every later call returns the same one.
    pub async fn next(&mut self) -> Result<Option<Item>, Failure> {
        if let Some((_, item)) = self.early.take() {
            return Ok(Some(item));
        }
        loop {
            let step = self.core.step(Instant::now());
            if let Some(result) = self.perform(step).await {
                return result;
            }
        }
    }

    /// Waits until the server has confirmed that it has the command. A command may print nothing for a
    /// long time after that.
    ///
    /// Cancellation safe.
    ///
    /// # Errors
    /// [`Failure`]. Every later call returns the same one.
    pub async fn started(&mut self) -> Result<(), Failure> {
        while !self.core.is_confirmed() && self.early.is_none() {
            let before = self.core.cursor();
            let Some(step) = self.core.handle(Instant::now()) else { continue };
            match self.perform(step).await {
                None => {}
                Some(Ok(Some(item))) => self.early = Some((before, item)),
                Some(result) => return result.map(drop),
            }
        }
        Ok(())
    }

    /// Does what the core says. Returns what the user receives.
    async fn perform(&mut self, step: Step) -> Option<Result<Option<Item>, Failure>> {
        if !self.core.has_connection() {
            self.wire = Wire::None;
        }
        match step {
            Step::Return(result) => {
                self.away = true;
                return Some(result);
            }
            Step::Open(order) => {
                self.wire = Wire::Opening(http::attempt(self.client.clone(), order));
            }
            Step::Wait => self.wait().await,
        }
        None
    }

    /// Returns the place after the last item that [`next`](Self::next) has returned. A follower in
    /// another process can continue from it.
    pub fn cursor(&self) -> Cursor {
        self.early.as_ref().map_or_else(|| self.core.cursor(), |(before, _)| *before)
    }

    /// Returns the id of the command; `None` before an original execd has named it.
    pub fn id(&self) -> Option<CommandId> {
        self.core.id()
    }

    /// Waits for one input.
    async fn wait(&mut self) {
        let is_back = std::mem::take(&mut self.away) && !defect!(PausesOfUsersAreSilence);
        // The bug: the connection has its time anew with each call.
        if is_back || defect!(CallsAreSigns) {
            self.core.user_returned(Instant::now());
        }
        point!("sse.client.wait").await;
        let due = self.core.due();
        let input = tokio::select! {
            biased;
            input = self.wire.input() => input,
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                return self.core.wake(Instant::now());
            }
        };
        self.on_input(input, Instant::now());
        point!("sse.client.input").await;
    }

    fn on_input(&mut self, input: Input, now: Instant) {
        match input {
            Input::Answer(Answer::Stream { epoch, body, connection }) => {
                let decoder = Decoder::new(self.client.limits.frame_bytes);
                self.wire = Wire::Streaming { body, decoder, _connection: connection };
                self.core.opened(epoch, now);
            }
            Input::Answer(Answer::Complete) => self.core.complete(),
            Input::Answer(Answer::Refused { status, body }) => self.core.refused(status, body, now),
            Input::Answer(Answer::None(loss)) | Input::End(loss) => self.core.lost(loss, now),
            Input::Bytes(bytes) => self.on_bytes(&bytes, now),
        }
    }

    /// Events before an error count.
    fn on_bytes(&mut self, bytes: &[u8], now: Instant) {
        let Wire::Streaming { decoder, .. } = &mut self.wire else { return };
        let readable = decoder.feed(bytes);
        let records = std::iter::from_fn(|| decoder.next()).map(|decoded| decoded.record);
        self.core.arrived(records, now);
        if readable.is_err() {
            self.core.unreadable();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use reknit_seams::Env;
    use reknit_seams::net::Endpoint;
    use reknit_seams::net::memory::Memory;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::super::ClientConfig;
    use super::*;
    use crate::limits::ClientLimits;
    use crate::wire::RunCommand;

    /// The server sends an event, and neither names a run nor begins with the name of the command.
    #[tokio::test(start_paused = true)]
    async fn the_cursor_stays_until_the_user_has_an_early_item() {
        let net = Memory::default();
        let env = Env { net: Arc::new(net.clone()), ..Env::real() };
        let server = Endpoint::tcp("server", 80);
        let mut listener = env.net.listen(&server).await.unwrap();
        let serving = tokio::spawn(async move {
            let mut stream = listener.accept().await.unwrap();
            stream.read_u8().await.unwrap();
            let event = r#"{"eid":1,"type":"stdout","text":"a"}"#;
            let answer = format!("HTTP/1.1 200 OK\r\n\r\n{event}\n\n");
            stream.write_all(answer.as_bytes()).await.unwrap();
            std::future::pending::<()>().await
        });
        let client = Client::new(&env, server, ClientConfig::default(), ClientLimits::default());
        let mut follower = client.run(RunCommand::shell("run")).unwrap();
        follower.started().await.unwrap();
        assert_eq!(follower.cursor().after, 0);
        assert!(matches!(follower.next().await, Ok(Some(Item::Output(..)))));
        assert_eq!(follower.cursor().after, 1);
        serving.abort();
    }
}

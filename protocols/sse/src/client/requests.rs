//! Requests with one short answer. Each is one attempt on a new connection.

use http_body_util::{BodyExt, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::{HeaderMap, Method, Response, StatusCode};
use reknit_seams::defect;
use tokio::time::timeout;

use super::{Client, Loss, Refused, http};
use crate::wire::{CommandId, CommandStatus, Cursor, Gap, header, path};

/// Why a request brought no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// There is no complete answer. The server may have received the request. It is safe to repeat it.
    #[error("{0}")]
    Lost(Loss),
    /// The server refuses the request.
    #[error("the server refuses the request: {0}")]
    Refused(Refused),
    /// The server does not follow the protocol.
    #[error("the server {0}")]
    Protocol(&'static str),
}

/// Output of a background command, as one answer brings it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logs {
    /// The output of both pipes, in the order in which the server read it. Empty if there is nothing
    /// new.
    pub output: Bytes,
    /// Events before the output that are lost for good.
    pub gap: Option<Gap>,
    /// The cursor for the next request.
    pub next: Cursor,
}

impl Client {
    /// Returns the state of a command. A server keeps it for longer than the output.
    ///
    /// # Errors
    /// [`RequestError`].
    pub async fn status(&self, id: &CommandId) -> Result<CommandStatus, RequestError> {
        let (_, body) = self.request(Method::GET, path::status(id)).await?;
        serde_json::from_slice(&body)
            .map_err(|_| RequestError::Protocol("sends a status that is not readable"))
    }

    /// Returns output of a background command that follows a cursor, at most as much as the server puts
    /// into one answer. It does not say whether the command has ended: that is in its
    /// [`status`](Self::status).
    ///
    /// # Errors
    /// [`RequestError`]; also if the command runs in the foreground.
    pub async fn logs(&self, id: &CommandId, cursor: Cursor) -> Result<Logs, RequestError> {
        let (headers, output) = self.request(Method::GET, path::logs(id, cursor)).await?;
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let after = text(header::TAIL_CURSOR).and_then(|after| after.parse().ok());
        let after = after.ok_or(RequestError::Protocol("sends logs without a cursor"))?;
        // The bug: the next request names no run, as the first one did.
        let epoch = match defect!(LogsForgetTheRun) {
            true => cursor.epoch,
            false => text(header::EPOCH).and_then(|epoch| epoch.parse().ok()),
        };
        let gap = text(header::GAP).and_then(|gap| {
            let (first, last) = gap.split_once('-')?;
            Some(Gap { first: first.parse().ok()?, last: last.parse().ok()? })
        });
        Ok(Logs { output, gap, next: Cursor { epoch, after } })
    }

    /// Asks a command to end: the server sends it SIGTERM, and SIGKILL some seconds later. Its followers
    /// receive the ending.
    ///
    /// # Errors
    /// [`RequestError`]; also if the command has ended.
    pub async fn interrupt(&self, id: &CommandId) -> Result<(), RequestError> {
        self.request(Method::DELETE, path::interrupt(id)).await.map(drop)
    }

    async fn request(
        &self,
        method: Method,
        path: String,
    ) -> Result<(HeaderMap, Bytes), RequestError> {
        let exchange = async {
            let request =
                http::request(self, method, path, Vec::new()).map_err(RequestError::Lost)?;
            // The connection lives until the body is complete.
            let (response, _connection) =
                http::exchange(self, request, 0, None).await.map_err(RequestError::Lost)?;
            self.read(response).await
        };
        // The bug: a request has only the time of a short pause.
        let within = match defect!(RequestsAreRushed) {
            true => self.limits.min_pause,
            // The bug: a request has the time in which a follower makes many attempts.
            false if defect!(RequestsHaveTheBudget) => self.limits.budget,
            false => self.limits.open_timeout,
        };
        let answered = timeout(within, exchange).await;
        answered.unwrap_or(Err(RequestError::Lost(Loss::OpenTimeout)))
    }

    async fn read(&self, response: Response<Incoming>) -> Result<(HeaderMap, Bytes), RequestError> {
        if response.status() != StatusCode::OK {
            let (status, body) = http::refusal(response).await.map_err(RequestError::Lost)?;
            return Err(RequestError::Refused(Refused::new(status, body)));
        }
        let (parts, body) = response.into_parts();
        match Limited::new(body, self.limits.answer_bytes).collect().await {
            Ok(body) => Ok((parts.headers, body.to_bytes())),
            Err(error) if error.is::<http_body_util::LengthLimitError>() => {
                Err(RequestError::Protocol("sends an answer that is too large"))
            }
            Err(_) => Err(RequestError::Lost(Loss::Broken)),
        }
    }
}

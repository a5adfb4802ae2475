//! One attempt: a connection, a request, and the head of its answer.

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use reknit_seams::net::{BoxFuture, Endpoint};
use reknit_seams::{defect, milestone};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::core::{Ask, Order};
use super::{Client, Loss, Refused};
use crate::wire::{Epoch, RefusalBody, header, path};

/// How many bytes of a refusal are read.
const REFUSAL_BYTES: usize = 64 << 10;

/// The smallest buffer that hyper accepts.
const MIN_BUFFER: usize = 8192;

/// The result of an attempt.
pub(super) enum Answer {
    /// A stream begins.
    Stream {
        epoch: Option<Epoch>,
        body: Incoming,
        /// The task of the connection. Dropping it closes the connection.
        connection: JoinSet<()>,
    },
    /// The command has ended, and the client has its ending.
    Complete,
    /// The answer is not a success.
    Refused { status: u16, body: RefusalBody },
    /// There is no answer.
    None(Loss),
}

/// Performs an attempt. Dropping the future closes the connection.
pub(super) fn attempt(client: Client, order: Order) -> BoxFuture<'static, Answer> {
    Box::pin(async move { perform(&client, order).await.unwrap_or_else(Answer::None) })
}

async fn perform(client: &Client, order: Order) -> Result<Answer, Loss> {
    let (method, path, body) = match &order.ask {
        Ask::Start(command) => (Method::POST, path::START.to_owned(), serde_json::to_vec(command)),
        Ask::Resume(id, cursor) => (Method::GET, path::resume(id, *cursor), Ok(Vec::new())),
    };
    let body = body.map_err(|_| Loss::NotConnected)?;
    let mut request = request(client, method, path, body)?;
    if let Some(owner) = order.owner.and_then(|owner| owner.to_string().try_into().ok()) {
        request.headers_mut().insert(header::OWNER, owner);
    }
    let (response, connection) = exchange(client, request, order.attempt, order.repeats).await?;
    Ok(match response.status() {
        StatusCode::OK => {
            let epoch = response.headers().get(header::EPOCH);
            let epoch = epoch.and_then(|epoch| epoch.to_str().ok()?.parse().ok());
            Answer::Stream { epoch, body: response.into_body(), connection }
        }
        StatusCode::NO_CONTENT => Answer::Complete,
        _ => {
            let (status, body) = refusal(response).await?;
            Answer::Refused { status, body }
        }
    })
}

/// Sends a request on a new connection, and waits for the head of the answer. Dropping the set closes
/// the connection. `repeats`: when the first attempt of the same request began.
///
/// A server may learn of a connection long after its client, and then an age does not say whether the server
/// is older. It asks for the age again, and counts from its question. A second question, of a server that has
/// restarted since, is a refusal that may pass.
pub(super) async fn exchange(
    client: &Client,
    mut request: Request<Full<Bytes>>,
    attempt: u64,
    repeats: Option<Instant>,
) -> Result<(Response<Incoming>, JoinSet<()>), Loss> {
    let before = Instant::now();
    let connected = client.env.net.connect(&client.server).await;
    let stream = connected.map_err(|_| Loss::NotConnected)?;
    milestone!("sse.client.connected", attempt, conn = stream.id().0);
    if let Some(first) = repeats {
        request.headers_mut().insert(header::REPEATS, age(first, before).into());
    }
    let (mut sender, task) = http1::Builder::new()
        .max_buf_size(client.limits.read_buffer.max(MIN_BUFFER))
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|_| Loss::NotConnected)?;
    let mut connection = JoinSet::new();
    connection.spawn(async { drop(task.await) });
    let again = repeats.map(|first| (first, request.clone()));
    let mut response = sender.send_request(request).await.map_err(|_| Loss::NoAnswer)?;
    if let Some((first, mut again)) = again
        && response.status() == StatusCode::TOO_EARLY
    {
        let (status, refused) = refusal(response).await?;
        let question = refused.age_asked.as_ref().and_then(|asked| asked.try_into().ok());
        let Some(question) = question else {
            return Err(Loss::Refused(Refused::new(status, refused)));
        };
        sender.ready().await.map_err(|_| Loss::NoAnswer)?;
        again.headers_mut().insert(header::REPEATS, age(first, before).into());
        again.headers_mut().insert(header::ASKED, question);
        // The bug: this request does not say whose stream it opens.
        if defect!(ToldAgesHaveNoOwner) {
            again.headers_mut().remove(header::OWNER);
        }
        response = sender.send_request(again).await.map_err(|_| Loss::NoAnswer)?;
    }
    Ok((response, connection))
}

/// Returns the age of a start in milliseconds. The server counts from the connection, or from its question,
/// so the age must not be less than it was then. A repeated start is never new.
fn age(first: Instant, before: Instant) -> u64 {
    let at = if defect!(AgeEndsAtTheAttempt) { before } else { Instant::now() };
    let age = at.saturating_duration_since(first);
    let age = if defect!(AgeIsInSeconds) { age.as_secs().into() } else { age.as_millis() };
    u64::try_from(age).unwrap_or(u64::MAX).max(1)
}

/// Reads an answer that is not a success.
///
/// # Errors
/// If the connection breaks before its end: a refusal without its name says too little.
pub(super) async fn refusal(response: Response<Incoming>) -> Result<(u16, RefusalBody), Loss> {
    let status = response.status().as_u16();
    // The bug: its first piece counts as the whole of it.
    if defect!(FirstPieceIsTheRefusal) {
        let piece = response.into_body().frame().await;
        let piece = piece.and_then(|piece| piece.ok()?.into_data().ok()).unwrap_or_default();
        return Ok((status, serde_json::from_slice(&piece).unwrap_or_default()));
    }
    let text = match Limited::new(response.into_body(), REFUSAL_BYTES).collect().await {
        Ok(text) => text.to_bytes(),
        // It is not one of this protocol.
        Err(error) if error.is::<LengthLimitError>() => Bytes::new(),
        Err(_) => return Err(Loss::Broken),
    };
    Ok((status, serde_json::from_slice(&text).unwrap_or_default()))
}

/// Returns a request.
///
/// # Errors
/// If the access token or the host cannot be in a header.
pub(super) fn request(
    client: &Client,
    method: Method,
    path: String,
    body: Vec<u8>,
) -> Result<Request<Full<Bytes>>, Loss> {
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, host(&client.server))
        .header(CONTENT_TYPE, "application/json");
    if let Some(token) = &client.config.access_token {
        let mut token = HeaderValue::from_str(token).map_err(|_| Loss::NotConnected)?;
        token.set_sensitive(true);
        request = request.header(header::ACCESS_TOKEN, token);
    }
    request.body(Full::new(body.into())).map_err(|_| Loss::NotConnected)
}

fn host(server: &Endpoint) -> String {
    match (server.host(), server.port()) {
        (Some(host), Some(port)) if host.contains(':') => format!("[{host}]:{port}"),
        (Some(host), Some(port)) => format!("{host}:{port}"),
        _ => "localhost".to_owned(),
    }
}

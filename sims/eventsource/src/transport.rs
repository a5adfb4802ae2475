//! The HTTP of the crate `eventsource-client`, over the connections of an [`Env`]. So the client runs over
//! real sockets and in a world alike.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::Stream;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::HOST;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use launchdarkly_sdk_transport::{ByteStream, HttpTransport, ResponseFuture, TransportError};
use reknit_seams::milestone;
use reknit_seams::net::{Endpoint, Net};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Opens a connection for each request.
#[derive(Clone)]
pub struct Transport {
    net: Net,
    server: Endpoint,
    pace: Option<Pace>,
}

/// The parts that the crate leaves to its transport, or does without a seed.
#[derive(Clone)]
struct Pace {
    pause: Duration,
    silence: Duration,
    /// The number of requests.
    requests: Arc<AtomicU64>,
}

type Answer = Result<Response<ByteStream>, TransportError>;

impl Transport {
    /// Creates a transport to one server.
    pub fn new(net: Net, server: Endpoint) -> Self {
        Self { net, server, pace: None }
    }

    /// Creates a transport for a world. It pauses before each request but the first, and gives up a
    /// connection that is silent. It drops the line with the server's time to reconnect, because the crate
    /// would wait for a random part of it.
    pub fn paced(net: Net, server: Endpoint, pause: Duration, silence: Duration) -> Self {
        let pace = Pace { pause, silence, requests: Arc::default() };
        Self { net, server, pace: Some(pace) }
    }

    /// Waits for a result, but not for too long.
    async fn in_time<T>(&self, result: impl Future<Output = T>) -> Result<T, TransportError> {
        match &self.pace {
            None => Ok(result.await),
            Some(pace) => timeout(pace.silence, result)
                .await
                .map_err(|_| TransportError::new(io::Error::from(io::ErrorKind::TimedOut))),
        }
    }
}

impl HttpTransport for Transport {
    /// The crate wants futures that other threads can look at, so a task performs the request.
    fn request(&self, request: Request<Option<Bytes>>) -> ResponseFuture {
        let (answer, answered) = oneshot::channel();
        let mut tasks = JoinSet::new();
        tasks.spawn(perform(self.clone(), request, answer));
        Box::pin(async move {
            let answered: Answer = answered.await.map_err(TransportError::new)?;
            let (parts, bytes) = answered?.into_parts();
            // The body ends its task when it is dropped.
            Ok(Response::from_parts(parts, Box::pin(Owning { bytes, _tasks: tasks }) as ByteStream))
        })
    }
}

/// Performs a request: sends the head of its answer, then the bytes of its body.
async fn perform(
    transport: Transport,
    request: Request<Option<Bytes>>,
    answer: oneshot::Sender<Answer>,
) {
    if let Some(pace) = &transport.pace
        && pace.requests.fetch_add(1, Relaxed) > 0
    {
        sleep(pace.pause).await;
    }
    let exchanged = transport.in_time(exchange(&transport, request)).await;
    let (parts, mut body, _connection) = match exchanged.and_then(|exchanged| exchanged) {
        Ok(exchanged) => exchanged,
        Err(error) => return drop(answer.send(Err(error))),
    };
    let mut is_retry = transport.pace.is_some();
    let (bytes, received) = mpsc::channel(1);
    let stream: ByteStream = Box::pin(Receiving(received));
    if answer.send(Ok(Response::from_parts(parts, stream))).is_err() {
        return;
    }
    loop {
        let item = match transport.in_time(body.frame()).await {
            Ok(None) => return,
            Ok(Some(Ok(frame))) => Ok(frame.into_data().unwrap_or_default()),
            Ok(Some(Err(error))) => Err(TransportError::new(error)),
            Err(error) => Err(error),
        };
        let is_over = item.is_err();
        let item =
            item.map(|bytes| if is_retry { without_line(bytes, &mut is_retry) } else { bytes });
        if bytes.send(item).await.is_err() || is_over {
            return;
        }
    }
}

/// Removes the first line, also if it arrives in parts.
fn without_line(mut bytes: Bytes, is_first: &mut bool) -> Bytes {
    match bytes.iter().position(|byte| *byte == b'\n') {
        Some(end) => {
            *is_first = false;
            bytes.split_off(end + 1)
        }
        None => Bytes::new(),
    }
}

type Exchanged = (hyper::http::response::Parts, hyper::body::Incoming, JoinSet<()>);

async fn exchange(
    transport: &Transport,
    request: Request<Option<Bytes>>,
) -> Result<Exchanged, TransportError> {
    let stream = transport.net.connect(&transport.server).await.map_err(TransportError::new)?;
    let generation = transport.pace.as_ref().map_or(0, |pace| pace.requests.load(Relaxed));
    milestone!("eventsource.client.opened", generation, conn = stream.id().0);
    let (mut sender, task) =
        http1::handshake(TokioIo::new(stream)).await.map_err(TransportError::new)?;
    let mut connection = JoinSet::new();
    connection.spawn(async { drop(task.await) });
    let (mut parts, body) = request.into_parts();
    let host = parts.uri.authority().map_or("server", |authority| authority.as_str());
    let host = host.parse().map_err(TransportError::new)?;
    parts.headers.insert(HOST, host);
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    parts.uri = path.parse().map_err(TransportError::new)?;
    let request = Request::from_parts(parts, Full::new(body.unwrap_or_default()));
    let response = sender.send_request(request).await.map_err(TransportError::new)?;
    let (parts, body) = response.into_parts();
    Ok((parts, body, connection))
}

/// The bytes that a task sends.
struct Receiving(mpsc::Receiver<Result<Bytes, TransportError>>);

impl Stream for Receiving {
    type Item = Result<Bytes, TransportError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx)
    }
}

/// A body with the task that reads it.
struct Owning {
    bytes: ByteStream,
    _tasks: JoinSet<()>,
}

impl Stream for Owning {
    type Item = Result<Bytes, TransportError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.bytes.as_mut().poll_next(cx)
    }
}

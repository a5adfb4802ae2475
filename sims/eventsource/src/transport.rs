//! The HTTP of the crate `eventsource-client`, over the connections of an [`Env`]. So the client runs over
//! real sockets and in a world alike.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::Stream;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::HOST;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use launchdarkly_sdk_transport::{ByteStream, HttpTransport, ResponseFuture, TransportError};
use reknit_seams::net::{Endpoint, Net};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

/// Opens a connection for each request.
#[derive(Clone)]
pub struct Transport {
    net: Net,
    server: Endpoint,
}

type Answer = Result<Response<ByteStream>, TransportError>;

impl Transport {
    /// Creates a transport to one server.
    pub fn new(net: Net, server: Endpoint) -> Self {
        Self { net, server }
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
    let exchange = exchange(&transport, request);
    let (parts, mut body, _connection) = match exchange.await {
        Ok(exchanged) => exchanged,
        Err(error) => return drop(answer.send(Err(error))),
    };
    let (bytes, received) = mpsc::channel(1);
    let stream: ByteStream = Box::pin(Receiving(received));
    if answer.send(Ok(Response::from_parts(parts, stream))).is_err() {
        return;
    }
    while let Some(frame) = body.frame().await {
        let item = match frame {
            Ok(frame) => Ok(frame.into_data().unwrap_or_default()),
            Err(error) => Err(TransportError::new(error)),
        };
        if bytes.send(item).await.is_err() {
            return;
        }
    }
}

type Exchanged = (hyper::http::response::Parts, hyper::body::Incoming, JoinSet<()>);

async fn exchange(
    transport: &Transport,
    request: Request<Option<Bytes>>,
) -> Result<Exchanged, TransportError> {
    let stream = transport.net.connect(&transport.server).await.map_err(TransportError::new)?;
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

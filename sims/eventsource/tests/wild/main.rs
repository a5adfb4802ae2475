//! Bugs of both clients: docs/found-in-the-wild.md describes them. A test fails if its bug is mended.

use std::time::Duration;

use eventsource_client::{Client, ClientBuilder, ReconnectOptions};
use eventsource_peer::transport::Transport;
use futures_util::{Stream, StreamExt};
use reknit_seams::Env;
use reknit_seams::net::Endpoint;
use reqwest_eventsource::EventSource;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

const LONG: Duration = Duration::from_secs(30);

/// A request as a server sees it.
#[derive(Debug, PartialEq)]
struct Seen {
    last_event_id: Option<String>,
    at: Instant,
}

/// Answers one request after the other with these bodies, and closes each connection.
async fn server(bodies: &'static [&'static str]) -> (u16, mpsc::UnboundedReceiver<Seen>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, requests) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        for body in bodies {
            let mut stream = BufReader::new(listener.accept().await.unwrap().0);
            let mut seen = Seen { last_event_id: None, at: Instant::now() };
            let mut line = String::new();
            while stream.read_line(&mut line).await.unwrap() > 2 {
                let header = line.trim_end().to_lowercase();
                if let Some(id) = header.strip_prefix("last-event-id: ") {
                    seen.last_event_id = Some(id.to_owned());
                }
                line.clear();
            }
            let head =
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
            stream.write_all(head.as_bytes()).await.unwrap();
            stream.write_all(body.as_bytes()).await.unwrap();
            stream.shutdown().await.unwrap();
            sender.send(seen).unwrap();
        }
    });
    (port, requests)
}

/// The client of `eventsource-client`, with pauses of 1 s at most.
fn eventsource_client(port: u16) -> impl Stream {
    let second = Duration::from_secs(1);
    let pauses = ReconnectOptions::reconnect(true).delay(second).delay_max(second).build();
    let server = Endpoint::tcp("127.0.0.1", port);
    ClientBuilder::for_url(&format!("http://127.0.0.1:{port}/"))
        .unwrap()
        .reconnect(pauses)
        .build_with_transport(Transport::new(Env::real().net, server))
        .stream()
}

/// The other client, with its own pauses: 0.3 s, then longer ones.
fn reqwest_eventsource(port: u16) -> impl Stream + Unpin {
    EventSource::get(format!("http://127.0.0.1:{port}/"))
}

/// Lets a client run until the server has seen so many requests.
async fn requests<const N: usize>(
    mut client: impl Stream + Unpin,
    mut requests: mpsc::UnboundedReceiver<Seen>,
) -> [Seen; N] {
    let all = async {
        let mut seen = Vec::new();
        while seen.len() < N {
            tokio::select! {
                _ = client.next() => {}
                request = requests.recv() => seen.push(request.unwrap()),
            }
        }
        seen.try_into().unwrap()
    };
    timeout(LONG, all).await.expect("enough requests")
}

/// An event, then a cut, an event without an id, and another cut. By the standard, an event without
/// an id does not change the position.
const ONE_ID: &[&str] = &["id: 5\ndata: a\n\n", "data: b\n\n", "data: c\n\n"];

fn ids(seen: [Seen; 3]) -> [Option<String>; 3] {
    seen.map(|request| request.last_event_id)
}

#[tokio::test]
async fn bug_16_eventsource_client_forgets_its_position_after_an_event_without_an_id() {
    let (port, seen) = server(ONE_ID).await;
    let ids = ids(requests(eventsource_client(port), seen).await);
    assert_eq!(ids, [None, Some("5".to_owned()), None]);
}

#[tokio::test]
async fn bug_16_reqwest_eventsource_forgets_its_position_after_an_event_without_an_id() {
    let (port, seen) = server(ONE_ID).await;
    let ids = ids(requests(reqwest_eventsource(port), seen).await);
    // The third request has the header, without a value.
    assert_eq!(ids[..2], [None, Some("5".to_owned())]);
    assert_ne!(ids[2], Some("5".to_owned()));
}

/// `retry:` alone, as a server sends it before the first event. By the standard, it counts at once.
const RETRY: &[&str] = &["retry: 10\n\n", "data: a\n\n"];

#[tokio::test]
async fn bug_17_eventsource_client_ignores_a_time_to_reconnect_without_data() {
    let (port, seen) = server(RETRY).await;
    let [first, second] = requests(eventsource_client(port), seen).await;
    // Its own pause is half a second at least.
    assert!(second.at - first.at > Duration::from_millis(400));
}

#[tokio::test]
async fn bug_17_reqwest_eventsource_ignores_a_time_to_reconnect_without_data() {
    let (port, seen) = server(RETRY).await;
    let [first, second] = requests(reqwest_eventsource(port), seen).await;
    assert!(second.at - first.at > Duration::from_millis(250));
}

/// A transport without a network: each answer is a stream that ends after two minutes.
#[derive(Clone)]
struct TwoMinutes(mpsc::UnboundedSender<Instant>);

impl launchdarkly_sdk_transport::HttpTransport for TwoMinutes {
    fn request(
        &self,
        _: hyper::Request<Option<hyper::body::Bytes>>,
    ) -> launchdarkly_sdk_transport::ResponseFuture {
        self.0.send(Instant::now()).unwrap();
        Box::pin(async {
            let body = futures_util::stream::once(sleep(Duration::from_secs(120)));
            let body = body.filter_map(|()| std::future::ready(None));
            Ok(hyper::Response::new(Box::pin(body) as launchdarkly_sdk_transport::ByteStream))
        })
    }
}

/// A connection that lasted a minute makes the next pause short again. The client measures the minute with
/// the clock of the system, and waits on that of tokio.
#[tokio::test(start_paused = true)]
async fn bug_18_eventsource_client_does_not_measure_connections_on_the_clock_of_its_runtime() {
    let (sender, mut requests) = mpsc::unbounded_channel();
    let pauses = ReconnectOptions::reconnect(true).delay(Duration::from_secs(1)).build();
    let client = ClientBuilder::for_url("http://server/").unwrap().reconnect(pauses);
    let mut stream = client.build_with_transport(TwoMinutes(sender)).stream();
    let mut times = Vec::new();
    while times.len() < 7 {
        tokio::select! {
            _ = stream.next() => {}
            request = requests.recv() => times.push(request.unwrap()),
        }
    }
    let last = times[6] - times[5] - Duration::from_secs(120);
    assert!(
        last > Duration::from_secs(10),
        "the sixth pause took {last:?}, and the first 1 s at most"
    );
}

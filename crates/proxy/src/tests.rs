//! Each fault, with plain sockets on both sides.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep, timeout};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{accept_async, client_async};

use super::{End, Happening, NetworkState, Proxy, Script};

/// A time that no test reaches, even on a slow machine.
const NEVER: Duration = Duration::from_secs(30);
/// A time after which silence counts as silence.
const QUIET: Duration = Duration::from_millis(150);
/// The moment after the first byte from the client.
const FIRST_BYTE: &str = "at = { bytes = { toward = 'server', count = 1 } }";

struct Stage {
    proxy: Proxy,
    listener: TcpListener,
}

/// The next bytes that an end reads.
#[derive(Debug, PartialEq, Eq)]
enum Read {
    Text(String),
    End,
    Reset,
    Nothing,
}

impl Stage {
    async fn new(rules: &str) -> Self {
        let script: Script = toml::from_str(&format!("rule = [{rules}]")).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = listener.local_addr().unwrap();
        let proxy = Proxy::start(([127, 0, 0, 1], 0).into(), server, script).await.unwrap();
        Self { proxy, listener }
    }

    /// Opens a connection; returns both ends.
    async fn pair(&self) -> (TcpStream, TcpStream) {
        let client = TcpStream::connect(self.proxy.address()).await.unwrap();
        let (server, _) =
            timeout(NEVER, self.listener.accept()).await.expect("it connects").unwrap();
        (client, server)
    }

    /// Opens a connection, whose rule fires after the first byte.
    async fn fired(rule: &str) -> (Self, TcpStream, TcpStream) {
        let stage = Self::new(&format!("{{ {FIRST_BYTE}, fault = {rule} }}")).await;
        let (mut client, mut server) = stage.pair().await;
        client.write_all(b"x").await.unwrap();
        assert_eq!(read(&mut server).await, Read::Text("x".into()));
        (stage, client, server)
    }

    fn fired_faults(&self) -> Vec<&'static str> {
        let events = self.proxy.events().into_iter();
        events
            .filter_map(|event| match event.what {
                Happening::Fired { fault, .. } => Some(fault),
                _ => None,
            })
            .collect()
    }
}

async fn read(socket: &mut TcpStream) -> Read {
    read_within(socket, NEVER).await
}

async fn read_within(socket: &mut TcpStream, time: Duration) -> Read {
    let mut bytes = vec![0; 1024];
    match timeout(time, socket.read(&mut bytes)).await {
        Err(_) => Read::Nothing,
        Ok(Ok(0)) => Read::End,
        Ok(Ok(count)) => Read::Text(String::from_utf8(bytes[..count].to_vec()).unwrap()),
        Ok(Err(error)) => {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
            Read::Reset
        }
    }
}

async fn quiet(socket: &mut TcpStream) {
    assert_eq!(read_within(socket, QUIET).await, Read::Nothing);
}

#[tokio::test]
async fn reset_reaches_both_ends() {
    let (stage, mut client, mut server) = Stage::fired("{ reset = {} }").await;
    assert_eq!((read(&mut client).await, read(&mut server).await), (Read::Reset, Read::Reset));
    assert_eq!(stage.fired_faults(), ["reset"]);
    stage.pair().await;
    assert_eq!(stage.proxy.connections(), 2);
}

#[tokio::test]
async fn a_reset_of_one_end_reaches_the_other_when_it_sends() {
    let (_stage, mut client, mut server) = Stage::fired("{ reset = { toward = 'client' } }").await;
    assert_eq!(read(&mut client).await, Read::Reset);
    quiet(&mut server).await;
    server.write_all(b"y").await.unwrap();
    assert_eq!(read(&mut server).await, Read::Reset);
}

#[tokio::test]
async fn close_reaches_both_ends_gracefully() {
    let (_stage, mut client, mut server) = Stage::fired("{ close = {} }").await;
    assert_eq!((read(&mut client).await, read(&mut server).await), (Read::End, Read::End));
}

#[tokio::test]
async fn each_end_of_a_cut_learns_at_its_own_time() {
    let (_stage, mut client, mut server) =
        Stage::fired("{ cut = { learns = { client = '300ms', server = 'never' } } }").await;
    client.write_all(b"lost").await.unwrap();
    server.write_all(b"lost").await.unwrap();
    quiet(&mut client).await;
    assert_eq!(read(&mut client).await, Read::Reset);
    quiet(&mut server).await;
    server.write_all(b"lost, too").await.unwrap();
    quiet(&mut server).await;
}

#[tokio::test]
async fn stalled_bytes_arrive_afterwards_in_order() {
    let (_stage, mut client, mut server) =
        Stage::fired("{ stall = { toward = 'client', lasts = '400ms' } }").await;
    server.write_all(b"held").await.unwrap();
    client.write_all(b"passes").await.unwrap();
    assert_eq!(read(&mut server).await, Read::Text("passes".into()));
    quiet(&mut client).await;
    assert_eq!(read(&mut client).await, Read::Text("held".into()));
    server.write_all(b"passes").await.unwrap();
    assert_eq!(read(&mut client).await, Read::Text("passes".into()));
}

#[tokio::test]
async fn half_open_loses_the_bytes_and_the_end_of_one_direction() {
    let (_stage, mut client, mut server) =
        Stage::fired("{ half-open = { toward = 'client' } }").await;
    server.write_all(b"lost").await.unwrap();
    client.write_all(b"passes").await.unwrap();
    assert_eq!(read(&mut server).await, Read::Text("passes".into()));
    quiet(&mut client).await;
    server.set_zero_linger().unwrap();
    drop(server);
    quiet(&mut client).await;
}

#[tokio::test]
async fn delayed_bytes_arrive_later() {
    let (_stage, mut client, mut server) =
        Stage::fired("{ delay = { toward = 'client', by = '300ms', lasts = '500ms' } }").await;
    let sent = Instant::now();
    server.write_all(b"late").await.unwrap();
    quiet(&mut client).await;
    assert_eq!(read(&mut client).await, Read::Text("late".into()));
    assert!(sent.elapsed() >= Duration::from_millis(300));
    sleep(Duration::from_millis(300)).await;
    server.write_all(b"soon").await.unwrap();
    assert_eq!(
        read_within(&mut client, Duration::from_millis(250)).await,
        Read::Text("soon".into())
    );
}

#[tokio::test]
async fn delay_close_holds_the_end_but_not_the_bytes() {
    for abrupt in [false, true] {
        let (_stage, client, mut server) =
            Stage::fired("{ delay-close = { toward = 'server', by = '300ms' } }").await;
        let mut client = client;
        client.write_all(b"last").await.unwrap();
        if abrupt {
            client.set_zero_linger().unwrap();
        }
        drop(client);
        assert_eq!(read(&mut server).await, Read::Text("last".into()));
        quiet(&mut server).await;
        let end = if abrupt { Read::Reset } else { Read::End };
        assert_eq!(read(&mut server).await, end);
    }
}

#[tokio::test]
async fn refuse_rejects_new_connections_for_a_time() {
    let (stage, mut client, mut server) = Stage::fired("{ refuse = { lasts = '300ms' } }").await;
    let refused = TcpStream::connect(stage.proxy.address()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    client.write_all(b"goes on").await.unwrap();
    assert_eq!(read(&mut server).await, Read::Text("goes on".into()));
    sleep(Duration::from_millis(400)).await;
    stage.pair().await;
    assert_eq!(stage.proxy.connections(), 2);
}

#[tokio::test]
async fn accept_then_close_ends_new_connections_at_once() {
    let (stage, mut client, mut server) =
        Stage::fired("{ accept-then-close = { lasts = '300ms' } }").await;
    let mut closed = TcpStream::connect(stage.proxy.address()).await.unwrap();
    assert_eq!(read(&mut closed).await, Read::End);
    client.write_all(b"goes on").await.unwrap();
    assert_eq!(read(&mut server).await, Read::Text("goes on".into()));
    sleep(Duration::from_millis(400)).await;
    stage.pair().await;
}

#[tokio::test]
async fn rules_select_a_connection_and_count_how_often_they_fire() {
    let stage = Stage::new(
        "{ conn = 2, at = { bytes = { toward = 'server', count = 1 } }, fault = { note = {} } },
         { times = 2, at = { bytes = { toward = 'server', count = 3 } }, fault = { close = {} } }",
    )
    .await;
    for round in 1..=3 {
        let (mut client, mut server) = stage.pair().await;
        client.write_all(b"abcd").await.unwrap();
        let mut heard = String::new();
        while let Read::Text(text) = read_within(&mut server, QUIET).await {
            heard += &text;
        }
        assert_eq!(heard, if round == 3 { "abcd" } else { "abc" });
    }
    assert_eq!(stage.fired_faults(), ["close", "note", "close"]);
}

#[tokio::test]
async fn a_rule_fires_at_its_time() {
    let stage = Stage::new("{ at = { time = '200ms' }, fault = { reset = {} } }").await;
    let (mut client, mut server) = stage.pair().await;
    assert_eq!(read_within(&mut client, Duration::from_millis(100)).await, Read::Nothing);
    assert_eq!((read(&mut client).await, read(&mut server).await), (Read::Reset, Read::Reset));
}

/// Rules at one place all fire, although the first of them ends the connection.
#[tokio::test]
async fn a_connection_ends_after_the_other_rules_at_the_same_place() {
    let rule = |fault| format!("{{ conn = 1, {FIRST_BYTE}, fault = {fault} }}");
    let stage =
        Stage::new(&[rule("{ reset = {} }"), rule("{ refuse = { lasts = '200ms' } }")].join(","))
            .await;
    let (mut client, _server) = stage.pair().await;
    client.write_all(b"x").await.unwrap();
    assert_eq!(read(&mut client).await, Read::Reset);
    assert!(TcpStream::connect(stage.proxy.address()).await.is_err());
}

/// Exactly the bytes before the place of the fault arrive, also from a masked message.
#[tokio::test]
async fn a_message_is_cut_at_its_place() {
    for (place, whole, part) in
        [("before", false, false), ("middle", false, true), ("after", true, true)]
    {
        let stage = Stage::new(&format!(
            "{{ at = {{ message = {{ toward = 'server', method = 'go', place = '{place}' }} }}, fault = {{ reset = {{}} }} }}",
        ))
        .await;
        let (client, server) = stage.pair().await;
        let (client, server) = tokio::join!(client_async("ws://x/", client), accept_async(server));
        let ((mut client, _), mut server) = (client.unwrap(), server.unwrap());
        client.send(Message::text(r#"{"method":"wait"}"#)).await.unwrap();
        let heard = server.next().await.unwrap().unwrap();
        assert_eq!(heard.to_text().unwrap(), r#"{"method":"wait"}"#);
        client.send(Message::text(r#"{"id":1,"method":"go"}"#)).await.unwrap();
        if whole {
            let heard = timeout(NEVER, server.next()).await.unwrap().unwrap().unwrap();
            assert_eq!(heard.to_text().unwrap(), r#"{"id":1,"method":"go"}"#);
        }
        let socket = server.get_mut();
        let mut rest = Vec::new();
        let end = timeout(NEVER, socket.read_to_end(&mut rest)).await.unwrap();
        assert_eq!(end.unwrap_err().kind(), ErrorKind::ConnectionReset);
        // tungstenite reads no further than a message that is not complete.
        assert_eq!(!rest.is_empty(), part && !whole, "{place}: {rest:?}");
    }
}

#[tokio::test]
async fn the_state_of_the_network_applies_to_every_connection() {
    let stage = Stage::new("").await;
    let (mut one, mut other) = (stage.pair().await, stage.pair().await);
    stage.proxy.turn(NetworkState::Still).await;
    one.0.write_all(b"held").await.unwrap();
    quiet(&mut one.1).await;
    stage.proxy.turn(NetworkState::Fair).await;
    assert_eq!(read(&mut one.1).await, Read::Text("held".into()));
    stage.proxy.turn(NetworkState::Closes).await;
    assert_eq!((read(&mut one.0).await, read(&mut one.1).await), (Read::End, Read::End));
    assert_eq!(read(&mut other.0).await, Read::End);
    stage.proxy.turn(NetworkState::Fair).await;
    let mut third = stage.pair().await;
    stage.proxy.cut().await;
    assert_eq!((read(&mut third.0).await, read(&mut third.1).await), (Read::Reset, Read::Reset));
}

#[tokio::test]
async fn ends_pass_through_as_they_are() {
    let stage = Stage::new("").await;
    let (mut client, mut server) = stage.pair().await;
    client.write_all(b"question").await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(read(&mut server).await, Read::Text("question".into()));
    assert_eq!(read(&mut server).await, Read::End);
    server.write_all(b"answer").await.unwrap();
    drop(server);
    assert_eq!(read(&mut client).await, Read::Text("answer".into()));
    assert_eq!(read(&mut client).await, Read::End);

    let (client, mut server) = stage.pair().await;
    client.set_zero_linger().unwrap();
    drop(client);
    assert_eq!(read(&mut server).await, Read::Reset);
    let ended: Vec<_> = stage.proxy.events().into_iter().map(|event| event.what).collect();
    assert!(ended.contains(&Happening::EndedBy(End::Client)), "{ended:?}");
}

#[tokio::test]
async fn an_unreachable_server_resets_the_client() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let nowhere: SocketAddr = ([127, 0, 0, 1], 0).into();
    let proxy = Proxy::start(nowhere, free, Script::default()).await.unwrap();
    let mut client = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(read(&mut client).await, Read::Reset);
    assert_eq!(proxy.events().last().unwrap().what, Happening::Unreachable);
}

/// More bytes than all buffers hold, through a stall.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_passes_completely() {
    let stage = Stage::new("{ at = { bytes = { toward = 'client', count = 1000000 } }, fault = { stall = { lasts = '200ms' } } }").await;
    let (mut client, mut server) = stage.pair().await;
    let flood: Vec<u8> = (0..12_000_000_u32).map(|n| (n % 251) as u8).collect();
    let sent = flood.clone();
    let sending = tokio::spawn(async move { server.write_all(&sent).await.map(|()| drop(server)) });
    let mut heard = Vec::new();
    timeout(NEVER, client.read_to_end(&mut heard)).await.expect("an end").unwrap();
    sending.await.unwrap().unwrap();
    assert!(heard == flood);
}

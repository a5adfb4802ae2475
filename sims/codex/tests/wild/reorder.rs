//! A bug of the client of codex. The server is codex's own. A relay between the two loses some output
//! with the first connection, and holds the answer to the read of it back while newer output passes:
//! a server may send an event before an answer.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use codex_peer::agent::Agent;
use codex_peer::install;
use codex_peer::model::{Call, Model};
use codex_peer::servers::{self, Server};
use futures_util::{SinkExt, StreamExt};
use reknit_exec::client::{Client, Event, Failure};
use reknit_exec::limits::ClientLimits;
use reknit_exec::wire::process::StartParams;
use reknit_seams::Env;
use reknit_seams::net::Endpoint;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{accept_async, client_async};

/// Prints 3,000 numbers, a line each millisecond or so.
const COMMAND: &str =
    "exec 9<> <(:); for n in $(seq 3000); do echo $n; read -t 0.001 -u 9; done; exit 0";
/// A time that no run reaches, even on a slow machine.
const NEVER: Duration = Duration::from_secs(120);
/// The pieces of output that pass on the first connection, and how many are then lost.
const PASSED: usize = 20;
const LOST: usize = 20;
/// The pieces of output that pass before a held answer: more than the 256 that codex holds back.
const OVERTAKING: usize = 300;

/// A relay. It ends when it is dropped.
struct Relay {
    address: SocketAddr,
    _tasks: JoinSet<()>,
}

impl Relay {
    async fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            for number in 1.. {
                let (client, _) = listener.accept().await.expect("a client");
                connections.spawn(relay(number, client, server));
            }
        });
        Self { address, _tasks: tasks }
    }
}

/// Relays one connection to its end.
async fn relay(number: u32, client: TcpStream, server: SocketAddr) -> Option<()> {
    let mut client = accept_async(client).await.ok()?;
    let server = TcpStream::connect(server).await.ok()?;
    let (mut server, _) = client_async("ws://codex/", server).await.ok()?;
    // The first read of a later connection, and its answer with the number of outputs before it.
    let (mut outputs, mut read, mut held) = (0, None, None);
    loop {
        tokio::select! {
            frame = client.next() => {
                let frame = frame?.ok()?;
                let request = content(&frame);
                if number > 1 && read.is_none() && request["method"] == "process/read" {
                    read = Some(request["id"].clone());
                }
                server.send(frame).await.ok()?;
            }
            frame = server.next() => {
                let frame = frame?.ok()?;
                let message = content(&frame);
                if message.get("method").is_none() && read.as_ref() == Some(&message["id"]) {
                    held = Some((outputs + OVERTAKING, frame));
                    continue;
                }
                outputs += usize::from(message["method"] == "process/output");
                if number == 1 && outputs > PASSED + LOST {
                    return None; // both connections break
                }
                if number > 1 || outputs <= PASSED {
                    client.send(frame).await.ok()?;
                }
                if let Some((_, answer)) = held.take_if(|(after, _)| *after <= outputs) {
                    client.send(answer).await.ok()?;
                }
            }
        }
    }
}

fn content(frame: &Message) -> Value {
    frame.to_text().ok().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn bug_04_a_full_reorder_buffer_fails_a_process() {
    let Some(codex) = install::codex() else { return };
    let server = Server::codex(&codex).await;
    let lines = ours(Relay::start(server.address()).await.address).await;
    let lines = lines.expect("the client reads the dropped events again");
    assert_eq!(lines, (1..=3000).map(|n| format!("{n}\n")).collect::<String>());
    let seen = theirs(&codex, Relay::start(server.address()).await.address).await;
    println!("bug 4, codex {}: {:?}", install::VERSION, seen.lines().last());
    let bug = seen.contains("reorder buffer exceeds 256 entries");
    assert!(bug, "codex has mended bug 4. Change docs/found-in-the-wild.md");
}

/// Runs the command with our client, and returns its output.
async fn ours(server: SocketAddr) -> Result<String, Failure> {
    let server = Endpoint::tcp(server.ip().to_string(), server.port());
    let client = Client::start(&Env::real(), server, ClientLimits::default());
    let command = StartParams {
        process_id: "chatty".into(),
        argv: ["/bin/bash", "-c", COMMAND].map(str::to_owned).into(),
        cwd: "/".parse().expect("an absolute path"),
        env: [("PATH".to_owned(), servers::PATH.to_owned())].into(),
        ..StartParams::default()
    };
    let process = client.launch(command).await?;
    let (mut events, mut output) = (process.events(), Vec::new());
    while let Some(event) = events.next().await {
        match event {
            Event::Output { bytes, .. } => output.extend_from_slice(&bytes),
            Event::Failed(failure) => return Err(failure),
            Event::Exited { .. } | Event::Closed { .. } => {}
        }
    }
    Ok(String::from_utf8_lossy(&output).into_owned())
}

/// Runs the command with the client of codex, and returns what it showed of it.
async fn theirs(codex: &Path, server: SocketAddr) -> String {
    let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let model = Model::start(local, [vec![Call::run(COMMAND)]]).await;
    let server = format!("ws://{server}");
    let printed = Agent::new(codex, &model).run(&server, "danger-full-access", NEVER).await;
    let shown = printed.commands().into_iter().map(|end| end.output).chain(model.outputs());
    shown.chain(printed.complaints()).collect::<Vec<_>>().join("\n")
}

//! Both clients follow commands of our server over real sockets, through a proxy that breaks them.

use std::time::Duration;

use eventsource_client::{Client as _, ClientBuilder, ReconnectOptions, SSE};
use eventsource_peer::record::{line, record};
use eventsource_peer::transport::Transport;
use futures_util::StreamExt;
use opensandbox_peer::server::{Stage, TOKEN};
use reknit_proxy::{End, Fault, Moment, Rule};
use reknit_seams::Env;
use reknit_seams::net::Endpoint;
use reknit_sse::client::{Client, ClientConfig, Item};
use reknit_sse::limits::{ClientLimits, ServerLimits};
use reknit_sse::wire::{CommandId, Ending, Event, Record, RunCommand};
use reqwest_eventsource::{Event as Other, EventSource};
use tokio::time::timeout;

const SHORT: Duration = Duration::from_millis(20);
/// The pause before a client returns. The server refuses a client that returns before the server has seen the
/// end of the broken connection, and `reqwest-eventsource` gives up after a refusal.
const PAUSE: Duration = Duration::from_millis(250);
const LONG: Duration = Duration::from_secs(60);

/// The events that a client received, with the repetitions.
#[derive(Debug, Default, PartialEq)]
struct Received {
    lines: Vec<String>,
    ending: Option<Ending>,
    connections: usize,
}

impl Received {
    /// Adds an event. Returns whether more follow.
    fn add(&mut self, record: &Record) -> bool {
        self.lines.extend(line(record));
        if let Event::Ended { ending, .. } = &record.event {
            self.ending = Some(ending.clone());
        }
        self.ending.is_none()
    }
}

/// Starts a command in the background, without a proxy, and returns the URL of its stream.
async fn started(stage: &Stage, command: &str) -> String {
    let server = Endpoint::tcp("127.0.0.1", stage.direct().port());
    let config = ClientConfig { access_token: Some(TOKEN.into()), ..ClientConfig::default() };
    let client = Client::new(&Env::real(), server, config, ClientLimits::default());
    let id: CommandId = "c".parse().unwrap();
    let operation_id = Some(id.to_string());
    let run = RunCommand { background: true, operation_id, ..RunCommand::shell(command) };
    let mut follower = client.run(run).unwrap();
    assert!(matches!(follower.next().await, Ok(Some(Item::Output(..)))));
    format!("http://{}/command/{id}/resume", stage.address())
}

/// Follows with `eventsource-client` until the ending.
async fn eventsource_client(stage: &Stage, url: &str) -> Received {
    let server =
        Endpoint::tcp("127.0.0.1", stage.address().rsplit_once(':').unwrap().1.parse().unwrap());
    let pauses = ReconnectOptions::reconnect(true).retry_initial(true);
    let pauses = pauses.delay(PAUSE).delay_max(PAUSE).build();
    let client = ClientBuilder::for_url(url)
        .and_then(|builder| builder.header("x-execd-access-token", TOKEN))
        .unwrap()
        .reconnect(pauses)
        .build_with_transport(Transport::new(Env::real().net, server));
    let (mut stream, mut received) = (client.stream(), Received::default());
    loop {
        match timeout(LONG, stream.next()).await.expect("it makes progress").expect("no end") {
            Ok(SSE::Connected(_)) => received.connections += 1,
            Ok(SSE::Event(event)) => {
                let id = event.id.unwrap_or_default();
                if !received.add(&record(&id, &event.data)) {
                    return received;
                }
            }
            Ok(SSE::Comment(_)) | Err(_) => {} // it goes on after an error
        }
    }
}

/// Follows with `reqwest-eventsource` until the ending.
async fn reqwest_eventsource(url: &str) -> Received {
    let request = reqwest::Client::new().get(url).header("x-execd-access-token", TOKEN);
    let mut stream = EventSource::new(request).unwrap();
    let pause = reqwest_eventsource::retry::Constant::new(PAUSE, None);
    stream.set_retry_policy(Box::new(pause));
    let mut received = Received::default();
    loop {
        match timeout(LONG, stream.next()).await.expect("it makes progress").expect("no end") {
            Ok(Other::Open) => received.connections += 1,
            Ok(Other::Message(event)) => {
                if !received.add(&record(&event.id, &event.data)) {
                    return received;
                }
            }
            Err(_) => {}
        }
    }
}

fn wanted(connections: usize) -> Received {
    let lines = (1..=300).map(|line| line.to_string()).collect();
    Received { lines, ending: Some(Ending::Exited(3)), connections }
}

const COMMAND: &str = "seq 300; exit 3";

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_command_arrives() {
    let stage = Stage::start(ServerLimits::default(), Vec::new()).await;
    let url = started(&stage, COMMAND).await;
    assert_eq!(eventsource_client(&stage, &url).await, wanted(1));
    assert_eq!(reqwest_eventsource(&url).await, wanted(1));
}

/// The first four connections break: before the head of the answer, in the first events, later.
#[tokio::test(flavor = "multi_thread")]
async fn a_cut_command_is_resumed_by_the_id_of_its_last_event() {
    for fault in [Fault::Reset { toward: None }, Fault::Close {}] {
        for other in [false, true] {
            // Each rule breaks one connection. It names no number: a connection that the server refuses has one, too.
            let rule = |count| Rule {
                conn: None,
                times: Some(1),
                at: Moment::Bytes { toward: End::Client, count },
                fault: fault.clone(),
            };
            let rules = [20, 600, 3000, 5000].map(rule);
            let limits = ServerLimits { retry: PAUSE, ..ServerLimits::default() };
            let stage = Stage::start(limits, rules.to_vec()).await;
            let url = started(&stage, COMMAND).await;
            let received = match other {
                false => eventsource_client(&stage, &url).await,
                true => reqwest_eventsource(&url).await,
            };
            // The first connection broke before the client saw it as open.
            assert_eq!(received, wanted(4), "{fault:?}");
            assert_eq!(stage.broken(), 4);
        }
    }
}

/// Every event of our server repeats the position, also a sign of life, so it survives two cuts without an
/// event of the log in between: these clients would forget it (bug 16).
///
/// The command goes on only after both cuts, and each cut comes after some signs of life.
#[tokio::test(flavor = "multi_thread")]
async fn two_cuts_of_a_quiet_command_lose_no_position() {
    for other in [false, true] {
        let rule = Rule {
            conn: None,
            times: Some(2),
            at: Moment::Bytes { toward: End::Client, count: 1500 },
            fault: Fault::Close {},
        };
        let heartbeat = Duration::from_millis(20);
        let limits = ServerLimits { heartbeat, retry: PAUSE, ..ServerLimits::default() };
        let stage = Stage::start(limits, vec![rule]).await;
        let folder = tempfile::tempdir().unwrap();
        let go = folder.path().join("go");
        let command =
            format!("echo one; until test -e {}; do sleep 0.02; done; echo two", go.display());
        let url = started(&stage, &command).await;
        let both_cuts = async {
            while stage.broken() < 2 {
                tokio::time::sleep(SHORT).await;
            }
            std::fs::write(&go, "").unwrap();
            std::future::pending().await
        };
        let received = tokio::select! {
            received = async {
                match other {
                    false => eventsource_client(&stage, &url).await,
                    true => reqwest_eventsource(&url).await,
                }
            } => received,
            never = both_cuts => never,
        };
        assert_eq!((received.lines, received.connections), (vec!["one".into(), "two".into()], 3));
    }
}

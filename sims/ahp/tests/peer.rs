//! A third-party client against our host, over real sockets: the crate `ahp`, with its own
//! reducers. The state that its reducers compute from our host's messages equals the host's state.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ahp::{Client, ClientConfig, SubscriptionEvent};

use ahp_types::StateAction;
use ahp_types::commands::ReconnectResult;
use ahp_types::state::SnapshotState;
use reknit::Env;
use reknit::net::{BoxFuture, Endpoint};
use reknit_toolcall::client::{self as ours, Run, Tool, Toolbox};
use reknit_toolcall::host::{Agent, Host, HostConfig, MemoryArchive, Turn};
use reknit_toolcall::limits::HostLimits;
use reknit_toolcall::wire::ahp::state::{ToolCallResult, ToolDefinition};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use toolcall_ahp::known::Known;
use toolcall_ahp::transport::Ws;

const PATIENCE: Duration = Duration::from_secs(10);

/// Sends a text, calls a tool, and sends another text.
struct Busy;

impl Agent for Busy {
    fn turn(&self, turn: Turn) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let part = turn.send("well, ").unwrap();
            turn.continue_saying(&part, "let us see").unwrap();
            turn.call("tool", &json!({ "x": 1 }), false).await.unwrap();
            turn.send("done").unwrap();
        })
    }
}

struct Quick;

impl Tool for Quick {
    fn definition(&self) -> ToolDefinition {
        ours::named("tool")
    }

    fn run(&self, _: Run) -> BoxFuture<'static, ToolCallResult> {
        Box::pin(std::future::ready(ours::done("1")))
    }
}

async fn host(tasks: &mut JoinSet<()>) -> Endpoint {
    let env = Env::real();
    let listener = env.net.listen(&Endpoint::tcp("127.0.0.1", 0)).await.unwrap();
    let at = listener.endpoint();
    let config = HostConfig {
        provider: "busy".into(),
        tokens: BTreeMap::new(),
        agent: Arc::new(Busy),
        archive: Arc::new(MemoryArchive::default()),
        limits: HostLimits::default(),
    };
    tasks.spawn(Host::new(&env, config).serve(listener));
    at
}

async fn theirs(at: &Endpoint) -> Client {
    let stream = TcpStream::connect(at.to_string()).await.unwrap();
    let ws = Ws::open(stream, &format!("ws://{at}/")).await.unwrap();
    Client::connect(ws, ClientConfig::default()).await.unwrap()
}

fn action(value: Value) -> StateAction {
    serde_json::from_value(value).unwrap()
}

fn started(turn: &str) -> StateAction {
    let message = json!({ "text": "go", "origin": { "kind": "user" } });
    action(
        json!({ "type": "chat/turnStarted", "turnId": turn, "startedAt": "2026-01-01T00:00:00.000Z", "message": message }),
    )
}

fn is_over(known: &Known, turns: usize) -> bool {
    match (known.state("s"), known.state("c")) {
        (Some(SnapshotState::Session(session)), Some(SnapshotState::Chat(chat))) => {
            chat.turns.len() == turns && session.chats[0].status == 1
        }
        _ => panic!("a session and a chat"),
    }
}

async fn until_over(known: &mut Known, events: &mut ahp::ClientEventStream, turns: usize) {
    let over = async {
        while !is_over(known, turns) {
            let event = events.recv().await.expect("the connection lives");
            if let SubscriptionEvent::Action(envelope) = event.event {
                known.apply(&envelope);
            }
        }
    };
    timeout(PATIENCE, over).await.expect("the turn is over");
}

/// One of their clients starts turns, and one of ours runs the tool. Their reducers and ours give
/// the same state, also after a reconnect.
#[tokio::test]
async fn their_reducers_give_the_same_state_as_our_host() {
    let mut tasks = JoinSet::new();
    let at = host(&mut tasks).await;
    let tools = Toolbox::of([Arc::new(Quick) as Arc<dyn Tool>]);
    let runner = ours::Client::new(
        &Env::real(),
        at.clone(),
        ours::ClientConfig { tools, ..ours::ClientConfig::default() },
    );
    runner.create_session("s").await.unwrap();
    runner.create_chat("s", "c").await.unwrap();
    runner.subscribe("s").await.unwrap();
    runner.subscribe("c").await.unwrap();
    runner.join("s").await.unwrap();

    let client = theirs(&at).await;
    client.ping().await.unwrap();
    let welcome = client
        .initialize("theirs".into(), vec!["1.0.0".into()], vec!["ahp-root://".into()])
        .await
        .unwrap();
    assert_eq!((welcome.protocol_version.as_str(), welcome.snapshots.len()), ("1.0.0", 1));
    let mut events = client.events();
    let (session, _s) = client.subscribe("s".into()).await.unwrap();
    let (chat, _c) = client.subscribe("c".into()).await.unwrap();
    let mut known = Known::default();
    [session, chat].into_iter().for_each(|subscribed| known.reset_to(subscribed.snapshot.unwrap()));
    client.dispatch("c".into(), started("t1")).await.unwrap();
    until_over(&mut known, &mut events, 1).await;
    client.shutdown().await;

    // While their client is disconnected, another turn runs. Their client counts its actions from
    // one again on each connection.
    runner.start_turn("c", "t2", "go").await.unwrap();
    let turns = |client: &ours::Client| match client.confirmed("c") {
        Some(SnapshotState::Chat(chat)) => (chat.turns.len() == 2).then_some(()),
        _ => None,
    };
    timeout(PATIENCE, runner.until(turns)).await.unwrap().unwrap();

    let client = theirs(&at).await;
    let mut events = client.events();
    let seen = i64::try_from(known.seen()).unwrap();
    match client.reconnect("theirs".into(), seen, vec!["s".into(), "c".into()]).await.unwrap() {
        ReconnectResult::Replay(replay) => {
            replay.actions.iter().for_each(|envelope| known.apply(envelope))
        }
        ReconnectResult::Snapshot(_) => panic!("the log has everything"),
    }
    client.dispatch("c".into(), started("t3")).await.unwrap();
    until_over(&mut known, &mut events, 3).await;

    let ended = |client: &ours::Client| match client.confirmed("c") {
        Some(SnapshotState::Chat(chat)) => {
            (chat.turns.len() == 3 && chat.active_turn.is_none()).then_some(())
        }
        _ => None,
    };
    timeout(PATIENCE, runner.until(ended)).await.unwrap().unwrap();
    assert_eq!(known.state("c"), runner.confirmed("c").as_ref());
    let settled =
        |client: &ours::Client| (client.confirmed("s").as_ref() == known.state("s")).then_some(());
    timeout(PATIENCE, runner.until(settled)).await.expect("the session is the same, too");
    client.shutdown().await;
    runner.close().await;
}

//! A user scenario: an MCP server runs on another machine, as a child of an exec server. Its client
//! talks to it through an exec client, and knows nothing about the network between. Connections are
//! lost, but the session is not, and every call is answered.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::join_all;
use reknit_exec::Server;
use reknit_exec::client::{Client, State, Stdio};
use reknit_exec::limits::{ClientLimits, ServerLimits};
use reknit_exec::wire::Directory;
use reknit_exec::wire::process::StartParams;
use reknit_proxy::{NetworkState, Proxy};
use reknit_seams::Env;
use reknit_seams::net::Endpoint;
use rmcp::model::CallToolRequestParams;
use rmcp::service::{RunningService, ServiceError};
use rmcp::{RoleClient, ServiceExt};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// A time limit that no test reaches, even on a slow machine.
const NEVER: Duration = Duration::from_secs(60);

type Session = RunningService<RoleClient, ()>;

/// Calls a tool; returns the text of the answer.
async fn call(session: &Session, params: CallToolRequestParams) -> Result<String, ServiceError> {
    let result = timeout(NEVER, session.call_tool(params)).await.expect("an answer")?;
    Ok(result
        .content
        .iter()
        .filter_map(|block| block.as_text())
        .map(|text| text.text.as_str())
        .collect())
}

async fn echo(session: &Session, text: &str) -> String {
    let arguments = json!({ "text": text }).as_object().cloned().unwrap();
    call(session, CallToolRequestParams::new("echo").with_arguments(arguments)).await.unwrap()
}

async fn count(session: &Session) -> u64 {
    call(session, CallToolRequestParams::new("count")).await.unwrap().parse().unwrap()
}

/// At each reset, forty parallel calls are in flight, requests and answers; one more call starts
/// without a connection. Each call is answered, and takes effect once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_mcp_session_survives_three_resets_and_every_call_is_answered() {
    let env = Env::real();
    let listener = env.net.listen(&Endpoint::tcp("127.0.0.1", 0)).await.unwrap();
    let server = ([127, 0, 0, 1], listener.endpoint().port().unwrap()).into();
    let proxy = Proxy::before(server).await.unwrap();
    let mut serving = JoinSet::new();
    serving.spawn(Server::new(&env, ServerLimits::default()).serve(listener));
    // A write in flight at a reset is executed once, and is not lost.
    let client = Client::start(
        &env,
        Endpoint::tcp("127.0.0.1", proxy.address().port()),
        ClientLimits { retry_writes: true, ..ClientLimits::default() },
    );
    let argv = vec![env!("CARGO_BIN_EXE_exec_mcp").to_owned()];
    let spec = StartParams {
        process_id: "mcp".into(),
        argv,
        cwd: Directory::root(),
        pipe_stdin: true,
        ..StartParams::default()
    };
    let process = client.launch(spec).await.unwrap();
    let session =
        timeout(NEVER, ().serve(Stdio::new(process.clone()))).await.expect("a session").unwrap();

    let mut counted = 0;
    for (outage, network_state) in
        [NetworkState::Resets, NetworkState::Closes, NetworkState::Resets].into_iter().enumerate()
    {
        let calls = join_all((0..40).map(|_| count(&session)));
        let cut = async {
            proxy.turn(network_state).await;
            client.watch_state().wait_for(|state| *state == State::Recovering).await.unwrap();
            let text = format!("asked in outage {outage}");
            let mut asked = pin!(echo(&session, &text));
            let waits =
                poll_fn(|context| Poll::Ready(asked.as_mut().poll(context).is_pending())).await;
            assert!(waits, "there is nobody who could answer");
            proxy.turn(NetworkState::Fair).await;
            assert_eq!(asked.await, text);
        };
        let (mut counts, ()) = tokio::join!(calls, cut);
        counts.sort_unstable();
        assert_eq!(counts, (counted + 1..=counted + 40).collect::<Vec<_>>());
        counted += 40;
    }
    assert_eq!(session.list_all_tools().await.unwrap().len(), 2, "it is the same session");
    assert_eq!(count(&session).await, counted + 1, "and the same process");
    session.cancel().await.unwrap();
    assert_eq!(process.terminate().await, Ok(true));
}

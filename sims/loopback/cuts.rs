//! Connections that are lost while a process runs.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use reknit_exec::client::{Failure, State, Via};
use reknit_exec::limits::{ClientLimits, WireLimits};
use reknit_proxy::NetworkState;
use tokio::time::timeout;

use super::stage::{NEVER, Stage, lives, until};

/// Sets short timeouts, so that both ends notice silence quickly.
fn alert(wire: &mut WireLimits) {
    (wire.ping_interval, wire.pong_deadline) =
        (Duration::from_millis(700), Duration::from_millis(700));
}

/// The outages are a reset, a graceful close, and a stall. The output of the shell before, during
/// and after each one arrives once and in order, from one process. A request that waits during the
/// outage is answered after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shell_survives_three_outages_without_losing_output() {
    let patient = |client: &mut ClientLimits| {
        alert(&mut client.wire);
        client.retry_writes = true;
    };
    let stage = Stage::with(patient, |server| alert(&mut server.wire)).await;
    let script = "echo $$
        for n in 1 2 3; do
            echo before-$n $$; await lost-$n
            echo during-$n $$; touch printed-$n; await found-$n
            echo after-$n $$; read word; echo heard $word $$
        done
        exit 7";
    let mut shell = stage.shell("shell", script).await;
    let pid = shell.number().await;
    for (n, network_state) in
        [(1, NetworkState::Resets), (2, NetworkState::Closes), (3, NetworkState::Still)]
    {
        assert_eq!(shell.line().await, format!("before-{n} {pid}"));
        stage.outage(network_state).await;
        stage.folder.touch(&format!("lost-{n}"));
        stage.folder.touched(&format!("printed-{n}")).await;
        let process = shell.process.clone();
        let mut read = pin!(process.read(shell.seq, None, Duration::from_secs(30)));
        let waits = poll_fn(|context| Poll::Ready(read.as_mut().poll(context).is_pending())).await;
        assert!(waits, "there is nobody who could answer");

        stage.heals().await;
        let read = timeout(NEVER, read).await.expect("an answer").unwrap();
        let bytes: Vec<u8> = read.chunks.iter().flat_map(|chunk| chunk.chunk.0.to_vec()).collect();
        assert!(bytes.starts_with(format!("during-{n} {pid}\n").as_bytes()), "{read:?}");
        stage.folder.touch(&format!("found-{n}"));
        assert_eq!(shell.line().await, format!("during-{n} {pid}"));
        assert_eq!(shell.line().await, format!("after-{n} {pid}"));
        shell.type_line(&format!("word-{n}")).await;
        assert_eq!(shell.line().await, format!("heard word-{n} {pid}"));
    }
    assert_eq!(shell.exits().await, 7);
    shell.closes().await;
}

/// A network that stalls for a moment is not a lost connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_stall_does_not_close_the_connection() {
    let stage = Stage::new().await;
    let mut shell = stage.shell("shell", "echo $$; await go; echo during; touch printed").await;
    shell.number().await;
    stage.proxy.turn(NetworkState::Still).await;
    stage.folder.touch("go");
    stage.folder.touched("printed").await;
    stage.proxy.turn(NetworkState::Fair).await;
    let (_, _, via) = shell.output().await;
    assert_eq!(via, Via { generation: 1, live: true });
    assert_eq!(shell.line().await, "during");
    assert_eq!(shell.exits().await, 0);
    shell.closes().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_survive_the_same_reset() {
    let stage = Stage::new().await;
    let script = |name: &str, code: u32| {
        format!(
            "echo {name} before; await lost
            for n in 1 2 3 4 5; do echo {name} $n; done; touch {name}; await found
            echo {name} after; exit {code}"
        )
    };
    let mut shells =
        [stage.shell("a", &script("a", 3)).await, stage.shell("b", &script("b", 4)).await];
    for (shell, name) in shells.iter_mut().zip(["a", "b"]) {
        assert_eq!(shell.line().await, format!("{name} before"));
    }
    stage.outage(NetworkState::Resets).await;
    stage.folder.touch("lost");
    stage.folder.touched("a").await;
    stage.folder.touched("b").await;
    stage.heals().await;
    stage.folder.touch("found");
    for ((shell, name), code) in shells.iter_mut().zip(["a", "b"]).zip([3, 4]) {
        for word in ["1", "2", "3", "4", "5", "after"] {
            assert_eq!(shell.line().await, format!("{name} {word}"));
        }
        assert_eq!(shell.exits().await, code);
        shell.closes().await;
    }
}

/// The output, the exit and the close of the process can all be read afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exit_during_an_outage_is_reported_completely() {
    let stage = Stage::new().await;
    let mut shell = stage.shell("shell", "echo here; await lost; echo last words; exit 3").await;
    assert_eq!(shell.line().await, "here");
    stage.outage(NetworkState::Resets).await;
    stage.folder.touch("lost");
    until("it has ended", || stage.resources.counts().open_processes == 0).await;
    stage.heals().await;
    assert_eq!(shell.line().await, "last words");
    assert_eq!(shell.exits().await, 3);
    shell.closes().await;
}

/// The output does not end with the exit of the process: a grandchild continues, across a reset.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grandchild_prints_after_the_exit_and_after_a_reset() {
    let stage = Stage::new().await;
    let mut shell = stage
        .shell("shell", "(await lost; echo late; await found; echo later) & echo early; exit 4")
        .await;
    assert_eq!(shell.line().await, "early");
    assert_eq!(shell.exits().await, 4);
    stage.outage(NetworkState::Resets).await;
    stage.folder.touch("lost");
    stage.heals().await;
    assert_eq!(shell.line().await, "late");
    stage.folder.touch("found");
    assert_eq!(shell.line().await, "later");
    shell.closes().await;
}

/// The server keeps a session for exactly the configured time, and nothing of it longer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_abandoned_session_ends_with_its_processes() {
    let stage =
        Stage::with(|_| {}, |server| server.detached_lifetime = Duration::from_millis(200)).await;
    let mut shell = stage.shell("shell", "sleep 600 & echo $!; echo $$; wait").await;
    let (grandchild, child) = (shell.number().await, shell.number().await);
    assert!(lives(grandchild) && lives(child));
    stage.outage(NetworkState::Resets).await;
    until("the session is over", || stage.resources.counts().sessions == 0).await;
    until("they are dead", || !lives(grandchild) && !lives(child)).await;

    stage.proxy.turn(NetworkState::Fair).await;
    stage.client_is(State::Failed).await;
    let failure = shell.fails().await;
    assert!(matches!(failure, Failure::SessionLost(_)), "{failure:?}");
    assert_eq!(shell.process.write("anybody?").await, Err(failure));
}

//! Real processes behind a real server.

use reknit_exec::wire::process::{OutputStream, Signal};
use reknit_proxy::NetworkState;

use super::stage::{Stage, lives, until};

/// The process sees a terminal that echoes its input; a reset does not hang it up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_on_a_terminal_survives_a_reset() {
    let stage = Stage::new().await;
    let script =
        "test -t 0 && test -t 1 && test -t 2 && echo terminal; read word; echo got $word; exit 5";
    let mut shell = stage.shell_on_terminal("shell", script).await;
    assert_eq!(shell.line().await, "terminal");
    stage.outage(NetworkState::Resets).await;
    stage.heals().await;
    shell.type_line("word").await;
    assert_eq!(shell.line().await, "word");
    assert_eq!(shell.line().await, "got word");
    assert_eq!(shell.exits().await, 5);
    shell.closes().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_names_its_stream() {
    let stage = Stage::new().await;
    let mut shell = stage.shell("shell", "echo complaint >&2; await heard; echo answer").await;
    for (stream, text) in [(OutputStream::Stderr, "complaint"), (OutputStream::Stdout, "answer")] {
        let (reported, bytes, _) = shell.output().await;
        assert_eq!((reported, &*bytes), (stream, format!("{text}\n").as_bytes()));
        assert_eq!(shell.line().await, text);
        stage.folder.touch("heard");
    }
    assert_eq!(shell.exits().await, 0);
    shell.closes().await;
}

/// More data than all buffers on the way can hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_arrives_completely_across_a_reset() {
    let stage = Stage::new().await;
    let mut shell = stage
        .shell("shell", "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done")
        .await;
    for n in 0..20_000 {
        assert_eq!(shell.line().await, format!("line {n}"));
        if n == 5_000 {
            stage.proxy.cut().await;
        }
    }
    assert_eq!(shell.exits().await, 0);
    shell.closes().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_can_handle_an_interrupt() {
    let stage = Stage::new().await;
    let mut shell = stage
        .shell(
            "shell",
            "trap 'echo interrupted; exit 9' INT; echo ready; while :; do sleep 0.01; done",
        )
        .await;
    assert_eq!(shell.line().await, "ready");
    shell.process.signal(Signal::Interrupt).await.unwrap();
    assert_eq!(shell.line().await, "interrupted");
    assert_eq!(shell.exits().await, 9);
    shell.closes().await;
}

/// Its output can only end when the grandchild is dead too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn terminate_kills_a_process_and_its_descendants() {
    let stage = Stage::new().await;
    let mut shell =
        stage.shell("shell", "trap '' TERM INT; sleep 600 & echo $!; echo $$; wait; wait").await;
    let (grandchild, child) = (shell.number().await, shell.number().await);
    assert!(lives(grandchild) && lives(child));
    assert_eq!(shell.process.terminate().await, Ok(true));
    assert_ne!(shell.exits().await, 0);
    shell.closes().await;
    until("they are dead", || !lives(grandchild) && !lives(child)).await;
    assert_eq!(shell.process.terminate().await, Ok(false));
}

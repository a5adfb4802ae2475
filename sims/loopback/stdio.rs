//! A process as a byte stream.

use std::io::ErrorKind;
use std::time::Duration;

use reknit_exec::client::{Failure, State, Stdio};
use reknit_exec::wire::process::WriteStatus;
use reknit_proxy::NetworkState;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, split};
use tokio::time::timeout;

use super::stage::{NEVER, Stage, until};

fn failure(error: &std::io::Error) -> &Failure {
    error.get_ref().unwrap().downcast_ref().unwrap()
}

/// Both directions are busy at each reset.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_arrives_once_and_in_order_across_three_resets() {
    const LINES: usize = 400;
    let stage = Stage::with(|client| client.retry_writes = true, |_| {}).await;
    let shell = stage.shell("cat", "exec cat").await;
    let (read, mut write) = split(Stdio::new(shell.process.clone()));
    let writing = async {
        for n in 0..LINES {
            write.write_all(format!("line {n}\n").as_bytes()).await.unwrap();
        }
        write.flush().await.unwrap();
    };
    let mut lines = BufReader::new(read).lines();
    let reading = async {
        for n in 0..LINES {
            assert_eq!(lines.next_line().await.unwrap(), Some(format!("line {n}")));
            if [LINES / 8, LINES / 4, LINES / 2].contains(&n) {
                stage.proxy.cut().await;
            }
        }
    };
    timeout(NEVER, async { tokio::join!(writing, reading) }).await.expect("all of it arrives");
    shell.process.terminate().await.unwrap();
    assert_eq!(timeout(NEVER, lines.next_line()).await.expect("an end").unwrap(), None);
}

/// The stream does not contain the standard error, and it ends with the process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_stream_contains_the_standard_output_and_ends_with_the_process() {
    let stage = Stage::new().await;
    let shell =
        stage.shell("shell", "echo one; echo complaint >&2; read word; echo $word; exit 3").await;
    let mut stream = Stdio::new(shell.process.clone());
    stream.write_all(b"two\n").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut all = String::new();
    timeout(NEVER, stream.read_to_string(&mut all)).await.expect("an end").unwrap();
    assert_eq!(all, "one\ntwo\n");
    stream.write_all(b"three\n").await.unwrap();
    for _ in 0..2 {
        let error = stream.flush().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
        assert_eq!(failure(&error), &Failure::NotWritten(WriteStatus::StdinClosed));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_process_fails_both_directions_for_good() {
    let stage =
        Stage::with(|_| {}, |server| server.detached_lifetime = Duration::from_millis(100)).await;
    let shell = stage.shell("cat", "exec cat").await;
    let mut stream = Stdio::new(shell.process.clone());
    stage.outage(NetworkState::Resets).await;
    until("the session is over", || stage.resources.counts().sessions == 0).await;
    stage.proxy.turn(NetworkState::Fair).await;
    stage.client_is(State::Failed).await;
    stream.write_all(b"anybody?").await.unwrap();
    for _ in 0..2 {
        let read = timeout(NEVER, stream.read_u8()).await.expect("an answer").unwrap_err();
        let written = timeout(NEVER, stream.flush()).await.expect("an answer").unwrap_err();
        assert!(matches!(failure(&read), Failure::SessionLost(_)), "{read}");
        assert_eq!(failure(&read), failure(&written));
    }
}

//! Our client, our broker, and the real app-server behind it.

use std::future::pending;
use std::path::PathBuf;
use std::process::Stdio;

use reknit_seams::net::Endpoint;
use reknit_turn::capture::{Evidence, Failure, Interruption, Verdict};
use reknit_turn::client::{ClientError, Route};
use reknit_turn::wire::code;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::peer::{NEVER, Peer, answer, command_started, endless, task};

/// Our broker as a process, in front of an app-server.
struct Broker {
    child: Child,
    /// Its path is short: the system limits the length of a socket's path.
    folder: TempDir,
}

impl Broker {
    async fn start(peer: &Peer) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_turn_broker"));
        command.arg(folder.path().join("b")).env_clear().envs(peer.variables());
        command.current_dir(peer.folder()).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = timeout(NEVER, lines.next_line()).await.expect("a line in time").unwrap();
        assert!(line.is_some_and(|line| line.contains("listens at")));
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Self { child, folder }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join("b").join(name)
    }

    fn endpoint(&self) -> Endpoint {
        Endpoint::unix(self.file("broker.sock"))
    }

    fn only(&self) -> Route {
        Route::Broker { endpoint: self.endpoint() }
    }

    fn or_direct(&self, peer: &Peer) -> Route {
        Route::BrokerOrDirect { endpoint: self.endpoint(), app_server: peer.app_server() }
    }

    fn terminate(&self) {
        let pid = Pid::from_raw(self.child.id().unwrap() as i32).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
    }

    /// Waits for its end, and returns its exit status.
    async fn status(&mut self) -> Option<i32> {
        timeout(NEVER, self.child.wait()).await.expect("it ends in time").unwrap().code()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_run_one_after_the_other_on_one_app_server() {
    let Some(peer) = Peer::new([answer("first"), answer("second")]).await else { return };
    let mut broker = Broker::start(&peer).await;
    for text in ["first", "second"] {
        let run = peer.run(task("go"), broker.only()).await;
        assert_eq!(run.report().verdict, Verdict::Completed(Evidence::Reported));
        assert_eq!(run.report().answer.as_deref(), Some(text));
    }
    broker.terminate();
    assert_eq!(broker.status().await, Some(0));
    assert!(!broker.file("broker.sock").exists() && !broker.file("broker.json").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_client_is_refused_or_starts_an_app_server() {
    let Some(peer) = Peer::new([endless(), answer("beside it")]).await else { return };
    let broker = Broker::start(&peer).await;
    let (works, cancel) = (Notify::new(), Notify::new());
    let watch = |news: &_| {
        if command_started(news) {
            works.notify_one();
        }
    };
    let first = peer.run_until(task("one"), broker.only(), cancel.notified(), watch);
    let second = async {
        works.notified().await;
        let refused = peer.run(task("two"), broker.only()).await;
        let beside = peer.run(task("two"), broker.or_direct(&peer)).await;
        cancel.notify_one();
        (refused, beside)
    };
    let (first, (refused, beside)) = tokio::join!(first, second);
    assert_eq!(first.report().verdict, Verdict::Interrupted(Interruption::Cancelled));
    match refused.result {
        Err(ClientError::NotStarted(why)) => {
            assert!(why.to_string().contains(&code::BUSY.to_string()), "{why}");
            assert_eq!(why.left_behind, None);
        }
        result => panic!("{result:?}"),
    }
    assert!(beside.fell_back());
    assert_eq!(beside.report().answer.as_deref(), Some("beside it"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_absent_broker_is_replaced() {
    let Some(peer) = Peer::new([answer("alone")]).await else { return };
    let endpoint = Endpoint::unix(peer.folder().join("none"));
    let route = Route::BrokerOrDirect { endpoint, app_server: peer.app_server() };
    let run = peer.run(task("go"), route).await;
    assert!(run.fell_back());
    assert_eq!(run.report().answer.as_deref(), Some("alone"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_broker_ends_with_its_app_server() {
    let Some(peer) = Peer::new([endless()]).await else { return };
    let mut broker = Broker::start(&peer).await;
    let watch = |news: &_| {
        if command_started(news) {
            peer.kill_app_server();
        }
    };
    let run = peer.run_until(task("go"), broker.or_direct(&peer), pending(), watch).await;
    assert!(
        matches!(run.report().verdict, Verdict::Failed(Failure::Disconnected { .. })),
        "{run:?}"
    );
    assert!(!run.fell_back(), "the turn does not run twice");
    assert_eq!(broker.status().await, Some(1));
    assert!(!broker.file("broker.sock").exists() && !broker.file("broker.json").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_is_asked_to_end_interrupts_its_turn() {
    let Some(peer) = Peer::new([endless()]).await else { return };
    let mut broker = Broker::start(&peer).await;
    let route = broker.only();
    let watch = |news: &_| {
        if command_started(news) {
            broker.terminate();
        }
    };
    let run = peer.run_until(task("go"), route, pending(), watch).await;
    assert_eq!(run.report().verdict, Verdict::Interrupted(Interruption::Other), "{run:?}");
    assert_eq!(broker.status().await, Some(0));
}

/// The endless command would keep the broker busy.
#[tokio::test(flavor = "multi_thread")]
async fn the_turn_of_a_client_that_is_gone_is_interrupted() {
    let Some(peer) = Peer::new([endless(), answer("next")]).await else { return };
    let broker = Broker::start(&peer).await;
    let works = Notify::new();
    let watch = |news: &_| {
        if command_started(news) {
            works.notify_one();
        }
    };
    let gone = peer.run_until(task("one"), broker.only(), pending(), watch);
    tokio::select! {
        run = gone => panic!("{run:?}"),
        () = works.notified() => {}
    }
    let next = async {
        loop {
            let run = peer.run(task("two"), broker.only()).await;
            match &run.result {
                Err(ClientError::NotStarted(_)) => tokio::task::yield_now().await,
                _ => return run,
            }
        }
    };
    let run = timeout(NEVER, next).await.expect("the broker becomes free");
    assert_eq!(run.report().answer.as_deref(), Some("next"));
}

//! Clients and brokers that meet in a directory in memory. Time is paused.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use reknit_jsonrpc::{LineEvent, LineLimits, Lines, Message};
use reknit_seams::Env;
use reknit_seams::files::{self, Files, Open};
use reknit_seams::net::memory::{Fate, Memory};
use reknit_seams::net::{ConnId, Endpoint, Stream};
use reknit_seams::process::{Detached, Identity, ProcessTable, Scripted};
use serde_json::json;
use tokio::io::duplex;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep};

use super::*;
use crate::broker::{Broker, BrokerExit};
use crate::limits::{BrokerLimits, ConnectionLimits, StartLimits};
use crate::testing::defect_on;
use crate::upstream::Upstream;
use crate::wire::{ClientInfo, InitializeParams};

const S: Duration = Duration::from_secs(1);
const DIRECTORY: &str = "/broker";

/// A machine with a network, files and processes.
#[derive(Clone, Default)]
struct Machine {
    net: Memory,
    files: files::Memory,
    table: Scripted,
}

fn info() -> ClientInfo {
    ClientInfo { name: "t".into(), title: None, version: "1".into() }
}

fn search(account: &str) -> BrokerSearch {
    BrokerSearch {
        directory: DIRECTORY.into(),
        account: account.into(),
        program: Detached { argv: vec!["broker".into(), account.into()], ..Detached::default() },
        client: info(),
        connection: ConnectionLimits::default(),
        limits: StartLimits::default(),
    }
}

impl Machine {
    fn env(&self, process: &Identity) -> Env {
        Env {
            net: Arc::new(self.net.clone()),
            files: Arc::new(self.files.clone()),
            processes: Arc::new(self.table.as_seen_by(process)),
            ..Env::real()
        }
    }

    /// Runs every broker that a client launches, each after a second.
    fn launcher(&self) -> JoinHandle<()> {
        let machine = self.clone();
        tokio::spawn(async move {
            let mut brokers = JoinSet::new();
            for n in 0.. {
                let (program, process) = loop {
                    match machine.table.launches().get(n) {
                        Some(launch) => break launch.clone(),
                        None => sleep(S / 1000).await,
                    }
                };
                let machine = machine.clone();
                brokers.spawn(async move {
                    sleep(S).await;
                    drop(machine.broker(&process, &program.argv[1]).await);
                    machine.table.end(&process);
                });
            }
        })
    }

    /// Runs a broker until its end.
    async fn broker(&self, process: &Identity, account: &str) -> Result<BrokerExit, NotPublished> {
        let env = self.env(process);
        let (at, limits) = (Endpoint::tcp("broker", 1), StartLimits::default());
        let (publication, listener) =
            Publication::open(&env, Path::new(DIRECTORY), &at, account, limits).await?;
        let (near, far) = duplex(1 << 16);
        tokio::spawn(app_server(Stream::new(far, ConnId(0))));
        let upstream = Upstream::over(Stream::new(near, ConnId(0)), ConnectionLimits::default());
        let broker = Broker::new(BrokerLimits::default(), &InitializeParams::new(info()));
        let exit = broker.serve(upstream, listener).await;
        publication.withdraw().await?;
        Ok(exit)
    }

    async fn find(&self, account: &str) -> Result<Upstream, NoBroker> {
        let client = self.table.start();
        search(account).find_or_start(&self.env(&client)).await
    }

    fn launches(&self) -> usize {
        self.table.launches().len()
    }

    async fn has_record(&self) -> bool {
        self.files.metadata(&Path::new(DIRECTORY).join("broker.json"), true).await.is_ok()
    }

    async fn write(&self, name: &str, content: &str) -> Box<dyn files::File> {
        // A client may have created it.
        let _ = self.files.create_directory(Path::new(DIRECTORY)).await;
        let file = self.files.open(&Path::new(DIRECTORY).join(name), Open::Replace).await.unwrap();
        file.write_at(0, content.into()).await.unwrap();
        file
    }
}

/// Answers `initialize`, and ends with its input.
async fn app_server(stream: Stream) {
    let limits = LineLimits { line_bytes: 1 << 20, outbox_bytes: 1 << 20, write_deadline: 60 * S };
    let mut lines = Lines::of(stream, limits);
    while let Ok(event) = lines.next().await {
        if let LineEvent::Message(Message::Request { id, .. }) = event {
            lines.send(&Message::response(id, &json!({ "userAgent": "codex" })));
        }
    }
}

/// Starts eight clients at once. Returns how many brokers they start.
async fn started_by_eight_clients() -> usize {
    let machine = Machine::default();
    let _launcher = machine.launcher();
    let mut clients = JoinSet::new();
    for _ in 0..8 {
        let machine = machine.clone();
        clients.spawn(async move { machine.find("me").await.is_ok() });
    }
    let found = clients.join_all().await;
    assert!(found.iter().all(|found| *found), "every client has a broker: {found:?}");
    machine.launches()
}

#[tokio::test(start_paused = true)]
async fn clients_that_come_at_once_start_one_broker() {
    assert_eq!(started_by_eight_clients().await, 1);
    let _on = defect_on("StartWithoutLock");
    assert_eq!(started_by_eight_clients().await, 8);
}

#[tokio::test(start_paused = true)]
async fn a_running_broker_is_used_again() {
    let machine = Machine::default();
    let _launcher = machine.launcher();
    let mut first = machine.find("me").await.unwrap();
    machine.find("me").await.unwrap();
    assert_eq!(machine.launches(), 1);
    assert!(machine.has_record().await);
    first.call("broker/shutdown", None).await.unwrap();
    sleep(10 * S).await;
    assert!(!machine.has_record().await, "the broker removes its record");
    machine.find("me").await.unwrap();
    assert_eq!(machine.launches(), 2);
}

/// Looks for a broker that runs but does not answer. Returns whether there is one, and how many
/// brokers were started.
async fn with_a_silent_broker() -> (bool, usize) {
    let machine = Machine::default();
    let _launcher = machine.launcher();
    machine.find("me").await.unwrap();
    machine.net.set_initial_state(Fate::Frozen);
    let before = Instant::now();
    let silent = matches!(machine.find("me").await, Err(NoBroker::Silent(_)));
    assert!(before.elapsed() < 30 * S);
    (silent && machine.has_record().await, machine.launches())
}

#[tokio::test(start_paused = true)]
async fn a_living_broker_is_never_replaced() {
    assert_eq!(with_a_silent_broker().await, (true, 1));
    let _on = defect_on("BusyBrokerIsReplaced");
    assert_eq!(with_a_silent_broker().await, (false, 2));
}

#[tokio::test(start_paused = true)]
async fn a_dead_broker_is_replaced_and_a_stranger_with_its_id_is_not_touched() {
    for reused in [false, true] {
        let machine = Machine::default();
        let launcher = machine.launcher();
        machine.find("me").await.unwrap();
        let (_, broker) = machine.table.launches()[0].clone();
        launcher.abort();
        sleep(S).await;
        machine.table.end(&broker);
        assert!(machine.has_record().await, "a killed broker leaves its record");
        let stranger = reused.then(|| machine.table.start_with_id(broker.pid));
        let _launcher = machine.launcher();
        machine.find("me").await.unwrap();
        assert!(machine.launches() > 1);
        assert_eq!(machine.table.signals(), []);
        assert!(stranger.is_none_or(|stranger| machine.table.is_alive(&stranger).unwrap()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_that_cannot_be_read_is_replaced_if_no_broker_runs() {
    let machine = Machine::default();
    let _launcher = machine.launcher();
    machine.write("broker.json", "{\"at\":").await;
    machine.find("me").await.unwrap();
    assert_eq!(machine.launches(), 1);
    machine.write("broker.json", "{\"at\":").await;
    let error = machine.find("me").await.map(drop).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a broker runs, but its record /broker/broker.json cannot be read"
    );
    assert_eq!(machine.launches(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_broker_for_another_account_is_not_used() {
    let machine = Machine::default();
    let _launcher = machine.launcher();
    machine.find("me").await.unwrap();
    assert!(matches!(machine.find("you").await, Err(NoBroker::OtherAccount)));
    assert_eq!(machine.launches(), 1);
    let _on = defect_on("AnyAccountIsMine");
    assert!(machine.find("you").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_does_not_start_is_given_up() {
    let machine = Machine::default();
    let table = machine.table.clone();
    let before = Instant::now();
    assert!(matches!(machine.find("me").await, Err(NoBroker::NotStarted(_))));
    assert!(before.elapsed() < 2 * StartLimits::default().start);
    let killer = tokio::spawn(async move {
        sleep(S).await;
        table.launches().iter().for_each(|(_, process)| table.end(process));
    });
    let before = Instant::now();
    assert!(matches!(machine.find("me").await, Err(NoBroker::NotStarted(_))));
    assert!(before.elapsed() < 2 * S, "a dead program is not waited for");
    killer.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_client_does_not_wait_for_other_clients_for_ever() {
    let machine = Machine::default();
    let lock = machine.write("start.lock", "").await;
    assert!(lock.try_lock().await.unwrap());
    let before = Instant::now();
    assert!(matches!(machine.find("me").await, Err(NoBroker::Locked)));
    assert!(before.elapsed() < 2 * StartLimits::default().start);
    drop(lock);
    let _launcher = machine.launcher();
    machine.find("me").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn one_broker_serves_a_directory_at_a_time() {
    let machine = Machine::default();
    let _launcher = machine.launcher();
    let mut client = machine.find("me").await.unwrap();
    let other = machine.table.start();
    let refused = machine.broker(&other, "me").await;
    assert!(matches!(refused, Err(NotPublished::AnotherBroker)));
    let next = tokio::spawn({
        let machine = machine.clone();
        async move { machine.broker(&other, "me").await.map(|_| ()) }
    });
    client.call("broker/shutdown", None).await.unwrap();
    sleep(5 * S).await;
    assert!(!next.is_finished(), "it waits for the end of the first one, and then serves");
    machine.find("me").await.unwrap();
    assert_eq!(machine.launches(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_record_names_tcp_and_unix_addresses() {
    let process = Identity { pid: 7, started: "x".into() };
    for at in [Endpoint::tcp("127.0.0.1", 80), Endpoint::unix("/run/b.sock")] {
        let record = BrokerRecord::new(&at, &process, "me").unwrap();
        let text = serde_json::to_string(&record).unwrap();
        let read: BrokerRecord = serde_json::from_str(&text).unwrap();
        assert_eq!((read.endpoint(), read.process(), read.account()), (at, process.clone(), "me"));
    }
}

#[tokio::test(start_paused = true)]
async fn the_socket_of_a_dead_broker_is_removed_if_there_is_one() {
    let machine = Machine::default();
    let socket = Path::new(DIRECTORY).join("broker.sock");
    let publish = async || {
        let env = machine.env(&machine.table.start());
        let (at, limits) = (Endpoint::unix(&socket), StartLimits::default());
        Publication::open(&env, Path::new(DIRECTORY), &at, "a", limits).await.map(drop)
    };
    publish().await.expect("no socket is there");
    machine.write("broker.sock", "").await;
    publish().await.expect("the socket is removed");
    let left = machine.files.metadata(&socket, true).await;
    assert!(left.is_err(), "the network in memory creates no file");
    machine.files.create_directory(&socket).await.unwrap();
    let error = publish().await.expect_err("a folder is no socket");
    assert!(matches!(error, NotPublished::Io(_)), "{error}");
}

/// Opens a second broker while one serves. Returns whether the socket is still there.
async fn socket_stays() -> bool {
    let machine = Machine::default();
    let socket = Path::new(DIRECTORY).join("broker.sock");
    let open = async || {
        let env = machine.env(&machine.table.start());
        let (at, limits) = (Endpoint::unix(&socket), StartLimits::default());
        Publication::open(&env, Path::new(DIRECTORY), &at, "a", limits).await
    };
    let _serves = open().await.expect("no other broker runs");
    // The network in memory creates no file.
    machine.write("broker.sock", "").await;
    let refused = open().await.map(drop);
    assert!(matches!(refused, Err(NotPublished::AnotherBroker)));
    machine.files.metadata(&socket, true).await.is_ok()
}

#[tokio::test(start_paused = true)]
async fn a_second_broker_leaves_the_socket_of_the_first_one_alone() {
    assert!(socket_stays().await);
    let _on = defect_on("RefusedBrokersRemoveTheSocket");
    assert!(!socket_stays().await);
}

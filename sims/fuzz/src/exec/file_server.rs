//! A real server, a hostile client that sends only requests for files, and a well-behaved client with
//! an open file.
//!
//! The invariants of [`server`](super::server) hold, with these for files:
//! - the open file of the well-behaved client has the content that it writes;
//! - the open files of the hostile client end with its connection;
//! - if each request has the same sandbox: nothing changes where the sandbox grants no write access,
//!   and no answer contains the content or the names of a denied folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arbitrary::Arbitrary;
use reknit_exec::Server;
use reknit_exec::client::{Client, RemoteFile};
use reknit_exec::limits::{ClientLimits, ServerLimits};
use reknit_exec::server::ServerResources;
use reknit_exec::wire::files::OpenMode;
use reknit_seams::files::{self, Files, Kind, Open};
use reknit_seams::net::Endpoint;
use reknit_seams::{Env, net::BoxFuture};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::files::{FileAsk, FilePath};
use super::server::{FORGOTTEN, MINUTE, SOON, limits};
use crate::machine::Machine;
use crate::peer::caller::{HostileClient, LAST};
use crate::script::{Pause, SendOptions, Steps, Times};
use crate::stage::{Memory, env, must, run};

/// The actions of a hostile client.
#[derive(Arbitrary, Debug)]
pub struct ExecFilesScript {
    /// Whether the server's limits are tight.
    tight: bool,
    /// Whether each request has the sandbox, and none is damaged.
    confined: bool,
    /// Links that exist from the start: where, and to what.
    links: [(FilePath, FilePath); 3],
    /// The steps, in order.
    steps: Steps<Step>,
}

/// A step of a hostile client.
#[derive(Arbitrary, Debug)]
enum Step {
    /// It sends a request this many times.
    Asks(Box<FileAsk>, SendOptions, Times),
    /// It stays silent for a while.
    Pauses(Pause),
    /// It stops or resumes reading.
    Reads(bool),
    /// Its connection ends, and it connects again: with the last session, or a new one.
    ComesAgain(bool),
}

/// The writable folder.
const OWN: &str = "/p0";

/// A denied folder in the writable one, and another one.
const DENIED: [&str; 2] = ["/p0/p1", "/p2"];

/// The content of denied files: each piece of it looks the same in base64.
const SECRET: &str = "SSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSS";

/// The texts that no answer contains: the secret in base64, and the name of a denied file.
const SECRETS: &[&str] = &["U1NTU1NTU1NTU1NTU1NT", "denied-name"];

/// The file of the well-behaved client.
const KEPT: &str = "/the-file-of-the-well-behaved-client";

/// Runs the script, and checks all invariants.
pub fn holds(script: &ExecFilesScript) {
    run(async {
        let mut test = FilesTest::open(script).await;
        let before = test.contents().await;
        let mut peer = test.enter(None).await;
        for step in &script.steps.0 {
            peer = test.step(peer, step).await;
            test.is_within_limits();
            test.well_behaved.writes_and_reads().await;
        }
        let request =
            json!({"id": LAST, "method": "process/terminate", "params": {"processId": "nobody"}});
        peer.is_answered_or_over(request, MINUTE).await;
        drop(peer);
        sleep(FORGOTTEN).await;
        test.well_behaved.writes_and_reads().await;
        let counts = test.resources.counts();
        let left = [counts.connections, counts.sessions, counts.file_requests, counts.file_handles];
        assert_eq!(left, [1, 1, 0, 2], "connections, sessions, requests for files, open files");
        if script.confined {
            assert_eq!(test.contents().await, before, "the sandbox grants none of this");
        }
    });
}

/// The server, the well-behaved client, and the state of the hostile one.
struct FilesTest {
    confined: bool,
    limits: ServerLimits,
    resources: ServerResources,
    files: Arc<files::Memory>,
    door: Memory,
    well_behaved: FileUser,
    asked: u64,
    _tasks: JoinSet<()>,
}

impl FilesTest {
    async fn open(script: &ExecFilesScript) -> Self {
        let (door, limits) = (Memory::new(), limits(script.tight));
        let files = Arc::new(files::Memory::default());
        fill(&*files, &script.links).await;
        let env = Env { files: files.clone(), ..env(door.clone(), Arc::new(Machine::default())) };
        let server = Server::new(&env, limits);
        let resources = server.resources();
        let mut tasks = JoinSet::new();
        tasks.spawn(server.serve(door.listener()));
        let well_behaved = FileUser::enter(door.clone()).await;
        let confined = script.confined;
        Self { confined, limits, resources, files, door, well_behaved, asked: 0, _tasks: tasks }
    }

    async fn step(&mut self, mut peer: HostileClient, step: &Step) -> HostileClient {
        match step {
            Step::Asks(ask, manner, times) => {
                for _ in 0..times.count() {
                    self.asked += 1;
                    if self.confined {
                        let (method, params) = ask.confined(&sandbox());
                        let message = json!({"id": self.asked, "method": method, "params": params});
                        peer.send_valid(&message).await;
                    } else {
                        let (method, params) = ask.carries();
                        let message = json!({"id": self.asked, "method": method, "params": params});
                        peer.send(manner, message).await;
                    }
                }
            }
            Step::Pauses(pause) => sleep(pause.duration()).await,
            Step::Reads(reads) => peer.read(*reads),
            Step::ComesAgain(resumes) => {
                let session = peer.latest().filter(|_| *resumes);
                drop(peer);
                peer = self.enter(session).await;
            }
        }
        peer
    }

    /// Opens a connection with the complete handshake.
    async fn enter(&mut self, session: Option<String>) -> HostileClient {
        let stream = self.door.open(&Endpoint::tcp("server", 80)).expect("it is never refused");
        let secrets = if self.confined { SECRETS } else { &[] };
        let place = "/result/sessionId";
        let mut peer = HostileClient::new(stream, place, session.clone(), secrets);
        peer.asks_for_websocket().await;
        let params = json!({"clientName": "hostile", "resumeSessionId": session});
        self.asked += 1;
        peer.send_valid(&json!({"id": self.asked, "method": "initialize", "params": params})).await;
        peer.send_valid(&json!({"method": "initialized", "params": {}})).await;
        peer
    }

    fn is_within_limits(&self) {
        let (counts, limits) = (self.resources.counts(), &self.limits);
        let at_most =
            |what: &str, is: u64, most: usize| assert!(is <= most as u64, "{what}: {is} of {most}");
        at_most("connections", counts.connections, limits.connections);
        at_most("sessions", counts.sessions, limits.sessions);
        let requests = limits.waiting_requests * limits.connections;
        at_most("requests for files", counts.file_requests, requests);
        at_most("open files", counts.file_handles, limits.file_handles * limits.connections);
    }

    /// Returns what is where the sandbox grants no write access, except the file of the well-behaved
    /// client.
    async fn contents(&self) -> BTreeMap<PathBuf, String> {
        let mut all = BTreeMap::new();
        below(&*self.files, PathBuf::from("/"), &mut all).await;
        all.retain(|path, _| {
            let denied = DENIED.iter().any(|denied| path.starts_with(denied));
            denied || !path.starts_with(OWN) && path != Path::new(KEPT)
        });
        all
    }
}

/// Grants to read everything and to write a folder, but denies two folders.
fn sandbox() -> Value {
    let path = |path: &str, access: &str| json!({"path": {"type": "path", "path": format!("file://{path}")}, "access": access});
    let entries = json!([
        path("/", "read"),
        path(OWN, "write"),
        path(DENIED[0], "deny"),
        path(DENIED[1], "deny"),
    ]);
    json!({
        "permissions": {"type": "managed", "file_system": {"type": "restricted", "entries": entries}, "network": "restricted"},
        "windowsSandboxLevel": "disabled",
    })
}

/// Creates the files, and links out of the writable folder.
async fn fill(files: &dyn Files, links: &[(FilePath, FilePath)]) {
    for folder in ["/p0", "/p0/p1", "/p1", "/p1/p0", "/p2", "/p2/p1"] {
        files.create_directory(Path::new(folder)).await.expect("it is new");
    }
    for (path, content) in [
        ("/p0/p0", "own"),
        ("/p0/p1/denied-name", SECRET),
        ("/p0/p1/p2", SECRET),
        ("/p1/p1", "readable"),
        ("/p2/denied-name", SECRET),
        ("/p2/p3", SECRET),
    ] {
        let file = files.open(Path::new(path), Open::New).await.expect("it is new");
        file.write_at(0, content.into()).await.expect("there is room");
    }
    for (target, path) in
        [("/p2", "/p0/p2"), ("../p1", "/p0/p3"), ("/p0/p1/p2", "/p1/p2"), ("p0", "/p3")]
    {
        files.create_link(Path::new(target), Path::new(path)).await.expect("it is new");
    }
    for (path, target) in links {
        // The place may be taken, or nowhere.
        let _ = files.create_link(Path::new(&target.path()), Path::new(&path.path())).await;
    }
}

/// Collects what is at a path and below it.
fn below<'a>(
    files: &'a dyn Files,
    path: PathBuf,
    all: &'a mut BTreeMap<PathBuf, String>,
) -> BoxFuture<'a, ()> {
    Box::pin(async move {
        let kind = files.metadata(&path, false).await.expect("it exists").kind;
        let content = match kind {
            Kind::Directory => {
                for entry in files.entries(&path, usize::MAX).await.expect("it is a directory") {
                    below(files, path.join(entry.name), all).await;
                }
                String::new()
            }
            Kind::Link => format!("{:?}", files.read_link(&path).await),
            Kind::File | Kind::Other => {
                let file = files.open(&path, Open::Read).await.expect("it is a file");
                format!("{:?}", file.read_at(0, 1024).await)
            }
        };
        all.insert(path, content);
    })
}

/// A client that uses an open file as intended.
struct FileUser {
    _client: Client,
    writes: RemoteFile,
    reads: RemoteFile,
    written: u64,
}

impl FileUser {
    async fn enter(door: Memory) -> Self {
        let env = env(door, Arc::new(Machine::default()));
        let client = Client::start(&env, Endpoint::tcp("server", 80), ClientLimits::default());
        let files = client.files();
        let open = async |mode| {
            let opened = must("the well-behaved client's open", SOON, files.open(KEPT, mode)).await;
            opened.expect("there is room for two")
        };
        let (writes, reads) = (open(OpenMode::Replace).await, open(OpenMode::Read).await);
        Self { _client: client, writes, reads, written: 0 }
    }

    /// Writes a text, and expects to read it at once.
    async fn writes_and_reads(&mut self) {
        self.written += 1;
        let text = format!("word {:06}", self.written);
        must(
            "the well-behaved client's write",
            SOON,
            self.writes.write_block(0, text.clone().into()),
        )
        .await
        .expect("the handle is open");
        let read =
            must("the well-behaved client's read", SOON, self.reads.read_block(0, 100)).await;
        assert_eq!(&read.expect("the handle is open").chunk.0[..], text.as_bytes());
    }
}

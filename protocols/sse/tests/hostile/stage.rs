//! A server with a token, hostile connections, and a client that must notice nothing.

use std::cell::Cell;
use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Once;
use std::time::Duration;

use reknit_proxy::{Proxy, Script};
use reknit_seams::Env;
use reknit_seams::net::Endpoint;
use reknit_sse::client::{Client, ClientConfig, Item};
use reknit_sse::limits::{ClientLimits, ServerLimits};
use reknit_sse::server::{Server, ServerConfig, ServerResources};
use reknit_sse::wire::{CommandId, Ending, RunCommand};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

pub(super) const TOKEN: &str = "secret";

/// How long anything may take.
pub(super) const LONG: Duration = Duration::from_secs(30);

thread_local! {
    /// Whether a task has panicked. All tasks of a test run on its thread.
    static PANICKED: Cell<bool> = const { Cell::new(false) };
}

/// A running server.
pub(super) struct World {
    port: u16,
    pub(super) resources: ServerResources,
    pub(super) folder: TempDir,
    serving: JoinHandle<()>,
}

/// The end of a hostile connection.
#[derive(Debug)]
pub(super) struct End {
    /// The answers of the server before it closed the connection.
    pub(super) answer: String,
    /// How many bytes the server, and the buffers before it, took.
    pub(super) taken: usize,
}

impl End {
    /// Returns the status of the answer; 0 without one.
    pub(super) fn status(&self) -> u16 {
        self.answer.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0)
    }
}

/// Returns a client of the server behind this port.
fn client(port: u16) -> Client {
    let config = ClientConfig { access_token: Some(TOKEN.to_owned()), ..ClientConfig::default() };
    let server = Endpoint::tcp("127.0.0.1", port);
    Client::new(&Env::real(), server, config, ClientLimits::default())
}

/// Short deadlines, so that the tests are short.
pub(super) fn limits() -> ServerLimits {
    ServerLimits {
        head_deadline: Duration::from_millis(500),
        body_deadline: Duration::from_millis(500),
        write_deadline: Duration::from_millis(500),
        heartbeat: Duration::from_millis(100),
        takeover_after: Duration::from_millis(400),
        connections: 32,
        ..ServerLimits::default()
    }
}

impl World {
    pub(super) async fn new() -> Self {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            let previous = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                PANICKED.set(true);
                previous(panic);
            }));
        });
        let env = Env::real();
        let listener = env.net.listen(&Endpoint::tcp("127.0.0.1", 0)).await.unwrap();
        let port = listener.endpoint().port().unwrap();
        let config =
            ServerConfig { access_token: Some(TOKEN.to_owned()), ..ServerConfig::default() };
        let server = Server::new(&env, config, limits());
        let resources = server.resources();
        let folder = tempfile::tempdir().unwrap();
        Self { port, resources, folder, serving: tokio::spawn(server.serve(listener)) }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Lets this happen while a client runs a command. The client must receive the whole output over its
    /// first connection, and the server must release everything else.
    pub(super) async fn beside<F: Future<Output = ()>>(
        &self,
        hostile: impl FnOnce(CommandId) -> F,
    ) {
        let stop = self.path("stop");
        let command = format!(
            "i=0; until [ -e {stop:?} ]; do i=$((i+1)); echo $i; read -t 0.01 <> <(:); done; echo end"
        );
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let at = SocketAddr::new(any.ip(), self.port);
        let proxy = Proxy::start(any, at, Script::default()).await.unwrap();
        let mut follower = client(proxy.address().port()).run(RunCommand::shell(command)).unwrap();
        timeout(LONG, follower.started()).await.unwrap().unwrap();
        let id = follower.id().unwrap();
        let started = self.resources.counts();
        assert_eq!((started.connections, started.streams), (1, 1));
        let follows = tokio::spawn(async move {
            let (mut lines, mut ending) = (Vec::new(), None);
            while let Some(item) = follower.next().await.unwrap() {
                match item {
                    Item::Output(_, bytes) => {
                        lines.push(String::from_utf8(bytes.to_vec()).unwrap())
                    }
                    Item::Ended { ending: how, .. } => ending = Some(how),
                    Item::Gap(gap) => panic!("{gap}"),
                }
            }
            (lines, ending)
        });
        timeout(4 * LONG, hostile(id.clone())).await.expect("the hostile clients are done");
        // The server closes what they left.
        let only_ours = async {
            while self.resources.counts().connections > 1 {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(LONG, only_ours).await.expect("the hostile connections end");
        assert_eq!(self.resources.counts().streams, 1);
        assert_eq!(proxy.connections(), 1, "the client had to connect again");
        std::fs::write(stop, "").unwrap();
        let (lines, ending) = timeout(LONG, follows).await.expect("it ends").unwrap();
        let (last, numbers) = lines.split_last().expect("it prints");
        assert_eq!((last.as_str(), ending), ("end\n", Some(Ending::Exited(0))));
        for (line, number) in numbers.iter().zip(1..) {
            assert_eq!(*line, format!("{number}\n"));
        }
        assert!(!PANICKED.get(), "a task panicked");
    }

    pub(super) async fn connect(&self) -> TcpStream {
        TcpStream::connect(("127.0.0.1", self.port)).await.unwrap()
    }

    /// Returns the text of a request, with the token.
    pub(super) fn request(&self, first: &str, headers: &str, body: &str) -> String {
        let length = body.len();
        format!(
            "{first} HTTP/1.1\r\nhost: h\r\nconnection: close\r\nx-execd-access-token: {TOKEN}\r\n{headers}content-length: {length}\r\n\r\n{body}"
        )
    }

    /// Sends bytes on a new connection, and then, again and again, more of them, each after a
    /// pause. Returns how the connection ends.
    pub(super) async fn send(&self, bytes: &[u8], more: &[u8], pause: Duration) -> End {
        let (mut reader, mut writer) = self.connect().await.into_split();
        let writes = async {
            let mut taken = 0;
            let mut next = bytes;
            while !next.is_empty() && writer.write_all(next).await.is_ok() {
                taken += next.len();
                next = more;
                sleep(pause).await;
            }
            if more.is_empty() { (taken, Some(writer)) } else { (taken, None) }
        };
        let reads = async {
            let mut answer = Vec::new();
            // A reset after the answer is an end, too.
            let _ = reader.read_to_end(&mut answer).await;
            String::from_utf8_lossy(&answer).into_owned()
        };
        let both = async { tokio::join!(writes, reads) };
        let ((taken, _writer), answer) = timeout(LONG, both).await.expect("the connection ends");
        End { answer, taken }
    }

    /// Sends a complete request. Returns how the connection ends.
    pub(super) async fn ask(&self, request: &str) -> End {
        self.send(request.as_bytes(), b"", Duration::ZERO).await
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

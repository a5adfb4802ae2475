//! The test vocabulary: a server, a client, the proxy between them, and shells that synchronize
//! with the test.
//!
//! A shell and its test synchronize through files: `touch` and `await` in the shell,
//! [`Stage::touch`] and [`Stage::touched`] in the test. This also works during an outage, and no
//! test has to guess a duration.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use reknit_exec::client::{Client, Event, Events, Failure, Process, State, Via};
use reknit_exec::limits::{ClientLimits, ServerLimits};
use reknit_exec::wire::process::{OutputStream, StartParams};
use reknit_exec::{Server, ServerResources};
use reknit_proxy::{NetworkState, Proxy};
use reknit_seams::Env;
use reknit_seams::net::Endpoint;
use rustix::process::{Pid, test_kill_process};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// A time limit that no test reaches, even on a slow machine.
pub const NEVER: Duration = Duration::from_secs(60);

/// The definition of `await` for every shell.
pub const AWAIT: &str = "await() { while [ ! -e \"$1\" ]; do sleep 0.01; done; }\n";

/// A temporary folder of one test.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "reknit-loopback-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    /// Creates this file, which ends an `await` for it.
    pub fn touch(&self, name: &str) {
        fs::write(self.0.join(name), "").unwrap();
    }

    /// Waits until the file exists.
    pub async fn touched(&self, name: &str) {
        let path = self.0.join(name);
        until(name, || path.exists()).await;
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Waits until a condition holds.
pub async fn until(what: &str, holds: impl Fn() -> bool) {
    let held = async {
        while !holds() {
            sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(NEVER, held).await.unwrap_or_else(|_| panic!("never: {what}"));
}

/// Whether a process is alive. A process that has ended but was not reaped by its parent is not.
pub fn lives(pid: u32) -> bool {
    let zombie =
        fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") Z "));
    test_kill_process(Pid::from_raw(pid as i32).unwrap()).is_ok() && !zombie
}

/// A client and a server with a proxy between them.
pub struct Stage {
    pub proxy: Proxy,
    pub client: Client,
    pub resources: ServerResources,
    pub server: Endpoint,
    pub folder: Folder,
    _server: JoinSet<()>,
}

impl Stage {
    pub async fn new() -> Self {
        Self::with(|_| {}, |_| {}).await
    }

    pub async fn with(
        client: impl FnOnce(&mut ClientLimits),
        server: impl FnOnce(&mut ServerLimits),
    ) -> Self {
        let env = Env::real();
        let (mut ours, mut theirs) = (ClientLimits::default(), ServerLimits::default());
        ours.back_off_max = Duration::from_millis(100);
        client(&mut ours);
        server(&mut theirs);
        let listener = env.net.listen(&Endpoint::tcp("127.0.0.1", 0)).await.unwrap();
        let server = listener.endpoint();
        let exec_server = Server::new(&env, theirs);
        let resources = exec_server.resources();
        let mut serving = JoinSet::new();
        serving.spawn(exec_server.serve(listener));
        let proxy = Proxy::before(([127, 0, 0, 1], server.port().unwrap()).into()).await.unwrap();
        let entrance = Endpoint::tcp("127.0.0.1", proxy.address().port());
        let client = Client::start(&env, entrance, ours);
        Self { proxy, client, resources, server, folder: Folder::new(), _server: serving }
    }

    /// Starts a shell in the folder of the test.
    pub async fn shell(&self, id: &str, script: &str) -> Shell {
        self.start(id, script, false).await
    }

    /// Starts a shell with a terminal in the folder of the test.
    pub async fn shell_on_terminal(&self, id: &str, script: &str) -> Shell {
        self.start(id, script, true).await
    }

    async fn start(&self, id: &str, script: &str, tty: bool) -> Shell {
        let process = self.launch(id, script, tty).await;
        let events = process.events();
        Shell { process, events, seq: 0, heard: Vec::new(), exit: None, closed: false }
    }

    /// Starts a shell in the folder of the test, without a subscription.
    pub async fn launch(&self, id: &str, script: &str, tty: bool) -> Process {
        let spec = StartParams {
            process_id: id.to_owned(),
            argv: vec!["/bin/sh".into(), "-c".into(), format!("{AWAIT}{script}")],
            cwd: self.folder.0.display().to_string().parse().expect("an absolute path"),
            env: [("PATH".to_owned(), "/usr/bin:/bin".to_owned())].into(),
            tty,
            pipe_stdin: true,
            ..StartParams::default()
        };
        timeout(NEVER, self.client.launch(spec)).await.expect("an answer").unwrap()
    }

    /// Waits until the client is in this state.
    pub async fn client_is(&self, state: State) {
        let mut states = self.client.watch_state();
        let reached = timeout(NEVER, states.wait_for(|now| *now == state)).await;
        reached.unwrap_or_else(|_| panic!("never {state:?}")).unwrap();
    }

    /// Sets this network state, and waits until the client has noticed the lost connection. The state
    /// stays.
    pub async fn outage(&self, network_state: NetworkState) {
        self.proxy.turn(network_state).await;
        self.client_is(State::Recovering).await;
    }

    /// Makes the network work again, and waits until the client has a connection again.
    pub async fn heals(&self) {
        self.proxy.turn(NetworkState::Fair).await;
        self.client_is(State::Connected).await;
    }
}

/// A process, and the events received from it.
///
/// Its exit may be reported before its last output, which may still be in a pipe. Its close is
/// reported last.
pub struct Shell {
    pub process: Process,
    events: Events,
    /// The number of the last received event.
    pub seq: u64,
    /// The output that the test has not read yet.
    heard: Vec<u8>,
    exit: Option<i32>,
    closed: bool,
}

impl Shell {
    /// Returns the next event. Checks that there is no gap and no duplicate.
    async fn event(&mut self) -> Event {
        let event = timeout(NEVER, self.events.next())
            .await
            .expect("something more is told")
            .expect("it has not ended");
        if let Event::Output { seq, .. } | Event::Exited { seq, .. } | Event::Closed { seq, .. } =
            event
        {
            assert_eq!(seq, self.seq + 1, "{event:?}");
            self.seq = seq;
        }
        match &event {
            Event::Output { bytes, .. } => self.heard.extend_from_slice(bytes),
            Event::Exited { code, .. } => {
                assert_eq!(self.exit.replace(*code), None, "it exits once")
            }
            Event::Closed { .. } => self.closed = true,
            Event::Failed(_) => {}
        }
        event
    }

    /// Waits for one more event, which must not be a failure.
    async fn go_on(&mut self) {
        match self.event().await {
            Event::Failed(failure) => {
                panic!("{failure}, after {:?}", String::from_utf8_lossy(&self.heard))
            }
            _ => assert!(!self.closed || self.exit.is_some(), "it exits before it closes"),
        }
    }

    /// Returns the next piece of its output as received; the piece is also part of the next lines.
    pub async fn output(&mut self) -> (OutputStream, Bytes, Via) {
        loop {
            match self.event().await {
                Event::Output { stream, bytes, via, .. } => return (stream, bytes, via),
                Event::Exited { .. } => {}
                other => panic!("{other:?} in the place of output"),
            }
        }
    }

    /// Returns the next line of its output.
    pub async fn line(&mut self) -> String {
        loop {
            if let Some(end) = self.heard.iter().position(|byte| *byte == b'\n') {
                let line = String::from_utf8(self.heard.drain(..=end).collect()).unwrap();
                return line.trim_end_matches(['\r', '\n']).to_owned();
            }
            self.go_on().await;
        }
    }

    /// Returns the next line as a number.
    pub async fn number(&mut self) -> u32 {
        self.line().await.parse().unwrap()
    }

    /// Waits for its exit; returns the code.
    pub async fn exits(&mut self) -> i32 {
        loop {
            match self.exit {
                Some(code) => return code,
                None => self.go_on().await,
            }
        }
    }

    /// Waits for the end of its output. The test must have read all of it, and no event may follow.
    pub async fn closes(&mut self) {
        while !self.closed {
            self.go_on().await;
        }
        assert_eq!(String::from_utf8_lossy(&self.heard), "");
        assert_eq!(self.events.next().await, None);
    }

    /// Waits for its failure, and checks that no event follows; returns the reason.
    pub async fn fails(&mut self) -> Failure {
        let event = self.event().await;
        let Event::Failed(failure) = event else { panic!("{event:?} in the place of a failure") };
        assert_eq!(self.events.next().await, None);
        failure
    }

    /// Types a line into its input.
    pub async fn type_line(&self, line: &str) {
        timeout(NEVER, self.process.write(format!("{line}\n"))).await.expect("an answer").unwrap();
    }
}

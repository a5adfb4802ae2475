//! The network, the clock and the randomness of a run, and the detection of panics.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::panic;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::time::{Duration, SystemTime};

use reknit_seams::Env;
use reknit_seams::env::{Entropy, WallClock};
use reknit_seams::files;
use reknit_seams::net::{Accept, BoxFuture, ConnId, Connect, Endpoint, Listener, Network, Stream};
use reknit_seams::process::{self, Launch};
use tokio::io::{DuplexStream, duplex};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// The maximum number of bytes in flight in one direction.
const PIPE: usize = 4096;

/// Runs a script on one thread with paused time.
///
/// # Panics
/// If any task panicked, even if the task's owner caught the panic and continued.
pub fn run(script: impl Future<Output = ()>) {
    static ONCE: Once = Once::new();
    thread_local! {
        static PANICKED: Cell<bool> = const { Cell::new(false) };
    }
    PANICKED.set(false);
    ONCE.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            PANICKED.set(true);
            previous(panic);
        }));
    });
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime without an operating system below").block_on(script);
    assert!(!PANICKED.get(), "a task panicked");
}

/// Waits for a result that must arrive `within` a time.
///
/// # Panics
/// If it does not.
pub async fn must<T>(what: &str, within: Duration, future: impl Future<Output = T>) -> T {
    match timeout(within, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what}: not within {within:?}"),
    }
}

/// Returns the environment of product code: this network, these processes, files in memory, a fixed time, and a
/// fixed sequence of random numbers.
pub fn env(net: impl Network + 'static, launch: Arc<dyn Launch>) -> Env {
    Env {
        net: Arc::new(net),
        launch,
        processes: Arc::new(process::Unsupported),
        files: Arc::new(files::Memory::default()),
        clock: Arc::new(Fixed),
        entropy: Arc::new(Counted::default()),
        machine: Arc::default(),
    }
}

struct Fixed;

impl WallClock for Fixed {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH
    }
}

/// The numbers of SplitMix64.
#[derive(Default)]
struct Counted(AtomicU64);

impl Entropy for Counted {
    fn fill(&self, bytes: &mut [u8]) {
        for byte in bytes {
            let mut x = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
            x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            *byte = (x >> 31) as u8;
        }
    }
}

/// A network in memory with one listener.
#[derive(Clone)]
pub struct Memory(Arc<Inner>);

struct Inner {
    opened: mpsc::UnboundedSender<(Endpoint, Stream)>,
    to_accept: Mutex<Option<Arrivals>>,
    refuses: AtomicBool,
    connections: AtomicU64,
}

/// The opened connections, with their targets.
pub type Arrivals = mpsc::UnboundedReceiver<(Endpoint, Stream)>;

impl Memory {
    /// Creates a network. Its connections go to the task that takes its
    /// [`arrivals`](Memory::arrivals).
    pub fn new() -> Self {
        let (opened, to_accept) = mpsc::unbounded_channel();
        let (refuses, connections) = (AtomicBool::new(false), AtomicU64::new(0));
        Self(Arc::new(Inner {
            opened,
            to_accept: Mutex::new(Some(to_accept)),
            refuses,
            connections,
        }))
    }

    /// Takes all connections, from the first one on.
    pub fn arrivals(&self) -> Arrivals {
        self.0
            .to_accept
            .lock()
            .expect("nothing panics under the lock")
            .take()
            .expect("there is one listener")
    }

    /// Takes all connections for a server.
    pub fn listener(&self) -> Listener {
        Box::new(Listening(self.arrivals()))
    }

    /// Sets whether connections are refused from now on.
    pub fn refuse(&self, refuses: bool) {
        self.0.refuses.store(refuses, Ordering::Relaxed);
    }

    /// Opens a connection without sending data.
    pub fn open(&self, to: &Endpoint) -> io::Result<DuplexStream> {
        if self.0.refuses.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (near, far) = duplex(PIPE);
        let id = ConnId(self.0.connections.fetch_add(1, Ordering::Relaxed) + 1);
        self.0
            .opened
            .send((to.clone(), Stream::new(far, id)))
            .map_err(|_| io::ErrorKind::ConnectionRefused)?;
        Ok(near)
    }
}

impl Connect for Memory {
    fn connect<'a>(&'a self, to: &'a Endpoint) -> BoxFuture<'a, io::Result<Stream>> {
        Box::pin(async {
            let near = self.open(to)?;
            Ok(Stream::new(near, ConnId(self.0.connections.load(Ordering::Relaxed))))
        })
    }
}

impl Network for Memory {
    fn listen<'a>(&'a self, _: &'a Endpoint) -> BoxFuture<'a, io::Result<Listener>> {
        Box::pin(async { Ok(self.listener()) })
    }
}

struct Listening(Arrivals);

impl Accept for Listening {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<Stream>> {
        Box::pin(async {
            match self.0.recv().await {
                Some((_, stream)) => Ok(stream),
                None => std::future::pending().await,
            }
        })
    }

    fn endpoint(&self) -> Endpoint {
        Endpoint::tcp("server", 80)
    }
}

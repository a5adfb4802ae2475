//! The network of a tested client: it counts connections.

use std::io;
use std::sync::Mutex;

use reknit_seams::net::{BoxFuture, Connect, Endpoint, Listener, Network, Stream};
use std::sync::Arc;
use tokio::time::{Duration, Instant};

use crate::stage::Memory;

/// How often a client may connect within a second. A connection that brought an event is followed by another one
/// at once, and the longest script ends 96 of them.
const MOST: usize = 120;

/// A network that counts.
#[derive(Clone)]
pub struct Door {
    net: Memory,
    attempts: Arc<Mutex<Vec<Instant>>>,
}

impl Door {
    pub fn new(net: Memory) -> Self {
        Self { net, attempts: Arc::default() }
    }

    /// Returns how many connections were attempted.
    pub fn attempts(&self) -> usize {
        self.attempts.lock().expect("no storm").len()
    }
}

impl Connect for Door {
    /// # Panics
    /// If the client attempts too much in too short a time.
    fn connect<'a>(&'a self, to: &'a Endpoint) -> BoxFuture<'a, io::Result<Stream>> {
        {
            let mut attempts = self.attempts.lock().expect("no storm");
            let now = Instant::now();
            attempts.push(now);
            let recent = attempts.iter().rev().take_while(|at| now - **at < Duration::from_secs(1));
            assert!(recent.count() <= MOST, "a storm of attempts");
        }
        self.net.connect(to)
    }
}

impl Network for Door {
    fn listen<'a>(&'a self, at: &'a Endpoint) -> BoxFuture<'a, io::Result<Listener>> {
        self.net.listen(at)
    }
}

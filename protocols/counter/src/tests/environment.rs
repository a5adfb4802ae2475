//! The test environment: a server with its world in an in-memory network, and helpers that send
//! requests to it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reknit_seams::Env;
use reknit_seams::net::memory::Memory;
use reknit_seams::net::{BoxFuture, Endpoint, Stream};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::*;

/// Streams of sixty numbers, one every 100 ms; and sums, with every memo in order.
#[derive(Clone, Default)]
pub struct World {
    sums: Arc<Mutex<BTreeMap<Name, u64>>>,
    memos: Arc<Mutex<Vec<String>>>,
}

impl World {
    /// The memos of all adds, in the order in which they took effect.
    pub fn memos(&self) -> Vec<String> {
        self.memos.lock().unwrap().clone()
    }
}

struct SixtyNumbers {
    made: u64,
    next: Instant,
}

impl Numbers for SixtyNumbers {
    fn next(&mut self) -> BoxFuture<'_, Option<u64>> {
        Box::pin(async {
            if self.made == 60 {
                return None;
            }
            tokio::time::sleep_until(self.next).await;
            self.next += Duration::from_millis(100);
            self.made += 1;
            Some(self.made * 10)
        })
    }
}

impl Source for World {
    fn open(&self, stream: &Name) -> Option<Box<dyn Numbers>> {
        (stream.as_str() != "nothing")
            .then(|| Box::new(SixtyNumbers { made: 0, next: Instant::now() }) as Box<dyn Numbers>)
    }
}

impl Ledger for World {
    fn add(&self, counter: &Name, amount: u32, memo: &Name) -> u64 {
        self.memos.lock().unwrap().push(memo.to_string());
        let mut sums = self.sums.lock().unwrap();
        let sum = sums.entry(counter.clone()).or_default();
        *sum += u64::from(amount);
        *sum
    }

    fn sum(&self, counter: &Name) -> u64 {
        self.sums.lock().unwrap().get(counter).copied().unwrap_or(0)
    }
}

pub struct ServerTest {
    pub net: Memory,
    pub env: Env,
    pub world: World,
    pub resources: ServerResources,
    pub tasks: JoinSet<()>,
}

pub fn endpoint() -> Endpoint {
    Endpoint::tcp("server", 80)
}

pub fn name(text: &str) -> Name {
    text.parse().unwrap()
}

impl ServerTest {
    pub async fn with(limits: ServerLimits) -> Self {
        let (net, world) = (Memory::default(), World::default());
        let env = Env { net: Arc::new(net.clone()), ..Env::real() };
        let (source, ledger) = (Arc::new(world.clone()), Arc::new(world.clone()));
        let server = Server::bind(&env, &endpoint(), limits, source, ledger).await.unwrap();
        let resources = server.resources();
        let mut tasks = JoinSet::new();
        tasks.spawn(server.run());
        Self { net, env, world, resources, tasks }
    }

    pub async fn new() -> Self {
        Self::with(ServerLimits::default()).await
    }

    pub fn client(&self) -> Arc<Client> {
        Arc::new(Client::start(&self.env, endpoint(), ClientLimits::default()))
    }

    /// Opens a raw connection, over which a test sends lines itself.
    pub async fn raw(&self) -> Raw {
        Raw(BufReader::new(self.env.net.connect(&endpoint()).await.unwrap()))
    }

    pub fn resources(&self) -> [u64; 6] {
        let resources = &self.resources;
        [
            resources.sessions(),
            resources.streams(),
            resources.longest_log(),
            resources.longest_queue(),
            resources.connections(),
            resources.leases(),
        ]
    }
}

pub struct Raw(pub BufReader<Stream>);

impl Raw {
    pub async fn send(&mut self, line: &str) {
        self.0.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    /// Reads the next line; returns an empty string at the end.
    pub async fn read_line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).await.unwrap();
        line.trim_end().to_owned()
    }

    /// Sends a hello; returns the session.
    pub async fn welcome(&mut self, session: &str, ticket: &str) -> String {
        self.send(&format!("hello {session} {ticket}")).await;
        let answer = self.read_line().await;
        answer.strip_prefix("welcome ").expect(&answer).split(' ').next().unwrap().to_owned()
    }
}

pub async fn secs(n: u64) {
    sleep(Duration::from_secs(n)).await;
}

pub async fn millis(n: u64) {
    sleep(Duration::from_millis(n)).await;
}

/// Reads a watch to its end; returns the values and the ending.
pub async fn all(mut watch: Watch) -> (Vec<u64>, Ending) {
    let mut values = Vec::new();
    while let Some(number) = watch.next().await {
        assert_eq!(number.index, values.len() as u64 + 1);
        values.push(number.value);
    }
    let ending = watch.ending();
    assert_eq!(watch.ending(), ending, "asked again, it is the same");
    (values, ending)
}

pub fn sixty() -> (Vec<u64>, Ending) {
    ((1..=60).map(|n| n * 10).collect(), Ending::Completed { total: 60 })
}

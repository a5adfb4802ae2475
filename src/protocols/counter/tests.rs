//! The two ends against each other, on paused time, over connections in memory that can be cut and frozen.

use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroU64;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, DuplexStream, ReadBuf};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::*;
use crate::Env;
use crate::net::{Accept, BoxFuture, ConnId, Connect, Endpoint, Listener, Network, Stream};

// -- a network in memory -------------------------------------------------------------------------------------------------

/// What passes on a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Fate {
    #[default]
    Flows,
    Frozen,
    Reset,
}

/// A connection's fate, with who waits for a change of it.
#[derive(Default)]
struct Wire(Mutex<(Fate, Vec<Waker>)>);

impl Wire {
    fn set(&self, fate: Fate) {
        let mut wire = self.0.lock().unwrap();
        wire.0 = fate;
        wire.1.drain(..).for_each(Waker::wake);
    }

    fn poll(&self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        let mut wire = self.0.lock().unwrap();
        wire.1.push(cx.waker().clone());
        match wire.0 {
            Fate::Flows => Poll::Ready(Ok(())),
            Fate::Frozen => Poll::Pending,
            Fate::Reset => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
        }
    }
}

/// One end of a connection.
struct End {
    io: DuplexStream,
    wire: Arc<Wire>,
}

impl AsyncRead for End {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        std::task::ready!(self.wire.poll(cx))?;
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl AsyncWrite for End {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        std::task::ready!(self.wire.poll(cx))?;
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// A network with one listener.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    listener: Option<mpsc::UnboundedSender<Stream>>,
    wires: Vec<Arc<Wire>>,
    refuses: bool,
}

impl Memory {
    /// Sets the fate of the n-th connection, from 1.
    fn set(&self, conn: usize, fate: Fate) {
        self.0.lock().unwrap().wires[conn - 1].set(fate);
    }

    /// Has new connections refused, or not.
    fn refuse(&self, refuses: bool) {
        self.0.lock().unwrap().refuses = refuses;
    }

    fn connections(&self) -> usize {
        self.0.lock().unwrap().wires.len()
    }
}

impl Connect for Memory {
    fn connect<'a>(&'a self, _: &'a Endpoint) -> BoxFuture<'a, io::Result<Stream>> {
        Box::pin(async {
            let mut inner = self.0.lock().unwrap();
            let wire = Arc::new(Wire::default());
            inner.wires.push(wire.clone());
            if inner.refuses {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            let id = ConnId(inner.wires.len() as u64);
            let (near, far) = tokio::io::duplex(64 * 1024);
            let far = Stream::new(End { io: far, wire: wire.clone() }, id);
            let listener = inner.listener.as_ref().ok_or(io::ErrorKind::ConnectionRefused)?;
            listener.send(far).map_err(|_| io::ErrorKind::ConnectionRefused)?;
            Ok(Stream::new(End { io: near, wire }, id))
        })
    }
}

impl Network for Memory {
    fn listen<'a>(&'a self, at: &'a Endpoint) -> BoxFuture<'a, io::Result<Listener>> {
        Box::pin(async {
            let (sender, accepted) = mpsc::unbounded_channel();
            self.0.lock().unwrap().listener = Some(sender);
            Ok(Box::new(Listening { accepted, at: at.clone() }) as Listener)
        })
    }
}

struct Listening {
    accepted: mpsc::UnboundedReceiver<Stream>,
    at: Endpoint,
}

impl Accept for Listening {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<Stream>> {
        Box::pin(async { self.accepted.recv().await.ok_or(io::ErrorKind::BrokenPipe.into()) })
    }

    fn endpoint(&self) -> Endpoint {
        self.at.clone()
    }
}

// -- the world behind the server -----------------------------------------------------------------------------------------

/// Sixty numbers a stream, one every 100 ms; and sums, with every memo in order.
#[derive(Clone, Default)]
struct World(Arc<Mutex<BTreeMap<Name, u64>>>, Arc<Mutex<Vec<String>>>);

struct Sixty {
    made: u64,
    next: Instant,
}

impl Numbers for Sixty {
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
        (stream.as_str() != "nothing").then(|| Box::new(Sixty { made: 0, next: Instant::now() }) as Box<dyn Numbers>)
    }
}

impl Ledger for World {
    fn add(&self, counter: &Name, amount: u32, memo: &Name) -> u64 {
        self.1.lock().unwrap().push(memo.to_string());
        let mut sums = self.0.lock().unwrap();
        let sum = sums.entry(counter.clone()).or_default();
        *sum += u64::from(amount);
        *sum
    }

    fn sum(&self, counter: &Name) -> u64 {
        self.0.lock().unwrap().get(counter).copied().unwrap_or(0)
    }
}

// -- the laboratory --------------------------------------------------------------------------------------------------------

struct Lab {
    net: Memory,
    env: Env,
    world: World,
    census: Census,
    tasks: JoinSet<()>,
}

fn endpoint() -> Endpoint {
    Endpoint::tcp("server", 80)
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

impl Lab {
    async fn with(limits: ServerLimits) -> Self {
        let (net, world) = (Memory::default(), World::default());
        let env = Env { net: Arc::new(net.clone()), ..Env::real() };
        let (source, ledger) = (Arc::new(world.clone()), Arc::new(world.clone()));
        let server = Server::bind(&env, &endpoint(), limits, source, ledger).await.unwrap();
        let census = server.census();
        let mut tasks = JoinSet::new();
        tasks.spawn(server.run());
        Self { net, env, world, census, tasks }
    }

    async fn new() -> Self {
        Self::with(ServerLimits::default()).await
    }

    fn client(&self) -> Arc<Client> {
        Arc::new(Client::start(&self.env, endpoint(), ClientLimits::default()))
    }

    /// A raw connection, to speak the wire by hand.
    async fn raw(&self) -> Raw {
        Raw(BufReader::new(self.env.net.connect(&endpoint()).await.unwrap()))
    }

    fn census(&self) -> [u64; 6] {
        let census = &self.census;
        [census.sessions(), census.streams(), census.longest_log(), census.longest_queue(), census.connections(), census.leases()]
    }
}

struct Raw(BufReader<Stream>);

impl Raw {
    async fn say(&mut self, line: &str) {
        self.0.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    /// The next line; empty at the end.
    async fn hear(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).await.unwrap();
        line.trim_end().to_owned()
    }

    /// Says hello; returns the session.
    async fn welcome(&mut self, session: &str, ticket: &str) -> String {
        self.say(&format!("hello {session} {ticket}")).await;
        let answer = self.hear().await;
        answer.strip_prefix("welcome ").expect(&answer).split(' ').next().unwrap().to_owned()
    }
}

async fn secs(n: u64) {
    sleep(Duration::from_secs(n)).await;
}

async fn millis(n: u64) {
    sleep(Duration::from_millis(n)).await;
}

/// Reads a watch to its end: the values, and how it ended.
async fn all(mut watch: Watch) -> (Vec<u64>, Ending) {
    let mut values = Vec::new();
    while let Some(number) = watch.next().await {
        assert_eq!(number.index, values.len() as u64 + 1);
        values.push(number.value);
    }
    let ending = watch.ending();
    assert_eq!(watch.ending(), ending, "asked again, it is the same");
    (values, ending)
}

fn sixty() -> (Vec<u64>, Ending) {
    ((1..=60).map(|n| n * 10).collect(), Ending::Completed { total: 60 })
}

// -- the tests -------------------------------------------------------------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn a_stream_is_delivered_whole() {
    let lab = Lab::new().await;
    let client = lab.client();
    assert_eq!(all(client.watch(name("s1")).await).await, sixty());
    assert_eq!((client.state(), lab.net.connections()), (State::Connected, 1));
}

#[tokio::test(start_paused = true)]
async fn a_stream_survives_five_resets() {
    let lab = Lab::new().await;
    let client = lab.client();
    let watch = tokio::spawn(all(client.watch(name("s1")).await));
    for conn in 1..=5 {
        secs(1).await;
        lab.net.set(conn, Fate::Reset);
    }
    assert_eq!(watch.await.unwrap(), sixty());
    assert_eq!(lab.net.connections(), 6);
}

/// Nobody is told that the connection is dead: each end finds out after a ping and a pong deadline.
#[tokio::test(start_paused = true)]
async fn a_half_open_connection_is_noticed_by_silence() {
    let lab = Lab::new().await;
    let client = lab.client();
    let watch = tokio::spawn(all(client.watch(name("s1")).await));
    secs(1).await;
    lab.net.set(1, Fate::Frozen);
    millis(15_800).await;
    assert_eq!(lab.net.connections(), 1);
    millis(300).await;
    assert_eq!(lab.net.connections(), 2);
    assert_eq!(watch.await.unwrap(), sixty());
}

#[tokio::test(start_paused = true)]
async fn an_add_takes_effect_once_though_its_answer_is_lost() {
    let lab = Lab::new().await;
    let client = lab.client();
    assert_eq!(client.add(name("c1"), 2, name("first")).await, Ok(2));
    // The answer to the second one stays in the frozen connection; the third is asked for meanwhile.
    let mut raw_answers = JoinSet::new();
    let second = client.clone();
    raw_answers.spawn(async move { second.add(name("c1"), 3, name("second")).await });
    tokio::task::yield_now().await;
    lab.net.set(1, Fate::Frozen);
    let third = client.clone();
    raw_answers.spawn(async move { third.add(name("c1"), 5, name("third")).await });
    let answers = raw_answers.join_all().await;
    assert_eq!(answers.iter().map(|answer| answer.clone().unwrap()).max(), Some(10));
    assert_eq!(*lab.world.1.lock().unwrap(), ["first", "second", "third"]);
}

#[tokio::test(start_paused = true)]
async fn a_retried_add_is_told_the_first_outcome() {
    let lab = Lab::new().await;
    let mut first = lab.raw().await;
    let session = first.welcome("-", "1 1").await;
    first.say("add 1 c1 4 memo").await;
    assert_eq!(first.hear().await, "added 1 4");
    let mut second = lab.raw().await;
    second.welcome(&session, "2 2").await;
    second.say("add 1 c1 4 memo").await;
    assert_eq!(second.hear().await, "added 1 4");
    assert_eq!(lab.world.sum(&name("c1")), 4);
}

#[tokio::test(start_paused = true)]
async fn calls_die_with_their_connection_by_class() {
    let lab = Lab::new().await;
    let client = lab.client();
    assert_eq!(client.lease(name("c1"), Duration::from_secs(1)).await, Ok(()));
    let mut calls = JoinSet::new();
    let (lease, add) = (client.clone(), client.clone());
    calls.spawn(async move { lease.lease(name("c1"), Duration::from_secs(9)).await.map(|()| 0) });
    secs(1).await;
    assert_eq!(lab.census.leases(), 1);
    let asked = Instant::now();
    lab.net.set(1, Fate::Reset);
    assert_eq!(calls.join_next().await.unwrap().unwrap(), Err(Failure::ConnectionLost));
    assert_eq!(asked.elapsed(), Duration::ZERO, "what is bound dies at once");
    assert_eq!(add.add(name("c1"), 1, name("m")).await, Ok(1));
    assert_eq!(lab.census.leases(), 0);
}

#[tokio::test(start_paused = true)]
async fn everything_fails_at_the_recovery_deadline_and_a_new_request_starts_over() {
    let lab = Lab::new().await;
    let client = lab.client();
    let watch = tokio::spawn(all(client.watch(name("s1")).await));
    secs(1).await;
    lab.net.refuse(true);
    lab.net.set(1, Fate::Reset);
    let cut = Instant::now();
    let (values, ending) = watch.await.unwrap();
    assert_eq!(ending, Ending::Failed(Failure::RecoveryDeadline));
    assert!((10..=11).contains(&values.len()));
    assert_eq!((cut.elapsed(), client.state()), (Duration::from_secs(25), State::Failed));
    assert!(lab.net.connections() < 60, "attempts back off");
    lab.net.refuse(false);
    secs(1).await;
    assert_eq!(client.peek(name("c1")).await, Ok(0));
    assert_eq!(all(client.watch(name("s2")).await).await, sixty());
}

#[tokio::test(start_paused = true)]
async fn an_unknown_session_fails_what_was_in_it_but_not_what_was_asked_since() {
    let mut lab = Lab::new().await;
    let client = lab.client();
    let old = tokio::spawn(all(client.watch(name("s1")).await));
    secs(1).await;
    lab.tasks.shutdown().await;
    lab.net.0.lock().unwrap().listener = None;
    secs(1).await;
    let new = tokio::spawn(all(client.watch(name("s2")).await));
    let world = Arc::new(lab.world.clone());
    let server = Server::bind(&lab.env, &endpoint(), ServerLimits::default(), world.clone(), world).await.unwrap();
    lab.tasks.spawn(server.run());
    assert_eq!(old.await.unwrap().1, Ending::Failed(Failure::SessionLost));
    assert_eq!(new.await.unwrap(), sixty());
}

#[tokio::test(start_paused = true)]
async fn what_exceeds_retention_is_a_gap_of_that_stream_alone() {
    let lab = Lab::with(ServerLimits { retained_items: 10, ..ServerLimits::default() }).await;
    let client = lab.client();
    let early = tokio::spawn(all(client.watch(name("s1")).await));
    secs(5).await;
    let late = tokio::spawn(all(client.watch(name("s2")).await));
    millis(50).await;
    lab.net.refuse(true);
    lab.net.set(1, Fate::Reset);
    millis(200).await;
    lab.net.refuse(false);
    let (_, ending) = early.await.unwrap();
    assert_eq!(ending, Ending::Completed { total: 60 });
    assert_eq!(late.await.unwrap(), sixty());

    let gapped = tokio::spawn(all(client.watch(name("s3")).await));
    millis(50).await;
    lab.net.refuse(true);
    lab.net.set(lab.net.connections(), Fate::Reset);
    secs(2).await;
    lab.net.refuse(false);
    let (values, ending) = gapped.await.unwrap();
    assert_eq!(values, [10]);
    assert!(matches!(ending, Ending::Failed(Failure::Gap { next, oldest }) if next == NonZeroU64::new(2).unwrap() && oldest > 2));
}

#[tokio::test(start_paused = true)]
async fn a_late_close_of_an_older_connection_is_inert() {
    let lab = Lab::new().await;
    let mut first = lab.raw().await;
    let session = first.welcome("-", "1 1").await;
    lab.net.set(1, Fate::Frozen);
    let mut second = lab.raw().await;
    second.welcome(&session, "2 2").await;
    secs(10).await;
    assert_eq!(second.hear().await, "ping 1");
    second.say("pong 1").await;
    drop(first);
    lab.net.set(1, Fate::Flows);
    secs(1).await;
    assert_eq!(lab.census.connections(), 1);
    second.say("watch s1 1").await;
    assert_eq!(second.hear().await, "n s1 1 10");
}

#[tokio::test(start_paused = true)]
async fn an_older_connection_is_refused_and_a_newer_one_takes_over() {
    let lab = Lab::new().await;
    let mut first = lab.raw().await;
    let session = first.welcome("-", "2 5").await;
    let mut older = lab.raw().await;
    older.say(&format!("hello {session} 2 4")).await;
    assert_eq!((older.hear().await, older.hear().await), ("refused stale-ticket".into(), String::new()));
    let mut newer = lab.raw().await;
    newer.welcome(&session, "2 6").await;
    assert_eq!(first.hear().await, "", "the older one is closed");
}

#[tokio::test(start_paused = true)]
async fn what_is_no_line_of_the_protocol_ends_the_connection() {
    let lab = Lab::new().await;
    for rubbish in ["watch s1 x", "hello - 1 1", "n s1 1 1", "\u{0}", &"a".repeat(300)] {
        let mut raw = lab.raw().await;
        raw.welcome("-", "1 1").await;
        raw.say(rubbish).await;
        assert_eq!(raw.hear().await, "", "{rubbish:?}");
    }
    let mut endless = lab.raw().await;
    endless.0.write_all(&[b'a'; 300]).await.unwrap();
    assert_eq!(endless.hear().await, "");
    let mut mute = lab.raw().await;
    assert_eq!(mute.hear().await, "", "who says no hello is not waited for");
    let mut foreign = lab.raw().await;
    foreign.say(&format!("hello {:032x} 2 2", 7)).await;
    assert_eq!(foreign.hear().await, "refused unknown-session");
}

#[tokio::test(start_paused = true)]
async fn streams_that_are_not_there_are_told_by_name() {
    let lab = Lab::new().await;
    let mut raw = lab.raw().await;
    raw.welcome("-", "1 1").await;
    raw.say("watch nothing 1").await;
    assert_eq!(raw.hear().await, "lost nothing unknown");
    raw.say("watch s1 7").await;
    assert_eq!(raw.hear().await, "lost s1 unknown");
    raw.say("watch s1 1").await;
    assert_eq!(raw.hear().await, "n s1 1 10");
    raw.say("unwatch s1\nwatch s1 2").await;
    assert_eq!(raw.hear().await, "lost s1 over");
}

/// A client that reads nothing fills its own connection, and no other.
#[tokio::test(start_paused = true)]
async fn a_stuck_client_is_closed_and_stops_nobody() {
    let lab = Lab::new().await;
    let mut stuck = lab.raw().await;
    stuck.welcome("-", "1 1").await;
    let client = lab.client();
    let watch = tokio::spawn(all(client.watch(name("s1")).await));
    let flood = async {
        for id in 0.. {
            stuck.0.write_all(format!("peek {id} c1\n").as_bytes()).await?;
        }
        io::Result::Ok(())
    };
    assert!(flood.await.is_err());
    assert_eq!(watch.await.unwrap(), sixty());
    assert_eq!(lab.census.connections(), 1);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_a_client_that_is_gone() {
    let lab = Lab::new().await;
    let client = lab.client();
    let mut watch = client.watch(name("s1")).await;
    assert!(watch.next().await.is_some());
    assert_eq!(lab.census(), [1, 1, 1, 0, 1, 0]);
    drop(client);
    assert!(watch.next().await.is_none());
    assert_eq!(watch.ending(), Ending::Failed(Failure::Closed));
    secs(29).await;
    assert_eq!(lab.census()[..2], [1, 1], "a session outlives its connection");
    secs(2).await;
    assert_eq!(lab.census(), [0; 6]);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_says_goodbye_leaves_nothing_at_once() {
    let lab = Lab::new().await;
    let client = lab.client();
    let watch = client.watch(name("s1")).await;
    secs(1).await;
    client.close().await;
    millis(1).await;
    assert_eq!(lab.census(), [0; 6]);
    assert_eq!(all(watch).await.1, Ending::Failed(Failure::Closed));
}

#[tokio::test(start_paused = true)]
async fn a_watch_can_be_closed_and_a_name_watched_once() {
    let lab = Lab::new().await;
    let client = lab.client();
    let watch = client.watch(name("s1")).await;
    let again = client.watch(name("s1")).await;
    assert_eq!(all(again).await, (vec![], Ending::Failed(Failure::WatchedAlready)));
    let closer = watch.closer();
    secs(1).await;
    closer.close().await;
    assert_eq!(all(watch).await.1, Ending::Failed(Failure::Closed));
    secs(1).await;
    assert_eq!(lab.census.streams(), 0);
}

/// A user that does not read fails its own stream, and no other.
#[tokio::test(start_paused = true)]
async fn a_user_that_does_not_read_loses_that_stream_alone() {
    let lab = Lab::new().await;
    let limits = ClientLimits { queued_numbers: 5, ..ClientLimits::default() };
    let client = Client::start(&lab.env, endpoint(), limits);
    let unread = client.watch(name("s1")).await;
    assert_eq!(all(client.watch(name("s2")).await).await, sixty());
    let (values, ending) = all(unread).await;
    assert_eq!((values.len(), ending), (5, Ending::Failed(Failure::Overrun)));
}

/// The same two ends over real sockets.
#[tokio::test]
async fn over_loopback() {
    let env = Env::real();
    let world = Arc::new(World::default());
    let at = Endpoint::tcp("127.0.0.1", 0);
    let server = Server::bind(&env, &at, ServerLimits::default(), world.clone(), world).await.unwrap();
    let at = server.endpoint();
    let mut tasks = JoinSet::new();
    tasks.spawn(server.run());
    let client = Client::start(&env, at.clone(), ClientLimits::default());
    let mut watch = client.watch(name("s1")).await;
    assert_eq!(watch.next().await, Some(Number { index: 1, value: 10, generation: 1 }));
    assert_eq!(client.add(name("c1"), 7, name("m")).await, Ok(7));
    assert_eq!(client.peek(name("c1")).await, Ok(7));
    client.close().await;
    let mut rest = Vec::new();
    let mut raw = tokio::net::TcpStream::connect((at.host(), at.port())).await.unwrap();
    raw.write_all(b"rubbish\n").await.unwrap();
    raw.read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest, b"");
}

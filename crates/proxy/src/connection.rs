//! One connection: it forwards bytes both ways until an end or a rule ends it.

use std::convert::Infallible;
use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::{Semaphore, SemaphorePermit, mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::book::{Book, Happening};
use super::door::{Door, DoorHandle};
use super::ending::{Ending, Sight};
use super::lane::{Lane, Until};
use super::marks::{Marks, Requests, Step};
use super::network::NetworkState;
use super::script::{End, Fault, Moment, Script};

/// The largest piece that is read at once.
const PIECE: usize = 16 * 1024;
/// How many bytes may be on their way in one direction. A longer message fills it alone.
const ROOM: usize = 4 << 20;

/// One connection of the proxy.
pub(crate) struct Connection {
    number: u32,
    script: Arc<Script>,
    book: Arc<Book>,
    door: DoorHandle,
    network: watch::Receiver<NetworkState>,
    to_client: Lane,
    to_server: Lane,
    /// Whether a write to the end has failed. A later read from it may then report a graceful end.
    client_died: AtomicBool,
    server_died: AtomicBool,
}

/// Something on its way in one direction.
enum Item<'a> {
    Bytes {
        bytes: Bytes,
        due: Instant,
        _room: SemaphorePermit<'a>,
    },
    Fire(Vec<usize>),
    /// The sender closed its half.
    End,
    /// The sender's socket failed.
    Broken,
}

impl Connection {
    pub(crate) fn new(
        number: u32,
        script: Arc<Script>,
        book: Arc<Book>,
        door: DoorHandle,
        network: watch::Receiver<NetworkState>,
    ) -> Self {
        let (to_client, to_server) = (Lane::new(network.clone()), Lane::new(network.clone()));
        let (client_died, server_died) = Default::default();
        Self { number, script, book, door, network, to_client, to_server, client_died, server_died }
    }

    /// Forwards between two sockets. `carried` is dropped when no byte passes any more.
    pub(crate) async fn run(self, mut near: TcpStream, mut far: TcpStream, carried: impl Drop) {
        let ending = self.forward(&mut near, &mut far).await;
        let mut shown =
            pin!(async { tokio::join!(ending.client.show(near), ending.server.show(far)) });
        let over = poll_fn(|context| Poll::Ready(shown.as_mut().poll(context).is_ready())).await;
        drop(carried);
        if !over {
            shown.await;
        }
        self.book.note(self.number, Happening::Gone);
    }

    async fn forward(&self, near: &mut TcpStream, far: &mut TcpStream) -> Ending {
        let requests = Arc::<Requests>::default();
        let ((near_in, near_out), (far_in, far_out)) = (near.split(), far.split());
        let both = async {
            let there = self.pump(End::Server, near_in, far_out, requests.clone());
            let back = self.pump(End::Client, far_in, near_out, requests.clone());
            match tokio::try_join!(there, back) {
                Ok(_) => Ending::both(Sight::Closed),
                Err(ending) => ending,
            }
        };
        tokio::select! {
            biased;
            ending = self.network_ends() => ending,
            ending = self.times() => ending,
            ending = both => ending,
        }
    }

    async fn network_ends(&self) -> Ending {
        let mut network = self.network.clone();
        match network.wait_for(NetworkState::ends_connections).await.map(|state| *state) {
            Ok(NetworkState::Closes) => Ending::both(Sight::Closed),
            Ok(_) => Ending::both(Sight::Reset(Duration::ZERO)),
            Err(_) => pending().await,
        }
    }

    /// Fires the rules that wait for a time.
    async fn times(&self) -> Ending {
        let start = Instant::now();
        let rules = self.script.rules.iter().enumerate();
        let mut waiting: Vec<_> = rules
            .filter(|(_, rule)| rule.conn.is_none_or(|conn| conn == self.number))
            .filter_map(|(index, rule)| match rule.at {
                Moment::Time(time) => Some((time, index)),
                _ => None,
            })
            .collect();
        waiting.sort();
        for same in waiting.chunk_by(|one, other| one.0 == other.0) {
            let Some(at) = start.checked_add(same[0].0) else { break };
            sleep_until(at).await;
            let rules: Vec<_> = same.iter().map(|(_, index)| *index).collect();
            if let Some(ending) = self.fire(&rules).await {
                return ending;
            }
        }
        pending().await
    }

    /// Forwards in one direction until the sender ends it.
    async fn pump(
        &self,
        toward: End,
        from: ReadHalf<'_>,
        to: WriteHalf<'_>,
        requests: Arc<Requests>,
    ) -> Result<(), Ending> {
        let marks = Marks::new(&self.script, self.number, toward, requests);
        let room = Semaphore::new(ROOM);
        let (queue, queued) = mpsc::unbounded_channel();
        tokio::select! {
            biased;
            over = self.write(toward, to, queued) => over,
            never = self.read(toward, from, marks, &room, queue) => match never {},
        }
    }

    async fn read<'a>(
        &self,
        toward: End,
        mut from: ReadHalf<'_>,
        mut marks: Marks,
        room: &'a Semaphore,
        queue: mpsc::UnboundedSender<Item<'a>>,
    ) -> Infallible {
        loop {
            let mut piece = BytesMut::with_capacity(PIECE);
            let read = from.read_buf(&mut piece).await;
            let last = match read {
                Ok(0) if !self.died(toward.other()).load(Ordering::Relaxed) => Some(Item::End),
                Ok(0) | Err(_) => Some(Item::Broken),
                Ok(_) => None,
            };
            let steps = if last.is_some() { marks.end() } else { marks.push(piece.freeze()) };
            let due = self.lane(toward).due();
            for step in steps {
                let item = match step {
                    Step::Fire(rules) => Item::Fire(rules),
                    Step::Forward(bytes) => match reserve(room, bytes.len()).await {
                        Some(room) => Item::Bytes { bytes, due, _room: room },
                        None => return pending().await,
                    },
                };
                // The writer ends only together with this reader.
                let _ = queue.send(item);
            }
            if let Some(last) = last {
                let _ = queue.send(last);
                return pending().await;
            }
        }
    }

    async fn write(
        &self,
        toward: End,
        mut to: WriteHalf<'_>,
        mut queued: mpsc::UnboundedReceiver<Item<'_>>,
    ) -> Result<(), Ending> {
        let (lane, sender) = (self.lane(toward), toward.other());
        while let Some(item) = queued.recv().await {
            match item {
                Item::Bytes { bytes, due, .. } => {
                    sleep_until(due).await;
                    lane.opens().await;
                    if !lane.now().half_open && to.write_all(&bytes).await.is_err() {
                        // The reader of that end reports its death, after what it still sent.
                        self.died(toward).store(true, Ordering::Relaxed);
                        return pending().await;
                    }
                }
                Item::Fire(rules) => {
                    if let Some(ending) = self.fire(&rules).await {
                        return Err(ending);
                    }
                }
                Item::End | Item::Broken => {
                    sleep(lane.now().delay_close).await;
                    lane.opens().await;
                    self.book.note(self.number, Happening::EndedBy(sender));
                    let lost = lane.now().half_open;
                    if matches!(item, Item::Broken) {
                        let other =
                            if lost { Sight::Silence } else { Sight::Reset(Duration::ZERO) };
                        return Err(Ending::by(sender, other));
                    }
                    if !lost {
                        // An error means that this end is dead; its reader reports it.
                        let _ = to.shutdown().await;
                    }
                    return Ok(());
                }
            }
        }
        pending().await
    }

    /// Fires rules; returns how they end the connection, if they do.
    async fn fire(&self, rules: &[usize]) -> Option<Ending> {
        let mut ending = None;
        for index in rules {
            let rule = &self.script.rules[*index];
            if self.book.fires(self.number, *index, rule) {
                self.apply(&rule.fault).await;
                ending = ending.or(Ending::of(&rule.fault));
            }
        }
        ending
    }

    /// Applies a fault that does not end the connection.
    async fn apply(&self, fault: &Fault) {
        match *fault {
            Fault::Note {} | Fault::Reset { .. } | Fault::Close {} | Fault::Cut { .. } => {}
            Fault::Stall { toward, lasts } => {
                let until = Until::lasting(lasts);
                self.lanes(toward, |lane| lane.change(|now| now.stall = Some(until)));
            }
            Fault::HalfOpen { toward } => {
                self.lanes(toward, |lane| lane.change(|now| now.half_open = true));
            }
            Fault::Delay { toward, by, lasts } => {
                let until = Until::lasting(lasts);
                self.lanes(toward, |lane| lane.change(|now| now.delay = Some((by, until))));
            }
            Fault::DelayClose { toward, by } => {
                self.lane(toward).change(|now| now.delay_close = by);
            }
            Fault::Refuse { lasts } => self.door.set(Door::Refuses(Until::lasting(lasts))).await,
            Fault::AcceptThenClose { lasts } => {
                self.door.set(Door::ClosesAtOnce(Until::lasting(lasts))).await;
            }
        }
    }

    fn lanes(&self, toward: Option<End>, change: impl Fn(&Lane)) {
        for end in [End::Client, End::Server] {
            if toward.is_none_or(|toward| toward == end) {
                change(self.lane(end));
            }
        }
    }

    fn lane(&self, toward: End) -> &Lane {
        match toward {
            End::Client => &self.to_client,
            End::Server => &self.to_server,
        }
    }

    fn died(&self, end: End) -> &AtomicBool {
        match end {
            End::Client => &self.client_died,
            End::Server => &self.server_died,
        }
    }
}

/// Waits until there is room for this many bytes.
async fn reserve(room: &Semaphore, bytes: usize) -> Option<SemaphorePermit<'_>> {
    room.acquire_many(bytes.min(ROOM) as u32).await.ok()
}

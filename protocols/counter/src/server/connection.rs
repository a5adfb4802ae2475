//! One connection of the server, in one task: it reads the hello, then requests, and sends the
//! replies and numbers of its session.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use reknit_resume::Counted;
use reknit_seams::net::Stream;
use reknit_seams::{defect, milestone, point};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::session::{AddState, Fenced, Session, Watching};
use super::{ConnAttachment, Shared};
use crate::link::{Link, LinkError, LinkEvent};
use crate::wire::{Absence, Name, Refusal, Reply, Request};

/// The reason why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    Lost(LinkError),
    Fenced,
    Left,
}

impl From<LinkError> for Over {
    fn from(lost: LinkError) -> Self {
        Over::Lost(lost)
    }
}

impl From<Fenced> for Over {
    fn from(_: Fenced) -> Self {
        Over::Fenced
    }
}

/// The maximum time for the delivery of a refusal.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Serves one connection until its end.
pub(super) async fn serve(shared: Arc<Shared>, stream: Stream) {
    let counted = Counted::new(&shared.connections);
    let mut link = Link::new(stream, shared.limits.liveness);
    let hello = timeout(shared.limits.hello_deadline, hello(&mut link)).await;
    let Ok(Ok(Request::Hello { session, ticket })) = hello else {
        milestone!("counter.server.no-hello", conn = link.id());
        if defect!(PanicsWithoutHello) {
            assert!(hello.is_ok(), "each connection says hello in time");
        }
        return;
    };
    let (attachment, resumed, wake) = match shared.attach(session, ticket, link.id()) {
        Ok(attached) => attached,
        Err(why) => return refuse(link, why).await,
    };
    point!(
        "counter.server.attach.unlocked",
        generation = ticket.generation,
        conn = attachment.conn
    )
    .await;
    milestone!(
        "counter.server.attached",
        generation = ticket.generation,
        conn = attachment.conn,
        resumed
    );
    link.send(&Reply::Welcome { session: attachment.session, resumed });

    let mut attached = Attached { shared, link, attachment, wake, leases: BTreeMap::new() };
    let over = attached.run().await;
    tracing::debug!(?over, conn = attachment.conn, "connection over");
    let Attached { shared, link, leases, .. } = attached;
    match over {
        Over::Lost(LinkError::Silent) => {
            milestone!("counter.server.silent", conn = attachment.conn)
        }
        Over::Lost(LinkError::Stuck) => milestone!("counter.server.stuck", conn = attachment.conn),
        Over::Lost(LinkError::Malformed) => {
            milestone!("counter.server.malformed", conn = attachment.conn)
        }
        _ => {}
    }
    if defect!(LeaseOutlivesConnection) {
        shared.leak(leases);
    }
    if defect!(FencedConnectionKept) && over == Over::Fenced {
        shared.leak((link, counted));
    } else {
        drop(link);
    }
    point!("counter.server.detach", generation = ticket.generation, conn = attachment.conn).await;
    shared.detach(attachment);
}

async fn hello(link: &mut Link) -> Result<Request, LinkError> {
    loop {
        if let LinkEvent::Line(line) = link.next().await? {
            return line.parse().map_err(|_| LinkError::Malformed);
        }
    }
}

async fn refuse(mut link: Link, why: Refusal) {
    match why {
        Refusal::UnknownSession => {
            milestone!("counter.server.refused-unknown-session", conn = link.id())
        }
        Refusal::StaleTicket => milestone!("counter.server.refused-stale-ticket", conn = link.id()),
        Refusal::StillAttached => {
            milestone!("counter.server.refused-still-attached", conn = link.id())
        }
        Refusal::Full => milestone!("counter.server.refused-full", conn = link.id()),
    }
    link.send(&Reply::Refused(why));
    link.finish(CLOSE_TIMEOUT).await;
}

/// A connection that is attached to a session.
struct Attached {
    shared: Arc<Shared>,
    link: Link,
    attachment: ConnAttachment,
    wake: Arc<Notify>,
    /// The leases that this connection holds, by expiry time. They end with the connection.
    leases: BTreeMap<(Instant, u64), Counted>,
}

impl Attached {
    async fn run(&mut self) -> Over {
        loop {
            if let Err(over) = self.step().await {
                return over;
            }
        }
    }

    async fn step(&mut self) -> Result<(), Over> {
        let lease = self.leases.first_key_value().map(|(key, _)| *key);
        tokio::select! {
            biased;
            () = self.wake.notified() => self.pull(),
            received = self.link.next() => match received? {
                LinkEvent::Line(line) => match line.parse() {
                    Ok(request) => self.on_request(request).await,
                    Err(_) if defect!(MalformedLineSkipped) => Ok(()),
                    Err(_) => Err(LinkError::Malformed.into()),
                },
                LinkEvent::Room => self.pull(),
            },
            () = until(lease), if lease.is_some() => self.lease_over(lease),
        }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Session) -> Result<T, Fenced>) -> Result<T, Over> {
        Ok(self.shared.with(self.attachment, act)?)
    }

    /// Moves replies and numbers of the session into the link, as far as there is room.
    fn pull(&mut self) -> Result<(), Over> {
        let ticket = self.attachment.ticket;
        while self.link.has_room() {
            let batch = self.with(|session| session.pull(ticket))?;
            if batch.is_empty() {
                break;
            }
            batch.iter().for_each(|reply| self.link.send(reply));
        }
        Ok(())
    }

    fn reply(&self, reply: Reply) -> Result<(), Over> {
        let (ticket, most) = (self.attachment.ticket, self.shared.limits.queued_replies);
        let queued = self.with(|session| {
            session.reply(ticket, reply)?;
            Ok(session.queued())
        })?;
        if queued > most { Err(LinkError::Stuck.into()) } else { Ok(()) }
    }

    async fn on_request(&mut self, request: Request) -> Result<(), Over> {
        match request {
            Request::Hello { .. } => Err(LinkError::Malformed.into()),
            Request::Watch { stream, next } => self.watch(stream, next.get()).await,
            Request::Unwatch { stream } => {
                self.with(|session| session.unwatch(self.attachment.ticket, &stream))
            }
            Request::Add { id, counter, amount, memo } => self.add(id, counter, amount, memo).await,
            Request::Peek { id, counter } => {
                self.reply(Reply::Peeked { id, sum: self.shared.ledger.sum(&counter) })
            }
            Request::Lease { id, millis, .. } => self.lease(id, Duration::from_millis(millis)),
            Request::Bye => {
                self.shared.leave(self.attachment)?;
                Err(Over::Left)
            }
        }
    }

    async fn watch(&mut self, stream: Name, next: u64) -> Result<(), Over> {
        let (ticket, limits) = (self.attachment.ticket, self.shared.limits);
        if defect!(SnapshotThenAttach) && next > 1 {
            self.with(|session| session.snapshot(ticket, &stream, next))?;
            point!(
                "counter.server.watch.copied",
                generation = ticket.generation,
                conn = self.attachment.conn
            )
            .await;
            return self.with(|session| {
                let live = session.live(&stream).unwrap_or(next);
                session.watch(ticket, &stream, live, limits.streams).map(|_| ())
            });
        }
        let Watching::Open =
            self.with(|session| session.watch(ticket, &stream, next, limits.streams))?
        else {
            return Ok(());
        };
        let Some(numbers) = self.shared.source.open(&stream) else {
            return self.reply(Reply::Lost { stream, why: Absence::Unknown });
        };
        let pump = self.shared.pump(self.attachment.session, &stream, numbers);
        self.with(|session| {
            session.opened(&stream, pump, limits.retained_items);
            session.watch(ticket, &stream, next, limits.streams).map(|_| ())
        })
    }

    async fn add(&mut self, id: u64, counter: Name, amount: u32, memo: Name) -> Result<(), Over> {
        let leased = || self.shared.leases.load(Ordering::Relaxed) > self.leases.len() as u64;
        while defect!(AddsWaitForLeases) && leased() {
            sleep(Duration::from_millis(500)).await;
        }
        let remembered = self.shared.limits.queued_replies;
        let apply = |session: &mut Session| {
            let sum = self.shared.ledger.add(&counter, amount, &memo);
            session.added(id, sum, remembered);
            Reply::Added { id, sum }
        };
        // The check and the addition are one step under the lock. Otherwise another connection of
        // this session could perform the same addition between them.
        let in_one_step = !defect!(DedupesAfterUnlock);
        let known = self.with(|session| match session.add_state(id) {
            AddState::Known(reply) => Ok(Some(reply)),
            AddState::New if in_one_step => Ok(Some(apply(session))),
            AddState::New => Ok(None),
        })?;
        if let Some(reply) = known {
            return self.reply(reply);
        }
        point!(
            "counter.server.add.checked",
            generation = self.attachment.ticket.generation,
            conn = self.attachment.conn
        )
        .await;
        let sum = self.shared.ledger.add(&counter, amount, &memo);
        self.with(|session| {
            session.added(id, sum, remembered);
            Ok(())
        })?;
        self.reply(Reply::Added { id, sum })
    }

    fn lease(&mut self, id: u64, lasts: Duration) -> Result<(), Over> {
        if self.leases.len() >= self.shared.limits.queued_replies {
            return Err(LinkError::Stuck.into());
        }
        let until = Instant::now() + lasts.min(self.shared.limits.longest_lease);
        self.leases.insert((until, id), Counted::new(&self.shared.leases));
        self.with(|_| Ok(()))
    }

    fn lease_over(&mut self, lease: Option<(Instant, u64)>) -> Result<(), Over> {
        let Some((until, id)) = lease else { return Ok(()) };
        self.leases.remove(&(until, id));
        self.reply(Reply::LeaseOver { id })
    }
}

async fn until(lease: Option<(Instant, u64)>) {
    if let Some((until, _)) = lease {
        sleep_until(until).await;
    }
}

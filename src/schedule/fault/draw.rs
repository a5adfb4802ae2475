//! The draws for one fault of a plan. Each has a key with its purpose and the number of the fault.

use std::collections::BTreeMap;
use std::time::Duration;

use rand_chacha::ChaCha8Rng;

use super::shape::FaultShape;
use super::values::{Learns, LinkPlace};
use crate::schedule::keyed::keyed;
use crate::schedule::names::{Conn, Host, Side, Which};
use crate::schedule::profile::choice::{below, pick, pick_weighted, upto};
use crate::schedule::trigger::Trigger;

/// One in this many faults affects a connection or host with little traffic.
const RARELY: u64 = 8;

/// The source from which the faults of a plan are drawn.
#[derive(Clone, Copy)]
pub struct FaultSource<'a> {
    /// The seed of the plan.
    pub seed: u64,
    /// The hosts that open connections.
    pub openers: &'a [Host],
    /// The hosts that accept them.
    pub servers: &'a [Host],
    /// Whether connections have generations.
    pub generations: bool,
    /// Whether hosts launch programs.
    pub programs: bool,
    /// Draws a milestone.
    pub milestone: &'a dyn Fn(&mut ChaCha8Rng) -> Option<Trigger>,
}

/// A fault while it is drawn.
pub struct FaultDraw<'a> {
    /// The source from which the faults of the plan are drawn.
    pub source: FaultSource<'a>,
    /// The values of its fields.
    pub shape: &'a FaultShape,
    /// The connection that it names, if it names one.
    pub conn: Conn,
    /// The host to which that connection was probably opened.
    pub server: Host,
    /// The number of the fault in the plan.
    n: u64,
    /// The time left before the healed tail.
    left: Duration,
}

impl std::fmt::Debug for FaultDraw<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FaultDraw").field("n", &self.n).finish_non_exhaustive()
    }
}

impl<'a> FaultDraw<'a> {
    /// Begins to draw the n-th fault of a plan; `None` if there are no hosts for it.
    pub fn new(
        source: FaultSource<'a>,
        shape: &'a FaultShape,
        n: u64,
        left: Duration,
    ) -> Option<Self> {
        let (conn, server) = conn(&source, n)?;
        Some(Self { source, shape, conn, server, n, left })
    }

    /// Returns the generator for one purpose.
    pub fn rng(&self, what: &str) -> ChaCha8Rng {
        keyed(self.source.seed, what, &[self.n])
    }

    /// Draws a host of this run that the shape allows.
    pub fn host(&self) -> Option<Host> {
        let FaultSource { openers, servers, .. } = self.source;
        let there = |host: &&Host| openers.contains(host) || servers.contains(host);
        let mut rng = self.rng("host");
        if self.shape.hosts.is_empty() {
            return mostly_first(servers, &mut rng).cloned();
        }
        let hosts: Vec<&Host> = self.shape.hosts.iter().filter(there).collect();
        pick(&hosts, &mut rng).map(|host| (*host).clone())
    }

    /// Draws a direction. The inner `None` means both directions.
    pub fn toward(&self) -> Option<Option<Host>> {
        const ALL: &[Option<Side>] = &[Some(Side::Client), Some(Side::Server), None];
        let sides = if self.shape.toward.is_empty() { ALL } else { &self.shape.toward };
        pick(sides, &mut self.rng("toward")).map(|side| side.map(|side| self.end(side)))
    }

    /// Draws a direction for a fault that requires exactly one.
    pub fn one_way(&self) -> Option<Host> {
        let given: Vec<Side> = self.shape.toward.iter().copied().flatten().collect();
        let sides = if given.is_empty() { &[Side::Client, Side::Server] } else { &given[..] };
        pick(sides, &mut self.rng("toward")).map(|side| self.end(*side))
    }

    fn end(&self, side: Side) -> Host {
        match side {
            Side::Client => self.conn.host.clone(),
            Side::Server => self.server.clone(),
        }
    }

    /// Draws the connection or the link.
    pub fn place(&self) -> LinkPlace {
        if below(2, &mut self.rng("place")) == 0 {
            LinkPlace::Link(self.conn.host.clone(), self.server.clone())
        } else {
            LinkPlace::Conn(self.conn.clone())
        }
    }

    /// Draws a duration that ends before the healed tail.
    pub fn lasts(&self) -> Option<Duration> {
        Some(self.duration("lasts", "lasts"))
    }

    /// Draws the duration of a field, at most until the healed tail.
    pub fn duration(&self, field: &str, what: &str) -> Duration {
        self.shape.durations[field].draw(&mut self.rng(what)).min(self.left)
    }

    /// Draws the size or count of a field.
    pub fn number(&self, field: &str, what: &str) -> u64 {
        self.shape.numbers[field].draw(&mut self.rng(what))
    }

    /// Draws when each end learns of the cut: before the healed tail, or never.
    pub fn learns(&self) -> BTreeMap<Host, Learns> {
        let in_time = |learns| match learns {
            Learns::After(delay) => Learns::After(delay.min(self.left)),
            Learns::Never => Learns::Never,
        };
        let client = self.shape.learns_client.draw(&mut self.rng("learns.client"));
        let far = self.shape.learns_server.draw(&mut self.rng("learns.server"));
        let ends = [(&self.conn.host, client), (&self.server, far)];
        ends.into_iter().map(|(host, learns)| (host.clone(), in_time(learns))).collect()
    }
}

/// Draws a connection, and the host to which it was probably opened: mostly a connection from a
/// client to the first server, and mostly the newest, because that one is in use.
fn conn(source: &FaultSource<'_>, n: u64) -> Option<(Conn, Host)> {
    let FaultSource { openers, servers, .. } = *source;
    let mut rng = keyed(source.seed, "conn", &[n]);
    let (clients, middle): (Vec<&Host>, Vec<&Host>) =
        openers.iter().partition(|host| !servers.contains(host));
    let rarely = !middle.is_empty() && below(RARELY, &mut rng) == 0;
    let host =
        (*pick(if rarely || clients.is_empty() { &middle } else { &clients }, &mut rng)?).clone();
    let others: Vec<&Host> = servers.iter().filter(|server| **server != host).collect();
    let server = (*mostly_first(&others, &mut rng)?).clone();
    let which = match pick_weighted(&[12, 1, u64::from(source.generations)], &mut rng) {
        Some(1) => Which::Number(upto(3, &mut rng) as u32 + 1),
        Some(2) => Which::Generation(upto(3, &mut rng) + 1),
        _ => Which::Last,
    };
    Some((Conn { host, label: None, which }, server))
}

/// Picks mostly the first server, because clients connect to that one; the others are behind it.
fn mostly_first<'h, T>(hosts: &'h [T], rng: &mut ChaCha8Rng) -> Option<&'h T> {
    if below(RARELY, rng) == 0 { pick(hosts, rng) } else { hosts.first() }
}

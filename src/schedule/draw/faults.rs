//! Draws the faults of a plan: the kinds of a run, the target of each fault, and its fields.

use std::collections::BTreeMap;
use std::time::Duration;

use rand_chacha::ChaCha8Rng;

use super::{Drawing, Numbered, ends, millis, ms};
use crate::schedule::profile::choice::{below, happens, pick, pick_weighted, upto};
use crate::schedule::profile::{DrawableFault, FaultShape};
use crate::schedule::{
    Action, Conn, Fault, HoldEnd, Host, Learns, LinkPlace, Named, Orphans, Pipe, Plan, Side,
    SlowBy, Step, TrafficCount, Trigger, Unsynced, When, Which,
};

impl Drawing<'_> {
    /// Draws the faults of a plan.
    pub(super) fn faults(
        &self,
        plan: &Plan,
        moments: &[Numbered<Duration>],
    ) -> Vec<Numbered<Step>> {
        let kinds = self.kinds(plan);
        let (openers, servers) = ends(self.subject, plan);
        let count = self.profile.faults.count.draw(&mut self.rng("faults", &[]));
        let one = |before: &mut Option<When>, n| {
            let kind = self.kind(&kinds, n)?;
            let shape = &self.profile.faults.weights[&kind];
            let when = self.aim(kind, n, before, moments)?;
            *before = Some(when.clone());
            // A step with a trigger may start at any time; the world ends its fault when the healed
            // tail begins.
            let left = match when {
                When::At(at) => self.active().saturating_sub(at),
                When::After(_) => self.active(),
            };
            let fault =
                One { drawing: self, kind, shape, n, left, openers: &openers, servers: &servers }
                    .fault()?;
            Some(([0, n], Step { when, action: Action::Fault(fault) }))
        };
        (0..count).scan(None, |before, n| Some(one(before, n))).flatten().collect()
    }

    /// Draws the kind of the n-th fault. The first fault is not a hold if there is any other kind:
    /// most points are reached only after another fault.
    fn kind(&self, kinds: &[DrawableFault], n: u64) -> Option<DrawableFault> {
        let sure: Vec<DrawableFault> =
            kinds.iter().copied().filter(|kind| *kind != DrawableFault::Hold).collect();
        let of = if n == 0 && !sure.is_empty() { &sure } else { kinds };
        pick(of, &mut self.rng("kind", &[n])).copied()
    }

    /// Draws the few kinds of this run by weight, each at most once. Without points there are no
    /// holds, and without programs or scripted processes no faults of child processes.
    fn kinds(&self, plan: &Plan) -> Vec<DrawableFault> {
        let faults = &self.profile.faults;
        let holds = self.subject.points().iter().any(|doc| self.reachable(doc.defect));
        let children = self.subject.launches_programs() || plan.entries(PROCESSES).next().is_some();
        let weights = faults.weights.iter().map(|(kind, shape)| (*kind, shape.weight));
        let has_effect = |kind: DrawableFault| {
            (holds || kind != DrawableFault::Hold) && (children || !kind.is_for_children())
        };
        self.few(
            weights.filter(|(kind, _)| has_effect(*kind)).collect(),
            &faults.kinds,
            ["kinds", "kinds.slot"],
        )
        .into_iter()
        .map(|(kind, _)| kind)
        .collect()
    }

    /// Draws the time or trigger of the n-th fault. The first has a fixed time: a trigger in a
    /// recovery never fires if no connection was lost. A share of the others follow the previous
    /// fault. A hold is always at a point.
    fn aim(
        &self,
        kind: DrawableFault,
        n: u64,
        before: &Option<When>,
        moments: &[Numbered<Duration>],
    ) -> Option<When> {
        let mut rng = self.rng("aim", &[n]);
        if kind == DrawableFault::Hold {
            return self.point(&mut rng).map(|trigger| When::After(trigger.delay(Duration::ZERO)));
        }
        if let Some(before) = before
            && happens(self.profile.faults.wakes, &mut rng)
        {
            return Some(self.in_the_wake(before, &mut rng));
        }
        let aimed = &self.profile.faults.aimed;
        if before.is_none() {
            return Some(self.some_time(moments, n, &mut rng));
        }
        let share =
            |share: f64, there: bool| if there { (share.max(0.0) * 1000.0) as u64 } else { 0 };
        let (milestones, points) = (self.subject.milestones(), self.subject.points());
        let weights = [
            share(aimed.milestone, milestones.iter().any(|doc| self.reachable(doc.only))),
            share(aimed.point, points.iter().any(|doc| self.reachable(doc.defect))),
            share(aimed.time, true),
        ];
        match pick_weighted(&weights, &mut rng) {
            Some(0) => self.milestone(&mut rng).map(When::After),
            Some(1) => self.point(&mut rng).map(When::After),
            _ => Some(self.some_time(moments, n, &mut rng)),
        }
    }

    /// Draws a fixed time: mostly at or shortly after an operation, so that there is activity to
    /// disturb; otherwise any time in the busy part or shortly after it.
    fn some_time(&self, moments: &[Numbered<Duration>], n: u64, rng: &mut ChaCha8Rng) -> When {
        if below(ANY_TIME, rng) > 0
            && let Some(moment) = self.one_of(moments, "aim.moment", [0, n])
        {
            return self.in_the_wake(&When::At(*moment), rng);
        }
        When::At(ms(upto(millis((self.busy() * 3 / 2).min(self.active())), rng)))
    }
}

/// A fault while it is drawn.
struct One<'a> {
    drawing: &'a Drawing<'a>,
    kind: DrawableFault,
    shape: &'a FaultShape,
    /// The number of the fault in the plan.
    n: u64,
    /// The time left before the healed tail.
    left: Duration,
    openers: &'a [Host],
    servers: &'a [Host],
}

impl One<'_> {
    fn rng(&self, field: &str) -> ChaCha8Rng {
        self.drawing.rng(field, &[self.n])
    }

    /// Draws the fault; `None` if it cannot affect any host of this run.
    fn fault(&self) -> Option<Fault> {
        let (conn, server) = self.conn()?;
        Some(match self.kind {
            DrawableFault::Cut => Fault::Cut { learns: self.learns(&conn, &server), conn },
            DrawableFault::CutAfter => Fault::CutAfter {
                toward: self.one_way(&conn, &server)?,
                count: self.count(),
                learns: self.learns(&conn, &server),
                conn,
            },
            DrawableFault::Partition => Fault::Partition {
                toward: self.toward(&conn, &server)?,
                lasts: self.lasts(),
                hosts: (conn.host, server),
            },
            DrawableFault::Stall => {
                Fault::Stall { toward: self.one_way(&conn, &server)?, lasts: self.lasts(), conn }
            }
            DrawableFault::Blackhole => Fault::Blackhole { conn, lasts: self.lasts() },
            DrawableFault::Delay => Fault::Delay {
                toward: self.toward(&conn, &server)?,
                by: self.by(),
                lasts: self.lasts(),
                place: self.place(conn, server),
            },
            DrawableFault::DelayClose => {
                Fault::DelayClose { toward: self.one_way(&conn, &server)?, by: self.by(), conn }
            }
            DrawableFault::Reset => Fault::Reset { toward: self.toward(&conn, &server)?, conn },
            DrawableFault::Slow => Fault::Slow {
                toward: self.toward(&conn, &server)?,
                by: self.slow(),
                lasts: self.lasts(),
                place: self.place(conn, server),
            },
            DrawableFault::Refuse => Fault::Refuse { host: self.host()?, lasts: self.lasts() },
            DrawableFault::Hang => Fault::Hang { host: self.host()?, lasts: self.lasts() },
            DrawableFault::AcceptThenClose => {
                Fault::AcceptThenClose { host: self.host()?, lasts: self.lasts() }
            }
            DrawableFault::Hold => Fault::Hold { end: self.hold() },
            DrawableFault::Crash => {
                Fault::Crash { host: self.host()?, lasts: self.lasts(), processes: Orphans::Die }
            }
            DrawableFault::PowerLoss => {
                let unsynced = self.unsynced();
                Fault::PowerLoss { host: self.host()?, unsynced, lasts: self.lasts() }
            }
            DrawableFault::ClockJump => Fault::ClockJump { host: self.host()?, by_ms: self.jump() },
            DrawableFault::KillChildren => Fault::KillChildren { host: self.host()? },
            DrawableFault::StopChildren => {
                Fault::StopChildren { host: self.host()?, lasts: self.lasts() }
            }
            DrawableFault::SlowChildren => {
                Fault::SlowChildren { host: self.host()?, by: self.by(), lasts: self.lasts() }
            }
            DrawableFault::DelayOutput => {
                Fault::DelayOutput { host: self.host()?, by: self.by(), lasts: self.lasts() }
            }
            DrawableFault::ClosePipe => {
                let pipe = *pick(Pipe::ALL, &mut self.rng("pipe"))?;
                Fault::ClosePipe { host: self.host()?, pipe }
            }
        })
    }

    /// Draws a connection, and the host to which it was probably opened: mostly a connection from a
    /// client to the first server, and mostly the newest, because that one is in use.
    fn conn(&self) -> Option<(Conn, Host)> {
        let mut rng = self.rng("conn");
        let (clients, middle): (Vec<&Host>, Vec<&Host>) =
            self.openers.iter().partition(|host| !self.servers.contains(host));
        let rarely = !middle.is_empty() && below(RARELY, &mut rng) == 0;
        let host =
            (*pick(if rarely || clients.is_empty() { &middle } else { &clients }, &mut rng)?)
                .clone();
        let others: Vec<&Host> = self.servers.iter().filter(|server| **server != host).collect();
        let server = (*mostly_first(&others, &mut rng)?).clone();
        let generations = u64::from(self.drawing.subject.generation_milestone().is_some());
        let which = match pick_weighted(&[12, 1, generations], &mut rng) {
            Some(1) => Which::Number(upto(3, &mut rng) as u32 + 1),
            Some(2) => Which::Generation(upto(3, &mut rng) + 1),
            _ => Which::Last,
        };
        Some((Conn { host, label: None, which }, server))
    }

    /// Draws a host of this run that the shape allows.
    fn host(&self) -> Option<Host> {
        let there = |host: &&Host| self.openers.contains(host) || self.servers.contains(host);
        let mut rng = self.rng("host");
        if self.shape.hosts.is_empty() {
            return mostly_first(self.servers, &mut rng).cloned();
        }
        let hosts: Vec<&Host> = self.shape.hosts.iter().filter(there).collect();
        pick(&hosts, &mut rng).map(|host| (*host).clone())
    }

    /// Draws a direction. The inner `None` means both directions.
    fn toward(&self, conn: &Conn, server: &Host) -> Option<Option<Host>> {
        const ALL: &[Option<Side>] = &[Some(Side::Client), Some(Side::Server), None];
        let sides = if self.shape.toward.is_empty() { ALL } else { &self.shape.toward };
        pick(sides, &mut self.rng("toward")).map(|side| side.map(|side| end(side, conn, server)))
    }

    /// Draws a direction for a fault that requires exactly one.
    fn one_way(&self, conn: &Conn, server: &Host) -> Option<Host> {
        let given: Vec<Side> = self.shape.toward.iter().copied().flatten().collect();
        let sides = if given.is_empty() { &[Side::Client, Side::Server] } else { &given[..] };
        pick(sides, &mut self.rng("toward")).map(|side| end(*side, conn, server))
    }

    fn lasts(&self) -> Option<Duration> {
        Some(self.shape.lasts.draw(&mut self.rng("lasts")).min(self.left))
    }

    fn by(&self) -> Duration {
        self.shape.by.draw(&mut self.rng("by")).min(self.left)
    }

    /// Draws when each end learns of the cut: before the healed tail, or never.
    fn learns(&self, conn: &Conn, server: &Host) -> BTreeMap<Host, Learns> {
        let in_time = |learns| match learns {
            Learns::After(delay) => Learns::After(delay.min(self.left)),
            Learns::Never => Learns::Never,
        };
        let client = self.shape.learns_client.draw(&mut self.rng("learns.client"));
        let far = self.shape.learns_server.draw(&mut self.rng("learns.server"));
        BTreeMap::from([(conn.host.clone(), in_time(client)), (server.clone(), in_time(far))])
    }

    fn count(&self) -> TrafficCount {
        let mut rng = self.rng("count");
        if below(2, &mut rng) == 0 {
            TrafficCount::Bytes(self.shape.bytes.draw(&mut rng))
        } else {
            TrafficCount::Messages(self.shape.messages.draw(&mut rng))
        }
    }

    fn place(&self, conn: Conn, server: Host) -> LinkPlace {
        if below(2, &mut self.rng("place")) == 0 {
            LinkPlace::Link(conn.host, server)
        } else {
            LinkPlace::Conn(conn)
        }
    }

    /// Draws the properties of a slow link; at least one is set.
    fn slow(&self) -> SlowBy {
        let mut rng = self.rng("slow");
        let shape = self.shape;
        let which = below(15, &mut rng) + 1;
        let bad = |bit: u64| which & bit != 0;
        SlowBy {
            latency: bad(1).then(|| shape.by.draw(&mut self.rng("slow.latency")).min(self.left)),
            bandwidth: bad(2).then(|| shape.bandwidth.draw(&mut self.rng("slow.bandwidth")).max(1)),
            segment: bad(4).then(|| shape.segment.draw(&mut self.rng("slow.segment")).max(1)),
            window: bad(8).then(|| shape.window.draw(&mut self.rng("slow.window")).max(1)),
        }
    }

    /// Draws the end of a hold: two of three end after a duration, the third when a milestone is
    /// reached.
    fn hold(&self) -> HoldEnd {
        let mut rng = self.rng("hold");
        let lasts = self.lasts().unwrap_or_default();
        let until: Option<Trigger> =
            if below(3, &mut rng) == 0 { self.drawing.milestone(&mut rng) } else { None };
        match until {
            Some(trigger) => HoldEnd::Until { trigger: Box::new(trigger), at_most: lasts },
            None => HoldEnd::After(lasts),
        }
    }

    /// Draws whether unsynced data is lost. Only a subject with programs keeps files that must survive.
    fn unsynced(&self) -> Unsynced {
        let lost =
            self.drawing.subject.launches_programs() && below(2, &mut self.rng("unsynced")) == 0;
        if lost { Unsynced::Lost } else { Unsynced::Kept }
    }

    fn jump(&self) -> i64 {
        let mut rng = self.rng("jump");
        let by = i64::try_from(self.shape.jump_ms.draw(&mut rng)).unwrap_or(i64::MAX);
        if below(2, &mut rng) == 0 { by } else { -by }
    }
}

/// The key of the table of scripted processes: `process`, as in `[process.p1]`.
const PROCESSES: &str = "process";

/// One in this many faults with a fixed time is at a random time, independent of the operations.
const ANY_TIME: u64 = 4;

/// One in this many faults affects a connection or host with little traffic.
const RARELY: u64 = 8;

/// Picks mostly the first server, because clients connect to that one; the others are behind it.
fn mostly_first<'h, T>(hosts: &'h [T], rng: &mut ChaCha8Rng) -> Option<&'h T> {
    if below(RARELY, rng) == 0 { pick(hosts, rng) } else { hosts.first() }
}

fn end(side: Side, conn: &Conn, server: &Host) -> Host {
    match side {
        Side::Client => conn.host.clone(),
        Side::Server => server.clone(),
    }
}

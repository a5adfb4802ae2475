//! Faults: how each one starts, which traffic it affects, and when it is over.
//!
//! The [link model](super::link) applies active faults to segments. This module contains the other
//! effects of faults: it kills a connection, takes a host down, and releases held segments when a
//! fault ends.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::history::{ConnIndex, EventKind, Nature, Scope, Side, Time};
use crate::schedule::{
    Conn, Fault, Host, Learns, LinkPlace, Orphans, SlowBy, TrafficCount, Unsynced, Which,
};

use super::conns::Conns;
use super::lifecycles::Death;
use super::link::{self, same_link};
use super::local::HostIx;
use super::process::Processes;
use super::queue::Due;
use super::state::World;

/// An active fault.
pub(super) struct ActiveFault {
    pub number: usize,
    pub target: Target,
    /// If set, the fault affects only traffic toward this host.
    pub toward: Option<HostIx>,
    pub kind: FaultAction,
    /// The time at which the fault expires, if it is known beforehand.
    pub until: Option<Time>,
}

/// The target of a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// The connection of this host with this name. It may not exist yet.
    Named(HostIx, Conn),
    /// This connection.
    Conn(ConnIndex),
    /// All traffic between two hosts.
    Link(HostIx, HostIx),
    /// All traffic to or from a host.
    Host(HostIx),
}

/// The effect of a fault on its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FaultAction {
    /// No segment passes.
    Block,
    Delay(Duration),
    DelayClose(Duration),
    Slow(SlowBy),
    Refuse,
    Hang,
    AcceptThenClose,
    /// The connection dies when this number of bytes or messages has arrived.
    CutAfter(TrafficCount),
    /// The connection is dead, or the host is down. The fault is over when both ends have detected
    /// it.
    Dead,
    /// A task is held.
    Hold,
    /// The child processes of the host are affected.
    Children(ChildFault),
}

/// The effect of a fault on the child processes of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChildFault {
    Stop,
    Slow(Duration),
    DelayOutput(Duration),
}

impl ActiveFault {
    /// Returns whether the fault affects a segment of `conn` toward a host.
    pub fn touches(&self, conns: &Conns, conn: ConnIndex, toward: HostIx) -> bool {
        self.toward.is_none_or(|host| host == toward) && self.target.holds(conns, conn)
    }
}

impl Target {
    /// Returns whether the target contains a connection.
    pub fn holds(&self, conns: &Conns, index: ConnIndex) -> bool {
        let conn = conns.get(index);
        match self {
            Target::Named(host, name) => conns.is_named(index, *host, name),
            Target::Conn(this) => *this == index,
            Target::Link(a, b) => same_link((*a, *b), (conn.client, conn.server)),
            Target::Host(host) => conn.client == *host || conn.server == *host,
        }
    }
}

impl ChildFault {
    fn pause(self) -> Option<Duration> {
        if let Self::Slow(by) = self { Some(by) } else { None }
    }

    fn output_delay(self) -> Option<Duration> {
        if let Self::DelayOutput(by) = self { Some(by) } else { None }
    }
}

/// The faults of a run.
#[derive(Default)]
pub(super) struct ActiveFaults {
    pub active: Vec<ActiveFault>,
    /// When each end of a connection detects a cut that is still to come, by the number of the
    /// fault.
    learns: BTreeMap<usize, BTreeMap<Host, Learns>>,
    begun: usize,
}

/// The reason why a fault had no effect.
type Missed = String;

impl World {
    /// Starts a fault for a step.
    pub(super) fn begin(&mut self, step: usize, fault: &Fault) -> Result<(), Missed> {
        if self.is_healed() && !matches!(fault, Fault::Restart { .. }) {
            return Err("the healed tail has begun".into());
        }
        match fault {
            Fault::Cut { conn, learns } => {
                let conn = self.that_can_be_reported(conn)?;
                let number = self.declare(
                    step,
                    fault,
                    Target::Conn(conn),
                    None,
                    FaultAction::Dead,
                    Nature::Kills,
                );
                self.faults.learns.insert(number, learns.clone());
                self.cut(conn, number);
            }
            Fault::Reset { conn, toward } => {
                let conn = self.that_can_be_reported(conn)?;
                let toward = toward.as_ref().map(|host| self.host(host)).transpose()?;
                self.declare(
                    step,
                    fault,
                    Target::Conn(conn),
                    None,
                    FaultAction::Dead,
                    Nature::Kills,
                );
                self.reset(conn, toward);
            }
            Fault::CutAfter { conn, toward, count, learns } => {
                let (target, toward) = (self.named(conn)?, self.host(toward)?);
                let number = self.declare(
                    step,
                    fault,
                    target,
                    Some(toward),
                    FaultAction::CutAfter(*count),
                    Nature::Kills,
                );
                self.faults.learns.insert(number, learns.clone());
                self.cut_exhausted();
            }
            Fault::Partition { hosts, toward, lasts } => {
                let target = Target::Link(self.host(&hosts.0)?, self.host(&hosts.1)?);
                self.lasting(
                    step,
                    fault,
                    target,
                    toward.as_ref(),
                    FaultAction::Block,
                    Nature::Kills,
                    *lasts,
                )?;
            }
            Fault::Stall { conn, toward, lasts } => {
                let target = self.named(conn)?;
                self.lasting(
                    step,
                    fault,
                    target,
                    Some(toward),
                    FaultAction::Block,
                    Nature::Kills,
                    *lasts,
                )?;
            }
            Fault::Blackhole { conn, lasts } => {
                let target = self.named(conn)?;
                self.lasting(step, fault, target, None, FaultAction::Block, Nature::Kills, *lasts)?;
            }
            Fault::Delay { place, toward, by, lasts } => {
                let target = self.place(place)?;
                self.lasting(
                    step,
                    fault,
                    target,
                    toward.as_ref(),
                    FaultAction::Delay(*by),
                    Nature::Slows,
                    *lasts,
                )?;
            }
            Fault::DelayClose { conn, toward, by } => {
                let target = self.named(conn)?;
                self.lasting(
                    step,
                    fault,
                    target,
                    Some(toward),
                    FaultAction::DelayClose(*by),
                    Nature::Slows,
                    None,
                )?;
            }
            Fault::Slow { place, toward, by, lasts } => {
                let target = self.place(place)?;
                self.lasting(
                    step,
                    fault,
                    target,
                    toward.as_ref(),
                    FaultAction::Slow(*by),
                    Nature::Slows,
                    *lasts,
                )?;
            }
            Fault::Refuse { host, lasts } => {
                self.affect_new_connections(step, fault, host, FaultAction::Refuse, *lasts)?
            }
            Fault::Hang { host, lasts } => {
                self.affect_new_connections(step, fault, host, FaultAction::Hang, *lasts)?
            }
            Fault::AcceptThenClose { host, lasts } => self.affect_new_connections(
                step,
                fault,
                host,
                FaultAction::AcceptThenClose,
                *lasts,
            )?,
            Fault::Crash { host, lasts, processes } => {
                self.take_down(
                    step,
                    fault,
                    Death {
                        host,
                        lasts: *lasts,
                        kernel: false,
                        orphans: *processes,
                        unsynced: Unsynced::Kept,
                    },
                )?;
            }
            Fault::PowerLoss { host, unsynced, lasts } => {
                self.take_down(
                    step,
                    fault,
                    Death {
                        host,
                        lasts: *lasts,
                        kernel: true,
                        orphans: Orphans::Die,
                        unsynced: *unsynced,
                    },
                )?;
            }
            Fault::Restart { host } => {
                let host = self.host(host)?;
                if self.hosts.get(host).up {
                    return Err(format!("{} is up", self.hosts.get(host).name));
                }
                self.restart(host, None);
            }
            Fault::ClockJump { host, by_ms } => {
                let host = self.host(host)?;
                let number = self.declare(
                    step,
                    fault,
                    Target::Host(host),
                    None,
                    FaultAction::Hold,
                    Nature::Harmless,
                );
                self.hosts.get_mut(host).clock_off += by_ms;
                self.end_fault(number);
            }
            Fault::KillChildren { host } => {
                self.affect_children(step, fault, host, |children| children.kill_all())?;
            }
            Fault::ClosePipe { host, pipe } => {
                self.affect_children(step, fault, host, |children| {
                    children.change_conditions(|conditions| conditions.closed.push(*pipe));
                })?;
            }
            Fault::StopChildren { host, lasts } => {
                self.change_children(step, fault, host, ChildFault::Stop, *lasts)?;
            }
            Fault::SlowChildren { host, by, lasts } => {
                self.change_children(step, fault, host, ChildFault::Slow(*by), *lasts)?;
            }
            Fault::DelayOutput { host, by, lasts } => {
                self.change_children(step, fault, host, ChildFault::DelayOutput(*by), *lasts)?;
            }
            Fault::Hold { .. } => return Err("no task reached the point".into()),
        }
        Ok(())
    }

    /// Starts and ends a fault that affects the child processes of a host once.
    fn affect_children(
        &mut self,
        step: usize,
        fault: &Fault,
        host: &Host,
        effect: impl FnOnce(&Processes),
    ) -> Result<(), Missed> {
        let index = self.host(host)?;
        let children = self.children(index)?;
        let (target, nature) = (Target::Host(index), Nature::Harmless);
        let number = self.declare(step, fault, target, None, FaultAction::Hold, nature);
        effect(&children);
        self.end_fault(number);
        Ok(())
    }

    /// Starts a fault that changes the conditions of the child processes of a host.
    fn change_children(
        &mut self,
        step: usize,
        fault: &Fault,
        host: &Host,
        effect: ChildFault,
        lasts: Option<Duration>,
    ) -> Result<(), Missed> {
        let index = self.host(host)?;
        self.children(index)?;
        let (target, kind) = (Target::Host(index), FaultAction::Children(effect));
        self.lasting(step, fault, target, None, kind, Nature::Slows, lasts)?;
        self.update_children(index);
        Ok(())
    }

    fn children(&self, host: HostIx) -> Result<Processes, Missed> {
        let host = self.hosts.get(host);
        host.processes.clone().ok_or_else(|| format!("{} launches no processes", host.name))
    }

    /// Applies the active faults to the child processes of a host.
    fn update_children(&mut self, host: HostIx) {
        let Ok(children) = self.children(host) else { return };
        let effects: Vec<_> = self
            .faults
            .active
            .iter()
            .filter(|fault| fault.target == Target::Host(host))
            .filter_map(|fault| match fault.kind {
                FaultAction::Children(effect) => Some(effect),
                _ => None,
            })
            .collect();
        children.change_conditions(|conditions| {
            conditions.stopped = effects.contains(&ChildFault::Stop);
            conditions.slow = effects.iter().filter_map(|effect| effect.pause()).max();
            conditions.output_delay =
                effects.iter().filter_map(|effect| effect.output_delay()).max().unwrap_or_default();
        });
    }

    fn host(&self, name: &Host) -> Result<HostIx, Missed> {
        self.hosts.named(name).ok_or_else(|| format!("there is no host `{name}`"))
    }

    fn existing(&self, name: &Conn) -> Result<ConnIndex, Missed> {
        let host = self.host(&name.host)?;
        let found = self
            .conns
            .iter()
            .map(|(index, _)| index)
            .find(|index| self.conns.is_named(*index, host, name));
        let conn = found.ok_or_else(|| format!("{name} does not exist yet"))?;
        if self.conns.get(conn).dead || self.conns.get(conn).is_over() {
            return Err(format!("{name} is over"));
        }
        Ok(conn)
    }

    /// Returns a connection whose ends the world can close with an error.
    fn that_can_be_reported(&self, name: &Conn) -> Result<ConnIndex, Missed> {
        let conn = self.existing(name)?;
        match self.conns.get(conn).foreign {
            true => Err(format!(
                "{name} is for single connections, and turmoil hides its own sockets; use `blackhole` or `stall`"
            )),
            false => Ok(conn),
        }
    }

    /// Returns the target of a fault with a duration. `#last` means the connection that is the
    /// newest now.
    fn named(&self, name: &Conn) -> Result<Target, Missed> {
        let host = self.host(&name.host)?;
        Ok(match name.which {
            Which::Last => match self.conns.newest(host, name.label.as_deref()) {
                Some(conn) => Target::Conn(conn),
                None => Target::Named(host, Conn { which: Which::Number(1), ..name.clone() }),
            },
            _ => Target::Named(host, name.clone()),
        })
    }

    fn place(&self, place: &LinkPlace) -> Result<Target, Missed> {
        match place {
            LinkPlace::Conn(conn) => self.named(conn),
            LinkPlace::Link(a, b) => Ok(Target::Link(self.host(a)?, self.host(b)?)),
        }
    }

    /// Records the start of a fault, and returns the number of the fault.
    pub(super) fn declare(
        &mut self,
        step: usize,
        fault: &Fault,
        target: Target,
        toward: Option<HostIx>,
        kind: FaultAction,
        nature: Nature,
    ) -> usize {
        let number = self.faults.begun;
        self.faults.begun += 1;
        let (scope, in_flight) = (Box::new(self.scope(&target)), self.in_flight(&target));
        self.faults.active.push(ActiveFault {
            number,
            target,
            toward,
            kind,
            until: self.healed_from(),
        });
        self.record(
            None,
            EventKind::FaultBegan {
                fault: number,
                step,
                what: Box::new(fault.clone()),
                scope,
                nature,
                in_flight,
            },
        );
        number
    }

    /// Returns the number of payload bytes in flight within this target.
    fn in_flight(&self, target: &Target) -> u32 {
        let on_the_way = self
            .queue
            .packets()
            .filter(|(conn, _)| target.holds(&self.conns, *conn))
            .map(|(_, tcp)| tcp.payload.len());
        let conns = self.conns.iter().filter(|(conn, _)| target.holds(&self.conns, *conn));
        let held = conns
            .flat_map(|(_, conn)| conn.directions.iter().map(|direction| direction.held.bytes()));
        on_the_way.chain(held).sum::<usize>().try_into().unwrap_or(u32::MAX)
    }

    fn scope(&self, target: &Target) -> Scope {
        let name = |host: &HostIx| self.hosts.get(*host).name.clone();
        match target {
            Target::Host(host) => Scope { hosts: vec![name(host)], ..Scope::default() },
            Target::Link(a, b) => Scope { links: vec![(name(a), name(b))], ..Scope::default() },
            Target::Conn(_) | Target::Named(..) => Scope {
                conns: self
                    .conns
                    .indices()
                    .filter(|conn| target.holds(&self.conns, *conn))
                    .collect(),
                ..Scope::default()
            },
        }
    }

    #[allow(clippy::too_many_arguments)] // the columns of one row of the fault table
    fn lasting(
        &mut self,
        step: usize,
        fault: &Fault,
        target: Target,
        toward: Option<&Host>,
        kind: FaultAction,
        nature: Nature,
        lasts: Option<Duration>,
    ) -> Result<(), Missed> {
        let toward = toward.map(|host| self.host(host)).transpose()?;
        let number = self.declare(step, fault, target, toward, kind, nature);
        self.expire_after(number, lasts);
        Ok(())
    }

    /// Starts a fault that refuses, hangs or closes new connections to a host. Open connections are
    /// not affected.
    fn affect_new_connections(
        &mut self,
        step: usize,
        fault: &Fault,
        host: &Host,
        kind: FaultAction,
        lasts: Option<Duration>,
    ) -> Result<(), Missed> {
        let host = self.host(host)?;
        let number = self.declare(step, fault, Target::Host(host), Some(host), kind, Nature::Kills);
        self.expire_after(number, lasts);
        Ok(())
    }

    fn expire_after(&mut self, number: usize, lasts: Option<Duration>) {
        let Some(lasts) = lasts else { return };
        let until = self.now() + lasts;
        for fault in self.faults.active.iter_mut().filter(|fault| fault.number == number) {
            fault.until = fault.until.into_iter().chain([until]).min();
        }
        self.schedule(until, 0, Due::Expire(number));
    }

    /// Handles that the time of a fault is up: held segments are retransmitted. The fault is over
    /// when these segments, and the segments that it delayed, have arrived.
    pub(super) fn expire(&mut self, number: usize) {
        let Some(at) = self.faults.active.iter().position(|fault| fault.number == number) else {
            return;
        };
        let fault = self.faults.active.remove(at);
        if let (Target::Host(host), FaultAction::Children(_)) = (&fault.target, fault.kind) {
            self.update_children(*host);
        }
        let arrived = self.release_held().max(self.now()).max(self.late_by(&fault));
        self.schedule(arrived, u32::MAX, Due::Settled(number));
    }

    /// Returns the arrival time of the last segment that a fault delayed.
    fn late_by(&self, fault: &ActiveFault) -> Time {
        if !matches!(
            fault.kind,
            FaultAction::Delay(_) | FaultAction::DelayClose(_) | FaultAction::Slow(_)
        ) {
            return Time::ZERO;
        }
        let touched =
            self.conns.iter().filter(|(index, _)| fault.target.holds(&self.conns, *index));
        let waited_for = touched.flat_map(|(_, conn)| {
            let sides =
                [Side::Client, Side::Server].into_iter().filter(|from| conn.is_waited_for(*from));
            sides.map(|from| conn.directions[from as usize].last_arrival)
        });
        waited_for.max().unwrap_or_default()
    }

    /// Returns the start of the healed tail, if the plan has one.
    pub(super) fn healed_from(&self) -> Option<Time> {
        let heal = self.plan.heal;
        (!heal.is_zero()).then(|| self.plan.horizon.saturating_sub(heal).into())
    }

    /// Returns whether the healed tail has begun.
    pub(super) fn is_healed(&self) -> bool {
        self.healed_from().is_some_and(|tail| self.now() >= tail)
    }

    /// Begins the healed tail: all active faults expire, held tasks continue, and hosts that are
    /// down restart. A connection that was cut stays dead.
    pub(super) fn heal(&mut self) {
        self.release_all();
        for host in
            self.hosts.indices().filter(|host| !self.hosts.get(*host).up).collect::<Vec<_>>()
        {
            self.restart(host, None);
        }
        let in_force = self.faults.active.iter().filter(|fault| fault.kind != FaultAction::Dead);
        let in_force: Vec<_> = in_force.map(|fault| fault.number).collect();
        in_force.into_iter().for_each(|fault| self.expire(fault));
    }

    /// Records that a fault is over.
    pub(super) fn end_fault(&mut self, number: usize) {
        self.faults.active.retain(|fault| fault.number != number);
        self.record(None, EventKind::FaultEnded { fault: number });
    }

    /// Cuts a connection: no segment passes any more, and each end detects the cut at its own time.
    fn cut(&mut self, conn: ConnIndex, number: usize) {
        let now = self.now();
        let state = self.conns.get_mut(conn);
        state.dead = true;
        for direction in &mut state.directions {
            direction.held.clear();
            direction.lost_since = None;
        }
        let learns = self.faults.learns.remove(&number).unwrap_or_default();
        let nobody = self.conns.get(conn).foreign;
        for side in [Side::Client, Side::Server] {
            let host = &self.hosts.get(self.conns.get(conn).host(side)).name;
            match learns.get(host).copied().unwrap_or(Learns::After(Duration::ZERO)) {
                Learns::After(_) if nobody => {}
                Learns::After(after) => self.schedule(now + after, 0, Due::Learn { conn, side }),
                Learns::Never => {}
            }
        }
        self.wake_driver();
        self.purge_if_over(conn);
    }

    /// Resets a connection from a middlebox: an RST goes to each end, after the segments that were
    /// already sent to it.
    fn reset(&mut self, conn: ConnIndex, toward: Option<HostIx>) {
        for side in [Side::Client, Side::Server] {
            let host = self.conns.get(conn).host(side);
            if toward.is_none_or(|toward| toward == host) {
                self.send_reset(conn, side.other());
            }
        }
    }

    /// Cuts the connections that have reached the limit of a `cut-after` fault.
    pub(super) fn cut_exhausted(&mut self) {
        for at in (0..self.faults.active.len()).rev() {
            let FaultAction::CutAfter(count) = self.faults.active[at].kind else { continue };
            let over = self.conns.indices().find(|conn| {
                let fault = &self.faults.active[at];
                fault.target.holds(&self.conns, *conn)
                    && !self.conns.get(*conn).dead
                    && self.cut_position(*conn, fault.toward, count).is_some_and(
                        |(side, allowed)| {
                            self.conns.get(*conn).directions[side as usize].delivered >= allowed
                        },
                    )
            });
            if let Some(conn) = over {
                let number = self.faults.active[at].number;
                self.faults.active[at].kind = FaultAction::Dead;
                self.faults.active[at].target = Target::Conn(conn);
                self.cut(conn, number);
            }
        }
    }

    /// Returns how many bytes of a direction a `cut-after` lets pass, as far as that is known yet,
    /// and which end sends them.
    fn cut_position(
        &self,
        conn: ConnIndex,
        toward: Option<HostIx>,
        count: TrafficCount,
    ) -> Option<(Side, u64)> {
        let state = self.conns.get(conn);
        let side = state.side_on(toward?)?.other();
        match count {
            TrafficCount::Bytes(bytes) => Some((side, bytes)),
            TrafficCount::Messages(0) => Some((side, 0)),
            TrafficCount::Messages(n) => {
                let message = state.directions[side as usize].messages.get(n as usize - 1)?;
                Some((side, message.end))
            }
        }
    }

    /// Returns how many more bytes from an end may arrive before a `cut-after` kills the
    /// connection.
    pub(super) fn allowance(&self, conn: ConnIndex, from: Side) -> Option<u64> {
        let delivered = self.conns.get(conn).directions[from as usize].delivered;
        self.faults
            .active
            .iter()
            .filter(|fault| fault.target.holds(&self.conns, conn))
            .filter_map(|fault| match fault.kind {
                FaultAction::CutAfter(count) => self.cut_position(conn, fault.toward, count),
                _ => None,
            })
            .filter(|(side, _)| *side == from)
            .map(|(_, allowed)| allowed.saturating_sub(delivered))
            .min()
    }

    /// Retransmits held segments that are no longer held by any fault. Returns the arrival time of
    /// the last one.
    pub(super) fn release_held(&mut self) -> Time {
        let mut last = self.now();
        for conn in self.conns.indices() {
            for from in [Side::Client, Side::Server] {
                let waited_for = self.conns.get(conn).is_waited_for(from);
                if let Some(arrival) = self.retransmit(conn, from).filter(|_| waited_for) {
                    last = last.max(arrival);
                }
            }
        }
        last
    }

    /// Handles that one end of a connection is closed. A fault that killed the connection is over
    /// when both ends are closed.
    pub(super) fn close_faults_of(&mut self, conn: ConnIndex) {
        if !self.conns.get(conn).is_over() {
            return;
        }
        let over: Vec<_> = self
            .faults
            .active
            .iter()
            .filter(|fault| fault.target == Target::Conn(conn) && fault.kind == FaultAction::Dead)
            .map(|fault| fault.number)
            .collect();
        over.into_iter().for_each(|number| self.end_fault(number));
    }

    /// Returns the combined effects of the active faults on a segment.
    pub(super) fn effects(&self, segment: link::Segment) -> link::Effects {
        let mut effects = link::effects(&self.faults.active, &self.conns, segment);
        // Segments that left a host before its power loss still arrive. Nothing reaches the host
        // while it is down.
        effects.blocked |=
            self.hosts.get(self.conns.get(segment.conn).host(segment.from.other())).dark;
        effects
    }
}

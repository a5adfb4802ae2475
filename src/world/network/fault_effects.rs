//! The effects of faults on connections, besides those of the [link model](super::link), and the ends of
//! faults.

use std::time::Duration;

use crate::history::{ConnIndex, EventKind, Scope, Side, Time};
use crate::schedule::fault::effect::{Effect, Place};
use crate::schedule::fault::segment::{Leaving, LinkEffects};
use crate::schedule::{Conn, Fault, Host, Learns, TrafficCount, Which};
use crate::world::thread::HostIx;

use super::SimNet;
use super::faults::{ActiveFault, FaultAction, NewFault, Target};
use super::link;
use super::queue::Due;

/// The reason why a fault had no effect.
pub(in crate::world) type Missed = String;

impl SimNet {
    /// Begins a fault of connections or links, for a step.
    pub fn begin(&mut self, step: usize, fault: &Fault) -> Result<(), Missed> {
        let new = |target, toward, kind| NewFault { step, fault, target, toward, kind };
        match fault.effect() {
            Effect::Cut { conn, learns } => {
                let conn = self.that_can_be_reported(conn)?;
                let number = self.declare(new(Target::Conn(conn), None, FaultAction::Dead));
                self.faults.learns.insert(number, learns.clone());
                self.cut(conn, number);
            }
            Effect::Reset { conn, toward } => {
                let conn = self.that_can_be_reported(conn)?;
                let toward = toward.map(|host| self.host(host)).transpose()?;
                self.declare(new(Target::Conn(conn), None, FaultAction::Dead));
                self.reset(conn, toward);
            }
            Effect::CutAfter { conn, toward, count, learns } => {
                let (target, toward) = (self.named(conn)?, self.host(toward)?);
                let number = self.declare(new(target, Some(toward), FaultAction::CutAfter(count)));
                self.faults.learns.insert(number, learns.clone());
                self.cut_exhausted();
            }
            Effect::Link { place, toward, lasts, .. } => {
                let target = self.place(place)?;
                let toward = toward.map(|host| self.host(host)).transpose()?;
                self.begin_lasting(new(target, toward, FaultAction::Link(fault.clone())), lasts);
            }
            Effect::Tamper { place, toward, how, messages, lasts } => {
                let (target, toward) = (self.place(place)?, self.host(toward)?);
                let action = FaultAction::Tamper(how, messages.unwrap_or(u64::MAX));
                let number = self.declare(new(target, Some(toward), action));
                self.expire_after(number, lasts);
                if messages == Some(0) {
                    self.end_fault(number);
                }
            }
            _ => return Err("it is no fault of a connection or link".into()),
        }
        Ok(())
    }

    /// Returns the host with this name.
    pub fn host(&self, name: &Host) -> Result<HostIx, Missed> {
        self.directory.named(name).ok_or_else(|| format!("there is no host `{name}`"))
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
    pub fn that_can_be_reported(&self, name: &Conn) -> Result<ConnIndex, Missed> {
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
    pub fn named(&self, name: &Conn) -> Result<Target, Missed> {
        let host = self.host(&name.host)?;
        Ok(match name.which {
            Which::Last => match self.conns.newest(host, name.label.as_deref()) {
                Some(conn) => Target::Conn(conn),
                None => Target::Named(host, Conn { which: Which::Number(1), ..name.clone() }),
            },
            _ => Target::Named(host, name.clone()),
        })
    }

    fn place(&self, place: Place<'_>) -> Result<Target, Missed> {
        Ok(match place {
            Place::Conn(conn) => self.named(conn)?,
            Place::Link(a, b) => Target::Link(self.host(a)?, self.host(b)?),
            Place::Host(host) => Target::Host(self.host(host)?),
        })
    }

    /// Records the start of a fault, and returns the number of the fault.
    pub fn declare(&mut self, new: NewFault<'_>) -> usize {
        let NewFault { step, fault, target, toward, kind } = new;
        let number = self.faults.begun;
        self.faults.begun += 1;
        let (scope, in_flight) = (Box::new(self.scope(&target)), self.in_flight(&target));
        let began = self.now();
        self.faults.active.push(ActiveFault {
            number,
            target,
            toward,
            kind,
            began,
            until: self.settings.healed_from,
        });
        self.record(
            None,
            EventKind::FaultBegan {
                fault: number,
                step,
                what: Box::new(fault.clone()),
                scope,
                nature: fault.effect().nature(),
                in_flight,
            },
        );
        number
    }

    /// Returns the number of payload bytes in flight within this target.
    fn in_flight(&self, target: &Target) -> u32 {
        let on_the_way = self
            .timeline
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
        let name = |host: &HostIx| self.directory.name(*host).clone();
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

    /// Starts a fault that expires after this time, if one is given.
    pub fn begin_lasting(&mut self, new: NewFault<'_>, lasts: Option<Duration>) {
        let number = self.declare(new);
        self.expire_after(number, lasts);
    }

    fn expire_after(&mut self, number: usize, lasts: Option<Duration>) {
        let Some(lasts) = lasts else { return };
        let until = self.now() + lasts;
        for fault in self.faults.active.iter_mut().filter(|fault| fault.number == number) {
            fault.until = fault.until.into_iter().chain([until]).min();
        }
        self.schedule(until, 0, Due::Expire(number));
    }

    /// Takes out a fault whose time is up.
    pub fn take_fault(&mut self, number: usize) -> Option<ActiveFault> {
        let at = self.faults.active.iter().position(|fault| fault.number == number)?;
        Some(self.faults.active.remove(at))
    }

    /// Handles that the time of a fault is up: held segments are retransmitted. The fault is over
    /// when these segments, and the segments that it delayed, have arrived.
    pub fn expire(&mut self, fault: &ActiveFault) {
        self.release_messages(fault);
        let arrived = self.release_held().max(self.now()).max(self.late_by(fault));
        self.schedule(arrived, u32::MAX, Due::Settled(fault.number));
    }

    /// Returns the arrival time of the last segment that a fault delayed.
    fn late_by(&self, fault: &ActiveFault) -> Time {
        if !fault.delays() {
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

    /// Records that a fault is over.
    pub fn end_fault(&mut self, number: usize) {
        if let Some(fault) = self.take_fault(number) {
            self.release_messages(&fault);
        }
        self.record(None, EventKind::FaultEnded { fault: number });
    }

    /// Cuts a connection: no segment passes any more, and each end detects the cut at its own time.
    pub fn cut(&mut self, conn: ConnIndex, number: usize) {
        let now = self.now();
        let state = self.conns.get_mut(conn);
        state.dead = true;
        for direction in &mut state.directions {
            direction.held.clear();
            direction.lost_since = None;
        }
        let learns = self.faults.learns.remove(&number).unwrap_or_default();
        let foreign = self.conns.get(conn).foreign;
        for side in [Side::Client, Side::Server] {
            let host = &self.directory.name(self.conns.get(conn).host(side));
            match learns.get(host).copied().unwrap_or(Learns::After(Duration::ZERO)) {
                Learns::After(_) if foreign => {}
                Learns::After(after) => self.schedule(now + after, 0, Due::Learn { conn, side }),
                Learns::Never => {}
            }
        }
        self.timeline.wake_driver();
        self.purge_if_over(conn);
    }

    /// Resets a connection from a middlebox: an RST goes to each end, after the segments that were
    /// already sent to it.
    pub fn reset(&mut self, conn: ConnIndex, toward: Option<HostIx>) {
        for side in [Side::Client, Side::Server] {
            let host = self.conns.get(conn).host(side);
            if toward.is_none_or(|toward| toward == host) {
                self.send_reset(conn, side.other());
            }
        }
    }

    /// Cuts the connections that have reached the limit of a `cut-after` fault.
    pub fn cut_exhausted(&mut self) {
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
    pub fn allowance(&self, conn: ConnIndex, from: Side) -> Option<u64> {
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

    /// Handles that one end of a connection is closed. A fault that killed the connection is over
    /// when both ends are closed.
    pub fn close_faults_of(&mut self, conn: ConnIndex) {
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
    pub fn effects(&self, segment: link::Segment) -> LinkEffects {
        self.effects_on(segment, None)
    }

    /// Returns the combined effects of the active faults on a segment that leaves now.
    pub fn effects_on_leaving(&self, segment: link::Segment) -> LinkEffects {
        let (conn, from) = (segment.conn, segment.from);
        let number = self.conns.get(conn).directions[from as usize].sent + 1;
        let leaving = Leaving {
            now: self.now().since(Time::ZERO),
            since: Duration::ZERO,
            until: None,
            seed: self.settings.seed,
            key: [conn.0 as u64, from as u64, number],
        };
        self.effects_on(segment, Some(leaving))
    }

    fn effects_on(&self, segment: link::Segment, leaving: Option<Leaving>) -> LinkEffects {
        let mut effects = link::effects(&self.faults.active, &self.conns, segment, leaving);
        // Segments that left a host before its power loss still arrive. Nothing reaches the host
        // while it is down.
        effects.blocked |=
            self.directory.is_dark(self.conns.get(segment.conn).host(segment.from.other()));
        effects
    }
}

//! How each fault of the schedule begins.
//!
//! The [network](crate::world::network::fault_effects) carries out the faults of connections and links. This
//! module carries out those of hosts and their child processes.

use crate::schedule::Fault;
use crate::schedule::fault::effect::{ChildEffect, ChildFault, Effect};

use crate::world::network::fault_effects::Missed;
use crate::world::network::faults::{FaultAction, NewFault, Target};
use crate::world::process::Processes;
use crate::world::state::World;
use crate::world::thread::HostIx;

impl World {
    /// Begins a fault for a step.
    pub(in crate::world) fn begin(&mut self, step: usize, fault: &Fault) -> Result<(), Missed> {
        if self.net.is_healed() && !matches!(fault.effect(), Effect::Restart(_)) {
            return Err("the healed tail has begun".into());
        }
        match fault.effect() {
            Effect::Death(death) => self.take_down(step, fault, death),
            Effect::Restart(host) => {
                let host = self.net.host(host)?;
                if self.hosts.get(host).up {
                    return Err(format!("{} is up", self.net.directory.name(host)));
                }
                self.restart(host, None);
                Ok(())
            }
            Effect::ClockJump { host, by_ms } => {
                let host = self.net.host(host)?;
                let number = self.net.declare(on_host(step, fault, host, FaultAction::Nothing));
                self.hosts.get_mut(host).clock_off += by_ms;
                self.net.end_fault(number);
                Ok(())
            }
            Effect::Children { host, what } => {
                let host = self.net.host(host)?;
                self.affect_children(step, fault, host, what)
            }
            Effect::Hold(_) => Err("no task reached the point".into()),
            Effect::Link { .. }
            | Effect::Tamper { .. }
            | Effect::Cut { .. }
            | Effect::CutAfter { .. }
            | Effect::Reset { .. } => self.net.begin(step, fault),
        }
    }

    /// Begins a fault of the child processes of a host. It is over at once, or lasts.
    fn affect_children(
        &mut self,
        step: usize,
        fault: &Fault,
        host: HostIx,
        what: ChildEffect,
    ) -> Result<(), Missed> {
        let children = self.children(host)?;
        if let ChildEffect::Change(change, lasts) = what {
            let new = on_host(step, fault, host, FaultAction::Children(change));
            self.net.begin_lasting(new, lasts);
            self.update_children(host);
            return Ok(());
        }
        let number = self.net.declare(on_host(step, fault, host, FaultAction::Nothing));
        match what {
            ChildEffect::ClosePipe(pipe) => {
                children.change_conditions(|conditions| conditions.closed.push(pipe));
            }
            _ => children.kill_all(),
        }
        self.net.end_fault(number);
        Ok(())
    }

    fn children(&self, host: HostIx) -> Result<Processes, Missed> {
        let processes = self.hosts.get(host).processes.clone();
        processes.ok_or_else(|| format!("{} launches no processes", self.net.directory.name(host)))
    }

    /// Applies the active faults to the child processes of a host.
    fn update_children(&mut self, host: HostIx) {
        let Ok(children) = self.children(host) else { return };
        let effects: Vec<_> = self
            .net
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
            let (pause, delay) = (
                effects.iter().filter_map(|effect| match effect {
                    ChildFault::Slow(by) => Some(*by),
                    _ => None,
                }),
                effects.iter().filter_map(|effect| match effect {
                    ChildFault::DelayOutput(by) => Some(*by),
                    _ => None,
                }),
            );
            conditions.slow = pause.max();
            conditions.output_delay = delay.max().unwrap_or_default();
        });
    }

    /// Handles that the time of a fault is up.
    pub(in crate::world) fn expire(&mut self, number: usize) {
        let Some(fault) = self.net.take_fault(number) else { return };
        if let (Target::Host(host), FaultAction::Children(_)) = (&fault.target, &fault.kind) {
            self.update_children(*host);
        }
        self.net.expire(&fault);
    }

    /// Begins the healed tail: all active faults expire, held tasks continue, and hosts that are
    /// down restart. A connection that was cut stays dead.
    pub(in crate::world) fn heal(&mut self) {
        self.release_all();
        for host in self
            .net
            .directory
            .indices()
            .filter(|host| !self.hosts.get(*host).up)
            .collect::<Vec<_>>()
        {
            self.restart(host, None);
        }
        let in_force =
            self.net.faults.active.iter().filter(|fault| fault.kind != FaultAction::Dead);
        let in_force: Vec<_> = in_force.map(|fault| fault.number).collect();
        in_force.into_iter().for_each(|fault| self.expire(fault));
    }
}

/// Returns a fault of a host.
fn on_host(step: usize, fault: &Fault, host: HostIx, kind: FaultAction) -> NewFault<'_> {
    NewFault { step, fault, target: Target::Host(host), toward: None, kind }
}

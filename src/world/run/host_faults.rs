//! How each fault of the schedule begins.
//!
//! The [network](crate::world::network::fault_effects) carries out the faults of connections and links. This
//! module carries out those of hosts and their child processes.

use std::time::Duration;

use crate::history::Nature;
use crate::schedule::{Fault, Host, Orphans, Unsynced};

use crate::world::network::fault_effects::Missed;
use crate::world::network::faults::{ChildFault, FaultAction, NewFault, Target};
use crate::world::process::Processes;
use crate::world::run::lifecycles::Death;
use crate::world::state::World;
use crate::world::thread::HostIx;

impl World {
    /// Begins a fault for a step.
    pub(in crate::world) fn begin(&mut self, step: usize, fault: &Fault) -> Result<(), Missed> {
        if self.net.is_healed() && !matches!(fault, Fault::Restart { .. }) {
            return Err("the healed tail has begun".into());
        }
        match fault {
            Fault::Crash { host, lasts, processes: orphans } => {
                let (lasts, unsynced) = (*lasts, Unsynced::Kept);
                let death = Death { host, lasts, kernel: false, orphans: *orphans, unsynced };
                self.take_down(step, fault, death)
            }
            Fault::PowerLoss { host, unsynced, lasts } => {
                let (lasts, unsynced) = (*lasts, *unsynced);
                let death = Death { host, lasts, kernel: true, orphans: Orphans::Die, unsynced };
                self.take_down(step, fault, death)
            }
            Fault::Restart { host } => {
                let host = self.net.host(host)?;
                if self.hosts.get(host).up {
                    return Err(format!("{} is up", self.net.directory.name(host)));
                }
                self.restart(host, None);
                Ok(())
            }
            Fault::ClockJump { host, by_ms } => {
                let host = self.net.host(host)?;
                let number = self.net.declare(on_host(step, fault, host));
                self.hosts.get_mut(host).clock_off += by_ms;
                self.net.end_fault(number);
                Ok(())
            }
            Fault::KillChildren { host } => {
                self.affect_children(step, fault, host, |children| children.kill_all())
            }
            Fault::ClosePipe { host, pipe } => {
                self.affect_children(step, fault, host, |children| {
                    children.change_conditions(|conditions| conditions.closed.push(*pipe));
                })
            }
            Fault::StopChildren { host, lasts } => {
                self.change_children(step, fault, host, ChildFault::Stop, *lasts)
            }
            Fault::SlowChildren { host, by, lasts } => {
                self.change_children(step, fault, host, ChildFault::Slow(*by), *lasts)
            }
            Fault::DelayOutput { host, by, lasts } => {
                self.change_children(step, fault, host, ChildFault::DelayOutput(*by), *lasts)
            }
            Fault::Hold { .. } => Err("no task reached the point".into()),
            _ => self.net.begin(step, fault),
        }
    }

    /// Starts and ends a fault that affects the child processes of a host once.
    fn affect_children(
        &mut self,
        step: usize,
        fault: &Fault,
        host: &Host,
        effect: impl FnOnce(&Processes),
    ) -> Result<(), Missed> {
        let index = self.net.host(host)?;
        let children = self.children(index)?;
        let number = self.net.declare(on_host(step, fault, index));
        effect(&children);
        self.net.end_fault(number);
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
        let index = self.net.host(host)?;
        self.children(index)?;
        let (kind, nature) = (FaultAction::Children(effect), Nature::Slows);
        let new = NewFault { kind, nature, ..on_host(step, fault, index) };
        self.net.begin_lasting(new, lasts);
        self.update_children(index);
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
            conditions.slow = effects.iter().filter_map(|effect| effect.pause()).max();
            conditions.output_delay =
                effects.iter().filter_map(|effect| effect.output_delay()).max().unwrap_or_default();
        });
    }

    /// Handles that the time of a fault is up.
    pub(in crate::world) fn expire(&mut self, number: usize) {
        let Some(fault) = self.net.take_fault(number) else { return };
        if let (Target::Host(host), FaultAction::Children(_)) = (&fault.target, fault.kind) {
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

/// Returns a fault on a host that does nothing by itself.
fn on_host<'f>(step: usize, fault: &'f Fault, host: HostIx) -> NewFault<'f> {
    let (target, kind, nature) = (Target::Host(host), FaultAction::Hold, Nature::Harmless);
    NewFault { step, fault, target, toward: None, kind, nature }
}

//! Running the schedule: steps at their times, triggers, and tasks held at points.

use std::sync::Arc;

use crate::history::{Call, EventKind};
use crate::net::ConnId;
use crate::probe::Hold;
use crate::schedule::fault::effect::Effect;
use crate::schedule::{
    Action, Fault, HoldEnd, MilestoneValue, Operation, Trigger, TriggerMark, When,
};

use crate::world::hosts::Role;
use crate::world::network::faults::{FaultAction, NewFault, Target};
use crate::world::network::queue::Due;
use crate::world::run::notes::CONN;
use crate::world::state::{Phase, World};
use crate::world::thread::HostIx;
use crate::world::waiting::{Gate, HeldTask, Reached};

impl World {
    /// Schedules every step with a time, and adds every step with a trigger to the waiting list.
    pub(in crate::world) fn arm(&mut self) {
        let plan = self.plan.clone();
        if let Some(tail) = self.net.settings.healed_from {
            self.net.schedule(tail, 0, Due::Heal);
        }
        for (index, step) in plan.steps.iter().enumerate() {
            match &step.when {
                When::At(at) => self.net.schedule((*at).into(), 0, Due::Step(index)),
                When::After(_) => self.steps.waiting.push((index, 0)),
            }
        }
    }

    /// Runs a step.
    pub(in crate::world) fn step(&mut self, index: usize) {
        let plan = self.plan.clone();
        let missed = match &plan.steps[index].action {
            Action::Operation(operation) => {
                self.net.record(None, EventKind::Stepped { step: index, note: None });
                self.send_operation(operation)
            }
            Action::Fault(fault) => {
                self.net.record(None, EventKind::Stepped { step: index, note: None });
                self.begin(index, fault)
            }
        };
        if let Err(note) = missed {
            self.net.record(None, EventKind::Stepped { step: index, note: Some(note) });
        }
    }

    /// Sends an operation to the user of a client.
    fn send_operation(&mut self, operation: &Operation) -> Result<(), String> {
        let host = self
            .net
            .directory
            .named(&operation.client)
            .filter(|host| self.hosts.get(*host).role == Role::Client);
        let host = host.ok_or_else(|| format!("no client `{}`", operation.client))?;
        let class = self.subject.check(operation).map_err(|error| error.to_string())?;
        if self.phase >= Phase::Closing {
            return Err("the clients are closed".into());
        }
        let user =
            self.users.iter().find(|(client, _)| *client == host).map(|(_, user)| user.clone());
        let user = user.filter(|user| self.hosts.get(host).up && !user.is_closed());
        let user = user.ok_or_else(|| format!("{} is down", operation.client))?;
        self.calls += 1;
        let call = Call(self.calls);
        self.net.record(
            Some(host),
            EventKind::Asked { call, operation: Box::new(operation.clone()), class },
        );
        user.send((call, operation.clone())).map_err(|_| format!("{} is down", operation.client))
    }

    /// Returns whether a trigger matches a milestone or point that was reached on a host.
    fn matches(
        &self,
        trigger: &Trigger,
        point: bool,
        host: HostIx,
        name: &str,
        fields: &[(&'static str, MilestoneValue)],
    ) -> bool {
        let is_kind = matches!(trigger.mark, TriggerMark::Point(_)) == point;
        let has = |(wanted, value): (&String, &MilestoneValue)| {
            fields.iter().any(|(name, is)| name == wanted && is == value)
        };
        is_kind
            && trigger.mark.name() == name
            && trigger.host.as_ref().is_none_or(|wanted| *wanted == *self.net.directory.name(host))
            && trigger.fields.iter().all(has)
            && trigger.conn.as_ref().is_none_or(|wanted| {
                let index =
                    MilestoneValue::number(fields, CONN).and_then(|n| self.net.index_of(ConnId(n)));
                let of = self.net.directory.named(&wanted.host);
                index.zip(of).is_some_and(|(index, of)| self.net.conns.is_named(index, of, wanted))
            })
    }

    /// Handles a milestone or point that was reached: runs the steps that it triggers, now or after
    /// their delay. Returns whether a step ran now.
    pub(in crate::world) fn reached(&mut self, reached: &Reached) -> bool {
        let Reached { is_point: point, host, name, fields } = reached;
        let (point, host) = (*point, *host);
        let mut acted = self.release_matching(point, host, name, fields);
        let plan = self.plan.clone();
        let mut ready = Vec::new();
        for at in 0..self.steps.waiting.len() {
            let (index, seen) = self.steps.waiting[at];
            let When::After(trigger) = &plan.steps[index].when else { continue };
            // Holds take effect at the point itself, not at the end of the turn.
            let holds = hold_of(&plan.steps[index].action).is_some();
            if !holds && self.matches(trigger, point, host, name, fields) {
                self.steps.waiting[at].1 = seen + 1;
                if seen + 1 == trigger.nth {
                    ready.push((index, trigger.delay));
                }
            }
        }
        for (index, delay) in ready {
            self.steps.waiting.retain(|(waiting, _)| *waiting != index);
            if delay.is_zero() {
                self.step(index);
                acted = true;
            } else {
                self.net.schedule(self.net.now() + delay, 0, Due::Step(index));
            }
        }
        acted
    }

    /// Returns the step that holds a task at this point, if there is one.
    pub(in crate::world) fn holds(
        &mut self,
        host: HostIx,
        name: &str,
        fields: &[(&'static str, MilestoneValue)],
    ) -> Option<usize> {
        if self.steps.waiting.is_empty() || self.net.is_healed() {
            return None;
        }
        let plan = self.plan.clone();
        let mut holding = None;
        for at in 0..self.steps.waiting.len() {
            let (index, seen) = self.steps.waiting[at];
            let (When::After(trigger), Some(_)) =
                (&plan.steps[index].when, hold_of(&plan.steps[index].action))
            else {
                continue;
            };
            if self.matches(trigger, true, host, name, fields) {
                self.steps.waiting[at].1 = seen + 1;
                if seen + 1 == trigger.nth {
                    holding = holding.or(Some(index));
                }
            }
        }
        self.steps.waiting.retain(|(waiting, _)| Some(*waiting) != holding);
        holding
    }

    /// Holds a task at a point, for a step.
    pub(in crate::world) fn hold(&mut self, step: usize, host: HostIx, name: &'static str) -> Hold {
        let plan = self.plan.clone();
        let Some((fault, end)) = hold_of(&plan.steps[step].action) else {
            return Box::pin(std::future::ready(()));
        };
        self.net.record(None, EventKind::Stepped { step, note: None });
        let (target, kind) = (Target::Host(host), FaultAction::Nothing);
        let new = NewFault { step, fault, target, toward: None, kind };
        let fault = self.net.declare(new);
        let (until, at_most) = match end {
            HoldEnd::After(lasts) => (None, *lasts),
            HoldEnd::Until { trigger, at_most } => (Some(((**trigger).clone(), 0)), *at_most),
        };
        self.net.schedule(self.net.now() + at_most, 0, Due::Release(fault));
        let gate = Arc::new(Gate::default());
        self.steps.holds.push(HeldTask { fault, host, name, until, gate: gate.clone() });
        Box::pin(gate.passed())
    }

    /// Releases the tasks that were held until this milestone or point was reached. Returns whether
    /// any was released at once.
    fn release_matching(
        &mut self,
        point: bool,
        host: HostIx,
        name: &str,
        fields: &[(&'static str, MilestoneValue)],
    ) -> bool {
        let mut at_once = false;
        let held: Vec<_> =
            self.steps.holds.iter().map(|held| (held.fault, held.until.clone())).collect();
        for (fault, until) in held {
            let Some((trigger, seen)) =
                until.filter(|(trigger, _)| self.matches(trigger, point, host, name, fields))
            else {
                continue;
            };
            let nth = trigger.nth;
            let delay = trigger.delay;
            if let Some(held) = self.steps.holds.iter_mut().find(|held| held.fault == fault) {
                held.until = Some((trigger, seen + 1));
            }
            if seen + 1 != nth {
                continue;
            }
            if delay.is_zero() {
                self.release(fault);
                at_once = true;
            } else {
                self.net.schedule(self.net.now() + delay, 0, Due::Release(fault));
            }
        }
        at_once
    }

    /// Releases a held task.
    pub(in crate::world) fn release(&mut self, fault: usize) {
        let Some(at) = self.steps.holds.iter().position(|held| held.fault == fault) else { return };
        let held = self.steps.holds.remove(at);
        self.net.record(Some(held.host), EventKind::Released { name: held.name });
        held.gate.open();
        self.net.end_fault(fault);
    }

    /// Releases all held tasks.
    pub(in crate::world) fn release_all(&mut self) {
        let held: Vec<_> = self.steps.holds.iter().map(|held| held.fault).collect();
        held.into_iter().for_each(|fault| self.release(fault));
    }

    /// Drops the held tasks of a host that dies.
    pub(in crate::world) fn drop_holds_of(&mut self, host: HostIx) {
        let held: Vec<_> = self
            .steps
            .holds
            .iter()
            .filter(|held| held.host == host)
            .map(|held| held.fault)
            .collect();
        self.steps.holds.retain(|held| held.host != host);
        held.into_iter().for_each(|fault| self.net.end_fault(fault));
    }
}

/// Returns the fault of an action that holds a task, and the end of the hold.
fn hold_of(action: &Action) -> Option<(&Fault, &HoldEnd)> {
    let Action::Fault(fault) = action else { return None };
    match fault.effect() {
        Effect::Hold(end) => Some((fault, end)),
        _ => None,
    }
}

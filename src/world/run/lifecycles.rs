//! The lifecycles of hosts: starting them, taking them down, and restarting them.
//!
//! A host dies in these steps:
//!
//! 1. On a `power-loss` its links are cut off. On a `crash` they are not.
//! 2. Its root is dropped.
//! 3. Its tasks get one turn to drop. Their milestones and effects are ignored.
//! 4. Its connections that are still held by a user are reset.
//! 5. Its simulated processes are killed, unless the step lets them survive. Those of product code are
//!    dropped in step 2, together with the root.
//!
//! Tasks that outlive their host are a leak of the subject. A restarted host has a fresh operating
//! system: the surviving processes do not belong to it.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::unbounded_channel;

use crate::history::{ConnEnd, ConnIndex, EventKind, ProcessOutcome, Side, Stream};
use crate::net::Endpoint;
use crate::process::KILL;
use crate::schedule::fault::effect::Death;
use crate::schedule::profile::choice::below;
use crate::schedule::{Fault, Orphans, Unsynced, keyed};
use crate::subject::{HostContext, Recorder, Root};

use crate::world::hosts::Role;
use crate::world::network::faults::{ActiveFault, FaultAction, NewFault, Target};
use crate::world::network::queue::Due;
use crate::world::process::Processes;
use crate::world::product::outside::{self, WorldJournal};
use crate::world::product::stream::reset_by_hand;
use crate::world::puppet;
use crate::world::state::World;
use crate::world::thread::{self, HostIx};

impl World {
    /// Starts all hosts: the outside world, then the servers, then the clients.
    pub(in crate::world) fn start_all(&mut self) {
        if let (Some(outside), Some(root)) = (self.hosts.outside(), self.outside.take()) {
            self.net.stack.start(outside, root);
        }
        self.net.directory.indices().for_each(|host| self.start(host));
    }

    fn start(&mut self, host: HostIx) {
        let state = self.hosts.get_mut(host);
        state.unix = state.unix.of_new_process();
        let root = self.root(host);
        let seed = self.net.settings.seed;
        if let Some(processes) = &self.hosts.get(host).processes {
            processes.on_host_up();
        }
        let state = self.hosts.get_mut(host);
        (state.up, state.starts) = (true, state.starts + 1);
        state.entropy = keyed::keyed(seed, "entropy", &[host.0 as u64, state.starts]);
        self.net.directory.set_dark(host, false);
        self.net.record(Some(host), EventKind::Started);
        self.net.stack.start(host, root);
    }

    /// Creates the root of a host.
    fn root(&mut self, host: HostIx) -> Root {
        let state = self.hosts.get(host);
        let name = self.net.directory.name(host).clone();
        let (role, env) = (state.role, outside::env(host, state));
        let disk = state.disk.clone();
        if let Some(puppet) = self.plan.puppets.get(&name).cloned() {
            let port = self.subject.port();
            return match role {
                Role::Client => {
                    let server = self.subject.servers().first().copied().unwrap_or("server");
                    Box::pin(puppet::connect(
                        env.net,
                        Endpoint::tcp(server, port),
                        puppet,
                        reset_by_hand,
                    ))
                }
                _ => Box::pin(puppet::serve(
                    env.net,
                    Endpoint::tcp(name.as_str(), port),
                    puppet,
                    reset_by_hand,
                )),
            };
        }
        let limits = self.plan.limits.over(self.subject.limits());
        let record = Recorder::new(name.clone(), Arc::new(WorldJournal));
        let context = HostContext { name, env, limits, plan: self.plan.clone(), record, disk };
        match role {
            Role::Client => {
                let (user, operations) = unbounded_channel();
                self.users.retain(|(client, _)| *client != host);
                self.users.push((host, user));
                self.subject.clone().drive(context, operations)
            }
            _ => self.subject.clone().serve(context),
        }
    }

    /// Takes a host down for a step: a `crash` or a `power-loss`.
    pub(in crate::world) fn take_down(
        &mut self,
        step: usize,
        fault: &Fault,
        death: Death<'_>,
    ) -> Result<(), String> {
        let Death { host, lasts, kernel, orphans, unsynced } = death;
        let index = self.net.host(host)?;
        if !self.hosts.get(index).up {
            return Err(format!("{host} is down"));
        }
        let (target, kind) = (Target::Host(index), FaultAction::Dead);
        let number = self.net.declare(NewFault { step, fault, target, toward: None, kind });
        if let Some(lasts) = lasts {
            self.net.schedule(self.net.now() + lasts, 0, Due::Restart(index, Some(number)));
        }
        self.net.record(Some(index), EventKind::Died { kernel });
        self.drop_holds_of(index);
        self.gauges.iter_mut().for_each(|gauge| gauge.dies_with(index));
        self.users.retain(|(client, _)| *client != index);
        let state = self.hosts.get_mut(index);
        self.net.directory.set_dark(index, kernel);
        (state.up, state.orphans, state.unsynced) = (false, orphans, unsynced);
        state.unix.kill();
        let ended = state.processes.as_ref().map(Processes::on_host_down).unwrap_or_default();
        for process in ended {
            let stream = Stream::from(process.as_str());
            self.net.record(
                Some(index),
                EventKind::Ended { stream, outcome: ProcessOutcome::Signal(KILL).into() },
            );
        }
        thread::mark_dying(index);
        self.net.stack.stop(index);
        self.net.timeline.wake_driver();
        Ok(())
    }

    /// Finishes the deaths of hosts, after the turn in which their tasks were dropped.
    pub(in crate::world) fn finish_host_deaths(&mut self) {
        for host in thread::take_dead_hosts() {
            let tasks = thread::tasks_of(host);
            if tasks > 0 {
                self.net.record(Some(host), EventKind::Outlived { tasks });
            }
            for (conn, side) in self.ends_on(host) {
                self.end_of_dead_host(conn, side);
            }
            let state = self.hosts.get(host);
            if let (Some(processes), Orphans::Die) = (&state.processes, state.orphans) {
                processes.kill_all();
            }
            if state.unsynced == Unsynced::Lost {
                let key = [host.0 as u64, state.starts];
                let mut draws = keyed::keyed(self.net.settings.seed, "unsynced", &key);
                state.files.lose_unsynced(|bound| below(bound, &mut draws));
            }
        }
    }

    fn ends_on(&self, host: HostIx) -> Vec<(ConnIndex, Side)> {
        let ends = |(index, conn): (ConnIndex, &crate::world::network::conns::ConnState)| {
            conn.side_on(host).map(|side| (index, side))
        };
        self.net.conns.iter().filter_map(ends).collect()
    }

    /// Handles that the host of an end has died. If a user still holds the end, it gets an error.
    /// After a power loss, the kernel forgets the connection. A SYN that has not arrived is not
    /// affected: the next incarnation of the host may accept it.
    fn end_of_dead_host(&mut self, conn: ConnIndex, side: Side) {
        if side == Side::Server && self.net.conns.get(conn).is_syn_in_flight() {
            return;
        }
        let dark = self.net.directory.is_dark(self.net.conns.get(conn).host(side));
        let held = self.net.conns.get(conn).end(side).lock().socket.is_some();
        if held && !dark {
            self.net.send_reset(conn, side);
        }
        if dark {
            // The data that the kernel would have retransmitted is lost with the kernel.
            let direction = self.net.conns.get_mut(conn).from(side);
            direction.held.clear();
            direction.unsent.clear();
            direction.lost_since = None;
        }
        if held || dark {
            self.net.kill(conn, side, ErrorKind::ConnectionReset);
            self.net.conns.get(conn).end(side).lock().dropped = true;
        }
        self.net.record_conn_end(conn, side, ConnEnd::Closed);
    }

    /// Restarts a host that is down. `fault` is the fault that took it down, if known.
    pub(in crate::world) fn restart(&mut self, host: HostIx, fault: Option<usize>) {
        let is_over = |fault| !self.net.faults.active.iter().any(|active| active.number == fault);
        if self.hosts.get(host).up || fault.is_some_and(is_over) {
            return;
        }
        if thread::is_dying(host) {
            // Its tasks have not yet had their turn to drop.
            return self.net.schedule(
                self.net.now() + Duration::from_millis(1),
                0,
                Due::Restart(host, fault),
            );
        }
        let down = |active: &ActiveFault| {
            active.target == Target::Host(host) && active.kind == FaultAction::Dead
        };
        let fault = fault.or_else(|| {
            self.net
                .faults
                .active
                .iter()
                .rev()
                .find(|active| down(active))
                .map(|active| active.number)
        });
        self.start(host);
        match fault {
            Some(fault) => self.expire(fault),
            None => {
                self.net.release_held();
            }
        }
    }
}

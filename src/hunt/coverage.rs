//! Fault coverage: what the faults of many runs hit, and whether there was anything to disturb.
//!
//! A fault that begins while the system is idle tests nothing. For each kind of fault, a hunt
//! therefore reports how many faults were drawn, how many began, and how many of those hit bytes in
//! flight, a handshake, a catch-up or a held task. It also reports how many hit none of these.

use std::collections::BTreeMap;

use crate::history::{ConnIndex, Event, EventKind, History, Scope, Side};
use crate::schedule::{Action, MilestoneValue, Plan};
use crate::subject::DynSubject;

/// Counts of what the faults of one kind hit. One fault can hit several of these at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultHits {
    /// Number of faults drawn.
    pub drawn: u64,
    /// Number of drawn faults that began.
    pub began: u64,
    /// Number of faults that hit payload in flight.
    pub in_flight: u64,
    /// Number of faults that hit a connection during its handshake.
    pub handshake: u64,
    /// The number of faults that hit a connection while a client received what it had missed.
    pub catch_up: u64,
    /// Number of faults that began while a task was held on a host that they hit.
    pub held: u64,
    /// Number of faults that hit none of the above.
    pub nothing: u64,
}

/// The targets that the faults of many runs hit, keyed by the scenario-file word of the fault.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultCoverage(pub BTreeMap<&'static str, FaultHits>);

impl FaultCoverage {
    /// Computes the fault coverage of one run.
    pub fn of(subject: &dyn DynSubject, plan: &Plan, history: &History) -> Self {
        let mut coverage = Self::default();
        for step in &plan.steps {
            if let Action::Fault(fault) = &step.action {
                coverage.0.entry(fault.word().name).or_default().drawn += 1;
            }
        }
        let mut now = Now {
            subject,
            history,
            held: Vec::new(),
            phases: vec![Phase::Over; history.conns.len()],
        };
        for event in &history.events {
            now.pass(event);
            if let EventKind::FaultBegan { what, scope, in_flight, .. } = &event.what {
                now.hit(coverage.0.entry(what.word().name).or_default(), scope, *in_flight);
            }
        }
        coverage
    }

    /// Adds the coverage of other runs.
    pub fn add(&mut self, other: &FaultCoverage) {
        for (word, hit) in &other.0 {
            let sum = self.0.entry(word).or_default();
            let FaultHits { drawn, began, in_flight, handshake, catch_up, held, nothing } = hit;
            sum.drawn += drawn;
            sum.began += began;
            sum.in_flight += in_flight;
            sum.handshake += handshake;
            sum.catch_up += catch_up;
            sum.held += held;
            sum.nothing += nothing;
        }
    }
}

/// The phase of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Handshake,
    CatchUp,
    Installed,
    /// The client's end is over, or the connection is not open yet.
    Over,
}

/// The state at one moment of a run: held tasks and connection phases.
struct Now<'a> {
    subject: &'a dyn DynSubject,
    history: &'a History,
    /// The tasks that are held: point and host.
    held: Vec<(&'static str, Option<&'a str>)>,
    phases: Vec<Phase>,
}

impl<'a> Now<'a> {
    fn pass(&mut self, event: &'a Event) {
        let host = event.host.as_ref().map(|host| host.as_str());
        match &event.what {
            EventKind::ConnOpened { conn } => self.phases[conn.0] = Phase::Handshake,
            EventKind::ConnOver { conn, side: Side::Client, .. } => {
                self.phases[conn.0] = Phase::Over
            }
            EventKind::Point { name, held: true, .. } => self.held.push((name, host)),
            EventKind::Released { name } => {
                if let Some(at) = self.held.iter().position(|held| *held == (name, host)) {
                    self.held.remove(at);
                }
            }
            EventKind::Milestone { name, fields }
                if Some(*name) == self.subject.catch_up_milestone() =>
            {
                self.reach(fields, Phase::CatchUp);
            }
            EventKind::Milestone { name, fields }
                if Some(*name) == self.subject.generation_milestone() =>
            {
                self.reach(fields, Phase::Installed);
            }
            _ => {}
        }
    }

    fn reach(&mut self, fields: &[(&'static str, MilestoneValue)], phase: Phase) {
        let conn = ConnIndex::from_fields(fields);
        if let Some(known) =
            conn.and_then(|conn| self.phases.get_mut(conn.0)).filter(|known| **known != Phase::Over)
        {
            *known = phase;
        }
    }

    fn hit(&self, hit: &mut FaultHits, scope: &Scope, in_flight: u32) {
        let touched = |wanted| self.conns_in(scope).any(|conn| self.phases[conn] == wanted);
        let held =
            self.held.iter().any(|(_, host)| host.is_none_or(|host| self.is_touched(scope, host)));
        let (handshake, catch_up) = (touched(Phase::Handshake), touched(Phase::CatchUp));
        hit.began += 1;
        hit.in_flight += u64::from(in_flight > 0);
        hit.handshake += u64::from(handshake);
        hit.catch_up += u64::from(catch_up);
        hit.held += u64::from(held);
        hit.nothing += u64::from(in_flight == 0 && !handshake && !catch_up && !held);
    }

    /// Returns the connections in a scope, open or not.
    fn conns_in(&self, scope: &'a Scope) -> impl Iterator<Item = usize> {
        self.history.conns.iter().enumerate().map(|(index, _)| index).filter(move |index| {
            let conn = &self.history.conns[*index];
            let ends = (&conn.client, &conn.server);
            let linked = |(a, b): &(_, _)| ends == (a, b) || ends == (b, a);
            scope.conns.iter().any(|conn| conn.0 == *index)
                || scope.links.iter().any(linked)
                || scope.hosts.iter().any(|host| host == ends.0 || host == ends.1)
        })
    }

    /// Returns whether a host is in a scope, or has an open connection in that scope.
    fn is_touched(&self, scope: &Scope, host: &str) -> bool {
        let is_end = |index: usize| {
            let conn = &self.history.conns[index];
            self.phases[index] != Phase::Over
                && (conn.client.as_str() == host || conn.server.as_str() == host)
        };
        scope.hosts.iter().any(|own| own.as_str() == host) || self.conns_in(scope).any(is_end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hunt::random::{HuntTarget, hunt};
    use crate::hunt::{Checks, Pool};
    use crate::schedule::Profile;
    use std::ops::ControlFlow;
    use std::sync::Arc;

    #[test]
    fn fault_coverage_counts_what_each_fault_hit() {
        let text = r#"
            format = 1
            subject = "counter"
            title = "Faults at a moment that is known"
            [stream.s1]
            numbers = 60
            every = "1s"
            [[step]]
            at = "1s"
            watch = { stream = "s1" }
            [[step]]
            after = { milestone = "counter.server.attached" }
            stall = { conn = "client#1", toward = "client", lasts = "1s" }
            [[step]]
            at = "30500ms"
            cut = { conn = "client#1" }
            [[step]]
            at = "40s"
            cut = { conn = "client#7" }
        "#;
        let subject = crate::subjects::counter();
        let scenario =
            crate::scenario::ScenarioFile::parse(text, "hits.toml", std::slice::from_ref(&subject))
                .unwrap();
        let plan = scenario.plans().remove(0);
        let history =
            crate::world::run(&subject, &plan, &crate::world::Options::default()).unwrap().history;
        let FaultCoverage(coverage) = FaultCoverage::of(&*subject, &plan, &history);
        assert_eq!(
            coverage["stall"],
            FaultHits {
                drawn: 1,
                began: 1,
                in_flight: coverage["stall"].in_flight,
                handshake: 1,
                ..FaultHits::default()
            }
        );
        assert_eq!(
            coverage["cut"],
            FaultHits { drawn: 2, began: 1, nothing: 1, ..FaultHits::default() }
        );
    }

    #[test]
    fn a_hunt_is_the_same_on_any_number_of_threads() {
        let subject = crate::subjects::counter();
        let mut profile = Profile::of_schemas(&*subject);
        profile.defects.push("resumes-one-too-late".into());
        let target = HuntTarget { subject, profile: Arc::new(profile) };
        let on = |jobs| {
            let mut found = Vec::new();
            let pool = Pool { jobs, ..Pool::default() };
            let hunted = hunt(&target, 1..61, &Checks::default(), &pool, |_, failed| {
                found.extend(failed.map(|failed| (failed.plan, failed.broken)));
                ControlFlow::Continue(())
            });
            let hunted = hunted.unwrap();
            assert_eq!(hunted.broke, found.len() as u64);
            assert!(hunted.tally.failed.is_empty());
            (hunted.tally.digest, hunted.coverage, hunted.broke, format!("{found:?}"))
        };
        let alone = on(1);
        assert!(alone.2 > 0, "a broken subject is found out");
        assert_eq!(alone, on(3));
    }
}

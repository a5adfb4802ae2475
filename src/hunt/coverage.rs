//! What the faults of many runs hit: whether there was anything that they could disturb.
//!
//! A fault that comes when nothing is under way shows nothing. So a hunt tells, of each kind, how many were drawn, how many
//! came, and how many of these hit bytes in flight, a handshake, a catch-up, a held task; and how many hit nothing of it.

use std::collections::BTreeMap;

use crate::history::{ConnIndex, Event, EventKind, History, Scope, Side};
use crate::schedule::{Action, MilestoneValue, Plan};
use crate::subject::DynSubject;

/// What the faults of one kind hit. One fault can hit several of these at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultHits {
    /// How many were drawn.
    pub drawn: u64,
    /// How many of them came.
    pub came: u64,
    /// How many hit payload on its way.
    pub in_flight: u64,
    /// How many hit a connection whose handshake was under way.
    pub handshake: u64,
    /// How many hit a connection on which a client caught up.
    pub catch_up: u64,
    /// How many came while a task was held on a host that they hit.
    pub held: u64,
    /// How many hit nothing of all that.
    pub nothing: u64,
}

/// What the faults of many runs hit, by their words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultCoverage(pub BTreeMap<&'static str, FaultHits>);

impl FaultCoverage {
    /// What the faults of one run hit.
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

    /// Adds those of other runs.
    pub fn add(&mut self, other: &FaultCoverage) {
        for (word, hit) in &other.0 {
            let sum = self.0.entry(word).or_default();
            let FaultHits { drawn, came, in_flight, handshake, catch_up, held, nothing } = hit;
            sum.drawn += drawn;
            sum.came += came;
            sum.in_flight += in_flight;
            sum.handshake += handshake;
            sum.catch_up += catch_up;
            sum.held += held;
            sum.nothing += nothing;
        }
    }
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Handshake,
    CatchUp,
    Installed,
    /// It is over for its client, or not opened yet.
    Over,
}

/// What is under way at a moment of a run.
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
        hit.came += 1;
        hit.in_flight += u64::from(in_flight > 0);
        hit.handshake += u64::from(handshake);
        hit.catch_up += u64::from(catch_up);
        hit.held += u64::from(held);
        hit.nothing += u64::from(in_flight == 0 && !handshake && !catch_up && !held);
    }

    /// The connections that are in a scope, open or not.
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

    /// Whether a host is in a scope, or has an open connection that is.
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
    fn what_faults_hit_is_counted_by_what_was_under_way() {
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
                came: 1,
                in_flight: coverage["stall"].in_flight,
                handshake: 1,
                ..FaultHits::default()
            }
        );
        assert_eq!(
            coverage["cut"],
            FaultHits { drawn: 2, came: 1, nothing: 1, ..FaultHits::default() }
        );
    }

    #[test]
    fn a_hunt_is_the_same_on_any_number_of_threads() {
        let subject = crate::subjects::counter();
        let mut profile = Profile::default_for(&*subject);
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

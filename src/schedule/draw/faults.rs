//! Draws the faults of a plan: the kinds of a run, the target of each fault, and its fields.

use std::time::Duration;

use rand_chacha::ChaCha8Rng;

use super::{Drawing, Numbered, ends, millis, ms};
use crate::schedule::fault::Needs;
use crate::schedule::fault::draw::{FaultDraw, FaultSource};
use crate::schedule::profile::choice::{below, happens, pick, pick_weighted, upto};
use crate::schedule::{Action, FaultKind, Plan, Step, When};

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
        let source = FaultSource {
            seed: self.seed,
            openers: &openers,
            servers: &servers,
            generations: self.subject.generation_milestone().is_some(),
            programs: self.subject.launches_programs(),
            milestone: &|rng| self.milestone(rng),
        };
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
            let fault = kind.draw(&FaultDraw::new(source, shape, n, left)?)?;
            Some(([0, n], Step { when, action: Action::Fault(fault) }))
        };
        (0..count).scan(None, |before, n| Some(one(before, n))).flatten().collect()
    }

    /// Draws the kind of the n-th fault. The first fault is not a hold if there is any other kind:
    /// most points are reached only after another fault.
    fn kind(&self, kinds: &[FaultKind], n: u64) -> Option<FaultKind> {
        let sure: Vec<FaultKind> =
            kinds.iter().copied().filter(|kind| needs(*kind) != Needs::Point).collect();
        let of = if n == 0 && !sure.is_empty() { &sure } else { kinds };
        pick(of, &mut self.rng("kind", &[n])).copied()
    }

    /// Draws the few kinds of this run by weight, each at most once. Without points there are no
    /// holds, and without programs or scripted processes no faults of child processes.
    fn kinds(&self, plan: &Plan) -> Vec<FaultKind> {
        let faults = &self.profile.faults;
        let holds = self.subject.points().iter().any(|doc| self.reachable(doc.defect));
        let children = self.subject.launches_programs() || plan.entries(PROCESSES).next().is_some();
        let weights = faults.weights.iter().map(|(kind, shape)| (*kind, shape.weight));
        let has_effect = |kind| match needs(kind) {
            Needs::Nothing => true,
            Needs::Point => holds,
            Needs::Children => children,
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
        kind: FaultKind,
        n: u64,
        before: &Option<When>,
        moments: &[Numbered<Duration>],
    ) -> Option<When> {
        let mut rng = self.rng("aim", &[n]);
        if needs(kind) == Needs::Point {
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

/// The key of the table of scripted processes: `process`, as in `[process.p1]`.
const PROCESSES: &str = "process";

/// One in this many faults with a fixed time is at a random time, independent of the operations.
const ANY_TIME: u64 = 4;

fn needs(kind: FaultKind) -> Needs {
    kind.drawn().map_or(Needs::Nothing, |drawn| drawn.needs)
}

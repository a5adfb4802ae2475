//! `no_residue`: when all is over and the promised time has passed, nothing is left on any host beyond what was there before the
//! first connection: no task, no socket, no process, and by the subject's own census no session, timer or buffer. Tasks that outlived
//! their host were left, too.
//!
//! What belongs to no host is left by whoever made it, whenever it goes: nobody will ever count it, hold it or kill it with its
//! host. A socket that does not come from [`Env`](crate::env::Env) is such a thing, and a task that no task spawned.
//!
//! A counter without a baseline counted nothing then. The residue of a puppet is not the subject's, nor that of a host that plays the
//! outside world, nor that of a host on which the schedule still holds a task when all is over.

use std::collections::BTreeMap;

use crate::history::EventKind;
use crate::schedule::Host;

use super::facts::Facts;
use super::findings::Findings;
use super::path::NEVER;
use super::violation::{fields, kinds};
use super::{About, Phrase};

kinds! {
    pub(super) KINDS;
    OF_NO_HOST = "of-no-host": "{subject:}{what} belongs to no host {moment}";
    LEFT = "left": "{subject:}{left} `{counter}` remain; there were {earlier} at the start {moment}";
    OUTLIVED = "outlived": "{subject:}{tasks} tasks outlived their host {moment}";
}

// Parts of these sentences: what belongs to no host.
kinds! {
    STRAY = "stray": "{what}";
    MILESTONE = "milestone": "the milestone {name}";
    POINT = "point": "the point {name}";
}

/// The counters that stayed higher.
pub(super) fn check(facts: &Facts<'_>, broken: &mut Findings) {
    let mut before: BTreeMap<&str, &BTreeMap<String, u64>> = BTreeMap::new();
    for event in &facts.cx.history.events {
        if let (None, Some(what)) = (&event.host, of_nobody(&event.what)) {
            broken.push(About::Run, event.at, &OF_NO_HOST, fields! { what });
        }
        let is_foreign = |host: &Host| {
            facts.cx.plan.puppets.contains_key(host)
                || facts.guarantees().outside.contains(&host.as_str())
        };
        let Some(host) = event.host.as_ref().filter(|host| !is_foreign(host)) else { continue };
        match &event.what {
            EventKind::Census { baseline: true, counts } => {
                before.insert(host.as_str(), counts);
            }
            EventKind::Census { baseline: false, counts } if !is_held(facts, host.as_str()) => {
                let earlier = |name: &str| {
                    before
                        .get(host.as_str())
                        .and_then(|counts| counts.get(name))
                        .copied()
                        .unwrap_or(0)
                };
                for (name, left) in counts.iter().filter(|(name, left)| **left > earlier(name)) {
                    let data = fields! { left: *left, counter: name, earlier: earlier(name) };
                    broken.push(Some(host), event.at, &LEFT, data);
                }
            }
            EventKind::Outlived { tasks } if *tasks > 0 => {
                broken.push(Some(host), event.at, &OUTLIVED, fields! { tasks: *tasks });
            }
            _ => {}
        }
    }
}

/// What an entry without a host tells of that should have one.
fn of_nobody(what: &EventKind) -> Option<Phrase> {
    match what {
        EventKind::Stray { what } => Some(Phrase::new(&STRAY, fields! { what })),
        EventKind::Milestone { name, .. } => Some(Phrase::new(&MILESTONE, fields! { name: *name })),
        EventKind::Point { name, .. } => Some(Phrase::new(&POINT, fields! { name: *name })),
        _ => None,
    }
}

/// Whether a task of a host is held for the rest of the run.
fn is_held(facts: &Facts<'_>, host: &str) -> bool {
    facts.holds_on(host).any(|hold| hold.ended == NEVER)
}

#[cfg(test)]
mod tests {
    use super::super::scripted::{ScriptedRun, history};

    fn run(at_first: &[(&str, u64)], left: &[(&str, u64)]) -> ScriptedRun {
        history().resources("server", 0, true, at_first).resources("server", 90_000, false, left)
    }

    #[test]
    fn what_was_there_at_first_may_be_there_at_last() {
        run(&[("tasks", 2), ("sessions", 0)], &[("tasks", 2), ("sessions", 0)]).holds("no_residue");
        run(&[("tasks", 2)], &[("tasks", 1)]).holds("no_residue");
    }

    #[test]
    fn what_is_left_is_counted() {
        assert_eq!(
            run(&[("tasks", 2), ("sessions", 0)], &[("tasks", 3), ("sessions", 1)])
                .breaks("no_residue"),
            [
                "server: 1 `sessions` remain; there were 0 at the start (at 90.000 s)",
                "server: 3 `tasks` remain; there were 2 at the start (at 90.000 s)",
            ]
        );
    }

    #[test]
    fn what_was_not_counted_at_first_was_not_there() {
        assert_eq!(
            run(&[], &[("sockets", 1)]).breaks("no_residue"),
            ["server: 1 `sockets` remain; there were 0 at the start (at 90.000 s)"]
        );
    }

    #[test]
    fn each_host_has_its_own_count() {
        let scripted = run(&[("tasks", 2)], &[("tasks", 2)])
            .resources("client", 0, true, &[])
            .resources("client", 90_000, false, &[("tasks", 1)]);
        assert_eq!(scripted.breaks("no_residue").len(), 1);
        scripted.clone().puppet("client").holds("no_residue");
        scripted.guarantees(|guarantees| guarantees.outside = &["client"]).holds("no_residue");
    }

    #[test]
    fn what_belongs_to_no_host_is_a_residue_from_its_beginning() {
        assert_eq!(
            history()
                .stray(1_000, "a socket that listens at 0.0.0.0:80")
                .unsent(2_000, "t.ready")
                .breaks("no_residue"),
            [
                "a socket that listens at 0.0.0.0:80 belongs to no host (at 1.000 s)",
                "the milestone t.ready belongs to no host (at 2.000 s)",
            ]
        );
    }

    #[test]
    fn a_host_with_a_task_that_is_held_for_ever_is_not_counted() {
        run(&[], &[("tasks", 1)]).holds_for_ever(5_000).holds("no_residue");
    }

    #[test]
    fn tasks_that_outlived_their_host_are_a_residue() {
        assert_eq!(
            history().outlived("server", 5_000, 2).breaks("no_residue"),
            ["server: 2 tasks outlived their host (at 5.000 s)"]
        );
    }
}

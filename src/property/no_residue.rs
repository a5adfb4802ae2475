//! `no_residue`: the leak check. At the end of the run, after the guaranteed time, no host holds
//! more resources than before the first connection: no task, no socket, no process, and by the
//! subject's own resource counts no session, timer or buffer. Tasks that outlived their host are
//! leaks too.
//!
//! A resource that belongs to no host is a leak from the start, even if it is released later: the
//! harness cannot count it, hold it, or kill it with its host. Examples are a socket that was not
//! created through [`Env`](crate::env::Env), and a task that was not spawned by another task.
//!
//! A counter without a baseline has a baseline of zero. The property ignores the resources of
//! puppets, of hosts that play the outside world, and of hosts on which the schedule still holds a
//! task at the end.

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

// Parts of these sentences: resources that belong to no host.
kinds! {
    STRAY = "stray": "{what}";
    MILESTONE = "milestone": "the milestone {name}";
    POINT = "point": "the point {name}";
}

/// Reports counters that stayed above their baseline.
pub(super) fn check(facts: &Facts<'_>, broken: &mut Findings) {
    facts.cx.judges("no_residue");
    let mut before: BTreeMap<&str, &BTreeMap<String, u64>> = BTreeMap::new();
    for event in &facts.cx.history.events {
        if let (None, Some(what)) = (&event.host, unowned(&event.what)) {
            broken.push(About::Run, event.at, &OF_NO_HOST, fields! { what });
        }
        let is_foreign = |host: &Host| {
            facts.cx.plan.puppets.contains_key(host)
                || facts.guarantees().outside.contains(&host.as_str())
        };
        let Some(host) = event.host.as_ref().filter(|host| !is_foreign(host)) else { continue };
        match &event.what {
            EventKind::ResourceCounts { baseline: true, counts } => {
                before.insert(host.as_str(), counts);
            }
            EventKind::ResourceCounts { baseline: false, counts }
                if !is_held(facts, host.as_str()) =>
            {
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

/// Describes an entry without a host, if entries of its kind must have one.
fn unowned(what: &EventKind) -> Option<Phrase> {
    match what {
        EventKind::Unowned { what } => Some(Phrase::new(&STRAY, fields! { what })),
        EventKind::Milestone { name, .. } => Some(Phrase::new(&MILESTONE, fields! { name: *name })),
        EventKind::Point { name, .. } => Some(Phrase::new(&POINT, fields! { name: *name })),
        _ => None,
    }
}

/// Returns whether a task of a host is held for the rest of the run.
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
    fn resources_counted_in_the_baseline_may_remain() {
        run(&[("tasks", 2), ("sessions", 0)], &[("tasks", 2), ("sessions", 0)]).holds("no_residue");
        run(&[("tasks", 2)], &[("tasks", 1)]).holds("no_residue");
    }

    #[test]
    fn leftover_resources_are_reported_with_their_count() {
        assert_eq!(
            run(&[("tasks", 2), ("sessions", 0)], &[("tasks", 3), ("sessions", 1)])
                .violations("no_residue"),
            [
                "server: 1 `sessions` remain; there were 0 at the start (at 90.000 s)",
                "server: 3 `tasks` remain; there were 2 at the start (at 90.000 s)",
            ]
        );
    }

    #[test]
    fn a_counter_without_a_baseline_counts_from_zero() {
        assert_eq!(
            run(&[], &[("sockets", 1)]).violations("no_residue"),
            ["server: 1 `sockets` remain; there were 0 at the start (at 90.000 s)"]
        );
    }

    #[test]
    fn each_host_has_its_own_count() {
        let scripted = run(&[("tasks", 2)], &[("tasks", 2)])
            .resources("client", 0, true, &[])
            .resources("client", 90_000, false, &[("tasks", 1)]);
        assert_eq!(scripted.violations("no_residue").len(), 1);
        scripted.clone().puppet("client").holds("no_residue");
        scripted.guarantees(|guarantees| guarantees.outside = &["client"]).holds("no_residue");
    }

    #[test]
    fn a_resource_without_a_host_is_a_residue_from_the_start() {
        assert_eq!(
            history()
                .stray(1_000, "a socket that listens at 0.0.0.0:80")
                .unsent(2_000, "t.ready")
                .violations("no_residue"),
            [
                "a socket that listens at 0.0.0.0:80 belongs to no host (at 1.000 s)",
                "the milestone t.ready belongs to no host (at 2.000 s)",
            ]
        );
    }

    #[test]
    fn a_host_with_a_task_held_forever_is_not_counted() {
        run(&[], &[("tasks", 1)]).holds_for_ever(5_000).holds("no_residue");
    }

    #[test]
    fn tasks_that_outlived_their_host_are_a_residue() {
        assert_eq!(
            history().outlived("server", 5_000, 2).violations("no_residue"),
            ["server: 2 tasks outlived their host (at 5.000 s)"]
        );
    }
}

//! `bounded_delivery`: an item that was produced reaches the user of its open stream in bounded time.
//!
//! An item is due from its production, or from the time at which its user began to look at the
//! stream, if that is later. Without a fault around that time there is nothing to detect and nothing
//! to recover: the bound is [`A`](super::path::Path::recovery_window), 1 s, and the wait for another
//! reader of the stream ([`takeover`](super::Guarantees::takeover)). Otherwise it is
//! [`Path::bound`](super::path::Path::bound). Pauses of the user do not count, and the
//! answers to its calls take time to arrive, as in [`bounded_ending`](super::bounded_ending).
//!
//! A fault is around an item until its last effect is over: the loss of a connection is detected, the
//! client has recovered, and what piled up has arrived. By `Path::bound`, all of that takes as long as
//! the same bound allows after the end of the fault. A fault that begins before the bound of the item
//! is around it, too, because it can delay an item that was on time until then.
//!
//! `bounded_ending` judges items that never arrive. Deliveries from the first difference between
//! produced and delivered bytes on are not judged: `gap_free` reports that difference.

use std::time::Duration;

use crate::history::Time;

use super::bounded_ending::{answers_beside, heard_from};
use super::facts::Facts;
use super::findings::Findings;
use super::path::{MARGIN, NEVER, Path};
use super::view::View;
use super::violation::{fields, kinds};
use super::{Guarantees, Phrase};

kinds! {
    pub(super) KINDS;
    LATE = "late": "{subject:}item {item} arrived late: it was produced at {produced}, so {bound} was the bound: {terms} {moment}";
}

/// Checks for items that arrived too late.
pub(super) fn check(facts: &Facts<'_>, broken: &mut Findings) {
    for view in facts.views.iter().filter(|view| !facts.path(view.path).has_false_peer()) {
        check_view(facts, view, broken);
    }
}

fn check_view(facts: &Facts<'_>, view: &View<'_>, broken: &mut Findings) {
    let Some((_, opened, _)) = view.opened else { return };
    let looked = facts.looked(view).unwrap_or(opened);
    let heard = looked.max(heard_from(facts, view, opened));
    let source = &facts.sources[view.source];
    let base = source.bytes_of(view.fit.start);
    let matching = view.fit.difference.map_or(view.delivered.len(), |first| first.delivered);
    let mut received = base;
    for item in &view.delivered[..matching] {
        // The oldest byte of a delivered item has waited longest.
        let number = source.items.partition_point(|produced| produced.end <= received);
        received = base + item.end;
        let Some(produced) = source.items.get(number).filter(|_| item.at <= facts.horizon) else {
            continue;
        };
        let due = produced.at.max(heard);
        let (path, guarantees) = (facts.path(view.path), facts.guarantees());
        let calm = calm(path, guarantees, due);
        let faulty = path.bound(guarantees, due, Duration::ZERO);
        // A fault without an end leaves only the calm bound.
        if faulty < NEVER {
            facts.cx.judges("bounded_delivery");
        }
        if item.at <= calm.min(faulty) {
            continue;
        }
        // It takes long to sum these up.
        let extra =
            facts.paused_before(view, due, item.index) + answers_beside(facts, view, due, item.at);
        let is_calm = !path.is_touched(due.before(path.allowance(guarantees)), calm + extra);
        if is_calm && faulty >= NEVER {
            facts.cx.judges("bounded_delivery");
        }
        let without_extra = if is_calm { calm } else { faulty };
        let bound = without_extra + extra;
        if item.at > bound {
            let terms = terms(path, guarantees, is_calm, bound, extra);
            let data = fields! { item: number + 1, produced: produced.at, bound, terms };
            let data = data.with("generation", view.generation_before(item.index));
            broken.push(view.stream, item.at, &LATE, data);
            return;
        }
    }
}

/// Returns the bound of an item that was due at a time, if no fault is around it.
fn calm(path: &Path<'_>, guarantees: &Guarantees, due: Time) -> Time {
    due + path.recovery_window(guarantees, Time::ZERO, NEVER) + guarantees.takeover + MARGIN
}

fn terms(
    path: &Path<'_>,
    guarantees: &Guarantees,
    is_calm: bool,
    bound: Time,
    extra: Duration,
) -> Phrase {
    if is_calm {
        path.calm_terms(guarantees, bound, guarantees.takeover + extra)
    } else {
        path.terms(guarantees, bound, extra)
    }
}

#[cfg(test)]
mod tests {
    use super::super::scripted::{BOUND, ScriptedRun, history};
    use super::*;
    use crate::history::{Answer, Class};

    /// The bound of an item on a path without faults: A and 1 s.
    const CALM: u64 = 1_120 + 1_000;

    fn one_item() -> ScriptedRun {
        history().opened("s1", 1, 0).produced("s1", 2_000, "a")
    }

    #[test]
    fn an_item_arrives_in_time() {
        one_item().delivered("s1", 2_000 + CALM, "a").holds("bounded_delivery");
        assert_eq!(
            one_item().delivered("s1", 2_001 + CALM, "a").violations("bounded_delivery"),
            [
                "s1: item 1 arrived late: it was produced at 2.000 s, so 4.120 s was the bound: 2.000 s + 1s + 1120ms catch-up (at 4.121 s)"
            ]
        );
    }

    /// A long answer delays an item only if it arrives after the item was due.
    #[test]
    fn the_bound_includes_the_transfer_of_the_answers_in_flight() {
        let answered = |ms| {
            let run = history().guarantees(|guarantees| {
                guarantees.answer_bytes = |_, operation| u64::from(operation.verb == "reads") << 20;
            });
            let run = run.opened("s1", 1, 0).asked_as(7, 1_000, Class::Durable, "reads", "{}");
            let run = run.answered(7, ms, Answer::Done("1".into())).produced("s1", 2_000, "a");
            run.delivered("s1", 2_001 + CALM, "a").violations("bounded_delivery").len()
        };
        assert_eq!([answered(1_999), answered(2_000)], [1, 0]);
    }

    #[test]
    fn a_user_waits_until_another_reader_has_left_the_stream() {
        let excluded = |ms| {
            let scripted = one_item().delivered("s1", ms, "a");
            scripted.guarantees(|guarantees| guarantees.takeover = Duration::from_secs(3))
        };
        excluded(5_000 + CALM).holds("bounded_delivery");
        assert_eq!(excluded(5_001 + CALM).violations("bounded_delivery").len(), 1);
    }

    #[test]
    fn an_item_that_arrives_with_a_newer_one_is_late_all_the_same() {
        let merged = one_item().produced("s1", 9_000, "b").delivered("s1", 9_010, "ab");
        assert_eq!(merged.violations("bounded_delivery").len(), 1);
    }

    #[test]
    fn after_a_fault_an_item_may_take_as_long_as_a_recovery() {
        let faulty = || one_item().kills(1_000, 2_500);
        faulty().delivered("s1", 2_000 + BOUND, "a").holds("bounded_delivery");
        assert_eq!(
            faulty().delivered("s1", 2_001 + BOUND, "a").violations("bounded_delivery").len(),
            1
        );
    }

    /// An item is late by the bound of a path without faults, if the effects of an earlier fault are
    /// over, and a later one began only after that bound.
    #[test]
    fn only_a_fault_around_an_item_excuses_it() {
        let late = |began: u64, ended: u64| {
            let run = history().opened("s1", 1, 0).kills(began, ended).produced("s1", 100_000, "a");
            run.delivered("s1", 100_001 + CALM, "a").violations("bounded_delivery")
        };
        assert_eq!(
            late(1_000, 99_999 - BOUND),
            [
                "s1: item 1 arrived late: it was produced at 100.000 s, so 102.120 s was the bound: 100.000 s + 1s + 1120ms catch-up (at 102.121 s)"
            ]
        );
        assert!(late(1_000, 100_000 - BOUND).is_empty());
        assert!(late(100_000 + CALM, 200_000).is_empty());
        assert_eq!(late(100_001 + CALM, 200_000).len(), 1);
    }

    /// A fault that begins during the pauses of a user can delay what the user reads after them.
    #[test]
    fn a_fault_during_the_pauses_of_a_user_excuses_a_late_item() {
        let late = |began: u64| {
            let run = history().asked_as(1, 0, Class::Durable, "watch", r#"{"pause":"10s"}"#);
            let run = run.opens("s1", 1, 0).produced("s1", 500, "a").produced("s1", 600, "b");
            let run = run.kills(began, 200_000).delivered("s1", 520, "a");
            run.delivered("s1", 10_521 + CALM, "b").violations("bounded_delivery").len()
        };
        assert_eq!([late(10_520 + CALM), late(10_521 + CALM)], [0, 1]);
    }

    #[test]
    fn a_user_that_pauses_reads_later() {
        let slow = history()
            .asked_as(1, 0, Class::Durable, "watch", r#"{"pause":"10s"}"#)
            .opens("s1", 1, 0)
            .produced("s1", 500, "a")
            .produced("s1", 600, "b")
            .delivered("s1", 520, "a");
        slow.clone().delivered("s1", 10_520 + CALM, "b").holds("bounded_delivery");
        // The pauses count from the production of the item.
        let late = slow.delivered("s1", 10_521 + CALM, "b");
        assert_eq!(
            late.violations("bounded_delivery"),
            [
                "s1: item 2 arrived late: it was produced at 0.600 s, so 12.640 s was the bound: 0.600 s + 1s + 1120ms catch-up + 9920ms waits and pauses (generation 1, at 12.641 s)"
            ]
        );
    }
}

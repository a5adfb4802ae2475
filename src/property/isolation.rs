//! `isolation`: an event on one stream, session or client does not harm another.
//!
//! The property detects harm in two ways:
//! - A stream or call must complete if no fault touched its own path and the user did not give it
//!   up. It must complete no later than one attempt's time-out,
//!   [`A`](super::path::Path::recovery_window) and 1 s after it was due: there is nothing to detect
//!   and nothing to recover. It is due only when its user looks at it, and pauses of its user after
//!   that do not count, as in `bounded_ending`, and long answers take time to arrive. This property reports the failure only if another
//!   stream, session or client was affected before; otherwise only `justified_failure` and
//!   `bounded_ending` report it.
//! - A stream must not fail without a reason that applies to it, immediately after another stream
//!   on its path failed with a reason of that kind: the user gave the other stream up, or more of
//!   it was produced than is retained.

use std::time::Duration;

use crate::history::{Class, Nature, Time};

use super::bounded_ending::{answers_before, patience, turn};
use super::facts::{CallFacts, Facts};
use super::findings::Findings;
use super::justified_failure::{FailedItem, FailureSite, Justification, failures};
use super::path::NEVER;
use super::view::View;
use super::violation::{fields, kinds};
use super::{Phrase, ViolationFields};

kinds! {
    pub(super) KINDS;
    STREAM_FAILED = "stream-failed": "{subject:}it failed ({reason}) after item {items}, {when} {moment}";
    CALL_FAILED = "call-failed": "{subject:}it failed ({reason}), {when} {moment}";
    STREAM_LATE = "stream-late": "{subject:}after item {items}, it did not end until {bound}, although faults touched only other paths {moment}";
    CALL_LATE = "call-late": "{subject:}it did not end until {bound}, although faults touched only other paths {moment}";
}

// Parts of these sentences: which streams or clients had trouble.
kinds! {
    OTHERS = "others": "although faults touched only other paths";
    DRAGGED = "dragged": "at the moment when {other} failed for a reason of its own";
}

/// The longest time between a failure and the failure that it causes.
const SOON: Duration = Duration::from_secs(1);

/// Checks for streams and calls that were harmed by events elsewhere.
pub(super) fn check(facts: &Facts<'_>, broken: &mut Findings) {
    for failure in failures(facts).filter(|failure| !failure.is_exempt(facts)) {
        let is_unjustified = || failure.justification(facts) == Justification::Unjustified;
        if is_calm(facts, failure.path) {
            if !trouble_elsewhere(facts, failure.index, failure.at) {
                continue;
            }
            facts.cx.judges("isolation");
            if is_unjustified() {
                report(&failure, Phrase::new(&OTHERS, ViolationFields::default()), broken);
            }
        } else if is_unjustified()
            && let Some(other) = gap_of_other_stream(facts, &failure)
        {
            // A failure that its own path justifies shows nothing.
            facts.cx.judges("isolation");
            report(&failure, Phrase::new(&DRAGGED, fields! { other: other.stream }), broken);
        }
    }
    for view in facts.views.iter().filter(|view| is_calm(facts, view.path)) {
        check_late_view(facts, view, broken);
    }
    for call in facts.calls.iter().filter(|call| is_calm(facts, call.path)) {
        check_late_call(facts, call, broken);
    }
}

fn report(failure: &FailureSite<'_>, when: Phrase, broken: &mut Findings) {
    let FailureSite { at, reason, index, .. } = *failure;
    match failure.what {
        FailedItem::View(view) => {
            let data = fields! { reason, items: view.fit.items, when };
            broken.push(
                view.stream,
                at,
                &STREAM_FAILED,
                data.with("generation", view.generation_before(index)),
            );
        }
        FailedItem::Call(call) => broken.push(call, at, &CALL_FAILED, fields! { reason, when }),
    }
}

/// Returns whether nothing happened to a path.
fn is_calm(facts: &Facts<'_>, path: usize) -> bool {
    let path = facts.path(path);
    path.faulty().is_empty() && !path.has_false_peer()
}

/// Returns whether anything had happened elsewhere before an entry. The caller's path is calm, so
/// every fault is elsewhere.
fn trouble_elsewhere(facts: &Facts<'_>, index: usize, at: Time) -> bool {
    let faults =
        facts.faults.iter().any(|fault| fault.nature != Nature::Harmless && fault.began <= at);
    let deaths = facts.downs.iter().any(|down| down.from <= at);
    let failed = || failures(facts).any(|other| other.index < index);
    let given_up =
        || facts.views.iter().any(|view| view.gave_up.is_some_and(|gave_up| gave_up <= at));
    faults || deaths || !facts.cx.plan.puppets.is_empty() || failed() || given_up()
}

/// Returns another stream of the same path that ended shortly before, for a reason specific to that
/// stream. A reason that concerned the path would have justified both failures.
fn gap_of_other_stream<'f>(
    facts: &'f Facts<'_>,
    failure: &FailureSite<'_>,
) -> Option<&'f View<'f>> {
    let just_before = |at: Time| at <= failure.at && failure.at.since(at) <= SOON;
    let FailedItem::View(harmed) = failure.what else { return None };
    let is_other = |view: &View<'_>| !facts.parts(harmed).any(|part| std::ptr::eq(part, view));
    let failed =
        failures(facts).filter(|other| other.path == failure.path && just_before(other.at));
    let mut failed = failed.filter(|other| other.justification(facts) == Justification::Justified);
    let failed = failed.find_map(|other| match other.what {
        FailedItem::View(view) => Some(view).filter(|view| is_other(view)),
        FailedItem::Call(_) => None,
    });
    let others = || facts.views.iter().filter(|view| view.path == failure.path && is_other(view));
    failed.or_else(|| others().find(|view| view.gave_up.is_some_and(just_before)))
}

/// Returns the latest ending of something that was due on a calm path, where nothing has to be
/// detected or recovered. Another reader may keep its user from the stream.
fn calm_bound(facts: &Facts<'_>, path: usize, due: Time) -> Time {
    let guarantees = facts.guarantees();
    due + guarantees.attempt
        + facts.path(path).recovery_window(guarantees, Time::ZERO, NEVER)
        + guarantees.takeover
        + Duration::from_secs(1)
}

fn check_late_view(facts: &Facts<'_>, view: &View<'_>, broken: &mut Findings) {
    let Some((looked, ended)) = facts.looked(view).zip(facts.over(view)) else { return };
    let due = ended.max(looked);
    let bound = calm_bound(facts, view.path, due) + facts.paused(view, due);
    let ending = view.ending().map(|(index, at, _)| (index, at));
    if !is_late(facts, bound, ending) {
        return;
    }
    // It takes long to sum up the answers.
    let bound = bound + answers_before(facts, view, due, bound);
    if !view.is_abandoned(bound) && is_late(facts, bound, ending) {
        let (index, at) = ending.unwrap_or((usize::MAX, bound));
        let data = fields! { items: view.fit.items, bound };
        broken.push(
            view.stream,
            at,
            &STREAM_LATE,
            data.with("generation", view.generation_before(index)),
        );
    }
}

fn check_late_call(facts: &Facts<'_>, call: &CallFacts<'_>, broken: &mut Findings) {
    let bound = calm_bound(facts, call.path, turn(facts, call)) + patience(facts, call);
    let ending = call.endings.first().map(|(index, at, _)| (*index, *at));
    let is_owed = call.class != Class::Bound && !call.opened && !call.is_abandoned(bound);
    if is_owed && is_late(facts, bound, ending) {
        let at = ending.map_or(bound, |(_, at)| at);
        broken.push(call, at, &CALL_LATE, fields! { bound });
    }
}

fn is_late(facts: &Facts<'_>, bound: Time, ending: Option<(usize, Time)>) -> bool {
    let index = ending.map_or(usize::MAX, |(index, _)| index);
    // Nothing is seen after the judged time.
    if bound >= facts.judged_until() || !trouble_elsewhere(facts, index, bound) {
        return false;
    }
    facts.cx.judges("isolation");
    let seen =
        ending.map(|(_, at)| at).filter(|at| *at <= facts.horizon).unwrap_or(facts.judged_until());
    seen > bound
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::scripted::{ScriptedRun, history};
    use crate::history::Class;
    use crate::schedule::{Operation, Plan};

    /// The latest ending of a calm stream that is due at 0: an attempt, A, 1 s.
    const CALM: u64 = 5_000 + 1_120 + 1_000;

    /// Returns a run in which faults hit the link of `client2` only. A stream of `client` ends at 10 s.
    fn calm() -> ScriptedRun {
        let scripted = history().by("client2").kills(2_000, 4_000).by("client");
        scripted
            .opened("s1", 1, 0)
            .produced("s1", 500, "a")
            .delivered("s1", 520, "a")
            .ended("s1", 10_000, "total 1")
    }

    #[test]
    fn a_calm_stream_completes_in_time() {
        calm().completed("s1", 10_000 + CALM, "total 1").holds("isolation");
        assert_eq!(
            calm().completed("s1", 10_001 + CALM, "total 1").violations("isolation"),
            [
                "s1: after item 1, it did not end until 17.120 s, although faults touched only other paths (generation 1, at 17.121 s)"
            ]
        );
        assert_eq!(calm().end(600_000).violations("isolation").len(), 1);
    }

    #[test]
    fn a_calm_stream_may_wait_for_another_reader() {
        let ends = |ms| {
            let run = calm().completed("s1", ms, "total 1");
            let run = run.guarantees(|guarantees| guarantees.takeover = Duration::from_secs(3));
            run.violations("isolation").len()
        };
        assert_eq!([ends(13_000 + CALM), ends(13_001 + CALM)], [0, 1]);
    }

    /// As [`calm`], with a user who pauses for 10 s after each item.
    fn calm_and_pausing() -> ScriptedRun {
        let scripted = history().by("client2").kills(2_000, 4_000).by("client");
        let scripted = scripted
            .asked_as(1, 0, Class::Durable, "watch", r#"{"pause":"10s"}"#)
            .opens("s1", 1, 0);
        scripted.produced("s1", 500, "a").produced("s1", 600, "b").ended("s1", 10_000, "total 2")
    }

    #[test]
    fn a_calm_stream_is_due_when_its_user_looks_at_it() {
        let looks = |after: &str| {
            let scripted = history().by("client2").kills(2_000, 4_000).by("client");
            let scripted = scripted.asked_as(
                1,
                0,
                Class::Durable,
                "watch",
                &format!(r#"{{"looks-after":"{after}"}}"#),
            );
            scripted.opens("s1", 1, 1_000).ended("s1", 10_000, "total 0")
        };
        looks("20s").completed("s1", 21_000 + CALM, "total 0").holds("isolation");
        assert_eq!(
            looks("20s").completed("s1", 21_001 + CALM, "total 0").violations("isolation").len(),
            1
        );
        assert_eq!(
            looks("5s").completed("s1", 10_001 + CALM, "total 0").violations("isolation").len(),
            1
        );
    }

    #[test]
    fn the_answers_beside_a_calm_stream_take_time_to_arrive() {
        let ends = |ms| {
            let mib = |_: &Plan, operation: &Operation| u64::from(operation.verb == "add") << 20;
            let scripted = calm().guarantees(|guarantees| guarantees.answer_bytes = mib);
            let asked = scripted.asked(7, 9_000).answered(7, 10_500, "5");
            asked.completed("s1", ms, "total 1").violations("isolation").len()
        };
        // 32 round trips of 2 × 20 ms.
        let bound = 10_000 + CALM + 32 * 2 * 20;
        assert_eq!([ends(bound), ends(bound + 1)], [0, 1]);
    }

    #[test]
    fn the_pauses_of_a_calm_user_do_not_count() {
        let slow = || calm_and_pausing().delivered("s1", 520, "a").delivered("s1", 10_520, "b");
        slow().completed("s1", 20_520, "total 2").holds("isolation");
        slow().completed("s1", 20_520 + CALM, "total 2").holds("isolation");
        assert_eq!(
            slow().completed("s1", 20_521 + CALM, "total 2").violations("isolation").len(),
            1
        );
    }

    #[test]
    fn a_pause_after_a_late_item_does_not_excuse_it() {
        // When the second item arrived, its user had already waited too long.
        let late =
            || calm_and_pausing().delivered("s1", 520, "a").delivered("s1", 10_521 + CALM, "b");
        assert_eq!(
            late().completed("s1", 20_521 + CALM, "total 2").violations("isolation").len(),
            1
        );
    }

    #[test]
    fn a_calm_stream_does_not_fail() {
        assert_eq!(
            calm().failed_stream("s1", 3_000, "lost").violations("isolation"),
            [
                "s1: it failed (lost) after item 1, although faults touched only other paths (generation 1, at 3.000 s)"
            ]
        );
    }

    #[test]
    fn a_calm_call_is_answered_in_time() {
        let scripted = calm().completed("s1", 10_100, "total 1").asked(7, 20_000);
        scripted.clone().answered(7, 20_000 + CALM, "5").holds("isolation");
        assert_eq!(
            scripted.clone().answered(7, 20_001 + CALM, "5").violations("isolation"),
            [
                "call 7 (add): it did not end until 27.120 s, although faults touched only other paths (at 27.121 s)"
            ]
        );
        assert_eq!(
            scripted.failed(7, 20_010, "lost").violations("isolation"),
            [
                "call 7 (add): it failed (lost), although faults touched only other paths (at 20.010 s)"
            ]
        );
    }

    #[test]
    fn a_long_answer_takes_time_to_arrive() {
        let violations = |bytes: fn(&Plan, &Operation) -> u64, ms| {
            let scripted = calm().completed("s1", 10_100, "total 1");
            let scripted = scripted.guarantees(|guarantees| guarantees.answer_bytes = bytes);
            scripted.asked(7, 20_000).answered(7, ms, "5").violations("isolation").len()
        };
        let last = |bytes| (25_000..40_000).rfind(|ms| violations(bytes, *ms) == 0).unwrap();
        // 32 round trips of 2 × 20 ms.
        let mib = |_: &Plan, operation: &Operation| u64::from(operation.verb == "add") << 20;
        assert_eq!(last(mib), last(|_, _| 0) + 32 * 2 * 20);
    }

    #[test]
    fn a_call_to_the_outside_world_may_wait_as_long_as_calls_may() {
        let late =
            || calm().completed("s1", 10_100, "total 1").asked(7, 20_000).answered(7, 100_000, "5");
        assert_eq!(late().violations("isolation").len(), 1);
        let outside = |scripted: ScriptedRun| {
            scripted.guarantees(|guarantees| {
                (guarantees.outside, guarantees.call_wait) =
                    (&["server"], std::time::Duration::from_mins(10))
            })
        };
        outside(late()).holds("isolation");
    }

    #[test]
    fn a_stream_touched_by_a_fault_is_not_calm() {
        calm().kills(3_000, 3_100).completed("s1", 10_001 + CALM, "total 1").holds("isolation");
    }

    #[test]
    fn a_failure_without_trouble_elsewhere_is_not_an_isolation_violation() {
        let scripted = history().opened("s1", 1, 0).failed_stream("s1", 3_000, "lost");
        scripted.holds("isolation");
        assert_eq!(scripted.violations("justified_failure").len(), 1);
    }

    #[test]
    fn a_puppet_elsewhere_counts_as_trouble() {
        let scripted =
            history().puppet("client2").opened("s1", 1, 0).failed_stream("s1", 3_000, "taken over");
        assert_eq!(scripted.violations("isolation").len(), 1);
    }

    #[test]
    fn closing_one_stream_does_not_fail_its_neighbour() {
        let scripted = history()
            .opened("s1", 1, 0)
            .opened("s2", 2, 0)
            .gave_up(3, Some("s1"), 5_000)
            .failed_stream("s1", 5_000, "closed");
        scripted.clone().failed_stream("s1", 5_000, "closed").holds("isolation");
        assert_eq!(
            scripted.failed_stream("s2", 5_010, "closed").violations("isolation"),
            [
                "s2: it failed (closed) after item 0, although faults touched only other paths (at 5.010 s)"
            ]
        );
    }

    /// A cut during which more of `s1` is produced than is retained (10 items), but only a little
    /// of `s2`.
    fn gap_of_one() -> ScriptedRun {
        let scripted =
            history().opened("s1", 1, 0).opened("s2", 2, 0).answered(9, 10, "").kills(5_000, 7_000);
        let scripted =
            (0..11).fold(scripted, |scripted, n| scripted.produced("s1", 5_100 + n, "a"));
        scripted.asked(9, 1).produced("s2", 5_200, "b").failed_stream("s1", 8_000, "gap")
    }

    #[test]
    fn the_gap_of_one_stream_does_not_fail_its_neighbour() {
        gap_of_one().holds("isolation");
        assert_eq!(
            gap_of_one().failed_stream("s2", 8_000, "gap").violations("isolation"),
            [
                "s2: it failed (gap) after item 0, at the moment when s1 failed for a reason of its own (at 8.000 s)"
            ]
        );
    }

    #[test]
    fn the_parts_of_a_whole_may_fail_together() {
        let scripted = history()
            .opened_with_parts(&["p1", "p1/stdout"], 1, 0)
            .opened("p2", 2, 0)
            .answered(9, 10, "")
            .asked(9, 1);
        let scripted = scripted.kills(5_000, 7_000).produced("p1/stdout", 5_100, &"x".repeat(101));
        let scripted =
            scripted.failed_stream("p1", 8_000, "gap").failed_stream("p1/stdout", 8_000, "gap");
        scripted.holds("isolation");
        assert_eq!(scripted.failed_stream("p2", 8_000, "gap").violations("isolation").len(), 1);
    }

    #[test]
    fn a_whole_is_due_when_its_last_part_has_ended() {
        let scripted = history().by("client2").kills(2_000, 4_000).by("client").opened_with_parts(
            &["p1", "p1/stdout"],
            1,
            0,
        );
        let scripted = scripted.ended("p1", 10_000, "exit 0").ended("p1/stdout", 30_000, "closed");
        let completed = |ms| {
            scripted.clone().completed("p1", ms, "exit 0").completed("p1/stdout", ms, "closed")
        };
        completed(30_000 + CALM).holds("isolation");
        assert_eq!(completed(30_001 + CALM).violations("isolation").len(), 2);
        history()
            .by("client2")
            .kills(2_000, 4_000)
            .by("client")
            .opened_with_parts(&["p1", "p1/stdout"], 1, 0)
            .ended("p1", 10_000, "exit 0")
            .holds("isolation");
    }

    #[test]
    fn a_neighbour_that_fails_much_later_was_not_dragged_along() {
        let scripted = gap_of_one().failed_stream("s2", 9_001, "lost");
        scripted.holds("isolation");
        assert_eq!(scripted.violations("justified_failure").len(), 1);
    }
}

//! `one_ending`: each stream and call ends exactly once, completed or failed, and nothing follows
//! the ending.
//!
//! A user may ask a stream for its ending again; the answer must then be the same. A stream may
//! complete only if everything produced was delivered, the producer had ended, and the reported
//! outcome is the true one. `bounded_ending` checks that there is an ending at all.

use crate::history::{Data, Ending};

use super::facts::{CallEnding, CallFacts, Facts};
use super::findings::Findings;
use super::view::View;
use super::violation::{fields, kinds};
use super::{Phrase, ViolationFields};

kinds! {
    pub(super) KINDS;
    UNASKED = "unasked": "{subject:}it was answered, but was never asked {moment}";
    TWICE = "twice": "{subject:}it {first}, and then it {second} {moment}";
    AFTER_THE_END = "after-the-end": "{subject:}{bytes} bytes were delivered after it {ending} {moment}";
    UNTRUE = "untrue": "{subject:}it {ending}, but {wrong} {moment}";
}

// Parts of these sentences: how something ended, and what is wrong with that.
kinds! {
    COMPLETED = "completed": "completed ({outcome})";
    FAILED = "failed": "failed ({reason})";
    ANSWERED = "answered": "was answered ({answer})";
    NOT_ENDED = "not-ended": "its producer had not ended";
    OTHER_OUTCOME = "other-outcome": "the true outcome is {outcome}";
    INCOMPLETE = "incomplete": "of {items} items only {had} had been delivered";
}

/// Reports the first violation of each view and call.
pub(super) fn check(facts: &Facts<'_>, broken: &mut Findings) {
    for view in &facts.views {
        check_view(facts, view, broken);
    }
    for call in &facts.calls {
        check_call(facts, call, broken);
    }
    for (call, at) in &facts.unasked {
        facts.cx.judges("one_ending");
        broken.push(*call, *at, &UNASKED, ViolationFields::default());
    }
}

fn check_view(facts: &Facts<'_>, view: &View<'_>, broken: &mut Findings) {
    let Some((index, at, ending)) = view.ending() else { return };
    facts.cx.judges("one_ending");
    let generation = view.generation_before(index);
    if let Some((_, again, other)) = view.endings.iter().find(|(.., other)| *other != ending) {
        let data = fields! { first: report(ending), second: report(other) };
        broken.push(view.stream, *again, &TWICE, data.with("generation", generation));
    } else if let Some(item) = view.delivered.iter().find(|item| item.index > index) {
        let data = fields! { bytes: item.bytes.len(), ending: report(ending) };
        broken.push(view.stream, item.at, &AFTER_THE_END, data.with("generation", item.generation));
    } else if let Ending::Completed { outcome } = ending
        && let Some(wrong) = completed_wrongly(facts, view, index, outcome)
    {
        broken.push(
            view.stream,
            at,
            &UNTRUE,
            fields! { ending: report(ending), wrong }.with("generation", generation),
        );
    }
}

/// Returns what is wrong with a completion.
fn completed_wrongly(
    facts: &Facts<'_>,
    view: &View<'_>,
    index: usize,
    outcome: &Data,
) -> Option<Phrase> {
    if facts.path(view.path).puppet {
        return None;
    }
    let source = &facts.sources[view.source];
    let mut ends = source.ends.iter().filter(|(ended, ..)| *ended < index);
    let Some((_, _, last)) = ends.clone().next_back() else {
        return Some(Phrase::new(&NOT_ENDED, ViolationFields::default()));
    };
    if !ends.any(|(.., real)| *real == outcome) {
        return Some(Phrase::new(&OTHER_OUTCOME, fields! { outcome: *last }));
    }
    let produced = source.produced_before(index);
    let had = view.fit.items;
    (view.fit.difference.is_none() && !view.fit.is_all_before(source, index))
        .then(|| Phrase::new(&INCOMPLETE, fields! { items: produced - view.fit.start, had }))
}

fn check_call(facts: &Facts<'_>, call: &CallFacts<'_>, broken: &mut Findings) {
    if !call.endings.is_empty() {
        facts.cx.judges("one_ending");
    }
    if let [(_, _, first), (_, at, second), ..] = call.endings[..] {
        broken.push(
            call,
            at,
            &TWICE,
            fields! { first: render_call(first), second: render_call(second) },
        );
    }
}

/// Describes how a stream ended.
pub(super) fn report(ending: &Ending) -> Phrase {
    match ending {
        Ending::Completed { outcome } => Phrase::new(&COMPLETED, fields! { outcome }),
        Ending::Failed { reason } => Phrase::new(&FAILED, fields! { reason }),
    }
}

/// Describes how a call ended.
pub(super) fn render_call(ending: CallEnding<'_>) -> Phrase {
    match ending {
        CallEnding::Answered(answer) => Phrase::new(&ANSWERED, fields! { answer }),
        CallEnding::Failed(reason) => Phrase::new(&FAILED, fields! { reason }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::scripted::{ScriptedRun, history};

    /// `s1` with one item, which was delivered, and a real end at 1 s.
    fn ended() -> ScriptedRun {
        history()
            .opened("s1", 1, 0)
            .produced("s1", 500, "a")
            .delivered("s1", 520, "a")
            .ended("s1", 1_000, "total 1")
    }

    #[test]
    fn a_completion_with_everything_is_fine() {
        ended().completed("s1", 1_020, "total 1").holds("one_ending");
    }

    #[test]
    fn the_same_ending_may_be_reported_again() {
        ended()
            .failed_stream("s1", 1_020, "lost")
            .failed_stream("s1", 9_000, "lost")
            .holds("one_ending");
    }

    #[test]
    fn a_different_reason_on_a_second_request_is_a_second_ending() {
        assert_eq!(
            ended()
                .failed_stream("s1", 1_020, "lost")
                .failed_stream("s1", 9_000, "timed out")
                .violations("one_ending"),
            ["s1: it failed (lost), and then it failed (timed out) (generation 1, at 9.000 s)"]
        );
    }

    #[test]
    fn nothing_comes_after_the_ending() {
        assert_eq!(
            ended()
                .failed_stream("s1", 1_020, "lost")
                .delivered_in(2, "s1", 1_500, "bc")
                .violations("one_ending"),
            ["s1: 2 bytes were delivered after it failed (lost) (generation 2, at 1.500 s)"]
        );
    }

    #[test]
    fn a_completion_before_the_end_is_a_violation() {
        let scripted = history()
            .opened("s1", 1, 0)
            .completed("s1", 999, "total 0")
            .ended("s1", 1_000, "total 0");
        assert_eq!(
            scripted.violations("one_ending"),
            ["s1: it completed (total 0), but its producer had not ended (at 0.999 s)"]
        );
    }

    #[test]
    fn a_completion_with_another_outcome_is_a_violation() {
        assert_eq!(
            ended().completed("s1", 1_020, "total 2").violations("one_ending"),
            [
                "s1: it completed (total 2), but the true outcome is total 1 (generation 1, at 1.020 s)"
            ]
        );
    }

    #[test]
    fn a_completion_without_the_last_items_is_a_violation() {
        let scripted = ended().produced("s1", 900, "b").completed("s1", 1_020, "total 1");
        assert_eq!(
            scripted.violations("one_ending"),
            [
                "s1: it completed (total 1), but of 2 items only 1 had been delivered (generation 1, at 1.020 s)"
            ]
        );
    }

    #[test]
    fn a_call_ends_only_once() {
        let scripted = history().asked(1, 0).answered(1, 20, "5");
        scripted.clone().holds("one_ending");
        assert_eq!(
            scripted.clone().answered(1, 30, "5").violations("one_ending"),
            ["call 1 (add): it was answered (5), and then it was answered (5) (at 0.030 s)"]
        );
        assert_eq!(
            scripted.failed(1, 30, "lost").violations("one_ending"),
            ["call 1 (add): it was answered (5), and then it failed (lost) (at 0.030 s)"]
        );
    }

    #[test]
    fn the_ending_of_a_call_never_made_is_a_violation() {
        assert_eq!(
            history().answered(7, 20, "5").violations("one_ending"),
            ["call 7: it was answered, but was never asked (at 0.020 s)"]
        );
    }
}

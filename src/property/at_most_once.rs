//! `at_most_once`: a mutating operation takes effect at most once, and exactly once if it was acknowledged; effects on one target
//! come in the order of issue.
//!
//! An operation is taken for mutating if one of its verb took effect in the run. Opening a stream acknowledges. A refusal
//! acknowledges nothing, nor does an answer to what is queued. The calls of two hosts have no order among each other, nor have those
//! of two lives of one host: what a client that died had sent may take effect after what the next one asked. [`Call::NONE`] stands for an effect
//! whose call the outside world cannot tell.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{Call, Time};

use super::facts::{CallEnding, CallFacts, Effect, Facts};
use super::findings::Findings;
use super::violation::{fields, kinds};

kinds! {
    pub(super) KINDS;
    UNASKED = "unasked": "{subject:}it took effect on {target}, but no call asked for it {moment}";
    OUT_OF_ORDER = "out-of-order": "{subject:}it took effect on {target} after {newer} {moment}";
    TWICE = "twice": "{subject:}it took effect on {target} again, after {before} {moment}";
    LOST = "lost": "{subject:}it was acknowledged ({answer}), but never took effect {moment}";
    OPENED_AND_LOST = "opened-and-lost": "{subject:}it opened {stream}, but never took effect {moment}";
}

/// Doubled, disordered, unasked and lost effects.
pub(super) fn check(facts: &Facts<'_>, broken: &mut Findings) {
    let effects = || facts.effects.iter().filter(|effect| effect.call != Call::NONE);
    if effects().next().is_none() {
        return;
    }
    let mut first: BTreeMap<Call, Time> = BTreeMap::new();
    let mut newest: BTreeMap<(&str, usize, &str), &CallFacts<'_>> = BTreeMap::new();
    for effect in effects() {
        let Some(call) = facts.call(effect.call) else {
            broken.push(effect.call, effect.at, &UNASKED, fields! { target: effect.target });
            continue;
        };
        if let Some(before) = first.get(&effect.call) {
            twice(call, effect, *before, broken);
            continue;
        }
        first.insert(effect.call, effect.at);
        let newest = newest.entry((call.host, call.contact, effect.target)).or_insert(call);
        if newest.call > call.call {
            broken.push(
                call,
                effect.at,
                &OUT_OF_ORDER,
                fields! { target: effect.target, newer: newest.name() },
            );
        } else {
            *newest = call;
        }
    }
    lost(facts, &first, broken);
}

fn twice(call: &CallFacts<'_>, effect: &Effect<'_>, before: Time, broken: &mut Findings) {
    broken.push(call, effect.at, &TWICE, fields! { target: effect.target, before });
}

/// What was acknowledged and never took effect.
fn lost(facts: &Facts<'_>, took_effect: &BTreeMap<Call, Time>, broken: &mut Findings) {
    let mutating: BTreeSet<&str> = took_effect
        .keys()
        .filter_map(|call| facts.call(*call))
        .map(|call| &*call.operation.verb)
        .collect();
    for call in facts.calls.iter().filter(|call| {
        mutating.contains(&*call.operation.verb) && !took_effect.contains_key(&call.call)
    }) {
        match call.endings.first() {
            Some((_, at, CallEnding::Answered(answer))) if answer.acknowledges() => {
                broken.push(call, *at, &LOST, fields! { answer: *answer });
            }
            _ => {}
        }
    }
    let mut scripted = BTreeSet::new();
    for view in &facts.views {
        let Some((call, at)) = view.opened.and_then(|(_, at, call)| Some((facts.call(call)?, at)))
        else {
            continue;
        };
        let is_lost =
            mutating.contains(&*call.operation.verb) && !took_effect.contains_key(&call.call);
        if is_lost && scripted.insert(call.call) {
            broken.push(call, at, &OPENED_AND_LOST, fields! { stream: view.stream });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::scripted::{ScriptedRun, history};
    use crate::history::Answer;

    /// Calls 1 and 2 add to c1; the first took effect.
    fn adds() -> ScriptedRun {
        history().asked(1, 0).asked(2, 10).effect(1, 100, "c1")
    }

    #[test]
    fn once_each_in_the_order_of_issue_is_fine() {
        adds()
            .effect(2, 110, "c1")
            .answered(1, 120, "1")
            .answered(2, 130, "2")
            .holds("at_most_once");
    }

    #[test]
    fn what_failed_may_have_taken_effect_or_not() {
        adds().failed(1, 120, "lost").failed(2, 130, "lost").holds("at_most_once");
    }

    #[test]
    fn twice_is_too_much() {
        assert_eq!(
            adds().effect(1, 900, "c1").breaks("at_most_once"),
            ["call 1 (add): it took effect on c1 again, after 0.100 s (at 0.900 s)"]
        );
    }

    #[test]
    fn an_older_call_must_not_take_effect_after_a_newer_one() {
        let scripted = adds().asked(3, 20).effect(3, 150, "c1").effect(2, 160, "c1");
        assert_eq!(
            scripted.breaks("at_most_once"),
            ["call 2 (add): it took effect on c1 after call 3 (add) (at 0.160 s)"]
        );
        adds().asked(3, 20).effect(3, 150, "c2").effect(2, 160, "c1").holds("at_most_once");
        adds()
            .by("client2")
            .asked(3, 20)
            .effect(3, 150, "c1")
            .effect(2, 160, "c1")
            .holds("at_most_once");
    }

    #[test]
    fn what_an_earlier_life_of_a_client_had_sent_may_take_effect_after_what_the_next_one_asked() {
        let scripted =
            |died: ScriptedRun| died.asked(3, 20).effect(3, 150, "c1").effect(2, 160, "c1");
        scripted(adds().died("client", 15)).holds("at_most_once");
        assert_eq!(scripted(adds().died("server", 15)).breaks("at_most_once").len(), 1);
    }

    #[test]
    fn what_was_acknowledged_took_effect() {
        assert_eq!(
            adds().answered(2, 130, "2").breaks("at_most_once"),
            ["call 2 (add): it was acknowledged (2), but never took effect (at 0.130 s)"]
        );
        adds().answered(2, 130, Answer::refused("no such counter")).holds("at_most_once");
        adds().answered(2, 130, Answer::queued("the reader may be gone")).holds("at_most_once");
        // What is said does not count, but what it is.
        for text in ["refused", "queued: the reader may be gone"] {
            assert_eq!(adds().answered(2, 130, text).breaks("at_most_once").len(), 1, "{text}");
        }
    }

    #[test]
    fn what_opened_a_stream_took_effect() {
        let scripted = history().opened("s1", 1, 0).effect(1, 5, "s1").opened("s2", 2, 10);
        assert_eq!(
            scripted.breaks("at_most_once"),
            ["call 2 (watch): it opened s2, but never took effect (at 0.010 s)"]
        );
        scripted.effect(2, 15, "s2").holds("at_most_once");
    }

    #[test]
    fn a_verb_that_mutates_nothing_is_acknowledged_without_effect() {
        adds()
            .asked_as(3, 20, crate::history::Class::InFlight, "peek", "{}")
            .answered(3, 40, "1")
            .holds("at_most_once");
    }

    #[test]
    fn what_nobody_asked_for_takes_no_effect() {
        assert_eq!(
            adds().effect(9, 500, "c1").breaks("at_most_once"),
            ["call 9: it took effect on c1, but no call asked for it (at 0.500 s)"]
        );
    }
}

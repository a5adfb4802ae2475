//! `at_most_once`: a mutating operation takes effect at most once, and exactly once if it was
//! acknowledged. Effects on one target occur in the order in which the calls were issued.
//!
//! A call counts as mutating if any call with the same verb took effect in the run. Opening a
//! stream counts as an acknowledgement. A refusal is not an acknowledgement, and neither is the
//! answer that a request is queued. Calls of two hosts are not ordered relative to each other.
//! Calls of two incarnations of one host are not ordered either: a request sent by a client that
//! died may take effect after a request of the next incarnation. The same applies to a request that
//! its user gave up, if another client of its host began since, as after the reload of a window.
//! [`Call::NONE`] marks an effect whose call the outside world cannot identify.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{Answer, Call, Time};

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

/// Checks for duplicate, out-of-order, unrequested and lost effects.
pub(super) fn check(facts: &Facts<'_>, broken: &mut Findings) {
    let effects = || facts.effects.iter().filter(|effect| effect.call != Call::NONE);
    if effects().next().is_none() {
        return;
    }
    let mut first: BTreeMap<Call, Time> = BTreeMap::new();
    let mut newest: BTreeMap<(&str, usize, &str), &CallFacts<'_>> = BTreeMap::new();
    for effect in effects() {
        facts.cx.judges("at_most_once");
        let Some(call) = facts.call(effect.call) else {
            broken.push(effect.call, effect.at, &UNASKED, fields! { target: effect.target });
            continue;
        };
        if let Some(before) = first.get(&effect.call) {
            twice(call, effect, *before, broken);
            continue;
        }
        first.insert(effect.call, effect.at);
        let newest = newest.entry((call.host, call.incarnation, effect.target)).or_insert(call);
        if newest.call <= call.call {
            *newest = call;
        } else if let Some(newer) = overtaken_by(facts, call, effect) {
            broken.push(
                call,
                effect.at,
                &OUT_OF_ORDER,
                fields! { target: effect.target, newer: newer.name() },
            );
        }
    }
    lost(facts, &first, broken);
}

/// Returns the newest call of the same client that took effect before this one on the same target.
fn overtaken_by<'f>(
    facts: &'f Facts<'_>,
    call: &CallFacts<'_>,
    effect: &Effect<'_>,
) -> Option<&'f CallFacts<'f>> {
    let before = facts.effects.iter().take_while(|other| !std::ptr::eq(*other, effect));
    let others = before.filter(|other| other.target == effect.target);
    let newer = others.filter_map(|other| Some((facts.call(other.call)?, other.at)));
    let newer = newer.filter(|(other, at)| {
        (other.host, other.incarnation) == (call.host, call.incarnation)
            && other.call > call.call
            && !is_of_next_client(facts, call, other, *at)
    });
    newer.map(|(other, _)| other).max_by_key(|other| other.call)
}

/// Returns whether a newer call, which took effect at a time, is of another client than a call: the
/// user gave up the call before the newer one, and another client of the host began since.
fn is_of_next_client(
    facts: &Facts<'_>,
    call: &CallFacts<'_>,
    newer: &CallFacts<'_>,
    at: Time,
) -> bool {
    let mut gave_up = call.endings.iter().filter(|(index, _, how)| {
        matches!(how, CallEnding::Answered(Answer::GivenUp)) && *index < newer.index
    });
    let began = gave_up.next().and_then(|(_, gave_up, _)| facts.begins_anew(call.host, *gave_up));
    began.is_some_and(|began| began <= at)
}

fn twice(call: &CallFacts<'_>, effect: &Effect<'_>, before: Time, broken: &mut Findings) {
    broken.push(call, effect.at, &TWICE, fields! { target: effect.target, before });
}

/// Checks for acknowledged calls that never took effect.
fn lost(facts: &Facts<'_>, took_effect: &BTreeMap<Call, Time>, broken: &mut Findings) {
    let mutating: BTreeSet<&str> = took_effect
        .keys()
        .filter_map(|call| facts.call(*call))
        .map(|call| &*call.operation.verb)
        .collect();
    for call in facts.calls.iter().filter(|call| mutating.contains(&*call.operation.verb)) {
        match call.endings.first() {
            Some((_, at, CallEnding::Answered(answer))) if answer.acknowledges() => {
                facts.cx.judges("at_most_once");
                if !took_effect.contains_key(&call.call) {
                    broken.push(call, *at, &LOST, fields! { answer: *answer });
                }
            }
            _ => {}
        }
    }
    let mut reported = BTreeSet::new();
    for view in &facts.views {
        let Some((call, at)) = view.opened.and_then(|(_, at, call)| Some((facts.call(call)?, at)))
        else {
            continue;
        };
        if !mutating.contains(&*call.operation.verb) {
            continue;
        }
        facts.cx.judges("at_most_once");
        if !took_effect.contains_key(&call.call) && reported.insert(call.call) {
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
    fn a_failed_call_may_or_may_not_take_effect() {
        adds().failed(1, 120, "lost").failed(2, 130, "lost").holds("at_most_once");
    }

    #[test]
    fn a_second_effect_is_a_violation() {
        assert_eq!(
            adds().effect(1, 900, "c1").violations("at_most_once"),
            ["call 1 (add): it took effect on c1 again, after 0.100 s (at 0.900 s)"]
        );
    }

    #[test]
    fn an_older_call_must_not_take_effect_after_a_newer_one() {
        let scripted = adds().asked(3, 20).effect(3, 150, "c1").effect(2, 160, "c1");
        assert_eq!(
            scripted.violations("at_most_once"),
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
    fn a_call_of_an_earlier_incarnation_may_take_effect_after_a_call_of_the_next() {
        let scripted =
            |died: ScriptedRun| died.asked(3, 20).effect(3, 150, "c1").effect(2, 160, "c1");
        scripted(adds().died("client", 15)).holds("at_most_once");
        assert_eq!(scripted(adds().died("server", 15)).violations("at_most_once").len(), 1);
    }

    #[test]
    fn a_call_of_a_client_that_ended_may_take_effect_after_a_call_of_the_next_client() {
        let effects = |scripted: ScriptedRun, opened| {
            let scripted = scripted.conn(1, opened, None).asked(3, 60);
            scripted.effect(3, 150, "c1").effect(2, 160, "c1")
        };
        let reloaded = || adds().answered(2, 50, Answer::GivenUp);
        effects(reloaded(), 55).holds("at_most_once");
        let violations = |scripted: ScriptedRun| scripted.violations("at_most_once").len();
        // The calls are of one client: no other one began, or the user did not give up.
        assert_eq!(violations(effects(reloaded(), 40)), 1);
        assert_eq!(violations(effects(adds(), 55)), 1);
        // The calls of the client that ended have an order, too.
        let late = history().asked(1, 0).asked(2, 10);
        let late = late.answered(1, 50, Answer::GivenUp).answered(2, 50, Answer::GivenUp);
        assert_eq!(violations(effects(late, 55).effect(1, 170, "c1")), 1);
    }

    #[test]
    fn an_acknowledged_call_must_take_effect() {
        assert_eq!(
            adds().answered(2, 130, "2").violations("at_most_once"),
            ["call 2 (add): it was acknowledged (2), but never took effect (at 0.130 s)"]
        );
        adds().answered(2, 130, Answer::refused("no such counter")).holds("at_most_once");
        adds().answered(2, 130, Answer::queued("the reader may be gone")).holds("at_most_once");
        // The text of the answer does not matter, only its kind.
        for text in ["refused", "queued: the reader may be gone"] {
            assert_eq!(adds().answered(2, 130, text).violations("at_most_once").len(), 1, "{text}");
        }
    }

    #[test]
    fn a_call_that_opened_a_stream_must_take_effect() {
        let scripted = history().opened("s1", 1, 0).effect(1, 5, "s1").opened("s2", 2, 10);
        assert_eq!(
            scripted.violations("at_most_once"),
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
    fn an_effect_without_a_call_is_a_violation() {
        assert_eq!(
            adds().effect(9, 500, "c1").violations("at_most_once"),
            ["call 9: it took effect on c1, but no call asked for it (at 0.500 s)"]
        );
    }
}

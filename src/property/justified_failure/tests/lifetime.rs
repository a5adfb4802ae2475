//! The lifetime of the session is over.

use super::*;

/// An outage of this length, with a recovery deadline that is much longer.
fn outage(lasts: u64) -> ScriptedRun {
    let scripted = open()
        .kills(5_000, 5_000 + lasts)
        .guarantees(|guarantees| guarantees.recovery = Duration::from_secs(500));
    fails(scripted, 5_000 + lasts + 3_000)
}

#[test]
fn an_outage_of_the_sessions_lifetime_justifies() {
    judged(&outage(SESSION), Is::Justified);
    judged(&outage(SESSION - 1), Is::Inconclusive);
    judged(&outage(SESSION - 2 * A), Is::Inconclusive);
    judged(&outage(SESSION - 2 * A - 1), Is::Unjustified);
}

#[test]
fn outages_with_less_than_a_between_them_are_one() {
    let scripted = |calm: u64| {
        let scripted = open().kills(5_000, 20_000).kills(20_000 + calm, 20_000 + calm + 15_000);
        fails(
            scripted.guarantees(|guarantees| guarantees.recovery = Duration::from_secs(500)),
            45_000,
        )
    };
    judged(&scripted(A - 1), Is::Justified);
    judged(&scripted(A), Is::Unjustified);
}

#[test]
fn an_outage_before_the_opening_justifies_only_without_a_later_sign_of_life() {
    let scripted = open()
        .kills(2_000, 2_000 + SESSION)
        .guarantees(|guarantees| guarantees.recovery = Duration::from_secs(500));
    judged(
        &scripted.clone().opened("s2", 2, 50_000).failed_stream("s2", 50_010, "session lost"),
        Is::Justified,
    );
    let incarnations = scripted.asked(6, 45_000).answered(6, 45_020, "1");
    judged(
        &incarnations.opened("s2", 2, 50_000).failed_stream("s2", 50_010, "session lost"),
        Is::Unjustified,
    );
}

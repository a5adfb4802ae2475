//! The server died, and what shows that it lives again.

use super::*;

#[test]
fn a_server_that_died_since_the_session_began_justifies() {
    let scripted = open().died("server", 5_000).started("server", 5_100);
    judged(&fails(scripted.clone(), 60_000), Is::Justified);
    judged(&fails(open().died("client2", 5_000), 60_000), Is::Unjustified);
    // A death after the failure does not justify it.
    judged(&fails(scripted, 4_999), Is::Unjustified);
}

/// An item that was in flight when its server died arrives after the death, and is no sign of life.
#[test]
fn an_item_in_flight_at_the_servers_death_is_no_sign_of_life() {
    let scripted = open()
        .produced("s1", 4_990, "last")
        .died("server", 5_000)
        .delivered("s1", 5_010, "last")
        .started("server", 5_100);
    judged(
        &fails(scripted.clone().opened("s2", 2, 5_050).failed_stream("s2", 5_200, "lost"), 60_000),
        Is::Justified,
    );
    let after = scripted.produced("s1", 6_000, "new").delivered("s1", 6_010, "new");
    judged(&after.opened("s2", 2, 6_050).failed_stream("s2", 6_200, "lost"), Is::Unjustified);
}

/// The same applies to an answer: it shows only that the server was alive at the time of the call,
/// or of its effect.
#[test]
fn an_answer_in_flight_at_the_servers_death_is_no_sign_of_life() {
    let scripted = open()
        .asked(6, 4_980)
        .effect(6, 4_990, "c1")
        .died("server", 5_000)
        .answered(6, 5_010, "1")
        .started("server", 5_100);
    judged(&scripted.opened("s2", 2, 5_002).failed_stream("s2", 5_200, "lost"), Is::Justified);
    let after = open()
        .died("server", 5_000)
        .started("server", 5_100)
        .asked(6, 5_110)
        .answered(6, 5_130, "1");
    judged(&after.opened("s2", 2, 5_150).failed_stream("s2", 5_200, "lost"), Is::Unjustified);
}

/// A call that its user gave up proves nothing: its request may never have left.
#[test]
fn a_given_up_call_is_no_sign_of_life() {
    let asked = || open().died("server", 5_000).started("server", 5_100).asked(6, 5_110);
    let failed =
        |scripted: ScriptedRun| scripted.opened("s2", 2, 5_150).failed_stream("s2", 5_200, "lost");
    judged(&failed(asked().answered(6, 5_130, Answer::GivenUp)), Is::Justified);
    judged(&failed(asked().answered(6, 5_130, Answer::queued("accepted"))), Is::Unjustified);
}

/// A client that answers on its own, at the time of the call, proves nothing about its server.
#[test]
fn an_answer_of_the_client_itself_is_no_sign_of_life() {
    let asked = |answered| {
        open()
            .died("server", 5_000)
            .started("server", 5_100)
            .asked(6, 5_110)
            .answered(6, answered, "1")
    };
    let failed =
        |scripted: ScriptedRun| scripted.opened("s2", 2, 5_150).failed_stream("s2", 5_200, "lost");
    judged(&failed(asked(5_110)), Is::Justified);
    judged(&failed(asked(5_111)), Is::Unjustified);
    let local = asked(5_111).guarantees(|guarantees| guarantees.is_local = |_| true);
    judged(&failed(local), Is::Justified);
}

#[test]
fn a_server_that_died_before_the_session_began_does_not_justify() {
    let scripted = open()
        .died("server", 5_000)
        .started("server", 5_100)
        .asked(6, 10_000)
        .answered(6, 10_020, "1");
    judged(&scripted.opened("s2", 2, 50_000).failed_stream("s2", 50_010, "lost"), Is::Unjustified);
}

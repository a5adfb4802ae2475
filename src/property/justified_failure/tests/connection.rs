//! The calls and streams that may fail with their connection.

use super::*;

#[test]
fn a_call_in_flight_may_fail_with_its_connection() {
    for class in [Class::InFlight, Class::Bound] {
        let scripted = || history().asked(6, 0).answered(6, 20, "1").kills(40_000, 40_000);
        let fails = |asked, at| {
            scripted().asked_as(7, asked, class, "peek", "{}").failed(7, at, "connection lost")
        };
        judged(&fails(39_000, 40_000), Is::Justified);
        judged(&fails(39_000, 39_999), Is::Unjustified);
        // The call is made on a connection that is already dead, within detection and A.
        judged(&fails(40_000 + 16_000 + A, 60_000), Is::Justified);
        judged(&fails(40_001 + 16_000 + A, 60_000), Is::Unjustified);
    }
    judged(
        &history().kills(40_000, 40_000).asked(7, 39_000).failed(7, 40_000, "connection lost"),
        Is::Unjustified,
    );
}

#[test]
fn the_stream_of_a_bound_call_may_fail_with_its_connection() {
    let scripted = |at| {
        history()
            .asked(6, 0)
            .answered(6, 20, "1")
            .kills(40_000, 40_000)
            .opened_bound("h1", 7, 39_000)
            .failed_stream("h1", at, "lost")
    };
    judged(&scripted(40_000), Is::Justified);
    judged(&scripted(39_999), Is::Unjustified);
}

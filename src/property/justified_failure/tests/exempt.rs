//! The user or the world gave up, or the peer is a puppet.

use super::*;

#[test]
fn a_stream_that_the_user_closed_may_fail() {
    judged(&fails(open().gave_up(2, Some("s1"), 5_000), 5_000), Is::Justified);
    judged(&fails(open().gave_up(2, None, 5_000), 5_000), Is::Justified);
    judged(&fails(open().gave_up(2, Some("s1"), 5_001), 5_000), Is::Unjustified);
    judged(&fails(open().gave_up(2, Some("s2"), 5_000), 5_000), Is::Unjustified);
    judged(
        &fails(open().by("client2").gave_up(2, None, 5_000).by("client"), 5_000),
        Is::Unjustified,
    );
}

#[test]
fn calls_end_with_the_client_that_the_user_closed() {
    let scripted = open().asked(7, 4_000).gave_up(2, None, 5_000);
    judged(&scripted.clone().failed(7, 5_000, "closed"), Is::Justified);
    judged(&scripted.clone().asked(8, 6_000).failed(8, 6_000, "closed"), Is::Justified);
    judged(
        &open().asked(7, 4_000).gave_up(2, Some("s1"), 5_000).failed(7, 5_000, "closed"),
        Is::Unjustified,
    );
}

#[test]
fn the_world_closes_the_clients_at_the_horizon() {
    let scripted = open().horizon(60_000);
    judged(&fails(scripted.clone(), 60_000), Is::Justified);
    judged(&fails(scripted, 59_999), Is::Unjustified);
}

#[test]
fn a_puppet_as_peer_justifies_and_a_puppet_elsewhere_does_not() {
    judged(&fails(open().puppet("server"), 5_000), Is::Justified);
    judged(&fails(open().puppet("client2"), 5_000), Is::Unjustified);
}

#[test]
fn a_changed_message_on_its_path_justifies_and_one_elsewhere_does_not() {
    let run = |host: &str| open().by(host).conn(1, 0, None).tampered(1_000).by("client");
    judged(&fails(run("client"), 5_000), Is::Justified);
    judged(&fails(run("client2"), 5_000), Is::Unjustified);
}

//! Tests of requests that the client sends through the server.

use super::super::http::{
    credentials_stay, end_with_their_connection, fail_truly, methods_are_kept, redirects_end,
    responses_are_true,
};
use super::super::sequence::in_sequence;
use super::{milestone, violations};
use crate::history::{Class, EventKind};
use crate::property::scripted::history;
use crate::subjects::exec::answers::{ExecFailure, ExecObservation};
use reknit_exec::client::Failure;

#[test]
fn requests_of_a_connection_end_with_it() {
    let scripted =
        |over, end| history().conn(1, 0, over).by("server").upstream(1_000, end).by("client");
    assert!(violations(&scripted(Some(5_000), Some(5_500)), end_with_their_connection).is_empty());
    assert!(
        violations(&scripted(None, None), end_with_their_connection).is_empty(),
        "its connection lives"
    );
    let wrong =
        ["server#1 still exists, although every connection that could own it ended by 5.000 s"];
    assert_eq!(violations(&scripted(Some(5_000), Some(6_001)), end_with_their_connection), wrong);
    assert_eq!(violations(&scripted(Some(5_000), None), end_with_their_connection), wrong);
    let another = scripted(Some(5_000), None).conn(2, 500, None);
    assert!(violations(&another, end_with_their_connection).is_empty(), "it may be for that one");
    assert!(
        violations(&scripted(Some(5_000), None).died("server", 5_100), end_with_their_connection)
            .is_empty()
    );
}

#[test]
fn a_request_is_lost_with_a_connection_whose_end_its_client_notices_late() {
    let noticed =
        |scripted, ms, conn| milestone(scripted, ms, "exec.client.lost", &[("conn", conn)]);
    let scripted = |over, lost: Option<u64>| {
        let scripted = history().conn(1, 0, Some(over)).asked_as(
            2,
            1_100,
            Class::InFlight,
            "http-stream",
            r#"{"body":"w1"}"#,
        );
        let scripted = lost.into_iter().fold(scripted, |scripted, ms| noticed(scripted, ms, "1"));
        scripted.failed(2, 1_266, ExecFailure(Failure::ConnectionLost))
    };
    assert!(
        violations(&scripted(1_200, None), fail_truly).is_empty(),
        "it was over since the request"
    );
    assert!(
        violations(&scripted(1_000, Some(1_266)), fail_truly).is_empty(),
        "the client noticed the end since the request"
    );
    assert_eq!(violations(&scripted(1_000, None), fail_truly).len(), 1);
    assert_eq!(
        violations(&scripted(1_000, Some(1_099)), fail_truly).len(),
        1,
        "the client noticed the end before the request"
    );
    assert_eq!(violations(&scripted(5_000, Some(1_266)), fail_truly).len(), 1, "it was not over");
}

#[test]
fn credentials_belong_to_one_origin() {
    let saw = EventKind::Observed {
        stream: "h1".into(),
        saw: ExecObservation::ForeignCredentials.into(),
    };
    let leaked = history().user(1_000, saw);
    assert_eq!(
        violations(&leaked, credentials_stay),
        ["h1: another origin received the credentials of the request (at 1.000 s)"]
    );
    assert!(violations(&leaked, in_sequence).is_empty());
    assert!(violations(&history(), credentials_stay).is_empty());
}

#[test]
fn a_request_has_the_method_that_its_user_demands() {
    let saw = EventKind::Observed { stream: "h1".into(), saw: ExecObservation::OtherMethod.into() };
    let changed = history().user(1_000, saw);
    assert_eq!(
        violations(&changed, methods_are_kept),
        ["h1: the request had another method than its user and the redirects demand (at 1.000 s)"]
    );
    assert!(violations(&changed, in_sequence).is_empty());
    assert!(violations(&changed, credentials_stay).is_empty());
}

#[test]
fn a_request_has_the_body_that_its_user_demands() {
    let saw = EventKind::Observed { stream: "h1".into(), saw: ExecObservation::OtherBody.into() };
    let changed = history().user(1_000, saw);
    assert_eq!(
        violations(&changed, methods_are_kept),
        [
            "h1: the body of the request had another length than its user and the redirects demand (at 1.000 s)"
        ]
    );
    assert!(violations(&changed, in_sequence).is_empty());
}

#[test]
fn a_response_has_the_head_that_the_http_server_sent() {
    let saw = EventKind::Observed { stream: "h1".into(), saw: ExecObservation::OtherHead.into() };
    let changed = history().user(1_000, saw);
    assert_eq!(
        violations(&changed, responses_are_true),
        ["h1: the response had another status or length than the HTTP server sent (at 1.000 s)"]
    );
    assert!(violations(&changed, in_sequence).is_empty());
    assert!(violations(&history(), responses_are_true).is_empty());
}

#[test]
fn a_request_is_redirected_at_most_ten_times() {
    let asked = history().asked_as(1, 0, Class::InFlight, "http", r#"{"body":"b1"}"#);
    let hops = |count: u64| {
        (0..count).fold(asked.clone(), |run, n| run.by("server").upstream(1_000 + n, None))
    };
    assert!(violations(&hops(11), redirects_end).is_empty());
    assert_eq!(
        violations(&hops(12), redirects_end),
        ["server#1 is one connection too many for 1 HTTP requests: more than 11 (at 1.011 s)"]
    );
}

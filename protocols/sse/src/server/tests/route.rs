use hyper::header::{ACCEPT, HeaderName, HeaderValue};

use super::*;
use crate::wire::{Epoch, InvalidRequest};

fn route(method: &str, uri: &str) -> Result<Route, Refusal> {
    Route::of(&method.parse().unwrap(), &uri.parse().unwrap())
}

fn id(text: &str) -> CommandId {
    text.parse().unwrap()
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let pair = |(name, value): &(&'static str, &str)| {
        (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
    };
    let mut headers = HeaderMap::new();
    for (name, value) in pairs.iter().map(pair) {
        headers.append(name, value);
    }
    headers
}

#[test]
fn every_route_of_execd_is_known() {
    for (method, uri, wanted) in [
        ("GET", "/ping", Route::Ping),
        ("POST", "/command", Route::Start),
        ("DELETE", "/command?id=c1", Route::Interrupt(id("c1"))),
        ("GET", "/command/c1/resume?after_eid=3", Route::Resume(id("c1"))),
        ("GET", "/command/status/c1", Route::Status(id("c1"))),
        ("GET", "/command/c1/logs?cursor=0", Route::Logs(id("c1"))),
        ("GET", "/command/c%31/logs", Route::Logs(id("c1"))),
        ("POST", "/session", Route::CreateSession),
        ("POST", "/session/s1/run", Route::RunInSession("s1".into())),
        ("DELETE", "/session/s1", Route::DeleteSession("s1".into())),
    ] {
        assert_eq!(route(method, uri), Ok(wanted), "{method} {uri}");
    }
}

#[test]
fn the_paths_that_a_client_writes_are_understood() {
    use crate::wire::path;
    let (c1, cursor) = (id("c-1._x"), Cursor::new(Epoch(7), 3));
    for (method, uri, wanted) in [
        ("POST", path::START.to_owned(), Route::Start),
        ("GET", path::resume(&c1, cursor), Route::Resume(c1.clone())),
        ("GET", path::status(&c1), Route::Status(c1.clone())),
        ("GET", path::logs(&c1, cursor), Route::Logs(c1.clone())),
        ("DELETE", path::interrupt(&c1), Route::Interrupt(c1.clone())),
    ] {
        assert_eq!(route(method, &uri), Ok(wanted), "{uri}");
    }
    let uri = path::resume(&c1, cursor).parse().unwrap();
    assert_eq!(stream_cursor(&uri, &HeaderMap::new()), Ok(cursor));
}

#[test]
fn everything_else_is_refused_with_its_reason() {
    let invalid = || Refusal::Invalid(InvalidRequest::Id);
    for (method, uri, wanted) in [
        ("GET", "/", Refusal::UnknownPath),
        ("GET", "/command/c1", Refusal::UnknownPath),
        ("GET", "/command/%ff/logs", Refusal::UnknownPath),
        ("GET", "/command/a/b/logs", Refusal::UnknownPath),
        ("PUT", "/command", Refusal::WrongMethod),
        ("POST", "/command/c1/resume", Refusal::WrongMethod),
        ("DELETE", "/command", Refusal::Missing("id")),
        ("DELETE", "/command?id=", Refusal::Missing("id")),
        ("GET", "/command//resume", Refusal::Missing("id")),
        ("GET", "/command/a%2Fb/logs", invalid()),
        ("GET", "/command/../logs", invalid()),
    ] {
        assert_eq!(route(method, uri), Err(wanted), "{method} {uri}");
    }
}

#[test]
fn the_last_event_of_a_standard_client_is_newer_than_its_query() {
    let uri: Uri = "/command/c/resume?after_eid=3".parse().unwrap();
    let at = |pairs: &[(&'static str, &str)]| stream_cursor(&uri, &headers(pairs));
    assert_eq!(at(&[]), Ok(Cursor { epoch: None, after: 3 }));
    assert_eq!(at(&[("last-event-id", "")]), Ok(Cursor { epoch: None, after: 3 }));
    let newer = at(&[("last-event-id", "0000000000000007-9")]);
    assert_eq!(newer, Ok(Cursor::new(Epoch(7), 9)));
    for text in ["x", "é"] {
        assert!(matches!(at(&[("last-event-id", text)]), Err(Refusal::MalformedCursor(_))));
    }
}

#[test]
fn a_missing_cursor_is_the_start_and_a_wrong_one_is_not() {
    let at = |uri: &str| cursor(&uri.parse().unwrap(), "cursor");
    assert_eq!(at("/x"), Ok(Cursor::START));
    assert_eq!(at("/x?cursor="), Ok(Cursor::START));
    assert_eq!(at("/x?cursor=%37"), Ok(Cursor { epoch: None, after: 7 }));
    for uri in ["/x?cursor=-1", "/x?cursor=abc", "/x?cursor=1e3", "/x?cursor=+1"] {
        assert!(matches!(at(uri), Err(Refusal::MalformedCursor(_))), "{uri}");
    }
}

#[test]
fn the_framing_is_that_of_any_accept_header() {
    assert_eq!(framing(&headers(&[])), Framing::Execd);
    let both = headers(&[("accept", "*/*"), ("accept", "text/event-stream")]);
    assert_eq!((framing(&both), both.get_all(ACCEPT).iter().count()), (Framing::Standard, 2));
}

#[test]
fn only_the_whole_token_is_right() {
    let with = |token: &str| is_authorized(&headers(&[("x-execd-access-token", token)]), "secret");
    assert!(with("secret"));
    for token in ["", "secre", "secrets", "Secret", "sekret"] {
        assert!(!with(token), "{token}");
    }
    assert!(!is_authorized(&HeaderMap::new(), "secret"));
}

#[test]
fn an_owner_is_optional_but_not_malformed() {
    assert_eq!(owner(&headers(&[])), Ok(None));
    assert_eq!(owner(&headers(&[("x-reknit-owner", "a.1")])), Ok(Some("a.1".parse().unwrap())));
    assert!(matches!(owner(&headers(&[("x-reknit-owner", "a")])), Err(Refusal::MalformedOwner(_))));
}

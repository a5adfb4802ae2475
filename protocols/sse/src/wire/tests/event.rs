use proptest::prelude::*;

use super::*;
use OutputStream::{Stderr, Stdout};

fn stdout(bytes: &'static [u8]) -> Record {
    let event = Event::Output(Stdout, Bytes::from_static(bytes));
    Record { position: Some(7), timestamp: 5, event }
}

fn event_of(json: &str) -> Event {
    Record::from_json(json).unwrap().event
}

#[test]
fn a_line_is_written_as_execd_writes_it() {
    let json = r#"{"eid":7,"type":"stdout","text":"hello","timestamp":5}"#;
    assert_eq!(stdout(b"hello\n").to_json(), json);
    assert_eq!(Record::from_json(json).unwrap(), stdout(b"hello\n"));
}

#[test]
fn other_ends_of_a_line_are_written_beside_it() {
    for (bytes, fields) in [
        (&b"50%\r"[..], r#""text":"50%","timestamp":5,"eol":"\r""#),
        (b"dos\r\n", r#""text":"dos","timestamp":5,"eol":"\r\n""#),
        (b"prompt", r#""text":"prompt","timestamp":5,"eol":"""#),
        (b"\n", r#""text":"\n","timestamp":5"#),
        (b"\r", r#""text":"\r","timestamp":5,"eol":"""#),
        (b"\r\n", r#""text":"\r\n","timestamp":5,"eol":"""#),
        (b"\n\n", r#""text":"\n\n","timestamp":5,"eol":"""#),
    ] {
        let json = format!(r#"{{"eid":7,"type":"stdout",{fields}}}"#);
        assert_eq!(stdout(bytes).to_json(), json);
        assert_eq!(Record::from_json(&json).unwrap(), stdout(bytes));
    }
}

#[test]
fn bytes_that_are_not_utf_8_are_kept_beside_a_readable_text() {
    let record = stdout(b"\xffa\n");
    let json = "{\"eid\":7,\"type\":\"stdout\",\"text\":\"\u{fffd}a\\n\",\"timestamp\":5,\"bytes\":\"/2EK\"}";
    assert_eq!(record.to_json(), json);
    assert_eq!(Record::from_json(json).unwrap(), record);
}

#[test]
fn a_success_and_a_failure_are_written_as_execd_writes_them() {
    let ended = |ending| Record {
        position: Some(9),
        timestamp: 5,
        event: Event::Ended { ending, took: 12 },
    };
    assert_eq!(
        ended(Ending::Exited(0)).to_json(),
        r#"{"eid":9,"type":"execution_complete","execution_time":12,"timestamp":5}"#
    );
    assert_eq!(
        ended(Ending::Exited(3)).to_json(),
        r#"{"eid":9,"type":"error","execution_time":12,"error":{"ename":"CommandExecError","evalue":"3","traceback":["exit status 3"]},"timestamp":5,"ending":{"exited":3}}"#
    );
}

#[test]
fn a_gap_is_an_error_for_a_client_that_does_not_know_gaps() {
    let gap = Record::unlogged(5, Event::Gap(Gap { first: 3, last: 4 }));
    let json = r#"{"type":"error","error":{"ename":"OutputGap","evalue":"events 3 to 4 are no longer available","traceback":[]},"timestamp":5,"gap":{"first":3,"last":4}}"#;
    assert_eq!(gap.to_json(), json);
    assert_eq!(Record::from_json(json).unwrap(), gap);
}

#[test]
fn events_of_an_original_execd_are_understood() {
    let ended = |ending, took| Event::Ended { ending, took };
    for (json, event) in [
        (r#"{"type":"init","text":"ab"}"#, Event::Init { command: "ab".into(), epoch: None }),
        (r#"{"type":"ping","text":"pong","timestamp":1}"#, Event::Ping),
        (r#"{"type":"status","text":"busy"}"#, Event::Status("busy".into())),
        (r#"{"eid":1,"type":"stderr","text":"a"}"#, Event::Output(Stderr, "a\n".into())),
        (r#"{"eid":1,"type":"stdout","text":"\n"}"#, Event::Output(Stdout, "\n".into())),
        (r#"{"type":"result","results":{"text":"4"}}"#, Event::Other("result".into())),
        (
            r#"{"type":"execution_count","execution_count":1}"#,
            Event::Other("execution_count".into()),
        ),
        (r#"{"type":"execution_complete","execution_time":3}"#, Event::Detached),
        (
            r#"{"eid":2,"type":"execution_complete","execution_time":3}"#,
            ended(Ending::Exited(0), 3),
        ),
        (
            r#"{"eid":2,"type":"error","error":{"ename":"CommandExecError","evalue":"7","traceback":null}}"#,
            ended(Ending::Exited(7), 0),
        ),
        (
            r#"{"eid":2,"type":"execution_error","error":{"ename":"CommandExecError","evalue":"no such file"}}"#,
            ended(Ending::NotStarted("no such file".into()), 0),
        ),
        (r#"{"later":[1]}"#, Event::Other(String::new())),
    ] {
        assert_eq!(event_of(json), event, "{json}");
    }
}

#[test]
fn wrong_fields_are_errors() {
    for (json, why) in [
        (r#"{"type":"stdout","text":"a","eol":"x"}"#, "an event with a wrong eol"),
        (r#"{"type":"stdout","bytes":"*"}"#, "an event with a wrong bytes"),
        (r#"{"type":"init","epoch":"1"}"#, "an event with a wrong epoch"),
        (r#"{"type":"error","gap":{"first":0,"last":1}}"#, "an event with a wrong gap"),
        (r#"{"type":"error","gap":{"first":2,"last":1}}"#, "an event with a wrong gap"),
    ] {
        assert_eq!(Record::from_json(json).unwrap_err().to_string(), why);
    }
    for json in ["", "[]", "1", "null"] {
        assert!(matches!(Record::from_json(json), Err(RecordError::NotAnObject)), "{json}");
    }
    for json in ["{", "{}{}", r#"{"eid":-1}"#, r#"{"type":1}"#] {
        assert!(matches!(Record::from_json(json), Err(RecordError::Json(_))), "{json}");
    }
}

fn endings() -> impl Strategy<Value = Ending> {
    prop_oneof![
        any::<i32>().prop_map(Ending::Exited),
        any::<i32>().prop_map(Ending::Killed),
        Just(Ending::TimedOut),
        any::<String>().prop_map(Ending::NotStarted),
        any::<String>().prop_map(Ending::Lost),
    ]
}

/// Draws bytes in which the ends of lines and broken characters are frequent.
fn output() -> impl Strategy<Value = Vec<u8>> {
    let pieces =
        prop::sample::select(vec![&b"\n"[..], b"\r", b"a", b"\xc3", b"\xa9", b"\"", b"\0"]);
    prop::collection::vec(pieces, 1..6).prop_map(|pieces| pieces.concat())
}

/// Draws any record that a server writes.
pub(in crate::wire) fn records() -> impl Strategy<Value = Record> {
    let logged = prop_oneof![
        (any::<bool>(), output()).prop_map(|(out, bytes)| {
            Event::Output(if out { Stdout } else { Stderr }, bytes.into())
        }),
        (endings(), any::<u64>()).prop_map(|(ending, took)| Event::Ended { ending, took }),
    ];
    let unlogged = prop_oneof![
        (any::<String>(), any::<Option<u64>>())
            .prop_map(|(command, epoch)| Event::Init { command, epoch: epoch.map(Epoch) }),
        any::<String>().prop_map(Event::Status),
        Just(Event::Detached),
        Just(Event::Ping),
        (1..9_u64, 0..9_u64)
            .prop_map(|(first, more)| Event::Gap(Gap { first, last: first + more })),
    ];
    prop_oneof![
        (logged, 1..=u64::MAX).prop_map(|(event, position)| (event, Some(position))),
        unlogged.prop_map(|event| (event, None)),
    ]
    .prop_flat_map(|(event, position)| {
        any::<u64>().prop_map(move |timestamp| Record { position, timestamp, event: event.clone() })
    })
}

proptest! {
    #[test]
    fn a_written_event_is_read_back(record in records()) {
        let json = record.to_json();
        prop_assert!(!json.contains('\n') && !json.contains('\r'), "{}", json);
        prop_assert_eq!(Record::from_json(&json).unwrap(), record);
    }

    #[test]
    fn output_always_has_a_text(bytes in output()) {
        let record = Record { position: Some(1), timestamp: 0, event: Event::Output(Stdout, bytes.into()) };
        let json: serde_json::Value = serde_json::from_str(&record.to_json()).unwrap();
        prop_assert!(!json["text"].as_str().unwrap().is_empty());
    }
}

use super::*;
use crate::history::Time;
use crate::subjects::sse::properties::readers::also_reads;
use reknit_sse::wire::Cursor;

/// Returns when `client` reads `p1`, in milliseconds.
fn read(scripted: &ScriptedRun) -> Vec<(u128, u128)> {
    let ms = |at: Time| at.since(Time::ZERO).as_millis();
    let found = scripted.with_limits(LIMITS, |cx| also_reads(cx, &"p1/stdout".into()));
    let own = found.into_iter().filter(|reading| reading.host == "client");
    own.map(|reading| (ms(reading.from), ms(reading.to))).collect()
}

/// A run in which `client2` asks for a stream of `p1`, over a connection with or without a label. The server
/// attaches it at 1.2 s.
fn attached(verb: &str, label: Option<&str>, over: Option<u64>) -> ScriptedRun {
    let fields = match verb {
        "ask" => r#"{"process":"p1","of":"client","cursor":""}"#,
        _ => r#"{"process":"p1","of":"client"}"#,
    };
    let run = started().by("client2").asked_as(2, 1_000, Class::InFlight, verb, fields);
    let run = match label {
        Some(label) => run.conn_labelled(label, 1, 1_100, over),
        None => run.conn(1, 1_100, over),
    };
    milestone(run, 1_200, "sse.server.attached", &[("conn", 1)])
}

/// Returns when the connections of other hosts have the stream of `p1`, and whether each is a follower's.
fn at_the_server(scripted: &ScriptedRun) -> Vec<(u64, u64, bool)> {
    let found = scripted.with_limits(LIMITS, |cx| also_reads(cx, &"p1/stdout".into()));
    let others = found.into_iter().filter(|reading| reading.host == "client2");
    others.map(|reading| (reading.from.0, reading.to.0, reading.is_follower)).collect()
}

#[test]
fn a_connection_has_a_stream_until_its_end_at_the_server() {
    let follows = |over| at_the_server(&attached("follow", None, over));
    assert_eq!(follows(Some(5_000)), [(1_200, 5_000, true)]);
    assert_eq!(follows(None), [(1_200, 1_000_000, true)]);
    let dead = attached("follow", None, Some(5_000)).died("client2", 2_000);
    assert_eq!(at_the_server(&dead), [(1_200, 5_000, true)], "the server does not know it");
    let asks = at_the_server(&attached("ask", Some("request"), Some(5_000)));
    assert_eq!(asks, [(1_200, 5_000, false)]);
    let others = [attached("status", Some("request"), None), attached("ask", None, None)];
    assert!(others.iter().all(|run| at_the_server(run).is_empty()), "none of its requests");
}

#[test]
fn a_user_reads_on_after_a_gap_until_its_host_dies() {
    let run = started().gave_up(1, Some("p1"), 1_200).died("client", 3_000);
    assert_eq!(read(&run), [(120, 3_000)]);
}

#[test]
fn a_user_reads_on_after_a_gap_until_the_ending() {
    let gap = Gap { first: 2, last: 3 };
    let run = notes(started(), 1_200, SseNote::Gap { after: 1, gap }).gave_up(1, Some("p1"), 1_200);
    let run = run.failed_stream("p1", 1_200, "gone");
    assert_eq!(read(&run), [(120, 1_000_000)]);
    let ending = Ending::Exited(0);
    let ended = notes(run.clone(), 5_000, SseNote::Ended { position: 4, ending });
    assert_eq!(read(&ended), [(120, 5_000)]);
    let failed = SseNote::Failed(refused(409, "STREAM_ACTIVE"));
    assert_eq!(read(&notes(run.clone(), 6_000, failed)), [(120, 6_000)]);
    // It reads from a stored position again, until it leaves the command.
    let again = asks(run, 7_000, "follow");
    let again = notes(again, 7_100, SseNote::Continues(Cursor::START));
    let left = again.asked_as(3, 9_000, Class::InFlight, "leave", r#"{"process":"p1"}"#);
    assert_eq!(read(&left), [(120, 7_000), (7_100, 9_000)]);
}

use super::*;
use crate::history::Time;
use crate::subjects::sse::properties::readers::also_reads;
use reknit_sse::wire::Cursor;

/// Returns when `client` reads `p1`, in milliseconds.
fn read(scripted: &ScriptedRun) -> Vec<(u128, u128)> {
    let ms = |at: Time| at.since(Time::ZERO).as_millis();
    let found = scripted.with(|cx| also_reads(cx, &"p1/stdout".into()));
    let own = found.into_iter().filter(|reading| reading.host == "client");
    own.map(|reading| (ms(reading.from), ms(reading.to))).collect()
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

//! Cuts, resumptions, takeovers, heartbeats.

use reknit_seams::process::Exit;
use tokio::time::Instant;

use super::peer::End;
use super::*;
use crate::wire::Event;

fn texts(seen: &[&str]) -> Vec<String> {
    seen.iter().map(|text| (*text).to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_resumed_stream_continues_after_the_last_event() {
    let world = World::new(ServerLimits::default()).await;
    let mut first = world.start().await;
    sleep(SECOND).await;
    world.machine.prints(0, "a\nb\n").await;
    assert_eq!(first.read().await, (texts(&["1 a", "2 b"]), End::Open));
    first.close();
    sleep(SECOND).await;
    world.machine.prints(0, "c\n").await;
    let mut second = world.resume(2, None).await;
    assert_eq!((second.header("x-reknit-generation"), second.header("x-reknit-next")), ("2", "4"));
    assert_eq!(second.read().await, (texts(&["3 c"]), End::Open));
    world.machine.prints(0, "d\n").await;
    world.machine.exits(0, Exit::Code(0)).await;
    assert_eq!(second.read().await, (texts(&["4 d", "5 Exited(0)"]), End::Clean));
    assert_eq!(world.resume(5, None).await.read().await, (vec![], End::Clean), "nothing follows");
}

#[tokio::test(start_paused = true)]
async fn every_cut_of_every_stream_continues_without_a_gap() {
    let world = World::new(ServerLimits { batch_bytes: 1, ..Default::default() }).await;
    let mut stream = world.start().await;
    sleep(SECOND).await;
    let (mut after, mut seen) = (0, Vec::new());
    for round in 0..20 {
        for line in 0..round {
            world.machine.prints_on(0, line % 2, format!("{round}.{line}\n").as_bytes()).await;
        }
        // Receives a part, and loses the rest with the connection.
        for _ in 0..round / 2 {
            let Ok(record) = stream.next().await else { panic!("round {round}") };
            let Some(position) = record.position else { continue };
            assert_eq!(position, after + 1);
            after = position;
            seen.push(position);
        }
        stream.close();
        sleep(SECOND).await;
        stream = world.resume(after, None).await;
        assert_eq!(stream.status, 200);
    }
    world.machine.exits(0, Exit::Code(0)).await;
    let (rest, end) = stream.read().await;
    assert_eq!((seen.len() + rest.len(), end), ((0..20).sum::<usize>() + 1, End::Clean));
}

#[tokio::test(start_paused = true)]
async fn an_active_stream_is_not_taken_by_another_client() {
    let world = World::new(ServerLimits::default()).await;
    let mut first = world.start().await;
    sleep(60 * SECOND).await;
    let refused = world.resume(0, None).await;
    assert!(!refused.header("retry-after").is_empty());
    assert_eq!(refused.code().await, (409, "STREAM_ACTIVE".to_owned()));
    world.machine.prints(0, "a\n").await;
    assert_eq!(first.read().await, (texts(&["1 a"]), End::Open));
}

#[tokio::test(start_paused = true)]
async fn a_stream_without_progress_is_taken_over_and_its_late_end_has_no_effect() {
    let world = World::new(ServerLimits::default()).await;
    let mut first = world.start().await;
    sleep(SECOND).await;
    world.net.set(1, Fate::Frozen); // a blackhole: no end learns of anything
    let start = Instant::now();
    let mut second = loop {
        let answer = world.resume(0, None).await;
        if answer.status == 200 {
            break answer;
        }
        assert_eq!(answer.code().await, (409, "STREAM_ACTIVE".to_owned()));
        sleep(SECOND).await;
    };
    let waited = start.elapsed();
    assert!(8 * SECOND <= waited && waited <= 12 * SECOND, "{waited:?}");
    world.net.set(1, Fate::Reset);
    world.machine.prints(0, "a\n").await;
    assert_eq!(second.read().await, (texts(&["1 a"]), End::Open));
    assert_eq!(first.read().await.1, End::Broken);
    assert_eq!(world.resources.counts().streams, 1);
}

#[tokio::test(start_paused = true)]
async fn the_same_client_takes_its_stream_over_at_once() {
    let world = World::new(ServerLimits::default()).await;
    let mut first = world.start().await;
    assert_eq!(first.header("x-reknit-generation"), "1");
    let mut second = world.resume(0, Some("me.1")).await;
    assert_eq!(second.status, 409, "the first one has no owner");
    first.close();
    sleep(SECOND).await;
    second = world.resume(0, Some("me.2")).await;
    let mut third = world.resume(0, Some("me.3")).await;
    assert_eq!((second.status.as_u16(), third.status.as_u16()), (200, 200));
    assert_eq!(
        second.read().await,
        (vec![], End::Broken),
        "it does not end like a complete stream"
    );
    let delayed = world.resume(0, Some("me.2")).await;
    assert_eq!(delayed.code().await, (409, "STREAM_SUPERSEDED".to_owned()));
    world.machine.prints(0, "a\n").await;
    assert_eq!(third.read().await, (texts(&["1 a"]), End::Open));
    assert_eq!(first.read().await.1, End::Broken);
}

#[tokio::test(start_paused = true)]
async fn every_stream_has_signs_of_life() {
    let world = World::new(ServerLimits::default()).await;
    let mut stream = world.start().await;
    for round in 0..3 {
        if round > 0 {
            stream.close();
            sleep(SECOND).await;
            stream = world.resume(0, None).await;
        }
        let mut last = Instant::now();
        for _ in 0..4 {
            let record = stream.next().await.unwrap();
            assert!(last.elapsed() <= 3 * SECOND && record.position.is_none());
            last = Instant::now();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stuck_reader_is_closed_and_delays_neither_the_command_nor_others() {
    let limits = ServerLimits { retained_events: 10, ..Default::default() };
    let world = World::new(limits).await;
    let _stuck = world.start().await;
    sleep(SECOND).await;
    world.net.set(1, Fate::Frozen);
    let start = Instant::now();
    for line in 0..1000 {
        world.machine.prints(0, &format!("{line}\n")).await;
    }
    assert!(start.elapsed() < 2 * SECOND, "the command prints on");
    let mut other = world.send("POST /command", &[], r#"{"command":"other"}"#).await;
    sleep(SECOND).await;
    world.machine.exits(1, Exit::Code(0)).await;
    assert_eq!(other.read().await, (texts(&["1 Exited(0)"]), End::Clean));
    sleep(limits.write_deadline + limits.heartbeat).await;
    assert_eq!(world.resources.counts().connections, 0);
    let mut resumed = world.resume(0, None).await;
    let (seen, _) = resumed.read().await;
    assert_eq!((seen[0].as_str(), seen[1].as_str(), seen.len()), ("gap 1..=990", "991 990", 11));
}

#[tokio::test(start_paused = true)]
async fn a_gap_is_reported_before_any_data_also_to_a_standard_client() {
    let world = World::new(ServerLimits { retained_events: 2, ..Default::default() }).await;
    world.start().await.close();
    sleep(SECOND).await;
    world.machine.prints(0, "a\nb\nc\n").await;
    let accept = [("accept", "text/event-stream")];
    let answer = world.send("GET /command/c/resume", &accept, "").await;
    assert_eq!((answer.header("x-reknit-oldest"), answer.header("x-reknit-next")), ("2", "4"));
    let epoch = answer.header("x-reknit-epoch").to_owned();
    world.machine.exits(0, Exit::Code(0)).await;
    let text = answer.text().await;
    let mut frames = text.split("\n\n");
    let gap = format!("retry: 1000\nid: {epoch}-1\ndata: {{\"type\":\"error\"");
    assert!(frames.next().unwrap().starts_with(&gap), "{text}");
    let ids: Vec<_> = frames.filter_map(|frame| frame.lines().next()).collect();
    assert_eq!(ids, [2, 3, 4].map(|at| format!("id: {epoch}-{at}")));
}

#[tokio::test(start_paused = true)]
async fn a_command_that_ends_during_the_outage_is_replayed_to_its_ending() {
    let world = World::new(ServerLimits::default()).await;
    let mut first = world.start().await;
    sleep(SECOND).await;
    world.machine.prints(0, "a\n").await;
    assert_eq!(first.read().await.0, ["1 a"]);
    first.close();
    sleep(SECOND).await;
    world.machine.prints(0, "b\n").await;
    world.machine.exits(0, Exit::Code(0)).await;
    sleep(200 * SECOND).await;
    let mut second = world.resume(1, None).await;
    assert_eq!(second.read().await, (texts(&["2 b", "3 Exited(0)"]), End::Clean));
}

#[tokio::test(start_paused = true)]
async fn of_two_resumers_one_gets_the_stream_and_the_other_a_reason() {
    let world = World::new(ServerLimits::default()).await;
    world.start().await.close();
    sleep(SECOND).await;
    let (one, other) = tokio::join!(biased; world.resume(0, None), world.resume(0, None));
    let mut codes = [one.status.as_u16(), other.status.as_u16()];
    codes.sort_unstable();
    assert_eq!(codes, [200, 409]);
}

#[tokio::test(start_paused = true)]
async fn a_gap_in_a_live_stream_is_reported_where_it_is() {
    let world = World::new(ServerLimits { retained_events: 3, ..Default::default() }).await;
    let mut stream = world.start().await;
    sleep(SECOND).await;
    world.machine.prints(0, "a\nb\n").await;
    assert_eq!(stream.read().await.0, ["1 a", "2 b"]);
    let burst: String = (0..8).map(|line| format!("{line}\n")).collect();
    world.machine.prints(0, &burst).await;
    let (seen, _) = stream.read().await;
    let positions: Vec<_> = seen.iter().map(|text| text.split(' ').next().unwrap()).collect();
    assert_eq!(positions, ["gap", "8", "9", "10"], "{seen:?}");
    assert_eq!(seen[0], "gap 3..=7");
}

#[tokio::test(start_paused = true)]
async fn the_first_event_of_a_repeated_start_is_the_start_and_of_a_resumption_it_is_not() {
    let world = World::new(ServerLimits::default()).await;
    world.start().await.close();
    sleep(SECOND).await;
    let mut again = world.start().await;
    assert!(matches!(again.next().await.unwrap().event, Event::Init { .. }));
    again.close();
    sleep(SECOND).await;
    let mut resumed = world.resume(0, None).await;
    assert_eq!(resumed.next().await.unwrap().event, Event::Ping);
}

/// Prints 100 lines while the only reader is stuck, and returns how long that took.
async fn time_to_print(world: &World) -> Duration {
    let _stuck = world.start().await;
    sleep(SECOND).await;
    world.net.set(1, Fate::Frozen);
    let start = Instant::now();
    let lines = format!("{}\n", "x".repeat(999)).repeat(100);
    world.machine.prints(0, &lines).await;
    while world.last("c").await < 100 {
        assert!(start.elapsed() < 60 * SECOND);
        sleep(SECOND / 10).await;
    }
    start.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_stuck_reader_holds_its_command_for_the_stated_time_at_most() {
    for (hold, least, most) in
        [(Duration::ZERO, Duration::ZERO, SECOND), (5 * SECOND, 3 * SECOND, 6 * SECOND)]
    {
        let limits =
            ServerLimits { retained_events: 10, write_buffer: 0, hold, ..Default::default() };
        let taken = time_to_print(&World::new(limits).await).await;
        assert!(least <= taken && taken <= most, "{hold:?}: {taken:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_that_makes_progress_loses_nothing_while_its_command_is_held() {
    let limits = ServerLimits {
        retained_events: 10,
        batch_bytes: 1,
        write_buffer: 0,
        hold: 5 * SECOND,
        ..Default::default()
    };
    let world = World::new(limits).await;
    let mut stream = world.start().await;
    sleep(SECOND).await;
    let machine = world.machine.clone();
    let line = format!("{}\n", "x".repeat(999));
    let printing = tokio::spawn(async move {
        for _ in 0..500 {
            machine.prints(0, &line).await;
        }
        machine.exits(0, Exit::Code(0)).await;
    });
    let mut seen = 0;
    while let Ok(record) = stream.next().await {
        if let Some(position) = record.position {
            assert_eq!(position, seen + 1);
            seen = position;
            sleep(SECOND / 100).await;
        }
    }
    assert_eq!(seen, 501);
    printing.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_standard_client_that_has_the_ending_does_not_reconnect() {
    let world = World::new(ServerLimits::default()).await;
    let answer = world.start().await;
    let epoch = answer.header("x-reknit-epoch").to_owned();
    sleep(SECOND).await;
    world.machine.exits(0, Exit::Code(0)).await;
    for (at, status) in [("0", 200), ("1", 204)] {
        let id = format!("{epoch}-{at}");
        let headers = [("accept", "text/event-stream"), ("last-event-id", id.as_str())];
        assert_eq!(world.send("GET /command/c/resume", &headers, "").await.status, status, "{at}");
        sleep(SECOND).await;
    }
    assert_eq!(world.resume(1, None).await.status, 200, "execd has no such answer");
}

#[tokio::test(start_paused = true)]
async fn a_stream_on_an_old_connection_begins_with_the_full_time_to_make_progress() {
    let limits = ServerLimits { takeover_after: 5 * SECOND, ..Default::default() };
    let world = World::new(limits).await;
    let mut peer = world.peer().await;
    peer.send("GET /ping", &[], "").await;
    sleep(9 * SECOND).await;
    let body = r#"{"operation_id":"c","command":"run"}"#;
    let (first, second) =
        tokio::join!(biased; peer.send("POST /command", &[], body), world.resume(0, None));
    assert_eq!((first.status.as_u16(), second.status.as_u16()), (200, 409));
}

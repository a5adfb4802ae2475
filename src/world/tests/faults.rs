//! Tests each fault of a connection or a link: what both sides see, and when.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::sleep;

use super::*;
use crate::history::{EventKind, History};
use crate::schedule::{
    Conn, Fault, HoldEnd, Host, Learns, LinkPlace, Plan, SlowBy, TrafficCount, Trigger, Unsynced,
    When, faults,
};
use crate::subject::HostContext;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn first() -> Conn {
    Conn::number("client", 1)
}

fn learns(client: Learns, server: Learns) -> BTreeMap<Host, Learns> {
    BTreeMap::from([("client".into(), client), ("server".into(), server)])
}

/// Returns the time of the first line with this ending, in milliseconds.
fn when(log_lines: &[String], ends: &str) -> Option<u64> {
    let line = log_lines.iter().find(|line| line.ends_with(ends))?;
    line.split([' ', ':']).nth(1)?.parse().ok()
}

/// Opens a connection and keeps it idle. Logs how it ends.
async fn idle(host: HostContext) {
    let mut stream = connect(&host).await;
    let received = receive(&mut stream).await;
    log(&host, received);
    std::future::pending::<()>().await;
}

fn fault_on_idle(fault: Fault) -> Vec<String> {
    log_lines(&history(&bare(echo, idle), &plan([(1_000, fault)])), true)
}

/// Returns the number of faults that were over before the clients were closed.
fn over(history: &History) -> usize {
    history
        .events
        .iter()
        .filter(|event| event.at.0 < 60_000 && matches!(event.what, EventKind::FaultEnded { .. }))
        .count()
}

#[test]
fn each_end_detects_a_cut_at_its_own_time() {
    let fault = Fault::Cut(faults::Cut {
        conn: first(),
        learns: learns(Learns::After(ms(0)), Learns::After(secs(3))),
    });
    assert_eq!(
        fault_on_idle(fault),
        ["client 1000: ConnectionReset", "server 4000: 1 ConnectionReset"]
    );
}

#[test]
fn a_host_without_a_learning_time_detects_a_cut_at_once() {
    let fault = Fault::Cut(faults::Cut {
        conn: first(),
        learns: BTreeMap::from([("server".into(), Learns::Never)]),
    });
    assert_eq!(fault_on_idle(fault), ["client 1000: ConnectionReset"]);
}

#[test]
fn a_cut_is_over_when_both_ends_have_detected_it() {
    let fault = Fault::Cut(faults::Cut {
        conn: first(),
        learns: learns(Learns::After(ms(0)), Learns::After(secs(3))),
    });
    let history = history(&bare(echo, idle), &plan([(1_000, fault)]));
    let ended = history
        .events
        .iter()
        .find(|event| matches!(event.what, EventKind::FaultEnded { .. }))
        .unwrap();
    assert_eq!(ended.at.0, 4_000);
}

#[test]
fn a_fault_that_lasts_longer_than_the_run_does_not_end_in_it() {
    let fault = Fault::Cut(faults::Cut {
        conn: first(),
        learns: learns(Learns::After(ms(0)), Learns::Never),
    });
    let history = history(&bare(echo, idle), &plan([(1_000, fault)]));
    let ended =
        history.events.iter().filter(|event| matches!(event.what, EventKind::FaultEnded { .. }));
    assert_eq!(ended.count(), 0, "whatever is dropped with the world");
}

#[test]
fn a_cut_loses_segments_in_flight() {
    let fault =
        Fault::Cut(faults::Cut { conn: first(), learns: learns(Learns::Never, Learns::Never) });
    let subject = bare(echo, |host| async move {
        let mut stream = connect(&host).await;
        sleep(secs(1)).await;
        stream.write_all(b"lost").await.unwrap();
        let received = receive(&mut stream).await;
        log(&host, received);
    });
    let trigger = Trigger::milestone("never");
    let mut plan = plan_after(trigger, fault.clone());
    plan.steps[0].when = When::At(ms(1_100));
    plan.latency = (ms(200), ms(200));
    assert_eq!(log_lines(&history(&subject, &plan), true), [] as [&str; 0]);
}

#[test]
fn a_cut_without_a_connection_does_nothing_and_reports_it() {
    let fault =
        Fault::Cut(faults::Cut { conn: Conn::number("client", 7), learns: BTreeMap::new() });
    let history = history(&bare(echo, idle), &plan([(1_000, fault)]));
    let note = history.events.iter().find_map(|event| match &event.what {
        EventKind::Stepped { note, .. } => note.clone(),
        _ => None,
    });
    assert_eq!(note.unwrap(), "client#7 does not exist yet");
}

/// Sends ten bytes every 100 ms until a write fails.
async fn send_tens(host: HostContext) {
    let mut stream = connect(&host).await;
    while stream.write_all(b"123456789\n").await.is_ok() {
        sleep(ms(100)).await;
    }
    log(&host, "stopped");
}

async fn count_bytes(host: HostContext) {
    let mut listener = host.env.net.listen(&server()).await.unwrap();
    let mut stream = listener.accept().await.unwrap();
    let mut total = 0;
    loop {
        let received = receive(&mut stream).await;
        if received == "eof" || received.starts_with("Conn") {
            log(&host, format!("{total} bytes, {received}"));
            return std::future::pending().await;
        }
        total += received.len();
    }
}

#[test]
fn cut_after_bytes_delivers_exactly_that_many_bytes() {
    let count = TrafficCount::Bytes(25);
    let fault = Fault::CutAfter(faults::CutAfter {
        conn: first(),
        toward: "server".into(),
        count,
        learns: BTreeMap::new(),
    });
    let log_lines = log_lines(&history(&bare(count_bytes, send_tens), &plan([(0, fault)])), false);
    assert_eq!(log_lines, ["server: 25 bytes, ConnectionReset", "client: stopped"]);
}

#[test]
fn cut_after_messages_delivers_nothing_of_the_next_message() {
    let count = TrafficCount::Messages(3);
    let fault = Fault::CutAfter(faults::CutAfter {
        conn: first(),
        toward: "server".into(),
        count,
        learns: BTreeMap::new(),
    });
    let log_lines = log_lines(&history(&bare(count_bytes, send_tens), &plan([(0, fault)])), false);
    assert_eq!(log_lines, ["server: 30 bytes, ConnectionReset", "client: stopped"]);
}

#[test]
fn reset_reaches_both_ends_or_one() {
    let both = fault_on_idle(Fault::Reset(faults::Reset { conn: first(), toward: None }));
    assert!(
        when(&both, "client").is_none()
            && both.iter().all(|line| line.ends_with("ConnectionReset")),
        "{both:?}"
    );
    assert_eq!(both.len(), 2);
    let one =
        fault_on_idle(Fault::Reset(faults::Reset { conn: first(), toward: Some("client".into()) }));
    assert_eq!(one.len(), 1);
    assert!(one[0].starts_with("client 10") && one[0].ends_with("ConnectionReset"), "{one:?}");
}

/// A reset has the sequence number of its sender's next data, and arrives before that data, even if
/// a partition held both.
#[test]
fn a_held_reset_arrives_before_later_data() {
    let hosts = (Host::from("client"), Host::from("server"));
    let partition =
        Fault::Partition(faults::Partition { hosts, toward: None, lasts: Some(secs(5)) });
    let reset = Fault::Reset(faults::Reset { conn: first(), toward: Some("server".into()) });
    let subject = bare(count_bytes, |host| async move {
        let mut stream = connect(&host).await;
        for _ in 0..2 {
            sleep(secs(2)).await;
            stream.write_all(&[7; 10]).await.unwrap();
        }
        std::future::pending::<()>().await;
    });
    let log_lines =
        log_lines(&history(&subject, &plan([(1_000, partition), (3_000, reset)])), true);
    assert!(
        log_lines.iter().any(|line| line.ends_with("10 bytes, ConnectionReset")),
        "{log_lines:?}"
    );
}

/// Runs a client that sends a request every second over one connection. Returns its log lines.
fn asked(fault: Fault) -> Vec<String> {
    log_lines(&history(&bare(echo, ask_every_second), &plan([(3_500, fault)])), true)
}

/// Returns the longest pause between two lines of the client, in milliseconds.
fn longest_pause(log_lines: &[String]) -> u64 {
    let times: Vec<u64> = log_lines
        .iter()
        .filter(|line| line.ends_with("hello"))
        .map(|line| line.split([' ', ':']).nth(1).unwrap().parse().unwrap())
        .collect();
    times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap()
}

#[test]
fn stall_of_one_direction_holds_the_echo_and_loses_nothing() {
    for toward in ["client", "server"] {
        let log_lines = asked(Fault::Stall(faults::Stall {
            conn: first(),
            toward: toward.into(),
            lasts: Some(secs(5)),
        }));
        let pause = longest_pause(&log_lines);
        // The segment is lost at about 4 s, so it is retransmitted at 10.4 s at the latest.
        assert!((5_000..=7_600).contains(&pause), "{toward}: {pause}");
        assert!(!log_lines.iter().any(|line| line.contains("Conn")), "{log_lines:?}");
    }
}

#[test]
fn partition_one_way_holds_one_way() {
    let hosts = (Host::from("client"), Host::from("server"));
    let log_lines = asked(Fault::Partition(faults::Partition {
        hosts,
        toward: Some("server".into()),
        lasts: Some(secs(5)),
    }));
    assert!(longest_pause(&log_lines) >= 5_000, "{log_lines:?}");
}

#[test]
fn segments_after_a_lost_one_wait_for_its_retransmission() {
    // The last segment of the handshake is lost, and the data segment directly after it is not.
    // Later, one of two data segments is lost.
    for (at, lasts) in [(3, 1), (4, 1), (4, 2), (1_003, 1), (1_004, 1)] {
        let fault = Fault::Partition(faults::Partition {
            hosts: ("client".into(), "server".into()),
            toward: None,
            lasts: Some(ms(lasts)),
        });
        let subject = bare(echo, |host| async move {
            let mut stream = connect(&host).await;
            for wait in [1, 1_000, 1] {
                stream.write_all(b"abc\n").await.unwrap();
                sleep(ms(wait)).await;
            }
            let mut received = [0; 12];
            tokio::io::AsyncReadExt::read_exact(&mut stream, &mut received).await.unwrap();
            log(&host, String::from_utf8_lossy(&received).into_owned());
        });
        let mut plan = plan([(at, fault)]);
        plan.latency = (ms(1), ms(2));
        for seed in 1..=20 {
            plan.seed = seed;
            let log_lines = log_lines(&history(&subject, &plan), false);
            assert!(
                log_lines.iter().any(|line| line.contains("abc\nabc\nabc\n")),
                "{at} ms, {lasts} ms, seed {seed}: {log_lines:?}"
            );
        }
    }
}

/// Over a long link, a short partition holds segments at departure before it holds earlier segments
/// at arrival. Segments that left before the partition and arrive after it must stay in order, too.
#[test]
fn segments_around_a_short_partition_stay_in_order() {
    let subject = bare(echo, |host| async move {
        let mut stream = connect(&host).await;
        for n in 0..20_u8 {
            stream.write_all(&[b'a' + n]).await.unwrap();
            sleep(ms(25)).await;
        }
        let mut received = [0; 20];
        stream.read_exact(&mut received).await.unwrap();
        log(&host, String::from_utf8_lossy(&received).into_owned());
    });
    let fault = Fault::Partition(faults::Partition {
        hosts: ("client".into(), "server".into()),
        toward: None,
        lasts: Some(ms(40)),
    });
    let mut plan = plan([(600, fault)]);
    plan.latency = (ms(100), ms(120));
    for seed in 1..=20 {
        plan.seed = seed;
        let log_lines = log_lines(&history(&subject, &plan), false);
        assert!(
            log_lines.iter().any(|line| line.contains("abcdefghijklmnopqrst")),
            "seed {seed}: {log_lines:?}"
        );
    }
}

#[test]
fn a_host_answers_only_a_syn_that_passes_the_link() {
    let hosts = || (Host::from("client"), Host::from("server"));
    let partition = || {
        Fault::Partition(faults::Partition { hosts: hosts(), toward: None, lasts: Some(secs(2)) })
    };
    for (door, seen) in [
        (
            Fault::Refuse(faults::Refuse { host: "server".into(), lasts: Some(secs(9)) }),
            "ConnectionRefused",
        ),
        (
            Fault::AcceptThenClose(faults::AcceptThenClose {
                host: "server".into(),
                lasts: Some(secs(9)),
            }),
            "0",
        ),
        (
            Fault::PowerLoss(faults::PowerLoss {
                host: "server".into(),
                unsynced: Unsynced::Kept,
                lasts: Some(secs(2)),
            }),
            "abc",
        ),
    ] {
        let subject = bare(echo, |host| async move {
            sleep(secs(1)).await;
            let received = match host.env.net.connect(&server()).await {
                Err(error) => format!("{:?}", error.kind()),
                Ok(mut stream) => {
                    stream.write_all(b"abc\n").await.ok();
                    receive_some(&mut stream).await
                }
            };
            log(&host, received);
        });
        let log_lines =
            log_lines(&history(&subject, &plan([(500, partition()), (500, door)])), true);
        // The SYN is lost at 1 s. The next try comes at most 3 s later.
        let answered = when(&log_lines, seen).unwrap_or_else(|| panic!("{log_lines:?}"));
        assert!((2_500..=4_200).contains(&answered), "{log_lines:?}");
    }
}

/// Returns the first three bytes as text, or `0` if the connection ends before them.
async fn receive_some(stream: &mut crate::net::Stream) -> String {
    let mut received = [0; 3];
    match tokio::io::AsyncReadExt::read_exact(stream, &mut received).await {
        Ok(_) => String::from_utf8_lossy(&received).into_owned(),
        Err(_) => "0".into(),
    }
}

#[test]
fn an_endless_blackhole_is_not_detected_until_tcp_gives_up() {
    let mut plan =
        plan([(3_500, Fault::Blackhole(faults::Blackhole { conn: first(), lasts: None }))]);
    plan.horizon = secs(1_000);
    let log_lines = log_lines(&history(&bare(echo, ask_every_second), &plan), true);
    let timed_out = when(&log_lines, "TimedOut").unwrap();
    assert!((928_000..=930_000).contains(&timed_out), "{log_lines:?}");
    assert!(
        !log_lines.iter().any(|line| line.starts_with("server") && !line.contains(" 1001")),
        "{log_lines:?}"
    );
}

#[test]
fn delay_makes_packets_late() {
    let place = LinkPlace::Link("client".into(), "server".into());
    let log_lines = asked(Fault::Delay(faults::Delay {
        place,
        toward: Some("client".into()),
        by: secs(2),
        lasts: Some(secs(10)),
    }));
    assert!((3_000..=3_100).contains(&longest_pause(&log_lines)), "{log_lines:?}");
}

#[test]
fn delay_close_delays_only_the_close_and_not_the_other_direction() {
    let fault = Fault::DelayClose(faults::DelayClose {
        conn: first(),
        toward: "server".into(),
        by: secs(9),
    });
    let subject = bare(
        |host| async move {
            let mut listener = host.env.net.listen(&server()).await.unwrap();
            let mut stream = listener.accept().await.unwrap();
            let other = host.clone();
            // While the FIN is late, 200 KiB flow in the other direction: more than any window.
            let sent = stream.write_all(&[7; 200 << 10]).await.is_ok();
            log(&other, format!("sent {sent}"));
            let received = receive(&mut stream).await;
            log(&host, received);
        },
        |host| async move {
            let mut stream = connect(&host).await;
            sleep(secs(1)).await;
            stream.shutdown().await.unwrap();
            let mut total = 0;
            while total < 200 << 10 {
                let mut buffer = [0; 8192];
                total += tokio::io::AsyncReadExt::read(&mut stream, &mut buffer).await.unwrap();
            }
            log(&host, "all");
            std::future::pending::<()>().await;
        },
    );
    let log_lines = log_lines(&history(&subject, &plan([(0, fault)])), true);
    assert!(when(&log_lines, "all").unwrap() < 2_000, "{log_lines:?}");
    assert!((10_000..10_100).contains(&when(&log_lines, "eof").unwrap()), "{log_lines:?}");
}

#[test]
fn slow_limits_bandwidth_segments_and_window() {
    let place = LinkPlace::Conn(first());
    let by = SlowBy {
        bandwidth: Some(10_000),
        segment: Some(100),
        window: Some(1_000),
        latency: Some(ms(5)),
    };
    let fault = Fault::Slow(faults::Slow { place, toward: Some("server".into()), by, lasts: None });
    let subject = bare(count_bytes, |host| async move {
        let mut stream = connect(&host).await;
        stream.write_all(&[7; 100_000]).await.unwrap();
        drop(stream);
        std::future::pending::<()>().await;
    });
    let history = crate::world::run(
        &subject,
        &plan([(0, fault)]),
        &crate::world::Options { detail: crate::world::Detail::Full, ..Default::default() },
    )
    .unwrap()
    .history;
    let longest = history.events.iter().filter_map(|event| match &event.what {
        EventKind::Packet(packet) => Some(packet.len),
        _ => None,
    });
    assert_eq!(longest.max(), Some(100));
    let log_lines = log_lines(&history, true);
    let done = when(&log_lines, "100000 bytes, eof").unwrap();
    // A window of 1,000 bytes per round trip of 7 to 50 ms, and at most 10,000 bytes per second.
    assert!((10_000..20_000).contains(&done), "{log_lines:?}");
}

/// One-byte segments are lost at departure and at arrival, with acknowledgements between them. All
/// of them arrive, in order.
#[test]
fn held_small_segments_arrive_in_order() {
    let place = LinkPlace::Conn(first());
    let by =
        SlowBy { bandwidth: Some(5_000), segment: Some(1), window: None, latency: Some(ms(200)) };
    let slow = Fault::Slow(faults::Slow { place, toward: None, by, lasts: None });
    let stall = || {
        Fault::Stall(faults::Stall {
            conn: first(),
            toward: "server".into(),
            lasts: Some(ms(1_500)),
        })
    };
    let data: Vec<u8> = (0..20_000_u32).map(|n| (n % 251) as u8).collect();
    let expected = data.clone();
    let server = move |host: HostContext| {
        let expected = expected.clone();
        async move {
            let mut stream = host.env.net.listen(&server()).await.unwrap().accept().await.unwrap();
            let mut received = vec![0; expected.len()];
            stream.read_exact(&mut received).await.unwrap();
            log(&host, if received == expected { "all of it" } else { "something else" });
            std::future::pending::<()>().await;
        }
    };
    let client = move |host: HostContext| {
        let data = data.clone();
        async move {
            let mut stream = connect(&host).await;
            for piece in data.chunks(2_000) {
                stream.write_all(piece).await.unwrap();
                sleep(ms(300)).await;
            }
            std::future::pending::<()>().await;
        }
    };
    let log_lines = log_lines(
        &history(&bare(server, client), &plan([(10, slow), (600, stall()), (3_000, stall())])),
        true,
    );
    assert!(when(&log_lines, "all of it").is_some(), "{log_lines:?}");
}

#[test]
fn segments_that_wait_for_a_slow_link_continue_when_the_link_is_fast_again() {
    let place = LinkPlace::Conn(first());
    let by = SlowBy { bandwidth: Some(100), segment: None, window: None, latency: None };
    let fault = Fault::Slow(faults::Slow { place, toward: None, by, lasts: Some(secs(2)) });
    let subject = bare(count_bytes, |host| async move {
        let mut stream = connect(&host).await;
        stream.write_all(&[7; 10_000]).await.unwrap();
        drop(stream);
        std::future::pending::<()>().await;
    });
    let log_lines = log_lines(&history(&subject, &plan([(0, fault)])), true);
    let done = when(&log_lines, "10000 bytes, eof").unwrap();
    assert!((2_000..2_100).contains(&done), "{log_lines:?}");
}

/// Connects once per second, and logs the result.
async fn connect_now(host: HostContext) {
    for _ in 0..12 {
        let outcome = match host.env.net.connect(&server()).await {
            Ok(mut stream) => {
                let greeted = tokio::time::timeout(ms(500), receive(&mut stream)).await;
                greeted.map_or("up".to_owned(), |received| format!("up, {received}"))
            }
            Err(error) => format!("{:?}", error.kind()),
        };
        log(&host, outcome);
        sleep(secs(1)).await;
    }
}

fn connected_at(fault: Fault) -> Vec<String> {
    log_lines(&history(&bare(echo, connect_now), &plan([(3_000, fault)])), true)
        .into_iter()
        .filter(|line| line.starts_with("client"))
        .collect()
}

#[test]
fn a_refused_connection_fails_at_once_until_the_fault_ends() {
    let log_lines =
        connected_at(Fault::Refuse(faults::Refuse { host: "server".into(), lasts: Some(secs(5)) }));
    let refused = log_lines.iter().filter(|line| line.ends_with("ConnectionRefused")).count();
    assert!((4..=5).contains(&refused), "{log_lines:?}");
    assert!(log_lines.last().unwrap().ends_with("up"), "{log_lines:?}");
}

#[test]
fn a_hang_lasts_until_the_first_retransmitted_syn_after_it() {
    let log_lines =
        connected_at(Fault::Hang(faults::Hang { host: "server".into(), lasts: Some(secs(5)) }));
    let pause = log_lines
        .windows(2)
        .map(|pair| when(&pair[1..], "up").unwrap() - when(&pair[..1], "up").unwrap())
        .max()
        .unwrap();
    // Lost between 3 and 4.6 s, retransmitted after 1, 3 and 7 s.
    assert!((7_000..9_100).contains(&pause), "{log_lines:?}");
}

#[test]
fn accept_then_close_is_an_end_of_stream_that_the_server_does_not_see() {
    let history = history(
        &bare(echo, connect_now),
        &plan([(
            0,
            Fault::AcceptThenClose(faults::AcceptThenClose { host: "server".into(), lasts: None }),
        )]),
    );
    let log_lines = log_lines(&history, false);
    assert_eq!(log_lines.len(), 12);
    assert!(log_lines.iter().all(|line| line == "client: up, eof"), "{log_lines:?}");
}

#[test]
fn hold_keeps_a_task_at_a_point_until_something_else_is_reached() {
    let subject = bare(
        |host| async move {
            sleep(secs(1)).await;
            crate::point!("bare.server.between").await;
            log(&host, "past");
            std::future::pending::<()>().await;
        },
        |_| async move {
            sleep(secs(4)).await;
            crate::milestone!("bare.client.there");
            std::future::pending::<()>().await;
        },
    );
    let hold =
        |end| plan_after(Trigger::point("bare.server.between"), Fault::Hold(faults::Hold { end }));
    let past = |end| log_lines(&history(&subject, &hold(end)), true);
    assert_eq!(past(HoldEnd::After(ms(700))), ["server 1700: past"]);
    let until = |at_most| HoldEnd::Until {
        trigger: Box::new(Trigger::milestone("bare.client.there").delay(ms(200))),
        at_most,
    };
    assert_eq!(past(until(secs(10))), ["server 4200: past"]);
    assert_eq!(past(until(secs(2))), ["server 3000: past"]);
    assert_eq!(log_lines(&history(&subject, &Plan::new("bare")), true), ["server 1000: past"]);
    assert_eq!(over(&history(&subject, &hold(until(secs(10))))), 1);
}

/// Writes after a second, reports it in the same turn, and logs the reply.
async fn write_after_a_second(host: HostContext) {
    let mut stream = connect(&host).await;
    sleep(secs(1)).await;
    stream.write_all(b"hello").await.unwrap();
    crate::milestone!("bare.client.wrote", conn = stream.id().0);
    let received = receive(&mut stream).await;
    log(&host, received);
    std::future::pending::<()>().await;
}

#[test]
fn a_trigger_acts_before_the_data_of_its_turn_leaves_the_host() {
    let subject = bare(echo, write_after_a_second);
    let fault = Fault::Cut(faults::Cut {
        conn: first(),
        learns: learns(Learns::After(secs(1)), Learns::After(secs(2))),
    });
    let mut trigger = Trigger::milestone("bare.client.wrote");
    trigger.conn = Some(first());
    let log_lines = log_lines(&history(&subject, &plan_after(trigger, fault)), true);
    let start =
        when(&log_lines, "client").unwrap_or_else(|| when(&log_lines, "ConnectionReset").unwrap());
    assert_eq!(log_lines.len(), 2, "{log_lines:?}");
    assert!(
        start > 2_000 && log_lines.iter().all(|line| line.ends_with("ConnectionReset")),
        "{log_lines:?}"
    );
}

#[test]
fn the_data_of_a_turn_leaves_the_host_even_if_the_trigger_does_nothing() {
    let subject = bare(echo, write_after_a_second);
    let fault = Fault::Reset(faults::Reset { conn: Conn::number("client", 7), toward: None });
    let log_lines = log_lines(
        &history(&subject, &plan_after(Trigger::milestone("bare.client.wrote"), fault)),
        true,
    );
    assert!((1_000..1_100).contains(&when(&log_lines, "hello").unwrap()), "{log_lines:?}");
}

#[test]
fn a_delay_is_over_when_the_delayed_segments_have_arrived() {
    let delay = |by| {
        Fault::Delay(faults::Delay {
            place: LinkPlace::Conn(first()),
            toward: None,
            by: secs(by),
            lasts: Some(secs(1)),
        })
    };
    let history =
        history(&bare(echo, ask_every_second), &plan([(2_000, delay(8)), (2_000, delay(5))]));
    let over = history
        .events
        .iter()
        .filter(|event| matches!(event.what, EventKind::FaultEnded { .. }))
        .map(|event| event.at.0);
    let over: Vec<_> = over.collect();
    assert!(over.len() == 2 && over.iter().all(|at| (15_000..17_000).contains(at)), "{over:?}");
}

#[test]
fn a_stall_is_over_when_the_close_that_it_held_has_arrived() {
    let client = |host: HostContext| async move {
        let stream = connect(&host).await;
        sleep(secs(1)).await;
        drop(stream);
        std::future::pending::<()>().await;
    };
    let stall = Fault::Stall(faults::Stall {
        conn: first(),
        toward: "server".into(),
        lasts: Some(ms(2_500)),
    });
    let history = history(&bare(echo, client), &plan([(500, stall)]));
    let closed = when(&log_lines(&history, true), "eof").unwrap();
    let over = history
        .events
        .iter()
        .find(|event| matches!(event.what, EventKind::FaultEnded { .. }))
        .unwrap();
    assert!(closed > 3_000 && over.at.0 == closed, "closed at {closed}, over at {}", over.at);
}

#[test]
fn the_healed_tail_ends_active_faults_and_starts_none() {
    let hosts = || (Host::from("client"), Host::from("server"));
    let partition =
        || Fault::Partition(faults::Partition { hosts: hosts(), toward: None, lasts: None });
    let crash = crash("server", None);
    let mut plan = plan([(3_500, partition()), (50_000, crash)]);
    plan.heal = secs(50);
    let log_lines = log_lines(&history(&bare(echo, ask_every_second), &plan), true);
    assert!((6_500..14_000).contains(&longest_pause(&log_lines)), "{log_lines:?}");
    assert!(
        when(&log_lines, "eof").unwrap() > 50_000
            && !log_lines.iter().any(|line| line.contains("Conn")),
        "{log_lines:?}"
    );
}

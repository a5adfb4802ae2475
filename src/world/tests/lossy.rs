//! Tests `loss`, `reorder` and `flap`: what both sides see, and when. The times are those of Linux.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::sleep;

use super::*;
use crate::history::{EventKind, Fate, Packet};
use crate::schedule::{Conn, Fault, Host, LinkPlace, Plan, faults};
use crate::subject::HostContext;
use crate::world::options::Detail;
use crate::world::{Engine, Options, run};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn link() -> LinkPlace {
    LinkPlace::Link("client".into(), "server".into())
}

fn loss(percent: u64, toward: &str, lasts: Option<u64>) -> Fault {
    let (place, toward) = (link(), Some(Host::from(toward)));
    Fault::Loss(faults::Loss { place, toward, percent, lasts: lasts.map(ms) })
}

fn reorder(by: u64) -> Fault {
    let (place, by) = (link(), ms(by));
    Fault::Reorder(faults::Reorder { place, toward: None, by, lasts: Some(ms(20_000)) })
}

fn flap(down: u64, up: u64, lasts: Option<u64>) -> Fault {
    let hosts = ("client".into(), "server".into());
    Fault::Flap(faults::Flap { hosts, down: ms(down), up: ms(up), lasts: lasts.map(ms) })
}

/// Returns a plan with one millisecond of latency.
fn even(faults: impl IntoIterator<Item = (u64, Fault)>) -> Plan {
    let mut plan = plan(faults);
    plan.latency = (ms(1), ms(1));
    plan
}

/// Returns the time of the first line with this ending, in milliseconds.
fn when(log_lines: &[String], ends: &str) -> u64 {
    let line = log_lines.iter().find(|line| line.ends_with(ends));
    let time = line.and_then(|line| line.split([' ', ':']).nth(1)?.parse().ok());
    time.unwrap_or_else(|| panic!("no {ends}: {log_lines:?}"))
}

/// Opens a connection, sends a line after a second, and logs the answer.
async fn ask_once(host: HostContext) {
    let mut stream = connect(&host).await;
    sleep(ms(1_000)).await;
    stream.write_all(b"abc\n").await.unwrap();
    let received = receive(&mut stream).await;
    log(&host, received.trim_end());
}

/// Connects after a second, and logs how that ended.
async fn open_once(host: HostContext) {
    sleep(ms(1_000)).await;
    let opened = host.env.net.connect(&server()).await;
    log(&host, opened.map_or_else(|error| format!("{:?}", error.kind()), |_| "opened".into()));
}

#[test]
fn a_lost_segment_arrives_when_tcp_sends_it_again() {
    let mut waits = BTreeSet::new();
    for seed in 1..=60 {
        let mut plan = even([(500, loss(50, "server", None))]);
        plan.seed = seed;
        let log_lines = log_lines(&history(&bare(echo, ask_once), &plan), true);
        waits.insert(when(&log_lines, "abc") - 1_004);
    }
    assert!(waits.is_superset(&BTreeSet::from([0, 200, 600, 1_400, 3_000])), "{waits:?}");
    let tries = [0, 200, 600, 1_400, 3_000, 6_200, 12_600, 25_400, 51_000];
    assert!(waits.is_subset(&BTreeSet::from(tries)), "{waits:?}");
}

#[test]
fn a_lost_syn_is_sent_again_after_a_second_then_two() {
    for (lasts, opened) in [(500, 1_002), (1_500, 2_002), (1_501, 4_002), (3_501, 8_002)] {
        let plan = even([(500, loss(100, "server", Some(lasts)))]);
        let log_lines = log_lines(&history(&bare(echo, open_once), &plan), true);
        assert_eq!(when(&log_lines, "opened"), opened, "{lasts} ms");
    }
}

#[test]
fn a_lost_answer_to_a_syn_is_sent_again_after_a_second() {
    let plan = even([(500, loss(100, "client", Some(1_000)))]);
    let log_lines = log_lines(&history(&bare(echo, open_once), &plan), true);
    assert_eq!(when(&log_lines, "opened"), 2_002);
}

#[test]
fn tcp_gives_up_if_everything_is_lost() {
    for (subject, after) in [(bare(echo, ask_once), 924_600), (bare(echo, open_once), 127_000)] {
        let mut plan = even([(500, loss(100, "server", None))]);
        plan.horizon = ms(1_000_000);
        let log_lines = log_lines(&history(&subject, &plan), true);
        let gave_up = when(&log_lines, "TimedOut") - 1_000;
        assert!((after..after + 5).contains(&gave_up), "{log_lines:?}");
    }
}

/// Sends a hundred lines to the echo, and logs what it receives.
async fn send_lines(host: HostContext) {
    let mut stream = connect(&host).await;
    let (mut sent, mut received) = (String::new(), vec![0; 400]);
    for n in 0..100 {
        let line = format!("{n:03}\n");
        stream.write_all(line.as_bytes()).await.unwrap();
        sent += &line;
        sleep(ms(7)).await;
    }
    stream.read_exact(&mut received).await.unwrap();
    log(&host, if sent.as_bytes() == received { "all in order" } else { "mixed up" });
}

#[test]
fn data_stays_in_order_on_both_engines() {
    for engine in [Engine::Event, Engine::TURMOIL] {
        for seed in 1..=3 {
            let mut plan = plan([
                (0, loss(30, "server", Some(9_000))),
                (0, loss(30, "client", Some(9_000))),
                (0, reorder(300)),
            ]);
            plan.seed = seed;
            let options = Options { engine, ..Options::default() };
            let history = run(&bare(echo, send_lines), &plan, &options).unwrap().history;
            let log_lines = log_lines(&history, false);
            assert!(log_lines.contains(&"client: all in order".into()), "{log_lines:?}");
        }
    }
}

/// Sends a word on each of two connections, one shortly after the other.
async fn send_two(host: HostContext) {
    let (mut one, mut other) = (connect(&host).await, connect(&host).await);
    sleep(ms(1_000)).await;
    one.write_all(b"one").await.unwrap();
    sleep(ms(50)).await;
    other.write_all(b"other").await.unwrap();
    std::future::pending::<()>().await;
}

#[test]
fn connections_overtake_each_other() {
    let first = |faults: Vec<(u64, Fault)>, seed| {
        let serve = |host: HostContext| async move {
            let mut listener = host.env.net.listen(&server()).await.unwrap();
            let mut tasks = tokio::task::JoinSet::new();
            loop {
                let (mut stream, host) = (listener.accept().await.unwrap(), host.clone());
                tasks.spawn(async move {
                    let received = receive(&mut stream).await;
                    log(&host, received);
                });
            }
        };
        let mut plan = even(faults);
        plan.seed = seed;
        log_lines(&history(&bare(serve, send_two), &plan), false).first().cloned()
    };
    let firsts: BTreeSet<_> = (1..=20).map(|seed| first(vec![(500, reorder(200))], seed)).collect();
    assert_eq!(firsts.len(), 2, "{firsts:?}");
    let firsts: BTreeSet<_> = (1..=20).map(|seed| first(Vec::new(), seed)).collect();
    assert_eq!(firsts.len(), 1, "{firsts:?}");
}

#[test]
fn acknowledgements_overtake_data_and_data_does_not_overtake_data() {
    let plan = even([(0, reorder(300))]);
    let options = Options { detail: Detail::Full, ..Options::default() };
    let history = run(&bare(echo, send_lines), &plan, &options).unwrap().history;
    let packets: Vec<_> = history
        .events
        .iter()
        .filter_map(|event| match event.what {
            EventKind::Packet(Packet { from, len, fate: Fate::Arrives(at), flags, .. }) => {
                Some((from, len > 0 || flags.syn || flags.fin, at))
            }
            _ => None,
        })
        .collect();
    let overtakes = |data: bool| {
        packets.iter().enumerate().any(|(n, (from, is_data, at))| {
            let earlier =
                packets[..n].iter().filter(|(other, is_data, _)| other == from && *is_data);
            *is_data == data && earlier.into_iter().any(|(_, _, other)| at < other)
        })
    };
    assert!(overtakes(false) && !overtakes(true));
}

#[test]
fn a_segment_arrives_when_tcp_sends_it_while_a_flapping_link_is_up() {
    // The line is written at 1.002 s, and sent again after 200, 600, 1,400 and 3,000 ms.
    for (down, up, lasts, answered) in [
        (1_000, 1_000, Some(5_000), 1_604),
        (400, 200, None, 1_004),
        (1_000, 1_000, Some(300), 1_004),
        (1_000, 0, Some(2_000), 4_004),
        (0, 1_000, None, 1_004),
        (0, 0, None, 1_004),
    ] {
        let plan = even([(500, flap(down, up, lasts))]);
        let log_lines = log_lines(&history(&bare(echo, ask_once), &plan), true);
        assert_eq!(when(&log_lines, "abc"), answered, "{down} {up} {lasts:?}");
    }
}

#[test]
fn a_syn_passes_a_flapping_link_at_a_later_attempt() {
    let plan = even([(500, flap(1_000, 1_000, None))]);
    let log_lines = log_lines(&history(&bare(echo, open_once), &plan), true);
    assert_eq!(when(&log_lines, "opened"), 2_002);
}

#[test]
fn a_loss_is_over_when_the_lost_segments_have_arrived() {
    let mut plan = even([(500, loss(100, "server", Some(1_000)))]);
    plan.steps[0].action = crate::schedule::Action::Fault(Fault::Loss(faults::Loss {
        place: LinkPlace::Conn(Conn::number("client", 1)),
        toward: None,
        percent: 100,
        lasts: Some(ms(1_000)),
    }));
    let history = history(&bare(echo, ask_once), &plan);
    let ended =
        history.events.iter().find(|event| matches!(event.what, EventKind::FaultEnded { .. }));
    let (arrived, ended) = (when(&log_lines(&history, true), "abc"), ended.unwrap().at.0);
    assert!((1_600..=arrived).contains(&ended), "{ended} {arrived}");
}

//! Runs the same plans on both engines: the users see the same, apart from times.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::time::sleep;

use super::*;
use crate::history::{Call, ConnEnd, Event, EventKind, History};
use crate::net::Stream;
use crate::schedule::{Conn, Fault, Host, Learns, LinkPlace, Plan, TrafficCount, Unsynced, faults};
use crate::subject::{DynSubject, HostContext};
use crate::world::{Engine, Options, RunError, Tick, run};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn on(engine: Engine, subject: &std::sync::Arc<dyn DynSubject>, plan: &Plan) -> History {
    run(subject, plan, &Options { engine, ..Options::default() }).unwrap().history
}

/// Returns the log lines of each host, in order.
fn by_host(history: &History) -> Vec<String> {
    let mut log_lines = log_lines(history, false);
    log_lines.sort_by(|a, b| a.split(':').next().cmp(&b.split(':').next()));
    log_lines
}

/// Runs a plan on both engines, and checks that the hosts log the same lines and that the
/// connections end in the same way. Returns the log lines and the history of the second engine.
fn on_both(
    subject: &std::sync::Arc<dyn DynSubject>,
    faults: impl IntoIterator<Item = (u64, Fault)>,
) -> (Vec<String>, History) {
    let plan = short_plan(faults);
    let [event, ticks] = [Engine::Event, Engine::TURMOIL].map(|engine| on(engine, subject, &plan));
    assert_eq!(by_host(&event), by_host(&ticks));
    assert_eq!(ends(&event), ends(&ticks), "how each end of each connection was over");
    assert_eq!(event.end, ticks.end);
    (log_lines(&ticks, true), ticks)
}

/// Returns how each end of each connection was closed.
fn ends(history: &History) -> Vec<Vec<ConnEnd>> {
    let of = |wanted: usize| {
        let of_conn = |event: &crate::history::Event| match event.what {
            EventKind::ConnOver { conn, side, how } if conn.0 == wanted => {
                Some((side as usize, how))
            }
            _ => None,
        };
        let mut ends: Vec<_> = history.events.iter().filter_map(of_conn).collect();
        ends.sort_by_key(|(side, _)| *side);
        ends.into_iter().map(|(_, how)| how).collect()
    };
    (0..history.conns.len()).map(of).collect()
}

/// Returns the time of the first line with this ending, in milliseconds.
fn when(log_lines: &[String], ends: &str) -> u64 {
    let line = log_lines
        .iter()
        .find(|line| line.ends_with(ends))
        .unwrap_or_else(|| panic!("no line is `{ends}`: {log_lines:?}"));
    line.split([' ', ':']).nth(1).unwrap().parse().unwrap()
}

/// Creates a plan of half a minute, because turmoil's ticks are slow.
fn short_plan(faults: impl IntoIterator<Item = (u64, Fault)>) -> Plan {
    Plan { horizon: secs(30), ..plan(faults) }
}

/// Sends `hello` this many times and logs each reply. Stops at a different reply.
async fn ask(host: &HostContext, stream: &mut Stream, times: usize, pause: Duration) {
    for _ in 0..times {
        let received = match stream.write_all(b"hello").await {
            Ok(()) => receive(stream).await,
            Err(error) => format!("write: {:?}", error.kind()),
        };
        log(host, received.clone());
        if received != "hello" {
            return;
        }
        sleep(pause).await;
    }
}

/// Sends ten requests over one connection.
async fn ask_ten_times(host: HostContext) {
    let mut stream = connect(&host).await;
    ask(&host, &mut stream, 10, secs(1)).await;
}

/// Tries to open eight connections, and sends up to five requests over each.
async fn ask_again(host: HostContext) {
    for _ in 0..8 {
        sleep(secs(1)).await;
        match host.env.net.connect(&server()).await {
            Ok(mut stream) => ask(&host, &mut stream, 5, ms(300)).await,
            Err(error) => log(&host, format!("{:?}", error.kind())),
        }
    }
    std::future::pending().await
}

#[test]
fn an_echo_without_a_fault() {
    let (log_lines, history) = on_both(&bare(echo, ask_ten_times), []);
    assert_eq!(
        log_lines.iter().filter(|line| line.ends_with(": hello")).count(),
        10,
        "{log_lines:?}"
    );
    assert_eq!(
        history
            .events
            .iter()
            .filter(|event| matches!(event.what, EventKind::ConnUp { .. }))
            .count(),
        2
    );
}

#[test]
fn a_cut_that_each_end_learns_of_in_its_own_time() {
    let learns = BTreeMap::from([
        ("client".into(), Learns::After(ms(0))),
        ("server".into(), Learns::After(secs(3))),
    ]);
    let cut = Fault::Cut(faults::Cut { conn: Conn::number("client", 1), learns });
    let (log_lines, _) = on_both(&bare(echo, ask_ten_times), [(5_500, cut)]);
    assert!((5_500..7_000).contains(&when(&log_lines, "write: ConnectionReset")), "{log_lines:?}");
    assert_eq!(when(&log_lines, "1 ConnectionReset"), 8_500);
}

#[test]
fn a_cut_wakes_a_reader_that_waits() {
    let subject = bare(echo, |host| async move {
        let received = receive(&mut connect(&host).await).await;
        log(&host, received);
        std::future::pending().await
    });
    let cut = Fault::Cut(faults::Cut { conn: Conn::number("client", 1), learns: BTreeMap::new() });
    let (mut log_lines, _) = on_both(&subject, [(1_000, cut)]);
    log_lines.sort();
    assert_eq!(log_lines, ["client 1000: ConnectionReset", "server 1000: 1 ConnectionReset"]);
}

#[test]
fn a_partition_that_heals_loses_nothing() {
    let hosts = (Host::from("client"), Host::from("server"));
    let partition =
        Fault::Partition(faults::Partition { hosts, toward: None, lasts: Some(secs(7)) });
    let (log_lines, _) = on_both(&bare(echo, ask_ten_times), [(3_500, partition)]);
    let times: Vec<u64> =
        log_lines.iter().filter_map(|line| line.split([' ', ':']).nth(1)?.parse().ok()).collect();
    let pause = times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
    // Lost at about 4 s, retransmitted after 200, 600, 1,400, 3,000, 6,200 and 12,600 ms.
    assert!((6_200..14_000).contains(&pause), "{log_lines:?}");
    assert_eq!(log_lines.last().unwrap().split(": ").nth(1), Some("1 eof"));
}

#[test]
fn a_crash_and_a_restart() {
    let crash = crash("server", Some(ms(3_500)));
    let (log_lines, history) = on_both(&bare(echo, ask_again), [(4_500, crash)]);
    assert_eq!(log_lines.iter().filter(|line| line.ends_with(": eof")).count(), 1, "{log_lines:?}");
    assert!(log_lines.iter().any(|line| line.ends_with("ConnectionRefused")), "{log_lines:?}");
    assert_eq!(
        history.events.iter().filter(|event| matches!(event.what, EventKind::Started)).count(),
        3
    );
}

#[test]
fn a_crashing_client_closes_its_connections() {
    let crash = crash("client", Some(secs(2)));
    let (log_lines, _) = on_both(&bare(echo, ask_ten_times), [(5_500, crash)]);
    assert!((5_500..5_600).contains(&when(&log_lines, "1 eof")), "{log_lines:?}");
}

#[test]
fn a_power_loss_is_not_detected_until_the_restart() {
    let loss = Fault::PowerLoss(faults::PowerLoss {
        host: "server".into(),
        unsynced: Unsynced::Kept,
        lasts: Some(secs(4)),
    });
    let (log_lines, _) = on_both(&bare(echo, ask_again), [(4_500, loss)]);
    // Lost at about 4.6 s, retransmitted at 10.8 s.
    assert!((8_500..12_000).contains(&when(&log_lines, "ConnectionReset")), "{log_lines:?}");
}

#[test]
fn a_refused_connection_fails_at_once_until_the_fault_ends() {
    let refuse = Fault::Refuse(faults::Refuse { host: "server".into(), lasts: Some(ms(3_500)) });
    let (log_lines, _) = on_both(&bare(echo, ask_again), [(0, refuse)]);
    let refused = log_lines.iter().filter(|line| line.ends_with("ConnectionRefused")).count();
    assert_eq!(refused, 3, "{log_lines:?}");
}

#[test]
fn a_cut_within_a_segment_lets_its_first_part_arrive() {
    let cut = Fault::CutAfter(faults::CutAfter {
        conn: Conn::number("client", 1),
        toward: "server".into(),
        count: TrafficCount::Bytes(25),
        learns: BTreeMap::new(),
    });
    let subject = bare(
        |host| async move {
            let mut listener = host.env.net.listen(&server()).await.unwrap();
            let mut stream = listener.accept().await.unwrap();
            let mut received = Vec::new();
            let end = tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut received).await;
            log(
                &host,
                format!(
                    "{} {:?}",
                    String::from_utf8_lossy(&received),
                    end.map_err(|error| error.kind())
                ),
            );
            std::future::pending().await
        },
        |host| async move {
            let mut stream = connect(&host).await;
            while stream.write_all(b"123456789\n").await.is_ok() {
                sleep(ms(100)).await;
            }
            std::future::pending().await
        },
    );
    let (log_lines, _) = on_both(&subject, [(0, cut)]);
    assert!(
        log_lines[0].ends_with("123456789\n123456789\n12345 Err(ConnectionReset)"),
        "{log_lines:?}"
    );
}

/// A reply that had arrived but was unread is read before the reset that came after it.
#[test]
fn a_reset_discards_no_delivered_data() {
    let subject = bare(echo, |host| async move {
        let mut stream = connect(&host).await;
        stream.write_all(b"hello").await.unwrap();
        sleep(secs(3)).await;
        for _ in 0..3 {
            let received = receive(&mut stream).await;
            log(&host, received);
        }
        std::future::pending().await
    });
    let reset = Fault::Reset(faults::Reset { conn: Conn::number("client", 1), toward: None });
    let (_, history) = on_both(&subject, [(2_000, reset)]);
    assert_eq!(by_host(&history)[..3], ["client: hello", "client: ConnectionReset", "client: eof"]);
}

/// The data is delayed. The reset after it is not, but waits for the data. Both arrive in the same
/// millisecond, and the data is read first.
#[test]
fn last_words_are_read_before_the_reset_that_came_with_them() {
    let subject = bare(
        |host| async move {
            let mut listener = host.env.net.listen(&server()).await.unwrap();
            let mut stream = listener.accept().await.unwrap();
            tokio::io::AsyncReadExt::read_u8(&mut stream).await.unwrap();
            stream.write_all(b"bye").await.unwrap();
            sleep(ms(500)).await;
            // Because of unread bytes, this close is a reset.
            drop(stream);
            std::future::pending().await
        },
        |host| async move {
            let mut stream = connect(&host).await;
            sleep(secs(5)).await;
            ask(&host, &mut stream, 1, ms(0)).await;
            let received = receive(&mut stream).await;
            log(&host, received);
            std::future::pending().await
        },
    );
    let place = LinkPlace::Link("client".into(), "server".into());
    let delay = Fault::Delay(faults::Delay {
        place,
        toward: Some("client".into()),
        by: secs(2),
        lasts: Some(ms(800)),
    });
    let (log_lines, _) = on_both(&subject, [(4_500, delay)]);
    assert!(
        when(&log_lines, "bye") > 7_000
            && when(&log_lines, "ConnectionReset") == when(&log_lines, "bye"),
        "{log_lines:?}"
    );
}

#[test]
fn a_cancelled_connection_attempt_opens_no_connection() {
    let subject = bare(echo, |host| async move {
        for _ in 0..5 {
            match tokio::time::timeout(ms(500), connect(&host)).await {
                Ok(mut stream) => ask(&host, &mut stream, 1, ms(0)).await,
                Err(_) => log(&host, "given up"),
            }
            sleep(secs(1)).await;
        }
        std::future::pending().await
    });
    let hang = Fault::Hang(faults::Hang { host: "server".into(), lasts: Some(ms(2_500)) });
    let wanted =
        ["client: given up", "client: given up", "client: hello", "client: hello", "client: hello"];
    for engine in [Engine::Event, Engine::TURMOIL] {
        let log_lines = by_host(&on(engine, &subject, &short_plan([(0, hang.clone())])));
        assert_eq!(log_lines[..5], wanted, "{engine:?}");
        assert_eq!(log_lines[5..].len(), 3, "the server has seen three connections: {log_lines:?}");
    }
}

#[test]
fn the_same_plan_twice_is_the_same_on_turmoil() {
    let subject = bare(echo, ask_again);
    let digest = |seed| {
        let mut plan = short_plan([(4_500, crash("server", Some(secs(3))))]);
        plan.seed = seed;
        on(Engine::TURMOIL, &subject, &plan).digest
    };
    assert_eq!(digest(1), digest(1));
    assert_ne!(digest(1), digest(2));
}

/// With longer ticks the log is the same, and every entry has the time of the beginning of a tick.
#[test]
fn longer_ticks_are_a_coarser_clock() {
    let subject = bare(echo, ask_ten_times);
    let [fine, coarse] = [1, 20].map(|length| {
        let tick = Tick::of(ms(length)).unwrap();
        on(Engine::Turmoil(tick), &subject, &short_plan([]))
    });
    assert_eq!(by_host(&fine), by_host(&coarse));
    assert!(fine.events.iter().any(|event| event.at.0 % 20 != 0));
    assert!(coarse.events.iter().all(|event| event.at.0 % 20 == 0));
}

#[test]
fn a_tick_is_of_whole_milliseconds_and_no_longer_than_a_second() {
    let lengths = [
        Duration::ZERO,
        Duration::from_micros(999),
        Duration::from_micros(1_500),
        ms(1_001),
        secs(u64::MAX / 2),
    ];
    assert_eq!(lengths.map(Tick::of), [None; 5]);
    assert_eq!([1, 1_000].map(|length| Tick::of(ms(length)).unwrap().length()), [ms(1), secs(1)]);
}

#[test]
fn a_panic_of_a_root_is_an_entry_and_another_one_ends_the_run() {
    let panicked = |history: &History, wanted: &str| {
        let says = |event: &crate::history::Event| matches!(&event.what, EventKind::Panicked { message } if message.starts_with(wanted));
        history.events.iter().any(says)
    };
    let root = bare(|_| async { panic!("of the root") }, |_| std::future::pending());
    let history = on(Engine::TURMOIL, &root, &short_plan([]));
    assert!(panicked(&history, "of the root (") && history.end.0 > 30_000, "{:?}", history.end);
    let task = bare(
        |_| async {
            tokio::spawn(async { panic!("of a task") });
            std::future::pending().await
        },
        |_| std::future::pending(),
    );
    let history = on(Engine::TURMOIL, &task, &short_plan([]));
    assert!(panicked(&history, "of a task (") && history.end.0 < 30_000, "{:?}", history.end);
}

#[test]
fn plans_that_turmoil_cannot_express_are_refused() {
    let plan = plan([(
        0,
        Fault::AcceptThenClose(faults::AcceptThenClose { host: "server".into(), lasts: None }),
    )]);
    let options = Options { engine: Engine::TURMOIL, ..Options::default() };
    let refused = run(&bare(echo, ask_ten_times), &plan, &options).unwrap_err();
    assert!(matches!(refused, RunError::Unsupported(why) if why.starts_with("accept-then-close")));
}

/// If the task panicked on turmoil, tokio would abort the process: see `TickStack::request_panic`.
#[test]
fn a_panic_of_the_outside_world_ends_a_run_on_turmoil_with_an_error() {
    let subject = bare(
        |host| async move {
            let mut tasks = tokio::task::JoinSet::new();
            tasks.spawn(std::future::pending::<()>());
            tasks.spawn(std::future::pending::<()>());
            tokio::spawn(async move {
                let _tasks = tasks;
                std::future::pending::<()>().await
            });
            let record = host.record.clone();
            let tool = record.clone();
            let broken = tokio::spawn(async move { tool.panic_outside("of a tool").await }).await;
            if broken.is_err_and(|error| error.is_panic()) {
                record.effect(Call::NONE, "the rest");
            }
            std::future::pending().await
        },
        |_| std::future::pending(),
    );
    let history = on(Engine::Event, &subject, &short_plan([]));
    let is_panic = |event: &Event| matches!(event.what, EventKind::Panicked { .. });
    assert!(!history.events.iter().any(is_panic) && history.end.0 > 30_000, "{:?}", history.end);
    let goes_on = |event: &Event| matches!(event.what, EventKind::Effect { .. });
    assert!(history.events.iter().any(goes_on), "{:?}", history.events);
    let options = Options { engine: Engine::TURMOIL, ..Options::default() };
    let error = run(&subject, &short_plan([]), &options).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a task of the outside world panics before 0.001 s, and stock turmoil cannot continue after that"
    );
}

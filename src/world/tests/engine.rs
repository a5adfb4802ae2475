//! The guarantees of the engine: idle time costs nothing, and every run is reproducible to the
//! packet.

use std::time::Duration;

use super::*;
use crate::schedule::{Fault, Host, TieOrder, faults};

/// An idle minute costs nothing, and an echo arrives after two latencies.
#[test]
fn an_echo_a_second_for_most_of_a_minute() {
    let subject = bare(echo, ask_every_second);
    let history = history(&subject, &plan([]));
    let log_lines = log_lines(&history, false);
    assert_eq!(log_lines.iter().filter(|line| *line == "client: hello").count(), 50);
    assert!(history.packets > 150, "{}", history.packets);
}

/// The same plan gives the same digest, and another seed gives another digest.
#[test]
fn the_seed_decides_all() {
    let subject = bare(echo, ask_every_second);
    let digest = |seed| {
        let mut plan = plan([]);
        plan.seed = seed;
        history(&subject, &plan).digest
    };
    assert_eq!(digest(1), digest(1));
    assert_ne!(digest(1), digest(2));
}

/// A packet and a timer in the same millisecond come in the order that the plan sets, also for two
/// tasks.
#[test]
fn packets_and_timers_of_one_millisecond_come_in_either_order() {
    let subject = bare(
        |host| async move {
            let mut listener = host.env.net.listen(&server()).await.unwrap();
            let timer = host.clone();
            let mut tasks = tokio::task::JoinSet::new();
            tasks.spawn(async move {
                tokio::time::sleep(Duration::from_millis(1_005)).await;
                log(&timer, "timer");
            });
            let mut stream = listener.accept().await.unwrap();
            let received = receive(&mut stream).await;
            log(&host, received);
            tasks.join_next().await;
        },
        |host| async move {
            let mut stream = connect(&host).await;
            tokio::time::sleep_until(
                tokio::time::Instant::now() + Duration::from_millis(1_000 - 10),
            )
            .await;
            tokio::io::AsyncWriteExt::write_all(&mut stream, b"packet").await.unwrap();
            std::future::pending::<()>().await;
        },
    );
    let run = |order| {
        let mut plan = plan([]);
        plan.latency = (Duration::from_millis(5), Duration::from_millis(5));
        plan.order = order;
        log_lines(&history(&subject, &plan), true)
    };
    assert_eq!(run(TieOrder::PacketsFirst), ["server 1005: packet", "server 1005: timer"]);
    assert_eq!(run(TieOrder::TimersFirst), ["server 1005: timer", "server 1005: packet"]);
}

/// A partition holds segments, which arrive with a retransmission.
#[test]
fn a_partition_that_heals_loses_nothing() {
    let subject = bare(echo, ask_every_second);
    let hosts = (Host::from("client"), Host::from("server"));
    let fault = Fault::Partition(faults::Partition {
        hosts,
        toward: None,
        lasts: Some(Duration::from_secs(7)),
    });
    let log_lines = log_lines(&history(&subject, &plan([(3_500, fault)])), false);
    let (last, before) = log_lines.split_last().unwrap();
    assert!(
        before.len() >= 37 && before.iter().all(|line| line == "client: hello"),
        "{log_lines:?}"
    );
    assert_eq!(last, "server: 1 eof");
}

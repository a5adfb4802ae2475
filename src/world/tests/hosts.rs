//! Tests crashes, power losses, restarts, clocks, puppets and leaks: what the other hosts see.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use tokio::io::AsyncWriteExt;
use tokio::time::sleep;
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Message;

use super::*;
use crate::files::Open;
use crate::history::EventKind;
use crate::schedule::{Fault, Plan, Puppet, PuppetStep, Speaks, Trigger, Unsynced, faults};
use crate::subject::HostContext;

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Connects again and again, and logs when each connection was up and how it ended.
async fn come_again(host: HostContext) {
    loop {
        match host.env.net.connect(&server()).await {
            Err(error) => log(&host, format!("{:?}", error.kind())),
            Ok(mut stream) => {
                log(&host, "up");
                loop {
                    if stream.write_all(b"hello").await.is_err() {
                        log(&host, "write failed");
                        break;
                    }
                    let received = receive(&mut stream).await;
                    if received != "hello" {
                        log(&host, received);
                        break;
                    }
                    sleep(secs(1)).await;
                }
            }
        }
        sleep(secs(1)).await;
    }
}

/// Returns the time of a log line, in milliseconds.
fn when(line: &str) -> u64 {
    line.split([' ', ':']).nth(1).unwrap().parse().unwrap()
}

fn after(fault: Fault) -> Vec<String> {
    log_lines(&history(&bare(echo, come_again), &plan([(5_500, fault)])), false)
}

#[test]
fn a_crashed_host_closes_sockets_refuses_connections_and_restarts() {
    let log_lines = after(crash("server", Some(secs(3))));
    assert_eq!(log_lines[0], "client: up");
    assert_eq!(
        log_lines[1], "client: eof",
        "an idle connection is closed with a FIN: {log_lines:?}"
    );
    assert!(
        log_lines[2..].iter().filter(|line| *line == "client: ConnectionRefused").count() >= 2,
        "{log_lines:?}"
    );
    assert_eq!(log_lines.iter().filter(|line| *line == "client: up").count(), 2, "{log_lines:?}");
}

#[test]
fn records_after_the_milestone_that_crashes_a_host_come_before_its_death() {
    let subject = bare(echo, |host: HostContext| async move {
        crate::milestone!("bare.client.there");
        log(&host, "behind it");
        sleep(secs(1)).await;
        log(&host, "never");
    });
    let trigger = Trigger::milestone("bare.client.there");
    let history = history(&subject, &plan_after(trigger, crash("client", None)));
    let place = |is: fn(&EventKind) -> bool| {
        history.events.iter().position(|event| is(&event.what)).unwrap()
    };
    assert!(
        place(|what| matches!(what, EventKind::Delivered { .. }))
            < place(|what| matches!(what, EventKind::Died { .. }))
    );
    assert_eq!(log_lines(&history, false), ["client: behind it"]);
}

#[test]
fn a_power_loss_is_not_detected_until_the_restart() {
    let history = history(
        &bare(echo, come_again),
        &plan([(
            5_500,
            Fault::PowerLoss(faults::PowerLoss {
                host: "server".into(),
                unsynced: Unsynced::Kept,
                lasts: Some(secs(10)),
            }),
        )]),
    );
    let log_lines = log_lines(&history, true);
    assert!(log_lines[1].ends_with("ConnectionReset"), "{log_lines:?}");
    let at = when(&log_lines[1]);
    // The host restarts at 15.5 s. Data that was lost at about 6 s is retransmitted at 18.6 s.
    assert!((15_500..19_500).contains(&at), "{log_lines:?}");
    assert!(log_lines[2].ends_with("up"), "{log_lines:?}");
}

#[test]
fn a_restarted_server_listens_again_after_an_abandoned_connection() {
    let client = |host: HostContext| async move {
        let given_up =
            tokio::time::timeout(Duration::from_millis(1), host.env.net.connect(&server())).await;
        log(&host, format!("given up: {}", given_up.is_err()));
        tokio::time::sleep(secs(6)).await;
        connect(&host).await;
        log(&host, "up");
    };
    for death in [
        crash("server", Some(secs(1))),
        Fault::PowerLoss(faults::PowerLoss {
            host: "server".into(),
            unsynced: Unsynced::Kept,
            lasts: Some(secs(1)),
        }),
    ] {
        let mut plan = plan([(3_000, death)]);
        plan.latency = (Duration::from_millis(5), Duration::from_millis(9));
        assert_eq!(
            log_lines(&history(&bare(echo, client), &plan), false)[..2],
            ["client: given up: true", "client: up"]
        );
    }
}

#[test]
fn a_syn_that_arrives_after_a_death_belongs_to_the_next_life_of_the_server() {
    for death in [
        crash("server", Some(Duration::ZERO)),
        Fault::PowerLoss(faults::PowerLoss {
            host: "server".into(),
            unsynced: Unsynced::Kept,
            lasts: Some(Duration::ZERO),
        }),
    ] {
        let client = |host: HostContext| async move {
            sleep(secs(1)).await;
            come_again(host).await;
        };
        let mut plan = plan([(1_003, death)]);
        plan.latency = (Duration::from_millis(5), Duration::from_millis(9));
        let history = history(&bare(echo, client), &plan);
        assert_eq!(log_lines(&history, false)[0], "client: up");
        let is_over = |event: &&crate::history::Event| {
            matches!(event.what, EventKind::ConnOver { .. })
                && event.at.0 < plan.horizon.as_millis() as u64
        };
        assert!(!history.events.iter().any(|event| is_over(&event)), "the connection lives");
    }
}

#[test]
fn a_restart_step_ends_a_crash_without_an_end() {
    let subject = bare(echo, come_again);
    let down = crash("server", None);
    let up = Fault::Restart(faults::Restart { host: "server".into() });
    let history = history(&subject, &plan([(5_500, down), (9_000, up)]));
    assert_eq!(log_lines(&history, false).iter().filter(|line| *line == "client: up").count(), 2);
    assert!(
        history
            .events
            .iter()
            .any(|event| event.at.0 >= 9_000 && matches!(event.what, EventKind::FaultEnded { .. }))
    );
}

#[test]
fn a_client_may_crash_too() {
    let history =
        history(&bare(echo, come_again), &plan([(5_500, crash("client", Some(secs(2))))]));
    let log_lines = log_lines(&history, false);
    assert_eq!(log_lines.iter().filter(|line| *line == "client: up").count(), 2, "{log_lines:?}");
    assert!(log_lines.contains(&"server: 1 eof".to_owned()), "{log_lines:?}");
}

#[test]
fn tasks_that_outlive_their_host_are_a_leak() {
    let subject = bare(
        |host| async move {
            tokio::spawn(sleep(secs(1_000)));
            echo(host).await;
        },
        come_again,
    );
    let history = history(&subject, &plan([(5_500, crash("server", None))]));
    let outlived = history.events.iter().find_map(|event| match event.what {
        EventKind::Outlived { tasks } => Some(tasks),
        _ => None,
    });
    assert_eq!(outlived, Some(1));
}

#[test]
fn a_clock_jump_moves_only_the_wall_clock() {
    let subject = bare(
        |_| async { std::future::pending().await },
        |host| async move {
            let before = (host.env.clock.now(), tokio::time::Instant::now());
            sleep(secs(10)).await;
            let passed = host.env.clock.now().duration_since(before.0).unwrap();
            log(&host, format!("{} and {}", passed.as_secs(), before.1.elapsed().as_secs()));
        },
    );
    let fault = Fault::ClockJump(faults::ClockJump { host: "client".into(), by_ms: 3_600_000 });
    assert_eq!(
        log_lines(&history(&subject, &plan([(5_000, fault)])), true),
        ["client 10000: 3610 and 10"]
    );
}

#[test]
fn a_puppet_plays_a_server() {
    let mut plan = plan([]);
    let send = |text: &str, times| PuppetStep::Send { text: text.into(), times, every: secs(1) };
    let script = vec![
        PuppetStep::Expect { text: "hello".into() },
        send("lie {n} on {conn}", 2),
        PuppetStep::Wait { lasts: secs(1) },
        PuppetStep::Reset,
    ];
    plan.puppets
        .insert("server".into(), Puppet { connections: Some(1), script, ..Puppet::default() });
    let subject = bare(echo, |host| async move {
        let mut stream = connect(&host).await;
        stream.write_all(b"hello").await.unwrap();
        for _ in 0..3 {
            let received = receive(&mut stream).await;
            log(&host, received);
        }
    });
    assert_eq!(
        log_lines(&history(&subject, &plan), false),
        ["client: lie 1 on 1", "client: lie 2 on 1", "client: ConnectionReset"]
    );
}

#[test]
fn a_puppet_plays_a_client() {
    let mut plan = plan([]);
    let script = vec![
        PuppetStep::Send { text: "one".into(), times: 1, every: Duration::ZERO },
        PuppetStep::Expect { text: "one".into() },
        PuppetStep::Close,
    ];
    plan.puppets
        .insert("client".into(), Puppet { connections: Some(2), script, ..Puppet::default() });
    assert_eq!(
        log_lines(&history(&bare(echo, come_again), &plan), false),
        ["server: 1 eof", "server: 2 eof"]
    );
}

#[test]
fn a_puppet_sends_websocket_messages_and_plays_another_script_on_the_second_connection() {
    let mut plan = plan([]);
    let send = |text: &str| PuppetStep::Send { text: text.into(), times: 1, every: Duration::ZERO };
    let script = vec![send("one"), PuppetStep::Expect { text: "eno".into() }, PuppetStep::Close];
    let again = Some(vec![send("two on {conn}"), PuppetStep::Drain]);
    plan.puppets.insert(
        "server".into(),
        Puppet { connections: Some(2), speaks: Speaks::WebSocket, script, again },
    );
    let subject = bare(echo, |host| async move {
        for answer in ["eno", "owt"] {
            let (mut socket, _) = client_async("ws://server/", connect(&host).await).await.unwrap();
            let received = socket.next().await.unwrap().unwrap();
            log(&host, received.into_text().unwrap().to_string());
            socket.send(Message::text(answer)).await.unwrap();
        }
    });
    assert_eq!(log_lines(&history(&subject, &plan), false), ["client: one", "client: two on 2"]);
}

#[test]
fn a_panic_is_an_entry_and_a_spin_is_a_livelock() {
    let panics =
        bare(|_| async { panic!("of the subject") }, |_| async { std::future::pending().await });
    let history = history(&panics, &plan([]));
    let of_the_subject = |message: &str| message.starts_with("of the subject (");
    assert!(history.events.iter().any(
        |event| matches!(&event.what, EventKind::Panicked { message } if of_the_subject(message))
    ));

    let spins = bare(
        |_| async {
            loop {
                tokio::task::yield_now().await;
            }
        },
        |_| async { std::future::pending().await },
    );
    let history = super::history(&spins, &plan([]));
    assert!(history.events.iter().any(
        |event| matches!(&event.what, EventKind::Livelock { what } if what == "300000 polls")
    ));
}

#[test]
fn a_host_can_restart_at_once_and_bind_its_port_again() {
    let crash = crash("server", Some(Duration::ZERO));
    let history = history(&bare(echo, come_again), &plan([(5_500, crash)]));
    let log_lines = log_lines(&history, false);
    assert_eq!(log_lines[..3], ["client: up", "client: eof", "client: up"], "{log_lines:?}");
    assert!(!history.events.iter().any(|event| matches!(
        event.what,
        EventKind::Outlived { .. } | EventKind::Panicked { .. }
    )));
}

#[test]
fn only_data_that_left_a_host_before_its_power_loss_arrives() {
    let subject = bare(
        |host| async move {
            let mut listener = host.env.net.listen(&server()).await.unwrap();
            let mut stream = listener.accept().await.unwrap();
            loop {
                stream.write_all(b"x").await.unwrap();
                sleep(Duration::from_millis(10)).await;
            }
        },
        |host| async move {
            let mut stream = connect(&host).await;
            let mut received = String::from("x");
            while received == "x" {
                received = receive(&mut stream).await;
                log(&host, received.clone());
            }
            std::future::pending::<()>().await;
        },
    );
    let mut plan = plan([(
        1_000,
        Fault::PowerLoss(faults::PowerLoss {
            host: "server".into(),
            unsynced: Unsynced::Kept,
            lasts: Some(secs(5)),
        }),
    )]);
    plan.latency = (Duration::from_millis(50), Duration::from_millis(50));
    let log_lines = log_lines(&history(&subject, &plan), true);
    let (last, received) = log_lines.split_last().unwrap();
    assert!(last.ends_with("ConnectionReset") && when(last) > 6_000, "{log_lines:?}");
    assert!(received.iter().all(|line| when(line) <= 1_050), "{log_lines:?}");
}

#[test]
fn a_power_loss_can_lose_unsynced_data() {
    let path = std::path::Path::new("/record");
    let counts = move |host: HostContext| async move {
        let files = &host.env.files;
        let text = match files.open(path, Open::Read).await {
            Ok(file) => String::from_utf8_lossy(&file.read_at(0, 100).await.unwrap()).into_owned(),
            Err(error) => format!("{:?}", error.kind()),
        };
        log(&host, text);
        let file = files.open(path, Open::Write).await.unwrap();
        file.write_at(0, b"synced".to_vec()).await.unwrap();
        file.sync().await.unwrap();
        files.sync_directory(std::path::Path::new("/")).await.unwrap();
        file.write_at(0, b"unsync".to_vec()).await.unwrap();
        std::future::pending().await
    };
    let absent = |_: HostContext| std::future::pending();
    let mut seen = std::collections::BTreeSet::new();
    for unsynced in [Unsynced::Kept, Unsynced::Lost] {
        for seed in 1..=20 {
            let loss = Fault::PowerLoss(faults::PowerLoss {
                host: "server".into(),
                unsynced,
                lasts: Some(secs(1)),
            });
            let plan = Plan { seed, horizon: secs(10), ..plan([(3_000, loss)]) };
            let lines = log_lines(&history(&bare(counts, absent), &plan), false);
            assert_eq!(lines[0], "server: NotFound");
            seen.insert((unsynced == Unsynced::Lost, lines[1].clone()));
        }
    }
    let seen: Vec<_> = seen.iter().map(|(lost, line)| (*lost, line.as_str())).collect();
    assert_eq!(seen[0], (false, "server: unsync"));
    assert!(seen[1..].iter().all(|(lost, _)| *lost), "without `lost`, nothing is lost: {seen:?}");
    assert!(seen.contains(&(true, "server: synced")) && seen.contains(&(true, "server: unsync")));
    assert!(seen.len() > 4, "some are torn: {seen:?}");
}

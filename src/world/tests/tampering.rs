//! Tests the fault `tamper`: which messages change, and what else stays as it is.

use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::time::sleep;

use super::*;
use crate::history::EventKind;
use crate::schedule::{Conn, Fault, LinkPlace, Plan, Tampering, faults};
use crate::subject::HostContext;
use crate::world::{Engine, Options, run};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Accepts a connection, and sends these pieces, one each second. Closes the connection then.
async fn send(host: HostContext, pieces: &[&str]) {
    let mut listener = host.env.net.listen(&server()).await.unwrap();
    let mut stream = listener.accept().await.unwrap();
    for piece in pieces {
        sleep(ms(1_000)).await;
        stream.write_all(piece.as_bytes()).await.unwrap();
    }
    drop(stream);
    std::future::pending().await
}

/// Logs what arrives.
async fn read(host: HostContext) {
    let mut stream = connect(&host).await;
    loop {
        let received = receive(&mut stream).await;
        log(&host, received.as_str());
        if received == "eof" || received.ends_with("Reset") {
            return std::future::pending().await;
        }
    }
}

fn tamper(how: Tampering, messages: Option<u64>, lasts: Option<Duration>) -> Fault {
    let place = LinkPlace::Conn(Conn::number("client", 1));
    Fault::Tamper(faults::Tamper { place, toward: "client".into(), how, messages, lasts })
}

/// Returns what the client received, the same on both engines.
fn received(pieces: &'static [&str], faults: &[(u64, Fault)]) -> Vec<String> {
    let subject = bare(move |host| send(host, pieces), read);
    let plan = Plan { horizon: Duration::from_secs(20), ..plan(faults.iter().cloned()) };
    let [event, ticks] = [Engine::Event, Engine::TURMOIL].map(|engine| {
        let options = Options { engine, ..Options::default() };
        log_lines(&run(&subject, &plan, &options).unwrap().history, false)
    });
    assert_eq!(event, ticks);
    event.iter().map(|line| line.strip_prefix("client: ").unwrap().to_owned()).collect()
}

#[test]
fn a_dropped_message_does_not_arrive() {
    let pieces = &["one\n", "two\nthree\nfour\n", "five\n"];
    let drop = tamper(Tampering::Drop, Some(2), None);
    assert_eq!(received(pieces, &[(1_500, drop)]), ["one\n", "four\n", "five\n", "eof"]);
}

#[test]
fn a_repeated_message_arrives_twice() {
    let pieces = &["one\n", "two\n", "three\n"];
    let repeat = tamper(Tampering::Repeat, Some(1), None);
    assert_eq!(received(pieces, &[(1_500, repeat)]), ["one\n", "two\ntwo\n", "three\n", "eof"]);
}

#[test]
fn the_fault_ends_with_its_time_and_applies_to_its_direction() {
    let pieces = &["one\n", "two\n", "three\n"];
    let drop = tamper(Tampering::Drop, None, Some(ms(1_000)));
    assert_eq!(received(pieces, &[(1_500, drop)]), ["one\n", "three\n", "eof"]);
    let Fault::Tamper(drop) = tamper(Tampering::Drop, None, None) else { unreachable!() };
    let other = Fault::Tamper(faults::Tamper { toward: "server".into(), ..drop });
    assert_eq!(received(pieces, &[(500, other)]), ["one\n", "two\n", "three\n", "eof"]);
}

#[test]
fn a_change_that_the_subject_does_not_know_lets_messages_pass() {
    let pieces = &["one\n", "two\n"];
    let refuse = tamper(Tampering::Refuse, None, None);
    assert_eq!(received(pieces, &[(500, refuse)]), ["one\n", "two\n", "eof"]);
}

#[test]
fn a_message_that_began_before_the_fault_passes() {
    let pieces = &["on", "e\ntwo\n"];
    let drop = tamper(Tampering::Drop, None, None);
    assert_eq!(received(pieces, &[(1_500, drop)]), ["on", "e\n", "eof"]);
}

#[test]
fn a_message_that_never_ends_arrives_when_the_connection_closes() {
    let pieces = &["one\n", "two\nthr", "ee"];
    let drop = tamper(Tampering::Drop, None, None);
    assert_eq!(received(pieces, &[(1_500, drop)]), ["one\n", "three", "eof"]);
}

#[test]
fn a_part_of_a_message_arrives_at_the_end_of_the_fault() {
    let pieces = &["one\n", "tw", "o\n"];
    let drop = tamper(Tampering::Drop, None, Some(ms(1_000)));
    let read = received(pieces, &[(1_500, drop)]);
    assert_eq!(read, ["one\n", "tw", "o\n", "eof"]);
}

#[test]
fn no_message_changes_if_the_fault_is_for_none() {
    let drop = tamper(Tampering::Drop, Some(0), None);
    assert_eq!(received(&["one\n"], &[(500, drop)]), ["one\n", "eof"]);
}

#[test]
fn two_faults_change_messages_one_after_the_other() {
    let pieces = &["one\n", "two\n", "three\n"];
    let drop = (500, tamper(Tampering::Drop, Some(1), None));
    let repeat = (600, tamper(Tampering::Repeat, Some(1), None));
    assert_eq!(received(pieces, &[drop, repeat]), ["two\ntwo\n", "three\n", "eof"]);
}

/// A reset discards nothing that had arrived: the user reads it before the error.
#[test]
fn a_part_of_a_message_arrives_before_the_error() {
    let subject = bare(|host| send(host, &["one\ntw", "o\n"]), read);
    let drop = (500, tamper(Tampering::Drop, None, None));
    let learns = std::collections::BTreeMap::new();
    let cut = (1_500, Fault::Cut(faults::Cut { conn: Conn::number("client", 1), learns }));
    let lines = log_lines(&history(&subject, &plan([drop, cut])), false);
    assert_eq!(lines[..2], ["client: tw", "client: ConnectionReset"]);
}

#[test]
fn a_small_buffer_loses_nothing() {
    let subject = bare(
        |host| send(host, &["one\ntwo\n"]),
        |host| async move {
            let mut stream = connect(&host).await;
            let mut byte = [0];
            while let Ok(1) = tokio::io::AsyncReadExt::read(&mut stream, &mut byte).await {
                log(&host, String::from_utf8_lossy(&byte));
            }
            std::future::pending().await
        },
    );
    let repeat = tamper(Tampering::Repeat, Some(1), None);
    let lines = log_lines(&history(&subject, &plan([(500, repeat)])), false);
    let text: String = lines.iter().map(|line| line.strip_prefix("client: ").unwrap()).collect();
    assert_eq!(text, "one\none\ntwo\n");
}

#[test]
fn the_history_names_each_message_that_changed() {
    let subject = bare(|host| send(host, &["one\n", "two\n", "three\n"]), read);
    let drop = tamper(Tampering::Drop, Some(2), None);
    let history = history(&subject, &plan([(500, drop)]));
    let faults = history.events.iter().filter_map(|event| match &event.what {
        EventKind::Tampered { label, .. } => Some(label.as_str()),
        EventKind::FaultEnded { .. } => Some("over"),
        _ => None,
    });
    assert_eq!(faults.collect::<Vec<_>>(), ["one", "two", "over"]);
}
